// SPDX-License-Identifier: GPL-2.0-only
/* The names of the tables' keys. */
#include "label.h"
#include "options.h"
#include "who.h"

static const char *const file_ops[FILE_OPS] = { "read", "write", "fsync" };
static const char *const layers[LAYERS] = { "file-system", "system-call" };

struct label label_of(const struct iolat_row *key)
{
	struct label label = { .class = name_of(classes, key->what >> WHAT_CLASS & 7),
			       .op = name_of(operations, key->what >> WHAT_OP & 0xff),
			       .level = key->what >> WHAT_LEVEL & 7,
			       .scheduler = scheduler_name(key->what >> WHAT_SCHEDULER) };

	disk_name(label.disk, sizeof(label.disk), key->what);
	who_name(label.who, sizeof(label.who), key->who);
	return label;
}

bool label_file(int n, struct file_label *label)
{
	const struct iolat_fs *fs = &bpf->bss->file_systems[n / (FILE_OPS * LAYERS)];

	if (!files[n] || !files[n]->count)
		return false;
	disk_name(label->disk, sizeof(label->disk), fs->dev);
	label->fs = fs->type;
	label->op = file_ops[n / LAYERS % FILE_OPS];
	label->layer = layers[n % LAYERS];
	return true;
}

struct pair_label label_pair(const struct iolat_pair *key)
{
	struct pair_label label = { .scheduler = scheduler_name(key->scheduler),
				    .issued_class = name_of(classes, key->issued_class),
				    .issued_op = name_of(operations, key->issued_op),
				    .waiting_class = name_of(classes, key->waiting_class),
				    .waiting_op = name_of(operations, key->waiting_op) };

	disk_name(label.disk, sizeof(label.disk), key->dev);
	return label;
}

const struct pair *next_pair(unsigned int *n, struct pair_label *label)
{
	while (*n < pair_count) {
		const struct pair *pair = &pairs[(*n)++];

		if (pair->now.count == pair->before)
			continue;
		*label = label_pair(&pair->key);
		return pair;
	}
	return NULL;
}

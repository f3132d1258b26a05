// SPDX-License-Identifier: GPL-2.0-only
/* OpenMetrics. Its counters only grow, so that any number of readers can take differences. */
#include <string.h>
#include "label.h"
#include "options.h"
#include "print.h"
#include "tables.h"

/* Buckets of a histogram: powers of two from 2^10 ns (1 us) to 2^34 ns (17 s). */
#define FIRST_BUCKET 10

static void metric_histogram(FILE *out, const char *name, const char *labels,
			     const struct total *total)
{
	unsigned long long below = 0;
	int slot = 0, log;

	for (log = FIRST_BUCKET; log < TOP_BITS; log++) {
		for (; slot < SLOTS && slot_end(slot) < 1ULL << log; slot++)
			below += total->slots[slot];
		fprintf(out, "%s_bucket{%s,le=\"%.9g\"} %llu\n", name, labels,
			(double)(1ULL << log) / NSEC, below);
	}
	fprintf(out, "%s_bucket{%s,le=\"+Inf\"} %llu\n", name, labels, total->count);
	fprintf(out, "%s_sum{%s} %.9f\n%s_count{%s} %llu\n", name, labels, total->sum / 1e9, name,
		labels, total->count);
}

static void row_labels(char *text, size_t size, const struct row *row)
{
	struct label label = label_of(&row->key);

	snprintf(text, size, "device=\"%s\",scheduler=\"%s\",op=\"%s\",ioclass=\"%s\",level=\"%u\"",
		 label.disk, label.scheduler, label.op, label.class, label.level);
	if (options.by)
		snprintf(text + strlen(text), size - strlen(text), ",%s=\"%s\"",
			 name_of(groupings, options.by), label.who);
}

static void metric_stages(FILE *out, struct row **sorted, size_t count)
{
	char labels[PATH_MAX + 256];
	size_t n, end;
	int s;

	fprintf(out, "# TYPE iolat_stage_seconds histogram\n# UNIT iolat_stage_seconds seconds\n"
		     "# HELP iolat_stage_seconds Time of block I/O in each stage.\n");
	for (n = 0; n < count; n++) {
		row_labels(labels, sizeof(labels), sorted[n]);
		end = strlen(labels);
		for (s = 0; s < STAGES; s++) {
			snprintf(labels + end, sizeof(labels) - end, ",stage=\"%s\"",
				 stage_names[s]);
			metric_histogram(out, "iolat_stage_seconds", labels, &sorted[n]->stages[s]);
		}
	}
}

static void metric_files(FILE *out)
{
	struct file_label label;
	char labels[256];
	int n;

	fprintf(out,
		"# TYPE iolat_file_seconds histogram\n# UNIT iolat_file_seconds seconds\n"
		"# HELP iolat_file_seconds Time of file I/O, in the file system and in the whole "
		"system call.\n");
	for (n = 0; n < FILE_ROWS; n++) {
		if (!label_file(n, &label))
			continue;
		snprintf(labels, sizeof(labels),
			 "filesystem=\"%s\",device=\"%s\",op=\"%s\",layer=\"%s\"", label.fs,
			 label.disk, label.op, label.layer);
		metric_histogram(out, "iolat_file_seconds", labels, files[n]);
	}
}

/* Print a counter of every row, at `offset` in the row. */
static void metric_counter(FILE *out, struct row **sorted, size_t count, const char *name,
			   const char *help, size_t offset)
{
	char labels[PATH_MAX + 256];
	size_t n;

	fprintf(out, "# TYPE iolat_%s counter\n# HELP iolat_%s %s\n", name, name, help);
	for (n = 0; n < count; n++) {
		row_labels(labels, sizeof(labels), sorted[n]);
		fprintf(out, "iolat_%s_total{%s} %llu\n", name, labels,
			*(const unsigned long long *)((const char *)sorted[n] + offset));
	}
}

static void metric_order(FILE *out)
{
	char name[DISK_NAME];
	unsigned int n;
	int rank;

	fprintf(out,
		"# TYPE iolat_oldest_seconds gauge\n# UNIT iolat_oldest_seconds seconds\n"
		"# HELP iolat_oldest_seconds Longest that an I/O of a class was seen waiting in the "
		"last minute or two.\n");
	for (n = 0; options.order && n < DISKS; n++) {
		disk_name(name, sizeof(name), bpf->bss->disks[n].dev);
		for (rank = 0; bpf->bss->disks[n].dev && rank < RANKS; rank++)
			fprintf(out, "iolat_oldest_seconds{device=\"%s\",ioclass=\"%s\"} %.9f\n",
				name, rank_names[rank], longest_wait(n, rank) / 1e9);
	}
	fprintf(out,
		"# TYPE iolat_inversions counter\n"
		"# HELP iolat_inversions I/Os dispatched before an older one of a higher class.\n");
	for (n = 0; n < pair_count; n++) {
		const struct iolat_pair *key = &pairs[n].key;
		struct pair_label label = label_pair(key);

		fprintf(out,
			"iolat_inversions_total{device=\"%s\",scheduler=\"%s\",issued_ioclass=\"%"
			"s\",issued_level=\"%u\","
			"issued_op=\"%s\",waiting_ioclass=\"%s\",waiting_level=\"%u\",waiting_op=\"%"
			"s\"} %llu\n",
			label.disk, label.scheduler, label.issued_class, key->issued_level,
			label.issued_op, label.waiting_class, key->waiting_level, label.waiting_op,
			pairs[n].now.count);
	}
}

void print_openmetrics(FILE *out)
{
	struct row *sorted[MAX_ROWS];
	size_t count = sorted_rows(sorted), n;

	metric_stages(out, sorted, count);
	metric_counter(out, sorted, count, "bytes", "Bytes read or written.",
		       offsetof(struct row, bytes));
	metric_counter(out, sorted, count, "bios", "Bios; several may share a request.",
		       offsetof(struct row, bios));
	metric_counter(out, sorted, count, "requeues", "Requests given back by the driver.",
		       offsetof(struct row, requeues));
	metric_counter(out, sorted, count, "bypasses", "I/Os that overtook an older one.",
		       offsetof(struct row, bypasses));
	metric_files(out);
	metric_order(out);
	fprintf(out,
		"# TYPE iolat_scheduler_changes counter\n# HELP iolat_scheduler_changes Changes of "
		"a disk's scheduler.\n"
		"iolat_scheduler_changes_total %u\n",
		bpf->bss->change_count);
	fprintf(out,
		"# TYPE iolat_followed counter\n# HELP iolat_followed I/Os followed; an I/O "
		"that stands for others is one.\n"
		"iolat_followed_total %llu\n",
		counted(FOLLOWED));
	fprintf(out,
		"# TYPE iolat_ended counter\n# HELP iolat_ended What became of I/Os followed.\n");
	for (n = FINISHED; n < LOST_IOS; n++)
		fprintf(out, "iolat_ended_total{how=\"%s\"} %llu\n", counter_names[n], counted(n));
	fprintf(out, "# TYPE iolat_lost counter\n# HELP iolat_lost What could not be measured.\n");
	for (n = LOST_IOS; n < COUNTERS; n++)
		fprintf(out, "iolat_lost_total{what=\"%s\"} %llu\n",
			counter_names[n] + strlen("lost_"), counted(n));
	fprintf(out, "iolat_lost_total{what=\"events\"} %llu\n# EOF\n", missed());
}

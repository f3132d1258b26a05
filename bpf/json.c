// SPDX-License-Identifier: GPL-2.0-only
/* JSON: a line for each round. */
#include "label.h"
#include "options.h"
#include "print.h"
#include "tables.h"
#include "who.h"

#define SCHEMA 1

static void json_figures(FILE *out, const struct total *total)
{
	const char *comma = "";
	size_t n;

	fprintf(out, "\"count\":%llu,\"sum\":%llu,\"mean\":%.1f,\"max\":%llu", total->count,
		total->sum, mean(total), total->max);
	for (n = 0; n < QUANTILES; n++)
		fprintf(out, ",\"%s\":%.0f", quantiles[n].name,
			quantile(total, quantiles[n].share));
	fprintf(out, ",\"histogram\":[");
	for (n = 0; n < SLOTS; n++) {
		if (!total->slots[n])
			continue;
		fprintf(out, "%s[%.0f,%llu]", comma, slot_value(n), total->slots[n]);
		comma = ",";
	}
	fprintf(out, "]");
}

static void json_row(FILE *out, const struct row *row)
{
	struct label label = label_of(&row->key);
	int s;

	fprintf(out,
		"{\"device\":\"%s\",\"scheduler\":\"%s\",\"op\":\"%s\",\"ioclass\":\"%s\",\"level\":"
		"%u,",
		label.disk, label.scheduler, label.op, label.class, label.level);
	if (options.by)
		fprintf(out, "\"%s\":\"%s\",", name_of(groupings, options.by), label.who);
	fprintf(out,
		"\"ios\":%llu,\"bytes\":%llu,\"bios\":%llu,\"requeues\":%llu,\"bypasses\":%llu,"
		"\"bypassed_max\":%llu,"
		"\"stages\":{",
		row->ios, row->bytes, row->bios, row->requeues, row->bypasses, row->bypassed_max);
	for (s = 0; s < STAGES; s++) {
		fprintf(out, "%s\"%s\":{", s ? "," : "", stage_names[s]);
		json_figures(out, &row->stages[s]);
		fprintf(out, "}");
	}
	fprintf(out, "}}");
}

static void json_shares(FILE *out, unsigned int dev)
{
	struct share shares[MAX_ROWS];
	size_t count = shares_of(dev, shares), n;
	double total, index = jain(shares, count, &total);
	char who[PATH_MAX];

	fprintf(out, "\"jain\":%.6f,\"shares\":[", index);
	for (n = 0; n < count; n++) {
		fprintf(out, "%s{\"ioclass\":\"%s\",\"level\":%llu,", n ? "," : "",
			name_of(classes, shares[n].key.what >> WHAT_CLASS & 7),
			shares[n].key.what >> WHAT_LEVEL & 7);
		who_name(who, sizeof(who), shares[n].key.who);
		if (options.by)
			fprintf(out, "\"%s\":\"%s\",", name_of(groupings, options.by), who);
		fprintf(out, "\"bytes\":%llu,\"share\":%.6f}", shares[n].bytes,
			shares[n].bytes / total);
	}
	fprintf(out, "]");
}

static void json_changes(FILE *out, unsigned int dev)
{
	const char *comma = "";
	unsigned int n;

	fprintf(out, "\"switches\":[");
	for (n = first_change(); n != bpf->bss->change_count; n++) {
		const struct iolat_change *change = &bpf->bss->changes[n % CHANGES];

		if (change->dev != dev)
			continue;
		fprintf(out, "%s{\"seconds\":%.6f,\"from\":\"%s\",\"to\":\"%s\"}", comma,
			(double)(change->time - started) / NSEC, scheduler_name(change->from),
			scheduler_name(change->to));
		comma = ",";
	}
	fprintf(out, "]");
}

static void json_disks(FILE *out)
{
	const char *comma = "";
	char name[DISK_NAME];
	int n, rank;

	for (n = 0; n < DISKS; n++) {
		const struct iolat_disk *disk = &bpf->bss->disks[n];

		if (!disk->dev)
			continue;
		disk_name(name, sizeof(name), disk->dev);
		fprintf(out, "%s{\"device\":\"%s\",\"scheduler\":\"%s\",\"oldest\":{", comma, name,
			scheduler_name(disk->elevator));
		for (rank = 0; options.order && rank < RANKS; rank++)
			fprintf(out, "%s\"%s\":%llu", rank ? "," : "", rank_names[rank],
				longest_wait(n, rank));
		fprintf(out, "},");
		json_shares(out, disk->dev);
		fprintf(out, ",");
		json_changes(out, disk->dev);
		fprintf(out, "}");
		comma = ",";
	}
}

static void json_pairs(FILE *out)
{
	const char *comma = "";
	const struct pair *pair;
	struct pair_label label;
	unsigned int n = 0;

	while ((pair = next_pair(&n, &label))) {
		fprintf(out,
			"%s{\"device\":\"%s\",\"scheduler\":\"%s\",\"count\":%llu,\"longest\":%llu,"
			"\"issued\":{\"ioclass\":\"%s\",\"level\":%u,\"op\":\"%s\",\"pid\":%u},"
			"\"waiting\":{\"ioclass\":\"%s\",\"level\":%u,\"op\":\"%s\",\"pid\":%u}}",
			comma, label.disk, label.scheduler, pair->now.count - pair->before,
			pair->now.waited, label.issued_class, pair->key.issued_level,
			label.issued_op, pair->now.issued_pid, label.waiting_class,
			pair->key.waiting_level, label.waiting_op, pair->now.waiting_pid);
		comma = ",";
	}
}

static void json_files(FILE *out)
{
	const char *comma = "";
	struct file_label label;
	int n;

	for (n = 0; n < FILE_ROWS; n++) {
		if (!label_file(n, &label))
			continue;
		fprintf(out,
			"%s{\"filesystem\":\"%s\",\"device\":\"%s\",\"op\":\"%s\",\"layer\":\"%s\",",
			comma, label.fs, label.disk, label.op, label.layer);
		json_figures(out, files[n]);
		fprintf(out, "}");
		comma = ",";
	}
}

void print_json(FILE *out)
{
	struct row *sorted[MAX_ROWS];
	size_t count = sorted_rows(sorted), n;

	fprintf(out,
		"{\"schema\":%d,\"unit\":\"ns\",\"relative_error\":%g,\"seconds\":%.6f,\"counters\":"
		"{",
		SCHEMA, 0.5 / SUB, (now_ns() - round_began) / 1e9);
	for (n = 0; n < LOST_IOS; n++)
		fprintf(out, "%s\"%s\":%llu", n ? "," : "", counter_names[n], counted(n));
	fprintf(out, "},\"lost\":{");
	for (n = LOST_IOS; n < COUNTERS; n++)
		fprintf(out, "\"%s\":%llu,", counter_names[n], counted(n));
	fprintf(out, "\"lost_events\":%llu},\"devices\":[", missed());
	json_disks(out);
	fprintf(out, "],\"inversions\":[");
	json_pairs(out);
	fprintf(out, "],\"files\":[");
	json_files(out);
	fprintf(out, "],\"rows\":[");
	for (n = 0; n < count; n++) {
		fprintf(out, "%s", n ? "," : "");
		json_row(out, sorted[n]);
	}
	fprintf(out, "]}\n");
}

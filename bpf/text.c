// SPDX-License-Identifier: GPL-2.0-only
/* Text for people: columns, bars and sentences. */
#include <math.h>
#include <string.h>
#include "label.h"
#include "options.h"
#include "print.h"
#include "tables.h"
#include "who.h"

#define BAR "****************************************"

static void text_bars(FILE *out, const struct total *total)
{
	unsigned long long octaves[64] = { 0 }, most = 1;
	int first = 63, last = 0, n, log;

	for (n = 0; n < SLOTS; n++) {
		if (!total->slots[n])
			continue;
		log = ilogb(slot_end(n));
		octaves[log] += total->slots[n];
		most = octaves[log] > most ? octaves[log] : most;
		first = log < first ? log : first;
		last = log > last ? log : last;
	}
	for (n = first; n <= last; n++)
		fprintf(out, "  %12.3f -> %-12.3f : %-8llu |%.*s\n", (1ULL << n) / 1e3,
			((2ULL << n) - 1) / 1e3, octaves[n], (int)(octaves[n] * strlen(BAR) / most),
			BAR);
}

static void text_figures(FILE *out, const char *stage, const struct total *total)
{
	size_t q;

	fprintf(out, " %-5s %9llu", stage, total->count);
	for (q = 0; q < QUANTILES; q++)
		fprintf(out, " %11.3f", quantile(total, quantiles[q].share) / 1e3);
	fprintf(out, " %11.3f\n", total->max / 1e3);
}

static void text_row(FILE *out, const struct row *row)
{
	struct label label = label_of(&row->key);
	int s;

	for (s = 0; s < STAGES; s++) {
		fprintf(out, "%-12s %-12s %-7s %4s/%u", label.disk, label.scheduler, label.op,
			label.class, label.level);
		text_figures(out, stage_names[s], &row->stages[s]);
	}
	fprintf(out, "  %s%s%llu I/Os", label.who, *label.who ? ": " : "", row->ios);
	if (row->bytes)
		fprintf(out, " of %.2f bios, %.1f KiB each", (double)row->bios / row->ios,
			row->bytes / 1024.0 / row->ios);
	if (row->requeues)
		fprintf(out, ", %llu requeued", row->requeues);
	if (options.order)
		fprintf(out, ", %llu overtook an older one, one was overtaken %llu times",
			row->bypasses, row->bypassed_max);
	fprintf(out, "\n");
	if (options.histograms)
		text_bars(out, &row->stages[Q2C]);
}

static void text_files(FILE *out)
{
	struct file_label label;
	int n;

	for (n = 0; n < FILE_ROWS; n++) {
		if (!label_file(n, &label))
			continue;
		fprintf(out, "%-12s %-12s %-7s %-6s", label.disk, label.fs, label.op, "");
		text_figures(out, n % LAYERS == LAYER_CALL ? "call" : "fs", files[n]);
	}
}

static void text_disk(FILE *out, int disk)
{
	struct share shares[MAX_ROWS];
	unsigned int dev = bpf->bss->disks[disk].dev;
	size_t count = dev ? shares_of(dev, shares) : 0, n;
	double total, index = jain(shares, count, &total);
	char name[DISK_NAME], who[PATH_MAX];
	int rank;

	if (!dev)
		return;
	disk_name(name, sizeof(name), dev);
	if (count) {
		fprintf(out, "%s: shares", name);
		for (n = 0; n < count; n++) {
			who_name(who, sizeof(who), shares[n].key.who);
			fprintf(out, " %s/%llu%s%s %.1f %%",
				name_of(classes, shares[n].key.what >> WHAT_CLASS & 7),
				shares[n].key.what >> WHAT_LEVEL & 7, *who ? " " : "", who,
				shares[n].bytes * 100 / total);
		}
		fprintf(out, ", Jain index %.3f\n", index);
	}
	for (rank = 0; options.order && rank < RANKS; rank++)
		if (longest_wait(disk, rank))
			fprintf(out, "%s: seen waiting in class %s for %.3f ms at most\n", name,
				rank_names[rank], longest_wait(disk, rank) / 1e6);
}

static void text_pairs(FILE *out)
{
	const struct pair *pair;
	struct pair_label label;
	unsigned int n = 0;

	while ((pair = next_pair(&n, &label)))
		fprintf(out,
			"%s: %s: INVERSION: %llu times a %s of %s/%u went before an older %s of "
			"%s/%u; the longest had "
			"waited for %.3f ms (pid %u before pid %u)\n",
			label.disk, label.scheduler, pair->now.count - pair->before,
			label.issued_op, label.issued_class, pair->key.issued_level,
			label.waiting_op, label.waiting_class, pair->key.waiting_level,
			pair->now.waited / 1e6, pair->now.issued_pid, pair->now.waiting_pid);
}

static void text_changes(FILE *out)
{
	unsigned int n;
	char name[DISK_NAME];

	for (n = first_change(); n != bpf->bss->change_count; n++) {
		const struct iolat_change *change = &bpf->bss->changes[n % CHANGES];

		disk_name(name, sizeof(name), change->dev);
		fprintf(out, "%s: --- %.3f s after the start: scheduler %s -> %s ---\n", name,
			(double)(change->time - started) / NSEC, scheduler_name(change->from),
			scheduler_name(change->to));
	}
}

void print_text(FILE *out)
{
	unsigned long long lost = missed();
	struct row *sorted[MAX_ROWS];
	size_t count = sorted_rows(sorted), n;

	if (options.interval)
		fprintf(out, "%.3f s\n", (now_ns() - started) / 1e9);
	text_changes(out);
	fprintf(out, "%-12s %-12s %-7s %-6s %-5s %9s %11s %11s %11s %11s %11s us\n", "DISK",
		"SCHEDULER", "OP", "PRIO", "STAGE", "COUNT", "P50", "P95", "P99", "P99.9", "MAX");
	for (n = 0; n < count; n++)
		text_row(out, sorted[n]);
	text_files(out);
	for (n = 0; n < DISKS; n++)
		text_disk(out, n);
	text_pairs(out);
	fprintf(out, "percentiles to %.1f %%; since the start %llu I/Os followed, ", 50.0 / SUB,
		counted(FOLLOWED));
	for (n = LOST_IOS; n < COUNTERS; n++)
		lost += counted(n);
	if (lost)
		fprintf(out,
			"LOST: %llu I/Os, %llu without a free row, %llu in the tables of order, %llu in those of files, "
			"%llu events\n\n",
			counted(LOST_IOS), counted(LOST_ROWS), counted(LOST_ORDER),
			counted(LOST_FILES), missed());
	else
		fprintf(out, "nothing lost\n\n");
}

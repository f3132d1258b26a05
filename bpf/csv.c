// SPDX-License-Identifier: GPL-2.0-only
/* CSV: a line for each stage. */
#include "label.h"
#include "print.h"
#include "tables.h"

static void csv_figures(FILE *out, const char *stage, const struct total *total)
{
	size_t q;

	fprintf(out, "%s,%llu,%llu,%.1f", stage, total->count, total->sum, mean(total));
	for (q = 0; q < QUANTILES; q++)
		fprintf(out, ",%.0f", quantile(total, quantiles[q].share));
	fprintf(out, ",%llu\n", total->max);
}

static void csv_files(FILE *out, double seconds)
{
	struct file_label label;
	int n;

	for (n = 0; n < FILE_ROWS; n++) {
		if (!label_file(n, &label))
			continue;
		fprintf(out, "%.6f,%s,%s,%s,,,,", seconds, label.disk, label.fs, label.op);
		csv_figures(out, label.layer, files[n]);
	}
}

/* The losses are lines as well, with their number in the count column. */
void print_csv(FILE *out)
{
	static bool headed;
	double seconds = (now_ns() - started) / 1e9;
	struct row *sorted[MAX_ROWS];
	size_t count = sorted_rows(sorted), n;
	int s;

	if (!headed)
		fprintf(out,
			"seconds,device,scheduler,op,ioclass,level,who,stage,count,sum_ns,mean_ns,"
			"p50_ns,p95_ns,p99_ns,"
			"p99.9_ns,max_ns\n");
	headed = true;
	for (n = 0; n < count; n++) {
		struct label label = label_of(&sorted[n]->key);

		for (s = 0; s < STAGES; s++) {
			fprintf(out, "%.6f,%s,%s,%s,%s,%u,%s,", seconds, label.disk,
				label.scheduler, label.op, label.class, label.level, label.who);
			csv_figures(out, stage_names[s], &sorted[n]->stages[s]);
		}
	}
	csv_files(out, seconds);
	for (n = LOST_IOS; n < COUNTERS; n++)
		fprintf(out, "%.6f,,,,,,,%s,%llu,,,,,,,\n", seconds, counter_names[n], counted(n));
	fprintf(out, "%.6f,,,,,,,lost_events,%llu,,,,,,,\n", seconds, missed());
}

/* SPDX-License-Identifier: GPL-2.0-only */
/* The tables of the kernel half: loading, reading and summing. */
#ifndef TABLES_H
#define TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <bpf/libbpf.h>
#include "iolat.h"
#include "iolat.skel.h"

#define NSEC 1000000000ULL
/* The longest time between readings in seconds: a slot holds 2^32 I/Os. */
#define READING 60
/* Rows of keys that exist and of keys that have ended: as many of either as the kernel has rows. */
#define MAX_ROWS (2 * ROWS)
#define MAX_PAIRS 1024
#define FILE_ROWS (FILE_SYSTEMS * FILE_OPS * LAYERS)

/* A histogram's counts since it was last printed. */
struct total {
	unsigned long long count, sum, max;
	unsigned long long slots[SLOTS];
};

struct row {
	struct iolat_row key;
	unsigned long long ios, bytes, bios, requeues, bypasses, bypassed_max;
	struct total stages[STAGES];
};

struct pair {
	struct iolat_pair key;
	struct iolat_inversion now;
	unsigned long long before;
};

struct quantile {
	const char *name;
	double share;
};

#define QUANTILES 4

extern struct iolat_bpf *bpf;
extern struct row *rows[MAX_ROWS];
extern unsigned int row_count;
extern struct total *files[FILE_ROWS];
extern struct pair pairs[MAX_PAIRS];
extern unsigned int pair_count;
extern const char *const stage_names[STAGES];
extern const char *const counter_names[COUNTERS];
extern const char *const rank_names[RANKS];
extern const struct quantile quantiles[QUANTILES];
/* When iolat began to watch. */
extern unsigned long long started;
/* When the round began. */
extern unsigned long long round_began;
/* Whether an alarm went off. */
extern bool starved;

unsigned long long now_ns(void);

/* Load the programs and begin to watch. */
void load(void);

void read_tables(void);

/*
 * When few of the kernel's rows are left: add those of ended cgroups, processes and threads to the
 * row for all others, and free them.
 */
void reclaim_rows(void);

/* Look how long the oldest I/O of each class and disk has waited, and raise the alarm. */
void look_for_oldest(void);

/*
 * The longest wait of a class that was seen, in ns: in this round, or for metrics in the last
 * minute or two.
 */
unsigned long long longest_wait(int disk, int rank);

/* Restart the counts, except those of metrics, which only grow. */
void begin_counts(void);

void disk_name(char *name, size_t size, unsigned int dev);

/* The name of a scheduler, by a place modulo SCHEDULERS. */
const char *scheduler_name(unsigned long long place);

/* The first change of scheduler to show: the kernel half keeps only the last ones. */
unsigned int first_change(void);

unsigned long long slot_end(int slot);
double slot_value(int slot);
double quantile(const struct total *total, double share);
double mean(const struct total *total);

/* What became of the I/Os that were to be followed. */
unsigned long long counted(enum counter what);

/*
 * Runs of a program that the kernel skipped, because the program was already running on that CPU.
 */
unsigned long long missed(void);

/*
 * The rows that are not empty, by disk, scheduler, operation, priority, and cgroup, process or
 * thread.
 */
size_t sorted_rows(struct row **sorted);

/*
 * The shares of a disk's bytes, over all operations, by class, level, and cgroup, process or
 * thread.
 */
struct share {
	struct iolat_row key;
	unsigned long long bytes;
};

size_t shares_of(unsigned int dev, struct share *shares);

/* Jain's index: 1 if all have the same, 1/count if one has everything. */
double jain(const struct share *shares, size_t count, double *total);

#endif

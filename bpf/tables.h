/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel half's tables: loaded, read, and what they say. */
#ifndef TABLES_H
#define TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <bpf/libbpf.h>
#include "iolat.h"
#include "iolat.skel.h"

#define NSEC 1000000000ULL
/* Seconds between readings at most: a slot holds 2^32 I/Os. */
#define READING 60
/* The rows of what is there, and of what is gone: both of the kinds that the kernel's rows had. */
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
/* When it began to watch. */
extern unsigned long long started;
/* When the round began. */
extern unsigned long long round_began;
/* Whether an alarm went off. */
extern bool starved;

unsigned long long now_ns(void);

/* Load the programs and begin to watch. */
void load(void);

void read_tables(void);

/* Where the kernel's rows get few: add those of ended cgroups, processes and threads to the others', and give them back. */
void reclaim_rows(void);

/* See how long the oldest of each class and disk has waited, and sound the alarm. */
void look_for_oldest(void);

/* The longest that an I/O of a class was seen waiting: in this round, or in metrics in the last minute or two. In ns. */
unsigned long long longest_wait(int disk, int rank);

/* Begin to count anew, but for what metrics have, which only ever grow. */
void begin_counts(void);

void disk_name(char *name, size_t size, unsigned int dev);

/* By a place modulo SCHEDULERS. */
const char *scheduler_name(unsigned long long place);

/* The first change of scheduler to show: the kernel keeps the last ones. */
unsigned int first_change(void);

unsigned long long slot_end(int slot);
double slot_value(int slot);
double quantile(const struct total *total, double share);
double mean(const struct total *total);

/* What became of the I/Os that were to be followed. */
unsigned long long counted(enum counter what);

/* Runs of a program that the kernel left out, because it came while the same one was running on that CPU. */
unsigned long long missed(void);

/* The rows with something in them, by disk, scheduler, operation, priority and who. */
size_t sorted_rows(struct row **sorted);

/* Who had which part of a disk's bytes: the rows' classes, levels and cgroups or processes, of all operations. */
struct share {
	struct iolat_row key;
	unsigned long long bytes;
};

size_t shares_of(unsigned int dev, struct share *shares);

/* Jain's index: 1 if all have the same, 1/count if one has all. */
double jain(const struct share *shares, size_t count, double *total);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What iolat's two halves share: histograms, rows, and the tables of disks, file systems and
 * order.
 */
#ifndef IOLAT_H
#define IOLAT_H

/*
 * A base-2 log-linear histogram: slots of UNIT ns up to SUB of them, then SUB slots for each
 * octave. A value is known to one part in SUB (its slot's middle to half of that) or to UNIT. A
 * value of 2^TOP_BITS ns (34 s) or more goes to the last slot; the maximum is kept exactly.
 */
#define UNIT_BITS 4
#define SUB_BITS 6
#define TOP_BITS 35
#define SUB (1 << SUB_BITS)
#define SLOTS ((TOP_BITS - UNIT_BITS - SUB_BITS + 1) * SUB)

struct histogram {
	unsigned long long sum;
	unsigned long long max;
	unsigned int slots[SLOTS];
};

/*
 * The stages of an I/O between these steps: queued, got its request, inserted, dispatched,
 * completed; and their usual sums.
 */
enum stage { Q2G, G2I, I2D, Q2D, D2C, Q2C, STAGES };

#define ROWS 1024
#define DISKS 32
#define SCHEDULERS 32
#define FILE_SYSTEMS 16
#define NAME_LEN 16
#define DISK_NAME 32
#define CHANGES 64
#define ANY 0xffffffffU

/*
 * A row's `what`. Its flags: the row is in use; the process or cgroup that `--by` names has ended;
 * or, set alone, the row is being made. Its fields: scheduler, operation, level, class and disk.
 */
#define WHAT_USED (1ULL << 63)
#define WHAT_ENDED (1ULL << 62)
#define WHAT_MADE (1ULL << 61)
#define WHAT_SCHEDULER 46
#define WHAT_OP 38
#define WHAT_LEVEL 35
#define WHAT_CLASS 32

/* One row for all that have ended, or came when few rows were left. */
#define WHO_OTHERS (~0ULL)

/* `who` depends on `--by`: 0, or the number of a cgroup, a process or a thread. */
struct iolat_row {
	unsigned long long what;
	unsigned long long who;
};

struct iolat_cell {
	unsigned long long ios;
	unsigned long long bytes;
	unsigned long long bios;
	unsigned long long requeues;
	unsigned long long bypasses;
	unsigned long long bypassed_max;
};

/*
 * A kernel flush without data is a flush here; one with data is a write. All operations without a
 * name are one.
 */
enum {
	IO_READ = 0,
	IO_WRITE = 1,
	IO_FLUSH = 2,
	IO_DISCARD = 3,
	IO_SECURE_ERASE = 5,
	IO_ZEROES = 9,
	IO_OTHER = 255
};
#define IO_NAMED                                                              \
	(1U << IO_READ | 1U << IO_WRITE | 1U << IO_FLUSH | 1U << IO_DISCARD | \
	 1U << IO_SECURE_ERASE | 1U << IO_ZEROES)

enum by { BY_NONE, BY_CGROUP, BY_PROCESS, BY_THREAD };

/* Classes by urgency; I/O without a class is best-effort. */
enum rank { RANK_RT, RANK_BE, RANK_IDLE, RANKS };

/*
 * The waiting I/Os of one rank on one disk, in order of arrival. `line[n % LINE]` holds n and the
 * place of the I/O plus 1, or 0 once it has been dispatched.
 */
#define LINE 4096
#define LINE_BITS 2
#define LINES (DISKS << LINE_BITS)
struct iolat_line {
	unsigned int head;
	unsigned int tail;
	unsigned long long line[LINE];
};

/*
 * Followed I/Os: the number of sets, and in each set the places for the addresses that belong
 * there.
 */
#define WAYS 4
#define SETS 8192
#define IOS (SETS * WAYS)

/* An I/O that is followed; its bio's address is at the same place in `addresses`. */
struct iolat_io {
	unsigned long long q;
	unsigned long long g;
	unsigned long long i;
	unsigned long long d;
	unsigned long long what;
	unsigned long long who;
	unsigned int bytes;
	unsigned int seq;
	unsigned int bypassed;
	unsigned int pid;
	unsigned short weight;
	unsigned short bios;
	unsigned short ioprio;
	unsigned short requeues;
	unsigned char op;
	unsigned char rank;
	unsigned char disk;
	unsigned char bypasses;
	unsigned char known;
	unsigned char listed;
	unsigned char young;
};

/*
 * Which I/Os a CPU follows: how many of the present stretch are still to be skipped, how long
 * stretches get, and how many I/Os were seen since when. The length is reviewed after REVIEW of
 * them.
 */
#define REVIEW 64
#define CPUS 256
struct iolat_pace {
	unsigned long long since;
	unsigned int skip;
	unsigned int stretch;
	unsigned int seen;
	unsigned int coarse;
	unsigned int random;
} __attribute__((aligned(64)));

/* A scheduler's name, and a number made of the whole name, which is written in one step. */
struct iolat_scheduler {
	unsigned long long key;
	union {
		char name[NAME_LEN];
		unsigned long long word[2];
	};
};

/*
 * `elevator` is 0 before the first I/O. Modulo SCHEDULERS it is the scheduler's place; the rest
 * tells its elevator from others.
 */
struct iolat_disk {
	unsigned int dev;
	unsigned long long elevator;
	char name[DISK_NAME];
};

struct iolat_change {
	unsigned long long time;
	unsigned int dev;
	unsigned short from;
	unsigned short to;
};

/* An I/O of a lower class was dispatched while an older one of a higher class was waiting. */
struct iolat_pair {
	unsigned int dev;
	unsigned char scheduler;
	unsigned char issued_class, issued_level, issued_op;
	unsigned char waiting_class, waiting_level, waiting_op;
	unsigned char pad;
};

/*
 * How often it happened, and the longest wait of the older I/O until then, in ns, with the
 * processes that queued the two.
 */
struct iolat_inversion {
	unsigned long long count;
	unsigned long long waited;
	unsigned int issued_pid;
	unsigned int waiting_pid;
};

struct iolat_fs {
	unsigned int dev;
	char type[NAME_LEN];
};

enum file_op { FILE_READ, FILE_WRITE, FILE_SYNC, FILE_OPS };
enum layer { LAYER_FS, LAYER_CALL, LAYERS };

/*
 * What became of the I/Os that were to be followed. FOLLOWED is the sum of FINISHED, MERGED,
 * FAILED, LOST_IOS and those in flight. LOST_IOS found no room or had an end that was not seen;
 * LOST_ROWS are finished, but in no row.
 */
enum counter {
	FOLLOWED,
	FINISHED,
	MERGED,
	FAILED,
	LOST_IOS,
	LOST_ROWS,
	LOST_ORDER,
	LOST_FILES,
	COUNTERS
};

#endif

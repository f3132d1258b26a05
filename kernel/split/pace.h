/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a device takes for writeback.
 *
 * The cost model's times (cost.h) are those of a datasheet.  How much longer the device takes is
 * learned while it constantly has several requests, or large ones, and nearly all of that is
 * writeback.  The cost of small files can differ much from its estimate: that is learned for each
 * account.
 *
 * Locking: the caller's.  Nothing here sleeps or allocates.
 */
#ifndef SPLIT_PACE_H
#define SPLIT_PACE_H

#include "split.h"

/**
 * struct pace - what was learned of a device
 * @slow: its time for writeback, in units of 1/PACE_ONE of the model's time
 * @writing: cost of the writeback inside the device
 * @deep_ns: since when it has had enough to do; 0: it hasn't
 * @deep_written: cost of the writeback that it has done since
 * @deep_other: cost of other I/O that it has been given, or has done, since
 */
struct pace {
	unsigned int slow;
	u64 writing;
	u64 deep_ns;
	u64 deep_written;
	u64 deep_other;
};

/**
 * struct pace_guess - how far an account's estimates were off
 * @settled: estimates of data that was written, or freed, lately
 * @written: what writing it did cost
 */
struct pace_guess {
	u64 settled;
	u64 written;
};

void pace_init(struct pace *pace);
void pace_look(struct pace *pace, const struct split_device *device, int inside);
u64 pace_ns(const struct pace *pace, const struct split_device *device, u64 cost);
unsigned int pace_pct(const struct pace *pace);
void pace_settle(struct pace_guess *guess, u64 cost);
void pace_charge(struct pace_guess *guess, u64 cost);
u64 pace_guess(const struct pace_guess *guess, u64 expected);

/* A request of writeback goes into the device. */
static inline void pace_write(struct pace *pace, u64 cost)
{
	pace->writing += cost;
}

/* A request of writeback has left the device. */
static inline void pace_written(struct pace *pace, u64 cost)
{
	pace->writing -= cost;
	pace->deep_written += cost;
}

/* Other I/O goes into the device, or has left it: the policy reports either of the two. */
static inline void pace_other(struct pace *pace, u64 cost)
{
	pace->deep_other += cost;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a device takes for what is written back.
 *
 * The cost model's times (cost.h) are those of a datasheet.  How much longer the device takes is
 * learned while it has several requests all the time, or large ones, nearly all of it written back.
 * What small files cost can be far from what was expected of them: that is learned for each
 * account.
 *
 * Locking: the caller's.  Nothing here sleeps or allocates.
 */
#ifndef SPLIT_PACE_H
#define SPLIT_PACE_H

#include "split.h"

/**
 * struct pace - of a device
 * @slow: what it takes for what is written back, of PACE_ONE that the model says
 * @writing: cost of what is written back, inside the device
 * @deep_ns: since then it has had enough to do; 0: it hasn't
 * @deep_written: what it has written back since
 * @deep_other: what else it has been given, or has done
 */
struct pace {
	unsigned int slow;
	u64 writing;
	u64 deep_ns;
	u64 deep_written;
	u64 deep_other;
};

/**
 * struct pace_guess - how far off was what was expected of an account
 * @settled: of what was expected so much is written, or gone, lately
 * @written: what that did cost
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

/* What is written back goes into the device. */
static inline void pace_write(struct pace *pace, u64 cost)
{
	pace->writing += cost;
}

/* It has left it. */
static inline void pace_written(struct pace *pace, u64 cost)
{
	pace->writing -= cost;
	pace->deep_written += cost;
}

/* Something else goes into it, or has left it: the policy chooses which. */
static inline void pace_other(struct pace *pace, u64 cost)
{
	pace->deep_other += cost;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How far the estimates of an account's dirty data were off, as those of many small files are: by
 * that its next estimates are corrected.
 *
 * Locking: the caller's.  Nothing here sleeps or allocates.
 */
#ifndef SPLIT_GUESS_H
#define SPLIT_GUESS_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/sizes.h>

/*
 * Weight of the estimate, and the largest one of what was written, normalised bytes.  A journal's
 * blocks weren't in the estimate at all, so what is learned has an upper bound: so many times the
 * estimate.
 */
#define GUESS_WEIGHT ((u64)SZ_16M)
#define GUESS_MOST ((u64)SZ_1G)
#define GUESS_OFF 4

/**
 * struct guess - how far an account's estimates were off
 * @settled: estimates of data that was written, or freed, lately
 * @written: what writing it did cost
 */
struct guess {
	u64 settled;
	u64 written;
};

/* Older values count for less. */
static inline void guess_forget(struct guess *guess)
{
	if (max(guess->settled, guess->written) <= GUESS_MOST)
		return;
	guess->settled /= 2;
	guess->written /= 2;
}

/* So much of an account's estimate is void: its data is being written, or was freed. */
static inline void guess_settle(struct guess *guess, u64 cost)
{
	guess->settled += cost;
	guess_forget(guess);
}

/* The account was charged so much for writeback. */
static inline void guess_charge(struct guess *guess, u64 cost)
{
	guess->written += cost;
	guess_forget(guess);
}

/* What an account's dirty data will cost, by what its last writeback did cost. */
static inline u64 guess_cost(const struct guess *guess, u64 expected)
{
	u64 written = min(guess->written, GUESS_OFF * guess->settled);

	return mul_u64_u64_div_u64(expected, written + GUESS_WEIGHT, guess->settled + GUESS_WEIGHT);
}

#endif

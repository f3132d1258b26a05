/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A token bucket: normalised bytes (cost.h) that may be spent, and come back at a rate.
 *
 * It goes below zero: what has happened is charged whole, and what is below zero is a debt,
 * which the rate pays off.  So the rate is kept to the byte over any time in which there is
 * something to do, however large what is charged at once.  What isn't spent is saved up to
 * the hoard, and no further.
 *
 * What was charged in advance may be given back when it is known better.  Such a refund goes
 * above the hoard, since the true charge follows it; bucket_fill() takes away what is above
 * if the caller says that nothing follows.
 *
 * Locking: the caller's.  Nothing here sleeps or allocates.
 *
 * Source: the split-level paper, section 5.3.
 */
#ifndef SPLIT_BUCKET_H
#define SPLIT_BUCKET_H

#include "shim.h"

/* Normalised bytes a second.  With less nothing goes on; no device does more. */
#define BUCKET_RATE_MIN 1024ULL
#define BUCKET_RATE_MAX BIT_ULL(33)

/* No bucket has more, or is deeper in debt, bytes: 13 days at 1 GB/s. */
#define BUCKET_MOST BIT_ULL(50)

/**
 * struct bucket - tokens
 * @tokens: bytes; below zero a debt
 * @rest: what is less than a byte, in parts of a thousand million
 * @filled_ns: when it was filled last
 */
struct bucket {
	s64 tokens;
	u32 rest;
	u64 filled_ns;
};

void bucket_init(struct bucket *bucket, u64 now_ns, u64 rate, u64 hoard_ns);
void bucket_fill(struct bucket *bucket, u64 now_ns, u64 rate, u64 hoard_ns, bool cut);
void bucket_take(struct bucket *bucket, u64 cost);
void bucket_give(struct bucket *bucket, u64 cost);

static inline bool bucket_in_debt(const struct bucket *bucket)
{
	return READ_ONCE(bucket->tokens) < 0;
}

#endif

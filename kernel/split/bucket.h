/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A token bucket: normalised bytes (cost.h) that may be spent, and are refilled at a rate.
 *
 * The level may go below zero.  I/O that has happened is charged in full, and a level below zero is
 * a debt, which the rate pays off.  So the rate is kept to the byte over any time with enough to
 * do, however large a single charge is.  Unused tokens are saved up to the burst, no
 * further.
 *
 * An advance charge may be given back when the cost is known better.  Such a refund may exceed the
 * burst, since the true charge follows it.  bucket_fill() takes the excess away if the caller says
 * that no charge follows.
 *
 * Locking: the caller's.  Nothing here sleeps or allocates.
 *
 * Source: the split-level paper, section 5.3.
 */
#ifndef SPLIT_BUCKET_H
#define SPLIT_BUCKET_H

#include "shim.h"

/* Normalised bytes a second.  A lower rate would stop all I/O; no device exceeds the maximum. */
#define BUCKET_RATE_MIN 1024ULL
#define BUCKET_RATE_MAX BIT_ULL(33)

/* Bound of a bucket's level and of its debt, bytes: 13 days at 1 GB/s. */
#define BUCKET_MOST BIT_ULL(50)

/**
 * struct bucket - tokens
 * @tokens: bytes; below zero: a debt
 * @rest: fraction of a byte, in parts of 10^9
 * @filled_ns: when it was last filled
 */
struct bucket {
	s64 tokens;
	u32 rest;
	u64 filled_ns;
};

void bucket_init(struct bucket *bucket, u64 now_ns, u64 rate, u64 burst_ns);
void bucket_fill(struct bucket *bucket, u64 now_ns, u64 rate, u64 burst_ns, bool cut);
void bucket_take(struct bucket *bucket, u64 cost);
void bucket_give(struct bucket *bucket, u64 cost);

static inline bool bucket_in_debt(const struct bucket *bucket)
{
	return READ_ONCE(bucket->tokens) < 0;
}

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* Tokens that are spent and come back.  See bucket.h. */
#include "bucket.h"

#define BUCKET_NS_PER_S 1000000000ULL

/* The largest time at the largest rate gives fewer than 2^63 tokens. */
#define BUCKET_SECONDS_MAX BIT_ULL(29)

/* The burst: what the rate gives in so long. */
static s64 bucket_burst(u64 rate, u64 burst_ns)
{
	return mul_u64_u64_div_u64(rate, burst_ns, BUCKET_NS_PER_S);
}

/**
 * bucket_init() - a bucket that is full
 * @bucket: the bucket
 * @now_ns: the time, of any clock that doesn't go back
 * @rate: bytes a second, BUCKET_RATE_MIN to BUCKET_RATE_MAX
 * @burst_ns: how long the rate may be saved up
 */
void bucket_init(struct bucket *bucket, u64 now_ns, u64 rate, u64 burst_ns)
{
	bucket->tokens = bucket_burst(rate, burst_ns);
	bucket->rest = 0;
	bucket->filled_ns = now_ns;
}

/* The tokens that have come since the last time. */
static u64 bucket_income(struct bucket *bucket, u64 now_ns, u64 rate)
{
	u64 passed = now_ns - bucket->filled_ns, seconds = div_u64(passed, BUCKET_NS_PER_S);
	u64 parts = (passed - seconds * BUCKET_NS_PER_S) * rate + bucket->rest;
	u64 tokens = div_u64(parts, BUCKET_NS_PER_S);

	bucket->filled_ns = now_ns;
	bucket->rest = parts - tokens * BUCKET_NS_PER_S;
	return min(seconds, BUCKET_SECONDS_MAX) * rate + tokens;
}

/**
 * bucket_fill() - add what has come since the last time
 * @bucket: the bucket
 * @now_ns: the time; if it has gone back nothing changes
 * @rate: bytes a second, BUCKET_RATE_MIN to BUCKET_RATE_MAX; since the last time
 * @burst_ns: how long the rate may be saved up
 * @cut: take away what exceeds the burst; else it stays, but nothing is added to it
 */
void bucket_fill(struct bucket *bucket, u64 now_ns, u64 rate, u64 burst_ns, bool cut)
{
	s64 burst = bucket_burst(rate, burst_ns), tokens;

	if ((s64)(now_ns - bucket->filled_ns) < 0)
		return;
	tokens = min(bucket->tokens + (s64)bucket_income(bucket, now_ns, rate), burst);
	if (cut || tokens > bucket->tokens)
		WRITE_ONCE(bucket->tokens, tokens);
}

/**
 * bucket_take() - spend tokens, even if there are too few
 * @bucket: the bucket
 * @cost: bytes
 */
void bucket_take(struct bucket *bucket, u64 cost)
{
	s64 tokens = bucket->tokens - (s64)min(cost, BUCKET_MOST);

	WRITE_ONCE(bucket->tokens, max(tokens, -(s64)BUCKET_MOST));
}

/**
 * bucket_give() - give back what was taken
 * @bucket: the bucket
 * @cost: bytes
 */
void bucket_give(struct bucket *bucket, u64 cost)
{
	s64 tokens = bucket->tokens + (s64)min(cost, BUCKET_MOST);

	WRITE_ONCE(bucket->tokens, min_t(s64, tokens, BUCKET_MOST));
}

// SPDX-License-Identifier: GPL-2.0-only
/* Unit tests of token buckets: each states one thing about a rate. */
#include "check.h"
#include "bucket.h"

#define MS 1000000ULL
#define S (1000 * MS)
#define RATE 1000000ULL
#define BURST (100 * MS)

static void test_a_bucket_begins_with_its_hoard(void)
{
	struct bucket bucket;

	bucket_init(&bucket, 5 * S, RATE, BURST);
	CHECK(bucket.tokens == 100000, "%lld tokens", bucket.tokens);
	bucket_fill(&bucket, 50 * S, RATE, BURST, true);
	CHECK(bucket.tokens == 100000, "%lld tokens", bucket.tokens);
}

static void test_a_debt_is_paid_at_the_rate(void)
{
	struct bucket bucket;

	bucket_init(&bucket, 0, RATE, 0);
	bucket_take(&bucket, 2 * RATE);
	bucket_fill(&bucket, 2 * S - 1, RATE, BURST, true);
	CHECK(bucket_in_debt(&bucket), "%lld tokens", bucket.tokens);
	bucket_fill(&bucket, 2 * S, RATE, BURST, true);
	CHECK(!bucket_in_debt(&bucket) && bucket.tokens == 0, "%lld tokens", bucket.tokens);
}

/* However it is cut into pieces, the same comes in the same time. */
static void test_nothing_is_lost_to_rounding(void)
{
	u64 rates[] = { BUCKET_RATE_MIN, 3333, RATE, 123456789, BUCKET_RATE_MAX };
	unsigned int i;
	u64 now;

	for (i = 0; i < ARRAY_SIZE(rates); i++) {
		struct bucket bucket;

		bucket_init(&bucket, 0, rates[i], 0);
		bucket_take(&bucket, 10 * rates[i]);
		for (now = 0; now <= 3 * S; now += 999983)
			bucket_fill(&bucket, now, rates[i], 0, true);
		bucket_fill(&bucket, 3 * S, rates[i], 0, true);
		CHECK(bucket.tokens == -(s64)(7 * rates[i]), "%lld tokens", bucket.tokens);
	}
}

static void test_a_long_time_at_the_largest_rate_is_no_overflow(void)
{
	struct bucket bucket;

	bucket_init(&bucket, 0, BUCKET_RATE_MAX, 0);
	bucket_take(&bucket, U64_MAX);
	CHECK(bucket.tokens == -(s64)BUCKET_MOST, "%lld tokens", bucket.tokens);
	bucket_fill(&bucket, U64_MAX / 2, BUCKET_RATE_MAX, BURST, true);
	CHECK(bucket.tokens == (s64)(BUCKET_RATE_MAX / 10), "%lld tokens", bucket.tokens);
}

static void test_a_refund_stays_until_it_is_cut(void)
{
	struct bucket bucket;

	bucket_init(&bucket, 0, RATE, BURST);
	bucket_give(&bucket, 5 * RATE);
	bucket_fill(&bucket, S, RATE, BURST, false);
	CHECK(bucket.tokens == (s64)(5 * RATE + 100000), "%lld tokens", bucket.tokens);
	bucket_fill(&bucket, S, RATE, BURST, true);
	CHECK(bucket.tokens == 100000, "%lld tokens", bucket.tokens);
}

static void test_a_refund_pays_a_debt(void)
{
	struct bucket bucket;

	bucket_init(&bucket, 0, RATE, 0);
	bucket_take(&bucket, 3 * RATE);
	bucket_give(&bucket, 3 * RATE);
	CHECK(bucket.tokens == 0, "%lld tokens", bucket.tokens);
}

static void test_time_that_goes_back_changes_nothing(void)
{
	struct bucket bucket;

	bucket_init(&bucket, 10 * S, RATE, 0);
	bucket_take(&bucket, RATE);
	bucket_fill(&bucket, 9 * S, RATE, BURST, true);
	CHECK(bucket.tokens == -(s64)RATE && bucket.filled_ns == 10 * S, "%lld tokens",
	      bucket.tokens);
}

static void test_a_lower_rate_has_a_smaller_hoard(void)
{
	struct bucket bucket;

	bucket_init(&bucket, 0, RATE, S);
	bucket_fill(&bucket, 1, RATE / 10, S, true);
	CHECK(bucket.tokens == (s64)(RATE / 10), "%lld tokens", bucket.tokens);
}

static const struct test tests[] = {
	TEST(a_bucket_begins_with_its_hoard),
	TEST(a_debt_is_paid_at_the_rate),
	TEST(nothing_is_lost_to_rounding),
	TEST(a_long_time_at_the_largest_rate_is_no_overflow),
	TEST(a_refund_stays_until_it_is_cut),
	TEST(a_refund_pays_a_debt),
	TEST(time_that_goes_back_changes_nothing),
	TEST(a_lower_rate_has_a_smaller_hoard),
};

int main(int argc, char **argv)
{
	return run_tests(tests, ARRAY_SIZE(tests), argv[1]);
}

// SPDX-License-Identifier: GPL-2.0-only
/* Unit tests of the forecast of fsyncs: each states one thing about a device that is made up. */
#include "check.h"
#include "forecast.h"

#define US 1000ULL
#define MS (1000 * US)
#define FLUSH (2 * MS)

/**
 * struct device - how it is
 * @slower: what it takes for data, in 1024ths of what the model says
 * @flush_ns: a flush of an empty cache
 * @commit_ns: what the file system takes, twice: before each flush
 */
struct device {
	u32 slower;
	u64 flush_ns;
	u64 commit_ns;
};

static const struct device plain = { 1024, FLUSH, MS };

static u64 distance(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

/* The device is given data and flushes it; @own_ns and @others_ns are the model's. */
static void flush(struct forecast *forecast, const struct device *device, u64 *now, u64 own_ns,
		  u64 others_ns)
{
	if (others_ns)
		forecast_give(forecast, *now, others_ns);
	forecast_flush(forecast, *now);
	*now += (own_ns + others_ns) * device->slower / 1024 + device->flush_ns;
	forecast_flushed(forecast, *now);
}

/* An fsync whose data waits, then is given with others', with a commit of two flushes. */
static u64 fsync_beside(struct forecast *forecast, const struct device *device, u64 *now,
			u64 own_ns, u64 others_ns, u64 wait_ns)
{
	struct forecast_fsync fsync;
	u64 began = *now;

	forecast_begin(forecast, &fsync, *now, own_ns);
	*now += wait_ns;
	forecast_gone(forecast, &fsync, *now);
	*now += device->commit_ns;
	flush(forecast, device, now, own_ns, others_ns);
	*now += device->commit_ns;
	flush(forecast, device, now, 0, 0);
	forecast_end(forecast, &fsync, *now);
	return *now - began;
}

static void test_what_nobody_has_seen_takes_three_flushes(void)
{
	struct forecast forecast;

	forecast_init(&forecast, FLUSH);
	CHECK(forecast_need(&forecast) == 3 * FLUSH, "%llu", forecast_need(&forecast));
	CHECK(forecast_load(&forecast, 5 * MS) == 0, "%llu", forecast_load(&forecast, 5 * MS));
}

static void test_time_takes_the_load_away(void)
{
	struct forecast forecast;

	forecast_init(&forecast, FLUSH);
	forecast_give(&forecast, 100 * MS, 10 * MS);
	forecast_give(&forecast, 104 * MS, 3 * MS);
	CHECK(forecast_load(&forecast, 104 * MS) == 9 * MS, "%llu",
	      forecast_load(&forecast, 104 * MS));
	CHECK(forecast_load(&forecast, 112 * MS) == MS, "%llu", forecast_load(&forecast, 112 * MS));
	CHECK(forecast_load(&forecast, 200 * MS) == 0, "%llu", forecast_load(&forecast, 200 * MS));
	CHECK(forecast_load(&forecast, 0) == 9 * MS, "%llu", forecast_load(&forecast, 0));
}

static void test_a_flush_empties_the_cache_but_for_what_came_meanwhile(void)
{
	struct forecast forecast;

	forecast_init(&forecast, FLUSH);
	forecast_give(&forecast, MS, 50 * MS);
	forecast_flush(&forecast, MS);
	forecast_give(&forecast, 41 * MS, 57 * MS);
	forecast_flushed(&forecast, 81 * MS);
	CHECK(forecast_load(&forecast, 81 * MS) == 27 * MS, "%llu",
	      forecast_load(&forecast, 81 * MS));
	forecast_flush(&forecast, 120 * MS);
	forecast_give(&forecast, 121 * MS, 57 * MS);
	forecast_flushed(&forecast, 121 * MS);
	CHECK(forecast_load(&forecast, 121 * MS) == 57 * MS, "%llu",
	      forecast_load(&forecast, 121 * MS));
	CHECK(forecast.flush_ns == FLUSH && forecast_time(&forecast, MS) == MS, "learned %llu %llu",
	      forecast.flush_ns, forecast_time(&forecast, MS));
}

static void test_the_end_of_a_flush_that_never_began_is_none(void)
{
	struct forecast forecast;

	forecast_init(&forecast, FLUSH);
	forecast_give(&forecast, MS, 5 * MS);
	forecast_flushed(&forecast, 2 * MS);
	CHECK(forecast.flushed == 0, "%llu", forecast.flushed);
	CHECK(forecast_load(&forecast, 2 * MS) == 4 * MS, "%llu", forecast_load(&forecast, 2 * MS));
}

/* From a quarter of the time to four times. */
static void test_a_device_that_is_faster_or_slower_is_learned(void)
{
	u32 slower[] = { 256, 700, 1024, 2048, 4096 };
	struct forecast forecast;
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(slower); i++) {
		struct device device = { slower[i], FLUSH, MS };
		u64 now = 1;

		forecast_init(&forecast, FLUSH);
		for (k = 0; k < 100; k++)
			flush(&forecast, &device, &now, 0, 20 * MS);
		CHECK(distance(forecast.factor, slower[i]) <= slower[i] / 16, "%u, not %u",
		      forecast.factor, slower[i]);
		forecast_give(&forecast, now, 8 * MS);
		CHECK(distance(forecast_load(&forecast, now), 8 * MS * slower[i] / 1024) < MS,
		      "%llu", forecast_load(&forecast, now));
	}
}

static void test_a_device_is_no_further_off_than_that(void)
{
	struct device slow = { 1024 * 1000, FLUSH, MS }, fast = { 0, 0, 0 };
	struct forecast forecast;
	u64 now = 1;
	unsigned int i;

	forecast_init(&forecast, FLUSH);
	for (i = 0; i < 300; i++)
		flush(&forecast, &slow, &now, 0, 20 * MS);
	CHECK(forecast.factor > 15 * 1024 && forecast.factor <= 16 * 1024, "%u", forecast.factor);
	for (i = 0; i < 3000; i++)
		flush(&forecast, &fast, &now, 0, 2000 * MS);
	CHECK(forecast.factor >= 64 && forecast.factor < 80, "%u", forecast.factor);
}

static void test_a_flush_of_little_tells_its_own_time(void)
{
	struct device device = { 1024, 9 * MS, MS };
	struct forecast forecast;
	u64 now = 1;
	unsigned int i;

	forecast_init(&forecast, FLUSH);
	for (i = 0; i < 100; i++)
		flush(&forecast, &device, &now, 100 * US, 0);
	CHECK(distance(forecast.flush_ns, 9 * MS) < MS / 10, "%llu", forecast.flush_ns);
	CHECK(forecast.factor == 1024, "%u", forecast.factor);
}

static void test_what_an_fsync_takes_is_learned(void)
{
	struct forecast forecast;
	u64 now = 1, taken = 0;
	unsigned int i;

	forecast_init(&forecast, FLUSH);
	for (i = 0; i < 100; i++)
		taken = fsync_beside(&forecast, &plain, &now, 500 * US, 0, 0);
	CHECK(distance(forecast_need(&forecast), taken) < taken / 20, "%llu, not %llu",
	      forecast_need(&forecast), taken);
}

static void test_what_others_write_is_no_need_of_an_fsync(void)
{
	struct forecast alone, beside;
	u64 now = 1, later = 1;
	unsigned int i;

	forecast_init(&alone, FLUSH);
	forecast_init(&beside, FLUSH);
	for (i = 0; i < 100; i++) {
		fsync_beside(&alone, &plain, &now, 500 * US, 0, 0);
		fsync_beside(&beside, &plain, &later, 500 * US, 30 * MS, 0);
	}
	CHECK(distance(forecast_need(&alone), forecast_need(&beside)) < forecast_need(&alone) / 10,
	      "%llu alone, %llu beside others", forecast_need(&alone), forecast_need(&beside));
}

static void test_what_a_scheduler_held_back_is_no_need_of_an_fsync(void)
{
	struct forecast forecast;
	u64 now = 1;
	unsigned int i;

	forecast_init(&forecast, FLUSH);
	for (i = 0; i < 100; i++)
		fsync_beside(&forecast, &plain, &now, 500 * US, 0, 40 * MS);
	CHECK(forecast_need(&forecast) < 8 * MS, "%llu", forecast_need(&forecast));
}

static void test_an_fsync_of_much_data_teaches_nothing_about_commits(void)
{
	struct forecast forecast;
	u64 now = 1, before;
	unsigned int i;

	forecast_init(&forecast, FLUSH);
	for (i = 0; i < 100; i++)
		fsync_beside(&forecast, &plain, &now, 500 * US, 0, 0);
	before = forecast.commit_ns;
	for (i = 0; i < 100; i++) {
		struct forecast_fsync fsync;

		forecast_begin(&forecast, &fsync, now, 300 * MS);
		forecast_give(&forecast, now, 300 * MS);
		forecast_gone(&forecast, &fsync, now);
		now += 400 * MS;
		forecast_end(&forecast, &fsync, now);
	}
	CHECK(forecast.commit_ns == before, "%llu, was %llu", forecast.commit_ns, before);
}

static void test_who_varies_needs_more_than_his_mean(void)
{
	struct forecast forecast;
	u64 now = 1, mean;
	unsigned int i;

	forecast_init(&forecast, FLUSH);
	for (i = 0; i < 400; i++) {
		struct device device = { 1024, FLUSH, i % 2 ? MS : 6 * MS };

		fsync_beside(&forecast, &device, &now, 500 * US, 0, 0);
	}
	mean = 2 * FLUSH + 7 * MS;
	CHECK(forecast_need(&forecast) > mean + 7 * MS && forecast_need(&forecast) < mean + 16 * MS,
	      "%llu", forecast_need(&forecast));
}

/* Loads that take half of what the model says, or three halves, in turn. */
static void test_whose_flushes_vary_is_given_time_for_it(void)
{
	struct forecast forecast;
	u64 now = 1, sure;
	unsigned int i;

	forecast_init(&forecast, FLUSH);
	sure = forecast_need(&forecast);
	for (i = 0; i < 100; i++) {
		struct device device = { i % 2 ? 512 : 1536, FLUSH, MS };

		flush(&forecast, &device, &now, 0, 40 * MS);
	}
	CHECK(distance(forecast_need(&forecast), sure + 40 * MS) < 8 * MS, "%llu, was %llu",
	      forecast_need(&forecast), sure);
}

static void test_what_an_fsync_has_had_is_no_longer_needed(void)
{
	struct forecast forecast;
	struct forecast_fsync fsync;
	u64 need, now = 1;

	forecast_init(&forecast, FLUSH);
	forecast.unsure_ns = 3 * MS;
	forecast.spread_ns = MS;
	need = forecast_need(&forecast);
	forecast_begin(&forecast, &fsync, now, 0);
	CHECK(forecast_rest(&forecast, &fsync) == need, "%llu", forecast_rest(&forecast, &fsync));
	forecast_flush(&forecast, now);
	forecast_flushed(&forecast, now + FLUSH);
	CHECK(forecast_rest(&forecast, &fsync) == need - FLUSH - 3 * MS, "%llu of %llu",
	      forecast_rest(&forecast, &fsync), need);
	for (now = 10 * MS; now < 100 * MS; now += 10 * MS) {
		forecast_flush(&forecast, now);
		forecast_flushed(&forecast, now + FLUSH);
	}
	CHECK(forecast_rest(&forecast, &fsync) == forecast.commit_ns + 5 * MS, "%llu",
	      forecast_rest(&forecast, &fsync));
	forecast_gone(&forecast, &fsync, now);
	CHECK(forecast_rest(&forecast, &fsync) == need, "%llu", forecast_rest(&forecast, &fsync));
}

static void test_the_forecast_counts_data_and_load(void)
{
	struct forecast forecast;
	struct forecast_fsync fsync;

	forecast_init(&forecast, FLUSH);
	forecast_give(&forecast, 0, 10 * MS);
	forecast_begin(&forecast, &fsync, 4 * MS, 20 * MS);
	CHECK(fsync.predicted_ns == 3 * FLUSH + 6 * MS + 20 * MS, "%llu", fsync.predicted_ns);
}

static void test_the_error_is_told_either_way(void)
{
	struct forecast forecast;
	struct forecast_fsync fsync;

	forecast_init(&forecast, FLUSH);
	forecast_begin(&forecast, &fsync, 10 * MS, 0);
	forecast_end(&forecast, &fsync, 10 * MS + 2 * FLUSH);
	CHECK(forecast.error_ns == FLUSH, "%llu", forecast.error_ns);
	forecast_init(&forecast, FLUSH);
	forecast_begin(&forecast, &fsync, 10 * MS, 0);
	forecast_end(&forecast, &fsync, 10 * MS + 5 * FLUSH);
	CHECK(forecast.fsyncs == 1 && forecast.predicted_ns == 3 * FLUSH &&
		      forecast.taken_ns == 5 * FLUSH && forecast.error_ns == 2 * FLUSH,
	      "%llu %llu %llu", forecast.predicted_ns, forecast.taken_ns, forecast.error_ns);
}

/* Times of any size, in any order: nothing overflows, and no time is longer than the longest. */
static void test_no_time_is_too_long(void)
{
	struct forecast forecast;
	struct forecast_fsync fsync;
	u64 now = 1;
	unsigned int i;

	forecast_init(&forecast, FLUSH);
	for (i = 0; i < 100000; i++) {
		now += draw(1ULL << draw(40));
		forecast_begin(&forecast, &fsync, now, draw(1ULL << draw(60)));
		forecast_give(&forecast, now, draw(1ULL << draw(60)));
		if (draw(2))
			forecast_flush(&forecast, now);
		now += draw(1ULL << draw(40));
		forecast_gone(&forecast, &fsync, now);
		if (draw(2))
			forecast_flushed(&forecast, now);
		forecast_end(&forecast, &fsync, now);
		CHECK(forecast_load(&forecast, now) <= 16 * FORECAST_MOST_NS, "%llu",
		      forecast_load(&forecast, now));
		CHECK(forecast_need(&forecast) <= 60 * FORECAST_MOST_NS, "%llu",
		      forecast_need(&forecast));
		CHECK(forecast_rest(&forecast, &fsync) <= forecast_need(&forecast), "%llu of %llu",
		      forecast_rest(&forecast, &fsync), forecast_need(&forecast));
		CHECK(forecast.factor >= 64 && forecast.factor <= 16 * 1024, "%u", forecast.factor);
	}
}

static const struct test tests[] = {
	TEST(what_nobody_has_seen_takes_three_flushes),
	TEST(time_takes_the_load_away),
	TEST(a_flush_empties_the_cache_but_for_what_came_meanwhile),
	TEST(the_end_of_a_flush_that_never_began_is_none),
	TEST(a_device_that_is_faster_or_slower_is_learned),
	TEST(a_device_is_no_further_off_than_that),
	TEST(a_flush_of_little_tells_its_own_time),
	TEST(what_an_fsync_takes_is_learned),
	TEST(what_others_write_is_no_need_of_an_fsync),
	TEST(what_a_scheduler_held_back_is_no_need_of_an_fsync),
	TEST(an_fsync_of_much_data_teaches_nothing_about_commits),
	TEST(who_varies_needs_more_than_his_mean),
	TEST(whose_flushes_vary_is_given_time_for_it),
	TEST(what_an_fsync_has_had_is_no_longer_needed),
	TEST(the_forecast_counts_data_and_load),
	TEST(the_error_is_told_either_way),
	TEST(no_time_is_too_long),
};

int main(int argc, char **argv)
{
	return run_tests(tests, ARRAY_SIZE(tests), argv[1]);
}

// SPDX-License-Identifier: GPL-2.0-only
/* How long an fsync will take.  See forecast.h. */
#include "forecast.h"

/* Factors and numbers of flushes are in 1024ths. */
#define FORECAST_ONE 1024U

/* Each new value has this weight in a mean: 1/8. */
#define FORECAST_MEAN 8

/* Upper bound of how far a device is off from its model, either way. */
#define FORECAST_FACTOR_MOST 16

/* A load that takes less than this part of a flush counts as none. */
#define FORECAST_LITTLE 4

/* Initial guess, until the first fsync has been seen: a commit writes at two places. */
#define FORECAST_COMMIT_FLUSHES 2

static u64 forecast_mean(u64 mean, u64 sample)
{
	return mean - mean / FORECAST_MEAN + sample / FORECAST_MEAN;
}

static u64 forecast_less(u64 from, u64 what)
{
	return from - min(from, what);
}

static u64 forecast_distance(u64 a, u64 b)
{
	return max(a, b) - min(a, b);
}

/**
 * forecast_init() - a device of which nothing is known but what a flush costs
 * @forecast: what is made
 * @flush_ns: a flush of an empty cache
 */
void forecast_init(struct forecast *forecast, u64 flush_ns)
{
	memset(forecast, 0, sizeof(*forecast));
	forecast->factor = FORECAST_ONE;
	forecast->flush_ns = flush_ns;
	forecast->commit_ns = flush_ns;
	forecast->flushes = FORECAST_COMMIT_FLUSHES * FORECAST_ONE;
}

/**
 * forecast_time() - how long the device will take for something
 * @forecast: the device's
 * @model_ns: what the model says
 */
u64 forecast_time(const struct forecast *forecast, u64 model_ns)
{
	return min(model_ns, FORECAST_MOST_NS) * forecast->factor / FORECAST_ONE;
}

/* In the model's time: the load that is left, served at the device's own pace. */
static u64 forecast_left(const struct forecast *forecast, u64 now_ns)
{
	u64 passed = now_ns > forecast->at_ns ? now_ns - forecast->at_ns : 0;
	u64 done = div_u64(min(passed, FORECAST_MOST_NS) * FORECAST_ONE, forecast->factor);

	return forecast_less(forecast->load_ns, done);
}

/**
 * forecast_load() - how long the device will be busy with its load
 * @forecast: the device's
 * @now_ns: the time, of any clock
 */
u64 forecast_load(const struct forecast *forecast, u64 now_ns)
{
	return forecast_time(forecast, forecast_left(forecast, now_ns));
}

/**
 * forecast_give() - the device is given a request that no short fsync waits for
 * @forecast: the device's
 * @now_ns: the time
 * @model_ns: what the model says of it
 */
void forecast_give(struct forecast *forecast, u64 now_ns, u64 model_ns)
{
	u64 left = forecast_left(forecast, now_ns);

	forecast->load_ns = left + min(model_ns, FORECAST_MOST_NS - left);
	forecast->at_ns = now_ns;
	if (forecast->began_ns)
		forecast->came_ns += min(model_ns, FORECAST_MOST_NS - forecast->came_ns);
}

/**
 * forecast_flush() - the device begins to flush its cache
 * @forecast: the device's
 * @now_ns: the time
 */
void forecast_flush(struct forecast *forecast, u64 now_ns)
{
	forecast->flushing_ns = forecast_left(forecast, now_ns);
	forecast->came_ns = 0;
	forecast->began_ns = now_ns;
}

/* Learns how the device's time compares with the model's: with more weight for a large load. */
static void forecast_learn_factor(struct forecast *forecast, u64 load_ns, u64 taken_ns)
{
	u64 least = FORECAST_ONE / FORECAST_FACTOR_MOST, most = FORECAST_ONE * FORECAST_FACTOR_MOST;
	u64 sample = div64_u64(taken_ns * FORECAST_ONE, max(forecast->flushing_ns, 1ULL));
	s64 off = (s64)clamp_t(u64, sample, least, most) - forecast->factor;

	off = div64_s64(off * (s64)load_ns, (s64)(load_ns + forecast->flush_ns + 1));
	forecast->factor = clamp_t(s64, forecast->factor + off / FORECAST_MEAN, least, most);
	forecast->unsure_ns =
		forecast_mean(forecast->unsure_ns, forecast_distance(load_ns, taken_ns));
}

static void forecast_learn_flush(struct forecast *forecast, u64 load_ns, u64 taken_ns)
{
	if (load_ns < forecast->flush_ns / FORECAST_LITTLE)
		forecast->flush_ns =
			forecast_mean(forecast->flush_ns, forecast_less(taken_ns, load_ns));
	else
		forecast_learn_factor(forecast, load_ns,
				      forecast_less(taken_ns, forecast->flush_ns));
}

/**
 * forecast_flushed() - the device has flushed its cache
 * @forecast: the device's
 * @now_ns: the time
 *
 * All that it had to write at the beginning is written now.  If more came meanwhile nothing is
 * learned: some devices write that first.
 */
void forecast_flushed(struct forecast *forecast, u64 now_ns)
{
	u64 taken = min(forecast_less(now_ns, forecast->began_ns), FORECAST_MOST_NS);
	u64 load = forecast_time(forecast, forecast->flushing_ns);

	if (!forecast->began_ns)
		return;
	if (load >= forecast->flush_ns / FORECAST_LITTLE || forecast->came_ns)
		forecast->others_ns += forecast_less(taken, forecast->flush_ns);
	if (!forecast->came_ns)
		forecast_learn_flush(forecast, load, taken);
	forecast->load_ns = min(forecast_left(forecast, now_ns), forecast->came_ns);
	forecast->at_ns = now_ns;
	forecast->began_ns = 0;
	forecast->flushed++;
}

/* A flush without data, while nothing else is being written. */
static u64 forecast_fixed(const struct forecast *forecast)
{
	return forecast->commit_ns + forecast->flush_ns * forecast->flushes / FORECAST_ONE;
}

/**
 * forecast_need() - the time of an fsync with almost no data on a device that is otherwise idle
 * @forecast: the device's
 *
 * Return: ns, which few fsyncs exceed: it includes twice the mean deviations of commits and
 * flushes.
 */
u64 forecast_need(const struct forecast *forecast)
{
	return forecast_fixed(forecast) + 2 * (forecast->spread_ns + forecast->unsure_ns);
}

/**
 * forecast_rest() - what is left of forecast_need() for an fsync that is inside
 * @forecast: the device's
 * @fsync: as forecast_begin() or forecast_gone() left it
 *
 * Flushes that have ended since are taken for its own, and their errors are known by now.  What is
 * given to the device from now on matters less, so the deviation of flushes counts half.
 *
 * Return: ns.
 */
u64 forecast_rest(const struct forecast *forecast, const struct forecast_fsync *fsync)
{
	u64 flushed = (forecast->flushed - fsync->flushed) * FORECAST_ONE, past;

	if (!flushed)
		return forecast_need(forecast);
	past = forecast->flush_ns * min_t(u64, flushed, forecast->flushes) / FORECAST_ONE;
	return forecast_less(forecast_fixed(forecast), past) + 2 * forecast->spread_ns +
	       forecast->unsure_ns;
}

/**
 * forecast_gone() - the last of an fsync's data is given to the device, as far as is known
 * @forecast: the device's
 * @fsync: as forecast_begin() left it
 * @now_ns: the time
 *
 * The data may have waited in the scheduler until then: nothing is learned from that time.
 */
void forecast_gone(const struct forecast *forecast, struct forecast_fsync *fsync, u64 now_ns)
{
	fsync->gone_ns = now_ns;
	fsync->flushed = forecast->flushed;
	fsync->others_ns = forecast->others_ns;
}

/**
 * forecast_begin() - an fsync begins
 * @forecast: the device's
 * @fsync: becomes what forecast_end() will compare with
 * @now_ns: the time
 * @data_ns: the model's time for its dirty data
 */
void forecast_begin(const struct forecast *forecast, struct forecast_fsync *fsync, u64 now_ns,
		    u64 data_ns)
{
	fsync->began_ns = now_ns;
	fsync->data_ns = forecast_time(forecast, data_ns);
	fsync->predicted_ns =
		forecast_fixed(forecast) + fsync->data_ns + forecast_load(forecast, now_ns);
	forecast_gone(forecast, fsync, now_ns);
}

/* Learns from an fsync of little data, without the time that it waited for others. */
static void forecast_learn_commit(struct forecast *forecast, const struct forecast_fsync *fsync,
				  u64 now_ns)
{
	u64 flushes = forecast->flushed - fsync->flushed;
	u64 others = forecast->others_ns - fsync->others_ns;
	u64 taken = forecast_less(now_ns, fsync->gone_ns);
	u64 commit = forecast_less(taken, others + flushes * forecast->flush_ns);

	commit = min(commit, FORECAST_MOST_NS);
	forecast->spread_ns =
		forecast_mean(forecast->spread_ns, forecast_distance(commit, forecast->commit_ns));
	forecast->commit_ns = forecast_mean(forecast->commit_ns, commit);
	forecast->flushes = forecast_mean(forecast->flushes, min(flushes, 16ULL) * FORECAST_ONE);
}

/**
 * forecast_end() - an fsync has ended
 * @forecast: the device's
 * @fsync: as forecast_begin() left it
 * @now_ns: the time
 */
void forecast_end(struct forecast *forecast, const struct forecast_fsync *fsync, u64 now_ns)
{
	u64 taken = min(forecast_less(now_ns, fsync->began_ns), FORECAST_MOST_NS);

	forecast->fsyncs++;
	forecast->predicted_ns += fsync->predicted_ns;
	forecast->taken_ns += taken;
	forecast->error_ns += forecast_distance(taken, fsync->predicted_ns);
	if (fsync->data_ns <= forecast_fixed(forecast))
		forecast_learn_commit(forecast, fsync, now_ns);
}

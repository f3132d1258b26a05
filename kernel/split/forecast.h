/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long an fsync will take, by what the last ones have taken.
 *
 *	load	what the device has been given that no short fsync waits for, and is still
 *		busy with: data in its write cache, which the next flush waits for.  Each
 *		request adds what the cost model (cost.h) says, and time takes it away again.
 *	flush	a flush takes what the load does, and the time of its own that it takes
 *		when there is none.
 *	commit	what an fsync takes beside its data, the load and its flushes: the file
 *		system's part.
 *
 * The model's times are those of a datasheet: how much longer the device takes for what it is
 * given is learned from flushes, the more the larger the load, the time of their own from those
 * without one, and the commit from fsyncs of little data, less what the flushes took for the
 * load.  Each is a moving mean, and of loads and commits there are the mean deviations as well,
 * as of a round trip's time in TCP (V. Jacobson, M. Karels, Congestion avoidance and control,
 * 1988).
 *
 * Locking: the caller's.  Nothing here sleeps or allocates.  All times are ns.
 *
 * Source: the split-level paper, section 5.2, whose estimate covers dirty data alone.
 */
#ifndef SPLIT_FORECAST_H
#define SPLIT_FORECAST_H

#include "shim.h"

/* No time is taken to be longer: what is can't be told from a device that hangs. */
#define FORECAST_MOST_NS 100000000000ULL

/**
 * struct forecast - what is known of a device
 * @factor: what it takes for what it writes, in 1024ths of what the model says
 * @unsure_ns: mean deviation of a flush with a load
 * @flush_ns: a flush without a load
 * @commit_ns: the mean of commits
 * @spread_ns: their mean deviation
 * @flushes: of an fsync, 1024ths
 * @load_ns: what it was busy with at @at_ns, as the model says
 * @at_ns: a time
 * @began_ns: when the flush that it does began; 0: it does none
 * @flushing_ns: the load at that time
 * @came_ns: what it has been given since, as the model says
 * @flushed: how many flushes there have been
 * @others_ns: how long flushes have ever taken for the load
 * @fsyncs: how many have been compared with their forecast
 * @predicted_ns: their forecasts, all together
 * @taken_ns: what they took, all together
 * @error_ns: how far the forecasts were off, all together
 */
struct forecast {
	u32 factor;
	u64 unsure_ns;
	u64 flush_ns;
	u64 commit_ns;
	u64 spread_ns;
	u32 flushes;
	u64 load_ns;
	u64 at_ns;
	u64 began_ns;
	u64 flushing_ns;
	u64 came_ns;
	u64 flushed;
	u64 others_ns;
	u64 fsyncs;
	u64 predicted_ns;
	u64 taken_ns;
	u64 error_ns;
};

/**
 * struct forecast_fsync - an fsync, from when it began
 * @began_ns: a time
 * @predicted_ns: what all of it was to take
 * @data_ns: what its dirty data was to take
 * @gone_ns: when the last of its data was given to the device
 * @flushed: flushes until then
 * @others_ns: of struct forecast, then
 */
struct forecast_fsync {
	u64 began_ns;
	u64 predicted_ns;
	u64 data_ns;
	u64 gone_ns;
	u64 flushed;
	u64 others_ns;
};

void forecast_init(struct forecast *forecast, u64 flush_ns);
u64 forecast_time(const struct forecast *forecast, u64 model_ns);
u64 forecast_load(const struct forecast *forecast, u64 now_ns);
void forecast_give(struct forecast *forecast, u64 now_ns, u64 model_ns);
void forecast_flush(struct forecast *forecast, u64 now_ns);
void forecast_flushed(struct forecast *forecast, u64 now_ns);
u64 forecast_need(const struct forecast *forecast);
u64 forecast_rest(const struct forecast *forecast, const struct forecast_fsync *fsync);
void forecast_begin(const struct forecast *forecast, struct forecast_fsync *fsync, u64 now_ns,
		    u64 data_ns);
void forecast_gone(const struct forecast *forecast, struct forecast_fsync *fsync, u64 now_ns);
void forecast_end(struct forecast *forecast, const struct forecast_fsync *fsync, u64 now_ns);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long an fsync will take, by what the last ones have taken.
 *
 *	load	the I/O that the device was given, that no short fsync waits for, and that is not
 *		finished: data in its write cache, which the next flush waits for.  Each
 *		request adds what the cost model (cost.h) says, and passing time subtracts it.
 *	flush	a flush takes the time of the load, plus the time that it takes without a load.
 *	commit	what an fsync takes beside its data, the load and its flushes: the file
 *		system's part.
 *
 * The model's times are those of all loads.  Three corrections are learned.  How much longer the
 * device takes is learned from flushes, with a weight that grows with the load.  A flush's own time
 * is learned from flushes without a load.  The commit is learned from fsyncs of little data, less
 * the time that their flushes took for the load.  Each is a moving mean.  Loads and commits have a
 * mean deviation too, like a round trip's time in TCP (V. Jacobson, M. Karels, Congestion avoidance
 * and control, 1988).
 *
 * Locking: the caller's.  Nothing here sleeps or allocates.  All times are ns.
 *
 * Source: the split-level paper, section 5.2, whose estimate covers dirty data alone.
 */
#ifndef SPLIT_FORECAST_H
#define SPLIT_FORECAST_H

#include "shim.h"

/* Upper bound of all times: a longer one can't be told from a device that hangs. */
#define FORECAST_MOST_NS 100000000000ULL

/**
 * struct forecast - what was learned of a device
 * @factor: the time that it takes for its writes, in 1024ths of the model's time
 * @unsure_ns: mean deviation of a flush with a load
 * @flush_ns: a flush without a load
 * @commit_ns: the mean of commits
 * @spread_ns: their mean deviation
 * @flushes: mean number of an fsync's flushes, in 1024ths
 * @load_ns: the load at @at_ns, as the model says
 * @at_ns: a time
 * @began_ns: when the current flush began; 0: there is none
 * @flushing_ns: the load at that time
 * @came_ns: what the device has been given since, as the model says
 * @flushed: how many flushes there have been
 * @others_ns: sum of the times that flushes took for the load
 * @fsyncs: how many have been compared with their forecast
 * @predicted_ns: sum of their forecasts
 * @taken_ns: sum of the times that they took
 * @error_ns: sum of the forecasts' errors
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
 * @predicted_ns: forecast of the whole fsync
 * @data_ns: forecast of its dirty data
 * @gone_ns: when the last of its data was given to the device
 * @flushed: of struct forecast, at that time
 * @others_ns: likewise
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

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What was decided among ranks.  Ranks: 0-7 RT, 8-15 BE, 16 IDLE.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sluice

#if !defined(SLUICE_RANKS_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SLUICE_RANKS_TRACE_H

#include <linux/blkdev.h>
#include <linux/tracepoint.h>

/* A turn began with @rank's oldest request, which had waited @waited_ns. */
TRACE_EVENT(rank_turn,
	TP_PROTO(struct request_queue *q, unsigned int rank, u64 waited_ns),
	TP_ARGS(q, rank, waited_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, rank)
		__field(u64, waited_ns)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->rank = rank;
		__entry->waited_ns = waited_ns;
	),
	TP_printk("%d,%d rank=%u waited_ns=%llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->rank, __entry->waited_ns)
);

/* @rank's turn ended, it cost @cost_ns of the device; turns open every @period_ns. */
TRACE_EVENT(rank_turn_end,
	TP_PROTO(struct request_queue *q, unsigned int rank, u64 cost_ns,
		 u64 period_ns),
	TP_ARGS(q, rank, cost_ns, period_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, rank)
		__field(u64, cost_ns)
		__field(u64, period_ns)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->rank = rank;
		__entry->cost_ns = cost_ns;
		__entry->period_ns = period_ns;
	),
	TP_printk("%d,%d rank=%u cost_ns=%llu period_ns=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->rank,
		  __entry->cost_ns, __entry->period_ns)
);

/* All that waits, a bit per rank in @lower, is held because @top is active. */
TRACE_EVENT(rank_hold,
	TP_PROTO(struct request_queue *q, unsigned int top, unsigned long lower),
	TP_ARGS(q, top, lower),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, top)
		__field(unsigned long, lower)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->top = top;
		__entry->lower = lower;
	),
	TP_printk("%d,%d top=%u lower=%#lx", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->top, __entry->lower)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE ranks-trace
#include <trace/define_trace.h>

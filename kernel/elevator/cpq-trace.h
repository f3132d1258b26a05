/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What CPQ decided; each fires only where the knob cpq_log is 1, which comes as
 * @log.  Groups: 0 foreground, 1 background.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sluice

#if !defined(SLUICE_CPQ_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SLUICE_CPQ_TRACE_H

#include <linux/blkdev.h>
#include <linux/tracepoint.h>

/*
 * A request goes to the device: of which class (0 RT, 1 BE, 2 IDLE) and group it
 * is, and why it is the one (0 first of all, 1 aged, 2 its deadline, 3 its sector).
 */
TRACE_EVENT_CONDITION(cpq_dispatch,
	TP_PROTO(bool log, struct request *rq, unsigned int class,
		 unsigned int group, unsigned int why),
	TP_ARGS(log, rq, class, group, why),
	TP_CONDITION(log),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(sector_t, sector)
		__field(unsigned int, sectors)
		__field(bool, write)
		__field(unsigned int, class)
		__field(unsigned int, group)
		__field(unsigned int, why)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(rq->q->disk);
		__entry->sector = blk_rq_pos(rq);
		__entry->sectors = blk_rq_sectors(rq);
		__entry->write = op_is_write(req_op(rq));
		__entry->class = class;
		__entry->group = group;
		__entry->why = why;
	),
	TP_printk("%d,%d %s %llu + %u class=%u group=%u why=%s",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->write ? "W" : "R",
		  (unsigned long long)__entry->sector, __entry->sectors,
		  __entry->class, __entry->group,
		  __print_symbolic(__entry->why, { 0, "urgent" }, { 1, "aged" },
				   { 2, "deadline" }, { 3, "sector" }))
);

/* The other group's turn ended after @used_ns of the device's time; @group's begins. */
TRACE_EVENT_CONDITION(cpq_turn,
	TP_PROTO(bool log, struct request_queue *q, unsigned int group,
		 u64 used_ns),
	TP_ARGS(log, q, group, used_ns),
	TP_CONDITION(log),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, group)
		__field(u64, used_ns)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->group = group;
		__entry->used_ns = used_ns;
	),
	TP_printk("%d,%d group=%u used_ns=%llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->group, __entry->used_ns)
);

/* The background is held for the foreground's next request, @wait_ns at most. */
TRACE_EVENT_CONDITION(cpq_idle,
	TP_PROTO(bool log, struct request_queue *q, u64 wait_ns),
	TP_ARGS(log, q, wait_ns),
	TP_CONDITION(log),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, wait_ns)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->wait_ns = wait_ns;
	),
	TP_printk("%d,%d wait_ns=%llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->wait_ns)
);

/* The current task waited for @ms milliseconds until its account might have a tag. */
TRACE_EVENT_CONDITION(cpq_wait,
	TP_PROTO(bool log, struct request_queue *q, unsigned int ms),
	TP_ARGS(log, q, ms),
	TP_CONDITION(log),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, ms)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->ms = ms;
	),
	TP_printk("%d,%d ms=%u", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->ms)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE cpq-trace
#include <trace/define_trace.h>

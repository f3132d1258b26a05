/* SPDX-License-Identifier: GPL-2.0-only */
/* What Split-Deadline decided and predicted. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sluice

#if !defined(SLUICE_DEADLINE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SLUICE_DEADLINE_TRACE_H

#include <linux/blkdev.h>
#include <linux/tracepoint.h>

/* An account's fsync has come; its deadline and the time for its dirty data, ns; is it held? */
TRACE_EVENT(deadline_fsync,
	TP_PROTO(struct request_queue *q, unsigned int account, bool held, u64 deadline, u64 data),
	TP_ARGS(q, account, held, deadline, data),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, account)
		__field(bool, held)
		__field(u64, deadline)
		__field(u64, data)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->account = account;
		__entry->held = held;
		__entry->deadline = deadline;
		__entry->data = data;
	),
	TP_printk("%d,%d account=%u held=%d deadline=%llu data=%llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->account, __entry->held, __entry->deadline,
		  __entry->data)
);

/* A read has come: its first sector, and its deadline, ns. */
TRACE_EVENT(deadline_read,
	TP_PROTO(struct request_queue *q, sector_t sector, u64 deadline),
	TP_ARGS(q, sector, deadline),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(sector_t, sector)
		__field(u64, deadline)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->sector = sector;
		__entry->deadline = deadline;
	),
	TP_printk("%d,%d sector=%llu deadline=%llu", MAJOR(__entry->dev), MINOR(__entry->dev),
		  (u64)__entry->sector, __entry->deadline)
);

/* An fsync is done: the time since it was let go, and its forecast, ns. */
TRACE_EVENT(deadline_done,
	TP_PROTO(struct request_queue *q, unsigned int account, u64 taken, u64 predicted),
	TP_ARGS(q, account, taken, predicted),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, account)
		__field(u64, taken)
		__field(u64, predicted)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->account = account;
		__entry->taken = taken;
		__entry->predicted = predicted;
	),
	TP_printk("%d,%d account=%u taken=%llu predicted=%llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->account, __entry->taken, __entry->predicted)
);

/* The device has flushed its cache: how long that took, and the load before it, ns. */
TRACE_EVENT(deadline_flush,
	TP_PROTO(struct request_queue *q, u64 taken, u64 load),
	TP_ARGS(q, taken, load),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, taken)
		__field(u64, load)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->taken = taken;
		__entry->load = load;
	),
	TP_printk("%d,%d taken=%llu load=%llu", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->taken, __entry->load)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE deadline-trace
#include <trace/define_trace.h>

/* SPDX-License-Identifier: GPL-2.0-only */
/* What AFQ decided.  Classes: 0 RT, 1 BE, 2 IDLE. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sluice

#if !defined(SLUICE_AFQ_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SLUICE_AFQ_TRACE_H

#include "kinds-trace.h"

#include <linux/blkdev.h>
#include <linux/tracepoint.h>

/* A request goes to the device, and is charged @cost normalised bytes; @id: the account's. */
TRACE_EVENT(afq_dispatch,
	TP_PROTO(struct request *rq, unsigned int id, unsigned int class, u64 cost),
	TP_ARGS(rq, id, class, cost),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(sector_t, sector)
		__field(unsigned int, sectors)
		__field(bool, write)
		__field(unsigned int, id)
		__field(unsigned int, class)
		__field(u64, cost)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(rq->q->disk);
		__entry->sector = blk_rq_pos(rq);
		__entry->sectors = blk_rq_sectors(rq);
		__entry->write = op_is_write(req_op(rq));
		__entry->id = id;
		__entry->class = class;
		__entry->cost = cost;
	),
	TP_printk("%d,%d %s %llu + %u id=%u class=%u cost=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->write ? "W" : "R",
		  (unsigned long long)__entry->sector, __entry->sectors,
		  __entry->id, __entry->class, __entry->cost)
);

/*
 * A call of account @id is held, or a held call is let go: its kind (enum split_kind), and how far
 * the account is ahead of the furthest-behind one, bytes.
 */
DECLARE_EVENT_CLASS(afq_call,
	TP_PROTO(struct request_queue *q, unsigned int id, unsigned int kind, s64 lead),
	TP_ARGS(q, id, kind, lead),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, id)
		__field(unsigned int, kind)
		__field(s64, lead)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->id = id;
		__entry->kind = kind;
		__entry->lead = lead;
	),
	TP_printk("%d,%d id=%u kind=%s lead=%lld", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->id,
		  __print_symbolic(__entry->kind, SPLIT_KIND_NAMES),
		  __entry->lead)
);

DEFINE_EVENT(afq_call, afq_hold,
	TP_PROTO(struct request_queue *q, unsigned int id, unsigned int kind, s64 lead),
	TP_ARGS(q, id, kind, lead)
);

DEFINE_EVENT(afq_call, afq_let_go,
	TP_PROTO(struct request_queue *q, unsigned int id, unsigned int kind, s64 lead),
	TP_ARGS(q, id, kind, lead)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE afq-trace
#include <trace/define_trace.h>

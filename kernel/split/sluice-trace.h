/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What sluice decided.  Ranks: 0-7 RT, 8-15 BE, 16 IDLE.  Processes are the accounts' ones; 0: the
 * account is a cgroup, or not known.  A held call that is killed or dropped doesn't go.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sluice

#if !defined(SLUICE_SLUICE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SLUICE_SLUICE_TRACE_H

#include "kinds-trace.h"

#include <linux/blkdev.h>
#include <linux/tracepoint.h>

/* A call, with its kind (enum split_kind), is held at its gate, as debugfs's split/held says. */
TRACE_EVENT(sluice_hold,
	TP_PROTO(struct request_queue *q, int pid, unsigned int rank, int kind,
		 const char *reason),
	TP_ARGS(q, pid, rank, kind, reason),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, pid)
		__field(unsigned int, rank)
		__field(int, kind)
		__array(char, reason, 8)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->pid = pid;
		__entry->rank = rank;
		__entry->kind = kind;
		strscpy(__entry->reason, reason, sizeof(__entry->reason));
	),
	TP_printk("%d,%d pid=%d rank=%u kind=%s reason=%s", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->pid, __entry->rank,
		  __print_symbolic(__entry->kind, SPLIT_KIND_NAMES),
		  __entry->reason)
);

/* A call that was held for @held_ms goes. */
TRACE_EVENT(sluice_let_go,
	TP_PROTO(struct request_queue *q, int pid, unsigned int rank, int kind,
		 unsigned int held_ms),
	TP_ARGS(q, pid, rank, kind, held_ms),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, pid)
		__field(unsigned int, rank)
		__field(int, kind)
		__field(unsigned int, held_ms)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->pid = pid;
		__entry->rank = rank;
		__entry->kind = kind;
		__entry->held_ms = held_ms;
	),
	TP_printk("%d,%d pid=%d rank=%u kind=%s held_ms=%u", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->pid, __entry->rank,
		  __print_symbolic(__entry->kind, SPLIT_KIND_NAMES),
		  __entry->held_ms)
);

/*
 * A request that @pid of @rank has caused goes before all reads, while @waiter, of a more urgent
 * rank, is inside the file system and may wait for it.
 */
TRACE_EVENT(sluice_inherit,
	TP_PROTO(struct request *rq, int pid, unsigned int rank, int waiter,
		 unsigned int waiter_rank),
	TP_ARGS(rq, pid, rank, waiter, waiter_rank),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(sector_t, sector)
		__field(unsigned int, bytes)
		__field(int, pid)
		__field(unsigned int, rank)
		__field(int, waiter)
		__field(unsigned int, waiter_rank)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(rq->q->disk);
		__entry->sector = blk_rq_pos(rq);
		__entry->bytes = blk_rq_bytes(rq);
		__entry->pid = pid;
		__entry->rank = rank;
		__entry->waiter = waiter;
		__entry->waiter_rank = waiter_rank;
	),
	TP_printk("%d,%d sector=%llu bytes=%u pid=%d rank=%u waiter=%d waiter_rank=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  (unsigned long long)__entry->sector, __entry->bytes, __entry->pid,
		  __entry->rank, __entry->waiter, __entry->waiter_rank)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE sluice-trace
#include <trace/define_trace.h>

/* SPDX-License-Identifier: GPL-2.0-only */
/* What Split-Token decided. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sluice

#if !defined(SLUICE_TOKEN_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SLUICE_TOKEN_TRACE_H

#include "kinds-trace.h"

#include <linux/blkdev.h>
#include <linux/tracepoint.h>

/*
 * A call, with its kind (enum split_kind), or a read (-1) has to wait for a cgroup's tokens; or a
 * waiting one goes.  @cgroup is the inode number of its directory, @tokens are normalised bytes,
 * below zero a debt.
 */
DECLARE_EVENT_CLASS(token_wait,
	TP_PROTO(struct request_queue *q, u64 cgroup, int kind, s64 tokens),
	TP_ARGS(q, cgroup, kind, tokens),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, cgroup)
		__field(int, kind)
		__field(s64, tokens)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(q->disk);
		__entry->cgroup = cgroup;
		__entry->kind = kind;
		__entry->tokens = tokens;
	),
	TP_printk("%d,%d cgroup=%llu kind=%s tokens=%lld", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->cgroup,
		  __print_symbolic(__entry->kind, SPLIT_KIND_NAMES),
		  __entry->tokens)
);

DEFINE_EVENT(token_wait, token_hold,
	TP_PROTO(struct request_queue *q, u64 cgroup, int kind, s64 tokens),
	TP_ARGS(q, cgroup, kind, tokens)
);

DEFINE_EVENT(token_wait, token_let_go,
	TP_PROTO(struct request_queue *q, u64 cgroup, int kind, s64 tokens),
	TP_ARGS(q, cgroup, kind, tokens)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE token-trace
#include <trace/define_trace.h>

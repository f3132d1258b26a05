// SPDX-License-Identifier: GPL-2.0-only
/*
 * mq-prio: I/O priorities that hold, for blk-mq
 *
 * A request's ioprio gives its rank, and ranks.c does the rest.
 *
 * Source of the idea: the mq-prio report (strict classes, one FIFO each, aging
 * as a bounded exception); docs/mq-prio.md has the model and the measurements.
 */
#include "ranks.h"

#include <linux/slab.h>

static void mqp_depth_updated(struct request_queue *q)
{
	sluice_may_limit_tags(q);
}

/* Called with the queue frozen. */
static int mqp_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct ranks *ranks = kzalloc_node(sizeof(*ranks), GFP_KERNEL, q->node);

	if (!ranks)
		return -ENOMEM;
	ranks_init(ranks, q);
	sluice_may_limit_tags(q);
	eq->elevator_data = ranks;
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	return 0;
}

/* Called with the queue frozen: every request has been finished. */
static void mqp_exit_sched(struct elevator_queue *eq)
{
	ranks_exit(eq->elevator_data);
	kfree(eq->elevator_data);
}

RQ_KNOB(ranks, low_share, 1, RANKS_LOW_SHARE_MAX)
RQ_KNOB(ranks, hold_ms, 0, RANKS_HOLD_MS_MAX)

static sluice_attr_t mqp_attrs[] = { RQ_KNOB_ATTR(low_share), RQ_KNOB_ATTR(hold_ms), __ATTR_NULL };

#ifdef CONFIG_BLK_DEBUG_FS
static const struct blk_mq_debugfs_attr mqp_debugfs_attrs[] = {
	{ "state", 0400, ranks_state_show },
	{},
};
#endif

SLUICE_LIMIT_DEPTH(mqp_limit_depth_op, ranks_limit_depth)
SLUICE_INIT_SCHED(mqp_init_sched_op, mqp_init_sched)
SLUICE_DEPTH_UPDATED(mqp_depth_updated_op, mqp_depth_updated)

static struct elevator_type mq_prio = {
	.ops = {
		.init_sched		= mqp_init_sched_op,
		.exit_sched		= mqp_exit_sched,
		.depth_updated		= mqp_depth_updated_op,
		.limit_depth		= mqp_limit_depth_op,
		.prepare_request	= ranks_prepare_request,
		.allow_merge		= ranks_allow_merge,
		.bio_merge		= ranks_bio_merge,
		.request_merge		= ranks_request_merge,
		.request_merged		= ranks_request_merged,
		.requests_merged	= ranks_requests_merged,
		.former_request		= elv_rb_former_request,
		.next_request		= elv_rb_latter_request,
		.insert_requests	= ranks_insert_requests,
		.has_work		= ranks_has_work,
		.dispatch_request	= ranks_dispatch_request,
		.finish_request		= ranks_finish_request,
	},
	.elevator_attrs = mqp_attrs,
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs = mqp_debugfs_attrs,
#endif
	.elevator_name = "mq-prio",
	.elevator_alias = "mq_prio",
	.elevator_owner = THIS_MODULE,
};

static int __init mqp_init(void)
{
	return elv_register(&mq_prio);
}

static void __exit mqp_exit(void)
{
	elv_unregister(&mq_prio);
}

module_init(mqp_init);
module_exit(mqp_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("I/O scheduler: strict I/O priorities with a minimum share for each");
MODULE_ALIAS("mq-prio-iosched");

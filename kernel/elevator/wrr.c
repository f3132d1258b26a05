// SPDX-License-Identifier: GPL-2.0-only
/*
 * wrr: keep tags back, and leave the rest to the drive
 *
 * An NVMe drive with weighted round robin chooses among the requests that it has been given.
 * Requests that wait for a tag aren't among them.  If a backlog of idle-class requests has all
 * tags, real-time requests wait behind it, whatever the drive would do.  This elevator passes
 * requests on as they come, and limits the classes that nvme-wrr maps to lower levels by default to
 * a part of the tags:
 *
 *	real-time		all
 *	best effort 0 to 3	seven eighths
 *	best effort 4 to 7	three quarters
 *	idle			half
 *
 * So each class finds some tags that no lower class may take.  Requests are not sorted, and merged
 * only in the submitter's plug.  nr_requests must be no more than the drive takes at once:
 * otherwise requests wait here, first come, first served.
 *
 * Locking: each hardware queue's list has its own lock, taken from any context, never with another.
 */
#include "request-set.h"

#include <linux/slab.h>

/* Parts of the tags are in eighths. */
#define WRR_PARTS 8
#define WRR_HIGH 7
#define WRR_MEDIUM 6
#define WRR_LOW 4

/**
 * struct wrr_hctx - a hardware queue's
 * @lock: guards @waiting
 * @waiting: requests, in order
 */
struct wrr_hctx {
	spinlock_t lock; /* guards waiting */
	struct list_head waiting;
};

static bool wrr_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct wrr_hctx *wrr = hctx->sched_data;

	return !rq_list_is_empty(&wrr->waiting);
}

static struct request *wrr_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct wrr_hctx *wrr = hctx->sched_data;
	struct request *rq;
	unsigned long flags;

	spin_lock_irqsave(&wrr->lock, flags);
	rq = rq_take_first(&wrr->waiting);
	spin_unlock_irqrestore(&wrr->lock, flags);
	return rq;
}

static void wrr_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				sluice_insert_t ins)
{
	struct wrr_hctx *wrr = hctx->sched_data;
	struct request *rq;
	unsigned long flags;

	list_for_each_entry(rq, list, queuelist)
		trace_block_rq_insert(rq);
	spin_lock_irqsave(&wrr->lock, flags);
	if (sluice_insert_at_head(ins))
		list_splice_init(list, &wrr->waiting);
	else
		list_splice_tail_init(list, &wrr->waiting);
	spin_unlock_irqrestore(&wrr->lock, flags);
}

/* Of the tags, what a task's class may take. */
static unsigned int wrr_part(unsigned int ioprio)
{
	switch (rq_class_of(ioprio)) {
	case RQ_RT:
		return WRR_PARTS;
	case RQ_IDLE:
		return WRR_LOW;
	default:
		return rq_level(ioprio) < IOPRIO_BE_NORM ? WRR_HIGH : WRR_MEDIUM;
	}
}

static void wrr_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	unsigned int part = wrr_part(get_current_ioprio());

	if (part < WRR_PARTS)
		sluice_limit_tags(data, sluice_nr_tags(data) * part / WRR_PARTS);
}

/* Required of every elevator. */
static void wrr_finish_request(struct request *rq)
{
}

/* Life of the scheduler: with the queue frozen, every request has been finished. */

static int wrr_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	sluice_may_limit_tags(q);
	return 0;
}

static void wrr_exit_sched(struct elevator_queue *eq)
{
}

static int wrr_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	struct wrr_hctx *wrr = kzalloc_node(sizeof(*wrr), GFP_KERNEL, hctx->numa_node);

	if (!wrr)
		return -ENOMEM;
	spin_lock_init(&wrr->lock);
	INIT_LIST_HEAD(&wrr->waiting);
	hctx->sched_data = wrr;
	return 0;
}

static void wrr_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	struct wrr_hctx *wrr = hctx->sched_data;

	WARN_ON_ONCE(!list_empty(&wrr->waiting));
	kfree(wrr);
}

SLUICE_LIMIT_DEPTH(wrr_limit_depth_op, wrr_limit_depth)
SLUICE_INIT_SCHED(wrr_init_sched_op, wrr_init_sched)
SLUICE_DEPTH_UPDATED(wrr_depth_updated, sluice_may_limit_tags)

static struct elevator_type wrr_type = {
	.ops = {
		.init_sched		= wrr_init_sched_op,
		.exit_sched		= wrr_exit_sched,
		.init_hctx		= wrr_init_hctx,
		.exit_hctx		= wrr_exit_hctx,
		.depth_updated		= wrr_depth_updated,
		.limit_depth		= wrr_limit_depth_op,
		.insert_requests	= wrr_insert_requests,
		.has_work		= wrr_has_work,
		.dispatch_request	= wrr_dispatch_request,
		.finish_request		= wrr_finish_request,
	},
	.elevator_name = "wrr",
	.elevator_owner = THIS_MODULE,
};

static int __init wrr_init(void)
{
	return elv_register(&wrr_type);
}

static void __exit wrr_exit(void)
{
	elv_unregister(&wrr_type);
}

module_init(wrr_init);
module_exit(wrr_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("I/O scheduler: tags by priority class, for NVMe weighted round robin");
MODULE_ALIAS("wrr-iosched");

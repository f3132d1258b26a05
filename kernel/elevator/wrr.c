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
#include "stall.h"

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
 * @went: jiffies when one was last dispatched; read without the lock
 */
struct wrr_hctx {
	spinlock_t lock; /* guards waiting */
	struct list_head waiting;
	unsigned long went;
};

/* The elevator's data are this alone. */
static struct stall *wrr_stall(const struct blk_mq_hw_ctx *hctx)
{
	return hctx->queue->elevator->elevator_data;
}

static bool wrr_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct wrr_hctx *wrr = hctx->sched_data;

	return stall_is_fifo(wrr_stall(hctx)) ? stall_has_work(wrr_stall(hctx))
					      : !rq_list_is_empty(&wrr->waiting);
}

static struct request *wrr_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct wrr_hctx *wrr = hctx->sched_data;
	struct request *rq;
	unsigned long flags;

	spin_lock_irqsave(&wrr->lock, flags);
	rq = stall_is_fifo(wrr_stall(hctx)) ? stall_next(wrr_stall(hctx))
					    : rq_take_marked(&wrr->waiting);
	if (rq)
		WRITE_ONCE(wrr->went, jiffies);
	spin_unlock_irqrestore(&wrr->lock, flags);
	return rq;
}

static void wrr_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				sluice_insert_t ins)
{
	struct wrr_hctx *wrr = hctx->sched_data;
	unsigned long flags;

	spin_lock_irqsave(&wrr->lock, flags);
	if (stall_is_fifo(wrr_stall(hctx)))
		stall_insert(wrr_stall(hctx), list, ins);
	else
		rq_add_marked(list, ins, &wrr->waiting);
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

/* Without it Linux 6.1 leaves every request out of the scheduler's control. */
static void wrr_prepare_request(struct request *rq)
{
}

/* Required of every elevator. */
static void wrr_finish_request(struct request *rq)
{
}

/* Life of the scheduler: with the queue frozen, every request has been finished. */

static void wrr_abandon(struct stall *stall)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long flags, i;

	queue_for_each_hw_ctx(stall->q, hctx, i) {
		struct wrr_hctx *wrr = hctx->sched_data;

		spin_lock_irqsave(&wrr->lock, flags);
		stall_begin_fifo(stall, &wrr->waiting);
		spin_unlock_irqrestore(&wrr->lock, flags);
	}
}

static unsigned long wrr_served(struct stall *stall, const struct request *rq)
{
	const struct wrr_hctx *wrr = rq->mq_hctx->sched_data;

	return READ_ONCE(wrr->went);
}

static const struct stall_ops wrr_stall_ops = { .abandon = wrr_abandon, .served = wrr_served };

static int wrr_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct stall *stall = kzalloc_node(sizeof(*stall), GFP_KERNEL, q->node);

	if (!stall)
		return -ENOMEM;
	sluice_may_limit_tags(q);
	stall_init(stall, q, eq, &wrr_stall_ops, NULL);
	eq->elevator_data = stall;
	return 0;
}

static void wrr_exit_sched(struct elevator_queue *eq)
{
	stall_exit(eq->elevator_data);
	kfree(eq->elevator_data);
}

static int wrr_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	struct wrr_hctx *wrr = kzalloc_node(sizeof(*wrr), GFP_KERNEL, hctx->numa_node);

	if (!wrr)
		return -ENOMEM;
	spin_lock_init(&wrr->lock);
	INIT_LIST_HEAD(&wrr->waiting);
	wrr->went = jiffies;
	hctx->sched_data = wrr;
	return 0;
}

static void wrr_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	struct wrr_hctx *wrr = hctx->sched_data;

	WARN_ON_ONCE(!list_empty(&wrr->waiting));
	kfree(wrr);
}

static sluice_attr_t wrr_attrs[] = { RQ_KNOB_ATTR(stall_s), __ATTR_RO(stalls), __ATTR_NULL };

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
		.prepare_request	= wrr_prepare_request,
		.insert_requests	= wrr_insert_requests,
		.has_work		= wrr_has_work,
		.dispatch_request	= wrr_dispatch_request,
		.finish_request		= wrr_finish_request,
	},
	.elevator_attrs = wrr_attrs,
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

// SPDX-License-Identifier: GPL-2.0-only
/*
 * split-noop: a policy that decides nothing
 *
 * Requests are dispatched first come, first served, and every call is admitted at once: this is the
 * cost of the split framework by itself.  For tests and measurements there are knobs, each of them
 * a set of kinds of calls, as bits in the order of enum split_kind.
 *
 *	gates	these gates are closed
 *	hold	calls of these kinds are held at a closed gate, until the kind is taken out of
 *		the set again
 *
 * "forget" 1 leaves held calls unanswered, as a faulty policy would.
 *
 * split-fifo is the same elevator without the framework, to compare with: the paper's Figure 9
 * compares no-op schedulers at both.
 */
#include "../elevator/stall.h"
#include "split.h"

#include <linux/slab.h>

/* Interval at which held calls are told that they are held on purpose. */
#define NOOP_ANSWER_JIFFIES msecs_to_jiffies(SPLIT_ANSWER_MS / 4)

/**
 * struct noop_data - one queue's scheduler; split-fifo uses only @lock and @waiting
 * @stall: the watch on the elevator
 * @lock: guards @waiting and @held; taken from any context
 * @waiting: requests, in order
 * @held: calls, in order
 * @device: for split.h's functions
 * @went: jiffies when a request was last dispatched; read without the lock
 * @answer: tells held calls that they are held on purpose
 * @gates: set of kinds; knobs are read and written without the lock
 * @hold: set of kinds
 * @forget: 0 or 1
 */
struct noop_data {
	struct stall stall;
	spinlock_t lock; /* guards waiting and held */
	struct list_head waiting;
	struct list_head held;
	struct split_device *device;
	unsigned long went;
	struct timer_list answer;
	unsigned int gates;
	unsigned int hold;
	unsigned int forget;
};

/* Requests */

static bool noop_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct noop_data *noop = hctx->queue->elevator->elevator_data;

	return stall_is_fifo(&noop->stall) ? stall_has_work(&noop->stall)
					   : !rq_list_is_empty(&noop->waiting);
}

static struct request *noop_take(struct noop_data *noop)
{
	struct request *rq = rq_take_marked(&noop->waiting);

	if (!rq)
		return NULL;
	WRITE_ONCE(noop->went, jiffies);
	if (noop->device)
		split_dispatch(noop->device, rq);
	return rq;
}

static struct request *noop_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct noop_data *noop = hctx->queue->elevator->elevator_data;
	struct request *rq;
	unsigned long flags;

	spin_lock_irqsave(&noop->lock, flags);
	rq = stall_is_fifo(&noop->stall) ? stall_next(&noop->stall) : noop_take(noop);
	spin_unlock_irqrestore(&noop->lock, flags);
	return rq;
}

static void noop_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				 sluice_insert_t ins)
{
	struct noop_data *noop = hctx->queue->elevator->elevator_data;
	struct request *rq;
	unsigned long flags;

	list_for_each_entry(rq, list, queuelist)
		if (noop->device)
			split_insert(noop->device, rq);
	spin_lock_irqsave(&noop->lock, flags);
	if (stall_is_fifo(&noop->stall))
		stall_insert(&noop->stall, list, ins);
	else
		rq_add_marked(list, ins, &noop->waiting);
	spin_unlock_irqrestore(&noop->lock, flags);
}

/* Calls */

static bool noop_enter(void *data, struct split_call *call)
{
	struct noop_data *noop = data;
	bool go;

	spin_lock_irq(&noop->lock);
	go = !(READ_ONCE(noop->hold) & BIT(call->kind));
	if (!go && !call->nowait) {
		split_hold(call, "hold");
		list_add_tail(&call->node, &noop->held);
	}
	spin_unlock_irq(&noop->lock);
	return go;
}

static void noop_drop(void *data, struct split_call *call)
{
	struct noop_data *noop = data;

	spin_lock_irq(&noop->lock);
	list_del_init(&call->node);
	spin_unlock_irq(&noop->lock);
}

static const struct split_ops noop_ops = {
	.name = "split-noop",
	.enter = noop_enter,
	.drop = noop_drop,
};

static void noop_answer(struct timer_list *timer)
{
	struct noop_data *noop = container_of(timer, struct noop_data, answer);
	struct split_call *call;
	unsigned long flags;

	spin_lock_irqsave(&noop->lock, flags);
	if (!READ_ONCE(noop->forget))
		list_for_each_entry(call, &noop->held, node)
			split_hold(call, "hold");
	spin_unlock_irqrestore(&noop->lock, flags);
	mod_timer(timer, jiffies + NOOP_ANSWER_JIFFIES);
}

/* Lets calls go that are not to be held any more. */
static void noop_let_go(struct noop_data *noop)
{
	struct split_call *call, *next;

	spin_lock_irq(&noop->lock);
	list_for_each_entry_safe(call, next, &noop->held, node) {
		if (READ_ONCE(noop->hold) & BIT(call->kind))
			continue;
		list_del_init(&call->node);
		split_let_go(call);
	}
	spin_unlock_irq(&noop->lock);
}

/* Life of the scheduler */

static void noop_abandon(struct stall *stall)
{
	struct noop_data *noop = container_of(stall, struct noop_data, stall);
	unsigned long flags;

	spin_lock_irqsave(&noop->lock, flags);
	stall_begin_fifo(stall, &noop->waiting);
	spin_unlock_irqrestore(&noop->lock, flags);
	if (!noop->device)
		return;
	WRITE_ONCE(noop->hold, SPLIT_NONE);
	split_close(noop->device, SPLIT_NONE);
	noop_let_go(noop);
}

static unsigned long noop_served(struct stall *stall, const struct request *rq)
{
	return READ_ONCE(container_of(stall, struct noop_data, stall)->went);
}

static const struct stall_ops noop_stall_ops = { .abandon = noop_abandon, .served = noop_served };

/* Called with the queue frozen. */
static int fifo_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct noop_data *noop = kzalloc_node(sizeof(*noop), GFP_KERNEL, q->node);

	if (!noop)
		return -ENOMEM;
	spin_lock_init(&noop->lock);
	INIT_LIST_HEAD(&noop->waiting);
	INIT_LIST_HEAD(&noop->held);
	noop->went = jiffies;
	stall_init(&noop->stall, q, eq, &noop_stall_ops, &noop->waiting);
	eq->elevator_data = noop;
	return 0;
}

/* Without it Linux 6.1 leaves every request out of the scheduler's control. */
static void fifo_prepare_request(struct request *rq)
{
}

/* Required of every elevator. */
static void fifo_finish_request(struct request *rq)
{
}

/* Called with the queue frozen: every request has been finished. */
static void fifo_exit_sched(struct elevator_queue *eq)
{
	struct noop_data *noop = eq->elevator_data;

	stall_exit(&noop->stall);
	WARN_ON_ONCE(!list_empty(&noop->waiting) || !list_empty(&noop->held));
	kfree(noop);
}

static int noop_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct noop_data *noop;
	int err = fifo_init_sched(q, eq);

	if (err)
		return err;
	noop = eq->elevator_data;
	noop->device = split_attach(q, &noop_ops, noop);
	if (IS_ERR(noop->device)) {
		err = PTR_ERR(noop->device);
		stall_exit(&noop->stall);
		kfree(noop);
		return err;
	}
	timer_setup(&noop->answer, noop_answer, 0);
	mod_timer(&noop->answer, jiffies + NOOP_ANSWER_JIFFIES);
	return 0;
}

static void noop_exit_sched(struct elevator_queue *eq)
{
	struct noop_data *noop = eq->elevator_data;

	timer_shutdown_sync(&noop->answer);
	split_detach(noop->device);
	fifo_exit_sched(eq);
}

/* Knobs */

RQ_KNOB(noop_data, forget, 0, 1)

static ssize_t gates_show(struct elevator_queue *eq, char *page)
{
	return rq_knob_show(eq, offsetof(struct noop_data, gates), page);
}

static ssize_t gates_store(struct elevator_queue *eq, const char *page, size_t count)
{
	struct noop_data *noop = eq->elevator_data;
	ssize_t ret = rq_knob_store(eq, offsetof(struct noop_data, gates), SPLIT_NONE, SPLIT_ALL,
				    page, count);

	if (ret > 0)
		split_close(noop->device, READ_ONCE(noop->gates));
	return ret;
}

static ssize_t hold_show(struct elevator_queue *eq, char *page)
{
	return rq_knob_show(eq, offsetof(struct noop_data, hold), page);
}

static ssize_t hold_store(struct elevator_queue *eq, const char *page, size_t count)
{
	ssize_t ret = rq_knob_store(eq, offsetof(struct noop_data, hold), SPLIT_NONE, SPLIT_ALL,
				    page, count);

	if (ret > 0)
		noop_let_go(eq->elevator_data);
	return ret;
}

static sluice_attr_t noop_attrs[] = {
	RQ_KNOB_ATTR(gates),   RQ_KNOB_ATTR(hold), RQ_KNOB_ATTR(forget),
	RQ_KNOB_ATTR(stall_s), __ATTR_RO(stalls),  __ATTR_NULL,
};

static sluice_attr_t fifo_attrs[] = { RQ_KNOB_ATTR(stall_s), __ATTR_RO(stalls), __ATTR_NULL };

SLUICE_INIT_SCHED(noop_init_sched_op, noop_init_sched)
SLUICE_INIT_SCHED(fifo_init_sched_op, fifo_init_sched)

static struct elevator_type noop_type = {
	.ops = {
		.init_sched		= noop_init_sched_op,
		.exit_sched		= noop_exit_sched,
		.insert_requests	= noop_insert_requests,
		.has_work		= noop_has_work,
		.dispatch_request	= noop_dispatch_request,
		.allow_merge		= split_allow_merge,
		.prepare_request	= split_prepare,
		.finish_request		= split_finish,
	},
	.elevator_attrs = noop_attrs,
	.elevator_name = "split-noop",
	.elevator_owner = THIS_MODULE,
};

static struct elevator_type fifo_type = {
	.ops = {
		.init_sched		= fifo_init_sched_op,
		.exit_sched		= fifo_exit_sched,
		.insert_requests	= noop_insert_requests,
		.has_work		= noop_has_work,
		.dispatch_request	= noop_dispatch_request,
		.prepare_request	= fifo_prepare_request,
		.finish_request		= fifo_finish_request,
	},
	.elevator_attrs = fifo_attrs,
	.elevator_name = "split-fifo",
	.elevator_owner = THIS_MODULE,
};

static int __init noop_init(void)
{
	int err = elv_register(&noop_type);

	if (err)
		return err;
	err = elv_register(&fifo_type);
	if (err)
		elv_unregister(&noop_type);
	return err;
}

static void __exit noop_exit(void)
{
	elv_unregister(&fifo_type);
	elv_unregister(&noop_type);
}

module_init(noop_init);
module_exit(noop_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("I/O scheduler: split-level framework without a policy, for its cost");
MODULE_ALIAS("split-noop-iosched");
MODULE_ALIAS("split-fifo-iosched");

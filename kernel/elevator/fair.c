// SPDX-License-Identifier: GPL-2.0-only
/*
 * Accounts, and the wait before the tags.  See fair.h.
 *
 * Accounts live in a table of fixed size.  A place is free when no request and no task holds it.
 * So nothing is allocated or freed for a process, however many there are, and a later owner of a
 * place inherits nothing.  An account is found without a lock: its name, a number, never changes
 * while it is held, and a hold counts only if the name is still the same afterwards.  A name whose
 * places are all held shares one account with the others that found none.
 *
 * A request is charged when it gets its tag and discharged when the elevator's finish_request()
 * runs, whatever happens in between.  The tag is given back at the same time, with one exception.
 * Since 6.5, a write that a flush follows (FUA on a device without it) is discharged before that
 * flush: until the flush has ended it has a tag that isn't counted.
 *
 * One hardware queue's tags may be used up while others have plenty.  So each hardware queue has
 * its own accounts and its own limits.  Where the driver shares its tags among the queues there is
 * one set of accounts for all.
 */
#include "fair.h"
#include "cause.h"
#include "request-set.h"

#include <linux/atomic.h>
#include <linux/blk-cgroup.h>
#include <linux/cgroup.h>
#include <linux/hash.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/wait.h>

/* Places for each name; there are two to the power of FAIR_SET_BITS sets of them. */
#define FAIR_WAYS 8
#define FAIR_SET_BITS 5

/* By the paper, two accounts of the same weight may each have this part of the tags, per cent. */
#define FAIR_RATIO 50
#define FAIR_RATIO_OFF 100

/* No account is limited while less than this part of all tags is in use. */
#define FAIR_PLENTY_PART 4U

/* An account that needs less than this part of the tags finds one beside any number of writes. */
#define FAIR_FEW_PART 16

/*
 * The last tag is kept for tasks that wait in no line, if there are more tags than this: of two,
 * one alone would leave nothing to order.
 */
#define FAIR_RESERVE_ABOVE 2

/* Accounts considered for the next tag: those behind them get their turn later. */
#define FAIR_LOOKS 16

/* A line that hasn't moved for so long is let in, whatever holds the tags unseen by this file. */
#define FAIR_STARVATION HZ

/* Kernel threads whose last bio's cause is remembered, by device: they change the CPU. */
#define FAIR_SEEN 16

/**
 * struct fair_account - what one cgroup or thread group has and wants
 * @name: changes only while @holds is negative
 * @holds: requests with a tag plus waiting tasks; negative while the place changes hands
 * @waiting: tasks that wait in @wait, under the lock of struct fair
 * @weight: part of @name
 * @tgid: for people to read
 * @moved: jiffies when the line in @wait began or a task was last let in
 * @node: in the list of accounts with waiting tasks
 * @wait: tasks that want a tag, first come, first served
 */
struct fair_account {
	u64 name;
	atomic_t holds;
	unsigned int waiting;
	unsigned int weight;
	pid_t tgid;
	unsigned long moved;
	struct list_head node;
	wait_queue_head_t wait;
};

/* The cause of a kernel thread's last bio: it asks for a tag next, without saying for which bio. */
struct fair_seen {
	struct task_struct *task;
	u64 name;
};

/**
 * struct fair_tags - the tags of one hardware queue, or of all that share theirs
 * @used: tags that accounts have; this and what follows until @lock is read for each
 *	  request, and some of it written
 * @active: sum of the weights of accounts with a hold
 * @waiters: tasks that wait
 * @total: scheduler tags; 0 until fair_limit() has counted them again
 * @ratio: the knob: each of two accounts of the same weight may have this part of the
 *	   tags, in per cent; 100: no limit
 * @lock: guards @waiting and every account's waiting and node
 * @waiting: accounts with waiting tasks; the one that got a tag last is last
 * @others: shared account of the names that found no place
 * @exempt: account, without a weight, of tasks that are exempt from limits
 * @accounts: all places, by set
 */
struct fair_tags {
	atomic_t used ____cacheline_aligned_in_smp;
	atomic_t active;
	atomic_t waiters;
	unsigned int total;
	const unsigned int *ratio;
	spinlock_t lock ____cacheline_aligned_in_smp; /* guards waiting; see above */
	struct list_head waiting;
	struct fair_account others;
	struct fair_account exempt;
	struct fair_account accounts[FAIR_WAYS << FAIR_SET_BITS];
};

/**
 * struct fair - a device's tags and the accounts that want them
 * @ratio: as in struct fair_tags
 * @seen: of kernel threads, by task
 * @parts: number of @tags
 * @tags: by hardware queue, or one for all
 */
struct fair {
	const unsigned int *ratio;
	struct fair_seen seen[FAIR_SEEN];
	unsigned int parts;
	struct fair_tags tags[];
};

static struct fair_tags *fair_tags_of(struct fair *fair, const struct blk_mq_hw_ctx *hctx)
{
	return &fair->tags[fair->parts > 1 ? hctx->queue_num : 0];
}

/* Causes */

static struct fair_seen *fair_seen_by_current(struct fair *fair)
{
	return &fair->seen[hash_ptr(current, ilog2(FAIR_SEEN))];
}

/* The cause of a kernel thread's bio: the cgroup that dirtied it, or all such threads together. */
static u64 fair_bio_cause(struct bio *bio)
{
	u64 name;

	rcu_read_lock();
	name = cause_of_css(bio_blkcg_css(bio));
	rcu_read_unlock();
	return name;
}

/*
 * The cause of the bio that the current kernel thread queues.  A large bio is queued in parts, of
 * which bio_merge sees only the last; until then the rest waits in the task's list.  Otherwise it
 * is the cause of the bio that the thread brought last.
 */
static noinline u64 fair_kernel_cause(struct fair *fair)
{
	struct bio *rest = current->bio_list ? current->bio_list->tail : NULL;
	struct fair_seen *seen = fair_seen_by_current(fair);
	u64 name;

	if (rest)
		return fair_bio_cause(rest);
	/* The name isn't newer than the task that is read next. */
	name = smp_load_acquire(&seen->name);
	return READ_ONCE(seen->task) == current ? name : CAUSE_KERNEL;
}

/* The cause of what the current task is about to queue. */
static __always_inline u64 fair_cause(struct fair *fair)
{
	if (unlikely(current->flags & PF_KTHREAD))
		return fair_kernel_cause(fair);
	return cause_of_task();
}

/**
 * fair_see() - remember the cause of a bio that a kernel thread is about to queue
 * @fair: the device's
 * @bio: written back, as a rule
 *
 * What a kernel thread writes is charged to the cgroup that dirtied it.  Without such a cgroup it
 * is charged to all kernel threads together.
 */
void fair_see(struct fair *fair, struct bio *bio)
{
	struct fair_seen *seen;
	u64 name;

	if (likely(!(current->flags & PF_KTHREAD)))
		return;
	name = fair_bio_cause(bio);
	seen = fair_seen_by_current(fair);
	WRITE_ONCE(seen->task, current);
	/* A reader that sees the name sees the task that it belongs to. */
	smp_store_release(&seen->name, name);
}

/* Accounts */

static struct fair_account *fair_set(struct fair_tags *tags, u64 name)
{
	return &tags->accounts[hash_64(name, FAIR_SET_BITS) * FAIR_WAYS];
}

/* After the last hold the place may change hands at once, to an account of another weight. */
static __always_inline void fair_drop(struct fair_tags *tags, struct fair_account *account)
{
	unsigned int weight = account->weight;

	if (atomic_dec_and_test(&account->holds))
		atomic_sub(weight, &tags->active);
}

/* Holds a place that has that name, if it still has it. */
static __always_inline bool fair_hold_named(struct fair_tags *tags, struct fair_account *account,
					    u64 name)
{
	int holds = atomic_read(&account->holds);

	do {
		if (holds < 0)
			return false;
	} while (!atomic_try_cmpxchg(&account->holds, &holds, holds + 1));
	if (!holds)
		atomic_add(account->weight, &tags->active);
	if (READ_ONCE(account->name) == name)
		return true;
	fair_drop(tags, account);
	return false;
}

/* Takes a place that has no hold. */
static bool fair_take(struct fair_tags *tags, struct fair_account *account, u64 name)
{
	if (atomic_cmpxchg(&account->holds, 0, -1))
		return false;
	WRITE_ONCE(account->name, name);
	account->weight = cause_weight(name);
	account->tgid = name & CAUSE_CGROUP || name == CAUSE_KERNEL ? 0 : current->tgid;
	atomic_add(account->weight, &tags->active);
	atomic_set_release(&account->holds, 1);
	return true;
}

static noinline struct fair_account *fair_hold_any(struct fair_tags *tags, u64 name)
{
	struct fair_account *set = fair_set(tags, name);
	unsigned int i;

	for (i = 0; i < FAIR_WAYS; i++)
		if (READ_ONCE(set[i].name) == name && fair_hold_named(tags, &set[i], name))
			return &set[i];
	for (i = 0; i < FAIR_WAYS; i++)
		if (fair_take(tags, &set[i], name))
			return &set[i];
	fair_hold_named(tags, &tags->others, 0);
	return &tags->others;
}

/* The account of that name, with one more hold: for a request or a waiting task. */
static __always_inline struct fair_account *fair_hold(struct fair_tags *tags, u64 name)
{
	struct fair_account *first = fair_set(tags, name);

	if (likely(READ_ONCE(first->name) == name && fair_hold_named(tags, first, name)))
		return first;
	return fair_hold_any(tags, name);
}

/* The wait before the tags */

/* Requests with a tag. */
static unsigned int fair_used(const struct fair_account *account)
{
	return max(atomic_read(&account->holds) - (int)READ_ONCE(account->waiting), 0);
}

/*
 * Whether there is a tag for the line's tasks, besides @more.  When a request ends, the line is
 * woken before the tasks that wait for its tag.  Without one tag in reserve, a task that is exempt
 * from the line would lose each tag to the line.
 */
static __always_inline bool fair_free(const struct fair_tags *tags, unsigned int more)
{
	unsigned int total = READ_ONCE(tags->total);

	return atomic_read(&tags->used) + more + (total > FAIR_RESERVE_ABOVE) < total;
}

/*
 * Whether an account may have one more tag: there is one, and the account has less than its part
 * or no other account has or wants any.
 */
static __always_inline bool fair_room(const struct fair_tags *tags,
				      const struct fair_account *account)
{
	unsigned int active = atomic_read(&tags->active), total = READ_ONCE(tags->total), used;

	if (!fair_free(tags, 0))
		return false;
	if (active <= account->weight)
		return true;
	used = fair_used(account);
	return !used || (u64)used * FAIR_RATIO * active <
				(u64)total * READ_ONCE(*tags->ratio) * account->weight;
}

/* Wakes the longest-waiting task of the account with the fewest tags for its weight. */
static void fair_wake(struct fair_tags *tags)
{
	struct fair_account *account, *best = NULL;
	unsigned int looks = FAIR_LOOKS;
	unsigned long flags;

	spin_lock_irqsave(&tags->lock, flags);
	list_for_each_entry(account, &tags->waiting, node) {
		if (!looks--)
			break;
		if (fair_room(tags, account) &&
		    (!best || (u64)fair_used(account) * best->weight <
				      (u64)fair_used(best) * account->weight))
			best = account;
	}
	if (best) {
		list_move_tail(&best->node, &tags->waiting);
		wake_up(&best->wait);
	}
	spin_unlock_irqrestore(&tags->lock, flags);
}

static void fair_enter_line(struct fair_tags *tags, struct fair_account *account)
{
	atomic_inc(&tags->waiters);
	spin_lock_irq(&tags->lock);
	if (!account->waiting++) {
		list_add_tail(&account->node, &tags->waiting);
		WRITE_ONCE(account->moved, jiffies);
	}
	spin_unlock_irq(&tags->lock);
}

static void fair_leave_line(struct fair_tags *tags, struct fair_account *account)
{
	spin_lock_irq(&tags->lock);
	if (!--account->waiting)
		list_del(&account->node);
	spin_unlock_irq(&tags->lock);
	atomic_dec(&tags->waiters);
}

/*
 * Waits until the account may have a tag, or until no task of it has been let in for
 * FAIR_STARVATION.  A tag that comes free wakes one task, so a task that is let in wakes the next
 * one if there is room for both.
 */
static void fair_wait(struct fair_tags *tags, struct fair_account *account)
{
	DEFINE_WAIT_FUNC(wait, default_wake_function);
	long left;

	might_sleep();
	fair_enter_line(tags, account);
	for (;;) {
		prepare_to_wait_exclusive(&account->wait, &wait, TASK_UNINTERRUPTIBLE);
		left = READ_ONCE(account->moved) + FAIR_STARVATION - jiffies;
		if (left <= 0)
			break;
		if (fair_room(tags, account)) {
			WRITE_ONCE(account->moved, jiffies);
			break;
		}
		io_schedule_timeout(left);
	}
	finish_wait(&account->wait, &wait);
	fair_leave_line(tags, account);
	if (atomic_read(&tags->waiters) && fair_free(tags, 1))
		fair_wake(tags);
}

static __always_inline bool fair_off(const struct fair *fair)
{
	return READ_ONCE(*fair->ratio) == FAIR_RATIO_OFF;
}

/* RT is exempt, and so is memory reclaim: it must not wait for what may wait for memory. */
static __always_inline bool fair_exempt(void)
{
	const struct io_context *context = current->io_context;

	return (current->flags & PF_MEMALLOC) || rt_task(current) ||
	       (context && IOPRIO_PRIO_CLASS(context->ioprio) == IOPRIO_CLASS_RT);
}

/* Whether an account may have a tag now and has no waiting task. */
static __always_inline bool fair_may_pass(const struct fair_tags *tags,
					  const struct fair_account *account)
{
	return !READ_ONCE(account->waiting) && fair_room(tags, account);
}

/*
 * Whether an account may exceed its part for an asynchronous request, since the others need few
 * tags.  Otherwise writeback would wait, and be woken, for each tag of its own that comes free,
 * beside a reader that needs one.
 */
static bool fair_may_exceed(const struct fair_tags *tags, const struct fair_account *account)
{
	unsigned int total = READ_ONCE(tags->total), few = total / FAIR_FEW_PART;
	int used = atomic_read(&tags->used);
	int others = used + atomic_read(&tags->waiters) - atomic_read(&account->holds);

	return !READ_ONCE(account->waiting) && others < (int)few && used + few < total;
}

/* Whether so many tags are free that the request's account doesn't matter. */
static __always_inline bool fair_plenty(const struct fair_tags *tags)
{
	return atomic_read(&tags->used) < READ_ONCE(tags->total) / FAIR_PLENTY_PART &&
	       !atomic_read(&tags->waiters);
}

/* The rest of fair_limit(), if its first look didn't find the account or found no room. */
static noinline unsigned long fair_limit_slow(struct fair_tags *tags, u64 name, blk_opf_t opf,
					      struct blk_mq_alloc_data *data)
{
	struct fair_account *account = fair_hold_any(tags, name);
	unsigned long began = jiffies;

	WRITE_ONCE(tags->total, sluice_nr_tags(data));
	if (!fair_may_pass(tags, account) && (op_is_sync(opf) || !fair_may_exceed(tags, account))) {
		/* Set for a bio that must not wait, and by dm-multipath, which asks under RCU. */
		if (data->flags & BLK_MQ_REQ_NOWAIT)
			sluice_limit_tags(data, 1);
		else
			fair_wait(tags, account);
	}
	fair_drop(tags, account);
	return jiffies - began;
}

/**
 * fair_limit() - let the current task ask for a tag when its account may have one
 * @fair: the device's
 * @opf: operation and flags of what it wants the tag for
 * @data: as limit_depth() got it
 *
 * Sleeps until the account may have a tag, or until no task of it has been let in for a second.
 * A request that must not wait doesn't sleep.  It gets a tag only if nearly all are free, and
 * otherwise fails, so that its task comes back to wait.  What other tasks may wait for
 * (rq_blocks_others()) is charged, but never held.
 *
 * Return: jiffies that it waited.
 */
unsigned long fair_limit(struct fair *fair, blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct fair_tags *tags = fair_tags_of(fair, sluice_hctx(data));
	struct fair_account *first;
	u64 name;

	if (fair_plenty(tags))
		return 0;
	name = fair_cause(fair);
	first = fair_set(tags, name);
	if (likely(READ_ONCE(first->name) == name && fair_may_pass(tags, first)))
		return 0;
	if (fair_off(fair) || fair_exempt() || rq_blocks_others(opf))
		return 0;
	return fair_limit_slow(tags, name, opf, data);
}

/**
 * fair_depth_changed() - the number of scheduler tags may have changed
 * @fair: the device's
 */
void fair_depth_changed(struct fair *fair)
{
	unsigned int i;

	for (i = 0; i < fair->parts; i++)
		WRITE_ONCE(fair->tags[i].total, 0);
}

/**
 * fair_charge() - the current task got a tag
 * @fair: the device's
 * @rq: with that tag
 *
 * Return: the account that was charged, for fair_discharge(); NULL if none was.
 */
struct fair_account *fair_charge(struct fair *fair, const struct request *rq)
{
	struct fair_tags *tags = fair_tags_of(fair, rq->mq_hctx);

	if (fair_off(fair))
		return NULL;
	atomic_inc(&tags->used);
	if (fair_exempt()) {
		fair_hold_named(tags, &tags->exempt, 0);
		return &tags->exempt;
	}
	return fair_hold(tags, fair_cause(fair));
}

/**
 * fair_discharge() - a tag was given back
 * @fair: the device's
 * @rq: what had it
 * @account: what fair_charge() returned for @rq
 *
 * In any context.  Wakes a waiting task, if there is one.
 */
void fair_discharge(struct fair *fair, const struct request *rq, struct fair_account *account)
{
	struct fair_tags *tags = fair_tags_of(fair, rq->mq_hctx);

	if (!account)
		return;
	fair_drop(tags, account);
	atomic_dec(&tags->used);
	/* A task that enters the line looks for room after it has said that it waits. */
	smp_mb__after_atomic();
	if (atomic_read(&tags->waiters))
		fair_wake(tags);
}

/* A device's fairness */

static void fair_init_account(struct fair_account *account)
{
	INIT_LIST_HEAD(&account->node);
	init_waitqueue_head(&account->wait);
}

static void fair_init_tags(struct fair_tags *tags, const unsigned int *ratio)
{
	unsigned int i;

	tags->ratio = ratio;
	spin_lock_init(&tags->lock);
	INIT_LIST_HEAD(&tags->waiting);
	fair_init_account(&tags->others);
	fair_init_account(&tags->exempt);
	tags->others.weight = CAUSE_WEIGHT;
	for (i = 0; i < ARRAY_SIZE(tags->accounts); i++)
		fair_init_account(&tags->accounts[i]);
}

/**
 * fair_create() - fairness for a device, which has no requests yet
 * @q: its queue, with its scheduler tags
 * @ratio: the knob; see struct fair_tags
 *
 * May sleep.  Return: to be given to fair_destroy(); NULL without memory.
 */
struct fair *fair_create(struct request_queue *q, const unsigned int *ratio)
{
	unsigned int i, parts = q->sched_shared_tags ? 1 : q->nr_hw_queues;
	struct fair *fair;

	fair = kvzalloc_node(struct_size(fair, tags, parts), GFP_KERNEL, q->node);
	if (!fair)
		return NULL;
	fair->ratio = ratio;
	fair->parts = parts;
	for (i = 0; i < parts; i++)
		fair_init_tags(&fair->tags[i], ratio);
	return fair;
}

static void fair_check_tags(const struct fair_tags *tags)
{
	unsigned int i;

	WARN_ON_ONCE(atomic_read(&tags->used) || atomic_read(&tags->active) ||
		     atomic_read(&tags->waiters) || atomic_read(&tags->exempt.holds));
	for (i = 0; i < ARRAY_SIZE(tags->accounts); i++)
		WARN_ON_ONCE(atomic_read(&tags->accounts[i].holds));
}

/**
 * fair_destroy() - the end of a device's fairness; warns if the books don't balance
 * @fair: its requests have ended, and no task is inside its functions
 *
 * May sleep.
 */
void fair_destroy(struct fair *fair)
{
	unsigned int i;

	for (i = 0; i < fair->parts; i++)
		fair_check_tags(&fair->tags[i]);
	kvfree(fair);
}

static void fair_show_account(const struct fair_account *account, const char *what, u64 number,
			      struct seq_file *m)
{
	seq_printf(m, "%s %llu weight=%u used=%u waiting=%u\n", what, number, account->weight,
		   fair_used(account), READ_ONCE(account->waiting));
}

static void fair_show_tags(const struct fair_tags *tags, struct seq_file *m)
{
	unsigned int i;

	seq_printf(m, "tags=%u used=%u waiting=%u\n", READ_ONCE(tags->total),
		   atomic_read(&tags->used), atomic_read(&tags->waiters));
	for (i = 0; i < ARRAY_SIZE(tags->accounts); i++) {
		const struct fair_account *account = &tags->accounts[i];
		u64 name = READ_ONCE(account->name);

		if (atomic_read(&account->holds) <= 0)
			continue;
		if (name & CAUSE_CGROUP)
			fair_show_account(account, "cgroup", cause_cgroup_id(name), m);
		else if (name == CAUSE_KERNEL)
			fair_show_account(account, "kernel", 0, m);
		else
			fair_show_account(account, "process", account->tgid, m);
	}
	if (atomic_read(&tags->others.holds))
		fair_show_account(&tags->others, "others", 0, m);
	if (atomic_read(&tags->exempt.holds))
		fair_show_account(&tags->exempt, "exempt", 0, m);
}

/**
 * fair_show() - write the accounts that have tags or wait for some, one a line
 * @fair: the device's
 * @m: for debugfs
 *
 * Return: 0.
 */
int fair_show(struct fair *fair, struct seq_file *m)
{
	unsigned int i;

	for (i = 0; i < fair->parts; i++)
		fair_show_tags(&fair->tags[i], m);
	return 0;
}

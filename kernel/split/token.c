// SPDX-License-Identifier: GPL-2.0-only
/*
 * Split-Token: a cgroup's I/O costs a disk no more than its rate
 *
 * Each cgroup with an io.sluice.rate has a bucket of tokens (bucket.h) on each device.  I/O of the
 * cgroup and of all cgroups below it is paid from there, in normalised bytes (cost.h): as many
 * bytes as the device would read in sequence in the same time.
 *
 *	when data becomes dirty		the estimated cost is taken, at once
 *	when it is written or freed	the estimate is given back
 *	when a request is dispatched	its real cost is taken: of reads, of data, and of the
 *					cgroup's part of metadata and of the journal
 *
 * A cgroup in debt waits, but only where no other process would wait for it:
 *
 *	at the entry gates	writes, stores to mapped files, changes of names, fsyncs
 *	at the block level	reads of data, unless they are made with a handle of the
 *				journal: others may need what is read
 *	not at all		reads from the page cache, writes to pages that are dirty
 *				already, and all write requests: a commit of the journal may
 *				need them
 *
 * Held calls and reads are let go in the order in which they came, and no faster than tokens
 * allow.  The next call goes when the one before it has returned and been charged.  A read is
 * assumed to cost what the last one did.  So many threads that wait for one bucket can't spend
 * its tokens several times.
 *
 * The gates are closed only while a bucket is in debt; cgroups without a rate pass them with
 * hardly any work.  Requests that needn't wait are dispatched as by a deadline scheduler: by
 * location, in batches, overdue ones first.  Reads go before writes, but cannot starve them.
 *
 * Progress: a debt is paid off at the rate.  Then at least one call and one read go in each tick,
 * whether or not earlier ones have returned.  However large the debt is, one read of each bucket
 * goes every TOKEN_STARVATION_MS, since a task that waits for a read can't be killed.  All reads go
 * when the queue is frozen, as for a change of the scheduler, or when the machine is suspended.
 * When the last CPU of a hardware queue goes offline, the reads of that queue go.
 *
 * scs-token is the paper's rival, for comparison: a scheduler of system calls alone (S. S.
 * Craciunas, C. M. Kirsch, H. Roeck, I/O resource management through system call scheduling,
 * 2008).  A read that isn't served from memory, and each write, costs its bytes when the call is
 * made, whatever I/O it causes below.  A cgroup in debt waits at the gate and nowhere else.
 *
 * Source: the split-level paper, sections 2.3.3 and 5.3.  docs/split-token.md has the model,
 * and where it departs from the paper.
 */
#include "../elevator/request-set.h"
#include "bucket.h"
#include "split.h"

#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/suspend.h>

#define CREATE_TRACE_POINTS
#include "token-trace.h"

/* About ten seeks of a disk, which does 100 a second: an occasional reader isn't throttled. */
#define TOKEN_BURST_MS 100
#define TOKEN_BURST_MS_MAX 10000

/*
 * The tick's interval, the buckets looked at in a tick, and the held calls that are told in a tick
 * that they are held.  All 256 buckets take 40 ms, and 16 thousand calls 640 ms.
 */
#define TOKEN_TICK_MS 10
#define TOKEN_LOOKS 64U
#define TOKEN_ANSWERS 256U

/* Per review, so many held calls that turn out to wait for another bucket are moved there. */
#define TOKEN_MOVES 64U

/* Interval between reads of a bucket in large debt: they take 1/400 of a disk's time. */
#define TOKEN_STARVATION_MS 5000

/* Requests of a direction in a batch: so many go by location before other choices are made. */
#define TOKEN_BATCH 16

/* Batches of reads that go before one of writes, while writes wait. */
#define TOKEN_STARVED 2

/* A request that has waited for longer than this begins the next batch of its direction. */
#define TOKEN_READ_MS 500
#define TOKEN_WRITE_MS 5000

/* Parts of the tags for reads: of all cgroups with a rate together, and of those in debt. */
#define TOKEN_LIMITED_PART 4
#define TOKEN_DEBTOR_PART 16

/* Writes leave this part of the tags to reads. */
#define TOKEN_READ_PART 4

/* Gates where a cgroup in debt waits; with scs-token they are always closed. */
#define TOKEN_GATES (SPLIT_ALL | BIT(SPLIT_STORE))
#define TOKEN_SCS_GATES (BIT(SPLIT_WRITE) | BIT(SPLIT_READ))

static_assert(CAUSE_RATE_MIN == BUCKET_RATE_MIN && CAUSE_RATE_MAX == BUCKET_RATE_MAX);

/* What a request is: the low bits of rq->elv.priv[1]. */
enum token_state {
	TOKEN_NOBODYS, /* no bucket has to do with it */
	TOKEN_NEEDED, /* a read that other tasks may need */
	TOKEN_READ, /* of a bucket, with what is reserved for it */
};

#define TOKEN_STATE_BITS 2
#define TOKEN_PLACE_BITS 8
#define TOKEN_COST_SHIFT 10

static_assert(CAUSE_PLACES <= 1 << TOKEN_PLACE_BITS && sizeof(void *) == sizeof(u64));

/* What waits for a bucket. */
enum token_queue { TOKEN_CALLS, TOKEN_WAITING, TOKEN_QUEUES, TOKEN_NOBODY = TOKEN_QUEUES };

/* Directions. */
enum { TOKEN_READS, TOKEN_WRITES, TOKEN_DIRS };

/**
 * struct token_bucket - a cgroup with a rate, on this device
 * @tokens: what it may spend
 * @cgroup: inode number of its directory; 0: the place has not been used
 * @rate: at which @tokens are filled
 * @debtors: in token_data.debtors
 * @queue: held calls and waiting reads, in order
 * @going: calls that were held, have been let go and have not returned
 * @reserved: what the reads that may go will cost, as estimated
 * @last: what its last read cost
 * @went: jiffies when a waiting read last went, or when the first read began to wait
 * @given: jiffies when an estimate was last given back to it
 * @charged: what it has cost since it was first seen, normalised bytes
 */
struct token_bucket {
	struct bucket tokens;
	u64 cgroup;
	u64 rate;
	struct list_head debtors;
	struct list_head queue[TOKEN_QUEUES];
	unsigned int going;
	u64 reserved;
	u64 last;
	unsigned long went;
	unsigned long given;
	u64 charged;
};

/**
 * struct token_data - one queue's scheduler
 * @lock: guards all that follows, unless stated otherwise; taken from any context.  Only locks
 *	  that wake a task are taken inside it
 * @q: the queue
 * @device: for split.h's functions
 * @scs: it is scs-token
 * @bucket: by place of the limit
 * @debtors: buckets in debt, or for which calls or reads wait; the one looked at last comes last
 * @answering: place of the bucket whose calls are now told that they are held
 * @answered: the last call of it that was told, or the head of the list; NULL: none yet
 * @urgent: requests that no policy may delay, in order: flushes, requeued requests
 * @ready: requests that may go, by direction
 * @waiting: number of reads in the buckets' lists
 * @writes: writes that are being inserted, wait, or are being charged: what was given back for
 *	    them will be taken again; changes without the lock
 * @dir: direction of the batch
 * @batch: how many requests of it have gone
 * @starved: batches of reads dispatched while writes waited
 * @next: sector where the last request of the direction ended
 * @cost: what split_dispatch() has charged so far
 * @tick: reviews the debtors, while there are any
 * @burst_ms: the knob; read and written without the lock
 */
struct token_data {
	spinlock_t lock; /* guards all below but what says otherwise above */
	struct request_queue *q;
	struct split_device *device;
	bool scs;
	struct token_bucket *bucket;
	struct list_head debtors;
	unsigned int answering;
	struct list_head *answered;
	struct list_head urgent;
	struct rq_set ready[TOKEN_DIRS];
	unsigned int waiting;
	atomic_t writes;
	unsigned int dir;
	unsigned int batch;
	unsigned int starved;
	sector_t next[TOKEN_DIRS];
	u64 cost;
	struct timer_list tick;
	unsigned int burst_ms;
};

/* The machine is about to be suspended: no read may wait. */
static bool token_suspending;

/* Like token_type, under another name. */
static struct elevator_type token_scs_type;

static u64 token_burst_ns(const struct token_data *token)
{
	return (u64)READ_ONCE(token->burst_ms) * NSEC_PER_MSEC;
}

/* Buckets */

static bool token_since(unsigned long when, unsigned int ms)
{
	return time_after(jiffies, when + msecs_to_jiffies(ms));
}

/* While writes are still to be charged, what was given back for them isn't cut to the burst. */
static void token_fill(const struct token_data *token, struct token_bucket *bucket)
{
	bool cut = !atomic_read(&token->writes) || token_since(bucket->given, TOKEN_WRITE_MS);

	bucket_fill(&bucket->tokens, ktime_get_ns(), bucket->rate, token_burst_ns(token), cut);
}

/* The bucket of a limit, filled.  Calls that wait for the place's former owner find that out. */
static struct token_bucket *token_bucket_of(struct token_data *token,
					    const struct cause_limit *limit)
{
	struct token_bucket *bucket = &token->bucket[limit->place];

	lockdep_assert_held(&token->lock);
	if (bucket->cgroup == limit->cgroup) {
		token_fill(token, bucket);
	} else {
		bucket->cgroup = limit->cgroup;
		bucket->last = 0;
		bucket->charged = 0;
		bucket_init(&bucket->tokens, ktime_get_ns(), limit->rate, token_burst_ns(token));
	}
	bucket->rate = limit->rate;
	return bucket;
}

/* Whether a bucket has no tokens left, those reserved for reads subtracted. */
static bool token_is_spent(const struct token_bucket *bucket)
{
	return bucket->tokens.tokens < (s64)bucket->reserved;
}

/* Gates are closed while there is something to decide. */
static void token_set_gates(struct token_data *token)
{
	struct split_device *device = READ_ONCE(token->device);

	/* What comes while it is being attached finds open gates. */
	if (!device)
		return;
	if (token->scs)
		split_close(device, TOKEN_SCS_GATES);
	else
		split_close(device, list_empty(&token->debtors) ? SPLIT_NONE : TOKEN_GATES);
}

static void token_note_debtor(struct token_data *token, struct token_bucket *bucket)
{
	lockdep_assert_held(&token->lock);
	if (!list_empty(&bucket->debtors))
		return;
	if (list_empty(&token->debtors))
		mod_timer(&token->tick, jiffies + msecs_to_jiffies(TOKEN_TICK_MS));
	list_add_tail(&bucket->debtors, &token->debtors);
	token_set_gates(token);
}

/*
 * Of the buckets that an account pays from, the first one that is spent, or that has calls or
 * reads waiting in the queue @behind; NULL if there is none.  *@nearest, unless @nearest is NULL,
 * becomes the first of all these buckets; it stays as it is if there is none.
 */
static struct token_bucket *token_spent(struct token_data *token,
					const struct split_account *account,
					enum token_queue behind, struct token_bucket **nearest)
{
	struct cgroup_subsys_state *css = account->css;
	struct token_bucket *bucket;
	struct cause_limit limit;

	while (cause_next_limit(&css, &limit)) {
		bucket = token_bucket_of(token, &limit);
		if (nearest && !*nearest)
			*nearest = bucket;
		if (token_is_spent(bucket) ||
		    (behind != TOKEN_NOBODY && !list_empty(&bucket->queue[behind])))
			return bucket;
	}
	return NULL;
}

/* Charges all buckets of an account.  @known: @cost is the real cost and not an estimate. */
static void token_take(struct token_data *token, const struct split_account *account, u64 cost,
		       bool known)
{
	struct cgroup_subsys_state *css = account->css;
	struct token_bucket *bucket;
	struct cause_limit limit;

	while (cause_next_limit(&css, &limit)) {
		bucket = token_bucket_of(token, &limit);
		bucket_take(&bucket->tokens, cost);
		bucket->charged += known ? cost : 0;
		if (bucket_in_debt(&bucket->tokens))
			token_note_debtor(token, bucket);
	}
}

/* Calls */

static void token_hold_call(struct token_data *token, struct token_bucket *bucket,
			    struct split_call *call)
{
	trace_token_hold(token->q, bucket->cgroup, call->kind, bucket->tokens.tokens);
	split_hold(call, "tokens");
	list_add_tail(&call->node, &bucket->queue[TOKEN_CALLS]);
	token_note_debtor(token, bucket);
}

static void token_unlist_call(struct token_data *token, struct split_call *call)
{
	lockdep_assert_held(&token->lock);
	if (token->answered == &call->node)
		token->answered = call->node.prev;
	list_del_init(&call->node);
}

static void token_let_go(struct token_data *token, struct token_bucket *bucket,
			 struct split_call *call)
{
	trace_token_let_go(token->q, bucket->cgroup, call->kind, bucket->tokens.tokens);
	token_unlist_call(token, call);
	call->private = bucket - token->bucket + 1;
	bucket->going++;
	if (token->scs)
		token_take(token, call->account, call->bytes, true);
	split_let_go(call);
}

/* Lets the next call go if it needn't wait for a bucket any longer. */
static void token_review_calls(struct token_data *token, struct token_bucket *bucket)
{
	struct split_call *call, *next;
	unsigned int moves = TOKEN_MOVES;

	list_for_each_entry_safe(call, next, &bucket->queue[TOKEN_CALLS], node) {
		struct token_bucket *spent = token_spent(token, call->account, TOKEN_NOBODY, NULL);

		if (spent && spent != bucket && moves--) {
			token_unlist_call(token, call);
			token_hold_call(token, spent, call);
			continue;
		}
		if (!spent)
			token_let_go(token, bucket, call);
		return;
	}
}

/* An account without a rate has nothing to wait for. */
static bool token_concerns(void *data, const struct split_account *account)
{
	struct cgroup_subsys_state *css = account->css;
	struct cause_limit limit;

	return cause_next_limit(&css, &limit);
}

static bool token_enter(void *data, struct split_call *call)
{
	struct token_data *token = data;
	struct token_bucket *bucket;
	unsigned long flags;

	if (!call->account->css || split_costs_nothing(call))
		return true;
	spin_lock_irqsave(&token->lock, flags);
	bucket = token_spent(token, call->account, TOKEN_CALLS, NULL);
	if (bucket && !call->nowait)
		token_hold_call(token, bucket, call);
	spin_unlock_irqrestore(&token->lock, flags);
	return !bucket;
}

static bool token_scs_enter(void *data, struct split_call *call)
{
	struct token_data *token = data;
	struct token_bucket *bucket;
	unsigned long flags;

	if (!call->account->css || (call->kind == SPLIT_READ && split_costs_nothing(call)))
		return true;
	spin_lock_irqsave(&token->lock, flags);
	bucket = token_spent(token, call->account, TOKEN_CALLS, NULL);
	if (!bucket)
		token_take(token, call->account, call->bytes, true);
	else if (!call->nowait)
		token_hold_call(token, bucket, call);
	spin_unlock_irqrestore(&token->lock, flags);
	return !bucket;
}

static void token_drop(void *data, struct split_call *call)
{
	struct token_data *token = data;
	unsigned long flags;

	spin_lock_irqsave(&token->lock, flags);
	token_unlist_call(token, call);
	spin_unlock_irqrestore(&token->lock, flags);
}

static void token_leave(void *data, struct split_call *call, ssize_t result)
{
	struct token_data *token = data;
	struct token_bucket *bucket;
	unsigned long flags;

	if (!call->private)
		return;
	bucket = &token->bucket[call->private - 1];
	spin_lock_irqsave(&token->lock, flags);
	if (!--bucket->going)
		token_review_calls(token, bucket);
	spin_unlock_irqrestore(&token->lock, flags);
}

/* Costs */

static void token_expect(void *data, struct split_account *account, u64 cost)
{
	struct token_data *token = data;
	unsigned long flags;

	if (!account->css)
		return;
	spin_lock_irqsave(&token->lock, flags);
	token_take(token, account, cost, false);
	spin_unlock_irqrestore(&token->lock, flags);
}

static void token_settle(void *data, struct split_account *account, u64 cost)
{
	struct token_data *token = data;
	struct cgroup_subsys_state *css = account->css;
	struct cause_limit limit;
	unsigned long flags;

	if (!css)
		return;
	spin_lock_irqsave(&token->lock, flags);
	while (cause_next_limit(&css, &limit)) {
		struct token_bucket *bucket = token_bucket_of(token, &limit);

		bucket_give(&bucket->tokens, cost);
		bucket->given = jiffies;
	}
	spin_unlock_irqrestore(&token->lock, flags);
}

static void token_charge(void *data, struct split_account *account, u64 cost)
{
	struct token_data *token = data;

	token->cost += cost;
	token_take(token, account, cost, true);
}

static const struct split_ops token_ops = {
	.name = "split-token",
	.more = BIT(SPLIT_STORE),
	.concerns = token_concerns,
	.enter = token_enter,
	.drop = token_drop,
	.leave = token_leave,
	.expect = token_expect,
	.settle = token_settle,
	.charge = token_charge,
};

static const struct split_ops token_scs_ops = {
	.name = "scs-token",
	.more = BIT(SPLIT_READ),
	.concerns = token_concerns,
	.enter = token_scs_enter,
	.drop = token_drop,
	.leave = token_leave,
};

/* Reads */

static enum token_state token_state_of(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] & ((1 << TOKEN_STATE_BITS) - 1);
}

static struct token_bucket *token_bucket_of_request(struct token_data *token,
						    const struct request *rq)
{
	unsigned long place = (unsigned long)rq->elv.priv[1] >> TOKEN_STATE_BITS;

	return &token->bucket[place & ((1 << TOKEN_PLACE_BITS) - 1)];
}

static u64 token_reserved_for(const struct request *rq)
{
	u64 kib = (unsigned long)rq->elv.priv[1] >> (TOKEN_STATE_BITS + TOKEN_PLACE_BITS);

	return kib << TOKEN_COST_SHIFT;
}

static void token_put(struct token_data *token, struct request *rq,
		      const struct token_bucket *bucket, u64 cost)
{
	unsigned long place = bucket - token->bucket;

	cost >>= TOKEN_COST_SHIFT;
	rq->elv.priv[1] =
		(void *)(((cost << TOKEN_PLACE_BITS | place) << TOKEN_STATE_BITS) | TOKEN_READ);
}

/* A read becomes one of those that may go; its estimated cost is reserved. */
static void token_ready_read(struct token_data *token, struct token_bucket *bucket,
			     struct request *rq)
{
	token_put(token, rq, bucket, bucket->last);
	bucket->reserved += token_reserved_for(rq);
	rq_set_add(&token->ready[TOKEN_READS], rq);
}

/* All reads must go: the queue is frozen, or the machine is suspended. */
static bool token_must_flow(const struct token_data *token)
{
	return READ_ONCE(token->q->mq_freeze_depth) || READ_ONCE(token_suspending);
}

/*
 * A read must go if the last CPU of its hardware queue goes offline: CPU hotplug waits, with its
 * lock held, until that queue has no request.
 */
static bool token_is_offline(const struct request *rq)
{
	return test_bit(BLK_MQ_S_INACTIVE, &rq->mq_hctx->state);
}

static void token_wait_read(struct token_data *token, struct token_bucket *bucket,
			    struct request *rq)
{
	trace_token_hold(token->q, bucket->cgroup, -1, bucket->tokens.tokens);
	if (list_empty(&bucket->queue[TOKEN_WAITING]))
		bucket->went = jiffies;
	list_add_tail(&rq->queuelist, &bucket->queue[TOKEN_WAITING]);
	token->waiting++;
	token_note_debtor(token, bucket);
}

/* A waiting read may go. */
static void token_release_read(struct token_data *token, struct token_bucket *bucket,
			       struct request *rq)
{
	trace_token_let_go(token->q, bucket->cgroup, -1, bucket->tokens.tokens);
	bucket->went = jiffies;
	token_ready_read(token, bucket, rq);
}

/* Return: whether a read went. */
static bool token_release_offline(struct token_data *token, struct token_bucket *bucket)
{
	struct request *rq, *next;
	bool went = false;

	list_for_each_entry_safe(rq, next, &bucket->queue[TOKEN_WAITING], queuelist) {
		if (!token_is_offline(rq))
			continue;
		list_del_init(&rq->queuelist);
		token->waiting--;
		token_release_read(token, bucket, rq);
		went = true;
	}
	return went;
}

/*
 * Lets reads go that needn't wait for a bucket any longer.  @one: also one that must wait, if the
 * bucket isn't in debt or none went for TOKEN_STARVATION_MS.  Return: whether one went.
 */
static bool token_review_reads(struct token_data *token, struct token_bucket *bucket, bool one)
{
	bool went = false, all = token_must_flow(token);
	struct request *rq, *next;

	one &= !bucket_in_debt(&bucket->tokens) || token_since(bucket->went, TOKEN_STARVATION_MS);
	list_for_each_entry_safe(rq, next, &bucket->queue[TOKEN_WAITING], queuelist) {
		struct token_bucket *spent =
			token_spent(token, split_request_account(rq), TOKEN_NOBODY, NULL);

		if (spent == bucket && !one && !all)
			break;
		list_del_init(&rq->queuelist);
		token->waiting--;
		if (spent && spent != bucket && !all) {
			token_wait_read(token, spent, rq);
			continue;
		}
		token_release_read(token, bucket, rq);
		one = false;
		went = true;
	}
	return went;
}

static void token_enqueue_read(struct token_data *token, struct request *rq)
{
	struct token_bucket *nearest = NULL, *spent = NULL;

	if (!token->scs)
		spent = token_spent(token, split_request_account(rq), TOKEN_WAITING, &nearest);
	if (!nearest)
		rq_set_add(&token->ready[TOKEN_READS], rq);
	else if (spent && !token_must_flow(token) && !token_is_offline(rq) &&
		 token->waiting + 1 < token->q->nr_requests)
		token_wait_read(token, spent, rq);
	else
		token_ready_read(token, nearest, rq);
}

/* Dispatch */

static bool token_is_overdue(const struct rq_set *set, unsigned int ms)
{
	return set->queued &&
	       time_after(jiffies, rq_came(rq_set_oldest(set)) + msecs_to_jiffies(ms));
}

/* Which direction goes next, and whether a new batch is to begin with the oldest request. */
static unsigned int token_choose(struct token_data *token, bool *oldest)
{
	const struct rq_set *reads = &token->ready[TOKEN_READS];
	const struct rq_set *writes = &token->ready[TOKEN_WRITES];

	*oldest = false;
	if (token->ready[token->dir].queued && token->batch < TOKEN_BATCH)
		return token->dir;
	token->batch = 0;
	if (reads->queued && (!writes->queued || token->starved < TOKEN_STARVED)) {
		token->starved = writes->queued ? token->starved + 1 : 0;
		*oldest = token_is_overdue(reads, TOKEN_READ_MS);
		return TOKEN_READS;
	}
	token->starved = 0;
	*oldest = token_is_overdue(writes, TOKEN_WRITE_MS);
	return TOKEN_WRITES;
}

static struct request *token_take_ready(struct token_data *token)
{
	struct request *rq;
	struct rq_set *set;
	bool oldest;

	if (!token->ready[TOKEN_READS].queued && !token->ready[TOKEN_WRITES].queued)
		return NULL;
	token->dir = token_choose(token, &oldest);
	set = &token->ready[token->dir];
	if (oldest) {
		rq = rq_set_oldest(set);
	} else {
		rq_set_sort_all(set);
		rq = rq_set_from(set, token->next[token->dir]);
	}
	rq_set_del(token->q, set, rq);
	token->next[token->dir] = blk_rq_pos(rq) + blk_rq_sectors(rq);
	token->batch++;
	return rq;
}

/* A request is dispatched: its causes are charged, and what was reserved for it is released. */
static void token_pay(struct token_data *token, struct request *rq)
{
	struct token_bucket *bucket = token_bucket_of_request(token, rq);

	lockdep_assert_held(&token->lock);
	token->cost = 0;
	split_dispatch(token->device, rq);
	if (op_is_write(req_op(rq)))
		atomic_dec(&token->writes);
	if (token_state_of(rq) == TOKEN_READ) {
		bucket->reserved -= token_reserved_for(rq);
		bucket->last = token->cost;
		token_review_reads(token, bucket, false);
	}
	rq->elv.priv[1] = NULL;
}

static struct request *token_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct token_data *token = hctx->queue->elevator->elevator_data;
	struct request *rq;
	unsigned long flags;

	spin_lock_irqsave(&token->lock, flags);
	rq = rq_take_first(&token->urgent) ?: token_take_ready(token);
	if (rq)
		token_pay(token, rq);
	spin_unlock_irqrestore(&token->lock, flags);
	if (rq)
		rq->rq_flags |= RQF_STARTED;
	return rq;
}

static bool token_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct token_data *token = hctx->queue->elevator->elevator_data;

	return !rq_list_is_empty(&token->urgent) || READ_ONCE(token->ready[TOKEN_READS].queued) ||
	       READ_ONCE(token->ready[TOKEN_WRITES].queued);
}

/* Requests, in the order of a request's life */

/*
 * Called without locks, before a tag is allocated.  Waiting reads keep their tags, so they are
 * limited to a part: cgroups without a rate must find free tags.
 */
static void token_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct token_data *token = data->q->elevator->elevator_data;
	unsigned int tags = sluice_nr_tags(data);
	struct cgroup_subsys_state *css = NULL;
	struct cause_limit limit;
	unsigned int part = 0;

	if (op_is_write(opf)) {
		sluice_limit_tags(data, tags - tags / TOKEN_READ_PART);
		return;
	}
	if (token->scs || !atomic_read(&cause_settings) || rq_blocks_others(opf))
		return;
	rcu_read_lock();
	cause_of_current(&css);
	while (cause_next_limit(&css, &limit)) {
		bool debtor = bucket_in_debt(&token->bucket[limit.place].tokens);

		part = max(part, debtor ? TOKEN_DEBTOR_PART : TOKEN_LIMITED_PART);
	}
	rcu_read_unlock();
	if (part)
		sluice_limit_tags(data, max(tags / part, 1U));
}

/* Such a flush has no data, as of an fsync with nothing to write; it isn't dispatched here. */
static void token_pay_flush(struct request *rq)
{
	struct token_data *token = rq->q->elevator->elevator_data;
	unsigned long flags;

	if (token->scs)
		return;
	spin_lock_irqsave(&token->lock, flags);
	token_take(token, split_request_account(rq), split_flush_cost(token->device), true);
	spin_unlock_irqrestore(&token->lock, flags);
}

/*
 * Other tasks may need what a task with a journal handle reads.  What a kernel thread reads may
 * have come through a stack, from such a task.  A process that waits for a flush, and not for a
 * log, has nothing to write with it.
 */
static void token_prepare_request(struct request *rq)
{
	const struct token_data *token = rq->q->elevator->elevator_data;
	bool needed;

	split_prepare(rq);
	if ((rq->cmd_flags & (REQ_PREFLUSH | REQ_META)) == REQ_PREFLUSH &&
	    !(current->flags & PF_KTHREAD))
		token_pay_flush(rq);
	needed = current->journal_info ||
		 (current->flags & PF_KTHREAD && !token->scs && split_is_below(token->device));
	rq->elv.priv[1] = (void *)(unsigned long)(needed ? TOKEN_NEEDED : TOKEN_NOBODYS);
}

/*
 * Whether a read is of metadata.  File systems don't flag all of it, but read such blocks through
 * the device's own page cache.  The pages are locked, or the caller's own.
 */
static bool token_is_metadata(const struct request *rq)
{
	struct address_space *mapping;
	const struct bio *bio;
	bool found = rq->cmd_flags & REQ_META;

	rcu_read_lock();
	for (bio = rq->bio; bio && !found; bio = bio->bi_next) {
		mapping = bio_has_data((struct bio *)bio) ? folio_mapping(page_folio(bio_page(bio)))
							  : NULL;
		found = mapping && mapping->host && S_ISBLK(mapping->host->i_mode);
	}
	rcu_read_unlock();
	return found;
}

static void token_enqueue(struct token_data *token, struct request *rq)
{
	if (op_is_write(req_op(rq)))
		rq_set_add(&token->ready[TOKEN_WRITES], rq);
	else if (token_state_of(rq) == TOKEN_NEEDED || token_is_metadata(rq))
		rq_set_add(&token->ready[TOKEN_READS], rq);
	else
		token_enqueue_read(token, rq);
}

static void token_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				  sluice_insert_t ins)
{
	struct token_data *token = hctx->queue->elevator->elevator_data;
	struct list_head *head = &token->urgent;
	struct request *rq, *next;
	unsigned long flags;

	list_for_each_entry(rq, list, queuelist) {
		if (op_is_write(req_op(rq)))
			atomic_inc(&token->writes);
		split_insert(token->device, rq);
		trace_block_rq_insert(rq);
	}
	spin_lock_irqsave(&token->lock, flags);
	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_del_init(&rq->queuelist);
		if (!rq_add_urgent(rq, ins, &token->urgent, &head))
			token_enqueue(token, rq);
	}
	spin_unlock_irqrestore(&token->lock, flags);
}

/* The tick */

/* Tells some calls that they are held on purpose, after those of the last tick. */
static void token_answer(struct token_data *token)
{
	unsigned int answers = TOKEN_ANSWERS, places;

	for (places = 0; places < CAUSE_PLACES; places++) {
		struct list_head *calls = &token->bucket[token->answering].queue[TOKEN_CALLS];

		token->answered = token->answered ?: calls;
		while (!list_is_last(token->answered, calls)) {
			if (!answers--)
				return;
			token->answered = token->answered->next;
			split_hold(list_entry(token->answered, struct split_call, node), "tokens");
		}
		token->answered = NULL;
		token->answering = (token->answering + 1) % CAUSE_PLACES;
	}
}

static bool token_look_at(struct token_data *token, struct token_bucket *bucket)
{
	bool went;

	token_fill(token, bucket);
	token_review_calls(token, bucket);
	went = token_release_offline(token, bucket);
	went |= token_review_reads(token, bucket, true);
	list_move_tail(&bucket->debtors, &token->debtors);
	if (!list_empty(&bucket->queue[TOKEN_CALLS]) || !list_empty(&bucket->queue[TOKEN_WAITING]))
		return went;
	/* A debt goes with its rate: no cgroup owes it any longer. */
	if (!cause_has_limit(bucket - token->bucket, bucket->cgroup))
		bucket->cgroup = 0;
	if (!bucket->cgroup || !bucket_in_debt(&bucket->tokens))
		list_del_init(&bucket->debtors);
	return went;
}

/* Looks at some buckets, each at most once.  Return: whether a read went. */
static bool token_look(struct token_data *token)
{
	const struct list_head *last = token->debtors.prev, *debtor = NULL;
	unsigned int looks = TOKEN_LOOKS;
	bool went = false;

	while (looks-- && debtor != last && !list_empty(&token->debtors)) {
		debtor = token->debtors.next;
		went |= token_look_at(token, list_entry(debtor, struct token_bucket, debtors));
	}
	return went;
}

static void token_tick(struct timer_list *timer)
{
	struct token_data *token = container_of(timer, struct token_data, tick);
	unsigned long flags;
	bool run, waiting;

	spin_lock_irqsave(&token->lock, flags);
	run = token_look(token);
	token_answer(token);
	if (list_empty(&token->debtors))
		token_set_gates(token);
	else
		mod_timer(timer, jiffies + msecs_to_jiffies(TOKEN_TICK_MS));
	waiting = token->waiting;
	spin_unlock_irqrestore(&token->lock, flags);
	if (waiting)
		sluice_wake_for_tags(token->q);
	if (run)
		blk_mq_run_hw_queues(token->q, true);
}

/* Life of the scheduler */

static void token_depth_updated(struct request_queue *q)
{
	sluice_may_limit_tags(q);
}

/* The queue is frozen: an allocation must not wait for memory that is written back to it. */
static struct token_data *token_alloc(struct request_queue *q)
{
	unsigned int flags = memalloc_noio_save(), i;
	struct token_data *token = kzalloc_node(sizeof(*token), GFP_KERNEL, q->node);

	if (token)
		token->bucket = kvcalloc(CAUSE_PLACES, sizeof(*token->bucket), GFP_KERNEL);
	memalloc_noio_restore(flags);
	if (!token)
		return NULL;
	if (!token->bucket) {
		kfree(token);
		return NULL;
	}
	for (i = 0; i < CAUSE_PLACES; i++) {
		INIT_LIST_HEAD(&token->bucket[i].debtors);
		INIT_LIST_HEAD(&token->bucket[i].queue[TOKEN_CALLS]);
		INIT_LIST_HEAD(&token->bucket[i].queue[TOKEN_WAITING]);
	}
	return token;
}

static void token_free(struct token_data *token)
{
	kvfree(token->bucket);
	kfree(token);
}

/* Called with the queue frozen. */
static int token_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct token_data *token = token_alloc(q);
	struct split_device *device;

	if (!token)
		return -ENOMEM;
	spin_lock_init(&token->lock);
	INIT_LIST_HEAD(&token->debtors);
	INIT_LIST_HEAD(&token->urgent);
	rq_set_init(&token->ready[TOKEN_READS]);
	rq_set_init(&token->ready[TOKEN_WRITES]);
	token->q = q;
	token->scs = eq->type == &token_scs_type;
	token->burst_ms = TOKEN_BURST_MS;
	timer_setup(&token->tick, token_tick, 0);
	device = split_attach(q, token->scs ? &token_scs_ops : &token_ops, token);
	if (IS_ERR(device)) {
		token_free(token);
		return PTR_ERR(device);
	}
	WRITE_ONCE(token->device, device);
	spin_lock_irq(&token->lock);
	token_set_gates(token);
	spin_unlock_irq(&token->lock);
	sluice_may_limit_tags(q);
	eq->elevator_data = token;
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	return 0;
}

static void token_check_books(const struct token_data *token)
{
	unsigned int i;

	WARN_ON_ONCE(!list_empty(&token->urgent) || !rq_set_is_empty(&token->ready[TOKEN_READS]) ||
		     !rq_set_is_empty(&token->ready[TOKEN_WRITES]) || token->waiting ||
		     atomic_read(&token->writes));
	for (i = 0; i < CAUSE_PLACES; i++) {
		const struct token_bucket *bucket = &token->bucket[i];

		WARN_ON_ONCE(!list_empty(&bucket->queue[TOKEN_CALLS]) ||
			     !list_empty(&bucket->queue[TOKEN_WAITING]) || bucket->reserved);
	}
}

/* Called with the queue frozen: every request has been finished. */
static void token_exit_sched(struct elevator_queue *eq)
{
	struct token_data *token = eq->elevator_data;

	timer_shutdown_sync(&token->tick);
	split_detach(token->device);
	token_check_books(token);
	token_free(token);
}

/* Knobs */

RQ_KNOB(token_data, burst_ms, 0, TOKEN_BURST_MS_MAX)
SPLIT_COSTS_KNOB(token_data, costs)

static sluice_attr_t token_attrs[] = {
	RQ_KNOB_ATTR(burst_ms),
	RQ_KNOB_ATTR(costs),
	__ATTR_NULL,
};

#ifdef CONFIG_BLK_DEBUG_FS
static unsigned int token_count(const struct list_head *list)
{
	const struct list_head *node;
	unsigned int count = 0;

	list_for_each(node, list) count++;
	return count;
}

/* debugfs .../sched/buckets: a line for each cgroup that has paid here. */
static int token_buckets_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct token_data *token = q->elevator->elevator_data;
	const struct token_bucket *bucket;
	unsigned int i;

	seq_puts(m, "cgroup rate tokens charged reserved calls reads\n");
	for (i = 0; i < CAUSE_PLACES; i++) {
		bucket = &token->bucket[i];
		spin_lock_irq(&token->lock);
		if (bucket->cgroup)
			seq_printf(m, "%llu %llu %lld %llu %llu %u %u\n", bucket->cgroup,
				   bucket->rate, bucket->tokens.tokens, bucket->charged,
				   bucket->reserved, token_count(&bucket->queue[TOKEN_CALLS]),
				   token_count(&bucket->queue[TOKEN_WAITING]));
		spin_unlock_irq(&token->lock);
	}
	return 0;
}

static const struct blk_mq_debugfs_attr token_debugfs_attrs[] = {
	{ "buckets", 0400, token_buckets_show },
	{},
};
#endif

SLUICE_LIMIT_DEPTH(token_limit_depth_op, token_limit_depth)
SLUICE_INIT_SCHED(token_init_sched_op, token_init_sched)
SLUICE_DEPTH_UPDATED(token_depth_updated_op, token_depth_updated)

static struct elevator_type token_type = {
	.ops = {
		.init_sched		= token_init_sched_op,
		.exit_sched		= token_exit_sched,
		.depth_updated		= token_depth_updated_op,
		.limit_depth		= token_limit_depth_op,
		.prepare_request	= token_prepare_request,
		.allow_merge		= split_allow_merge,
		.insert_requests	= token_insert_requests,
		.has_work		= token_has_work,
		.dispatch_request	= token_dispatch_request,
		.finish_request		= split_finish,
	},
	.elevator_attrs = token_attrs,
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs = token_debugfs_attrs,
#endif
	.elevator_name = "split-token",
	.elevator_owner = THIS_MODULE,
};

/* Tasks, some of which may wait for a read, are about to be frozen; or they have been thawed. */
static int token_pm(struct notifier_block *nb, unsigned long event, void *unused)
{
	WRITE_ONCE(token_suspending,
		   event == PM_SUSPEND_PREPARE || event == PM_HIBERNATION_PREPARE);
	return NOTIFY_OK;
}

static struct notifier_block token_pm_notifier = { .notifier_call = token_pm };

static int __init token_init(void)
{
	int err = register_pm_notifier(&token_pm_notifier);

	if (err)
		return err;
	/* Copied before elv_register(), which writes to its argument. */
	memcpy(&token_scs_type, &token_type, sizeof(token_type));
	token_scs_type.elevator_name = "scs-token";
	err = elv_register(&token_type);
	if (err)
		goto no_type;
	err = elv_register(&token_scs_type);
	if (err)
		goto one_type;
	return 0;

one_type:
	elv_unregister(&token_type);
no_type:
	unregister_pm_notifier(&token_pm_notifier);
	return err;
}

static void __exit token_exit(void)
{
	elv_unregister(&token_scs_type);
	elv_unregister(&token_type);
	unregister_pm_notifier(&token_pm_notifier);
}

module_init(token_init);
module_exit(token_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("I/O scheduler: token bucket rate limits (split-level)");
MODULE_ALIAS("split-token-iosched");
MODULE_ALIAS("scs-token-iosched");

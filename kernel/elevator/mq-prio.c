// SPDX-License-Identifier: GPL-2.0-only
/*
 * mq-prio: I/O priorities that hold, for blk-mq
 *
 * A request's ioprio gives its rank: RT 0-7, then BE 0-7, then IDLE.  The
 * lowest-numbered rank that is active goes first, always; what waits below it
 * gets a stated share of the device's time, in turns.
 *
 * An order among waiting requests is not enough, because three things happen
 * where an elevator that only orders can't see them:
 *
 *  - Lower requests own the scheduler's tags, so that a higher one waits
 *    before it is ever inserted.  While a higher rank was active lately, lower
 *    ones may take half of the tags (mqp_limit_depth()).
 *  - Lower requests fill the device's own queue.  While a higher rank is
 *    active, lower ones are inside the device one turn at a time: one request
 *    on flash, 1 MiB on a rotating disk, where one seek should pay for much.
 *  - Aging that lets the oldest go first turns into "low first" once an
 *    overload has made everything old.  Here aging is a budget: a turn begins
 *    with the lower request that has waited longest, and the turn's cost decides
 *    when the next one opens, so that turns take low_share percent of the time
 *    however much waits.
 *
 * The cost of a request is what the device spent on it, learned from
 * completions: the time from the one before it (or from the turn's start) to
 * its own.  On a disk that is seek, rotation and transfer.  On flash requests
 * overlap, and the time also holds others' work: the least that was seen lately
 * is the read's own.  With C for the cost of a turn, S for the share in per
 * cent and R for the turn's time inside the device, turns open every
 *
 *	max(R, min(C * 92 / S, 1 s))
 *
 * Where R is the larger on flash, a turn has as many requests as it takes to
 * meet the share, but no more than S per cent of what the higher rank has
 * inside the device: where requests don't wait for each other, that is the
 * share.  The first turn opens when the lower requests that were inside the
 * device before the higher rank came have left it.  From then on a request with
 * N older lower ones before it is dispatched within N + 1 of these periods.
 *
 * With one rank active nothing of this runs: requests pass in arrival order
 * (in sector order with a deadline on a rotating disk), merge structures are
 * filled only when a merge is possible, no clock is read.
 *
 * Source of the idea: the mq-prio report (strict classes, one FIFO each, aging
 * as a bounded exception); docs/mq-prio.md has the model and the measurements.
 */
#include "request-set.h"

#include <linux/bitops.h>
#include <linux/slab.h>

#define CREATE_TRACE_POINTS
#include "mq-prio-trace.h"

/* RT 0-7, BE 0-7, IDLE: a lower number is more urgent. */
#define MQP_RANKS 17
#define MQP_RANK_BE 8
#define MQP_RANK_IDLE 16

/*
 * Percent of the device's time that lower ranks get beside a higher one.  The
 * higher one's latency grows by as much on a disk, where it waits for whole
 * turns, and by less on flash.
 */
#define MQP_LOW_SHARE_FLASH 10
#define MQP_LOW_SHARE_ROTATING 5
#define MQP_LOW_SHARE_MAX 50

/*
 * How long a rank counts as active after its last request, in ms: longer than
 * a reader at depth 1 thinks, short enough to give an idle disk away.
 */
#define MQP_HOLD_MS_DEFAULT 10
#define MQP_HOLD_MS_MAX 1000

/*
 * Tags are kept back for longer than the device is: a reserve costs lower
 * ranks little, and its lack makes a returning higher one wait for a tag.
 */
#define MQP_RESERVE_JIFFIES HZ

/*
 * A turn on a rotating disk: at 100-200 MB/s 1 MiB transfers for about as long
 * as it takes to get there.
 */
#define MQP_TURN_SECTORS (1024 * 1024 >> SECTOR_SHIFT)

/* And no more than 8 requests: each small one may cost a seek of its own. */
#define MQP_TURN_LEAST (MQP_TURN_SECTORS / 8)

/* The share is a promise: turns open a little early, by what the cost may err. */
#define MQP_PROMISE_PCT 92

/* On flash, the least cost of a read is forgotten in about so many reads. */
#define MQP_UNIT_RISE 64

/*
 * A busy higher rank's own dispatches open turns; the timer is for when there
 * are none, and late enough to leave the work to them.
 */
#define MQP_TIMER_SLACK_NS (250 * NSEC_PER_USEC)

/* No turn, however long the device stalled, keeps the next away for longer. */
#define MQP_PERIOD_MAX_NS NSEC_PER_SEC

/*
 * Within a rank on a rotating disk: requests in one sweep before the oldest is
 * looked at, and the age at which it goes first.
 */
#define MQP_SWEEP_BATCH 16
#define MQP_SWEEP_EXPIRE (HZ / 2)

/* Where a request is; kept in rq->elv.priv[1]. */
enum mqp_state {
	MQP_OUTSIDE, /* not inserted, or left again */
	MQP_QUEUED, /* in its rank's FIFO */
	MQP_ISSUED, /* dispatched, not finished */
	MQP_TURN, /* the same, as part of a turn */
};

/**
 * struct mqp_rank - the requests of one rank
 * @set: waiting requests; on a rotating disk all are indexed
 * @issued: dispatched and unfinished; the one field that changes without the lock
 * @last: jiffies when the rank last had a request finished
 * @pos: sector where the sweep goes on (rotating disks)
 * @swept: requests since the sweep last looked at the oldest
 * @max_wait_ns: longest wait of a request that began a turn
 */
struct mqp_rank {
	struct rq_set set;
	atomic_t issued;
	unsigned long last;
	sector_t pos;
	unsigned int swept;
	u64 max_wait_ns;
};

/**
 * struct mqp_turn - lower ranks' share of the device
 * @rank: the rank whose turn it is
 * @left: budget: requests on flash, sectors on a rotating disk
 * @issued: requests of this turn inside the device
 * @start_ns: when the first request went
 * @cost_ns: device time of the requests that finished
 * @unit_ns: device time of one request, on flash
 * @stay_ns: how long the last turn was inside the device
 * @next_ns: when the next turn may open
 * @count: turns so far
 */
struct mqp_turn {
	unsigned int rank;
	int left;
	unsigned int issued;
	u64 start_ns;
	u64 cost_ns;
	u64 unit_ns;
	u64 stay_ns;
	u64 next_ns;
	u64 count;
};

/**
 * struct mqp_data - one queue's scheduler
 * @lock: guards all that follows, unless it says otherwise; taken from process
 *	  context and from completions, so always with interrupts off
 * @q: the queue
 * @urgent: requests that no policy may delay, in order: inserted at the head,
 *	    or not under the scheduler's control
 * @waiting: bit per rank with queued requests
 * @busy: bit per rank that had requests within MQP_RESERVE_JIFFIES; read
 *	  without the lock
 * @queued: requests on @urgent and all FIFOs; read without the lock
 * @held: all that waits is held for @timer; read without the lock
 * @rotating: the device seeks
 * @low_share: percent, 1-50; read and written without the lock
 * @hold_ms: 0-1000; read and written without the lock
 * @last_done_ns: last completion while ranks compete; written without the lock
 * @turn: lower ranks' share
 * @timer: reruns the queues when a turn opens or a higher rank's hold ends
 * @rank: the ranks
 */
struct mqp_data {
	spinlock_t lock; /* guards all below but what says otherwise above */
	struct request_queue *q;
	struct list_head urgent;
	unsigned long waiting;
	unsigned long busy;
	unsigned int queued;
	bool held;
	bool rotating;
	unsigned int low_share;
	unsigned int hold_ms;
	u64 last_done_ns;
	struct mqp_turn turn;
	struct hrtimer timer;
	struct mqp_rank rank[MQP_RANKS];
};

/* Ranks */

static unsigned int mqp_ioprio_rank(unsigned int ioprio)
{
	enum rq_class class = rq_class(ioprio);

	return class == RQ_IDLE ? MQP_RANK_IDLE : class * MQP_RANK_BE + rq_level(ioprio);
}

static bool mqp_active(const struct mqp_rank *r, unsigned long window)
{
	return r->set.queued || atomic_read(&r->issued) ||
	       time_before_eq(jiffies, READ_ONCE(r->last) + window);
}

/* More than one rank had requests lately. */
static bool mqp_competing(const struct mqp_data *mqp)
{
	unsigned long busy = READ_ONCE(mqp->busy);

	return busy & (busy - 1);
}

static unsigned long mqp_hold(const struct mqp_data *mqp)
{
	return msecs_to_jiffies(READ_ONCE(mqp->hold_ms));
}

/*
 * The most urgent active rank; forgets ranks long gone.  A waiting request
 * makes its rank active, so callers that know of one get a valid rank.
 */
static unsigned int mqp_top(struct mqp_data *mqp)
{
	unsigned long hold = mqp_hold(mqp);
	unsigned int i, top = MQP_RANKS;
	unsigned long busy = mqp->busy;

	lockdep_assert_held(&mqp->lock);
	for_each_set_bit(i, &busy, MQP_RANKS) {
		struct mqp_rank *r = &mqp->rank[i];

		if (top == MQP_RANKS && mqp_active(r, hold))
			top = i;
		else if (!mqp_active(r, MQP_RESERVE_JIFFIES))
			WRITE_ONCE(mqp->busy, mqp->busy & ~BIT(i));
	}
	return top;
}

/* Lower requests inside the device, whether they went in a turn or before. */
static bool mqp_lower_issued(const struct mqp_data *mqp, unsigned int top)
{
	unsigned long lower = mqp->busy & ~GENMASK(top, 0);
	unsigned int i;

	for_each_set_bit(i, &lower, MQP_RANKS)
		if (atomic_read(&mqp->rank[i].issued))
			return true;
	return false;
}

/* Queueing */

static void mqp_set_state(struct request *rq, enum mqp_state state)
{
	rq->elv.priv[1] = (void *)state;
}

static enum mqp_state mqp_get_state(const struct request *rq)
{
	return (enum mqp_state)(unsigned long)rq->elv.priv[1];
}

static struct request *mqp_oldest(const struct mqp_rank *r)
{
	return rq_set_oldest(&r->set);
}

/* Makes all that waits known to the merge look-ups. */
static void mqp_index_all(struct mqp_data *mqp)
{
	unsigned long waiting = mqp->waiting;
	unsigned int i;

	lockdep_assert_held(&mqp->lock);
	for_each_set_bit(i, &waiting, MQP_RANKS)
		rq_set_index_all(mqp->q, &mqp->rank[i].set);
}

static void mqp_enqueue(struct mqp_data *mqp, struct request *rq)
{
	unsigned int i = mqp_ioprio_rank(sluice_rq_ioprio(rq));
	struct mqp_rank *r = &mqp->rank[i];

	rq->elv.priv[0] = r;
	mqp_set_state(rq, MQP_QUEUED);
	rq_set_add(&r->set, rq);
	mqp->waiting |= BIT(i);
	if (!(mqp->busy & BIT(i)))
		WRITE_ONCE(mqp->busy, mqp->busy | BIT(i));
	if (mqp->rotating)
		rq_set_index(mqp->q, &r->set, rq);
}

/* Takes a request off its FIFO and out of the merge look-ups. */
static void mqp_unlink(struct mqp_data *mqp, struct request *rq)
{
	struct mqp_rank *r = rq->elv.priv[0];

	lockdep_assert_held(&mqp->lock);
	rq_set_del(mqp->q, &r->set, rq);
	mqp_set_state(rq, MQP_OUTSIDE);
	WRITE_ONCE(mqp->queued, mqp->queued - 1);
	if (!r->set.queued)
		mqp->waiting &= ~BIT(r - mqp->rank);
}

/* Order within a rank */

/* Sector order with a deadline: what a disk needs and flash doesn't. */
static struct request *mqp_sweep(struct mqp_rank *r)
{
	struct request *rq = mqp_oldest(r);

	if (++r->swept < MQP_SWEEP_BATCH || time_before(jiffies, rq_came(rq) + MQP_SWEEP_EXPIRE))
		rq = rq_set_from(&r->set, r->pos);
	else
		r->swept = 0;
	return rq;
}

/* The rank's next in order, or, where @oldest, the one that waited longest. */
static struct request *mqp_take(struct mqp_data *mqp, struct mqp_rank *r, enum mqp_state state,
				bool oldest)
{
	struct request *rq = mqp->rotating && !oldest ? mqp_sweep(r) : mqp_oldest(r);

	r->pos = blk_rq_pos(rq) + blk_rq_sectors(rq);
	mqp_unlink(mqp, rq);
	mqp_set_state(rq, state);
	atomic_inc(&r->issued);
	return rq;
}

/* Turns */

static unsigned int mqp_longest_waiting(const struct mqp_data *mqp, unsigned long lower)
{
	unsigned int i, best = __ffs(lower);

	for_each_set_bit(i, &lower, MQP_RANKS)
		if (mqp_oldest(&mqp->rank[i])->start_time_ns <
		    mqp_oldest(&mqp->rank[best])->start_time_ns)
			best = i;
	return best;
}

/* The time that must pass for @cost of lower ranks' device time. */
static u64 mqp_period(const struct mqp_data *mqp, u64 cost)
{
	u64 period = div_u64(cost * MQP_PROMISE_PCT, READ_ONCE(mqp->low_share));

	return min_t(u64, period, MQP_PERIOD_MAX_NS);
}

/*
 * Requests in a turn on flash: one, and those that came due while the last turn
 * was inside the device, within lower ranks' share of the device's queue.
 */
static unsigned int mqp_turn_size(const struct mqp_data *mqp, unsigned int top, u64 now)
{
	const struct mqp_turn *turn = &mqp->turn;
	unsigned int inside = atomic_read(&mqp->rank[top].issued);
	u64 due = div64_u64(now - turn->next_ns, max(mqp_period(mqp, turn->unit_ns), 1ULL));

	return clamp_t(u64, 1 + due, 1, max(inside * READ_ONCE(mqp->low_share) / 100, 1U));
}

static void mqp_turn_begin(struct mqp_data *mqp, unsigned int top, unsigned long lower, u64 now)
{
	struct mqp_turn *turn = &mqp->turn;
	unsigned int i = mqp_longest_waiting(mqp, lower);
	struct mqp_rank *r = &mqp->rank[i];
	u64 waited = now - mqp_oldest(r)->start_time_ns;

	/* Only the device's delay is made up for, not time in which nothing waited. */
	turn->next_ns = max(turn->next_ns, now - min(now, turn->stay_ns));
	turn->rank = i;
	turn->left = mqp->rotating ? MQP_TURN_SECTORS : mqp_turn_size(mqp, top, now);
	turn->start_ns = now;
	turn->cost_ns = 0;
	turn->count++;
	r->max_wait_ns = max(r->max_wait_ns, waited);
	trace_mq_prio_turn(mqp->q, i, waited);
}

/* Whether a lower request may go now; begins a turn when one is due. */
static bool mqp_turn_open(struct mqp_data *mqp, unsigned int top, unsigned long lower)
{
	struct mqp_turn *turn = &mqp->turn;
	u64 now;

	if (turn->issued)
		return turn->left > 0 && (lower & BIT(turn->rank));
	if (mqp_lower_issued(mqp, top))
		return false;
	now = ktime_get_ns();
	if (now < turn->next_ns)
		return false;
	mqp_turn_begin(mqp, top, lower, now);
	return true;
}

static struct request *mqp_turn_take(struct mqp_data *mqp)
{
	struct mqp_turn *turn = &mqp->turn;
	struct request *rq = mqp_take(mqp, &mqp->rank[turn->rank], MQP_TURN, !turn->issued);

	turn->left -= mqp->rotating ? max(blk_rq_sectors(rq), MQP_TURN_LEAST) : 1;
	turn->issued++;
	return rq;
}

/*
 * One of the turn's requests is done, @spent after the completion before it.
 * On flash a read is charged the least lately seen: down at once, up slowly.  A
 * write ends in the drive's buffer and costs more than it shows: it is charged
 * in full.
 */
static void mqp_turn_charge(struct mqp_data *mqp, u64 spent, bool write)
{
	struct mqp_turn *turn = &mqp->turn;

	if (!mqp->rotating && !write && turn->unit_ns)
		spent = min(spent, turn->unit_ns + turn->unit_ns / MQP_UNIT_RISE + 1);
	turn->unit_ns = spent;
	turn->cost_ns += spent;
}

/*
 * The turn's last request is done: sets the time of the next turn so that this
 * one's cost is low_share percent of the period.
 */
static void mqp_turn_end(struct mqp_data *mqp, u64 now)
{
	struct mqp_turn *turn = &mqp->turn;
	u64 period = mqp_period(mqp, turn->cost_ns);

	turn->stay_ns = now - turn->start_ns;
	turn->next_ns = max(turn->next_ns + period, turn->start_ns);
	turn->left = 0;
	trace_mq_prio_turn_end(mqp->q, turn->rank, turn->cost_ns, period);
}

/* What is left of an idle rank's hold, in ns, rounded up to whole jiffies. */
static u64 mqp_hold_left(const struct mqp_data *mqp, const struct mqp_rank *r)
{
	long left = READ_ONCE(r->last) + mqp_hold(mqp) + 1 - jiffies;

	return left > 0 ? jiffies_to_nsecs(left) : 0;
}

/* An early timer costs a look, a new one on each hold would cost more. */
static bool mqp_timer_covers(struct mqp_data *mqp, u64 at)
{
	return hrtimer_is_queued(&mqp->timer) &&
	       ktime_to_ns(hrtimer_get_expires(&mqp->timer)) <= at + MQP_TIMER_SLACK_NS;
}

/*
 * Starts the timer for the earliest moment at which something that is held may
 * go: at once when the highest rank's hold ended and what was held is now the
 * highest, else the next turn or the end of the hold, whichever is first.  While
 * lower requests are inside the device their last completion comes here again.
 * Something waits, so that a top rank exists.
 */
static void mqp_arm(struct mqp_data *mqp)
{
	unsigned int top = mqp_top(mqp);
	struct mqp_rank *r = &mqp->rank[top];
	u64 now = ktime_get_ns();
	u64 at = U64_MAX;

	if (r->set.queued) {
		if (!mqp->held)
			return;
		at = now;
	} else {
		if (!mqp->turn.issued && !mqp_lower_issued(mqp, top))
			at = max(now, mqp->turn.next_ns);
		if (!atomic_read(&r->issued))
			at = min(at, now + mqp_hold_left(mqp, r));
	}
	if (at != U64_MAX && !mqp_timer_covers(mqp, at))
		hrtimer_start(&mqp->timer, ns_to_ktime(at + MQP_TIMER_SLACK_NS), HRTIMER_MODE_ABS);
}

static enum hrtimer_restart mqp_timer(struct hrtimer *timer)
{
	struct mqp_data *mqp = container_of(timer, struct mqp_data, timer);

	WRITE_ONCE(mqp->held, false);
	blk_mq_run_hw_queues(mqp->q, true);
	return HRTIMER_NORESTART;
}

/* Requests, in the order of a request's life */

/* Called without locks, before a tag is allocated for the current task. */
static void mqp_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct mqp_data *mqp = data->q->elevator->elevator_data;
	unsigned long higher = READ_ONCE(mqp->busy);
	unsigned int i;

	higher &= BIT(mqp_ioprio_rank(get_current_ioprio())) - 1;
	for_each_set_bit(i, &higher, MQP_RANKS) {
		if (mqp_active(&mqp->rank[i], MQP_RESERVE_JIFFIES)) {
			sluice_limit_tags(data, sluice_nr_tags(data) / 2);
			return;
		}
	}
}

static void mqp_prepare_request(struct request *rq)
{
	mqp_set_state(rq, MQP_OUTSIDE);
}

static bool mqp_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct mqp_data *mqp = q->elevator->elevator_data;
	struct request *free = NULL;
	unsigned long flags;
	bool merged;

	if (!READ_ONCE(mqp->queued))
		return false;
	spin_lock_irqsave(&mqp->lock, flags);
	mqp_index_all(mqp);
	merged = blk_mq_sched_try_merge(q, bio, nr_segs, &free);
	spin_unlock_irqrestore(&mqp->lock, flags);
	if (free)
		blk_mq_free_request(free);
	return merged;
}

/* Called by blk_mq_sched_try_merge() when no back merge was found. */
static int mqp_request_merge(struct request_queue *q, struct request **req, struct bio *bio)
{
	struct mqp_data *mqp = q->elevator->elevator_data;
	struct mqp_rank *r = &mqp->rank[mqp_ioprio_rank(bio->bi_ioprio)];

	lockdep_assert_held(&mqp->lock);
	return rq_set_front_merge(&r->set, req, bio);
}

/* A bio was merged into @req; in front means that its sector changed. */
static void mqp_request_merged(struct request_queue *q, struct request *req, enum elv_merge type)
{
	struct mqp_rank *r = req->elv.priv[0];

	if (type == ELEVATOR_FRONT_MERGE)
		rq_set_moved(&r->set, req);
}

/* @next was merged into @req and goes away; the older place is kept. */
static void mqp_requests_merged(struct request_queue *q, struct request *req, struct request *next)
{
	struct mqp_data *mqp = q->elevator->elevator_data;

	lockdep_assert_held(&mqp->lock);
	if (mqp_get_state(next) != MQP_QUEUED)
		return;
	rq_inherit_place(req, next);
	mqp_unlink(mqp, next);
}

static void mqp_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				sluice_insert_t ins)
{
	struct request_queue *q = hctx->queue;
	struct mqp_data *mqp = q->elevator->elevator_data;
	struct list_head *head = &mqp->urgent;
	struct request *rq, *tmp;
	unsigned long flags;
	LIST_HEAD(free);
	bool merge;

	spin_lock_irqsave(&mqp->lock, flags);
	/*
	 * A plug's requests were merged among themselves; look only for what
	 * waited before them, and not at all when nothing did.
	 */
	merge = mqp->queued;
	if (merge)
		mqp_index_all(mqp);
	list_for_each_entry_safe(rq, tmp, list, queuelist) {
		list_del_init(&rq->queuelist);
		if (merge && !rq_collects(rq) && blk_mq_sched_try_insert_merge(q, rq, &free))
			continue;
		trace_block_rq_insert(rq);
		WRITE_ONCE(mqp->queued, mqp->queued + 1);
		if (sluice_insert_at_head(ins)) {
			list_add(&rq->queuelist, head);
			head = &rq->queuelist;
		} else if (!(rq->rq_flags & SLUICE_RQF_SCHED)) {
			list_add_tail(&rq->queuelist, &mqp->urgent);
		} else {
			mqp_enqueue(mqp, rq);
		}
	}
	WRITE_ONCE(mqp->held, false);
	spin_unlock_irqrestore(&mqp->lock, flags);
	sluice_free_requests(&free);
}

static bool mqp_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct mqp_data *mqp = hctx->queue->elevator->elevator_data;

	return READ_ONCE(mqp->queued) && !READ_ONCE(mqp->held);
}

/* Several ranks had requests lately: the higher goes, a turn goes, or nothing. */
static struct request *mqp_dispatch_competing(struct mqp_data *mqp)
{
	unsigned int top = mqp_top(mqp);
	unsigned long lower = mqp->waiting & ~GENMASK(top, 0);

	if (lower && mqp_turn_open(mqp, top, lower))
		return mqp_turn_take(mqp);
	if (mqp->waiting & BIT(top))
		return mqp_take(mqp, &mqp->rank[top], MQP_ISSUED, false);
	WRITE_ONCE(mqp->held, true);
	mqp_arm(mqp);
	trace_mq_prio_hold(mqp->q, top, lower);
	return NULL;
}

static struct request *mqp_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct mqp_data *mqp = hctx->queue->elevator->elevator_data;
	struct request *rq = NULL;
	unsigned long flags;

	spin_lock_irqsave(&mqp->lock, flags);
	if (!list_empty(&mqp->urgent)) {
		rq = list_first_entry(&mqp->urgent, struct request, queuelist);
		list_del_init(&rq->queuelist);
		WRITE_ONCE(mqp->queued, mqp->queued - 1);
	} else if (!mqp->waiting) {
		goto out;
	} else if (mqp_competing(mqp)) {
		rq = mqp_dispatch_competing(mqp);
	} else {
		rq = mqp_take(mqp, &mqp->rank[__ffs(mqp->waiting)], MQP_ISSUED, false);
	}
	if (rq)
		rq->rq_flags |= RQF_STARTED;
out:
	spin_unlock_irqrestore(&mqp->lock, flags);
	return rq;
}

/* A request left the device while ranks compete. */
static void mqp_account(struct mqp_data *mqp, enum mqp_state state, bool last, bool write)
{
	u64 now = ktime_get_ns();
	struct mqp_turn *turn = &mqp->turn;
	unsigned long flags;

	if (state == MQP_TURN || last) {
		spin_lock_irqsave(&mqp->lock, flags);
		if (state == MQP_TURN) {
			u64 from = max(turn->start_ns, mqp->last_done_ns);

			mqp_turn_charge(mqp, now > from ? now - from : 0, write);
			if (!--turn->issued)
				mqp_turn_end(mqp, now);
		}
		if (mqp->waiting)
			mqp_arm(mqp);
		spin_unlock_irqrestore(&mqp->lock, flags);
	}
	WRITE_ONCE(mqp->last_done_ns, now);
}

/* Called from any context, for each request that mqp_prepare_request() saw. */
static void mqp_finish_request(struct request *rq)
{
	struct mqp_data *mqp = rq->q->elevator->elevator_data;
	enum mqp_state state = mqp_get_state(rq);
	struct mqp_rank *r = rq->elv.priv[0];
	bool last;

	if (state < MQP_ISSUED)
		return;
	mqp_set_state(rq, MQP_OUTSIDE);
	WRITE_ONCE(r->last, jiffies);
	last = atomic_dec_and_test(&r->issued);
	if (state == MQP_TURN || mqp_competing(mqp))
		mqp_account(mqp, state, last, op_is_write(req_op(rq)));
}

/* Life of the scheduler */

static void mqp_depth_updated(struct request_queue *q)
{
	sluice_may_limit_tags(q);
}

static void mqp_init_ranks(struct mqp_data *mqp)
{
	unsigned int i;

	for (i = 0; i < MQP_RANKS; i++) {
		rq_set_init(&mqp->rank[i].set);
		mqp->rank[i].last = jiffies - MQP_RESERVE_JIFFIES - 1;
	}
}

/* Called with the queue frozen. */
static int mqp_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct mqp_data *mqp;

	mqp = kzalloc_node(sizeof(*mqp), GFP_KERNEL, q->node);
	if (!mqp)
		return -ENOMEM;
	spin_lock_init(&mqp->lock);
	INIT_LIST_HEAD(&mqp->urgent);
	mqp->q = q;
	mqp->rotating = !blk_queue_nonrot(q);
	mqp->low_share = mqp->rotating ? MQP_LOW_SHARE_ROTATING : MQP_LOW_SHARE_FLASH;
	mqp->hold_ms = MQP_HOLD_MS_DEFAULT;
	mqp_init_ranks(mqp);
	sluice_hrtimer_setup(&mqp->timer, mqp_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	sluice_may_limit_tags(q);
	eq->elevator_data = mqp;
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	return 0;
}

/* Called with the queue frozen: every request has been finished. */
static void mqp_exit_sched(struct elevator_queue *eq)
{
	struct mqp_data *mqp = eq->elevator_data;
	unsigned int i;

	hrtimer_cancel(&mqp->timer);
	WARN_ON_ONCE(!list_empty(&mqp->urgent) || mqp->queued || mqp->waiting || mqp->turn.issued);
	for (i = 0; i < MQP_RANKS; i++) {
		struct mqp_rank *r = &mqp->rank[i];

		WARN_ONCE(!rq_set_is_empty(&r->set) || atomic_read(&r->issued),
			  "mq-prio: rank %u ends with %u queued, %d issued\n", i, r->set.queued,
			  atomic_read(&r->issued));
	}
	kfree(mqp);
}

/* Knobs */

RQ_KNOB(mqp_data, low_share, 1, MQP_LOW_SHARE_MAX)
RQ_KNOB(mqp_data, hold_ms, 0, MQP_HOLD_MS_MAX)

static sluice_attr_t mqp_attrs[] = { RQ_KNOB_ATTR(low_share), RQ_KNOB_ATTR(hold_ms), __ATTR_NULL };

#ifdef CONFIG_BLK_DEBUG_FS
/* debugfs .../sched/state: a line per rank, then the turns. */
static int mqp_state_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct mqp_data *mqp = q->elevator->elevator_data;
	unsigned int i;
	u64 now;

	seq_puts(m, "rank queued issued oldest_ns max_wait_ns\n");
	spin_lock_irq(&mqp->lock);
	now = ktime_get_ns();
	for (i = 0; i < MQP_RANKS; i++) {
		struct mqp_rank *r = &mqp->rank[i];

		seq_printf(m, "%u %u %d %llu %llu\n", i, r->set.queued, atomic_read(&r->issued),
			   r->set.queued ? now - mqp_oldest(r)->start_time_ns : 0, r->max_wait_ns);
	}
	seq_printf(m, "turns %llu issued %u unit_ns %llu cost_ns %llu stay_ns %llu\n",
		   mqp->turn.count, mqp->turn.issued, mqp->turn.unit_ns, mqp->turn.cost_ns,
		   mqp->turn.stay_ns);
	spin_unlock_irq(&mqp->lock);
	return 0;
}

static const struct blk_mq_debugfs_attr mqp_debugfs_attrs[] = {
	{ "state", 0400, mqp_state_show },
	{},
};
#endif

SLUICE_INIT_SCHED(mqp_init_sched_op, mqp_init_sched)
SLUICE_DEPTH_UPDATED(mqp_depth_updated_op, mqp_depth_updated)

static struct elevator_type mq_prio = {
	.ops = {
		.init_sched		= mqp_init_sched_op,
		.exit_sched		= mqp_exit_sched,
		.depth_updated		= mqp_depth_updated_op,
		.limit_depth		= mqp_limit_depth,
		.prepare_request	= mqp_prepare_request,
		.bio_merge		= mqp_bio_merge,
		.request_merge		= mqp_request_merge,
		.request_merged		= mqp_request_merged,
		.requests_merged	= mqp_requests_merged,
		.former_request		= elv_rb_former_request,
		.next_request		= elv_rb_latter_request,
		.insert_requests	= mqp_insert_requests,
		.has_work		= mqp_has_work,
		.dispatch_request	= mqp_dispatch_request,
		.requeue_request	= mqp_finish_request,
		.finish_request		= mqp_finish_request,
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
MODULE_DESCRIPTION("I/O priorities that hold");
MODULE_ALIAS("mq-prio-iosched");

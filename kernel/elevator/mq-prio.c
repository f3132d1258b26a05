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
 *    ones may take half of the tags, and so on down (mqp_limit_depth()).
 *  - Lower requests fill the device's own queue.  While a higher rank is
 *    active, lower ones are inside the device in turns: one request on flash,
 *    1 MiB on a rotating disk, where one seek should pay for much.  While a
 *    higher rank stays away for longer than is worth waiting for, lower ones
 *    keep the device busy, but no deeper than their throughput needs
 *    (mqp_learn_limit()).
 *  - Aging that lets the oldest go first turns into "low first" once an
 *    overload has made everything old.  Here aging is a budget: what a turn
 *    costs decides when the next one opens, so that turns take low_share percent
 *    of the time however much waits.  The most urgent rank that waits has most
 *    of the turns, and the ranks below it low_share percent of that.
 *
 * The cost of a turn on a disk is what the device spent on it: the time from the
 * completion before it (or from the turn's start) to its own, which is seek,
 * rotation and transfer.  On flash requests overlap, and completions come in
 * batches, so that no single completion says what a request costs.  There the
 * lower rank has the device for itself for a moment, once a minute (a trial), and
 * is charged by the byte what the device took then.  In a trial too it has no more
 * requests inside than its throughput needs: a higher rank meets what is inside at
 * the end.  A trial of writes goes on until they have filled the drive's buffer.
 * With C for the cost, S for the share in per cent, the next turn opens after
 *
 *	min(C * 92 / S, 1 s)
 *
 * On a disk one turn is inside the device at a time, on flash as many as the share
 * needs (mqp_turn_fits()).  The first turn opens when the lower requests that were
 * inside the device before the higher rank came have left it.
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

/* Averages are over about so many requests; the time between two is kept in parts of a jiffy. */
#define MQP_WEIGHT 8
#define MQP_ALIKE (2 * MQP_WEIGHT)
#define MQP_THINK_SHIFT 8

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

/*
 * A rank's depth inside the device doubles as long as that brings a quarter more throughput, so
 * that at its limit the rank has four fifths of what it could have.  A depth is judged by so many
 * completions, and two more for each request inside: they show a difference of a quarter, and keep
 * a trial short.  Mixed sizes take more.
 */
#define MQP_WINDOW 4
#define MQP_WINDOW_MIXED 64
#define MQP_GAIN_PCT 125
#define MQP_MIB_SHIFT 20

/* After so many windows the search begins anew, at half the limit: too rarely for a p99 to show. */
#define MQP_LOOK_AGAIN 1024

/*
 * A rank that had some turns has a trial: one that wants little isn't worth it.  Another comes
 * each minute, but takes a hundredth of the time at most.  While the cost isn't known, or when
 * requests have become twice or half as large, or most write where most read, it comes as soon as
 * a second after the last one, but takes a tenth of the time at most.  A trial of writes ends when
 * they have filled the buffer that a drive without memory of its own may have.  As a trial stops
 * higher ranks, it ends after MQP_TRIAL_NS in any case: a slow drive fills its buffer in that.  A
 * look ends the trial of a rank that has gone.
 */
#define MQP_TRIAL_TURNS 2
#define MQP_TRIAL_JIFFIES (60UL * HZ)
#define MQP_TRIAL_REST_JIFFIES HZ
#define MQP_TRIAL_REST 10
#define MQP_TRIAL_WRITES (16 * 1024 * 1024)
#define MQP_TRIAL_NS NSEC_PER_SEC
#define MQP_TRIAL_LOOK_NS (5 * NSEC_PER_MSEC)

/*
 * The part of a rank's requests that write is an average in these units, over about so many: the
 * average of a few would call an even mix of reads and writes now the one and now the other.
 */
#define MQP_ALL_WRITES 4096
#define MQP_WRITES_WEIGHT 64

/*
 * A busy higher rank's own dispatches open turns; the timer is for when there
 * are none, and late enough to leave the work to them.
 */
#define MQP_TIMER_SLACK_NS (250 * NSEC_PER_USEC)

/* No turn, however long the device stalled, keeps the next away for longer. */
#define MQP_PERIOD_MAX_NS NSEC_PER_SEC

/*
 * While ranks compete for flash, merges make no request larger: what is held back would grow to
 * the largest request there is, which no other rank can interrupt.  That much the page cache
 * reads ahead, unless told otherwise.
 */
#define MQP_MERGE_SECTORS (128 * 1024 >> SECTOR_SHIFT)

/*
 * Within a rank on a rotating disk: requests in one sweep before the oldest is
 * looked at, and the age at which it goes first.
 */
#define MQP_SWEEP_BATCH 16
#define MQP_SWEEP_EXPIRE (HZ / 2)

/*
 * Where a request is; kept in the low bits of rq->elv.priv[1], below its bytes.  One that the
 * driver gives back stays inside until it is done: it doesn't always come to the elevator again.
 */
enum mqp_state {
	MQP_OUTSIDE, /* not inserted, or done */
	MQP_QUEUED, /* in its rank's FIFO */
	MQP_ISSUED, /* dispatched, not finished */
	MQP_TURN, /* the same, as part of a turn */
};

#define MQP_STATE_BITS 2

/**
 * struct mqp_window - throughput over some completions
 * @last_ns: the completion before; 0: none, or something else was in between
 * @ns: between completions
 * @bytes: of all requests but the first
 * @done: their number; below 0 those before which nothing counts
 */
struct mqp_window {
	u64 last_ns;
	u64 ns;
	u64 bytes;
	int done;
};

/**
 * struct mqp_rank - the requests of one rank
 * @set: waiting requests; on a rotating disk all are indexed
 * @pos: sector where the sweep goes on (rotating disks)
 * @swept: requests since the sweep last looked at the oldest
 * @max_wait_ns: longest wait of a request that began a turn
 * @owed_ns: device time that ranks below this one may have before it
 * @think: how long the rank stays away between requests, jiffies << MQP_THINK_SHIFT
 * @turns: since the last trial
 * @size: bytes of a request in turns and trials, on average
 * @writes: how many of these write, of MQP_ALL_WRITES
 * @alike: requests since the last one that was twice or half as large, up to MQP_ALIKE
 * @mib_ns: what the device takes for a MiB when the rank has it for itself; 0: not known
 * @tried: jiffies when that was learned
 * @tried_size: @size then
 * @tried_writes: @writes then
 * @rest: jiffies after the last trial in which no other follows
 * @limit: requests inside the device that suffice for the rank's throughput
 * @limit_mib_ns: what the device takes for a MiB with so many
 * @depth: how many may be inside: @limit, or twice that to see what it brings
 * @windows: that many at the limit, and half of it is tried again; 0: the search is on
 * @window: the throughput with @depth inside
 * @issued: dispatched and unfinished; changes without the lock, as @last does
 * @last: jiffies when the rank last had a request finished
 */
struct mqp_rank {
	struct rq_set set;
	sector_t pos;
	unsigned int swept;
	u64 max_wait_ns;
	s64 owed_ns;
	unsigned int think;
	unsigned int turns;
	unsigned int size;
	unsigned int writes;
	unsigned int alike;
	u64 mib_ns;
	unsigned long tried;
	unsigned int tried_size;
	unsigned int tried_writes;
	unsigned long rest;
	unsigned int limit;
	u64 limit_mib_ns;
	unsigned int depth;
	unsigned int windows;
	struct mqp_window window;
	atomic_t issued ____cacheline_aligned_in_smp;
	unsigned long last;
};

/**
 * struct mqp_turn - lower ranks' share of the device
 * @rank: the rank whose turn it is
 * @left: budget in sectors, on a rotating disk
 * @issued: requests of turns inside the device
 * @start_ns: when the first request went
 * @cost_ns: device time of the requests that finished, or on flash of the last one that went
 * @stay_ns: how long a turn is inside the device: on a disk the last one, on flash on average
 * @next_ns: when the next turn may open
 * @count: turns so far
 */
struct mqp_turn {
	unsigned int rank;
	int left;
	unsigned int issued;
	u64 start_ns;
	u64 cost_ns;
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
 * @looked: jiffies when @busy was last searched for ranks long gone
 * @queued: requests on @urgent and all FIFOs; read without the lock
 * @held: all that waits is held for @timer or a completion; read without the lock
 * @full: the rank whose limit keeps its requests back, MQP_RANKS: none; read
 *	  without the lock
 * @trial: the rank that has the device for itself, MQP_RANKS: none
 * @trial_ns: when that began
 * @trial_bytes: what was done since
 * @rotating: the device seeks
 * @low_share: percent, 1-50; read and written without the lock
 * @hold_ms: 0-1000; read and written without the lock
 * @last_done_ns: last completion while turns are inside the device; written without the lock,
 *		  and may be a completion too early when several end at a time
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
	unsigned long looked;
	unsigned int queued;
	bool held;
	unsigned int full;
	unsigned int trial;
	u64 trial_ns;
	u64 trial_bytes;
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

/* With or without the lock. */
static bool mqp_has_requests(const struct mqp_rank *r)
{
	return READ_ONCE(r->set.queued) || atomic_read(&r->issued);
}

static bool mqp_active(const struct mqp_rank *r, unsigned long window)
{
	return mqp_has_requests(r) || time_before_eq(jiffies, READ_ONCE(r->last) + window);
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

/* The rank has requests, or stays away for no longer than is worth waiting for. */
static bool mqp_held_for(const struct mqp_data *mqp, const struct mqp_rank *r)
{
	unsigned long hold;

	if (mqp_has_requests(r))
		return true;
	hold = mqp_hold(mqp);
	return r->think <= hold << MQP_THINK_SHIFT && mqp_active(r, hold);
}

/* A request comes: of a rank that had none that tells how long it stays away. */
static void mqp_learn_think(struct mqp_data *mqp, struct mqp_rank *r)
{
	unsigned long most = 2 * mqp_hold(mqp);
	unsigned int away;

	if (mqp_has_requests(r))
		return;
	away = min(jiffies - READ_ONCE(r->last), most) << MQP_THINK_SHIFT;
	r->think += ((int)away - (int)r->think) / MQP_WEIGHT;
}

/* Forgets ranks long gone; looks for them once in a jiffy. */
static void mqp_forget(struct mqp_data *mqp)
{
	unsigned long busy = mqp->busy, now = jiffies;
	unsigned int i;

	if (mqp->looked == now)
		return;
	mqp->looked = now;
	for_each_set_bit(i, &busy, MQP_RANKS)
		if (!mqp_active(&mqp->rank[i], MQP_RESERVE_JIFFIES))
			WRITE_ONCE(mqp->busy, mqp->busy & ~BIT(i));
}

/*
 * The most urgent active rank. A waiting request makes its rank active, so callers that know of
 * one get a valid rank.
 */
static unsigned int mqp_top(struct mqp_data *mqp)
{
	unsigned int i;

	lockdep_assert_held(&mqp->lock);
	mqp_forget(mqp);
	for_each_set_bit(i, &mqp->busy, MQP_RANKS)
		if (mqp_held_for(mqp, &mqp->rank[i]))
			return i;
	return MQP_RANKS;
}

/* The rank whose requests go first: the one that has the device for itself, or the top one. */
static unsigned int mqp_first(struct mqp_data *mqp)
{
	return mqp->trial < MQP_RANKS ? mqp->trial : mqp_top(mqp);
}

/* Requests of these ranks inside the device. */
static unsigned int mqp_inside(const struct mqp_data *mqp, unsigned long ranks)
{
	unsigned int i, inside = 0;

	for_each_set_bit(i, &ranks, MQP_RANKS)
		inside += atomic_read(&mqp->rank[i].issued);
	return inside;
}

/* Lower requests inside the device, whether they went in a turn or before. */
static unsigned int mqp_lower_issued(const struct mqp_data *mqp, unsigned int top)
{
	return mqp_inside(mqp, mqp->busy & ~GENMASK(top, 0));
}

/* Throughput */

/*
 * Takes a completion into a window; returns the time for a MiB when it has @done of them and @least
 * bytes, else 0.
 */
static u64 mqp_window_add(struct mqp_window *w, u64 now, unsigned int bytes, int done, u64 least)
{
	u64 mib_ns;

	if (w->last_ns && w->done++ >= 0) {
		w->ns += now - w->last_ns;
		w->bytes += bytes;
	}
	w->last_ns = now;
	if (w->done < done || w->bytes < least)
		return 0;
	mib_ns = div64_u64(w->ns << MQP_MIB_SHIFT, max(w->bytes, 1ULL));
	*w = (struct mqp_window){ .last_ns = now };
	return mib_ns;
}

/* Before more urgent requests, and where a rank has too few, completions say nothing of a limit. */
static void mqp_not_full(struct mqp_data *mqp)
{
	lockdep_assert_held(&mqp->lock);
	if (mqp->full < MQP_RANKS)
		mqp->rank[mqp->full].window.last_ns = 0;
	WRITE_ONCE(mqp->full, MQP_RANKS);
}

/* Of a rank alone the device takes @mib_ns for a MiB of such requests; 0: not known. */
static void mqp_learn_cost(struct mqp_rank *r, u64 mib_ns)
{
	r->mib_ns = mib_ns;
	r->tried_size = r->size;
	r->tried_writes = r->writes;
}

/* So many of the rank's requests may be inside from now on; what is inside tells nothing of it. */
static void mqp_set_depth(struct mqp_rank *r, unsigned int depth)
{
	r->depth = depth;
	r->window = (struct mqp_window){ .done = -(int)depth };
}

/* The rank's requests have become others than those whose cost is known, and are all of a kind. */
static bool mqp_changed(const struct mqp_rank *r)
{
	int writes = (int)r->writes - (int)r->tried_writes;

	if (r->alike < MQP_ALIKE)
		return false;
	return r->size > 2 * r->tried_size || r->size < r->tried_size / 2 ||
	       abs(writes) > MQP_ALL_WRITES / 2;
}

/* The search for the limit begins; what it found before is forgotten. */
static void mqp_search(struct mqp_rank *r)
{
	r->limit = 1;
	r->windows = 0;
	mqp_set_depth(r, 1);
}

/* With @depth inside it took @mib_ns: the search for the limit goes on, or begins anew later. */
static void mqp_learn_limit(struct mqp_rank *r, u64 mib_ns)
{
	if (r->depth == r->limit) {
		r->limit_mib_ns = mib_ns;
		if (!r->windows) {
			mqp_set_depth(r, 2 * r->limit);
		} else if (!--r->windows) {
			r->limit = max(r->limit / 2, 1U);
			mqp_set_depth(r, r->limit);
		}
	} else if (r->limit_mib_ns * 100 >= mib_ns * MQP_GAIN_PCT) {
		r->limit = r->depth;
		r->limit_mib_ns = mib_ns;
		mqp_set_depth(r, 2 * r->limit);
	} else {
		mqp_set_depth(r, r->limit);
		r->windows = MQP_LOOK_AGAIN;
	}
}

/* Queueing */

/* A discard, which moves no data, counts as a sector. */
static void mqp_set_state(struct request *rq, enum mqp_state state)
{
	bool moves = req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE;
	unsigned long bytes = moves ? blk_rq_bytes(rq) : SECTOR_SIZE;

	rq->elv.priv[1] = (void *)(bytes << MQP_STATE_BITS | state);
}

static void mqp_set_outside(struct request *rq)
{
	rq->elv.priv[1] = (void *)MQP_OUTSIDE;
}

static enum mqp_state mqp_get_state(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] & GENMASK(MQP_STATE_BITS - 1, 0);
}

/* What the request had when it was inserted, or dispatched. */
static unsigned int mqp_bytes(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] >> MQP_STATE_BITS;
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
	if (mqp_competing(mqp)) {
		mqp_learn_think(mqp, r);
		if (i < mqp->full)
			mqp_not_full(mqp);
	}
	rq_set_add(&r->set, rq);
	mqp->waiting |= BIT(i);
	if (!(mqp->busy & BIT(i))) {
		WRITE_ONCE(mqp->busy, mqp->busy | BIT(i));
		mqp_set_depth(r, r->limit);
	}
	if (mqp->rotating)
		rq_set_index(mqp->q, &r->set, rq);
}

/* Takes a request off its FIFO and out of the merge look-ups; the caller sets its state. */
static void mqp_unlink(struct mqp_data *mqp, struct request *rq)
{
	struct mqp_rank *r = rq->elv.priv[0];

	lockdep_assert_held(&mqp->lock);
	rq_set_del(mqp->q, &r->set, rq);
	WRITE_ONCE(mqp->queued, mqp->queued - 1);
	if (r->set.queued)
		return;
	mqp->waiting &= ~BIT(r - mqp->rank);
	if (r == &mqp->rank[mqp->full])
		mqp_not_full(mqp);
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

/*
 * Of lower ranks that wait the one whose turn it is: the most urgent, unless those below it are
 * owed their share of what it had.
 */
static unsigned int mqp_next_rank(const struct mqp_data *mqp, unsigned long lower)
{
	unsigned int i = __ffs(lower);

	while (mqp->rank[i].owed_ns > 0 && (lower & ~GENMASK(i, 0)))
		i = __ffs(lower & ~GENMASK(i, 0));
	return i;
}

static void mqp_owe(struct mqp_rank *r, s64 ns)
{
	r->owed_ns = clamp_t(s64, r->owed_ns + ns, -(s64)MQP_PERIOD_MAX_NS, MQP_PERIOD_MAX_NS);
}

/*
 * A rank had @cost of the device's time: it owes its share to the ranks below it that wait, and
 * what those above it owed is paid by as much.
 */
static void mqp_settle(struct mqp_data *mqp, unsigned int rank, u64 cost)
{
	unsigned int share = READ_ONCE(mqp->low_share), i;
	unsigned long above = mqp->waiting & (BIT(rank) - 1);
	struct mqp_rank *r = &mqp->rank[rank];

	if (mqp->waiting & ~GENMASK(rank, 0))
		mqp_owe(r, div_u64(cost * share, 100 - share));
	else
		r->owed_ns = 0;
	for_each_set_bit(i, &above, MQP_RANKS)
		mqp_owe(&mqp->rank[i], -(s64)cost);
}

/* The time that must pass for @cost of lower ranks' device time. */
static u64 mqp_period(const struct mqp_data *mqp, u64 cost)
{
	u64 period = div_u64(cost * MQP_PROMISE_PCT, READ_ONCE(mqp->low_share));

	return min_t(u64, period, MQP_PERIOD_MAX_NS);
}

static void mqp_charge(struct mqp_data *mqp, unsigned int rank, u64 cost)
{
	mqp->turn.next_ns += mqp_period(mqp, cost);
	mqp_settle(mqp, rank, cost);
}

/* What a request takes of a flash device that the rank has for itself; 0: not known. */
static u64 mqp_cost(const struct mqp_rank *r, const struct request *rq)
{
	return mqp_bytes(rq) * r->mib_ns >> MQP_MIB_SHIFT;
}

static void mqp_turn_begin(struct mqp_data *mqp, unsigned int rank, u64 now)
{
	struct mqp_turn *turn = &mqp->turn;
	struct mqp_rank *r = &mqp->rank[rank];
	u64 waited = now - mqp_oldest(r)->start_time_ns;

	/* The device's delay and the timer's are made up for, not time in which nothing waited. */
	turn->next_ns = max(turn->next_ns, now - max(turn->stay_ns, MQP_TIMER_SLACK_NS));
	turn->rank = rank;
	turn->left = MQP_TURN_SECTORS;
	turn->start_ns = now;
	turn->cost_ns = 0;
	turn->count++;
	r->turns++;
	r->max_wait_ns = max(r->max_wait_ns, waited);
	trace_mq_prio_turn(mqp->q, rank, waited);
}

/*
 * Whether the device has room for another turn of a rank: what was inside before the higher rank
 * came has left it.  On flash so many are inside as their share needs, by Little's law: at the
 * rate at which they open, for as long as they stay.  So a device that stalls isn't filled.
 */
static bool mqp_turn_fits(const struct mqp_data *mqp, unsigned int top, unsigned int rank)
{
	const struct mqp_turn *turn = &mqp->turn;
	const struct mqp_rank *r = &mqp->rank[rank];

	if (!turn->issued)
		return !mqp_lower_issued(mqp, top);
	return !mqp->rotating && r->mib_ns &&
	       turn->issued * mqp_cost(r, mqp_oldest(r)) * 100 <
		       turn->stay_ns * READ_ONCE(mqp->low_share);
}

/* Whether a request of a lower rank, mqp->turn.rank, may go now; begins a turn when one is due. */
static bool mqp_turn_open(struct mqp_data *mqp, unsigned int top, unsigned long lower)
{
	struct mqp_turn *turn = &mqp->turn;
	unsigned int rank;
	u64 now;

	if (mqp->rotating && turn->issued)
		return turn->left > 0 && (lower & BIT(turn->rank));
	rank = mqp_next_rank(mqp, lower);
	if (!mqp_turn_fits(mqp, top, rank))
		return false;
	now = ktime_get_ns();
	if (now < turn->next_ns)
		return false;
	mqp_turn_begin(mqp, rank, now);
	return true;
}

/* Takes a request into its rank's averages. */
static void mqp_average(struct mqp_rank *r, const struct request *rq)
{
	int size = mqp_bytes(rq), writes = op_is_write(req_op(rq)) ? MQP_ALL_WRITES : 0;

	if (!r->size) {
		r->size = size;
		r->writes = writes;
	}
	if (size > 2 * r->size || size < r->size / 2)
		r->alike = 0;
	else if (r->alike < MQP_ALIKE)
		r->alike++;
	r->size += (size - (int)r->size) / MQP_WEIGHT;
	r->writes += (writes - (int)r->writes) / MQP_WRITES_WEIGHT;
}

/* On flash a turn is a request, which is charged at once where its cost is known. */
static struct request *mqp_turn_take(struct mqp_data *mqp)
{
	struct mqp_turn *turn = &mqp->turn;
	struct mqp_rank *r = &mqp->rank[turn->rank];
	struct request *rq = mqp_take(mqp, r, MQP_TURN, !mqp->rotating || !turn->issued);

	turn->left -= max(blk_rq_sectors(rq), MQP_TURN_LEAST);
	turn->issued++;
	if (mqp->rotating)
		return rq;
	mqp_average(r, rq);
	rq->fifo_time = turn->start_ns;
	turn->cost_ns = mqp_cost(r, rq);
	mqp_charge(mqp, turn->rank, turn->cost_ns);
	return rq;
}

/*
 * One of the turns' requests is done; fifo_time is when it went. Where no trial said what it costs,
 * that is the time since the completion before it.
 */
static void mqp_flash_turn_done(struct mqp_data *mqp, struct request *rq, u64 now)
{
	struct mqp_turn *turn = &mqp->turn;
	struct mqp_rank *r = rq->elv.priv[0];
	u64 from = max(rq->fifo_time, READ_ONCE(mqp->last_done_ns));
	u64 cost = mqp_cost(r, rq);

	turn->issued--;
	turn->stay_ns += div_s64(now - rq->fifo_time - turn->stay_ns, MQP_WEIGHT);
	if (!cost) {
		cost = now > from ? now - from : 0;
		mqp_charge(mqp, r - mqp->rank, cost);
	}
	trace_mq_prio_turn_end(mqp->q, r - mqp->rank, cost, mqp_period(mqp, cost));
}

/*
 * The same on a disk, where it cost the time since the completion before it. The last one ends the
 * turn, which sets the time of the next.
 */
static void mqp_disk_turn_done(struct mqp_data *mqp, u64 now)
{
	struct mqp_turn *turn = &mqp->turn;
	u64 from = max(turn->start_ns, READ_ONCE(mqp->last_done_ns));

	turn->stay_ns = now - turn->start_ns;
	turn->cost_ns += now > from ? now - from : 0;
	if (--turn->issued)
		return;
	mqp_charge(mqp, turn->rank, turn->cost_ns);
	turn->next_ns = max(turn->next_ns, turn->start_ns);
	turn->left = 0;
	trace_mq_prio_turn_end(mqp->q, turn->rank, turn->cost_ns, mqp_period(mqp, turn->cost_ns));
}

/* Trials */

/* A lower rank's share is of what it does alone: on flash that is found out by letting it. */
static bool mqp_trial_due(const struct mqp_data *mqp, const struct mqp_rank *r)
{
	unsigned long since = jiffies - r->tried;

	if (mqp->rotating || r->turns < MQP_TRIAL_TURNS)
		return false;
	if (!r->mib_ns || mqp_changed(r))
		return since > r->rest;
	return since > max(MQP_TRIAL_JIFFIES, MQP_TRIAL_REST * r->rest);
}

static void mqp_trial_look_later(struct mqp_data *mqp)
{
	hrtimer_start(&mqp->timer, ns_to_ktime(ktime_get_ns() + MQP_TRIAL_LOOK_NS),
		      HRTIMER_MODE_ABS_SOFT);
}

static void mqp_trial_begin(struct mqp_data *mqp, unsigned int rank)
{
	struct mqp_rank *r = &mqp->rank[rank];

	mqp->trial = rank;
	mqp->trial_ns = ktime_get_ns();
	mqp->trial_bytes = 0;
	mqp_search(r);
	mqp_trial_look_later(mqp);
}

/* Ends a trial. What is known stays where too little was done to tell. */
static void mqp_trial_end(struct mqp_data *mqp, u64 now)
{
	struct mqp_rank *r = &mqp->rank[mqp->trial];
	struct mqp_window *w = &r->window;

	if (w->done >= MQP_WINDOW + (int)r->depth && w->bytes > mqp->trial_bytes / 4)
		mqp_learn_cost(r, div64_u64(w->ns << MQP_MIB_SHIFT, w->bytes));
	r->turns = 0;
	r->tried = jiffies;
	r->rest = max_t(unsigned long, MQP_TRIAL_REST_JIFFIES,
			nsecs_to_jiffies(now - mqp->trial_ns) * MQP_TRIAL_REST);
	mqp_set_depth(r, r->limit);
	mqp->trial = MQP_RANKS;
}

/* Looks whether the rank on trial has gone, or is stuck. */
static void mqp_trial_look(struct mqp_data *mqp)
{
	u64 now = ktime_get_ns();

	if (!mqp_has_requests(&mqp->rank[mqp->trial]) || now > mqp->trial_ns + MQP_TRIAL_NS)
		mqp_trial_end(mqp, now);
	else
		mqp_trial_look_later(mqp);
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
 * Looks at what is held: true if some of it may go now. Else the timer is started for the earliest
 * moment at which some may: the next turn or the end of the hold, whichever is first. While lower
 * requests are inside the device their last completion comes here again. Something waits, so that
 * a top rank exists.
 */
static bool mqp_look(struct mqp_data *mqp)
{
	unsigned int top = mqp_first(mqp);
	struct mqp_rank *r = &mqp->rank[top];
	u64 at = U64_MAX, now;
	bool held = mqp->held;

	lockdep_assert_held(&mqp->lock);
	if (r->set.queued) {
		WRITE_ONCE(mqp->held, false);
		return held;
	}
	if (mqp->trial < MQP_RANKS)
		return false;
	now = ktime_get_ns();
	if (mqp_turn_fits(mqp, top, mqp_next_rank(mqp, mqp->waiting)))
		at = max(now, mqp->turn.next_ns);
	if (!atomic_read(&r->issued))
		at = min(at, now + mqp_hold_left(mqp, r));
	if (at != U64_MAX && !mqp_timer_covers(mqp, at))
		hrtimer_start(&mqp->timer, ns_to_ktime(at + MQP_TIMER_SLACK_NS),
			      HRTIMER_MODE_ABS_SOFT);
	return false;
}

/* What was held is looked at again, and so are the tags: some may be for others. */
static void mqp_run(struct mqp_data *mqp)
{
	sluice_wake_for_tags(mqp->q);
	blk_mq_run_hw_queues(mqp->q, true);
}

static enum hrtimer_restart mqp_timer(struct hrtimer *timer)
{
	struct mqp_data *mqp = container_of(timer, struct mqp_data, timer);
	unsigned long flags;

	spin_lock_irqsave(&mqp->lock, flags);
	if (mqp->trial < MQP_RANKS)
		mqp_trial_look(mqp);
	WRITE_ONCE(mqp->held, false);
	spin_unlock_irqrestore(&mqp->lock, flags);
	mqp_run(mqp);
	return HRTIMER_NORESTART;
}

/* Requests, in the order of a request's life */

/*
 * Called without locks, before a tag is allocated for the current task. Each higher rank that was
 * active lately leaves half of the tags to the ranks below it.  What other tasks may wait for
 * (rq_blocks_others()) has no such limit: a more urgent one may be among them.
 */
static void mqp_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct mqp_data *mqp = data->q->elevator->elevator_data;
	unsigned long higher = READ_ONCE(mqp->busy);
	unsigned int i, halves = 0;

	if (rq_blocks_others(opf))
		return;
	higher &= BIT(mqp_ioprio_rank(get_current_ioprio())) - 1;
	for_each_set_bit(i, &higher, MQP_RANKS)
		halves += mqp_active(&mqp->rank[i], MQP_RESERVE_JIFFIES);
	if (halves)
		sluice_limit_tags(data, sluice_nr_tags(data) >> halves);
}

static void mqp_prepare_request(struct request *rq)
{
	mqp_set_outside(rq);
}

/* Merges may make requests as large as the device takes. */
static bool mqp_merges_freely(const struct mqp_data *mqp)
{
	return mqp->rotating || !mqp_competing(mqp);
}

static bool mqp_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	return mqp_merges_freely(q->elevator->elevator_data) ||
	       blk_rq_sectors(rq) + bio_sectors(bio) <= MQP_MERGE_SECTORS;
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
	mqp_set_outside(next);
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
	mqp_forget(mqp);
	/*
	 * A plug's requests were merged among themselves; look only for what
	 * waited before them, and not at all when nothing did, or where a bio's
	 * merge has its limit, which a request's hasn't.
	 */
	merge = mqp->queued && mqp_merges_freely(mqp);
	if (merge)
		mqp_index_all(mqp);
	list_for_each_entry_safe(rq, tmp, list, queuelist) {
		list_del_init(&rq->queuelist);
		if (merge && !rq_collects(rq) && blk_mq_sched_try_insert_merge(q, rq, &free))
			continue;
		trace_block_rq_insert(rq);
		WRITE_ONCE(mqp->queued, mqp->queued + 1);
		if (!rq_add_urgent(rq, ins, &mqp->urgent, &head))
			mqp_enqueue(mqp, rq);
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

/*
 * Whether the highest active rank may have another request inside the device: while a more urgent
 * one comes back now and then, no more than keep the device busy.
 */
static bool mqp_has_room(struct mqp_data *mqp, unsigned int top)
{
	unsigned long higher = mqp->busy & (BIT(top) - 1);
	struct mqp_rank *r = &mqp->rank[top];

	if (!higher || mqp_inside(mqp, mqp->busy & ~higher) < r->depth)
		return true;
	if (mqp->trial == MQP_RANKS)
		WRITE_ONCE(mqp->full, top);
	return false;
}

static struct request *mqp_take_top(struct mqp_data *mqp, unsigned int top)
{
	struct mqp_rank *r = &mqp->rank[top];

	/* Until now the device did nothing: that is no part of what a request takes. */
	if (top == mqp->trial && !mqp_inside(mqp, mqp->busy))
		r->window.last_ns = ktime_get_ns();
	return mqp_take(mqp, r, MQP_ISSUED, false);
}

/* Several ranks had requests lately: the higher goes, a turn goes, or nothing. */
static struct request *mqp_dispatch_competing(struct mqp_data *mqp)
{
	unsigned int top = mqp_first(mqp);
	unsigned long lower = mqp->waiting & ~GENMASK(top, 0);

	if (mqp->trial == MQP_RANKS && lower && mqp_turn_open(mqp, top, lower)) {
		if (!mqp_trial_due(mqp, &mqp->rank[mqp->turn.rank]))
			return mqp_turn_take(mqp);
		top = mqp->turn.rank;
		mqp_trial_begin(mqp, top);
	}
	if ((mqp->waiting & BIT(top)) && mqp_has_room(mqp, top))
		return mqp_take_top(mqp, top);
	WRITE_ONCE(mqp->held, true);
	/* A completion that isn't seen below sees that something is held: see mqp_account(). */
	smp_mb();
	if (!(mqp->waiting & BIT(top))) {
		mqp_look(mqp);
	} else if (mqp_has_room(mqp, top)) {
		WRITE_ONCE(mqp->held, false);
		return mqp_take_top(mqp, top);
	}
	trace_mq_prio_hold(mqp->q, top, lower);
	return NULL;
}

/* Of the ranks that had requests lately only the most urgent one waits. */
static bool mqp_unrivalled(const struct mqp_data *mqp)
{
	return mqp->waiting == BIT(__ffs(mqp->busy)) && mqp->trial == MQP_RANKS;
}

/* What is inserted at the head is inside the device too; a request that comes again still is. */
static void mqp_count_urgent(struct mqp_data *mqp, struct request *rq)
{
	struct mqp_rank *r = &mqp->rank[mqp_ioprio_rank(sluice_rq_ioprio(rq))];

	if (!(rq->rq_flags & SLUICE_RQF_SCHED) || mqp_get_state(rq) >= MQP_ISSUED)
		return;
	rq->elv.priv[0] = r;
	mqp_set_state(rq, MQP_ISSUED);
	atomic_inc(&r->issued);
}

static struct request *mqp_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct mqp_data *mqp = hctx->queue->elevator->elevator_data;
	struct request *rq = NULL;
	unsigned long flags;

	spin_lock_irqsave(&mqp->lock, flags);
	if (!list_empty(&mqp->urgent)) {
		rq = rq_take_first(&mqp->urgent);
		WRITE_ONCE(mqp->queued, mqp->queued - 1);
		mqp_count_urgent(mqp, rq);
	} else if (!mqp->waiting) {
		goto out;
	} else if (mqp_unrivalled(mqp)) {
		rq = mqp_take(mqp, &mqp->rank[__ffs(mqp->waiting)], MQP_ISSUED, false);
	} else {
		rq = mqp_dispatch_competing(mqp);
	}
	if (rq)
		rq->rq_flags |= RQF_STARTED;
out:
	spin_unlock_irqrestore(&mqp->lock, flags);
	return rq;
}

/* A completion of a rank that has the device for itself, or as much of it as its limit allows. */
static void mqp_learn(struct mqp_data *mqp, struct request *rq, u64 now)
{
	struct mqp_rank *r = rq->elv.priv[0];
	unsigned int rank = r - mqp->rank, bytes = mqp_bytes(rq);
	bool trial = rank == mqp->trial;
	u64 mib_ns;
	int done;

	if (!trial && rank != mqp->full)
		return;
	mqp_average(r, rq);
	if (trial)
		mqp->trial_bytes += bytes;
	if (trial && mqp_inside(mqp, mqp->busy & ~BIT(rank))) {
		r->window.last_ns = 0;
		return;
	}
	done = MQP_WINDOW + 2 * r->depth;
	if (r->alike < MQP_ALIKE)
		done = max(done, MQP_WINDOW_MIXED);
	mib_ns = mqp_window_add(&r->window, now, bytes, done,
				trial && r->windows ? mqp->trial_bytes / 2 : 0);
	if (!mib_ns)
		return;
	if (!trial && mqp_changed(r)) {
		mqp_learn_cost(r, 0);
		mqp_search(r);
		return;
	}
	mqp_learn_limit(r, mib_ns);
	if (!trial)
		return;
	mqp_learn_cost(r, min(mib_ns, r->limit_mib_ns));
	if (r->windows && (r->writes < MQP_WRITES_WEIGHT || mqp->trial_bytes >= MQP_TRIAL_WRITES))
		mqp_trial_end(mqp, now);
}

/* Without the lock: no turn asks for completions before its own start. */
static void mqp_note_done(struct mqp_data *mqp)
{
	u64 now;

	if (!READ_ONCE(mqp->turn.issued))
		return;
	now = ktime_get_ns();
	if (now > READ_ONCE(mqp->last_done_ns))
		WRITE_ONCE(mqp->last_done_ns, now);
}

/* A request left the device while ranks compete; @last: it was its rank's last. */
static void mqp_account(struct mqp_data *mqp, struct request *rq, enum mqp_state state, bool last)
{
	unsigned int rank = (struct mqp_rank *)rq->elv.priv[0] - mqp->rank;
	unsigned long flags;
	bool run = false;
	u64 now;

	if (state != MQP_TURN && !(last && READ_ONCE(mqp->held)) && rank != READ_ONCE(mqp->full) &&
	    rank != READ_ONCE(mqp->trial)) {
		mqp_note_done(mqp);
		return;
	}
	spin_lock_irqsave(&mqp->lock, flags);
	now = ktime_get_ns();
	if (state == MQP_TURN && mqp->rotating)
		mqp_disk_turn_done(mqp, now);
	else if (state == MQP_TURN)
		mqp_flash_turn_done(mqp, rq, now);
	mqp_learn(mqp, rq, now);
	if (mqp->waiting)
		run = mqp_look(mqp);
	WRITE_ONCE(mqp->last_done_ns, now);
	spin_unlock_irqrestore(&mqp->lock, flags);
	if (run)
		mqp_run(mqp);
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
	WRITE_ONCE(r->last, jiffies);
	last = atomic_dec_and_test(&r->issued);
	if (state == MQP_TURN || mqp_competing(mqp))
		mqp_account(mqp, rq, state, last);
	mqp_set_outside(rq);
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
		mqp->rank[i].limit = 1;
		mqp->rank[i].depth = 1;
		mqp->rank[i].alike = MQP_ALIKE;
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
	mqp->full = MQP_RANKS;
	mqp->trial = MQP_RANKS;
	mqp_init_ranks(mqp);
	sluice_hrtimer_setup(&mqp->timer, mqp_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
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

	seq_puts(m, "rank queued issued oldest_ns max_wait_ns limit mib_ns\n");
	spin_lock_irq(&mqp->lock);
	now = ktime_get_ns();
	for (i = 0; i < MQP_RANKS; i++) {
		struct mqp_rank *r = &mqp->rank[i];

		seq_printf(m, "%u %u %d %llu %llu %u %llu\n", i, r->set.queued,
			   atomic_read(&r->issued),
			   r->set.queued ? now - mqp_oldest(r)->start_time_ns : 0, r->max_wait_ns,
			   r->limit, r->mib_ns);
	}
	seq_printf(m, "turns %llu issued %u cost_ns %llu stay_ns %llu\n", mqp->turn.count,
		   mqp->turn.issued, mqp->turn.cost_ns, mqp->turn.stay_ns);
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
		.allow_merge		= mqp_allow_merge,
		.bio_merge		= mqp_bio_merge,
		.request_merge		= mqp_request_merge,
		.request_merged		= mqp_request_merged,
		.requests_merged	= mqp_requests_merged,
		.former_request		= elv_rb_former_request,
		.next_request		= elv_rb_latter_request,
		.insert_requests	= mqp_insert_requests,
		.has_work		= mqp_has_work,
		.dispatch_request	= mqp_dispatch_request,
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

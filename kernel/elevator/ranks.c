// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ranks: I/O priorities that hold, as a component of elevators for blk-mq
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
 *    ones may take half of the tags, and so on down (ranks_limit_depth()).
 *  - Lower requests fill the device's own queue.  While a higher rank is
 *    active, lower ones are inside the device in turns: one request on flash,
 *    1 MiB on a rotating disk, where one seek should pay for much.  While a
 *    higher rank stays away for longer than is worth waiting for, lower ones
 *    keep the device busy, but no deeper than their throughput needs
 *    (ranks_learn_limit()).
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
 * needs (ranks_turn_fits()).  The first turn opens when the lower requests that were
 * inside the device before the higher rank came have left it.
 *
 * Within a rank an elevator may name light requests, of processes that have
 * had little of the device.  They go before the rank's others, which keep the
 * device busy meanwhile, but no deeper than their throughput needs.  So each
 * rank has two lanes, in order: that of light requests, and that of the others,
 * where all are if the elevator names none.
 *
 * With one rank active nothing of this runs: requests pass in arrival order
 * (in sector order with a deadline on a rotating disk), merge structures are
 * filled only when a merge is possible, no clock is read.
 *
 * Source of the idea: the mq-prio report (strict classes, one FIFO each, aging
 * as a bounded exception); docs/mq-prio.md has the model and the measurements.
 */
#include "ranks.h"

#include <linux/bitops.h>
#include <linux/module.h>

#define CREATE_TRACE_POINTS
#include "ranks-trace.h"

/*
 * Percent of the device's time that lower ranks get beside a higher one.  The
 * higher one's latency grows by as much on a disk, where it waits for whole
 * turns, and by less on flash.
 */
#define RANKS_LOW_SHARE_FLASH 10
#define RANKS_LOW_SHARE_ROTATING 5

/*
 * How long a rank counts as active after its last request, in ms: longer than
 * a reader at depth 1 thinks, short enough to give an idle disk away.
 */
#define RANKS_HOLD_MS_DEFAULT 10

/*
 * Where others of the rank wait, so much is moved for light requests before the next of these goes:
 * sixteen pages, more than one process has inside at a time, or it were not light for long.
 */
#define RANKS_AHEAD_BYTES (16 * 4096)

/* Averages are over about so many requests; the time between two is kept in parts of a jiffy. */
#define RANKS_WEIGHT 8
#define RANKS_ALIKE (2 * RANKS_WEIGHT)
#define RANKS_THINK_SHIFT 8

/* When a request went is kept in units of so many bits of a nanosecond. */
#define RANKS_STAMP_SHIFT 10

/*
 * Tags are kept back for longer than the device is: a reserve costs lower
 * ranks little, and its lack makes a returning higher one wait for a tag.
 */
#define RANKS_RESERVE_JIFFIES HZ

/*
 * A turn on a rotating disk: at 100-200 MB/s 1 MiB transfers for about as long
 * as it takes to get there.
 */
#define RANKS_TURN_SECTORS (1024 * 1024 >> SECTOR_SHIFT)

/* And no more than 8 requests: each small one may cost a seek of its own. */
#define RANKS_TURN_LEAST (RANKS_TURN_SECTORS / 8)

/* The share is a promise: turns open a little early, by what the cost may err. */
#define RANKS_PROMISE_PCT 92

/*
 * A rank's depth inside the device doubles as long as that brings a quarter more throughput, so
 * that at its limit the rank has four fifths of what it could have.  A depth is judged by so many
 * completions, and two more for each request inside: they show a difference of a quarter, and keep
 * a trial short.  Mixed sizes take more, and so do a rank's others between its light requests.
 */
#define RANKS_WINDOW 4
#define RANKS_WINDOW_LONG 64
#define RANKS_GAIN_PCT 125
#define RANKS_MIB_SHIFT 20

/*
 * Among equals the device does nineteen twentieths of what it can: with light requests before them
 * the others' limit doubles as long as that brings a twentieth more, for both together.  One of the
 * others follows while the device works at another, whatever light requests bring.
 */
#define RANKS_GAIN_OTHERS_PCT 105
#define RANKS_LEAST_OTHERS 2

/* After so many windows the search begins anew, at half the limit: too rarely for a p99 to show. */
#define RANKS_LOOK_AGAIN 1024
#define RANKS_LOOK_AGAIN_LONG 256

/*
 * A rank that had some turns has a trial: one that wants little isn't worth it.  Another comes each
 * minute, but takes a hundredth of the time at most.  While the cost isn't known, or when there are
 * twice as many requests, or they have become twice or half as large, or most write where most
 * read, it comes as soon as a second after the last one, but takes a tenth of the time at most.  A
 * trial of writes ends when they have filled the buffer that a drive without memory of its own may
 * have.  As a trial stops higher ranks, it ends after RANKS_TRIAL_NS in any case: a slow drive
 * fills its buffer in that.  A look ends the trial of a rank that has gone.
 */
#define RANKS_TRIAL_TURNS 2
#define RANKS_TRIAL_JIFFIES (60UL * HZ)
#define RANKS_TRIAL_REST_JIFFIES HZ
#define RANKS_TRIAL_REST 10
#define RANKS_TRIAL_WRITES (16 * 1024 * 1024)
#define RANKS_TRIAL_NS NSEC_PER_SEC
#define RANKS_TRIAL_LOOK_NS (5 * NSEC_PER_MSEC)

/*
 * The part of a rank's requests that write is an average in these units, over about so many: the
 * average of a few would call an even mix of reads and writes now the one and now the other.
 */
#define RANKS_ALL_WRITES 4096
#define RANKS_WRITES_WEIGHT 64

/*
 * A busy higher rank's own dispatches open turns; the timer is for when there
 * are none, and late enough to leave the work to them.
 */
#define RANKS_TIMER_SLACK_NS (250 * NSEC_PER_USEC)

/* No turn, however long the device stalled, keeps the next away for longer. */
#define RANKS_PERIOD_MAX_NS NSEC_PER_SEC

/*
 * While ranks compete for flash, merges make no request larger: what is held back would grow to
 * the largest request there is, which no other rank can interrupt.  That much the page cache
 * reads ahead, unless told otherwise.
 */
#define RANKS_MERGE_SECTORS (128 * 1024 >> SECTOR_SHIFT)

/*
 * Within a rank on a rotating disk: requests in one sweep before the oldest is
 * looked at, and the age at which it goes first.
 */
#define RANKS_SWEEP_BATCH 16
#define RANKS_SWEEP_EXPIRE (HZ / 2)

/*
 * Where a request is; kept in rq->elv.priv[1], below its rank and its bytes.  One that the
 * driver gives back stays inside until it is done: it doesn't always come to the elevator again.
 */
enum ranks_state {
	RANKS_OUTSIDE, /* not inserted, or done */
	RANKS_QUEUED, /* in its rank's FIFO */
	RANKS_PASSES, /* goes before all ranks by what the elevator said */
	RANKS_ISSUED, /* dispatched, not finished */
	RANKS_TURN, /* the same, as part of a turn */
	RANKS_PASSED, /* the same, after RANKS_PASSES */
};

#define RANKS_STATE_BITS 3
#define RANKS_LANE_BITS 6
#define RANKS_BYTES_SHIFT (RANKS_STATE_BITS + RANKS_LANE_BITS)

static_assert(RANKS_LANES <= 1 << RANKS_LANE_BITS && RANKS_BYTES_SHIFT + 32 == RANKS_NOTE_SHIFT);

/* Lanes and ranks */

static unsigned int ranks_rank(unsigned int lane)
{
	return lane / 2;
}

/* A bit per rank of some lanes. */
static unsigned long ranks_mask(unsigned long lanes)
{
	unsigned long ranks = 0;
	unsigned int i;

	for_each_set_bit(i, &lanes, RANKS_LANES)
		ranks |= BIT(ranks_rank(i));
	return ranks;
}

/* The lane of a rank's other requests, by either of its lanes. */
static unsigned int ranks_other(unsigned int lane)
{
	return lane | 1;
}

/* Whether a lane is that of others, of a rank that had light requests lately too. */
static bool ranks_are_others(const struct ranks *ranks, unsigned int lane)
{
	return lane == ranks_other(lane) && (ranks->busy & BIT(lane - 1));
}

static bool ranks_active(const struct ranks_lane *r, unsigned long window)
{
	return ranks_has_requests(r) || time_before_eq(jiffies, READ_ONCE(r->last) + window);
}

/* More than one rank had requests lately. */
static bool ranks_competing(const struct ranks *ranks)
{
	unsigned long busy = READ_ONCE(ranks->busy);

	return busy & (busy - 1);
}

static unsigned long ranks_hold(const struct ranks *ranks)
{
	return msecs_to_jiffies(READ_ONCE(ranks->hold_ms));
}

/* The rank has requests, or stays away for no longer than is worth waiting for. */
static bool ranks_held_for(const struct ranks *ranks, const struct ranks_lane *r)
{
	unsigned long hold;

	if (ranks_has_requests(r))
		return true;
	hold = ranks_hold(ranks);
	return r->think <= hold << RANKS_THINK_SHIFT && ranks_active(r, hold);
}

/* A request comes: of a rank that had none that tells how long it stays away. */
static void ranks_learn_think(struct ranks *ranks, struct ranks_lane *r)
{
	unsigned int away;

	if (ranks_has_requests(r))
		return;
	away = min(jiffies - READ_ONCE(r->last), 2 * ranks_hold(ranks)) << RANKS_THINK_SHIFT;
	r->think += ((int)away - (int)r->think) / RANKS_WEIGHT;
}

/* Beside more urgent requests, or where a rank has too few, completions say nothing of a limit. */
static void ranks_not_full(struct ranks *ranks)
{
	lockdep_assert_held(&ranks->lock);
	if (ranks->full < RANKS_LANES)
		ranks->lane[ranks->full].window.last_ns = 0;
	WRITE_ONCE(ranks->full, RANKS_LANES);
}

/* Forgets ranks long gone; looks for them once in a jiffy. */
static void ranks_forget(struct ranks *ranks)
{
	unsigned long busy = ranks->busy, now = jiffies;
	unsigned int i;

	if (ranks->looked == now)
		return;
	ranks->looked = now;
	for_each_set_bit(i, &busy, RANKS_LANES)
		if (!ranks_active(&ranks->lane[i], RANKS_RESERVE_JIFFIES))
			WRITE_ONCE(ranks->busy, ranks->busy & ~BIT(i));
	if (ranks->busy != busy)
		ranks_not_full(ranks);
}

/* Requests of these ranks inside the device. */
static unsigned int ranks_inside(const struct ranks *ranks, unsigned long which)
{
	unsigned int i, inside = 0;

	for_each_set_bit(i, &which, RANKS_LANES)
		inside += atomic_read(&ranks->lane[i].issued);
	return inside;
}

/*
 * Whether a lane may have another request inside the device as the first one: while a more urgent
 * one comes back now and then, no more than keep the device busy.  To light requests those of the
 * rank's others, which have a limit of their own, don't count.
 */
static bool ranks_is_open(const struct ranks *ranks, unsigned int lane)
{
	unsigned long higher = ranks->busy & (BIT(lane) - 1), others = BIT(ranks_other(lane));

	if (lane != ranks_other(lane))
		higher |= others;
	return !(higher & ~others) ||
	       ranks_inside(ranks, ranks->busy & ~higher) < ranks->lane[lane].depth;
}

/*
 * Of an active lane's rank the others go: no light one waits, or so much went before them, and one
 * of them may go.
 */
static bool ranks_lets_others(const struct ranks *ranks, unsigned int lane)
{
	const struct ranks_lane *light = &ranks->lane[lane];

	if (!ranks->lane[ranks_other(lane)].set.queued)
		return false;
	return !light->set.queued ||
	       (light->ahead >= RANKS_AHEAD_BYTES && ranks_is_open(ranks, ranks_other(lane)));
}

/*
 * The most urgent active lane. A waiting request makes its lane active, so callers that know of
 * one get a valid lane.
 */
static unsigned int ranks_top(struct ranks *ranks)
{
	unsigned int i;

	lockdep_assert_held(&ranks->lock);
	ranks_forget(ranks);
	for_each_set_bit(i, &ranks->busy, RANKS_LANES)
		if (ranks_held_for(ranks, &ranks->lane[i]))
			return ranks_lets_others(ranks, i) ? ranks_other(i) : i;
	return RANKS_LANES;
}

/* The rank that goes first: the one that has the device for itself, or the top one. */
static unsigned int ranks_first(struct ranks *ranks)
{
	return ranks->trial < RANKS_LANES ? ranks->trial : ranks_top(ranks);
}

/* Of some lanes those of ranks below that of @top. */
static unsigned long ranks_below(unsigned long lanes, unsigned int top)
{
	return lanes & ~GENMASK(ranks_other(top), 0);
}

/* Lower requests inside the device, whether they went in a turn or before. */
static unsigned int ranks_lower_issued(const struct ranks *ranks, unsigned int top)
{
	return ranks_inside(ranks, ranks_below(ranks->busy, top));
}

/* Throughput */

/*
 * Takes a completion into a window; returns the time for a MiB when it has @done of them and @least
 * bytes, else 0.  What was done beside the lane counts as bytes alone.
 */
static u64 ranks_window_add(struct ranks_window *w, u64 now, unsigned int bytes, bool beside,
			    int done, u64 least)
{
	u64 mib_ns;

	if (w->last_ns) {
		w->done += !beside;
		w->ns += w->done > 0 ? now - w->last_ns : 0;
		w->bytes += w->done > 0 ? bytes : 0;
	}
	w->last_ns = now;
	if (w->done < done || w->bytes < least)
		return 0;
	mib_ns = div64_u64(w->ns << RANKS_MIB_SHIFT, max(w->bytes, 1ULL));
	*w = (struct ranks_window){ .last_ns = now };
	return mib_ns;
}

/* Of a rank alone the device takes @mib_ns for a MiB of such requests; 0: not known. */
static void ranks_learn_cost(struct ranks_lane *r, u64 mib_ns)
{
	r->mib_ns = mib_ns;
	r->tried_size = r->size;
	r->tried_writes = r->writes;
}

/* So many of a lane's requests may be inside from now on; what is inside tells nothing of it. */
static void ranks_set_depth(struct ranks_lane *r, unsigned int depth)
{
	int inside = atomic_read(&r->issued);

	r->depth = depth;
	r->window = (struct ranks_window){ .done = -max_t(int, depth, inside) };
}

/* The rank's requests have become others than those whose cost is known, and are all of a kind. */
static bool ranks_changed(const struct ranks_lane *r)
{
	int writes = (int)r->writes - (int)r->tried_writes;

	if (r->alike < RANKS_ALIKE)
		return false;
	return r->size > 2 * r->tried_size || r->size < r->tried_size / 2 ||
	       abs(writes) > RANKS_ALL_WRITES / 2;
}

/* The search for the limit begins, at @limit. */
static void ranks_search(struct ranks_lane *r, unsigned int limit)
{
	r->limit = limit;
	r->windows = 0;
	ranks_set_depth(r, limit);
}

/*
 * With @depth inside it took @mib_ns: the search for the limit goes on, or begins anew later.
 * @others: of a rank that has light requests too.
 */
static void ranks_learn_limit(struct ranks_lane *r, u64 mib_ns, bool others)
{
	unsigned int gain = others ? RANKS_GAIN_OTHERS_PCT : RANKS_GAIN_PCT;
	unsigned int least = others ? RANKS_LEAST_OTHERS : 1;

	if (r->limit < least) {
		ranks_search(r, least);
	} else if (r->depth == r->limit) {
		r->limit_mib_ns = mib_ns;
		if (!r->windows) {
			ranks_set_depth(r, 2 * r->limit);
		} else if (!--r->windows) {
			r->limit = max(r->limit / 2, least);
			ranks_set_depth(r, r->limit);
		}
	} else if (r->limit_mib_ns * 100 >= mib_ns * gain) {
		r->limit = r->depth;
		r->limit_mib_ns = mib_ns;
		ranks_set_depth(r, 2 * r->limit);
	} else {
		ranks_set_depth(r, r->limit);
		r->windows = others ? RANKS_LOOK_AGAIN_LONG : RANKS_LOOK_AGAIN;
	}
}

/* Queueing */

/* A discard, which moves no data, counts as a sector.  The note becomes 0. */
static void ranks_put(struct request *rq, unsigned int lane, enum ranks_state state)
{
	bool moves = req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE;
	u64 bytes = moves ? blk_rq_bytes(rq) : SECTOR_SIZE;

	rq->elv.priv[1] = (void *)(bytes << RANKS_BYTES_SHIFT | lane << RANKS_STATE_BITS | state);
}

static void ranks_set_outside(struct request *rq)
{
	rq->elv.priv[1] = (void *)RANKS_OUTSIDE;
}

static enum ranks_state ranks_get_state(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] & GENMASK(RANKS_STATE_BITS - 1, 0);
}

/* Of a request that was inserted. */
static unsigned int ranks_rq_lane(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] >> RANKS_STATE_BITS & GENMASK(RANKS_LANE_BITS - 1, 0);
}

/* What the request had when it was inserted, or dispatched. */
static unsigned int ranks_bytes(const struct request *rq)
{
	return (u32)((unsigned long)rq->elv.priv[1] >> RANKS_BYTES_SHIFT);
}

static struct request *ranks_oldest(const struct ranks_lane *r)
{
	return rq_set_oldest(&r->set);
}

/* Makes all that waits known to the merge look-ups. */
static void ranks_index_all(struct ranks *ranks)
{
	unsigned long waiting = ranks->waiting;
	unsigned int i;

	lockdep_assert_held(&ranks->lock);
	for_each_set_bit(i, &waiting, RANKS_LANES)
		rq_set_index_all(ranks->q, &ranks->lane[i].set);
}

static noinline void ranks_set_busy(struct ranks *ranks, unsigned int lane)
{
	struct ranks_lane *r = &ranks->lane[lane];

	WRITE_ONCE(ranks->busy, ranks->busy | BIT(lane));
	ranks_set_depth(r, r->limit);
}

/* A request of a lane comes.  Beside light ones the rank's others still show their throughput. */
static __always_inline void ranks_come(struct ranks *ranks, unsigned int lane)
{
	if (ranks->full < RANKS_LANES && ranks_other(lane) < ranks->full)
		ranks_not_full(ranks);
	if (!(ranks->busy & BIT(lane)))
		ranks_set_busy(ranks, lane);
}

static void ranks_enqueue(struct ranks *ranks, struct request *rq, unsigned int lane)
{
	struct ranks_lane *r = &ranks->lane[lane];

	ranks_put(rq, lane, RANKS_QUEUED);
	if (ranks_competing(ranks))
		ranks_learn_think(ranks, r);
	ranks_come(ranks, lane);
	rq_set_add(&r->set, rq);
	ranks->waiting |= BIT(lane);
	if (ranks->rotating)
		rq_set_index(ranks->q, &r->set, rq);
}

/* Queues a request by what the elevator says of it. */
static void ranks_place(struct ranks *ranks, struct request *rq)
{
	unsigned int place = ranks->place ? ranks->place(rq) : rank_of_ioprio(sluice_rq_ioprio(rq));
	unsigned int lane = ranks_lane_of(place);

	if (!(place & RANKS_URGENT)) {
		ranks_enqueue(ranks, rq, lane);
		return;
	}
	ranks_put(rq, lane, RANKS_PASSES);
	ranks_come(ranks, lane);
	list_add_tail(&rq->queuelist, &ranks->urgent);
}

/* A request that no elevator may delay has its rank too, unless it is inside the device still. */
static void ranks_note_urgent(struct request *rq)
{
	if (rq->rq_flags & SLUICE_RQF_SCHED && ranks_get_state(rq) < RANKS_ISSUED)
		ranks_put(rq, ranks_lane_of(rank_of_ioprio(sluice_rq_ioprio(rq))), RANKS_OUTSIDE);
}

/* Takes a request off its lane and out of the merge look-ups; the caller sets its state. */
static __always_inline void ranks_unlink(struct ranks *ranks, struct request *rq, unsigned int lane)
{
	struct ranks_lane *r = &ranks->lane[lane];

	lockdep_assert_held(&ranks->lock);
	rq_set_del(ranks->q, &r->set, rq);
	WRITE_ONCE(ranks->queued, ranks->queued - 1);
	if (!r->set.queued)
		ranks->waiting &= ~BIT(lane);
}

/* Order within a rank */

/* Sector order with a deadline: what a disk needs and flash doesn't. */
static struct request *ranks_sweep(struct ranks_lane *r)
{
	struct request *rq = ranks_oldest(r);

	if (++r->swept < RANKS_SWEEP_BATCH ||
	    time_before(jiffies, rq_came(rq) + RANKS_SWEEP_EXPIRE))
		rq = rq_set_from(&r->set, r->pos);
	else
		r->swept = 0;
	return rq;
}

/* The rank's next in order, or, where @oldest, the one that waited longest. */
static struct request *ranks_take(struct ranks *ranks, unsigned int lane, enum ranks_state state,
				  bool oldest)
{
	struct ranks_lane *r = &ranks->lane[lane];
	struct request *rq = ranks->rotating && !oldest ? ranks_sweep(r) : ranks_oldest(r);

	r->pos = blk_rq_pos(rq) + blk_rq_sectors(rq);
	if (lane == ranks_other(lane))
		ranks->lane[lane - 1].ahead = 0;
	else
		r->ahead += ranks_bytes(rq);
	ranks_unlink(ranks, rq, lane);
	ranks_put(rq, lane, state);
	atomic_inc(&r->issued);
	return rq;
}

/* Turns */

/*
 * Of lower ranks that wait the one whose turn it is: the most urgent, unless those below it are
 * owed their share of what it had.
 */
static unsigned int ranks_next_lane(const struct ranks *ranks, unsigned long lower)
{
	unsigned int i = __ffs(lower);

	while (ranks->lane[i].owed_ns > 0 && (lower & ~GENMASK(i, 0)))
		i = __ffs(lower & ~GENMASK(i, 0));
	return i;
}

static void ranks_owe(struct ranks_lane *r, s64 ns)
{
	r->owed_ns = clamp_t(s64, r->owed_ns + ns, -(s64)RANKS_PERIOD_MAX_NS, RANKS_PERIOD_MAX_NS);
}

/*
 * A rank had @cost of the device's time: it owes its share to the ranks below it that wait, and
 * what those above it owed is paid by as much.
 */
static void ranks_settle(struct ranks *ranks, unsigned int lane, u64 cost)
{
	unsigned int share = READ_ONCE(ranks->low_share), i;
	unsigned long above = ranks->waiting & (BIT(lane) - 1);
	struct ranks_lane *r = &ranks->lane[lane];

	if (ranks->waiting & ~GENMASK(lane, 0))
		ranks_owe(r, div_u64(cost * share, 100 - share));
	else
		r->owed_ns = 0;
	for_each_set_bit(i, &above, RANKS_LANES)
		ranks_owe(&ranks->lane[i], -(s64)cost);
}

/* The time that must pass for @cost of lower ranks' device time. */
static u64 ranks_period(const struct ranks *ranks, u64 cost)
{
	u64 period = div_u64(cost * RANKS_PROMISE_PCT, READ_ONCE(ranks->low_share));

	return min_t(u64, period, RANKS_PERIOD_MAX_NS);
}

static void ranks_charge(struct ranks *ranks, unsigned int lane, u64 cost)
{
	ranks->turn.next_ns += ranks_period(ranks, cost);
	ranks_settle(ranks, lane, cost);
}

/* What a request takes of a flash device that the rank has for itself; 0: not known. */
static u64 ranks_cost(const struct ranks_lane *r, const struct request *rq)
{
	return ranks_bytes(rq) * r->mib_ns >> RANKS_MIB_SHIFT;
}

static void ranks_turn_begin(struct ranks *ranks, unsigned int lane, u64 now)
{
	struct ranks_turn *turn = &ranks->turn;
	struct ranks_lane *r = &ranks->lane[lane];
	u64 waited = now - ranks_oldest(r)->start_time_ns;

	/* The device's delay and the timer's are made up for, not time in which nothing waited. */
	turn->next_ns = max(turn->next_ns, now - max(turn->stay_ns, RANKS_TIMER_SLACK_NS));
	turn->lane = lane;
	turn->left = RANKS_TURN_SECTORS;
	turn->start_ns = now;
	turn->cost_ns = 0;
	turn->count++;
	r->turns++;
	r->max_wait_ns = max(r->max_wait_ns, waited);
	trace_rank_turn(ranks->q, ranks_rank(lane), waited);
}

/*
 * Whether the device has room for another turn of a rank: what was inside before the higher rank
 * came has left it.  On flash so many are inside as their share needs, by Little's law: at the
 * rate at which they open, for as long as they stay.  So a device that stalls isn't filled.
 */
static bool ranks_turn_fits(const struct ranks *ranks, unsigned int top, unsigned int lane)
{
	const struct ranks_turn *turn = &ranks->turn;
	const struct ranks_lane *r = &ranks->lane[lane];

	if (!turn->issued)
		return !ranks_lower_issued(ranks, top);
	return !ranks->rotating && r->mib_ns &&
	       turn->issued * ranks_cost(r, ranks_oldest(r)) * 100 <
		       turn->stay_ns * READ_ONCE(ranks->low_share);
}

/* Whether a request of a lower rank, turn.rank, may go now; begins a turn when one is due. */
static bool ranks_turn_open(struct ranks *ranks, unsigned int top, unsigned long lower)
{
	struct ranks_turn *turn = &ranks->turn;
	unsigned int lane;
	u64 now;

	if (ranks->rotating && turn->issued)
		return turn->left > 0 && (lower & BIT(turn->lane));
	lane = ranks_next_lane(ranks, lower);
	if (!ranks_turn_fits(ranks, top, lane))
		return false;
	now = ktime_get_ns();
	if (now < turn->next_ns)
		return false;
	ranks_turn_begin(ranks, lane, now);
	return true;
}

/* Takes a request into its rank's averages. */
static void ranks_average(struct ranks_lane *r, const struct request *rq)
{
	int size = ranks_bytes(rq), writes = op_is_write(req_op(rq)) ? RANKS_ALL_WRITES : 0;

	if (!r->size) {
		r->size = size;
		r->writes = writes;
	}
	if (size > 2 * r->size || size < r->size / 2)
		r->alike = 0;
	else if (r->alike < RANKS_ALIKE)
		r->alike++;
	r->size += (size - (int)r->size) / RANKS_WEIGHT;
	r->writes += (writes - (int)r->writes) / RANKS_WRITES_WEIGHT;
}

/* A time as a note has it, and what has passed since: no more than 8 s. */
static u64 ranks_stamp(u64 ns)
{
	return ns >> RANKS_STAMP_SHIFT & (BIT(RANKS_NOTE_BITS) - 1);
}

static u64 ranks_since(u64 stamp, u64 now)
{
	return ((ranks_stamp(now) - stamp) & (BIT(RANKS_NOTE_BITS) - 1)) << RANKS_STAMP_SHIFT;
}

/* On flash a turn is a request, which is charged at once where its cost is known. */
static struct request *ranks_turn_take(struct ranks *ranks)
{
	struct ranks_turn *turn = &ranks->turn;
	struct ranks_lane *r = &ranks->lane[turn->lane];
	struct request *rq =
		ranks_take(ranks, turn->lane, RANKS_TURN, !ranks->rotating || !turn->issued);

	turn->left -= max(blk_rq_sectors(rq), RANKS_TURN_LEAST);
	turn->issued++;
	if (ranks->rotating)
		return rq;
	ranks_average(r, rq);
	ranks_set_note(rq, ranks_stamp(turn->start_ns));
	turn->cost_ns = ranks_cost(r, rq);
	ranks_charge(ranks, turn->lane, turn->cost_ns);
	return rq;
}

/*
 * One of the turns' requests is done; its note is when it went. Where no trial said what it costs,
 * that is the time since the completion before it.
 */
static void ranks_flash_turn_done(struct ranks *ranks, struct request *rq, u64 now)
{
	struct ranks_turn *turn = &ranks->turn;
	unsigned int lane = ranks_rq_lane(rq);
	u64 stay = ranks_since(ranks_note(rq), now);
	u64 from = max(now - stay, READ_ONCE(ranks->last_done_ns));
	u64 cost = ranks_cost(&ranks->lane[lane], rq);

	turn->issued--;
	turn->stay_ns += div_s64(stay - turn->stay_ns, RANKS_WEIGHT);
	if (!cost) {
		cost = now > from ? now - from : 0;
		ranks_charge(ranks, lane, cost);
	}
	trace_rank_turn_end(ranks->q, ranks_rank(lane), cost, ranks_period(ranks, cost));
}

/*
 * The same on a disk, where it cost the time since the completion before it. The last one ends the
 * turn, which sets the time of the next.
 */
static void ranks_disk_turn_done(struct ranks *ranks, u64 now)
{
	struct ranks_turn *turn = &ranks->turn;
	u64 from = max(turn->start_ns, READ_ONCE(ranks->last_done_ns));

	turn->stay_ns = now - turn->start_ns;
	turn->cost_ns += now > from ? now - from : 0;
	if (--turn->issued)
		return;
	ranks_charge(ranks, turn->lane, turn->cost_ns);
	turn->next_ns = max(turn->next_ns, turn->start_ns);
	turn->left = 0;
	trace_rank_turn_end(ranks->q, ranks_rank(turn->lane), turn->cost_ns,
			    ranks_period(ranks, turn->cost_ns));
}

/* Trials */

/* How many requests a lane has, waiting and inside the device. */
static unsigned int ranks_many(const struct ranks_lane *r)
{
	return r->set.queued + atomic_read(&r->issued);
}

/* A lower rank's share is of what it does alone: on flash that is found out by letting it. */
static bool ranks_trial_due(const struct ranks *ranks, const struct ranks_lane *r)
{
	unsigned long since = jiffies - r->tried;

	if (ranks->rotating || r->turns < RANKS_TRIAL_TURNS)
		return false;
	if (!r->mib_ns || ranks_changed(r) || ranks_many(r) > 2 * r->tried_many)
		return since > r->rest;
	return since > max(RANKS_TRIAL_JIFFIES, RANKS_TRIAL_REST * r->rest);
}

static void ranks_trial_look_later(struct ranks *ranks)
{
	hrtimer_start(&ranks->timer, ns_to_ktime(ktime_get_ns() + RANKS_TRIAL_LOOK_NS),
		      HRTIMER_MODE_ABS_SOFT);
}

static void ranks_trial_begin(struct ranks *ranks, unsigned int lane)
{
	struct ranks_lane *r = &ranks->lane[lane];

	ranks->trial = lane;
	ranks->trial_ns = ktime_get_ns();
	ranks->trial_bytes = 0;
	ranks_not_full(ranks);
	r->tried_many = 0;
	ranks_search(r, 1);
	ranks_trial_look_later(ranks);
}

/* Ends a trial. What is known stays where too little was done to tell. */
static void ranks_trial_end(struct ranks *ranks, u64 now)
{
	struct ranks_lane *r = &ranks->lane[ranks->trial];
	struct ranks_window *w = &r->window;

	if (w->done >= RANKS_WINDOW + (int)r->depth && w->bytes > ranks->trial_bytes / 4)
		ranks_learn_cost(r, div64_u64(w->ns << RANKS_MIB_SHIFT, w->bytes));
	r->turns = 0;
	r->tried = jiffies;
	r->rest = max_t(unsigned long, RANKS_TRIAL_REST_JIFFIES,
			nsecs_to_jiffies(now - ranks->trial_ns) * RANKS_TRIAL_REST);
	ranks_set_depth(r, r->limit);
	ranks->trial = RANKS_LANES;
}

/* Looks whether the rank on trial has gone, or is stuck. */
static void ranks_trial_look(struct ranks *ranks)
{
	u64 now = ktime_get_ns();

	if (!ranks_has_requests(&ranks->lane[ranks->trial]) ||
	    now > ranks->trial_ns + RANKS_TRIAL_NS)
		ranks_trial_end(ranks, now);
	else
		ranks_trial_look_later(ranks);
}

/* What is left of an idle rank's hold, in ns, rounded up to whole jiffies. */
static u64 ranks_hold_left(const struct ranks *ranks, const struct ranks_lane *r)
{
	long left = READ_ONCE(r->last) + ranks_hold(ranks) + 1 - jiffies;

	return left > 0 ? jiffies_to_nsecs(left) : 0;
}

/* An early timer costs a look, a new one on each hold would cost more. */
static bool ranks_timer_covers(struct ranks *ranks, u64 at)
{
	return hrtimer_is_queued(&ranks->timer) &&
	       ktime_to_ns(hrtimer_get_expires(&ranks->timer)) <= at + RANKS_TIMER_SLACK_NS;
}

/*
 * Looks at what is held: true if some of it may go now. Else the timer is started for the earliest
 * moment at which some may: the next turn or the end of the hold, whichever is first. While lower
 * requests are inside the device their last completion comes here again. Something waits, so that
 * a top rank exists.
 */
static bool ranks_look(struct ranks *ranks)
{
	unsigned int top = ranks_first(ranks);
	struct ranks_lane *r = &ranks->lane[top];
	u64 at = U64_MAX, now;
	bool held = ranks->held;

	lockdep_assert_held(&ranks->lock);
	if (r->set.queued) {
		WRITE_ONCE(ranks->held, false);
		return held;
	}
	if (ranks->trial < RANKS_LANES)
		return false;
	now = ktime_get_ns();
	if (ranks_turn_fits(ranks, top, ranks_next_lane(ranks, ranks->waiting)))
		at = max(now, ranks->turn.next_ns);
	if (!atomic_read(&r->issued) && !atomic_read(&r->passed))
		at = min(at, now + ranks_hold_left(ranks, r));
	if (at != U64_MAX && !ranks_timer_covers(ranks, at))
		hrtimer_start(&ranks->timer, ns_to_ktime(at + RANKS_TIMER_SLACK_NS),
			      HRTIMER_MODE_ABS_SOFT);
	return false;
}

/* What was held is looked at again, and so are the tags: some may be for others. */
static void ranks_run(struct ranks *ranks)
{
	sluice_wake_for_tags(ranks->q);
	blk_mq_run_hw_queues(ranks->q, true);
}

static enum hrtimer_restart ranks_timer(struct hrtimer *timer)
{
	struct ranks *ranks = container_of(timer, struct ranks, timer);
	unsigned long flags;

	spin_lock_irqsave(&ranks->lock, flags);
	if (ranks->trial < RANKS_LANES)
		ranks_trial_look(ranks);
	WRITE_ONCE(ranks->held, false);
	spin_unlock_irqrestore(&ranks->lock, flags);
	ranks_run(ranks);
	return HRTIMER_NORESTART;
}

/* Requests, in the order of a request's life */

/*
 * Called without locks, before a tag is allocated for the current task. Each higher rank that was
 * active lately leaves half of the tags to the ranks below it.  What other tasks may wait for
 * (rq_blocks_others()) has no such limit: a more urgent one may be among them.
 */
void ranks_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	if (!rq_blocks_others(opf))
		ranks_limit_rank(data->q->elevator->elevator_data, data,
				 rank_of_ioprio(get_current_ioprio()));
}
EXPORT_SYMBOL_GPL(ranks_limit_depth);

/* @higher: the busy lanes above the task's. */
void ranks_limit_below(struct ranks *ranks, struct blk_mq_alloc_data *data, unsigned long higher)
{
	unsigned long active = 0;
	unsigned int i;

	for_each_set_bit(i, &higher, RANKS_LANES)
		if (ranks_active(&ranks->lane[i], RANKS_RESERVE_JIFFIES))
			active |= BIT(i);
	if (active)
		sluice_limit_tags(data, sluice_nr_tags(data) >> hweight_long(ranks_mask(active)));
}
EXPORT_SYMBOL_GPL(ranks_limit_below);

void ranks_prepare_request(struct request *rq)
{
	ranks_set_outside(rq);
}
EXPORT_SYMBOL_GPL(ranks_prepare_request);

/* Merges may make requests as large as the device takes. */
static bool ranks_merges_freely(const struct ranks *ranks)
{
	return ranks->rotating || !ranks_competing(ranks);
}

bool ranks_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	return ranks_merges_freely(q->elevator->elevator_data) ||
	       blk_rq_sectors(rq) + bio_sectors(bio) <= RANKS_MERGE_SECTORS;
}
EXPORT_SYMBOL_GPL(ranks_allow_merge);

bool ranks_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct ranks *ranks = q->elevator->elevator_data;
	struct request *free = NULL;
	unsigned long flags;
	bool merged;

	if (!READ_ONCE(ranks->queued))
		return false;
	spin_lock_irqsave(&ranks->lock, flags);
	ranks_index_all(ranks);
	merged = blk_mq_sched_try_merge(q, bio, nr_segs, &free);
	spin_unlock_irqrestore(&ranks->lock, flags);
	if (free)
		blk_mq_free_request(free);
	return merged;
}
EXPORT_SYMBOL_GPL(ranks_bio_merge);

/* Called by blk_mq_sched_try_merge() when no back merge was found. */
int ranks_request_merge(struct request_queue *q, struct request **req, struct bio *bio)
{
	struct ranks *ranks = q->elevator->elevator_data;
	struct ranks_lane *r = &ranks->lane[ranks_lane_of(rank_of_ioprio(bio->bi_ioprio))];

	lockdep_assert_held(&ranks->lock);
	return rq_set_front_merge(&r->set, req, bio);
}
EXPORT_SYMBOL_GPL(ranks_request_merge);

/* A bio was merged into @req; in front means that its sector changed. */
void ranks_request_merged(struct request_queue *q, struct request *req, enum elv_merge type)
{
	struct ranks *ranks = q->elevator->elevator_data;

	if (type == ELEVATOR_FRONT_MERGE)
		rq_set_moved(&ranks->lane[ranks_rq_lane(req)].set, req);
}
EXPORT_SYMBOL_GPL(ranks_request_merged);

/* @next was merged into @req and goes away; the older place is kept. */
void ranks_requests_merged(struct request_queue *q, struct request *req, struct request *next)
{
	struct ranks *ranks = q->elevator->elevator_data;

	lockdep_assert_held(&ranks->lock);
	if (ranks_get_state(next) != RANKS_QUEUED)
		return;
	rq_inherit_place(req, next);
	ranks_unlink(ranks, next, ranks_rq_lane(next));
	ranks_set_outside(next);
}
EXPORT_SYMBOL_GPL(ranks_requests_merged);

void ranks_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, sluice_insert_t ins)
{
	struct request_queue *q = hctx->queue;
	struct ranks *ranks = q->elevator->elevator_data;
	struct list_head *head = &ranks->urgent;
	struct request *rq, *tmp;
	unsigned long flags;
	LIST_HEAD(free);
	bool merge;

	spin_lock_irqsave(&ranks->lock, flags);
	ranks_forget(ranks);
	/*
	 * A plug's requests were merged among themselves; look only for what
	 * waited before them, and not at all when nothing did, or where a bio's
	 * merge has its limit, which a request's hasn't.
	 */
	merge = ranks->queued && !ranks->place && ranks_merges_freely(ranks);
	if (merge)
		ranks_index_all(ranks);
	list_for_each_entry_safe(rq, tmp, list, queuelist) {
		list_del_init(&rq->queuelist);
		if (merge && !rq_collects(rq) && blk_mq_sched_try_insert_merge(q, rq, &free))
			continue;
		trace_block_rq_insert(rq);
		WRITE_ONCE(ranks->queued, ranks->queued + 1);
		if (rq_add_urgent(rq, ins, &ranks->urgent, &head))
			ranks_note_urgent(rq);
		else
			ranks_place(ranks, rq);
	}
	WRITE_ONCE(ranks->held, false);
	spin_unlock_irqrestore(&ranks->lock, flags);
	sluice_free_requests(&free);
}
EXPORT_SYMBOL_GPL(ranks_insert_requests);

/* Whether the highest active lane may have another request inside; if not, its limit shows. */
static bool ranks_has_room(struct ranks *ranks, unsigned int top)
{
	if (ranks_is_open(ranks, top))
		return true;
	if (ranks->trial == RANKS_LANES && ranks->full != top) {
		ranks_not_full(ranks);
		WRITE_ONCE(ranks->full, top);
	}
	return false;
}

/* The highest active rank's next; where its depth counts, so does what its requests are like. */
static struct request *ranks_take_top(struct ranks *ranks, unsigned int top)
{
	struct ranks_lane *r = &ranks->lane[top];
	struct request *rq;

	/* Until now the device did nothing: that is no part of what a request takes. */
	if (top == ranks->trial && !ranks_inside(ranks, ranks->busy))
		r->window.last_ns = ktime_get_ns();
	rq = ranks_take(ranks, top, RANKS_ISSUED, false);
	if (!(ranks->busy & (BIT(top) - 1)))
		return rq;
	ranks_average(r, rq);
	if (ranks->trial == RANKS_LANES && ranks_changed(r)) {
		ranks_learn_cost(r, 0);
		ranks_search(r, ranks_are_others(ranks, top) ? r->limit : 1);
	}
	return rq;
}

/* Several ranks had requests lately: the higher goes, a turn goes, or nothing. */
static noinline struct request *ranks_dispatch_competing(struct ranks *ranks)
{
	unsigned int top = ranks_first(ranks);
	unsigned long lower = ranks_below(ranks->waiting, top);

	if (ranks->trial == RANKS_LANES && lower && ranks_turn_open(ranks, top, lower)) {
		if (!ranks_trial_due(ranks, &ranks->lane[ranks->turn.lane]))
			return ranks_turn_take(ranks);
		top = ranks->turn.lane;
		ranks_trial_begin(ranks, top);
	}
	if ((ranks->waiting & BIT(top)) && ranks_has_room(ranks, top))
		return ranks_take_top(ranks, top);
	WRITE_ONCE(ranks->held, true);
	/* A completion that isn't seen below sees that something is held: see ranks_account(). */
	smp_mb();
	if (!(ranks->waiting & BIT(top))) {
		ranks_look(ranks);
	} else if (ranks_has_room(ranks, top)) {
		WRITE_ONCE(ranks->held, false);
		return ranks_take_top(ranks, top);
	}
	if (trace_rank_hold_enabled())
		trace_rank_hold(ranks->q, ranks_rank(top), ranks_mask(lower));
	return NULL;
}

/* Of the ranks that had requests lately only the most urgent one waits. */
static bool ranks_unrivalled(const struct ranks *ranks)
{
	return ranks->waiting == BIT(__ffs(ranks->busy)) && ranks->trial == RANKS_LANES;
}

/* What goes before all ranks is inside the device too; a request that comes again still is. */
static noinline struct request *ranks_take_urgent(struct ranks *ranks)
{
	struct request *rq = rq_take_first(&ranks->urgent);
	unsigned int lane = ranks_rq_lane(rq);

	WRITE_ONCE(ranks->queued, ranks->queued - 1);
	if (!(rq->rq_flags & SLUICE_RQF_SCHED) || ranks_get_state(rq) >= RANKS_ISSUED)
		return rq;
	if (ranks_get_state(rq) == RANKS_PASSES) {
		ranks_put(rq, lane, RANKS_PASSED);
		atomic_inc(&ranks->lane[lane].passed);
	} else {
		ranks_put(rq, lane, RANKS_ISSUED);
		atomic_inc(&ranks->lane[lane].issued);
	}
	return rq;
}

struct request *ranks_next(struct ranks *ranks)
{
	lockdep_assert_held(&ranks->lock);
	if (!list_empty(&ranks->urgent))
		return ranks_take_urgent(ranks);
	if (!ranks->waiting)
		return NULL;
	if (ranks_unrivalled(ranks))
		return ranks_take(ranks, __ffs(ranks->waiting), RANKS_ISSUED, false);
	return ranks_dispatch_competing(ranks);
}
EXPORT_SYMBOL_GPL(ranks_next);

struct request *ranks_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct ranks *ranks = hctx->queue->elevator->elevator_data;
	struct request *rq;
	unsigned long flags;

	spin_lock_irqsave(&ranks->lock, flags);
	rq = ranks_next(ranks);
	spin_unlock_irqrestore(&ranks->lock, flags);
	if (rq)
		rq->rq_flags |= RQF_STARTED;
	return rq;
}
EXPORT_SYMBOL_GPL(ranks_dispatch_request);

/* Whether a lane's completion tells something of a cost or a limit; with or without the lock. */
static bool ranks_tells(const struct ranks *ranks, unsigned int lane)
{
	unsigned int full = READ_ONCE(ranks->full), trial = READ_ONCE(ranks->trial);

	return min(full, trial) < RANKS_LANES &&
	       (lane == full || ranks_other(lane) == full || lane == trial);
}

/* By how many completions a depth is judged. */
static int ranks_judges(const struct ranks_lane *r, bool others)
{
	int done = RANKS_WINDOW + 2 * r->depth;

	return others || r->alike < RANKS_ALIKE ? max(done, RANKS_WINDOW_LONG) : done;
}

/* A completion of a rank that has the device for itself. */
static void ranks_learn_in_trial(struct ranks *ranks, unsigned int bytes, u64 now)
{
	struct ranks_lane *r = &ranks->lane[ranks->trial];
	u64 mib_ns;

	ranks->trial_bytes += bytes;
	r->tried_many = max(r->tried_many, ranks_many(r) + 1);
	if (ranks_inside(ranks, ranks->busy & ~BIT(ranks->trial))) {
		r->window.last_ns = 0;
		return;
	}
	mib_ns = ranks_window_add(&r->window, now, bytes, false, ranks_judges(r, false),
				  r->windows ? ranks->trial_bytes / 2 : 0);
	if (!mib_ns)
		return;
	ranks_learn_limit(r, mib_ns, false);
	ranks_learn_cost(r, min(mib_ns, r->limit_mib_ns));
	if (r->windows &&
	    (r->writes < RANKS_WRITES_WEIGHT || ranks->trial_bytes >= RANKS_TRIAL_WRITES))
		ranks_trial_end(ranks, now);
}

/* A completion of a rank that has as much of the device as a limit allows. */
static void ranks_learn_at_limit(struct ranks *ranks, unsigned int lane, unsigned int bytes,
				 u64 now)
{
	struct ranks_lane *r = &ranks->lane[ranks->full];
	bool others = ranks_are_others(ranks, ranks->full);
	u64 mib_ns = ranks_window_add(&r->window, now, bytes, lane != ranks->full,
				      ranks_judges(r, others), 0);

	if (!r->set.queued)
		ranks_not_full(ranks);
	if (mib_ns)
		ranks_learn_limit(r, mib_ns, others);
}

/* Without the lock: no turn asks for completions before its own start. */
static noinline void ranks_note_done(struct ranks *ranks)
{
	u64 now = ktime_get_ns();

	if (now > READ_ONCE(ranks->last_done_ns))
		WRITE_ONCE(ranks->last_done_ns, now);
}

/* A request left the device that is of a turn, or whose end tells or opens something. */
static noinline void ranks_account(struct ranks *ranks, struct request *rq, enum ranks_state state)
{
	unsigned int lane = ranks_rq_lane(rq);
	unsigned long flags;
	bool run = false;
	u64 now;

	spin_lock_irqsave(&ranks->lock, flags);
	now = ktime_get_ns();
	if (state == RANKS_TURN && ranks->rotating)
		ranks_disk_turn_done(ranks, now);
	else if (state == RANKS_TURN)
		ranks_flash_turn_done(ranks, rq, now);
	if (lane == ranks->trial)
		ranks_learn_in_trial(ranks, ranks_bytes(rq), now);
	else if (ranks_tells(ranks, lane))
		ranks_learn_at_limit(ranks, lane, ranks_bytes(rq), now);
	if (ranks->waiting)
		run = ranks_look(ranks);
	WRITE_ONCE(ranks->last_done_ns, now);
	spin_unlock_irqrestore(&ranks->lock, flags);
	if (run)
		ranks_run(ranks);
}

/* The last one of a rank that went before all ranks is done: what is held may go. */
static noinline void ranks_passed(struct ranks *ranks)
{
	unsigned long flags;
	bool run;

	if (!READ_ONCE(ranks->held))
		return;
	spin_lock_irqsave(&ranks->lock, flags);
	run = ranks->waiting && ranks_look(ranks);
	spin_unlock_irqrestore(&ranks->lock, flags);
	if (run)
		ranks_run(ranks);
}

/* Called from any context, for each request that ranks_prepare_request() saw. */
void ranks_finish_request(struct request *rq)
{
	struct ranks *ranks = rq->q->elevator->elevator_data;
	enum ranks_state state = ranks_get_state(rq);
	struct ranks_lane *r;
	bool last;

	if (state < RANKS_ISSUED)
		return;
	r = &ranks->lane[ranks_rq_lane(rq)];
	WRITE_ONCE(r->last, jiffies);
	if (state == RANKS_PASSED) {
		if (atomic_dec_and_test(&r->passed))
			ranks_passed(ranks);
		ranks_set_outside(rq);
		return;
	}
	last = atomic_dec_and_test(&r->issued);
	if (state == RANKS_TURN)
		ranks_account(ranks, rq, state);
	else if (ranks_competing(ranks) &&
		 ((last && READ_ONCE(ranks->held)) || ranks_tells(ranks, ranks_rq_lane(rq))))
		ranks_account(ranks, rq, state);
	else if (READ_ONCE(ranks->turn.issued))
		ranks_note_done(ranks);
	ranks_set_outside(rq);
}
EXPORT_SYMBOL_GPL(ranks_finish_request);

/* Life of the scheduler */

static void ranks_init_lane(struct ranks_lane *r)
{
	rq_set_init(&r->set);
	r->last = jiffies - RANKS_RESERVE_JIFFIES - 1;
	r->limit = 1;
	r->depth = 1;
	r->alike = RANKS_ALIKE;
}

void ranks_init(struct ranks *ranks, struct request_queue *q)
{
	unsigned int i;

	spin_lock_init(&ranks->lock);
	INIT_LIST_HEAD(&ranks->urgent);
	ranks->q = q;
	ranks->rotating = !blk_queue_nonrot(q);
	ranks->low_share = ranks->rotating ? RANKS_LOW_SHARE_ROTATING : RANKS_LOW_SHARE_FLASH;
	ranks->hold_ms = RANKS_HOLD_MS_DEFAULT;
	ranks->full = RANKS_LANES;
	ranks->trial = RANKS_LANES;
	for (i = 0; i < RANKS_LANES; i++)
		ranks_init_lane(&ranks->lane[i]);
	sluice_hrtimer_setup(&ranks->timer, ranks_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}
EXPORT_SYMBOL_GPL(ranks_init);

void ranks_exit(struct ranks *ranks)
{
	unsigned int i;

	hrtimer_cancel(&ranks->timer);
	WARN_ON_ONCE(!list_empty(&ranks->urgent) || ranks->queued || ranks->waiting ||
		     ranks->turn.issued);
	for (i = 0; i < RANKS_LANES; i++) {
		struct ranks_lane *r = &ranks->lane[i];

		WARN_ONCE(!rq_set_is_empty(&r->set) || ranks_has_requests(r),
			  "sluice: lane %u ends with %u queued, %d issued, %d passed\n", i,
			  r->set.queued, atomic_read(&r->issued), atomic_read(&r->passed));
	}
}
EXPORT_SYMBOL_GPL(ranks_exit);

static u64 ranks_waits(const struct ranks_lane *r, u64 now)
{
	return r->set.queued ? now - ranks_oldest(r)->start_time_ns : 0;
}

int ranks_state_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct ranks *ranks = q->elevator->elevator_data;
	unsigned int i;
	u64 now;

	seq_puts(m, "rank queued issued oldest_ns max_wait_ns limit mib_ns\n");
	spin_lock_irq(&ranks->lock);
	now = ktime_get_ns();
	for (i = 0; i < RANKS; i++) {
		const struct ranks_lane *light = &ranks->lane[ranks_lane_of(i | RANKS_LIGHT)];
		const struct ranks_lane *r = &ranks->lane[ranks_lane_of(i)];

		seq_printf(m, "%u %u %d %llu %llu %u %llu\n", i, light->set.queued + r->set.queued,
			   atomic_read(&light->issued) + atomic_read(&r->issued),
			   max(ranks_waits(light, now), ranks_waits(r, now)),
			   max(light->max_wait_ns, r->max_wait_ns), r->limit, r->mib_ns);
	}
	seq_printf(m, "turns %llu issued %u cost_ns %llu stay_ns %llu\n", ranks->turn.count,
		   ranks->turn.issued, ranks->turn.cost_ns, ranks->turn.stay_ns);
	spin_unlock_irq(&ranks->lock);
	return 0;
}
EXPORT_SYMBOL_GPL(ranks_state_show);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Order of requests by I/O priority, for I/O schedulers");

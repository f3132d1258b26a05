/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ranks: RT 0-7, BE 0-7, IDLE; the most urgent one first, the others in turns.  ranks.c has the
 * model.
 *
 * An elevator's data begin with a struct ranks: queue->elevator->elevator_data points at it.  Then
 * what has the name of an elevator's operation here may be that operation, or be called in it.
 * The component has rq->elv.priv[1], in which the elevator has a number, see ranks_note().
 */
#ifndef SLUICE_RANKS_H
#define SLUICE_RANKS_H

#include "request-set.h"

/* RT 0-7, BE 0-7, IDLE: a lower number is more urgent. */
#define RANKS 17
#define RANK_BE 8
#define RANK_DEFAULT (RANK_BE + IOPRIO_BE_NORM)
#define RANK_IDLE 16

/* A request that goes before all ranks, though it has one; that goes before others of its rank. */
#define RANKS_URGENT 32U
#define RANKS_LIGHT 64U

/* Of each rank that of light requests, and that of the others. */
#define RANKS_LANES (2 * RANKS)

#define RANKS_LOW_SHARE_MAX 50
#define RANKS_HOLD_MS_MAX 1000

/**
 * struct ranks_window - throughput over some completions
 * @last_ns: the completion before; 0: none, or something else was in between
 * @ns: between completions
 * @bytes: of all requests but the first
 * @done: their number; below 0 those before which nothing counts
 */
struct ranks_window {
	u64 last_ns;
	u64 ns;
	u64 bytes;
	int done;
};

/**
 * struct ranks_lane - the light requests of one rank, or its others; called a rank below
 * @set: waiting requests; on a rotating disk all are indexed
 * @pos: sector where the sweep goes on (rotating disks)
 * @ahead: bytes of light requests that went since the last one of the rank's others
 * @swept: requests since the sweep last looked at the oldest
 * @max_wait_ns: longest wait of a request that began a turn
 * @owed_ns: device time that ranks below this one may have before it
 * @think: how long the rank stays away between requests, jiffies << RANKS_THINK_SHIFT
 * @turns: since the last trial
 * @size: bytes of a request in turns and trials, on average
 * @writes: how many of these write, of RANKS_ALL_WRITES
 * @alike: requests since the last one that was twice or half as large, up to RANKS_ALIKE
 * @mib_ns: what the device takes for a MiB when the rank has it for itself; 0: not known
 * @tried: jiffies when that was learned
 * @tried_many: how many requests the rank had in that trial at most
 * @tried_size: @size then
 * @tried_writes: @writes then
 * @rest: jiffies after the last trial in which no other follows
 * @limit: requests inside the device that suffice for the rank's throughput
 * @limit_mib_ns: what the device takes for a MiB with so many
 * @depth: how many may be inside: @limit, or twice that to see what it brings
 * @windows: that many at the limit, and half of it is tried again; 0: the search is on
 * @window: the throughput with @depth inside
 * @issued: dispatched and unfinished; changes without the lock, as @passed and @last do
 * @passed: the same of those that went before all ranks by what @place said
 * @last: jiffies when the rank last had a request finished
 */
struct ranks_lane {
	struct rq_set set;
	sector_t pos;
	unsigned int swept;
	unsigned int ahead;
	u64 max_wait_ns;
	s64 owed_ns;
	unsigned int think;
	unsigned int turns;
	unsigned int size;
	unsigned int writes;
	unsigned int alike;
	u64 mib_ns;
	unsigned long tried;
	unsigned int tried_many;
	unsigned int tried_size;
	unsigned int tried_writes;
	unsigned long rest;
	unsigned int limit;
	u64 limit_mib_ns;
	unsigned int depth;
	unsigned int windows;
	struct ranks_window window;
	atomic_t issued ____cacheline_aligned_in_smp;
	atomic_t passed;
	unsigned long last;
};

/**
 * struct ranks_turn - lower ranks' share of the device
 * @lane: whose turn it is
 * @left: budget in sectors, on a rotating disk
 * @issued: requests of turns inside the device
 * @start_ns: when the first request went
 * @cost_ns: device time of the requests that finished, or on flash of the last one that went
 * @stay_ns: how long a turn is inside the device: on a disk the last one, on flash on average
 * @next_ns: when the next turn may open
 * @count: turns so far
 */
struct ranks_turn {
	unsigned int lane;
	int left;
	unsigned int issued;
	u64 start_ns;
	u64 cost_ns;
	u64 stay_ns;
	u64 next_ns;
	u64 count;
};

/**
 * struct ranks - one queue's scheduler
 * @lock: guards all that follows, unless it says otherwise; taken from process
 *	  context and from completions, so always with interrupts off
 * @q: the queue
 * @urgent: requests that no policy may delay, in order: inserted at the head,
 *	    or not under the scheduler's control
 * @waiting: bit per lane with queued requests
 * @busy: bit per lane that had requests within RANKS_RESERVE_JIFFIES; read
 *	  without the lock
 * @looked: jiffies when @busy was last searched for lanes long gone
 * @queued: requests on @urgent and all FIFOs; read without the lock
 * @held: all that waits is held for @timer or a completion; read without the lock
 * @full: the lane whose limit keeps its requests back, RANKS_LANES: none; read
 *	  without the lock
 * @trial: the lane that has the device for itself, RANKS_LANES: none
 * @trial_ns: when that began
 * @trial_bytes: what was done since
 * @rotating: the device seeks
 * @low_share: percent, 1-50; read and written without the lock
 * @hold_ms: 0-1000; read and written without the lock
 * @place: the rank of a request that is being inserted, with RANKS_URGENT and RANKS_LIGHT or
 *	   without, under @lock; constant; NULL: its I/O priority's, without.  With @place requests
 *	   merge in plugs only.
 * @last_done_ns: last completion while turns are inside the device; written without the lock,
 *		  and may be a completion too early when several end at a time
 * @turn: lower ranks' share
 * @timer: reruns the queues when a turn opens or a higher rank's hold ends
 * @lane: the ranks' lanes
 */
struct ranks {
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
	unsigned int (*place)(struct request *rq);
	u64 last_done_ns;
	struct ranks_turn turn;
	struct hrtimer timer;
	struct ranks_lane lane[RANKS_LANES];
};

/**
 * ranks_init() - begin a queue's scheduling
 * @ranks: zeroed
 * @q: the queue; frozen, or not in use yet
 *
 * Knobs have their defaults for the device.
 */
void ranks_init(struct ranks *ranks, struct request_queue *q);

/**
 * ranks_exit() - end it
 * @ranks: of a queue that is frozen: every request has been finished
 *
 * Sleeps.  Warns in the kernel log of books that don't balance.
 */
void ranks_exit(struct ranks *ranks);

/**
 * ranks_next() - take the request that goes next
 * @ranks: under its lock
 *
 * Return: a request for dispatch_request to return, or NULL: none waits, or what waits is held.
 */
struct request *ranks_next(struct ranks *ranks);

/* The lane of requests that have a place. */
static inline unsigned int ranks_lane_of(unsigned int place)
{
	return 2 * (place & ~(RANKS_URGENT | RANKS_LIGHT)) + !(place & RANKS_LIGHT);
}

/* Whether a lane has requests that wait, or are inside the device; with or without the lock. */
static inline bool ranks_has_requests(const struct ranks_lane *r)
{
	return READ_ONCE(r->set.queued) || atomic_read(&r->issued) || atomic_read(&r->passed);
}

/* How many requests of a rank wait; under the lock. */
static inline unsigned int ranks_queued(const struct ranks *ranks, unsigned int rank)
{
	return ranks->lane[ranks_lane_of(rank | RANKS_LIGHT)].set.queued +
	       ranks->lane[ranks_lane_of(rank)].set.queued;
}

/* The rank of an I/O priority. */
static inline unsigned int rank_of_ioprio(unsigned int ioprio)
{
	enum rq_class class = rq_class_of(ioprio);

	return class == RQ_IDLE ? RANK_IDLE : class * RANK_BE + rq_level(ioprio);
}

/*
 * The low bits of priv[1] are the component's.  Above them is a number of RANKS_NOTE_BITS that is
 * the elevator's while a request that went before all ranks is with the driver.
 */
#define RANKS_NOTE_SHIFT 41
#define RANKS_NOTE_BITS 23

/* 0, unless it was set since the request was dispatched. */
static inline u64 ranks_note(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] >> RANKS_NOTE_SHIFT;
}

static inline void ranks_set_note(struct request *rq, u64 note)
{
	unsigned long own = (unsigned long)rq->elv.priv[1] & (BIT(RANKS_NOTE_SHIFT) - 1);

	rq->elv.priv[1] = (void *)(own | note << RANKS_NOTE_SHIFT);
}

/* Operations of an elevator; see above. */
void ranks_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data);
void ranks_limit_below(struct ranks *ranks, struct blk_mq_alloc_data *data, unsigned long higher);

/* The lanes above a rank that may limit its tags. */
static inline unsigned long ranks_limits(const struct ranks *ranks, unsigned int rank)
{
	return READ_ONCE(ranks->busy) & (BIT(ranks_lane_of(rank | RANKS_LIGHT)) - 1);
}

/* The same as ranks_limit_depth() for a rank, of an operation that other tasks don't wait for. */
static inline void ranks_limit_rank(struct ranks *ranks, struct blk_mq_alloc_data *data,
				    unsigned int rank)
{
	unsigned long higher = ranks_limits(ranks, rank);

	if (higher)
		ranks_limit_below(ranks, data, higher);
}

void ranks_prepare_request(struct request *rq);
bool ranks_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio);
bool ranks_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs);
int ranks_request_merge(struct request_queue *q, struct request **req, struct bio *bio);
void ranks_request_merged(struct request_queue *q, struct request *req, enum elv_merge type);
void ranks_requests_merged(struct request_queue *q, struct request *req, struct request *next);
void ranks_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, sluice_insert_t ins);

/* Elevator operation has_work. */
static inline bool ranks_has_work(struct blk_mq_hw_ctx *hctx)
{
	const struct ranks *ranks = hctx->queue->elevator->elevator_data;

	return READ_ONCE(ranks->queued) && !READ_ONCE(ranks->held);
}

struct request *ranks_dispatch_request(struct blk_mq_hw_ctx *hctx);
void ranks_finish_request(struct request *rq);

/**
 * ranks_state_show() - debugfs .../sched/state: a line for each rank, then the turns
 * @data: the queue
 * @m: where to
 *
 * Return: 0.
 */
int ranks_state_show(void *data, struct seq_file *m);

#endif

// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPQ: classes, groups, deadlines and a sweep, for blk-mq
 *
 * A request has one of three classes by its ioprio (RT, BE, IDLE) and one of two
 * groups by its cause: the background, which the knob "background" names, or the
 * foreground, which is all else.  The cause is the cgroup of the request's bio.  So data
 * written through the page cache counts for the cgroup that dirtied it, and not for the
 * thread that writes it back.
 *
 * That makes six queues.  The next request is chosen in this order:
 *
 *  1. What no policy may delay: inserted at the head, or not under the scheduler's
 *     control.
 *  2. The oldest of all waiting requests, if it is older than prio_aging_expire.
 *  3. RT, the foreground's before the background's.
 *  4. The group that has the turn, BE before IDLE.
 *
 * Within a queue requests go in batches of fifo_batch, of one direction and by sector:
 * upwards from where the last batch of that direction ended, and then from the lowest.
 * A batch begins with the oldest request if its deadline has passed (read_expire,
 * write_expire).  After writes_starved batches of reads, for which writes waited, comes
 * a batch of writes.
 *
 * Aging is an exception and never a second order.  An aged request goes only when
 * the aged one before it has left the device, and another request was chosen since.
 * So a request with N older ones waiting is chosen at the latest
 *
 *	prio_aging_expire + (N + 1) * (D + d)
 *
 * after it came.  D is the longest time for which the device keeps a request, and d
 * the longest one between two dispatches.  N is less than the number of tags.
 *
 * Turns: while both groups wait, the foreground goes until the device has spent
 * fore_timeout on it, then the background until back_timeout, but at least one request
 * each.  While only one group waits it goes, which uses up no group's turn.  A
 * request's cost is the time that the device spent on it: from the completion before
 * it, or from its own dispatch to an idle device, to its completion.  The cost of a
 * group's requests inside the device is estimated by the mean of earlier ones.
 *
 * Idle wait: while the foreground has the turn and nothing queued, the background is
 * held until the foreground's requests have left the device, and for slice_idle longer.
 * This is done only if it pays.  The foreground's last request must be synchronous and
 * its mean think time within slice_idle.  The device's mean time for a request, by which
 * a background request would delay the next one, must be above io_threshold.  The wait
 * is part of the turn: after fore_timeout, or once a request has aged, nothing is held.
 *
 * Writes beside a reader: in a device full of writes each read waits for them all, and
 * no order in the elevator helps against that.  While there are reads, writes go in
 * bursts of writes_beside_reads, or one at a time when no read is inside, each when the
 * one before has left the device.  The knob is 0, no bound, on devices where it does harm.
 *
 * Before all that, accounts share the tags: see fair.h.
 *
 * While only one group has requests, none of this runs and no clock is read; a request
 * that is alone in its queue is never sorted.
 *
 * Source: the CPQ paper, sections 4 to 6 and Table 6.  docs/cpq.md has the model,
 * and where it departs from the paper.
 */
#include "fair.h"
#include "request-set.h"

#include <linux/bitops.h>
#include <linux/blk-cgroup.h>
#include <linux/cgroup.h>
#include <linux/slab.h>

#define CREATE_TRACE_POINTS
#include "cpq-trace.h"

/* Defaults of Table 6, in the knobs' units. */
#define CPQ_READ_EXPIRE_MS 250
#define CPQ_WRITE_EXPIRE_MS 5000
#define CPQ_WRITES_STARVED 2
#define CPQ_FIFO_BATCH 16
#define CPQ_PRIO_AGING_EXPIRE_MS 10000
#define CPQ_FORE_TIMEOUT_MS 2000
#define CPQ_BACK_TIMEOUT_MS 125
#define CPQ_SLICE_IDLE_US 1000
#define CPQ_IO_THRESHOLD_US 1000
#define CPQ_MAX_TGROUP_IO_RATIO 50

/* The paper doesn't say what is background; by default, the IDLE class is. */
#define CPQ_BACKGROUND "idle\n"

/* Tags for asynchronous requests, in 128ths: the paper has 96 of a queue of 128. */
#define CPQ_ASYNC_DEPTH 96
#define CPQ_ASYNC_WHOLE 128

/* Larger values are taken for mistakes. */
#define CPQ_EXPIRE_MS_MAX 600000
#define CPQ_TIMEOUT_MS_MAX 60000
#define CPQ_SLICE_US_MAX 100000
#define CPQ_THRESHOLD_US_MAX 1000000

/*
 * Writes inside the device beside reads: one that it works at, and one that follows when that is
 * done.  Between two reads of a reader it is one.
 */
#define CPQ_WRITES_BESIDE_READS 2
#define CPQ_BESIDE_MAX 1024

/* Queue depth of eMMC, UFS and SATA: deeper devices (NVMe) are slow with few writes. */
#define CPQ_SHALLOW_DEPTH 32

/*
 * With adaptive_expire a request is late when it has waited so many times the mean.  A sweep
 * that no stream monopolises reaches every request within twice the mean.  A smaller value would
 * only break up the sweep, for a longer tail.
 */
#define CPQ_EXPIRE_MEANS 4

/* A larger batch is no better than emptying the queue. */
#define CPQ_BATCH_MAX 1024
#define CPQ_STARVED_MAX 1024

/* Cgroups in the list: each request's cgroup is compared with each of them. */
#define CPQ_BACKGROUND_MAX 16

/* Each new value has this weight in a mean (1/8): some ten requests change it. */
#define CPQ_MEAN_SHIFT 3

/* A pause of the foreground counts as so many idle slices at most, to be forgotten soon. */
#define CPQ_THINK_SLICES 8

/* For so long after its last request the foreground, or a reader, counts as present. */
#define CPQ_FOREGROUND_JIFFIES HZ
#define CPQ_READER_JIFFIES msecs_to_jiffies(4)

/* A changed prio_aging_expire takes effect after this, since the next look is planned ahead. */
#define CPQ_AGE_LOOK_JIFFIES (HZ / 4)

enum cpq_group { CPQ_FORE, CPQ_BACK, CPQ_GROUPS };

/* Bits of cpq_data.waiting, in the order of queues: RT of both groups, BE and IDLE of each. */
#define CPQ_QUEUES (RQ_CLASSES * CPQ_GROUPS)
#define CPQ_RT_BITS GENMASK(1, 0)
#define CPQ_FORE_BITS GENMASK(3, 2)
#define CPQ_BACK_BITS GENMASK(5, 4)

/* State of a request; with its queue in rq->elv.priv[0]. */
enum cpq_state {
	CPQ_OUTSIDE, /* not inserted, or left again */
	CPQ_QUEUED, /* in its queue */
	CPQ_ISSUED, /* dispatched, not finished */
	CPQ_AGED, /* the same, as the one aged request */
	CPQ_STATES
};

/* Why a request was chosen, for cpq_dispatch. */
enum cpq_why { CPQ_WHY_URGENT, CPQ_WHY_AGED, CPQ_WHY_DEADLINE, CPQ_WHY_SECTOR };

/**
 * struct cpq_queue - the requests of one class and group
 * @set: waiting requests by direction, READ and WRITE
 * @pos: sector where each direction's sweep goes on
 * @dir: direction of the batch
 * @batch: requests left in the batch
 * @starved: batches of reads since one of writes, while writes waited
 * @served: requests dispatched since the scheduler was chosen
 * @read_came: jiffies when a read came
 * @issued: dispatched and unfinished; changes without the lock
 */
struct cpq_queue {
	struct rq_set set[2];
	sector_t pos[2];
	unsigned int dir;
	unsigned int batch;
	unsigned int starved;
	u64 served;
	unsigned long read_came;
	atomic_t issued ____cacheline_aligned_in_smp;
};

/**
 * struct cpq_background - what is background; immutable, replaced as a whole
 * @idle: the IDLE class is
 * @count: number of @cgroups
 * @cgroups: they and all below them are; with a reference to each
 * @text: the list as it was written
 */
struct cpq_background {
	bool idle;
	unsigned int count;
	struct cgroup *cgroups[CPQ_BACKGROUND_MAX];
	char text[];
};

/**
 * struct cpq_data - one queue's scheduler
 *
 * Read for each request, and rarely written:
 *
 * @q: the queue
 * @fair: the sharing of the tags
 * @read_expire: ms, as the knob of this name, like those that follow; knobs are read
 *		 and written without the lock
 * @write_expire: ms
 * @writes_starved: batches
 * @front_merges: 0 or 1
 * @fifo_batch: requests
 * @async_depth: 128ths of the tags
 * @prio_aging_expire: ms, 0: off
 * @fore_timeout: ms
 * @back_timeout: ms
 * @slice_idle: us, 0: off
 * @io_threshold: us
 * @cpq_log: 0 or 1
 * @max_tgroup_io_ratio: per cent
 * @adaptive_expire: 0 or 1
 * @writes_beside_reads: requests, 0: no bound
 *
 * Written with the lock held:
 *
 * @lock: guards what follows, but for @queue's issued; taken from process context and
 *	  from completions, so always with interrupts off
 * @waiting: bit per queue with waiting requests; read without the lock
 * @queued: requests on @urgent and in all queues; read without the lock
 * @held: all waiting requests are held until @timer fires; read without the lock
 * @aged_last: the last choice was an aged request
 * @fore_sync: the foreground's last request was synchronous
 * @draining: a burst of writes beside reads is inside the device
 * @urgent: requests that no policy may delay, in order
 * @background: what is background
 * @age_look: jiffies before which nothing can have aged
 * @turn: the group that has the turn
 * @used_ns: device time of this turn, counted while the other group waited
 * @service_ns: mean device time of a request, by group
 * @busy_ns: when a group with nothing inside the device last got a request inside
 * @last_done_ns: last completion while groups compete
 * @fore_done_ns: when the foreground's last request left the device; 0: not seen
 * @fore_think_ns: its mean think time: from then until its next request came
 * @fore_came: jiffies when the foreground's last request came; read without the lock
 * @waited: mean wait of dispatched requests by direction, in fractions of a jiffy
 * @timer: reruns the queues when a hold ends
 * @queue: the queues, in the order of the bits of @waiting
 *
 * Written without the lock, by completions:
 *
 * @inside: requests inside the device by direction
 * @aged_inside: an aged request is inside the device; set with the lock held
 * @writes_held: writes wait until those inside the device have left
 */
struct cpq_data {
	struct request_queue *q;
	struct fair *fair;
	unsigned int read_expire;
	unsigned int write_expire;
	unsigned int writes_starved;
	unsigned int front_merges;
	unsigned int fifo_batch;
	unsigned int async_depth;
	unsigned int prio_aging_expire;
	unsigned int fore_timeout;
	unsigned int back_timeout;
	unsigned int slice_idle;
	unsigned int io_threshold;
	unsigned int cpq_log;
	unsigned int max_tgroup_io_ratio;
	unsigned int adaptive_expire;
	unsigned int writes_beside_reads;

	spinlock_t lock ____cacheline_aligned_in_smp; /* guards what follows; see above */
	unsigned long waiting;
	unsigned int queued;
	bool held;
	bool aged_last;
	bool fore_sync;
	bool draining;
	struct list_head urgent;
	struct cpq_background *background;
	unsigned long age_look;
	enum cpq_group turn;
	u64 used_ns;
	u64 service_ns[CPQ_GROUPS];
	u64 busy_ns[CPQ_GROUPS];
	u64 last_done_ns;
	u64 fore_done_ns;
	u64 fore_think_ns;
	unsigned long fore_came;
	unsigned long waited[2];
	struct hrtimer timer;
	struct cpq_queue queue[CPQ_QUEUES];

	atomic_t inside[2] ____cacheline_aligned_in_smp;
	bool aged_inside;
	bool writes_held;
};

/* Queues and groups */

static unsigned int cpq_index(enum rq_class class, enum cpq_group group)
{
	return class == RQ_RT ? group : 1 + class + 2 * group;
}

static enum rq_class cpq_class(unsigned int index)
{
	return index < 2 ? RQ_RT : index % 2 ? RQ_IDLE : RQ_BE;
}

static enum cpq_group cpq_group_of(unsigned int index)
{
	return index < 2 ? index : index / 4;
}

static unsigned long cpq_bits(enum cpq_group group)
{
	return group == CPQ_FORE ? CPQ_FORE_BITS : CPQ_BACK_BITS;
}

/* Requests inside that take part in turns; RT doesn't. */
static unsigned int cpq_group_inside(const struct cpq_data *cpq, enum cpq_group group)
{
	return atomic_read(&cpq->queue[cpq_index(RQ_BE, group)].issued) +
	       atomic_read(&cpq->queue[cpq_index(RQ_IDLE, group)].issued);
}

/* The background waits, and the foreground is or was recently active: turns matter. */
static bool cpq_competing(const struct cpq_data *cpq)
{
	return (READ_ONCE(cpq->waiting) & CPQ_BACK_BITS) &&
	       (time_before(jiffies, READ_ONCE(cpq->fore_came) + CPQ_FOREGROUND_JIFFIES) ||
		cpq_group_inside(cpq, CPQ_FORE));
}

/* Whether the cause of a bio is in the list; does no work while the list has no cgroup. */
static bool cpq_listed(const struct cpq_background *list, struct bio *bio)
{
	struct cgroup_subsys_state *css;
	unsigned int i;

	if (!list->count)
		return false;
	css = bio_blkcg_css(bio);
	for (i = 0; css && i < list->count; i++)
		if (cgroup_is_descendant(css->cgroup, list->cgroups[i]))
			return true;
	return false;
}

static struct cpq_queue *cpq_queue_for(struct cpq_data *cpq, unsigned int ioprio, struct bio *bio)
{
	const struct cpq_background *list = cpq->background;
	enum rq_class class = rq_class_of(ioprio);
	bool back = (class == RQ_IDLE && list->idle) || cpq_listed(list, bio);

	lockdep_assert_held(&cpq->lock);
	return &cpq->queue[cpq_index(class, back ? CPQ_BACK : CPQ_FORE)];
}

/*
 * A zone's writes must stay in the order in which they came.  Where the elevator has to ensure
 * that, they all go to one queue, in which cpq_oldest() picks them.
 */
static struct cpq_queue *cpq_request_queue(struct cpq_data *cpq, struct request *rq)
{
	if (sluice_orders_zones(cpq->q) && sluice_zone_write(rq))
		return &cpq->queue[cpq_index(RQ_BE, CPQ_FORE)];
	return cpq_queue_for(cpq, sluice_rq_ioprio(rq), rq->bio);
}

/* The state is in the low bits of the queue's address, which its alignment leaves free. */
static void cpq_put(struct request *rq, struct cpq_queue *queue, enum cpq_state state)
{
	BUILD_BUG_ON(__alignof__(struct cpq_queue) < CPQ_STATES);
	rq->elv.priv[0] = (void *)((unsigned long)queue | state);
}

static enum cpq_state cpq_state_of(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[0] & (CPQ_STATES - 1);
}

static struct cpq_queue *cpq_queue_of(const struct request *rq)
{
	return (void *)((unsigned long)rq->elv.priv[0] & ~(CPQ_STATES - 1UL));
}

/* Turns and the clock */

static u64 cpq_mean(u64 mean, u64 value)
{
	return mean - (mean >> CPQ_MEAN_SHIFT) + (value >> CPQ_MEAN_SHIFT);
}

static u64 cpq_slice_ns(const struct cpq_data *cpq)
{
	return (u64)READ_ONCE(cpq->slice_idle) * NSEC_PER_USEC;
}

static u64 cpq_budget_ns(const struct cpq_data *cpq, enum cpq_group group)
{
	unsigned int ms = READ_ONCE(*(group == CPQ_FORE ? &cpq->fore_timeout : &cpq->back_timeout));

	return (u64)ms * NSEC_PER_MSEC;
}

/* A foreground request came: notes the think time before it, and whether it is synchronous. */
static void cpq_fore_came(struct cpq_data *cpq, const struct request *rq)
{
	if (cpq->fore_done_ns && cpq_competing(cpq) && !(cpq->waiting & CPQ_FORE_BITS) &&
	    !cpq_group_inside(cpq, CPQ_FORE)) {
		u64 think = ktime_get_ns() - cpq->fore_done_ns;
		u64 most = CPQ_THINK_SLICES * cpq_slice_ns(cpq);

		cpq->fore_think_ns = cpq_mean(cpq->fore_think_ns, min(think, most));
	}
	cpq->fore_sync = op_is_sync(rq->cmd_flags);
	WRITE_ONCE(cpq->fore_came, jiffies);
}

/* The groups begin to compete: earlier times are out of date. */
static void cpq_start_clock(struct cpq_data *cpq)
{
	cpq->last_done_ns = ktime_get_ns();
	cpq->fore_done_ns = 0;
}

static void cpq_begin_turn(struct cpq_data *cpq, enum cpq_group group)
{
	trace_cpq_turn(READ_ONCE(cpq->cpq_log), cpq->q, group, cpq->used_ns);
	cpq->turn = group;
	cpq->used_ns = 0;
}

/* Whether the turn is over, counting the estimated cost of what its group has inside. */
static bool cpq_spent(const struct cpq_data *cpq)
{
	enum cpq_group group = cpq->turn;

	return cpq->used_ns + cpq_group_inside(cpq, group) * cpq->service_ns[group] >=
	       cpq_budget_ns(cpq, group);
}

/* When a hold of the background must end; 0: holding doesn't pay. */
static u64 cpq_hold_end(const struct cpq_data *cpq)
{
	u64 slice = cpq_slice_ns(cpq);
	u64 mean = max(cpq->service_ns[CPQ_FORE], cpq->service_ns[CPQ_BACK]);

	if (!slice || !cpq->fore_sync || cpq->fore_think_ns > slice || !cpq_competing(cpq) ||
	    mean <= (u64)READ_ONCE(cpq->io_threshold) * NSEC_PER_USEC)
		return 0;
	if (!cpq_group_inside(cpq, CPQ_FORE))
		return cpq->fore_done_ns + slice;
	return max(cpq->last_done_ns, cpq->busy_ns[CPQ_FORE]) + cpq_budget_ns(cpq, CPQ_FORE) -
	       min(cpq->used_ns, cpq_budget_ns(cpq, CPQ_FORE));
}

/* Whether a request may have aged; then nothing is held. */
static bool cpq_may_have_aged(const struct cpq_data *cpq)
{
	return READ_ONCE(cpq->prio_aging_expire) && time_after_eq(jiffies, cpq->age_look);
}

/*
 * Whether to hold the background, when only it waits; arms the timer that ends the hold.  The
 * foreground's completions come back here through cpq_account().
 */
static bool cpq_hold(struct cpq_data *cpq)
{
	u64 now, end;

	lockdep_assert_held(&cpq->lock);
	if (cpq->turn != CPQ_FORE || cpq_may_have_aged(cpq))
		return false;
	end = cpq_hold_end(cpq);
	if (!end)
		return false;
	now = ktime_get_ns();
	if (now >= end)
		return false;
	if (READ_ONCE(cpq->prio_aging_expire))
		end = min(end, now + jiffies_to_nsecs(cpq->age_look - jiffies));
	/* Set before, since the timer may fire on another CPU at once. */
	WRITE_ONCE(cpq->held, true);
	hrtimer_start(&cpq->timer, ns_to_ktime(end), HRTIMER_MODE_ABS);
	trace_cpq_idle(READ_ONCE(cpq->cpq_log), cpq->q, end - now);
	return true;
}

static enum hrtimer_restart cpq_timer(struct hrtimer *timer)
{
	struct cpq_data *cpq = container_of(timer, struct cpq_data, timer);

	WRITE_ONCE(cpq->held, false);
	blk_mq_run_hw_queues(cpq->q, true);
	return HRTIMER_NORESTART;
}

/*
 * The queue of those in @waiting that goes next; CPQ_QUEUES: hold them.  @waiting isn't empty and
 * leaves out queues that wait for writes.
 */
static unsigned int cpq_next_queue(struct cpq_data *cpq, unsigned long waiting)
{
	unsigned long back = waiting & CPQ_BACK_BITS;

	if (waiting & CPQ_RT_BITS)
		return __ffs(waiting);
	if (!back) {
		if (cpq->turn == CPQ_BACK && !(cpq->waiting & CPQ_BACK_BITS))
			cpq_begin_turn(cpq, CPQ_FORE);
		return __ffs(waiting);
	}
	if (cpq_spent(cpq))
		cpq_begin_turn(cpq, !cpq->turn);
	if (waiting & cpq_bits(cpq->turn))
		return __ffs(waiting & cpq_bits(cpq->turn));
	return cpq_hold(cpq) ? CPQ_QUEUES : __ffs(back);
}

/* Order within a queue */

/* The oldest request that may go; NULL: each waits for a write to its zone. */
static struct request *cpq_oldest(const struct rq_set *set)
{
	struct request *rq;

	list_for_each_entry(rq, &set->fifo, queuelist)
		if (!sluice_zone_busy(rq))
			return rq;
	return NULL;
}

/*
 * How long a request may wait, in jiffies.  With adaptive_expire, and on a device without seeks,
 * that is CPQ_EXPIRE_MEANS times the mean wait, if that is less than the knob: so no stream
 * monopolises the sweep.  Two jiffies are added, since the arrival and now are both rounded.  On
 * a disk that seeks the knob applies: deadlines there undo the order of the sweep.
 */
static unsigned long cpq_expire(const struct cpq_data *cpq, unsigned int dir)
{
	unsigned int ms = READ_ONCE(*(dir == READ ? &cpq->read_expire : &cpq->write_expire));
	unsigned long fixed = msecs_to_jiffies(ms);

	if (!READ_ONCE(cpq->adaptive_expire) || !blk_queue_nonrot(cpq->q))
		return fixed;
	return min(fixed, (CPQ_EXPIRE_MEANS * cpq->waited[dir] >> CPQ_MEAN_SHIFT) + 2);
}

static bool cpq_expired(const struct cpq_data *cpq, const struct request *rq, unsigned int dir)
{
	return time_after_eq(jiffies, rq_came(rq) + cpq_expire(cpq, dir));
}

/* Reads; writes after writes_starved batches of reads during which writes waited. */
static unsigned int cpq_direction(const struct cpq_data *cpq, struct cpq_queue *queue)
{
	if (!queue->set[WRITE].queued)
		return READ;
	if (queue->set[READ].queued && queue->starved < READ_ONCE(cpq->writes_starved))
		return READ;
	return WRITE;
}

/* Begins a batch.  Return: the oldest request if its deadline has passed, else NULL. */
static struct request *cpq_begin_batch(struct cpq_data *cpq, struct cpq_queue *queue,
				       unsigned int dir)
{
	struct request *rq = cpq_oldest(&queue->set[dir]);

	queue->dir = dir;
	queue->batch = READ_ONCE(cpq->fifo_batch);
	if (dir == WRITE)
		queue->starved = 0;
	else if (queue->set[WRITE].queued)
		queue->starved++;
	return rq && cpq_expired(cpq, rq, dir) ? rq : NULL;
}

/* The next request of a direction in the sweep that may go, or NULL. */
static struct request *cpq_sweep(struct cpq_data *cpq, struct cpq_queue *queue, unsigned int dir)
{
	struct rq_set *set = &queue->set[dir];

	if (set->queued < 2 || (dir == WRITE && sluice_orders_zones(cpq->q)))
		return cpq_oldest(set);
	rq_set_sort_all(set);
	return rq_set_from(set, queue->pos[dir]);
}

/* Whether there were reads lately in this queue or a more urgent one. */
static bool cpq_somebody_reads(const struct cpq_data *cpq, const struct cpq_queue *queue)
{
	const struct cpq_queue *other;

	for (other = cpq->queue; other <= queue; other++)
		if (time_before_eq(jiffies, other->read_came + CPQ_READER_JIFFIES))
			return true;
	return false;
}

/*
 * Whether a queue's writes must wait for others to leave the device, since the next read that is
 * at least as urgent would find a device full of writes.  Writes go in small bursts, each when the
 * last one has left, so that most reads find none.  RT doesn't wait.
 */
static bool cpq_writes_full(struct cpq_data *cpq, const struct cpq_queue *queue)
{
	unsigned int beside = READ_ONCE(cpq->writes_beside_reads);
	unsigned int most = atomic_read(&cpq->inside[READ]) ? beside : 1;
	unsigned int inside = atomic_read(&cpq->inside[WRITE]);

	if (!beside || BIT(queue - cpq->queue) & CPQ_RT_BITS || !cpq_somebody_reads(cpq, queue))
		return false;
	cpq->draining = inside >= most || (inside && cpq->draining);
	return cpq->draining;
}

/*
 * The queue's next request; NULL where all wait for writes: to a zone, or to leave the device.
 * While a batch of writes waits to leave, reads go by sector and count for no batch.
 */
static struct request *cpq_pick(struct cpq_data *cpq, struct cpq_queue *queue, enum cpq_why *why)
{
	bool begins = !queue->batch || !queue->set[queue->dir].queued;
	unsigned int dir = begins ? cpq_direction(cpq, queue) : queue->dir;
	struct request *rq = NULL;

	*why = CPQ_WHY_SECTOR;
	if (dir == WRITE && cpq_writes_full(cpq, queue))
		return cpq_sweep(cpq, queue, READ);
	if (begins)
		rq = cpq_begin_batch(cpq, queue, dir);
	if (rq)
		*why = CPQ_WHY_DEADLINE;
	else
		rq = cpq_sweep(cpq, queue, dir);
	if (!rq && queue->set[READ].queued) {
		queue->dir = READ;
		rq = cpq_sweep(cpq, queue, READ);
	}
	if (rq)
		queue->batch--;
	return rq;
}

/* Dispatch */

/* Takes a request out of its queue and out of the merge look-ups. */
static void cpq_unlink(struct cpq_data *cpq, struct request *rq)
{
	struct cpq_queue *queue = cpq_queue_of(rq);

	lockdep_assert_held(&cpq->lock);
	rq_set_del(cpq->q, &queue->set[rq_data_dir(rq)], rq);
	cpq_put(rq, queue, CPQ_OUTSIDE);
	WRITE_ONCE(cpq->queued, cpq->queued - 1);
	if (!queue->set[READ].queued && !queue->set[WRITE].queued)
		WRITE_ONCE(cpq->waiting, cpq->waiting & ~BIT(queue - cpq->queue));
}

/* The mean wait of a direction's requests, in fractions of a jiffy. */
static void cpq_note_wait(struct cpq_data *cpq, const struct request *rq)
{
	unsigned long *mean = &cpq->waited[rq_data_dir(rq)];

	*mean += (jiffies - rq_came(rq)) - (*mean >> CPQ_MEAN_SHIFT);
}

static struct request *cpq_issue(struct cpq_data *cpq, struct request *rq, enum cpq_state state,
				 enum cpq_why why)
{
	struct cpq_queue *queue = cpq_queue_of(rq);
	unsigned int i = queue - cpq->queue;

	trace_cpq_dispatch(READ_ONCE(cpq->cpq_log), rq, cpq_class(i), cpq_group_of(i), why);
	if (cpq_competing(cpq) && !cpq_group_inside(cpq, cpq_group_of(i)))
		cpq->busy_ns[cpq_group_of(i)] = ktime_get_ns();
	queue->pos[rq_data_dir(rq)] = blk_rq_pos(rq) + blk_rq_sectors(rq);
	queue->served++;
	if (READ_ONCE(cpq->adaptive_expire))
		cpq_note_wait(cpq, rq);
	cpq_unlink(cpq, rq);
	sluice_zone_lock(rq);
	cpq_put(rq, queue, state);
	atomic_inc(&queue->issued);
	atomic_inc(&cpq->inside[rq_data_dir(rq)]);
	cpq->aged_last = state == CPQ_AGED;
	return rq;
}

static struct request *cpq_take_urgent(struct cpq_data *cpq)
{
	struct request *rq = rq_take_first(&cpq->urgent);

	trace_cpq_dispatch(READ_ONCE(cpq->cpq_log), rq, 0, 0, CPQ_WHY_URGENT);
	WRITE_ONCE(cpq->queued, cpq->queued - 1);
	return rq;
}

/* The oldest of all waiting requests that may go, in any queue. */
static struct request *cpq_oldest_of_all(struct cpq_data *cpq)
{
	unsigned long waiting = cpq->waiting;
	struct request *oldest = NULL;
	unsigned int i, dir;

	for_each_set_bit(i, &waiting, CPQ_QUEUES) {
		for (dir = READ; dir <= WRITE; dir++) {
			struct request *rq = cpq_oldest(&cpq->queue[i].set[dir]);

			if (rq && (!oldest || time_before(rq_came(rq), rq_came(oldest))))
				oldest = rq;
		}
	}
	return oldest;
}

/* The oldest request, if it has aged and may go now, else NULL; plans the next look. */
static struct request *cpq_take_aged(struct cpq_data *cpq)
{
	unsigned long due, latest = jiffies + CPQ_AGE_LOOK_JIFFIES;
	struct request *rq;

	if (READ_ONCE(cpq->aged_inside) || cpq->aged_last)
		return NULL;
	rq = cpq_oldest_of_all(cpq);
	if (!rq)
		return NULL;
	due = rq_came(rq) + msecs_to_jiffies(READ_ONCE(cpq->prio_aging_expire));
	if (time_before(jiffies, due)) {
		cpq->age_look = time_before(due, latest) ? due : latest;
		return NULL;
	}
	WRITE_ONCE(cpq->aged_inside, true);
	return cpq_issue(cpq, rq, CPQ_AGED, CPQ_WHY_AGED);
}

/* The next request that may go, or NULL; then @full says whether writes must wait. */
static struct request *cpq_take(struct cpq_data *cpq, bool *full)
{
	unsigned long waiting = cpq->waiting;

	*full = false;
	while (waiting) {
		unsigned int i = cpq_next_queue(cpq, waiting);
		struct request *rq;
		enum cpq_why why;

		if (i == CPQ_QUEUES)
			return NULL;
		rq = cpq_pick(cpq, &cpq->queue[i], &why);
		if (rq)
			return cpq_issue(cpq, rq, CPQ_ISSUED, why);
		/* Room that is kept for reads must not be taken by less urgent queues. */
		*full = *full || cpq_writes_full(cpq, &cpq->queue[i]);
		waiting &= *full ? BIT(i) - 1 : ~BIT(i);
	}
	return NULL;
}

/*
 * The next request.  If only writes wait, for others to leave the device, the last one that leaves
 * reruns the queue.  After @writes_held is set, the device is looked at once more.
 */
static struct request *cpq_take_next(struct cpq_data *cpq)
{
	bool full;
	struct request *rq = cpq_take(cpq, &full);

	if (rq || !full)
		return rq;
	WRITE_ONCE(cpq->writes_held, true);
	/* Pairs with cpq_leave(): it sees that we wait, or we see that it has left. */
	smp_mb();
	if (atomic_read(&cpq->inside[WRITE]))
		return NULL;
	WRITE_ONCE(cpq->writes_held, false);
	return cpq_take(cpq, &full);
}

static struct request *cpq_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct cpq_data *cpq = hctx->queue->elevator->elevator_data;
	struct request *rq = NULL;
	unsigned long flags;

	spin_lock_irqsave(&cpq->lock, flags);
	if (!list_empty(&cpq->urgent)) {
		rq = cpq_take_urgent(cpq);
	} else if (cpq->waiting) {
		if (cpq_may_have_aged(cpq))
			rq = cpq_take_aged(cpq);
		if (!rq)
			rq = cpq_take_next(cpq);
	}
	if (rq)
		rq->rq_flags |= RQF_STARTED;
	spin_unlock_irqrestore(&cpq->lock, flags);
	return rq;
}

/* Whether anything waits that the bound on writes doesn't hold. */
static bool cpq_reads_wait(const struct cpq_data *cpq)
{
	unsigned int i;

	for (i = 0; i < CPQ_QUEUES; i++)
		if (READ_ONCE(cpq->queue[i].set[READ].queued))
			return true;
	return !rq_list_is_empty(&cpq->urgent);
}

static bool cpq_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct cpq_data *cpq = hctx->queue->elevator->elevator_data;

	return READ_ONCE(cpq->queued) && !READ_ONCE(cpq->held) &&
	       (!READ_ONCE(cpq->writes_held) || cpq_reads_wait(cpq));
}

/* Requests, in the order of a request's life */

/*
 * Called without locks, before a tag is allocated.  A task waits if its account has its part of
 * the tags, and asynchronous requests leave some tags to others.
 */
static void cpq_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct cpq_data *cpq = data->q->elevator->elevator_data;
	unsigned long waited;

	if (!op_is_sync(opf))
		sluice_limit_tags(data, sluice_nr_tags(data) * READ_ONCE(cpq->async_depth) /
						CPQ_ASYNC_WHOLE);
	waited = fair_limit(cpq->fair, opf, data);
	if (waited)
		trace_cpq_wait(READ_ONCE(cpq->cpq_log), cpq->q, jiffies_to_msecs(waited));
}

static void cpq_prepare_request(struct request *rq)
{
	struct cpq_data *cpq = rq->q->elevator->elevator_data;

	rq->elv.priv[0] = NULL;
	rq->elv.priv[1] = fair_charge(cpq->fair, rq);
}

/* Enters all waiting requests in the merge look-ups. */
static void cpq_index_all(struct cpq_data *cpq)
{
	unsigned long waiting = cpq->waiting;
	unsigned int i;

	lockdep_assert_held(&cpq->lock);
	for_each_set_bit(i, &waiting, CPQ_QUEUES) {
		rq_set_index_all(cpq->q, &cpq->queue[i].set[READ]);
		rq_set_index_all(cpq->q, &cpq->queue[i].set[WRITE]);
	}
}

static bool cpq_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct cpq_data *cpq = q->elevator->elevator_data;
	struct request *free = NULL;
	unsigned long flags;
	bool merged;

	fair_see(cpq->fair, bio);
	if (!READ_ONCE(cpq->queued))
		return false;
	spin_lock_irqsave(&cpq->lock, flags);
	cpq_index_all(cpq);
	merged = blk_mq_sched_try_merge(q, bio, nr_segs, &free);
	spin_unlock_irqrestore(&cpq->lock, flags);
	if (free)
		blk_mq_free_request(free);
	return merged;
}

/* Called for each candidate: the block layer tries its last one in front too. */
static bool cpq_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	struct cpq_data *cpq = q->elevator->elevator_data;

	return READ_ONCE(cpq->front_merges) || bio_end_sector(bio) != blk_rq_pos(rq);
}

/* Called by blk_mq_sched_try_merge() when no back merge was found. */
static int cpq_request_merge(struct request_queue *q, struct request **req, struct bio *bio)
{
	struct cpq_data *cpq = q->elevator->elevator_data;
	struct cpq_queue *queue = cpq_queue_for(cpq, bio->bi_ioprio, bio);

	return rq_set_front_merge(&queue->set[bio_data_dir(bio)], req, bio);
}

/* A bio was merged into @req; in front means that its sector changed. */
static void cpq_request_merged(struct request_queue *q, struct request *req, enum elv_merge type)
{
	if (type == ELEVATOR_FRONT_MERGE)
		rq_set_moved(&cpq_queue_of(req)->set[rq_data_dir(req)], req);
}

/*
 * @next was merged into @req and goes away.  The older place is kept, unless they are in different
 * queues because the list of the background changed in between.
 */
static void cpq_requests_merged(struct request_queue *q, struct request *req, struct request *next)
{
	struct cpq_data *cpq = q->elevator->elevator_data;

	lockdep_assert_held(&cpq->lock);
	if (cpq_state_of(next) != CPQ_QUEUED)
		return;
	if (cpq_queue_of(req) == cpq_queue_of(next))
		rq_inherit_place(req, next);
	cpq_unlink(cpq, next);
}

static void cpq_enqueue(struct cpq_data *cpq, struct request *rq)
{
	struct cpq_queue *queue = cpq_request_queue(cpq, rq);
	unsigned long bit = BIT(queue - cpq->queue);
	bool competed = cpq_competing(cpq);

	if (bit & CPQ_FORE_BITS)
		cpq_fore_came(cpq, rq);
	cpq_put(rq, queue, CPQ_QUEUED);
	if (rq_data_dir(rq) == READ)
		queue->read_came = jiffies;
	else
		WRITE_ONCE(cpq->writes_held, false);
	rq_set_add(&queue->set[rq_data_dir(rq)], rq);
	WRITE_ONCE(cpq->waiting, cpq->waiting | bit);
	if (!competed && cpq_competing(cpq))
		cpq_start_clock(cpq);
}

static void cpq_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				sluice_insert_t ins)
{
	struct request_queue *q = hctx->queue;
	struct cpq_data *cpq = q->elevator->elevator_data;
	struct list_head *head = &cpq->urgent;
	struct request *rq, *tmp;
	unsigned long flags;
	LIST_HEAD(free);
	bool merge;

	spin_lock_irqsave(&cpq->lock, flags);
	/*
	 * A plug's requests were merged among themselves; look only for what
	 * waited before them, and not at all when nothing did.
	 */
	merge = cpq->queued;
	if (merge)
		cpq_index_all(cpq);
	list_for_each_entry_safe(rq, tmp, list, queuelist) {
		list_del_init(&rq->queuelist);
		if (merge && !rq_collects(rq) && blk_mq_sched_try_insert_merge(q, rq, &free))
			continue;
		trace_block_rq_insert(rq);
		WRITE_ONCE(cpq->queued, cpq->queued + 1);
		if (!rq_add_urgent(rq, ins, &cpq->urgent, &head))
			cpq_enqueue(cpq, rq);
	}
	WRITE_ONCE(cpq->held, false);
	spin_unlock_irqrestore(&cpq->lock, flags);
	sluice_free_requests(&free);
}

/* Charges the time that the device spent on a request of @index. */
static void cpq_charge(struct cpq_data *cpq, unsigned int index, u64 now)
{
	enum cpq_group group = cpq_group_of(index);
	u64 from = max(cpq->last_done_ns, cpq->busy_ns[group]);
	u64 spent = now > from ? now - from : 0;

	cpq->service_ns[group] = cpq_mean(cpq->service_ns[group], spent);
	if (group == cpq->turn)
		cpq->used_ns += spent;
	if (group == CPQ_FORE)
		cpq->fore_done_ns = now;
}

/*
 * A request of the queue @index left the device while groups compete.  The clock is read under
 * the lock, so that completions are accounted in the order of their times.
 */
static void cpq_account(struct cpq_data *cpq, struct request *rq, unsigned int index)
{
	unsigned long flags;
	bool rerun = false;
	u64 now;

	spin_lock_irqsave(&cpq->lock, flags);
	now = ktime_get_ns();
	if (!(BIT(index) & CPQ_RT_BITS))
		cpq_charge(cpq, index, now);
	cpq->last_done_ns = now;
	if (cpq->held && (cpq_spent(cpq) || !cpq_hold(cpq))) {
		WRITE_ONCE(cpq->held, false);
		rerun = true;
	}
	spin_unlock_irqrestore(&cpq->lock, flags);
	if (rerun)
		blk_mq_sched_mark_restart_hctx(rq->mq_hctx);
}

/*
 * A request ends.  A requeued one still counts as inside the device: the block layer and the driver
 * try it again, at once or as an urgent request, without asking for its turn.
 */
static void cpq_leave(struct request *rq)
{
	struct cpq_data *cpq = rq->q->elevator->elevator_data;
	enum cpq_state state = cpq_state_of(rq);
	struct cpq_queue *queue = cpq_queue_of(rq);
	bool competing;

	if (state < CPQ_ISSUED)
		return;
	/* Asked while it still counts as inside: its completion may end a hold. */
	competing = cpq_competing(cpq);
	if (state == CPQ_AGED)
		WRITE_ONCE(cpq->aged_inside, false);
	atomic_dec(&queue->issued);
	atomic_dec(&cpq->inside[rq_data_dir(rq)]);
	/* Pairs with cpq_take_next(). */
	smp_mb__after_atomic();
	if (rq_data_dir(rq) == WRITE && READ_ONCE(cpq->writes_held) &&
	    !atomic_read(&cpq->inside[WRITE])) {
		WRITE_ONCE(cpq->writes_held, false);
		blk_mq_sched_mark_restart_hctx(rq->mq_hctx);
	}
	/* Asked again: a hold that began in between, because of this request, ends here. */
	if (competing || cpq_competing(cpq))
		cpq_account(cpq, rq, queue - cpq->queue);
}

/*
 * A zone becomes free only under the lock.  Otherwise cpq_oldest() might find it busy for one
 * write and free for the next, which would overtake the first.
 */
static void cpq_free_zone(struct request *rq)
{
	struct cpq_data *cpq = rq->q->elevator->elevator_data;
	unsigned long flags;

	spin_lock_irqsave(&cpq->lock, flags);
	sluice_zone_unlock(rq);
	spin_unlock_irqrestore(&cpq->lock, flags);
}

/* Called from any context, for each request that cpq_prepare_request() saw. */
static void cpq_finish_request(struct request *rq)
{
	struct cpq_data *cpq = rq->q->elevator->elevator_data;

	if (sluice_orders_zones(rq->q))
		cpq_free_zone(rq);
	cpq_leave(rq);
	fair_discharge(cpq->fair, rq, rq->elv.priv[1]);
}

/* What is background */

/* Has room for a text of @length, one more end of line, and the terminating zero. */
static struct cpq_background *cpq_background_alloc(size_t length)
{
	return kzalloc(sizeof(struct cpq_background) + length + 2, GFP_KERNEL);
}

static void cpq_background_free(struct cpq_background *list)
{
	while (list->count)
		cgroup_put(list->cgroups[--list->count]);
	kfree(list);
}

/* Takes one line: idle, or the path of a cgroup. */
static int cpq_background_add(struct cpq_background *list, const char *line)
{
	struct cgroup *cgroup;

	if (!strcmp(line, "idle")) {
		list->idle = true;
		return 0;
	}
	if (*line != '/')
		return -EINVAL;
	if (list->count == CPQ_BACKGROUND_MAX)
		return -E2BIG;
	cgroup = cgroup_get_from_path(line);
	if (IS_ERR(cgroup))
		return PTR_ERR(cgroup);
	list->cgroups[list->count++] = cgroup;
	return 0;
}

/* Parses @page line by line; empty lines are skipped, and an error discards the whole list. */
static struct cpq_background *cpq_background_parse(const char *page, size_t length)
{
	struct cpq_background *list = cpq_background_alloc(length);
	char *lines, *rest, *line;
	int err = 0;

	if (!list)
		return ERR_PTR(-ENOMEM);
	lines = kstrndup(page, length, GFP_KERNEL);
	if (!lines)
		err = -ENOMEM;
	for (rest = lines; !err && (line = strsep(&rest, "\n"));) {
		if (!*line)
			continue;
		err = cpq_background_add(list, line);
		strcat(strcat(list->text, line), "\n");
	}
	kfree(lines);
	if (!err)
		return list;
	cpq_background_free(list);
	return ERR_PTR(err);
}

static ssize_t background_show(struct elevator_queue *eq, char *page)
{
	struct cpq_data *cpq = eq->elevator_data;
	ssize_t length;

	spin_lock_irq(&cpq->lock);
	length = sysfs_emit(page, "%s", cpq->background->text);
	spin_unlock_irq(&cpq->lock);
	return length;
}

static ssize_t background_store(struct elevator_queue *eq, const char *page, size_t count)
{
	struct cpq_data *cpq = eq->elevator_data;
	struct cpq_background *list = cpq_background_parse(page, count);

	if (IS_ERR(list))
		return PTR_ERR(list);
	spin_lock_irq(&cpq->lock);
	swap(cpq->background, list);
	spin_unlock_irq(&cpq->lock);
	cpq_background_free(list);
	return count;
}

/* Life of the scheduler */

static void cpq_depth_updated(struct request_queue *q)
{
	struct cpq_data *cpq = q->elevator->elevator_data;

	sluice_may_limit_tags(q);
	fair_depth_changed(cpq->fair);
}

/*
 * Whether reads wait for the writes inside a device, and few writes are enough to keep it busy:
 * true for flash that takes few requests at once and has only a volatile cache.  An array or a RAID
 * controller answers writes from memory that survives a loss of power, and needs many at once.
 * On a disk that seeks the bound changes nothing.  Asked once, since the depth of a SCSI disk falls
 * whenever it is full for a moment.  That depth is less than its host adapter's, which gives the
 * tags.
 */
static bool cpq_suits_bound(struct request_queue *q)
{
	unsigned int depth = min_not_zero(q->queue_depth, q->tag_set->queue_depth);

	return depth <= CPQ_SHALLOW_DEPTH && blk_queue_nonrot(q) && sluice_has_write_cache(q);
}

static void cpq_set_defaults(struct cpq_data *cpq)
{
	cpq->read_expire = CPQ_READ_EXPIRE_MS;
	cpq->write_expire = CPQ_WRITE_EXPIRE_MS;
	cpq->writes_starved = CPQ_WRITES_STARVED;
	cpq->front_merges = 1;
	cpq->fifo_batch = CPQ_FIFO_BATCH;
	cpq->async_depth = CPQ_ASYNC_DEPTH;
	cpq->prio_aging_expire = CPQ_PRIO_AGING_EXPIRE_MS;
	cpq->fore_timeout = CPQ_FORE_TIMEOUT_MS;
	cpq->back_timeout = CPQ_BACK_TIMEOUT_MS;
	cpq->slice_idle = CPQ_SLICE_IDLE_US;
	cpq->io_threshold = CPQ_IO_THRESHOLD_US;
	cpq->max_tgroup_io_ratio = CPQ_MAX_TGROUP_IO_RATIO;
	cpq->writes_beside_reads = cpq_suits_bound(cpq->q) ? CPQ_WRITES_BESIDE_READS : 0;
}

/* Called with the queue frozen. */
static int cpq_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct cpq_data *cpq = kzalloc_node(sizeof(*cpq), GFP_KERNEL, q->node);
	unsigned int i;

	if (!cpq)
		return -ENOMEM;
	cpq->background = cpq_background_parse(CPQ_BACKGROUND, strlen(CPQ_BACKGROUND));
	if (IS_ERR(cpq->background)) {
		kfree(cpq);
		return -ENOMEM;
	}
	cpq->fair = fair_create(q, &cpq->max_tgroup_io_ratio);
	if (!cpq->fair) {
		cpq_background_free(cpq->background);
		kfree(cpq);
		return -ENOMEM;
	}
	spin_lock_init(&cpq->lock);
	INIT_LIST_HEAD(&cpq->urgent);
	cpq->q = q;
	cpq->fore_came = jiffies - CPQ_FOREGROUND_JIFFIES;
	for (i = 0; i < CPQ_QUEUES; i++) {
		rq_set_init(&cpq->queue[i].set[READ]);
		rq_set_init(&cpq->queue[i].set[WRITE]);
		cpq->queue[i].read_came = jiffies - CPQ_READER_JIFFIES - 1;
	}
	cpq_set_defaults(cpq);
	sluice_hrtimer_setup(&cpq->timer, cpq_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	sluice_may_limit_tags(q);
	eq->elevator_data = cpq;
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	return 0;
}

/* Called with the queue frozen: every request has been finished. */
static void cpq_exit_sched(struct elevator_queue *eq)
{
	struct cpq_data *cpq = eq->elevator_data;
	unsigned int i;

	hrtimer_cancel(&cpq->timer);
	WARN_ON_ONCE(!list_empty(&cpq->urgent) || cpq->queued || cpq->waiting || cpq->aged_inside ||
		     atomic_read(&cpq->inside[READ]) || atomic_read(&cpq->inside[WRITE]));
	for (i = 0; i < CPQ_QUEUES; i++) {
		struct cpq_queue *queue = &cpq->queue[i];
		unsigned int issued = atomic_read(&queue->issued);
		bool empty = rq_set_is_empty(&queue->set[READ]) &&
			     rq_set_is_empty(&queue->set[WRITE]);

		WARN_ONCE(!empty || issued, "cpq: queue %u ends with %u + %u queued, %u issued\n",
			  i, queue->set[READ].queued, queue->set[WRITE].queued, issued);
	}
	fair_destroy(cpq->fair);
	cpq_background_free(cpq->background);
	kfree(cpq);
}

/* Knobs */

RQ_KNOB(cpq_data, read_expire, 0, CPQ_EXPIRE_MS_MAX)
RQ_KNOB(cpq_data, write_expire, 0, CPQ_EXPIRE_MS_MAX)
RQ_KNOB(cpq_data, writes_starved, 1, CPQ_STARVED_MAX)
RQ_KNOB(cpq_data, front_merges, 0, 1)
RQ_KNOB(cpq_data, fifo_batch, 1, CPQ_BATCH_MAX)
RQ_KNOB(cpq_data, async_depth, 1, CPQ_ASYNC_WHOLE)
RQ_KNOB(cpq_data, prio_aging_expire, 0, CPQ_EXPIRE_MS_MAX)
RQ_KNOB(cpq_data, fore_timeout, 1, CPQ_TIMEOUT_MS_MAX)
RQ_KNOB(cpq_data, back_timeout, 1, CPQ_TIMEOUT_MS_MAX)
RQ_KNOB(cpq_data, slice_idle, 0, CPQ_SLICE_US_MAX)
RQ_KNOB(cpq_data, io_threshold, 0, CPQ_THRESHOLD_US_MAX)
RQ_KNOB(cpq_data, cpq_log, 0, 1)
RQ_KNOB(cpq_data, max_tgroup_io_ratio, 1, 100)
RQ_KNOB(cpq_data, adaptive_expire, 0, 1)
RQ_KNOB(cpq_data, writes_beside_reads, 0, CPQ_BESIDE_MAX)

static sluice_attr_t cpq_attrs[] = {
	RQ_KNOB_ATTR(read_expire),
	RQ_KNOB_ATTR(write_expire),
	RQ_KNOB_ATTR(writes_starved),
	RQ_KNOB_ATTR(front_merges),
	RQ_KNOB_ATTR(fifo_batch),
	RQ_KNOB_ATTR(async_depth),
	RQ_KNOB_ATTR(prio_aging_expire),
	RQ_KNOB_ATTR(fore_timeout),
	RQ_KNOB_ATTR(back_timeout),
	RQ_KNOB_ATTR(slice_idle),
	RQ_KNOB_ATTR(io_threshold),
	RQ_KNOB_ATTR(cpq_log),
	RQ_KNOB_ATTR(background),
	RQ_KNOB_ATTR(max_tgroup_io_ratio),
	RQ_KNOB_ATTR(adaptive_expire),
	RQ_KNOB_ATTR(writes_beside_reads),
	__ATTR_NULL,
};

#ifdef CONFIG_BLK_DEBUG_FS
static const char *const cpq_names[CPQ_QUEUES] = { "rt-fore",	"rt-back", "be-fore",
						   "idle-fore", "be-back", "idle-back" };

/* debugfs .../sched/state: a line per queue, then the turn. */
static int cpq_state_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct cpq_data *cpq = q->elevator->elevator_data;
	unsigned int i;

	seq_puts(m, "queue reads writes issued served\n");
	spin_lock_irq(&cpq->lock);
	for (i = 0; i < CPQ_QUEUES; i++) {
		struct cpq_queue *queue = &cpq->queue[i];

		seq_printf(m, "%s %u %u %d %llu\n", cpq_names[i], queue->set[READ].queued,
			   queue->set[WRITE].queued, atomic_read(&queue->issued), queue->served);
	}
	seq_printf(m, "turn %s used_ns %llu fore_ns %llu back_ns %llu think_ns %llu held %d\n",
		   cpq->turn == CPQ_FORE ? "fore" : "back", cpq->used_ns, cpq->service_ns[CPQ_FORE],
		   cpq->service_ns[CPQ_BACK], cpq->fore_think_ns, cpq->held);
	spin_unlock_irq(&cpq->lock);
	return 0;
}

/* debugfs .../sched/accounts: accounts that have tags or wait for some. */
static int cpq_accounts_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct cpq_data *cpq = q->elevator->elevator_data;

	return fair_show(cpq->fair, m);
}

static const struct blk_mq_debugfs_attr cpq_debugfs_attrs[] = {
	{ "state", 0400, cpq_state_show },
	{ "accounts", 0400, cpq_accounts_show },
	{},
};
#endif

SLUICE_LIMIT_DEPTH(cpq_limit_depth_op, cpq_limit_depth)
SLUICE_INIT_SCHED(cpq_init_sched_op, cpq_init_sched)
SLUICE_DEPTH_UPDATED(cpq_depth_updated_op, cpq_depth_updated)

static struct elevator_type cpq_type = {
	.ops = {
		.init_sched		= cpq_init_sched_op,
		.exit_sched		= cpq_exit_sched,
		.depth_updated		= cpq_depth_updated_op,
		.limit_depth		= cpq_limit_depth_op,
		.prepare_request	= cpq_prepare_request,
		.allow_merge		= cpq_allow_merge,
		.bio_merge		= cpq_bio_merge,
		.request_merge		= cpq_request_merge,
		.request_merged		= cpq_request_merged,
		.requests_merged	= cpq_requests_merged,
		.former_request		= elv_rb_former_request,
		.next_request		= elv_rb_latter_request,
		.insert_requests	= cpq_insert_requests,
		.has_work		= cpq_has_work,
		.dispatch_request	= cpq_dispatch_request,
		.finish_request		= cpq_finish_request,
	},
	.elevator_attrs = cpq_attrs,
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs = cpq_debugfs_attrs,
#endif
	.elevator_name = "cpq",
	SLUICE_ZONE_FEATURE
	.elevator_owner = THIS_MODULE,
};

static int __init cpq_init(void)
{
	return elv_register(&cpq_type);
}

static void __exit cpq_exit(void)
{
	elv_unregister(&cpq_type);
}

module_init(cpq_init);
module_exit(cpq_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("I/O scheduler: priority classes, groups, deadlines and fair shares");
MODULE_ALIAS("cpq-iosched");

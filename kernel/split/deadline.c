// SPDX-License-Identifier: GPL-2.0-only
/*
 * Split-Deadline: reads and fsyncs that are done in time
 *
 * Each read, and each fsync, is due a while after it came: its open file's deadline, its
 * cgroup's io.sluice.deadline, or else the knob's.  Deadlines of about the same length are a
 * class, and what a class is promised is kept from all that has more time: the shortest
 * deadline first, and for the others what it leaves.  So who asks for too much, or is late,
 * does no harm to who has less time than he.
 *
 *	location	While nothing is about to expire requests go by their place, in
 *			batches, reads before writes but not for ever.
 *	expiring	What must go soon to be done in time goes first: a read, or a write
 *			that an fsync waits for, which has no more time than what the device
 *			is busy with, and twice what comes after it, will take.
 *	load		A disk has a write cache, which an fsync's flush has to wait for: of
 *			what has more time the device is given only so much that a flush at
 *			any moment still leaves the shorter fsync, now or soon, the time it
 *			needs.  While the cache is flushed nothing is added to it.
 *	log		A commit goes before all else, whoever began it, and so does metadata
 *			that somebody waits for, what is read with a handle of the journal,
 *			and what is swapped out: others may need it.
 *	fsync		One with more dirty data than can be written in the time that
 *			shorter ones leave is held at its gate.  Its file is written back a
 *			part at a time, without a commit that others would wait for, until
 *			what is left fits, or its own time is over.
 *
 * What an fsync will need is learned (forecast.h), and compared with what it took.  A deadline
 * shorter than the device needs can't be kept: it counts as a sixteenth more than that.
 *
 * The page cache's own writeback has no deadline.  It goes by location, as the load allows.
 * With own_writeback off it is the kernel's: it goes whenever there is some, as in the paper's
 * Split-Pdflush, and who has more data dirty than fits into the time that shorter deadlines
 * than his leave is held at his next write.
 *
 * Progress: where a short fsync waits for what is held back for its sake, as for data whose
 * blocks its commit has, the device is idle, and what came first goes, one by one.  What has
 * waited for DL_OLD_MS goes, one request in DL_OLD_EVERY_MS, whoever has less time.
 *
 * Source: the split-level paper, section 5.2; its code had no queue of fsyncs' deadlines.
 * docs/split-deadline.md has the model, and where it departs from the paper.
 */
#include "../elevator/cause-file.h"
#include "../elevator/request-set.h"
#include "forecast.h"
#include "split.h"

#include <linux/bitmap.h>
#include <linux/hrtimer.h>
#include <linux/log2.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#define CREATE_TRACE_POINTS
#include "deadline-trace.h"

/* Who asks for nothing: the paper's Table 3 has these for the big fsyncs of a disk, of flash. */
#define DL_FSYNC_DISK_MS 6000
#define DL_FSYNC_FLASH_MS 100
/* Reads go before them. */
#define DL_READ_DISK_MS 500
#define DL_READ_FLASH_MS 50
#define DL_MS_MAX 60000

/* Times are kept in units of 65 us, classes are powers of two of them: 2^20 are a minute. */
#define DL_UNIT_BITS 16
#define DL_CLASSES 21
#define DL_NO_CLASS (DL_CLASSES - 1)

/* What is to be done in so many times what it needs goes at once. */
#define DL_EARLY 2

/* What the device can't do sooner may take this part more, which is what others have. */
#define DL_OTHERS_TIME 16

/* Of what a read takes this part is new. */
#define DL_READ_MEAN 8
#define DL_READ_MOST_NS ((u64)NSEC_PER_SEC)

/* Whoever had an fsync, or a read, so lately may have the next one at any moment. */
#define DL_SOON_NS (10 * (u64)NSEC_PER_SEC)

/* So many requests of a direction go by their place before others are thought of. */
#define DL_BATCH 16

/* Batches of reads that go before one of writes. */
#define DL_STARVED 2

/* What is held back goes after all if the device has been idle for so long. */
#define DL_IDLE_NS (8 * NSEC_PER_MSEC)

/* Requests that wait for the load are looked at again after no more, no less. */
#define DL_WAIT_MOST_NS (4 * NSEC_PER_MSEC)
#define DL_WAIT_LEAST_NS (100 * NSEC_PER_USEC)

/* What has waited for so long goes, whoever has less time, one request in each such while. */
#define DL_OLD_MS 1000
#define DL_OLD_EVERY_MS 50

/* A flush of which no end is seen has been lost. */
#define DL_FLUSH_MOST_NS (5 * (u64)NSEC_PER_SEC)

/* An fsync's dirty pages are counted as it comes: if there are more, the rest is estimated. */
#define DL_PAGES 1024U

/*
 * In a tick so many held fsyncs, and writes, are told that they are held, and looked at, of a file
 * so many pages; the others in the next ticks.  Interrupts are off: that is a tenth of a
 * millisecond at most.
 */
#define DL_KEEPS 64U
#define DL_LOOKS 4U
#define DL_TICK_PAGES 256U

/* The fsyncs of a class whose data may be looked for; of more the forecast learns less. */
#define DL_FSYNCS 8

/* An fsync's data may take this part of what others leave: the rest is for what they find. */
#define DL_FIT 2

/* A part of a file that is written back at a time, pages. */
#define DL_PART_LEAST 4U
#define DL_PART_MOST 256U

/* So many times what the device may have of a file is written back at a time. */
#define DL_CHOICE 4

/* Of the tags, the page cache leaves this part to others, and who has more time that. */
#define DL_CACHE_PART 2
#define DL_OTHERS_PART 4

/* What a request is, in the low bits of rq->elv.priv[1]. */
enum dl_state { DL_NEW, DL_WAITING, DL_LOG, DL_ISSUED };

#define DL_STATE_BITS 2
#define DL_CLASS_BITS 5

static_assert(DL_CLASSES <= 1 << DL_CLASS_BITS && sizeof(void *) == sizeof(u64));
static_assert((u64)CAUSE_DEADLINE_MAX * NSEC_PER_USEC >> DL_UNIT_BITS < BIT(DL_NO_CLASS));

/* Directions. */
enum { DL_READS, DL_WRITES, DL_DIRS };

/**
 * struct dl_fsync - an fsync or sync that is inside, or held
 * @node: in its class's list
 * @class: of its deadline
 * @due_ns: when it is to be done
 * @forecast: as of when it was let go; began_ns is 0 before
 */
struct dl_fsync {
	struct list_head node;
	unsigned int class;
	u64 due_ns;
	struct forecast_fsync forecast;
};

/**
 * struct dl_class - deadlines of about the same length
 * @set: requests with such a deadline, by direction
 * @fsyncs: in the order in which they came
 * @deadline_ns: the last one that was asked for
 * @seen_ns: when that was; 0: never
 */
struct dl_class {
	struct rq_set set[DL_DIRS];
	struct list_head fsyncs;
	u64 deadline_ns[CAUSE_DEADLINES];
	u64 seen_ns[CAUSE_DEADLINES];
};

/**
 * struct dl_data - one queue's scheduler
 * @lock: guards all that follows, unless it says otherwise; taken from any context, and
 *	  last of all but what wakes a task, and the framework's ledger
 * @q: the queue
 * @device: for split.h's functions
 * @urgent: what no policy may delay: flushes, what was dispatched before, the log; in order
 * @class: the last one has no deadline
 * @queued: requests in the classes; read without the lock
 * @dir: direction of the batch
 * @batch: how many of it have gone
 * @expired: class for which the batch began: only shorter ones may interrupt it
 * @starved: batches of reads while writes were there
 * @next: sector where the last request of the direction ended
 * @forecast: what an fsync needs
 * @read_ns: what a read takes from when the driver has it, a moving mean; changes without the
 *	     lock
 * @cost: what split_dispatch() has charged so far
 * @flushing: flushes that the device does
 * @issued: requests that the driver has; changes without the lock
 * @touched_ns: when the device was last given something, or was done with it; likewise
 * @alive: classes with requests, or a deadline now or a moment ago; read without the lock
 * @looked: jiffies when that was last seen to
 * @stuck: who has less time waits for what was held back for his sake
 * @old: jiffies when something went since it was old
 * @holding: what waits is held back; read without the lock
 * @timer: ends that
 * @held: fsyncs
 * @writers: held writes
 * @tick: looks at them
 * @read_deadline: ms; knobs are read and written without the lock
 * @fsync_deadline: ms
 * @own_writeback: 0: writeback goes as the kernel begins it, and writes are held
 * @listener: hears of files with a deadline of their reads
 * @files_read: there are some; read without the lock
 */
struct dl_data {
	spinlock_t lock; /* guards all below but what says otherwise above */
	struct request_queue *q;
	struct split_device *device;
	struct list_head urgent;
	struct dl_class class[DL_CLASSES];
	unsigned int queued;
	unsigned int dir;
	unsigned int batch;
	unsigned int expired;
	unsigned int starved;
	sector_t next[DL_DIRS];
	struct forecast forecast;
	u64 read_ns;
	u64 cost;
	unsigned int flushing;
	atomic_t issued;
	u64 touched_ns;
	unsigned long alive;
	unsigned long looked;
	bool stuck;
	unsigned long old;
	bool holding;
	struct hrtimer timer;
	struct list_head held;
	struct list_head writers;
	struct timer_list tick;
	unsigned int read_deadline;
	unsigned int fsync_deadline;
	unsigned int own_writeback;
	struct cause_file_listener listener;
	bool files_read;
};

/* Deadlines */

/* How long a read or fsync may take of who has no deadline of his own. */
static unsigned int dl_otherwise_us(const struct dl_data *dl, enum cause_deadline what)
{
	const unsigned int *knob = what == CAUSE_READ ? &dl->read_deadline : &dl->fsync_deadline;

	return READ_ONCE(*knob) * USEC_PER_MSEC;
}

/* How long an account's read or fsync may take; that of a file, if it isn't NULL. */
static u64 dl_deadline_ns(const struct dl_data *dl, const struct split_account *account,
			  enum cause_deadline what, const struct file *file)
{
	unsigned int us = cause_deadline(account->css, what, dl_otherwise_us(dl, what));

	return (u64)cause_file_deadline(file, what, us) * NSEC_PER_USEC;
}

static unsigned int dl_class_of(u64 deadline_ns)
{
	return ilog2(deadline_ns >> DL_UNIT_BITS | 1);
}

/* What the device needs for a read or an fsync, and nothing else. */
static u64 dl_need_ns(const struct dl_data *dl, enum cause_deadline what)
{
	return what == CAUSE_READ ? READ_ONCE(dl->read_ns) : forecast_need(&dl->forecast);
}

/* A deadline that the device can keep, and leaves something to others. */
static u64 dl_possible_ns(const struct dl_data *dl, enum cause_deadline what, u64 deadline_ns)
{
	u64 need = dl_need_ns(dl, what);

	return max(deadline_ns, need + need / DL_OTHERS_TIME);
}

static void dl_enliven(struct dl_data *dl, unsigned int class)
{
	lockdep_assert_held(&dl->lock);
	WRITE_ONCE(dl->alive, dl->alive | BIT(class));
}

/* Somebody asks for a deadline. */
static void dl_note_deadline(struct dl_data *dl, unsigned int class, enum cause_deadline what,
			     u64 deadline_ns, u64 now_ns)
{
	dl_enliven(dl, class);
	dl->class[class].deadline_ns[what] = deadline_ns;
	dl->class[class].seen_ns[what] = now_ns;
}

/* Whether a class had a read or an fsync lately. */
static bool dl_is_soon(const struct dl_class *class, enum cause_deadline what, u64 now_ns)
{
	return class->seen_ns[what] && now_ns < class->seen_ns[what] + DL_SOON_NS;
}

static bool dl_has_queued(const struct dl_class *class)
{
	return class->set[DL_READS].queued || class->set[DL_WRITES].queued;
}

static bool dl_is_alive(const struct dl_class *class, u64 now_ns)
{
	return dl_has_queued(class) || !list_empty(&class->fsyncs) ||
	       dl_is_soon(class, CAUSE_READ, now_ns) || dl_is_soon(class, CAUSE_FSYNC, now_ns);
}

/* Once a tick the classes are forgotten that nobody has needed for a while. */
static void dl_forget(struct dl_data *dl, u64 now_ns)
{
	unsigned long alive = dl->alive;
	unsigned int i;

	if (!time_after(jiffies, dl->looked))
		return;
	dl->looked = jiffies;
	for_each_set_bit(i, &alive, DL_CLASSES)
		if (!dl_is_alive(&dl->class[i], now_ns))
			WRITE_ONCE(dl->alive, dl->alive & ~BIT(i));
}

/* When a request is due; of one that the driver has, when that got it. */
static u64 dl_due_ns(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] >> (DL_STATE_BITS + DL_CLASS_BITS) << DL_UNIT_BITS;
}

static unsigned int dl_class_of_request(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] >> DL_STATE_BITS & (BIT(DL_CLASS_BITS) - 1);
}

static enum dl_state dl_state(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] & (BIT(DL_STATE_BITS) - 1);
}

static void dl_put(struct request *rq, enum dl_state state, unsigned int class, u64 due_ns)
{
	unsigned long units = due_ns >> DL_UNIT_BITS;

	rq->elv.priv[1] = (void *)((units << DL_CLASS_BITS | class) << DL_STATE_BITS | state);
}

/* What a class leaves of the device's time to those that have more, each time. */
static s64 dl_leaves_next(const struct dl_data *dl, const struct dl_class *class,
			  enum cause_deadline what, u64 now_ns)
{
	if (!dl_is_soon(class, what, now_ns))
		return S64_MAX;
	return dl_possible_ns(dl, what, class->deadline_ns[what]) - dl_need_ns(dl, what);
}

/* The same for what it has now: until when, from now on, that can wait. */
static s64 dl_leaves_of(const struct dl_data *dl, const struct dl_class *class,
			enum cause_deadline what, u64 now_ns)
{
	const struct rq_set *set = &class->set[what == CAUSE_READ ? DL_READS : DL_WRITES];
	s64 leaves = dl_leaves_next(dl, class, what, now_ns), need = dl_need_ns(dl, what);
	const struct dl_fsync *oldest;

	if (set->queued)
		leaves = min_t(s64, leaves, dl_due_ns(rq_set_oldest(set)) - now_ns - need);
	if (what == CAUSE_FSYNC && !list_empty(&class->fsyncs)) {
		oldest = list_first_entry(&class->fsyncs, struct dl_fsync, node);
		if (oldest->forecast.began_ns)
			need = forecast_rest(&dl->forecast, &oldest->forecast);
		leaves = min_t(s64, leaves, oldest->due_ns - now_ns - need);
	}
	return leaves;
}

static s64 dl_leaves(const struct dl_data *dl, const struct dl_class *class, u64 now_ns)
{
	return min(dl_leaves_of(dl, class, CAUSE_READ, now_ns),
		   dl_leaves_of(dl, class, CAUSE_FSYNC, now_ns));
}

/* What all classes shorter than one leave to it; S64_MAX: there is none. */
static s64 dl_left_to(const struct dl_data *dl, unsigned int class, u64 now_ns)
{
	s64 left = S64_MAX;
	unsigned int i;

	for_each_set_bit(i, &dl->alive, class)
		left = min(left, dl_leaves(dl, &dl->class[i], now_ns));
	return left;
}

/* What an fsync's data may take of that, each time that they have an fsync or read. */
static s64 dl_left_next(const struct dl_data *dl, unsigned int class, u64 now_ns)
{
	s64 left = S64_MAX;
	unsigned int i;

	for_each_set_bit(i, &dl->alive, class) {
		left = min(left, dl_leaves_next(dl, &dl->class[i], CAUSE_READ, now_ns));
		left = min(left, dl_leaves_next(dl, &dl->class[i], CAUSE_FSYNC, now_ns));
	}
	return left / DL_FIT;
}

/* Fsyncs */

/* What was held back is looked at again, and so are the tags: some may be for others. */
static void dl_run(struct dl_data *dl)
{
	if (READ_ONCE(dl->holding)) {
		WRITE_ONCE(dl->holding, false);
		sluice_wake_for_tags(dl->q);
		blk_mq_run_hw_queues(dl->q, true);
	}
}

/* What the device needs for a file's dirty data. */
static u64 dl_data_ns(const struct dl_data *dl, const struct split_dirt *dirt)
{
	return forecast_time(&dl->forecast, split_cost_ns(dl->device, dirt->cost));
}

/* Whether an fsync with so much dirty data would take others' time, and has time itself. */
static bool dl_must_hold(const struct dl_data *dl, const struct dl_fsync *fsync, u64 data_ns,
			 u64 now_ns)
{
	u64 end = now_ns + data_ns + dl_need_ns(dl, CAUSE_FSYNC);

	return (s64)data_ns > dl_left_next(dl, fsync->class, now_ns) && end < fsync->due_ns;
}

/*
 * A call's private number is its fsync; or a write's class, or how long a read may take, with
 * what it is in the low bits.
 */
enum { DL_CALL_FSYNC, DL_CALL_WRITE, DL_CALL_READ, DL_CALL_BITS = 2 };

static u64 dl_private(u64 value, unsigned int what)
{
	return value << DL_CALL_BITS | what;
}

static bool dl_is_call(u64 private, unsigned int what)
{
	return (private & (BIT(DL_CALL_BITS) - 1)) == what;
}

static struct dl_fsync *dl_fsync_of(u64 private)
{
	return dl_is_call(private, DL_CALL_FSYNC) ? (struct dl_fsync *)private : NULL;
}

static unsigned int dl_class_of_write(const struct split_call *call)
{
	return call->private >> DL_CALL_BITS;
}

/* How long the read may take whose file the current task reads; 0: as long as its cgroup's. */
static u64 dl_read_ns_of_task(const struct dl_data *dl)
{
	u64 private = 0;

	if (!READ_ONCE(dl->files_read) || !split_inside(dl->device, &private) ||
	    !dl_is_call(private, DL_CALL_READ))
		return 0;
	return private >> DL_CALL_BITS;
}

/* Whether what a writer has dirty would take others' time as soon as the kernel wrote it. */
static bool dl_is_too_dirty(const struct dl_data *dl, const struct split_call *call, u64 now_ns)
{
	u64 expected = READ_ONCE(dl->own_writeback) ? 0 : split_expected(call);
	u64 dirty_ns = forecast_time(&dl->forecast, split_cost_ns(dl->device, expected));

	return expected && (s64)(dirty_ns + forecast_load(&dl->forecast, now_ns)) >
				   dl_left_next(dl, dl_class_of_write(call), now_ns);
}

static void dl_begin(struct dl_data *dl, struct dl_fsync *fsync, const struct split_dirt *dirt,
		     u64 now_ns)
{
	forecast_begin(&dl->forecast, &fsync->forecast, now_ns,
		       split_cost_ns(dl->device, dirt->cost));
}

static void dl_keep(struct split_call *call)
{
	split_hold(call, call->kind == SPLIT_WRITE ? "dirty" : "fsync");
}

static void dl_hold(struct dl_data *dl, struct split_call *call)
{
	dl_keep(call);
	if (list_empty(&dl->held) && list_empty(&dl->writers))
		mod_timer(&dl->tick, jiffies + 1);
	list_add_tail(&call->node, call->kind == SPLIT_WRITE ? &dl->writers : &dl->held);
}

/* Where there is no memory for its place the fsync has no deadline. */
static struct dl_fsync *dl_new_fsync(struct dl_data *dl, u64 deadline_ns, u64 now_ns)
{
	struct dl_fsync *fsync = kzalloc(sizeof(*fsync), GFP_NOWAIT | __GFP_NOWARN);
	unsigned int class = dl_class_of(deadline_ns);

	if (!fsync)
		return NULL;
	fsync->class = class;
	fsync->due_ns = now_ns + dl_possible_ns(dl, CAUSE_FSYNC, deadline_ns);
	list_add_tail(&fsync->node, &dl->class[class].fsyncs);
	return fsync;
}

/* A write to the page cache: what is dirty anyway costs nothing. */
static bool dl_enter_write(struct dl_data *dl, struct split_call *call)
{
	u64 deadline_ns = dl_deadline_ns(dl, call->account, CAUSE_FSYNC, call->file);
	bool costs = !call->direct && !split_costs_nothing(call), hold;
	unsigned long flags;

	call->private = dl_private(dl_class_of(deadline_ns), DL_CALL_WRITE);
	spin_lock_irqsave(&dl->lock, flags);
	hold = costs && dl_is_too_dirty(dl, call, ktime_get_ns());
	if (hold && !call->nowait)
		dl_hold(dl, call);
	spin_unlock_irqrestore(&dl->lock, flags);
	return !hold;
}

/* A read isn't held: its file's deadline, if it has one, is for its requests. */
static bool dl_enter_read(struct dl_data *dl, struct split_call *call)
{
	u64 deadline_ns = 0;

	call->unplug = cause_file_deadline(call->file, CAUSE_READ, 0);
	if (call->unplug)
		deadline_ns = dl_deadline_ns(dl, call->account, CAUSE_READ, call->file);
	call->private = dl_private(deadline_ns, DL_CALL_READ);
	return true;
}

static bool dl_enter_fsync(struct dl_data *dl, struct split_call *call)
{
	u64 deadline_ns = dl_deadline_ns(dl, call->account, CAUSE_FSYNC, call->file);
	struct split_dirt dirt = {};
	struct dl_fsync *fsync;
	unsigned long flags;
	bool hold = false;
	u64 now_ns;

	if (call->kind == SPLIT_FSYNC)
		split_dirt(call, DL_PAGES, &dirt);
	spin_lock_irqsave(&dl->lock, flags);
	now_ns = ktime_get_ns();
	fsync = dl_new_fsync(dl, deadline_ns, now_ns);
	call->private = (u64)fsync;
	if (fsync) {
		hold = !call->nowait && call->kind == SPLIT_FSYNC &&
		       dl_must_hold(dl, fsync, dl_data_ns(dl, &dirt), now_ns);
		dl_note_deadline(dl, fsync->class, CAUSE_FSYNC, deadline_ns, now_ns);
		if (hold)
			dl_hold(dl, call);
		else
			dl_begin(dl, fsync, &dirt, now_ns);
		trace_deadline_fsync(dl->q, call->account->id, hold, deadline_ns,
				     dl_data_ns(dl, &dirt));
	}
	spin_unlock_irqrestore(&dl->lock, flags);
	return !hold;
}

static bool dl_enter(void *data, struct split_call *call)
{
	if (call->kind == SPLIT_READ)
		return dl_enter_read(data, call);
	return call->kind == SPLIT_WRITE && !call->durable ? dl_enter_write(data, call)
							   : dl_enter_fsync(data, call);
}

static void dl_drop(void *data, struct split_call *call)
{
	struct dl_data *dl = data;
	unsigned long flags;

	spin_lock_irqsave(&dl->lock, flags);
	list_del_init(&call->node);
	spin_unlock_irqrestore(&dl->lock, flags);
}

static void dl_leave(void *data, struct split_call *call, ssize_t result)
{
	struct dl_fsync *fsync = dl_fsync_of(call->private);
	struct dl_data *dl = data;
	unsigned long flags;
	u64 now_ns;

	if (!fsync)
		return;
	spin_lock_irqsave(&dl->lock, flags);
	now_ns = ktime_get_ns();
	if (!result && call->kind == SPLIT_FSYNC && fsync->forecast.began_ns) {
		trace_deadline_done(dl->q, call->account->id, now_ns - fsync->forecast.began_ns,
				    fsync->forecast.predicted_ns);
		forecast_end(&dl->forecast, &fsync->forecast, now_ns);
	}
	dl->class[fsync->class].seen_ns[CAUSE_FSYNC] = now_ns;
	WRITE_ONCE(dl->stuck, false);
	list_del(&fsync->node);
	spin_unlock_irqrestore(&dl->lock, flags);
	kfree(fsync);
	dl_run(dl);
}

static bool dl_is_flushing(const struct dl_data *dl, u64 now_ns)
{
	return dl->flushing && now_ns < dl->forecast.began_ns + DL_FLUSH_MOST_NS;
}

/* Several at a time are one, for the forecast. */
static void dl_begin_flush(struct dl_data *dl, u64 now_ns)
{
	if (!dl_is_flushing(dl, now_ns)) {
		dl->flushing = 0;
		forecast_flush(&dl->forecast, now_ns);
	}
	dl->flushing++;
}

static void dl_end_flush(struct dl_data *dl, u64 now_ns)
{
	if (!dl->flushing || --dl->flushing)
		return;
	trace_deadline_flush(dl->q, now_ns - dl->forecast.began_ns,
			     forecast_time(&dl->forecast, dl->forecast.flushing_ns));
	forecast_flushed(&dl->forecast, now_ns);
}

/* It was given back by the driver: what it took is nothing to be learned. */
static void dl_forget_flush(struct dl_data *dl)
{
	dl->flushing -= !!dl->flushing;
}

static void dl_flush(void *data, enum split_flush what)
{
	struct dl_data *dl = data;
	unsigned long flags;
	u64 now_ns;

	spin_lock_irqsave(&dl->lock, flags);
	now_ns = ktime_get_ns();
	if (what == SPLIT_FLUSH_BEGINS)
		dl_begin_flush(dl, now_ns);
	else if (what == SPLIT_FLUSH_ENDS)
		dl_end_flush(dl, now_ns);
	else
		dl_forget_flush(dl);
	WRITE_ONCE(dl->touched_ns, now_ns);
	spin_unlock_irqrestore(&dl->lock, flags);
	if (what != SPLIT_FLUSH_BEGINS)
		dl_run(dl);
}

static void dl_charge(void *data, struct split_account *account, u64 cost)
{
	struct dl_data *dl = data;

	dl->cost += cost;
}

static const struct split_ops dl_ops = {
	.name = "split-deadline",
	.more = SPLIT_FLUSHES | BIT(SPLIT_READ),
	.enter = dl_enter,
	.drop = dl_drop,
	.leave = dl_leave,
	.charge = dl_charge,
	.flush = dl_flush,
};

/* Held calls */

/*
 * So much of a file that what is written is done in the time that others leave; where it waits
 * for that anyway, enough to choose from by location.
 */
static unsigned int dl_part(const struct dl_data *dl, const struct split_dirt *dirt, u64 data_ns,
			    u64 left)
{
	u64 pages = dirt->dirty >> PAGE_SHIFT;

	if (READ_ONCE(dl->own_writeback))
		left *= DL_CHOICE;
	if (left < data_ns)
		pages = mul_u64_u64_div_u64(pages, left, data_ns);
	return clamp_t(u64, pages, DL_PART_LEAST, DL_PART_MOST);
}

static void dl_let_go(struct dl_data *dl, struct split_call *call, const struct split_dirt *dirt)
{
	struct dl_fsync *fsync = dl_fsync_of(call->private);

	list_del_init(&call->node);
	if (fsync)
		dl_begin(dl, fsync, dirt, ktime_get_ns());
	split_let_go(call);
}

/* Whether a call may not be held any longer: an fsync's own time is over, a write is old. */
static bool dl_is_due(const struct dl_data *dl, const struct split_call *call, u64 now_ns)
{
	const struct dl_fsync *fsync = dl_fsync_of(call->private);

	if (!fsync)
		return time_after(jiffies, call->began + msecs_to_jiffies(DL_OLD_MS));
	return now_ns + dl_need_ns(dl, CAUSE_FSYNC) >= fsync->due_ns;
}

/* Lets a held call go, or has the next part of its file written back. */
static void dl_look_at(struct dl_data *dl, struct split_call *call)
{
	struct dl_fsync *fsync = dl_fsync_of(call->private);
	unsigned int class = fsync ? fsync->class : dl_class_of_write(call), part;
	u64 now_ns = ktime_get_ns(), data_ns;
	struct split_dirt dirt;
	bool hold;

	split_dirt(call, DL_TICK_PAGES, &dirt);
	data_ns = dl_data_ns(dl, &dirt);
	hold = fsync ? dl_must_hold(dl, fsync, data_ns, now_ns) : dl_is_too_dirty(dl, call, now_ns);
	if (!hold) {
		dl_let_go(dl, call, &dirt);
		return;
	}
	part = dl_part(dl, &dirt, data_ns, dl_left_next(dl, class, now_ns));
	if (dirt.writing >> PAGE_SHIFT < part / 2)
		split_write_back(call, part);
}

/* Those that were looked at last come last. */
static void dl_look(struct dl_data *dl, struct list_head *held)
{
	const struct split_call *first = NULL;
	unsigned int i, looks = DL_LOOKS;
	struct split_call *call;

	for (i = 0; i < DL_KEEPS && !list_empty(held); i++) {
		call = list_first_entry(held, struct split_call, node);
		if (call == first)
			break;
		dl_keep(call);
		if (dl_is_due(dl, call, ktime_get_ns())) {
			dl_let_go(dl, call, &(struct split_dirt){});
			continue;
		}
		first = first ?: call;
		list_move_tail(&call->node, held);
		if (looks) {
			looks--;
			dl_look_at(dl, call);
		}
	}
}

static void dl_tick(struct timer_list *timer)
{
	struct dl_data *dl = container_of(timer, struct dl_data, tick);
	unsigned long flags;

	spin_lock_irqsave(&dl->lock, flags);
	dl_look(dl, &dl->held);
	dl_look(dl, &dl->writers);
	if (!list_empty(&dl->held) || !list_empty(&dl->writers))
		mod_timer(timer, jiffies + 1);
	spin_unlock_irqrestore(&dl->lock, flags);
}

/* Dispatch */

/* What a class is given now doesn't take the time of shorter ones. */
static bool dl_may_go(const struct dl_data *dl, s64 left, u64 load_ns, u64 now_ns)
{
	return left == S64_MAX || (!dl_is_flushing(dl, now_ns) && (s64)load_ns < left);
}

/* The oldest request that must go at once, of the classes before one. */
static struct request *dl_expiring(const struct dl_data *dl, u64 load_ns, u64 now_ns)
{
	unsigned int i, dir, end = dl->batch < DL_BATCH ? dl->expired : DL_NO_CLASS;
	s64 left = S64_MAX;

	for_each_set_bit(i, &dl->alive, end) {
		const struct dl_class *class = &dl->class[i];

		for (dir = 0; dir < DL_DIRS && dl_may_go(dl, left, load_ns, now_ns); dir++) {
			u64 need = dl_need_ns(dl, dir == DL_READS ? CAUSE_READ : CAUSE_FSYNC);

			if (class->set[dir].queued && dl_due_ns(rq_set_oldest(&class->set[dir])) <=
							      now_ns + load_ns + DL_EARLY * need)
				return rq_set_oldest(&class->set[dir]);
		}
		left = min(left, dl_leaves(dl, class, now_ns));
	}
	return NULL;
}

/* How far a request is ahead of a place, going round at the end. */
static sector_t dl_way(const struct request *rq, sector_t from)
{
	return blk_rq_pos(rq) - from;
}

/*
 * The next one by location of a direction that may go.  What the kernel writes back, the last
 * of all, may if that isn't ours, unless somebody with a deadline must wait.
 */
static struct request *dl_nearest(struct dl_data *dl, unsigned int dir, u64 load_ns, u64 now_ns)
{
	bool free = !READ_ONCE(dl->own_writeback);
	struct request *nearest = NULL, *rq;
	s64 left = S64_MAX;
	unsigned int i;

	for_each_set_bit(i, &dl->alive, DL_CLASSES) {
		struct dl_class *class = &dl->class[i];
		bool go = dl_may_go(dl, left, load_ns, now_ns) || (free && i == DL_NO_CLASS);

		free = free && (go || !dl_has_queued(class));
		if (go && class->set[dir].queued) {
			rq_set_sort_all(&class->set[dir]);
			rq = rq_set_from(&class->set[dir], dl->next[dir]);
			if (!nearest || dl_way(rq, dl->next[dir]) < dl_way(nearest, dl->next[dir]))
				nearest = rq;
		}
		left = min(left, dl_leaves(dl, class, now_ns));
	}
	return nearest;
}

static struct request *dl_by_location(struct dl_data *dl, u64 load_ns, u64 now_ns)
{
	struct request *read, *write;

	if (dl->batch < DL_BATCH) {
		struct request *rq = dl_nearest(dl, dl->dir, load_ns, now_ns);

		if (rq)
			return rq;
	}
	dl->batch = 0;
	dl->expired = DL_NO_CLASS;
	read = dl_nearest(dl, DL_READS, load_ns, now_ns);
	write = dl_nearest(dl, DL_WRITES, load_ns, now_ns);
	if (read && (!write || dl->starved < DL_STARVED)) {
		dl->starved = write ? dl->starved + 1 : 0;
		return read;
	}
	dl->starved = 0;
	return write;
}

/* What came first, of all that waits. */
static struct request *dl_oldest(const struct dl_data *dl)
{
	struct request *oldest = NULL, *rq;
	unsigned int i, dir;

	for_each_set_bit(i, &dl->alive, DL_CLASSES) {
		for (dir = 0; dir < DL_DIRS; dir++) {
			if (!dl->class[i].set[dir].queued)
				continue;
			rq = rq_set_oldest(&dl->class[i].set[dir]);
			if (!oldest || time_before(rq_came(rq), rq_came(oldest)))
				oldest = rq;
		}
	}
	return oldest;
}

/* Nobody may go, and nothing happens: somebody waits for what is held back. */
static struct request *dl_stuck(struct dl_data *dl, u64 now_ns)
{
	if (atomic_read(&dl->issued) || dl_is_flushing(dl, now_ns) ||
	    dl_left_to(dl, DL_NO_CLASS, now_ns) > 0 ||
	    (!dl->stuck && now_ns < READ_ONCE(dl->touched_ns) + DL_IDLE_NS))
		return NULL;
	WRITE_ONCE(dl->stuck, true);
	return dl_oldest(dl);
}

/* Somebody has waited for long enough, whoever has less time. */
static struct request *dl_old(struct dl_data *dl)
{
	struct request *rq;

	if (!time_after(jiffies, dl->old + msecs_to_jiffies(DL_OLD_EVERY_MS)))
		return NULL;
	rq = dl_oldest(dl);
	if (!rq || !time_after(jiffies, rq_came(rq) + msecs_to_jiffies(DL_OLD_MS)))
		return NULL;
	dl->old = jiffies;
	return rq;
}

static void dl_hold_back(struct dl_data *dl, u64 load_ns, u64 now_ns)
{
	s64 left = dl_left_to(dl, DL_NO_CLASS, now_ns);
	s64 wait = (s64)load_ns - max(left, 0LL);

	wait = clamp_t(s64, left > 0 ? wait : DL_WAIT_MOST_NS, DL_WAIT_LEAST_NS, DL_WAIT_MOST_NS);
	/* Said before, since the timer may fire on another CPU at once. */
	WRITE_ONCE(dl->holding, true);
	hrtimer_start(&dl->timer, ns_to_ktime(wait), HRTIMER_MODE_REL);
}

static enum hrtimer_restart dl_timer(struct hrtimer *timer)
{
	dl_run(container_of(timer, struct dl_data, timer));
	return HRTIMER_NORESTART;
}

static struct request *dl_take_of(struct dl_data *dl, struct request *rq)
{
	unsigned int dir = op_is_write(req_op(rq)) ? DL_WRITES : DL_READS;

	rq_set_del(dl->q, &dl->class[dl_class_of_request(rq)].set[dir], rq);
	WRITE_ONCE(dl->queued, dl->queued - 1);
	if (dir != dl->dir)
		dl->batch = 0;
	dl->dir = dir;
	dl->batch++;
	dl->next[dir] = blk_rq_pos(rq) + blk_rq_sectors(rq);
	return rq;
}

static struct request *dl_take_waiting(struct dl_data *dl, u64 now_ns)
{
	u64 load_ns = forecast_load(&dl->forecast, now_ns);
	struct request *rq;

	if (!dl->queued)
		return NULL;
	dl_forget(dl, now_ns);
	rq = dl_old(dl);
	if (rq)
		return dl_take_of(dl, rq);
	rq = dl_expiring(dl, load_ns, now_ns);
	if (rq) {
		dl->batch = 0;
		dl->expired = dl_class_of_request(rq);
		return dl_take_of(dl, rq);
	}
	rq = dl_by_location(dl, load_ns, now_ns) ?: dl_stuck(dl, now_ns);
	if (rq)
		return dl_take_of(dl, rq);
	dl_hold_back(dl, load_ns, now_ns);
	return NULL;
}

/* Whether there is somebody with less time than a request has, who doesn't wait for it. */
static bool dl_is_load(const struct dl_data *dl, const struct request *rq)
{
	return rq->rq_flags & SLUICE_RQF_SCHED && dl_state(rq) == DL_WAITING &&
	       dl->alive & (BIT(dl_class_of_request(rq)) - 1);
}

/* An fsync's data goes: what that waited for is nothing to be learned. */
static void dl_note_gone(struct dl_data *dl, const struct request *rq, u64 now_ns)
{
	struct dl_fsync *fsync;
	unsigned int left = DL_FSYNCS;

	list_for_each_entry(fsync, &dl->class[dl_class_of_request(rq)].fsyncs, node) {
		if (fsync->due_ns >> DL_UNIT_BITS == dl_due_ns(rq) >> DL_UNIT_BITS)
			forecast_gone(&dl->forecast, &fsync->forecast, now_ns);
		if (!--left)
			return;
	}
}

/* A request goes to the driver: the device will be busy with it. */
static void dl_give(struct dl_data *dl, struct request *rq, u64 now_ns)
{
	dl->cost = 0;
	split_dispatch(dl->device, rq);
	if (dl_is_load(dl, rq))
		forecast_give(&dl->forecast, now_ns, split_cost_ns(dl->device, dl->cost));
	if (op_is_write(req_op(rq)) && rq->rq_flags & SLUICE_RQF_SCHED &&
	    dl_state(rq) == DL_WAITING)
		dl_note_gone(dl, rq, now_ns);
	WRITE_ONCE(dl->touched_ns, now_ns);
	if (!(rq->rq_flags & SLUICE_RQF_SCHED) || dl_state(rq) == DL_ISSUED)
		return;
	dl_put(rq, DL_ISSUED, 0, now_ns);
	atomic_inc(&dl->issued);
}

static struct request *dl_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct dl_data *dl = hctx->queue->elevator->elevator_data;
	struct request *rq;
	unsigned long flags;
	u64 now_ns;

	spin_lock_irqsave(&dl->lock, flags);
	now_ns = ktime_get_ns();
	rq = rq_take_first(&dl->urgent) ?: dl_take_waiting(dl, now_ns);
	if (rq)
		dl_give(dl, rq, now_ns);
	spin_unlock_irqrestore(&dl->lock, flags);
	if (rq)
		rq->rq_flags |= RQF_STARTED;
	return rq;
}

static bool dl_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct dl_data *dl = hctx->queue->elevator->elevator_data;

	return !rq_list_is_empty(&dl->urgent) || (READ_ONCE(dl->queued) && !READ_ONCE(dl->holding));
}

/* Requests, in the order of a request's life */

/* The class of the current task's reads or fsyncs; without cgroups' settings all are alike. */
static unsigned int dl_class_of_task(const struct dl_data *dl, enum cause_deadline what)
{
	unsigned int otherwise = dl_otherwise_us(dl, what), us = otherwise;
	struct cgroup_subsys_state *css;
	u64 private = 0, read_ns;

	if (what == CAUSE_FSYNC && split_inside(dl->device, &private) && dl_fsync_of(private))
		return dl_fsync_of(private)->class;
	read_ns = what == CAUSE_READ ? dl_read_ns_of_task(dl) : 0;
	if (read_ns)
		return dl_class_of(read_ns);
	if (atomic_read(&cause_settings)) {
		rcu_read_lock();
		cause_meet(&css);
		us = cause_deadline(css, what, otherwise);
		rcu_read_unlock();
	}
	return dl_class_of((u64)us * NSEC_PER_USEC);
}

/*
 * Called without locks, before a tag is allocated.  What is held back has tags: who has less
 * time must find some.
 */
static void dl_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct dl_data *dl = data->q->elevator->elevator_data;
	enum cause_deadline what = op_is_write(opf) ? CAUSE_FSYNC : CAUSE_READ;
	unsigned int tags = sluice_nr_tags(data);

	if (opf & REQ_SWAP)
		return;
	if (!op_is_sync(opf))
		sluice_limit_tags(data, tags - tags / DL_CACHE_PART);
	else if (!(current->flags & PF_KTHREAD) && !current->journal_info &&
		 READ_ONCE(dl->alive) & (BIT(dl_class_of_task(dl, what)) - 1))
		sluice_limit_tags(data, tags - tags / DL_OTHERS_PART);
}

static void dl_prepare_request(struct request *rq)
{
	split_prepare(rq);
	rq->elv.priv[1] = NULL;
}

/* Who waits for a write: the fsync that the task is inside, or whoever writes past the cache. */
static void dl_sort_write(struct dl_data *dl, struct request *rq, u64 now_ns)
{
	u64 deadline_ns = READ_ONCE(dl->fsync_deadline) * NSEC_PER_MSEC;
	struct dl_fsync *fsync;
	u64 private = 0;

	/* Whoever needs memory may wait for what is swapped out, a commit included. */
	if (split_is_log(rq) || rq->cmd_flags & REQ_SWAP) {
		dl_put(rq, DL_LOG, 0, 0);
		return;
	}
	if (split_inside(dl->device, &private) && dl_fsync_of(private)) {
		fsync = dl_fsync_of(private);
		dl_put(rq, DL_WAITING, fsync->class, fsync->due_ns);
		return;
	}
	if (!op_is_sync(rq->cmd_flags)) {
		dl_put(rq, DL_WAITING, DL_NO_CLASS, 0);
		return;
	}
	if (!(current->flags & PF_KTHREAD))
		deadline_ns = dl_deadline_ns(dl, split_request_account(rq), CAUSE_FSYNC, NULL);
	dl_put(rq, DL_WAITING, dl_class_of(deadline_ns), now_ns + deadline_ns);
}

/*
 * Whether a commit may wait for what the current task reads: it has a handle, or reads metadata in
 * its fsync.
 */
static bool dl_is_awaited(const struct dl_data *dl, const struct request *rq)
{
	u64 private = 0;

	return split_has_handle() || (rq->cmd_flags & REQ_META &&
				      split_inside(dl->device, &private) && dl_fsync_of(private));
}

/* Says by when a request is to be done.  Process context, under RCU. */
static void dl_sort(struct dl_data *dl, struct request *rq, u64 now_ns)
{
	u64 deadline_ns;

	if (!(rq->rq_flags & SLUICE_RQF_SCHED) || dl_state(rq) != DL_NEW)
		return;
	if (op_is_write(req_op(rq))) {
		dl_sort_write(dl, rq, now_ns);
		return;
	}
	if (dl_is_awaited(dl, rq)) {
		dl_put(rq, DL_LOG, 0, 0);
		return;
	}
	deadline_ns = dl_read_ns_of_task(dl);
	if (!deadline_ns)
		deadline_ns = dl_deadline_ns(dl, split_request_account(rq), CAUSE_READ, NULL);
	trace_deadline_read(dl->q, blk_rq_pos(rq), deadline_ns);
	dl_put(rq, DL_WAITING, dl_class_of(deadline_ns), now_ns + deadline_ns);
}

static void dl_enqueue(struct dl_data *dl, struct request *rq, u64 now_ns)
{
	unsigned int class = dl_class_of_request(rq);
	bool write = op_is_write(req_op(rq));

	if (dl_state(rq) != DL_WAITING) {
		list_add_tail(&rq->queuelist, &dl->urgent);
		return;
	}
	rq_set_add(&dl->class[class].set[write ? DL_WRITES : DL_READS], rq);
	WRITE_ONCE(dl->queued, dl->queued + 1);
	if (write)
		dl_enliven(dl, class);
	else
		dl_note_deadline(dl, class, CAUSE_READ, dl_due_ns(rq) - now_ns, now_ns);
}

static void dl_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
			       sluice_insert_t ins)
{
	struct dl_data *dl = hctx->queue->elevator->elevator_data;
	struct list_head *head = &dl->urgent;
	struct request *rq, *next;
	u64 now_ns = ktime_get_ns();
	unsigned long flags;

	list_for_each_entry(rq, list, queuelist) {
		split_insert(dl->device, rq);
		trace_block_rq_insert(rq);
		rcu_read_lock();
		dl_sort(dl, rq, now_ns);
		rcu_read_unlock();
	}
	spin_lock_irqsave(&dl->lock, flags);
	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_del_init(&rq->queuelist);
		if (!rq_add_urgent(rq, ins, &dl->urgent, &head))
			dl_enqueue(dl, rq, now_ns);
	}
	WRITE_ONCE(dl->holding, false);
	spin_unlock_irqrestore(&dl->lock, flags);
}

/* Two at once may lose what one of them has learned. */
static void dl_completed_request(struct request *rq, u64 now_ns)
{
	struct dl_data *dl = rq->q->elevator->elevator_data;
	u64 read_ns = READ_ONCE(dl->read_ns), taken_ns;

	if (!(rq->rq_flags & SLUICE_RQF_SCHED) || dl_state(rq) != DL_ISSUED ||
	    req_op(rq) != REQ_OP_READ)
		return;
	taken_ns = min(now_ns - min(dl_due_ns(rq), now_ns), DL_READ_MOST_NS);
	WRITE_ONCE(dl->read_ns, read_ns - read_ns / DL_READ_MEAN + taken_ns / DL_READ_MEAN);
}

static void dl_finish_request(struct request *rq)
{
	struct dl_data *dl = rq->q->elevator->elevator_data;

	if (dl_state(rq) == DL_ISSUED) {
		WRITE_ONCE(dl->touched_ns, ktime_get_ns());
		if (atomic_dec_and_test(&dl->issued) && READ_ONCE(dl->stuck))
			dl_run(dl);
	}
	rq->elv.priv[1] = NULL;
	split_finish(rq);
}

/* Life of the scheduler */

static void dl_close_gates(struct dl_data *dl)
{
	unsigned int kinds = SPLIT_DURABLE;
	unsigned long flags;

	spin_lock_irqsave(&dl->lock, flags);
	if (!READ_ONCE(dl->own_writeback))
		kinds |= BIT(SPLIT_WRITE);
	if (READ_ONCE(dl->files_read))
		kinds |= BIT(SPLIT_READ);
	split_close(dl->device, kinds);
	spin_unlock_irqrestore(&dl->lock, flags);
}

static void dl_hear(struct cause_file_listener *listener)
{
	struct dl_data *dl = container_of(listener, struct dl_data, listener);

	WRITE_ONCE(dl->files_read, listener->reads);
	dl_close_gates(dl);
}

static void dl_depth_updated(struct request_queue *q)
{
	sluice_may_limit_tags(q);
}

static void dl_init_classes(struct dl_data *dl)
{
	unsigned int i;

	for (i = 0; i < DL_CLASSES; i++) {
		rq_set_init(&dl->class[i].set[DL_READS]);
		rq_set_init(&dl->class[i].set[DL_WRITES]);
		INIT_LIST_HEAD(&dl->class[i].fsyncs);
	}
}

/* The queue is frozen: no memory may be waited for that would have to be written to it. */
static struct dl_data *dl_alloc(struct request_queue *q)
{
	unsigned int flags = memalloc_noio_save();
	struct dl_data *dl = kzalloc_node(sizeof(*dl), GFP_KERNEL, q->node);

	memalloc_noio_restore(flags);
	if (!dl)
		return NULL;
	spin_lock_init(&dl->lock);
	INIT_LIST_HEAD(&dl->urgent);
	INIT_LIST_HEAD(&dl->held);
	INIT_LIST_HEAD(&dl->writers);
	dl_init_classes(dl);
	dl->q = q;
	dl->expired = DL_NO_CLASS;
	dl->looked = jiffies;
	dl->old = jiffies;
	dl->read_deadline = blk_queue_nonrot(q) ? DL_READ_FLASH_MS : DL_READ_DISK_MS;
	dl->fsync_deadline = blk_queue_nonrot(q) ? DL_FSYNC_FLASH_MS : DL_FSYNC_DISK_MS;
	dl->own_writeback = 1;
	dl->listener.q = q;
	dl->listener.changed = dl_hear;
	timer_setup(&dl->tick, dl_tick, 0);
	sluice_hrtimer_setup(&dl->timer, dl_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	return dl;
}

/* Called with the queue frozen. */
static int dl_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct dl_data *dl = dl_alloc(q);
	struct split_device *device;

	if (!dl)
		return -ENOMEM;
	device = split_attach(q, &dl_ops, dl);
	if (IS_ERR(device)) {
		kfree(dl);
		return PTR_ERR(device);
	}
	forecast_init(&dl->forecast, split_flush_ns(device));
	dl->device = device;
	cause_file_listen(&dl->listener);
	dl_close_gates(dl);
	sluice_may_limit_tags(q);
	/* It would have who has less time wait behind others for leave to write. */
	sluice_disable_wbt(q, eq);
	eq->elevator_data = dl;
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	return 0;
}

static void dl_check_books(const struct dl_data *dl)
{
	WARN_ON_ONCE(!list_empty(&dl->urgent) || !list_empty(&dl->held) ||
		     !list_empty(&dl->writers) || dl->queued || atomic_read(&dl->issued));
}

/* Calls that are inside will return without being heard of. */
static void dl_free(struct dl_data *dl)
{
	struct dl_fsync *fsync, *next;
	unsigned int i;

	for (i = 0; i < DL_CLASSES; i++) {
		WARN_ON_ONCE(!rq_set_is_empty(&dl->class[i].set[DL_READS]) ||
			     !rq_set_is_empty(&dl->class[i].set[DL_WRITES]));
		list_for_each_entry_safe(fsync, next, &dl->class[i].fsyncs, node)
			kfree(fsync);
	}
	kfree(dl);
}

/* Called with the queue frozen: every request has been finished. */
static void dl_exit_sched(struct elevator_queue *eq)
{
	struct dl_data *dl = eq->elevator_data;

	sluice_enable_wbt(dl->q, eq);
	cause_file_hear_no_more(&dl->listener);
	timer_shutdown_sync(&dl->tick);
	split_detach(dl->device);
	hrtimer_cancel(&dl->timer);
	dl_check_books(dl);
	dl_free(dl);
}

/* Knobs */

RQ_KNOB(dl_data, read_deadline, 1, DL_MS_MAX)
RQ_KNOB(dl_data, fsync_deadline, 1, DL_MS_MAX)
SPLIT_COSTS_KNOB(dl_data, costs)

static ssize_t own_writeback_show(struct elevator_queue *eq, char *page)
{
	return rq_knob_show(eq, offsetof(struct dl_data, own_writeback), page);
}

/* What is held goes, or what was held back, with the next look. */
static ssize_t own_writeback_store(struct elevator_queue *eq, const char *page, size_t count)
{
	ssize_t ret = rq_knob_store(eq, offsetof(struct dl_data, own_writeback), 0, 1, page, count);

	if (ret > 0)
		dl_close_gates(eq->elevator_data);
	return ret;
}

static sluice_attr_t dl_attrs[] = {
	RQ_KNOB_ATTR(read_deadline),
	RQ_KNOB_ATTR(fsync_deadline),
	RQ_KNOB_ATTR(own_writeback),
	RQ_KNOB_ATTR(costs),
	__ATTR_NULL,
};

#ifdef CONFIG_BLK_DEBUG_FS
static u64 dl_mean_us(u64 all_ns, u64 count)
{
	return count ? div64_u64(all_ns, count * NSEC_PER_USEC) : 0;
}

/* debugfs .../sched/forecast: what has been learned, and how well it was foretold. */
static int dl_forecast_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct dl_data *dl = q->elevator->elevator_data;
	struct forecast forecast;

	spin_lock_irq(&dl->lock);
	forecast = dl->forecast;
	spin_unlock_irq(&dl->lock);
	seq_printf(m, "factor %u.%03u\n", forecast.factor / 1024,
		   forecast.factor % 1024 * 1000 / 1024);
	seq_printf(m, "unsure_us %llu\n", forecast.unsure_ns / NSEC_PER_USEC);
	seq_printf(m, "flush_us %llu\n", forecast.flush_ns / NSEC_PER_USEC);
	seq_printf(m, "flushes %u.%03u\n", forecast.flushes / 1024,
		   forecast.flushes % 1024 * 1000 / 1024);
	seq_printf(m, "commit_us %llu\n", forecast.commit_ns / NSEC_PER_USEC);
	seq_printf(m, "spread_us %llu\n", forecast.spread_ns / NSEC_PER_USEC);
	seq_printf(m, "load_us %llu\n", forecast_load(&forecast, ktime_get_ns()) / NSEC_PER_USEC);
	seq_printf(m, "fsyncs %llu\n", forecast.fsyncs);
	seq_printf(m, "predicted_us %llu\n", dl_mean_us(forecast.predicted_ns, forecast.fsyncs));
	seq_printf(m, "taken_us %llu\n", dl_mean_us(forecast.taken_ns, forecast.fsyncs));
	seq_printf(m, "error_us %llu\n", dl_mean_us(forecast.error_ns, forecast.fsyncs));
	return 0;
}

static unsigned int dl_count(const struct list_head *list)
{
	const struct list_head *node;
	unsigned int count = 0;

	list_for_each(node, list) count++;
	return count;
}

/* debugfs .../sched/classes: a line for each class that there is now. */
static int dl_classes_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct dl_data *dl = q->elevator->elevator_data;
	unsigned int i;

	seq_puts(m, "at_least_us reads writes fsyncs\n");
	spin_lock_irq(&dl->lock);
	for_each_set_bit(i, &dl->alive, DL_CLASSES) {
		const struct dl_class *class = &dl->class[i];

		if (i == DL_NO_CLASS)
			seq_puts(m, "none");
		else
			seq_printf(m, "%llu", i ? BIT_ULL(i + DL_UNIT_BITS) / NSEC_PER_USEC : 0);
		seq_printf(m, " %u %u %u\n", class->set[DL_READS].queued,
			   class->set[DL_WRITES].queued, dl_count(&class->fsyncs));
	}
	spin_unlock_irq(&dl->lock);
	return 0;
}

static const struct blk_mq_debugfs_attr dl_debugfs_attrs[] = {
	{ "forecast", 0400, dl_forecast_show },
	{ "classes", 0400, dl_classes_show },
	{},
};
#endif

SLUICE_INIT_SCHED(dl_init_sched_op, dl_init_sched)
SLUICE_DEPTH_UPDATED(dl_depth_updated_op, dl_depth_updated)

static struct elevator_type dl_type = {
	.ops = {
		.init_sched		= dl_init_sched_op,
		.exit_sched		= dl_exit_sched,
		.depth_updated		= dl_depth_updated_op,
		.limit_depth		= dl_limit_depth,
		.prepare_request	= dl_prepare_request,
		.allow_merge		= split_allow_merge,
		.insert_requests	= dl_insert_requests,
		.has_work		= dl_has_work,
		.dispatch_request	= dl_dispatch_request,
		.completed_request	= dl_completed_request,
		.finish_request		= dl_finish_request,
	},
	.elevator_attrs = dl_attrs,
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs = dl_debugfs_attrs,
#endif
	.elevator_name = "split-deadline",
	.elevator_owner = THIS_MODULE,
};

static int __init dl_init(void)
{
	return elv_register(&dl_type);
}

static void __exit dl_exit(void)
{
	elv_unregister(&dl_type);
}

module_init(dl_init);
module_exit(dl_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Deadlines that survive fsync, a split-level policy");
MODULE_ALIAS("split-deadline-iosched");

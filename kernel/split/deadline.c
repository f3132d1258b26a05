// SPDX-License-Identifier: GPL-2.0-only
/*
 * Split-Deadline: reads and fsyncs that are done in time
 *
 * Each read, and each fsync, has a deadline: that of its open file, else its cgroup's
 * io.sluice.deadline, else the knob's.  Deadlines of about the same length form a class.  The
 * time promised to a class is kept from all classes with longer deadlines: the shortest deadline
 * comes first, the others get what it leaves.  So a request that is late, or whose deadline cannot
 * be met, never delays one with a shorter deadline.
 *
 *	location	While nothing is about to expire, requests are dispatched by location, in
 *			batches.  Reads go before writes, but cannot starve them.
 *	expiring	A read, or a write that an fsync waits for, goes first when little time
 *			is left before its deadline: no more than the device needs for what it
 *			has already, plus twice what a read or an fsync needs.
 *	load		An fsync's flush has to wait for the disk's write cache.  So the device
 *			is given only as much I/O with longer deadlines as leaves a shorter
 *			fsync, now or soon, the time it needs.  During a flush it gets none.
 *	log		A commit goes before all else, whichever process began it.  So do metadata
 *			writes that a process waits for, reads made with a journal handle, and
 *			what is swapped out: other processes may need them.
 *	fsync		An fsync is held at its gate if it has more dirty data than can be
 *			written in the time that shorter deadlines leave.  Its file is written
 *			back in parts, without a commit that others would wait for, until the
 *			rest fits or the fsync has no time left to wait.
 *
 * What an fsync will need is learned (forecast.h), and compared with what it took.  A deadline
 * shorter than the device needs can't be kept: it is replaced by 17/16 of what the device needs.
 *
 * Writeback by the page cache has no deadline.  It goes by location, as the load allows.  With
 * own_writeback off the kernel's writeback is dispatched as it comes, as in the paper's
 * Split-Pdflush.  A process is then held at its next write when its account's dirty data does not
 * fit into the time that shorter deadlines leave.
 *
 * Progress: a short fsync may wait for something that is held back for its sake, such as data
 * whose blocks are in its commit.  The device is then idle, and held-back requests go one by one,
 * the oldest first.  A request that has waited for DL_OLD_MS goes even if shorter deadlines wait,
 * one in DL_OLD_EVERY_MS.
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

/* Default fsync deadlines: those of the big fsyncs in the paper's Table 3, on disk and on flash. */
#define DL_FSYNC_DISK_MS 6000
#define DL_FSYNC_FLASH_MS 100
/* Default read deadlines: shorter, so that reads go before fsyncs. */
#define DL_READ_DISK_MS 500
#define DL_READ_FLASH_MS 50
#define DL_MS_MAX 60000

/* Times are in units of 65 us; a class is a power of two of units: 2^20 units are 69 seconds. */
#define DL_UNIT_BITS 16
#define DL_CLASSES 21
#define DL_NO_CLASS (DL_CLASSES - 1)

/* A request is expiring when its slack, beyond the load, is at most this many times its need. */
#define DL_EARLY 2

/* A deadline that can't be met is extended by this part of what the device needs, for others. */
#define DL_OTHERS_TIME 16

/* A new value has this weight (1/8) in the mean read time; values have a maximum. */
#define DL_READ_MEAN 8
#define DL_READ_MOST_NS ((u64)NSEC_PER_SEC)

/* A class that had an fsync, or a read, within this time may have the next one at any moment. */
#define DL_SOON_NS (10 * (u64)NSEC_PER_SEC)

/* Requests of a direction in a batch: so many go by location before other choices are made. */
#define DL_BATCH 16

/* Batches of reads that go before one of writes, while writes wait. */
#define DL_STARVED 2

/* Held-back requests go anyway when the device has been idle for this long. */
#define DL_IDLE_NS (8 * NSEC_PER_MSEC)

/* Bounds of the time after which requests that wait for the load are looked at again. */
#define DL_WAIT_MOST_NS (4 * NSEC_PER_MSEC)
#define DL_WAIT_LEAST_NS (100 * NSEC_PER_USEC)

/* A request that has waited for this long goes despite shorter deadlines, one in each interval. */
#define DL_OLD_MS 1000
#define DL_OLD_EVERY_MS 50

/* A flush whose end isn't seen within this time is taken for lost. */
#define DL_FLUSH_MOST_NS (5 * (u64)NSEC_PER_SEC)

/* Dirty pages of an fsync that are counted when it comes; the rest is estimated. */
#define DL_PAGES 1024U

/*
 * Per tick, for fsyncs and for writes: held calls that are told that they are held, calls whose
 * files are looked at, and pages counted of a file.  The others follow in the next ticks.
 * Interrupts are off meanwhile: a tenth of a millisecond at most.
 */
#define DL_KEEPS 64U
#define DL_LOOKS 4U
#define DL_TICK_PAGES 256U

/* Fsyncs of a class among which a write's fsync is searched; beyond, the forecast learns less. */
#define DL_FSYNCS 8

/* An fsync's data may take this part of what others leave: the rest covers what they find. */
#define DL_FIT 2

/* Bounds of the part of a file that is written back at a time, pages. */
#define DL_PART_LEAST 4U
#define DL_PART_MOST 256U

/* So many times what the device may get of a file is written back, to choose from by location. */
#define DL_CHOICE 4

/* Parts of the tags kept free: from the page cache, and from requests with longer deadlines. */
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
 * @due_ns: its deadline, as a time
 * @forecast: as of when it was let go; its began_ns is 0 before that
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
 * @deadline_ns: the deadline last asked for, of reads and of fsyncs
 * @seen_ns: when it was last asked for; 0: never
 */
struct dl_class {
	struct rq_set set[DL_DIRS];
	struct list_head fsyncs;
	u64 deadline_ns[CAUSE_DEADLINES];
	u64 seen_ns[CAUSE_DEADLINES];
};

/**
 * struct dl_data - one queue's scheduler
 * @lock: guards all that follows, unless stated otherwise; taken from any context.  Only locks
 *	  that wake a task, and that of the framework's ledger, are taken inside it
 * @q: the queue
 * @device: for split.h's functions
 * @urgent: requests that no policy may delay, in order: flushes, requeued requests, the log
 * @class: by length of the deadline; the last one has no deadline
 * @queued: requests in the classes; read without the lock
 * @dir: direction of the batch
 * @batch: how many requests of it have gone
 * @expired: class of the expired request that began the batch: only shorter ones may interrupt it
 * @starved: batches of reads dispatched while writes waited
 * @next: sector where the last request of the direction ended
 * @forecast: what an fsync needs
 * @read_ns: mean time of a read from its dispatch to its completion; changes without the
 *	     lock
 * @cost: what split_dispatch() has charged so far
 * @flushing: flushes that the device does
 * @issued: requests that the driver has; changes without the lock
 * @touched_ns: time of the device's last dispatch, completion or flush; changes without the lock
 * @alive: classes with requests, or with a deadline now or recently; read without the lock
 * @looked: jiffies when @alive was last reviewed
 * @stuck: a short deadline waits for something that was held back for its sake
 * @old: jiffies when a request was last dispatched because of its age
 * @holding: waiting requests are held back; read without the lock
 * @timer: ends @holding
 * @held: held fsyncs
 * @writers: held writes
 * @tick: looks at held calls
 * @read_deadline: ms; knobs are read and written without the lock
 * @fsync_deadline: ms
 * @own_writeback: 0: the kernel's writeback is dispatched as it comes, and writes are held
 * @listener: hears of files with a deadline of their reads
 * @files_read: there are such files; read without the lock
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

/* How long a read or fsync may take without a deadline of its cgroup or file: the knob's. */
static unsigned int dl_otherwise_us(const struct dl_data *dl, enum cause_deadline what)
{
	const unsigned int *knob = what == CAUSE_READ ? &dl->read_deadline : &dl->fsync_deadline;

	return READ_ONCE(*knob) * USEC_PER_MSEC;
}

/* How long an account's read or fsync may take; @file's deadline has precedence, unless NULL. */
static u64 dl_deadline_ns(const struct dl_data *dl, const struct split_account *account,
			  enum cause_deadline what, const struct file *file)
{
	unsigned int us = cause_longest_deadline(account->css, what, dl_otherwise_us(dl, what));

	return (u64)cause_file_deadline(file, what, us) * NSEC_PER_USEC;
}

static unsigned int dl_class_of(u64 deadline_ns)
{
	return ilog2(deadline_ns >> DL_UNIT_BITS | 1);
}

/* What the device needs for one read or one fsync while it has nothing else to do. */
static u64 dl_need_ns(const struct dl_data *dl, enum cause_deadline what)
{
	return what == CAUSE_READ ? READ_ONCE(dl->read_ns) : forecast_need(&dl->forecast);
}

/* The nearest deadline that the device can keep while it leaves some time to others. */
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

/* A deadline was asked for. */
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

/* Once a tick, forgets the classes that have not been used recently. */
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

/* When a request is due; of an issued request, when the driver got it. */
static u64 dl_due_ns(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] >> (DL_STATE_BITS + DL_CLASS_BITS) << DL_UNIT_BITS;
}

static unsigned int dl_class_of_request(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] >> DL_STATE_BITS & (BIT(DL_CLASS_BITS) - 1);
}

static enum dl_state dl_state_of(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] & (BIT(DL_STATE_BITS) - 1);
}

static void dl_put(struct request *rq, enum dl_state state, unsigned int class, u64 due_ns)
{
	unsigned long units = due_ns >> DL_UNIT_BITS;

	rq->elv.priv[1] = (void *)((units << DL_CLASS_BITS | class) << DL_STATE_BITS | state);
}

/* How much device time a class leaves to longer ones, at each of its next reads or fsyncs. */
static s64 dl_leaves_next(const struct dl_data *dl, const struct dl_class *class,
			  enum cause_deadline what, u64 now_ns)
{
	if (!dl_is_soon(class, what, now_ns))
		return S64_MAX;
	return dl_possible_ns(dl, what, class->deadline_ns[what]) - dl_need_ns(dl, what);
}

/* The same for what a class has now: for how long its reads or fsyncs can still be put off. */
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

/* The time that all classes shorter than @class leave to it; S64_MAX: there is none. */
static s64 dl_left_to(const struct dl_data *dl, unsigned int class, u64 now_ns)
{
	s64 left = S64_MAX;
	unsigned int i;

	for_each_set_bit(i, &dl->alive, class)
		left = min(left, dl_leaves(dl, &dl->class[i], now_ns));
	return left;
}

/* How much of that time an fsync's data may take, each time a shorter class has a read or fsync. */
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

/* Held-back requests are looked at again, and so are tasks that wait for tags. */
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

/* Whether so much dirty data would take the time of shorter deadlines, and the fsync can wait. */
static bool dl_must_hold(const struct dl_data *dl, const struct dl_fsync *fsync, u64 data_ns,
			 u64 now_ns)
{
	u64 end = now_ns + data_ns + dl_need_ns(dl, CAUSE_FSYNC);

	return (s64)data_ns > dl_left_next(dl, fsync->class, now_ns) && end < fsync->due_ns;
}

/*
 * A call's private number: an fsync's address; or a write's class or a read's deadline, shifted.
 * The low bits say which it is.
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

/* The deadline of the file that the current task reads; 0: the cgroup's deadline applies. */
static u64 dl_read_ns_of_task(const struct dl_data *dl)
{
	u64 private = 0;

	if (!READ_ONCE(dl->files_read) || !split_inside(dl->device, &private) ||
	    !dl_is_call(private, DL_CALL_READ))
		return 0;
	return private >> DL_CALL_BITS;
}

/* Whether writeback of the account's dirty data would take the time of shorter deadlines. */
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

/* Without memory for its struct dl_fsync, an fsync has no deadline. */
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

/* A write to the page cache; one to pages that are dirty already costs nothing. */
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

/* A read isn't held; its file's deadline, if any, is for its requests. */
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
		split_count_dirt(call, DL_PAGES, &dirt);
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

/* Overlapping flushes count as one for the forecast. */
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

/* The driver gave the flush back: nothing is learned from the time that it took. */
static void dl_forget_flush(struct dl_data *dl)
{
	dl->flushing -= !!dl->flushing;
}

static void dl_flush(void *data, enum split_flush what)
{
	struct dl_data *dl = data;
	unsigned long flags;
	u64 now_ns;

	if (what == SPLIT_FLUSH_WRITTEN)
		return;
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
	.more = BIT(SPLIT_READ),
	.enter = dl_enter,
	.drop = dl_drop,
	.leave = dl_leave,
	.charge = dl_charge,
	.flush = dl_flush,
};

/* Held calls */

/*
 * How many pages of a file to write back: as many as can be written in the time that others leave.
 * Where the requests have to wait for that time anyway, more, to choose from by location.
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

/* Whether a call may not be held any longer: an fsync's time is nearly over, a write is old. */
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

	split_count_dirt(call, DL_TICK_PAGES, &dirt);
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

/* Looks at some held calls in turn: those that were looked at last come last. */
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

/* Whether a class can be given something now without taking the time of shorter ones. */
static bool dl_may_go(const struct dl_data *dl, s64 left, u64 load_ns, u64 now_ns)
{
	return left == S64_MAX || (!dl_is_flushing(dl, now_ns) && (s64)load_ns < left);
}

/* The oldest expiring request of the shortest class; within a batch, of classes below @expired. */
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

/* How far a request is ahead of a sector; it wraps around at the end. */
static sector_t dl_way(const struct request *rq, sector_t from)
{
	return blk_rq_pos(rq) - from;
}

/*
 * The next request of a direction by location, of classes that may go.  With own_writeback off,
 * writeback, which is the last class, may go too, unless a class with a deadline must wait.
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

/* The oldest of all waiting requests. */
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

/* No class may go and the device is idle: a short deadline waits for what is held back. */
static struct request *dl_stuck(struct dl_data *dl, u64 now_ns)
{
	if (atomic_read(&dl->issued) || dl_is_flushing(dl, now_ns) ||
	    dl_left_to(dl, DL_NO_CLASS, now_ns) > 0 ||
	    (!dl->stuck && now_ns < READ_ONCE(dl->touched_ns) + DL_IDLE_NS))
		return NULL;
	WRITE_ONCE(dl->stuck, true);
	return dl_oldest(dl);
}

/* A request that has waited for long enough goes despite shorter deadlines. */
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
	/* Set before, since the timer may fire on another CPU at once. */
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

/* Whether a request delays a shorter class, which doesn't wait for it. */
static bool dl_is_load(const struct dl_data *dl, const struct request *rq)
{
	return rq->rq_flags & SLUICE_RQF_SCHED && dl_state_of(rq) == DL_WAITING &&
	       dl->alive & (BIT(dl_class_of_request(rq)) - 1);
}

/* An fsync's data is dispatched: nothing is learned from the time that the data waited here. */
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

/* A request goes to the driver: it becomes part of the device's load. */
static void dl_give(struct dl_data *dl, struct request *rq, u64 now_ns)
{
	dl->cost = 0;
	split_dispatch(dl->device, rq);
	if (dl_is_load(dl, rq))
		forecast_give(&dl->forecast, now_ns, split_cost_ns(dl->device, dl->cost));
	if (op_is_write(req_op(rq)) && rq->rq_flags & SLUICE_RQF_SCHED &&
	    dl_state_of(rq) == DL_WAITING)
		dl_note_gone(dl, rq, now_ns);
	WRITE_ONCE(dl->touched_ns, now_ns);
	if (!(rq->rq_flags & SLUICE_RQF_SCHED) || dl_state_of(rq) == DL_ISSUED)
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

/* The class of the current task's reads or fsyncs; the knob's unless a file or cgroup has one. */
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
		cause_of_current(&css);
		us = cause_longest_deadline(css, what, otherwise);
		rcu_read_unlock();
	}
	return dl_class_of((u64)us * NSEC_PER_USEC);
}

/*
 * Called without locks, before a tag is allocated.  Requests that are held back keep their tags,
 * so some tags are kept free for shorter deadlines.
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

/* Gives a write its deadline: of the fsync that the task is inside, or of the direct writer. */
static void dl_sort_write(struct dl_data *dl, struct request *rq, u64 now_ns)
{
	u64 deadline_ns = READ_ONCE(dl->fsync_deadline) * NSEC_PER_MSEC;
	struct dl_fsync *fsync;
	u64 private = 0;

	/* A task that needs memory, a commit included, may wait for what is swapped out. */
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
	if (!(current->flags & PF_KTHREAD) || split_works_for_all(dl->device))
		deadline_ns = dl_deadline_ns(dl, split_request_account(rq), CAUSE_FSYNC, NULL);
	dl_put(rq, DL_WAITING, dl_class_of(deadline_ns), now_ns + deadline_ns);
}

/*
 * Whether a commit may wait for what the current task reads: the task has a handle, or reads
 * metadata inside an fsync.
 */
static bool dl_is_awaited(const struct dl_data *dl, const struct request *rq)
{
	u64 private = 0;

	return split_has_handle() || (rq->cmd_flags & REQ_META &&
				      split_inside(dl->device, &private) && dl_fsync_of(private));
}

/* Gives a request its class and deadline.  Process context, under RCU. */
static void dl_sort(struct dl_data *dl, struct request *rq, u64 now_ns)
{
	u64 deadline_ns;

	if (!(rq->rq_flags & SLUICE_RQF_SCHED) || dl_state_of(rq) != DL_NEW)
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

	if (dl_state_of(rq) != DL_WAITING) {
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

/* Without a lock: of two at once, one may overwrite what the other has learned. */
static void dl_completed_request(struct request *rq, u64 now_ns)
{
	struct dl_data *dl = rq->q->elevator->elevator_data;
	u64 read_ns = READ_ONCE(dl->read_ns), taken_ns;

	if (!(rq->rq_flags & SLUICE_RQF_SCHED) || dl_state_of(rq) != DL_ISSUED ||
	    req_op(rq) != REQ_OP_READ)
		return;
	taken_ns = min(now_ns - min(dl_due_ns(rq), now_ns), DL_READ_MOST_NS);
	WRITE_ONCE(dl->read_ns, read_ns - read_ns / DL_READ_MEAN + taken_ns / DL_READ_MEAN);
}

static void dl_finish_request(struct request *rq)
{
	struct dl_data *dl = rq->q->elevator->elevator_data;

	if (dl_state_of(rq) == DL_ISSUED) {
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

/* The queue is frozen: an allocation must not wait for memory that is written back to it. */
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
	/* Writeback throttling would make short deadlines wait behind others before they write. */
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

/* For calls that are still inside, leave() will not be called. */
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

/* Held calls and held-back requests go with the next look at them. */
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

/* debugfs .../sched/forecast: what has been learned, and how good the forecasts were. */
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

/* debugfs .../sched/classes: a line for each class that is alive. */
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

SLUICE_LIMIT_DEPTH(dl_limit_depth_op, dl_limit_depth)
SLUICE_INIT_SCHED(dl_init_sched_op, dl_init_sched)
SLUICE_DEPTH_UPDATED(dl_depth_updated_op, dl_depth_updated)

static struct elevator_type dl_type = {
	.ops = {
		.init_sched		= dl_init_sched_op,
		.exit_sched		= dl_exit_sched,
		.depth_updated		= dl_depth_updated_op,
		.limit_depth		= dl_limit_depth_op,
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
MODULE_DESCRIPTION("I/O scheduler: deadlines of reads and fsyncs (split-level)");
MODULE_ALIAS("split-deadline-iosched");

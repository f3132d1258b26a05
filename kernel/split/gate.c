// SPDX-License-Identifier: GPL-2.0-only
/*
 * The calls at the gates, and the hold.  See split.h.
 *
 * A call lives on its caller's stack, or is a record (resume.c).  It is in split_calls from when it
 * came to a closed gate until it returns.  While it is held its state is SPLIT_HELD.  Whichever
 * compare-and-exchange changes that state first decides how the hold ends.  Either the policy lets
 * the call go; or the caller leaves or the device is detached, and the policy is told.
 *
 * When a device is detached its state changes first.  A grace period later none of the policy's
 * functions runs any more.  Callers find the device by its queue under RCU, and hold a reference
 * to it while they are at its gate.
 */
#include "gate.h"

#include "../compat/fs.h"

#include <linux/freezer.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/writeback.h>

/* Number of devices with a closed gate: while it is 0, none is looked for. */
atomic_t split_closed_devices __read_mostly;
struct split_bucket split_calls[1 << SPLIT_CALL_BITS];

static const char *const split_kinds[SPLIT_KINDS] = {
	"write",  "fsync",    "sync",	"creat", "mkdir", "unlink",
	"rename", "truncate", "change", "store", "read",
};

/**
 * split_gates_init() - before there is any hook
 */
void __init split_gates_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_calls); i++)
		spin_lock_init(&split_calls[i].lock);
}

/* Calls at gates */

void split_add(struct split_call *call)
{
	struct split_bucket *bucket = split_bucket_of(current);

	spin_lock(&bucket->lock);
	hlist_add_head(&call->hash, &bucket->calls);
	spin_unlock(&bucket->lock);
}

void split_del(struct split_call *call)
{
	struct split_bucket *bucket = split_bucket_of(call->task);

	spin_lock(&bucket->lock);
	hlist_del(&call->hash);
	spin_unlock(&bucket->lock);
}

bool split_inside(const struct split_device *device, u64 *private)
{
	struct split_bucket *bucket = split_bucket_of(current);
	struct split_call *call;
	bool found = false;

	spin_lock(&bucket->lock);
	hlist_for_each_entry(call, &bucket->calls, hash) {
		if (call->task != current || call->device != device || call->unplug ||
		    (call->way != SPLIT_HERE && call->way != SPLIT_MADE))
			continue;
		*private = call->private;
		found = true;
	}
	spin_unlock(&bucket->lock);
	return found;
}
EXPORT_SYMBOL_GPL(split_inside);

static void split_set_closed(struct split_device *device, unsigned int kinds)
{
	bool was_closed = xchg(&device->closed, kinds);

	if (was_closed != !!kinds)
		atomic_add(kinds ? 1 : -1, &split_closed_devices);
}

/* The hold */

/* Ends a hold, unless it has ended already, and tells the policy. */
static void split_claim(struct split_device *device, struct split_call *call)
{
	if (cmpxchg(&call->state, SPLIT_HELD, SPLIT_LEFT) != SPLIT_HELD)
		return;
	atomic_inc(&device->dropped);
	if (device->ops->drop)
		device->ops->drop(device->data, call);
}

/*
 * The caller wants to leave.  split_detach() takes each bucket's lock before the policy's data is
 * freed, so that data exists as long as the call is held.
 */
void split_escape(struct split_call *call)
{
	struct split_bucket *bucket = split_bucket_of(call->task);

	spin_lock(&bucket->lock);
	split_claim(call->device, call);
	spin_unlock(&bucket->lock);
}

/* Calls a function for each held call of a device, and wakes the callers to look again. */
static void split_wake_all(struct split_device *device,
			   void (*fn)(struct split_device *device, struct split_call *call))
{
	struct split_call *call;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_calls); i++) {
		spin_lock(&split_calls[i].lock);
		hlist_for_each_entry(call, &split_calls[i].calls, hash) {
			if (call->device != device)
				continue;
			if (fn)
				fn(device, call);
			if (call->way == SPLIT_HERE || call->busy)
				wake_up_process(call->task);
		}
		spin_unlock(&split_calls[i].lock);
	}
}

static void split_eject(struct split_device *device, const struct split_call *call)
{
	if (cmpxchg(&device->state, SPLIT_ATTACHED, SPLIT_EJECTED) != SPLIT_ATTACHED)
		return;
	split_set_closed(device, SPLIT_NONE);
	pr_err("split: %s: policy %s left a %s of process %d unanswered for %u ms and is ejected; next: choose a scheduler for %s again\n",
	       device->disk, device->ops->name, split_kinds[call->kind], call->task->pid,
	       SPLIT_ANSWER_MS, device->disk);
	split_wake_all(device, NULL);
}

/*
 * Whether a writer holds s_umount, or waits for it behind a sync, which is its reader.  An unmount,
 * a remount or a freeze must not wait for a policy.
 */
static bool split_blocks_umount(struct super_block *sb)
{
	if (!down_read_trylock(&sb->s_umount))
		return true;
	up_read(&sb->s_umount);
	return false;
}

/* The freezer, of the machine or of a cgroup, waits for the current task. */
bool split_blocks_freezer(void)
{
	return freezing(current) || READ_ONCE(current->jobctl) & JOBCTL_TRAP_FREEZE;
}

/* The current task is io_uring's worker, and its work is cancelled or its process exits. */
bool split_is_cancelled(void)
{
	return current->flags & PF_IO_WORKER && test_thread_flag(TIF_NOTIFY_SIGNAL);
}

/* A call with a lock that others may need has been held for as long as it may. */
bool split_held_enough(const struct split_call *call)
{
	return call->locked &&
	       time_after_eq(jiffies, call->began + msecs_to_jiffies(SPLIT_LOCKED_MS));
}

/* A call on its way back to user mode has no lock: only a kill or a detach ends its hold. */
static bool split_must_leave(const struct split_call *call)
{
	if (fatal_signal_pending(current) || READ_ONCE(call->device->state) != SPLIT_ATTACHED)
		return true;
	return call->way == SPLIT_HERE &&
	       (split_blocks_freezer() || split_is_cancelled() || split_held_enough(call) ||
		READ_ONCE(call->sb->s_writers.frozen) != SB_UNFROZEN ||
		(call->kind == SPLIT_SYNC && split_blocks_umount(call->sb)));
}

/* Looks for a reason to leave, or to eject the policy. */
static void split_look(struct split_call *call)
{
	unsigned long answered = READ_ONCE(call->answered);

	/* A call that was let go while its file was written back has had its answer. */
	if (READ_ONCE(call->state) == SPLIT_HELD &&
	    time_after(jiffies, answered + msecs_to_jiffies(SPLIT_ANSWER_MS))) {
		rcu_read_lock();
		if (READ_ONCE(call->device->state) == SPLIT_ATTACHED)
			split_eject(call->device, call);
		rcu_read_unlock();
	}
	if (split_must_leave(call))
		split_escape(call);
}

/*
 * Writes back some of the file system's dirty data, unless an unmount would have to wait for it.
 * Each such writeback looks at all dirty files of the file system, so a device has only one at a
 * time, however many calls are held.
 */
static void split_start_any_writeback(const struct split_call *call, unsigned int pages)
{
	struct split_device *device = call->device;
	struct super_block *sb = call->sb;

	if (atomic_xchg(&device->any_writeback, 1))
		return;
	if (down_read_trylock(&sb->s_umount)) {
		writeback_inodes_sb_nr(sb, pages, WB_REASON_BACKGROUND);
		up_read(&sb->s_umount);
	}
	atomic_set_release(&device->any_writeback, 0);
}

/* Errors are recorded in the file: its next fsync reports them. */
static void split_start_writeback(struct split_call *call, unsigned int pages)
{
	loff_t start, last;

	if (call->kind != SPLIT_FSYNC &&
	    !mapping_tagged(call->inode->i_mapping, PAGECACHE_TAG_DIRTY)) {
		split_start_any_writeback(call, pages);
		return;
	}
	start = split_range(call, &last);
	sluice_flush_range(call->inode->i_mapping, start, last, pages);
}

/**
 * split_hold_here() - sleep until a call's hold has ended
 * @call: of the current task; if it is on its way back, a signal ends the sleep and not the hold
 */
void split_hold_here(struct split_call *call)
{
	bool here = call->way == SPLIT_HERE;
	unsigned int pages;

	while (READ_ONCE(call->state) == SPLIT_HELD && (here || !signal_pending(current))) {
		pages = xchg(&call->write_back, 0);
		if (pages)
			split_start_writeback(call, pages);
		split_look(call);
		set_current_state(here ? TASK_KILLABLE : TASK_INTERRUPTIBLE);
		if (READ_ONCE(call->state) == SPLIT_HELD && !READ_ONCE(call->write_back))
			io_schedule_timeout(msecs_to_jiffies(SPLIT_SLICE_MS));
		__set_current_state(TASK_RUNNING);
	}
	/* The signal may have been pending before the first look. */
	if (!here && fatal_signal_pending(current))
		split_escape(call);
}

/* Gates */

static bool split_is_closed_for(const struct split_device *device, const struct split_call *call)
{
	return READ_ONCE(device->closed) & BIT(call->kind) &&
	       READ_ONCE(device->state) == SPLIT_ATTACHED;
}

/*
 * The device whose gate a call has come to, referenced; NULL if it is open by now.  Of several
 * devices, the first one whose gate it hasn't passed: the others' turn comes when it is made.
 */
static struct split_device *split_closed_device(const struct split_call *call)
{
	struct split_device *device;
	unsigned int at;

	for (device = split_first(call->sb->s_bdev, &at); device;
	     device = split_next(call->sb->s_bdev, &at))
		if (split_is_closed_for(device, call) &&
		    (device->q == bdev_get_queue(call->sb->s_bdev) ||
		     !split_passes(device, call->sb, call->part)) &&
		    percpu_ref_tryget_live(&device->refs))
			return device;
	return NULL;
}

/* Finds a call's device and account: it has references to both, for split_put(). */
void split_meet(struct split_call *call)
{
	rcu_read_lock();
	call->device = split_closed_device(call);
	if (call->device)
		call->account = split_account_of_task();
	rcu_read_unlock();
}

/* Asks the policy, within an RCU read section.  Return: whether the call may run. */
bool split_ask(struct split_call *call)
{
	struct split_device *device = call->device;
	bool go = true;

	rcu_read_lock();
	if (device && split_is_closed_for(device, call) && device->ops->enter)
		go = device->ops->enter(device->data, call);
	if (go)
		WRITE_ONCE(call->state, SPLIT_LET_GO);
	rcu_read_unlock();
	return go;
}

/* Charges the account of a call that is to be durable with its part of what that costs. */
void split_demand(struct split_call *call)
{
	struct split_device *device = call->device;

	if (!call->durable && !(BIT(call->kind) & SPLIT_DURABLE))
		return;
	rcu_read_lock();
	if (device && READ_ONCE(device->state) == SPLIT_ATTACHED && device->ops->demand)
		device->ops->demand(device->data, call->account, split_cost_of_demand(device));
	rcu_read_unlock();
}

/* Tells the policy that a call that entered has returned. */
void split_tell(struct split_call *call, ssize_t result)
{
	struct split_device *device = call->device;

	rcu_read_lock();
	if (device && READ_ONCE(device->state) != SPLIT_DETACHED && device->ops->leave)
		device->ops->leave(device->data, call, result);
	rcu_read_unlock();
}

void split_put(struct split_call *call)
{
	if (!call->device)
		return;
	split_account_put(call->account);
	percpu_ref_put(&call->device->refs);
}

/* What a policy calls; see split.h. */

void split_close(struct split_device *device, unsigned int kinds)
{
	split_set_closed(device, kinds);
	/* Pairs with split_eject(): one of the two opens the gates of an ejected policy. */
	smp_mb();
	if (READ_ONCE(device->state) != SPLIT_ATTACHED)
		split_set_closed(device, SPLIT_NONE);
}
EXPORT_SYMBOL_GPL(split_close);

void split_hold(struct split_call *call, const char *reason)
{
	WRITE_ONCE(call->reason, reason);
	WRITE_ONCE(call->answered, jiffies);
}
EXPORT_SYMBOL_GPL(split_hold);

/* The call may end as soon as its state changes; RCU keeps its task. */
void split_let_go(struct split_call *call)
{
	struct split_device *device = call->device;
	struct task_struct *task = call->task;

	rcu_read_lock();
	if (cmpxchg(&call->state, SPLIT_HELD, SPLIT_LET_GO) == SPLIT_HELD) {
		atomic_inc(&device->let_go);
		wake_up_process(task);
	}
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(split_let_go);

void split_write_back(struct split_call *call, unsigned int pages)
{
	WRITE_ONCE(call->write_back, pages);
	wake_up_process(call->task);
}
EXPORT_SYMBOL_GPL(split_write_back);

/**
 * split_open_gates() - a policy is being detached
 * @device: its device, whose state says so: no gate of it will be closed any more
 */
void split_open_gates(struct split_device *device)
{
	split_set_closed(device, SPLIT_NONE);
}

/**
 * split_end_holds() - a policy has been detached: nothing is held for it any more
 * @device: its device, a grace period after that
 *
 * A held caller may be writing back its file, which waits for the device's frozen queue: so its
 * hold is ended here, and not by itself.
 */
void split_end_holds(struct split_device *device)
{
	split_wake_all(device, split_claim);
}

/* debugfs */

static unsigned int split_count_held(const struct split_device *device)
{
	unsigned int i, held = 0;
	struct split_call *call;

	for (i = 0; i < ARRAY_SIZE(split_calls); i++) {
		spin_lock(&split_calls[i].lock);
		hlist_for_each_entry(call, &split_calls[i].calls, hash)
			held += call->device == device && READ_ONCE(call->state) == SPLIT_HELD;
		spin_unlock(&split_calls[i].lock);
	}
	return held;
}

/**
 * split_gates_show() - write how a device's gates are, in one line
 * @device: the device
 * @m: for debugfs
 */
void split_gates_show(struct split_device *device, struct seq_file *m)
{
	unsigned long closed = READ_ONCE(device->closed);
	unsigned int kind;

	seq_printf(m, "%s %s held=%u let_go=%d dropped=%d state=%s closed=", device->disk,
		   device->ops->name, split_count_held(device), atomic_read(&device->let_go),
		   atomic_read(&device->dropped),
		   READ_ONCE(device->state) == SPLIT_EJECTED ? "ejected" : "attached");
	for_each_set_bit(kind, &closed, SPLIT_KINDS)
		seq_printf(m, "%s%s", split_kinds[kind], closed >> kind == 1 ? "" : ",");
	seq_putc(m, '\n');
}

/* A held call's device can't be detached before its bucket's lock was taken. */
static void split_call_show(const struct split_call *call, struct seq_file *m)
{
	const char *reason = READ_ONCE(call->reason);

	if (READ_ONCE(call->state) == SPLIT_HELD && call->device)
		seq_printf(m, "%s %s pid=%d comm=%s ms=%u reason=%s\n", call->device->disk,
			   split_kinds[call->kind], call->task->pid, call->task->comm,
			   jiffies_to_msecs(jiffies - call->began), reason ?: "none");
}

/**
 * split_held_show() - write what is held, one call a line
 * @m: for debugfs
 */
void split_held_show(struct seq_file *m)
{
	struct split_call *call;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_calls); i++) {
		spin_lock(&split_calls[i].lock);
		hlist_for_each_entry(call, &split_calls[i].calls, hash)
			split_call_show(call, m);
		spin_unlock(&split_calls[i].lock);
	}
}

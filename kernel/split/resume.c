// SPDX-License-Identifier: GPL-2.0-only
/*
 * Holds on the way back to user mode, where a task has no lock.
 *
 * A task may come to a gate with a lock that others need: the position of an open file, a pipe,
 * an inode of an overlay, its memory map.  So a call that is to be held there isn't.  What is
 * left is a record of it, in split_calls, which the task finds when it has given up all locks
 * and is about to return to user mode:
 *
 *	TURNED_AWAY	the system call has done nothing and returns -ERESTARTNOINTR, so that
 *			the kernel makes it again when the task is back
 *	PAYS		the call has gone on: a store, which is done, or a call that can't be
 *			made again and was held for SPLIT_LOCKED_MS
 *
 * There the policy is asked again, and the task is held (WAITS).  If a signal comes it leaves
 * to be stopped, frozen or killed, or to have the signal's frame made, and comes back before it
 * runs in user mode; the policy has its call all the while.  When the policy has let it go, what
 * had gone on is over.  What is made again passes once (WAITED), with all that belongs to that
 * system call, until the next way back (MADE).  leave() is called then.
 *
 * A record has a reference to its device, its account and its task, and while the policy may
 * look at it one to its file.  It goes with its task (split_records_exit()), or with the hooks.
 */
#include "gate.h"

#include <linux/file.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <asm/syscall.h>

/* While there is none nobody looks for one. */
static atomic_t split_records;

/* Whether the current task is in the call of a record; libraries make many calls at one place. */
static bool split_is_again(const struct split_call *record)
{
	struct pt_regs *regs = current_pt_regs();

	return record->ip == instruction_pointer(regs) &&
	       record->nr == syscall_get_nr(current, regs);
}

/* Whether a record lets its task pass: what is made again does, another call doesn't. */
static bool split_lets_pass(const struct split_call *record, bool part)
{
	switch (record->way) {
	case SPLIT_PAYS:
		return true;
	case SPLIT_WAITED:
		return split_is_again(record);
	case SPLIT_MADE:
		return split_is_again(record) && !part;
	default:
		return false;
	}
}

/**
 * split_passes() - does what the current task does pass a device's gates?
 * @device: the device
 * @part: it is one of several parts of a system call, of which each may be held
 *
 * It does within a call that has passed one: the original of a gated function, and an fsync in
 * a durable write, belong to that call.  In any context of the task but interrupts.
 */
bool split_passes(const struct split_device *device, bool part)
{
	struct split_bucket *bucket = split_bucket(current);
	struct split_call *call;
	bool passes = false;

	spin_lock(&bucket->lock);
	hlist_for_each_entry(call, &bucket->calls, hash) {
		if (call->task != current)
			continue;
		passes |= call->way == SPLIT_HERE ||
			  (call->device == device && split_lets_pass(call, part));
		if (call->way == SPLIT_WAITED && call->device == device) {
			call->way = SPLIT_MADE;
			set_tsk_thread_flag(current, TIF_NOTIFY_RESUME);
		}
	}
	spin_unlock(&bucket->lock);
	return passes;
}

/* Whether a task has a record that is to be looked at on its way back. */
static bool split_is_due(const struct split_call *call)
{
	return call->way != SPLIT_HERE && call->way != SPLIT_WAITED;
}

static struct split_call *split_find_record(bool (*is_it)(const struct split_call *call))
{
	struct split_bucket *bucket = split_bucket(current);
	struct split_call *call, *found = NULL;

	spin_lock(&bucket->lock);
	hlist_for_each_entry(call, &bucket->calls, hash)
		if (call->task == current && is_it(call))
			found = call;
	if (found)
		found->busy = true;
	spin_unlock(&bucket->lock);
	return found;
}

/**
 * split_put_away() - have the current task held on its way back
 * @call: which was to be held, or was held; with its references
 * @way: SPLIT_TURNED_AWAY or SPLIT_PAYS
 *
 * Sleeps.  There is one such record of a task and device at most: once it is to be held it
 * passes, or can't do anything.
 */
void split_put_away(const struct split_call *call, enum split_way way)
{
	struct split_call *record = kmemdup(call, sizeof(*call), GFP_NOFS | __GFP_NOFAIL);

	percpu_ref_get(&record->device->refs);
	split_account_get(record->account);
	get_task_struct(current);
	record->task = current;
	record->way = way;
	record->state = SPLIT_LET_GO;
	record->again = way == SPLIT_TURNED_AWAY;
	record->ip = instruction_pointer(current_pt_regs());
	record->nr = syscall_get_nr(current, current_pt_regs());
	record->nowait = false;
	record->locked = false;
	record->private = 0;
	INIT_LIST_HEAD(&record->node);
	/* What has gone on is neither an fsync nor a write any more: it is known as a change. */
	if (!record->again) {
		record->kind = record->kind == SPLIT_STORE ? SPLIT_STORE : SPLIT_CHANGE;
		record->file = NULL;
		record->durable = false;
	}
	if (record->file) {
		get_file(record->file);
	} else {
		record->sb = NULL;
		record->inode = NULL;
	}
	atomic_inc(&split_records);
	split_add(record);
	set_tsk_thread_flag(current, TIF_NOTIFY_RESUME);
}

static void split_let_file_go(struct split_call *record)
{
	if (record->file)
		fput(record->file);
	record->file = NULL;
	record->inode = NULL;
}

/* Off split_calls, after which its policy hasn't got it. */
static void split_free_record(struct split_call *record)
{
	WARN_ON_ONCE(READ_ONCE(record->state) == SPLIT_HELD);
	split_let_file_go(record);
	split_put(record);
	put_task_struct(record->task);
	kfree(record);
	atomic_dec(&split_records);
}

static void split_end_record(struct split_call *record, ssize_t result)
{
	if (record->way != SPLIT_TURNED_AWAY && record->way != SPLIT_PAYS)
		split_tell(record, result);
	split_del(record);
	split_free_record(record);
}

/* Whether a call that was turned away has returned something else than that it is made again. */
static bool split_has_returned(const struct split_call *record)
{
	return record->way == SPLIT_TURNED_AWAY && record->kind != SPLIT_STORE &&
	       instruction_pointer(current_pt_regs()) == record->ip;
}

/*
 * open() has another error for what mnt_want_write() refuses: that the file system is read-only.
 * Return: whether it is made again for that.
 */
static bool split_was_refused(void)
{
	struct pt_regs *regs = current_pt_regs();

	if (syscall_get_error(current, regs) != -EROFS)
		return false;
	syscall_set_return_value(current, regs, -ERESTARTNOINTR, 0);
	set_tsk_thread_flag(current, TIF_SIGPENDING);
	return true;
}

/* The task may go back to user mode; its call passes when it is made again. */
static void split_let_back(struct split_call *record)
{
	struct split_bucket *bucket = split_bucket(current);

	split_demand(record);
	split_let_file_go(record);
	spin_lock(&bucket->lock);
	record->way = SPLIT_WAITED;
	record->busy = false;
	spin_unlock(&bucket->lock);
}

/* Return: whether the record needs nothing more before the task is back. */
static bool split_hold_back(struct split_call *record)
{
	if (split_has_returned(record) && BIT(record->kind) & SPLIT_NAMES) {
		if (split_was_refused())
			return false;
		/* open() has found the file, or can't make it. */
		split_end_record(record, -EAGAIN);
		return true;
	}
	if (record->way != SPLIT_WAITS) {
		/* Of a splice a part may have been done. */
		record->again &= !split_has_returned(record);
		record->way = SPLIT_WAITS;
		record->answered = jiffies;
		WRITE_ONCE(record->state, SPLIT_HELD);
		split_ask(record);
	}
	split_hold_here(record);
	switch (READ_ONCE(record->state)) {
	case SPLIT_HELD:
		return false;
	case SPLIT_LET_GO:
		if (record->again) {
			split_let_back(record);
			return true;
		}
		split_end_record(record, 0);
		return true;
	default:
		split_end_record(record, -EINTR);
		return true;
	}
}

/**
 * split_is_awaited() - has the current task a record to look at?
 *
 * In any context of the task but interrupts.
 */
bool split_is_awaited(void)
{
	struct split_bucket *bucket = split_bucket(current);
	struct split_call *call;
	bool found = false;

	if (!atomic_read(&split_records) || current->flags & (PF_KTHREAD | PF_EXITING))
		return false;
	spin_lock(&bucket->lock);
	hlist_for_each_entry(call, &bucket->calls, hash)
		found |= call->task == current && split_is_due(call);
	spin_unlock(&bucket->lock);
	return found;
}

/**
 * split_resume() - the current task is on its way back to user mode
 *
 * Sleeps until what it has put away is let go, or until a signal comes.
 */
void split_resume(void)
{
	struct split_call *record;

	while ((record = split_find_record(split_is_due))) {
		if (record->way == SPLIT_MADE)
			split_end_record(record, 0);
		else if (!split_hold_back(record))
			break;
	}
	if (record)
		record->busy = false;
}

static bool split_is_record(const struct split_call *call)
{
	return call->way != SPLIT_HERE;
}

/**
 * split_records_exit() - a task ends
 * @task: the current one; with preemption off
 */
void split_records_exit(struct task_struct *task)
{
	struct split_call *record;

	while (atomic_read(&split_records) && (record = split_find_record(split_is_record))) {
		split_escape(record);
		split_end_record(record, -EINTR);
	}
}

/**
 * split_records_forget() - the hooks are out: nobody else ends records but those just in use
 */
void split_records_forget(void)
{
	struct split_call *call;
	struct hlist_node *next;
	HLIST_HEAD(forgotten);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_calls); i++) {
		spin_lock(&split_calls[i].lock);
		hlist_for_each_entry_safe(call, next, &split_calls[i].calls, hash) {
			if (call->way == SPLIT_HERE || call->busy)
				continue;
			hlist_del(&call->hash);
			hlist_add_head(&call->hash, &forgotten);
		}
		spin_unlock(&split_calls[i].lock);
	}
	hlist_for_each_entry_safe(call, next, &forgotten, hash)
		split_free_record(call);
}

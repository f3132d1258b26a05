// SPDX-License-Identifier: GPL-2.0-only
/*
 * Holds on the way back to user mode, where a task has no lock.
 *
 * A task may come to a gate with a lock that others need: the position of an open file, a pipe, an
 * inode of an overlay, its memory map.  So a call that is to be held isn't held at the gate.
 * Instead a record of it is put in split_calls.  The task finds it when it has released all locks
 * and is about to return to user mode:
 *
 *	TURNED_AWAY	the system call has done nothing and returns -ERESTARTNOINTR, so that
 *			the kernel makes it again when the task is back
 *	PAYS		the call has gone on: a store, which is done, or a call that can't be
 *			made again and was held for SPLIT_LOCKED_MS
 *
 * There the policy is asked again, and the task is held (WAITS).  If a signal comes, the task
 * leaves to be stopped, frozen or killed, or to set up the signal's frame, and comes back before it
 * runs in user mode.  The policy keeps its call all the while.  When the policy lets it go, a call
 * that has gone on is finished.  A call that is made again passes once (WAITED), with all that
 * belongs to that system call, until the next way back (MADE).  Then leave() is called.
 *
 * A record has a reference to its device, its account and its task, and to its file while the
 * policy may look at that.  It is freed with its task (split_records_exit()), or with the hooks.
 */
#include "gate.h"

#include <linux/file.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <asm/syscall.h>

/* Number of records: while it is 0, none is looked for. */
static atomic_t split_records;

/* Whether the current task is in a record's call; the address alone could be a library's. */
static bool split_is_again(const struct split_call *record)
{
	struct pt_regs *regs = current_pt_regs();

	return record->ip == instruction_pointer(regs) &&
	       record->nr == syscall_get_nr(current, regs);
}

/* Whether a record lets its task pass: the repeated call passes, another call doesn't. */
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
 * @sb: the file system, of which there may be other devices
 * @part: it is one of several parts of a system call, each of which may be held
 *
 * Within a call that has passed a gate it passes: the original of a gated function, and an fsync in
 * a durable write, belong to that call; so does what another file system does for it.  In any
 * context of the task but interrupts.
 */
bool split_passes(const struct split_device *device, const struct super_block *sb, bool part)
{
	struct split_bucket *bucket = split_bucket_of(current);
	struct split_call *call;
	bool passes = false;

	spin_lock(&bucket->lock);
	hlist_for_each_entry(call, &bucket->calls, hash) {
		if (call->task != current)
			continue;
		if (call->way == SPLIT_HERE)
			passes |= call->device == device || !call->device || call->sb != sb;
		else
			passes |= (call->device == device || call->way == SPLIT_PAYS) &&
				  split_lets_pass(call, part);
	}
	spin_unlock(&bucket->lock);
	return passes;
}

/**
 * split_note_made() - a call that was let go is being made again
 * @device: whose record of it ends on the way back
 * @all: it passes all gates; if not, and it would pass this one, it will be made once more
 * @part: see split_passes()
 */
void split_note_made(const struct split_device *device, bool all, bool part)
{
	struct split_bucket *bucket = split_bucket_of(current);
	struct split_call *call;

	if (!atomic_read(&split_records))
		return;
	spin_lock(&bucket->lock);
	hlist_for_each_entry(call, &bucket->calls, hash) {
		if (call->task != current || call->device != device || call->way != SPLIT_WAITED ||
		    (!all && split_lets_pass(call, part)))
			continue;
		call->way = SPLIT_MADE;
		set_tsk_thread_flag(current, TIF_NOTIFY_RESUME);
	}
	spin_unlock(&bucket->lock);
}

/* Whether a task has a record that is to be looked at on its way back. */
static bool split_is_due(const struct split_call *call)
{
	return call->way != SPLIT_HERE && call->way != SPLIT_WAITED;
}

static struct split_call *split_find_record(bool (*is_it)(const struct split_call *call))
{
	struct split_bucket *bucket = split_bucket_of(current);
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
 * Sleeps.  A task and device have one such record at most: once the task is to be held it passes
 * other gates, or can't do anything.
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
	/* A call that has gone on is no longer an fsync or a write: it counts as a change. */
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

/* Takes a record off split_calls and away from its policy. */
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

/* Whether a call that was turned away returned anything but the error that has it repeated. */
static bool split_has_returned(const struct split_call *record)
{
	return record->way == SPLIT_TURNED_AWAY && record->kind != SPLIT_STORE &&
	       instruction_pointer(current_pt_regs()) == record->ip;
}

/*
 * open() returns another error when mnt_want_write() refuses: that the file system is read-only.
 * Return: whether the call is made again in this case.
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
	struct split_bucket *bucket = split_bucket_of(current);

	split_demand(record);
	split_let_file_go(record);
	spin_lock(&bucket->lock);
	record->way = SPLIT_WAITED;
	record->busy = false;
	spin_unlock(&bucket->lock);
}

/* Return: whether nothing more is to be done for the record before the task is back. */
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
		/* A part of a splice may have been done. */
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
 * split_is_awaited() - whether the current task has a record to look at
 *
 * In any context of the task but interrupts.
 */
bool split_is_awaited(void)
{
	struct split_bucket *bucket = split_bucket_of(current);
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

	lockdep_assert_preemption_disabled();
	while (atomic_read(&split_records) && (record = split_find_record(split_is_record))) {
		split_escape(record);
		split_end_record(record, -EINTR);
	}
}

/**
 * split_records_forget() - the hooks are out: only records in use are ended elsewhere
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

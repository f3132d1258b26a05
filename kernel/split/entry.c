// SPDX-License-Identifier: GPL-2.0-only
/*
 * The gates: hooks at the functions through which calls enter a file system.
 *
 * A hook is an ftrace_ops that may redirect the hooked function.  It runs on every call, must not
 * sleep, and only looks whether the gate is closed.  If it is, the call is redirected to a function
 * of this file, which asks the policy, may sleep, and then makes the original call.  It does so
 * through the pointer that the first caller used, so the hook sees the call again and recognises it
 * by split_passes().
 *
 * Unloading.  No hook may be running, which unregister_ftrace_function() ensures.  No call may be
 * in a function of this file, or about to enter one: split_calls_inside counts from the hook to the
 * function's end.  No call may be at the very last instructions after that count, for which there
 * is synchronize_rcu_tasks().
 */
#include "gate.h"

#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/uio.h>
#include <asm/syscall.h>
#include <asm/unistd.h>

/* Tasks that are never held: others rely on their progress, or they must not wait here. */
#define SPLIT_NEVER_HELD \
	(PF_KTHREAD | PF_MEMALLOC | PF_MEMALLOC_NOFS | PF_MEMALLOC_NOIO | PF_EXITING)

/* Interval at which it is checked whether calls are still in this module. */
#define SPLIT_DRAIN_MS 10

/* Only the sum counts: a call may end on another CPU than it began on. */
static DEFINE_PER_CPU(long, split_calls_inside);

/* Looking */

/* The hot part: whether a gate of these kinds is closed for a file system. */
static __always_inline bool split_is_closed(const struct super_block *sb, unsigned int kinds)
{
	const struct split_device *device;
	unsigned int at;
	bool closed = false;

	if (!atomic_read(&split_closed_devices) || !sb->s_bdev)
		return false;
	preempt_disable_notrace();
	for (device = split_first(sb->s_bdev, &at); device; device = split_next(sb->s_bdev, &at))
		closed |= READ_ONCE(device->closed) & kinds;
	preempt_enable_notrace();
	return closed;
}

/* Whether to ask a policy about the current task: yes also if its account isn't known yet. */
static bool split_concerns(const struct split_device *device)
{
	const struct split_ops *ops = device->ops;
	const struct split_account *account;

	if (READ_ONCE(device->state) != SPLIT_ATTACHED)
		return false;
	if (!ops->concerns)
		return true;
	account = split_account_recent();
	return !account || ops->concerns(device->data, account);
}

static bool split_may_hold(const struct super_block *sb, unsigned int kinds, bool part)
{
	const struct split_device *device;
	unsigned int at;
	bool may = false;

	if (current->flags & SPLIT_NEVER_HELD || current->journal_info ||
	    fatal_signal_pending(current))
		return false;
	rcu_read_lock();
	for (device = split_first(sb->s_bdev, &at); device; device = split_next(sb->s_bdev, &at))
		may |= READ_ONCE(device->closed) & kinds && split_concerns(device) &&
		       !split_passes(device, sb, part);
	for (device = split_first(sb->s_bdev, &at); device; device = split_next(sb->s_bdev, &at))
		split_note_made(device, !may, part);
	rcu_read_unlock();
	return may;
}

/* Redirects the hooked function's caller to ours; from here on the module must stay. */
static void split_go_to(struct ftrace_regs *regs, void *function)
{
	this_cpu_inc(split_calls_inside);
	sluice_ftrace_redirect(regs, function);
}

/* @part: see split_passes() */
static noinline void split_redirect_part(struct ftrace_regs *regs, const struct super_block *sb,
					 unsigned int kinds, void *function, bool part)
{
	if (split_may_hold(sb, kinds, part))
		split_go_to(regs, function);
}

static void split_redirect(struct ftrace_regs *regs, const struct super_block *sb,
			   unsigned int kinds, void *function)
{
	split_redirect_part(regs, sb, kinds, function, false);
}

static void split_end(void)
{
	this_cpu_dec(split_calls_inside);
}

/* In and out */

/*
 * Return: 0 if the call may run, -EINTR if it was killed, -ERESTARTNOINTR if it must wait for a
 * thaw.
 */
static int split_wait(struct split_call *call)
{
	split_hold_here(call);
	if (READ_ONCE(call->state) != SPLIT_LEFT)
		return 0;
	if (fatal_signal_pending(current) || split_is_cancelled())
		return -EINTR;
	if (split_blocks_freezer() && call->thaws)
		return restart_syscall();
	if (split_held_enough(call))
		split_put_away(call, SPLIT_PAYS);
	return 0;
}

/*
 * A call of the current task, on its stack, has come to a closed gate.  Sleeps while the policy
 * holds it, or arranges that it is made again.  split_leave() must follow, whatever this returns.
 *
 * Return: 0: make the call; -EAGAIN: it had to be held but must not be; -EINTR: it was killed or
 * cancelled; -ERESTARTNOINTR: it will be made again.
 */
static int split_enter(struct split_call *call)
{
	bool nowait = call->nowait;
	int result = 0;

	INIT_LIST_HEAD(&call->node);
	call->task = current;
	call->ioprio = get_current_ioprio();
	call->began = jiffies;
	call->answered = jiffies;
	call->nowait |= call->again;
	call->state = call->nowait ? SPLIT_LET_GO : SPLIT_HELD;
	split_meet(call);
	split_add(call);
	if (!split_ask(call))
		result = call->nowait ? -EAGAIN : split_wait(call);
	if (result == -EAGAIN && !nowait) {
		split_put_away(call, SPLIT_TURNED_AWAY);
		result = restart_syscall();
	}
	if (!result)
		split_demand(call);
	return result;
}

/* A call that was given to split_enter() has returned, with its own result or split_enter()'s. */
static void split_leave(struct split_call *call, ssize_t result)
{
	split_tell(call, result);
	split_del(call);
	split_put(call);
}

/* Where calls are held */

/* A task that dumps core doesn't return to user mode, and has no lock that others need. */
static bool split_dumps_core(void)
{
	return current->flags & PF_DUMPCORE;
}

/*
 * Whether the current task is in a system call that can be made again if it has done nothing yet.
 * fsconfig can't: its context would have failed for good.  What io_uring_enter does itself has no
 * caller that would repeat it.
 */
static bool split_is_syscall(void)
{
	if (current->flags & PF_IO_WORKER || split_dumps_core())
		return false;
	switch (syscall_get_nr(current, current_pt_regs())) {
	case -1:
	case __NR_fsconfig:
	case __NR_io_uring_enter:
		return false;
	default:
		return true;
	}
}

/* Whether the current task is in a system call that writes data from a pipe. */
static bool split_is_splice(void)
{
	if (in_compat_syscall())
		return false;
	switch (syscall_get_nr(current, current_pt_regs())) {
	case __NR_splice:
	case __NR_sendfile:
	case __NR_copy_file_range:
		return true;
	default:
		return false;
	}
}

static bool split_is_fsync(void)
{
	if (in_compat_syscall())
		return false;
	switch (syscall_get_nr(current, current_pt_regs())) {
	case __NR_fsync:
	case __NR_fdatasync:
	case __NR_msync:
		return true;
	default:
		return false;
	}
}

/*
 * A system call may have the lock of the file's position, of a pipe, or of an overlay's inode: then
 * it is made again.  I/O of the kernel's own, as of an overlay that copies a file up, can't be made
 * again, nor can what an overlay does for io_uring or libaio.
 */
static void split_place(struct split_call *call, struct kiocb *iocb, const struct iov_iter *iter)
{
	bool sync = is_sync_kiocb(iocb), kernels = !user_backed_iter(iter);

	call->again = sync && split_is_syscall() && (!kernels || split_is_splice());
	call->locked = !call->again && !split_dumps_core() &&
		       (call->file->f_mode & FMODE_NOACCOUNT || (sync && kernels));
}

/* Writes */

static ssize_t split_write(struct kiocb *iocb, struct iov_iter *from)
{
	struct file *file = iocb->ki_filp;
	struct split_call call = {
		.kind = SPLIT_WRITE,
		.sb = file_inode(file)->i_sb,
		.inode = file_inode(file),
		.file = file,
		.pos = iocb->ki_flags & IOCB_APPEND ? i_size_read(file_inode(file)) : iocb->ki_pos,
		.bytes = iov_iter_count(from),
		.durable = iocb_is_dsync(iocb),
		.direct = iocb->ki_flags & IOCB_DIRECT,
		.nowait = iocb->ki_flags & IOCB_NOWAIT,
		.part = split_is_splice(),
	};
	ssize_t result;

	split_place(&call, iocb, from);
	result = split_enter(&call);
	if (!result)
		result = file->f_op->write_iter(iocb, from);
	split_leave(&call, result);
	split_end();
	return result;
}

void notrace split_at_write(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			    struct ftrace_regs *regs)
{
	struct kiocb *iocb = sluice_ftrace_arg(regs, 0);
	struct super_block *sb = file_inode(iocb->ki_filp)->i_sb;

	if (unlikely(split_is_closed(sb, BIT(SPLIT_WRITE))))
		split_redirect_part(regs, sb, BIT(SPLIT_WRITE), split_write, split_is_splice());
}

/* Reads */

/* What was plugged before a call isn't the call's; what it plugs is sent before it returns. */
static struct blk_plug *split_unplug(struct split_call *call)
{
	struct blk_plug *plug = call->unplug ? current->plug : NULL;

	if (plug)
		blk_finish_plug(plug);
	call->unplug = false;
	return plug;
}

static ssize_t split_read(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *file = iocb->ki_filp;
	struct split_call call = {
		.kind = SPLIT_READ,
		.sb = file_inode(file)->i_sb,
		.inode = file_inode(file),
		.file = file,
		.pos = iocb->ki_pos,
		.bytes = iov_iter_count(to),
		.direct = iocb->ki_flags & IOCB_DIRECT,
		.nowait = iocb->ki_flags & IOCB_NOWAIT,
	};
	struct blk_plug *plug;
	ssize_t result;

	split_place(&call, iocb, to);
	result = split_enter(&call);
	plug = split_unplug(&call);
	if (!result)
		result = file->f_op->read_iter(iocb, to);
	if (plug)
		current->plug = plug;
	split_leave(&call, result);
	split_end();
	return result;
}

void notrace split_at_read(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			   struct ftrace_regs *regs)
{
	struct kiocb *iocb = sluice_ftrace_arg(regs, 0);
	struct super_block *sb = file_inode(iocb->ki_filp)->i_sb;

	if (unlikely(split_is_closed(sb, BIT(SPLIT_READ))))
		split_redirect(regs, sb, BIT(SPLIT_READ), split_read);
}

/* Fsyncs */

static int split_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	struct split_call call = {
		.kind = SPLIT_FSYNC,
		.sb = file_inode(file)->i_sb,
		.inode = file_inode(file),
		.file = file,
		.pos = start,
		.bytes = end == LLONG_MAX ? end : end - start + 1,
		.thaws = !(current->flags & PF_IO_WORKER) && split_is_fsync(),
		.locked = !(current->flags & PF_IO_WORKER) && !split_is_fsync(),
	};
	int result = split_enter(&call);

	if (!result)
		result = file->f_op->fsync(file, start, end, datasync);
	split_leave(&call, result);
	split_end();
	return result;
}

void notrace split_at_fsync(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			    struct ftrace_regs *regs)
{
	struct file *file = sluice_ftrace_arg(regs, 0);
	struct super_block *sb = file_inode(file)->i_sb;

	if (unlikely(split_is_closed(sb, BIT(SPLIT_FSYNC))))
		split_redirect(regs, sb, BIT(SPLIT_FSYNC), split_fsync);
}

/* Syncs of a file system */

static int split_sync(struct super_block *sb, int wait)
{
	struct split_call call = { .kind = SPLIT_SYNC, .sb = sb, .locked = true };
	int result = split_enter(&call);

	if (!result)
		result = sb->s_op->sync_fs(sb, wait);
	split_leave(&call, result);
	split_end();
	return result;
}

void notrace split_at_sync(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			   struct ftrace_regs *regs)
{
	struct super_block *sb = sluice_ftrace_arg(regs, 0);

	if (unlikely(split_is_closed(sb, BIT(SPLIT_SYNC))))
		split_redirect(regs, sb, BIT(SPLIT_SYNC), split_sync);
}

/* Stores to mapped files */

/*
 * Whether the current task is in the kernel for a fault of its own, as far as can be told: the
 * fault's flags don't say here.  The kernel may copy to the map, for a signal, before the task is
 * back.  Then a call that was turned away comes once more, and goes on.
 */
static bool split_is_fault(void)
{
	return !(current->flags & PF_IO_WORKER) &&
	       syscall_get_nr(current, current_pt_regs()) == -1 && !split_is_awaited();
}

/*
 * The fault of a store, before the page becomes dirty, with the process's memory map locked: it
 * must not sleep here.  A fault of the process itself, and so the store, is made again when the
 * task is back.  A fault of the kernel, which copies to the map, goes on.
 */
static vm_fault_t split_store(struct vm_fault *vmf)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	bool again = split_is_fault();
	struct split_call call = {
		.kind = SPLIT_STORE,
		.sb = inode->i_sb,
		.inode = inode,
		.file = vmf->vma->vm_file,
		.pos = (loff_t)vmf->pgoff << PAGE_SHIFT,
		.bytes = PAGE_SIZE,
		.nowait = !again,
		.again = again,
	};
	vm_fault_t fault = VM_FAULT_NOPAGE;
	int result = split_enter(&call);

	if (result == -EAGAIN)
		split_put_away(&call, SPLIT_PAYS);
	if (!again || !result)
		fault = vmf->vma->vm_ops->page_mkwrite(vmf);
	split_leave(&call, result);
	split_end();
	return fault;
}

void notrace split_at_store(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			    struct ftrace_regs *regs)
{
	struct vm_fault *vmf = sluice_ftrace_arg(regs, 0);
	struct super_block *sb = file_inode(vmf->vma->vm_file)->i_sb;

	if (unlikely(split_is_closed(sb, BIT(SPLIT_STORE))))
		split_redirect(regs, sb, BIT(SPLIT_STORE), split_store);
}

/* Changes of names and inodes */

/*
 * Where such a call can be held, before any lock is taken, its kind is only known from the system
 * call that the task is in.  The operations of io_uring, and the calls of a 32-bit process, which
 * have other numbers, aren't told apart.
 */
static enum split_kind split_name_kind(void)
{
	if (in_compat_syscall() || (current->flags & PF_IO_WORKER))
		return SPLIT_CHANGE;
	switch (syscall_get_nr(current, current_pt_regs())) {
	case __NR_open:
	case __NR_openat:
	case __NR_openat2:
	case __NR_creat:
	case __NR_mknod:
	case __NR_mknodat:
	case __NR_link:
	case __NR_linkat:
	case __NR_symlink:
	case __NR_symlinkat:
		return SPLIT_CREAT;
	case __NR_mkdir:
	case __NR_mkdirat:
		return SPLIT_MKDIR;
	case __NR_unlink:
	case __NR_unlinkat:
	case __NR_rmdir:
		return SPLIT_UNLINK;
	case __NR_rename:
	case __NR_renameat:
	case __NR_renameat2:
		return SPLIT_RENAME;
	case __NR_truncate:
	case __NR_ftruncate:
		return SPLIT_TRUNCATE;
	default:
		return SPLIT_CHANGE;
	}
}

/* Asks the policy about a change; an overlay makes it with its directory or file locked. */
static int split_enter_change(struct split_call *call, struct super_block *sb)
{
	call->kind = split_name_kind();
	call->sb = sb;
	call->again = split_is_syscall();
	call->locked = !call->again && !split_dumps_core();
	return split_enter(call);
}

/*
 * The gated function returns before the change begins, and its end isn't seen: leave() means that
 * the change may begin.
 */
static int split_change(struct vfsmount *mnt)
{
	struct split_call call = {};
	int result = split_enter_change(&call, mnt->mnt_sb);

	if (!result)
		result = mnt_want_write(mnt);
	split_leave(&call, result);
	split_end();
	return result;
}

/* The same, of an open file. */
static int split_change_file(struct file *file)
{
	struct split_call call = {};
	int result = split_enter_change(&call, file->f_path.mnt->mnt_sb);

	if (!result)
		result = mnt_want_write_file(file);
	split_leave(&call, result);
	split_end();
	return result;
}

static long split_fallocate(struct file *file, int mode, loff_t offset, loff_t length)
{
	struct split_call call = {};
	long result = split_enter_change(&call, file_inode(file)->i_sb);

	if (!result)
		result = file->f_op->fallocate(file, mode, offset, length);
	split_leave(&call, result);
	split_end();
	return result;
}

/* A change of an open file's size.  The inode is locked, so the call is only ever made again. */
static int split_resize(void *idmap, struct dentry *dentry, struct iattr *attr)
{
	struct inode *inode = d_inode(dentry);
	struct split_call call = {};
	int result = split_enter_change(&call, inode->i_sb);

	if (!result)
		result = inode->i_op->setattr(idmap, dentry, attr);
	split_leave(&call, result);
	split_end();
	return result;
}

static void notrace split_at_change(unsigned long ip, unsigned long parent_ip,
				    struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	struct vfsmount *mnt = sluice_ftrace_arg(regs, 0);

	if (unlikely(split_is_closed(mnt->mnt_sb, SPLIT_NAMES)))
		split_redirect(regs, mnt->mnt_sb, SPLIT_NAMES, split_change);
}

static void notrace split_at_change_file(unsigned long ip, unsigned long parent_ip,
					 struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	struct file *file = sluice_ftrace_arg(regs, 0);
	struct super_block *sb = file->f_path.mnt->mnt_sb;

	if (unlikely(split_is_closed(sb, SPLIT_NAMES)))
		split_redirect(regs, sb, SPLIT_NAMES, split_change_file);
}

void notrace split_at_fallocate(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
				struct ftrace_regs *regs)
{
	struct file *file = sluice_ftrace_arg(regs, 0);
	struct super_block *sb = file_inode(file)->i_sb;

	if (unlikely(split_is_closed(sb, SPLIT_NAMES)))
		split_redirect(regs, sb, SPLIT_NAMES, split_fallocate);
}

void notrace split_at_setattr(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			      struct ftrace_regs *regs)
{
	struct super_block *sb = ((struct dentry *)sluice_ftrace_arg(regs, 1))->d_sb;
	const struct iattr *attr = sluice_ftrace_arg(regs, 2);
	unsigned int valid = attr->ia_valid & (ATTR_SIZE | ATTR_FILE | ATTR_OPEN);

	if (unlikely(split_is_closed(sb, SPLIT_NAMES)) && valid == (ATTR_SIZE | ATTR_FILE) &&
	    split_is_syscall())
		split_redirect(regs, sb, SPLIT_NAMES, split_resize);
}

/* On the way back to user mode */

/*
 * Runs in place of blkcg_maybe_throttle_current(), which is called, without a lock, whenever there
 * is something to do on the way back; the flag causes one more call.
 */
static void split_on_way_back(void)
{
	split_resume();
	set_tsk_thread_flag(current, TIF_NOTIFY_RESUME);
	split_end();
}

static void notrace split_at_way_back(unsigned long ip, unsigned long parent_ip,
				      struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	if (unlikely(split_is_awaited()))
		split_go_to(regs, split_on_way_back);
}

static void split_at_exit(void *unused, struct task_struct *task)
{
	preempt_disable_notrace();
	split_records_exit(task);
	preempt_enable_notrace();
}

struct split_probe split_entry_probes[] = {
	{ .name = "sched_process_exit", .function = split_at_exit },
	{},
};

struct split_hook split_entry_hooks[] = {
	SPLIT_GATE("mnt_want_write", split_at_change),
	SPLIT_GATE("mnt_want_write_file", split_at_change_file),
	SPLIT_GATE("blkcg_maybe_throttle_current", split_at_way_back),
	{},
};

/* No more calls come, so counting one CPU after another never gives less than what is left. */
static bool split_is_drained(void)
{
	long inside = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		inside += READ_ONCE(per_cpu(split_calls_inside, cpu));
	return !inside;
}

/**
 * split_entry_drain() - wait until no call is in this module; the hooks are out
 */
void split_entry_drain(void)
{
	while (!split_is_drained())
		msleep(SPLIT_DRAIN_MS);
	synchronize_rcu_tasks();
}

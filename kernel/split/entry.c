// SPDX-License-Identifier: GPL-2.0-only
/*
 * The gates: hooks at the functions through which calls enter a file system.
 *
 * A hook is an ftrace_ops with leave to change where the hooked function goes on.  It runs
 * on every call, must not sleep, and only looks whether the gate is closed.  If it is, the
 * call goes on in a function of this file, which asks the policy, may sleep, and then makes
 * the original call: through the pointer that the first caller used, so that the hook sees
 * it again and knows it by split_is_inside().
 *
 * The hooks are found by name.  They are in as long as a device has a policy, and are put
 * in and taken out by a work item: both take the locks of ftrace, which must not wait for a
 * frozen queue, and taking out waits for RCU.  It is put off for a while, since to choose
 * another policy is to detach and to attach.
 *
 * Unloading: no hook may be running, which unregister_ftrace_function() sees to; no call may
 * be in a function of this file, or about to, which split_calls_inside counts from the hook
 * to the function's end; and none may be past that, at its very last instructions, for
 * which there is synchronize_rcu_tasks().
 */
#include "core.h"
#include "../compat/ftrace.h"

#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <asm/syscall.h>
#include <asm/unistd.h>

/* How long choosing a policy waits, with the queue frozen, for the hooks to be put in. */
#define SPLIT_HOOKS_MS 5000

/* How long the hooks stay in after the last policy went. */
#define SPLIT_LINGER_MS 1000

/* Tasks whose progress others rely on, or that must not wait where they are. */
#define SPLIT_NEVER_HELD                                                                 \
	(PF_KTHREAD | PF_MEMALLOC | PF_MEMALLOC_NOFS | PF_MEMALLOC_NOIO | PF_EXITING | \
	 PF_DUMPCORE)

static atomic_t split_calls_inside;
static DECLARE_WAIT_QUEUE_HEAD(split_drained);

/* Looking */

/* The hot part: whether a gate of these kinds is closed for a file system. */
static __always_inline bool split_is_closed(const struct super_block *sb, unsigned int kinds)
{
	struct block_device *bdev = sb->s_bdev;
	struct split_device *device;
	bool closed;

	if (!bdev)
		return false;
	preempt_disable_notrace();
	device = split_find(bdev_get_queue(bdev));
	closed = device && (READ_ONCE(device->closed) & kinds);
	preempt_enable_notrace();
	return closed;
}

static bool split_may_hold(void)
{
	return !(current->flags & SPLIT_NEVER_HELD) && !current->journal_info &&
	       !fatal_signal_pending(current) && !split_is_inside();
}

/* Has the hooked function's caller come to ours; from here on the module must stay. */
static noinline void split_redirect(struct ftrace_regs *regs, void *function)
{
	if (!split_may_hold())
		return;
	atomic_inc(&split_calls_inside);
	sluice_ftrace_redirect(regs, function);
}

static void split_end(void)
{
	if (atomic_dec_and_test(&split_calls_inside))
		wake_up(&split_drained);
}

/* Writes */

static ssize_t split_write(struct kiocb *iocb, struct iov_iter *from)
{
	struct file *file = iocb->ki_filp;
	struct split_call call = {
		.kind = SPLIT_WRITE,
		.sb = file_inode(file)->i_sb,
		.inode = file_inode(file),
		.pos = iocb->ki_flags & IOCB_APPEND ? i_size_read(file_inode(file)) : iocb->ki_pos,
		.bytes = iov_iter_count(from),
		.durable = iocb_is_dsync(iocb),
		.nowait = iocb->ki_flags & IOCB_NOWAIT,
	};
	ssize_t result = split_enter(&call);

	if (!result)
		result = file->f_op->write_iter(iocb, from);
	split_leave(&call, result);
	split_end();
	return result;
}

static void notrace split_at_write(unsigned long ip, unsigned long parent_ip,
				   struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	struct kiocb *iocb = sluice_ftrace_arg(regs, 0);

	if (unlikely(split_is_closed(file_inode(iocb->ki_filp)->i_sb, BIT(SPLIT_WRITE))))
		split_redirect(regs, split_write);
}

/* Fsyncs */

static int split_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	struct split_call call = {
		.kind = SPLIT_FSYNC,
		.sb = file_inode(file)->i_sb,
		.inode = file_inode(file),
		.pos = start,
		.bytes = end == LLONG_MAX ? end : end - start + 1,
	};
	int result = split_enter(&call);

	if (!result)
		result = file->f_op->fsync(file, start, end, datasync);
	split_leave(&call, result);
	split_end();
	return result;
}

static void notrace split_at_fsync(unsigned long ip, unsigned long parent_ip,
				   struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	struct file *file = sluice_ftrace_arg(regs, 0);

	if (unlikely(split_is_closed(file_inode(file)->i_sb, BIT(SPLIT_FSYNC))))
		split_redirect(regs, split_fsync);
}

/* Syncs of a file system */

static int split_sync(struct super_block *sb, int wait)
{
	struct split_call call = { .kind = SPLIT_SYNC, .sb = sb };
	int result = split_enter(&call);

	if (!result)
		result = sb->s_op->sync_fs(sb, wait);
	split_leave(&call, result);
	split_end();
	return result;
}

static void notrace split_at_sync(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
				  struct ftrace_regs *regs)
{
	struct super_block *sb = sluice_ftrace_arg(regs, 0);

	if (unlikely(split_is_closed(sb, BIT(SPLIT_SYNC))))
		split_redirect(regs, split_sync);
}

/* Changes of names and inodes */

/*
 * Which call it is isn't known where it can be held, before any lock is taken, but by the
 * system call that the task is in.  io_uring's operations, and a 32-bit process's calls,
 * whose numbers are others, are told apart no further.
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
		return SPLIT_TRUNCATE;
	default:
		return SPLIT_CHANGE;
	}
}

/*
 * The call is here and gone before what it stands for begins, of which it knows no end:
 * what leave() tells is that the change may begin.
 */
static int split_change(struct vfsmount *mnt)
{
	struct split_call call = { .kind = split_name_kind(), .sb = mnt->mnt_sb };
	int result = split_enter(&call);

	if (!result)
		result = mnt_want_write(mnt);
	split_leave(&call, result);
	split_end();
	return result;
}

static void notrace split_at_change(unsigned long ip, unsigned long parent_ip,
				    struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	struct vfsmount *mnt = sluice_ftrace_arg(regs, 0);

	if (unlikely(split_is_closed(mnt->mnt_sb, SPLIT_NAMES)))
		split_redirect(regs, split_change);
}

/* The hooks */

/**
 * struct split_hook - a hooked function
 * @function: its name
 * @ops: the hook
 */
struct split_hook {
	char function[32];
	struct ftrace_ops ops;
};

#define SPLIT_HOOK(name, hook)                                                \
	{                                                                     \
		.function = name, .ops = {                                    \
			.func = hook,                                         \
			.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_PERMANENT \
		}                                                             \
	}

static struct split_hook split_hooks[] = {
	SPLIT_HOOK("ext4_file_write_iter", split_at_write),
	SPLIT_HOOK("ext4_sync_file", split_at_fsync),
	SPLIT_HOOK("ext4_sync_fs", split_at_sync),
	SPLIT_HOOK("mnt_want_write", split_at_change),
};

/**
 * struct split_hooking - whether the hooks are in
 * @lock: guards @users
 * @users: devices with a policy
 * @in: hooks that are in; of the work item alone
 * @result: of the last run of the work item: 0 or a negative error; 1 while it is to run
 * @done: woken when @result is there
 * @work: puts the hooks in if there are users, takes them out if there are none
 * @ext4: whose functions are hooked; it stays loaded
 */
static struct {
	spinlock_t lock; /* guards users */
	unsigned int users;
	unsigned int in;
	int result;
	wait_queue_head_t done;
	struct delayed_work work;
	struct file_system_type *ext4;
} split_hooking;

static void split_take_out_all(void)
{
	while (split_hooking.in)
		WARN_ON_ONCE(unregister_ftrace_function(&split_hooks[--split_hooking.in].ops));
}

static int split_put_in_all(void)
{
	while (split_hooking.in < ARRAY_SIZE(split_hooks)) {
		struct split_hook *hook = &split_hooks[split_hooking.in];
		int err = register_ftrace_function(&hook->ops);

		if (err) {
			pr_err("split: %s is changed by a livepatch or a kprobe already, or ftrace is off (error %d); next: grep %s /sys/kernel/tracing/enabled_functions; sysctl kernel.ftrace_enabled\n",
			       hook->function, err, hook->function);
			split_take_out_all();
			return err;
		}
		split_hooking.in++;
	}
	return 0;
}

static void split_hooks_work(struct work_struct *work)
{
	unsigned int users;
	int result = 0;

	spin_lock(&split_hooking.lock);
	users = split_hooking.users;
	spin_unlock(&split_hooking.lock);
	if (users)
		result = split_put_in_all();
	else
		split_take_out_all();
	WRITE_ONCE(split_hooking.result, result);
	wake_up_all(&split_hooking.done);
}

/**
 * split_hooks_on() - have the hooks in, for one more device
 *
 * Sleeps, SPLIT_HOOKS_MS at most.  Return: 0; -EBUSY, -ETIMEDOUT or another error, which
 * has been explained in the kernel log.
 */
int split_hooks_on(void)
{
	int result;

	spin_lock(&split_hooking.lock);
	split_hooking.users++;
	split_hooking.result = 1;
	spin_unlock(&split_hooking.lock);
	mod_delayed_work(system_unbound_wq, &split_hooking.work, 0);
	if (!wait_event_timeout(split_hooking.done, READ_ONCE(split_hooking.result) <= 0,
				msecs_to_jiffies(SPLIT_HOOKS_MS)))
		pr_err("split: the hooks could not be put in within %u ms; next: try again\n",
		       SPLIT_HOOKS_MS);
	result = READ_ONCE(split_hooking.result);
	if (result)
		split_hooks_off();
	return result > 0 ? -ETIMEDOUT : result;
}

/**
 * split_hooks_off() - a device that split_hooks_on() was called for has no policy any more
 */
void split_hooks_off(void)
{
	spin_lock(&split_hooking.lock);
	if (!--split_hooking.users)
		mod_delayed_work(system_unbound_wq, &split_hooking.work,
				 msecs_to_jiffies(SPLIT_LINGER_MS));
	spin_unlock(&split_hooking.lock);
}

/* Where the hooks belong stays the same until split_forget(), however often they go in. */
static void split_forget(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_hooks); i++)
		ftrace_free_filter(&split_hooks[i].ops);
	module_put(split_hooking.ext4->owner);
}

/**
 * split_hooks_init() - find what is to be hooked
 *
 * Return: 0; -ENODEV or another error if it isn't there, with the reason in the log.
 */
int __init split_hooks_init(void)
{
	unsigned int i;
	int err;

	spin_lock_init(&split_hooking.lock);
	init_waitqueue_head(&split_hooking.done);
	INIT_DELAYED_WORK(&split_hooking.work, split_hooks_work);
	split_hooking.ext4 = get_fs_type("ext4");
	if (!split_hooking.ext4) {
		pr_err("split: there is no ext4, whose calls it gates; next: modprobe ext4\n");
		return -ENODEV;
	}
	for (i = 0; i < ARRAY_SIZE(split_hooks); i++) {
		struct split_hook *hook = &split_hooks[i];

		err = ftrace_set_filter(&hook->ops, hook->function, strlen(hook->function), 1);
		if (err) {
			pr_err("split: this kernel has no function %s to hook (error %d); next: use a kernel that docs/design.md names\n",
			       hook->function, err);
			split_forget();
			return err;
		}
	}
	return 0;
}

/**
 * split_hooks_exit() - take the hooks out, and wait until no call is in this module
 */
void split_hooks_exit(void)
{
	cancel_delayed_work_sync(&split_hooking.work);
	split_take_out_all();
	wait_event(split_drained, !atomic_read(&split_calls_inside));
	synchronize_rcu_tasks();
	split_forget();
}

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
 * Unloading: no hook may be running, which unregister_ftrace_function() sees to; no call may
 * be in a function of this file, or about to, which split_calls_inside counts from the hook
 * to the function's end; and none may be past that, at its very last instructions, for
 * which there is synchronize_rcu_tasks().
 */
#include "core.h"

#include <linux/blkdev.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>
#include <linux/writeback.h>
#include <asm/syscall.h>
#include <asm/unistd.h>

/* Tasks whose progress others rely on, or that must not wait where they are. */
#define SPLIT_NEVER_HELD \
	(PF_KTHREAD | PF_MEMALLOC | PF_MEMALLOC_NOFS | PF_MEMALLOC_NOIO | PF_EXITING | PF_DUMPCORE)

static atomic_t split_calls_inside;
static DECLARE_WAIT_QUEUE_HEAD(split_drained);

/* Looking */

/* The hot part: whether a gate of these kinds is closed for a file system. */
static __always_inline bool split_is_closed(const struct super_block *sb, unsigned int kinds)
{
	struct block_device *bdev;
	struct split_device *device;
	bool closed;

	if (!atomic_read(&split_closed_devices))
		return false;
	bdev = sb->s_bdev;
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
		.file = file,
		.pos = iocb->ki_flags & IOCB_APPEND ? i_size_read(file_inode(file)) : iocb->ki_pos,
		.bytes = iov_iter_count(from),
		.durable = iocb_is_dsync(iocb),
		.direct = iocb->ki_flags & IOCB_DIRECT,
		.nowait = iocb->ki_flags & IOCB_NOWAIT,
	};
	ssize_t result = split_enter(&call);

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

	if (unlikely(split_is_closed(file_inode(iocb->ki_filp)->i_sb, BIT(SPLIT_WRITE))))
		split_redirect(regs, split_write);
}

/* So many pages are looked at. */
#define SPLIT_PAGES_MOST 256

static bool split_is_dirty(struct folio *folio)
{
	return folio_test_dirty(folio) && !folio_test_writeback(folio);
}

static bool split_is_read(struct folio *folio)
{
	return folio_test_uptodate(folio);
}

/* Whether all pages from one to another are there, and to do something with costs nothing. */
static bool split_are_all(struct address_space *mapping, pgoff_t first, pgoff_t last,
			  bool (*is_free)(struct folio *folio))
{
	struct folio *folio;
	bool free = true;

	while (free && first <= last) {
		folio = filemap_get_folio(mapping, first);
		if (IS_ERR_OR_NULL(folio))
			return false;
		free = is_free(folio);
		first = folio->index + folio_nr_pages(folio);
		folio_put(folio);
	}
	return free;
}

bool split_costs_nothing(const struct split_call *call)
{
	pgoff_t first = call->pos >> PAGE_SHIFT;
	pgoff_t last = (call->pos + call->bytes - 1) >> PAGE_SHIFT;

	if (call->durable || call->direct || call->bytes <= 0 || last - first >= SPLIT_PAGES_MOST)
		return false;
	if (call->kind == SPLIT_WRITE)
		return split_are_all(call->inode->i_mapping, first, last, split_is_dirty);
	return call->kind == SPLIT_READ &&
	       split_are_all(call->inode->i_mapping, first, last, split_is_read);
}
EXPORT_SYMBOL_GPL(split_costs_nothing);

/* Reads */

/* What was plugged before a call isn't the call's; what it plugs has gone when it returns. */
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
	ssize_t result = split_enter(&call);
	struct blk_plug *plug = split_unplug(&call);

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

	if (unlikely(split_is_closed(file_inode(iocb->ki_filp)->i_sb, BIT(SPLIT_READ))))
		split_redirect(regs, split_read);
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

void notrace split_at_sync(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			   struct ftrace_regs *regs)
{
	struct super_block *sb = sluice_ftrace_arg(regs, 0);

	if (unlikely(split_is_closed(sb, BIT(SPLIT_SYNC))))
		split_redirect(regs, split_sync);
}

/* Stores to mapped files */

/*
 * Here, after a fault, the kernel itself has who makes too much dirty wait: the page is
 * dirty, and no lock is held but, when the fault was taken a second time, the caller's own
 * mm's.
 */
static void split_store(struct address_space *mapping)
{
	struct split_call call = {
		.kind = SPLIT_STORE,
		.sb = mapping->host->i_sb,
		.inode = mapping->host,
		.bytes = PAGE_SIZE,
	};

	int result = split_enter(&call);

	/* The kernel's own pause belongs to the call: the hook must know it for that. */
	balance_dirty_pages_ratelimited(mapping);
	split_leave(&call, result);
	split_end();
}

/*
 * Whether the current task came into the kernel by a fault; else it is in a system call.  What
 * registers an io_uring's worker has are those of who made it.
 */
static bool split_is_fault(void)
{
	return !(current->flags & PF_IO_WORKER) && syscall_get_nr(current, current_pt_regs()) == -1;
}

static void notrace split_at_balance(unsigned long ip, unsigned long parent_ip,
				     struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	struct address_space *mapping = sluice_ftrace_arg(regs, 0);

	if (unlikely(split_is_closed(mapping->host->i_sb, BIT(SPLIT_STORE))) && split_is_fault())
		split_redirect(regs, split_store);
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

struct split_hook split_entry_hooks[] = {
	SPLIT_GATE("mnt_want_write", split_at_change),
	SPLIT_GATE_MORE("balance_dirty_pages_ratelimited", split_at_balance, BIT(SPLIT_STORE)),
	{},
};

/**
 * split_entry_drain() - wait until no call is in this module; the hooks are out
 */
void split_entry_drain(void)
{
	wait_event(split_drained, !atomic_read(&split_calls_inside));
	synchronize_rcu_tasks();
}

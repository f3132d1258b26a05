// SPDX-License-Identifier: GPL-2.0-only
/*
 * XFS: its gates, and the causes of what it logs.
 *
 * Changes gather in memory (the committed item list) until they are pushed to the log.  From then
 * on what the log is given belongs to all causes that have committed transactions to that push, in
 * proportion to the number of those.  A log's writes are recognised by their flags.  Any task may
 * submit them, so their causes are those of the log (split_log_tag_of_bio()), not of the task.
 *
 * Kernel threads that allocate blocks for a file's data, or note that it has been written, work
 * for the cause that made the file dirty last.
 *
 * Writing the log's changes to their place has no known cause: XFS's buffers aren't in the page
 * cache.
 *
 * A log is identified by its mount.  It is found through the first members of those structures of
 * XFS that are met here (6.1, 6.12 and 7.3: xfs_cil_ctx.cil, xfs_cil.xc_log, xlog.l_mp).  They are
 * read as memory that may be anything, and only compared.  If a kernel has them elsewhere the log
 * has no causes, and tests/guest/split-xfs.sh fails.
 *
 * Source: the split-level paper, section 4.2, which leaves XFS's log without causes.
 */
#include "core.h"

#include <linux/iomap.h>
#include <linux/magic.h>
#include <linux/uaccess.h>

/* What the first member of something points to; NULL if that can't be read. */
static const void *split_first_member(const void *of)
{
	const void *first;

	return of && !get_kernel_nofault(first, (const void *const *)of) ? first : NULL;
}

/* Hooks */

/* The current task has changed what will be logged. */
static void notrace split_at_log_commit(unsigned long ip, unsigned long parent_ip,
					struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	const void *mount = split_first_member(sluice_ftrace_arg(regs, 0));
	bool journal;
	u32 tag;

	preempt_disable_notrace();
	if (mount) {
		tag = split_tag_of_task(&journal);
		split_log(mount, 0, tag, 1, 0);
		causes_put(split_causes, tag);
	}
	preempt_enable_notrace();
}

/* A push is about to write to the log. */
static void notrace split_at_log_write(unsigned long ip, unsigned long parent_ip,
				       struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	const void *push = sluice_ftrace_arg(regs, 0);
	const void *log = split_first_member(split_first_member(push));
	const void *mount = split_first_member(log);

	preempt_disable_notrace();
	if (mount)
		split_log_push(mount, push);
	preempt_enable_notrace();
}

/* A kernel thread works on a file's data from now on. */
static void split_work_for(const struct inode *inode)
{
	u32 tag;

	preempt_disable_notrace();
	if ((current->flags & PF_KTHREAD) && split_is_scheduled(inode->i_sb) &&
	    split_tag_of_inode(inode, &tag))
		split_proxy_begin(tag, false);
	preempt_enable_notrace();
}

/* Writeback of a file begins. */
static void split_at_file(void *unused, struct inode *inode, struct writeback_control *wbc,
			  unsigned long pages)
{
	if (inode->i_sb->s_magic == XFS_SUPER_MAGIC)
		split_work_for(inode);
}

/* It ends. */
static void split_at_file_end(void *unused, struct inode *inode, struct writeback_control *wbc,
			      unsigned long pages)
{
	split_proxy_end(false);
}

/* Data has been written: XFS merges what is done with what is done beside it, and then notes it. */
static void notrace split_at_written(unsigned long ip, unsigned long parent_ip,
				     struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	const struct iomap_ioend *ioend = sluice_ftrace_arg(regs, 0);

	split_work_for(ioend->io_inode);
}

/* And that has been noted. */
static void notrace split_at_noted(unsigned long ip, unsigned long parent_ip,
				   struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	split_proxy_end(false);
}

struct split_hook split_xfs_hooks[] = {
	SPLIT_WATCH("xlog_cil_commit", NULL, split_at_log_commit),
	SPLIT_WATCH("xlog_cil_set_ctx_write_state", NULL, split_at_log_write),
	SPLIT_WATCH("iomap_ioend_try_merge", iomap_ioend_try_merge, split_at_written),
	SPLIT_WATCH("iomap_finish_ioends", iomap_finish_ioends, split_at_noted),
	SPLIT_GATE("xfs_file_write_iter", split_at_write),
	SPLIT_GATE("xfs_file_fsync", split_at_fsync),
	SPLIT_GATE("xfs_fs_sync_fs", split_at_sync),
	SPLIT_GATE("xfs_file_fallocate", split_at_fallocate),
	SPLIT_GATE("xfs_vn_setattr", split_at_setattr),
	SPLIT_GATE_MORE("xfs_file_read_iter", split_at_read, BIT(SPLIT_READ)),
	SPLIT_GATE_MORE("xfs_filemap_page_mkwrite", split_at_store, BIT(SPLIT_STORE)),
	{},
};

struct split_probe split_xfs_probes[] = {
	{ .name = "writeback_single_inode_start", .function = split_at_file },
	{ .name = "writeback_single_inode", .function = split_at_file_end },
	{},
};

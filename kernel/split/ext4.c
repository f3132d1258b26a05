// SPDX-License-Identifier: GPL-2.0-only
/*
 * ext4: its gates, and for which causes its writeback and its journal work.
 *
 * A task that works for others is a proxy (proxy.c) for as long as a tracepoint says so:
 *
 *	writeback	allocates blocks for a file, or notes that they have been written: it
 *			works for the cause that made the file dirty last, until the handle ends
 *	commit		writes the log, from when the transaction can't be changed any more to
 *			the commit's end: it works for all causes that have changed it
 *
 * The causes of a transaction are weighted by what each of them would have had logged alone: every
 * block that the cause has changed, even if others have changed it too, plus a descriptor and a
 * commit record.  So a shared commit is split in the proportion of what each alone causes.
 *
 * A checkpoint writes blocks to their place from whichever task needs room in the log.  Their
 * slots (memory.c) have the causes that changed them in the last transaction, so it needs no proxy.
 *
 * Source: the split-level paper, sections 3.1 and 4.2 (proxies).
 */
#include "core.h"

#include <linux/jbd2.h>
#include <linux/pagemap.h>

/* Blocks that a commit needs besides what it logs: a descriptor and a commit record. */
#define SPLIT_COMMIT_BLOCKS 2

/* Whether this is the first change of a block in its transaction, which jbd2 is about to note. */
static bool split_is_first_change(struct buffer_head *bh)
{
	return !buffer_jbd(bh) || !bh2jh(bh)->b_modified;
}

/* Hooks */

/* The current task has changed a block of metadata, which will be logged. */
static void notrace split_at_dirty_metadata(unsigned long ip, unsigned long parent_ip,
					    struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	handle_t *handle = sluice_ftrace_arg(regs, 0);
	struct buffer_head *bh = sluice_ftrace_arg(regs, 1);
	const transaction_t *transaction = handle->h_transaction;
	const journal_t *journal;
	unsigned int at;

	if (is_handle_aborted(handle))
		return;
	journal = transaction->t_journal;
	preempt_disable_notrace();
	if (split_first(journal->j_fs_dev, &at)) {
		struct folio *folio = page_folio(bh->b_page);
		bool first = split_is_first_change(bh), is_log;
		u32 tag = split_tag_of_task(&is_log);

		if (split_tag_metadata(folio, tag, first) || first)
			split_log(journal, transaction->t_tid, tag, 1, SPLIT_COMMIT_BLOCKS);
		causes_put(split_causes, tag);
	}
	preempt_enable_notrace();
}

/* All changes of a transaction have been made; the current task writes its data and its log. */
static void split_at_commit(void *unused, journal_t *journal, transaction_t *transaction)
{
	u32 tag;

	preempt_disable_notrace();
	split_commit_below(journal->j_dev, SPLIT_COMMIT_BLOCKS * journal->j_blocksize);
	if (split_log_end(journal, transaction->t_tid, &tag))
		split_proxy_begin(tag, true);
	preempt_enable_notrace();
}

static void split_at_end_commit(void *unused, journal_t *journal, transaction_t *transaction)
{
	split_proxy_end(true);
}

/* The current task allocates blocks for a file's dirty data. */
static void split_at_allocate(void *unused, struct inode *inode, void *map)
{
	u32 tag;

	preempt_disable_notrace();
	if (split_has_handle() && split_tag_of_inode(inode, &tag))
		split_proxy_begin(tag, false);
	preempt_enable_notrace();
}

/* A kernel thread notes that a file's data has been written, or is at writeback. */
static void split_at_map(void *unused, struct inode *inode, u32 block, unsigned int length,
			 unsigned int flags)
{
	if (current->flags & PF_KTHREAD)
		split_at_allocate(NULL, inode, NULL);
}

static void split_at_handle_end(void *unused, unsigned long dev, tid_t tid, unsigned int type,
				unsigned int line, int interval, int sync, int requested,
				int dirtied)
{
	split_proxy_end(false);
}

struct split_hook split_ext4_hooks[] = {
	SPLIT_WATCH("jbd2_journal_dirty_metadata", jbd2_journal_dirty_metadata,
		    split_at_dirty_metadata),
	SPLIT_GATE("ext4_file_write_iter", split_at_write),
	SPLIT_GATE("ext4_sync_file", split_at_fsync),
	SPLIT_GATE("ext4_sync_fs", split_at_sync),
	SPLIT_GATE("ext4_fallocate", split_at_fallocate),
	SPLIT_GATE("ext4_setattr", split_at_setattr),
	SPLIT_GATE_MORE("ext4_file_read_iter", split_at_read, BIT(SPLIT_READ)),
	SPLIT_GATE_MORE("ext4_page_mkwrite", split_at_store, BIT(SPLIT_STORE)),
	{},
};

struct split_probe split_ext4_probes[] = {
	{ .name = "jbd2_commit_flushing", .function = split_at_commit },
	{ .name = "jbd2_end_commit", .function = split_at_end_commit },
	{ .name = "jbd2_handle_stats", .function = split_at_handle_end },
	{ .name = "ext4_da_write_pages_extent", .function = split_at_allocate },
	{ .name = "ext4_ext_map_blocks_enter", .function = split_at_map },
	{},
};

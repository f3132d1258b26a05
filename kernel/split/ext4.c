// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who works for whom: writeback and the journal of ext4 do what others have caused.
 *
 * A task that does so is a proxy for as long as a tracepoint says so, and what it causes
 * meanwhile has the tag of those for whom it works:
 *
 *	writeback	allocates blocks for a file, and notes that they have been written:
 *			for who made the file dirty last, until the handle ends
 *	commit		writes the log, from when nobody can change anything any more in the
 *			transaction to the commit's end: for all who have
 *
 * The causes of a transaction are weighted by what each of them would have had logged alone:
 * every block that he has changed in it, though others have changed it too, and a descriptor
 * and a commit record.  So a commit that several share is split in the proportion of what
 * each alone causes.
 *
 * A checkpoint writes blocks to their place from whichever task needs room in the log.  They
 * have slots (memory.c) with who changed them in the last transaction, and need no proxy.
 *
 * Source: the split-level paper, sections 3.1 and 4.2 (proxies).
 */
#include "core.h"

#include <linux/jbd2.h>
#include <linux/pagemap.h>

/* Tasks that are proxies at the same time; one that finds no place acts for itself. */
#define SPLIT_PROXY_BITS 7
#define SPLIT_PROXY_TRIES 8

/* Below this current->journal_info counts handles of a file system without a journal. */
#define SPLIT_NO_JOURNAL 4096

/* Journals are few. */
#define SPLIT_JOURNAL_BITS 4

/* Blocks that a commit needs besides what it logs: a descriptor and a commit record. */
#define SPLIT_COMMIT_BLOCKS 2

/**
 * struct split_proxy - a task that works for others
 * @task: which; SPLIT_TAKEN: it is about to be; the rest is this task's alone
 * @start: when the task began: another one may get its address
 * @tag: for whom, held
 * @journal: what it writes is the log
 */
struct split_proxy {
	struct task_struct *task;
	u64 start;
	u32 tag;
	bool journal;
};

#define SPLIT_TAKEN ((struct task_struct *)1)

/**
 * struct split_transaction - a transaction that is running, or is about to be logged
 * @tid: its number
 * @causes: by blocks
 */
struct split_transaction {
	tid_t tid;
	struct causes causes;
};

/**
 * struct split_journal - a journal on a device with a policy
 * @node: by journal
 * @journal: only ever compared
 * @lock: guards @transaction; in process context only
 * @transaction: by the number's last bit: while one is committed the next is running
 */
struct split_journal {
	struct hlist_node node;
	const journal_t *journal;
	spinlock_t lock; /* guards transaction */
	struct split_transaction transaction[2];
};

static struct split_proxy split_proxies[1 << SPLIT_PROXY_BITS];
/* While there is none nobody looks for it. */
atomic_t split_proxies_active;
static struct hlist_head split_journals[1 << SPLIT_JOURNAL_BITS];
static DEFINE_SPINLOCK(split_journals_lock); /* guards changes of split_journals */

/* Proxies */

/* The current task's place, or one that is free if @task is NULL; NULL if there is none. */
static struct split_proxy *split_proxy(struct task_struct *task)
{
	unsigned int i, at = hash_ptr(current, SPLIT_PROXY_BITS);

	for (i = 0; i < SPLIT_PROXY_TRIES; i++) {
		struct split_proxy *proxy = &split_proxies[(at + i) % ARRAY_SIZE(split_proxies)];

		if (READ_ONCE(proxy->task) == task)
			return proxy;
	}
	return NULL;
}

static void split_proxy_end(struct split_proxy *proxy)
{
	u32 tag = proxy->tag;

	WRITE_ONCE(proxy->task, NULL);
	causes_put(split_causes, tag);
	atomic_dec(&split_proxies_active);
}

static struct split_proxy *split_proxy_find(void)
{
	struct split_proxy *proxy = NULL;

	if (atomic_read(&split_proxies_active))
		proxy = split_proxy(current);
	if (!proxy || proxy->start == current->start_boottime)
		return proxy;
	split_proxy_end(proxy);
	return NULL;
}

/**
 * split_proxy_tag() - for whom the current task works
 * @tag: becomes their tag, to be given to causes_put()
 * @journal: becomes whether the task writes a log
 *
 * In any context of the task.  Return: whether it works for others.
 */
bool split_proxy_tag(u32 *tag, bool *journal)
{
	struct split_proxy *proxy = split_proxy_find();

	if (!proxy)
		return false;
	*tag = proxy->tag;
	*journal = proxy->journal;
	causes_get(split_causes, *tag);
	return true;
}

/* @tag: held, given away. */
static void split_proxy_begin(u32 tag, bool journal)
{
	struct split_proxy *proxy = split_proxy_find();

	if (proxy)
		split_proxy_end(proxy);
	do {
		proxy = split_proxy(NULL);
		if (!proxy) {
			causes_put(split_causes, tag);
			return;
		}
	} while (cmpxchg(&proxy->task, NULL, SPLIT_TAKEN));
	proxy->start = current->start_boottime;
	proxy->tag = tag;
	proxy->journal = journal;
	WRITE_ONCE(proxy->task, current);
	atomic_inc(&split_proxies_active);
}

/* Transactions */

/* Under RCU. */
static struct split_journal *split_journal_find(const journal_t *journal)
{
	struct split_journal *j;

	hlist_for_each_entry_rcu(j, &split_journals[hash_ptr(journal, SPLIT_JOURNAL_BITS)], node)
		if (j->journal == journal)
			return j;
	return NULL;
}

static struct split_journal *split_journal_add(const journal_t *journal)
{
	struct split_journal *j = kzalloc(sizeof(*j), GFP_NOWAIT | __GFP_NOWARN), *other;

	if (!j)
		return NULL;
	j->journal = journal;
	spin_lock_init(&j->lock);
	spin_lock(&split_journals_lock);
	other = split_journal_find(journal);
	if (!other)
		hlist_add_head_rcu(&j->node,
				   &split_journals[hash_ptr(journal, SPLIT_JOURNAL_BITS)]);
	spin_unlock(&split_journals_lock);
	if (other)
		kfree(j);
	return other ?: j;
}

/* One more block that somebody alone would have had logged.  Under RCU. */
static void split_log(const transaction_t *transaction, u32 tag)
{
	const journal_t *journal = transaction->t_journal;
	struct split_journal *j = split_journal_find(journal) ?: split_journal_add(journal);
	struct split_transaction *t;
	unsigned int before;

	if (!j)
		return;
	t = &j->transaction[transaction->t_tid & 1];
	spin_lock(&j->lock);
	if (t->tid != transaction->t_tid) {
		causes_release(split_causes, &t->causes);
		t->tid = transaction->t_tid;
	}
	before = t->causes.count;
	causes_gather(split_causes, &t->causes, tag, 1);
	if (t->causes.count > before)
		causes_gather(split_causes, &t->causes, tag, SPLIT_COMMIT_BLOCKS);
	spin_unlock(&j->lock);
}

/* Takes the causes of a transaction.  Return: their tag, to be given to causes_put(). */
static u32 split_log_end(struct split_journal *j, tid_t tid)
{
	struct split_transaction *t = &j->transaction[tid & 1];
	u32 tag;

	spin_lock(&j->lock);
	if (t->tid != tid)
		causes_release(split_causes, &t->causes);
	tag = causes_tag(split_causes, &t->causes);
	causes_release(split_causes, &t->causes);
	spin_unlock(&j->lock);
	return tag;
}

/* Whether this is the first change of a block in its transaction; as jbd2 is about to note. */
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

	if (is_handle_aborted(handle))
		return;
	preempt_disable_notrace();
	if (split_find(bdev_get_queue(transaction->t_journal->j_fs_dev))) {
		struct folio *folio = page_folio(bh->b_page);
		bool first = split_is_first_change(bh), journal;
		u32 tag = split_tag_of_task(&journal);

		if (split_tag_metadata(folio, tag, first) || first)
			split_log(transaction, tag);
		causes_put(split_causes, tag);
	}
	preempt_enable_notrace();
}

/* All changes of a transaction have been made; the current task writes its data and its log. */
static void split_at_commit(void *unused, journal_t *journal, transaction_t *transaction)
{
	struct split_journal *j;

	preempt_disable_notrace();
	j = split_journal_find(journal);
	if (j)
		split_proxy_begin(split_log_end(j, transaction->t_tid), true);
	preempt_enable_notrace();
}

static void split_at_end_commit(void *unused, journal_t *journal, transaction_t *transaction)
{
	struct split_proxy *proxy = split_proxy_find();

	if (proxy)
		split_proxy_end(proxy);
}

/* The current task allocates blocks for a file's dirty data. */
static void split_at_allocate(void *unused, struct inode *inode, void *map)
{
	u32 tag;

	if ((unsigned long)current->journal_info >= SPLIT_NO_JOURNAL &&
	    split_tag_of_inode(inode, &tag))
		split_proxy_begin(tag, false);
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
	struct split_proxy *proxy = split_proxy_find();

	if (proxy && !proxy->journal)
		split_proxy_end(proxy);
}

struct split_hook split_ext4_hooks[] = {
	SPLIT_WATCH("jbd2_journal_dirty_metadata", jbd2_journal_dirty_metadata,
		    split_at_dirty_metadata),
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

/**
 * split_ext4_off() - forget all journals and proxies; no hook is in any more
 */
void split_ext4_off(void)
{
	struct split_journal *j;
	struct hlist_node *next;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_proxies); i++)
		if (split_proxies[i].task)
			split_proxy_end(&split_proxies[i]);
	for (i = 0; i < ARRAY_SIZE(split_journals); i++) {
		hlist_for_each_entry_safe(j, next, &split_journals[i], node) {
			causes_release(split_causes, &j->transaction[0].causes);
			causes_release(split_causes, &j->transaction[1].causes);
			hlist_del(&j->node);
			kfree(j);
		}
	}
}

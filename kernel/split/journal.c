// SPDX-License-Identifier: GPL-2.0-only
/*
 * Logs, and the causes of what will be logged.
 *
 * The causes of a log's next commit are weighted by how much of it each of them would have had
 * logged alone.
 *
 * Source: the split-level paper, sections 3.1 and 4.2.
 */
#include "dirty.h"

#include "../compat/fs.h"

#include <linux/blkdev.h>
#include <linux/slab.h>

/* Logs are few. */
#define SPLIT_JOURNAL_BITS 4

/* The flags of a write to a log. */
#define SPLIT_LOG_FLAGS (REQ_META | REQ_SYNC | REQ_IDLE)

/**
 * struct split_transaction - a transaction that is running, or is about to be logged
 * @tid: its number
 * @causes: by blocks
 */
struct split_transaction {
	u32 tid;
	struct causes causes;
};

/**
 * struct split_journal - a log on a device with a policy
 * @node: by key
 * @key: what the file system knows it by; only ever compared
 * @lock: guards what follows; taken in any context
 * @transaction: by the last bit of its number: while one is committed the next is running
 * @push: for split_log_push(): the last one; only ever compared
 * @written: some of it has been
 * @tag: of its causes, held if there was one
 */
struct split_journal {
	struct hlist_node node;
	const void *key;
	spinlock_t lock; /* guards what follows */
	struct split_transaction transaction[2];
	const void *push;
	bool written;
	u32 tag;
};

static struct hlist_head split_journals[1 << SPLIT_JOURNAL_BITS];
static DEFINE_SPINLOCK(split_journals_lock); /* guards changes of split_journals */

/* Under RCU. */
static struct split_journal *split_journal_find(const void *key)
{
	struct split_journal *j;

	hlist_for_each_entry_rcu(j, &split_journals[hash_ptr(key, SPLIT_JOURNAL_BITS)], node)
		if (j->key == key)
			return j;
	return NULL;
}

static struct split_journal *split_journal_add(const void *key)
{
	struct split_journal *j = kzalloc(sizeof(*j), GFP_NOWAIT | __GFP_NOWARN), *other;

	if (!j)
		return NULL;
	j->key = key;
	spin_lock_init(&j->lock);
	spin_lock(&split_journals_lock);
	other = split_journal_find(key);
	if (!other)
		hlist_add_head_rcu(&j->node, &split_journals[hash_ptr(key, SPLIT_JOURNAL_BITS)]);
	spin_unlock(&split_journals_lock);
	if (other)
		kfree(j);
	return other ?: j;
}

/**
 * split_log() - something was changed that will be logged
 * @key: the log
 * @tid: the transaction's number; its last bit tells apart the two that aren't written yet
 * @tag: of the cause, held by the caller
 * @weight: how much the cause alone would have had logged
 * @first: and how much more with its first change in the transaction
 *
 * In process context, under RCU.
 */
void split_log(const void *key, u32 tid, u32 tag, u32 weight, u32 first)
{
	struct split_journal *j = split_journal_find(key) ?: split_journal_add(key);
	struct split_transaction *t;
	unsigned long flags;
	unsigned int before;

	if (!j)
		return;
	t = &j->transaction[tid & 1];
	spin_lock_irqsave(&j->lock, flags);
	if (t->tid != tid) {
		causes_release(split_causes, &t->causes);
		t->tid = tid;
	}
	before = t->causes.count;
	causes_gather(split_causes, &t->causes, tag, weight);
	if (first && t->causes.count > before)
		causes_gather(split_causes, &t->causes, tag, first);
	spin_unlock_irqrestore(&j->lock, flags);
}

/* Takes the causes of a transaction.  Return: their tag, held. */
static u32 split_log_take(struct split_journal *j, u32 tid)
{
	struct split_transaction *t = &j->transaction[tid & 1];
	u32 tag;

	lockdep_assert_held(&j->lock);
	if (t->tid != tid)
		causes_release(split_causes, &t->causes);
	tag = causes_tag(split_causes, &t->causes);
	causes_release(split_causes, &t->causes);
	return tag;
}

/**
 * split_log_end() - a transaction can't be changed any more
 * @key: the log
 * @tid: the transaction's number
 * @tag: becomes the tag of all its causes, to be given to causes_put()
 *
 * Under RCU.  Return: whether the log is known.
 */
bool split_log_end(const void *key, u32 tid, u32 *tag)
{
	struct split_journal *j = split_journal_find(key);
	unsigned long flags;

	if (!j)
		return false;
	spin_lock_irqsave(&j->lock, flags);
	*tag = split_log_take(j, tid);
	spin_unlock_irqrestore(&j->lock, flags);
	return true;
}

/**
 * split_log_push() - the log is given all changes made until now
 * @key: the log
 * @push: which push of the log this is; a known one changes nothing
 *
 * For logs whose transactions have the number 0.  Under RCU.
 */
void split_log_push(const void *key, const void *push)
{
	struct split_journal *j = split_journal_find(key);
	unsigned long flags;

	if (!j)
		return;
	spin_lock_irqsave(&j->lock, flags);
	if (j->push != push) {
		if (j->push)
			causes_put(split_causes, j->tag);
		j->push = push;
		j->written = false;
		j->tag = split_log_take(j, 0);
	}
	spin_unlock_irqrestore(&j->lock, flags);
}

/* The causes of a log's write to @bdev.  Under RCU.  Return: whether known; @tag is held then. */
static bool split_log_pushed(const void *key, struct block_device *bdev, u32 *tag)
{
	struct split_journal *j = split_journal_find(key);
	unsigned long flags;
	bool known;

	if (!j)
		return false;
	spin_lock_irqsave(&j->lock, flags);
	known = j->push;
	*tag = j->tag;
	if (known)
		causes_get(split_causes, *tag);
	if (known && !j->written)
		split_commit_below(bdev, 0);
	j->written = true;
	spin_unlock_irqrestore(&j->lock, flags);
	return known;
}

/**
 * split_log_tag_of_bio() - the causes of a write to a file system's log
 * @bio: what is written
 * @flags: its operation's
 * @tag: becomes their tag, to be given to causes_put()
 *
 * In any context, under RCU.  Return: whether it is a log's, and the causes are known.
 */
bool split_log_tag_of_bio(const struct bio *bio, blk_opf_t flags, u32 *tag)
{
	return (flags & SPLIT_LOG_FLAGS) == SPLIT_LOG_FLAGS &&
	       sluice_bdev_is_mounted(bio->bi_bdev) &&
	       split_log_pushed(sluice_bdev_fs_info(bio->bi_bdev), bio->bi_bdev, tag);
}

/**
 * split_journals_off() - forget all logs; no hook is in any more
 */
void split_journals_off(void)
{
	struct split_journal *j;
	struct hlist_node *next;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_journals); i++) {
		hlist_for_each_entry_safe(j, next, &split_journals[i], node) {
			if (j->push)
				causes_put(split_causes, j->tag);
			causes_release(split_causes, &j->transaction[0].causes);
			causes_release(split_causes, &j->transaction[1].causes);
			hlist_del(&j->node);
			kfree(j);
		}
	}
}

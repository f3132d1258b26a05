// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory level: the causes of each dirty page, and what they will cost.
 *
 * Each page frame has a slot of four bytes.  Its low bits are the tag of the causes that made the
 * page's data dirty, plus one; 0 is no tag.  A tagged page is written as its causes' I/O, from
 * whichever task it is written.  The slots exist while a device has a policy, and take 0.1 % of
 * the memory, never more: nothing is allocated where a page becomes dirty.  The high bits say for
 * how many bytes a cost is expected.  Exactly those are settled, even if the folio was split since.
 *
 *	made dirty		its slot gets the tag of the cause
 *	made dirty again	the tag becomes that of all causes since the last submission
 *	submitted		split_insert() takes the tag; what became dirty again since then
 *				keeps it
 *	freed before		its slot is emptied, and what was expected of it is settled
 *
 * The slot of a page that is neither dirty nor being written is old.  It no longer counts, and is
 * cleared when the page is next made dirty, or when accounts become scarce.  A folio of several
 * pages has one slot, its first page's.
 *
 * A slot changes only by atomic exchange.  A task that takes a slot's content owns it.  A task that
 * leaves a tag finds the slot empty, or takes what is there and unites the two.
 *
 * The files that were made dirty last are in a table of fixed size, without a lock or references.
 * It has where their last dirty data ended, which tells whether the next continues there, and the
 * cause, for tasks that change the file's metadata on its behalf later.  A lost entry makes the
 * estimate worse, no more.
 *
 * Source: the split-level paper, sections 3.1, 3.2 and 4.2.
 */
#include "dirty.h"

#include "../compat/timer.h"

#include <linux/jbd2.h>
#include <linux/log2.h>
#include <linux/memory_hotplug.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/vmalloc.h>
#include <linux/writeback.h>

/* Delay before old tags are looked for, when accounts run out. */
#define SPLIT_SWEEP_JIFFIES msecs_to_jiffies(1000)

/* Files that are remembered, as a power of two. */
#define SPLIT_FILE_BITS 10

/**
 * struct split_file - a file that was made dirty
 * @inode: which; only ever compared
 * @tag: of the cause that did it last; not held
 * @cursor: where that dirty data ended
 */
struct split_file {
	const struct inode *inode;
	u32 tag;
	struct cost_cursor cursor;
};

static struct split_file split_files[1 << SPLIT_FILE_BITS];

/* By section of the memory; NULL where there is none.  They change with all hooks off. */
static u32 **split_slots;
static unsigned long split_sections;

static u32 *split_slot(struct folio *folio)
{
	unsigned long pfn = folio_pfn(folio), section = pfn_to_section_nr(pfn);
	u32 *slots = section < split_sections ? split_slots[section] : NULL;

	return slots ? &slots[pfn % PAGES_PER_SECTION] : NULL;
}

static struct split_file *split_file_of(const struct inode *inode)
{
	return &split_files[hash_ptr(inode, SPLIT_FILE_BITS)];
}

/* Slots */

/* What a slot has: a tag plus one, and above it the order of the pages expected, plus one. */
static u32 split_mark(u32 tag, u32 expected)
{
	u32 order = expected ? ilog2(expected >> PAGE_SHIFT) + 1 : 0;

	return order << CAUSES_TAG_BITS | (tag + 1);
}

/* What a slot has of a tag, plus one. */
static u32 split_mark_tag(u32 mark)
{
	return mark & (BIT(CAUSES_TAG_BITS) - 1);
}

/* Takes the tag out of a slot, if any.  @expected: for how many bytes a cost is expected. */
static bool split_take(u32 *slot, u32 *tag, u32 *expected)
{
	u32 taken = READ_ONCE(*slot) ? xchg(slot, 0) : 0;
	u32 order = taken >> CAUSES_TAG_BITS;

	if (!taken)
		return false;
	*tag = split_mark_tag(taken) - 1;
	*expected = order ? PAGE_SIZE << (order - 1) : 0;
	return true;
}

/* Leaves a tag in a slot, with what another task may have left there meanwhile. */
static void split_leave_tag(u32 *slot, u32 tag, u32 expected)
{
	u32 other, more;

	while (cmpxchg(slot, 0, split_mark(tag, expected))) {
		if (!split_take(slot, &other, &more))
			continue;
		tag = causes_unite(split_causes, tag, other);
		causes_put(split_causes, other);
		expected = max(expected, more);
	}
}

/**
 * split_tag_of_inode() - the tag of the cause that made a file dirty last
 * @inode: the file
 * @tag: becomes the tag, to be given to causes_put()
 *
 * In any context.  Return: whether it is known.
 */
bool split_tag_of_inode(const struct inode *inode, u32 *tag)
{
	struct split_file *file = split_file_of(inode);

	*tag = READ_ONCE(file->tag);
	return READ_ONCE(file->inode) == inode && causes_try_get(split_causes, *tag);
}

/* How many blocks of a page are, or are to be, written.  It is locked, or being written. */
static unsigned int split_changes(struct folio *folio)
{
	struct buffer_head *first = folio_buffers(folio), *bh = first;
	unsigned int changes = 0;

	if (!first)
		return 0;
	do {
		changes += buffer_dirty(bh) || buffer_jbddirty(bh) || buffer_locked(bh);
		bh = bh->b_this_page;
	} while (bh != first);
	return changes;
}

/**
 * split_tag_of_metadata() - the tag of a device's own page that is written
 * @q: where it is written to; another disk's page has no tag here
 * @host: of the page
 * @folio: where the data is
 * @bytes: how many are written
 * @tag: becomes the tag, to be given to causes_put()
 *
 * In any context, under RCU.  Return: whether it has one.
 */
bool split_tag_of_metadata(const struct request_queue *q, const struct inode *host,
			   struct folio *folio, u32 bytes, u32 *tag)
{
	u32 *slot = split_slot(folio), expected;

	if (!slot || bdev_get_queue(I_BDEV((struct inode *)host)) != q ||
	    !split_take(slot, tag, &expected))
		return false;
	if (bytes < folio_size(folio) && split_changes(folio) > 1) {
		causes_get(split_causes, *tag);
		split_leave_tag(slot, *tag, expected);
	}
	return true;
}

/**
 * split_tag_of_data() - the tag of a file's page that is written
 * @q: where it is written to; a page of another disk's file has no tag here
 * @host: the file
 * @folio: where the data is
 * @tag: becomes the tag, to be given to causes_put()
 * @expected: becomes how many bytes were expected, which the caller has to settle
 *
 * In any context, under RCU.  Data that has become dirty again since its writing began keeps
 * the tag too, with what is expected of it.  When a folio is submitted in pieces, or has been
 * split, the first piece takes the tag; the others get the tag of the file's last cause.
 *
 * Return: whether it has one.
 */
bool split_tag_of_data(const struct request_queue *q, const struct inode *host, struct folio *folio,
		       u32 *tag, u32 *expected)
{
	struct block_device *bdev = host->i_sb->s_bdev;
	u32 *slot = split_slot(folio);

	/* Without the writeback flag, a process writes directly from a mapped file. */
	if (!slot || !folio_test_writeback(folio) || !bdev || bdev_get_queue(bdev) != q)
		return false;
	if (!split_take(slot, tag, expected))
		return split_tag_of_inode(host, tag);
	if (folio_test_dirty(folio)) {
		causes_get(split_causes, *tag);
		split_leave_tag(slot, *tag, *expected);
		*expected = 0;
	}
	return true;
}

/**
 * split_tag_metadata() - a block of metadata was changed
 * @folio: of the device's page cache, or of a file whose data is logged
 * @tag: of the cause, held by the caller
 * @first: all changes before have been logged, or there was none
 *
 * In any context.  Nothing is expected of it: what a change costs is the journal's bytes.
 *
 * Return: whether the block has a new cause.
 */
bool split_tag_metadata(struct folio *folio, u32 tag, bool first)
{
	u32 *slot = split_slot(folio), former, united, expected;

	if (!slot || split_mark_tag(READ_ONCE(*slot)) == tag + 1)
		return false;
	causes_get(split_causes, tag);
	if (!split_take(slot, &former, &expected)) {
		split_leave_tag(slot, tag, 0);
		return true;
	}
	united = first ? tag : causes_unite(split_causes, former, tag);
	causes_put(split_causes, first ? former : tag);
	split_leave_tag(slot, united, expected);
	return united != former;
}

/* Dirty data */

/* Remembers a file, and the cause that made it dirty last. */
static struct split_file *split_remember(const struct inode *inode, u32 tag)
{
	struct split_file *file = split_file_of(inode);

	if (READ_ONCE(file->inode) != inode) {
		WRITE_ONCE(file->cursor.end, 0);
		WRITE_ONCE(file->inode, inode);
	}
	WRITE_ONCE(file->tag, tag);
	return file;
}

/*
 * Dirty data gets more causes, and all of them share its expected cost.  Consumes the references
 * to both tags.  Return: the tag of all causes.
 */
static u32 split_share(struct block_device *bdev, u32 former, u32 tag, u32 bytes)
{
	u32 united;

	causes_get(split_causes, former);
	united = causes_unite(split_causes, former, tag);
	if (united != former && bytes)
		split_move_below(bdev, former, united, bytes);
	causes_put(split_causes, former);
	causes_put(split_causes, tag);
	return united;
}

/* Whether a slot's causes include the current task's account: it writes over its own data. */
static bool split_is_mine(u32 mark)
{
	struct split_account *account = split_account_recent();
	u32 tag = split_mark_tag(mark);

	if (!account || !tag)
		return false;
	return tag == account->id + 1 || causes_includes(split_causes, tag - 1, account->id);
}

/*
 * The current task has made data of a file dirty, which may have been dirty before.  Under RCU,
 * which keeps the devices and their policies' data.
 */
static noinline void split_dirtied_slot(struct block_device *bdev, const struct inode *inode,
					struct folio *folio, u32 *slot)
{
	bool was_dirty = folio_test_dirty(folio), journal;
	u32 bytes = folio_size(folio), former, expected = 0, tag = split_tag_of_task(&journal);
	struct split_file *file;

	if (was_dirty && split_mark_tag(READ_ONCE(*slot)) == tag + 1) {
		causes_put(split_causes, tag);
		return;
	}
	if (was_dirty) {
		if (split_take(slot, &former, &expected))
			tag = split_share(bdev, former, tag, expected);
		split_leave_tag(slot, tag, expected);
		return;
	}
	file = split_remember(inode, tag);
	if (split_take(slot, &former, &expected)) {
		/* Of data being written whose tag hasn't been taken yet: it is settled here. */
		split_settle_below(bdev, former, expected);
		if (folio_test_writeback(folio))
			tag = split_share(bdev, former, tag, 0);
		else
			causes_put(split_causes, former);
	}
	split_expect_below(bdev, tag, folio_pos(folio), bytes, &file->cursor);
	split_leave_tag(slot, tag, bytes);
}

/* The fast path: data is most often made dirty again by the same account. */
static __always_inline void split_dirtied(struct block_device *bdev, const struct inode *inode,
					  struct folio *folio)
{
	u32 *slot = split_slot(folio);

	if (slot && !(folio_test_dirty(folio) && split_is_mine(READ_ONCE(*slot))))
		split_dirtied_slot(bdev, inode, folio, slot);
}

/* Data that has causes will not be written after all. */
static void split_drop_tag(struct folio *folio, u32 *slot)
{
	struct address_space *mapping = folio_mapping(folio);
	u32 tag, expected;

	if (!split_take(slot, &tag, &expected))
		return;
	if (mapping && mapping->host && mapping->host->i_sb->s_bdev &&
	    !S_ISBLK(mapping->host->i_mode)) {
		preempt_disable_notrace();
		split_settle_below(mapping->host->i_sb->s_bdev, tag, expected);
		preempt_enable_notrace();
	}
	causes_put(split_causes, tag);
}

/* Hooks */

/* Metadata that no journal has was changed. */
static noinline void split_changed(struct folio *folio)
{
	bool journal;
	u32 tag = split_tag_of_task(&journal);

	split_tag_metadata(folio, tag, false);
	causes_put(split_causes, tag);
}

/*
 * A buffer of a file or of metadata is about to become dirty.  The journal's buffers are left to
 * the journal's hooks.
 */
static void split_at_dirty_buffer(void *unused, struct buffer_head *bh)
{
	struct folio *folio = page_folio(bh->b_page);
	struct address_space *mapping = READ_ONCE(folio->mapping);
	unsigned int at;

	preempt_disable_notrace();
	if (!bh->b_bdev || !mapping || buffer_jbd(bh) || !split_first(bh->b_bdev, &at))
		;
	else if (S_ISBLK(mapping->host->i_mode))
		split_changed(folio);
	else
		split_dirtied(bh->b_bdev, mapping->host, folio);
	preempt_enable_notrace();
}

/* A folio of a file system without buffers is about to become dirty. */
static void notrace split_at_dirty_folio(unsigned long ip, unsigned long parent_ip,
					 struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	struct address_space *mapping = sluice_ftrace_arg(regs, 0);
	struct folio *folio = sluice_ftrace_arg(regs, 1);

	preempt_disable_notrace();
	if (split_is_scheduled(mapping->host->i_sb) && !S_ISBLK(mapping->host->i_mode))
		split_dirtied(mapping->host->i_sb->s_bdev, mapping->host, folio);
	preempt_enable_notrace();
}

/* A dirty folio is freed and will not be written: its file is truncated or deleted. */
static void notrace split_at_cancel_dirty(unsigned long ip, unsigned long parent_ip,
					  struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	struct folio *folio = sluice_ftrace_arg(regs, 0);
	u32 *slot = split_slot(folio);

	if (slot)
		split_drop_tag(folio, slot);
}

/* A folio is about to leave the page cache: it is clean, or will not be written. */
static void split_at_delete(void *unused, struct folio *folio)
{
	u32 *slot = split_slot(folio);

	if (slot)
		split_drop_tag(folio, slot);
}

/* A folio's content moves to another folio. */
static void notrace split_at_migrate(unsigned long ip, unsigned long parent_ip,
				     struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	u32 *to = split_slot(sluice_ftrace_arg(regs, 0));
	u32 *from = split_slot(sluice_ftrace_arg(regs, 1));
	u32 tag, expected;

	if (to && from && split_take(from, &tag, &expected))
		split_leave_tag(to, tag, expected);
}

struct split_hook split_memory_hooks[] = {
	SPLIT_WATCH("filemap_dirty_folio", filemap_dirty_folio, split_at_dirty_folio),
	SPLIT_WATCH("__folio_cancel_dirty", __folio_cancel_dirty, split_at_cancel_dirty),
	SPLIT_WATCH("folio_migrate_flags", folio_migrate_flags, split_at_migrate),
	{},
};

struct split_probe split_memory_probes[] = {
	{ .name = "block_dirty_buffer", .function = split_at_dirty_buffer },
	{ .name = "mm_filemap_delete_from_page_cache", .function = split_at_delete },
	{},
};

/* Old tags */

/* Whether a page's tag is for data that is written already.  The caller has a reference to it. */
static bool split_is_old(struct folio *folio)
{
	struct address_space *mapping = folio_mapping(folio);
	bool old;

	if (!mapping || !mapping->host)
		return true;
	if (folio_test_dirty(folio) || folio_test_writeback(folio))
		return false;
	if (!S_ISBLK(mapping->host->i_mode))
		return true;
	if (!folio_trylock(folio))
		return false;
	old = !split_changes(folio);
	folio_unlock(folio);
	return old;
}

static void split_sweep_slot(unsigned long pfn, u32 *slot)
{
	struct page *page = pfn_to_online_page(pfn);
	struct folio *folio = page ? page_folio(page) : NULL;

	if (!folio || !folio_try_get(folio))
		return;
	if (page_folio(page) == folio && split_is_old(folio))
		split_drop_tag(folio, slot);
	folio_put(folio);
}

/* Clears old tags: of pages whose last write wasn't seen they would hold accounts for nothing. */
static void split_sweep(struct work_struct *work)
{
	unsigned long section, i;

	for (section = 0; section < split_sections; section++) {
		u32 *slots = split_slots[section];

		for (i = 0; slots && i < PAGES_PER_SECTION; i++)
			if (READ_ONCE(slots[i]))
				split_sweep_slot(section_nr_to_pfn(section) + i, &slots[i]);
		cond_resched();
	}
}

static DECLARE_DELAYED_WORK(split_sweeper, split_sweep);

/**
 * split_memory_is_scarce() - accounts are about to run out
 *
 * In any context.  Schedules a search for old tags, at most once in SPLIT_SWEEP_JIFFIES.
 */
void split_memory_is_scarce(void)
{
	queue_delayed_work(system_dfl_wq, &split_sweeper, SPLIT_SWEEP_JIFFIES);
}

/* Life of the slots */

static unsigned long split_end_pfn(void)
{
	unsigned long end = 0;
	int node;

	for_each_online_node(node)
		end = max(end, node_end_pfn(node));
	return end;
}

/**
 * split_memory_on() - allocate the slots, before the hooks are put in
 *
 * Sleeps.  Return: 0 or -ENOMEM.
 */
int split_memory_on(void)
{
	unsigned long section, sections = pfn_to_section_nr(split_end_pfn() - 1) + 1;

	split_slots = kvcalloc(sections, sizeof(*split_slots), GFP_KERNEL);
	if (!split_slots)
		return -ENOMEM;
	split_sections = sections;
	for (section = 0; section < sections; section++) {
		if (!pfn_valid(section_nr_to_pfn(section)))
			continue;
		split_slots[section] = vzalloc(PAGES_PER_SECTION * sizeof(u32));
		if (!split_slots[section]) {
			split_memory_off();
			return -ENOMEM;
		}
	}
	return 0;
}

/* Empties a section's slots. */
static void split_memory_drop(u32 *slots)
{
	unsigned long i;
	u32 tag, expected;

	for (i = 0; i < PAGES_PER_SECTION; i++)
		if (split_take(&slots[i], &tag, &expected))
			causes_put(split_causes, tag);
	cond_resched();
}

/**
 * split_memory_off() - free the slots
 *
 * Sleeps.  No hook and no policy uses them any more.
 */
void split_memory_off(void)
{
	unsigned long section;

	cancel_delayed_work_sync(&split_sweeper);
	for (section = 0; section < split_sections; section++) {
		if (split_slots[section])
			split_memory_drop(split_slots[section]);
		vfree(split_slots[section]);
	}
	kvfree(split_slots);
	split_slots = NULL;
	split_sections = 0;
	memset(split_files, 0, sizeof(split_files));
}

/* What the slots take, bytes. */
u64 split_memory_bytes(void)
{
	unsigned long section;
	u64 bytes = split_sections * sizeof(*split_slots);

	for (section = 0; section < split_sections; section++)
		if (split_slots[section])
			bytes += PAGES_PER_SECTION * sizeof(u32);
	return bytes;
}

// SPDX-License-Identifier: GPL-2.0-only
/* What of a call's file is in the page cache, and whether to read or write it costs anything. */
#include "gate.h"

#include <linux/pagemap.h>

/**
 * split_range() - the part of its file that a call is about: an fsync's range, else all
 * @call: a call with an inode
 * @last: becomes the place of the last byte
 *
 * Return: the place of the first byte.
 */
loff_t split_range(const struct split_call *call, loff_t *last)
{
	bool part = call->kind == SPLIT_FSYNC;

	*last = part && call->bytes != LLONG_MAX ? call->pos + call->bytes - 1 : LLONG_MAX;
	return part ? call->pos : 0;
}

/* Without a reference a folio may have been replaced by another one, of any size. */
#define SPLIT_FOLIO_PAGES_MOST 512L

/**
 * struct split_count - pages of a call's range that have a mark in the page cache
 * @pages: number of pages
 * @first: index of the first one
 * @next: index behind the last one
 * @more: there may be more from there on
 */
struct split_count {
	unsigned long pages;
	unsigned long first;
	unsigned long next;
	bool more;
};

/* Counts marked pages, up to a number or slightly beyond. */
static void split_count_marked(const struct split_call *call, xa_mark_t mark, unsigned int most,
			       struct split_count *count)
{
	loff_t end, start = split_range(call, &end);
	XA_STATE(xas, &call->inode->i_mapping->i_pages, start >> PAGE_SHIFT);
	unsigned long pages;
	struct folio *folio;

	*count = (struct split_count){};
	rcu_read_lock();
	xas_for_each_marked(&xas, folio, end >> PAGE_SHIFT, mark) {
		if (xas_retry(&xas, folio) || xa_is_value(folio))
			continue;
		pages = min(folio_nr_pages(folio), SPLIT_FOLIO_PAGES_MOST);
		count->first = count->pages ? count->first : xas.xa_index;
		count->next = xas.xa_index + pages;
		count->pages += pages;
		count->more = count->pages >= most;
		if (count->more)
			break;
	}
	rcu_read_unlock();
}

/*
 * Estimates how many pages are marked in all.  Behind those that were counted they are assumed to
 * be as dense, up to the end of the file.  The page cache has no more than @most of them.
 */
static unsigned long split_extend(const struct split_call *call, const struct split_count *count,
				  unsigned long most)
{
	loff_t end;
	unsigned long last;
	u64 rest;

	split_range(call, &end);
	last = min(end, i_size_read(call->inode) - 1) >> PAGE_SHIFT;
	if (!count->more || (long)last < (long)count->next)
		return count->pages;
	rest = mul_u64_u64_div_u64(last - count->next + 1, count->pages,
				   count->next - count->first);
	return clamp_t(u64, count->pages + rest, count->pages, max(most, count->pages));
}

void split_count_dirt(const struct split_call *call, unsigned int most, struct split_dirt *dirt)
{
	struct split_device *device = call->device;
	struct cost_pending pending = split_pending(device, call->account);
	unsigned long cached = READ_ONCE(call->inode->i_mapping->nrpages);
	struct split_count count;

	split_count_marked(call, PAGECACHE_TAG_WRITEBACK, most, &count);
	dirt->writing = (u64)count.pages << PAGE_SHIFT;
	split_count_marked(call, PAGECACHE_TAG_DIRTY, most, &count);
	/* The account's dirty data on this device is the bound, unless others wrote it. */
	if (pending.bytes >> PAGE_SHIFT >= count.pages)
		cached = min_t(u64, cached, pending.bytes >> PAGE_SHIFT);
	dirt->dirty = (u64)split_extend(call, &count, cached) << PAGE_SHIFT;
	if (call->kind != SPLIT_FSYNC && !count.pages)
		dirt->dirty = pending.bytes;
	dirt->cost = pending.bytes ? mul_u64_u64_div_u64(pending.cost, dirt->dirty, pending.bytes)
				   : cost_data(split_model(device), COST_WRITE, dirt->dirty);
}
EXPORT_SYMBOL_GPL(split_count_dirt);

u64 split_expected(const struct split_call *call)
{
	return split_pending(call->device, call->account).cost;
}
EXPORT_SYMBOL_GPL(split_expected);

/* Number of pages that are looked at. */
#define SPLIT_PAGES_MOST 256

static bool split_is_dirty(struct folio *folio)
{
	return folio_test_dirty(folio) && !folio_test_writeback(folio);
}

static bool split_is_read(struct folio *folio)
{
	return folio_test_uptodate(folio);
}

/* Whether all pages of a range are cached, and to read or write them costs nothing. */
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

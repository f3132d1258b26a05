// SPDX-License-Identifier: GPL-2.0-only
/* The content of a disk, kept sparsely. */
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include "store.h"

/**
 * store_init() - start with an empty store: every byte reads as zero
 * @store: the store
 */
void store_init(struct store *store)
{
	spin_lock_init(&store->lock);
	xa_init(&store->pages);
}

/**
 * store_free() - free all pages; the store is empty again
 * @store: the store, not in use
 */
void store_free(struct store *store)
{
	struct page *page;
	unsigned long index;

	xa_for_each(&store->pages, index, page) __free_page(page);
	xa_destroy(&store->pages);
}

static size_t store_span(u64 at, u64 bytes)
{
	return min_t(u64, bytes, PAGE_SIZE - offset_in_page(at));
}

/* The page of offset @at, made if need be; NULL if there is no memory. */
static struct page *store_page(struct store *store, u64 at)
{
	struct page *page = xa_load(&store->pages, at >> PAGE_SHIFT);
	gfp_t gfp = GFP_NOWAIT | __GFP_NOWARN;

	lockdep_assert_held(&store->lock);
	if (page)
		return page;
	page = alloc_page(gfp | __GFP_ZERO);
	if (!page)
		return NULL;
	if (xa_err(xa_store(&store->pages, at >> PAGE_SHIFT, page, gfp))) {
		__free_page(page);
		return NULL;
	}
	return page;
}

/* Zero a range within one page; a whole page is freed. */
static void store_zero_page(struct store *store, unsigned long index, size_t offset, size_t bytes)
{
	struct page *page = xa_load(&store->pages, index);

	lockdep_assert_held(&store->lock);
	if (!page)
		return;
	if (bytes < PAGE_SIZE) {
		memzero_page(page, offset, bytes);
		return;
	}
	xa_erase(&store->pages, index);
	__free_page(page);
}

/* Write within one page, which zeroes don't need. */
static int store_write_page(struct store *store, u64 at, const void *from, size_t bytes)
{
	struct page *page;

	if (!memchr_inv(from, 0, bytes)) {
		store_zero_page(store, at >> PAGE_SHIFT, offset_in_page(at), bytes);
		return 0;
	}
	page = store_page(store, at);
	if (!page)
		return -ENOMEM;
	memcpy_to_page(page, offset_in_page(at), from, bytes);
	return 0;
}

/**
 * store_write() - write to the store
 * @store: the store
 * @at: offset in bytes
 * @from: the data
 * @bytes: how much; pages of zeroes take no memory, so that large files may be written
 *
 * Context: any.
 * Return: 0, or -ENOMEM; a part may be written then, and the same call may be
 * repeated.
 */
int store_write(struct store *store, u64 at, const void *from, size_t bytes)
{
	unsigned long flags;
	int error = 0;

	spin_lock_irqsave(&store->lock, flags);
	while (bytes && !error) {
		size_t span = store_span(at, bytes);

		error = store_write_page(store, at, from, span);
		at += span;
		from += span;
		bytes -= span;
	}
	spin_unlock_irqrestore(&store->lock, flags);
	return error;
}

/**
 * store_read() - read from the store
 * @store: the store
 * @at: offset in bytes
 * @to: where to
 * @bytes: how much
 *
 * Context: any.
 */
void store_read(struct store *store, u64 at, void *to, size_t bytes)
{
	unsigned long flags;

	spin_lock_irqsave(&store->lock, flags);
	while (bytes) {
		struct page *page = xa_load(&store->pages, at >> PAGE_SHIFT);
		size_t span = store_span(at, bytes);

		if (page)
			memcpy_from_page(to, page, offset_in_page(at), span);
		else
			memset(to, 0, span);
		at += span;
		to += span;
		bytes -= span;
	}
	spin_unlock_irqrestore(&store->lock, flags);
}

/**
 * store_zero() - make a range read as zeroes
 * @store: the store
 * @at: offset in bytes
 * @bytes: how much; ranges that hold no page cost nothing
 *
 * Context: any.
 */
void store_zero(struct store *store, u64 at, u64 bytes)
{
	unsigned long index = at >> PAGE_SHIFT;
	u64 end = at + bytes;
	unsigned long flags;

	spin_lock_irqsave(&store->lock, flags);
	while (at < end && xa_find(&store->pages, &index, (end - 1) >> PAGE_SHIFT, XA_PRESENT)) {
		at = max_t(u64, at, (u64)index << PAGE_SHIFT);
		store_zero_page(store, index, offset_in_page(at), store_span(at, end - at));
		index++;
		at = (u64)index << PAGE_SHIFT;
	}
	spin_unlock_irqrestore(&store->lock, flags);
}

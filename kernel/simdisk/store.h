/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIMDISK_STORE_H
#define SIMDISK_STORE_H

#include <linux/spinlock.h>
#include <linux/xarray.h>

/**
 * struct store - the content of a disk, pages that were never written left out
 * @lock: guards @pages and what is in them; taken from any context
 * @pages: by byte offset / PAGE_SIZE
 */
struct store {
	spinlock_t lock; /* pages and content */
	struct xarray pages;
};

void store_init(struct store *store);
void store_free(struct store *store);
int store_write(struct store *store, u64 at, const void *from, size_t bytes);
void store_read(struct store *store, u64 at, void *to, size_t bytes);
void store_zero(struct store *store, u64 at, u64 bytes);

#endif

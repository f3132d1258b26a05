/* SPDX-License-Identifier: GPL-2.0-only */
/* Dirty state: the causes of dirty pages, and of what a log will have. */
#ifndef SPLIT_DIRTY_H
#define SPLIT_DIRTY_H

#include "stack.h"

bool split_tag_of_inode(const struct inode *inode, u32 *tag);
bool split_tag_of_metadata(const struct request_queue *q, const struct inode *host,
			   struct folio *folio, u32 bytes, u32 *tag);
bool split_tag_of_data(const struct request_queue *q, const struct inode *host, struct folio *folio,
		       u32 *tag, u32 *expected);
bool split_tag_metadata(struct folio *folio, u32 tag, bool first);
void split_memory_is_scarce(void);
int split_memory_on(void);
void split_memory_off(void);
u64 split_memory_bytes(void);

void split_log(const void *key, u32 tid, u32 tag, u32 weight, u32 first);
bool split_log_end(const void *key, u32 tid, u32 *tag);
void split_log_push(const void *key, const void *push);
bool split_log_tag_of_bio(const struct bio *bio, blk_opf_t flags, u32 *tag);
void split_journals_off(void);

/* Tables; each ends with an entry that has no name. */
extern struct split_hook split_memory_hooks[];
extern struct split_probe split_memory_probes[];

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who caused I/O: sets of accounts, each with a weight, shared by all that has the same
 * causes.  Section 3.1 of the split-level paper tags pages and requests with such sets,
 * since a page, a block of metadata, a commit of the journal belong to many.
 *
 * An account is a number below what causes_create() was told.  Whose it is, the caller
 * knows; 0 is for what nobody else can be charged for.  What hangs on a page, a buffer, a
 * request is a tag: CAUSES_TAG_BITS, that name a set and hold it.
 *
 *	struct causes *	a set as it grows: the causes of a commit, or those of a
 *			request's pages; on the stack or in what the caller has
 *	tag		a set that doesn't change any more; equal sets have one tag
 *
 * A set of one account is there from the start, and its tag is the account's number: to
 * tag a page that one account made dirty is an atomic increment, and finds always a place.
 * Other sets are interned in a table of fixed size.  A set leaves it with the last that has
 * its tag.  An account that is in a set with a tag must stay: whoever made the table is told
 * when that begins and when it ends.
 *
 * Memory is bounded, and taken once: 32 bytes for each account, and 24 + 64 or 24 + 512
 * for each other set, by its size.  With the default sizes that is 246 KiB.  What doesn't
 * fit is never lost, but somebody else pays for it:
 *
 *	a set of more than CAUSES_MOST accounts
 *		Who comes new is weighed against the lightest member.  One of the two
 *		stays, with the weight of both, drawn by weight.  That's unbiased: what an
 *		account is expected to pay is what it caused, and who caused more than a
 *		64th is nearly always in.  (D. Ting, Data sketches for disaggregated subset
 *		sum and frequent item estimation, SIGMOD 2018.)
 *	a table without a free place
 *		One member, drawn by weight, stands for the set: the same, with one place.
 *
 * What is split is split exactly: the parts sum to the whole, whatever the weights, and
 * the same set splits the same amount in the same way each time, so that what was
 * charged can be taken back.
 *
 * Locking: all may be called in any context but NMI.  Counts are atomic; the table has a
 * spinlock, taken where a set of several is made or ends, never to take or drop one more
 * tag of a set or to read it.  A struct causes is guarded by its owner.
 */
#ifndef SPLIT_CAUSES_H
#define SPLIT_CAUSES_H

#include "shim.h"

/* A tag has so many bits: what keeps one may use the others. */
#define CAUSES_TAG_BITS 28

/* Accounts in a set.  Most sets have few, so most places are for CAUSES_FEW. */
#define CAUSES_MOST 64
#define CAUSES_FEW 8

/* Sizes for causes_create(). */
#define CAUSES_ACCOUNTS 1024
#define CAUSES_SMALL 2048
#define CAUSES_LARGE 64

/**
 * struct causes_member - one of those who caused something
 * @account: its number
 * @weight: its part, in a unit of the set; not 0
 */
struct causes_member {
	u32 account;
	u32 weight;
};

/**
 * struct causes - a set as it grows
 * @count: members
 * @lot: what is drawn next
 * @member: by account
 *
 * All zeroes is an empty set.
 */
struct causes {
	u32 count;
	u32 lot;
	struct causes_member member[CAUSES_MOST];
};

/**
 * struct causes_split - an amount on its way to the members
 * @amount: what is split
 * @total: weight of all
 * @before: weight of those that have their part
 */
struct causes_split {
	u64 amount;
	u64 total;
	u64 before;
};

struct causes_table;

struct causes_table *causes_create(unsigned int accounts, unsigned int small, unsigned int large,
				   void (*held)(u32 account, bool held));
bool causes_destroy(struct causes_table *table);
unsigned int causes_overflows(const struct causes_table *table);
size_t causes_bytes(unsigned int accounts, unsigned int small, unsigned int large);

void causes_add(struct causes_table *table, struct causes *causes, u32 tag, u32 weight);
void causes_gather(struct causes_table *table, struct causes *causes, u32 tag, u32 weight);
void causes_release(struct causes_table *table, struct causes *causes);

u32 causes_tag(struct causes_table *table, const struct causes *causes);
u32 causes_unite(struct causes_table *table, u32 former, u32 newer);
void causes_get(struct causes_table *table, u32 tag);
bool causes_try_get(struct causes_table *table, u32 tag);
bool causes_includes(const struct causes_table *table, u32 tag, u32 account);
void causes_put(struct causes_table *table, u32 tag);
atomic_t *causes_refs(const struct causes_table *table, u32 account);
void causes_put_many(struct causes_table *table, u32 tag, u32 count);
const struct causes_member *causes_members(const struct causes_table *table, u32 tag,
					   unsigned int *count);

void causes_split(struct causes_split *split, u64 amount, const struct causes_member *member,
		  unsigned int count);
u64 causes_part(struct causes_split *split, u32 weight);

#endif

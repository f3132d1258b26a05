/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The causes of I/O: sets of accounts, each with a weight, shared by all pages and requests with
 * the same causes.  A page, a block of metadata or a commit of the journal may belong to many
 * accounts.  So section 3.1 of the split-level paper tags pages and requests with such sets.
 *
 * An account is a number below the limit given to causes_create().  The caller knows what it
 * stands for; 0 is for I/O that no other account can be charged for.  A page, a buffer or a
 * request has a tag: CAUSES_TAG_BITS bits that name a set and hold it.
 *
 *	struct causes *	a set as it grows: the causes of a commit, or those of a
 *			request's pages; on the stack or in the caller's memory
 *	tag		a set that doesn't change any more; equal sets have one tag
 *
 * A set of one account exists from the start, and its tag is the account's number: to tag a page
 * that one account made dirty is an atomic increment, and never fails.  Other sets are interned in
 * a table of fixed size.  A set leaves it with the last reference to its tag.  An account that is
 * in a tagged set must not be reused: the table's owner is told when that begins and when it ends.
 *
 * Memory is bounded, and allocated once: 32 bytes for each account, and 24 + 64 or 24 + 512 for
 * each other set, by its size.  With the default sizes that is 246 KiB.  A cost that doesn't fit is
 * never lost, but another account pays it:
 *
 *	a set of more than CAUSES_MOST accounts
 *		A newcomer is weighed against the lightest member.  One of the two stays, drawn by
 *		weight, with the weight of both.  That is unbiased: the expected charge of an
 *		account is what it caused.  An account that caused more than 1/64 is nearly always
 *		in the set.  (D. Ting, Data sketches for disaggregated subset sum and frequent
 *		item estimation, SIGMOD 2018.)
 *	a table without a free place
 *		One member, drawn by weight, stands for the set: the same, with one place.
 *
 * An amount is split exactly: the parts sum to the whole, whatever the weights.  The same set
 * splits the same amount in the same way each time, so that a charge can be taken back.
 *
 * Locking: all functions may be called in any context but NMI.  Counts are atomic.  The table has
 * a spinlock, taken where a set of several is made or ends.  It is never taken to read a set, or to
 * take or drop one more reference to its tag.  A struct causes is guarded by its owner.
 */
#ifndef SPLIT_CAUSES_H
#define SPLIT_CAUSES_H

#include "shim.h"

/* Bits of a tag: whatever stores one may use the other bits. */
#define CAUSES_TAG_BITS 28

/* The low bits of a tag are a place in the table: no two tags that are held have the same. */
#define CAUSES_PLACE_BITS 16

/* Accounts in a set.  Most sets have few, so most places are for CAUSES_FEW. */
#define CAUSES_MOST 64
#define CAUSES_FEW 8

/* Sizes for causes_create(). */
#define CAUSES_ACCOUNTS 1024
#define CAUSES_SMALL 2048
#define CAUSES_LARGE 64
#define CAUSES_PLACES (CAUSES_ACCOUNTS + CAUSES_SMALL + CAUSES_LARGE)

/**
 * struct causes_member - one of the accounts that caused something
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
 * @lot: state of the random numbers
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

/* A tag's place in the table. */
static inline u32 causes_place_of(u32 tag)
{
	return tag & (BIT(CAUSES_PLACE_BITS) - 1);
}

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

void causes_split_begin(struct causes_split *split, u64 amount, const struct causes_member *member,
			unsigned int count);
u64 causes_part(struct causes_split *split, u32 weight);

#endif

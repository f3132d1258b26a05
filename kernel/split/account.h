/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Identity, the lowest layer of the framework: accounts, tags, and the causes that tasks work for.
 * Those above it are device.h, dirty.h, request.h, gate.h and core.h, in this order: none uses
 * a higher one.
 */
#ifndef SPLIT_ACCOUNT_H
#define SPLIT_ACCOUNT_H

#include "causes.h"
#include "split.h"

#include <linux/hash.h>
#include <linux/preempt.h>
#include <linux/sched.h>

struct seq_file;

extern struct causes_table *split_causes;
extern struct split_account __rcu *split_accounts[SPLIT_ACCOUNTS];

/* Under RCU, or with preemption off; of an account with a reference. */
static inline struct split_account *split_account_of_id(u32 id)
{
	return rcu_dereference_check(split_accounts[id], rcu_read_lock_any_held());
}

/* Whether a tag is that of one account alone: then it is the account's id. */
static inline bool split_is_account(u32 tag)
{
	return tag < SPLIT_ACCOUNTS;
}

struct split_account *split_account_of_task(void);

/* Accounts that were met last, at different places if the hashes of their causes are. */
#define SPLIT_RECENT_BITS 8
extern struct split_account *split_recent[1 << SPLIT_RECENT_BITS];
extern struct split_account split_others;

/* What disks of device-mapper and md do for themselves: copies, resyncs, metadata of their own. */
#define SPLIT_LAYERS 1U
#define SPLIT_LAYERS_CAUSE 2ULL

/*
 * The account of the current task, without a reference, if it was met lately, else NULL.
 * In any context of the task, under RCU.
 */
static __always_inline struct split_account *split_account_recent(void)
{
	struct split_account *account;
	u64 cause;

	if (current->flags & PF_KTHREAD)
		return &split_others;
	cause = cause_of_task();
	account = READ_ONCE(split_recent[hash_64(cause, SPLIT_RECENT_BITS)]);
	if (!account || account->cause != cause)
		return NULL;
	/* The controller may have been switched off and on: another one has the settings now. */
	return account->css && css_is_dying(account->css) ? NULL : account;
}

/* The current task's account, if it was met lately, as a cause; else NULL.  Under RCU. */
static __always_inline struct split_account *split_account_hold_recent(void)
{
	struct split_account *account = split_account_recent();

	if (!account || !atomic_inc_not_zero(account->held))
		return NULL;
	if (likely(split_account_of_id(account->id) == account))
		return account;
	causes_put(split_causes, account->id);
	return NULL;
}

int split_accounts_init(void (*scarce)(void));
void split_accounts_show(struct seq_file *m);
size_t split_accounts_bytes(void);
void split_accounts_exit(void);

/* Tasks that work for others: while there is none no task looks for one. */
extern atomic_t split_proxies_active;

bool split_proxy_tag(u32 *tag, bool *journal);
bool split_is_proxy(void);
void split_proxy_begin(u32 tag, bool journal);
void split_proxy_end(bool journal);
void split_proxies_off(void);
u32 split_tag_of_task(bool *journal);

#endif

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Accounts: one for each cause (cause.h) that somebody holds a reference to.
 *
 * They are found by their cause under RCU, and by their id in the array, whose lock guards
 * both ways.  The last reference takes an account off both and frees it: what comes later
 * under an old id finds another account, or none, but never freed memory.
 *
 * Memory: one allocation of some 100 bytes for a cause with calls, dirty pages or requests,
 * never waited for.  Without memory a cause shares the account that has no id of its own.
 */
#include "core.h"

#include <linux/hashtable.h>
#include <linux/slab.h>
#include <linux/xarray.h>

/* Some hundred causes are active at once. */
#define SPLIT_ACCOUNT_BITS 8

#define SPLIT_ACCOUNT_GFP (GFP_NOWAIT | __GFP_NOWARN)

static DEFINE_HASHTABLE(split_account_table, SPLIT_ACCOUNT_BITS);
static DEFINE_XARRAY_FLAGS(split_accounts, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);

/* Of those for whom there was no memory; it is never freed. */
static struct split_account split_others = {
	.weight = CAUSE_WEIGHT,
	.refs = REFCOUNT_INIT(1),
};

/* Under RCU. */
static struct split_account *split_account_find(u64 cause)
{
	struct split_account *account;

	hash_for_each_possible_rcu(split_account_table, account, node, cause)
		if (account->cause == cause && refcount_inc_not_zero(&account->refs))
			return account;
	return NULL;
}

static struct split_account *split_account_alloc(u64 cause)
{
	struct split_account *account = kzalloc(sizeof(*account), SPLIT_ACCOUNT_GFP);

	if (!account)
		return NULL;
	account->cause = cause;
	account->weight = cause_weight(cause);
	if (!(cause & CAUSE_CGROUP) && cause != CAUSE_KERNEL)
		account->tgid = current->tgid;
	refcount_set(&account->refs, 1);
	return account;
}

/* Makes an account, unless somebody else has just done so. */
static struct split_account *split_account_add(u64 cause)
{
	struct split_account *account = split_account_alloc(cause), *other;
	unsigned long flags;

	if (!account)
		return NULL;
	xa_lock_irqsave(&split_accounts, flags);
	other = split_account_find(cause);
	if (!other && !__xa_alloc(&split_accounts, &account->id, account, xa_limit_32b,
				  SPLIT_ACCOUNT_GFP)) {
		hash_add_rcu(split_account_table, &account->node, cause);
		other = account;
	}
	xa_unlock_irqrestore(&split_accounts, flags);
	if (other != account)
		kfree(account);
	return other;
}

/**
 * split_account_of_task() - the account of who the current task is
 *
 * In process context, of no kernel thread.  Doesn't sleep.  Return: an account with a
 * reference, never NULL.
 */
struct split_account *split_account_of_task(void)
{
	u64 cause = cause_of_task();
	struct split_account *account;

	rcu_read_lock();
	account = split_account_find(cause) ?: split_account_add(cause);
	rcu_read_unlock();
	if (!account) {
		account = &split_others;
		split_account_get(account);
	}
	WRITE_ONCE(account->ioprio, get_current_ioprio());
	return account;
}

struct split_account *split_account_get(struct split_account *account)
{
	refcount_inc(&account->refs);
	return account;
}
EXPORT_SYMBOL_GPL(split_account_get);

void split_account_put(struct split_account *account)
{
	unsigned long flags;

	if (!refcount_dec_and_lock_irqsave(&account->refs, &split_accounts.xa_lock, &flags))
		return;
	__xa_erase(&split_accounts, account->id);
	hash_del_rcu(&account->node);
	xa_unlock_irqrestore(&split_accounts, flags);
	kfree_rcu(account, rcu);
}
EXPORT_SYMBOL_GPL(split_account_put);

/**
 * split_accounts_show() - write who has an account, one a line
 * @m: for debugfs
 */
void split_accounts_show(struct seq_file *m)
{
	struct split_account *account;
	unsigned long id;

	rcu_read_lock();
	xa_for_each(&split_accounts, id, account) {
		if (account->cause & CAUSE_CGROUP)
			seq_printf(m, "%lu cgroup %llu", id, cause_cgroup_id(account->cause));
		else
			seq_printf(m, "%lu process %d", id, account->tgid);
		seq_printf(m, " weight=%u refs=%u\n", account->weight,
			   refcount_read(&account->refs));
	}
	rcu_read_unlock();
}

/**
 * split_accounts_exit() - the end of all accounts; warns if somebody has one
 */
void split_accounts_exit(void)
{
	WARN_ON_ONCE(!xa_empty(&split_accounts) || refcount_read(&split_others.refs) != 1);
	xa_destroy(&split_accounts);
}

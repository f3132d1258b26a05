// SPDX-License-Identifier: GPL-2.0-only
/*
 * Accounts: one for each cause (cause.h) to which a reference is held.
 *
 * They are found by their cause, and by their id in an array, both under RCU; one lock
 * guards both ways.  The last reference takes an account off both and frees it: what comes
 * later under an old id finds another account, or none, but never freed memory.  Ids are
 * given in turn, so that an old one comes back late.
 *
 * Those that were met last keep a reference in a small table: a process that writes a page, waits
 * until it is on the device and writes the next one doesn't become another account each time.
 *
 * Memory: one allocation of some 100 bytes for a cause with calls, dirty pages or requests,
 * SPLIT_ACCOUNTS of them at most, never waited for.
 */
#include "account.h"

#include <linux/bitmap.h>
#include <linux/cgroup.h>
#include <linux/hashtable.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

/* Ids for all causes; those from here on are kept for cgroups with a rate. */
#define SPLIT_ACCOUNTS_SHARED (SPLIT_ACCOUNTS - CAUSE_PLACES)

/* Of the kept ids, the last ones are for cgroups whose rate an administrator has set. */
#define SPLIT_ACCOUNTS_DELEGATED (SPLIT_ACCOUNTS_SHARED + CAUSE_DELEGATED)

/* When there are more they may be held for nothing. */
#define SPLIT_ACCOUNTS_SCARCE (SPLIT_ACCOUNTS_SHARED / 4 * 3)

/* Some hundred causes are active at once. */
#define SPLIT_ACCOUNT_BITS 8

static DEFINE_HASHTABLE(split_account_table, SPLIT_ACCOUNT_BITS);
static DECLARE_BITMAP(split_account_ids, SPLIT_ACCOUNTS);
static unsigned int split_account_last = SPLIT_LAYERS; /* id that was given last */
static unsigned int split_accounts_used; /* read without the lock to be shown */
static DEFINE_SPINLOCK(split_accounts_lock); /* guards changes of the above and of the array */
static void (*split_accounts_scarce)(void);
struct causes_table *split_causes;
struct split_account *split_recent[1 << SPLIT_RECENT_BITS];

/* Of kernel threads, and of processes without a rate where there is no room; never freed. */
struct split_account split_others = {
	.cause = CAUSE_KERNEL,
	.weight = CAUSE_WEIGHT,
	.refs = REFCOUNT_INIT(1),
};

/* Of threads of device-mapper and md, for what no process has caused; never freed. */
static struct split_account split_layers = {
	.cause = SPLIT_LAYERS_CAUSE,
	.id = SPLIT_LAYERS,
	.weight = CAUSE_WEIGHT,
	.refs = REFCOUNT_INIT(1),
};

struct split_account __rcu *split_accounts[SPLIT_ACCOUNTS] = {
	RCU_INITIALIZER(&split_others),
	RCU_INITIALIZER(&split_layers),
};

module_param_named(layers_weight, split_layers.weight, uint, 0444);
MODULE_PARM_DESC(layers_weight, "weight of what device-mapper and md do for themselves, 1 to 1000");

/* Under RCU. */
static struct split_account *split_account_find(u64 cause)
{
	struct split_account *account;

	hash_for_each_possible_rcu(split_account_table, account, node, cause)
		if (account->cause == cause && !(account->css && css_is_dying(account->css)) &&
		    refcount_inc_not_zero(&account->refs))
			return account;
	return NULL;
}

static void split_account_free(struct split_account *account)
{
	if (account->css)
		css_put(account->css);
	kfree_rcu(account, rcu);
}

static struct split_account *split_account_alloc(u64 cause, struct cgroup_subsys_state *css,
						 gfp_t gfp)
{
	struct split_account *account = kzalloc(sizeof(*account), gfp | __GFP_NOWARN);

	if (!account)
		return NULL;
	account->cause = cause;
	account->css = css;
	account->weight = cause_weight(cause);
	if (css)
		css_get(css);
	else
		account->tgid = current->tgid;
	refcount_set(&account->refs, 1);
	return account;
}

/*
 * The next free id of all causes' after the last one, else one below @end of those that are
 * kept; 0 if there is none.
 */
static unsigned int split_account_id(unsigned int end)
{
	const unsigned int shared = SPLIT_ACCOUNTS_SHARED;
	unsigned int id;

	lockdep_assert_held(&split_accounts_lock);
	id = find_next_zero_bit(split_account_ids, shared, split_account_last + 1);
	if (id >= shared)
		id = find_next_zero_bit(split_account_ids, shared, SPLIT_LAYERS + 1);
	if (id < shared)
		split_account_last = id;
	else
		id = find_next_zero_bit(split_account_ids, end, shared);
	if (id >= end)
		return 0;
	WRITE_ONCE(split_accounts_used, split_accounts_used + 1);
	if (split_accounts_used > SPLIT_ACCOUNTS_SCARCE)
		split_accounts_scarce();
	return id;
}

/* Makes an account with an id below @end, unless another process has just done so. */
static struct split_account *split_account_add(u64 cause, struct cgroup_subsys_state *css,
					       unsigned int end)
{
	gfp_t gfp = end > SPLIT_ACCOUNTS_SHARED ? GFP_ATOMIC : GFP_NOWAIT;
	struct split_account *account = split_account_alloc(cause, css, gfp), *other;
	unsigned long flags;

	if (!account)
		return NULL;
	spin_lock_irqsave(&split_accounts_lock, flags);
	other = split_account_find(cause);
	if (!other)
		account->id = split_account_id(end);
	if (account->id) {
		__set_bit(account->id, split_account_ids);
		account->held = causes_refs(split_causes, account->id);
		rcu_assign_pointer(split_accounts[account->id], account);
		hash_add_rcu(split_account_table, &account->node, cause);
		other = account;
	}
	spin_unlock_irqrestore(&split_accounts_lock, flags);
	if (other != account)
		split_account_free(account);
	return other;
}

/*
 * Makes an account with a reference a cause, instead of the last one there: while it is one,
 * its next request or page has but to count.
 */
static void split_account_keep(struct split_account *account)
{
	struct split_account **recent = &split_recent[hash_64(account->cause, SPLIT_RECENT_BITS)];
	struct split_account *former;

	causes_get(split_causes, account->id);
	former = xchg(recent, account);
	if (former)
		causes_put(split_causes, former->id);
}

/*
 * The account of the nearest cgroup with a rate, for a process that can't have its own: else
 * its I/O would be paid from no bucket.  Accounts that run out can't end the rate of an
 * administrator: no tenant can take the ids that are kept for such cgroups.
 *
 * Under RCU.  Return: an account with a reference, or NULL.
 */
static struct split_account *split_account_above(struct cgroup_subsys_state *css)
{
	struct split_account *account = NULL;
	unsigned int end;
	bool delegated;
	u64 cause;

	for (; !account && css; css = css->parent) {
		cause = cause_limited(&css, &delegated);
		if (!cause)
			return NULL;
		end = delegated ? SPLIT_ACCOUNTS_DELEGATED : SPLIT_ACCOUNTS;
		account = split_account_find(cause) ?: split_account_add(cause, css, end);
	}
	return account;
}

/* Under RCU.  Return: an account with a reference, never NULL. */
static struct split_account *split_account_meet(void)
{
	struct split_account *account = split_account_recent();
	struct cgroup_subsys_state *css;
	u64 cause;

	if (account && refcount_inc_not_zero(&account->refs))
		return account;
	cause = cause_of_current(&css);
	account = split_account_find(cause) ?: split_account_add(cause, css, SPLIT_ACCOUNTS_SHARED);
	if (!account)
		return split_account_above(css) ?: split_account_get(&split_others);
	split_account_keep(account);
	return account;
}

/**
 * split_account_of_task() - the account of the current task
 *
 * In any context of the task, whose I/O priority it notes.
 *
 * Return: an account with a reference, never NULL.
 */
struct split_account *split_account_of_task(void)
{
	struct split_account *account;

	rcu_read_lock();
	account = split_account_meet();
	rcu_read_unlock();
	if (account->id)
		WRITE_ONCE(account->ioprio, get_current_ioprio());
	return account;
}

u32 split_id_of_task(void)
{
	struct split_account *account;
	u32 id;

	rcu_read_lock();
	account = split_account_recent();
	id = account ? account->id : 0;
	rcu_read_unlock();
	return id;
}
EXPORT_SYMBOL_GPL(split_id_of_task);

struct split_account *split_account_get(struct split_account *account)
{
	refcount_inc(&account->refs);
	return account;
}
EXPORT_SYMBOL_GPL(split_account_get);

/* The last reference has gone. */
static void split_account_end(struct split_account *account)
{
	lockdep_assert_held(&split_accounts_lock);
	__clear_bit(account->id, split_account_ids);
	WRITE_ONCE(split_accounts_used, split_accounts_used - 1);
	RCU_INIT_POINTER(split_accounts[account->id], NULL);
	hash_del_rcu(&account->node);
	split_account_free(account);
}

void split_account_put(struct split_account *account)
{
	unsigned long flags;

	if (refcount_dec_not_one(&account->refs))
		return;
	spin_lock_irqsave(&split_accounts_lock, flags);
	if (refcount_dec_and_test(&account->refs))
		split_account_end(account);
	spin_unlock_irqrestore(&split_accounts_lock, flags);
}
EXPORT_SYMBOL_GPL(split_account_put);

/*
 * For causes_create(): an account, not 0, has become a cause, when there is another reference, or
 * is none any more.  In any context.
 */
static void split_account_held(u32 id, bool held)
{
	struct split_account *account;

	rcu_read_lock();
	account = split_account_of_id(id);
	if (held)
		split_account_get(account);
	else
		split_account_put(account);
	rcu_read_unlock();
}

/**
 * split_accounts_show() - write the accounts, one a line
 * @m: for debugfs
 */
void split_accounts_show(struct seq_file *m)
{
	struct split_account *account;
	unsigned int id;

	rcu_read_lock();
	for (id = SPLIT_LAYERS + 1; id < SPLIT_ACCOUNTS; id++) {
		account = rcu_dereference(split_accounts[id]);
		if (!account)
			continue;
		if (account->cause & CAUSE_CGROUP)
			seq_printf(m, "%u cgroup %llu", id, cause_cgroup_id(account->cause));
		else
			seq_printf(m, "%u process %d", id, account->tgid);
		seq_printf(m, " weight=%u refs=%u\n", account->weight,
			   refcount_read(&account->refs));
	}
	rcu_read_unlock();
}

/* What the accounts and their sets take, bytes. */
size_t split_accounts_bytes(void)
{
	return READ_ONCE(split_accounts_used) * sizeof(struct split_account) +
	       causes_bytes(SPLIT_ACCOUNTS, CAUSES_SMALL, CAUSES_LARGE);
}

/**
 * split_accounts_init() - before there is an account
 * @scarce: called, in any context, when many accounts are in use: tags may hold some for nothing
 *
 * Sleeps.  Return: 0, -ENOMEM, or -EINVAL for a module parameter, with the reason in the log.
 */
int __init split_accounts_init(void (*scarce)(void))
{
	if (!split_layers.weight || split_layers.weight > CAUSE_WEIGHT_MAX) {
		pr_err("split: layers_weight is from 1 to %u, not %u; next: modprobe split layers_weight=%u\n",
		       CAUSE_WEIGHT_MAX, split_layers.weight, CAUSE_WEIGHT);
		return -EINVAL;
	}
	split_accounts_scarce = scarce;
	split_causes =
		causes_create(SPLIT_ACCOUNTS, CAUSES_SMALL, CAUSES_LARGE, split_account_held);
	if (!split_causes)
		return -ENOMEM;
	split_others.held = causes_refs(split_causes, 0);
	split_layers.held = causes_refs(split_causes, SPLIT_LAYERS);
	return 0;
}

/**
 * split_accounts_exit() - the end of all accounts; warns if one is in use
 */
void split_accounts_exit(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_recent); i++)
		if (split_recent[i])
			causes_put(split_causes, split_recent[i]->id);
	WARN_ON_ONCE(!bitmap_empty(split_account_ids, SPLIT_ACCOUNTS) ||
		     refcount_read(&split_others.refs) != 1 ||
		     refcount_read(&split_layers.refs) != 1);
	WARN_ON_ONCE(!causes_destroy(split_causes));
}

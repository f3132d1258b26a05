// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tasks that work for others.
 *
 * A task that works for other causes is a proxy for as long as its file system's hooks say so
 * (ext4.c, xfs.c).  What it causes meanwhile has the tag of the causes that it works for.
 *
 * Source: the split-level paper, sections 3.1 and 4.2 (proxies).
 */
#include "account.h"

/* Proxies at a time; a task that finds no place acts for itself. */
#define SPLIT_PROXY_BITS 7
#define SPLIT_PROXY_TRIES 8

/**
 * struct split_proxy - a task that works for others
 * @task: the task; SPLIT_TAKEN: the place is being taken; only this task uses the rest
 * @start: when the task began: another one may get its address
 * @tag: of the causes that it works for, held
 * @journal: what it writes is the log
 */
struct split_proxy {
	struct task_struct *task;
	u64 start;
	u32 tag;
	bool journal;
};

#define SPLIT_TAKEN ((struct task_struct *)1)

static struct split_proxy split_proxies[1 << SPLIT_PROXY_BITS];
atomic_t split_proxies_active;

/* Proxies */

/* The current task's place, or a free one if @task is NULL; NULL if there is none. */
static struct split_proxy *split_proxy_of(struct task_struct *task)
{
	unsigned int i, at = hash_ptr(current, SPLIT_PROXY_BITS);

	for (i = 0; i < SPLIT_PROXY_TRIES; i++) {
		struct split_proxy *proxy = &split_proxies[(at + i) % ARRAY_SIZE(split_proxies)];

		if (READ_ONCE(proxy->task) == task)
			return proxy;
	}
	return NULL;
}

static void split_proxy_drop(struct split_proxy *proxy)
{
	u32 tag = proxy->tag;

	WRITE_ONCE(proxy->task, NULL);
	causes_put(split_causes, tag);
	atomic_dec(&split_proxies_active);
}

static struct split_proxy *split_proxy_find(void)
{
	struct split_proxy *proxy = NULL;

	if (atomic_read(&split_proxies_active))
		proxy = split_proxy_of(current);
	if (!proxy || proxy->start == current->start_boottime)
		return proxy;
	split_proxy_drop(proxy);
	return NULL;
}

/**
 * split_proxy_tag() - the causes that the current task works for
 * @tag: becomes their tag, to be given to causes_put()
 * @journal: becomes whether the task writes a log
 *
 * In any context of the task.  Return: whether it works for others.
 */
bool split_proxy_tag(u32 *tag, bool *journal)
{
	struct split_proxy *proxy = split_proxy_find();

	if (!proxy)
		return false;
	*tag = proxy->tag;
	*journal = proxy->journal;
	causes_get(split_causes, *tag);
	return true;
}

/* Whether the current task works for others; in any context of the task. */
bool split_is_proxy(void)
{
	return split_proxy_find();
}

/**
 * split_proxy_begin() - the current task works for others
 * @tag: of their causes, held; the caller's reference is consumed
 * @journal: whether it writes a log for them
 *
 * In process context, with preemption off.
 */
void split_proxy_begin(u32 tag, bool journal)
{
	struct split_proxy *proxy = split_proxy_find();

	lockdep_assert_preemption_disabled();
	if (proxy)
		split_proxy_drop(proxy);
	do {
		proxy = split_proxy_of(NULL);
		if (!proxy) {
			causes_put(split_causes, tag);
			return;
		}
	} while (cmpxchg(&proxy->task, NULL, SPLIT_TAKEN));
	proxy->start = current->start_boottime;
	proxy->tag = tag;
	proxy->journal = journal;
	WRITE_ONCE(proxy->task, current);
	atomic_inc(&split_proxies_active);
}

/**
 * split_proxy_end() - the current task works for itself again
 * @journal: also if it wrote a log
 */
void split_proxy_end(bool journal)
{
	struct split_proxy *proxy = split_proxy_find();

	if (proxy && (journal || !proxy->journal))
		split_proxy_drop(proxy);
}

/**
 * split_tag_of_task() - the tag of the causes that the current task works for
 * @journal: becomes whether it writes a log for them
 *
 * In any context of the task, under RCU.  Return: a tag, to be given to causes_put().
 */
u32 split_tag_of_task(bool *journal)
{
	struct split_account *account;
	u32 tag;

	*journal = false;
	if (atomic_read(&split_proxies_active) && split_proxy_tag(&tag, journal))
		return tag;
	account = split_account_hold_recent();
	if (likely(account))
		return account->id;
	account = split_account_of_task();
	tag = account->id;
	causes_get(split_causes, tag);
	split_account_put(account);
	return tag;
}

/**
 * split_proxies_off() - forget all proxies; no hook is in any more
 */
void split_proxies_off(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_proxies); i++)
		if (split_proxies[i].task)
			split_proxy_drop(&split_proxies[i]);
}

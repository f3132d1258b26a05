/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of the split framework have of one another; policies use split.h alone. */
#ifndef SLUICE_SPLIT_CORE_H
#define SLUICE_SPLIT_CORE_H

#include "causes.h"
#include "cost.h"
#include "split.h"

#include "../compat/ftrace.h"

#include <linux/hash.h>
#include <linux/percpu-refcount.h>
#include <linux/preempt.h>
#include <linux/rculist.h>

/* Devices with a policy are few. */
#define SPLIT_DEVICE_BITS 4

enum split_device_state {
	SPLIT_ATTACHED,
	SPLIT_EJECTED, /* what isn't about requests and calls isn't called any more */
	SPLIT_DETACHED, /* nor is anything else */
};

/* What a request does. */
enum split_use { SPLIT_READS, SPLIT_DATA, SPLIT_METADATA, SPLIT_LOG, SPLIT_USES };

/**
 * struct split_ledger - an account on a device
 * @lock: guards the rest but @bytes; taken under a policy's lock, and none is taken under it
 * @cause: of the account; what is here of another one is void
 * @tgid: of the account
 * @pending: its dirty data
 * @bytes: its part of what was dispatched
 */
struct split_ledger {
	spinlock_t lock; /* guards what follows, but bytes */
	u64 cause;
	pid_t tgid;
	struct cost_pending pending;
	atomic64_t bytes[SPLIT_USES];
};

/**
 * struct split_device - a queue that has a policy
 * @node: by queue, in split_devices
 * @q: the queue; the key, for the device may outlive it
 * @closed: set of kinds whose gate is closed
 * @state: an enum split_device_state
 * @ops: valid while @state isn't SPLIT_DETACHED
 * @data: for them
 * @model: of @models, the one that is used
 * @ledger: by the account's id
 * @refs: one of the attachment, one of each call in split_calls
 * @let_go: calls that were held and let go; from here on fields are written while it is in use,
 *	    those before it are read at each gate
 * @dropped: calls that were held and left otherwise
 * @costs: what its I/O costs; under the elevator's mutex
 * @models: made from that; one is used
 * @head: where the last request that was dispatched ended; under the policy's lock
 * @log_lock: guards @log; taken in any context
 * @log: what its journals' writes cost
 * @disk: its name
 * @rcu: frees it
 */
struct split_device {
	struct hlist_node node;
	struct request_queue *q;
	unsigned int closed;
	int state;
	const struct split_ops *ops;
	void *data;
	const struct cost_model *model;
	struct split_ledger *ledger;
	struct percpu_ref refs;
	atomic_t let_go ____cacheline_aligned_in_smp;
	atomic_t dropped;
	struct cost_device costs;
	struct cost_model models[2];
	struct cost_cursor head;
	spinlock_t log_lock; /* guards log */
	struct cost_log log;
	char disk[DISK_NAME_LEN];
	struct rcu_head rcu;
};

/* What a device's I/O costs: with preemption off, or under RCU. */
static inline const struct cost_model *split_model(const struct split_device *device)
{
	/* Pairs with split_costs_store(): a model that is found is whole. */
	return smp_load_acquire(&device->model);
}

extern atomic_t split_closed_devices;
extern struct hlist_head split_devices[1 << SPLIT_DEVICE_BITS];

/* Under RCU, or with preemption off.  NULL if the queue has no policy. */
static __always_inline struct split_device *split_find(struct request_queue *q)
{
	struct split_device *device;

	hlist_for_each_entry_rcu(device, &split_devices[hash_ptr(q, SPLIT_DEVICE_BITS)], node)
		if (device->q == q)
			return device;
	return NULL;
}

/* The device of a file system; NULL if it has no policy.  As split_find(). */
static __always_inline struct split_device *split_find_sb(const struct super_block *sb)
{
	return sb->s_bdev ? split_find(bdev_get_queue(sb->s_bdev)) : NULL;
}

extern struct causes_table *split_causes;

enum split_state {
	SPLIT_HELD, /* or the policy is being asked */
	SPLIT_LET_GO, /* by the policy, or was never held */
	SPLIT_LEFT, /* the hold ended otherwise */
};

/*
 * Where a call is held.  All but the first are records, which outlast the call: see resume.c.
 */
enum split_way {
	SPLIT_HERE, /* where it came to the gate */
	SPLIT_TURNED_AWAY, /* on its way back to user mode, to be made again */
	SPLIT_PAYS, /* has gone on; what its task does passes until it is on its way back */
	SPLIT_WAITS, /* it is held, on its way back */
	SPLIT_WAITED, /* was let go: it passes when it is made again */
	SPLIT_MADE, /* that call passes until it is on its way back */
};

/**
 * struct split_bucket - calls whose tasks have the same hash
 * @lock: guards @calls; taken in process context only, and before a policy's lock
 * @calls: by struct split_call's hash
 */
struct split_bucket {
	spinlock_t lock; /* guards calls */
	struct hlist_head calls;
} ____cacheline_aligned_in_smp;

/* Calls at gates are found by their task: seldom two in a bucket, so that it stays with one CPU. */
#define SPLIT_CALL_BITS 10

extern struct split_bucket split_calls[1 << SPLIT_CALL_BITS];

static inline struct split_bucket *split_bucket(struct task_struct *task)
{
	return &split_calls[hash_ptr(task, SPLIT_CALL_BITS)];
}

void split_add(struct split_call *call);
void split_del(struct split_call *call);
bool split_ask(struct split_call *call);
void split_escape(struct split_call *call);
void split_hold_here(struct split_call *call);
void split_demand(struct split_call *call);
void split_tell(struct split_call *call, ssize_t result);
void split_put(struct split_call *call);
int split_enter(struct split_call *call);
void split_leave(struct split_call *call, ssize_t result);

bool split_passes(const struct split_device *device, bool part);
void split_put_away(const struct split_call *call, enum split_way way);
bool split_is_awaited(void);
void split_resume(void);
void split_records_exit(struct task_struct *task);
void split_records_forget(void);
loff_t split_range(const struct split_call *call, loff_t *last);

extern struct split_account __rcu *split_accounts[SPLIT_ACCOUNTS];

/* Under RCU, or with preemption off; of one that somebody has a reference to. */
static inline struct split_account *split_account_of_id(u32 id)
{
	return rcu_dereference_check(split_accounts[id], rcu_read_lock_any_held());
}

/* Whether a tag is that of one account alone, whose id it is. */
static inline bool split_is_account(u32 tag)
{
	return tag < SPLIT_ACCOUNTS;
}

struct split_account *split_account_of_task(void);

/* Accounts that were met last, at different places if the hashes of their causes are. */
#define SPLIT_RECENT_BITS 8
extern struct split_account *split_recent[1 << SPLIT_RECENT_BITS];
extern struct split_account split_others;

/*
 * The account of who the current task is, without a reference, if he was met lately, else
 * NULL.  In any context of the task, under RCU.
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

void split_account_held(u32 id, bool held);

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

/* Notes a request of one account.  Return: whether the account has its place in the ledger. */
static __always_inline bool split_note_account(struct split_device *device,
					       const struct split_account *account, u64 bytes,
					       enum split_use use)
{
	struct split_ledger *ledger = &device->ledger[account->id];

	/* It keeps its place while it is a cause. */
	if (unlikely(smp_load_acquire(&ledger->cause) != account->cause))
		return false;
	atomic64_add(bytes, &ledger->bytes[use]);
	return true;
}

void split_accounts_show(struct seq_file *m);
size_t split_accounts_bytes(void);
void split_accounts_exit(void);

u32 split_tag_of_task(bool *journal);
bool split_tag_of_inode(const struct inode *inode, u32 *tag);
u64 split_settle(struct split_device *device, u32 tag, u64 bytes);
bool split_tag_of_metadata(struct split_device *device, const struct inode *host,
			   struct folio *folio, u32 bytes, u32 *tag);
bool split_tag_of_data(struct split_device *device, const struct inode *host, struct folio *folio,
		       u32 *tag, u32 *expected);
bool split_tag_metadata(struct folio *folio, u32 tag, bool first);
void split_memory_is_scarce(void);
int split_memory_on(void);
void split_memory_off(void);
u64 split_memory_bytes(void);
void split_note(struct split_device *device, u32 tag, u64 bytes, enum split_use use);

extern atomic_t split_proxies_active;

bool split_proxy_tag(u32 *tag, bool *journal);
void split_proxy_begin(u32 tag, bool journal);
void split_proxy_end(bool journal);
void split_proxies_off(void);
void split_log(const void *key, u32 tid, u32 tag, u32 weight, u32 first);
bool split_log_end(const void *key, u32 tid, u32 *tag);
void split_log_push(const void *key, const void *push);
bool split_log_pushed(const void *key, struct request_queue *q, u32 *tag);
bool split_log_tag_of_bio(const struct bio *bio, blk_opf_t flags, u32 *tag);
void split_commit(struct split_device *device, u32 own);

/**
 * struct split_hook - a hooked function
 * @function: its name
 * @address: its own, of a function that modules may call; else NULL until it has been looked up
 * @ops: the hook
 * @more: in only for policies with these kinds of gates; 0: for all
 * @in: it is in
 */
struct split_hook {
	const char *function;
	void *address;
	struct ftrace_ops ops;
	unsigned int more;
	bool in;
};

/**
 * struct split_probe - a tracepoint that is listened to
 * @name: the tracepoint's
 * @function: of the tracepoint's type, with a pointer before the arguments
 * @tracepoint: once it has been found
 * @more: in only for policies that have this among their @more; 0: for all
 * @in: it is listened to
 */
struct split_probe {
	const char *name;
	void *function;
	struct tracepoint *tracepoint;
	unsigned int more;
	bool in;
};

/* Has a hooked function go on elsewhere: one such hook per function in the whole kernel. */
#define SPLIT_GATE(name, hook)                                                      \
	{                                                                           \
		.function = name,                                                   \
		.ops = {.func = hook,                                               \
			.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_PERMANENT } \
	}

/* The same, only for policies that have such a gate. */
#define SPLIT_GATE_MORE(name, hook, kinds)                                          \
	{                                                                           \
		.function = name, .more = kinds,                                    \
		.ops = {.func = hook,                                               \
			.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_PERMANENT } \
	}

/* Sees a function's arguments. */
#define SPLIT_WATCH(name, at, hook)                        \
	{                                                  \
		.function = name, .address = at,           \
		.ops = {.func = hook,                      \
			.flags = FTRACE_OPS_FL_PERMANENT } \
	}

/* Each ends with one that has no name. */
extern struct split_hook split_entry_hooks[];
extern struct split_probe split_entry_probes[];
extern struct split_hook split_memory_hooks[];
extern struct split_hook split_ext4_hooks[];
extern struct split_hook split_xfs_hooks[];
extern struct split_probe split_memory_probes[];
extern struct split_probe split_ext4_probes[];
extern struct split_probe split_xfs_probes[];
extern struct split_probe split_block_probes[];

/* The gates of calls, which each file system has at functions of its own. */
void split_at_write(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
		    struct ftrace_regs *regs);
void split_at_read(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
		   struct ftrace_regs *regs);
void split_at_store(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
		    struct ftrace_regs *regs);
void split_at_fsync(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
		    struct ftrace_regs *regs);
void split_at_sync(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
		   struct ftrace_regs *regs);
void split_at_fallocate(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			struct ftrace_regs *regs);
void split_at_setattr(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
		      struct ftrace_regs *regs);
void split_entry_drain(void);

int split_hooks_on(unsigned int more);
void split_hooks_off(unsigned int more);
int split_hooks_init(void);
void split_hooks_exit(void);

#endif

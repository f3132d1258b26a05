/* SPDX-License-Identifier: GPL-2.0-only */
/* Devices with a policy: where they are found, what each account has there, what I/O costs. */
#ifndef SPLIT_DEVICE_H
#define SPLIT_DEVICE_H

#include "account.h"
#include "learn.h"

#include <linux/percpu-refcount.h>
#include <linux/rculist.h>

/* Devices with a policy are few. */
#define SPLIT_DEVICE_BITS 4

enum split_device_state {
	SPLIT_ATTACHED,
	SPLIT_EJECTED, /* only the functions for requests and calls are called */
	SPLIT_DETACHED, /* none is called */
};

/* What a request does. */
enum split_use { SPLIT_READS, SPLIT_DATA, SPLIT_METADATA, SPLIT_LOG, SPLIT_USES };

/**
 * struct split_ledger - an account's ledger on a device
 * @lock: guards the rest but @bytes; taken under a policy's lock, and none is taken under it
 * @cause: of the account; the content of another account is void
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
 * @q: the queue; only a key, since the device may outlive it
 * @closed: set of kinds whose gates are closed
 * @state: an enum split_device_state
 * @below: it has been below a disk of device-mapper or md
 * @ops: valid while @state isn't SPLIT_DETACHED
 * @data: for @ops
 * @model: made from @costs; read without the lock
 * @ledger: by the account's id
 * @refs: one of the attachment, one of each call in split_calls
 * @let_go: calls that were held and let go; this and later fields are written while the device is
 *	    in use, earlier ones are only read, at each gate
 * @dropped: calls that were held and left otherwise
 * @any_writeback: a held call starts writeback of other files than its own
 * @inside: requests that it has, in SPLIT_INSIDE_ONE, and what these cost when they were given, in
 *	    256 normalised bytes; this and @done_ns are written at each one's end
 * @done_ns: when the last of them was done; unless reads need not be told
 * @rests: until then reads need not be told to @learn, in jiffies; written with @costs_lock, and
 *	   read without it
 * @costs_lock: guards what follows, to @given_ns, and changes of @model; taken under a policy's
 *		lock, and none is taken under it
 * @learns: what its I/O costs is learned
 * @costs: what it costs
 * @looked: the same when @costs_changed was last counted
 * @learn: learns that
 * @costs_changed: how often a figure has changed by more than an eighth; read without the lock
 * @given_ns: when it was given a request
 * @head: where the last dispatched request ended; under the policy's lock
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
	bool below;
	const struct split_ops *ops;
	void *data;
	struct cost_model model;
	struct split_ledger *ledger;
	struct percpu_ref refs;
	atomic_t let_go ____cacheline_aligned_in_smp;
	atomic_t dropped;
	atomic_t any_writeback;
	atomic64_t inside ____cacheline_aligned_in_smp;
	u64 done_ns;
	unsigned long rests;
	spinlock_t costs_lock ____cacheline_aligned_in_smp; /* guards what follows, to given_ns */
	bool learns;
	struct cost_device costs;
	struct cost_device looked;
	struct learn learn;
	unsigned int costs_changed;
	u64 given_ns;
	struct cost_cursor head;
	spinlock_t log_lock; /* guards log */
	struct cost_log log;
	char disk[DISK_NAME_LEN];
	struct rcu_head rcu;
};

static inline const struct cost_model *split_model(const struct split_device *device)
{
	return &device->model;
}

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

#define SPLIT_INSIDE_ONE BIT_ULL(40)

/* How many requests a device has. */
static inline unsigned int split_inside_count(const struct split_device *device)
{
	return atomic64_read(&device->inside) / SPLIT_INSIDE_ONE;
}

/* Whether reads need not be told to what learns. */
static __always_inline bool split_rests(const struct split_device *device)
{
	return time_before(jiffies, READ_ONCE(device->rests));
}

void split_costs_look(struct split_device *device);

/* A device has done a request, as split_costs_given() was told.  In any context, under RCU. */
static __always_inline void split_costs_done(struct split_device *device, u32 price)
{
	if (!split_rests(device))
		split_costs_look(device);
	atomic64_sub(SPLIT_INSIDE_ONE + price, &device->inside);
}

void split_costs_init(struct split_device *device, struct request_queue *q);
void split_costs_given(struct split_device *device, const struct cost_terms *terms, u32 price);
void split_costs_flush(struct split_device *device, enum split_flush what);
void split_costs_line(struct split_device *device, struct seq_file *m);
struct split_device *split_device_alloc(struct request_queue *q, const struct split_ops *ops,
					void *data);
void split_device_free(struct split_device *device);
void split_device_add(struct split_device *device);
void split_device_remove(struct split_device *device);
void split_expect(struct split_device *device, u32 tag, u64 bytes, u64 cost);
u64 split_settle(struct split_device *device, u32 tag, u64 bytes);
void split_void(struct split_device *device);
void split_note(struct split_device *device, u32 tag, u64 bytes, enum split_use use);
void split_commit(struct split_device *device, u32 own);
u64 split_cost_of_log(struct split_device *device, u32 bytes, u64 cost);
u64 split_cost_of_demand(struct split_device *device);
struct cost_pending split_pending(struct split_device *device, const struct split_account *account);
void split_devices_show(struct seq_file *m,
			void (*show)(struct split_device *device, struct seq_file *m));
void split_ledger_show(struct split_device *device, struct seq_file *m);
u64 split_devices_bytes(void);

#endif

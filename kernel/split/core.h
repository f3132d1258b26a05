/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of the split framework have of one another; policies use split.h alone. */
#ifndef SLUICE_SPLIT_CORE_H
#define SLUICE_SPLIT_CORE_H

#include "split.h"

#include <linux/hash.h>
#include <linux/preempt.h>
#include <linux/rculist.h>

/* Devices with a policy are few. */
#define SPLIT_DEVICE_BITS 4

/**
 * struct split_device - a queue that has a policy
 * @node: by queue, in split_devices
 * @q: the queue; the key, for the device may outlive it
 * @closed: set of kinds whose gate is closed
 * @state: an enum split_device_state
 * @ops: valid while @state isn't SPLIT_DETACHED
 * @data: for them
 * @refs: one of the attachment, one of each call in split_calls
 * @let_go: calls that were held and let go
 * @dropped: calls that were held and left otherwise
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
	refcount_t refs;
	atomic_t let_go;
	atomic_t dropped;
	char disk[DISK_NAME_LEN];
	struct rcu_head rcu;
};

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

bool split_is_inside(void);
int split_enter(struct split_call *call);
void split_leave(struct split_call *call, ssize_t result);

struct split_account *split_account_of_task(void);
void split_accounts_show(struct seq_file *m);
void split_accounts_exit(void);

int split_hooks_on(void);
void split_hooks_off(void);
int split_hooks_init(void);
void split_hooks_exit(void);

#endif

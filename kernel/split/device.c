// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices with a policy: where they are found, what each account has on them, and what their I/O
 * costs.
 *
 * A device is found by its queue, under RCU.  It stays until its last reference and a grace
 * period are over.
 *
 * What an account is expected to pay for its dirty data is in a ledger, by bytes and not by pages:
 * dirty data has one tag, and each member of the tag is charged its part.
 *
 * Source: the split-level paper, section 3.2.
 */
#include "device.h"

#include <linux/blkdev.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

/* Capacity assumed for a device that has none yet, bytes. */
#define SPLIT_CAPACITY BIT_ULL(40)

struct hlist_head split_devices[1 << SPLIT_DEVICE_BITS] __read_mostly;
static DEFINE_SPINLOCK(split_devices_lock); /* guards changes of split_devices */

/* Life of a device */

static void split_device_free_rcu(struct rcu_head *rcu)
{
	struct split_device *device = container_of(rcu, struct split_device, rcu);

	percpu_ref_exit(&device->refs);
	kvfree(device->ledger);
	kfree(device);
}

static void split_release(struct percpu_ref *refs)
{
	struct split_device *device = container_of(refs, struct split_device, refs);

	call_rcu(&device->rcu, split_device_free_rcu);
}

/* Default costs, by what the kernel knows of the device: an empty one may become any size. */
static int split_init_costs(struct split_device *device, struct request_queue *q)
{
	u64 capacity = get_capacity(q->disk) << SECTOR_SHIFT;
	enum cost_kind kind = blk_queue_nonrot(q) ? COST_FLASH : COST_ROTATING;
	unsigned int i;
	int err;

	device->ledger = kvcalloc(SPLIT_ACCOUNTS, sizeof(*device->ledger), GFP_KERNEL);
	if (!device->ledger)
		return -ENOMEM;
	for (i = 0; i < SPLIT_ACCOUNTS; i++)
		spin_lock_init(&device->ledger[i].lock);
	device->costs = cost_class_default(kind, capacity ?: SPLIT_CAPACITY);
	err = cost_init(&device->model, &device->costs);
	if (err)
		return err;
	split_costs_init(device, q);
	return percpu_ref_init(&device->refs, split_release, 0, GFP_KERNEL);
}

/**
 * split_device_alloc() - make a device that is found by no queue yet
 * @q: its queue
 * @ops: its policy
 * @data: for the policy
 *
 * Sleeps, and waits for no I/O: the queue may be frozen.
 *
 * Return: the device, or an ERR_PTR().
 */
struct split_device *split_device_alloc(struct request_queue *q, const struct split_ops *ops,
					void *data)
{
	unsigned int flags = memalloc_noio_save();
	struct split_device *device = kzalloc(sizeof(*device), GFP_KERNEL);
	int err = device ? split_init_costs(device, q) : -ENOMEM;

	memalloc_noio_restore(flags);
	if (!device)
		return ERR_PTR(err);
	if (err) {
		split_device_free(device);
		return ERR_PTR(err);
	}
	spin_lock_init(&device->log_lock);
	device->q = q;
	device->ops = ops;
	device->data = data;
	strscpy(device->disk, q->disk->disk_name, sizeof(device->disk));
	return device;
}

/**
 * split_device_free() - free a device that was never added
 * @device: what split_device_alloc() returned
 */
void split_device_free(struct split_device *device)
{
	split_device_free_rcu(&device->rcu);
}

/**
 * split_device_add() - have a device found by its queue
 * @device: what split_device_alloc() returned
 */
void split_device_add(struct split_device *device)
{
	spin_lock(&split_devices_lock);
	hlist_add_head_rcu(&device->node, &split_devices[hash_ptr(device->q, SPLIT_DEVICE_BITS)]);
	spin_unlock(&split_devices_lock);
}

/**
 * split_device_remove() - a device is not to be found by its queue any more
 * @device: not found after a grace period; freed with its last reference
 */
void split_device_remove(struct split_device *device)
{
	spin_lock(&split_devices_lock);
	hlist_del_rcu(&device->node);
	spin_unlock(&split_devices_lock);
}

/* Ledgers */

static bool split_is_heard(const struct split_device *device)
{
	return READ_ONCE(device->state) == SPLIT_ATTACHED;
}

/* A new account's ledger must not keep anything of the former account's. */
static void split_open(struct split_ledger *ledger, const struct split_account *account)
{
	lockdep_assert_held(&ledger->lock);
	if (ledger->cause == account->cause)
		return;
	ledger->tgid = account->tgid;
	ledger->pending = (struct cost_pending){};
	memset(ledger->bytes, 0, sizeof(ledger->bytes));
	/* A reader that sees the cause finds the rest to be this account's. */
	smp_store_release(&ledger->cause, account->cause);
}

/* Tells the policy first: once it is in the ledger it may be settled. */
static void split_expect_part(struct split_device *device, u32 id, u64 bytes, u64 cost)
{
	struct split_account *account = split_account_of_id(id);
	struct split_ledger *ledger = &device->ledger[id];
	unsigned long flags;

	if (device->ops->expect && split_is_heard(device))
		device->ops->expect(device->data, account, cost);
	spin_lock_irqsave(&ledger->lock, flags);
	split_open(ledger, account);
	cost_expect(&ledger->pending, bytes, cost);
	spin_unlock_irqrestore(&ledger->lock, flags);
}

/* Return: the cost. */
static u64 split_settle_part(struct split_device *device, u32 id, u64 bytes)
{
	struct split_account *account = split_account_of_id(id);
	struct split_ledger *ledger = &device->ledger[id];
	unsigned long flags;
	u64 cost;

	spin_lock_irqsave(&ledger->lock, flags);
	split_open(ledger, account);
	cost = cost_settle(&ledger->pending, bytes);
	spin_unlock_irqrestore(&ledger->lock, flags);
	if (cost && device->ops->settle && split_is_heard(device))
		device->ops->settle(device->data, account, cost);
	return cost;
}

/**
 * split_expect() - data of a tag became dirty
 * @device: where it will be written
 * @tag: held
 * @bytes: how much
 * @cost: what to write it will probably cost
 *
 * In any context, under RCU.
 */
void split_expect(struct split_device *device, u32 tag, u64 bytes, u64 cost)
{
	struct causes_split costs, parts;
	const struct causes_member *member;
	unsigned int count;

	if (likely(split_is_account(tag))) {
		split_expect_part(device, tag, bytes, cost);
		return;
	}
	member = causes_members(split_causes, tag, &count);
	causes_split_begin(&costs, cost, member, count);
	for (causes_split_begin(&parts, bytes, member, count); count--; member++)
		split_expect_part(device, member->account, causes_part(&parts, member->weight),
				  causes_part(&costs, member->weight));
}

/**
 * split_settle() - data of a tag is submitted now, or was freed
 * @device: where it is written to
 * @tag: held
 * @bytes: how much of what was expected
 *
 * In any context, under RCU.  Return: what it was expected to cost.
 */
u64 split_settle(struct split_device *device, u32 tag, u64 bytes)
{
	const struct causes_member *member;
	struct causes_split parts;
	unsigned int count;
	u64 cost = 0;

	if (likely(split_is_account(tag)))
		return split_settle_part(device, tag, bytes);
	member = causes_members(split_causes, tag, &count);
	for (causes_split_begin(&parts, bytes, member, count); count--; member++)
		cost += split_settle_part(device, member->account,
					  causes_part(&parts, member->weight));
	return cost;
}

/**
 * split_void() - nothing is expected of a device's accounts any more
 * @device: what is dirty will be written elsewhere, as far as is known
 *
 * In any context, under RCU.
 */
void split_void(struct split_device *device)
{
	const struct split_account *account;
	u32 id;

	for (id = 0; id < SPLIT_ACCOUNTS; id++) {
		account = split_account_of_id(id);
		if (account && READ_ONCE(device->ledger[id].pending.bytes))
			split_settle_part(device, id, U64_MAX);
	}
}

static void split_note_part(struct split_device *device, u32 id, u64 bytes, enum split_use use)
{
	const struct split_account *account = split_account_of_id(id);
	struct split_ledger *ledger = &device->ledger[id];
	unsigned long flags;

	if (likely(split_note_account(device, account, bytes, use)))
		return;
	spin_lock_irqsave(&ledger->lock, flags);
	split_open(ledger, account);
	spin_unlock_irqrestore(&ledger->lock, flags);
	atomic64_add(bytes, &ledger->bytes[use]);
}

/**
 * split_note() - a request of some causes is dispatched
 * @device: to which
 * @tag: theirs, held
 * @bytes: how much it moves
 * @use: what it does
 *
 * In any context, under RCU.
 */
void split_note(struct split_device *device, u32 tag, u64 bytes, enum split_use use)
{
	const struct causes_member *member;
	struct causes_split parts;
	unsigned int count;

	if (likely(split_is_account(tag))) {
		split_note_part(device, tag, bytes, use);
		return;
	}
	member = causes_members(split_causes, tag, &count);
	for (causes_split_begin(&parts, bytes, member, count); count--; member++)
		split_note_part(device, member->account, causes_part(&parts, member->weight), use);
}

/**
 * split_pending() - how many bytes of an account are dirty, and their expected cost
 * @device: where it will be written
 * @account: the account
 *
 * In any context.
 */
struct cost_pending split_pending(struct split_device *device, const struct split_account *account)
{
	struct split_ledger *ledger = &device->ledger[account->id];
	struct cost_pending pending = {};
	unsigned long flags;

	spin_lock_irqsave(&ledger->lock, flags);
	if (ledger->cause == account->cause)
		pending = ledger->pending;
	spin_unlock_irqrestore(&ledger->lock, flags);
	return pending;
}

/* What a device's I/O costs */

u64 split_cost_ns(const struct split_device *device, u64 cost)
{
	return cost_ns(split_model(device), cost);
}
EXPORT_SYMBOL_GPL(split_cost_ns);

u64 split_write_ns(const struct split_device *device, u64 bytes)
{
	const struct cost_model *model = split_model(device);

	return cost_ns(model, cost_data(model, COST_WRITE, bytes));
}
EXPORT_SYMBOL_GPL(split_write_ns);

u64 split_flush_ns(const struct split_device *device)
{
	const struct cost_model *model = split_model(device);

	return cost_ns(model, READ_ONCE(model->flush));
}
EXPORT_SYMBOL_GPL(split_flush_ns);

u64 split_flush_cost(const struct split_device *device)
{
	return READ_ONCE(split_model(device)->flush);
}
EXPORT_SYMBOL_GPL(split_flush_cost);

/**
 * split_commit() - what a device's journal is given from now on belongs to another commit
 * @device: that the journal is on
 * @own: how many bytes it has of its own
 *
 * In any context.
 */
void split_commit(struct split_device *device, u32 own)
{
	unsigned long flags;

	spin_lock_irqsave(&device->log_lock, flags);
	cost_commit(&device->log, own);
	spin_unlock_irqrestore(&device->log_lock, flags);
}

/**
 * split_cost_of_log() - the part of the cost of a journal's write that its causes pay
 * @device: where it is written
 * @bytes: how many
 * @cost: what the write costs
 *
 * In any context.  Return: the cost, less what demands have paid; see cost_log_written().
 */
u64 split_cost_of_log(struct split_device *device, u32 bytes, u64 cost)
{
	unsigned long flags;

	spin_lock_irqsave(&device->log_lock, flags);
	cost = cost_log_written(split_model(device), &device->log, bytes, cost);
	spin_unlock_irqrestore(&device->log_lock, flags);
	return cost;
}

/**
 * split_cost_of_demand() - what an account pays for what it wants to be durable
 * @device: where
 *
 * In any context.  Return: see cost_demand().
 */
u64 split_cost_of_demand(struct split_device *device)
{
	unsigned long flags;
	u64 cost;

	spin_lock_irqsave(&device->log_lock, flags);
	cost = cost_demand(&device->log);
	spin_unlock_irqrestore(&device->log_lock, flags);
	return cost;
}

/* debugfs */

/* The ledger of an account that has gone is shown until another account gets its place. */
static void split_place_show(const struct split_device *device, unsigned int id, struct seq_file *m)
{
	const struct split_ledger *ledger = &device->ledger[id];

	lockdep_assert_held(&ledger->lock);
	if (!ledger->cause)
		return;
	seq_printf(m, "%s %u ", device->disk, id);
	if (ledger->cause & CAUSE_CGROUP)
		seq_printf(m, "cgroup=%llu", cause_cgroup_id(ledger->cause));
	else if (id == SPLIT_LAYERS)
		seq_puts(m, "layers=0");
	else
		seq_printf(m, "process=%d", ledger->tgid);
	seq_printf(m, " read=%lld data=%lld metadata=%lld log=%lld dirty=%llu\n",
		   atomic64_read(&ledger->bytes[SPLIT_READS]),
		   atomic64_read(&ledger->bytes[SPLIT_DATA]),
		   atomic64_read(&ledger->bytes[SPLIT_METADATA]),
		   atomic64_read(&ledger->bytes[SPLIT_LOG]), ledger->pending.bytes);
}

/**
 * split_ledger_show() - write what each account has caused on a device, one a line
 * @device: the device
 * @m: for debugfs
 */
void split_ledger_show(struct split_device *device, struct seq_file *m)
{
	unsigned int id;

	for (id = 0; id < SPLIT_ACCOUNTS; id++) {
		spin_lock_irq(&device->ledger[id].lock);
		split_place_show(device, id, m);
		spin_unlock_irq(&device->ledger[id].lock);
	}
}

/**
 * split_devices_show() - write something of each device
 * @m: for debugfs
 * @show: writes it for one device, under RCU
 */
void split_devices_show(struct seq_file *m,
			void (*show)(struct split_device *device, struct seq_file *m))
{
	struct split_device *device;
	unsigned int i;

	rcu_read_lock();
	for (i = 0; i < ARRAY_SIZE(split_devices); i++)
		hlist_for_each_entry_rcu(device, &split_devices[i], node)
			show(device, m);
	rcu_read_unlock();
}

/* What the devices take, bytes. */
u64 split_devices_bytes(void)
{
	struct split_device *device;
	unsigned int i;
	u64 bytes = 0;

	rcu_read_lock();
	for (i = 0; i < ARRAY_SIZE(split_devices); i++)
		hlist_for_each_entry_rcu(device, &split_devices[i], node)
			bytes += sizeof(*device) + SPLIT_ACCOUNTS * sizeof(*device->ledger);
	rcu_read_unlock();
	return bytes;
}

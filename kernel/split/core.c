// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices with a policy, the calls at their gates, and the hold.  See split.h.
 *
 * A call lives on its caller's stack, or is a record (resume.c), and is in split_calls from
 * when it came to a closed gate until it returns.  While it is held its state is SPLIT_HELD.
 * What changes that, by compare and exchange, decides how the hold ends: the policy lets it
 * go; or the caller leaves, or the device is detached, and what changed it tells the policy.
 *
 * A device's state changes first and a grace period later none of the policy's functions
 * runs any more.  Callers find the device by its queue under RCU, and keep it while they
 * are at its gate.
 */
#include "core.h"

#include <linux/debugfs.h>
#include <linux/freezer.h>
#include <linux/hashtable.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/writeback.h>

/* Of a device that has none yet, bytes. */
#define SPLIT_CAPACITY BIT_ULL(40)

/* Devices with a closed gate: while there is none nobody looks for one. */
atomic_t split_closed_devices __read_mostly;
struct hlist_head split_devices[1 << SPLIT_DEVICE_BITS] __read_mostly;
static DEFINE_SPINLOCK(split_devices_lock); /* guards changes of split_devices */
struct split_bucket split_calls[1 << SPLIT_CALL_BITS];
static struct dentry *split_debugfs;

static const char *const split_kinds[SPLIT_KINDS] = {
	"write",  "fsync",    "sync",	"creat", "mkdir", "unlink",
	"rename", "truncate", "change", "store", "read",
};

/* Calls at gates */

void split_add(struct split_call *call)
{
	struct split_bucket *bucket = split_bucket(current);

	spin_lock(&bucket->lock);
	hlist_add_head(&call->hash, &bucket->calls);
	spin_unlock(&bucket->lock);
}

void split_del(struct split_call *call)
{
	struct split_bucket *bucket = split_bucket(call->task);

	spin_lock(&bucket->lock);
	hlist_del(&call->hash);
	spin_unlock(&bucket->lock);
}

bool split_inside(const struct split_device *device, u64 *private)
{
	struct split_bucket *bucket = split_bucket(current);
	struct split_call *call;
	bool found = false;

	spin_lock(&bucket->lock);
	hlist_for_each_entry(call, &bucket->calls, hash) {
		if (call->task != current || call->device != device || call->unplug ||
		    (call->way != SPLIT_HERE && call->way != SPLIT_MADE))
			continue;
		*private = call->private;
		found = true;
	}
	spin_unlock(&bucket->lock);
	return found;
}
EXPORT_SYMBOL_GPL(split_inside);

static void split_free(struct rcu_head *rcu)
{
	struct split_device *device = container_of(rcu, struct split_device, rcu);

	percpu_ref_exit(&device->refs);
	kvfree(device->ledger);
	kfree(device);
}

static void split_release(struct percpu_ref *refs)
{
	struct split_device *device = container_of(refs, struct split_device, refs);

	call_rcu(&device->rcu, split_free);
}

static void split_set_closed(struct split_device *device, unsigned int kinds)
{
	bool was_closed = xchg(&device->closed, kinds);

	if (was_closed != !!kinds)
		atomic_add(kinds ? 1 : -1, &split_closed_devices);
}

/* The hold */

/* Ends a hold, if nobody else has, and tells the policy. */
static void split_claim(struct split_device *device, struct split_call *call)
{
	if (cmpxchg(&call->state, SPLIT_HELD, SPLIT_LEFT) != SPLIT_HELD)
		return;
	atomic_inc(&device->dropped);
	if (device->ops->drop)
		device->ops->drop(device->data, call);
}

/*
 * The caller wants to leave.  split_detach() takes each bucket's lock before the policy's data
 * goes: it is there as long as the call is held.
 */
void split_escape(struct split_call *call)
{
	struct split_bucket *bucket = split_bucket(call->task);

	spin_lock(&bucket->lock);
	split_claim(call->device, call);
	spin_unlock(&bucket->lock);
}

/* Does something to each held call of a device, after which its caller looks again. */
static void split_wake_all(struct split_device *device,
			   void (*fn)(struct split_device *device, struct split_call *call))
{
	struct split_call *call;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_calls); i++) {
		spin_lock(&split_calls[i].lock);
		hlist_for_each_entry(call, &split_calls[i].calls, hash) {
			if (call->device != device)
				continue;
			if (fn)
				fn(device, call);
			if (call->way == SPLIT_HERE || call->busy)
				wake_up_process(call->task);
		}
		spin_unlock(&split_calls[i].lock);
	}
}

static void split_eject(struct split_device *device, const struct split_call *call)
{
	if (cmpxchg(&device->state, SPLIT_ATTACHED, SPLIT_EJECTED) != SPLIT_ATTACHED)
		return;
	split_set_closed(device, SPLIT_NONE);
	pr_err("split: %s: policy %s left a %s of process %d unanswered for %u ms and is ejected; next: choose a scheduler for %s again\n",
	       device->disk, device->ops->name, split_kinds[call->kind], call->task->pid,
	       SPLIT_ANSWER_MS, device->disk);
	split_wake_all(device, NULL);
}

/*
 * Whether a writer holds s_umount, or waits for it behind the reader that a sync is: who
 * unmounts, remounts or freezes must not wait for a policy.
 */
static bool split_blocks_umount(struct super_block *sb)
{
	if (!down_read_trylock(&sb->s_umount))
		return true;
	up_read(&sb->s_umount);
	return false;
}

/* The freezer, of the machine or of a cgroup, waits for the current task. */
static bool split_blocks_freezer(void)
{
	return freezing(current) || READ_ONCE(current->jobctl) & JOBCTL_TRAP_FREEZE;
}

/* The current task is io_uring's worker, and its work is cancelled or its process exits. */
static bool split_is_cancelled(void)
{
	return current->flags & PF_IO_WORKER && test_thread_flag(TIF_NOTIFY_SIGNAL);
}

/* A call with a lock that others may need has been held for as long as it may. */
static bool split_held_enough(const struct split_call *call)
{
	return call->locked &&
	       time_after_eq(jiffies, call->began + msecs_to_jiffies(SPLIT_LOCKED_MS));
}

/* What is held on its way back to user mode is in nobody's way. */
static bool split_must_leave(const struct split_call *call)
{
	if (fatal_signal_pending(current) || READ_ONCE(call->device->state) != SPLIT_ATTACHED)
		return true;
	return call->way == SPLIT_HERE &&
	       (split_blocks_freezer() || split_is_cancelled() || split_held_enough(call) ||
		READ_ONCE(call->sb->s_writers.frozen) != SB_UNFROZEN ||
		(call->kind == SPLIT_SYNC && split_blocks_umount(call->sb)));
}

/* Looks for a reason to leave, or to eject the policy. */
static void split_look(struct split_call *call)
{
	unsigned long answered = READ_ONCE(call->answered);

	if (time_after(jiffies, answered + msecs_to_jiffies(SPLIT_ANSWER_MS))) {
		rcu_read_lock();
		if (READ_ONCE(call->device->state) == SPLIT_ATTACHED)
			split_eject(call->device, call);
		rcu_read_unlock();
	}
	if (split_must_leave(call))
		split_escape(call);
}

/**
 * split_range() - the part of its file that a call is about: an fsync's range, else all
 * @call: a call with an inode
 * @last: becomes the place of the last byte
 *
 * Return: the place of the first byte.
 */
loff_t split_range(const struct split_call *call, loff_t *last)
{
	bool part = call->kind == SPLIT_FSYNC;

	*last = part && call->bytes != LLONG_MAX ? call->pos + call->bytes - 1 : LLONG_MAX;
	return part ? call->pos : 0;
}

/* Some of what the file system has dirty; who unmounts it must not wait for that. */
static void split_start_any_writeback(struct super_block *sb, unsigned int pages)
{
	if (!down_read_trylock(&sb->s_umount))
		return;
	writeback_inodes_sb_nr(sb, pages, WB_REASON_BACKGROUND);
	up_read(&sb->s_umount);
}

/* What fails is noted in the file, whose fsync will say so. */
static void split_start_writeback(struct split_call *call, unsigned int pages)
{
	struct writeback_control wbc = { .sync_mode = WB_SYNC_NONE, .nr_to_write = pages };

	if (call->kind == SPLIT_WRITE &&
	    !mapping_tagged(call->inode->i_mapping, PAGECACHE_TAG_DIRTY)) {
		split_start_any_writeback(call->sb, pages);
		return;
	}
	wbc.range_start = split_range(call, &wbc.range_end);
	filemap_fdatawrite_wbc(call->inode->i_mapping, &wbc);
}

/**
 * split_hold_here() - sleep until a call's hold has ended
 * @call: of the current task; if it is on its way back, a signal ends the sleep and not the hold
 */
void split_hold_here(struct split_call *call)
{
	bool here = call->way == SPLIT_HERE;
	unsigned int pages;

	while (READ_ONCE(call->state) == SPLIT_HELD && (here || !signal_pending(current))) {
		pages = xchg(&call->write_back, 0);
		if (pages)
			split_start_writeback(call, pages);
		split_look(call);
		set_current_state(here ? TASK_KILLABLE : TASK_INTERRUPTIBLE);
		if (READ_ONCE(call->state) == SPLIT_HELD && !READ_ONCE(call->write_back))
			io_schedule_timeout(msecs_to_jiffies(SPLIT_SLICE_MS));
		__set_current_state(TASK_RUNNING);
	}
	/* A signal may be there before the first look. */
	if (!here && fatal_signal_pending(current))
		split_escape(call);
}

/*
 * Return: 0 if the call may run, -EINTR if it was killed, -ERESTARTNOINTR if it must wait for a
 * thaw.
 */
static int split_wait(struct split_call *call)
{
	split_hold_here(call);
	if (READ_ONCE(call->state) != SPLIT_LEFT)
		return 0;
	if (fatal_signal_pending(current) || split_is_cancelled())
		return -EINTR;
	if (split_blocks_freezer() && call->thaws)
		return restart_syscall();
	if (split_held_enough(call))
		split_put_away(call, SPLIT_PAYS);
	return 0;
}

/* Gates */

static bool split_is_closed_for(const struct split_device *device, const struct split_call *call)
{
	return READ_ONCE(device->closed) & BIT(call->kind) &&
	       READ_ONCE(device->state) == SPLIT_ATTACHED;
}

/* The device whose gate a call has come to, referenced; NULL if it is open by now. */
static struct split_device *split_closed_device(const struct split_call *call)
{
	struct split_device *device = split_find(bdev_get_queue(call->sb->s_bdev));

	if (!device || !split_is_closed_for(device, call) || !percpu_ref_tryget_live(&device->refs))
		return NULL;
	return device;
}

/* Finds a call's device and account: it has references to both, for split_put(). */
static void split_meet(struct split_call *call)
{
	rcu_read_lock();
	call->device = split_closed_device(call);
	if (call->device)
		call->account = split_account_of_task();
	rcu_read_unlock();
}

/* Asks the policy, whose functions none outlives this.  Return: whether the call may run. */
bool split_ask(struct split_call *call)
{
	struct split_device *device = call->device;
	bool go = true;

	rcu_read_lock();
	if (device && split_is_closed_for(device, call) && device->ops->enter)
		go = device->ops->enter(device->data, call);
	if (go)
		WRITE_ONCE(call->state, SPLIT_LET_GO);
	rcu_read_unlock();
	return go;
}

/* If a call is to be durable, the account pays its part of what that costs. */
void split_demand(struct split_call *call)
{
	struct split_device *device = call->device;
	unsigned long flags;
	u64 cost;

	if (!call->durable && !(BIT(call->kind) & SPLIT_DURABLE))
		return;
	rcu_read_lock();
	if (device && READ_ONCE(device->state) == SPLIT_ATTACHED && device->ops->demand) {
		spin_lock_irqsave(&device->log_lock, flags);
		cost = cost_demand(&device->log);
		spin_unlock_irqrestore(&device->log_lock, flags);
		device->ops->demand(device->data, call->account, cost);
	}
	rcu_read_unlock();
}

/**
 * split_enter() - a call of the current task has come to a closed gate
 * @call: on the stack, with what it does
 *
 * Sleeps while the policy holds it, or has it made again.  split_leave() must follow, whatever
 * this returns.
 *
 * Return: 0: make the call; -EAGAIN: it had to be held and must not; -EINTR: it was killed or
 * cancelled; -ERESTARTNOINTR: it will be made again.
 */
int split_enter(struct split_call *call)
{
	bool nowait = call->nowait;
	int result = 0;

	INIT_LIST_HEAD(&call->node);
	call->task = current;
	call->ioprio = get_current_ioprio();
	call->began = jiffies;
	call->answered = jiffies;
	call->nowait |= call->again;
	call->state = call->nowait ? SPLIT_LET_GO : SPLIT_HELD;
	split_meet(call);
	split_add(call);
	if (!split_ask(call))
		result = call->nowait ? -EAGAIN : split_wait(call);
	if (result == -EAGAIN && !nowait) {
		split_put_away(call, SPLIT_TURNED_AWAY);
		result = restart_syscall();
	}
	if (!result)
		split_demand(call);
	return result;
}

/* Tells the policy that a call that entered has returned. */
void split_tell(struct split_call *call, ssize_t result)
{
	struct split_device *device = call->device;

	rcu_read_lock();
	if (device && READ_ONCE(device->state) != SPLIT_DETACHED && device->ops->leave)
		device->ops->leave(device->data, call, result);
	rcu_read_unlock();
}

void split_put(struct split_call *call)
{
	if (!call->device)
		return;
	split_account_put(call->account);
	percpu_ref_put(&call->device->refs);
}

/**
 * split_leave() - a call that was given to split_enter() has returned
 * @call: the call
 * @result: what it returned, or what split_enter() did
 */
void split_leave(struct split_call *call, ssize_t result)
{
	split_tell(call, result);
	split_del(call);
	split_put(call);
}

/* What a policy calls; see split.h. */

void split_close(struct split_device *device, unsigned int kinds)
{
	split_set_closed(device, kinds);
	/* Pairs with split_eject(): one of the two opens the gates of an ejected policy. */
	smp_mb();
	if (READ_ONCE(device->state) != SPLIT_ATTACHED)
		split_set_closed(device, SPLIT_NONE);
}
EXPORT_SYMBOL_GPL(split_close);

void split_hold(struct split_call *call, const char *reason)
{
	WRITE_ONCE(call->reason, reason);
	WRITE_ONCE(call->answered, jiffies);
}
EXPORT_SYMBOL_GPL(split_hold);

/* The call may end as soon as its state changes; its task lasts until RCU lets it go. */
void split_let_go(struct split_call *call)
{
	struct split_device *device = call->device;
	struct task_struct *task = call->task;

	rcu_read_lock();
	if (cmpxchg(&call->state, SPLIT_HELD, SPLIT_LET_GO) == SPLIT_HELD) {
		atomic_inc(&device->let_go);
		wake_up_process(task);
	}
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(split_let_go);

void split_write_back(struct split_call *call, unsigned int pages)
{
	WRITE_ONCE(call->write_back, pages);
	wake_up_process(call->task);
}
EXPORT_SYMBOL_GPL(split_write_back);

u64 split_cost_ns(const struct split_device *device, u64 cost)
{
	return cost_ns(split_model(device), cost);
}
EXPORT_SYMBOL_GPL(split_cost_ns);

u64 split_flush_ns(const struct split_device *device)
{
	const struct cost_model *model = split_model(device);

	return cost_ns(model, model->flush);
}
EXPORT_SYMBOL_GPL(split_flush_ns);

u64 split_flush_cost(const struct split_device *device)
{
	return split_model(device)->flush;
}
EXPORT_SYMBOL_GPL(split_flush_cost);

/* What a device's I/O costs, by what the kernel knows of it: an empty one may become any size. */
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
	device->costs = cost_device(kind, capacity ?: SPLIT_CAPACITY);
	device->model = &device->models[0];
	err = cost_init(&device->models[0], &device->costs);
	return err ?: percpu_ref_init(&device->refs, split_release, 0, GFP_KERNEL);
}

struct split_device *split_attach(struct request_queue *q, const struct split_ops *ops, void *data)
{
	/* The queue is frozen: no memory may be waited for that would have to be written to it. */
	unsigned int flags = memalloc_noio_save();
	struct split_device *device = kzalloc(sizeof(*device), GFP_KERNEL);
	int err = device ? split_init_costs(device, q) : -ENOMEM;

	memalloc_noio_restore(flags);
	if (!device)
		return ERR_PTR(err);
	err = err ?: split_hooks_on(ops->more);
	if (err) {
		split_free(&device->rcu);
		return ERR_PTR(err);
	}
	spin_lock_init(&device->log_lock);
	device->q = q;
	device->ops = ops;
	device->data = data;
	strscpy(device->disk, q->disk->disk_name, sizeof(device->disk));
	spin_lock(&split_devices_lock);
	hlist_add_head_rcu(&device->node, &split_devices[hash_ptr(q, SPLIT_DEVICE_BITS)]);
	spin_unlock(&split_devices_lock);
	return device;
}
EXPORT_SYMBOL_GPL(split_attach);

/*
 * The queue is frozen, and a held caller may be writing back its file, which waits for the
 * queue: so its hold is ended here, and not by itself.
 */
void split_detach(struct split_device *device)
{
	spin_lock(&split_devices_lock);
	hlist_del_rcu(&device->node);
	spin_unlock(&split_devices_lock);
	/* Pairs with split_close(): what is closed meanwhile is opened there, or here. */
	WRITE_ONCE(device->state, SPLIT_DETACHED);
	split_set_closed(device, SPLIT_NONE);
	synchronize_rcu();
	split_wake_all(device, split_claim);
	split_hooks_off(device->ops->more);
	percpu_ref_kill(&device->refs);
}
EXPORT_SYMBOL_GPL(split_detach);

/* debugfs */

static unsigned int split_count_held(const struct split_device *device)
{
	unsigned int i, held = 0;
	struct split_call *call;

	for (i = 0; i < ARRAY_SIZE(split_calls); i++) {
		spin_lock(&split_calls[i].lock);
		hlist_for_each_entry(call, &split_calls[i].calls, hash)
			held += call->device == device && READ_ONCE(call->state) == SPLIT_HELD;
		spin_unlock(&split_calls[i].lock);
	}
	return held;
}

static void split_device_show(const struct split_device *device, struct seq_file *m)
{
	unsigned long closed = READ_ONCE(device->closed);
	unsigned int kind;

	seq_printf(m, "%s %s held=%u let_go=%d dropped=%d state=%s closed=", device->disk,
		   device->ops->name, split_count_held(device), atomic_read(&device->let_go),
		   atomic_read(&device->dropped),
		   READ_ONCE(device->state) == SPLIT_EJECTED ? "ejected" : "attached");
	for_each_set_bit(kind, &closed, SPLIT_KINDS)
		seq_printf(m, "%s%s", split_kinds[kind], closed >> kind == 1 ? "" : ",");
	seq_putc(m, '\n');
}

/* split/devices: a line per device. */
static int devices_show(struct seq_file *m, void *unused)
{
	struct split_device *device;
	unsigned int i;

	rcu_read_lock();
	for (i = 0; i < ARRAY_SIZE(split_devices); i++)
		hlist_for_each_entry_rcu(device, &split_devices[i], node)
			split_device_show(device, m);
	rcu_read_unlock();
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(devices);

/* A held call's device can't be detached before its bucket's lock was taken. */
static void split_call_show(const struct split_call *call, struct seq_file *m)
{
	const char *reason = READ_ONCE(call->reason);

	if (READ_ONCE(call->state) == SPLIT_HELD && call->device)
		seq_printf(m, "%s %s pid=%d comm=%s ms=%u reason=%s\n", call->device->disk,
			   split_kinds[call->kind], call->task->pid, call->task->comm,
			   jiffies_to_msecs(jiffies - call->began), reason ?: "none");
}

/* split/held: a line per held call. */
static int held_show(struct seq_file *m, void *unused)
{
	struct split_call *call;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_calls); i++) {
		spin_lock(&split_calls[i].lock);
		hlist_for_each_entry(call, &split_calls[i].calls, hash)
			split_call_show(call, m);
		spin_unlock(&split_calls[i].lock);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(held);

/* split/accounts: a line per account. */
static int accounts_show(struct seq_file *m, void *unused)
{
	split_accounts_show(m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(accounts);

/*
 * Who caused how much of what a device was given, and what of his is dirty: bytes.  Whose
 * account has gone stays until another one gets his place.
 */
static void split_ledger_show(const struct split_device *device, unsigned int id,
			      struct seq_file *m)
{
	const struct split_ledger *ledger = &device->ledger[id];

	lockdep_assert_held(&ledger->lock);
	if (!ledger->cause)
		return;
	seq_printf(m, "%s %u ", device->disk, id);
	if (ledger->cause & CAUSE_CGROUP)
		seq_printf(m, "cgroup=%llu", cause_cgroup_id(ledger->cause));
	else
		seq_printf(m, "process=%d", ledger->tgid);
	seq_printf(m, " read=%lld data=%lld metadata=%lld log=%lld dirty=%llu\n",
		   atomic64_read(&ledger->bytes[SPLIT_READS]),
		   atomic64_read(&ledger->bytes[SPLIT_DATA]),
		   atomic64_read(&ledger->bytes[SPLIT_METADATA]),
		   atomic64_read(&ledger->bytes[SPLIT_LOG]), ledger->pending.bytes);
}

static void split_ledgers_show(struct split_device *device, struct seq_file *m)
{
	unsigned int id;

	for (id = 0; id < SPLIT_ACCOUNTS; id++) {
		spin_lock_irq(&device->ledger[id].lock);
		split_ledger_show(device, id, m);
		spin_unlock_irq(&device->ledger[id].lock);
	}
}

/* split/ledger: a line per device and account; what is nobody's is process 0's. */
static int ledger_show(struct seq_file *m, void *unused)
{
	struct split_device *device;
	unsigned int i;

	rcu_read_lock();
	for (i = 0; i < ARRAY_SIZE(split_devices); i++)
		hlist_for_each_entry_rcu(device, &split_devices[i], node)
			split_ledgers_show(device, m);
	rcu_read_unlock();
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ledger);

/* split/memory: what all of it takes but the policies and what is static, bytes. */
static int memory_show(struct seq_file *m, void *unused)
{
	u64 bytes = split_memory_bytes() + split_accounts_bytes() +
		    causes_bytes(SPLIT_ACCOUNTS, CAUSES_SMALL, CAUSES_LARGE);
	struct split_device *device;
	unsigned int i;

	rcu_read_lock();
	for (i = 0; i < ARRAY_SIZE(split_devices); i++)
		hlist_for_each_entry_rcu(device, &split_devices[i], node)
			bytes += sizeof(*device) + SPLIT_ACCOUNTS * sizeof(*device->ledger);
	rcu_read_unlock();
	seq_printf(m, "bytes %llu\n", bytes);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(memory);

static int __init split_init(void)
{
	unsigned int i;
	int err;

	/* There spinlocks sleep, which the hooks of the page cache take with preemption off. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		pr_err("split: this kernel has PREEMPT_RT, where its hooks would sleep in atomic context; next: choose a scheduler without hooks, as mq-prio or cpq\n");
		return -EOPNOTSUPP;
	}
	for (i = 0; i < ARRAY_SIZE(split_calls); i++)
		spin_lock_init(&split_calls[i].lock);
	split_causes =
		causes_create(SPLIT_ACCOUNTS, CAUSES_SMALL, CAUSES_LARGE, split_account_held);
	if (!split_causes)
		return -ENOMEM;
	split_others.held = causes_refs(split_causes, 0);
	err = split_hooks_init();
	if (err) {
		causes_destroy(split_causes);
		return err;
	}
	split_debugfs = debugfs_create_dir("split", NULL);
	debugfs_create_file("devices", 0400, split_debugfs, NULL, &devices_fops);
	debugfs_create_file("held", 0400, split_debugfs, NULL, &held_fops);
	debugfs_create_file("accounts", 0400, split_debugfs, NULL, &accounts_fops);
	debugfs_create_file("ledger", 0400, split_debugfs, NULL, &ledger_fops);
	debugfs_create_file("memory", 0400, split_debugfs, NULL, &memory_fops);
	return 0;
}

/* No policy is left, but calls that were gated may still be on their way. */
static void __exit split_exit(void)
{
	debugfs_remove(split_debugfs);
	split_hooks_exit();
	/* The first one ends the devices' last references, the second one the devices. */
	rcu_barrier();
	rcu_barrier();
	split_accounts_exit();
	WARN_ON_ONCE(!causes_destroy(split_causes));
	WARN_ON_ONCE(atomic_read(&split_closed_devices));
}

module_init(split_init);
module_exit(split_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Split-level I/O scheduling");

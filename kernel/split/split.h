/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Split-level scheduling: what a policy may use, and what it must do.
 *
 * A policy schedules a device's I/O at three layers.  It is an elevator, chosen by its
 * name in queue/scheduler, with requests to order as any other; and from init_sched to
 * exit_sched it also hears of system calls that will cause I/O, before the file system
 * has seen them, and may hold them.
 *
 *	init_sched	split_attach(): calls on the device's file systems now come by
 *	exit_sched	split_detach(): none does any more, none is held
 *
 * A file system on device-mapper or md has the devices below it, which are learned (stack.c): a
 * call is asked about at each one's gate, one after the other.
 *
 * Other devices notice nothing.  While no device has a policy the hooks are off: the
 * kernel's code is as it was.
 *
 * Gates.  A device has a gate for each kind of call, open at first.  A call passes an open
 * gate unseen.  At a closed one the policy is asked, by enter(): it lets the call go, or has
 * it held until split_let_go().  A policy that closes gates only while there is something to
 * decide costs next to nothing while there isn't.
 *
 * The hold.  A policy never sleeps: the caller does.  A system call that has done nothing yet,
 * and a store, are held on the way back to user mode, where the task has no lock (resume.c): the
 * policy is asked at the gate, with @nowait, and if it wants to hold the call once more, there.
 * When the policy has let it go the call is made again and passes.  A kill ends such a hold, for
 * which drop() is called; a stop, a signal or a freeze doesn't.
 *
 * What can't be made again is held at its gate, killable, and leaves without having been let
 * go, for which drop() is called, when
 *
 *  - it is killed, or io_uring cancels it: the call fails with -EINTR, the file system never
 *    sees it;
 *  - the file system, the cgroup or the machine is frozen; an fsync is made again after a thaw;
 *  - it is a sync, and another process wants to unmount, remount or freeze the file system;
 *  - it may have a lock that others need, and has been held for SPLIT_LOCKED_MS: its task is held
 *    on the way back then, as a call of kind SPLIT_CHANGE;
 *  - the policy is ejected, the scheduler is changed, or the device goes.
 *
 * In all but the first case the call then runs as if there were no gate.  All of this is
 * noticed within SPLIT_SLICE_MS, a kill at once; where the caller writes back, after that.
 *
 * A process may be held with a lock of its own in user space.  So a policy must not make one call
 * wait for the return of another one, which may be waiting for the first one's lock.  Requests
 * complete, time passes and tokens come whatever is held: these are what to wait for.
 *
 * What isn't held, since nothing could guarantee its progress: kernel threads (writeback,
 * nfsd, loop, the fsync of libaio), tasks that reclaim memory, hold a journal handle or exit.
 * enter() isn't called for them.  What doesn't come by a gate at all: sync_file_range, and
 * io_uring's ftruncate.  What must not wait (RWF_NOWAIT, io_uring's first try) fails with
 * -EAGAIN instead of being held.
 *
 * Ejection.  A held call must be let go, or held once more by split_hold(), within
 * SPLIT_ANSWER_MS.  A policy that leaves one unanswered for longer is ejected: its gates
 * open for good, what is held goes, the kernel log and debugfs say so, and its elevator
 * goes on without the other layers until another scheduler is chosen.
 *
 * debugfs has split/devices, a line per device, split/stacks, a line per disk of device-mapper or
 * md, and split/held, a line per held call with the policy's reason.
 *
 * Source: the split-level paper, sections 3 and 4 and Table 2.
 */
#ifndef SLUICE_SPLIT_H
#define SLUICE_SPLIT_H

#include "../elevator/cause.h"

#include <linux/bits.h>
#include <linux/fs.h>
#include <linux/refcount.h>

/* A held task looks about so often for a reason to leave. */
#define SPLIT_SLICE_MS 100

/* A call with a lock that others may need is held for so long, its further gates included. */
#define SPLIT_LOCKED_MS 1000

/* A held call that gets no answer for so long has been forgotten. */
#define SPLIT_ANSWER_MS 10000

/*
 * Accounts at a time; ids are below.  CAUSE_PLACES of them are kept for cgroups with a rate.
 * When the others are in use, a process has the account of the nearest cgroup above it that
 * has a rate; without such a cgroup it shares account 0.
 */
#define SPLIT_ACCOUNTS 1024

/**
 * enum split_kind - what a call does
 * @SPLIT_WRITE: write to a file: write, pwritev, splice, io_uring, libaio
 * @SPLIT_FSYNC: make a file durable: fsync, fdatasync, msync, and what O_SYNC adds to
 *		 a write that passed an open gate
 * @SPLIT_SYNC: make a file system durable: sync, syncfs
 * @SPLIT_CREAT: make a name: open with O_CREAT, mknod, link, symlink; an open with
 *		 O_TRUNC is one too
 * @SPLIT_MKDIR: mkdir
 * @SPLIT_UNLINK: unlink, rmdir
 * @SPLIT_RENAME: rename
 * @SPLIT_TRUNCATE: truncate, ftruncate
 * @SPLIT_CHANGE: change something else of an inode: chmod, chown, utimes, setxattr,
 *		  fallocate; and any of the last five from io_uring or a 32-bit process
 * @SPLIT_STORE: store to a mapped file, that will make a page dirty; or, by the kernel in a
 *		 system call, has done so
 * @SPLIT_READ: read from a file: read, preadv, io_uring, libaio
 * @SPLIT_KINDS: number of kinds
 */
enum split_kind {
	SPLIT_WRITE,
	SPLIT_FSYNC,
	SPLIT_SYNC,
	SPLIT_CREAT,
	SPLIT_MKDIR,
	SPLIT_UNLINK,
	SPLIT_RENAME,
	SPLIT_TRUNCATE,
	SPLIT_CHANGE,
	SPLIT_STORE,
	SPLIT_READ,
	SPLIT_KINDS
};

/* Sets of kinds, one bit each; the gates of all but SPLIT_MORE are always there. */
#define SPLIT_NONE 0U
#define SPLIT_MORE (BIT(SPLIT_STORE) | BIT(SPLIT_READ))
#define SPLIT_ALL ((BIT(SPLIT_KINDS) - 1) & ~SPLIT_MORE)
#define SPLIT_DURABLE (BIT(SPLIT_FSYNC) | BIT(SPLIT_SYNC))
#define SPLIT_NAMES (SPLIT_ALL & ~(BIT(SPLIT_WRITE) | SPLIT_DURABLE))

/**
 * struct split_account - what is charged: a cgroup with a setting, else a thread group
 * @cause: see cause.h
 * @css: the cgroup, for whose limits see cause_next_limit(); NULL: a thread group
 * @id: a number below SPLIT_ACCOUNTS, its own while a reference is held; 0 is shared
 *	by kernel threads that work for no known cause, and by processes without a
 *	rate for which there was no memory or no number
 * @weight: 1 to CAUSE_WEIGHT_MAX; with another weight a cgroup is another account
 * @ioprio: I/O priority of the task that was last found to have this account
 * @tgid: for people to read; 0 for a cgroup
 * @refs: references
 * @held: how often it is a cause; the framework's
 * @node: by @cause
 * @rcu: frees it
 *
 * It is the same on all devices.  What a policy keeps of an account it keeps in an array, by
 * @id, with @cause beside it: if that has changed the place belongs to a new account.
 */
struct split_account {
	u64 cause;
	struct cgroup_subsys_state *css;
	unsigned int id;
	unsigned int weight;
	unsigned short ioprio;
	pid_t tgid;
	refcount_t refs;
	atomic_t *held;
	struct hlist_node node;
	struct rcu_head rcu;
};

/**
 * struct split_call - a system call that came to a closed gate
 * @kind: what it does
 * @account: the caller's; the call has a reference
 * @sb: the file system
 * @inode: of a write, fsync, read or store, else NULL; also NULL of a store that has gone on
 * @file: of a write, fsync, read or store, else NULL
 * @pos: where a write, read or store begins, as far as is known before it does; bytes
 * @bytes: length of a write or read; of an fsync's range, LLONG_MAX if to the end
 * @durable: a write that is durable when it returns (O_SYNC, O_DSYNC)
 * @direct: a write or read past the page cache
 * @nowait: must not be held
 * @ioprio: the caller's I/O priority
 * @unplug: set by enter() of a read: what the caller had plugged goes before split_inside() finds
 *	the call, and what it plugs before leave()
 * @node: the policy's, from enter() on
 * @private: the policy's
 * @task: the caller
 * @device: whose gate
 * @began: jiffies when it came to the gate
 * @answered: jiffies of the last split_hold()
 * @reason: of the last split_hold()
 * @state: an enum split_state
 * @write_back: pages that split_write_back() was called for; 0: it wasn't
 * @way: an enum split_way
 * @again: a system call that has done nothing yet, and can be made again
 * @locked: has, or may have, a lock that others need
 * @part: one of several parts of a system call, each of which may be held
 * @thaws: an fsync that can be made again after a thaw
 * @busy: a record that its task is just using
 * @ip: where its task is in user mode
 * @nr: number of the system call that its task is in; -1: none
 * @hash: by @task, among all that came to a closed gate
 *
 * It exists from enter() until leave() has returned, which doesn't come after
 * split_detach(): a policy keeps only held calls.  The fields from @task on are the
 * framework's.
 */
struct split_call {
	enum split_kind kind;
	struct split_account *account;
	struct super_block *sb;
	struct inode *inode;
	struct file *file;
	loff_t pos;
	loff_t bytes;
	bool durable;
	bool direct;
	bool nowait;
	unsigned short ioprio;
	bool unplug;
	struct list_head node;
	u64 private;
	struct task_struct *task;
	struct split_device *device;
	unsigned long began;
	unsigned long answered;
	const char *reason;
	int state;
	unsigned int write_back;
	int way;
	bool again;
	bool locked;
	bool part;
	bool thaws;
	bool busy;
	unsigned long ip;
	int nr;
	struct hlist_node hash;
};

/**
 * enum split_flush - what is heard of a flush of a device's cache
 * @SPLIT_FLUSH_BEGINS: the driver has it
 * @SPLIT_FLUSH_ENDS: it is done, or has failed
 * @SPLIT_FLUSH_BEGINS_ANEW: the driver has given it back, to be tried again: it will begin once
 *			     more
 * @SPLIT_FLUSH_WRITTEN: a write with flushes, before or after its data if it has any, is done with
 *			 all of them
 */
enum split_flush {
	SPLIT_FLUSH_BEGINS,
	SPLIT_FLUSH_ENDS,
	SPLIT_FLUSH_BEGINS_ANEW,
	SPLIT_FLUSH_WRITTEN,
};

/**
 * struct split_ops - what a policy does
 *
 * Each is called from the caller's context, with no lock held but that of its caller, and
 * under RCU: it must not sleep, and may take spinlocks.  An op that is NULL isn't called.
 * None is called before split_attach() or after split_detach() has returned.
 */
struct split_ops {
	/**
	 * @name: the elevator's, for messages
	 */
	const char *name;

	/**
	 * @more: which of SPLIT_MORE it has gates for: they cost something even while there is
	 * nothing to do
	 */
	unsigned int more;

	/**
	 * @concerns: whether calls of an account matter to the policy
	 *
	 * Those of others pass closed gates as they pass open ones, and cost no more than
	 * this.  NULL: all matter.  May be called with a call that has entered already.
	 */
	bool (*concerns)(void *data, const struct split_account *account);

	/**
	 * @enter: a call has come to a closed gate
	 *
	 * Returns true to let it go at once.  Or calls split_hold(), keeps the call in a
	 * list of its own, and returns false: the caller sleeps until split_let_go(), which
	 * may come before enter() has returned.  A call with @nowait must not be kept: false
	 * turns it away with -EAGAIN, and drop() doesn't follow.
	 */
	bool (*enter)(void *data, struct split_call *call);

	/**
	 * @drop: a held call goes without having been let go
	 *
	 * Must take it off the policy's list before it returns, under the lock that
	 * split_let_go() is called under: the call may end right afterwards.  Bear a call
	 * that isn't on a list: a forgotten one leads here too.
	 */
	void (*drop)(void *data, struct split_call *call);

	/**
	 * @leave: a call that entered has returned
	 *
	 * @result: what it returned, a negative error if it failed; -EINTR if it was killed
	 * while it was held, -EAGAIN if it was turned away.  Once for each enter(), but not
	 * for what returns after the policy has been detached.  Where names or
	 * inodes are changed it comes when the change may begin: its end isn't seen.
	 */
	void (*leave)(void *data, struct split_call *call, ssize_t result);

	/**
	 * @expect: an account has made data dirty, which will cost about so much
	 *
	 * Prompt: at the moment when it becomes dirty, and a guess.  What becomes dirty
	 * again is expected once; with another account then, its part moves: it is settled
	 * for the accounts that had it dirty before.  @cost: normalised bytes, see cost.h.
	 *
	 * In any context, with locks of the memory manager held and interrupts off or on.
	 */
	void (*expect)(void *data, struct split_account *account, u64 cost);

	/**
	 * @settle: of what was expected so much is void: it is being inserted, or was freed
	 *
	 * Sums to what was expected, to the byte.  In any context, as @expect; also within
	 * split_insert(), but never within split_dispatch(): so not under the policy's lock.
	 */
	void (*settle)(void *data, struct split_account *account, u64 cost);

	/**
	 * @demand: an account wants something to be durable: it calls fsync or sync, or
	 * writes with O_SYNC, at a closed gate, which has let it go
	 *
	 * @cost: what such a call costs on average, of what the journal's writes cost besides
	 * what is in them; see cost_demand().  In process context.
	 */
	void (*demand)(void *data, struct split_account *account, u64 cost);

	/**
	 * @charge: an account's part of a request that is being dispatched, by its place on
	 * the device, and what it costs; of what a journal writes for those that demanded it
	 * its size alone
	 *
	 * Within split_dispatch(), so under the policy's lock.
	 */
	void (*charge)(void *data, struct split_account *account, u64 cost);

	/**
	 * @flush: the device begins to flush its write cache, or has done so, or a write with
	 *	   flushes is done
	 *
	 * In any context, without a lock of the framework, but maybe under one of the block layer:
	 * it must not end a request.  A device with several queues may do several flushes at a
	 * time.
	 */
	void (*flush)(void *data, enum split_flush what);
};

/**
 * split_attach() - have a device's calls come by
 * @q: the device's queue, from init_sched
 * @ops: the policy; read until split_detach()
 * @data: for the ops
 *
 * Sleeps.  All gates are open.  The first device's attachment puts the hooks in.
 *
 * Return: the device, for the functions below; or an ERR_PTR(): -EBUSY if a hook's place
 * is taken, by a livepatch or a kprobe, or if ftrace is switched off; -ETIMEDOUT if the
 * hooks could not be put in soon; -ENOMEM.  The kernel log says which, and what to do.
 */
struct split_device *split_attach(struct request_queue *q, const struct split_ops *ops, void *data);

/**
 * split_detach() - the end of what split_attach() began
 * @device: what it returned
 *
 * From exit_sched, before the policy's data goes, and after its timers that use the device are
 * shut down.  Sleeps.  drop() is called for each held call.
 */
void split_detach(struct split_device *device);

/**
 * split_close() - choose which gates are closed
 * @device: what split_attach() returned
 * @kinds: a set of kinds; gates of all others are open
 *
 * In any context.  It holds for calls that come from now on: what is held stays held until
 * it is let go.
 */
void split_close(struct split_device *device, unsigned int kinds);

/**
 * split_hold() - say that a call is held on purpose, and why
 * @call: a call, from enter(), or one that is held
 * @reason: a constant, for people to read; "tokens", say
 *
 * In any context, under the policy's lock.
 */
void split_hold(struct split_call *call, const char *reason);

/**
 * split_let_go() - let a held call go
 * @call: a held call, which the policy has taken off its list
 *
 * In any context, under the lock that drop() takes.  From then on the call isn't the
 * policy's until leave().
 */
void split_let_go(struct split_call *call);

/**
 * split_write_back() - have a part of a held call's file written back, asynchronously
 * @call: a held call of kind SPLIT_FSYNC, or SPLIT_WRITE or SPLIT_STORE with an inode
 * @pages: how many of its dirty pages, the first ones, about; at least 1
 *
 * In any context, under the lock that drop() takes.  The caller starts the writeback and is
 * then held again: what fsync will have to wait for gets less, without a commit of the
 * journal.  Where a write's or store's file has nothing dirty, others of the file system are.
 */
void split_write_back(struct split_call *call, unsigned int pages);

/**
 * struct split_dirt - what a call's file has dirty: of an fsync, in its range
 * @dirty: bytes that are dirty and not being written; where there are more than were counted, an
 *	   estimate of all
 * @writing: bytes that are being written, as far as they were counted
 * @cost: what @dirty is expected to cost, normalised bytes
 */
struct split_dirt {
	u64 dirty;
	u64 writing;
	u64 cost;
};

/**
 * split_count_dirt() - see what a call's file has dirty
 * @call: as for split_write_back(), or in enter()
 * @most: count so many pages of either sort
 * @dirt: becomes what was found
 *
 * In any context.  What it costs is as of all that the caller's account has dirty.  Where the file
 * of a write or store has nothing dirty, @dirt->dirty is all of that: split_write_back() writes
 * others then.
 */
void split_count_dirt(const struct split_call *call, unsigned int most, struct split_dirt *dirt);

/**
 * split_expected() - what the caller's account is expected to pay for what it has dirty
 * @call: a call that entered
 *
 * In any context.  Return: normalised bytes, of this device.
 */
u64 split_expected(const struct split_call *call);

/**
 * split_cost_ns() - how long a device takes for what costs so much
 * @device: what split_attach() returned
 * @cost: normalised bytes
 *
 * Return: ns, by what is known of the device now.
 */
u64 split_cost_ns(const struct split_device *device, u64 cost);

/**
 * split_write_ns() - how long a device takes to write so much in a long sequential transfer
 * @device: what split_attach() returned
 * @bytes: how much, 2^45 at most
 *
 * Return: ns, by what is known of the device now.
 */
u64 split_write_ns(const struct split_device *device, u64 bytes);

/**
 * split_flush_ns() - how long a device takes to flush a cache with nothing in it
 * @device: what split_attach() returned
 *
 * Return: ns, by what is known of the device now.
 */
u64 split_flush_ns(const struct split_device *device);

/**
 * split_flush_cost() - what such a flush costs
 * @device: what split_attach() returned
 *
 * With preemption off.  Return: normalised bytes.
 */
u64 split_flush_cost(const struct split_device *device);

/**
 * split_costs_changed() - how often what I/O costs has changed by more than an eighth
 * @device: what split_attach() returned
 *
 * In any context.  What was measured in normalised bytes before is void then.
 *
 * Return: a number that wraps around.
 */
unsigned int split_costs_changed(const struct split_device *device);

/**
 * split_costs_show() - the knob "costs" of a policy
 * @device: what split_attach() returned
 * @page: for sysfs
 *
 * Return: bytes.
 */
ssize_t split_costs_show(struct split_device *device, char *page);

/**
 * split_costs_store() - change what a device's I/O costs
 * @device: what split_attach() returned
 * @page: "ctrl=auto" or "ctrl=user", "kind=disk" or "kind=flash", and the parameters of struct
 *	  cost_device, as "name=value"
 * @count: bytes
 *
 * Sleeps.  Return: @count; -EINVAL or -ERANGE, and nothing has changed.
 */
ssize_t split_costs_store(struct split_device *device, const char *page, size_t count);

/**
 * SPLIT_COSTS_KNOB() - define the sysfs functions of a policy's knob
 * @type: the structure that elevator_data points at, which has the device
 * @name: the file's name
 */
#define SPLIT_COSTS_KNOB(type, name)                                                               \
	static ssize_t name##_show(struct elevator_queue *eq, char *page)                          \
	{                                                                                          \
		return split_costs_show(((struct type *)eq->elevator_data)->device, page);         \
	}                                                                                          \
	static ssize_t name##_store(struct elevator_queue *eq, const char *page, size_t count)     \
	{                                                                                          \
		return split_costs_store(((struct type *)eq->elevator_data)->device, page, count); \
	}

/* Less in current->journal_info is no handle: ext4's counts without a journal, btrfs's mark. */
#define SPLIT_HANDLE 4096

/* Whether the current task has a handle of a journal: a commit may wait for it. */
static inline bool split_has_handle(void)
{
	return (unsigned long)current->journal_info >= SPLIT_HANDLE;
}

/**
 * split_inside() - in which call at a device's gates the current task is
 * @device: what split_attach() returned
 * @private: becomes what the policy has of the call there
 *
 * Process context.  Return: whether it is inside one, or held and writes its file back.
 */
bool split_inside(const struct split_device *device, u64 *private);

/**
 * split_costs_nothing() - whether a call writes but to what is dirty anyway, or reads memory
 * @call: a call, in enter()
 *
 * Process context, under RCU.  What becomes dirty again costs nothing more, unless another
 * account had it dirty.
 *
 * Return: true for a write, neither durable nor direct, of no more than 256 pages, all of
 * which are in the page cache, dirty and not being written; and for such a read of as many
 * that are there.
 */
bool split_costs_nothing(const struct split_call *call);

/*
 * Requests.  Each has a set of causes: the accounts that read, write directly, or made the pages
 * dirty that it writes; of the journal, all that have changed what is committed.  It is there
 * from split_insert() until split_finish().  The framework has rq->elv.priv[0], the policy
 * rq->elv.priv[1].  An elevator that is a policy has split_prepare(), split_finish() and
 * split_allow_merge() as its operations of the same name, or calls them in them.
 */

/**
 * split_prepare() - elevator operation prepare_request
 * @rq: a request that the current task has just got for itself or for a cause
 */
void split_prepare(struct request *rq);

void split_insert_known(struct split_device *device, struct request *rq);

/**
 * split_insert() - find the causes of a request
 * @device: what split_attach() returned
 * @rq: in insert_requests, before others can see it; also one without a scheduler's
 *	tag, as a flush, which has no causes
 *
 * In process context, without the policy's lock.  Calls settle() for those whose data it
 * writes.  A request that is inserted again, after the driver had it, keeps its causes.
 */
static __always_inline void split_insert(struct split_device *device, struct request *rq)
{
	if (req_op(rq) == REQ_OP_WRITE || unlikely(current->flags & PF_KTHREAD) ||
	    (rq->bio && unlikely(rq->bio->bi_iocost_cost)))
		split_insert_known(device, rq);
}

/**
 * split_is_below() - whether requests may come through a disk of device-mapper or md
 * @device: what split_attach() returned
 *
 * In any context.
 */
bool split_is_below(const struct split_device *device);

/**
 * split_works_for_all() - whether the current task queues what other tasks wait for
 * @device: what split_attach() returned
 *
 * A thread of device-mapper or md, such as dm-crypt's for writes, queues one bio after the other:
 * while it waits for a tag for one of them, all others wait.  In process context.
 */
bool split_works_for_all(const struct split_device *device);

/* In rq->elv.priv[0], below the tag: it is of the task that got it, which works for itself. */
#define SPLIT_OWN BIT(2)
#define SPLIT_TAG_SHIFT 32

/* Of a tag of several accounts, the id of the one with the largest part. */
u32 split_heaviest(u32 tag);

/* Of a request that split_prepare() has seen. */
static inline u32 split_request_tag(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[0] >> SPLIT_TAG_SHIFT;
}

/**
 * split_request_id() - the id of split_request_account()
 * @rq: as there
 *
 * Under RCU or a lock that keeps the request.
 */
static inline u32 split_request_id(const struct request *rq)
{
	u32 tag = rq->rq_flags & SLUICE_RQF_SCHED ? split_request_tag(rq) : 0;

	return likely(tag < SPLIT_ACCOUNTS) ? tag : split_heaviest(tag);
}

/* Whether a request is a read that a task does for itself, with its account's I/O priority. */
static inline bool split_is_own_read(const struct request *rq)
{
	return req_op(rq) == REQ_OP_READ && rq->rq_flags & SLUICE_RQF_SCHED &&
	       (unsigned long)rq->elv.priv[0] & SPLIT_OWN;
}

/**
 * split_request_account() - the account that a request is for, or most of it
 * @rq: between split_insert() and split_finish()
 *
 * Under RCU or a lock that keeps the request.  Return: an account, never NULL.
 */
struct split_account *split_request_account(struct request *rq);

/**
 * split_id_of_task() - the id of the current task's account
 *
 * In any context of the task.  Return: its id, or 0 if it was not met lately.
 */
u32 split_id_of_task(void);

/**
 * split_is_log() - whether a write is a journal's, or for a commit that is being written
 * @rq: in insert_requests, after split_insert()
 *
 * Process context.  Any task may have to wait for it, whichever began the commit; for metadata
 * that a task waits for (REQ_SYNC), as a checkpoint, it is the same.
 */
bool split_is_log(const struct request *rq);

/**
 * split_dispatch() - a request goes to the driver: tell the accounts that pay
 * @device: what split_attach() returned
 * @rq: what dispatch_request will return, or what it skips the policy for
 *
 * Under the policy's lock, which makes the order of calls the order on the device.  Calls
 * charge() for each of its causes, the first time that it is dispatched.
 */
void split_dispatch(struct split_device *device, struct request *rq);

/**
 * split_finish() - elevator operation finish_request
 * @rq: the request
 */
void split_finish(struct request *rq);

/**
 * split_finish_on() - the same, where the device is known
 * @device: what split_attach() returned
 * @rq: the request
 */
void split_finish_on(struct split_device *device, struct request *rq);

/**
 * split_allow_merge() - elevator operation allow_merge
 * @q: the queue
 * @rq: a request, in a plug or in a queue
 * @bio: of the current task
 *
 * Return: whether they may be one.  What one account reads or writes directly isn't merged
 * with what another one does; pages that are written back are.
 */
bool split_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio);

/**
 * split_account_get() - one more reference to an account
 * @account: to which the caller has one, or another task for it
 *
 * In any context.  Return: the account.
 */
struct split_account *split_account_get(struct split_account *account);

/**
 * split_account_put() - one reference less; the last one frees the account
 * @account: the account
 *
 * In any context.
 */
void split_account_put(struct split_account *account);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* The gates: calls that come to them, those that are held, and where. */
#ifndef SPLIT_GATE_H
#define SPLIT_GATE_H

#include "request.h"

extern atomic_t split_closed_devices;

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
	SPLIT_TURNED_AWAY, /* not at all yet: it returns to user mode, to be made again */
	SPLIT_PAYS, /* the same, but it has gone on; its task passes gates until its way back */
	SPLIT_WAITS, /* on its way back to user mode */
	SPLIT_WAITED, /* no longer: it passes when it is made again */
	SPLIT_MADE, /* no longer: it was made again, and passes until its way back */
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

/* Calls at gates are hashed by task: two seldom share a bucket, so that it stays with one CPU. */
#define SPLIT_CALL_BITS 10

extern struct split_bucket split_calls[1 << SPLIT_CALL_BITS];

static inline struct split_bucket *split_bucket_of(struct task_struct *task)
{
	return &split_calls[hash_ptr(task, SPLIT_CALL_BITS)];
}

void split_meet(struct split_call *call);
void split_add(struct split_call *call);
void split_del(struct split_call *call);
bool split_ask(struct split_call *call);
void split_escape(struct split_call *call);
void split_hold_here(struct split_call *call);
void split_demand(struct split_call *call);
void split_tell(struct split_call *call, ssize_t result);
void split_put(struct split_call *call);
bool split_is_cancelled(void);
bool split_blocks_freezer(void);
bool split_held_enough(const struct split_call *call);
loff_t split_range(const struct split_call *call, loff_t *last);

bool split_passes(const struct split_device *device, const struct super_block *sb, bool part);
void split_note_made(const struct split_device *device, bool all, bool part);
void split_put_away(const struct split_call *call, enum split_way way);
bool split_is_awaited(void);
void split_resume(void);
void split_records_exit(struct task_struct *task);
void split_records_forget(void);

void split_gates_init(void);
void split_open_gates(struct split_device *device);
void split_end_holds(struct split_device *device);
void split_gates_show(struct split_device *device, struct seq_file *m);
void split_held_show(struct seq_file *m);

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

extern struct split_hook split_entry_hooks[];
extern struct split_probe split_entry_probes[];

#endif

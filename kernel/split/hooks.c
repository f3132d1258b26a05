// SPDX-License-Identifier: GPL-2.0-only
/*
 * The hooks of all levels: functions, by ftrace, and tracepoints.
 *
 * The hooks are found by name, once, and are active as long as a device has a policy.  A work item
 * activates and deactivates them.  Both take locks of ftrace, which must not wait for a frozen
 * queue, and deactivation waits for RCU.  Deactivation is delayed for a while, since a change of
 * policy is a detach followed by an attach.  What the hooks need is created before them, and freed
 * after them.
 */
#include "core.h"

#include "../compat/timer.h"

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/tracepoint.h>
#include <linux/wait.h>

/* How long a change of policy waits, with the queue frozen, for the hooks to be put in. */
#define SPLIT_HOOKS_MS 5000

/*
 * How long the hooks stay in after the last policy went.  Taking them out needs a grace period for
 * each hook, and a policy that is chosen meanwhile waits for all of them with the queue frozen.  So
 * this is longer than it takes to try one policy after another.
 */
#define SPLIT_LINGER_MS 30000

/* Number of functions, at most, that have no symbol for modules. */
#define SPLIT_LOOKUPS 32

static struct split_hook *const split_all_hooks[] = {
	split_stack_hooks, split_memory_hooks, split_ext4_hooks,
	split_entry_hooks, split_xfs_hooks, /* the last: without XFS it is left out */
};

static struct split_probe *const split_all_probes[] = {
	split_entry_probes, split_memory_probes, split_ext4_probes,
	split_stack_probes, split_block_probes,	 split_xfs_probes,
};

/**
 * struct split_hooking - whether the hooks are in
 * @lock: guards @users and @more
 * @users: devices with a policy
 * @more: those of them that need each of SPLIT_MORE and SPLIT_FLUSHES
 * @in: whether the hooks are in; used by the work item alone, like @have
 * @have: the kinds of @more that hooks and probes are in for
 * @result: of the last run of the work item: 0 or a negative error; 1 while it is to run
 * @done: woken when @result is there
 * @work: puts the hooks in if there are users, takes them out if there are none
 * @ext4: the module with the hooked functions, which stays loaded
 * @xfs: likewise; NULL if it wasn't loaded
 */
static struct {
	spinlock_t lock; /* guards users and more */
	unsigned int users;
	unsigned int more[SPLIT_KINDS + 1];
	bool in;
	unsigned int have;
	int result;
	wait_queue_head_t done;
	struct delayed_work work;
	struct file_system_type *ext4;
	struct file_system_type *xfs;
} split_hooking;

/* Calls a function for each hook until it fails. */
static int split_each_hook(int (*fn)(struct split_hook *hook))
{
	struct split_hook *hook;
	unsigned int i, sets = ARRAY_SIZE(split_all_hooks) - !split_hooking.xfs;
	int err = 0;

	for (i = 0; i < sets; i++)
		for (hook = split_all_hooks[i]; !err && hook->function; hook++)
			err = fn(hook);
	return err;
}

static int split_each_probe(int (*fn)(struct split_probe *probe))
{
	struct split_probe *probe;
	unsigned int i;
	int err = 0;

	for (i = 0; i < ARRAY_SIZE(split_all_probes); i++)
		for (probe = split_all_probes[i]; !err && probe->name; probe++)
			err = fn(probe);
	return err;
}

/* In and out */

static int split_put_in(struct split_hook *hook)
{
	int err;

	if (hook->in || (hook->more & ~split_hooking.have))
		return 0;
	err = register_ftrace_function(&hook->ops);
	if (err)
		pr_err("split: %s is changed by a livepatch or a kprobe already, or ftrace is off (error %d); next: grep %s /sys/kernel/tracing/enabled_functions; sysctl kernel.ftrace_enabled\n",
		       hook->function, err, hook->function);
	hook->in = !err;
	return err;
}

static int split_take_out(struct split_hook *hook)
{
	if (hook->in)
		WARN_ON_ONCE(unregister_ftrace_function(&hook->ops));
	hook->in = false;
	return 0;
}

/* Takes out hooks and probes that no device needs any more. */
static int split_take_out_more(struct split_hook *hook)
{
	return hook->more & ~split_hooking.have ? split_take_out(hook) : 0;
}

static int split_listen(struct split_probe *probe)
{
	int err;

	if (probe->in || (probe->more & ~split_hooking.have))
		return 0;
	err = tracepoint_probe_register(probe->tracepoint, probe->function, NULL);
	if (err)
		pr_err("split: tracepoint %s can't be listened to (error %d); next: free memory and try again\n",
		       probe->name, err);
	probe->in = !err;
	return err;
}

static int split_hear_no_more(struct split_probe *probe)
{
	if (probe->in)
		WARN_ON_ONCE(tracepoint_probe_unregister(probe->tracepoint, probe->function, NULL));
	probe->in = false;
	return 0;
}

static int split_hear_no_more_of(struct split_probe *probe)
{
	return probe->more & ~split_hooking.have ? split_hear_no_more(probe) : 0;
}

static void split_take_out_all(void)
{
	split_each_hook(split_take_out);
	split_each_probe(split_hear_no_more);
	tracepoint_synchronize_unregister();
	split_records_forget();
	split_proxies_off();
	split_journals_off();
	split_memory_off();
	split_stacks_off();
	split_hooking.in = false;
	split_hooking.have = SPLIT_NONE;
}

static int split_put_in_all(void)
{
	int err = split_memory_on();

	if (err)
		pr_err("split: no memory for the tags of pages, 0.1 %% of all; next: free some and try again\n");
	err = err ?: split_each_probe(split_listen) ?: split_each_hook(split_put_in);
	split_hooking.in = true;
	if (err)
		split_take_out_all();
	return err;
}

/* Puts in hooks and probes for these needs, besides those of all. */
static int split_change_more(unsigned int more)
{
	unsigned int had = split_hooking.have;
	int err;

	split_hooking.have = more;
	err = split_each_probe(split_listen) ?: split_each_hook(split_put_in);
	if (err)
		split_hooking.have = had;
	split_each_hook(split_take_out_more);
	split_each_probe(split_hear_no_more_of);
	return err;
}

/* A queue is frozen: an allocation must not wait for memory that is written back to it. */
static int split_put_in_for(unsigned int more)
{
	unsigned int flags = memalloc_noio_save();
	int err = 0;

	if (!split_hooking.in)
		err = split_put_in_all();
	if (!err && split_hooking.have != more)
		err = split_change_more(more);
	memalloc_noio_restore(flags);
	return err;
}

/* Which of SPLIT_MORE and SPLIT_FLUSHES any device needs. */
static unsigned int split_more(void)
{
	unsigned int kind, more = SPLIT_NONE;

	lockdep_assert_held(&split_hooking.lock);
	for (kind = 0; kind < ARRAY_SIZE(split_hooking.more); kind++)
		if (split_hooking.more[kind])
			more |= BIT(kind);
	return more;
}

static void split_hooks_work(struct work_struct *work)
{
	unsigned int users, more;
	int result = 0;

	spin_lock(&split_hooking.lock);
	users = split_hooking.users;
	more = split_more();
	spin_unlock(&split_hooking.lock);
	if (users)
		result = split_put_in_for(more);
	else if (split_hooking.in)
		split_take_out_all();
	spin_lock(&split_hooking.lock);
	/* A device that came or went meanwhile has queued this again: it is answered then. */
	if (result ||
	    (split_hooking.in == !!split_hooking.users && split_hooking.have == split_more()))
		WRITE_ONCE(split_hooking.result, result);
	spin_unlock(&split_hooking.lock);
	wake_up_all(&split_hooking.done);
}

static bool split_has_answer(int *result)
{
	*result = READ_ONCE(split_hooking.result);
	return *result <= 0;
}

/* One more or one less device needs these. */
static void split_count_more(unsigned int more, int by)
{
	unsigned int kind;

	lockdep_assert_held(&split_hooking.lock);
	for (kind = 0; kind < ARRAY_SIZE(split_hooking.more); kind++)
		if (more & BIT(kind))
			split_hooking.more[kind] += by;
}

/**
 * split_hooks_on() - put the hooks in, for one more device
 * @more: what it needs of SPLIT_MORE and SPLIT_FLUSHES
 *
 * Sleeps, SPLIT_HOOKS_MS at most.  Return: 0; -EBUSY, -ETIMEDOUT or another error, which
 * has been explained in the kernel log.
 */
int split_hooks_on(unsigned int more)
{
	int result;

	spin_lock(&split_hooking.lock);
	split_hooking.users++;
	split_count_more(more, 1);
	split_hooking.result = 1;
	spin_unlock(&split_hooking.lock);
	mod_delayed_work(system_dfl_wq, &split_hooking.work, 0);
	if (!wait_event_timeout(split_hooking.done, split_has_answer(&result),
				msecs_to_jiffies(SPLIT_HOOKS_MS)))
		pr_err("split: the hooks could not be put in within %u ms; next: try again\n",
		       SPLIT_HOOKS_MS);
	if (result)
		split_hooks_off(more);
	return result > 0 ? -ETIMEDOUT : result;
}

/**
 * split_hooks_off() - a device that split_hooks_on() was called for has no policy any more
 * @more: what was given to split_hooks_on() then
 */
void split_hooks_off(unsigned int more)
{
	spin_lock(&split_hooking.lock);
	split_count_more(more, -1);
	if (!--split_hooking.users || more)
		/* Another device's attach may wait, with a frozen queue, for the hooks. */
		mod_delayed_work(system_dfl_wq, &split_hooking.work,
				 split_hooking.result > 0 ? 0 : msecs_to_jiffies(SPLIT_LINGER_MS));
	spin_unlock(&split_hooking.lock);
}

/* Finding */

/* Probes that are never armed, and those in use: they find the address of a symbol by its name. */
static struct kprobe split_lookups[SPLIT_LOOKUPS] __initdata;
static struct kprobe *split_looked_up[SPLIT_LOOKUPS] __initdata;
static unsigned int split_lookup_count __initdata;

/*
 * Looks up a function's address if it isn't known.  ftrace would compare each of its functions'
 * names instead, which takes a tenth of a second.
 */
static int __init split_look_up(struct split_hook *hook)
{
	struct kprobe *lookup = &split_lookups[split_lookup_count];
	int err;

	if (hook->address)
		return 0;
	if (WARN_ON_ONCE(split_lookup_count == SPLIT_LOOKUPS))
		return -ENOSPC;
	*lookup = (struct kprobe){ .symbol_name = hook->function, .flags = KPROBE_FLAG_DISABLED };
	err = register_kprobe(lookup);
	if (err)
		return err;
	split_looked_up[split_lookup_count++] = lookup;
	hook->address = lookup->addr;
	return 0;
}

static int __init split_find_function(struct split_hook *hook)
{
	int err = split_look_up(hook);

	if (!err)
		err = ftrace_set_filter_ip(&hook->ops, (unsigned long)hook->address, 0, 1);
	if (err == -EOPNOTSUPP)
		pr_err("split: this kernel has no kprobes, which tell where %s is; next: use a kernel with CONFIG_KPROBES\n",
		       hook->function);
	else if (err)
		pr_err("split: this kernel has no function %s to hook (error %d); next: use a kernel that docs/design.md names\n",
		       hook->function, err);
	return err;
}

static int split_forget_function(struct split_hook *hook)
{
	ftrace_free_filter(&hook->ops);
	return 0;
}

static void split_note_tracepoint(struct tracepoint *tracepoint, void *unused)
{
	struct split_probe *probe;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_all_probes); i++)
		for (probe = split_all_probes[i]; probe->name; probe++)
			if (!strcmp(probe->name, tracepoint->name))
				probe->tracepoint = tracepoint;
}

static int split_note_module(struct notifier_block *nb, unsigned long event, void *data)
{
	struct module *module = ((struct tp_module *)data)->mod;
	int i;

	if (event != MODULE_STATE_COMING)
		return NOTIFY_OK;
	for (i = 0; i < module->num_tracepoints; i++)
		split_note_tracepoint(tracepoint_ptr_deref(&module->tracepoints_ptrs[i]), NULL);
	return NOTIFY_OK;
}

static int split_is_found(struct split_probe *probe)
{
	if (probe->tracepoint)
		return 0;
	pr_err("split: this kernel has no tracepoint %s; next: use a kernel that docs/design.md names\n",
	       probe->name);
	return -ENODEV;
}

/* Those of modules that are loaded are told at once; ext4's and jbd2's stay loaded. */
static int split_find_tracepoints(void)
{
	struct notifier_block nb = { .notifier_call = split_note_module };
	int err;

	for_each_kernel_tracepoint(split_note_tracepoint, NULL);
	err = register_tracepoint_module_notifier(&nb);
	if (err)
		return err;
	unregister_tracepoint_module_notifier(&nb);
	return split_each_probe(split_is_found);
}

/* XFS isn't loaded if it is absent. */
static void __init split_find_xfs(void)
{
	if (!split_look_up(split_xfs_hooks))
		split_hooking.xfs = get_fs_type("xfs");
	if (!split_hooking.xfs)
		pr_info("split: XFS isn't loaded: its calls won't be held, and its log is charged to no account; next, if it is in use: modprobe xfs, and load split again\n");
}

static void split_forget(void)
{
	split_each_hook(split_forget_function);
	module_put(split_hooking.ext4->owner);
	if (split_hooking.xfs)
		module_put(split_hooking.xfs->owner);
}

/**
 * split_hooks_init() - find what is to be hooked
 *
 * Return: 0; -ENODEV or another error if it isn't there, with the reason in the log.
 */
int __init split_hooks_init(void)
{
	int err;

	spin_lock_init(&split_hooking.lock);
	init_waitqueue_head(&split_hooking.done);
	INIT_DELAYED_WORK(&split_hooking.work, split_hooks_work);
	split_hooking.ext4 = get_fs_type("ext4");
	if (!split_hooking.ext4) {
		pr_err("split: there is no ext4, whose calls it gates; next: modprobe ext4\n");
		return -ENODEV;
	}
	split_find_xfs();
	err = split_find_tracepoints() ?: split_each_hook(split_find_function);
	unregister_kprobes(split_looked_up, split_lookup_count);
	if (err)
		split_forget();
	return err;
}

/**
 * split_hooks_exit() - take the hooks out, and wait until no call is in this module
 */
void split_hooks_exit(void)
{
	cancel_delayed_work_sync(&split_hooking.work);
	if (split_hooking.in)
		split_take_out_all();
	split_memory_off();
	split_entry_drain();
	split_records_forget();
	split_forget();
}

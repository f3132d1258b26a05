// SPDX-License-Identifier: GPL-2.0-only
/*
 * The framework as a module: what a policy attaches to, and debugfs.  See split.h.
 */
#include "core.h"

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>

static struct dentry *split_debugfs;

/* What a policy needs of SPLIT_MORE and SPLIT_FLUSHES: for one that charges costs are learned. */
static unsigned int split_needs(const struct split_ops *ops)
{
	return ops->more | (ops->charge || ops->flush ? SPLIT_FLUSHES : 0);
}

struct split_device *split_attach(struct request_queue *q, const struct split_ops *ops, void *data)
{
	struct split_device *device = split_device_alloc(q, ops, data);
	int err;

	if (IS_ERR(device))
		return device;
	err = split_hooks_on(split_needs(ops));
	if (err) {
		split_device_free(device);
		return ERR_PTR(err);
	}
	split_device_add(device);
	return device;
}
EXPORT_SYMBOL_GPL(split_attach);

void split_detach(struct split_device *device)
{
	split_device_remove(device);
	split_stack_forget(device);
	/* Pairs with split_close(): a gate that is closed meanwhile is opened there, or here. */
	WRITE_ONCE(device->state, SPLIT_DETACHED);
	split_open_gates(device);
	synchronize_rcu();
	split_end_holds(device);
	split_hooks_off(split_needs(device->ops));
	percpu_ref_kill(&device->refs);
}
EXPORT_SYMBOL_GPL(split_detach);

/* debugfs */

/* split/devices: a line per device. */
static int devices_show(struct seq_file *m, void *unused)
{
	split_devices_show(m, split_gates_show);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(devices);

/* split/held: a line per held call. */
static int held_show(struct seq_file *m, void *unused)
{
	split_held_show(m);
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

/* split/ledger: a line per device and account; process 0 is I/O of unknown cause. */
static int ledger_show(struct seq_file *m, void *unused)
{
	split_devices_show(m, split_ledger_show);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ledger);

/* split/costs: a line per device, of what its I/O costs. */
static int costs_show(struct seq_file *m, void *unused)
{
	split_devices_show(m, split_costs_line);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(costs);

/* split/stacks: a line per disk of device-mapper or md, with the devices below it. */
static int stacks_show(struct seq_file *m, void *unused)
{
	split_stacks_show(m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stacks);

/* split/memory: bytes of all memory in use, without the policies' and static memory. */
static int memory_show(struct seq_file *m, void *unused)
{
	seq_printf(m, "bytes %llu\n",
		   split_memory_bytes() + split_accounts_bytes() + split_devices_bytes());
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(memory);

static int __init split_init(void)
{
	int err;

	/* With PREEMPT_RT spinlocks sleep; page-cache hooks take them with preemption off. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		pr_err("split: this kernel has PREEMPT_RT, where its hooks would sleep in atomic context; next: choose a scheduler without hooks, as mq-prio or cpq\n");
		return -EOPNOTSUPP;
	}
	split_gates_init();
	err = split_accounts_init(split_memory_is_scarce);
	if (err)
		return err;
	err = split_hooks_init();
	if (err) {
		split_accounts_exit();
		return err;
	}
	split_debugfs = debugfs_create_dir("split", NULL);
	debugfs_create_file("devices", 0400, split_debugfs, NULL, &devices_fops);
	debugfs_create_file("held", 0400, split_debugfs, NULL, &held_fops);
	debugfs_create_file("accounts", 0400, split_debugfs, NULL, &accounts_fops);
	debugfs_create_file("ledger", 0400, split_debugfs, NULL, &ledger_fops);
	debugfs_create_file("costs", 0400, split_debugfs, NULL, &costs_fops);
	debugfs_create_file("stacks", 0400, split_debugfs, NULL, &stacks_fops);
	debugfs_create_file("memory", 0400, split_debugfs, NULL, &memory_fops);
	return 0;
}

/* No policy is left, but calls that were gated may still be on their way. */
static void __exit split_exit(void)
{
	debugfs_remove(split_debugfs);
	split_hooks_exit();
	/* The first one drops the devices' last references, the second one frees the devices. */
	rcu_barrier();
	rcu_barrier();
	split_accounts_exit();
	WARN_ON_ONCE(atomic_read(&split_closed_devices));
}

module_init(split_init);
module_exit(split_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Framework for split-level I/O schedulers");

// SPDX-License-Identifier: GPL-2.0-only
/*
 * sluice-carry: I/O priorities through stacked disks
 *
 * A disk of device-mapper or md makes bios of its own for the disks below it, and often a thread
 * of the driver queues them.  A bio that has a priority by then keeps it, and one that has none
 * gets that of the thread.  On Linux 6.1 two kinds have none: what a process writes from the page
 * cache, and all that dm-crypt writes.  6.12 sets the first one's itself, and dm-crypt copies it.
 *
 * So a bio gets its priority where it is queued on the uppermost disk, by the task that does it:
 * the same as it would get on a disk without a stack.  And a bio that is made of another one has
 * the other's.
 *
 * What a driver writes for itself has no other bio, and keeps the thread's priority: copies on
 * write, what a cache writes back, a resync, and all that RAID 5 and 6 write.
 *
 * Nothing is allocated, no lock is taken, and a bio's priority is set before any scheduler has it.
 */
#include "../compat/ftrace.h"

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/ioprio.h>
#include <linux/module.h>
#include <linux/tracepoint.h>

#ifndef CONFIG_BLK_CGROUP
#error "sluice-carry: bios can't be followed on a kernel without CONFIG_BLK_CGROUP"
#endif

static struct tracepoint *carry_tracepoint;

/* A bio is queued on a disk, by the task that submits it.  Called from any context. */
static void carry_queued(void *unused, struct bio *bio)
{
	if (bio->bi_bdev->bd_disk->fops->submit_bio && !IOPRIO_PRIO_CLASS(bio->bi_ioprio))
		bio->bi_ioprio = get_current_ioprio();
}

/* bio_clone_blkg_association(to, from) is called for nearly all bios that are made of others. */
static void notrace carry_cloned(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
				 struct ftrace_regs *regs)
{
	struct bio *to = sluice_ftrace_arg(regs, 0);
	const struct bio *from = sluice_ftrace_arg(regs, 1);

	if (!IOPRIO_PRIO_CLASS(to->bi_ioprio))
		to->bi_ioprio = from->bi_ioprio;
}

static struct ftrace_ops carry_ops = {
	.func = carry_cloned,
	.flags = FTRACE_OPS_FL_PERMANENT,
};

static void __init carry_note(struct tracepoint *tracepoint, void *unused)
{
	if (!strcmp(tracepoint->name, "block_bio_queue"))
		carry_tracepoint = tracepoint;
}

static int __init carry_hook(void)
{
	int err = ftrace_set_filter_ip(&carry_ops, (unsigned long)bio_clone_blkg_association, 0, 0);

	err = err ?: register_ftrace_function(&carry_ops);
	if (err) {
		ftrace_free_filter(&carry_ops);
		pr_err("sluice-carry: bio_clone_blkg_association() can't be hooked (error %d); next: sysctl kernel.ftrace_enabled=1\n",
		       err);
	}
	return err;
}

static void carry_unhook(void)
{
	WARN_ON_ONCE(unregister_ftrace_function(&carry_ops));
	ftrace_free_filter(&carry_ops);
}

static int __init carry_init(void)
{
	int err;

	for_each_kernel_tracepoint(carry_note, NULL);
	if (!carry_tracepoint) {
		pr_err("sluice-carry: this kernel has no tracepoint block_bio_queue; next: use a kernel with CONFIG_TRACEPOINTS\n");
		return -ENODEV;
	}
	err = carry_hook();
	if (err)
		return err;
	err = tracepoint_probe_register(carry_tracepoint, carry_queued, NULL);
	if (err) {
		pr_err("sluice-carry: tracepoint block_bio_queue can't be listened to (error %d); next: free memory and try again\n",
		       err);
		carry_unhook();
	}
	return err;
}

static void __exit carry_exit(void)
{
	WARN_ON_ONCE(tracepoint_probe_unregister(carry_tracepoint, carry_queued, NULL));
	carry_unhook();
	tracepoint_synchronize_unregister();
}

module_init(carry_init);
module_exit(carry_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Carries I/O priorities through device-mapper and md");

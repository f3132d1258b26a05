// SPDX-License-Identifier: GPL-2.0-only
/* For tests/test_split_guest.py: sits on a function as a livepatch does, so that nothing else may change it. */
#include <linux/kprobes.h>
#include <linux/module.h>

static char *function = "mnt_want_write";
module_param(function, charp, 0);

/* A probe that looks at the function's end, too, may change where it goes on. */
static void taken_after(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe taken_probe = { .post_handler = taken_after };

static int __init taken_init(void)
{
	taken_probe.symbol_name = function;
	return register_kprobe(&taken_probe);
}

static void __exit taken_exit(void)
{
	unregister_kprobe(&taken_probe);
}

module_init(taken_init);
module_exit(taken_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Sits on a function");

/* SPDX-License-Identifier: GPL-2.0-only */
/* What a function hook sees of the call that it interrupts, alike on all kernels. */
#ifndef SLUICE_COMPAT_FTRACE_H
#define SLUICE_COMPAT_FTRACE_H

#include <linux/ftrace.h>

#ifndef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
#error "sluice: calls can't be gated on a kernel without CONFIG_DYNAMIC_FTRACE_WITH_ARGS"
#endif

/**
 * sluice_ftrace_arg() - an argument of the hooked function
 * @regs: as the hook got it
 * @n: which, from 0; of those that are passed in registers
 *
 * ftrace_regs_get_argument() came with 6.3 (94d095ffa0e1 "ftrace: abstract
 * DYNAMIC_FTRACE_WITH_ARGS accesses").
 */
static __always_inline void *sluice_ftrace_arg(struct ftrace_regs *regs, unsigned int n)
{
#ifdef ftrace_regs_get_argument
	return (void *)ftrace_regs_get_argument(regs, n);
#else
	return (void *)regs_get_kernel_argument(&regs->regs, n);
#endif
}

/**
 * sluice_ftrace_redirect() - have another function run with the same arguments
 * @regs: as the hook got it; the hook has FTRACE_OPS_FL_IPMODIFY
 * @function: of the same type as the hooked one
 */
static __always_inline void sluice_ftrace_redirect(struct ftrace_regs *regs, void *function)
{
#ifdef ftrace_regs_set_instruction_pointer
	ftrace_regs_set_instruction_pointer(regs, (unsigned long)function);
#else
	ftrace_instruction_pointer_set(regs, (unsigned long)function);
#endif
}

#endif

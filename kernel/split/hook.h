/* SPDX-License-Identifier: GPL-2.0-only */
/* The hooks of each layer, as tables; hooks.c puts them in and takes them out. */
#ifndef SPLIT_HOOK_H
#define SPLIT_HOOK_H

#include "../compat/ftrace.h"

#include <linux/bits.h>

/* Beside SPLIT_MORE: the flushes of the devices, for policies that charge or hear of them. */
#define SPLIT_FLUSHES BIT(SPLIT_KINDS)

/**
 * struct split_hook - a hooked function
 * @function: its name
 * @address: its own, of a function that modules may call; else NULL until it has been looked up
 * @ops: the hook
 * @more: in only for policies with these kinds of gates; 0: for all
 * @in: it is in
 */
struct split_hook {
	const char *function;
	void *address;
	struct ftrace_ops ops;
	unsigned int more;
	bool in;
};

/**
 * struct split_probe - a tracepoint that is listened to
 * @name: the tracepoint's
 * @function: of the tracepoint's type, with a pointer before the arguments
 * @tracepoint: once it has been found
 * @more: in only for policies that need this of SPLIT_MORE and SPLIT_FLUSHES; 0: for all
 * @in: it is listened to
 *
 * Its function may be preempted, and is not under RCU: 7.x protects tracepoints by SRCU.
 */
struct split_probe {
	const char *name;
	void *function;
	struct tracepoint *tracepoint;
	unsigned int more;
	bool in;
};

/* Redirects a hooked function: the kernel allows one such hook per function. */
#define SPLIT_GATE(name, hook)                                                      \
	{                                                                           \
		.function = name,                                                   \
		.ops = {.func = hook,                                               \
			.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_PERMANENT } \
	}

/* The same, only for policies that have gates of this kind. */
#define SPLIT_GATE_MORE(name, hook, kinds)                                          \
	{                                                                           \
		.function = name, .more = kinds,                                    \
		.ops = {.func = hook,                                               \
			.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_PERMANENT } \
	}

/* Only sees a function's arguments. */
#define SPLIT_WATCH(name, at, hook)                        \
	{                                                  \
		.function = name, .address = at,           \
		.ops = {.func = hook,                      \
			.flags = FTRACE_OPS_FL_PERMANENT } \
	}

#endif

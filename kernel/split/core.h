/* SPDX-License-Identifier: GPL-2.0-only */
/* The highest layer: the file systems' hooks, and when all hooks are in. */
#ifndef SPLIT_CORE_H
#define SPLIT_CORE_H

#include "gate.h"

extern struct split_hook split_ext4_hooks[];
extern struct split_hook split_xfs_hooks[];
extern struct split_probe split_ext4_probes[];
extern struct split_probe split_xfs_probes[];

int split_hooks_on(unsigned int more);
void split_hooks_off(unsigned int more);
int split_hooks_init(void);
void split_hooks_exit(void);

#endif

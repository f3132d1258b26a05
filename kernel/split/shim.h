/* SPDX-License-Identifier: GPL-2.0-only */
/* The few helpers that cost, causes and stride use: the kernel's own, or tests/units/user.h. */
#ifndef SPLIT_SHIM_H
#define SPLIT_SHIM_H

#ifdef __KERNEL__
#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include "user.h"
#endif

#endif

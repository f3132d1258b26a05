/* SPDX-License-Identifier: GPL-2.0-only */
/* The few helpers the models use: the kernel's own, or tests/units/user.h. */
#ifndef SIMDISK_SHIM_H
#define SIMDISK_SHIM_H

#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include "user.h"
#endif

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* What the arbiter uses, in QEMU. */
#ifndef SIMDISK_SHIM_H
#define SIMDISK_SHIM_H

#include "qemu/osdep.h"
#include "qemu/host-utils.h"

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#define U32_MAX UINT32_MAX
#define min(a, b) MIN(a, b)
#define __ffs64(word) ((unsigned int)ctz64(word))

#endif

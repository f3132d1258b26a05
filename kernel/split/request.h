/* SPDX-License-Identifier: GPL-2.0-only */
/* Requests: their causes, and the accounts that pay; what policies call is in split.h. */
#ifndef SPLIT_REQUEST_H
#define SPLIT_REQUEST_H

#include "dirty.h"

extern struct split_probe split_block_probes[];

#endif

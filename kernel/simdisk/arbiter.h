/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIMDISK_ARBITER_H
#define SIMDISK_ARBITER_H

#include "shim.h"

/* As many submission queues as a device may have. */
#define ARBITER_QUEUES 16

struct model_cmd;

/**
 * struct arbiter - submission queues, and whose turn it is
 * @queue: commands that wait, in order of arrival, one list per queue
 * @queues: how many of @queue are in use
 * @turn: the queue asked first for the next command
 * @waiting: commands in all queues
 *
 * The caller serialises all calls.
 */
struct arbiter {
	struct list_head queue[ARBITER_QUEUES];
	unsigned int queues;
	unsigned int turn;
	unsigned int waiting;
};

void arbiter_init(struct arbiter *arb, unsigned int queues);
void arbiter_add(struct arbiter *arb, struct model_cmd *cmd);
struct model_cmd *arbiter_pick(struct arbiter *arb);

#endif

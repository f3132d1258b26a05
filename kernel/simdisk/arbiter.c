// SPDX-License-Identifier: GPL-2.0-only
/*
 * The controller's choice of the submission queue that it fetches from next.
 * Round robin, one command a turn: NVMe's arbitration with a burst of one.
 */
#include "arbiter.h"
#include "model.h"

/**
 * arbiter_init() - start with empty queues
 * @arb: the arbiter
 * @queues: submission queues, 1 to ARBITER_QUEUES
 */
void arbiter_init(struct arbiter *arb, unsigned int queues)
{
	unsigned int i;

	arb->queues = queues;
	arb->turn = 0;
	arb->waiting = 0;
	for (i = 0; i < queues; i++)
		INIT_LIST_HEAD(&arb->queue[i]);
}

/**
 * arbiter_add() - put a command at the end of its submission queue
 * @arb: the arbiter
 * @cmd: the command; a queue number that is too high wraps
 */
void arbiter_add(struct arbiter *arb, struct model_cmd *cmd)
{
	list_add_tail(&cmd->node, &arb->queue[cmd->queue % arb->queues]);
	arb->waiting++;
}

/**
 * arbiter_pick() - take the next command
 * @arb: the arbiter
 *
 * Return: the command, or NULL when nothing waits.
 */
struct model_cmd *arbiter_pick(struct arbiter *arb)
{
	struct model_cmd *cmd;

	if (!arb->waiting)
		return NULL;
	while (list_empty(&arb->queue[arb->turn]))
		arb->turn = (arb->turn + 1) % arb->queues;
	cmd = list_first_entry(&arb->queue[arb->turn], struct model_cmd, node);
	list_del_init(&cmd->node);
	arb->turn = (arb->turn + 1) % arb->queues;
	arb->waiting--;
	return cmd;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NVMe's arbitration: which submission queue the controller fetches from next.
 *
 * The arbiter counts the commands that wait in each queue, but does not keep them.  The caller
 * keeps them, reports each one that comes, and is told which queue the next one is fetched from.
 *
 *	1	Round robin: all queues in turn, each at most a burst of what waits in it.
 *	2	Weighted: at every arbitration an admin queue with commands goes first.
 *	3	Then urgent queues, in turn, a burst each; lower levels may starve.
 *	4	Then the first level with commands and credit, its queues in turn, a burst each, as
 *		far as the credit allows: each command takes one.
 *	5	If no level with commands has credit a new round begins: each credit is the weight.
 *	6	After each such grant it is arbitrated again.
 *	7	A fused pair stays together.
 *
 * Source: NVM Express Base Specification 2.1, sections 3.4.4 and 5.1.25.1.1 (feature 01h).
 * Where it is silent: within a round high goes before medium before low; a level without commands
 * forfeits its remaining credit of the round; a change of weights begins a new round; a fused
 * command and its partner count as two, as far as there is credit for both.
 */
#ifndef SIMDISK_ARBITER_H
#define SIMDISK_ARBITER_H

#include "shim.h"

/* Maximum number of queues in a level. */
#define ARBITER_QUEUES 64

/* Levels, in the order in which the weighted mechanism serves them.  Below ADMIN: 1 + QPRIO. */
enum arbiter_level {
	ARBITER_ADMIN,
	ARBITER_URGENT,
	ARBITER_HIGH,
	ARBITER_MEDIUM,
	ARBITER_LOW,
	ARBITER_LEVELS
};

/* The largest weight: a byte, plus one. */
#define ARBITER_WEIGHT_MAX 256

/* The burst is 2 to the power of the lowest bits of feature 01h; all ones: no limit. */
#define ARBITER_BURST_MAX 7

/**
 * struct arbiter_queue - the place of a submission queue
 * @level: enum arbiter_level
 * @index: its number within the level, below ARBITER_QUEUES
 */
struct arbiter_queue {
	unsigned int level;
	unsigned int index;
};

/**
 * struct arbiter - counts, credits, and turns
 * @weighted: weighted round robin with an urgent class (CC.AMS 1), else round robin
 * @burst: the most commands that a queue is granted at a time
 * @weight: by level; 0 for levels without a weight
 * @credit: commands that each level may still have fetched in this round
 * @waiting: commands, by level and queue
 * @busy: bit per queue with commands, by level
 * @next: by level, the queue that is considered first
 * @turn: in round robin, the place among all queues that is considered first
 * @total: commands in all queues
 * @from: the queue that was last fetched from
 * @granted: commands that may still be fetched from it
 * @partner: the next command is the partner of the last one
 *
 * The caller serialises all calls.
 */
struct arbiter {
	bool weighted;
	unsigned int burst;
	unsigned int weight[ARBITER_LEVELS];
	unsigned int credit[ARBITER_LEVELS];
	unsigned int waiting[ARBITER_LEVELS][ARBITER_QUEUES];
	u64 busy[ARBITER_LEVELS];
	unsigned int next[ARBITER_LEVELS];
	unsigned int turn;
	unsigned int total;
	struct arbiter_queue from;
	unsigned int granted;
	bool partner;
};

unsigned int arbiter_weight(u32 feature, enum arbiter_level level);
u32 arbiter_feature(const unsigned int weight[3], unsigned int burst);
void arbiter_init(struct arbiter *arb);
void arbiter_set(struct arbiter *arb, bool weighted, u32 feature);
void arbiter_add(struct arbiter *arb, struct arbiter_queue queue);
bool arbiter_fetch(struct arbiter *arb, struct arbiter_queue *queue);
void arbiter_fuse(struct arbiter *arb);
void arbiter_drop(struct arbiter *arb, struct arbiter_queue queue);

#endif

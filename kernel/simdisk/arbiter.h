/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NVMe's arbitration: which submission queue the controller fetches from next.
 *
 * The arbiter counts the commands that wait in each queue, and keeps none: whoever has them tells
 * of each that comes, and is told which queue the next one is fetched from.
 *
 *	1	Round robin: all queues in turn, each at most a burst of what waits in it.
 *	2	Weighted: at every arbitration an admin queue with commands goes first.
 *	3	Then urgent queues, in turn, a burst each; what is below may starve.
 *	4	Then the first level with commands and credit, its queues in turn, a burst each, as
 *		far as the credit goes, of which each command takes one.
 *	5	Where no level with commands has credit a new round begins: each has its weight.
 *	6	After each such grant it is arbitrated again.
 *	7	A fused pair stays together.
 *
 * Source: NVM Express Base Specification 2.1, sections 3.4.4 and 5.1.25.1.1 (feature 01h).
 * Where it is silent: within a round high goes before medium before low; a level without
 * commands forfeits the credit that it has left in the round; a change of weights begins a new
 * round; a fused command and its partner count as two, as far as there is credit for both.
 */
#ifndef SIMDISK_ARBITER_H
#define SIMDISK_ARBITER_H

#include "shim.h"

/* As many queues as a level may have. */
#define ARBITER_QUEUES 64

/* Levels, first come first in the weighted mechanism. What is below ADMIN is 1 + QPRIO. */
enum arbiter_level {
	ARBITER_ADMIN,
	ARBITER_URGENT,
	ARBITER_HIGH,
	ARBITER_MEDIUM,
	ARBITER_LOW,
	ARBITER_LEVELS
};

/* A weight is one of these: a byte and one. */
#define ARBITER_WEIGHT_MAX 256

/* A burst is 2 to the power of the lowest bits of feature 01h, all set: no limit. */
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
 * struct arbiter - counts, credits, and whose turn it is
 * @weighted: weighted round robin with an urgent class (CC.AMS 1), else round robin
 * @burst: the most commands that a queue is granted at a time
 * @weight: by level; of those without one 0
 * @credit: what is left of it in this round
 * @waiting: commands, by level and queue
 * @busy: the queues of each level that have some, a bit each
 * @next: by level, the queue that is asked first
 * @turn: the place of all that is asked first, in round robin
 * @total: commands in all queues
 * @from: the queue that was fetched from last
 * @granted: commands that it may still be fetched of
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

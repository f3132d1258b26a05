/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stride scheduling: each client has a pass, which advances by what it was charged divided by its
 * weight.  Of the clients that wait, the one with the lowest pass is served first.  So clients that
 * always wait are served in proportion to their weights, and any two are never further apart than
 * one service of each.  (C. A. Waldspurger, W. E. Weihl, Stride scheduling, 1995; the split-level
 * paper's AFQ, section 5.1.)
 *
 * What I/O adds to it:
 *
 *	Costs are known late.  A write is charged when its cost is known, which may be long after
 *	it was admitted.  Until then an estimate is charged, which is taken back later.  A pass
 *	is therefore a sum: what was really served, plus what is expected.
 *
 *	Clients come and go.  Virtual time is how far the clients being served have come.  A client
 *	that joins begins there: it has no credit for the time it was away.  What it owes it still
 *	owes, and that debt shrinks as virtual time advances.  (P. Goyal, H. M. Vin, H. Chen,
 *	Start-time fair queueing, 1996.)
 *
 *	A client may be alone.  Service while no other client has anything to do takes nothing from
 *	others, and virtual time advances with it: clients that join later don't find it in debt.
 *
 *	Clients wait above the file system and below it, with one pass for both.  Hence the
 *	lines, each of which has its own first client.
 *
 * A client is joined as long as it has something to do: it waits, is served, or is given some time
 * to come back with more.  The caller decides how long that is.  It must be bounded, since a joined
 * client loses nothing by being late.
 *
 * A pass is 64 bits that wrap around, compared by difference: 2^63 are 9 PB of service at
 * weight 1, or 900 PB at the weight that clients have by default.
 *
 * Locking: the caller guards a struct stride and its clients with one lock, of any kind.  Nothing
 * here sleeps, allocates or takes longer than the logarithm of the number of clients.
 */
#ifndef SPLIT_STRIDE_H
#define SPLIT_STRIDE_H

#include "shim.h"

/* Weights, as io.sluice.weight has them. */
#define STRIDE_WEIGHT 100U
#define STRIDE_WEIGHT_MAX 1000U

/* Levels of an I/O priority, 0 to 7. */
#define STRIDE_LEVELS 8U

/* Places to wait, or to be counted. */
#define STRIDE_LINES 4

/**
 * struct stride_client - a client
 * @served: pass by what it was really charged
 * @rest: fraction of @served, in parts of @weight
 * @expected: charged in advance, normalised bytes
 * @pass: of both
 * @weight: its weight
 * @order: among equal passes, the client that began to wait first has the lowest
 * @joined: it has something to do
 * @at: its index in the heap of each line, from 1 on; 0: it isn't waiting there
 */
struct stride_client {
	u64 served;
	u64 rest;
	u64 expected;
	u64 pass;
	u32 weight;
	u32 order;
	bool joined;
	u32 at[STRIDE_LINES];
};

/**
 * struct stride_line - the clients that wait in one place
 * @heap: the lowest pass first; memory of the caller
 * @count: how many wait
 */
struct stride_line {
	struct stride_client **heap;
	u32 count;
};

/**
 * struct stride - clients that share something
 * @now: virtual time
 * @expected: of all clients, joined or not, normalised bytes
 * @joined: clients with something to do
 * @order: of the next client that begins to wait
 * @line: the lines
 */
struct stride {
	u64 now;
	u64 expected;
	u32 joined;
	u32 order;
	struct stride_line line[STRIDE_LINES];
};

/**
 * stride_level_weight() - the weight of a level of an I/O priority
 * @level: 0, the highest, to 7
 *
 * Level 0 weighs eight times as much as level 7 (8 - level), as in the paper.  Level 4, a process's
 * default, weighs as much as a cgroup of the default weight.
 *
 * Return: the weight.
 */
static inline u32 stride_level_weight(u32 level)
{
	return (STRIDE_LEVELS - min(level, STRIDE_LEVELS - 1)) * (STRIDE_WEIGHT / 4);
}

void stride_init(struct stride *stride, struct stride_client **heaps, u32 clients);
void stride_client_init(struct stride *stride, struct stride_client *client, u32 weight);
void stride_move(struct stride *from, struct stride *to, struct stride_client *client);
void stride_set_weight(struct stride *stride, struct stride_client *client, u32 weight);

void stride_join(struct stride *stride, struct stride_client *client);
void stride_leave(struct stride *stride, struct stride_client *client);
void stride_limit_credit(struct stride *stride, struct stride_client *client, u64 most);

void stride_wait(struct stride *stride, struct stride_client *client, unsigned int line);
void stride_unwait(struct stride *stride, struct stride_client *client, unsigned int line);
struct stride_client *stride_first(const struct stride *stride, unsigned int line);
s64 stride_lead(const struct stride_client *client, const struct stride_client *other);

void stride_serve(struct stride *stride, const struct stride_client *client);
void stride_charge(struct stride *stride, struct stride_client *client, u64 cost);
void stride_expect(struct stride *stride, struct stride_client *client, u64 cost);
void stride_settle(struct stride *stride, struct stride_client *client, u64 cost);

#endif

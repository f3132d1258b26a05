/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who is next, by stride: each client has a pass, which goes on by what it cost divided by
 * its weight, and of those that wait the one with the lowest pass is first.  So clients that
 * always wait are served in proportion to their weights, and after any time each two are
 * apart by no more than one service of each.  (C. A. Waldspurger, W. E. Weihl, Stride
 * scheduling, 1995; the split-level paper's AFQ, section 5.1.)
 *
 * What I/O adds to it:
 *
 *	Costs come late.  A write is charged when it is known, which may be long after it
 *	was let in.  Until then an estimate stands for it, that is taken back later.  A pass
 *	is therefore two: what was really served, and what is expected on top of it.  The
 *	sum decides who is first.
 *
 *	Clients come and go.  Virtual time is how far the clients being served have come.
 *	Who joins begins there: it has no credit for the time it was away.  What it owes it
 *	still owes, and that melts as virtual time goes on.  (P. Goyal, H. M. Vin,
 *	H. Chen, Start-time fair queueing, 1996.)
 *
 *	Some are alone.  What is served to a client while nobody else has anything to do
 *	takes from nobody, and virtual time goes along: who comes later finds it not in debt.
 *
 *	There are places to wait above the file system and below it, and one pass for all.
 *	Hence the lines, of which each has a first one of its own.
 *
 * A client is joined as long as it has something to do: it waits, is served, or is given a
 * moment to come back with more.  How long a moment is, the caller decides: as long as it
 * is joined it loses nothing by being late, so that must not be for ever.
 *
 * A pass is 64 bits that wrap around, compared by difference: 2^63 are 9 PB of service at
 * weight 1, or 900 PB at the weight that clients have by default.
 *
 * Locking: everything of a struct stride and its clients is under one lock of the caller's,
 * of any kind.  Nothing here sleeps, allocates or takes longer than the logarithm of the
 * number of clients.
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
 * struct stride_client - somebody who is served
 * @served: pass by what it was really charged
 * @rest: what is less than one of @served, in parts of @weight
 * @expected: charged in advance, normalised bytes
 * @pass: of both
 * @weight: its part
 * @order: of those with the same pass who began to wait first has the lowest
 * @joined: it has something to do
 * @at: where in the heap of each line it is, from 1 on; 0: it isn't waiting there
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
 * struct stride_line - those that wait in one place
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
 * @order: of who waits next
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
 * Levels are 8 - level of each other, as the paper has them.  The unit is such that level 4,
 * which a process has by default, weighs as much as a cgroup does by default.
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

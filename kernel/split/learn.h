/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a device's I/O costs, learned from the device.
 *
 * The cost model (cost.h) is linear: a window of time has so many bytes, commands, seeks and
 * flushes, and each has its price.  Where the device had enough to do, the prices should sum up to
 * the window's time.  Where they don't, each is corrected by its share of the sum.  A load of one
 * kind so corrects the prices that it depends on, and leaves the others alone.
 *
 * Prices fall and rise by different rules.  No device is faster than it was seen to be: if what it
 * did takes longer by the prices than it did take, they are too high, however little it had to do.
 * But a device that needs more time than the prices say may have waited for work.  So prices rise
 * only while it was full: constantly busy, with several requests, or large ones.  Writes may end in
 * the device's cache, long before they have cost anything.  So they lower a price only after half a
 * second in which it was constantly busy with them, or was given as much as it can do by the
 * prices, and never where seeks, or gaps, are part of it.  It may write from its cache while it has
 * nothing to do, which counts as time that it has needed.  But a policy that goes by the prices
 * gives a device no more than they allow, and may leave it idle for ever.  So until it was
 * constantly busy with writes once, time without work doesn't count: prices fall little by little.
 *
 * A flush that had little to write shows its own price, another one that the writes before it are
 * dearer.
 *
 * On a fast drive this takes many instructions, compared with those that order a read.  So after a
 * window of reads that the prices suited, no read need be told for a while.
 *
 * Locking: the caller's.  Nothing here sleeps or allocates.
 */
#ifndef SPLIT_LEARN_H
#define SPLIT_LEARN_H

#include "cost.h"

/**
 * struct learn - what was learned of a device
 * @kind: of the device
 * @deep: with so many requests inside it has enough to do
 * @price: by enum cost_term, in fs (10^-15 s)
 * @terms: what the device was given since the window began
 * @began_ns: when the window began
 * @idle_ns: for how long the device had nothing to do since
 * @requests: that it was given since
 * @writes: how many of them were writes
 * @inside: sum of what was inside at each of them
 * @inside_ns: what was inside when the window began
 * @flushed_ns: for how long it flushed its cache
 * @voided: the window tells nothing
 * @rest_ns: for so long reads need not be told
 * @wrote_ns: for how long it was constantly busy, or was given as much as it can do by the prices,
 *	      and not only reads
 * @known: it was constantly busy with writes for long enough, at some time
 * @unflushed: what was written since a flush began
 * @unflushed_writes: how many requests
 * @flushes: how many are going on
 * @alone: no other began while the first of them went on
 * @flush_ns: when that began
 * @flushing: @unflushed then
 * @flushing_writes: the same of @unflushed_writes
 */
struct learn {
	enum cost_kind kind;
	unsigned int deep;
	u64 price[COST_TERMS];
	struct cost_terms terms;
	u64 began_ns;
	u64 idle_ns;
	u32 requests;
	u32 writes;
	u64 inside;
	u64 inside_ns;
	u64 flushed_ns;
	bool voided;
	u64 rest_ns;
	u64 wrote_ns;
	bool known;
	struct cost_terms unflushed;
	u32 unflushed_writes;
	u32 flushes;
	bool alone;
	u64 flush_ns;
	struct cost_terms flushing;
	u32 flushing_writes;
};

void learn_init(struct learn *learn, const struct cost_device *device, unsigned int tags);
bool learn_request(struct learn *learn, const struct cost_terms *terms, unsigned int inside,
		   u64 inside_ns, u64 now_ns);
void learn_flush(struct learn *learn, u64 now_ns);
void learn_unflushed(struct learn *learn, u64 now_ns);
bool learn_flushed(struct learn *learn, unsigned int inside, u64 now_ns);
void learn_costs(const struct learn *learn, struct cost_device *device);

/* The device had nothing to do for so long. */
static inline void learn_idle(struct learn *learn, u64 ns)
{
	learn->idle_ns += ns;
}

#endif

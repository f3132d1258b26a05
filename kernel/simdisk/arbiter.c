// SPDX-License-Identifier: GPL-2.0-only
/* The two mechanisms of arbitration. See arbiter.h. */
#include "arbiter.h"

/* Feature 01h: above the burst's byte, each weight less one has a byte, from low to high. */
#define ARBITER_BYTE 8

/**
 * arbiter_weight() - a level's weight in a value of feature 01h
 * @feature: the value
 * @level: high, medium or low
 *
 * Return: 1 to ARBITER_WEIGHT_MAX.
 */
unsigned int arbiter_weight(u32 feature, enum arbiter_level level)
{
	return (u8)(feature >> ARBITER_BYTE * (ARBITER_LEVELS - level)) + 1;
}

/**
 * arbiter_feature() - the value of feature 01h for weights
 * @weight: of high, medium and low, 1 to ARBITER_WEIGHT_MAX
 * @burst: the power of two that is the burst; ARBITER_BURST_MAX: no limit
 *
 * Return: CDW11 of Set Features.
 */
u32 arbiter_feature(const unsigned int weight[3], unsigned int burst)
{
	return (weight[0] - 1) << 3 * ARBITER_BYTE | (weight[1] - 1) << 2 * ARBITER_BYTE |
	       (weight[2] - 1) << ARBITER_BYTE | burst;
}

/* Rule 5: credit left from the last round is void. */
static void arbiter_begin_round(struct arbiter *arb)
{
	memcpy(arb->credit, arb->weight, sizeof(arb->credit));
}

/**
 * arbiter_init() - empty queues, round robin, one command a turn
 * @arb: the arbiter
 */
void arbiter_init(struct arbiter *arb)
{
	memset(arb, 0, sizeof(*arb));
	arbiter_set(arb, false, 0);
}

/**
 * arbiter_set() - choose the mechanism and its weights
 * @arb: the arbiter
 * @weighted: CC.AMS is 1
 * @feature: value of feature 01h; its weights don't matter in round robin
 *
 * At any time: a new round begins, with what waits.
 */
void arbiter_set(struct arbiter *arb, bool weighted, u32 feature)
{
	unsigned int burst = feature & ARBITER_BURST_MAX, level;

	arb->weighted = weighted;
	arb->burst = burst == ARBITER_BURST_MAX ? U32_MAX : 1U << burst;
	for (level = ARBITER_HIGH; level <= ARBITER_LOW; level++)
		arb->weight[level] = arbiter_weight(feature, level);
	arb->granted = 0;
	arbiter_begin_round(arb);
}

/**
 * arbiter_add() - a command has come
 * @arb: the arbiter
 * @queue: where to
 */
void arbiter_add(struct arbiter *arb, struct arbiter_queue queue)
{
	arb->waiting[queue.level][queue.index]++;
	arb->busy[queue.level] |= 1ULL << queue.index;
	arb->total++;
}

static void arbiter_take(struct arbiter *arb, struct arbiter_queue queue, unsigned int commands)
{
	unsigned int *waiting = &arb->waiting[queue.level][queue.index];

	*waiting -= commands;
	arb->total -= commands;
	if (!*waiting)
		arb->busy[queue.level] &= ~(1ULL << queue.index);
}

/* The first of a level's queues with commands, in turn from a given one. */
static unsigned int arbiter_busy_from(const struct arbiter *arb, unsigned int level,
				      unsigned int index)
{
	u64 after = arb->busy[level] & ~0ULL << index;

	return __ffs64(after ? after : arb->busy[level]);
}

/* Rule 4: the first level with commands and credit, or ARBITER_LEVELS.  An idle level forfeits. */
static unsigned int arbiter_with_credit(struct arbiter *arb)
{
	unsigned int level;

	for (level = ARBITER_HIGH; level <= ARBITER_LOW; level++) {
		if (arb->busy[level] && arb->credit[level])
			break;
		arb->credit[level] = 0;
	}
	return level;
}

/* Rules 2 to 5: the level that is fetched from; some queue has commands. */
static unsigned int arbiter_next_level(struct arbiter *arb)
{
	unsigned int level;

	for (level = ARBITER_ADMIN; level <= ARBITER_URGENT; level++)
		if (arb->busy[level])
			return level;
	level = arbiter_with_credit(arb);
	if (level < ARBITER_LEVELS)
		return level;
	arbiter_begin_round(arb);
	return arbiter_with_credit(arb);
}

static struct arbiter_queue arbiter_weighted(struct arbiter *arb)
{
	struct arbiter_queue queue = { .level = arbiter_next_level(arb) };

	queue.index = arbiter_busy_from(arb, queue.level, arb->next[queue.level]);
	arb->next[queue.level] = (queue.index + 1) % ARBITER_QUEUES;
	return queue;
}

/* Places in round robin: all queues of one number, level by level, then those of the next. */
static unsigned int arbiter_place(unsigned int level, unsigned int index)
{
	return index * ARBITER_LEVELS + level;
}

/* Rule 1: of all queues, the next one with commands after the last one. */
static struct arbiter_queue arbiter_in_turn(struct arbiter *arb)
{
	unsigned int places = ARBITER_LEVELS * ARBITER_QUEUES, level, ahead, nearest = places;
	struct arbiter_queue queue = {};

	for (level = 0; level < ARBITER_LEVELS; level++) {
		unsigned int first = arb->turn / ARBITER_LEVELS, index;

		if (!arb->busy[level])
			continue;
		if (level < arb->turn % ARBITER_LEVELS)
			first = (first + 1) % ARBITER_QUEUES;
		index = arbiter_busy_from(arb, level, first);
		ahead = (arbiter_place(level, index) + places - arb->turn) % places;
		if (ahead < nearest) {
			nearest = ahead;
			queue = (struct arbiter_queue){ level, index };
		}
	}
	arb->turn = (arbiter_place(queue.level, queue.index) + 1) % places;
	return queue;
}

static bool arbiter_has_credit(const struct arbiter *arb, unsigned int level)
{
	return arb->weighted && level >= ARBITER_HIGH;
}

/* Rules 3, 4 and 6: a grant covers the commands that wait now; later ones need another grant. */
static void arbiter_arbitrate(struct arbiter *arb)
{
	struct arbiter_queue from = arb->weighted ? arbiter_weighted(arb) : arbiter_in_turn(arb);

	arb->from = from;
	arb->granted = min(arb->burst, arb->waiting[from.level][from.index]);
	if (arbiter_has_credit(arb, from.level))
		arb->granted = min(arb->granted, arb->credit[from.level]);
}

/**
 * arbiter_fetch() - which queue is the next command fetched from?
 * @arb: the arbiter
 * @queue: becomes that queue, whose number of commands is reduced by one
 *
 * Return: false if there is no command.
 */
bool arbiter_fetch(struct arbiter *arb, struct arbiter_queue *queue)
{
	unsigned int *credit;

	if (!arb->total)
		return false;
	if (!arb->granted && !(arb->partner && arb->waiting[arb->from.level][arb->from.index]))
		arbiter_arbitrate(arb);
	arb->partner = false;
	*queue = arb->from;
	credit = &arb->credit[queue->level];
	arb->granted -= !!arb->granted;
	if (arbiter_has_credit(arb, queue->level))
		*credit -= !!*credit;
	arbiter_take(arb, *queue, 1);
	return true;
}

/**
 * arbiter_fuse() - the command fetched last is the first of a fused pair
 * @arb: the arbiter
 *
 * Rule 7: its partner, the next command of its queue, is fetched next, if it has come by then.
 */
void arbiter_fuse(struct arbiter *arb)
{
	arb->partner = true;
}

/**
 * arbiter_drop() - a queue is deleted, with the commands that wait in it
 * @arb: the arbiter
 * @queue: the queue
 */
void arbiter_drop(struct arbiter *arb, struct arbiter_queue queue)
{
	arbiter_take(arb, queue, arb->waiting[queue.level][queue.index]);
	if (arb->from.level != queue.level || arb->from.index != queue.index)
		return;
	arb->granted = 0;
	arb->partner = false;
}

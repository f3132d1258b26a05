// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arbitration under anything: commands come to any queue at any time, weights and mechanism change,
 * queues go. Nothing is lost or made up, each choice is one that the rules allow, and levels that
 * always have commands are fetched from by their weights.
 *
 *   fuzz-arbiter FIRST_SEED COUNT
 */
#include "arbiter.h"
#include "check.h"

#define STEPS 4000

/**
 * struct fuzz - one run
 * @seed: of it
 * @draw: state of what is drawn by lot
 * @arb: the arbiter
 * @waiting: what should be in it
 * @total: the sum of that
 * @last: queue fetched from last
 * @granted: how many of it may be fetched before others are thought of, at most
 * @partner: its next command is a partner
 */
struct fuzz {
	u64 seed;
	u64 draw;
	struct arbiter arb;
	unsigned int waiting[ARBITER_LEVELS][ARBITER_QUEUES];
	unsigned int total;
	struct arbiter_queue last;
	unsigned int granted;
	bool partner;
};

static void fail(const struct fuzz *f, const char *what, u64 value)
{
	printf("seed %llu: %s (%llu)\n", f->seed, what, value);
	exit(1);
}

static u64 lot(struct fuzz *f, u64 below)
{
	f->draw = f->draw * 6364136223846793005ULL + 1442695040888963407ULL;
	return (f->draw >> 24) % below;
}

/* Few queues, so that they meet. */
static struct arbiter_queue some_queue(struct fuzz *f)
{
	static const unsigned int index[] = { 0, 1, 31, 32, 62, 63 };

	return (struct arbiter_queue){ lot(f, ARBITER_LEVELS), index[lot(f, ARRAY_SIZE(index))] };
}

static unsigned int *waiting(struct fuzz *f, struct arbiter_queue queue)
{
	return &f->waiting[queue.level][queue.index];
}

static bool same(struct arbiter_queue a, struct arbiter_queue b)
{
	return a.level == b.level && a.index == b.index;
}

static void add(struct fuzz *f)
{
	struct arbiter_queue queue = some_queue(f);
	unsigned int commands = 1 + lot(f, 12);

	while (commands--) {
		arbiter_add(&f->arb, queue);
		++*waiting(f, queue);
		f->total++;
	}
}

static void drop(struct fuzz *f)
{
	struct arbiter_queue queue = some_queue(f);

	arbiter_drop(&f->arb, queue);
	f->total -= *waiting(f, queue);
	*waiting(f, queue) = 0;
	if (!same(queue, f->last))
		return;
	f->granted = 0;
	f->partner = false;
}

static void set(struct fuzz *f)
{
	u32 small = lot(f, 4) << 24 | lot(f, 4) << 16 | lot(f, 4) << 8 | lot(f, 8);

	arbiter_set(&f->arb, lot(f, 4), lot(f, 2) ? small : (u32)lot(f, 1ULL << 32));
	f->granted = 0;
}

static bool level_waits(const struct fuzz *f, unsigned int level)
{
	unsigned int i;

	for (i = 0; i < ARBITER_QUEUES; i++)
		if (f->waiting[level][i])
			return true;
	return false;
}

/* Where a row is over, what goes first by the rules has nothing. */
static void check_first(const struct fuzz *f, struct arbiter_queue queue)
{
	unsigned int level;

	if (!f->arb.weighted)
		return;
	for (level = ARBITER_ADMIN; level < min_t(unsigned int, queue.level, ARBITER_HIGH); level++)
		if (level_waits(f, level))
			fail(f, "a level that goes first waits", level);
}

/* A grant is a burst at most, of what waits; this command has had its credit. */
static unsigned int most(struct fuzz *f, struct arbiter_queue queue)
{
	unsigned int granted = min(f->arb.burst, *waiting(f, queue));

	if (f->arb.weighted && queue.level >= ARBITER_HIGH)
		granted = min(granted, f->arb.credit[queue.level] + 1);
	return granted;
}

static void check_row(struct fuzz *f, struct arbiter_queue queue)
{
	bool partner = f->partner && same(queue, f->last);

	if (f->partner && !partner && *waiting(f, f->last))
		fail(f, "a fused pair is apart", queue.level);
	if (!partner && (!f->granted || !same(queue, f->last))) {
		check_first(f, queue);
		f->granted = most(f, queue);
	}
	f->granted -= !!f->granted;
}

static void fetch(struct fuzz *f)
{
	struct arbiter_queue queue;
	bool some = arbiter_fetch(&f->arb, &queue);

	if (some != !!f->total)
		fail(f, "it says that there is something", some);
	if (!some)
		return;
	if (!*waiting(f, queue))
		fail(f, "fetched from an empty queue", queue.index);
	check_row(f, queue);
	--*waiting(f, queue);
	f->total--;
	f->last = queue;
	f->partner = lot(f, 16) == 0;
	if (f->partner)
		arbiter_fuse(&f->arb);
}

static void drain(struct fuzz *f)
{
	unsigned int before;

	while (f->total) {
		before = f->total;
		fetch(f);
		if (f->total != before - 1)
			fail(f, "it keeps commands back", f->total);
	}
	fetch(f);
}

/* A queue that always has commands gets its weight's share of any whole number of rounds. */
static void check_shares(struct fuzz *f)
{
	unsigned int weight[3], count[ARBITER_LEVELS] = {}, round = 0, rounds = 3, i, j;
	struct arbiter_queue queue;

	for (i = 0; i < 3; i++) {
		weight[i] = 1 + lot(f, ARBITER_WEIGHT_MAX);
		round += weight[i];
	}
	arbiter_set(&f->arb, true, arbiter_feature(weight, lot(f, 8)));
	for (i = 0; i < 3; i++)
		for (j = 0; j < round * rounds; j++)
			arbiter_add(&f->arb,
				    (struct arbiter_queue){ ARBITER_HIGH + i, lot(f, 2) * 63 });
	for (i = 0; i < round * rounds; i++) {
		arbiter_fetch(&f->arb, &queue);
		count[queue.level]++;
	}
	for (i = 0; i < 3; i++)
		if (count[ARBITER_HIGH + i] != rounds * weight[i])
			fail(f, "a share isn't the weight", count[ARBITER_HIGH + i]);
}

static void fuzz(u64 seed)
{
	struct fuzz f = { .seed = seed, .draw = seed };
	unsigned int i;

	arbiter_init(&f.arb);
	set(&f);
	for (i = 0; i < STEPS; i++) {
		unsigned int what = lot(&f, 100);

		if (what < 20)
			add(&f);
		else if (what < 98)
			fetch(&f);
		else if (what < 99)
			drop(&f);
		else
			set(&f);
	}
	drain(&f);
	check_shares(&f);
}

int main(int argc, char **argv)
{
	u64 first, seed;

	if (argc != 3) {
		fprintf(stderr, "usage: fuzz-arbiter FIRST_SEED COUNT\n");
		return 2;
	}
	first = strtoull(argv[1], NULL, 0);
	for (seed = first; seed < first + strtoull(argv[2], NULL, 0); seed++)
		fuzz(seed);
	printf("ok   fuzz-arbiter, %s runs\n", argv[2]);
	return 0;
}

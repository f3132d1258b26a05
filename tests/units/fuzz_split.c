// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random use of the pure parts of split, and what must hold of each:
 *
 *	cost	no cost is COST_MAX or more, none is less than its data; estimates that are
 *		charged and settled in any parts come back to the byte
 *	causes	a table does what a plain list of sets does: the same set has the same tag,
 *		and each other set another one; those in a set are held, and no other; all
 *		that is split sums to the whole; when all is given back the books balance
 *	stride	the first is the one that a search finds; two that waited all the time are
 *		no further apart than two services; virtual time never goes back
 *
 *	fuzz-split FIRST_SEED COUNT
 *
 * A failure prints the seed: "fuzz-split SEED 1" repeats it.
 */
#include <stdio.h>

#include "causes.h"
#include "cost.h"
#include "stride.h"

#define STEPS 2000

static u64 seed, state;

static void fail(const char *what, u64 value)
{
	printf("seed %llu: %s (%llu)\n", seed, what, value);
	exit(1);
}

static u64 draw(u64 below)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 16) % below;
}

/* As often small as large. */
static u64 draw_wide(u64 below)
{
	return draw(below) >> draw(48);
}

/* Cost */

static u32 draw_figure(u32 least, u32 most)
{
	return least + draw_wide((u64)most - least + 1);
}

static struct cost_device random_device(void)
{
	struct cost_device d = cost_class_default(draw(2) ? COST_ROTATING : COST_FLASH,
						  4096 + draw_wide(1ULL << 47));

	d.read_mbps = draw_figure(1, 100000);
	d.write_mbps = draw_figure(DIV_ROUND_UP(d.read_mbps, 256), 100000);
	d.flush_us = draw_figure(0, 1000000);
	d.rpm = draw_figure(1000, 100000);
	d.seek_full_us = draw_figure(0, 100000);
	d.seek_track_us = draw_figure(0, d.seek_full_us);
	d.read_iops = draw_figure(10, 100000000);
	d.write_iops = draw_figure(10, 100000000);
	if (draw(8) == 0)
		d.capacity = 1ULL << 63;
	return d;
}

static void fuzz_cost_pending(const struct cost_model *model)
{
	struct cost_pending pending = {};
	struct cost_cursor file = {};
	u64 charged = 0, back = 0, at = 0;
	unsigned int step;

	for (step = 0; step < STEPS / 4; step++) {
		u32 bytes = 512 << draw(4);
		u64 cost;

		at = draw(2) ? file.end : draw_wide(1ULL << 47);
		cost = cost_estimate(model, &file, at, bytes);
		cost_expect(&pending, bytes, cost);
		charged += cost;
		if (draw(2))
			back += cost_settle(&pending, draw_wide(1 << 14));
		if (back > charged)
			fail("more came back than was charged", back - charged);
	}
	back += cost_settle(&pending, U64_MAX);
	if (back != charged || pending.cost)
		fail("what was charged in advance didn't come back", charged - back);
}

static void fuzz_cost(void)
{
	struct cost_device device = random_device();
	struct cost_cursor head = {};
	struct cost_model model;
	unsigned int step;

	if (cost_init(&model, &device))
		fail("a device was refused", device.kind);
	for (step = 0; step < STEPS; step++) {
		struct cost_io io = {
			.at = draw(3) ? draw_wide(device.capacity) : head.end,
			.bytes = draw_wide(1ULL << 32),
			.op = draw(2),
			.flush = draw(2),
		};
		struct cost_terms terms;
		u64 cost = cost_request(&model, &head, &io, &terms);

		if (cost >= COST_MAX)
			fail("a request costs too much", cost);
		if (io.op == COST_READ && cost < io.bytes)
			fail("a read costs less than its bytes", cost);
		if (io.bytes && !cost)
			fail("a request costs nothing", io.bytes);
	}
	fuzz_cost_pending(&model);
}

/* Causes */

#define ACCOUNTS 32
#define TAGS 48

/**
 * struct plain - a set as a plain list of weights
 * @tag: as the table has it
 * @held: it is in use
 * @weight: of each account
 */
struct plain {
	u32 tag;
	bool held;
	u32 weight[ACCOUNTS];
};

static struct causes_table *table;
static struct plain plain[TAGS];
static bool is_held[ACCOUNTS];

static void hold(u32 account, bool begins)
{
	if (is_held[account] == begins)
		fail("an account was held twice, or dropped twice", account);
	is_held[account] = begins;
}

/* What an account's part of a set is, in a way that doesn't depend on the unit. */
static bool same_share(const u32 *a, const u32 *b)
{
	u64 all_a = 0, all_b = 0;
	unsigned int i;

	for (i = 0; i < ACCOUNTS; i++) {
		all_a += a[i];
		all_b += b[i];
	}
	for (i = 0; i < ACCOUNTS; i++)
		if ((unsigned __int128)a[i] * all_b != (unsigned __int128)b[i] * all_a)
			return false;
	return true;
}

static void check_members(const struct plain *p)
{
	const struct causes_member *member;
	u32 weight[ACCOUNTS] = {};
	struct causes_split split;
	unsigned int i, count;
	u64 sum = 0, amount = draw_wide(1ULL << 47);

	member = causes_members(table, p->tag, &count);
	causes_split_begin(&split, amount, member, count);
	for (i = 0; i < count; i++) {
		if (i && member[i - 1].account >= member[i].account)
			fail("members are out of order", i);
		weight[member[i].account] = member[i].weight;
		sum += causes_part(&split, member[i].weight);
	}
	if (sum != amount)
		fail("parts don't sum to the whole", amount - sum);
	if (!same_share(weight, p->weight))
		fail("a set isn't what was put in", p->tag);
}

static void check_tags(void)
{
	bool held[ACCOUNTS] = {};
	unsigned int i, j;

	for (i = 0; i < TAGS; i++) {
		if (!plain[i].held)
			continue;
		check_members(&plain[i]);
		for (j = 0; j < ACCOUNTS; j++)
			held[j] |= plain[i].weight[j] > 0;
		for (j = 0; j < i; j++)
			if (plain[j].held && same_share(plain[i].weight, plain[j].weight) !=
						     (plain[i].tag == plain[j].tag))
				fail("tags and sets aren't one to one", plain[i].tag);
	}
	for (j = 1; j < ACCOUNTS; j++)
		if (is_held[j] != held[j])
			fail(held[j] ? "an account isn't held" : "an account is held", j);
}

static void random_set(struct plain *p)
{
	struct causes causes = {};
	unsigned int i;

	memset(p->weight, 0, sizeof(p->weight));
	for (i = 1 + draw(draw(2) ? 3 : ACCOUNTS); i; i--) {
		u32 account = draw(draw(2) ? 4 : ACCOUNTS),
		    weight = 1 + draw(2) * draw_wide(1 << 20);

		causes_add(table, &causes, account, weight);
		p->weight[account] += weight;
	}
	p->tag = causes_tag(table, &causes);
	p->held = true;
}

/* One more page, made dirty again. */
static void unite(struct plain *former, const struct plain *newer)
{
	const struct causes_member *member;
	unsigned int i, count;

	if (former == newer)
		return;
	/* In the units that the table has: those decide which weight is the larger one. */
	memset(former->weight, 0, sizeof(former->weight));
	member = causes_members(table, former->tag, &count);
	for (i = 0; i < count; i++)
		former->weight[member[i].account] = member[i].weight;
	member = causes_members(table, newer->tag, &count);
	for (i = 0; i < count; i++)
		former->weight[member[i].account] =
			max(former->weight[member[i].account], member[i].weight);
	former->tag = causes_unite(table, former->tag, newer->tag);
}

static void causes_step(void)
{
	struct plain *p = &plain[draw(TAGS)], *other = &plain[draw(TAGS)];

	if (!p->held)
		random_set(p);
	else if (other->held && draw(2))
		unite(p, other);
	else if (!other->held && draw(2)) {
		causes_get(table, p->tag);
		*other = *p;
	} else {
		causes_put(table, p->tag);
		p->held = false;
	}
}

static void fuzz_causes(void)
{
	unsigned int step, i;

	table = causes_create(ACCOUNTS, TAGS, TAGS, hold);
	if (!table)
		abort();
	for (step = 0; step < STEPS; step++) {
		causes_step();
		if (step % 16 == 0)
			check_tags();
	}
	if (causes_overflows(table))
		fail("a place was lost", causes_overflows(table));
	for (i = 0; i < TAGS; i++) {
		if (plain[i].held)
			causes_put(table, plain[i].tag);
		plain[i].held = false;
	}
	if (!causes_destroy(table))
		fail("the books don't balance", 0);
}

/* Stride */

#define CLIENTS 24
#define LARGEST (1 << 21)

/**
 * struct shares - clients and what is known of them
 * @stride: what they share
 * @heaps: its memory
 * @client: the clients; the first two wait in line 0 all the time
 * @got: what those two were served, normalised bytes
 */
struct shares {
	struct stride stride;
	struct stride_client *heaps[STRIDE_LINES * CLIENTS];
	struct stride_client client[CLIENTS];
	u64 got[2];
};

static void check_first(const struct shares *s, unsigned int line)
{
	const struct stride_client *first = stride_first(&s->stride, line);
	unsigned int i, waiting = 0;

	for (i = 0; i < CLIENTS; i++) {
		const struct stride_client *c = &s->client[i];

		if (!c->at[line])
			continue;
		waiting++;
		if ((s64)(c->pass - first->pass) < 0)
			fail("the first isn't first", i);
	}
	if (waiting != s->stride.line[line].count || !waiting != !first)
		fail("a line has lost an entry", waiting);
}

static void check_apart(const struct shares *s)
{
	const struct stride_client *a = &s->client[0], *b = &s->client[1];
	u64 served_a = s->got[0] * b->weight, served_b = s->got[1] * a->weight;
	u64 apart = served_a > served_b ? served_a - served_b : served_b - served_a;

	if (apart > (u64)LARGEST * (a->weight + b->weight))
		fail("two that always wait are too far apart", apart);
}

static void serve(struct shares *s, unsigned int line)
{
	struct stride_client *first = stride_first(&s->stride, line);
	u64 cost = 1 + draw_wide(LARGEST);

	if (!first)
		return;
	stride_serve(&s->stride, first);
	stride_charge(&s->stride, first, cost);
	if (first - s->client < 2)
		s->got[first - s->client] += cost;
}

static bool waits(const struct stride_client *c)
{
	unsigned int line;

	for (line = 0; line < STRIDE_LINES && !c->at[line]; line++)
		;
	return line < STRIDE_LINES;
}

static void stride_step(struct shares *s)
{
	struct stride_client *c = &s->client[2 + draw(CLIENTS - 2)];
	unsigned int line = draw(STRIDE_LINES);

	switch (draw(8)) {
	case 0:
		stride_join(&s->stride, c);
		stride_wait(&s->stride, c, line);
		break;
	case 1:
		stride_unwait(&s->stride, c, line);
		break;
	case 2:
		if (!waits(c))
			stride_leave(&s->stride, c);
		break;
	case 3:
		stride_expect(&s->stride, c, draw_wide(LARGEST));
		break;
	case 4:
		stride_settle(&s->stride, c, draw(c->expected + 1));
		break;
	case 5:
		if (draw(4) == 0)
			stride_set_weight(&s->stride, c, 1 + draw(STRIDE_WEIGHT_MAX));
		break;
	default:
		serve(s, draw(4) ? 0 : line);
	}
}

static void fuzz_stride(void)
{
	static struct shares s;
	unsigned int step, i;
	u64 now;

	memset(&s, 0, sizeof(s));
	stride_init(&s.stride, s.heaps, CLIENTS);
	s.stride.now = draw(2) ? 0 - draw(1ULL << 34) : (1ULL << 63) - draw(1ULL << 34);
	for (i = 0; i < CLIENTS; i++)
		stride_client_init(&s.stride, &s.client[i], 1 + draw(STRIDE_WEIGHT_MAX));
	for (i = 0; i < 2; i++) {
		stride_join(&s.stride, &s.client[i]);
		stride_wait(&s.stride, &s.client[i], 0);
	}
	for (step = 0; step < STEPS; step++) {
		now = s.stride.now;
		stride_step(&s);
		if ((s64)(s.stride.now - now) < 0)
			fail("virtual time went back", now - s.stride.now);
		check_first(&s, 0);
		check_first(&s, 1);
		check_apart(&s);
	}
}

int main(int argc, char **argv)
{
	u64 first, count;

	if (argc != 3) {
		fprintf(stderr, "usage: fuzz-split FIRST_SEED COUNT\n");
		return 2;
	}
	first = strtoull(argv[1], NULL, 0);
	count = strtoull(argv[2], NULL, 0);
	for (seed = first; seed < first + count; seed++) {
		state = seed;
		fuzz_cost();
		fuzz_causes();
		fuzz_stride();
	}
	printf("ok   fuzz-split, %llu seeds\n", count);
	return 0;
}

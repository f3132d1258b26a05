// SPDX-License-Identifier: GPL-2.0-only
/* Unit tests of stride scheduling: each states one thing about shares. */
#include "check.h"
#include "stride.h"

#define CLIENTS 64

static struct stride stride;
static struct stride_client *heaps[STRIDE_LINES * CLIENTS];
static struct stride_client client[CLIENTS];

/* What each was served, normalised bytes. */
static u64 got[CLIENTS];

static void setup(u64 now)
{
	stride_init(&stride, heaps, CLIENTS);
	stride.now = now;
	memset(got, 0, sizeof(got));
}

static void enter(unsigned int i, u32 weight)
{
	stride_client_init(&stride, &client[i], weight);
	stride_join(&stride, &client[i]);
	stride_wait(&stride, &client[i], 0);
}

static void leave(unsigned int i)
{
	stride_unwait(&stride, &client[i], 0);
	stride_leave(&stride, &client[i]);
}

static void come_back(unsigned int i)
{
	stride_join(&stride, &client[i]);
	stride_wait(&stride, &client[i], 0);
}

/* Serves the first in the line.  Return: which that was. */
static unsigned int serve(u64 cost)
{
	struct stride_client *first = stride_first(&stride, 0);
	unsigned int i = first - client;

	stride_serve(&stride, first);
	stride_charge(&stride, first, cost);
	got[i] += cost;
	return i;
}

static void serve_bytes(u64 bytes, u64 cost)
{
	for (; bytes >= cost; bytes -= cost)
		serve(cost);
}

static void test_levels_weigh_8_to_1(void)
{
	u32 level;

	for (level = 0; level < 8; level++)
		CHECK(stride_level_weight(level) == (8 - level) * 25, "level %u", level);
	CHECK(stride_level_weight(4) == STRIDE_WEIGHT, "the default level and cgroup");
	CHECK(stride_level_weight(100) == 25, "no level");
}

/* Eight levels, all waiting always: 36 turns give 8, 7, ... 1, to a turn at each time. */
static void check_shares(u64 now)
{
	unsigned int i, turn;

	setup(now);
	for (i = 0; i < 8; i++)
		enter(i, stride_level_weight(i));
	for (turn = 1; turn <= 3600; turn++) {
		serve(4096);
		for (i = 0; i < 8; i++) {
			s64 ideal = turn * (8 - i) * 4096 / 36;
			s64 off = (s64)got[i] - ideal;

			CHECK(off >= -2 * 4096 && off <= 2 * 4096, "level %u, turn %u: %lld off", i,
			      turn, off);
		}
	}
	for (i = 0; i < 8; i++)
		CHECK(got[i] == (8 - i) * 100 * 4096, "level %u got %llu", i, got[i]);
}

static void test_shares_are_exact(void)
{
	check_shares(0);
}

static void test_passes_wrap_around(void)
{
	check_shares(0 - 8000000ULL);
	CHECK(stride.now < 1ULL << 63, "it has not wrapped");
	check_shares((1ULL << 63) - 8000000ULL);
}

static void test_costs_count_and_not_turns(void)
{
	unsigned int i;

	setup(0);
	enter(0, 100);
	enter(1, 300);
	for (i = 0; i < 10000; i++)
		serve(stride_first(&stride, 0) == &client[0] ? 512 : 1 + draw(2 << 20));
	CHECK(got[1] > 3 * got[0] - 4 * (2 << 20) && got[1] < 3 * got[0] + 4 * (2 << 20),
	      "%llu and %llu", got[0], got[1]);
}

static void test_division_loses_nothing(void)
{
	u64 all = 0, cost;
	unsigned int i;

	setup(0);
	enter(0, 997);
	enter(1, 1);
	for (i = 0; i < 100000; i++) {
		cost = 1 + draw(3);
		stride_charge(&stride, &client[0], cost);
		all += cost;
	}
	CHECK(client[0].served * 997 + client[0].rest == all * 1000, "%llu charged", all);
}

static void test_idling_earns_nothing(void)
{
	setup(0);
	enter(0, 100);
	enter(1, 100);
	serve_bytes(1 << 20, 4096);
	leave(0);
	serve_bytes(1 << 30, 4096);
	come_back(0);
	memset(got, 0, sizeof(got));
	serve_bytes(1 << 20, 4096);
	CHECK(got[0] >= got[1] && got[0] - got[1] <= 2 * 4096, "%llu and %llu", got[0], got[1]);
}

static void test_idling_for_an_age_earns_nothing(void)
{
	static const u64 ages[] = { 1ULL << 53, 1ULL << 62,	  (1ULL << 63) - 1,
				    1ULL << 63, (1ULL << 63) + 1, 0 - (1ULL << 53) };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ages); i++) {
		setup(12345);
		enter(0, 100);
		leave(0);
		stride.now += ages[i];
		enter(1, 100);
		client[1].served = stride.now;
		stride_charge(&stride, &client[1], 0);
		come_back(0);
		serve_bytes(1 << 20, 4096);
		CHECK(got[0] == got[1], "age %u: %llu and %llu", i, got[0], got[1]);
	}
}

static void test_debt_is_kept_and_melts(void)
{
	setup(0);
	enter(0, 100);
	enter(1, 100);
	stride_unwait(&stride, &client[0], 0);
	stride_charge(&stride, &client[0], 1 << 20);
	stride_leave(&stride, &client[0]);
	serve_bytes(1 << 19, 4096);
	come_back(0);
	serve_bytes(1 << 19, 4096);
	CHECK(got[0] <= 4096 && got[1] >= (1 << 20) - 4096, "%llu, which owes 1 MiB", got[0]);
	serve_bytes(1 << 20, 4096);
	CHECK(got[0] + (1 << 20) >= got[1] - 2 * 4096 && got[0] + (1 << 20) <= got[1] + 2 * 4096,
	      "%llu and %llu", got[0], got[1]);
}

static void test_who_was_alone_owes_nothing(void)
{
	setup(0);
	enter(0, 100);
	stride_serve(&stride, &client[0]);
	stride_charge(&stride, &client[0], 1 << 30);
	leave(0);
	stride_charge(&stride, &client[0], 1 << 30);
	enter(1, 100);
	stride_client_init(&stride, &client[2], 100);
	come_back(0);
	serve_bytes(1 << 20, 4096);
	CHECK(got[0] == got[1], "%llu and %llu", got[0], got[1]);
}

/*
 * An estimate a hundred times too high delays a client by as much as is expected of it, and
 * no further: from then on it is served like the others.
 */
static void test_an_estimate_is_made_up_for(void)
{
	unsigned int i, turns = 0;

	setup(0);
	enter(0, 100);
	enter(1, 100);
	for (i = 0; i < 1000; i++) {
		u64 expected = 0;

		while (stride_first(&stride, 0) == &client[0] && turns++ < 100000) {
			stride_serve(&stride, &client[0]);
			stride_expect(&stride, &client[0], 400000);
			expected += 400000;
		}
		serve(4096 * 50);
		stride_settle(&stride, &client[0], expected);
		stride_charge(&stride, &client[0], expected / 100);
		got[0] += expected / 100;
	}
	CHECK(!client[0].expected, "%llu expected", client[0].expected);
	CHECK(got[1] - got[0] <= 100 * 4096 * 50 + 2 * 400000, "%llu and %llu", got[0], got[1]);
}

static void test_an_estimate_alone_is_no_credit_later(void)
{
	setup(0);
	enter(0, 100);
	stride_expect(&stride, &client[0], 1 << 30);
	stride_charge(&stride, &client[0], 1 << 20);
	stride_client_init(&stride, &client[1], 100);
	come_back(1);
	stride_settle(&stride, &client[0], 1 << 30);
	serve_bytes(1 << 20, 4096);
	CHECK(got[0] == got[1], "%llu and %llu", got[0], got[1]);
}

static void test_an_estimate_alone_leaves_others_first(void)
{
	setup(0);
	enter(0, 100);
	stride_expect(&stride, &client[0], 1 << 30);
	enter(1, 100);
	serve_bytes(1 << 20, 4096);
	CHECK(got[1] == 1 << 20, "%llu, beside one with a backlog", got[1]);
}

static void test_a_lead_is_in_bytes_of_the_default_weight(void)
{
	setup(0);
	enter(0, 25);
	enter(1, 200);
	stride_charge(&stride, &client[0], 1 << 20);
	CHECK(stride_lead(&client[0], &client[1]) == 4 << 20, "at a quarter of the weight");
	stride_charge(&stride, &client[1], 2 << 20);
	CHECK(stride_lead(&client[1], &client[0]) == -(3 << 20), "behind");
}

static void test_who_moves_keeps_his_debt(void)
{
	struct stride other;

	stride_init(&other, heaps, CLIENTS);
	setup(0);
	other.now = 1ULL << 40;
	enter(0, 100);
	enter(1, 100);
	stride_charge(&stride, &client[0], 1 << 20);
	stride_expect(&stride, &client[0], 1 << 20);
	stride_unwait(&stride, &client[0], 0);
	stride_leave(&stride, &client[0]);
	stride_move(&stride, &other, &client[0]);
	stride_client_init(&other, &client[2], 100);
	CHECK(stride_lead(&client[0], &client[2]) == 2 << 20, "%lld",
	      (long long)stride_lead(&client[0], &client[2]));
	CHECK(!stride.expected && other.expected == 1 << 20, "%llu and %llu are expected",
	      stride.expected, other.expected);
	stride_move(&other, &stride, &client[0]);
	CHECK(stride_lead(&client[0], &client[1]) == 2 << 20, "and back");
	stride_settle(&stride, &client[0], 1 << 20);
	CHECK(!stride.expected && !other.expected, "%llu and %llu are expected", stride.expected,
	      other.expected);
}

static void test_credit_is_limited(void)
{
	setup(0);
	enter(0, 100);
	enter(1, 100);
	stride_charge(&stride, &client[0], 10 << 20);
	stride_serve(&stride, &client[0]);
	stride_limit_credit(&stride, &client[1], 20 << 20);
	CHECK(stride_lead(&client[0], &client[1]) == 10 << 20, "within the limit");
	stride_limit_credit(&stride, &client[1], 4 << 20);
	CHECK(stride_lead(&client[0], &client[1]) == 4 << 20, "beyond it");
	stride_limit_credit(&stride, &client[0], 0);
	CHECK(stride_lead(&client[0], &client[1]) == 4 << 20, "one that owes has none");
}

static void test_a_new_weight_keeps_the_debt_in_bytes(void)
{
	setup(0);
	enter(0, 100);
	enter(1, 100);
	stride_charge(&stride, &client[0], 1 << 20);
	stride_set_weight(&stride, &client[0], 400);
	serve_bytes((1 << 20) / 4 - 4096, 4096);
	CHECK(!got[0], "%llu, which still owes", got[0]);
	memset(got, 0, sizeof(got));
	serve_bytes(10 << 20, 4096);
	CHECK(got[0] > 4 * got[1] - 20 * 4096 && got[0] < 4 * got[1] + 20 * 4096, "%llu and %llu",
	      got[0], got[1]);
	stride_set_weight(&stride, &client[0], 0);
	CHECK(client[0].weight == 1, "a weight of 0");
}

static void test_lines_share_passes(void)
{
	u64 calls = 0, reads = 0;
	unsigned int i;

	setup(0);
	enter(0, 100);
	enter(1, 100);
	stride_wait(&stride, &client[0], 1);
	for (i = 0; i < 1000; i++) {
		serve(4096);
		if (i % 2 || stride_first(&stride, 1) != &client[0])
			continue;
		stride_charge(&stride, &client[0], 4096);
		calls += 4096;
	}
	reads = got[0];
	CHECK(reads + calls >= got[1] - 2 * 4096 && reads + calls <= got[1] + 2 * 4096,
	      "%llu and %llu here, %llu there", reads, got[1], calls);
	CHECK(calls == 500 * 4096, "%llu", calls);
}

static void test_equals_take_turns(void)
{
	unsigned int i;

	setup(0);
	for (i = 0; i < 10; i++)
		enter(i, 100);
	for (i = 0; i < 10; i++)
		CHECK(serve(4096) == i, "not in the order in which they came");
}

static const struct test tests[] = {
	TEST(levels_weigh_8_to_1),
	TEST(shares_are_exact),
	TEST(passes_wrap_around),
	TEST(costs_count_and_not_turns),
	TEST(division_loses_nothing),
	TEST(idling_earns_nothing),
	TEST(idling_for_an_age_earns_nothing),
	TEST(debt_is_kept_and_melts),
	TEST(who_was_alone_owes_nothing),
	TEST(an_estimate_is_made_up_for),
	TEST(an_estimate_alone_is_no_credit_later),
	TEST(an_estimate_alone_leaves_others_first),
	TEST(a_lead_is_in_bytes_of_the_default_weight),
	TEST(who_moves_keeps_his_debt),
	TEST(credit_is_limited),
	TEST(a_new_weight_keeps_the_debt_in_bytes),
	TEST(lines_share_passes),
	TEST(equals_take_turns),
};

int main(int argc, char **argv)
{
	return run_tests(tests, ARRAY_SIZE(tests), argv[1]);
}

// SPDX-License-Identifier: GPL-2.0-only
/* NVMe's arbitration, rule by rule; the rules' numbers are those of kernel/simdisk/arbiter.h. */
#include "arbiter.h"
#include "check.h"

/* Weights 4, 2 and 1. */
#define FOUR_TWO_ONE 0x03010000U

static const char letters[] = "AUHML";

static struct arbiter_queue place(char letter, unsigned int index)
{
	return (struct arbiter_queue){ strchr(letters, letter) - letters, index };
}

static void add(struct arbiter *arb, char letter, unsigned int index, unsigned int commands)
{
	while (commands--)
		arbiter_add(arb, place(letter, index));
}

/* Fetches; @said becomes a letter for each command's level. */
static void fetch(struct arbiter *arb, char *said, unsigned int commands)
{
	struct arbiter_queue queue;

	while (commands-- && arbiter_fetch(arb, &queue))
		*said++ = letters[queue.level];
	*said = '\0';
}

/* The same, a digit for each command's queue. */
static void fetch_queues(struct arbiter *arb, char *said, unsigned int commands)
{
	struct arbiter_queue queue;

	while (commands-- && arbiter_fetch(arb, &queue))
		*said++ = '0' + queue.index;
	*said = '\0';
}

static void expect(struct arbiter *arb, const char *wanted)
{
	char said[1024];

	fetch(arb, said, strlen(wanted));
	CHECK(!strcmp(said, wanted), "%s, not %s", said, wanted);
}

static void expect_queues(struct arbiter *arb, const char *wanted)
{
	char said[1024];

	fetch_queues(arb, said, strlen(wanted));
	CHECK(!strcmp(said, wanted), "%s, not %s", said, wanted);
}

static struct arbiter weighted(u32 feature)
{
	struct arbiter arb;

	arbiter_init(&arb);
	arbiter_set(&arb, true, feature);
	return arb;
}

/* How many of so many commands are of each level, while all have some. */
static void shares(u32 feature, unsigned int commands, unsigned int *count)
{
	struct arbiter arb = weighted(feature);
	struct arbiter_queue queue;
	unsigned int i;

	memset(count, 0, ARBITER_LEVELS * sizeof(*count));
	for (i = 0; i < 3; i++)
		add(&arb, "HML"[i], 0, commands);
	for (i = 0; i < commands && arbiter_fetch(&arb, &queue); i++)
		count[queue.level]++;
}

static void test_nothing_is_fetched_of_nothing(void)
{
	struct arbiter_queue queue;
	struct arbiter arb;

	arbiter_init(&arb);
	CHECK(!arbiter_fetch(&arb, &queue), "from queue %u", queue.index);
	add(&arb, 'M', 3, 1);
	CHECK(arbiter_fetch(&arb, &queue) && queue.level == ARBITER_MEDIUM && queue.index == 3,
	      "from level %u, queue %u", queue.level, queue.index);
	CHECK(!arbiter_fetch(&arb, &queue) && !arb.total, "twice");
}

/* Rule 1. */
static void test_in_turn_all_queues_are_alike(void)
{
	struct arbiter arb;

	arbiter_init(&arb);
	add(&arb, 'A', 0, 3);
	add(&arb, 'L', 0, 3);
	add(&arb, 'U', 0, 1);
	add(&arb, 'H', 1, 2);
	expect(&arb, "AULHALHAL");
}

static void test_in_turn_many_queues(void)
{
	struct arbiter arb;

	arbiter_init(&arb);
	add(&arb, 'M', 0, 3);
	add(&arb, 'M', 1, 1);
	add(&arb, 'M', 63, 2);
	expect_queues(&arb, "01o0o0");
	add(&arb, 'U', 0, 2);
	add(&arb, 'U', 1, 1);
	add(&arb, 'L', 2, 1);
	expect_queues(&arb, "1200");
}

static void test_in_turn_a_burst_at_most(void)
{
	struct arbiter arb;

	arbiter_init(&arb);
	arbiter_set(&arb, false, 1);
	add(&arb, 'M', 0, 5);
	add(&arb, 'M', 1, 3);
	expect_queues(&arb, "00110010");
}

/* Rule 2. */
static void test_admin_goes_first(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE);

	add(&arb, 'U', 0, 4);
	add(&arb, 'H', 0, 1);
	expect(&arb, "U");
	add(&arb, 'A', 0, 2);
	expect(&arb, "AAUUUH");
}

/* Rules 2 and 6. */
static void test_admin_waits_for_a_burst_at_most(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE | 2);

	add(&arb, 'U', 0, 9);
	expect(&arb, "U");
	add(&arb, 'A', 0, 1);
	expect(&arb, "UUUAUUUU");
}

/* Rule 3. */
static void test_urgent_starves_the_rest(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE);
	unsigned int i;

	add(&arb, 'H', 0, 1);
	for (i = 0; i < 100; i++) {
		add(&arb, 'U', i % 2, 1);
		expect(&arb, "U");
	}
	expect(&arb, "H");
}

static void test_urgent_queues_take_turns(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE | 1);

	add(&arb, 'U', 2, 4);
	add(&arb, 'U', 5, 3);
	expect_queues(&arb, "2255225");
}

/* Rule 4. */
static void test_shares_are_the_weights(void)
{
	unsigned int count[ARBITER_LEVELS];
	unsigned int burst;

	for (burst = 0; burst <= ARBITER_BURST_MAX; burst++) {
		shares(FOUR_TWO_ONE | burst, 700, count);
		CHECK(count[ARBITER_HIGH] == 400 && count[ARBITER_MEDIUM] == 200,
		      "burst %u: %u and %u of 700", burst, count[ARBITER_HIGH],
		      count[ARBITER_MEDIUM]);
	}
}

static void test_weights_are_bytes_and_one(void)
{
	unsigned int count[ARBITER_LEVELS];

	shares(0x00ff0000, 258 * 2, count);
	CHECK(count[ARBITER_HIGH] == 2 && count[ARBITER_MEDIUM] == 512 && count[ARBITER_LOW] == 2,
	      "%u, %u, %u", count[ARBITER_HIGH], count[ARBITER_MEDIUM], count[ARBITER_LOW]);
	shares(0xff00ff00, 513, count);
	CHECK(count[ARBITER_HIGH] == 256 && count[ARBITER_MEDIUM] == 1, "%u, %u",
	      count[ARBITER_HIGH], count[ARBITER_MEDIUM]);
}

static void test_a_feature_has_the_weights(void)
{
	const unsigned int least[] = { 1, 1, 1 }, most[] = { 256, 256, 256 }, some[] = { 4, 2, 1 };

	CHECK(arbiter_feature(some, 3) == (FOUR_TWO_ONE | 3), "%x", arbiter_feature(some, 3));
	CHECK(arbiter_feature(least, 0) == 0, "%x", arbiter_feature(least, 0));
	CHECK(arbiter_feature(most, 7) == 0xffffff07, "%x", arbiter_feature(most, 7));
}

static void test_two_queues_share_a_level(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE);

	add(&arb, 'H', 0, 20);
	add(&arb, 'H', 1, 20);
	add(&arb, 'M', 0, 20);
	add(&arb, 'L', 0, 20);
	expect(&arb, "HHHHMMLHHHHMML");
	CHECK(arb.waiting[ARBITER_HIGH][0] == 16 && arb.waiting[ARBITER_HIGH][1] == 16,
	      "%u and %u wait", arb.waiting[ARBITER_HIGH][0], arb.waiting[ARBITER_HIGH][1]);
}

static void test_turns_go_on_in_the_next_round(void)
{
	struct arbiter arb = weighted(0x02000000);

	add(&arb, 'H', 0, 9);
	add(&arb, 'H', 1, 9);
	add(&arb, 'M', 0, 9);
	expect_queues(&arb, "01001010");
}

static void test_a_burst_is_a_run(void)
{
	struct arbiter arb = weighted(0x07000000 | 1);

	add(&arb, 'H', 0, 20);
	add(&arb, 'H', 1, 20);
	expect_queues(&arb, "0011001100110011");
}

static void test_credit_ends_a_burst(void)
{
	struct arbiter arb = weighted(0x02000000 | 1);

	add(&arb, 'H', 0, 20);
	add(&arb, 'H', 1, 20);
	add(&arb, 'L', 0, 20);
	/* Three a round: two of one, one of the other. */
	expect_queues(&arb, "001"
			    "0"
			    "001"
			    "0"
			    "001");
}

static void test_what_comes_is_for_the_next_grant(void)
{
	struct arbiter arb = weighted(0x07000000 | 2);

	add(&arb, 'H', 0, 2);
	add(&arb, 'H', 1, 1);
	expect_queues(&arb, "0");
	add(&arb, 'H', 0, 5);
	expect_queues(&arb, "010000");
}

static void test_no_limit_is_all_that_waits(void)
{
	struct arbiter arb = weighted(0x07000000 | 7);
	char all[202];

	add(&arb, 'H', 0, 5);
	add(&arb, 'H', 1, 5);
	expect_queues(&arb, "0000011111");
	arbiter_set(&arb, false, 7);
	add(&arb, 'H', 0, 200);
	add(&arb, 'H', 1, 1);
	memset(all, '0', 200);
	strcpy(all + 200, "1");
	expect_queues(&arb, all);
}

/* Rule 5. */
static void test_an_idle_level_wastes_nothing(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE);

	add(&arb, 'L', 0, 5);
	expect(&arb, "LLLLL");
	add(&arb, 'H', 0, 9);
	add(&arb, 'L', 0, 9);
	expect(&arb, "HHHHLHHHHL");
}

static void test_an_idle_level_forfeits_its_round(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE);

	add(&arb, 'H', 0, 1);
	add(&arb, 'M', 0, 9);
	add(&arb, 'L', 0, 9);
	expect(&arb, "HM");
	add(&arb, 'H', 0, 9);
	expect(&arb, "MLHHHHMML");
}

static void test_weights_begin_a_round(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE);

	add(&arb, 'H', 0, 20);
	add(&arb, 'M', 0, 20);
	expect(&arb, "HHHHM");
	arbiter_set(&arb, true, 0x00020000);
	expect(&arb, "HMMMHMMM");
}

static void test_the_mechanism_changes_with_what_waits(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE | 7);

	add(&arb, 'U', 0, 20);
	add(&arb, 'L', 0, 20);
	expect(&arb, "UU");
	arbiter_set(&arb, false, 0);
	expect(&arb, "ULUL");
}

/* Rule 7. */
static void test_a_fused_pair_stays_together(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE);

	add(&arb, 'L', 0, 3);
	expect(&arb, "L");
	add(&arb, 'U', 0, 1);
	add(&arb, 'A', 0, 1);
	arbiter_fuse(&arb);
	expect(&arb, "LAUL");
}

static void test_a_fused_pair_costs_two(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE);

	add(&arb, 'H', 0, 20);
	add(&arb, 'M', 0, 20);
	expect(&arb, "H");
	arbiter_fuse(&arb);
	expect(&arb, "HHHM");
	arbiter_fuse(&arb);
	expect(&arb, "MHHHH");
}

static void test_a_partner_that_never_comes(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE);

	add(&arb, 'H', 0, 1);
	add(&arb, 'M', 0, 1);
	expect(&arb, "H");
	arbiter_fuse(&arb);
	expect(&arb, "M");
	add(&arb, 'H', 0, 1);
	add(&arb, 'U', 0, 1);
	expect(&arb, "UH");
}

static void test_a_deleted_queue_is_gone(void)
{
	struct arbiter arb = weighted(FOUR_TWO_ONE | 7);

	add(&arb, 'H', 0, 9);
	add(&arb, 'H', 1, 2);
	expect_queues(&arb, "0");
	arbiter_fuse(&arb);
	arbiter_drop(&arb, place('H', 0));
	CHECK(arb.total == 2, "%u are left", arb.total);
	expect_queues(&arb, "11");
	arbiter_drop(&arb, place('H', 1));
	CHECK(!arb.total && !arb.busy[ARBITER_HIGH], "%u are left", arb.total);
}

static const struct test tests[] = {
	TEST(nothing_is_fetched_of_nothing),
	TEST(in_turn_all_queues_are_alike),
	TEST(in_turn_many_queues),
	TEST(in_turn_a_burst_at_most),
	TEST(admin_goes_first),
	TEST(admin_waits_for_a_burst_at_most),
	TEST(urgent_starves_the_rest),
	TEST(urgent_queues_take_turns),
	TEST(shares_are_the_weights),
	TEST(weights_are_bytes_and_one),
	TEST(a_feature_has_the_weights),
	TEST(two_queues_share_a_level),
	TEST(turns_go_on_in_the_next_round),
	TEST(a_burst_is_a_run),
	TEST(credit_ends_a_burst),
	TEST(what_comes_is_for_the_next_grant),
	TEST(no_limit_is_all_that_waits),
	TEST(an_idle_level_wastes_nothing),
	TEST(an_idle_level_forfeits_its_round),
	TEST(weights_begin_a_round),
	TEST(the_mechanism_changes_with_what_waits),
	TEST(a_fused_pair_stays_together),
	TEST(a_fused_pair_costs_two),
	TEST(a_partner_that_never_comes),
	TEST(a_deleted_queue_is_gone),
};

int main(int argc, char **argv)
{
	return run_tests(tests, ARRAY_SIZE(tests), argv[1]);
}

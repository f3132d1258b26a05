// SPDX-License-Identifier: GPL-2.0-only
/* Unit tests of the models: each states one thing that a drive does. */
#include "check.h"
#include "model.h"

#define USEC 1000ULL
#define MSEC 1000000ULL
#define SEC 1000000000ULL

/**
 * struct bench - a drive and a clock
 * @model: the drive
 * @now: ns
 */
struct bench {
	struct model model;
	u64 now;
};

static struct profile profile_of(const char *name)
{
	struct profile p = *profile_find(name);

	p.slowdown = 1;
	return p;
}

static void bench_init(struct bench *b, const struct profile *p)
{
	b->now = 0;
	if (model_init(&b->model, p))
		abort();
}

static void submit(struct bench *b, struct model_cmd *cmd, enum model_op op, u64 lba, u32 sectors)
{
	cmd->op = op;
	cmd->lba = lba;
	cmd->sectors = sectors;
	INIT_LIST_HEAD(&cmd->node);
	model_submit(&b->model, cmd, b->now);
}

static void give_up(const char *why)
{
	printf("FAIL %s: %s\n", test_name, why);
	exit(1);
}

/* Lets time pass to the next completion. Returns NULL if there is none. */
static struct model_cmd *step(struct bench *b)
{
	static LIST_HEAD(done);
	struct model_cmd *cmd;
	int tries = 0;

	while (list_empty(&done)) {
		u64 next = model_next(&b->model);

		if (tries++ == 100000)
			give_up("time passes and nothing completes");
		if (next == MODEL_NEVER)
			return NULL;
		b->now = max(b->now, next);
		model_advance(&b->model, b->now, &done);
	}
	cmd = list_first_entry(&done, struct model_cmd, node);
	list_del_init(&cmd->node);
	return cmd;
}

/* Lets time pass until this command is complete. */
static void finish(struct bench *b, const struct model_cmd *cmd)
{
	const struct model_cmd *done;

	do {
		done = step(b);
	} while (done && done != cmd);
	if (!done)
		give_up("a command never completes");
}

/* Runs one command alone. Returns its latency. */
static u64 run(struct bench *b, enum model_op op, u64 lba, u32 sectors)
{
	struct model_cmd cmd = {};
	u64 start = b->now;

	submit(b, &cmd, op, lba, sectors);
	finish(b, &cmd);
	return b->now - start;
}

static void test_profiles_in_range(void)
{
	unsigned int i, j;

	for (i = 0; i < profiles_count; i++) {
		for (j = 0; j < profile_parameters_count; j++) {
			const struct profile_parameter *par = &profile_parameters[j];
			struct profile p = profiles[i];
			u64 value = profile_get(&p, par);
			bool ours = par->kinds & p.kind;

			CHECK(ours || !value, "%s %s", p.name, par->name);
			CHECK(profile_set(&p, par, value) == (ours ? 0 : -EINVAL), "%s %s %llu",
			      p.name, par->name, value);
		}
	}
}

static void test_parameter_refused(void)
{
	const struct profile_parameter *depth = profile_parameter_find("queue_depth");
	struct profile p = profile_of("ssd");

	CHECK(profile_set(&p, depth, 0) == -ERANGE, "below");
	CHECK(profile_set(&p, depth, 1025) == -ERANGE, "above");
	CHECK(profile_set(&p, profile_parameter_find("rpm"), 7200) == -EINVAL, "of a disk");
	CHECK(profile_get(&p, depth) == 32, "changed to %llu", profile_get(&p, depth));
	CHECK(!profile_find("floppy") && !profile_parameter_find("floppy"), "found");
}

/* A drive that does one command at a time, with so many reads in the queue of each level. */
static void bench_levels(struct bench *b, struct model_cmd *cmd, unsigned int each)
{
	struct profile p = profile_of("nvme");
	unsigned int i;

	p.slots = 1;
	bench_init(b, &p);
	for (i = 0; i < 3 * each; i++) {
		cmd[i].level = ARBITER_HIGH + i / each;
		submit(b, &cmd[i], MODEL_READ, 8 * i, 8);
	}
}

/* Completes so many commands, of these levels in this order. */
static void expect_levels(struct bench *b, const char *wanted)
{
	char said[64] = {};
	unsigned int i;

	for (i = 0; wanted[i]; i++)
		said[i] = "AUHML"[step(b)->level];
	CHECK(!strcmp(said, wanted), "%s, not %s", said, wanted);
}

static void test_queues_are_fetched_from_in_turn(void)
{
	struct model_cmd cmd[12] = {};
	struct bench b;

	bench_levels(&b, cmd, 4);
	expect_levels(&b, "HMLHMLHMLHML");
	model_exit(&b.model);
}

static void test_weights_say_what_is_fetched(void)
{
	struct model_cmd cmd[24] = {};
	struct bench b;

	bench_levels(&b, cmd, 8);
	model_arbitrate(&b.model, true, 0x02010000, b.now);
	/* The first one was fetched before. */
	expect_levels(&b, "HHHHMMLHHHMMLHMML");
	model_exit(&b.model);
}

static void test_weights_dont_reach_back(void)
{
	struct model_cmd cmd[12] = {};
	struct bench b;

	bench_levels(&b, cmd, 4);
	b.now += 10 * MSEC;
	model_arbitrate(&b.model, true, 0x02010000, b.now);
	expect_levels(&b, "HMLHMLHMLHML");
	model_exit(&b.model);
}

static void test_weights_hold_from_their_time_on(void)
{
	struct model_cmd cmd[24] = {};
	struct bench b;

	bench_levels(&b, cmd, 8);
	expect_levels(&b, "HML");
	model_arbitrate(&b.model, true, 0x02010000, b.now);
	expect_levels(&b, "HHHHMML");
	model_arbitrate(&b.model, false, 0, b.now);
	expect_levels(&b, "HMLHML");
	model_exit(&b.model);
}

static void test_ssd_read_is_the_sum_of_its_parts(void)
{
	struct profile p = profile_of("ssd");
	u64 parts, latency;
	struct bench b;

	p.read_msb_ns = p.read_lsb_ns;
	parts = p.read_latency_ns + p.read_lsb_ns;
	parts += 4096000 / p.channel_mbps + 4096000 / p.link_mbps;
	bench_init(&b, &p);
	latency = run(&b, MODEL_READ, 800, 8);
	CHECK(latency == parts, "%llu, expected %llu", latency, parts);
	model_exit(&b.model);
}

/* Two reads at once, on pages so far apart. Returns when both are complete. */
static u64 two_reads(const struct profile *p, u64 pages)
{
	struct model_cmd one = {}, two = {};
	struct bench b;

	bench_init(&b, p);
	submit(&b, &one, MODEL_READ, 0, 8);
	submit(&b, &two, MODEL_READ, pages * 8, 8);
	while (step(&b))
		;
	model_exit(&b.model);
	return b.now;
}

static void test_ssd_dies_work_side_by_side(void)
{
	struct profile p = profile_of("ssd");
	u64 same, other;

	p.read_lsb_ns = 10 * MSEC;
	p.read_msb_ns = 10 * MSEC;
	same = two_reads(&p, p.channels * p.dies);
	other = two_reads(&p, 1);
	CHECK(same > 20 * MSEC && same < 21 * MSEC, "same die %llu", same);
	CHECK(other > 10 * MSEC && other < 11 * MSEC, "other die %llu", other);
}

/* Writes so many bytes, 16 KiB each, one by one. Returns the time. */
static u64 write_bytes(struct bench *b, u64 bytes, bool random)
{
	u64 start = b->now, done;

	for (done = 0; done < bytes; done += 16384)
		run(b, MODEL_WRITE, random ? draw(100000) * 32 : done / 512, 32);
	return b->now - start;
}

static void test_ssd_buffer_then_flash_speed(void)
{
	struct profile p = profile_of("ssd");
	u64 page = (p.program_lsb_ns + p.program_msb_ns) / 2 + p.erase_ns / p.block_programs;
	u64 flash = (64 << 20) / (p.program_kib << 10) * page / (p.channels * p.dies);
	u64 first, steady, random;
	struct bench b;

	bench_init(&b, &p);
	first = write_bytes(&b, 16384, false);
	steady = write_bytes(&b, 64 << 20, false);
	random = write_bytes(&b, 64 << 20, true);
	CHECK(first < MSEC, "into the empty buffer %llu", first);
	CHECK(steady > flash * 98 / 100 && steady < flash * 102 / 100, "%llu, flash takes %llu",
	      steady, flash);
	CHECK(random > steady * p.random_wa_pct / 103 && random < steady * p.random_wa_pct / 97,
	      "random %llu sequential %llu", random, steady);
	model_exit(&b.model);
}

/* A write, then FLUSH. Returns the latency of the FLUSH. */
static u64 flush_after_write(const struct profile *p)
{
	struct bench b;
	u64 latency;

	bench_init(&b, p);
	run(&b, MODEL_WRITE, 0, 8);
	latency = run(&b, MODEL_FLUSH, 0, 0);
	model_exit(&b.model);
	return latency;
}

static void test_ssd_flush_waits_for_flash(void)
{
	struct profile p = profile_of("ssd");
	u64 program = min(p.program_lsb_ns, p.program_msb_ns);
	u64 plain = flush_after_write(&p);
	u64 protected;

	p.protected_cache = 1;
	protected = flush_after_write(&p);
	CHECK(plain >= p.flush_ns + program, "%llu", plain);
	CHECK(protected == p.flush_ns, "%llu", protected);
}

static void test_ssd_fua_waits_for_flash(void)
{
	struct profile p = profile_of("emmc");
	struct model_cmd cmd = { .fua = true };
	u64 plain;
	struct bench b;

	bench_init(&b, &p);
	plain = run(&b, MODEL_WRITE, 0, 8);
	while (step(&b))
		;
	b.now += SEC;
	submit(&b, &cmd, MODEL_WRITE, 800, 8);
	step(&b);
	CHECK(b.now - SEC > p.program_lsb_ns, "%llu", b.now - SEC);
	CHECK(plain < p.program_lsb_ns, "%llu", plain);
	model_exit(&b.model);
}

/* A read that arrives while its die programs. Returns its latency. */
static u64 read_under_program(struct profile *p)
{
	struct bench b;
	u64 latency;

	p->channels = 1;
	p->dies = 1;
	bench_init(&b, p);
	run(&b, MODEL_WRITE, 0, 8);
	latency = run(&b, MODEL_READ, 800, 8);
	model_exit(&b.model);
	return latency;
}

static void test_ssd_read_suspends_program(void)
{
	struct profile p = profile_of("ssd");
	u64 waits, suspends;

	p.program_lsb_ns = 50 * MSEC;
	p.program_msb_ns = 50 * MSEC;
	waits = read_under_program(&p);
	p.suspend_ns = 10 * USEC;
	suspends = read_under_program(&p);
	CHECK(waits > 49 * MSEC && waits < 51 * MSEC, "%llu", waits);
	CHECK(suspends < MSEC && suspends > p.suspend_ns, "%llu", suspends);
}

/* FLUSH between two reads. Returns the second read's end less the FLUSH's. */
static long long read_behind_flush(const struct profile *p)
{
	struct model_cmd write = {}, flush = {}, read = {};
	u64 flushed = 0, done = 0;
	struct model_cmd *cmd;
	struct bench b;

	bench_init(&b, p);
	submit(&b, &write, MODEL_WRITE, 0, 8);
	submit(&b, &flush, MODEL_FLUSH, 0, 0);
	submit(&b, &read, MODEL_READ, 80000, 8);
	while ((cmd = step(&b))) {
		flushed = cmd == &flush ? b.now : flushed;
		done = cmd == &read ? b.now : done;
	}
	model_exit(&b.model);
	return done - flushed;
}

static void test_flush_is_not_queued_on_sata(void)
{
	struct profile ssd = profile_of("ssd"), hdd = profile_of("hdd"), nvme = profile_of("nvme");

	CHECK(read_behind_flush(&ssd) > 0, "ssd %lld", read_behind_flush(&ssd));
	CHECK(read_behind_flush(&hdd) > 0, "hdd %lld", read_behind_flush(&hdd));
	CHECK(read_behind_flush(&nvme) < 0, "nvme %lld", read_behind_flush(&nvme));
}

/* Mean latency of random reads one at a time, less all but the seek. */
static u64 mean_seek(const struct profile *p, unsigned int count)
{
	u64 turn = 60 * SEC / p->rpm, sum = 0;
	struct bench b;
	unsigned int i;

	bench_init(&b, p);
	for (i = 0; i < count; i++)
		sum += run(&b, MODEL_READ, draw(p->sectors - 8), 1);
	model_exit(&b.model);
	return sum / count - turn / 2 - p->read_latency_ns;
}

static void test_hdd_mean_seek_is_8_15_of_the_range(void)
{
	struct profile p = profile_of("hdd");
	u64 expected = p.seek_track_ns + (p.seek_full_ns - p.seek_track_ns) * 8 / 15;
	u64 mean;

	/* One rate everywhere: else addresses are not uniform over tracks. */
	p.inner_mbps = p.outer_mbps;
	mean = mean_seek(&p, 20000);
	CHECK(mean > expected * 98 / 100 && mean < expected * 102 / 100, "%llu, expected %llu",
	      mean, expected);
}

static void test_hdd_same_sector_comes_once_a_turn(void)
{
	struct profile p = profile_of("hdd");
	u64 turn = 60 * SEC / 7200, latency;
	struct bench b;

	p.cache_kib = 0;
	bench_init(&b, &p);
	run(&b, MODEL_WRITE, 1000, 8);
	latency = run(&b, MODEL_WRITE, 1000, 8);
	CHECK(latency > turn - USEC && latency < turn + USEC, "%llu of %llu", latency, turn);
	model_exit(&b.model);
}

/* Rate of reading 64 MiB from a sector on, 10^6 bytes per second. */
static u64 stream_mbps(const struct profile *p, u64 lba)
{
	struct bench b;
	u64 i, start;

	bench_init(&b, p);
	run(&b, MODEL_READ, lba, 256);
	start = b.now;
	for (i = 1; i < 513; i++)
		run(&b, MODEL_READ, lba + i * 256, 256);
	model_exit(&b.model);
	return (512 * 131072 * 1000ULL) / (b.now - start);
}

static void test_hdd_zones_and_readahead(void)
{
	struct profile p = profile_of("hdd");
	u64 outer = stream_mbps(&p, 0);
	u64 inner = stream_mbps(&p, p.sectors - 200000);

	CHECK(outer >= p.outer_mbps * 97 / 100 && outer <= p.outer_mbps * 102 / 100, "%llu", outer);
	CHECK(inner >= p.inner_mbps * 97 / 100 && inner <= p.inner_mbps * 102 / 100, "%llu", inner);
	p.readahead_kib = 0;
	CHECK(stream_mbps(&p, 0) < outer / 2, "%llu without readahead", stream_mbps(&p, 0));
}

static void test_hdd_readahead_stops_when_full(void)
{
	struct profile p = profile_of("hdd");
	u64 bytes = 0, start;
	struct bench b;

	bench_init(&b, &p);
	run(&b, MODEL_READ, 0, 8);
	b.now += 10 * SEC;
	start = b.now;
	for (bytes = 4096; bytes < 64 << 20; bytes += 131072)
		run(&b, MODEL_READ, bytes / 512, 256);
	bytes -= p.readahead_kib << 10;
	CHECK((bytes * 1000) / (b.now - start) <= p.outer_mbps * 101 / 100,
	      "%llu MB/s, faster than the medium", (bytes * 1000) / (b.now - start));
	model_exit(&b.model);
}

/* Time for 32 random reads, @depth at a time. */
static u64 hdd_random_reads(unsigned int depth)
{
	struct profile p = profile_of("hdd");
	struct model_cmd cmd[32] = {};
	unsigned int i, round;
	struct bench b;

	bench_init(&b, &p);
	for (round = 0; round < 640 / depth; round++) {
		for (i = 0; i < depth; i++)
			submit(&b, &cmd[i], MODEL_READ, draw(p.sectors - 8), 8);
		for (i = 0; i < depth; i++)
			step(&b);
	}
	model_exit(&b.model);
	return b.now;
}

static void test_hdd_picks_the_shortest_positioning(void)
{
	u64 alone = hdd_random_reads(1), queued = hdd_random_reads(32);

	CHECK(queued < alone * 60 / 100, "%llu queued, %llu alone", queued, alone);
}

/* A far read among ever new near ones. Returns its latency. */
static u64 far_read(const struct profile *p)
{
	struct model_cmd near[16] = {}, far = {}, *cmd;
	struct bench b;
	int i;

	bench_init(&b, p);
	for (i = 0; i < 16; i++)
		submit(&b, &near[i], MODEL_READ, draw(100000) * 8, 8);
	submit(&b, &far, MODEL_READ, p->sectors - 8, 8);
	while ((cmd = step(&b)) != &far && b.now < 60 * SEC)
		submit(&b, cmd, MODEL_READ, draw(100000) * 8, 8);
	model_exit(&b.model);
	return b.now;
}

static void test_hdd_age_cap(void)
{
	struct profile p = profile_of("hdd");
	u64 capped;

	capped = far_read(&p);
	CHECK(capped >= p.age_cap_ns && capped < p.age_cap_ns + SEC, "%llu", capped);
	p.age_cap_ns = 1000 * SEC;
	CHECK(far_read(&p) == 60 * SEC || far_read(&p) > 10 * SEC, "near ones were not preferred");
}

/* FLUSH after so many random writes. Returns its latency. */
static u64 flush_after(struct profile *p, unsigned int writes)
{
	struct model_cmd cmd[64] = {};
	unsigned int i;
	struct bench b;
	u64 latency;

	bench_init(&b, p);
	for (i = 0; i < writes; i++)
		submit(&b, &cmd[i], MODEL_WRITE, draw(p->sectors - 8), 8);
	for (i = 0; i < writes; i++)
		step(&b);
	latency = run(&b, MODEL_FLUSH, 0, 0);
	model_exit(&b.model);
	return latency;
}

static void test_hdd_flush_destages(void)
{
	struct profile p = profile_of("hdd");
	u64 none = flush_after(&p, 0), one = flush_after(&p, 1), many = flush_after(&p, 32);

	CHECK(none == p.flush_ns, "%llu", none);
	CHECK(one > p.flush_ns, "%llu", one);
	CHECK(many > none + 32 * 2 * MSEC && many < none + 32 * 20 * MSEC, "%llu", many);
}

static void test_hdd_write_cache(void)
{
	struct profile p = profile_of("hdd");
	struct bench b;
	u64 cached, through;

	bench_init(&b, &p);
	cached = run(&b, MODEL_WRITE, 1000000, 8);
	model_exit(&b.model);
	p.cache_kib = 0;
	bench_init(&b, &p);
	through = run(&b, MODEL_WRITE, 1000000, 8);
	model_exit(&b.model);
	CHECK(cached < MSEC, "%llu", cached);
	CHECK(through > p.seek_track_ns + p.seek_write_ns, "%llu", through);
}

static void test_last_sector(void)
{
	unsigned int i;

	for (i = 0; i < profiles_count; i++) {
		struct bench b;

		bench_init(&b, &profiles[i]);
		run(&b, MODEL_WRITE, profiles[i].sectors - 1, 1);
		run(&b, MODEL_READ, profiles[i].sectors - 1, 1);
		run(&b, MODEL_FLUSH, 0, 0);
		CHECK(b.now < 10 * SEC, "%s %llu", profiles[i].name, b.now);
		model_exit(&b.model);
	}
}

/* A mix of everything. Returns when it ended, and a sum over completions. */
static u64 mix(const struct profile *p, u64 *sum)
{
	struct model_cmd cmd[16] = {}, *done;
	struct bench b;
	u32 state = 1;
	int i, left = 500;

	*sum = 0;
	bench_init(&b, p);
	for (i = 0; i < 16; i++)
		submit(&b, &cmd[i], MODEL_READ, i * 1000, 8);
	while ((done = step(&b))) {
		*sum = *sum * 31 + b.now / p->slowdown + (done - cmd);
		state = state * 1664525 + 1013904223;
		if (left-- > 0)
			submit(&b, done, state >> 30 ? MODEL_READ : MODEL_WRITE,
			       state % (p->sectors - 8), 8);
	}
	model_exit(&b.model);
	return b.now;
}

static void test_slowdown_multiplies_every_time(void)
{
	unsigned int i;

	for (i = 0; i < profiles_count; i++) {
		struct profile p = profile_of(profiles[i].name);
		u64 once, sum, slow, slow_sum;

		once = mix(&p, &sum);
		p.slowdown = 7;
		slow = mix(&p, &slow_sum);
		CHECK(slow == 7 * once && sum == slow_sum, "%s: %llu and %llu", p.name, once, slow);
	}
}

static void test_seed_decides(void)
{
	unsigned int i;

	for (i = 0; i < profiles_count; i++) {
		struct profile p = profile_of(profiles[i].name);
		u64 first, again, other;

		mix(&p, &first);
		mix(&p, &again);
		p.seed = 1;
		mix(&p, &other);
		CHECK(first == again, "%s: not repeated", p.name);
		CHECK(first != other, "%s: the seed is not used", p.name);
	}
}

static void test_reset_hands_all_back(void)
{
	unsigned int i;

	for (i = 0; i < profiles_count; i++) {
		struct model_cmd cmd[64] = {}, *entry;
		LIST_HEAD(orphans);
		unsigned int count = 0;
		struct bench b;
		int j;

		bench_init(&b, &profiles[i]);
		for (j = 0; j < 64; j++) {
			cmd[j].group = j % profiles[i].queues;
			cmd[j].level = j % ARBITER_LEVELS;
			submit(&b, &cmd[j],
			       j == 40 ? MODEL_FLUSH
			       : j % 3 ? MODEL_WRITE
				       : MODEL_READ,
			       draw(profiles[i].sectors - 256), j == 40 ? 0 : 256);
		}
		for (j = 0; j < 5; j++)
			count += !!step(&b);
		model_reset(&b.model, &orphans);
		list_for_each_entry(entry, &orphans, node)
			count++;
		CHECK(count == 64, "%s: %u of 64", profiles[i].name, count);
		model_exit(&b.model);
	}
}

static const struct test tests[] = {
	TEST(profiles_in_range),
	TEST(parameter_refused),
	TEST(queues_are_fetched_from_in_turn),
	TEST(weights_say_what_is_fetched),
	TEST(weights_dont_reach_back),
	TEST(weights_hold_from_their_time_on),
	TEST(ssd_read_is_the_sum_of_its_parts),
	TEST(ssd_dies_work_side_by_side),
	TEST(ssd_buffer_then_flash_speed),
	TEST(ssd_flush_waits_for_flash),
	TEST(ssd_fua_waits_for_flash),
	TEST(ssd_read_suspends_program),
	TEST(flush_is_not_queued_on_sata),
	TEST(hdd_mean_seek_is_8_15_of_the_range),
	TEST(hdd_same_sector_comes_once_a_turn),
	TEST(hdd_zones_and_readahead),
	TEST(hdd_readahead_stops_when_full),
	TEST(hdd_picks_the_shortest_positioning),
	TEST(hdd_age_cap),
	TEST(hdd_flush_destages),
	TEST(hdd_write_cache),
	TEST(last_sector),
	TEST(slowdown_multiplies_every_time),
	TEST(seed_decides),
	TEST(reset_hands_all_back),
};

int main(int argc, char **argv)
{
	return run_tests(tests, ARRAY_SIZE(tests), argv[1]);
}

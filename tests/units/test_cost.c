// SPDX-License-Identifier: GPL-2.0-only
/*
 * Unit tests of the cost models: each states one thing about a cost.  The models are
 * held against the simulated drives too: what a load costs, by how long it takes one.
 */
#include "check.h"
#include "cost.h"
#include "model.h"

#define KIB 1024ULL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define DISK_BYTES (976773168 * 512ULL)

/* What a request costs, whatever it is made of. */
static u64 price_of(const struct cost_model *model, struct cost_cursor *head,
		    const struct cost_io *io)
{
	struct cost_terms terms;

	return cost_request(model, head, io, &terms);
}

/* The simulated drives' parameters, by their datasheets: a WD5000AAKX, an Intel X25-M G2. */
static struct cost_device drive_of(enum cost_kind kind)
{
	static const struct cost_device drives[] = {
		[COST_ROTATING] = { .kind = COST_ROTATING,
				    .capacity = DISK_BYTES,
				    .read_mbps = 126,
				    .write_mbps = 126,
				    .flush_us = 2000,
				    .rpm = 7200,
				    .seek_track_us = 1000,
				    .seek_full_us = 15800 },
		[COST_FLASH] = { .kind = COST_FLASH,
				 .capacity = DISK_BYTES,
				 .read_mbps = 250,
				 .write_mbps = 70,
				 .flush_us = 3000,
				 .read_iops = 35000,
				 .write_iops = 6600 },
	};

	return drives[kind];
}

static struct cost_model model_of(enum cost_kind kind)
{
	struct cost_device device = drive_of(kind);
	struct cost_model model;

	if (cost_init(&model, &device))
		abort();
	return model;
}

/* What a read of 4 KiB costs that lies so many bytes behind the last one, or before it. */
static u64 cost_after_gap(const struct cost_model *model, s64 gap)
{
	struct cost_cursor head = { .end = 100 * GIB };
	struct cost_io io = { .at = head.end + gap, .bytes = 4096, .op = COST_READ };

	return price_of(model, &head, &io) - 4096;
}

static void test_sequence_costs_its_bytes(void)
{
	struct cost_model disk = model_of(COST_ROTATING);
	struct cost_cursor head = { .end = 5 * GIB };
	unsigned int i;

	for (i = 1; i < 1000; i++) {
		struct cost_io io = { .at = head.end, .bytes = 512 * i, .op = i % 2 };
		u64 cost = price_of(&disk, &head, &io);

		CHECK(cost == 512 * i, "%llu for %u bytes", cost, 512 * i);
		CHECK(head.end == io.at + io.bytes, "the cursor is at %llu", head.end);
	}
}

static void test_gap_costs_the_cheaper_of_passing_and_moving(void)
{
	struct cost_model disk = model_of(COST_ROTATING);
	u64 gap, last = 0;

	for (gap = 512; gap < 300 * GIB; gap += gap / 3 + 512) {
		u64 ahead = cost_after_gap(&disk, gap);

		CHECK(ahead <= gap && ahead <= disk.near + disk.range, "%llu over %llu", ahead,
		      gap);
		CHECK(ahead >= last, "farther, %llu, and cheaper", gap);
		last = ahead;
	}
	CHECK(cost_after_gap(&disk, 64 * KIB) == 64 * KIB, "passing");
	CHECK(cost_after_gap(&disk, 100 * MIB) < 100 * MIB, "moving");
}

static void test_way_back_is_never_short(void)
{
	struct cost_model disk = model_of(COST_ROTATING);
	u64 half_turn_and_seek = (60000000 / 7200 / 2 + 1000) * 126ULL;
	u64 back = cost_after_gap(&disk, -4096);

	CHECK(back >= half_turn_and_seek - 126 && back < half_turn_and_seek * 2, "%llu", back);
	CHECK(cost_after_gap(&disk, -(s64)(90 * GIB)) == cost_after_gap(&disk, 90 * GIB),
	      "a long way isn't as long back");
}

static void test_seek_grows_with_the_root(void)
{
	struct cost_model disk = model_of(COST_ROTATING);
	u64 far = cost_after_gap(&disk, 64 * GIB) - disk.near;
	u64 quarter = cost_after_gap(&disk, 16 * GIB) - disk.near;

	CHECK(quarter * 2 > far * 999 / 1000 && quarter * 2 < far * 1001 / 1000, "%llu, %llu",
	      quarter, far);
}

static void test_flash_costs_by_size_and_operation(void)
{
	struct cost_model flash = model_of(COST_FLASH);
	struct cost_cursor head = {};
	struct cost_io read = { .at = GIB, .bytes = 4096, .op = COST_READ };
	struct cost_io write = { .at = GIB, .bytes = 4096, .op = COST_WRITE };
	struct cost_io large = { .at = 9 * GIB, .bytes = MIB, .op = COST_WRITE };
	u64 cost = price_of(&flash, &head, &read);

	CHECK(cost == 250000000 / 35000, "a random read %llu", cost);
	read.at = head.end;
	CHECK(price_of(&flash, &head, &read) == cost, "the next one otherwise");
	cost = price_of(&flash, &head, &write);
	CHECK(cost == 250000000 / 6600, "a random write %llu", cost);
	cost = price_of(&flash, &head, &large);
	CHECK(cost > MIB * 25 / 7 && cost < MIB * 26 / 7, "a large write %llu", cost);
}

static void test_flush_and_empty_commands(void)
{
	struct cost_model disk = model_of(COST_ROTATING);
	struct cost_cursor head = { .end = 7 * GIB };
	struct cost_io io = { .at = 7 * GIB, .bytes = 4096, .op = COST_WRITE, .flush = true };
	struct cost_io discard = { .at = GIB, .op = COST_WRITE };

	CHECK(price_of(&disk, &head, &io) == 4096 + 2000 * 126, "flush");
	CHECK(price_of(&disk, &head, &discard) == 0, "a command without data");
	CHECK(head.end == 7 * GIB + 4096, "a command without data moved the arm");
}

static void test_a_write_is_never_free(void)
{
	struct cost_device device = drive_of(COST_ROTATING);
	struct cost_cursor head = {};
	struct cost_io io = { .bytes = 512, .op = COST_WRITE };
	struct cost_model model;

	device.read_mbps = 1;
	device.write_mbps = 100000;
	CHECK(!cost_init(&model, &device), "refused");
	CHECK(price_of(&model, &head, &io) == 1, "512 bytes at 100,000 times the speed");
}

static void test_estimate_knows_sequence_from_random(void)
{
	struct cost_model disk = model_of(COST_ROTATING), flash = model_of(COST_FLASH);
	struct cost_cursor file = {}, other = {};
	u64 i, sequence = 0, random = 0;

	for (i = 0; i < 256; i++) {
		sequence += cost_estimate(&disk, &file, i * 4096, 4096);
		random += cost_estimate(&disk, &other, draw(GIB / 4096) * 4096, 4096);
	}
	CHECK(sequence == MIB, "%llu for 1 MiB in sequence", sequence);
	CHECK(random > 100 * MIB && random < 500 * MIB, "%llu for 1 MiB at random", random);
	CHECK(cost_estimate(&flash, &file, MIB, 7000) == (7000 * 3657 + 1023) / 1024, "goes on");
	CHECK(cost_estimate(&flash, &file, 0, 4096) == 250000000 / 6600, "begins anew");
}

static void test_advance_is_given_back_to_the_byte(void)
{
	struct cost_pending pending = {};
	u64 charged = 0, back = 0, i;

	for (i = 0; i < 1000; i++) {
		u64 cost = 4096 + draw(2 * MIB);

		cost_expect(&pending, 4096, cost);
		charged += cost;
	}
	for (i = 0; i < 500; i++)
		back += cost_settle(&pending, 4096);
	CHECK(back > charged * 499 / 1000 && back < charged * 501 / 1000, "half of it: %llu", back);
	while (pending.bytes)
		back += cost_settle(&pending, 512 + draw(60000));
	CHECK(back == charged && !pending.cost, "%llu of %llu", back, charged);
	CHECK(cost_settle(&pending, 4096) == 0, "more than was expected");
}

static void test_parameters_refused(void)
{
	struct cost_device disk = drive_of(COST_ROTATING);
	struct cost_device flash = drive_of(COST_FLASH);
	struct cost_model before = model_of(COST_ROTATING), model = before;
	struct cost_device bad[] = { disk, disk, disk, disk, disk, disk, flash, flash };
	unsigned int i;

	bad[0].read_mbps = 0;
	bad[1].write_mbps = 0;
	bad[2].capacity = 0;
	bad[3].rpm = 0;
	bad[4].seek_track_us = bad[4].seek_full_us + 1;
	bad[5].flush_us = 1000001;
	bad[6].read_iops = 0;
	bad[7].read_mbps = 257 * bad[7].write_mbps;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK(cost_init(&model, &bad[i]) == -ERANGE, "%u", i);
		CHECK(!memcmp(&model, &before, sizeof(model)), "%u: it is another one now", i);
	}
}

/**
 * struct load - commands to a simulated drive, each where the one before it ended or elsewhere
 * @bytes: of each
 * @gap: the next one starts up to so many bytes further on; U64_MAX: anywhere
 * @op: what is done
 * @depth: how many are under way at once
 * @least: what the model says, in per cent of what the time on the drive is worth
 * @most: the same
 */
struct load {
	u32 bytes;
	u64 gap;
	enum cost_op op;
	unsigned int depth;
	unsigned int least;
	unsigned int most;
};

/**
 * struct trial - a load under way
 * @load: what is done
 * @model: that says what it costs
 * @head: where the last command ended
 * @drive: that it is done on
 * @cmd: commands, under way or not
 * @now: ns
 * @cost: of all commands
 */
struct trial {
	const struct load *load;
	struct cost_model model;
	struct cost_cursor head;
	struct model drive;
	struct model_cmd cmd[32];
	u64 now;
	u64 cost;
};

static void submit(struct trial *t, struct model_cmd *cmd)
{
	u64 anywhere = draw((t->drive.profile.sectors - 4096) / 8) * 4096;
	u64 further = t->load->gap ? draw(t->load->gap / 4096) * 4096 : 0;
	struct cost_io io = {
		.at = t->load->gap == U64_MAX ? anywhere : (t->head.end + further) % DISK_BYTES,
		.bytes = t->load->bytes,
		.op = t->load->op,
	};

	t->cost += price_of(&t->model, &t->head, &io);
	t->head.end = io.at + io.bytes;
	cmd->lba = io.at / 512;
	cmd->sectors = io.bytes / 512;
	cmd->op = io.op == COST_READ ? MODEL_READ : MODEL_WRITE;
	INIT_LIST_HEAD(&cmd->node);
	model_submit(&t->drive, cmd, t->now);
}

/* Lets time pass until a command is complete.  Return: how many are. */
static unsigned int reap(struct trial *t, struct model_cmd *done[])
{
	LIST_HEAD(list);
	struct model_cmd *cmd;
	unsigned int count = 0;

	while (list_empty(&list)) {
		t->now = max(t->now, model_next(&t->drive));
		model_advance(&t->drive, t->now, &list);
	}
	list_for_each_entry(cmd, &list, node)
		done[count++] = cmd;
	return count;
}

/* What the model says of a load, in per cent of what its time on the drive is worth. */
static u64 percent(const struct profile *profile, const struct cost_device *device,
		   const struct load *load, unsigned int commands)
{
	struct model_cmd *done[32];
	struct trial t = { .load = load };
	unsigned int i, count = load->depth;

	if (cost_init(&t.model, device) || model_init(&t.drive, profile))
		abort();
	for (i = 0; i < count; i++)
		done[i] = &t.cmd[i];
	while (commands > count) {
		commands -= count;
		for (i = 0; i < count; i++)
			submit(&t, done[i]);
		count = reap(&t, done);
	}
	model_exit(&t.drive);
	return t.cost * 100000 / (t.now * device->read_mbps);
}

static void check_loads(const struct profile *profile, const struct cost_device *device,
			const struct load *load, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		u64 got = percent(profile, device, &load[i], 4000);

		CHECK(got >= load[i].least && got <= load[i].most, "load %u: %llu %%", i, got);
	}
}

static void test_disk_model_meets_the_simulated_disk(void)
{
	static const struct load loads[] = {
		{ 256 * KIB, 0, COST_READ, 1, 95, 105 },
		{ 256 * KIB, 0, COST_WRITE, 1, 95, 105 },
		{ 4096, U64_MAX, COST_READ, 1, 95, 105 },
		{ 64 * KIB, U64_MAX, COST_READ, 1, 95, 105 },
		{ 4096, 100 * MIB, COST_READ, 1, 90, 110 },
		{ 4096, 10 * GIB, COST_READ, 1, 90, 110 },
		/* The drive's own order of what is queued, which the model doesn't know. */
		{ 4096, U64_MAX, COST_READ, 32, 200, 240 },
	};
	struct cost_device device = drive_of(COST_ROTATING);
	struct profile profile = *profile_find("hdd");

	/* One rate everywhere: the model leaves zones out. */
	profile.inner_mbps = profile.outer_mbps;
	check_loads(&profile, &device, loads, ARRAY_SIZE(loads));
}

static void test_flash_model_meets_the_simulated_ssd(void)
{
	static const struct load loads[] = {
		{ 128 * KIB, 0, COST_READ, 32, 95, 110 },
		{ 128 * KIB, 0, COST_WRITE, 32, 95, 110 },
		{ 4096, U64_MAX, COST_READ, 32, 95, 105 },
		{ 4096, U64_MAX, COST_WRITE, 32, 95, 105 },
		{ 32 * KIB, U64_MAX, COST_READ, 32, 90, 110 },
		/* The drive moves old data by the byte, the model counts it by the command. */
		{ 32 * KIB, U64_MAX, COST_WRITE, 32, 40, 50 },
	};
	struct profile profile = *profile_find("ssd");
	struct cost_device device = drive_of(COST_FLASH);

	profile.slowdown = 1;
	check_loads(&profile, &device, loads, ARRAY_SIZE(loads));
}

/* Commits that so many want each, of so many bytes: what is charged in all, and for a demand. */
static u64 commit(const struct cost_model *model, struct cost_log *log, unsigned int demands,
		  u32 bytes, u64 cost, u64 *demand)
{
	u64 charged = 0;
	unsigned int i;

	for (i = 0; i < demands; i++) {
		*demand = cost_demand(log);
		charged += *demand;
	}
	cost_commit(log, 8192);
	return charged + cost_log_written(model, log, bytes, cost);
}

static void test_a_commit_costs_the_same_for_many_and_for_few(void)
{
	struct cost_model disk = model_of(COST_ROTATING);
	struct cost_log log = {};
	u64 spent = 0, charged = 0, alone, crowded;
	unsigned int i;

	for (i = 0; i < 4000; i++) {
		spent += 2 * MIB;
		charged += commit(&disk, &log, i % 2 ? 1 : 31, 12288, 2 * MIB, &alone);
	}
	CHECK(charged > spent / 100 * 98 && charged < spent / 100 * 102, "%llu of %llu", charged,
	      spent);
	commit(&disk, &log, 1, 12288, 2 * MIB, &alone);
	commit(&disk, &log, 31, 12288, 2 * MIB, &crowded);
	CHECK(alone > 2 * MIB / 17 && alone < 2 * MIB / 15, "%llu alone", alone);
	CHECK(crowded > alone / 100 * 93 && crowded < alone / 100 * 107, "%llu beside others",
	      crowded);
}

static void test_what_is_logged_is_paid_by_who_logs_it(void)
{
	struct cost_model disk = model_of(COST_ROTATING);
	struct cost_log log = {};
	u64 data = cost_data(&disk, COST_WRITE, 100000);

	cost_demand(&log);
	cost_commit(&log, 8192);
	CHECK(cost_log_written(&disk, &log, 4096, 5 * MIB) == 0, "its own log costs it");
	CHECK(cost_log_written(&disk, &log, 104096, 5 * MIB) == data, "the rest doesn't");
}

static void test_a_commit_that_nobody_wants_costs_who_changes(void)
{
	struct cost_model disk = model_of(COST_ROTATING);
	struct cost_log log = {};
	unsigned int i;

	for (i = 0; i < 10000; i++) {
		cost_commit(&log, 8192);
		CHECK(cost_log_written(&disk, &log, 4096, MIB) == MIB, "commit %u", i);
	}
	CHECK(!cost_demand(&log), "a later process pays for it");
}

static const struct test tests[] = {
	TEST(sequence_costs_its_bytes),
	TEST(gap_costs_the_cheaper_of_passing_and_moving),
	TEST(way_back_is_never_short),
	TEST(seek_grows_with_the_root),
	TEST(flash_costs_by_size_and_operation),
	TEST(flush_and_empty_commands),
	TEST(a_write_is_never_free),
	TEST(estimate_knows_sequence_from_random),
	TEST(advance_is_given_back_to_the_byte),
	TEST(a_commit_costs_the_same_for_many_and_for_few),
	TEST(what_is_logged_is_paid_by_who_logs_it),
	TEST(a_commit_that_nobody_wants_costs_who_changes),
	TEST(parameters_refused),
	TEST(disk_model_meets_the_simulated_disk),
	TEST(flash_model_meets_the_simulated_ssd),
};

int main(int argc, char **argv)
{
	return run_tests(tests, ARRAY_SIZE(tests), argv[1]);
}

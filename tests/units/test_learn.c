// SPDX-License-Identifier: GPL-2.0-only
/* Unit tests of what is learned of a device's costs, most of them on the simulated drives. */
#include "check.h"
#include "learn.h"
#include "model.h"

#define KIB 1024ULL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define NS_PER_S 1000000000ULL

#define DEPTH_MAX 128

/**
 * struct load - commands to a drive
 * @bytes: of each
 * @random: anywhere, or in sequence
 * @op: what is done
 * @depth: how many are under way at once
 * @think_ns: for how long there is nothing to do after each
 * @writes: per cent of the commands that are writes, besides @op
 * @commits: a process beside it writes 4 KiB and flushes, again and again
 * @gap: bytes from one command of a sequence to the next
 */
struct load {
	u32 bytes;
	bool random;
	enum cost_op op;
	unsigned int depth;
	u64 think_ns;
	unsigned int writes;
	bool commits;
	u64 gap;
};

static const struct load random_reads = { 4096, true, COST_READ, 32, .think_ns = 0 };
static const struct load long_reads = { 128 * KIB, false, COST_READ, 16, .think_ns = 0 };
static const struct load random_writes = { 4096, true, COST_WRITE, 32, .think_ns = 0 };
static const struct load long_writes = { 128 * KIB, false, COST_WRITE, 16, .think_ns = 0 };

/**
 * struct drive - a drive, and what is learned of it
 * @model: the drive
 * @device: its parameters, as they are known now
 * @costs: made of them
 * @learn: learns them
 * @done: nothing more is learned
 * @paced: a policy gives it no more than it can do, by the prices
 * @head: where the last command ended
 * @cmd: commands, under way or not
 * @free: those that aren't
 * @frees: how many
 * @price: of each command under way, ns
 * @inside: sum of them
 * @commit: the command of a process that commits: a write, then a flush; NULL: none is under way
 * @now: ns
 * @cost: of all commands, ns
 */
struct drive {
	struct model model;
	struct cost_device device;
	struct cost_model costs;
	struct learn learn;
	bool done;
	bool paced;
	struct cost_cursor head;
	struct model_cmd cmd[DEPTH_MAX];
	struct model_cmd *free[DEPTH_MAX];
	unsigned int frees;
	u64 price[DEPTH_MAX];
	u64 inside;
	u64 rests;
	unsigned int given;
	unsigned int told;
	unsigned int rested;
	struct model_cmd *commit;
	u64 now;
	u64 cost;
};

static void drive_init(struct drive *drive, const char *name, struct cost_device device)
{
	struct profile profile = *profile_find(name);
	unsigned int i;

	memset(drive, 0, sizeof(*drive));
	profile.slowdown = 1;
	/* One rate everywhere: the prices leave zones out. */
	profile.inner_mbps = profile.outer_mbps;
	drive->device = device;
	drive->device.capacity = profile.sectors * 512;
	for (i = 0; i < DEPTH_MAX; i++)
		drive->free[drive->frees++] = &drive->cmd[i];
	if (model_init(&drive->model, &profile) || cost_init(&drive->costs, &drive->device))
		abort();
	learn_init(&drive->learn, &drive->device, DEPTH_MAX);
}

/* Tells what learns of a request, unless it is a read that need not be told. */
static void tell(struct drive *drive, const struct cost_terms *terms)
{
	drive->given++;
	if (drive->now < drive->rests && !terms->of[COST_WRITE_BYTES])
		return;
	drive->told++;
	if (learn_request(&drive->learn, terms, DEPTH_MAX - 1 - drive->frees, drive->inside,
			  drive->now)) {
		learn_costs(&drive->learn, &drive->device);
		CHECK(!cost_init(&drive->costs, &drive->device), "out of range");
	}
	drive->rested += !!drive->learn.rest_ns;
	drive->rests = drive->now + drive->learn.rest_ns;
	drive->learn.rest_ns = 0;
}

static struct model_cmd *submit(struct drive *drive, const struct load *load)
{
	struct model_cmd *cmd = drive->free[--drive->frees];
	u64 places = drive->model.profile.sectors * 512 / load->bytes;
	struct cost_io io = {
		.at = load->random ? draw(places) * load->bytes : drive->head.end + load->gap,
		.bytes = load->bytes,
		.op = draw(100) < load->writes ? COST_WRITE : load->op,
	};
	struct cost_terms terms;
	u64 price;

	if (io.at + io.bytes > places * load->bytes)
		io.at = 0;
	price = cost_ns(&drive->costs, cost_request(&drive->costs, &drive->head, &io, &terms));
	drive->cost += price;
	drive->head.end = io.at + io.bytes;
	if (!drive->done)
		tell(drive, &terms);
	drive->price[cmd - drive->cmd] = price;
	drive->inside += price;
	cmd->lba = io.at / 512;
	cmd->sectors = io.bytes / 512;
	cmd->op = io.op == COST_READ ? MODEL_READ : MODEL_WRITE;
	INIT_LIST_HEAD(&cmd->node);
	model_submit(&drive->model, cmd, drive->now);
	return cmd;
}

/* The write of a commit is done, or its flush. */
static void go_on(struct drive *drive)
{
	static const struct load record = { .bytes = 4096, .random = true, .op = COST_WRITE };
	struct model_cmd *cmd = drive->commit;

	if (cmd && cmd->op == MODEL_WRITE) {
		drive->price[cmd - drive->cmd] = 0;
		cmd->op = MODEL_FLUSH;
		cmd->lba = 0;
		cmd->sectors = 0;
		learn_flush(&drive->learn, drive->now);
		model_submit(&drive->model, cmd, drive->now);
		return;
	}
	if (cmd) {
		drive->free[drive->frees++] = cmd;
		learn_flushed(&drive->learn, DEPTH_MAX - drive->frees, drive->now);
	}
	drive->commit = submit(drive, &record);
}

/* Lets time pass until a command is complete. */
static void reap(struct drive *drive)
{
	struct model_cmd *cmd, *next;
	LIST_HEAD(list);

	while (list_empty(&list)) {
		drive->now = max(drive->now, model_next(&drive->model));
		model_advance(&drive->model, drive->now, &list);
	}
	list_for_each_entry_safe(cmd, next, &list, node) {
		list_del_init(&cmd->node);
		drive->inside -= drive->price[cmd - drive->cmd];
		if (cmd == drive->commit)
			go_on(drive);
		else
			drive->free[drive->frees++] = cmd;
	}
}

/* Does a load for so long.  Return: what it costs, in per cent of that time. */
static u64 run(struct drive *drive, const struct load *load, u64 ns)
{
	u64 began = drive->now, cost = drive->cost, due = began;

	if (load->commits)
		go_on(drive);
	while (drive->now - began < ns) {
		while (DEPTH_MAX - drive->frees < load->depth && due <= drive->now) {
			u64 before = drive->cost;

			submit(drive, load);
			if (drive->paced)
				due = max(due, drive->now) + drive->cost - before;
		}
		if (due > drive->now && drive->frees == DEPTH_MAX) {
			learn_idle(&drive->learn, due - drive->now);
			drive->now = due;
			continue;
		}
		reap(drive);
		if (load->think_ns && drive->frees == DEPTH_MAX) {
			drive->now += load->think_ns;
			learn_idle(&drive->learn, load->think_ns);
		}
	}
	if (load->commits)
		drive->commit = NULL;
	while (drive->frees < DEPTH_MAX)
		reap(drive);
	return (drive->cost - cost) * 100 / (drive->now - began);
}

/* A class's parameters, all of them wrong by a factor. */
static struct cost_device off(enum cost_kind kind, u32 times, u32 by)
{
	struct cost_device device = cost_class_default(kind, GIB);

	device.read_mbps = device.read_mbps * times / by;
	device.write_mbps = device.write_mbps * times / by;
	device.read_iops = device.read_iops * times / by;
	device.write_iops = device.write_iops * times / by;
	device.rpm = max(device.rpm * times / by, 1000U);
	device.seek_track_us = device.seek_track_us * by / times;
	device.seek_full_us = min(device.seek_full_us * by / times, 100000U);
	return device;
}

/*
 * Does the loads in turn, each for so many seconds in all.  Then each costs its time, within a
 * quarter, whatever the parameters were at first.
 */
static void check_learned(const char *name, struct cost_device device, const struct load **loads,
			  unsigned int count, unsigned int seconds)
{
	struct drive drive;
	unsigned int i;

	drive_init(&drive, name, device);
	for (i = 0; i < seconds * count; i += 2)
		run(&drive, loads[i / 2 % count], 2 * NS_PER_S);
	drive.done = true;
	for (i = 0; i < count; i++) {
		u64 got = run(&drive, loads[i], NS_PER_S);

		CHECK(got >= 75 && got <= 125, "%s from %u MB/s, load %u of %u: %llu %%", name,
		      device.read_mbps, i, count, got);
	}
	model_exit(&drive.model);
}

static void check_each(const char *name, enum cost_kind kind, const struct load **loads,
		       unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		check_learned(name, off(kind, 10, 1), &loads[i], 1, 10);
		check_learned(name, off(kind, 1, 10), &loads[i], 1, 10);
	}
}

static void check_all(const char *name, enum cost_kind kind, const struct load **loads,
		      unsigned int count, unsigned int seconds)
{
	check_learned(name, off(kind, 10, 1), loads, count, seconds);
	check_learned(name, off(kind, 1, 10), loads, count, seconds);
}

static void test_flash_is_learned(void)
{
	const struct load deep_reads = { 4096, true, COST_READ, 128, .think_ns = 0 };
	const struct load deep_writes = { 4096, true, COST_WRITE, 128, .think_ns = 0 };
	const struct load *loads[] = { &random_reads, &long_reads, &random_writes, &long_writes };
	const struct load *deep[] = { &deep_reads, &long_reads, &deep_writes, &long_writes };
	/* A command seems to take no time but for its bytes. */
	struct cost_device bytes = cost_class_default(COST_FLASH, GIB);

	check_each("ssd", COST_FLASH, loads, 4);
	check_all("ssd", COST_FLASH, loads, 4, 10);
	bytes.read_mbps = 25;
	bytes.read_iops = 350000;
	check_learned("ssd", bytes, loads, 2, 10);
	check_all("emmc", COST_FLASH, loads, 4, 10);
	check_all("nvme", COST_FLASH, deep, 4, 6);
}

static void test_a_disk_is_learned(void)
{
	const struct load one_by_one = { 4096, true, COST_READ, 1, .think_ns = 0 };
	const struct load *alone[] = { &one_by_one, &long_reads };
	const struct load *deep[] = { &random_reads, &long_reads };
	const struct load *writes[] = { &long_writes };

	check_each("hdd", COST_ROTATING, alone, 2);
	check_all("hdd", COST_ROTATING, alone, 2, 10);
	check_all("hdd", COST_ROTATING, deep, 2, 10);
	check_each("hdd", COST_ROTATING, writes, 1);
}

/* On flash writes are thought to be cheap. */
static struct cost_device fast_writes(enum cost_kind kind)
{
	struct cost_device device = cost_class_default(kind, GIB);

	if (kind == COST_FLASH) {
		device.write_mbps = 400;
		device.write_iops = 50000;
	}
	return device;
}

/* What a drive's parameters are if those of reads are learned from loads that keep it busy. */
static void settle(struct drive *drive, const char *name, enum cost_kind kind)
{
	unsigned int i;

	drive_init(drive, name, fast_writes(kind));
	for (i = 0; i < 20; i++) {
		run(drive, &random_reads, NS_PER_S / 2);
		run(drive, &long_reads, NS_PER_S / 2);
	}
}

static void test_a_device_that_waits_for_work_is_not_slow(void)
{
	const struct load two = { 4096, true, COST_READ, 2, .think_ns = 0 };
	const struct load seldom = { 4096, true, COST_READ, 1, .think_ns = 5000000 };
	struct cost_device before;
	struct drive drive;

	settle(&drive, "ssd", COST_FLASH);
	before = drive.device;
	run(&drive, &two, 10 * NS_PER_S);
	run(&drive, &seldom, 10 * NS_PER_S);
	CHECK(drive.device.read_iops > before.read_iops * 99 / 100, "%u reads a second, were %u",
	      drive.device.read_iops, before.read_iops);
	model_exit(&drive.model);
}

/* What is learned beside another load isn't far off. */
static void check_beside(const char *name, enum cost_kind kind, const struct load *beside,
			 unsigned int most)
{
	struct drive drive;
	u64 got;

	settle(&drive, name, kind);
	run(&drive, beside, 10 * NS_PER_S);
	drive.done = true;
	got = run(&drive, kind == COST_FLASH ? &random_reads : &long_reads, NS_PER_S);
	CHECK(got <= most, "%s at %u with %u %% writes: reads are %llu %%", name, beside->depth,
	      beside->writes, got);
	model_exit(&drive.model);
}

static void test_reads_stay_as_dear_beside_writes(void)
{
	const struct load four = { 4096, true, COST_READ, 4, .writes = 30 };
	const struct load eight = { 4096, true, COST_READ, 8, .writes = 30 };

	check_beside("nvme", COST_FLASH, &four, 180);
	check_beside("nvme", COST_FLASH, &eight, 180);
	check_beside("ssd", COST_FLASH, &four, 150);
}

static void test_reads_stay_as_dear_beside_commits(void)
{
	const struct load reads = { 4096, true, COST_READ, 16, .commits = true };
	const struct load stream = { 128 * KIB, false, COST_READ, 16, .commits = true };

	check_beside("ssd", COST_FLASH, &reads, 150);
	check_beside("emmc", COST_FLASH, &reads, 150);
	check_beside("hdd", COST_ROTATING, &stream, 150);
}

static void test_writes_get_cheaper_at_any_depth(void)
{
	const struct load two = { 128 * KIB, false, COST_WRITE, 2, .think_ns = 0 };
	struct drive drive;

	drive_init(&drive, "nvme", cost_class_default(COST_FLASH, GIB));
	run(&drive, &two, 10 * NS_PER_S);
	CHECK(drive.device.write_mbps > 1000, "%u MB/s", drive.device.write_mbps);
	model_exit(&drive.model);
}

static void test_a_device_is_no_faster_than_it_was_seen_to_be(void)
{
	const struct load seldom = { 4096, true, COST_READ, 1, .think_ns = 1000000 };
	struct drive drive;

	drive_init(&drive, "ssd", off(COST_FLASH, 1, 100));
	run(&drive, &seldom, 10 * NS_PER_S);
	CHECK(drive.device.read_iops > 10000, "%u reads a second", drive.device.read_iops);
	model_exit(&drive.model);
}

/* A policy gives writes no more of the device than it has for them, by the prices. */
static void check_paced(const char *name, const struct load *load, unsigned int seconds)
{
	struct drive drive;
	u64 got;

	drive_init(&drive, name, off(COST_FLASH, 1, 10));
	drive.paced = true;
	run(&drive, load, seconds * NS_PER_S);
	drive.paced = false;
	drive.done = true;
	got = run(&drive, load, NS_PER_S);
	CHECK(got >= 75 && got <= 125, "%s, paced writes of %u: %llu %%", name, load->bytes, got);
	model_exit(&drive.model);
}

static void test_paced_writes_get_cheaper(void)
{
	check_paced("ssd", &random_writes, 10);
	check_paced("ssd", &long_writes, 10);
	/* Off by a factor of three hundred. */
	check_paced("nvme", &long_writes, 30);
}

static const struct load pauses = { 512 * KIB, false, COST_WRITE, 1, .think_ns = 2000000 };

/* A device that is idle now and then can do at least what it has done in all that time. */
static void test_writes_with_pauses_get_cheaper(void)
{
	struct drive drive;
	u64 got;

	drive_init(&drive, "ssd", off(COST_FLASH, 1, 10));
	drive.learn.known = true;
	run(&drive, &pauses, 5 * NS_PER_S);
	drive.done = true;
	got = run(&drive, &pauses, NS_PER_S);
	CHECK(got >= 75 && got <= 125, "%llu %%", got);
	model_exit(&drive.model);
}

/* Once a device's writes are known, it may be idle because it writes from its cache meanwhile. */
static void check_as_dear(const struct load *load, bool paced)
{
	struct drive drive;
	u32 before;

	drive_init(&drive, "ssd", cost_class_default(COST_FLASH, GIB));
	run(&drive, &long_writes, 5 * NS_PER_S);
	before = drive.device.write_mbps;
	drive.paced = paced;
	run(&drive, load, 10 * NS_PER_S);
	CHECK(drive.device.write_mbps <= before * 11 / 10, "%u MB/s, were %u",
	      drive.device.write_mbps, before);
	model_exit(&drive.model);
}

static void test_pauses_make_no_write_cheaper(void)
{
	check_as_dear(&pauses, false);
}

static void test_paced_writes_stay_as_dear(void)
{
	check_as_dear(&long_writes, true);
}

/* Of a device that is idle for most of the time no more is known than it has shown. */
static void test_few_writes_make_none_cheap(void)
{
	const struct load seldom = { 8192, false, COST_WRITE, 1, .think_ns = 10000000 };
	struct cost_device before = cost_class_default(COST_FLASH, GIB);
	struct drive drive;

	drive_init(&drive, "ssd", before);
	run(&drive, &seldom, 20 * NS_PER_S);
	CHECK(drive.device.write_mbps == before.write_mbps, "%u MB/s, were %u",
	      drive.device.write_mbps, before.write_mbps);
	model_exit(&drive.model);
}

static u32 near_us(const struct cost_device *disk)
{
	return disk->seek_track_us + 30000000 / disk->rpm;
}

/*
 * Random writes end in the disk's cache at once, and keep it busy long after.  What a seek takes
 * depends on chance: its mean over several drives doesn't change.
 */
static void test_a_cache_makes_no_seek_cheap_and_no_read_dear(void)
{
	u32 first = 0, last = 0, before = 0, i;

	for (i = 0; i < 8; i++) {
		struct drive drive;
		u32 mbps;

		settle(&drive, "hdd", COST_ROTATING);
		before += near_us(&drive.device);
		mbps = drive.device.read_mbps;
		run(&drive, &random_writes, NS_PER_S);
		first += near_us(&drive.device);
		run(&drive, &long_reads, 5 * NS_PER_S);
		CHECK(drive.device.read_mbps > mbps * 9 / 10, "%u MB/s, were %u",
		      drive.device.read_mbps, mbps);
		run(&drive, &random_writes, NS_PER_S);
		run(&drive, &random_reads, 5 * NS_PER_S);
		last += near_us(&drive.device);
		model_exit(&drive.model);
	}
	CHECK(first > before * 9 / 10, "a seek takes %u us, was %u", first / i, before / i);
	CHECK(last < before * 5 / 4, "a seek takes %u us, was %u", last / i, before / i);
}

/* What passes under the head from one write to the next is no read, and a cache hides it too. */
static void test_a_cache_makes_no_gap_cheap(void)
{
	const struct load gaps = { 4096, false, COST_WRITE, 4, .gap = 256 * KIB };
	struct cost_device before;
	struct drive drive;

	settle(&drive, "hdd", COST_ROTATING);
	before = drive.device;
	run(&drive, &gaps, 5 * NS_PER_S);
	CHECK(drive.device.read_mbps < before.read_mbps * 11 / 10, "%u MB/s, were %u",
	      drive.device.read_mbps, before.read_mbps);
	CHECK(near_us(&drive.device) > near_us(&before) * 9 / 10, "a seek takes %u us, was %u",
	      near_us(&drive.device), near_us(&before));
	model_exit(&drive.model);
}

static void test_a_short_write_tells_nothing(void)
{
	const struct load pause = { 4096, true, COST_READ, 1, .think_ns = 200000000 };
	struct drive drive;
	u32 before;
	int i;

	settle(&drive, "hdd", COST_ROTATING);
	before = drive.device.write_mbps;
	for (i = 0; i < 20; i++) {
		run(&drive, &long_writes, 50000000);
		run(&drive, &pause, 1000000000);
	}
	CHECK(drive.device.write_mbps < before * 11 / 10, "%u MB/s, were %u",
	      drive.device.write_mbps, before);
	model_exit(&drive.model);
}

/* So many writes of 4 KiB, and a flush that takes so long. */
static bool flush(struct learn *learn, unsigned int writes, u64 took_ns)
{
	struct cost_terms terms = { .of = { [COST_WRITE_BYTES] = 4096, [COST_WRITES] = 1 } };
	static u64 now = 1;

	for (; writes; writes--)
		learn_request(learn, &terms, 0, 0, now);
	learn_flush(learn, now);
	now += took_ns;
	return learn_flushed(learn, 0, now);
}

static void test_a_flush_with_little_to_write_is_learned(void)
{
	struct cost_device device = cost_class_default(COST_FLASH, GIB);
	struct learn learn;
	unsigned int i;

	device.flush_us = 20000;
	learn_init(&learn, &device, 32);
	for (i = 0; i < 30; i++)
		flush(&learn, 1, 2000000);
	learn_costs(&learn, &device);
	CHECK(device.flush_us > 1900 && device.flush_us < 2100, "%u us", device.flush_us);
	for (i = 0; i < 30; i++)
		flush(&learn, 1, 200000000);
	learn_costs(&learn, &device);
	CHECK(device.flush_us > 190000 && device.flush_us < 210000, "%u us", device.flush_us);
}

static void test_a_flush_with_much_to_write_is_roughly_of_the_writes(void)
{
	struct cost_device device = fast_writes(COST_FLASH), learned = device;
	struct learn learn;
	unsigned int i;

	learn_init(&learn, &device, 32);
	CHECK(!flush(&learn, 1000, device.flush_us * 1000 * 3 / 2), "they were written in advance");
	CHECK(!flush(&learn, 1000, 50000000), "it took but twice as long");
	for (i = 0; i < 30; i++)
		flush(&learn, 1000, 300000000);
	learn_costs(&learn, &learned);
	CHECK(learned.flush_us == device.flush_us, "a flush takes %u us", learned.flush_us);
	CHECK(learned.write_iops > 3000 && learned.write_iops < 15000, "%u writes a second",
	      learned.write_iops);
}

/* Flushes of several queues overlap. */
static void test_flushes_that_overlap_tell_nothing(void)
{
	struct cost_device device = cost_class_default(COST_FLASH, GIB), learned = device;
	struct learn learn;
	u64 now;

	learn_init(&learn, &device, 32);
	for (now = 1; now < NS_PER_S; now += 1000000) {
		learn_flush(&learn, now);
		learn_flush(&learn, now + 400000);
		CHECK(!learn_flushed(&learn, 0, now + 500000), "the first");
		CHECK(!learn_flushed(&learn, 0, now + 900000), "the second");
	}
	learn_costs(&learn, &learned);
	CHECK(learned.flush_us == device.flush_us, "%u us", learned.flush_us);
}

static void check_begins(struct cost_device device)
{
	struct cost_device learned = device;
	struct learn learn;

	learn_init(&learn, &device, 32);
	learn_costs(&learn, &learned);
	CHECK(!memcmp(&learned, &device, sizeof(device)), "%u MB/s, %u/s, %u rpm, %u us",
	      learned.read_mbps, learned.write_iops, learned.rpm, learned.seek_track_us);
}

static void test_learning_begins_with_what_it_was_given(void)
{
	check_begins(cost_class_default(COST_FLASH, GIB));
	check_begins(cost_class_default(COST_ROTATING, GIB));
}

/* Does a load for a second, with prices learned for five.  Return: per cent of requests told. */
static u64 told(const char *name, enum cost_kind kind, const struct load *load)
{
	struct drive drive;

	drive_init(&drive, name, off(kind, 10, 1));
	run(&drive, load, 5 * NS_PER_S);
	drive.given = 0;
	drive.told = 0;
	run(&drive, load, NS_PER_S);
	model_exit(&drive.model);
	return (u64)drive.told * 100 / drive.given;
}

static void test_few_reads_of_a_fast_drive_are_told(void)
{
	const struct load deep = { 4096, true, COST_READ, 128, .think_ns = 0 };
	struct load beside = random_reads;
	u64 part = told("nvme", COST_FLASH, &deep);

	beside.writes = 5;
	CHECK(part < 10, "%llu %% of reads", part);
	CHECK(told("ssd", COST_FLASH, &random_writes) == 100, "writes");
	CHECK(told("hdd", COST_ROTATING, &random_reads) == 100, "a disk's reads");
	part = told("ssd", COST_FLASH, &beside);
	CHECK(part > 90, "%llu %% beside writes", part);
}

/* A window of writes, or with some, is followed by the next one. */
static void test_there_is_no_rest_after_writes(void)
{
	const struct load writes = { 4096, true, COST_WRITE, 128, .think_ns = 0 };
	const struct load mixed = { 4096, true, COST_READ, 128, .writes = 1 };
	const struct load *loads[] = { &writes, &mixed };
	struct drive drive;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		drive_init(&drive, "nvme", cost_class_default(COST_FLASH, GIB));
		run(&drive, loads[i], 5 * NS_PER_S);
		CHECK(!drive.rested, "load %u: %u rests", i, drive.rested);
		model_exit(&drive.model);
	}
}

/* A drive becomes three times as slow while most of its reads are not told. */
static void test_a_rest_ends(void)
{
	const struct load deep = { 4096, true, COST_READ, 128, .think_ns = 0 };
	struct drive drive;
	u64 got;

	drive_init(&drive, "nvme", cost_class_default(COST_FLASH, GIB));
	run(&drive, &deep, 5 * NS_PER_S);
	drive.costs.command[COST_READ] /= 3;
	drive.learn.price[COST_READS] /= 3;
	run(&drive, &deep, 5 * NS_PER_S);
	drive.done = true;
	got = run(&drive, &deep, NS_PER_S);
	CHECK(got >= 75 && got <= 125, "%llu %%", got);
	model_exit(&drive.model);
}

static void test_a_discard_tells_nothing(void)
{
	struct cost_device device = cost_class_default(COST_FLASH, GIB), learned = device;
	struct cost_terms read = { .of = { [COST_READS] = 1, [COST_READ_BYTES] = 4096 } };
	struct cost_terms discard = { .of = { [COST_WRITES] = 1 } };
	u64 period_ns = 1000000000ULL / device.read_iops, now = 0;
	struct learn learn;
	unsigned int i;

	learn_init(&learn, &device, 64);
	for (i = 0; i < 10000; i++) {
		bool slow = i % 1000 == 999;

		CHECK(!learn_request(&learn, slow ? &discard : &read, 31, 31 * period_ns, now),
		      "request %u", i);
		now += slow ? 200000000 : period_ns;
	}
	learn_costs(&learn, &learned);
	CHECK(!memcmp(&learned, &device, sizeof(device)), "%u reads a second", learned.read_iops);
}

static void test_what_is_inside_is_no_error_of_what_follows(void)
{
	struct cost_device device = cost_class_default(COST_FLASH, GIB), learned = device;
	struct cost_terms large = { .of = { [COST_WRITES] = 1, [COST_WRITE_BYTES] = 512 * KIB } };
	struct cost_terms small = { .of = { [COST_WRITES] = 1, [COST_WRITE_BYTES] = 4096 } };
	u64 price = 512 * KIB * 1000 / device.write_mbps, now = 60000000;
	struct learn learn;
	unsigned int i;

	learn_init(&learn, &device, 64);
	learn_idle(&learn, now);
	/* The ninth begins a window.  All of them take five times as long as they should. */
	for (i = 0; i < 9; i++)
		learn_request(&learn, &large, i, i * price, now);
	now += 9 * 5 * price;
	for (i = 0; i < 16; i++)
		learn_request(&learn, &small, 10, 0, now);
	learn_costs(&learn, &learned);
	CHECK(learned.write_iops > device.write_iops * 9 / 10, "%u writes a second, were %u",
	      learned.write_iops, device.write_iops);
}

static void test_writes_are_at_least_a_256th_as_fast(void)
{
	struct cost_device device = cost_class_default(COST_FLASH, GIB);
	struct cost_model model;
	struct learn learn;

	learn_init(&learn, &device, 32);
	learn.price[COST_WRITE_BYTES] = 1000 * learn.price[COST_READ_BYTES];
	learn_costs(&learn, &device);
	CHECK(!cost_init(&model, &device) &&
		      device.write_mbps == DIV_ROUND_UP(device.read_mbps, 256),
	      "%u MB/s, %u MB/s", device.read_mbps, device.write_mbps);
}

/* Whatever a device seems to do, a model can be made of what is learned. */
static void test_what_is_learned_is_in_range(void)
{
	struct cost_model model;
	unsigned int i, kind;

	for (kind = COST_ROTATING; kind <= COST_FLASH; kind++) {
		struct cost_device device = cost_class_default(kind, GIB);
		u64 now = 0, slow = 1, kinds = 0;
		struct learn learn;

		learn_init(&learn, &device, 1 + draw(64));
		for (i = 0; i < 1000000; i++) {
			struct cost_terms terms = {};

			if (i % 2000 == 0) {
				slow = 1ULL << draw(34);
				kinds = draw(3);
			}
			if (kinds != 1)
				terms.of[COST_READ_BYTES] = draw(MIB);
			if (kinds)
				terms.of[COST_WRITE_BYTES] = draw(draw(2) ? 4096 : 64 * MIB);
			terms.of[COST_MOVES] = draw(2);
			terms.of[COST_WAYS] = draw(2) * draw(COST_WAY);
			now += draw(slow);
			if (draw(1000) == 0)
				learn_flush(&learn, now + 1);
			if (draw(1000) == 0)
				learn_flushed(&learn, draw(8), now + 1);
			if (!learn_request(&learn, &terms, draw(64), draw(slow), now))
				continue;
			learn_costs(&learn, &device);
			CHECK(!cost_init(&model, &device), "%u MB/s, %u MB/s, %u/s, %u us",
			      device.read_mbps, device.write_mbps, device.read_iops,
			      device.seek_full_us);
		}
	}
}

static const struct test tests[] = {
	TEST(flash_is_learned),
	TEST(a_disk_is_learned),
	TEST(a_device_that_waits_for_work_is_not_slow),
	TEST(reads_stay_as_dear_beside_writes),
	TEST(reads_stay_as_dear_beside_commits),
	TEST(writes_get_cheaper_at_any_depth),
	TEST(paced_writes_get_cheaper),
	TEST(writes_with_pauses_get_cheaper),
	TEST(pauses_make_no_write_cheaper),
	TEST(paced_writes_stay_as_dear),
	TEST(few_writes_make_none_cheap),
	TEST(a_device_is_no_faster_than_it_was_seen_to_be),
	TEST(a_short_write_tells_nothing),
	TEST(a_cache_makes_no_seek_cheap_and_no_read_dear),
	TEST(a_cache_makes_no_gap_cheap),
	TEST(a_flush_with_little_to_write_is_learned),
	TEST(a_flush_with_much_to_write_is_roughly_of_the_writes),
	TEST(flushes_that_overlap_tell_nothing),
	TEST(learning_begins_with_what_it_was_given),
	TEST(few_reads_of_a_fast_drive_are_told),
	TEST(there_is_no_rest_after_writes),
	TEST(a_rest_ends),
	TEST(a_discard_tells_nothing),
	TEST(what_is_inside_is_no_error_of_what_follows),
	TEST(writes_are_at_least_a_256th_as_fast),
	TEST(what_is_learned_is_in_range),
};

int main(int argc, char **argv)
{
	return run_tests(tests, ARRAY_SIZE(tests), argv[1]);
}

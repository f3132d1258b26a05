// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random drives under random commands, and what must hold of each:
 *
 *	- every command completes once, and only after it was submitted
 *	- none completes before the time that the drive told, and that is ahead
 *	- no command waits longer than its drive can possibly need
 *	- a drive without commands comes to rest
 *	- a reset hands back exactly the commands under way
 *
 *	fuzz-models FIRST_SEED COUNT
 *
 * A failure prints the seed: "fuzz-models SEED 1" repeats it.
 */
#include <stdio.h>

#include "model.h"

#define COMMANDS 64
#define ROUNDS 600

/* A hard disk's write cache: as HDD_EXTENTS in hdd.c. */
#define EXTENTS 128

/**
 * struct fuzz - one drive and what is known of it
 * @model: the drive
 * @seed: that all follows from
 * @draw: state of the random numbers
 * @now: ns
 * @patience: no command may take longer, ns
 * @cmd: commands, under way or not
 * @busy: which are
 * @start: when each was submitted, ns
 * @under_way: how many are busy
 */
struct fuzz {
	struct model model;
	u64 seed;
	u64 draw;
	u64 now;
	u64 patience;
	struct model_cmd cmd[COMMANDS];
	bool busy[COMMANDS];
	u64 start[COMMANDS];
	unsigned int under_way;
};

static void fail(const struct fuzz *f, const char *what, u64 value)
{
	printf("seed %llu: %s (%llu), drive of kind %d\n", f->seed, what, value,
	       f->model.profile.kind);
	exit(1);
}

static u64 draw(struct fuzz *f, u64 below)
{
	f->draw = f->draw * 6364136223846793005ULL + 1442695040888963407ULL;
	return (f->draw >> 16) % below;
}

/* Half of the parameters as they are, most others within a factor of 8, some small. */
static struct profile random_profile(struct fuzz *f)
{
	struct profile p = profiles[draw(f, profiles_count)];
	unsigned int i;

	for (i = 0; i < profile_parameters_count; i++) {
		const struct profile_parameter *par = &profile_parameters[i];
		u64 value = profile_get(&p, par);

		if (!(par->kinds & p.kind) || draw(f, 2))
			continue;
		value = value && draw(f, 8) ? value * (1 + draw(f, 64)) / 8 : draw(f, 100000);
		profile_set(&p, par, min(max(value, par->least), par->most));
	}
	p.inner_mbps = min(p.inner_mbps, p.outer_mbps);
	return p;
}

/* The longest that one operation on the medium may take, ns. */
static u64 worst_operation(const struct profile *p)
{
	u64 turn = p->rpm ? 60000000000ULL / p->rpm : 0;
	u64 program = max(p->program_lsb_ns, p->program_msb_ns) + p->erase_ns;
	u64 sense = max(p->read_lsb_ns, p->read_msb_ns) + p->suspend_ns;

	if (p->kind == PROFILE_HDD)
		return max(p->seek_full_ns, p->seek_track_ns) + p->seek_write_ns + turn +
		       2560 * (turn + p->skew_ns);
	return program + 320 * (sense + 65536000 / p->channel_mbps) * 16;
}

/* Long enough for all commands and a full cache, one after the other. */
static u64 patience(const struct profile *p)
{
	u64 cmd = p->read_cmd_ns + p->write_cmd_ns + p->read_latency_ns + p->write_latency_ns +
		  p->flush_ns + p->discard_ns + p->zeroes_ns + 2560 * 512000 / p->link_mbps;
	u64 programs = 1;

	if (p->kind == PROFILE_SSD)
		programs = (p->cache_kib + 1280 * p->random_wa_pct / 100) / p->program_kib + 1;
	return ((cmd + worst_operation(p)) * (COMMANDS + EXTENTS + programs) + p->age_cap_ns) * 2 *
	       p->slowdown;
}

static bool has_command(const struct profile *p, enum model_op op)
{
	if (op == MODEL_DISCARD)
		return p->discard_ns;
	return op != MODEL_ZEROES || p->zeroes_ns;
}

static void random_command(struct fuzz *f, struct model_cmd *cmd)
{
	static const u8 ops[] = {
		MODEL_READ,  MODEL_READ,  MODEL_READ,	 MODEL_WRITE,  MODEL_WRITE,
		MODEL_WRITE, MODEL_FLUSH, MODEL_DISCARD, MODEL_ZEROES,
	};
	u64 sectors = f->model.profile.sectors;

	cmd->op = ops[draw(f, ARRAY_SIZE(ops))];
	if (!has_command(&f->model.profile, cmd->op))
		cmd->op = MODEL_READ;
	cmd->sectors = min(draw(f, 4) ? 8 : 1 + draw(f, 2560), sectors);
	cmd->lba = draw(f, 3) ? draw(f, sectors - cmd->sectors + 1) : sectors - cmd->sectors;
	if (draw(f, 4) == 0)
		cmd->lba = min(f->cmd[0].lba + f->cmd[0].sectors, sectors - cmd->sectors);
	if (cmd->op == MODEL_FLUSH) {
		cmd->lba = 0;
		cmd->sectors = 0;
	}
	cmd->fua = draw(f, 8) == 0;
	cmd->group = draw(f, f->model.profile.queues);
	cmd->level = draw(f, ARBITER_LEVELS);
	INIT_LIST_HEAD(&cmd->node);
}

static void submit_some(struct fuzz *f)
{
	unsigned int i, count = draw(f, 2) ? draw(f, 4) : draw(f, COMMANDS);

	for (i = 0; i < COMMANDS && count; i++) {
		if (f->busy[i])
			continue;
		random_command(f, &f->cmd[i]);
		f->busy[i] = true;
		f->start[i] = f->now;
		f->under_way++;
		model_submit(&f->model, &f->cmd[i], f->now);
		count--;
	}
}

static void take(struct fuzz *f, struct model_cmd *cmd)
{
	unsigned int i = cmd - f->cmd;

	if (!f->busy[i])
		fail(f, "a command completed twice", i);
	f->busy[i] = false;
	f->under_way--;
	if (f->now - f->start[i] > f->patience)
		fail(f, "a command took too long", f->now - f->start[i]);
}

static void collect(struct fuzz *f, struct list_head *done)
{
	struct model_cmd *cmd, *next;

	list_for_each_entry_safe(cmd, next, done, node) {
		list_del_init(&cmd->node);
		take(f, cmd);
	}
}

/* To the next event, or past it as a late timer does. False: nothing happens any more. */
static bool advance(struct fuzz *f)
{
	u64 next = model_next(&f->model);
	LIST_HEAD(done);

	if (next == MODEL_NEVER)
		return false;
	if (next + f->model.profile.slowdown <= f->now)
		fail(f, "the time told has passed", f->now - next);
	if (next > f->now)
		model_advance(&f->model, next - 1, &done);
	if (!list_empty(&done))
		fail(f, "a command completed sooner than told", next);
	f->now = max(f->now, next) + (draw(f, 4) ? 0 : draw(f, 1000000));
	model_advance(&f->model, f->now, &done);
	collect(f, &done);
	return true;
}

/* Until the drive does nothing more of itself. */
static void settle(struct fuzz *f)
{
	u64 steps = 0;

	while (advance(f))
		if (++steps > 20000000)
			fail(f, "the drive doesn't come to rest", steps);
	if (f->under_way)
		fail(f, "commands were lost", f->under_way);
}

static void cut_power(struct fuzz *f)
{
	LIST_HEAD(orphans);

	model_reset(&f->model, &orphans);
	collect(f, &orphans);
	if (f->under_way)
		fail(f, "a reset lost commands", f->under_way);
}

static void fuzz(u64 seed)
{
	struct fuzz f = { .seed = seed, .draw = seed };
	struct profile p = random_profile(&f);
	int round;

	f.patience = patience(&p);
	if (model_init(&f.model, &p))
		abort();
	for (round = 0; round < ROUNDS; round++) {
		u64 steps = draw(&f, 8);

		if (draw(&f, 4) == 0)
			model_arbitrate(&f.model, draw(&f, 2), draw(&f, 1ULL << 32), f.now);
		submit_some(&f);
		while (steps-- && advance(&f))
			;
	}
	if (draw(&f, 2))
		settle(&f);
	else
		cut_power(&f);
	model_exit(&f.model);
}

int main(int argc, char **argv)
{
	u64 first, seed;

	if (argc != 3) {
		fprintf(stderr, "usage: fuzz-models FIRST_SEED COUNT\n");
		return 2;
	}
	first = strtoull(argv[1], NULL, 0);
	for (seed = first; seed < first + strtoull(argv[2], NULL, 0); seed++)
		fuzz(seed);
	printf("ok   fuzz-models, %s drives\n", argv[2]);
	return 0;
}

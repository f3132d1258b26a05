// SPDX-License-Identifier: GPL-2.0-only
/*
 * Drives a model with a closed loop of commands and prints what it delivers,
 * in the real drive's time: slowdown is set to 1.
 *
 *	measure PROFILE read|write|flush random|sequential BYTES DEPTH COUNT
 *
 * prints: iops, then mean, median and 99th percentile of latency in ns.
 * "flush" is a random write of BYTES followed by a FLUSH, measured as one.
 */
#include <stdio.h>

#include "model.h"

#define DEPTH_MAX 1024

/**
 * struct load - what to measure, and what came out
 * @model: the drive
 * @op: read or write
 * @flush: each write is followed by a FLUSH
 * @sequential: or random
 * @sectors: per command
 * @depth: commands under way
 * @count: commands to measure
 * @cmd: the commands under way
 * @start: when each was submitted, ns
 * @now: the clock, ns
 * @position: of the next sequential command
 * @draw: state of the random numbers
 * @latency: of the commands completed, ns
 * @completed: how many
 */
struct load {
	struct model model;
	enum model_op op;
	bool flush;
	bool sequential;
	u32 sectors;
	unsigned int depth;
	unsigned int count;
	struct model_cmd cmd[DEPTH_MAX];
	u64 start[DEPTH_MAX];
	u64 now;
	u64 position;
	u64 draw;
	u64 *latency;
	unsigned int completed;
};

static u64 load_random(struct load *load, u64 below)
{
	load->draw = load->draw * 6364136223846793005ULL + 1442695040888963407ULL;
	return (load->draw >> 20) % below;
}

static u64 load_lba(struct load *load)
{
	u64 places = load->model.profile.sectors / load->sectors;
	u64 lba = load->position;

	if (!load->sequential)
		return load_random(load, places) * load->sectors;
	load->position += load->sectors;
	return lba;
}

static void load_submit(struct load *load, unsigned int i)
{
	struct model_cmd *cmd = &load->cmd[i];

	cmd->op = load->op;
	cmd->lba = load_lba(load);
	cmd->sectors = load->sectors;
	cmd->group = i % load->model.profile.queues;
	load->start[i] = load->now;
	INIT_LIST_HEAD(&cmd->node);
	model_submit(&load->model, cmd, load->now);
}

/* Returns true when the command was the first half of a write with FLUSH. */
static bool load_half(struct load *load, struct model_cmd *cmd)
{
	if (!load->flush || cmd->op == MODEL_FLUSH)
		return false;
	cmd->op = MODEL_FLUSH;
	cmd->lba = 0;
	cmd->sectors = 0;
	model_submit(&load->model, cmd, load->now);
	return true;
}

static void load_complete(struct load *load, struct model_cmd *cmd)
{
	unsigned int i = cmd - load->cmd;

	list_del_init(&cmd->node);
	if (load_half(load, cmd))
		return;
	if (load->completed < load->count)
		load->latency[load->completed++] = load->now - load->start[i];
	load_submit(load, i);
}

static void load_run(struct load *load, unsigned int until)
{
	struct model_cmd *cmd, *next;

	while (load->completed < until) {
		LIST_HEAD(done);

		load->now = max(load->now, model_next(&load->model));
		model_advance(&load->model, load->now, &done);
		list_for_each_entry_safe(cmd, next, &done, node)
			load_complete(load, cmd);
	}
}

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

static void load_report(struct load *load, u64 elapsed)
{
	unsigned int i, count = load->completed;
	u64 sum = 0;

	for (i = 0; i < count; i++)
		sum += load->latency[i];
	qsort(load->latency, count, sizeof(u64), compare);
	printf("%llu %llu %llu %llu\n", count * 1000000000ULL / elapsed, sum / count,
	       load->latency[count / 2], load->latency[count - 1 - count / 100]);
}

/* The first half of the commands warms buffers and caches up. */
static void load_measure(struct load *load)
{
	unsigned int i;
	u64 begun;

	for (i = 0; i < load->depth; i++)
		load_submit(load, i);
	load_run(load, load->count);
	begun = load->now;
	load->completed = 0;
	load_run(load, load->count);
	load_report(load, load->now - begun);
}

static bool load_parse(struct load *load, char **argv, struct profile *profile)
{
	const struct profile *found = profile_find(argv[1]);

	if (!found)
		return false;
	*profile = *found;
	profile->slowdown = 1;
	load->flush = !strcmp(argv[2], "flush");
	load->op = !strcmp(argv[2], "read") ? MODEL_READ : MODEL_WRITE;
	load->sequential = !strcmp(argv[3], "sequential");
	load->sectors = atoi(argv[4]) / SECTOR_BYTES;
	load->depth = atoi(argv[5]);
	load->count = atoi(argv[6]);
	return load->sectors && load->depth && load->depth <= DEPTH_MAX && load->count;
}

int main(int argc, char **argv)
{
	static struct load load;
	struct profile profile;

	if (argc != 7 || !load_parse(&load, argv, &profile)) {
		fprintf(stderr, "usage: measure PROFILE read|write|flush random|sequential "
				"BYTES DEPTH COUNT\n");
		return 2;
	}
	load.latency = calloc(load.count, sizeof(u64));
	if (!load.latency || model_init(&load.model, &profile)) {
		fprintf(stderr, "measure: no memory\n");
		return 1;
	}
	load_measure(&load);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all drives have in common: submission queues, the controller that
 * fetches from them, commands that must run alone, the link, and time.
 */
#include "model.h"

/*
 * The least time from fetching a command to its completion. A disk has no
 * sense times, they are 0; a discard or zeroes of 0 is not offered.
 */
static u64 model_shortest_ns(const struct profile *p)
{
	u64 read = p->read_latency_ns + min(p->read_lsb_ns, p->read_msb_ns);
	u64 shortest = min3(read, p->write_latency_ns, p->flush_ns);

	if (p->discard_ns)
		shortest = min(shortest, p->discard_ns);
	if (p->zeroes_ns)
		shortest = min(shortest, p->zeroes_ns);
	return shortest;
}

static void model_init_queues(struct model *model)
{
	unsigned int group, level;

	for (group = 0; group < PROFILE_QUEUES; group++)
		for (level = 0; level < ARBITER_LEVELS; level++)
			INIT_LIST_HEAD(&model->queue[group][level]);
	arbiter_init(&model->arbiter);
}

/**
 * model_init() - power up a drive
 * @model: the drive
 * @profile: its parameters, each in its range; copied
 *
 * Return: 0, or -ENOMEM.
 */
int model_init(struct model *model, const struct profile *profile)
{
	memset(model, 0, sizeof(*model));
	model->profile = *profile;
	model->ops = profile->kind == PROFILE_HDD ? &hdd_ops : &ssd_ops;
	model->shortest_ns = model_shortest_ns(profile);
	INIT_LIST_HEAD(&model->timed);
	INIT_LIST_HEAD(&model->done);
	model_init_queues(model);
	return model->ops->init(model);
}

/**
 * model_exit() - free what a drive holds
 * @model: the drive, without commands
 */
void model_exit(struct model *model)
{
	model->ops->exit(model);
}

/* FLUSH and discard are not queued on SATA: they run when nothing else does. */
static bool model_runs_alone(const struct model *model, const struct model_cmd *cmd)
{
	return !model->profile.queued_flush && cmd->op != MODEL_READ && cmd->op != MODEL_WRITE;
}

static bool model_can_fetch(const struct model *model)
{
	return model->arbiter.total && !model->alone && model->inside < model->profile.slots;
}

static bool model_can_run_alone(const struct model *model)
{
	return model->alone && !model->inside;
}

static void model_start(struct model *model, struct model_cmd *cmd)
{
	const struct profile *p = &model->profile;

	model->inside++;
	model->fetch_at = model->now + (cmd->op == MODEL_READ ? p->read_cmd_ns : p->write_cmd_ns);
	cmd->arrived = model->now;
	model->ops->start(model, cmd);
}

/* The next command of those that wait, or NULL. */
static struct model_cmd *model_pick(struct model *model)
{
	struct arbiter_queue from;
	struct model_cmd *cmd;

	if (!arbiter_fetch(&model->arbiter, &from))
		return NULL;
	cmd = list_first_entry(&model->queue[from.index][from.level], struct model_cmd, node);
	list_del_init(&cmd->node);
	return cmd;
}

static void model_fetch(struct model *model)
{
	struct model_cmd *cmd = model_pick(model);

	if (model_runs_alone(model, cmd))
		model->alone = cmd;
	else
		model_start(model, cmd);
}

static void model_expire(struct model *model)
{
	while (!list_empty(&model->timed)) {
		struct model_cmd *cmd = list_first_entry(&model->timed, struct model_cmd, node);

		if (cmd->due > model->now)
			return;
		list_del_init(&cmd->node);
		model->ops->expire(model, cmd);
	}
}

/* The time of the next event on the drive's clock. */
static u64 model_event(const struct model *model)
{
	u64 at = model->ops->next(model);

	if (!list_empty(&model->timed))
		at = min(at, list_first_entry(&model->timed, struct model_cmd, node)->due);
	if (model_can_fetch(model) || model_can_run_alone(model))
		at = min(at, model->fetch_at);
	return max(at, model->now);
}

static void model_step(struct model *model)
{
	model_expire(model);
	model->ops->tick(model);
	if (model->fetch_at > model->now)
		return;
	if (model_can_run_alone(model))
		model_start(model, model->alone);
	else if (model_can_fetch(model))
		model_fetch(model);
}

/* Live through all events up to @now of the caller's clock. */
static void model_run(struct model *model, u64 now)
{
	u64 until = div64_u64(now, model->profile.slowdown);
	u64 at;

	while ((at = model_event(model)) <= until) {
		model->now = at;
		model_step(model);
	}
	model->now = max(model->now, until);
}

/**
 * model_arbitrate() - choose how the controller fetches
 * @model: the drive
 * @weighted: weighted round robin with an urgent class, else round robin
 * @feature: see arbiter_set()
 * @now: the caller's clock, ns
 */
void model_arbitrate(struct model *model, bool weighted, u32 feature, u64 now)
{
	model_run(model, now);
	arbiter_set(&model->arbiter, weighted, feature);
}

/**
 * model_submit() - give a command to the drive
 * @model: the drive
 * @cmd: the command, the caller's part filled in; within the capacity
 * @now: the caller's clock, ns
 */
void model_submit(struct model *model, struct model_cmd *cmd, u64 now)
{
	model_run(model, now);
	list_add_tail(&cmd->node, &model->queue[cmd->group][cmd->level]);
	arbiter_add(&model->arbiter, (struct arbiter_queue){ cmd->level, cmd->group });
}

/**
 * model_next() - when to call model_advance()
 * @model: the drive
 *
 * Return: a time on the caller's clock in ns before which no command will be
 * complete, or MODEL_NEVER when there is none. By that time one may be, or a
 * later time can be told.
 */
u64 model_next(const struct model *model)
{
	u64 at = list_empty(&model->done) ? model->ops->completes(model) : 0;
	const struct model_cmd *cmd;

	if (model_can_fetch(model) || model_can_run_alone(model))
		at = min(at, max(model->fetch_at, model->now) + model->shortest_ns);
	list_for_each_entry(cmd, &model->timed, node) {
		if (cmd->due >= at)
			break;
		at = min(at, model->ops->soonest(model, cmd));
	}
	return at == MODEL_NEVER ? at : max(at, model->now) * model->profile.slowdown;
}

/**
 * model_advance() - let time pass
 * @model: the drive
 * @now: the caller's clock, ns
 * @done: the commands completed by @now are appended, in order of completion
 */
void model_advance(struct model *model, u64 now, struct list_head *done)
{
	model_run(model, now);
	list_splice_tail_init(&model->done, done);
}

/**
 * model_reset() - the drive loses power: it forgets every command
 * @model: the drive
 * @orphans: all commands that were submitted and not handed back are appended
 */
void model_reset(struct model *model, struct list_head *orphans)
{
	struct model_cmd *cmd;

	model->ops->reset(model, orphans);
	list_splice_tail_init(&model->timed, orphans);
	list_splice_tail_init(&model->done, orphans);
	if (model->alone && list_empty(&model->alone->node))
		list_add_tail(&model->alone->node, orphans);
	while ((cmd = model_pick(model)))
		list_add_tail(&cmd->node, orphans);
	model->alone = NULL;
	model->inside = 0;
}

/**
 * model_schedule() - begin a stage of a command
 * @model: the drive
 * @cmd: the command, on no list
 * @due: end of the stage on the drive's clock
 * @stage: handed to ops->expire in @cmd->stage
 */
void model_schedule(struct model *model, struct model_cmd *cmd, u64 due, u8 stage)
{
	struct model_cmd *before;

	cmd->due = due;
	cmd->stage = stage;
	list_for_each_entry_reverse(before, &model->timed, node)
		if (before->due <= due)
			break;
	list_add(&cmd->node, &before->node);
}

/**
 * model_complete() - a command has ended
 * @model: the drive
 * @cmd: the command, on no list
 */
void model_complete(struct model *model, struct model_cmd *cmd)
{
	if (model->alone == cmd)
		model->alone = NULL;
	model->inside--;
	list_add_tail(&cmd->node, &model->done);
}

static unsigned int model_direction(const struct model *model, const struct model_cmd *cmd)
{
	return model->profile.duplex && cmd->op == MODEL_WRITE;
}

/**
 * model_link_end() - when a command's data would have passed the link
 * @model: the drive
 * @cmd: a read or a write
 * @from: when the data is ready, on the drive's clock
 *
 * Return: when the last byte would have passed, on the drive's clock.
 */
u64 model_link_end(const struct model *model, const struct model_cmd *cmd, u64 from)
{
	u64 free = model->link_free[model_direction(model, cmd)];
	u64 bytes = (u64)cmd->sectors * SECTOR_BYTES;

	return max(free, from) + model_transfer_ns(bytes, model->profile.link_mbps);
}

/**
 * model_link() - send a command's data over the link, now
 * @model: the drive
 * @cmd: a read or a write
 *
 * Return: when the last byte has passed, on the drive's clock.
 */
u64 model_link(struct model *model, const struct model_cmd *cmd)
{
	u64 end = model_link_end(model, cmd, model->now);

	model->link_free[model_direction(model, cmd)] = end;
	return end;
}

/**
 * model_hash() - draw a number by lot, the same one each time
 * @value: what the number depends on; the profile's seed mixed in by the caller
 *
 * Return: 32 bits, each as good as a coin.
 */
u32 model_hash(u64 value)
{
	value = (value + 0x9e3779b97f4a7c15ULL) * 0xd6e8feb86659fd93ULL;
	value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93ULL;
	return value >> 32;
}

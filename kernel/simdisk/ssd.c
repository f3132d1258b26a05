// SPDX-License-Identifier: GPL-2.0-only
/*
 * A flash drive. Pages are striped over the dies. A read senses its pages on
 * their dies, brings them over the channels into the controller, then over
 * the link as a whole. A write crosses the link into the buffer and is
 * complete when the buffer has room for it; the buffer drains to the dies at
 * once, one program per die at a time, so that what was read meanwhile on a
 * die comes before its next program.
 *
 * Garbage collection is a factor: each byte written occupies the buffer and
 * the dies like sequential_wa_pct or random_wa_pct hundredths of a byte.
 *
 * Dies, channels and the link serve in the order of arrival, so a use of one
 * is booked when it is known: "free" is the time at which it has done all.
 */
#include "model.h"

/* Sequential writers that the drive tells apart from random ones. */
#define SSD_STREAMS 8

/*
 * A program lets this many reads suspend it, then finishes. A program of 8
 * planes' worth of reads is still bounded to a few milliseconds.
 */
#define SSD_SUSPENDS 8

enum ssd_stage { SSD_LINK, SSD_BUFFER, SSD_DONE };

/**
 * struct ssd_die - one die
 * @free: end of the last read booked
 * @program_end: end of the program under way; 0: none
 * @bytes: that the program takes out of the buffer
 * @programs: counted towards the next erase and for the type of page
 * @suspends: of the program under way
 */
struct ssd_die {
	u64 free;
	u64 program_end;
	u32 bytes;
	u32 programs;
	u32 suspends;
};

/**
 * struct ssd - the state of a flash drive
 * @dies: how many there are
 * @cursor: the die to program next, if it can
 * @next_program: end of the program that ends first, or MODEL_NEVER
 * @buffered: bytes in the buffer, those being programmed included
 * @pending: bytes in the buffer that no die has taken yet
 * @admitted: bytes that ever entered the buffer
 * @drained: bytes that ever left it
 * @room: writes that wait for room in the buffer, in order
 * @drain: FLUSHes and FUA writes that wait until @drained reaches their mark
 * @stream_end: where the last writers stopped
 * @stream: the entry of @stream_end to replace next
 * @channel_free: per channel, end of the last transfer booked
 * @die: the dies; die i is on channel i modulo the number of channels
 */
struct ssd {
	unsigned int dies;
	unsigned int cursor;
	u64 next_program;
	u64 buffered;
	u64 pending;
	u64 admitted;
	u64 drained;
	struct list_head room;
	struct list_head drain;
	u64 stream_end[SSD_STREAMS];
	unsigned int stream;
	u64 *channel_free;
	struct ssd_die die[];
};

static int ssd_init(struct model *model)
{
	const struct profile *p = &model->profile;
	unsigned int dies = p->channels * p->dies;
	struct ssd *ssd = kzalloc(struct_size(ssd, die, dies), GFP_KERNEL);

	if (!ssd)
		return -ENOMEM;
	ssd->channel_free = kcalloc(p->channels, sizeof(u64), GFP_KERNEL);
	if (!ssd->channel_free) {
		kfree(ssd);
		return -ENOMEM;
	}
	ssd->dies = dies;
	ssd->next_program = MODEL_NEVER;
	INIT_LIST_HEAD(&ssd->room);
	INIT_LIST_HEAD(&ssd->drain);
	model->drive = ssd;
	return 0;
}

static void ssd_exit(struct model *model)
{
	struct ssd *ssd = model->drive;

	kfree(ssd->channel_free);
	kfree(ssd);
}

/*
 * A read that finds a program on its die waits for its end or suspends it.
 * Returns when the sense can start.
 */
static u64 ssd_past_program(struct model *model, struct ssd_die *die, u64 start, u64 sense)
{
	u64 suspend = model->profile.suspend_ns;

	if (!suspend || die->suspends >= SSD_SUSPENDS)
		return die->program_end;
	die->suspends++;
	die->program_end += suspend + sense;
	return start + suspend;
}

/* Books the read of a page, @bytes of it. Returns when they are in the controller. */
static u64 ssd_read_page(struct model *model, u64 page, u64 bytes, u64 from)
{
	const struct profile *p = &model->profile;
	struct ssd *ssd = model->drive;
	u32 index = (u32)page % ssd->dies;
	struct ssd_die *die = &ssd->die[index];
	u64 *channel = &ssd->channel_free[index % p->channels];
	u64 sense = model_hash(page ^ p->seed) & 1 ? p->read_msb_ns : p->read_lsb_ns;
	u64 start = max(from, die->free);

	if (die->program_end > start)
		start = ssd_past_program(model, die, start, sense);
	die->free = start + sense;
	*channel = max(*channel, die->free) + model_transfer_ns(bytes, p->channel_mbps);
	return *channel;
}

static u64 ssd_read_pages(struct model *model, const struct model_cmd *cmd, u64 from)
{
	u32 page_sectors = model->profile.page_kib * 2;
	u64 page = div_u64(cmd->lba, page_sectors);
	u64 last = div_u64(cmd->lba + cmd->sectors - 1, page_sectors);
	u64 bytes = min(cmd->sectors, page_sectors) * SECTOR_BYTES;
	u64 ready = from;

	for (; page <= last; page++)
		ready = max(ready, ssd_read_page(model, page, bytes, from));
	return ready;
}

/* Is this write the continuation of another? */
static bool ssd_sequential(struct ssd *ssd, const struct model_cmd *cmd)
{
	u64 end = cmd->lba + cmd->sectors;
	unsigned int i;

	for (i = 0; i < SSD_STREAMS; i++) {
		if (ssd->stream_end[i] != cmd->lba)
			continue;
		ssd->stream_end[i] = end;
		return true;
	}
	ssd->stream_end[ssd->stream] = end;
	ssd->stream = (ssd->stream + 1) % SSD_STREAMS;
	return false;
}

/* Bytes to program for a write, garbage collection's share included. */
static u64 ssd_amplified(struct model *model, const struct model_cmd *cmd)
{
	const struct profile *p = &model->profile;
	bool sequential = ssd_sequential(model->drive, cmd);
	u64 bytes = (u64)cmd->sectors * SECTOR_BYTES;

	return div_u64(bytes * (sequential ? p->sequential_wa_pct : p->random_wa_pct), 100);
}

static void ssd_program(struct model *model, struct ssd_die *die)
{
	const struct profile *p = &model->profile;
	struct ssd *ssd = model->drive;

	die->bytes = min(ssd->pending, p->program_kib << 10);
	die->suspends = 0;
	die->programs++;
	die->program_end = max(model->now, die->free);
	die->program_end += die->programs & 1 ? p->program_lsb_ns : p->program_msb_ns;
	if (die->programs % (u32)p->block_programs == 0)
		die->program_end += p->erase_ns;
	ssd->pending -= die->bytes;
	ssd->next_program = min(ssd->next_program, die->program_end);
}

/* Give the buffer's content to dies that do not program. */
static void ssd_destage(struct model *model)
{
	struct ssd *ssd = model->drive;
	unsigned int i;

	for (i = 0; i < ssd->dies && ssd->pending; i++) {
		struct ssd_die *die = &ssd->die[ssd->cursor];

		if (!die->program_end)
			ssd_program(model, die);
		ssd->cursor = (ssd->cursor + 1) % ssd->dies;
	}
}

static void ssd_flushed(struct model *model, struct model_cmd *cmd)
{
	if (cmd->op == MODEL_FLUSH)
		model_schedule(model, cmd, model->now + model->profile.flush_ns, SSD_DONE);
	else
		model_complete(model, cmd);
}

/* Complete a command once all that was written before it is on flash. */
static void ssd_settle(struct model *model, struct model_cmd *cmd)
{
	struct ssd *ssd = model->drive;

	cmd->mark = ssd->admitted;
	if (model->profile.protected_cache || ssd->drained >= cmd->mark)
		ssd_flushed(model, cmd);
	else
		list_add_tail(&cmd->node, &ssd->drain);
}

/* One write alone may exceed the buffer: it then has it to itself. */
static bool ssd_has_room(const struct model *model, const struct ssd *ssd, u64 bytes)
{
	return !ssd->buffered || ssd->buffered + bytes <= model->profile.cache_kib << 10;
}

static void ssd_admit(struct model *model, struct model_cmd *cmd)
{
	struct ssd *ssd = model->drive;

	ssd->admitted += cmd->mark;
	ssd->buffered += cmd->mark;
	ssd->pending += cmd->mark;
	if (cmd->fua)
		ssd_settle(model, cmd);
	else
		model_complete(model, cmd);
}

static void ssd_buffer(struct model *model, struct model_cmd *cmd)
{
	struct ssd *ssd = model->drive;

	cmd->mark = ssd_amplified(model, cmd);
	if (!list_empty(&ssd->room) || !ssd_has_room(model, ssd, cmd->mark)) {
		list_add_tail(&cmd->node, &ssd->room);
		return;
	}
	ssd_admit(model, cmd);
	ssd_destage(model);
}

/* Data has left the buffer: let others in, and end those that waited for it. */
static void ssd_drained(struct model *model)
{
	struct ssd *ssd = model->drive;
	struct model_cmd *cmd, *next;

	list_for_each_entry_safe(cmd, next, &ssd->room, node) {
		if (!ssd_has_room(model, ssd, cmd->mark))
			break;
		list_del_init(&cmd->node);
		ssd_admit(model, cmd);
	}
	list_for_each_entry_safe(cmd, next, &ssd->drain, node) {
		if (ssd->drained < cmd->mark)
			break;
		list_del_init(&cmd->node);
		ssd_flushed(model, cmd);
	}
}

static void ssd_tick(struct model *model)
{
	struct ssd *ssd = model->drive;
	unsigned int i;

	if (ssd->next_program > model->now)
		return;
	ssd->next_program = MODEL_NEVER;
	for (i = 0; i < ssd->dies; i++) {
		struct ssd_die *die = &ssd->die[i];

		if (!die->program_end)
			continue;
		if (die->program_end > model->now) {
			ssd->next_program = min(ssd->next_program, die->program_end);
			continue;
		}
		die->program_end = 0;
		ssd->buffered -= die->bytes;
		ssd->drained += die->bytes;
	}
	ssd_drained(model);
	ssd_destage(model);
}

static u64 ssd_next(const struct model *model)
{
	const struct ssd *ssd = model->drive;

	return ssd->next_program;
}

/* A program that ends completes a command only if one waits for the buffer. */
static u64 ssd_completes(const struct model *model)
{
	const struct ssd *ssd = model->drive;

	if (list_empty(&ssd->room) && list_empty(&ssd->drain))
		return MODEL_NEVER;
	return ssd->next_program;
}

static u64 ssd_soonest(const struct model *model, const struct model_cmd *cmd)
{
	return cmd->stage == SSD_LINK ? model_link_end(model, cmd, cmd->due) : cmd->due;
}

static void ssd_start(struct model *model, struct model_cmd *cmd)
{
	const struct profile *p = &model->profile;
	u64 now = model->now;

	switch (cmd->op) {
	case MODEL_READ:
		now = ssd_read_pages(model, cmd, now + p->read_latency_ns);
		model_schedule(model, cmd, now, SSD_LINK);
		break;
	case MODEL_WRITE:
		model_schedule(model, cmd, now + p->write_latency_ns, SSD_LINK);
		break;
	case MODEL_FLUSH:
		ssd_settle(model, cmd);
		break;
	case MODEL_DISCARD:
		model_schedule(model, cmd, now + p->discard_ns, SSD_DONE);
		break;
	case MODEL_ZEROES:
		model_schedule(model, cmd, now + p->zeroes_ns, SSD_DONE);
		break;
	}
}

static void ssd_expire(struct model *model, struct model_cmd *cmd)
{
	switch (cmd->stage) {
	case SSD_LINK:
		model_schedule(model, cmd, model_link(model, cmd),
			       cmd->op == MODEL_READ ? SSD_DONE : SSD_BUFFER);
		break;
	case SSD_BUFFER:
		ssd_buffer(model, cmd);
		break;
	case SSD_DONE:
		model_complete(model, cmd);
		break;
	}
}

static void ssd_reset(struct model *model, struct list_head *orphans)
{
	struct ssd *ssd = model->drive;

	list_splice_tail_init(&ssd->room, orphans);
	list_splice_tail_init(&ssd->drain, orphans);
}

const struct model_ops ssd_ops = {
	.init = ssd_init,
	.exit = ssd_exit,
	.start = ssd_start,
	.expire = ssd_expire,
	.next = ssd_next,
	.completes = ssd_completes,
	.soonest = ssd_soonest,
	.tick = ssd_tick,
	.reset = ssd_reset,
};

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The block driver: requests become commands of a model, a high resolution
 * timer follows the model's events, completions go back to the block layer.
 *
 * Content is read and changed when the drive has completed a command.  So a command that fails,
 * hangs or is under way when the power goes changes nothing.  A command belongs to the model, to
 * the list of hung ones, or to the context that took it from there under the disk's lock and ends
 * its request.
 */
#define pr_fmt(fmt) "simdisk: " fmt

#include <linux/ioprio.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include "../compat/blkdev.h"
#include "disk.h"

/* As libata: 1280 KiB a command by default, AHCI's 168 pieces of memory. */
#define DISK_MAX_SECTORS 2560
#define DISK_MAX_SEGMENTS 168

/* The longest discard or write zeroes in sectors: 1 GiB. */
#define DISK_MAX_RANGE (SZ_1G / SECTOR_SIZE)

/*
 * A write that finds no memory for its content goes to the drive again after so many ms.  After so
 * many tries it ends with -ENOMEM.
 */
#define DISK_MEMORY_WAIT_MS 10
#define DISK_MEMORY_TRIES 100

/*
 * Events within this time of now, in ns, are taken together, as a drive's interrupts are.  The
 * guest's CPU needs some microseconds for each, and the timer code complains when events overtake
 * it.
 */
#define DISK_GAP_NS 5000

/* Where a command is; changed under the disk's lock. */
enum disk_cmd_state { DISK_CMD_DONE, DISK_CMD_IN_MODEL, DISK_CMD_HUNG };

/**
 * struct disk_cmd - the driver's part of a request
 * @cmd: the model's
 * @state: enum disk_cmd_state
 * @status: to end the request with
 * @tries: that found no memory for the content
 */
struct disk_cmd {
	struct model_cmd cmd;
	enum disk_cmd_state state;
	blk_status_t status;
	unsigned int tries;
};

static struct disk_cmd *disk_cmd_of(struct model_cmd *cmd)
{
	return container_of(cmd, struct disk_cmd, cmd);
}

static u64 disk_now(const struct disk *disk)
{
	return ktime_get_ns() - disk->epoch;
}

static enum model_op disk_op(const struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_WRITE:
		return MODEL_WRITE;
	case REQ_OP_FLUSH:
		return MODEL_FLUSH;
	case REQ_OP_DISCARD:
		return MODEL_DISCARD;
	case REQ_OP_WRITE_ZEROES:
		return MODEL_ZEROES;
	default:
		return MODEL_READ;
	}
}

/*
 * The queue of an I/O priority.  A process without one was given one by its nice value, so only
 * requests such as flushes have none.
 */
static enum arbiter_level disk_level(unsigned short ioprio)
{
	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT:
		return ARBITER_URGENT;
	case IOPRIO_CLASS_IDLE:
		return ARBITER_LOW;
	case IOPRIO_CLASS_BE:
		return IOPRIO_PRIO_LEVEL(ioprio) < IOPRIO_BE_NORM ? ARBITER_HIGH : ARBITER_MEDIUM;
	default:
		return ARBITER_MEDIUM;
	}
}

static void disk_fill(struct disk_cmd *dc, struct blk_mq_hw_ctx *hctx, struct request *rq)
{
	dc->cmd.op = disk_op(rq);
	dc->cmd.lba = blk_rq_pos(rq);
	dc->cmd.sectors = blk_rq_sectors(rq);
	dc->cmd.group = hctx->queue_num;
	dc->cmd.fua = rq->cmd_flags & REQ_FUA;
	dc->status = BLK_STS_OK;
	INIT_LIST_HEAD(&dc->cmd.node);
}

static int disk_write_content(struct disk *disk, struct request *rq)
{
	u64 at = (u64)blk_rq_pos(rq) << SECTOR_SHIFT;
	struct req_iterator iter;
	struct bio_vec bvec;

	rq_for_each_segment(bvec, rq, iter) {
		void *from = bvec_kmap_local(&bvec);
		int error = store_write(&disk->store, at, from, bvec.bv_len);

		kunmap_local(from);
		if (error)
			return error;
		at += bvec.bv_len;
	}
	return 0;
}

static int disk_read_content(struct disk *disk, struct request *rq)
{
	u64 at = (u64)blk_rq_pos(rq) << SECTOR_SHIFT;
	struct req_iterator iter;
	struct bio_vec bvec;

	rq_for_each_segment(bvec, rq, iter) {
		void *to = bvec_kmap_local(&bvec);

		store_read(&disk->store, at, to, bvec.bv_len);
		kunmap_local(to);
		at += bvec.bv_len;
	}
	return 0;
}

/* Do to the content what a command says. 0 or -ENOMEM. */
static int disk_transfer(struct disk *disk, struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
		return disk_read_content(disk, rq);
	case REQ_OP_WRITE:
		return disk_write_content(disk, rq);
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		store_zero(&disk->store, (u64)blk_rq_pos(rq) << SECTOR_SHIFT, blk_rq_bytes(rq));
		return 0;
	default:
		return 0;
	}
}

/* Take back what the drive has completed, and set the timer to its next event. */
static void disk_run(struct disk *disk, struct list_head *done)
{
	struct model_cmd *cmd;
	u64 next;

	lockdep_assert_held(&disk->lock);
	model_advance(&disk->model, disk_now(disk), done);
	list_for_each_entry(cmd, done, node) {
		disk_cmd_of(cmd)->state = DISK_CMD_DONE;
		disk->stats.inflight--;
	}
	next = model_next(&disk->model);
	if (next == disk->armed)
		return;
	disk->armed = next;
	if (next == MODEL_NEVER)
		return;
	next = max(next, disk_now(disk) + DISK_GAP_NS);
	hrtimer_start(&disk->timer, ns_to_ktime(disk->epoch + next), HRTIMER_MODE_ABS);
}

/* End the requests of commands that only the caller still has. */
static void disk_end(struct list_head *done)
{
	struct model_cmd *cmd, *next;

	list_for_each_entry_safe(cmd, next, done, node) {
		list_del_init(&cmd->node);
		blk_mq_complete_request(blk_mq_rq_from_pdu(disk_cmd_of(cmd)));
	}
}

static enum hrtimer_restart disk_timer(struct hrtimer *timer)
{
	struct disk *disk = container_of(timer, struct disk, timer);
	unsigned long flags;
	LIST_HEAD(done);

	spin_lock_irqsave(&disk->lock, flags);
	disk->armed = MODEL_NEVER;
	if (disk->powered)
		disk_run(disk, &done);
	spin_unlock_irqrestore(&disk->lock, flags);
	disk_end(&done);
	return HRTIMER_NORESTART;
}

static bool disk_due(u64 count, u32 every)
{
	u32 rest;

	if (!every)
		return false;
	div_u64_rem(count, every, &rest);
	return !rest;
}

static void disk_count(struct disk *disk, const struct disk_cmd *dc)
{
	disk->stats.started[dc->cmd.op]++;
	disk->stats.fua += dc->cmd.op == MODEL_WRITE && dc->cmd.fua;
	disk->stats.inflight++;
}

static u64 disk_started(const struct disk *disk)
{
	u64 sum = 0;
	unsigned int i;

	for (i = 0; i < DISK_OPS; i++)
		sum += disk->stats.started[i];
	return sum;
}

/* Hand a command to the drive, or to the faults that the user asked for. */
static void disk_submit(struct disk *disk, struct disk_cmd *dc)
{
	u64 count;

	lockdep_assert_held(&disk->lock);
	disk_count(disk, dc);
	dc->cmd.level = ARBITER_MEDIUM;
	if (disk->weighted)
		dc->cmd.level = disk_level(req_get_ioprio(blk_mq_rq_from_pdu(dc)));
	count = disk_started(disk);
	if (disk_due(count, READ_ONCE(disk->hang_every))) {
		dc->state = DISK_CMD_HUNG;
		list_add_tail(&dc->cmd.node, &disk->hung);
		disk->stats.hung++;
		return;
	}
	if (disk_due(count, READ_ONCE(disk->fail_every))) {
		dc->status = BLK_STS_IOERR;
		disk->stats.failed++;
	}
	dc->state = DISK_CMD_IN_MODEL;
	model_submit(&disk->model, &dc->cmd, disk_now(disk));
}

/* Called by the block layer, interrupts on, from any context that can't sleep. */
static blk_status_t disk_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct disk *disk = hctx->queue->queuedata;
	struct disk_cmd *dc = blk_mq_rq_to_pdu(bd->rq);
	unsigned long flags;
	bool powered;
	LIST_HEAD(done);

	disk_fill(dc, hctx, bd->rq);
	blk_mq_start_request(bd->rq);
	spin_lock_irqsave(&disk->lock, flags);
	powered = disk->powered;
	if (powered) {
		disk_submit(disk, dc);
		disk_run(disk, &done);
	}
	spin_unlock_irqrestore(&disk->lock, flags);
	disk_end(&done);
	return powered ? BLK_STS_OK : BLK_STS_IOERR;
}

/* Called by the block layer in softirq context for each completed request. */
static void disk_complete_rq(struct request *rq)
{
	struct disk *disk = rq->q->queuedata;
	struct disk_cmd *dc = blk_mq_rq_to_pdu(rq);

	if (disk->keeps_data && !dc->status && disk_transfer(disk, rq)) {
		if (++dc->tries < DISK_MEMORY_TRIES) {
			blk_mq_requeue_request(rq, false);
			blk_mq_delay_kick_requeue_list(rq->q, DISK_MEMORY_WAIT_MS);
			return;
		}
		dc->status = BLK_STS_RESOURCE;
	}
	dc->tries = 0;
	blk_mq_end_request(rq, dc->status);
}

/*
 * Called when a request took longer than queue/io_timeout. One that hangs is
 * aborted. The model will complete the others, however slow it is.
 */
static enum blk_eh_timer_return disk_timeout(struct request *rq)
{
	struct disk *disk = rq->q->queuedata;
	struct disk_cmd *dc = blk_mq_rq_to_pdu(rq);
	enum disk_cmd_state state;
	unsigned long flags;

	spin_lock_irqsave(&disk->lock, flags);
	state = dc->state;
	if (state == DISK_CMD_HUNG) {
		list_del_init(&dc->cmd.node);
		dc->state = DISK_CMD_DONE;
		dc->status = BLK_STS_TIMEOUT;
		disk->stats.inflight--;
	}
	spin_unlock_irqrestore(&disk->lock, flags);
	if (state == DISK_CMD_IN_MODEL)
		return BLK_EH_RESET_TIMER;
	if (state == DISK_CMD_HUNG) {
		pr_warn("%s: command at sector %llu timed out\n", disk->name, dc->cmd.lba);
		blk_mq_complete_request(rq);
	}
	return BLK_EH_DONE;
}

static const struct blk_mq_ops disk_mq_ops = {
	.queue_rq = disk_queue_rq,
	.complete = disk_complete_rq,
	.timeout = disk_timeout,
};

static const struct block_device_operations disk_fops = {
	.owner = THIS_MODULE,
};

/**
 * disk_init() - a disk without power and content
 * @disk: the disk, zeroed
 * @name: outlives the disk
 */
void disk_init(struct disk *disk, const char *name)
{
	disk->name = name;
	disk->profile = *profile_find("ssd");
	disk->keeps_data = true;
	spin_lock_init(&disk->lock);
	INIT_LIST_HEAD(&disk->hung);
	store_init(&disk->store);
	sluice_hrtimer_setup(&disk->timer, disk_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}

/**
 * disk_exit() - free the content
 * @disk: the disk, without power
 */
void disk_exit(struct disk *disk)
{
	store_free(&disk->store);
}

static int disk_init_tags(struct disk *disk)
{
	memset(&disk->tags, 0, sizeof(disk->tags));
	disk->tags.ops = &disk_mq_ops;
	disk->tags.nr_hw_queues = disk->profile.queues;
	disk->tags.queue_depth = disk->profile.queue_depth;
	disk->tags.numa_node = NUMA_NO_NODE;
	disk->tags.cmd_size = sizeof(struct disk_cmd);
	disk->tags.flags = BLK_MQ_F_SHOULD_MERGE;
	return blk_mq_alloc_tag_set(&disk->tags);
}

static struct gendisk *disk_alloc_gendisk(struct disk *disk)
{
	const struct profile *p = &disk->profile;
	struct sluice_limits limits = {
		.max_sectors = DISK_MAX_SECTORS,
		.max_segments = DISK_MAX_SEGMENTS,
		.max_discard = p->discard_ns ? DISK_MAX_RANGE : 0,
		.max_zeroes = p->zeroes_ns ? DISK_MAX_RANGE : 0,
		.write_cache = p->cache_kib && !p->protected_cache,
		.fua = p->fua,
		.rotational = p->kind == PROFILE_HDD,
	};
	struct gendisk *gendisk = sluice_alloc_disk(&disk->tags, &limits, disk);

	if (IS_ERR(gendisk))
		return gendisk;
	gendisk->fops = &disk_fops;
	gendisk->private_data = disk;
	snprintf(gendisk->disk_name, DISK_NAME_LEN, "simdisk-%s", disk->name);
	set_capacity(gendisk, p->sectors);
	return gendisk;
}

static int disk_add(struct disk *disk)
{
	struct gendisk *gendisk = disk_alloc_gendisk(disk);
	int error;

	if (IS_ERR(gendisk))
		return PTR_ERR(gendisk);
	disk->powered = true;
	error = add_disk(gendisk);
	if (error) {
		disk->powered = false;
		put_disk(gendisk);
		return error;
	}
	disk->gendisk = gendisk;
	return 0;
}

/**
 * disk_power_on() - bring up the drive and its block device
 * @disk: the disk, without power
 *
 * Context: may sleep.
 * Return: 0, or a negative error; the power is off then.
 */
int disk_power_on(struct disk *disk)
{
	int error = model_init(&disk->model, &disk->profile);

	if (error)
		return error;
	memset(&disk->stats, 0, sizeof(disk->stats));
	model_arbitrate(&disk->model, disk->weighted, disk->feature, 0);
	disk->armed = MODEL_NEVER;
	disk->epoch = ktime_get_ns();
	error = disk_init_tags(disk);
	if (error)
		goto exit_model;
	error = disk_add(disk);
	if (error)
		goto free_tags;
	return 0;

free_tags:
	hrtimer_cancel(&disk->timer);
	blk_mq_free_tag_set(&disk->tags);
exit_model:
	model_exit(&disk->model);
	return error;
}

/* From here on the drive answers nothing. What it held ends with an I/O error. */
static void disk_cut_power(struct disk *disk)
{
	struct model_cmd *cmd;
	unsigned long flags;
	LIST_HEAD(orphans);

	spin_lock_irqsave(&disk->lock, flags);
	disk->powered = false;
	model_reset(&disk->model, &orphans);
	list_splice_tail_init(&disk->hung, &orphans);
	list_for_each_entry(cmd, &orphans, node) {
		disk_cmd_of(cmd)->state = DISK_CMD_DONE;
		disk_cmd_of(cmd)->status = BLK_STS_IOERR;
		disk->stats.inflight--;
	}
	WARN_ON(disk->stats.inflight);
	spin_unlock_irqrestore(&disk->lock, flags);
	hrtimer_cancel(&disk->timer);
	disk_end(&orphans);
}

/**
 * disk_power_off() - remove the drive by surprise, whatever it is doing
 * @disk: the disk, with power
 *
 * Requests under way and to come end with an I/O error.
 *
 * Context: may sleep.
 */
void disk_power_off(struct disk *disk)
{
	disk_cut_power(disk);
	blk_mark_disk_dead(disk->gendisk);
	del_gendisk(disk->gendisk);
	put_disk(disk->gendisk);
	disk->gendisk = NULL;
	blk_mq_free_tag_set(&disk->tags);
	model_exit(&disk->model);
}

/**
 * disk_arbitrate() - choose how the controller fetches commands
 * @disk: the disk, with power or without
 * @weighted: by weights of I/O priorities, else in turn
 * @feature: as arbiter_feature() makes it
 */
void disk_arbitrate(struct disk *disk, bool weighted, u32 feature)
{
	unsigned long flags;

	spin_lock_irqsave(&disk->lock, flags);
	disk->weighted = weighted;
	disk->feature = feature;
	if (disk->powered)
		model_arbitrate(&disk->model, weighted, feature, disk_now(disk));
	spin_unlock_irqrestore(&disk->lock, flags);
}

/**
 * disk_read_stats() - copy the counters
 * @disk: the disk
 * @stats: where to
 */
void disk_read_stats(struct disk *disk, struct disk_stats *stats)
{
	unsigned long flags;

	spin_lock_irqsave(&disk->lock, flags);
	*stats = disk->stats;
	spin_unlock_irqrestore(&disk->lock, flags);
}

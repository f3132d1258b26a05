/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a block driver needs to be one source on all kernels: how a disk's
 * limits are stated. With compat/timer.h the only place where a driver meets
 * differences between releases.
 */
#ifndef SLUICE_DISK_H
#define SLUICE_DISK_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>

#include "features.h"

/*
 * blk_mq_tag_set.flags of a driver whose requests may be merged: always since
 * 6.14 ("block: remove BLK_MQ_F_SHOULD_MERGE"), only when asked for before.
 */
#ifdef SLUICE_HAS_SHOULD_MERGE
#define SLUICE_MQ_F_MERGE BLK_MQ_F_SHOULD_MERGE
#else
#define SLUICE_MQ_F_MERGE 0
#endif

/**
 * struct sluice_limits - what a disk can do; 0 leaves the kernel's default
 * @logical_block_size: smallest transfer, bytes
 * @physical_block_size: smallest transfer without read-modify-write, bytes
 * @max_hw_sectors: longest transfer, units of 512 bytes
 * @max_segments: pieces of memory in one request
 * @max_segment_size: bytes in one piece
 * @discard_granularity: bytes
 * @max_discard_sectors: longest discard, units of 512 bytes; 0 for none
 * @max_write_zeroes_sectors: the same for zeroing
 * @rotational: it seeks
 * @write_cache: what it has acknowledged may be lost until a flush
 * @fua: it honours forced unit access
 */
struct sluice_limits {
	unsigned int logical_block_size;
	unsigned int physical_block_size;
	unsigned int max_hw_sectors;
	unsigned short max_segments;
	unsigned int max_segment_size;
	unsigned int discard_granularity;
	unsigned int max_discard_sectors;
	unsigned int max_write_zeroes_sectors;
	bool rotational;
	bool write_cache;
	bool fua;
};

/**
 * sluice_alloc_disk() - allocate a disk and its queue
 * @set: tag set, set up
 * @limits: copied
 * @queuedata: for queue->queuedata
 *
 * Since 6.9 the limits are given to the allocation, and since 6.11 flags such as
 * the write cache are among them ("block: move cache control settings out of
 * queue->flags"); before, each was set by its own function afterwards.
 *
 * Return: the disk, to be freed by put_disk(), or an ERR_PTR().
 */
#ifdef BLK_FEAT_WRITE_CACHE
static inline struct gendisk *sluice_alloc_disk(struct blk_mq_tag_set *set,
						const struct sluice_limits *limits,
						void *queuedata)
{
	struct queue_limits lim = {
		.logical_block_size = limits->logical_block_size,
		.physical_block_size = limits->physical_block_size,
		.max_hw_sectors = limits->max_hw_sectors,
		.max_segments = limits->max_segments,
		.max_segment_size = limits->max_segment_size,
		.discard_granularity = limits->discard_granularity,
		.max_hw_discard_sectors = limits->max_discard_sectors,
		.max_write_zeroes_sectors = limits->max_write_zeroes_sectors,
	};

	if (limits->rotational)
		lim.features |= BLK_FEAT_ROTATIONAL;
	if (limits->write_cache)
		lim.features |= BLK_FEAT_WRITE_CACHE;
	if (limits->fua)
		lim.features |= BLK_FEAT_FUA;
	return blk_mq_alloc_disk(set, &lim, queuedata);
}
#else
static inline void sluice_set_sizes(struct request_queue *q,
				    const struct sluice_limits *limits)
{
	if (limits->logical_block_size)
		blk_queue_logical_block_size(q, limits->logical_block_size);
	if (limits->physical_block_size)
		blk_queue_physical_block_size(q, limits->physical_block_size);
	if (limits->max_hw_sectors)
		blk_queue_max_hw_sectors(q, limits->max_hw_sectors);
	if (limits->max_segments)
		blk_queue_max_segments(q, limits->max_segments);
	if (limits->max_segment_size)
		blk_queue_max_segment_size(q, limits->max_segment_size);
}

static inline struct gendisk *sluice_alloc_disk(struct blk_mq_tag_set *set,
						const struct sluice_limits *limits,
						void *queuedata)
{
	struct gendisk *disk = blk_mq_alloc_disk(set, queuedata);
	struct request_queue *q;

	if (IS_ERR(disk))
		return disk;
	q = disk->queue;
	sluice_set_sizes(q, limits);
	q->limits.discard_granularity = limits->discard_granularity;
	blk_queue_max_discard_sectors(q, limits->max_discard_sectors);
	blk_queue_max_write_zeroes_sectors(q, limits->max_write_zeroes_sectors);
	blk_queue_write_cache(q, limits->write_cache, limits->fua);
	if (!limits->rotational)
		blk_queue_flag_set(QUEUE_FLAG_NONROT, q);
	return disk;
}
#endif

#endif

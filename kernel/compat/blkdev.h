/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a block driver needs and kernels do differently: how a disk's limits are
 * stated, and timers.
 */
#ifndef SLUICE_COMPAT_BLKDEV_H
#define SLUICE_COMPAT_BLKDEV_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>

#include "features.h"
#include "timer.h"

/*
 * Requests of every driver may be merged since 6.14 (cc76ace465d6 "block: remove
 * BLK_MQ_F_SHOULD_MERGE"); before, a driver asked for it in its tag set's flags.
 */
#ifndef SLUICE_HAS_SHOULD_MERGE
#define BLK_MQ_F_SHOULD_MERGE 0
#endif

/**
 * struct sluice_limits - what a disk can do
 * @max_sectors: longest read or write, in sectors of 512 bytes
 * @max_segments: most pieces of memory in one command
 * @max_discard: longest discard in sectors; 0: none
 * @max_zeroes: longest write zeroes in sectors; 0: none
 * @write_cache: has a volatile write cache
 * @fua: has forced unit access
 * @rotational: is a hard disk
 */
struct sluice_limits {
	unsigned int max_sectors;
	unsigned short max_segments;
	unsigned int max_discard;
	unsigned int max_zeroes;
	bool write_cache;
	bool fua;
	bool rotational;
};

/**
 * sluice_alloc_disk() - allocate a disk and its queue
 * @set: tag set, allocated
 * @want: what the disk can do; copied
 * @data: for queue->queuedata
 *
 * The limits are given to blk_mq_alloc_disk() since 6.9 (27e32cd23fed), the
 * features among them since 6.11 (1122c0c1cc71); before, each was set by its own
 * function afterwards.
 *
 * Return: the disk, to be freed by put_disk(), or an ERR_PTR().
 */
#ifdef BLK_FEAT_WRITE_CACHE
static inline struct gendisk *sluice_alloc_disk(struct blk_mq_tag_set *set,
						const struct sluice_limits *want, void *data)
{
	struct queue_limits limits = {
		.max_hw_sectors = want->max_sectors,
		.max_segments = want->max_segments,
		.max_hw_discard_sectors = want->max_discard,
		.max_write_zeroes_sectors = want->max_zeroes,
		.discard_granularity = want->max_discard ? SECTOR_SIZE : 0,
	};

	if (want->write_cache)
		limits.features |= BLK_FEAT_WRITE_CACHE;
	if (want->write_cache && want->fua)
		limits.features |= BLK_FEAT_FUA;
	if (want->rotational)
		limits.features |= BLK_FEAT_ROTATIONAL;
	return blk_mq_alloc_disk(set, &limits, data);
}
#else
static inline struct gendisk *sluice_alloc_disk(struct blk_mq_tag_set *set,
						const struct sluice_limits *want, void *data)
{
	struct gendisk *disk = blk_mq_alloc_disk(set, data);

	if (IS_ERR(disk))
		return disk;
	blk_queue_max_hw_sectors(disk->queue, want->max_sectors);
	blk_queue_max_segments(disk->queue, want->max_segments);
	blk_queue_max_discard_sectors(disk->queue, want->max_discard);
	blk_queue_max_write_zeroes_sectors(disk->queue, want->max_zeroes);
	disk->queue->limits.discard_granularity = want->max_discard ? SECTOR_SIZE : 0;
	blk_queue_write_cache(disk->queue, want->write_cache, want->write_cache && want->fua);
	if (!want->rotational)
		blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
	return disk;
}
#endif

#endif

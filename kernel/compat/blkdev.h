/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a block driver needs and kernels do differently.
 *
 * sluice_alloc_disk(): limits and features of a queue are one structure given
 * to blk_mq_alloc_disk() since 6.9 and 6.11 (27e32cd23fed, 1122c0c1cc71);
 * before, they are set one by one. Probed by BLK_FEAT_WRITE_CACHE, which came
 * last.
 *
 * sluice_hrtimer_init(): hrtimer_setup() came with 6.13 (908a1d775422)
 * and hrtimer_init() went with 6.16. It is a function, so that only the
 * version tells.
 */
#ifndef SLUICE_COMPAT_BLKDEV_H
#define SLUICE_COMPAT_BLKDEV_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hrtimer.h>
#include <linux/version.h>

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

static inline void sluice_hrtimer_init(struct hrtimer *timer,
				       enum hrtimer_restart (*fn)(struct hrtimer *),
				       clockid_t clock, enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, fn, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = fn;
#endif
}

#endif

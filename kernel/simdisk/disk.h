/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIMDISK_DISK_H
#define SIMDISK_DISK_H

#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include "model.h"
#include "store.h"

#define DISK_OPS (MODEL_ZEROES + 1)

/**
 * struct disk_stats - what the drive has seen since power-up
 * @started: commands, by enum model_op
 * @fua: writes with forced unit access among them
 * @failed: made to fail by fail_every
 * @hung: swallowed by hang_every
 * @inflight: given to the drive and not completed
 */
struct disk_stats {
	u64 started[DISK_OPS];
	u64 fua;
	u64 failed;
	u64 hung;
	u64 inflight;
};

/**
 * struct disk - a simulated drive and its block device
 *
 * Set by the owner while the power is off, constant while it is on:
 *
 * @name: the block device is simdisk-NAME
 * @profile: parameters of the drive
 * @keeps_data: what is written can be read; otherwise reads leave the
 *	buffer as it is
 *
 * Set by the owner at any time:
 *
 * @fail_every: every so many commands one ends with an I/O error; 0: none
 * @hang_every: every so many commands one never completes; 0: none
 *
 * Changed by disk_arbitrate(), under @lock:
 *
 * @weighted: the controller fetches by weights, from four queues a CPU; else in turn, from one
 * @feature: the weights, as arbiter_feature() makes it
 *
 * The owner serialises disk_power_on() and disk_power_off():
 *
 * @gendisk: the block device, or NULL when the power is off
 * @tags: its tag set
 * @store: content, outlives the power
 *
 * Guarded by @lock:
 *
 * @powered: commands are accepted
 * @model: the drive
 * @timer: fires at the model's next event
 * @armed: that event's time, or MODEL_NEVER
 * @epoch: time of power-up on the guest's monotonic clock, ns
 * @hung: commands that hang_every swallowed
 * @stats: counters
 */
struct disk {
	const char *name;
	struct profile profile;
	bool keeps_data;
	u32 fail_every;
	u32 hang_every;
	bool weighted;
	u32 feature;

	struct gendisk *gendisk;
	struct blk_mq_tag_set tags;
	struct store store;

	spinlock_t lock; /* the model and all that belongs to a command */
	bool powered;
	struct model model;
	struct hrtimer timer;
	u64 armed;
	u64 epoch;
	struct list_head hung;
	struct disk_stats stats;
};

void disk_init(struct disk *disk, const char *name);
void disk_exit(struct disk *disk);
int disk_power_on(struct disk *disk);
void disk_power_off(struct disk *disk);
void disk_arbitrate(struct disk *disk, bool weighted, u32 feature);
void disk_read_stats(struct disk *disk, struct disk_stats *stats);

#endif

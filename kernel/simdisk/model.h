/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A simulated drive, event by event, on a clock that the caller moves.
 *
 * The caller submits commands, asks when the next may be complete, and
 * advances the drive to a time, which hands back the commands completed by
 * then. What happens inside meanwhile is caught up with, in its order: events
 * that complete nothing cost the caller no interrupt. Nothing here allocates
 * or waits after model_init(), so that all of it may run with interrupts off.
 * The caller serialises all calls on a model.
 *
 * Times given and returned are nanoseconds since model_init(). Inside, a
 * drive lives on its own clock, slowed by the profile's slowdown.
 */
#ifndef SIMDISK_MODEL_H
#define SIMDISK_MODEL_H

#include "arbiter.h"
#include "profile.h"
#include "shim.h"

#define SECTOR_BYTES 512

/* The time of an event that will not come by itself. */
#define MODEL_NEVER U64_MAX

enum model_op {
	MODEL_READ,
	MODEL_WRITE,
	MODEL_FLUSH,
	MODEL_DISCARD,
	MODEL_ZEROES,
};

/**
 * struct model_cmd - one command, in memory of the caller
 * @lba: first sector
 * @sectors: length; 0 for a FLUSH
 * @group: submission queues of a CPU, below the profile's queues
 * @level: which of them, enum arbiter_level
 * @op: enum model_op
 * @fua: a write is complete only when it is on the medium
 *
 * The rest belongs to the model from model_submit() to completion:
 *
 * @stage: what ends at @due, private to the kind of drive
 * @node: on one list of the model, or on the caller's list of completions
 * @due: end of the stage, on the drive's clock
 * @arrived: when the drive fetched it, on the drive's clock
 * @mark: private to the kind of drive
 */
struct model_cmd {
	u64 lba;
	u32 sectors;
	u16 group;
	u8 level;
	u8 op;
	bool fua;

	u8 stage;
	struct list_head node;
	u64 due;
	u64 arrived;
	u64 mark;
};

struct model;

/**
 * struct model_ops - what a kind of drive provides
 * @init: allocates @model->drive; 0 or -ENOMEM
 * @exit: frees it
 * @start: the controller has fetched @cmd at @model->now; the drive now
 *	schedules it, keeps it on a list of its own, or completes it
 * @expire: the stage of @cmd has ended at @model->now
 * @next: time of the drive's own next event, or MODEL_NEVER
 * @completes: the same, but of one that may complete a command
 * @soonest: no earlier than this can @cmd, in a stage, be complete
 * @tick: do the drive's own events due at @model->now, so that @next moves on
 * @reset: move every command on a list of the drive's own to @orphans
 */
struct model_ops {
	int (*init)(struct model *model);
	void (*exit)(struct model *model);
	void (*start)(struct model *model, struct model_cmd *cmd);
	void (*expire)(struct model *model, struct model_cmd *cmd);
	u64 (*next)(const struct model *model);
	u64 (*completes)(const struct model *model);
	u64 (*soonest)(const struct model *model, const struct model_cmd *cmd);
	void (*tick)(struct model *model);
	void (*reset)(struct model *model, struct list_head *orphans);
};

extern const struct model_ops hdd_ops;
extern const struct model_ops ssd_ops;

/**
 * struct model - one drive
 * @profile: its parameters
 * @ops: its kind
 * @drive: the kind's own state
 * @queue: commands not fetched yet, in order of arrival, by group and level
 * @arbiter: which of them the next one is fetched from
 * @timed: fetched commands with an end of stage, earliest first
 * @done: completed, not yet handed to the caller
 * @alone: FLUSH or discard that waits to run alone, or does
 * @inside: commands fetched and not completed
 * @now: the drive's clock
 * @fetch_at: when the controller can fetch again
 * @shortest_ns: no command is complete sooner after it was fetched
 * @link_free: when the link is free, by direction (0 to the host)
 */
struct model {
	struct profile profile;
	const struct model_ops *ops;
	void *drive;
	struct list_head queue[PROFILE_QUEUES][ARBITER_LEVELS];
	struct arbiter arbiter;
	struct list_head timed;
	struct list_head done;
	struct model_cmd *alone;
	unsigned int inside;
	u64 now;
	u64 fetch_at;
	u64 shortest_ns;
	u64 link_free[2];
};

int model_init(struct model *model, const struct profile *profile);
void model_exit(struct model *model);
void model_arbitrate(struct model *model, bool weighted, u32 feature, u64 now);
void model_submit(struct model *model, struct model_cmd *cmd, u64 now);
u64 model_next(const struct model *model);
void model_advance(struct model *model, u64 now, struct list_head *done);
void model_reset(struct model *model, struct list_head *orphans);

/* For the kinds of drives. */
void model_schedule(struct model *model, struct model_cmd *cmd, u64 due, u8 stage);
void model_complete(struct model *model, struct model_cmd *cmd);
u64 model_link_end(const struct model *model, const struct model_cmd *cmd, u64 from);
u64 model_link(struct model *model, const struct model_cmd *cmd);
u32 model_hash(u64 value);

/**
 * model_transfer_ns() - time of a transfer
 * @bytes: how much
 * @mbps: rate in 10^6 bytes per second
 *
 * Return: nanoseconds.
 */
static inline u64 model_transfer_ns(u64 bytes, u64 mbps)
{
	return div64_u64(bytes * 1000, mbps);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stacks: disks of device-mapper and md above devices with a policy.  See stack.c.
 *
 * Code that concerns a file system, or a disk that may be either, goes through the devices below
 * it, by split_first() and split_next().  A disk with a policy of its own has itself alone.
 */
#ifndef SPLIT_STACK_H
#define SPLIT_STACK_H

#include "device.h"
#include "hook.h"

/* Stacks at a time; others have no causes. */
#define SPLIT_STACK_BITS 6
#define SPLIT_STACKS BIT(SPLIT_STACK_BITS)

/* Devices of a stack; further ones are as without a stack above. */
#define SPLIT_STACK_DEVICES 8U

/* What a device gets of all that is written, in 256ths. */
#define SPLIT_WHOLE 256U

/* Of more than so many bytes a ticket doesn't say that they are expected. */
#define SPLIT_TICKET_MOST (8U << 20)

extern unsigned int split_stack_count;

struct split_device *split_stack_next(struct block_device *bdev, unsigned int *at);

/* A place that no stack has: the disk itself has a policy. */
#define SPLIT_PLAIN UINT_MAX

/*
 * The first device below a disk; NULL: none has a policy.  @at: for split_next().
 * Under RCU, or with preemption off.
 */
static __always_inline struct split_device *split_first(struct block_device *bdev, unsigned int *at)
{
	struct split_device *device = split_find(bdev_get_queue(bdev));

	*at = SPLIT_PLAIN;
	if (likely(device) || likely(!READ_ONCE(split_stack_count)))
		return device;
	*at = 0;
	return split_stack_next(bdev, at);
}

static __always_inline struct split_device *split_next(struct block_device *bdev, unsigned int *at)
{
	return likely(*at == SPLIT_PLAIN) ? NULL : split_stack_next(bdev, at);
}

/* Whether a file system has a device with a policy.  As split_first(). */
static __always_inline bool split_is_scheduled(const struct super_block *sb)
{
	unsigned int at;

	return sb->s_bdev && split_first(sb->s_bdev, &at);
}

void split_expect_below(struct block_device *bdev, u32 tag, u64 at, u32 bytes,
			struct cost_cursor *cursor);
void split_settle_below(struct block_device *bdev, u32 tag, u64 bytes);
void split_move_below(struct block_device *bdev, u32 from, u32 to, u64 bytes);
void split_commit_below(struct block_device *bdev, u32 own);

int split_stack_of(struct block_device *bdev);
void split_ticket_write(struct bio *bio, unsigned int stack, u32 tag, enum split_use use,
			u32 expected);
bool split_ticket_is_valid(const struct bio *bio);
bool split_ticket_tag_of(const struct bio *bio, enum split_use *use, u32 *tag);
bool split_ticket_is_owned(const struct bio *bio);
void split_ticket_return(struct bio *bio);
void split_ticket_take(struct split_device *device, struct bio *bio);
void split_stack_forget(const struct split_device *device);
void split_stacks_off(void);
void split_stacks_show(struct seq_file *m);

extern struct split_hook split_stack_hooks[];
extern struct split_probe split_stack_probes[];

#endif

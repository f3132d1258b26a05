// SPDX-License-Identifier: GPL-2.0-only
/*
 * Causes through disks of device-mapper and md, down to devices with a policy.
 *
 * A disk without requests makes other bios of each bio that it is given, for the disks below it,
 * often in a thread of its own, and often with other pages.  So the causes of a bio are found
 * where it is queued on the uppermost disk, as those of a request are on a disk without a stack.
 * They are written on the bio, as a ticket.  A bio that is made of another one has its ticket
 * too.  Where the lowest bios become a request the tickets tell its causes, and what it does: by
 * then it may have lost the flags that tell a log's write.
 *
 * The uppermost bio owns its ticket, and a reference to the tag.  It also knows how many bytes
 * were expected of it.  When it is done they are settled, and the reference is dropped.  Until
 * then the policy below has heard of all that is on its way through the stack, however much that
 * is.  What md hands on unchanged is done where it becomes a request.  A bio with data of several
 * causes is settled where it is queued.
 *
 * The other bios have a copy of the ticket, which is void once the tag has gone, or after
 * SPLIT_ALOFT_S: its bio's causes aren't known then.  So nothing is allocated.  The references of
 * owners are counted by tag, and dropped with the hooks.
 *
 * Which devices are below a disk is learned from where its tickets arrive, and forgotten when the
 * link between two disks goes.  Each device expects its usual part of what is dirty.
 *
 * A ticket lies in bi_iocost_cost, which iocost alone uses, on disks where it is enabled.
 */
#include "stack.h"

#include <linux/bio.h>
#include <linux/seq_file.h>

#ifndef CONFIG_BLK_CGROUP_IOCOST
#error "split: bios have no room for their causes on a kernel without CONFIG_BLK_CGROUP_IOCOST"
#endif

/* How long a copy of a ticket is valid, seconds. */
#define SPLIT_ALOFT_S 30U

/* The fields of a ticket, from the lowest bit on. */
#define TICKET_USE_SHIFT CAUSES_TAG_BITS
#define TICKET_USE_MASK 3U
#define TICKET_VALID BIT_ULL(30)
#define TICKET_OWNER BIT_ULL(31)
#define TICKET_PAGES_SHIFT 32
#define TICKET_PAGES_MASK (BIT(12) - 1)
#define TICKET_STACK_SHIFT 44
#define TICKET_LIFE_SHIFT 50
#define TICKET_LIFE_MASK 3U
#define TICKET_STAMP_SHIFT 52
#define TICKET_STAMP_MASK (BIT(12) - 1)

static_assert(SPLIT_USES - 1 <= TICKET_USE_MASK && CAUSES_TAG_BITS + 2 <= 30);
static_assert(TICKET_STACK_SHIFT + SPLIT_STACK_BITS <= TICKET_LIFE_SHIFT);

/* The devices' parts are learned anew each time that so much was written, bytes. */
#define SPLIT_SHARE_BYTES (8ULL << 20)

/**
 * struct split_stack - a disk without requests, and the devices below it
 * @disk: the disk; only ever compared
 * @diskseq: its number, since another disk may get its address
 * @life: how many disks have had this place, to tell a former one's tickets
 * @done: bytes that were written, since the parts were learned
 * @device: below it
 * @landed: bytes of them that it was given
 * @share: its part, in 256ths
 */
struct split_stack {
	const struct gendisk *disk;
	u64 diskseq;
	u32 life;
	atomic64_t done;
	struct split_device __rcu *device[SPLIT_STACK_DEVICES];
	atomic64_t landed[SPLIT_STACK_DEVICES];
	u32 share[SPLIT_STACK_DEVICES];
};

static struct split_stack split_stacks[SPLIT_STACKS];
static DEFINE_SPINLOCK(split_stacks_lock); /* guards changes of split_stacks, but the sums */
unsigned int split_stack_count __read_mostly;

/* Number of owners with a reference to a tag, by the tag's place. */
static atomic_t split_owners[CAUSES_PLACES];

static u32 split_stamp(void)
{
	return jiffies / HZ & TICKET_STAMP_MASK;
}

static u32 split_age(u32 stamp)
{
	return (split_stamp() - stamp) & TICKET_STAMP_MASK;
}

/* Stacks */

static bool split_is_of(const struct split_stack *stack, const struct gendisk *disk)
{
	return READ_ONCE(stack->disk) == disk && READ_ONCE(stack->diskseq) == disk->diskseq;
}

/* The number of a disk's stack; SPLIT_STACKS: it has none. */
static unsigned int split_stack_find(const struct gendisk *disk)
{
	unsigned int i, count = READ_ONCE(split_stack_count);

	for (i = 0; i < count; i++)
		if (split_is_of(&split_stacks[i], disk))
			return i;
	return SPLIT_STACKS;
}

static struct split_device *split_stack_device(const struct split_stack *stack, unsigned int i)
{
	return rcu_dereference_check(stack->device[i], rcu_read_lock_any_held() ||
							       lockdep_is_held(&split_stacks_lock));
}

/* The next device below a disk, from the place @at on; see split_next(). */
struct split_device *split_stack_next(struct block_device *bdev, unsigned int *at)
{
	unsigned int i = *at ? *at - 1 : split_stack_find(bdev->bd_disk) * SPLIT_STACK_DEVICES;
	struct split_device *device = NULL;

	if (i == SPLIT_STACKS * SPLIT_STACK_DEVICES)
		return NULL;
	do {
		device = split_stack_device(&split_stacks[i / SPLIT_STACK_DEVICES],
					    i % SPLIT_STACK_DEVICES);
		i++;
	} while (!device && i % SPLIT_STACK_DEVICES);
	*at = i % SPLIT_STACK_DEVICES ? i + 1 : SPLIT_PLAIN;
	return device;
}

static bool split_stack_is_empty(const struct split_stack *stack)
{
	unsigned int i;

	lockdep_assert_held(&split_stacks_lock);
	for (i = 0; i < SPLIT_STACK_DEVICES; i++)
		if (split_stack_device(stack, i))
			return false;
	return true;
}

/* A place for a disk: its address's, a new one, or one that no device is below. */
static unsigned int split_stack_place(const struct gendisk *disk)
{
	unsigned int i, empty = SPLIT_STACKS;

	lockdep_assert_held(&split_stacks_lock);
	for (i = 0; i < split_stack_count; i++) {
		if (split_stacks[i].disk == disk)
			return i;
		if (empty == SPLIT_STACKS && split_stack_is_empty(&split_stacks[i]))
			empty = i;
	}
	return split_stack_count < SPLIT_STACKS ? split_stack_count : empty;
}

static void split_stack_begin(struct split_stack *stack, const struct gendisk *disk)
{
	unsigned int i;

	lockdep_assert_held(&split_stacks_lock);
	for (i = 0; i < SPLIT_STACK_DEVICES; i++) {
		RCU_INIT_POINTER(stack->device[i], NULL);
		atomic64_set(&stack->landed[i], 0);
	}
	atomic64_set(&stack->done, 0);
	WRITE_ONCE(stack->life, stack->life + 1);
	WRITE_ONCE(stack->diskseq, disk->diskseq);
	WRITE_ONCE(stack->disk, disk);
}

/**
 * split_stack_of() - the number of a disk's stack
 * @bdev: a disk without requests
 *
 * In any context.  Return: the number; negative if there is no place for one.
 */
int split_stack_of(struct block_device *bdev)
{
	const struct gendisk *disk = bdev->bd_disk;
	unsigned int i = split_stack_find(disk);
	unsigned long flags;

	if (likely(i < SPLIT_STACKS))
		return i;
	spin_lock_irqsave(&split_stacks_lock, flags);
	i = split_stack_place(disk);
	if (i < SPLIT_STACKS && !split_is_of(&split_stacks[i], disk))
		split_stack_begin(&split_stacks[i], disk);
	if (i < SPLIT_STACKS && i == split_stack_count)
		WRITE_ONCE(split_stack_count, i + 1);
	spin_unlock_irqrestore(&split_stacks_lock, flags);
	return i < SPLIT_STACKS ? i : -ENOSPC;
}

/* Something of a stack arrives at a device for the first time. */
static noinline void split_stack_join(struct split_stack *stack, struct split_device *device)
{
	unsigned int i, place = SPLIT_STACK_DEVICES;
	unsigned long flags;

	spin_lock_irqsave(&split_stacks_lock, flags);
	for (i = SPLIT_STACK_DEVICES; i--;) {
		if (split_stack_device(stack, i) == device)
			break;
		if (!split_stack_device(stack, i))
			place = i;
	}
	if (i == UINT_MAX && place < SPLIT_STACK_DEVICES) {
		WRITE_ONCE(stack->share[place], SPLIT_WHOLE);
		atomic64_set(&stack->landed[place], 0);
		rcu_assign_pointer(stack->device[place], device);
		WRITE_ONCE(device->below, true);
	}
	spin_unlock_irqrestore(&split_stacks_lock, flags);
}

/* Takes a device out of the stacks of a disk; NULL: any. */
static void split_stack_part(const struct gendisk *disk, const struct split_device *device)
{
	const struct split_device *below;
	struct split_stack *stack;
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&split_stacks_lock, flags);
	for (i = 0; i < split_stack_count * SPLIT_STACK_DEVICES; i++) {
		stack = &split_stacks[i / SPLIT_STACK_DEVICES];
		below = split_stack_device(stack, i % SPLIT_STACK_DEVICES);
		if (!below || (device && below != device) || (disk && stack->disk != disk))
			continue;
		RCU_INIT_POINTER(stack->device[i % SPLIT_STACK_DEVICES], NULL);
	}
	spin_unlock_irqrestore(&split_stacks_lock, flags);
}

/**
 * split_stack_forget() - a device is not to be found below any disk
 * @device: not found after a grace period
 *
 * In any context.
 */
void split_stack_forget(const struct split_device *device)
{
	split_stack_part(NULL, device);
}

/*
 * A link between two disks goes: what is dirty may be written elsewhere.  Where the upper disk
 * isn't the uppermost one it is in nobody's name, and the link goes for all.  Under RCU.
 */
static void split_stack_unlink(const struct gendisk *upper, struct split_device *device)
{
	unsigned int i;

	split_stack_part(split_stack_find(upper) < SPLIT_STACKS ? upper : NULL, device);
	if (device) {
		split_void(device);
		return;
	}
	for (i = 0; i < ARRAY_SIZE(split_devices); i++)
		hlist_for_each_entry_rcu(device, &split_devices[i], node)
			if (READ_ONCE(device->below))
				split_void(device);
}

/* Parts */

/* Enough was written to know each device's part of it. */
static noinline void split_stack_learn(struct split_stack *stack)
{
	unsigned long flags;
	unsigned int i;
	u64 done, landed;

	spin_lock_irqsave(&split_stacks_lock, flags);
	done = atomic64_xchg(&stack->done, 0);
	for (i = 0; i < SPLIT_STACK_DEVICES && done >= SPLIT_SHARE_BYTES; i++) {
		landed = atomic64_xchg(&stack->landed[i], 0);
		WRITE_ONCE(stack->share[i],
			   min_t(u64, div64_u64(landed * SPLIT_WHOLE, done), SPLIT_WHOLE));
	}
	spin_unlock_irqrestore(&split_stacks_lock, flags);
}

/* A device's part of what is written to a disk, in 256ths.  Under RCU. */
static u32 split_share_of(const struct split_device *device, struct block_device *bdev)
{
	const struct split_stack *stack;
	unsigned int i;

	if (likely(device->q == bdev_get_queue(bdev)))
		return SPLIT_WHOLE;
	i = split_stack_find(bdev->bd_disk);
	stack = &split_stacks[i % SPLIT_STACKS];
	for (i = 0; i < SPLIT_STACK_DEVICES; i++)
		if (split_stack_device(stack, i) == device)
			return READ_ONCE(stack->share[i]);
	return SPLIT_WHOLE;
}

/**
 * split_expect_below() - data of a tag became dirty, and will be written to a disk
 * @bdev: the disk
 * @tag: held
 * @at: where in its file it begins, bytes
 * @bytes: how much
 * @cursor: where the file's last dirty data ended; becomes where this ends
 *
 * In any context, under RCU.
 */
void split_expect_below(struct block_device *bdev, u32 tag, u64 at, u32 bytes,
			struct cost_cursor *cursor)
{
	struct split_device *device;
	struct cost_cursor end;
	unsigned int i;
	u64 cost;

	for (device = split_first(bdev, &i); device; device = split_next(bdev, &i)) {
		end.end = READ_ONCE(cursor->end);
		cost = cost_estimate(split_model(device), &end, at, bytes);
		split_expect(device, tag, bytes, cost * split_share_of(device, bdev) / SPLIT_WHOLE);
	}
	WRITE_ONCE(cursor->end, at + bytes);
}

/**
 * split_settle_below() - data of a tag has reached the devices below a disk, or was freed
 * @bdev: the disk
 * @tag: held
 * @bytes: how much of what was expected
 *
 * In any context, under RCU.
 */
void split_settle_below(struct block_device *bdev, u32 tag, u64 bytes)
{
	struct split_device *device;
	unsigned int i;

	for (device = split_first(bdev, &i); device; device = split_next(bdev, &i))
		split_settle(device, tag, bytes);
}

/**
 * split_move_below() - dirty data has other causes than before, which share what is expected
 * @bdev: where it will be written
 * @from: the tag that it had, held
 * @to: the tag that it has now, held
 * @bytes: how much of it was expected
 *
 * In any context, under RCU.
 */
void split_move_below(struct block_device *bdev, u32 from, u32 to, u64 bytes)
{
	struct split_device *device;
	unsigned int i;

	for (device = split_first(bdev, &i); device; device = split_next(bdev, &i))
		split_expect(device, to, bytes, split_settle(device, from, bytes));
}

/**
 * split_commit_below() - what a journal is given from now on belongs to another commit
 * @bdev: the disk that it is on
 * @own: how many bytes the commit has of its own
 *
 * In any context, under RCU.
 */
void split_commit_below(struct block_device *bdev, u32 own)
{
	struct split_device *device;
	unsigned int i;

	for (device = split_first(bdev, &i); device; device = split_next(bdev, &i))
		split_commit(device, own);
}

/* Tickets */

static struct split_stack *split_ticket_stack(u64 bits)
{
	return &split_stacks[bits >> TICKET_STACK_SHIFT & (SPLIT_STACKS - 1)];
}

static u32 split_ticket_tag(u64 bits)
{
	return bits & (BIT(CAUSES_TAG_BITS) - 1);
}

static u32 split_ticket_expected(u64 bits)
{
	return (bits >> TICKET_PAGES_SHIFT & TICKET_PAGES_MASK) << PAGE_SHIFT;
}

/* Most bytes of which a ticket can say that they are expected. */
static_assert(SPLIT_TICKET_MOST >> PAGE_SHIFT <= TICKET_PAGES_MASK);

/**
 * split_ticket_write() - give a bio a ticket, which it owns
 * @bio: which is queued on a disk without requests
 * @stack: the disk's number
 * @tag: of its causes, held; the caller's reference is consumed
 * @use: what it does
 * @expected: bytes, SPLIT_TICKET_MOST at most, that are to be settled when it is done
 *
 * In any context.
 */
void split_ticket_write(struct bio *bio, unsigned int stack, u32 tag, enum split_use use,
			u32 expected)
{
	u32 life = READ_ONCE(split_stacks[stack].life) & TICKET_LIFE_MASK;

	atomic_inc(&split_owners[causes_place_of(tag)]);
	bio->bi_iocost_cost = tag | (u64)use << TICKET_USE_SHIFT | TICKET_VALID | TICKET_OWNER |
			      (u64)(expected >> PAGE_SHIFT) << TICKET_PAGES_SHIFT |
			      (u64)stack << TICKET_STACK_SHIFT | (u64)life << TICKET_LIFE_SHIFT |
			      (u64)split_stamp() << TICKET_STAMP_SHIFT;
}

/* Whether it is a ticket, and not of a former disk, or of former hooks. */
static bool split_is_ticket(u64 bits)
{
	u32 life = bits >> TICKET_LIFE_SHIFT & TICKET_LIFE_MASK;

	return bits & TICKET_VALID &&
	       (READ_ONCE(split_ticket_stack(bits)->life) & TICKET_LIFE_MASK) == life;
}

/**
 * split_ticket_is_valid() - whether a bio has a ticket that isn't too old
 * @bio: the bio
 *
 * In any context.
 */
bool split_ticket_is_valid(const struct bio *bio)
{
	u64 bits = bio->bi_iocost_cost;

	return split_is_ticket(bits) &&
	       (bits & TICKET_OWNER || split_age(bits >> TICKET_STAMP_SHIFT) < SPLIT_ALOFT_S);
}

/**
 * split_ticket_tag_of() - the causes of a bio that came through a stack
 * @bio: the bio
 * @use: becomes what it does
 * @tag: becomes the tag of its causes, to be given to causes_put()
 *
 * In any context.  Return: whether it has a ticket, and its causes are still known.
 */
bool split_ticket_tag_of(const struct bio *bio, enum split_use *use, u32 *tag)
{
	u64 bits = bio->bi_iocost_cost;

	*use = bits >> TICKET_USE_SHIFT & TICKET_USE_MASK;
	*tag = split_ticket_tag(bits);
	return split_ticket_is_valid(bio) && causes_try_get(split_causes, *tag);
}

/**
 * split_ticket_is_owned() - whether a bio has a ticket of its own
 * @bio: the bio
 *
 * In any context.
 */
bool split_ticket_is_owned(const struct bio *bio)
{
	return bio->bi_iocost_cost & TICKET_OWNER && split_is_ticket(bio->bi_iocost_cost);
}

/**
 * split_ticket_return() - a bio with a ticket of its own is done, or has become a request
 * @bio: the bio; what was expected of it isn't any more
 *
 * In any context, under RCU.
 */
void split_ticket_return(struct bio *bio)
{
	u64 bits = bio->bi_iocost_cost;
	struct split_stack *stack = split_ticket_stack(bits);
	u32 tag = split_ticket_tag(bits), expected = split_ticket_expected(bits);
	struct split_device *device;
	unsigned int i;

	bio->bi_iocost_cost = 0;
	for (i = 0; expected && i < SPLIT_STACK_DEVICES; i++) {
		device = split_stack_device(stack, i);
		if (device)
			split_settle(device, tag, expected);
	}
	if (expected && atomic64_add_return(expected, &stack->done) >= SPLIT_SHARE_BYTES)
		split_stack_learn(stack);
	WARN_ON_ONCE(atomic_dec_return(&split_owners[causes_place_of(tag)]) < 0);
	causes_put(split_causes, tag);
}

/**
 * split_ticket_take() - a bio has become a request, or a part of one
 * @device: whose request
 * @bio: the bio; it has no ticket any more
 *
 * In any context, under RCU.
 */
void split_ticket_take(struct split_device *device, struct bio *bio)
{
	u64 bits = bio->bi_iocost_cost;
	struct split_stack *stack = split_ticket_stack(bits);
	unsigned int i;

	/* What isn't a ticket may be iocost's. */
	if (!split_ticket_is_valid(bio))
		return;
	for (i = 0; i < SPLIT_STACK_DEVICES; i++)
		if (split_stack_device(stack, i) == device)
			break;
	if (i == SPLIT_STACK_DEVICES)
		split_stack_join(stack, device);
	else if (split_ticket_expected(bits))
		atomic64_add(bio->bi_iter.bi_size, &stack->landed[i]);
	if (bits & TICKET_OWNER)
		split_ticket_return(bio);
	bio->bi_iocost_cost = 0;
}

/* Hooks */

/* A bio is made of another one: to(to, from), in any context. */
static void notrace split_at_clone(unsigned long ip, unsigned long parent_ip,
				   struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	struct bio *to = sluice_ftrace_arg(regs, 0);
	u64 bits = ((const struct bio *)sluice_ftrace_arg(regs, 1))->bi_iocost_cost;

	if (unlikely(bits & TICKET_VALID))
		to->bi_iocost_cost = bits & ~TICKET_OWNER;
}

/* A bio of a disk without requests is done. */
static void split_at_done(void *unused, struct request_queue *q, struct bio *bio)
{
	if (!split_ticket_is_owned(bio))
		return;
	preempt_disable_notrace();
	split_ticket_return(bio);
	preempt_enable_notrace();
}

/* bd_unlink_disk_holder(lower, upper): a disk will no longer be below another one. */
static void notrace split_at_unlink(unsigned long ip, unsigned long parent_ip,
				    struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	struct block_device *lower = sluice_ftrace_arg(regs, 0);
	const struct gendisk *upper = sluice_ftrace_arg(regs, 1);
	struct split_device *device;

	preempt_disable_notrace();
	device = split_find(bdev_get_queue(lower));
	/* Where it has no requests itself nobody knows what is below it: all is learned anew. */
	if (device || lower->bd_disk->fops->submit_bio)
		split_stack_unlink(upper, device);
	preempt_enable_notrace();
}

struct split_hook split_stack_hooks[] = {
	SPLIT_WATCH("bio_clone_blkg_association", bio_clone_blkg_association, split_at_clone),
	SPLIT_WATCH("__bio_clone", NULL, split_at_clone),
	SPLIT_WATCH("bd_unlink_disk_holder", bd_unlink_disk_holder, split_at_unlink),
	{},
};

struct split_probe split_stack_probes[] = {
	{ .name = "block_bio_complete", .function = split_at_done },
	{},
};

/**
 * split_stacks_off() - forget all stacks and owners; no hook and no device is in any more
 */
void split_stacks_off(void)
{
	unsigned int i, owners;

	for (i = 0; i < split_stack_count; i++)
		WRITE_ONCE(split_stacks[i].life, split_stacks[i].life + 1);
	for (i = 0; i < CAUSES_PLACES; i++) {
		owners = atomic_xchg(&split_owners[i], 0);
		if (owners)
			causes_put_many(split_causes, i, owners);
	}
}

/* debugfs */

/**
 * split_stacks_show() - write which devices are below each disk, one disk a line
 * @m: for debugfs
 */
void split_stacks_show(struct seq_file *m)
{
	const struct split_device *device;
	unsigned int i, j;

	spin_lock_irq(&split_stacks_lock);
	for (i = 0; i < split_stack_count; i++) {
		if (split_stack_is_empty(&split_stacks[i]))
			continue;
		seq_printf(m, "diskseq=%llu", split_stacks[i].diskseq);
		for (j = 0; j < SPLIT_STACK_DEVICES; j++) {
			device = split_stack_device(&split_stacks[i], j);
			if (device)
				seq_printf(m, " %s=%u%%", device->disk,
					   split_stacks[i].share[j] * 100 / SPLIT_WHOLE);
		}
		seq_putc(m, '\n');
	}
	spin_unlock_irq(&split_stacks_lock);
}

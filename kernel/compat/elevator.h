/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The door to the kernel's private block headers: one set of names and
 * signatures for every elevator, whatever the kernel.
 *
 * The structures come from block-types.h, which block-types.sh writes from the
 * target kernel's own type data, together with features.h: SLUICE_HAS_... for
 * each feature that differs. This file gives those differences one face; no file
 * outside this folder knows of kernel releases. The releases named below are the
 * ones in which a change was first seen.
 *
 * An elevator includes this file first, before it defines CREATE_TRACE_POINTS.
 */
#ifndef SLUICE_ELEVATOR_H
#define SLUICE_ELEVATOR_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/build_bug.h>
#include <linux/cgroup.h>
#include <linux/ioprio.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sbitmap.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <trace/events/block.h>

#include "block-types.h"
#include "features.h"
#include "timer.h"

/*
 * The exported functions that elevators call, as this project knows them. The
 * compiler compares each with what block-types.h read from the kernel.
 */
int elv_register(struct elevator_type *type);
void elv_unregister(struct elevator_type *type);
void elv_rb_add(struct rb_root *root, struct request *rq);
void elv_rb_del(struct rb_root *root, struct request *rq);
struct request *elv_rb_find(struct rb_root *root, sector_t sector);
struct request *elv_rb_former_request(struct request_queue *q, struct request *rq);
struct request *elv_rb_latter_request(struct request_queue *q, struct request *rq);
void elv_rqhash_add(struct request_queue *q, struct request *rq);
void elv_rqhash_del(struct request_queue *q, struct request *rq);
bool elv_bio_merge_ok(struct request *rq, struct bio *bio);
bool blk_mq_sched_try_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs,
			    struct request **merged);
bool blk_mq_sched_try_insert_merge(struct request_queue *q, struct request *rq,
				   struct list_head *free);
void blk_mq_sched_mark_restart_hctx(struct blk_mq_hw_ctx *hctx);
int blkcg_policy_register(struct blkcg_policy *policy);
void blkcg_policy_unregister(struct blkcg_policy *policy);

/*
 * sluice_insert_t: the type of insert_requests()'s last argument, a bool that
 * meant "at the head" until 6.4, and flags since (93fffe16f7ee "blk-mq: pass a
 * flags argument to elevator_type->insert_requests").
 */
#ifdef SLUICE_HAS_INSERT_FLAGS
#define sluice_insert_t blk_insert_t
#else
#define sluice_insert_t bool
#endif

/**
 * sluice_insert_at_head() - shall the list go before everything else?
 * @flags: as insert_requests() got it
 *
 * The flag's value, 1, is a macro in block/blk-mq.h and thus in no type data; it
 * hasn't changed since 6.4, and equals the older bool.
 */
static inline bool sluice_insert_at_head(sluice_insert_t flags)
{
	return (__force unsigned int)flags & 1;
}

/**
 * sluice_rq_ioprio() - the priority that a request's submitter asked for
 * @rq: request that still has its bio
 *
 * Call it when the request is inserted and keep the answer: since 6.14, and
 * 6.12.26, the priority is read from the first bio (6975c1a486a4 "block: remove
 * the ioprio field from struct request"), which is gone at completion and may be
 * another one after a merge.
 *
 * Return: an IOPRIO_PRIO_VALUE(); 0, class NONE, without a bio.
 */
static inline u16 sluice_rq_ioprio(struct request *rq)
{
	return req_get_ioprio(rq);
}

/*
 * The flag of a request that prepare_request() has seen and finish_request()
 * will see. Before 6.5 it was RQF_ELVPRIV, while RQF_ELV only told of a scheduler
 * tag; since 6.5 one flag says both (fdcab6cddef2, dd6216bb16e8). A flush and a
 * pass-through request never have it.
 */
#ifdef RQF_USE_SCHED
#define SLUICE_RQF_SCHED RQF_USE_SCHED
#else
#define SLUICE_RQF_SCHED RQF_ELVPRIV
/* Until then a write with a flush before it or after it went past the elevator as well. */
#define SLUICE_FLUSHES_BYPASS
#endif

/**
 * sluice_rq_mergeable() - may a bio or a request be merged into this one?
 * @rq: request, about to be entered in the merge hash or not
 *
 * rq_mergeable() is private to block/blk.h. The block layer asks its own before
 * it merges: this one only avoids entering a request that would be refused.
 */
static inline bool sluice_rq_mergeable(const struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
	case REQ_OP_DISCARD:
	case REQ_OP_SECURE_ERASE:
		return !(rq->cmd_flags & REQ_NOMERGE_FLAGS) && !(rq->rq_flags & RQF_NOMERGE_FLAGS);
	default:
		return false;
	}
}

/**
 * sluice_front_merge() - how a bio in front of a request is merged with it
 * @rq: what elv_rb_find() found and elv_bio_merge_ok() accepted
 *
 * Discards to a device that takes several ranges at once are collected, not
 * extended; blk_discard_mergable() is private to block/blk.h.
 *
 * Return: request_merge()'s answer, an enum elv_merge.
 */
static inline int sluice_front_merge(struct request *rq)
{
	if (req_op(rq) == REQ_OP_DISCARD && queue_max_discard_segments(rq->q) > 1)
		return ELEVATOR_DISCARD_MERGE;
	return ELEVATOR_FRONT_MERGE;
}

/**
 * sluice_free_requests() - free what blk_mq_sched_try_insert_merge() merged away
 * @list: requests, linked by queuelist; empty afterwards
 *
 * Call it without the elevator's lock: finish_request() runs for each.
 */
static inline void sluice_free_requests(struct list_head *list)
{
	struct request *rq, *next;

	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
}

/**
 * sluice_hctx() - the hardware queue that an allocation takes its tag from
 * @data: as limit_depth() got it
 *
 * Some releases between 6.4 and 6.12 call limit_depth() before they choose the hardware queue.
 * There it is the queue of the CPU that the task runs on, and changes if the task moves.
 */
static inline struct blk_mq_hw_ctx *sluice_hctx(struct blk_mq_alloc_data *data)
{
	enum hctx_type type = HCTX_TYPE_DEFAULT;

	if (data->hctx)
		return data->hctx;
	if (data->cmd_flags & REQ_POLLED)
		type = HCTX_TYPE_POLL;
	else if ((data->cmd_flags & REQ_OP_MASK) == REQ_OP_READ)
		type = HCTX_TYPE_READ;
	return raw_cpu_ptr(data->q->queue_ctx)->hctxs[type];
}

/* The scheduler tags that an allocation chooses from. */
static inline struct sbitmap *sluice_tag_map(struct blk_mq_alloc_data *data)
{
	return &sluice_hctx(data)->sched_tags->bitmap_tags.sb;
}

/**
 * sluice_nr_tags() - how many scheduler tags there are to choose from
 * @data: as limit_depth() got it
 *
 * Per hardware queue, or for all of them where the driver shares its tags. Ask
 * each time: inside depth_updated() q->nr_requests is still the old number on
 * kernels without SLUICE_HAS_QUEUE_DEPTH.
 */
static inline unsigned int sluice_nr_tags(struct blk_mq_alloc_data *data)
{
	return sluice_tag_map(data)->depth;
}

/**
 * sluice_limit_tags() - keep tags back from an allocation
 * @data: as limit_depth() got it
 * @n: at most about so many of sluice_nr_tags() may be in use for this
 *     allocation to succeed without waiting, at least 1
 *
 * Needs sluice_may_limit_tags(). data->shallow_depth counted the bits of one
 * word of the tag map, of which there are at least four, until 6.16 and 6.12.42,
 * and counts the whole map's since (42e6c6ce03fd "lib/sbitmap: convert
 * shallow_depth from one word to the whole sbitmap"); either way 0 is no limit.
 * By words every word yields at least one tag, so that the smallest limit is
 * then the number of words.
 */
static inline void sluice_limit_tags(struct blk_mq_alloc_data *data, unsigned int n)
{
	struct sbitmap *map = sluice_tag_map(data);

	if (n >= map->depth)
		return;
#ifdef SLUICE_HAS_WORD_DEPTH
	n = n * min(1U << map->shift, map->depth) / map->depth;
#endif
	data->shallow_depth = max(n, 1U);
}

/**
 * SLUICE_LIMIT_DEPTH() - define a limit_depth callback
 * @wrapper: its name
 * @fn: void fn(blk_opf_t opf, struct blk_mq_alloc_data *data)
 *
 * Since 7.0 a queue has async_depth: all but synchronous reads may have so many tags. It is all of
 * them until a user writes it.
 */
#define SLUICE_LIMIT_DEPTH(wrapper, fn)                                    \
	static void wrapper(blk_opf_t opf, struct blk_mq_alloc_data *data) \
	{                                                                  \
		fn(opf, data);                                             \
		sluice_limit_async(opf, data);                             \
	}

static inline void sluice_limit_async(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
#ifdef SLUICE_HAS_ASYNC_DEPTH
	unsigned int depth = READ_ONCE(data->q->async_depth);

	if ((op_is_write(opf) || !op_is_sync(opf)) && depth < sluice_nr_tags(data))
		data->shallow_depth = min_not_zero(data->shallow_depth, max(depth, 1U));
#endif
}

/* What the scheduler before made of async_depth does not stay. */
static inline void sluice_reset_async(struct request_queue *q)
{
#ifdef SLUICE_HAS_ASYNC_DEPTH
	q->async_depth = q->nr_requests;
#endif
}

/**
 * sluice_may_limit_tags() - announce that sluice_limit_tags() will be called
 * @q: queue, from the elevator's init and depth_updated functions
 *
 * Without it the tag map wakes waiters in batches larger than the limit, and a
 * limited allocation may sleep for ever. blk_mq_set_min_shallow_depth(), which
 * came with 7d337eef4aff, is private.
 */
static inline void sluice_may_limit_tags(struct request_queue *q)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, 1);
}

/**
 * sluice_wake_for_tags() - have tasks that wait for a tag look again
 * @q: queue
 *
 * In any context.  A waiter that is woken for a tag, but kept from it by a limit, doesn't wake the
 * next one.  So while requests are held, no other waiter might be woken.
 */
static inline void sluice_wake_for_tags(struct request_queue *q)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		sbitmap_queue_wake_all(&hctx->sched_tags->bitmap_tags);
}

/*
 * The kernel's own throttling of writeback (WBT) keeps writes from a queue in the order in which
 * they came, even if tasks wait for them.  An elevator that decides this itself switches WBT off,
 * unless the administrator has set queue/wbt_lat_usec.
 *
 * SLUICE_WITHOUT_WBT: the bit of an elevator's flags that keeps it off, from 6.2 to 6.15; a
 * macro in block/elevator.h and thus in no type data.  Since 6.16 the queue has a flag
 * (56dee46ff47f "block: move ELEVATOR_FLAG_DISABLE_WBT a request queue flag"), and the
 * elevator's bit says that it is dying.
 */
#define SLUICE_WITHOUT_WBT 1

static inline void sluice_flag_wbt(struct request_queue *q, struct elevator_queue *eq, bool without)
{
#if defined(SLUICE_HAS_WBT_QUEUE_FLAG)
	(without ? blk_queue_flag_set : blk_queue_flag_clear)(QUEUE_FLAG_DISABLE_WBT_DEF, q);
#elif defined(SLUICE_HAS_ELEVATOR_FLAGS)
	assign_bit(SLUICE_WITHOUT_WBT, &eq->flags, without);
#endif
}

/* The functions take a disk since 6.3. */
static inline void sluice_set_wbt(struct request_queue *q, bool on)
{
#if defined(SLUICE_HAS_WBT_OF_DISK)
	(on ? wbt_enable_default : wbt_disable_default)(q->disk);
#elif defined(SLUICE_HAS_WBT_OF_QUEUE)
	(on ? wbt_enable_default : wbt_disable_default)(q);
#endif
}

/**
 * sluice_disable_wbt() - the elevator itself decides which writes wait
 * @q: queue, from init_sched
 * @eq: the elevator there
 */
static inline void sluice_disable_wbt(struct request_queue *q, struct elevator_queue *eq)
{
	sluice_flag_wbt(q, eq, true);
	sluice_set_wbt(q, false);
}

/**
 * sluice_enable_wbt() - the end of what sluice_disable_wbt() began
 * @q: queue, from exit_sched
 * @eq: the elevator there
 */
static inline void sluice_enable_wbt(struct request_queue *q, struct elevator_queue *eq)
{
	/* It may allocate, and the queue is frozen. */
	unsigned int flags = memalloc_noio_save();

	sluice_flag_wbt(q, eq, false);
	sluice_set_wbt(q, true);
	memalloc_noio_restore(flags);
}

/**
 * SLUICE_INIT_SCHED() - define an init_sched callback
 * @wrapper: its name
 * @fn: int fn(struct request_queue *q, struct elevator_queue *eq), sets
 *      eq->elevator_data; on an error it has undone what it did
 *
 * Called with the queue frozen and the scheduler tags allocated; q->elevator is
 * set after @fn. The kernel leaves the flag that running one hardware queue is
 * enough after a scheduler that set it: the others would not be run, under this
 * elevator or, if @fn fails, under none. So it is cleared first, and set at @fn's
 * end if need be. Since 6.17 and 6.16.4 the core allocates and frees the
 * elevator_queue (49811586be37 "block: move elevator queue allocation logic into
 * blk_mq_init_sched"); before, each elevator did.
 */
#define SLUICE_INIT_SCHED(wrapper, fn)                                                     \
	static int wrapper(struct request_queue *q, struct sluice_init_arg *wrapper##_arg) \
	{                                                                                  \
		blk_queue_flag_clear(QUEUE_FLAG_SQ_SCHED, q);                              \
		sluice_reset_async(q);                                                     \
		return sluice_init_sched(q, wrapper##_arg, fn);                            \
	}

#ifdef SLUICE_HAS_INIT_QUEUE
#define sluice_init_arg elevator_queue

static inline int sluice_init_sched(struct request_queue *q, struct elevator_queue *eq,
				    int (*fn)(struct request_queue *, struct elevator_queue *))
{
	int err = fn(q, eq);

	if (!err)
		q->elevator = eq;
	return err;
}
#else
#define sluice_init_arg elevator_type

struct elevator_queue *elevator_alloc(struct request_queue *q, struct elevator_type *type);

static inline int sluice_init_sched(struct request_queue *q, struct elevator_type *type,
				    int (*fn)(struct request_queue *, struct elevator_queue *))
{
	struct elevator_queue *eq = elevator_alloc(q, type);
	int err;

	if (!eq)
		return -ENOMEM;
	err = fn(q, eq);
	if (err)
		kobject_put(&eq->kobj);
	else
		q->elevator = eq;
	return err;
}
#endif

/**
 * SLUICE_DEPTH_UPDATED() - define a depth_updated callback
 * @wrapper: its name
 * @fn: void fn(struct request_queue *q), called after nr_requests has changed,
 *      with the queue frozen and quiesced
 *
 * Called once per queue since 6.17.3 and 6.18 (7d337eef4aff "blk-mq: fix elevator
 * depth_updated method"). Before, it was called once per hardware queue, in the middle of the
 * change: @fn must tolerate repeated calls.
 */
#ifdef SLUICE_HAS_QUEUE_DEPTH
#define SLUICE_DEPTH_UPDATED(wrapper, fn)            \
	static void wrapper(struct request_queue *q) \
	{                                            \
		fn(q);                               \
	}
#else
#define SLUICE_DEPTH_UPDATED(wrapper, fn)               \
	static void wrapper(struct blk_mq_hw_ctx *hctx) \
	{                                               \
		fn(hctx->queue);                        \
	}
#endif

/*
 * sluice_attr_t: the type of an entry in an elevator's table of sysfs
 * attributes, const since 6.17.
 */
#ifdef SLUICE_HAS_CONST_ATTRS
#define sluice_attr_t const struct elv_fs_entry
#else
#define sluice_attr_t struct elv_fs_entry
#endif

/* Since 7.0 only blk_queue_rot() remains (2719bd1ee1a1). */
#ifndef blk_queue_nonrot
#define blk_queue_nonrot(q) (!blk_queue_rot(q))
#endif

/**
 * sluice_has_write_cache() - whether a device loses writes in its cache with the power
 * @q: queue
 *
 * A flag of the queue until 6.10, a feature in its limits since 6.11 (1122c0c1cc71).
 */
static inline bool sluice_has_write_cache(struct request_queue *q)
{
#ifdef QUEUE_FLAG_WC
	return test_bit(QUEUE_FLAG_WC, &q->queue_flags);
#else
	return blk_queue_write_cache(q);
#endif
}

/*
 * Zoned devices. Since 6.10 the core orders the writes to a zone before the
 * elevator sees them (dd291d77cc90 "block: Introduce zone write plugging").
 * Before, an elevator has to keep them in order and one at a time, by the zone's
 * lock, and to say so in elevator_features; the kernel refuses one that doesn't for
 * a zoned device.
 *
 * SLUICE_ZONE_FEATURE: says so, in the elevator's type.
 */
#ifdef SLUICE_HAS_ZONE_LOCKS
#define SLUICE_ZONE_FEATURE .elevator_features = ELEVATOR_F_ZBD_SEQ_WRITE,
#else
#define SLUICE_ZONE_FEATURE
#endif

/**
 * sluice_orders_zones() - must the elevator keep the order of writes to a zone?
 * @q: queue
 */
static inline bool sluice_orders_zones(struct request_queue *q)
{
#ifdef SLUICE_HAS_ZONE_LOCKS
	return blk_queue_is_zoned(q);
#else
	return false;
#endif
}

/**
 * sluice_zone_write() - must the elevator keep the order of this write?
 * @rq: request, of a queue with sluice_orders_zones()
 */
static inline bool sluice_zone_write(struct request *rq)
{
#ifdef SLUICE_HAS_ZONE_LOCKS
	return blk_req_needs_zone_write_lock(rq);
#else
	return false;
#endif
}

/**
 * sluice_zone_busy() - must a request wait for another write to its zone?
 * @rq: request
 *
 * A request that is requeued keeps its zone until it has finished, so that none
 * overtakes it.
 */
static inline bool sluice_zone_busy(struct request *rq)
{
#ifdef SLUICE_HAS_ZONE_LOCKS
	return sluice_zone_write(rq) && !(rq->rq_flags & RQF_ZONE_WRITE_LOCKED) &&
	       blk_req_zone_is_write_locked(rq);
#else
	return false;
#endif
}

/**
 * sluice_zone_lock() - reserve the zone of a request that is dispatched
 * @rq: request, not sluice_zone_busy(); finish_request() will see it
 */
static inline void sluice_zone_lock(struct request *rq)
{
#ifdef SLUICE_HAS_ZONE_LOCKS
	if (sluice_zone_write(rq) && !(rq->rq_flags & RQF_ZONE_WRITE_LOCKED))
		WARN_ON_ONCE(!blk_req_zone_write_trylock(rq));
#endif
}

/**
 * sluice_zone_unlock() - give back the zone of a request, if it has one
 * @rq: request, from finish_request()
 *
 * Requests that wait for the zone go when its hardware queue is run again, which this
 * function arranges.
 */
static inline void sluice_zone_unlock(struct request *rq)
{
#ifdef SLUICE_HAS_ZONE_LOCKS
	if (!(rq->rq_flags & RQF_ZONE_WRITE_LOCKED))
		return;
	blk_req_zone_write_unlock(rq);
	blk_mq_sched_mark_restart_hctx(rq->mq_hctx);
#endif
}

#endif

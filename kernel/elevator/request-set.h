/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Building blocks of elevators: sets of waiting requests, the class of a request,
 * and knobs.
 *
 * A set has its requests in the order of their arrival.  Sorted requests can also be found by their
 * sector, and indexed ones by the block layer's merge look-ups too.  Sorting costs more than
 * queueing, and indexing more than sorting.  An elevator sorts when it needs the sectors and
 * indexes when a merge is possible; a request that was dispatched before never pays.
 *
 * The caller of a set's function holds the lock that guards the set.  q is the queue of all its
 * requests; the same lock guards its merge hash and last_merge.
 */
#ifndef SLUICE_REQUEST_SET_H
#define SLUICE_REQUEST_SET_H

#include "../compat/elevator.h"

#include <linux/compiler.h>
#include <linux/list.h>
#include <linux/rbtree.h>

/**
 * struct rq_set - waiting requests
 * @fifo: oldest first
 * @sorted: by sector: all on @fifo but some of the youngest
 * @queued: number of requests on @fifo; may be read without the lock
 */
struct rq_set {
	struct list_head fifo;
	struct rb_root sorted;
	unsigned int queued;
};

static inline void rq_set_init(struct rq_set *set)
{
	INIT_LIST_HEAD(&set->fifo);
	set->sorted = RB_ROOT;
	set->queued = 0;
}

/* For a warning at an elevator's exit. */
static inline bool rq_set_is_empty(const struct rq_set *set)
{
	return !set->queued && list_empty(&set->fifo) && RB_EMPTY_ROOT(&set->sorted);
}

/* Queues a request as the youngest, not indexed; fifo_time is when it came, in jiffies. */
static inline void rq_set_add(struct rq_set *set, struct request *rq)
{
	rq->fifo_time = jiffies;
	RB_CLEAR_NODE(&rq->rb_node);
	list_add_tail(&rq->queuelist, &set->fifo);
	WRITE_ONCE(set->queued, set->queued + 1);
}

void rq_set_unindex(struct request_queue *q, struct rq_set *set, struct request *rq);

/* Takes a request off a set and out of the merge look-ups. */
static inline void rq_set_del(struct request_queue *q, struct rq_set *set, struct request *rq)
{
	list_del_init(&rq->queuelist);
	WRITE_ONCE(set->queued, set->queued - 1);
	if (!RB_EMPTY_NODE(&rq->rb_node))
		rq_set_unindex(q, set, rq);
}

/* The request that has waited longest; the set isn't empty. */
static inline struct request *rq_set_oldest(const struct rq_set *set)
{
	return list_first_entry(&set->fifo, struct request, queuelist);
}

/* When a waiting request was queued, in jiffies. */
static inline unsigned long rq_came(const struct request *rq)
{
	return rq->fifo_time;
}

/* Whether a list has no request, without its lock, as has_work() asks. */
static inline bool rq_list_is_empty(const struct list_head *list)
{
	/* An insertion at the same time runs the queue when it is done. */
	return data_race(list_empty_careful(list));
}

/**
 * rq_add_urgent() - queue a request, if no policy may delay it
 * @rq: from insert_requests, on no list
 * @ins: as insert_requests() got it
 * @urgent: list of such requests, in the order in which they go
 * @head: where on @urgent the next request inserted at the head goes; begins as @urgent
 *
 * Requests inserted at the head go first, in their order.  Requests that are not under the
 * scheduler's control go behind all that is there.
 *
 * Return: whether it is on @urgent now.
 */
static inline bool rq_add_urgent(struct request *rq, sluice_insert_t ins, struct list_head *urgent,
				 struct list_head **head)
{
	if (sluice_insert_at_head(ins)) {
		list_add(&rq->queuelist, *head);
		*head = &rq->queuelist;
		return true;
	}
	if (rq->rq_flags & SLUICE_RQF_SCHED)
		return false;
	list_add_tail(&rq->queuelist, urgent);
	return true;
}

/* Takes the first request off a list that belongs to no set; NULL if there is none. */
static inline struct request *rq_take_first(struct list_head *list)
{
	struct request *rq = list_first_entry_or_null(list, struct request, queuelist);

	if (rq)
		list_del_init(&rq->queuelist);
	return rq;
}

void rq_set_index(struct request_queue *q, struct rq_set *set, struct request *rq);
void rq_set_sort_all(struct rq_set *set);
void rq_set_index_all(struct request_queue *q, struct rq_set *set);
struct request *rq_set_from(const struct rq_set *set, sector_t pos);
int rq_set_front_merge(const struct rq_set *set, struct request **req, struct bio *bio);
void rq_set_moved(struct rq_set *set, struct request *rq);
void rq_inherit_place(struct request *req, struct request *next);
bool rq_collects(struct request *rq);

/* The classes of I/O priority, the most urgent first. */
enum rq_class { RQ_RT, RQ_BE, RQ_IDLE, RQ_CLASSES };

/* Class NONE, of a task without an I/O priority, counts as best effort. */
static inline enum rq_class rq_class_of(unsigned int ioprio)
{
	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT:
		return RQ_RT;
	case IOPRIO_CLASS_IDLE:
		return RQ_IDLE;
	default:
		return RQ_BE;
	}
}

/* The level within the class: 0, the most urgent, to 7; class NONE has the kernel's default. */
static inline unsigned int rq_level(unsigned int ioprio)
{
	return IOPRIO_PRIO_CLASS(ioprio) == IOPRIO_CLASS_NONE ? IOPRIO_BE_NORM : ioprio & 7;
}

/**
 * rq_blocks_others() - whether other tasks may wait for what the current task is about to queue
 * @opf: its operation and flags
 *
 * True for metadata, swap, and all that a task queues while it has a file system's transaction
 * open.  Each fsync waits for that transaction, so a limit on the task would hold all fsyncs.
 */
static inline bool rq_blocks_others(blk_opf_t opf)
{
	return opf & (REQ_META | REQ_SWAP) || current->journal_info;
}

ssize_t rq_knob_show(struct elevator_queue *eq, size_t offset, char *page);
ssize_t rq_knob_store(struct elevator_queue *eq, size_t offset, unsigned int least,
		      unsigned int most, const char *page, size_t count);

/**
 * RQ_KNOB() - define the sysfs functions of a knob
 * @type: the structure that elevator_data points at
 * @name: its unsigned int, read and written without a lock, and the file's name
 * @least: lowest value that is taken
 * @most: highest
 */
#define RQ_KNOB(type, name, least, most)                                                       \
	static const size_t name##_offset = offsetof(struct type, name);                       \
	static ssize_t name##_show(struct elevator_queue *eq, char *page)                      \
	{                                                                                      \
		return rq_knob_show(eq, name##_offset, page);                                  \
	}                                                                                      \
	static ssize_t name##_store(struct elevator_queue *eq, const char *page, size_t count) \
	{                                                                                      \
		return rq_knob_store(eq, name##_offset, least, most, page, count);             \
	}

/* A knob's entry in the elevator's table of attributes. */
#define RQ_KNOB_ATTR(name) __ATTR(name, 0644, name##_show, name##_store)

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What elevators are made of: sets of waiting requests, the class of a request,
 * and knobs.
 *
 * A set has its requests in the order of their arrival.  Those that were sorted are
 * found by their sector too, and those that were indexed by the block layer's merge
 * look-ups as well.  To sort costs more than to queue, and to index more than to sort:
 * an elevator does the one when it needs the sectors and the other when a merge is
 * possible, and a request that was dispatched before never pays.
 *
 * Whoever calls a function of a set holds the lock that guards the set; q is the
 * queue of all its requests, whose merge hash and last_merge the same lock guards.
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
 * @sorted: by sector: all on @fifo but some of the last
 * @queued: number on @fifo; may be read without the lock
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

/* At an elevator's end, to be warned of. */
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

/* The request that waited longest, of a set that isn't empty. */
static inline struct request *rq_set_oldest(const struct rq_set *set)
{
	return list_first_entry(&set->fifo, struct request, queuelist);
}

/* When a waiting request came, in jiffies. */
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
 * @urgent: such requests, in the order in which they go
 * @head: where on it the next request goes that is inserted at the head; begins as @urgent
 *
 * Those are all that are inserted at the head, in their order, and behind what is there all that
 * are not under the scheduler's control.
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

/* The first request of a list that has no set, off it; NULL if there is none. */
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

/* Class NONE, as of a task whose priority nobody set, counts as best effort. */
static inline enum rq_class rq_class(unsigned int ioprio)
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
 * Metadata, swap, and all that a task queues while it has a file system's transaction open: each
 * fsync waits for that transaction.  A limit on the task would hold every one of them.
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

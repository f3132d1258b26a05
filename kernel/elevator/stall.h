/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stalls: an elevator that leaves a request waiting goes on as a FIFO.
 *
 * An elevator's bug must not take the machine.  A request may wait for stall_s seconds while the
 * device is idle or answers others, and its elevator serves nothing of its kind.  Then the kernel
 * log says so, and the elevator forgets all that it knew: from then on requests go in the order in
 * which they came, until a scheduler is chosen anew.
 *
 * The FIFO relies on nothing of the elevator's.  A request that waits in an elevator has a mark,
 * rq_mark(); all requests with a scheduler's tag can be found by their tags.  So one that a list
 * has lost goes too.  Others are on the elevator's list of urgent requests, which the FIFO takes
 * over.
 *
 * An elevator's data begin with a struct stall: eq->elevator_data points at it.
 *
 * A timer looks at the tags some times within the limit, and takes no lock meanwhile: requests pay
 * for nothing of this but their mark.
 */
#ifndef SLUICE_STALL_H
#define SLUICE_STALL_H

#include "request-set.h"

#include <linux/timer.h>

#define STALL_DEFAULT_S 30
#define STALL_MAX_S 86400

/*
 * The mark of a request that waits in an elevator, on a list from which it goes when its turn
 * comes.  It is in a field that only elevators with I/O contexts use.  Nothing else that the block
 * layer keeps there, while a request isn't under the scheduler's control, looks like the mark.  Set
 * under the elevator's lock, and read without.
 */
#define RQ_MARK ((struct io_cq *)~0UL)

static inline void rq_mark(struct request *rq)
{
	WRITE_ONCE(rq->elv.icq, RQ_MARK);
}

static inline void rq_unmark(struct request *rq)
{
	WRITE_ONCE(rq->elv.icq, NULL);
}

static inline bool rq_is_marked(const struct request *rq)
{
	/* The flag stays while a request has the mark. */
	return data_race(rq->rq_flags) & SLUICE_RQF_SCHED && READ_ONCE(rq->elv.icq) == RQ_MARK;
}

/* Queues requests of insert_requests on a list that is a FIFO of all. */
static inline void rq_add_marked(struct list_head *list, sluice_insert_t ins,
				 struct list_head *fifo)
{
	struct request *rq;

	list_for_each_entry(rq, list, queuelist) {
		trace_block_rq_insert(rq);
		if (rq->rq_flags & SLUICE_RQF_SCHED)
			rq_mark(rq);
	}
	if (sluice_insert_at_head(ins))
		list_splice_init(list, fifo);
	else
		list_splice_tail_init(list, fifo);
}

/* Takes the first request off such a list. */
static inline struct request *rq_take_marked(struct list_head *fifo)
{
	struct request *rq = rq_take_first(fifo);

	if (rq && rq->rq_flags & SLUICE_RQF_SCHED)
		rq_unmark(rq);
	return rq;
}

struct stall;

/**
 * struct stall_ops - what an elevator does for it
 *
 * Each in softirq context, without a lock.
 */
struct stall_ops {
	/**
	 * @abandon: under each lock that guards insertions, merges and dispatches, call
	 * stall_begin_fifo() and forget all requests that wait
	 */
	void (*abandon)(struct stall *stall);

	/**
	 * @served: jiffies when a request of this one's kind was last dispatched or done
	 *
	 * Of @rq nothing but its marks may be read that the elevator's lock guards: it may be
	 * another one in a moment.
	 */
	unsigned long (*served)(struct stall *stall, const struct request *rq);
};

/**
 * struct stall - the watch on one queue's elevator
 * @q: the queue
 * @ops: the elevator's
 * @name: the elevator's name
 * @limit_s: seconds, 0: none; read and written without a lock
 * @fifo: the elevator has been abandoned; changes once, under the elevator's locks
 * @takes: and all its locks have seen that, so that its lists are out of use
 * @late: requests that had waited for longer than the limit then
 * @lock: guards @list, and the choice of a request; taken under the elevator's locks, and none is
 *	  taken under it
 * @list: requests that go before all others
 * @urgent: the elevator's list of such requests, of which only the first one's address is read
 * @first: that, at the last look; it and what follows are the timer's
 * @first_came: jiffies when it was seen first
 * @looked_ns: time of the last look
 * @looked: the same in jiffies
 * @inside: how many requests the device had then
 * @since_ns: until then the device kept requests waiting, or nobody looked
 * @timer: looks
 */
struct stall {
	struct request_queue *q;
	const struct stall_ops *ops;
	const char *name;
	unsigned int limit_s;
	bool fifo;
	bool takes;
	unsigned int late;
	spinlock_t lock; /* guards list, and the choice of a request */
	struct list_head list;
	const struct list_head *urgent;
	const void *first;
	unsigned long first_came;
	u64 looked_ns;
	unsigned long looked;
	unsigned int inside;
	u64 since_ns;
	struct timer_list timer;
};

/**
 * stall_init() - begin to watch an elevator
 * @stall: zeroed, the elevator's data
 * @q: its queue, from init_sched
 * @eq: the elevator there
 * @ops: read until stall_exit()
 * @urgent: the list that stall_begin_fifo() will be called with, or NULL
 */
void stall_init(struct stall *stall, struct request_queue *q, const struct elevator_queue *eq,
		const struct stall_ops *ops, const struct list_head *urgent);

/**
 * stall_exit() - the end of what stall_init() began
 * @stall: of a queue that is frozen
 *
 * From exit_sched, before what the elevator's operations use goes.  Sleeps.
 */
void stall_exit(struct stall *stall);

/* Whether the elevator is a FIFO now: asked under its lock in insertions, merges and dispatches. */
static inline bool stall_is_fifo(const struct stall *stall)
{
	return unlikely(READ_ONCE(stall->fifo));
}

/**
 * stall_begin_fifo() - from now on the elevator is a FIFO
 * @stall: within ops->abandon()
 * @urgent: a list of the elevator's: what has no mark goes before all others, and the list is empty
 *	    afterwards
 *
 * Under the lock that guards @urgent.
 */
void stall_begin_fifo(struct stall *stall, struct list_head *urgent);

/**
 * stall_insert() - the rest of insert_requests, of a FIFO
 * @stall: with stall_is_fifo()
 * @list: requests; empty afterwards
 * @ins: as insert_requests() got it
 */
void stall_insert(struct stall *stall, struct list_head *list, sluice_insert_t ins);

/**
 * stall_next() - the same of dispatch_request
 * @stall: with stall_is_fifo()
 *
 * Takes a time that is proportional to the number of tags.  Return: a request, or NULL.
 */
struct request *stall_next(struct stall *stall);

/**
 * stall_has_work() - the same of has_work
 * @stall: with stall_is_fifo()
 */
bool stall_has_work(const struct stall *stall);

/* The knob stall_s, and stalls, which is only read. */
ssize_t stall_s_show(struct elevator_queue *eq, char *page);
ssize_t stall_s_store(struct elevator_queue *eq, const char *page, size_t count);
ssize_t stalls_show(struct elevator_queue *eq, char *page);

#endif

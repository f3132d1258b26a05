// SPDX-License-Identifier: GPL-2.0-only
/* An elevator that leaves a request waiting goes on as a FIFO; see stall.h. */
#include "stall.h"

#include <linux/percpu-refcount.h>

/* So often within the limit there is a look, but not within a second, and at least each five. */
#define STALL_LOOKS 8
#define STALL_LOOK_LEAST HZ
#define STALL_LOOK_MOST (5 * HZ)

/**
 * struct stall_tags - a walk over the requests that have a scheduler's tag
 * @tags: of one hardware queue, or of all
 * @visit: what is done with each
 * @data: for that
 */
struct stall_tags {
	struct blk_mq_tags *tags;
	void (*visit)(struct request *rq, void *data);
	void *data;
};

static bool stall_visit(struct sbitmap *map, unsigned int tag, void *data)
{
	struct stall_tags *walk = data;
	unsigned int first = map == &walk->tags->breserved_tags.sb ? 0
								   : walk->tags->nr_reserved_tags;

	walk->visit(walk->tags->static_rqs[first + tag], walk->data);
	return true;
}

/* While the core runs a hardware queue, or with a reference to the queue's usage, the tags stay. */
static void stall_for_each(struct request_queue *q, void (*visit)(struct request *rq, void *data),
			   void *data)
{
	struct stall_tags walk = { .visit = visit, .data = data };
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i) {
		/* A driver may share its tags among all hardware queues. */
		if (hctx->sched_tags == walk.tags)
			continue;
		walk.tags = hctx->sched_tags;
		sbitmap_for_each_set(&walk.tags->bitmap_tags.sb, stall_visit, &walk);
		sbitmap_for_each_set(&walk.tags->breserved_tags.sb, stall_visit, &walk);
	}
}

/* The FIFO */

void stall_begin_fifo(struct stall *stall, struct list_head *urgent)
{
	struct request *rq, *next;

	spin_lock(&stall->lock);
	WRITE_ONCE(stall->fifo, true);
	list_for_each_entry_safe(rq, next, urgent, queuelist) {
		list_del_init(&rq->queuelist);
		if (!rq_is_marked(rq))
			list_add_tail(&rq->queuelist, &stall->list);
	}
	spin_unlock(&stall->lock);
}

void stall_insert(struct stall *stall, struct list_head *list, sluice_insert_t ins)
{
	struct list_head *head = &stall->list;
	struct request *rq, *next;

	spin_lock(&stall->lock);
	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_del_init(&rq->queuelist);
		trace_block_rq_insert(rq);
		if (!rq_add_urgent(rq, ins, &stall->list, &head))
			rq_mark(rq);
	}
	spin_unlock(&stall->lock);
}

static void stall_find_oldest(struct request *rq, void *data)
{
	struct request **oldest = data;

	if (rq_is_marked(rq) && (!*oldest || rq->start_time_ns < (*oldest)->start_time_ns))
		*oldest = rq;
}

/* Takes a request that is on a list that the elevator has forgotten, or on none. */
static struct request *stall_take_oldest(struct stall *stall)
{
	struct request *rq = NULL;

	stall_for_each(stall->q, stall_find_oldest, &rq);
	if (!rq)
		return NULL;
	rq_unmark(rq);
	INIT_LIST_HEAD(&rq->queuelist);
	return rq;
}

struct request *stall_next(struct stall *stall)
{
	struct request *rq;

	/* Pairs with stall_trip(). */
	if (!smp_load_acquire(&stall->takes))
		return NULL;
	spin_lock(&stall->lock);
	rq = rq_take_first(&stall->list) ?: stall_take_oldest(stall);
	spin_unlock(&stall->lock);
	if (rq)
		rq->rq_flags |= RQF_STARTED;
	return rq;
}

static void stall_count_marks(struct request *rq, void *data)
{
	unsigned int *count = data;

	*count += rq_is_marked(rq);
}

bool stall_has_work(const struct stall *stall)
{
	unsigned int count = !rq_list_is_empty(&stall->list);

	if (!READ_ONCE(stall->takes))
		return false;
	if (!count)
		stall_for_each(stall->q, stall_count_marks, &count);
	return count;
}

/* The looks */

/**
 * struct stall_look - what one look finds
 * @stall: the watch
 * @now_ns: when it began
 * @limit_ns: how long a request may wait
 * @inside: requests that the device has
 * @stayed: of these, such as there may have been at the last look
 * @late: requests that wait for longer than the limit
 * @worst: the one that has waited for longest, by its time, place and operation
 */
struct stall_look {
	struct stall *stall;
	u64 now_ns;
	u64 limit_ns;
	unsigned int inside;
	unsigned int stayed;
	unsigned int late;
	struct {
		u64 came_ns;
		sector_t sector;
		unsigned int sectors;
		bool writes;
	} worst;
};

static void stall_see_inside(struct request *rq, void *data)
{
	struct stall_look *look = data;

	if (!blk_mq_request_started(rq))
		return;
	look->inside++;
	/* The driver got it so long before its deadline.  It may be another request by now. */
	look->stayed += data_race(time_before_eq(rq->deadline - rq->timeout, look->stall->looked));
}

static void stall_see_late(struct request *rq, void *data)
{
	struct stall_look *look = data;
	/* The same here; of a marked one what follows stays. */
	u64 came_ns = max(data_race(rq->start_time_ns), look->stall->since_ns);

	if (!rq_is_marked(rq) || look->now_ns < came_ns + look->limit_ns ||
	    time_before(jiffies, look->stall->ops->served(look->stall, rq) +
					 nsecs_to_jiffies(look->limit_ns)))
		return;
	if (!look->late++ || came_ns < look->worst.came_ns) {
		look->worst.came_ns = came_ns;
		look->worst.sector = blk_rq_pos(rq);
		look->worst.sectors = blk_rq_sectors(rq);
		look->worst.writes = op_is_write(req_op(rq));
	}
}

/* Whether the driver is stopped. */
static bool stall_is_stopped(struct request_queue *q)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		if (test_bit(BLK_MQ_S_STOPPED, &hctx->state))
			return true;
	return blk_queue_quiesced(q);
}

/* Whether there are requests that the elevator has given away and the driver has not taken. */
static bool stall_is_refused(struct request_queue *q)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		if (!rq_list_is_empty(&hctx->dispatch))
			return true;
	return !rq_list_is_empty(&q->requeue_list);
}

/*
 * Whether it isn't the elevator that keeps requests waiting: the driver is stopped, or since the
 * last look it ended none of what it has, and took none of what it was given.
 */
static bool stall_is_excused(struct stall_look *look)
{
	struct request_queue *q = look->stall->q;

	stall_for_each(q, stall_see_inside, look);
	if (stall_is_stopped(q))
		return true;
	return look->stayed >= look->stall->inside && (look->stayed || stall_is_refused(q));
}

/* An urgent request, whose time isn't known, is late if it was the first one at all looks. */
static bool stall_is_urgent_late(struct stall *stall, unsigned int limit_s)
{
	const void *first = stall->urgent ? READ_ONCE(stall->urgent->next) : NULL;

	if (first == stall->urgent)
		first = NULL;
	if (first != stall->first)
		stall->first_came = jiffies;
	stall->first = first;
	return first && time_after(jiffies, stall->first_came + limit_s * HZ);
}

static void stall_trip(struct stall *stall, const struct stall_look *look)
{
	struct request_queue *q = stall->q;
	const char *disk = q->disk ? q->disk->disk_name : "a disk";

	WRITE_ONCE(stall->late, look->late + !look->late);
	if (look->late)
		pr_err("%s: %s: a %s of %u sectors at %llu has waited for %llu s, and %u other requests for over %u s\n",
		       stall->name, disk, look->worst.writes ? "write" : "read",
		       look->worst.sectors, (u64)look->worst.sector,
		       div_u64(look->now_ns - look->worst.came_ns, NSEC_PER_SEC), look->late - 1,
		       READ_ONCE(stall->limit_s));
	else
		pr_err("%s: %s: an urgent request has waited for over %u s\n", stall->name, disk,
		       READ_ONCE(stall->limit_s));
	pr_err("%s: %s: all requests go in the order in which they came; next: dmesg >report, and choose a scheduler for %s again\n",
	       stall->name, disk, disk);
	stall->ops->abandon(stall);
	/* Pairs with stall_next(): until now, requests were on lists that another lock guards. */
	smp_store_release(&stall->takes, true);
	blk_mq_run_hw_queues(q, true);
}

/* Jiffies from one look to the next. */
static unsigned long stall_interval(unsigned int limit_s)
{
	unsigned long interval = limit_s * HZ / STALL_LOOKS;

	return clamp_t(unsigned long, interval, STALL_LOOK_LEAST, STALL_LOOK_MOST);
}

/* With a reference to the queue's usage.  Return: whether the elevator was abandoned. */
static bool stall_look_at(struct stall *stall, unsigned int limit_s)
{
	struct stall_look look = {
		.stall = stall,
		.now_ns = ktime_get_ns(),
		.limit_ns = (u64)limit_s * NSEC_PER_SEC,
	};
	u64 gap_ns = jiffies_to_nsecs(2 * stall_interval(limit_s));
	bool late;

	/* A machine that was paused has clocks that jump. */
	if (stall_is_excused(&look) || look.now_ns > stall->looked_ns + gap_ns) {
		stall->since_ns = look.now_ns;
		stall->first = NULL;
	}
	late = stall_is_urgent_late(stall, limit_s);
	stall_for_each(stall->q, stall_see_late, &look);
	stall->inside = look.inside;
	stall->looked_ns = look.now_ns;
	stall->looked = jiffies;
	if (late || look.late)
		stall_trip(stall, &look);
	return late || look.late;
}

static void stall_timer(struct timer_list *timer)
{
	struct stall *stall = container_of(timer, struct stall, timer);
	unsigned int limit_s = READ_ONCE(stall->limit_s);
	bool abandoned = false;

	if (limit_s && percpu_ref_tryget(&stall->q->q_usage_counter)) {
		abandoned = stall_look_at(stall, limit_s);
		percpu_ref_put(&stall->q->q_usage_counter);
	}
	if (!abandoned)
		mod_timer(timer, jiffies + stall_interval(limit_s));
}

/* Life */

void stall_init(struct stall *stall, struct request_queue *q, const struct elevator_queue *eq,
		const struct stall_ops *ops, const struct list_head *urgent)
{
	stall->q = q;
	stall->ops = ops;
	stall->name = eq->type->elevator_name;
	stall->urgent = urgent;
	stall->limit_s = STALL_DEFAULT_S;
	spin_lock_init(&stall->lock);
	INIT_LIST_HEAD(&stall->list);
	timer_setup(&stall->timer, stall_timer, 0);
	mod_timer(&stall->timer, jiffies + HZ);
}

void stall_exit(struct stall *stall)
{
	timer_shutdown_sync(&stall->timer);
	WARN_ON_ONCE(!list_empty(&stall->list));
}

ssize_t stall_s_show(struct elevator_queue *eq, char *page)
{
	return rq_knob_show(eq, offsetof(struct stall, limit_s), page);
}

ssize_t stall_s_store(struct elevator_queue *eq, const char *page, size_t count)
{
	return rq_knob_store(eq, offsetof(struct stall, limit_s), 0, STALL_MAX_S, page, count);
}

ssize_t stalls_show(struct elevator_queue *eq, char *page)
{
	const struct stall *stall = eq->elevator_data;

	return sysfs_emit(page, "%u\n", READ_ONCE(stall->late));
}

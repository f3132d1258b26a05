// SPDX-License-Identifier: GPL-2.0-only
/* Building blocks of elevators; see request-set.h. */
#include "request-set.h"

/* Whether the merge look-ups know of a request. */
static bool rq_is_hashed(const struct request *rq)
{
	return rq->rq_flags & RQF_HASHED;
}

void rq_set_unindex(struct request_queue *q, struct rq_set *set, struct request *rq)
{
	elv_rb_del(&set->sorted, rq);
	if (rq_is_hashed(rq))
		elv_rqhash_del(q, rq);
	if (q->last_merge == rq)
		q->last_merge = NULL;
}

/*
 * Sorts the requests that were queued since the last call: each is sorted once, and those that
 * were dispatched in between never.
 */
void rq_set_sort_all(struct rq_set *set)
{
	struct request *rq;

	list_for_each_entry_reverse(rq, &set->fifo, queuelist) {
		if (!RB_EMPTY_NODE(&rq->rb_node))
			break;
		elv_rb_add(&set->sorted, rq);
	}
}

/* Enters a waiting request in the tree by sector and in the merge look-ups. */
void rq_set_index(struct request_queue *q, struct rq_set *set, struct request *rq)
{
	if (RB_EMPTY_NODE(&rq->rb_node))
		elv_rb_add(&set->sorted, rq);
	if (!sluice_rq_mergeable(rq) || rq_is_hashed(rq))
		return;
	elv_rqhash_add(q, rq);
	if (!q->last_merge)
		q->last_merge = rq;
}

/*
 * Indexes the requests that were queued since the last look-up: each is indexed once, and those
 * that were dispatched in between never.  Requests sorted before one that can't be merged are
 * passed over, rather than looked at each time.
 */
void rq_set_index_all(struct request_queue *q, struct rq_set *set)
{
	struct request *rq;

	list_for_each_entry_reverse(rq, &set->fifo, queuelist) {
		if (rq_is_hashed(rq) || (!RB_EMPTY_NODE(&rq->rb_node) && !sluice_rq_mergeable(rq)))
			break;
		rq_set_index(q, set, rq);
	}
}

/* The sorted request at @pos or next above it, else the lowest; the set isn't empty. */
struct request *rq_set_from(const struct rq_set *set, sector_t pos)
{
	struct rb_node *node = set->sorted.rb_node;
	struct request *next = NULL;

	while (node) {
		struct request *rq = rb_entry(node, struct request, rb_node);

		if (blk_rq_pos(rq) >= pos) {
			next = rq;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return next ?: rb_entry(rb_first(&set->sorted), struct request, rb_node);
}

/* request_merge(), in the set that @bio would come to. */
int rq_set_front_merge(const struct rq_set *set, struct request **req, struct bio *bio)
{
	struct request *rq = elv_rb_find((struct rb_root *)&set->sorted, bio_end_sector(bio));

	if (!rq || !elv_bio_merge_ok(rq, bio))
		return ELEVATOR_NO_MERGE;
	*req = rq;
	return sluice_front_merge(rq);
}

/* A bio was merged in front of an indexed request: its sector has changed. */
void rq_set_moved(struct rq_set *set, struct request *rq)
{
	elv_rb_del(&set->sorted, rq);
	elv_rb_add(&set->sorted, rq);
}

/* @next, of the same set, is merged into @req and goes away: @req keeps the older place. */
void rq_inherit_place(struct request *req, struct request *next)
{
	if (time_before(rq_came(next), rq_came(req))) {
		list_move(&req->queuelist, &next->queuelist);
		req->fifo_time = next->fifo_time;
	}
}

/*
 * Whether the device takes several ranges in one discard.  The core's merge at
 * insertion then joins queued requests without telling the elevator, and frees
 * one that is still on its lists; a bio's merge is sound.
 */
bool rq_collects(struct request *rq)
{
	return req_op(rq) == REQ_OP_DISCARD && sluice_front_merge(rq) == ELEVATOR_DISCARD_MERGE;
}

/* A knob's show() and store(), for RQ_KNOB(): it lies at @offset in the elevator's data. */

ssize_t rq_knob_show(struct elevator_queue *eq, size_t offset, char *page)
{
	const unsigned int *knob = eq->elevator_data + offset;

	return sysfs_emit(page, "%u\n", READ_ONCE(*knob));
}

ssize_t rq_knob_store(struct elevator_queue *eq, size_t offset, unsigned int least,
		      unsigned int most, const char *page, size_t count)
{
	unsigned int *knob = eq->elevator_data + offset;
	unsigned int value;
	int ret = kstrtouint(page, 10, &value);

	if (ret)
		return ret;
	if (value < least || value > most)
		return -ERANGE;
	WRITE_ONCE(*knob, value);
	return count;
}

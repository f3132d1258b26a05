// SPDX-License-Identifier: GPL-2.0-only
/*
 * The block level: the causes of each request, which pay for it.  See split.h.
 *
 * What a request has of us is in rq->elv.priv[0]: the tag of its causes, and flags.  It begins
 * with the task that got it, or with the causes for which that task works.  When it is inserted, a
 * write's pages tell their causes.  But a commit's are often those of the metadata that it logs:
 * they tell which cause pays when that is written to its place, and nothing of the log.
 */
#include "request.h"

#include "../compat/fs.h"

#include <linux/blk-mq.h>
#include <linux/ioprio.h>

/* Flags, an enum split_use, and what it cost when the device got it, in 256 normalised bytes. */
#define SPLIT_TRACED BIT(0) /* its pages have said what they know */
#define SPLIT_CHARGED BIT(1)
#define SPLIT_INSIDE BIT(3) /* the device has it, or the driver gave it back */
#define SPLIT_USE_SHIFT 4
#define SPLIT_USE_MASK 3U
#define SPLIT_PRICE_SHIFT 8
#define SPLIT_PRICE_MAX ((1U << 24) - 1)

static_assert(sizeof(void *) == sizeof(u64) && SPLIT_USES - 1 <= SPLIT_USE_MASK);

static unsigned long split_bits_of(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[0];
}

/*
 * A request that a plug has in store is prepared for any operation; a journal's alone is known
 * to be one, and a write knows what it does when its pages have been asked.
 */
static enum split_use split_use_of(const struct request *rq)
{
	return op_is_write(req_op(rq)) ? split_bits_of(rq) >> SPLIT_USE_SHIFT & SPLIT_USE_MASK
				       : SPLIT_READS;
}

static void split_set(struct request *rq, u32 tag, enum split_use use, unsigned long flags)
{
	rq->elv.priv[0] = (void *)((unsigned long)tag << SPLIT_TAG_SHIFT |
				   (unsigned long)use << SPLIT_USE_SHIFT | flags);
}

/* Whether split_prepare() has seen it. */
static bool split_is_known(const struct request *rq)
{
	return rq->rq_flags & SLUICE_RQF_SCHED;
}

static noinline void split_prepare_for(struct request *rq)
{
	struct split_account *account;
	bool journal, own;
	u32 tag;

	rcu_read_lock();
	tag = split_tag_of_task(&journal);
	account = split_account_recent();
	own = account && account->id == tag;
	rcu_read_unlock();
	split_set(rq, tag, journal ? SPLIT_LOG : SPLIT_READS, own ? SPLIT_OWN : 0);
}

/* Every instruction counts, as in all that is done for a read. */
void split_prepare(struct request *rq)
{
	struct split_account *account = NULL;

	preempt_disable_notrace();
	if (likely(!atomic_read(&split_proxies_active)))
		account = split_account_hold_recent();
	preempt_enable_notrace();
	if (likely(account))
		split_set(rq, account->id, SPLIT_READS, SPLIT_OWN);
	else
		split_prepare_for(rq);
}
EXPORT_SYMBOL_GPL(split_prepare);

void split_finish_on(struct split_device *device, struct request *rq)
{
	u32 tag = split_request_tag(rq);

	if (split_bits_of(rq) & SPLIT_INSIDE)
		split_costs_done(device, (u32)split_bits_of(rq) >> SPLIT_PRICE_SHIFT);
	/* The request holds it. */
	if (unlikely(!split_is_account(tag) ||
		     !atomic_add_unless(rcu_dereference_raw(split_accounts[tag])->held, -1, 1)))
		causes_put(split_causes, tag);
}
EXPORT_SYMBOL_GPL(split_finish_on);

void split_finish(struct request *rq)
{
	struct split_device *device;

	rcu_read_lock();
	device = split_find(rq->q);
	/* A device goes only when its queue is frozen, so with no request inside. */
	if (!device && WARN_ON_ONCE(split_bits_of(rq) & SPLIT_INSIDE))
		rq->elv.priv[0] = (void *)(split_bits_of(rq) & ~(unsigned long)SPLIT_INSIDE);
	split_finish_on(device, rq);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(split_finish);

/**
 * struct split_trace - the causes of a request, or of a bio on a stack, as its pages are asked
 * @bdev: where it is queued
 * @submitter: the tag of the task that did it, held by the caller
 * @causes: of all pages asked but the last run of equal ones
 * @tag: of that run
 * @refs: how often it is held
 * @bytes: of that run
 * @expected: what of them was expected, and is settled when the run ends
 * @use: what it does, as far as is known
 */
struct split_trace {
	struct block_device *bdev;
	u32 submitter;
	struct causes causes;
	u32 tag;
	u32 refs;
	u32 bytes;
	u32 expected;
	enum split_use use;
};

/* Settles a run. */
static void split_trace_settle(struct split_trace *trace)
{
	if (trace->expected)
		split_settle_below(trace->bdev, trace->tag, trace->expected);
	trace->expected = 0;
}

static void split_trace_flush(struct split_trace *trace)
{
	split_trace_settle(trace);
	if (trace->bytes)
		causes_gather(split_causes, &trace->causes, trace->tag, trace->bytes);
	causes_put_many(split_causes, trace->tag, trace->refs);
	trace->bytes = 0;
	trace->refs = 0;
}

/* @tag: held, given away. */
static void split_trace_add(struct split_trace *trace, u32 tag, u32 bytes, u32 expected)
{
	if (tag != trace->tag) {
		split_trace_flush(trace);
		trace->tag = tag;
	}
	trace->refs++;
	trace->bytes += bytes;
	trace->expected += expected;
}

/* What stays is a tag for all, held once; and what is expected, if there is but one cause. */
static u32 split_trace_end(struct split_trace *trace)
{
	u32 tag = trace->tag;

	if (!trace->causes.count) {
		if (trace->refs > 1)
			causes_put_many(split_causes, tag, trace->refs - 1);
		return tag;
	}
	split_trace_flush(trace);
	tag = causes_tag(split_causes, &trace->causes);
	causes_release(split_causes, &trace->causes);
	return tag;
}

/*
 * Return: whether a page has a tag of its own, held; @expected becomes how much of it was
 * expected.
 */
static bool split_trace_folio(struct split_trace *trace, struct folio *folio, u32 bytes, u32 *tag,
			      u32 *expected)
{
	const struct request_queue *q = bdev_get_queue(trace->bdev);
	struct address_space *mapping = folio_mapping(folio);
	const struct inode *host = mapping ? mapping->host : NULL;

	*expected = 0;
	if (!host)
		return false;
	if (S_ISBLK(host->i_mode)) {
		if (trace->use == SPLIT_LOG)
			return false;
		trace->use = SPLIT_METADATA;
		return split_tag_of_metadata(q, host, folio, bytes, tag);
	}
	if (!split_tag_of_data(q, host, folio, tag, expected))
		return false;
	if (trace->use == SPLIT_LOG)
		trace->use = SPLIT_DATA;
	return true;
}

static void split_trace_segment(struct split_trace *trace, const struct bio_vec *segment)
{
	struct page *page = segment->bv_page + segment->bv_offset / PAGE_SIZE;
	size_t offset = segment->bv_offset % PAGE_SIZE, left = segment->bv_len, bytes;
	u32 tag, expected;

	for (; left; left -= bytes, offset += bytes) {
		struct page *at = page + offset / PAGE_SIZE;
		struct folio *folio = page_folio(at);
		size_t before = folio_page_idx(folio, at) * PAGE_SIZE + offset % PAGE_SIZE;

		bytes = min(left, folio_size(folio) - before);
		if (!split_trace_folio(trace, folio, bytes, &tag, &expected)) {
			tag = trace->submitter;
			causes_get(split_causes, tag);
		}
		split_trace_add(trace, tag, bytes, expected);
	}
}

/* Of a write that isn't a journal's; a page that is metadata knows so itself. */
static enum split_use split_use_of_flags(blk_opf_t flags)
{
	return flags & REQ_META ? SPLIT_METADATA : SPLIT_DATA;
}

/* Begins to ask the pages of a write of a task, or of a log; @tag: the task's, held. */
static void split_trace_begin(struct split_trace *trace, const struct bio *bio, u32 tag,
			      bool journal)
{
	trace->bdev = bio->bi_bdev;
	trace->submitter = tag;
	trace->tag = tag;
	trace->refs = 1;
	trace->use = journal ? SPLIT_LOG : split_use_of_flags(bio->bi_opf);
	causes_get(split_causes, tag);
}

/* Asks the pages of a write.  Under RCU. */
static void split_trace_request(struct request *rq)
{
	struct split_trace trace = {};
	struct req_iterator iter;
	struct bio_vec segment;
	u32 tag;

	if (split_log_tag_of_bio(rq->bio, rq->cmd_flags, &tag)) {
		causes_put(split_causes, split_request_tag(rq));
		split_set(rq, tag, SPLIT_LOG, SPLIT_TRACED);
		return;
	}
	split_trace_begin(&trace, rq->bio, split_request_tag(rq), split_use_of(rq) == SPLIT_LOG);
	rq_for_each_bvec(segment, rq, iter)
		split_trace_segment(&trace, &segment);
	tag = split_trace_end(&trace);
	split_trace_settle(&trace);
	causes_put(split_causes, split_request_tag(rq));
	split_set(rq, tag, trace.use, SPLIT_TRACED);
}

/* The causes of a request of bios that came through a stack.  Under RCU. */
static noinline void split_trace_below(struct split_device *device, struct request *rq)
{
	struct split_trace trace = {};
	enum split_use use;
	struct bio *bio;
	u32 tag;

	split_trace_begin(&trace, rq->bio, split_request_tag(rq), false);
	trace.use = SPLIT_READS;
	for (bio = rq->bio; bio; bio = bio->bi_next) {
		if (!split_ticket_tag_of(bio, &use, &tag)) {
			use = split_use_of_flags(bio->bi_opf);
			tag = trace.submitter;
			causes_get(split_causes, tag);
		}
		trace.use = max(trace.use, use);
		split_trace_add(&trace, tag, bio->bi_iter.bi_size, 0);
		split_ticket_take(device, bio);
	}
	tag = split_trace_end(&trace);
	causes_put(split_causes, split_request_tag(rq));
	split_set(rq, tag, trace.use, SPLIT_TRACED);
}

/*
 * Whether what a task queues is its driver's own: a thread of device-mapper or md works for nobody
 * that is known, and not for a file system.
 */
static bool split_is_layers(const struct bio *bio, u32 tag)
{
	return !tag && current->flags & PF_KTHREAD && !sluice_bdev_is_mounted(bio->bi_bdev);
}

static void split_trace_layers(struct request *rq)
{
	causes_get(split_causes, SPLIT_LAYERS);
	causes_put(split_causes, split_request_tag(rq));
	split_set(rq, SPLIT_LAYERS, split_use_of(rq), SPLIT_TRACED);
}

/* Of data; a discard moves none. */
static u32 split_bytes(const struct request *rq)
{
	return req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE ? blk_rq_bytes(rq) : 0;
}

static bool split_has_tickets(const struct request *rq)
{
	const struct bio *bio;

	for (bio = rq->bio; bio; bio = bio->bi_next)
		if (split_ticket_is_valid(bio))
			return true;
	return false;
}

void split_insert_known(struct split_device *device, struct request *rq)
{
	const unsigned long done = SPLIT_TRACED | SPLIT_CHARGED | SPLIT_INSIDE;

	if (!split_is_known(rq) || split_bits_of(rq) & done || !split_bytes(rq))
		return;
	rcu_read_lock();
	if (READ_ONCE(split_stack_count) && split_has_tickets(rq)) {
		split_trace_below(device, rq);
	} else {
		if (op_is_write(req_op(rq)))
			split_trace_request(rq);
		if (READ_ONCE(device->below) && split_is_layers(rq->bio, split_request_tag(rq)))
			split_trace_layers(rq);
	}
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(split_insert_known);

u32 split_heaviest(u32 tag)
{
	u32 account = 0, weight = 0;
	unsigned int count;
	const struct causes_member *member = causes_members(split_causes, tag, &count);

	for (; count--; member++) {
		if (member->weight <= weight)
			continue;
		account = member->account;
		weight = member->weight;
	}
	return account;
}
EXPORT_SYMBOL_GPL(split_heaviest);

struct split_account *split_request_account(struct request *rq)
{
	u32 id = split_request_id(rq);
	struct split_account *account = split_account_of_id(id);

	if (id && split_is_own_read(rq))
		WRITE_ONCE(account->ioprio, req_get_ioprio(rq));
	return account;
}
EXPORT_SYMBOL_GPL(split_request_account);

bool split_is_log(const struct request *rq)
{
	bool journal = false;
	u32 tag;

	if (!split_is_known(rq) || !op_is_write(req_op(rq)))
		return false;
	if (split_use_of(rq) == SPLIT_LOG ||
	    (split_use_of(rq) == SPLIT_METADATA && rq->cmd_flags & REQ_SYNC))
		return true;
	if (split_proxy_tag(&tag, &journal))
		causes_put(split_causes, tag);
	return journal;
}
EXPORT_SYMBOL_GPL(split_is_log);

/* Notes what a request costs while the device has it.  Return: the same in 256 normalised bytes. */
static __always_inline u32 split_set_price(struct request *rq, u64 cost)
{
	unsigned long price = min_t(u64, cost >> SPLIT_PRICE_SHIFT, SPLIT_PRICE_MAX);

	rq->elv.priv[0] = (void *)(split_bits_of(rq) | SPLIT_INSIDE | price << SPLIT_PRICE_SHIFT);
	return price;
}

/* What a request costs that the device is given. */
static noinline u64 split_cost(struct split_device *device, struct request *rq)
{
	struct cost_terms terms;
	u64 cost;
	struct cost_io io = {
		.at = blk_rq_pos(rq) << SECTOR_SHIFT,
		.bytes = split_bytes(rq),
		.op = op_is_write(req_op(rq)) ? COST_WRITE : COST_READ,
		.flush = rq->cmd_flags & (REQ_PREFLUSH | REQ_FUA) || rq->rq_flags & RQF_FLUSH_SEQ,
	};

	cost = cost_request(split_model(device), &device->head, &io, &terms);
	split_costs_given(device, &terms, split_set_price(rq, cost));
	return cost;
}

/* Under RCU. */
static noinline void split_charge_all(struct split_device *device, u32 tag, u64 cost)
{
	const struct causes_member *member;
	struct causes_split costs;
	unsigned int count;

	member = causes_members(split_causes, tag, &count);
	for (causes_split_begin(&costs, cost, member, count); count--; member++)
		device->ops->charge(device->data, split_account_of_id(member->account),
				    causes_part(&costs, member->weight));
}

static noinline void split_dispatch_any(struct split_device *device, struct request *rq)
{
	unsigned long state = split_bits_of(rq);
	u32 tag = split_request_tag(rq), bytes = split_bytes(rq);
	enum split_use use = split_use_of(rq);
	u64 cost;

	if (!split_is_known(rq) || (state & SPLIT_CHARGED))
		return;
	rq->elv.priv[0] = (void *)(state | SPLIT_CHARGED);
	if (unlikely(!split_is_account(tag) ||
		     !split_note_account(device, split_account_of_id(tag), bytes, use)))
		split_note(device, tag, bytes, use);
	if (!device->ops->charge)
		return;
	cost = split_cost(device, rq);
	if (use == SPLIT_LOG && device->ops->demand)
		cost = split_cost_of_log(device, bytes, cost);
	if (likely(split_is_account(tag)))
		device->ops->charge(device->data, split_account_of_id(tag), cost);
	else
		split_charge_all(device, tag, cost);
}

/*
 * The policy's lock keeps the processor, which is as good as RCU.  A read of flash of which nothing
 * is learned takes few instructions.
 */
void split_dispatch(struct split_device *device, struct request *rq)
{
	const blk_opf_t plain = REQ_OP_MASK | REQ_PREFLUSH | REQ_FUA;
	u32 tag = split_request_tag(rq);
	struct split_account *account;
	u64 cost;

	if (!split_rests(device) || (rq->cmd_flags & plain) != REQ_OP_READ || !split_is_known(rq) ||
	    split_bits_of(rq) & SPLIT_CHARGED || !split_is_account(tag)) {
		split_dispatch_any(device, rq);
		return;
	}
	account = split_account_of_id(tag);
	if (!split_note_account(device, account, blk_rq_bytes(rq), SPLIT_READS)) {
		split_dispatch_any(device, rq);
		return;
	}
	cost = cost_flash_read(split_model(device), blk_rq_bytes(rq));
	rq->elv.priv[0] = (void *)(split_bits_of(rq) | SPLIT_CHARGED);
	atomic64_add(SPLIT_INSIDE_ONE + split_set_price(rq, cost), &device->inside);
	device->ops->charge(device->data, account, cost);
}
EXPORT_SYMBOL_GPL(split_dispatch);

/* A request whose pages have been asked doesn't grow by pages that haven't. */
bool split_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	bool journal;
	u32 tag;

	if (!split_is_known(rq))
		return true;
	if (split_bits_of(rq) & SPLIT_TRACED)
		return false;
	rcu_read_lock();
	tag = split_tag_of_task(&journal);
	rcu_read_unlock();
	causes_put(split_causes, tag);
	return split_request_tag(rq) == tag;
}
EXPORT_SYMBOL_GPL(split_allow_merge);

/* Stacks */

bool split_is_below(const struct split_device *device)
{
	return READ_ONCE(device->below);
}
EXPORT_SYMBOL_GPL(split_is_below);

bool split_works_for_all(const struct split_device *device)
{
	return (current->flags & (PF_KTHREAD | PF_WQ_WORKER)) == PF_KTHREAD &&
	       split_is_below(device) && !split_is_proxy();
}
EXPORT_SYMBOL_GPL(split_works_for_all);

/* Notes the I/O priority of a task that works for itself; its requests may come from others. */
static void split_note_ioprio(const struct bio *bio)
{
	struct split_account *account = split_account_recent();
	unsigned int ioprio = bio->bi_ioprio;

	if (account && account->id && !split_is_proxy())
		WRITE_ONCE(account->ioprio,
			   IOPRIO_PRIO_CLASS(ioprio) ? ioprio : get_current_ioprio());
}

/* Finds the causes of a bio that a task queues on a disk without requests. */
static noinline void split_trace_bio(struct bio *bio, unsigned int stack)
{
	struct split_trace trace = {};
	struct bvec_iter iter;
	struct bio_vec segment;
	bool journal;
	u32 tag = split_tag_of_task(&journal), log;

	split_note_ioprio(bio);
	split_trace_begin(&trace, bio, tag, journal);
	if (!op_is_write(bio_op(bio))) {
		trace.use = SPLIT_READS;
	} else if (split_log_tag_of_bio(bio, bio->bi_opf, &log)) {
		split_trace_add(&trace, log, 0, 0);
		trace.use = SPLIT_LOG;
	} else {
		bio_for_each_bvec(segment, bio, iter)
			split_trace_segment(&trace, &segment);
	}
	causes_put(split_causes, tag);
	tag = split_trace_end(&trace);
	if (split_is_layers(bio, tag)) {
		causes_put(split_causes, tag);
		tag = SPLIT_LAYERS;
		causes_get(split_causes, tag);
	}
	if (trace.expected > SPLIT_TICKET_MOST)
		split_trace_settle(&trace);
	split_ticket_write(bio, stack, tag, trace.use, trace.expected);
}

/* A bio is queued on a disk; one of a stack has its ticket from the uppermost one. */
static void split_at_queue(void *unused, struct bio *bio)
{
	int stack;

	if (likely(!bio->bi_bdev->bd_disk->fops->submit_bio) || !bio->bi_iter.bi_size ||
	    (bio_op(bio) != REQ_OP_READ && bio_op(bio) != REQ_OP_WRITE) ||
	    split_ticket_is_valid(bio))
		return;
	preempt_disable_notrace();
	stack = split_stack_of(bio->bi_bdev);
	if (stack >= 0)
		split_trace_bio(bio, stack);
	preempt_enable_notrace();
}

#ifdef SLUICE_FLUSHES_BYPASS
/* A request for a bio of the current task: a write with a flush, which no policy will see. */
static void split_at_request(void *unused, struct bio *bio)
{
	enum split_use use = split_use_of_flags(bio->bi_opf), below;
	struct split_device *device;
	bool journal = false;
	u32 tag;

	if (!op_is_flush(bio->bi_opf) || !bio->bi_iter.bi_size)
		return;
	preempt_disable_notrace();
	device = split_find(bdev_get_queue(bio->bi_bdev));
	if (device) {
		if (split_ticket_tag_of(bio, &below, &tag))
			use = below;
		else if (split_log_tag_of_bio(bio, bio->bi_opf, &tag))
			journal = true;
		else
			tag = split_tag_of_task(&journal);
		split_note(device, tag, bio->bi_iter.bi_size, journal ? SPLIT_LOG : use);
		split_ticket_take(device, bio);
		causes_put(split_causes, tag);
	}
	preempt_enable_notrace();
}
#endif

static void split_tell_flush(struct request *rq, enum split_flush what)
{
	struct split_device *device;

	rcu_read_lock();
	device = split_find(rq->q);
	if (device) {
		if (what != SPLIT_FLUSH_WRITTEN)
			split_costs_flush(device, what);
		if (READ_ONCE(device->state) == SPLIT_ATTACHED && device->ops->flush)
			device->ops->flush(device->data, what);
	}
	rcu_read_unlock();
}

static void split_at_issue(void *unused, struct request *rq)
{
	if (req_op(rq) == REQ_OP_FLUSH)
		split_tell_flush(rq, SPLIT_FLUSH_BEGINS);
}

/*
 * A write with flushes is complete with its data, and once more, with 0 bytes, after the last
 * flush.  Other writes that complete with 0 bytes have a part left, or no bio any longer.
 */
static void split_at_complete(void *unused, struct request *rq, blk_status_t error,
			      unsigned int bytes)
{
	if (req_op(rq) == REQ_OP_FLUSH)
		split_tell_flush(rq, SPLIT_FLUSH_ENDS);
	else if (unlikely(!bytes && req_op(rq) == REQ_OP_WRITE && rq->bio && !blk_rq_bytes(rq)))
		split_tell_flush(rq, SPLIT_FLUSH_WRITTEN);
}

/* What the driver had no room for, and refused, hasn't begun. */
static void split_at_requeue(void *unused, struct request *rq)
{
	if (req_op(rq) == REQ_OP_FLUSH && blk_mq_request_started(rq))
		split_tell_flush(rq, SPLIT_FLUSH_BEGINS_ANEW);
}

/*
 * md hands some bios on to a disk as they are.  What goes to one without a policy ends here, since
 * nothing more is heard of it.
 */
static void split_at_remap(void *unused, struct bio *bio, dev_t dev, sector_t from)
{
	if (likely(!split_ticket_is_owned(bio)) || bio->bi_bdev->bd_disk->fops->submit_bio)
		return;
	preempt_disable_notrace();
	if (!split_find(bdev_get_queue(bio->bi_bdev)))
		split_ticket_return(bio);
	preempt_enable_notrace();
}

struct split_probe split_block_probes[] = {
	{ .name = "block_bio_remap", .function = split_at_remap },
	{ .name = "block_bio_queue", .function = split_at_queue },
	{ .name = "block_rq_issue", .function = split_at_issue, .more = SPLIT_FLUSHES },
	{ .name = "block_rq_complete", .function = split_at_complete, .more = SPLIT_FLUSHES },
	{ .name = "block_rq_requeue", .function = split_at_requeue, .more = SPLIT_FLUSHES },
#ifdef SLUICE_FLUSHES_BYPASS
	{ .name = "block_getrq", .function = split_at_request },
#endif
	{},
};

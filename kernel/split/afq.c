// SPDX-License-Identifier: GPL-2.0-only
/*
 * AFQ: actually fair queuing, at two levels with one pass for both
 *
 * Each account (split.h) is a client of a stride scheduler (stride.h).  Its weight is its
 * cgroup's, or that of its I/O priority's level: 8 - level.  Its pass advances by what its I/O
 * costs the device, at whichever layer that I/O was caused.
 *
 *	at the block level	reads and direct writes: no journal waits for either, so
 *				they wait here for their account's turn
 *	at the entry gates	writes, stores to mapped files, fsyncs, changes of names: below
 *				the file system they would be entangled with those of others
 *	not at all		writes of the page cache and the journal: an fsync of any
 *				account may need them.  They go at once, before all else, and
 *				are only charged
 *
 * Reads.  On a disk that seeks, an account has the device to itself for a turn.  The turn ends
 * when the account was charged a quantum: the seek between two accounts' data is then a small
 * part of the cost, and all pay the same for it.  On a device without seeks, and for accounts
 * that read at random, requests are dispatched one by one.  A window limits the reads inside the
 * device: enough to keep it busy, few enough to leave a choice.  The account with the lowest pass
 * is next.  A synchronous reader has no request queued at the moment its turn comes.  If its mean
 * think time is short, the device is kept idle for it for a moment.  It isn't kept if the next
 * account is ahead of it by no more than max_lag_kib.
 *
 * Demand.  An account may ask for less than its share; the device is not kept idle for it then.
 * On flash the next account is served although it is ahead, as long as few requests are inside:
 * fewer if its weight is lower.  The account that was behind is still served first when its next
 * request comes, and loses the share that it didn't use.  The device's rate, and the time of a
 * request that is alone, are learned from its reads.
 *
 * Calls.  A call is admitted if its account is ahead of the furthest-behind account by no more than
 * max_lag_kib; a write to the page cache, also by no more than the device does in two ticks.  Only
 * present accounts count.  An account is present when it has something waiting, inside the device
 * or inside a call, now or a moment ago, and its calls have a cost.  Between its calls it is
 * present only if it spends more of its time inside calls than outside.  Dirty data counts at once
 * with its estimated cost, and with its real cost when it is written; a call inside counts for a
 * part of max_lag_kib.  The gates are closed while two accounts are active.  While the device is
 * idle all calls go.
 *
 * No call waits for another call's return.  An account that stays inside a call for AFQ_INSIDE_MS,
 * and makes less than AFQ_PROGRESS dirty, isn't waited for any longer.  The others' passes come up
 * to that of a held account.  An account that doesn't return is forgotten after a moment.
 *
 * Bursts.  A commit waits for the dirty data that it depends on, other processes' data included.
 * So an account's dirty data is limited to what the device writes in a burst, even while it is
 * alone, and that of a class to two bursts.  All of IDLE together has a part of a burst, and beside
 * other classes at most max_lag_kib, so that many short-lived processes leave no more behind than
 * one.  Above the limit the next write or store is held, and its file is written back in parts;
 * if the file has nothing dirty, others of the file system are.  The device's time is that of the
 * cost model, corrected by what was learned of the device and of the account's writes.
 *
 * Classes.  RT goes before BE.  IDLE goes when neither had anything to do for AFQ_QUIET_MS.  But
 * one request and one call of each waiting class go each starvation_ms.
 *
 * Source: the split-level paper, sections 3.2 and 5.1; its code ignored costs, this doesn't.
 * docs/afq.md has the model, and where it departs from the paper.
 */
#include "../elevator/request-set.h"
#include "calls.h"
#include "guess.h"
#include "stride.h"

#include <linux/bitops.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#define CREATE_TRACE_POINTS
#include "afq-trace.h"

/* A quantum takes a disk 100 ms: the seek to the data is less than a tenth of it. */
#define AFQ_QUANTUM_DISK_KIB 12288
#define AFQ_QUANTUM_FLASH_KIB 0

/* Readers that only read are back sooner than this; a seek takes longer. */
#define AFQ_THINK_TIME_DISK_US 8000
#define AFQ_THINK_TIME_FLASH_US 1000

/* A few random accesses: with less, calls that could share a commit would go one by one. */
#define AFQ_MAX_LAG_DISK_KIB 4096
#define AFQ_MAX_LAG_FLASH_KIB 512

/* One random read a second for IDLE takes 1 % of a disk's time. */
#define AFQ_STARVATION_MS 1000

/*
 * The first commit of a new process waits for a burst at most.  It is enough to write in large
 * pieces, which must be larger on a disk that seeks, and to copy a small file at the speed of
 * memory.
 */
#define AFQ_BURST_DISK_MS 1000
#define AFQ_BURST_FLASH_MS 500

/*
 * A burst is in proportion to the weight, up to this one; the knob's is at the default weight.
 * IDLE in all has one part in so many.  A class may have so many bursts in all: beyond that,
 * accounts of it with more than max_lag_kib dirty are held.
 */
#define AFQ_BURST_WEIGHT (2 * STRIDE_WEIGHT)
#define AFQ_IDLE_BURST 4
#define AFQ_BURSTS 2

/* Larger values are taken for mistakes. */
#define AFQ_KIB_MAX 1048576
#define AFQ_THINK_TIME_US_MAX 100000
#define AFQ_STARVATION_MS_MAX 10000
#define AFQ_BURST_MS_MAX 100000

/*
 * Limit of the reads inside the device, normalised bytes.  On a disk: some seeks.  On flash: a
 * default, and once the device is known, so many times what it does in the time of a request that
 * is alone.  A drive of many dies leaves a third of them idle with as many random requests as dies;
 * with four times as many, a fifth at most.
 */
#define AFQ_WINDOW_DISK ((u64)SZ_8M)
#define AFQ_WINDOW_FLASH ((u64)SZ_1M)
#define AFQ_WINDOW_PART 4

/*
 * While an account is behind and absent, accounts ahead of it fill only this part of the window:
 * it then waits for less.  Accounts of lower weight fill half of what the device does in the time
 * of one request: a sequential reader with one large request keeps the device to itself, one with
 * small requests doesn't.
 */
#define AFQ_AHEAD_PART 2
#define AFQ_LOWER_PART 8

/*
 * Accounts of lower weight wait even while nothing is inside, for one whose think time is within
 * this part of the time of a request that is alone: a fifth of the device's time at most.
 */
#define AFQ_THINK_PART 4

/* The device's rate is measured over this time: 100 requests of the largest size, or more. */
#define AFQ_RATE_NS (100 * (u64)NSEC_PER_MSEC)

/* The best rate decays by this part in each such time: by half in about a minute. */
#define AFQ_RATE_FORGET 1024

/* For so long after another reader's request, the window limits the requests of a single one. */
#define AFQ_SHARED_MS 250

/* A call inside counts for this part of max_lag_kib until it returns. */
#define AFQ_CALL_PART 8

/*
 * How long a call may make others wait, a commit of the journal on a slow disk included.  It may
 * do so for as long again if it has made this much dirty meanwhile, normalised bytes: 1 % of what a
 * disk does.
 */
#define AFQ_INSIDE_MS 2000
#define AFQ_PROGRESS ((u64)SZ_1M)

/* The next call within this time after a call's return still counts as part of a loop. */
#define AFQ_BACK_MS 20

/* The times inside and outside calls that are remembered add up to this, at most. */
#define AFQ_TIMES_NS ((u64)NSEC_PER_SEC)

/*
 * An account whose calls have cost nothing for so long isn't waited for.  The kernel makes a
 * process that dirties too much pause for 200 ms at a time.
 */
#define AFQ_PAYS_MS 250

/* The device is idle if no tick has seen it at work for so long. */
#define AFQ_REST_MS 30

/* IDLE waits for so long after the last I/O of a class above it. */
#define AFQ_QUIET_MS 40

/* An account that has left is remembered for so long, and longer while it has dirty data. */
#define AFQ_MEMORY_MS 1000

/*
 * The tick's interval, the clients looked at in a tick, and the held calls that are told in a tick
 * that they are held.  All 1024 clients take 160 ms.
 */
#define AFQ_TICK_MS 10
#define AFQ_LOOKS 64U
#define AFQ_ANSWERS 256U

/*
 * A held writer goes on after two ticks: one has a part written back, the next one lets the call
 * go.  Clients that were given less than what the device does in that time leave it idle.
 */
#define AFQ_ROUND_NS (2 * AFQ_TICK_MS * (u64)NSEC_PER_MSEC)

/* Held calls that are let go at a time; others go with the next tick. */
#define AFQ_LET_GO 64U

/*
 * A held writer's file is written back in parts.  Beside other accounts a part is max_lag_kib, so
 * that a commit doesn't wait for long, and in the account's turn at least a round; else it is half
 * a burst, so that seeks are a small share.  Beside others the next part of a class follows after a
 * rest of so many times the last part's time, twice that on a disk, for its seeks: 6 % of the
 * device, or 1 % for IDLE.  A part has bounds, pages.  No more of a file's pages are counted.
 */
#define AFQ_PART_REST 16
#define AFQ_PART_REST_IDLE 100
#define AFQ_PART_LEAST 16U
#define AFQ_PART_MOST 16384U
#define AFQ_COUNTED 1024U

/* A writer whose class still has too much dirty is let go after so many times starvation_ms. */
#define AFQ_LATE 8U

/* Writers looked at in a tick. */
#define AFQ_WRITERS 8U

/* An account that isn't kept waiting has a credit of so many times quantum and max_lag_kib. */
#define AFQ_CREDIT 16

/* A request further than this from its client's last one is a seek, sectors. */
#define AFQ_NEAR 2048U

/* A client reads at random if more than so many of its last eight requests were seeks. */
#define AFQ_SEEKS 4

/* Each new value has this weight in a mean time: 1/8. */
#define AFQ_MEAN_SHIFT 3

/* Writes leave this part of the tags to reads. */
#define AFQ_READ_PART 4

/* The gates closed while accounts compete, and those of calls that a burst may limit. */
#define AFQ_GATES (SPLIT_ALL | BIT(SPLIT_STORE))
#define AFQ_DIRTIES (BIT(SPLIT_WRITE) | BIT(SPLIT_STORE))

/* Lines of a stride scheduler; in the first two, clients wait to be chosen. */
enum afq_line {
	AFQ_QUEUED, /* requests wait */
	AFQ_HELD, /* calls wait */
	AFQ_PLACES,
	AFQ_ABSENT = AFQ_PLACES, /* requests are inside the device, or expected in a moment */
	AFQ_THERE, /* present: others may have to wait for it */
};

/* Where a request is: the low bits of rq->elv.priv[1]. */
enum afq_state {
	AFQ_OUTSIDE, /* not ordered by the policy, or not inserted */
	AFQ_WAITING, /* in its client's list */
	AFQ_ISSUED, /* inside the device, with its client and cost above */
};

#define AFQ_STATE_BITS 2
#define AFQ_ID_BITS 10
#define AFQ_COST_SHIFT 10

static_assert(SPLIT_ACCOUNTS <= 1 << AFQ_ID_BITS && sizeof(void *) == sizeof(u64));

/**
 * struct afq_client - an account on this device
 * @stride: its pass
 * @account: the account, with a reference; NULL: the place is free
 * @ioprio: the account's, for @class and the weight
 * @class: class of I/O priority
 * @known: in afq_data.known
 * @until: jiffies; with nothing to do, it stays joined until then; or when it left
 * @paid: jiffies when it last cost something, or was let go
 * @charged: what it has cost since it was first seen, normalised bytes
 * @progress: what it has made dirty since @until was last extended
 * @requests: waiting requests, in order
 * @queued: how many
 * @issued: requests that the policy orders, inside the device
 * @calls: held calls
 * @guess: how far its expected costs were off
 * @bursts: it, or its class, has as much dirty data as it may
 * @writer: in afq_data.writers, while its first call waits for writeback
 * @inside: calls that have gone and not returned
 * @seen_ns: when the next two were last updated
 * @inside_ns: how long it was inside calls, or held, lately
 * @outside_ns: how long it was not
 * @ahead_of: it left the device unused, and others went ahead of their share
 * @next_sector: where its last request ended
 * @seeks: bit per request, the last one lowest: it was a seek
 * @left_ns: when its last request left the device; 0: it has some
 * @think_ns: its mean think time: from @left_ns until its next request
 */
struct afq_client {
	struct stride_client stride;
	struct split_account *account;
	unsigned short ioprio;
	enum rq_class class;
	struct list_head known;
	unsigned long until;
	unsigned long paid;
	u64 charged;
	u64 progress;
	struct list_head requests;
	unsigned int queued;
	unsigned int issued;
	struct held_calls calls;
	struct guess guess;
	bool bursts;
	struct list_head writer;
	unsigned int inside;
	u64 seen_ns;
	u64 inside_ns;
	u64 outside_ns;
	bool ahead_of;
	sector_t next_sector;
	u8 seeks;
	u64 left_ns;
	u64 think_ns;
};

/**
 * struct afq_drain - what is written back for the writers of a class, in parts
 * @wrote: jiffies when writeback of a part was last started or seen
 * @part_ns: how long the device takes for that part
 * @beside: it was written beside other accounts' I/O
 * @expected: cost expected of the class's dirty data, when last looked at
 */
struct afq_drain {
	unsigned long wrote;
	u64 part_ns;
	bool beside;
	u64 expected;
};

/**
 * struct afq_data - one queue's scheduler
 * @lock: guards all that follows, unless stated otherwise; taken from any context.  Only locks
 *	  that wake a task are taken inside it
 * @q: the queue
 * @device: for split.h's functions
 * @stride: passes, by class
 * @client: by account's id
 * @heaps: of @stride's lines
 * @urgent: requests that no policy may delay, in order
 * @writes: writes of the page cache and the journal, in order
 * @known: clients with an account: those that have joined, and some that have left
 * @writers: clients whose first call waits for writeback
 * @bursts: clients that have as much dirty data as they may; read without the lock
 * @drain: what is written back for the writers of each class
 * @queued: requests in clients' lists; read without the lock
 * @held_calls: calls in clients' lists
 * @joined: clients that have joined
 * @holding: queued requests are held; read without the lock
 * @turn: the client that has the device to itself, or NULL
 * @used: what it was charged in this turn
 * @window: costs of reads inside the device
 * @reader: the client that had the last request
 * @shared: jiffies when a client other than @reader had a request
 * @done: costs of what the device has done since @since_ns
 * @since_ns: a time
 * @best: the rate that it can do, normalised bytes a second
 * @costs_changed: see split_costs_changed(), when @best was begun
 * @alone: a read that has been the only request inside since it went, or NULL
 * @alone_began_ns: when that was
 * @alone_ns: mean time of such reads
 * @others: jiffies when RT or BE was last active
 * @went: jiffies when a class was last served from a line, or began to wait in an empty one
 * @cost: what split_dispatch() has charged so far
 * @writes_back: @cost is of the page cache's or the journal's write
 * @requests: number of all unfinished requests; changes without the lock
 * @worked: jiffies when the device was last seen at work; changes without the lock
 * @timer: ends an idle wait of the device
 * @tick: does all that depends on jiffies, while @known isn't empty
 * @quantum: KiB, normalised; the knob of this name, like those that follow; knobs are
 *	     read and written without the lock
 * @think_time_us: the knob
 * @max_lag_kib: normalised, at the default weight
 * @starvation_ms: the knob
 * @burst_ms: ms; 0: no limit
 */
struct afq_data {
	spinlock_t lock; /* guards all below but what says otherwise above */
	struct request_queue *q;
	struct split_device *device;
	struct stride stride[RQ_CLASSES];
	struct afq_client *client;
	struct stride_client **heaps;
	struct list_head urgent;
	struct list_head writes;
	struct list_head known;
	struct list_head writers;
	unsigned int bursts;
	struct afq_drain drain[RQ_CLASSES];
	unsigned int queued;
	unsigned int held_calls;
	unsigned int joined;
	bool holding;
	struct afq_client *turn;
	u64 used;
	u64 window;
	const struct afq_client *reader;
	unsigned long shared;
	u64 done;
	u64 since_ns;
	u64 best;
	unsigned int costs_changed;
	const struct request *alone;
	u64 alone_began_ns;
	u64 alone_ns;
	unsigned long others;
	unsigned long went[RQ_CLASSES][AFQ_PLACES];
	u64 cost;
	bool writes_back;
	atomic_t requests;
	unsigned long worked;
	struct hrtimer timer;
	struct timer_list tick;
	unsigned int quantum;
	unsigned int think_time_us;
	unsigned int max_lag_kib;
	unsigned int starvation_ms;
	unsigned int burst_ms;
};

static u64 afq_bytes(const unsigned int *kib)
{
	return (u64)READ_ONCE(*kib) << 10;
}

static bool afq_since(unsigned long when, unsigned int ms)
{
	return time_after_eq(jiffies, when + msecs_to_jiffies(ms));
}

static unsigned long afq_in(unsigned int ms)
{
	return jiffies + msecs_to_jiffies(ms);
}

/* Clients */

static struct stride *afq_stride(struct afq_data *afq, const struct afq_client *client)
{
	return &afq->stride[client->class];
}

static struct afq_client *afq_first(const struct afq_data *afq, enum rq_class class,
				    enum afq_line line)
{
	struct stride_client *first = stride_first(&afq->stride[class], line);

	return first ? container_of(first, struct afq_client, stride) : NULL;
}

static void afq_wait(struct afq_data *afq, struct afq_client *client, enum afq_line line)
{
	struct stride *stride = afq_stride(afq, client);

	if (line < AFQ_PLACES && !stride->line[line].count)
		afq->went[client->class][line] = jiffies;
	stride_wait(stride, &client->stride, line);
}

static void afq_unwait(struct afq_data *afq, struct afq_client *client, enum afq_line line)
{
	stride_unwait(afq_stride(afq, client), &client->stride, line);
}

/* Gates are closed while there is something to decide. */
static void afq_set_gates(struct afq_data *afq)
{
	struct split_device *device = READ_ONCE(afq->device);
	unsigned int kinds = afq->bursts ? AFQ_DIRTIES : SPLIT_NONE;

	/* Calls that come while the device is being attached find open gates. */
	if (device)
		split_close(device, afq->joined > 1 || afq->held_calls ? AFQ_GATES : kinds);
}

/* A client has something to do; it stays joined until @until at least. */
static void afq_stay(struct afq_data *afq, struct afq_client *client, unsigned long until)
{
	lockdep_assert_held(&afq->lock);
	if (client->class != RQ_IDLE)
		afq->others = jiffies;
	if (client->stride.joined) {
		if (time_after(until, client->until))
			client->until = until;
		return;
	}
	client->until = until;
	stride_join(afq_stride(afq, client), &client->stride);
	afq->joined++;
	afq_set_gates(afq);
}

/* A joined client becomes present: its credit for the time before is limited to max_lag_kib. */
static void afq_be_there(struct afq_data *afq, struct afq_client *client)
{
	if (client->stride.at[AFQ_THERE])
		return;
	stride_limit_credit(afq_stride(afq, client), &client->stride, afq_bytes(&afq->max_lag_kib));
	afq_wait(afq, client, AFQ_THERE);
}

static void afq_leave_all(struct afq_data *afq, struct afq_client *client)
{
	lockdep_assert_held(&afq->lock);
	if (client->class != RQ_IDLE)
		afq->others = jiffies;
	if (afq->turn == client)
		afq->turn = NULL;
	afq_unwait(afq, client, AFQ_ABSENT);
	afq_unwait(afq, client, AFQ_THERE);
	stride_leave(afq_stride(afq, client), &client->stride);
	client->until = jiffies;
	afq->joined--;
	afq_set_gates(afq);
}

static bool afq_has_something(const struct afq_client *client)
{
	return client->queued || client->issued || !held_calls_none(&client->calls) ||
	       time_before(jiffies, client->until);
}

/* Changes a client's class; it keeps its places in the lines. */
static void afq_set_class(struct afq_data *afq, struct afq_client *client, enum rq_class class)
{
	struct stride *from = afq_stride(afq, client);
	bool joined = client->stride.joined, waited[STRIDE_LINES];
	unsigned int line;

	for (line = 0; line < STRIDE_LINES; line++) {
		waited[line] = client->stride.at[line];
		afq_unwait(afq, client, line);
	}
	stride_leave(from, &client->stride);
	client->class = class;
	stride_move(from, afq_stride(afq, client), &client->stride);
	if (!joined)
		return;
	stride_join(afq_stride(afq, client), &client->stride);
	for (line = 0; line < STRIDE_LINES; line++)
		if (waited[line])
			afq_wait(afq, client, line);
}

static void afq_set_ioprio(struct afq_data *afq, struct afq_client *client,
			   const struct split_account *account, unsigned short ioprio)
{
	enum rq_class class = rq_class_of(ioprio);
	bool level = account->tgid || !account->id; /* neither a cgroup nor device-mapper's */
	unsigned int weight = level ? stride_level_weight(rq_level(ioprio)) : account->weight;

	client->ioprio = ioprio;
	if (class != client->class)
		afq_set_class(afq, client, class);
	stride_set_weight(afq_stride(afq, client), &client->stride, weight);
}

/* An account becomes known.  The reference keeps its id, so that what it owes isn't lost. */
static void afq_meet(struct afq_data *afq, struct afq_client *client, struct split_account *account)
{
	if (list_empty(&afq->known))
		mod_timer(&afq->tick, afq_in(AFQ_TICK_MS));
	list_add_tail(&client->known, &afq->known);
	client->account = split_account_get(account);
	client->class = RQ_BE;
	client->until = jiffies;
	client->paid = jiffies - msecs_to_jiffies(AFQ_PAYS_MS);
	client->charged = 0;
	client->progress = 0;
	client->seen_ns = 0;
	client->inside_ns = 0;
	client->outside_ns = 0;
	client->ahead_of = false;
	client->guess = (struct guess){ 0 };
	client->bursts = false;
	client->seeks = 0;
	client->left_ns = 0;
	client->think_ns = 0;
	stride_client_init(&afq->stride[RQ_BE], &client->stride, STRIDE_WEIGHT);
	afq_set_ioprio(afq, client, account, READ_ONCE(account->ioprio));
}

static void afq_set_bursts(struct afq_data *afq, struct afq_client *client, bool bursts)
{
	if (bursts == client->bursts)
		return;
	client->bursts = bursts;
	WRITE_ONCE(afq->bursts, afq->bursts + (bursts ? 1 : -1));
	afq_set_gates(afq);
}

static void afq_forget(struct afq_data *afq, struct afq_client *client)
{
	afq_set_bursts(afq, client, false);
	list_del_init(&client->known);
	split_account_put(client->account);
	client->account = NULL;
}

static struct afq_client *afq_client_of(struct afq_data *afq, struct split_account *account)
{
	struct afq_client *client = &afq->client[account->id];
	unsigned short ioprio = READ_ONCE(account->ioprio);

	lockdep_assert_held(&afq->lock);
	if (!client->account)
		afq_meet(afq, client, account);
	else if (client->ioprio != ioprio)
		afq_set_ioprio(afq, client, account, ioprio);
	return client;
}

static void afq_serve(struct afq_data *afq, struct afq_client *client, enum afq_line line)
{
	afq->went[client->class][line] = jiffies;
	stride_serve(afq_stride(afq, client), &client->stride);
}

/* Whether a class has waited at a place for as long as starvation_ms allows. */
static bool afq_overdue(const struct afq_data *afq, enum rq_class class, enum afq_line line)
{
	return class != RQ_RT && afq->stride[class].line[line].count &&
	       afq_since(afq->went[class][line], READ_ONCE(afq->starvation_ms));
}

/* Whether no class above IDLE has anything to do. */
static bool afq_is_quiet(const struct afq_data *afq)
{
	return !afq->stride[RQ_RT].joined && !afq->stride[RQ_BE].joined &&
	       afq_since(afq->others, AFQ_QUIET_MS);
}

/* Calls */

/* How far a client is ahead of the furthest-behind one, bytes at the default weight. */
static s64 afq_lead(const struct afq_data *afq, const struct afq_client *client)
{
	const struct afq_client *last = afq_first(afq, client->class, AFQ_THERE);

	return last ? stride_lead(&client->stride, &last->stride) : 0;
}

/* How long the device takes for so much cost. */
static u64 afq_ns(const struct afq_data *afq, u64 cost)
{
	return split_cost_ns(afq->device, cost);
}

static bool afq_rt_is_busy(const struct afq_data *afq)
{
	const struct stride_line *line = afq->stride[RQ_RT].line;

	return line[AFQ_QUEUED].count || line[AFQ_HELD].count || line[AFQ_ABSENT].count;
}

static bool afq_device_rests(const struct afq_data *afq)
{
	return !atomic_read(&afq->requests) && afq_since(READ_ONCE(afq->worked), AFQ_REST_MS);
}

/* Whether a call makes data dirty that is written later. */
static bool afq_dirties(const struct split_call *call)
{
	return BIT(call->kind) & AFQ_DIRTIES && !call->direct && call->inode;
}

/*
 * Whether a client is too far ahead for a call.  A write costs the device time only when a part is
 * written back.
 */
static bool afq_is_ahead(const struct afq_data *afq, const struct afq_client *client,
			 const struct split_call *call)
{
	s64 lead = afq_lead(afq, client);

	return lead > (s64)afq_bytes(&afq->max_lag_kib) &&
	       (!afq_dirties(call) || !READ_ONCE(afq->device) || afq_ns(afq, lead) > AFQ_ROUND_NS);
}

/* Why a client's next call must wait; NULL: it may go. */
static const char *afq_reason(const struct afq_data *afq, const struct afq_client *client,
			      const struct split_call *call)
{
	if (client->class == RQ_IDLE && !afq_is_quiet(afq))
		return "idle";
	if (afq_device_rests(afq))
		return NULL;
	if (client->class == RQ_BE && afq_rt_is_busy(afq))
		return "class";
	return afq_is_ahead(afq, client, call) ? "share" : NULL;
}

/* How long it will take for a client's dirty data, by what its last writeback did cost. */
static u64 afq_dirty_ns(const struct afq_data *afq, const struct afq_client *client, u64 cost)
{
	return afq_ns(afq, guess_cost(&client->guess, cost));
}

static u64 afq_max_lag_ns(const struct afq_data *afq)
{
	return afq_ns(afq, afq_bytes(&afq->max_lag_kib));
}

/* How much dirty data a client or its class may have, as the time that the device takes for it. */
static u64 afq_burst_ns(const struct afq_data *afq, const struct afq_client *client)
{
	u64 burst_ns = READ_ONCE(afq->burst_ms) * (u64)NSEC_PER_MSEC;

	if (client->class != RQ_IDLE)
		return mul_u64_u32_div(burst_ns, min(client->stride.weight, AFQ_BURST_WEIGHT),
				       STRIDE_WEIGHT);
	burst_ns = max(burst_ns / AFQ_IDLE_BURST, 1ULL);
	return afq_is_quiet(afq) ? burst_ns : min(burst_ns, afq_max_lag_ns(afq));
}

/* Whether a client, or its class, has as much dirty data as it may. */
static bool afq_has_burst(struct afq_data *afq, const struct afq_client *client)
{
	u64 expected = client->stride.expected, all = afq_stride(afq, client)->expected;
	u64 burst_ns = afq_burst_ns(afq, client);

	if (!READ_ONCE(afq->burst_ms))
		return false;
	if (client->class == RQ_IDLE)
		return afq_ns(afq, all) > burst_ns ||
		       afq_dirty_ns(afq, client, expected) > burst_ns;
	return afq_dirty_ns(afq, client, expected) > burst_ns ||
	       (expected > afq_bytes(&afq->max_lag_kib) &&
		afq_ns(afq, all) > AFQ_BURSTS * burst_ns);
}

/* A client's dirty data, or its limit, has changed. */
static void afq_note_dirty(struct afq_data *afq, struct afq_client *client)
{
	/* Data that becomes dirty while the device is being attached is looked at later. */
	if (READ_ONCE(afq->device))
		afq_set_bursts(afq, client, afq_has_burst(afq, client));
}

/* Why a call must wait even in its turn: the limit of dirty data is reached. */
static const char *afq_dirty(const struct afq_client *client, const struct split_call *call)
{
	return client->bursts && afq_dirties(call) ? "dirty" : NULL;
}

/* Accounts the time until now as inside calls or outside. */
static void afq_note_time(struct afq_client *client)
{
	u64 now = ktime_get_ns(), passed = client->seen_ns ? now - client->seen_ns : 0;

	if (client->inside || !held_calls_none(&client->calls))
		client->inside_ns += min(passed, AFQ_TIMES_NS);
	else
		client->outside_ns += min(passed, AFQ_BACK_MS * (u64)NSEC_PER_MSEC);
	client->seen_ns = now;
	if (client->inside_ns + client->outside_ns > AFQ_TIMES_NS) {
		client->inside_ns /= 2;
		client->outside_ns /= 2;
	}
}

/* Whether a client is likely to make its next call soon: it spends most of its time in calls. */
static bool afq_loops(const struct afq_client *client)
{
	return client->outside_ns <= client->inside_ns;
}

/* A call goes into the file system. */
static void afq_admit(struct afq_data *afq, struct afq_client *client, struct split_call *call)
{
	struct stride *stride = afq_stride(afq, client);

	call->private = max(afq_bytes(&afq->max_lag_kib) / AFQ_CALL_PART, 1ULL);
	client->inside++;
	stride_expect(stride, &client->stride, call->private);
	afq_serve(afq, client, AFQ_HELD);
	client->progress = 0;
	if (!afq_since(client->paid, AFQ_PAYS_MS)) {
		afq_stay(afq, client, afq_in(AFQ_INSIDE_MS));
		afq_be_there(afq, client);
	}
}

/* A client's oldest held call waits for its turn; or, if a write above the limit, for writeback. */
static void afq_wait_to_go(struct afq_data *afq, struct afq_client *client)
{
	struct split_call *call = held_calls_first(&client->calls);

	if (!afq_dirty(client, call)) {
		list_del_init(&client->writer);
		afq_wait(afq, client, AFQ_HELD);
	} else if (list_empty(&client->writer)) {
		if (list_empty(&afq->writers) && !afq_stride(afq, client)->line[AFQ_HELD].count)
			afq->went[client->class][AFQ_HELD] = jiffies;
		list_add_tail(&client->writer, &afq->writers);
		afq_unwait(afq, client, AFQ_HELD);
	}
}

static void afq_hold_call(struct afq_data *afq, struct afq_client *client, struct split_call *call,
			  const char *reason)
{
	trace_afq_hold(afq->q, call->account->id, call->kind, afq_lead(afq, client));
	afq_stay(afq, client, jiffies);
	afq_be_there(afq, client);
	held_calls_add(&client->calls, call, reason);
	afq->held_calls++;
	afq_wait_to_go(afq, client);
	afq_set_gates(afq);
}

static void afq_unlist_call(struct afq_data *afq, struct afq_client *client,
			    struct split_call *call)
{
	held_calls_del(&client->calls, call);
	afq->held_calls--;
	if (!held_calls_none(&client->calls)) {
		afq_wait_to_go(afq, client);
		return;
	}
	list_del_init(&client->writer);
	afq_unwait(afq, client, AFQ_HELD);
}

/* Lets a client's oldest held call go.  The hold counts as a payment: the client is waited for. */
static void afq_let_go(struct afq_data *afq, struct afq_client *client)
{
	struct split_call *call = held_calls_first(&client->calls);

	trace_afq_let_go(afq->q, call->account->id, call->kind, afq_lead(afq, client));
	afq_unlist_call(afq, client, call);
	client->paid = jiffies;
	afq_admit(afq, client, call);
	split_let_go(call);
}

/* Lets calls go that needn't be held any longer. */
static void afq_review(struct afq_data *afq)
{
	struct afq_client *client;
	unsigned int i, left = AFQ_LET_GO;

	lockdep_assert_held(&afq->lock);
	for (i = RQ_RT; afq->held_calls && i < RQ_CLASSES; i++)
		while (left && (client = afq_first(afq, i, AFQ_HELD)) &&
		       (!afq_reason(afq, client, held_calls_first(&client->calls)) ||
			afq_overdue(afq, i, AFQ_HELD))) {
			afq_let_go(afq, client);
			left--;
		}
}

static u64 afq_credit(const struct afq_data *afq)
{
	return AFQ_CREDIT * (afq_bytes(&afq->quantum) + afq_bytes(&afq->max_lag_kib));
}

static bool afq_enter(void *data, struct split_call *call)
{
	struct afq_data *afq = data;
	struct afq_client *client;
	const char *reason = NULL;
	bool free = READ_ONCE(afq->bursts) && split_costs_nothing(call);
	unsigned long flags;

	spin_lock_irqsave(&afq->lock, flags);
	client = afq_client_of(afq, call->account);
	afq_note_time(client);
	afq_note_dirty(afq, client);
	if (held_calls_none(&client->calls)) {
		stride_limit_credit(afq_stride(afq, client), &client->stride, afq_credit(afq));
		reason = afq_reason(afq, client, call) ?: free ? NULL : afq_dirty(client, call);
	} else {
		reason = "share";
	}
	if (!reason)
		afq_admit(afq, client, call);
	else if (!call->nowait)
		afq_hold_call(afq, client, call, reason);
	spin_unlock_irqrestore(&afq->lock, flags);
	return !reason;
}

static void afq_drop(void *data, struct split_call *call)
{
	struct afq_data *afq = data;
	unsigned long flags;

	spin_lock_irqsave(&afq->lock, flags);
	if (!list_empty(&call->node))
		afq_unlist_call(afq, &afq->client[call->account->id], call);
	spin_unlock_irqrestore(&afq->lock, flags);
}

/* A client that is outside calls, with nothing waiting, stays present only if it loops. */
static void afq_be_outside(struct afq_data *afq, struct afq_client *client)
{
	if (!afq_loops(client) && !client->queued && !client->issued &&
	    held_calls_none(&client->calls))
		afq_unwait(afq, client, AFQ_THERE);
}

/* A call returns: the client stays joined a moment longer, for its next call. */
static void afq_leave(void *data, struct split_call *call, ssize_t result)
{
	struct afq_data *afq = data;
	struct afq_client *client;
	unsigned long flags;

	if (!call->private)
		return;
	spin_lock_irqsave(&afq->lock, flags);
	client = afq_client_of(afq, call->account);
	stride_settle(afq_stride(afq, client), &client->stride, call->private);
	afq_note_dirty(afq, client);
	afq_note_time(client);
	if (!--client->inside) {
		client->until = afq_in(AFQ_BACK_MS);
		afq_be_outside(afq, client);
	}
	afq_review(afq);
	spin_unlock_irqrestore(&afq->lock, flags);
}

/* Costs */

/* A client has made data dirty: others wait for its call as long as that continues. */
static void afq_stay_to_pay(struct afq_data *afq, struct afq_client *client, u64 cost)
{
	bool first = !client->progress;

	client->progress += cost;
	if (!client->inside) {
		/* With the gates closed its calls are seen: so this is a store to a mapped file. */
		if (afq->joined > 1)
			afq_note_time(client);
		afq_stay(afq, client, afq_in(AFQ_BACK_MS));
	} else if (first || client->progress > AFQ_PROGRESS) {
		client->progress = 1;
		afq_stay(afq, client, afq_in(AFQ_INSIDE_MS));
	}
	if (client->stride.joined && (client->inside || afq_loops(client)))
		afq_be_there(afq, client);
	else if (!client->inside)
		afq_be_outside(afq, client);
}

static void afq_expect(void *data, struct split_account *account, u64 cost)
{
	struct afq_data *afq = data;
	struct afq_client *client;
	unsigned long flags;

	spin_lock_irqsave(&afq->lock, flags);
	client = afq_client_of(afq, account);
	client->paid = jiffies;
	stride_expect(afq_stride(afq, client), &client->stride, cost);
	afq_note_dirty(afq, client);
	afq_stay_to_pay(afq, client, cost);
	afq_review(afq);
	spin_unlock_irqrestore(&afq->lock, flags);
}

static void afq_settle(void *data, struct split_account *account, u64 cost)
{
	struct afq_data *afq = data;
	struct afq_client *client;
	unsigned long flags;

	spin_lock_irqsave(&afq->lock, flags);
	client = afq_client_of(afq, account);
	stride_settle(afq_stride(afq, client), &client->stride, cost);
	guess_settle(&client->guess, cost);
	afq_note_dirty(afq, client);
	spin_unlock_irqrestore(&afq->lock, flags);
}

static void afq_bill(struct afq_data *afq, struct split_account *account, u64 cost)
{
	struct afq_client *client = afq_client_of(afq, account);

	lockdep_assert_held(&afq->lock);
	client->paid = jiffies;
	client->charged += cost;
	if (afq->writes_back)
		guess_charge(&client->guess, cost);
	stride_charge(afq_stride(afq, client), &client->stride, cost);
}

static void afq_demand(void *data, struct split_account *account, u64 cost)
{
	struct afq_data *afq = data;
	unsigned long flags;

	spin_lock_irqsave(&afq->lock, flags);
	afq_bill(afq, account, cost);
	spin_unlock_irqrestore(&afq->lock, flags);
}

static void afq_charge(void *data, struct split_account *account, u64 cost)
{
	struct afq_data *afq = data;

	afq->cost += cost;
	afq_bill(afq, account, cost);
}

static const struct split_ops afq_ops = {
	.name = "afq",
	.more = BIT(SPLIT_STORE),
	.enter = afq_enter,
	.drop = afq_drop,
	.leave = afq_leave,
	.expect = afq_expect,
	.settle = afq_settle,
	.demand = afq_demand,
	.charge = afq_charge,
};

/* Readers */

static enum afq_state afq_state_of(const struct request *rq)
{
	return (unsigned long)rq->elv.priv[1] & ((1 << AFQ_STATE_BITS) - 1);
}

static struct afq_client *afq_client_of_request(struct afq_data *afq, const struct request *rq)
{
	unsigned long id = (unsigned long)rq->elv.priv[1] >> AFQ_STATE_BITS;

	return &afq->client[id & ((1 << AFQ_ID_BITS) - 1)];
}

static u64 afq_cost_of(const struct request *rq)
{
	u64 kib = (unsigned long)rq->elv.priv[1] >> (AFQ_STATE_BITS + AFQ_ID_BITS);

	return kib << AFQ_COST_SHIFT;
}

static void afq_put(struct afq_data *afq, struct request *rq, const struct afq_client *client,
		    enum afq_state state, u64 cost)
{
	unsigned long id = client - afq->client;

	cost >>= AFQ_COST_SHIFT;
	rq->elv.priv[1] = (void *)(((cost << AFQ_ID_BITS | id) << AFQ_STATE_BITS) | state);
}

/* Whether a client reads at random: a turn gains nothing for it. */
static bool afq_seeks(const struct afq_data *afq, const struct afq_client *client)
{
	return hweight8(client->seeks) > AFQ_SEEKS;
}

static u64 afq_think_time_ns(const struct afq_data *afq)
{
	return (u64)READ_ONCE(afq->think_time_us) * NSEC_PER_USEC;
}

/* Whether it pays to keep the device idle for a client with nothing queued. */
static bool afq_comes_back(const struct afq_data *afq, const struct afq_client *client)
{
	return afq_think_time_ns(afq) && client->think_ns <= afq_think_time_ns(afq) &&
	       !(READ_ONCE(afq->quantum) && afq_seeks(afq, client));
}

static void afq_note_thought(struct afq_data *afq, struct afq_client *client)
{
	u64 most = afq_think_time_ns(afq) << AFQ_MEAN_SHIFT;
	u64 thought;

	if (!client->left_ns)
		return;
	thought = min(ktime_get_ns() - client->left_ns, most);
	client->think_ns += (thought >> AFQ_MEAN_SHIFT) - (client->think_ns >> AFQ_MEAN_SHIFT);
	client->left_ns = 0;
}

/* A client has nothing queued and nothing inside the device: its think time begins. */
static void afq_begin_thought(struct afq_data *afq, struct afq_client *client)
{
	client->left_ns = ktime_get_ns();
	if (afq_comes_back(afq, client))
		client->until = jiffies + usecs_to_jiffies(READ_ONCE(afq->think_time_us)) + 1;
	else
		afq_unwait(afq, client, AFQ_ABSENT);
	if (client->think_ns > afq_think_time_ns(afq) && !client->inside &&
	    held_calls_none(&client->calls))
		afq_unwait(afq, client, AFQ_THERE);
}

/* When a client isn't waited for any longer; 0: it has something inside the device. */
static u64 afq_thought_end(const struct afq_data *afq, const struct afq_client *client)
{
	return client->issued ? 0 : client->left_ns + afq_think_time_ns(afq);
}

/* The first absent client of a class; drops those before it whose idle wait is over. */
static struct afq_client *afq_first_absent(struct afq_data *afq, enum rq_class class)
{
	struct afq_client *client;

	while ((client = afq_first(afq, class, AFQ_ABSENT))) {
		u64 end = afq_thought_end(afq, client);

		if (!end || ktime_get_ns() < end)
			break;
		afq_unwait(afq, client, AFQ_ABSENT);
	}
	return client;
}

/* Holds all requests until @client's next one comes, or a request leaves the device. */
static void afq_hold_requests(struct afq_data *afq, const struct afq_client *client)
{
	u64 end = client ? afq_thought_end(afq, client) : 0;

	/* Set before, since the timer may fire on another CPU at once. */
	WRITE_ONCE(afq->holding, true);
	if (end)
		hrtimer_start(&afq->timer, ns_to_ktime(end), HRTIMER_MODE_ABS);
}

static void afq_stop_holding(struct afq_data *afq)
{
	WRITE_ONCE(afq->holding, false);
}

static enum hrtimer_restart afq_timer(struct hrtimer *timer)
{
	struct afq_data *afq = container_of(timer, struct afq_data, timer);

	afq_stop_holding(afq);
	blk_mq_run_hw_queues(afq->q, true);
	return HRTIMER_NORESTART;
}

/* What the device can do */

/* A request is dispatched: it may be the only one inside; an earlier one is no longer alone. */
static void afq_note_alone(struct afq_data *afq, const struct request *rq)
{
	bool alone = atomic_read(&afq->requests) == (int)afq->queued + 1;

	afq->alone = alone && req_op(rq) == REQ_OP_READ ? rq : NULL;
	afq->alone_began_ns = ktime_get_ns();
}

/* The device has completed a request, or gives it back. */
static void afq_note_done(struct afq_data *afq, const struct request *rq)
{
	u64 now = ktime_get_ns(), passed = now - afq->since_ns, taken;

	afq->done += afq_cost_of(rq);
	if (rq == afq->alone) {
		taken = min(now - afq->alone_began_ns, AFQ_RATE_NS);
		afq->alone_ns = afq->alone_ns ? afq->alone_ns - (afq->alone_ns >> AFQ_MEAN_SHIFT) +
							(taken >> AFQ_MEAN_SHIFT)
					      : taken;
		afq->alone = NULL;
	}
	if (passed < AFQ_RATE_NS)
		return;
	if (afq->costs_changed != split_costs_changed(afq->device)) {
		afq->costs_changed = split_costs_changed(afq->device);
		afq->best = 0;
	}
	afq->best -= afq->best / AFQ_RATE_FORGET;
	afq->best = max(afq->best, mul_u64_u64_div_u64(afq->done, NSEC_PER_SEC, passed));
	afq->done = 0;
	afq->since_ns = now;
}

/* The client that still has the turn; NULL if it has ended.  *@hold: it has nothing queued. */
static struct afq_client *afq_turn(struct afq_data *afq, enum rq_class class, bool *hold)
{
	struct afq_client *turn = afq->turn;
	u64 end;

	*hold = false;
	if (!turn || turn->class != class)
		return NULL;
	if (afq->used < afq_bytes(&afq->quantum) && !afq_seeks(afq, turn)) {
		if (turn->queued)
			return turn;
		end = afq_thought_end(afq, turn);
		if (turn->stride.at[AFQ_ABSENT] && (!end || ktime_get_ns() < end)) {
			*hold = true;
			return turn;
		}
	}
	afq->turn = NULL;
	return NULL;
}

/* Whether several clients read: in the class now, or in any class lately. */
static bool afq_readers_compete(const struct afq_data *afq, enum rq_class class)
{
	const struct stride_line *line = afq->stride[class].line;

	return line[AFQ_QUEUED].count + line[AFQ_ABSENT].count > 1 ||
	       !afq_since(afq->shared, AFQ_SHARED_MS);
}

/* Limit of the costs inside the device while several clients read. */
static u64 afq_window(const struct afq_data *afq)
{
	u64 one;

	if (READ_ONCE(afq->quantum))
		return AFQ_WINDOW_DISK;
	one = mul_u64_u64_div_u64(afq->best, afq->alone_ns, NSEC_PER_SEC);
	return one ? one * AFQ_WINDOW_PART : AFQ_WINDOW_FLASH;
}

/*
 * Whether a client may go although it is ahead of an absent one, which asks for less than its
 * share.  A disk is kept idle for the absent one, unless that one reads at random.
 */
static bool afq_goes_ahead(const struct afq_data *afq, const struct afq_client *next,
			   const struct afq_client *absent)
{
	u64 window = afq_window(afq);

	if (READ_ONCE(afq->quantum))
		return afq_seeks(afq, absent) && afq->window < window / AFQ_AHEAD_PART;
	if (next->stride.weight >= absent->stride.weight)
		return afq->window < window / AFQ_AHEAD_PART;
	if (!absent->issued && absent->think_ns <= afq->alone_ns / AFQ_THINK_PART)
		return false;
	return afq->window < window / AFQ_LOWER_PART;
}

/* Whether a client must wait for an absent one. */
static bool afq_waits_for(struct afq_data *afq, const struct afq_client *next,
			  struct afq_client *absent)
{
	if (!absent ||
	    stride_lead(&next->stride, &absent->stride) <= (s64)afq_bytes(&afq->max_lag_kib))
		return false;
	if (!afq_goes_ahead(afq, next, absent))
		return true;
	absent->ahead_of = true;
	return false;
}

/* The next client of a class; NULL: its requests are held. */
static struct afq_client *afq_next_of(struct afq_data *afq, enum rq_class class)
{
	struct afq_client *absent = afq_first_absent(afq, class);
	bool hold;
	struct afq_client *next = afq_turn(afq, class, &hold);

	if (hold) {
		afq_hold_requests(afq, next);
		return NULL;
	}
	if (next)
		return next;
	next = afq_first(afq, class, AFQ_QUEUED);
	if (!next || afq_waits_for(afq, next, absent)) {
		afq_hold_requests(afq, absent);
		return NULL;
	}
	if (afq_readers_compete(afq, class) && afq->window >= afq_window(afq)) {
		afq_hold_requests(afq, NULL);
		return NULL;
	}
	afq->turn = READ_ONCE(afq->quantum) ? next : NULL;
	afq->used = 0;
	return next;
}

/* The client whose request goes next; NULL: all are held. */
static struct afq_client *afq_next(struct afq_data *afq)
{
	unsigned int i;

	for (i = RQ_BE; i < RQ_CLASSES; i++)
		if (afq_overdue(afq, i, AFQ_QUEUED))
			return afq_first(afq, i, AFQ_QUEUED);
	for (i = RQ_RT; i < RQ_IDLE; i++)
		if (afq->stride[i].line[AFQ_QUEUED].count || afq_first_absent(afq, i))
			return afq_next_of(afq, i);
	if (afq_is_quiet(afq))
		return afq_next_of(afq, RQ_IDLE);
	afq_hold_requests(afq, NULL);
	return NULL;
}

/* Dispatch */

/* A request is dispatched: its causes are charged. */
static void afq_pay(struct afq_data *afq, struct request *rq)
{
	lockdep_assert_held(&afq->lock);
	afq->cost = 0;
	split_dispatch(afq->device, rq);
}

static struct request *afq_take_first(struct afq_data *afq, struct list_head *list)
{
	struct request *rq = rq_take_first(list);

	if (!rq)
		return NULL;
	afq->writes_back = list == &afq->writes;
	afq_pay(afq, rq);
	afq->writes_back = false;
	afq->alone = NULL;
	WRITE_ONCE(afq->worked, jiffies);
	trace_afq_dispatch(rq, 0, RQ_RT, afq->cost);
	return rq;
}

static struct request *afq_take_of(struct afq_data *afq, struct afq_client *client)
{
	struct request *rq = list_first_entry(&client->requests, struct request, queuelist);

	list_del_init(&rq->queuelist);
	WRITE_ONCE(afq->queued, afq->queued - 1);
	client->issued++;
	afq_serve(afq, client, AFQ_QUEUED);
	if (!--client->queued) {
		afq_unwait(afq, client, AFQ_QUEUED);
		afq_wait(afq, client, AFQ_ABSENT);
	}
	afq_pay(afq, rq);
	afq_put(afq, rq, client, AFQ_ISSUED, afq->cost);
	afq_note_alone(afq, rq);
	afq->window += afq_cost_of(rq);
	if (client == afq->turn)
		afq->used += afq->cost;
	trace_afq_dispatch(rq, client - afq->client, client->class, afq->cost);
	return rq;
}

static struct request *afq_take(struct afq_data *afq)
{
	struct request *rq = afq_take_first(afq, &afq->urgent) ?: afq_take_first(afq, &afq->writes);
	struct afq_client *client;

	if (rq || !afq->queued)
		return rq;
	client = afq_next(afq);
	return client ? afq_take_of(afq, client) : NULL;
}

static struct request *afq_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct afq_data *afq = hctx->queue->elevator->elevator_data;
	struct request *rq;
	unsigned long flags;

	spin_lock_irqsave(&afq->lock, flags);
	rq = afq_take(afq);
	spin_unlock_irqrestore(&afq->lock, flags);
	if (rq)
		rq->rq_flags |= RQF_STARTED;
	return rq;
}

static bool afq_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct afq_data *afq = hctx->queue->elevator->elevator_data;

	return !rq_list_is_empty(&afq->urgent) || !rq_list_is_empty(&afq->writes) ||
	       (READ_ONCE(afq->queued) && !READ_ONCE(afq->holding));
}

/* Requests, in the order of a request's life */

/* Called without locks, before a tag is allocated. */
static void afq_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	unsigned int tags = sluice_nr_tags(data);

	if (op_is_write(opf))
		sluice_limit_tags(data, tags - tags / AFQ_READ_PART);
}

static void afq_prepare_request(struct request *rq)
{
	struct afq_data *afq = rq->q->elevator->elevator_data;

	split_prepare(rq);
	rq->elv.priv[1] = NULL;
	atomic_inc(&afq->requests);
}

/*
 * Whether a request waits for its account's turn: a read, or a direct write, which alone is
 * both SYNC and IDLE and neither part of a journal nor of a flush.
 */
static bool afq_orders(const struct request *rq)
{
	const blk_opf_t direct = REQ_SYNC | REQ_IDLE;
	const blk_opf_t other = REQ_META | REQ_PREFLUSH | REQ_FUA;

	return req_op(rq) == REQ_OP_READ ||
	       (req_op(rq) == REQ_OP_WRITE && (rq->cmd_flags & (direct | other)) == direct);
}

static void afq_enqueue(struct afq_data *afq, struct request *rq)
{
	struct afq_client *client = afq_client_of(afq, split_request_account(rq));
	sector_t from = client->next_sector;
	sector_t apart = blk_rq_pos(rq) > from ? blk_rq_pos(rq) - from : from - blk_rq_pos(rq);

	client->seeks = client->seeks << 1 | (apart > AFQ_NEAR);
	client->next_sector = blk_rq_pos(rq) + blk_rq_sectors(rq);
	afq_note_thought(afq, client);
	if (afq->reader && client != afq->reader)
		afq->shared = jiffies;
	afq->reader = client;
	if (client->ahead_of && !client->queued)
		stride_limit_credit(afq_stride(afq, client), &client->stride,
				    afq_bytes(&afq->max_lag_kib));
	client->ahead_of = client->ahead_of && client->queued;
	afq_stay(afq, client, jiffies);
	afq_be_there(afq, client);
	afq_unwait(afq, client, AFQ_ABSENT);
	afq_wait(afq, client, AFQ_QUEUED);
	afq_put(afq, rq, client, AFQ_WAITING, 0);
	list_add_tail(&rq->queuelist, &client->requests);
	client->queued++;
	WRITE_ONCE(afq->queued, afq->queued + 1);
}

static void afq_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				sluice_insert_t ins)
{
	struct afq_data *afq = hctx->queue->elevator->elevator_data;
	struct list_head *head = &afq->urgent;
	struct request *rq, *next;
	unsigned long flags;

	list_for_each_entry(rq, list, queuelist) {
		split_insert(afq->device, rq);
		trace_block_rq_insert(rq);
	}
	spin_lock_irqsave(&afq->lock, flags);
	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_del_init(&rq->queuelist);
		if (rq_add_urgent(rq, ins, &afq->urgent, &head))
			continue;
		if (afq_orders(rq))
			afq_enqueue(afq, rq);
		else
			list_add_tail(&rq->queuelist, &afq->writes);
	}
	afq_stop_holding(afq);
	spin_unlock_irqrestore(&afq->lock, flags);
}

/* A request left the device, done or not. */
static void afq_requeue_request(struct request *rq)
{
	struct afq_data *afq = rq->q->elevator->elevator_data;
	struct afq_client *client;
	unsigned long flags;
	bool rerun;

	if (afq_state_of(rq) != AFQ_ISSUED)
		return;
	client = afq_client_of_request(afq, rq);
	spin_lock_irqsave(&afq->lock, flags);
	afq->window -= afq_cost_of(rq);
	afq_note_done(afq, rq);
	if (!--client->issued && !client->queued)
		afq_begin_thought(afq, client);
	rerun = afq->holding;
	afq_stop_holding(afq);
	spin_unlock_irqrestore(&afq->lock, flags);
	rq->elv.priv[1] = NULL;
	if (rerun)
		blk_mq_sched_mark_restart_hctx(rq->mq_hctx);
}

/* Called from any context, for each request that afq_prepare_request() saw. */
static void afq_finish_request(struct request *rq)
{
	struct afq_data *afq = rq->q->elevator->elevator_data;

	afq_requeue_request(rq);
	if (atomic_dec_and_test(&afq->requests))
		WRITE_ONCE(afq->worked, jiffies);
	split_finish(rq);
}

/* The tick */

/* Return: whether a client is still known. */
static bool afq_look_at(struct afq_data *afq, struct afq_client *client)
{
	if (client->bursts)
		afq_note_dirty(afq, client);
	if (client->stride.joined) {
		if (!afq_has_something(client))
			afq_leave_all(afq, client);
		return true;
	}
	if (client->inside || client->stride.expected || !afq_since(client->until, AFQ_MEMORY_MS))
		return true;
	afq_forget(afq, client);
	return false;
}

/*
 * Tells each of a client's calls why it is held, beginning after the one that was told last.
 * Return: how many more may be told in this tick; 0: the client has others.
 */
static unsigned int afq_answer(struct afq_data *afq, struct afq_client *client, unsigned int left)
{
	const char *reason;

	if (held_calls_none(&client->calls))
		return left;
	reason = afq_reason(afq, client, held_calls_first(&client->calls))
			 ?: list_empty(&client->writer) ? "share"
							: "dirty";
	return held_calls_answer(&client->calls, reason, left);
}

/* Looks at some of the known clients, after those that it looked at in the last tick. */
static void afq_look(struct afq_data *afq)
{
	struct afq_client *client, *first = NULL;
	unsigned int looks = AFQ_LOOKS, answers = AFQ_ANSWERS;

	while (looks-- && answers && !list_empty(&afq->known)) {
		client = list_first_entry(&afq->known, struct afq_client, known);
		if (client == first)
			break;
		if (!afq_look_at(afq, client))
			continue;
		answers = afq_answer(afq, client, answers);
		if (answers)
			list_move_tail(&client->known, &afq->known);
		first = first ?: client;
	}
}

/*
 * The pages of a part of a writer's file; *@part_ns: the time that the device takes for a part.
 * If nothing of the file is dirty, it is a part of all that the class has dirty.
 */
static unsigned int afq_part(const struct afq_data *afq, const struct afq_client *client,
			     const struct split_dirt *dirt, bool beside, u64 *part_ns)
{
	bool own = dirt->dirty;
	u64 cost = own ? dirt->cost : afq->stride[client->class].expected;
	u64 pages = (own ? dirt->dirty : cost) >> PAGE_SHIFT;
	u64 dirty_ns = afq_dirty_ns(afq, client, cost);

	*part_ns = afq_burst_ns(afq, client) / 2;
	if (afq->joined > 1)
		*part_ns = max(afq_max_lag_ns(afq), beside ? 0 : AFQ_ROUND_NS);
	if (dirty_ns > *part_ns)
		pages = mul_u64_u64_div_u64(pages, *part_ns, dirty_ns);
	return clamp_t(u64, pages, AFQ_PART_LEAST, AFQ_PART_MOST);
}

/* Whether a writer's class has waited long enough to go despite the I/O of others. */
static bool afq_is_late(const struct afq_data *afq, const struct afq_client *client, bool beside)
{
	return client->class != RQ_RT && beside &&
	       afq_since(afq->went[client->class][AFQ_HELD],
			 AFQ_LATE * READ_ONCE(afq->starvation_ms));
}

/* More than a part may have been written since the last look: file systems write whole units. */
static void afq_note_drained(struct afq_data *afq, enum rq_class class)
{
	struct afq_drain *drain = &afq->drain[class];
	u64 expected = afq->stride[class].expected, part_ns = 0;

	if (drain->beside && expected < drain->expected)
		part_ns = afq_ns(afq, drain->expected - expected);
	if (part_ns > drain->part_ns) {
		drain->wrote = jiffies;
		drain->part_ns = part_ns;
	}
	drain->expected = expected;
}

/* Whether a class may write its next part: after one beside others it must rest. */
static bool afq_has_rested(const struct afq_data *afq, enum rq_class class)
{
	const struct afq_drain *drain = &afq->drain[class];
	u64 rest_ns = drain->part_ns * (class == RQ_IDLE ? AFQ_PART_REST_IDLE : AFQ_PART_REST);

	if (READ_ONCE(afq->quantum))
		rest_ns *= 2;
	return !drain->beside || afq_since(drain->wrote, rest_ns / NSEC_PER_MSEC);
}

/*
 * A writer's call waits for its turn once little enough is dirty.  Until then its file is written
 * back in parts: whenever only that keeps the call from going, and now and then beside others.  How
 * much of other files is being written isn't known: they get a part each time that one takes.
 */
static void afq_look_at_writer(struct afq_data *afq, struct afq_client *client)
{
	struct split_call *call = held_calls_first(&client->calls);
	struct afq_drain *drain = &afq->drain[client->class];
	bool beside = afq_reason(afq, client, call);
	unsigned int part, writing;
	struct split_dirt dirt;
	u64 part_ns;

	if (afq_is_late(afq, client, beside)) {
		afq_let_go(afq, client);
		return;
	}
	split_count_dirt(call, AFQ_COUNTED, &dirt);
	part = afq_part(afq, client, &dirt, beside, &part_ns);
	writing = dirt.writing >> PAGE_SHIFT;
	afq_note_dirty(afq, client);
	afq_note_drained(afq, client->class);
	if (beside && !afq_has_rested(afq, client->class))
		return;
	if (!client->bursts && writing <= 2 * part) {
		afq_wait_to_go(afq, client);
		return;
	}
	if (writing >= min(part / 2, AFQ_COUNTED) ||
	    (!dirt.dirty && !afq_since(drain->wrote, part_ns / NSEC_PER_MSEC)))
		return;
	drain->wrote = jiffies;
	drain->part_ns = part_ns;
	drain->beside = beside;
	split_write_back(call, part);
}

static void afq_look_at_writers(struct afq_data *afq)
{
	struct afq_client *client, *first = NULL;
	unsigned int looks = AFQ_WRITERS;

	while (looks-- && !list_empty(&afq->writers)) {
		client = list_first_entry(&afq->writers, struct afq_client, writer);
		if (client == first)
			break;
		list_move_tail(&client->writer, &afq->writers);
		first = first ?: client;
		afq_look_at_writer(afq, client);
	}
}

/* The policy doesn't see flushes without data: only the driver's tags count them. */
static void afq_look_at_device(struct afq_data *afq)
{
	if (blk_mq_queue_inflight(afq->q))
		WRITE_ONCE(afq->worked, jiffies);
}

static void afq_tick(struct timer_list *timer)
{
	struct afq_data *afq = container_of(timer, struct afq_data, tick);
	unsigned long flags;
	bool rerun;

	afq_look_at_device(afq);
	spin_lock_irqsave(&afq->lock, flags);
	afq_look(afq);
	afq_look_at_writers(afq);
	afq_review(afq);
	rerun = afq->holding;
	afq_stop_holding(afq);
	if (!list_empty(&afq->known))
		mod_timer(timer, afq_in(AFQ_TICK_MS));
	spin_unlock_irqrestore(&afq->lock, flags);
	if (rerun)
		blk_mq_run_hw_queues(afq->q, true);
}

/* Life of the scheduler */

static void afq_depth_updated(struct request_queue *q)
{
	sluice_may_limit_tags(q);
}

static void afq_set_defaults(struct afq_data *afq)
{
	bool flash = blk_queue_nonrot(afq->q);

	afq->quantum = flash ? AFQ_QUANTUM_FLASH_KIB : AFQ_QUANTUM_DISK_KIB;
	afq->think_time_us = flash ? AFQ_THINK_TIME_FLASH_US : AFQ_THINK_TIME_DISK_US;
	afq->max_lag_kib = flash ? AFQ_MAX_LAG_FLASH_KIB : AFQ_MAX_LAG_DISK_KIB;
	afq->starvation_ms = AFQ_STARVATION_MS;
	afq->burst_ms = flash ? AFQ_BURST_FLASH_MS : AFQ_BURST_DISK_MS;
}

static void afq_free(struct afq_data *afq)
{
	kvfree(afq->heaps);
	kvfree(afq->client);
	kfree(afq);
}

static struct afq_data *afq_alloc(struct request_queue *q)
{
	const size_t heaps = RQ_CLASSES * STRIDE_LINES * SPLIT_ACCOUNTS;
	struct afq_data *afq = kzalloc_node(sizeof(*afq), GFP_KERNEL, q->node);
	unsigned int i;

	if (!afq)
		return NULL;
	afq->client = kvcalloc(SPLIT_ACCOUNTS, sizeof(*afq->client), GFP_KERNEL);
	afq->heaps = kvcalloc(heaps, sizeof(*afq->heaps), GFP_KERNEL);
	if (!afq->client || !afq->heaps) {
		afq_free(afq);
		return NULL;
	}
	for (i = 0; i < SPLIT_ACCOUNTS; i++) {
		INIT_LIST_HEAD(&afq->client[i].known);
		INIT_LIST_HEAD(&afq->client[i].requests);
		held_calls_init(&afq->client[i].calls);
		INIT_LIST_HEAD(&afq->client[i].writer);
	}
	for (i = 0; i < RQ_CLASSES; i++) {
		afq->drain[i].wrote = jiffies;
		stride_init(&afq->stride[i], afq->heaps + i * STRIDE_LINES * SPLIT_ACCOUNTS,
			    SPLIT_ACCOUNTS);
	}
	return afq;
}

/* Called with the queue frozen. */
static int afq_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct afq_data *afq = afq_alloc(q);
	struct split_device *device;

	if (!afq)
		return -ENOMEM;
	spin_lock_init(&afq->lock);
	INIT_LIST_HEAD(&afq->urgent);
	INIT_LIST_HEAD(&afq->writes);
	INIT_LIST_HEAD(&afq->known);
	INIT_LIST_HEAD(&afq->writers);
	afq->q = q;
	afq->worked = jiffies;
	afq->others = jiffies;
	afq->shared = jiffies - msecs_to_jiffies(AFQ_SHARED_MS);
	afq_set_defaults(afq);
	sluice_hrtimer_setup(&afq->timer, afq_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	timer_setup(&afq->tick, afq_tick, 0);
	device = split_attach(q, &afq_ops, afq);
	if (IS_ERR(device)) {
		afq_free(afq);
		return PTR_ERR(device);
	}
	WRITE_ONCE(afq->device, device);
	sluice_may_limit_tags(q);
	eq->elevator_data = afq;
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	return 0;
}

static void afq_check_books(const struct afq_data *afq)
{
	unsigned int i, bursts = 0;

	WARN_ON_ONCE(!list_empty(&afq->urgent) || !list_empty(&afq->writes) || afq->queued ||
		     afq->held_calls || !list_empty(&afq->writers) || afq->window ||
		     atomic_read(&afq->requests));
	for (i = 0; i < SPLIT_ACCOUNTS; i++) {
		const struct afq_client *client = &afq->client[i];

		WARN_ONCE(client->queued || client->issued || !held_calls_none(&client->calls),
			  "afq: account %u ends with %u queued, %u issued\n", i, client->queued,
			  client->issued);
		bursts += client->account && client->bursts;
	}
	WARN_ON_ONCE(bursts != afq->bursts);
}

/* Called with the queue frozen: every request has been finished. */
static void afq_exit_sched(struct elevator_queue *eq)
{
	struct afq_data *afq = eq->elevator_data;
	struct afq_client *client, *next;

	timer_shutdown_sync(&afq->tick);
	split_detach(afq->device);
	WRITE_ONCE(afq->device, NULL);
	hrtimer_cancel(&afq->timer);
	afq_check_books(afq);
	list_for_each_entry_safe(client, next, &afq->known, known)
		afq_forget(afq, client);
	afq_free(afq);
}

/* Knobs */

RQ_KNOB(afq_data, quantum, 0, AFQ_KIB_MAX)
RQ_KNOB(afq_data, think_time_us, 0, AFQ_THINK_TIME_US_MAX)
RQ_KNOB(afq_data, max_lag_kib, 0, AFQ_KIB_MAX)
RQ_KNOB(afq_data, starvation_ms, 1, AFQ_STARVATION_MS_MAX)
RQ_KNOB(afq_data, burst_ms, 0, AFQ_BURST_MS_MAX)
SPLIT_COSTS_KNOB(afq_data, costs)

static sluice_attr_t afq_attrs[] = {
	RQ_KNOB_ATTR(quantum),
	RQ_KNOB_ATTR(think_time_us),
	RQ_KNOB_ATTR(max_lag_kib),
	RQ_KNOB_ATTR(starvation_ms),
	RQ_KNOB_ATTR(burst_ms),
	RQ_KNOB_ATTR(costs),
	__ATTR_NULL,
};

#ifdef CONFIG_BLK_DEBUG_FS
static const char *const afq_classes[RQ_CLASSES] = { "rt", "be", "idle" };

/* debugfs .../sched/clients: a line for each known client. */
static int afq_clients_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct afq_data *afq = q->elevator->elevator_data;
	const struct afq_client *client;

	seq_puts(m, "id pid class weight charged lead expected queued issued inside held\n");
	spin_lock_irq(&afq->lock);
	list_for_each_entry(client, &afq->known, known)
		seq_printf(m, "%td %d %s %u %llu %lld %llu %u %u %u %u\n", client - afq->client,
			   client->account->tgid, afq_classes[client->class], client->stride.weight,
			   client->charged, afq_lead(afq, client), client->stride.expected,
			   client->queued, client->issued, client->inside, client->calls.count);
	spin_unlock_irq(&afq->lock);
	return 0;
}

/* debugfs .../sched/learned: what is known of the device. */
static int afq_learned_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct afq_data *afq = q->elevator->elevator_data;

	seq_printf(m, "best %llu alone_ns %llu\n", READ_ONCE(afq->best), READ_ONCE(afq->alone_ns));
	return 0;
}

static const struct blk_mq_debugfs_attr afq_debugfs_attrs[] = {
	{ "clients", 0400, afq_clients_show },
	{ "learned", 0400, afq_learned_show },
	{},
};
#endif

SLUICE_LIMIT_DEPTH(afq_limit_depth_op, afq_limit_depth)
SLUICE_INIT_SCHED(afq_init_sched_op, afq_init_sched)
SLUICE_DEPTH_UPDATED(afq_depth_updated_op, afq_depth_updated)

static struct elevator_type afq_type = {
	.ops = {
		.init_sched		= afq_init_sched_op,
		.exit_sched		= afq_exit_sched,
		.depth_updated		= afq_depth_updated_op,
		.limit_depth		= afq_limit_depth_op,
		.prepare_request	= afq_prepare_request,
		.allow_merge		= split_allow_merge,
		.insert_requests	= afq_insert_requests,
		.has_work		= afq_has_work,
		.dispatch_request	= afq_dispatch_request,
		.requeue_request	= afq_requeue_request,
		.finish_request		= afq_finish_request,
	},
	.elevator_attrs = afq_attrs,
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs = afq_debugfs_attrs,
#endif
	.elevator_name = "afq",
	.elevator_owner = THIS_MODULE,
};

static int __init afq_init(void)
{
	return elv_register(&afq_type);
}

static void __exit afq_exit(void)
{
	elv_unregister(&afq_type);
}

module_init(afq_init);
module_exit(afq_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("I/O scheduler: Actually Fair Queuing (split-level)");
MODULE_ALIAS("afq-iosched");

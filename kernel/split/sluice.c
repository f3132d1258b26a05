// SPDX-License-Identifier: GPL-2.0-only
/*
 * sluice: I/O priorities that hold for processes, from the system call to the device
 *
 * Each process has a rank, by its I/O priority: RT 0-7, BE 0-7, IDLE.
 *
 *	reads, direct writes	wait at the block level, by rank, as ranks.h has it: the most urgent
 *				rank first, those below it in turns that take low_share per cent
 *	writeback, the journal	goes before all of these.  A commit may need it, whatever process
 *				caused it; how much there can be was decided at the gates.  What no
 *				commit asked for yet goes piece by piece below a more urgent rank
 *	writes, stores, fsyncs,	are admitted at the gates, before the file system has seen them
 *	changes of names
 *
 * Admission has two rules.
 *
 * The share.  Beside a more urgent rank a rank has low_share per cent of the device's time, beside
 * two or more low_share per cent of that.  What a call will make the device do is predicted, and
 * spent when it becomes certain: data when it becomes dirty, the journal's part when a call demands
 * it.  With C for that time, S for the share in per cent, the rank's next call goes after
 *
 *	min(C * 92 / S, 1 s)
 *
 * What isn't used is not saved up.  With no more urgent rank a call goes at once.
 *
 * The limit of dirty data.  A commit waits for dirty data that it depends on, of other processes
 * too.  So a process that is alone has no more dirty than the device writes in burst_ms, beside
 * others of its rank a part of that, and below a more urgent rank so little that a commit hardly
 * notices; a rank as a whole no more than two such limits, below a more urgent one than one.  A
 * process is taken to be there for SLU_MEMORY_MS after its last I/O.  A writer above the limit
 * is held, and its file is written back in parts meanwhile, or others of the file system if that
 * has nothing dirty.
 *
 * No call waits for another call's return, but for time and for what is written.  Of a rank that
 * has had its share one held call goes after each SLU_STARVATION_MS, of a process that waits for
 * less to be dirty one after SLU_LATE times as long.
 *
 * Source: the split-level paper, sections 3 and 5; docs/sluice.md has the model.
 */
#include "../elevator/ranks.h"
#include "calls.h"
#include "guess.h"

#include <linux/magic.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#define CREATE_TRACE_POINTS
#include "sluice-trace.h"

/*
 * Per cent of the device's time, on flash too: what is written for a low rank costs a high one more
 * than that time, when a commit of its own has to wait for it.
 */
#define SLU_LOW_SHARE 5

/* As AFQ's, for the same reasons. */
#define SLU_BURST_DISK_MS 1000
#define SLU_BURST_FLASH_MS 500
#define SLU_BURST_MS_MAX 100000

/*
 * Of a burst: what a process may have dirty beside a light one of its rank, which may have to wait
 * for that in a commit, beside others, or alone with a low rank.
 */
#define SLU_LIGHT_PART 24
#define SLU_BESIDE_PART 8
#define SLU_LOW_PART 4

/* Below a more urgent rank, normalised bytes: some random accesses. */
#define SLU_BELOW_DISK ((u64)SZ_4M)
#define SLU_BELOW_FLASH ((u64)SZ_512K)

/* A rank's limit, in limits of a process. */
#define SLU_RANK_LIMITS 2

/* For so long after its last I/O a process counts for the limit, and a rank for the share. */
#define SLU_MEMORY_MS 1000
#define SLU_HOLD_MS 40

/* A call inside counts for so long, unless its rank does something: it may never come back. */
#define SLU_INSIDE_MS 10000

/* A rank's share is that of at most so many more urgent ones. */
#define SLU_ABOVE_MOST 2U

/* The share is a promise: calls go a little early, by what the cost may err. */
#define SLU_PROMISE_PCT 92
#define SLU_PERIOD_MAX_NS ((u64)NSEC_PER_SEC)

/* What is held is looked at so often, and what that delays is made up for. */
#define SLU_TICK_MS 10
#define SLU_CREDIT_NS (2 * SLU_TICK_MS * (u64)NSEC_PER_MSEC)

/*
 * A quarter of the device's time is for what is kept back below a more urgent rank: more than the
 * largest usual share, so that not this decides how much a rank has, and little for the drive's
 * buffer to hold when a commit flushes it.
 */
#define SLU_ROOM_PART 4
#define SLU_ROOM_NS (SLU_TICK_MS * (s64)NSEC_PER_MSEC / SLU_ROOM_PART)

/*
 * Beside a light process of its own rank the same has nine tenths.  A tick is shorter then, as
 * that process waits for what goes in one; and a piece follows while the last one is inside.
 */
#define SLU_TICK_BESIDE_MS 4
#define SLU_ROOM_BESIDE_PCT 90
#define SLU_PIECES_BESIDE 2U
#define SLU_LATER_BESIDE 4U

/*
 * A light process that comes in one tick after the other, as a program that starts, would wait for
 * pieces with each of its reads.  So it has the device for itself for so many ticks, in which it
 * does most of its work, and then pieces go for so many.  One that hasn't a request in at least a
 * part of the first ticks thinks more than it waits: pieces go at once.  After one that used its
 * time pieces have all of theirs.
 */
#define SLU_WORKS 3
#define SLU_QUIET_TICKS 64
#define SLU_LOUD_TICKS 90
#define SLU_QUIET_LEAST 8
#define SLU_QUIET_USED 4

/*
 * What a process has had of the device counts for half as much after this time.  A process that
 * comes is served first for no longer, and one that asks for much now and then is not light
 * between.
 */
#define SLU_HAD_MS 250

#define SLU_PART_SHIFT 24

/* Of a process that has more requests waiting than these, the rest is not light. */
#define SLU_AHEAD 16U

#define SLU_STARVATION_MS 1000
#define SLU_LATE 8

/* A change of a name is taken to cost so much, normalised bytes: some blocks of a journal. */
#define SLU_NAME ((u64)SZ_32K)

/*
 * In a tick so many clients are looked at, so many calls are told why they are held, and the files
 * of so many writers are written back; of each rank so many clients are reviewed.
 */
#define SLU_REVIEWS 16U
#define SLU_LOOKS 64U
#define SLU_ANSWERS 256U
#define SLU_WRITERS 8U

/* Pages of a file are counted up to a number; a part that is written back has so many. */
#define SLU_COUNTED 1024U
#define SLU_PART_LEAST 16U
#define SLU_PART_MOST 16384U

/* Writes leave this part of the tags to reads; writeback that no commit asked for has this part. */
#define SLU_READ_PART 4
#define SLU_LATER_PART 2

/*
 * While ranks compete for flash no request is larger than a piece: what no other rank can
 * interrupt.  It is what the device writes in SLU_ROOM_NS, but no more than is merged (ranks.c),
 * which is also what the page cache reads ahead, and no less than keeps most of the speed.
 */
#define SLU_PIECE_LEAST (32U * 1024 >> SECTOR_SHIFT)
#define SLU_PIECE_MOST (128U * 1024 >> SECTOR_SHIFT)

/* In a request's note: it is one of @pieces. */
#define SLU_NOTE_PIECE BIT_ULL(RANKS_NOTE_BITS - 1)

#define SLU_GATES (SPLIT_ALL | BIT(SPLIT_STORE))
#define SLU_DIRTIES (BIT(SPLIT_WRITE) | BIT(SPLIT_STORE))

/**
 * struct slu_had - what an account, or a rank, has had of the device lately
 * @cost: normalised bytes, of which half are forgotten each SLU_HAD_MS
 * @when: how often that time had passed when they last were
 */
struct slu_had {
	u64 cost;
	unsigned long when;
};

/**
 * struct slu_client - an account on this device
 * @account: the account that has this place, with a reference; NULL: none has
 * @known: in slu_data.known
 * @ioprio: the account's, for @rank
 * @rank: its rank
 * @last: jiffies of its last I/O
 * @active: that was within SLU_MEMORY_MS
 * @bursts: it has as much dirty as it may
 * @had: of the device
 * @queued: its requests that wait by rank
 * @light: that is less than its rank's @part; read without the lock
 * @expected: cost of what it has dirty, normalised bytes
 * @guess: how far off that was
 * @paid: spent in advance, for calls that are inside
 * @inside: calls that have gone and not returned
 * @calls: held
 * @went: jiffies when one of them went, or the first began to wait
 * @later: requests on slu_data.later
 * @waits: in its rank's @waiting while there are any
 */
struct slu_client {
	struct split_account *account;
	struct list_head known;
	unsigned short ioprio;
	unsigned int rank;
	unsigned long last;
	bool active;
	bool bursts;
	struct slu_had had;
	unsigned int queued;
	bool light;
	u64 expected;
	struct guess guess;
	u64 paid;
	unsigned int inside;
	struct held_calls calls;
	unsigned long went;
	unsigned int later;
	struct list_head waits;
};

/**
 * struct slu_rank - the processes of a rank
 * @waiting: clients with held calls, the one that goes next first
 * @active: active clients
 * @had: of the device, by its clients
 * @part: what part of that its client has had, on average over all of it, << SLU_PART_SHIFT:
 *	  processes that ask for little don't count for it, however many they are
 * @light: jiffies when a light one last had a request; read without the lock
 * @expected: of its clients
 * @later: of its clients
 * @next_ns: its next call may go then, below a more urgent rank
 * @latest: the client that did something last
 * @last: jiffies when it did
 * @other: jiffies when another one last did
 * @inside: calls that have gone and not returned
 * @went: jiffies when a held call went, or began to wait where none did
 * @wrote: jiffies when a part was last written back for a writer with nothing dirty of its own
 */
struct slu_rank {
	struct list_head waiting;
	unsigned int active;
	struct slu_had had;
	s64 part;
	unsigned long light;
	u64 expected;
	unsigned int later;
	u64 next_ns;
	const struct slu_client *latest;
	unsigned long last;
	unsigned long other;
	unsigned int inside;
	unsigned long went;
	unsigned long wrote;
};

/**
 * struct slu_data - one queue's scheduler
 * @ranks: the order of requests; its lock guards all that follows, unless it says otherwise
 * @device: for split.h's functions
 * @client: by account's id
 * @known: clients with an account
 * @rank: the ranks
 * @active: active clients
 * @bursts: clients that have as much dirty as they may
 * @held: calls
 * @later: writeback that no commit asked for, below a more urgent rank, in order
 * @piece: of these the one that goes next, and is not on it any more; read without the lock
 * @pieces: of these with the driver
 * @room_ns: the device's time for more of them; read without the lock
 * @commits: calls inside that want to be durable, where a commit writes data of others first
 * @mounted: a file system is on the disk itself
 * @worked: in so many ticks on end light processes came with requests; less than 0 after they had
 *	    the device for themselves and used little of it
 * @quiet: what they had of the device for themselves, SLU_LOUD_TICKS for each tick
 * @quiet_for: ticks of that since pieces last went
 * @used: of these, in how many they had requests
 * @loud: that was all that they may have
 * @max_sectors: of the queue's requests, while no ranks compete
 * @set_sectors: what the queue was last given
 * @cost: what split_dispatch() has charged so far
 * @writes_back: that is for the page cache or the journal
 * @tick: looks after all that time changes, while a client is known
 * @burst_ms: 0: no limit; read and written without the lock
 */
struct slu_data {
	struct ranks ranks;
	struct split_device *device;
	struct slu_client *client;
	struct list_head known;
	struct slu_rank rank[RANKS];
	unsigned int active;
	unsigned int bursts;
	unsigned int held;
	struct list_head later;
	struct request *piece;
	unsigned int pieces;
	s64 room_ns;
	unsigned int commits;
	bool mounted;
	int worked;
	int quiet;
	int quiet_for;
	int used;
	bool loud;
	unsigned int max_sectors;
	unsigned int set_sectors;
	u64 cost;
	bool writes_back;
	struct timer_list tick;
	unsigned int burst_ms;
};

/* As ranks.h wants it. */
static_assert(offsetof(struct slu_data, ranks) == 0);

static bool slu_since(unsigned long when, unsigned int ms)
{
	return time_after_eq(jiffies, when + msecs_to_jiffies(ms));
}

/* A timer takes up to a jiffy longer than it is set to. */
static void slu_start_tick(struct slu_data *sluice, bool light)
{
	unsigned long beside = msecs_to_jiffies(SLU_TICK_BESIDE_MS) - 1;

	mod_timer(&sluice->tick, jiffies + (light ? beside : msecs_to_jiffies(SLU_TICK_MS)));
}

/* Clients */

/* Gates are closed while there is something to decide. */
static void slu_set_gates(struct slu_data *sluice)
{
	struct split_device *device = READ_ONCE(sluice->device);
	unsigned int kinds = sluice->bursts ? SLU_DIRTIES : SPLIT_NONE;

	/* What comes while it is being attached finds open gates. */
	if (device)
		split_close(device, sluice->active > 1 || sluice->held ? SLU_GATES : kinds);
}

static void slu_set_rank(struct slu_data *sluice, struct slu_client *client, unsigned short ioprio)
{
	unsigned int rank = rank_of_ioprio(ioprio);

	client->ioprio = ioprio;
	sluice->rank[client->rank].expected -= client->expected;
	sluice->rank[rank].expected += client->expected;
	sluice->rank[client->rank].later -= client->later;
	sluice->rank[rank].later += client->later;
	sluice->rank[client->rank].inside -= client->inside;
	sluice->rank[rank].inside += client->inside;
	sluice->rank[client->rank].active -= client->active;
	sluice->rank[rank].active += client->active;
	if (rank != client->rank && sluice->rank[client->rank].latest == client) {
		/* What it did is not another process's beside it. */
		sluice->rank[client->rank].last = sluice->rank[client->rank].other;
		sluice->rank[client->rank].latest = NULL;
	}
	if (!held_calls_none(&client->calls) && rank != client->rank) {
		if (list_empty(&sluice->rank[rank].waiting))
			sluice->rank[rank].went = jiffies;
		list_move_tail(&client->waits, &sluice->rank[rank].waiting);
	}
	client->rank = rank;
}

/* An account has no place yet, or another priority than before. */
static noinline void slu_client_changed(struct slu_data *sluice, struct slu_client *client,
					struct split_account *account, unsigned short ioprio)
{
	if (!client->account) {
		if (list_empty(&sluice->known))
			slu_start_tick(sluice, false);
		list_add_tail(&client->known, &sluice->known);
		client->account = split_account_get(account);
		client->last = jiffies;
		client->guess = (struct guess){ 0 };
		client->had.cost = 0;
		client->light = false;
	}
	slu_set_rank(sluice, client, ioprio);
}

static struct slu_client *slu_client(struct slu_data *sluice, struct split_account *account)
{
	struct slu_client *client = &sluice->client[account->id];
	unsigned short ioprio = READ_ONCE(account->ioprio);

	lockdep_assert_held(&sluice->ranks.lock);
	if (unlikely(!client->account || client->ioprio != ioprio))
		slu_client_changed(sluice, client, account, ioprio);
	return client;
}

static void slu_set_bursts(struct slu_data *sluice, struct slu_client *client, bool bursts)
{
	if (bursts == client->bursts)
		return;
	client->bursts = bursts;
	sluice->bursts += bursts ? 1 : -1;
	slu_set_gates(sluice);
}

static void slu_set_active(struct slu_data *sluice, struct slu_client *client, bool active)
{
	if (active == client->active)
		return;
	client->active = active;
	sluice->active += active ? 1 : -1;
	sluice->rank[client->rank].active += active ? 1 : -1;
	slu_set_gates(sluice);
}

/* A client does something.  Account 0 stands for many processes, and for none. */
static void slu_be_there(struct slu_data *sluice, struct slu_client *client)
{
	struct slu_rank *r = &sluice->rank[client->rank];

	if (client == sluice->client)
		return;
	if (r->latest != client)
		r->other = r->last;
	r->latest = client;
	r->last = jiffies;
	client->last = jiffies;
	slu_set_active(sluice, client, true);
}

static void slu_forget(struct slu_data *sluice, struct slu_client *client)
{
	struct slu_rank *r = &sluice->rank[client->rank];

	slu_set_bursts(sluice, client, false);
	slu_set_active(sluice, client, false);
	/* The place will be another account's. */
	if (r->latest == client) {
		r->other = r->last;
		r->latest = NULL;
	}
	list_del_init(&client->known);
	split_account_put(client->account);
	client->account = NULL;
}

/* Whether there are requests of such a place. */
static bool slu_has_requests(const struct slu_data *sluice, unsigned int place)
{
	return ranks_has_requests(&sluice->ranks.lane[ranks_lane_of(place)]);
}

/* Whether a rank has something to do, or had a moment ago. */
static bool slu_is_busy(const struct slu_data *sluice, unsigned int rank)
{
	const struct slu_rank *r = &sluice->rank[rank];

	return (r->inside && !slu_since(r->last, SLU_INSIDE_MS)) || !list_empty(&r->waiting) ||
	       slu_has_requests(sluice, rank) || slu_has_requests(sluice, rank | RANKS_LIGHT) ||
	       !slu_since(r->last, SLU_HOLD_MS);
}

/* How many more urgent ranks are busy, at most SLU_ABOVE_MOST. */
static unsigned int slu_above(const struct slu_data *sluice, unsigned int rank)
{
	unsigned int above = 0;

	while (rank-- && above < SLU_ABOVE_MOST)
		above += slu_is_busy(sluice, rank);
	return above;
}

/* Whether a more urgent rank was there lately. */
static bool slu_was_above(const struct slu_data *sluice, unsigned int rank)
{
	while (rank--)
		if (!slu_since(sluice->rank[rank].last, SLU_MEMORY_MS))
			return true;
	return false;
}

/* Whether another client of the same rank was there in the last @ms. */
static bool slu_was_beside(const struct slu_data *sluice, const struct slu_client *client,
			   unsigned int ms)
{
	const struct slu_rank *r = &sluice->rank[client->rank];

	return !slu_since(r->latest == client ? r->other : r->last, ms);
}

/* Equal ranks */

/* All forget at the same time, so that they can be compared. */
static void slu_forget_had(struct slu_had *had)
{
	unsigned long when = jiffies / msecs_to_jiffies(SLU_HAD_MS);

	had->cost >>= min(when - had->when, 63UL);
	had->when = when;
}

/* Whether a client has had less than a part of what those have had that have most of the device. */
static bool slu_had_less(struct slu_rank *r, struct slu_client *client, unsigned int divisor)
{
	slu_forget_had(&client->had);
	slu_forget_had(&r->had);
	return client->had.cost * divisor < r->had.cost * r->part >> SLU_PART_SHIFT;
}

/*
 * A client has @cost of the device.  With as much as those that have most it isn't light.  One that
 * comes from another rank may have had more than its rank.
 */
static void slu_have(struct slu_data *sluice, struct slu_client *client, u64 cost)
{
	struct slu_rank *r = &sluice->rank[client->rank];
	s64 part;

	cost = min_t(u64, cost, SZ_1G);
	if (!cost)
		return;
	slu_forget_had(&client->had);
	slu_forget_had(&r->had);
	client->had.cost += cost;
	r->had.cost += cost;
	part = div64_u64(min(client->had.cost, r->had.cost) << SLU_PART_SHIFT, r->had.cost);
	r->part += div64_s64((part - r->part) * (s64)cost, r->had.cost);
	if (client->light && !slu_had_less(r, client, 1))
		WRITE_ONCE(client->light, false);
}

/*
 * Whether requests of others than a client wait, or are kept back, or are inside and others were
 * there lately.
 */
static bool slu_is_beside(const struct slu_data *sluice, const struct slu_client *client)
{
	const struct slu_rank *r = &sluice->rank[client->rank];

	return ranks_queued(&sluice->ranks, client->rank) > client->queued ||
	       r->later > client->later ||
	       (slu_has_requests(sluice, client->rank) &&
		(slu_was_beside(sluice, client, SLU_HOLD_MS) || !list_empty(&r->waiting)));
}

/*
 * A client comes with a request.  Return: whether it is light: it has little waiting, has had less
 * than half of what those have that have most of the device, and since then not all of that.  Not
 * on a disk that seeks, which does much more with many requests inside than with few.
 */
static bool slu_comes_light(struct slu_data *sluice, struct slu_client *client)
{
	struct slu_rank *r = &sluice->rank[client->rank];
	bool light;

	if (client == sluice->client || sluice->ranks.rotating)
		return false;
	light = client->queued < SLU_AHEAD && slu_is_beside(sluice, client) &&
		slu_had_less(r, client, client->light ? 1 : 2);
	WRITE_ONCE(client->light, light);
	if (light)
		WRITE_ONCE(r->light, jiffies);
	return light;
}

/* Whether a light client of the same rank was there lately. */
static bool slu_light_beside(const struct slu_data *sluice, const struct slu_client *client)
{
	return !client->light && !slu_since(sluice->rank[client->rank].light, SLU_MEMORY_MS);
}

/* Whether a rank had a light client within @ms. */
static bool slu_had_light(const struct slu_data *sluice, unsigned int ms)
{
	unsigned int i;

	for (i = 0; i < RANKS; i++)
		if (!slu_since(sluice->rank[i].light, ms))
			return true;
	return false;
}

/* The share */

static u64 slu_ns(const struct slu_data *sluice, u64 cost)
{
	return split_cost_ns(sluice->device, cost);
}

/* What @cost of the device's time leaves to wait for, below @above busy ranks. */
static u64 slu_period(const struct slu_data *sluice, u64 cost, unsigned int above)
{
	unsigned int share = READ_ONCE(sluice->ranks.low_share);
	u64 period = slu_ns(sluice, min_t(u64, cost, SZ_1G)) * SLU_PROMISE_PCT / share;

	while (--above && period < SLU_PERIOD_MAX_NS)
		period = period * 100 / share;
	return min(period, SLU_PERIOD_MAX_NS);
}

/* A rank has the device do something: below a more urgent one that is of its share. */
static void slu_spend(struct slu_data *sluice, unsigned int rank, u64 cost)
{
	struct slu_rank *r = &sluice->rank[rank];
	unsigned int above = READ_ONCE(sluice->device) ? slu_above(sluice, rank) : 0;
	u64 now;

	if (!above)
		return;
	now = ktime_get_ns();
	r->next_ns = max(r->next_ns, now - SLU_CREDIT_NS) + slu_period(sluice, cost, above);
	r->next_ns = min(r->next_ns, now + SLU_PERIOD_MAX_NS);
}

/* Whether a rank has had its share. */
static bool slu_is_spent(const struct slu_data *sluice, unsigned int rank)
{
	return sluice->rank[rank].next_ns > ktime_get_ns() && slu_above(sluice, rank);
}

/*
 * What a call will cost, as far as it isn't noticed in the call.  A direct write that is durable
 * has the drive flushed, for itself alone where it changes nothing that is in a journal.
 */
static u64 slu_predict(const struct slu_data *sluice, const struct split_call *call)
{
	if (!(BIT(call->kind) & SLU_DIRTIES))
		return BIT(call->kind) & SPLIT_NAMES ? SLU_NAME : 0;
	if (call->direct)
		return SLU_NAME + split_flush_cost(sluice->device);
	return clamp_t(u64, call->bytes, PAGE_SIZE, SZ_1G);
}

/* The limit of dirty data */

static u64 slu_below(const struct slu_data *sluice)
{
	return sluice->ranks.rotating ? SLU_BELOW_DISK : SLU_BELOW_FLASH;
}

/* How much a client may have dirty, as the time that the device takes for it. */
static u64 slu_limit_ns(const struct slu_data *sluice, const struct slu_client *client)
{
	u64 burst_ns = READ_ONCE(sluice->burst_ms) * (u64)NSEC_PER_MSEC;

	if (slu_was_above(sluice, client->rank))
		return min(burst_ns / SLU_BESIDE_PART, slu_ns(sluice, slu_below(sluice)));
	if (slu_light_beside(sluice, client))
		return burst_ns / SLU_LIGHT_PART;
	if (slu_was_beside(sluice, client, SLU_MEMORY_MS))
		return burst_ns / SLU_BESIDE_PART;
	return client->rank > RANK_DEFAULT ? burst_ns / SLU_LOW_PART : burst_ns;
}

/* How long the device will take for what a client has dirty. */
static u64 slu_dirty_ns(const struct slu_data *sluice, const struct slu_client *client, u64 cost)
{
	return slu_ns(sluice, guess_cost(&client->guess, cost));
}

/* Whether a client has as much dirty as it may, or its rank has. */
static bool slu_has_burst(const struct slu_data *sluice, const struct slu_client *client)
{
	u64 limit_ns = slu_limit_ns(sluice, client), all_ns;

	if (!READ_ONCE(sluice->burst_ms))
		return false;
	if (client->later > (slu_was_above(sluice, client->rank) ? 0 : SLU_LATER_BESIDE))
		return true;
	if (slu_dirty_ns(sluice, client, client->expected) > limit_ns)
		return true;
	all_ns = slu_ns(sluice, sluice->rank[client->rank].expected);
	if (slu_was_above(sluice, client->rank) || client->rank > RANK_DEFAULT)
		return all_ns > limit_ns;
	return client->expected > slu_below(sluice) && all_ns > SLU_RANK_LIMITS * limit_ns;
}

/* What a client has dirty, or may have, has changed. */
static void slu_note_dirty(struct slu_data *sluice, struct slu_client *client)
{
	/* What becomes dirty while the device is being attached is looked at later. */
	if (READ_ONCE(sluice->device))
		slu_set_bursts(sluice, client, slu_has_burst(sluice, client));
}

/* Calls */

static bool slu_dirties(const struct split_call *call)
{
	return BIT(call->kind) & SLU_DIRTIES && !call->direct && call->inode;
}

/* Why a call must wait, if no other one does; NULL: it may go. */
static const char *slu_reason(const struct slu_data *sluice, const struct slu_client *client,
			      const struct split_call *call)
{
	if (slu_is_spent(sluice, client->rank))
		return "rank";
	return client->bursts && slu_dirties(call) ? "dirty" : NULL;
}

/* What a call's @private says once it has gone. */
#define SLU_GONE BIT(0)
#define SLU_PAYS BIT(1)
#define SLU_COMMITS BIT(2)

/* Whether a call waits for a commit that writes data of others first. */
static bool slu_commits(const struct split_call *call)
{
	return (call->durable || BIT(call->kind) & SPLIT_DURABLE) &&
	       call->sb->s_magic == EXT4_SUPER_MAGIC;
}

/* A call goes into the file system. */
static void slu_admit(struct slu_data *sluice, struct slu_client *client, struct split_call *call,
		      bool free)
{
	u64 cost = free ? 0 : slu_predict(sluice, call);

	call->private = SLU_GONE;
	if (!free)
		call->private |= SLU_PAYS;
	if (slu_commits(call)) {
		call->private |= SLU_COMMITS;
		sluice->commits++;
	}
	client->inside++;
	sluice->rank[client->rank].inside++;
	slu_spend(sluice, client->rank, cost);
	if (slu_dirties(call))
		client->paid += cost;
}

static void slu_hold_call(struct slu_data *sluice, struct slu_client *client,
			  struct split_call *call, const char *reason)
{
	struct slu_rank *r = &sluice->rank[client->rank];

	if (list_empty(&r->waiting))
		r->went = jiffies;
	if (held_calls_none(&client->calls)) {
		list_add_tail(&client->waits, &r->waiting);
		client->went = jiffies;
	}
	held_calls_add(&client->calls, call, reason);
	trace_sluice_hold(sluice->ranks.q, call->account->tgid, client->rank, call->kind, reason);
	sluice->held++;
	slu_set_gates(sluice);
}

static void slu_unlist(struct slu_data *sluice, struct slu_client *client, struct split_call *call)
{
	held_calls_del(&client->calls, call);
	if (!--sluice->held)
		slu_set_gates(sluice);
	if (held_calls_none(&client->calls))
		list_del_init(&client->waits);
}

/* Lets a client's oldest held call go; another client's is next. */
static void slu_let_go(struct slu_data *sluice, struct slu_client *client)
{
	struct split_call *call = held_calls_first(&client->calls);
	struct slu_rank *r = &sluice->rank[client->rank];

	r->went = jiffies;
	client->went = jiffies;
	slu_unlist(sluice, client, call);
	if (!held_calls_none(&client->calls))
		list_move_tail(&client->waits, &r->waiting);
	slu_admit(sluice, client, call, false);
	slu_be_there(sluice, client);
	trace_sluice_let_go(sluice->ranks.q, call->account->tgid, client->rank, call->kind,
			    jiffies_to_msecs(jiffies - call->began));
	split_let_go(call);
}

/* Whether a client's calls have waited for as long as they must bear. */
static bool slu_is_late(const struct slu_rank *r, const struct slu_client *client, bool spent)
{
	if (spent)
		return slu_since(r->went, SLU_STARVATION_MS);
	return slu_since(client->went, SLU_LATE * SLU_STARVATION_MS);
}

/* Lets go what needn't be held any longer of a rank. */
static void slu_review_rank(struct slu_data *sluice, struct slu_rank *r)
{
	struct slu_client *client, *first = NULL;
	unsigned int left = SLU_REVIEWS;
	const char *reason;
	bool spent;

	while (left-- && !list_empty(&r->waiting)) {
		client = list_first_entry(&r->waiting, struct slu_client, waits);
		if (client == first)
			break;
		slu_note_dirty(sluice, client);
		spent = slu_is_spent(sluice, client->rank);
		reason = slu_reason(sluice, client, held_calls_first(&client->calls));
		if (!reason || slu_is_late(r, client, spent)) {
			slu_let_go(sluice, client);
			continue;
		}
		if (spent)
			break;
		list_move_tail(&client->waits, &r->waiting);
		first = first ?: client;
	}
}

static void slu_review(struct slu_data *sluice)
{
	unsigned int i;

	lockdep_assert_held(&sluice->ranks.lock);
	for (i = 0; sluice->held && i < RANKS; i++)
		slu_review_rank(sluice, &sluice->rank[i]);
}

static bool slu_enter(void *data, struct split_call *call)
{
	struct slu_data *sluice = data;
	struct slu_client *client;
	const char *reason = NULL;
	bool free = (call->direct && !call->durable) || split_costs_nothing(call);
	unsigned long flags;

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	sluice->mounted = true;
	client = slu_client(sluice, call->account);
	if (!free)
		slu_be_there(sluice, client);
	slu_note_dirty(sluice, client);
	if (!held_calls_none(&client->calls))
		reason = "order";
	else if (!free)
		reason = !list_empty(&sluice->rank[client->rank].waiting) &&
					 slu_above(sluice, client->rank)
				 ? "rank"
				 : slu_reason(sluice, client, call);
	if (!reason)
		slu_admit(sluice, client, call, free);
	else if (!call->nowait)
		slu_hold_call(sluice, client, call, reason);
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
	return !reason;
}

static void slu_drop(void *data, struct split_call *call)
{
	struct slu_data *sluice = data;
	unsigned long flags;

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	if (!list_empty(&call->node))
		slu_unlist(sluice, &sluice->client[call->account->id], call);
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
}

static void slu_leave(void *data, struct split_call *call, ssize_t result)
{
	struct slu_data *sluice = data;
	struct slu_client *client;
	unsigned long flags;

	if (!call->private)
		return;
	spin_lock_irqsave(&sluice->ranks.lock, flags);
	client = slu_client(sluice, call->account);
	sluice->rank[client->rank].inside--;
	if (!--client->inside)
		client->paid = 0;
	if (call->private & SLU_PAYS)
		slu_be_there(sluice, client);
	if (call->private & SLU_COMMITS)
		sluice->commits--;
	slu_review(sluice);
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
}

/* Costs */

static void slu_expect(void *data, struct split_account *account, u64 cost)
{
	struct slu_data *sluice = data;
	struct slu_client *client;
	unsigned long flags;
	u64 guess, paid;

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	client = slu_client(sluice, account);
	client->expected += cost;
	sluice->rank[client->rank].expected += cost;
	guess = guess_cost(&client->guess, cost);
	paid = min(client->paid, guess);
	client->paid -= paid;
	slu_spend(sluice, client->rank, guess - paid);
	slu_be_there(sluice, client);
	slu_note_dirty(sluice, client);
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
}

static void slu_settle(void *data, struct split_account *account, u64 cost)
{
	struct slu_data *sluice = data;
	struct slu_client *client;
	unsigned long flags;

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	client = slu_client(sluice, account);
	client->expected -= cost;
	sluice->rank[client->rank].expected -= cost;
	guess_settle(&client->guess, cost);
	slu_note_dirty(sluice, client);
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
}

static void slu_demand(void *data, struct split_account *account, u64 cost)
{
	struct slu_data *sluice = data;
	unsigned long flags;

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	slu_spend(sluice, slu_client(sluice, account)->rank, cost);
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
}

/* What is read and written directly is of the ranks' turns. */
static void slu_charge(void *data, struct split_account *account, u64 cost)
{
	struct slu_data *sluice = data;
	struct slu_client *client = slu_client(sluice, account);

	sluice->cost += cost;
	slu_have(sluice, client, cost);
	if (sluice->writes_back)
		guess_charge(&client->guess, cost);
}

static const struct split_ops slu_ops = {
	.name = "sluice",
	.more = BIT(SPLIT_STORE),
	.enter = slu_enter,
	.drop = slu_drop,
	.leave = slu_leave,
	.expect = slu_expect,
	.settle = slu_settle,
	.demand = slu_demand,
	.charge = slu_charge,
};

/* Requests, in the order of a request's life */

/* What has one of these may be what a commit waits for. */
#define SLU_NEEDED (REQ_SYNC | REQ_META | REQ_SWAP | REQ_PREFLUSH | REQ_FUA)

/*
 * Whether a request is one that waits by its rank: a read, or a direct write, which alone is both
 * SYNC and IDLE and neither part of a journal nor of a flush.
 */
static bool slu_orders(const struct request *rq)
{
	const blk_opf_t direct = REQ_SYNC | REQ_IDLE;
	const blk_opf_t other = REQ_META | REQ_PREFLUSH;

	return req_op(rq) == REQ_OP_READ ||
	       (req_op(rq) == REQ_OP_WRITE && (rq->cmd_flags & (direct | other)) == direct);
}

/* Whether the current task leaves tags to a light process of its rank.  Without locks. */
static bool slu_leaves_tags(const struct slu_data *sluice)
{
	const struct slu_rank *r = &sluice->rank[rank_of_ioprio(get_current_ioprio())];

	return !slu_since(READ_ONCE(r->light), SLU_MEMORY_MS) &&
	       !READ_ONCE(sluice->client[split_id_of_task()].light);
}

/* Called without locks, before a tag is allocated. */
static void slu_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	const struct slu_data *sluice = data->q->elevator->elevator_data;
	const blk_opf_t direct = REQ_SYNC | REQ_IDLE;
	bool all = op_is_write(opf) && split_works_for_all(sluice->device);
	bool ordered = !op_is_write(opf) || (!all && (opf & direct) == direct);
	unsigned int tags = sluice_nr_tags(data);

	if (!ordered && !all && !(opf & SLU_NEEDED))
		sluice_limit_tags(data, tags / SLU_LATER_PART);
	else if (!ordered || (!rq_blocks_others(opf) && slu_leaves_tags(sluice)))
		sluice_limit_tags(data, tags - tags / SLU_READ_PART);
	if (ordered)
		ranks_limit_depth(opf, data);
}

static void slu_prepare_request(struct request *rq)
{
	split_prepare(rq);
	ranks_prepare_request(rq);
}

/* Says for which process of a more urgent rank a request goes before all reads. */
static void slu_trace_inherit(const struct slu_data *sluice, const struct slu_client *client,
			      struct request *rq)
{
	const struct slu_client *other, *waiter = NULL;
	unsigned int rank = client == sluice->client ? RANK_IDLE : client->rank;

	list_for_each_entry(other, &sluice->known, known)
		if (other->inside && other->rank < (waiter ? waiter->rank : rank))
			waiter = other;
	if (waiter)
		trace_sluice_inherit(rq, client->account->tgid, rank, waiter->account->tgid,
				     waiter->rank);
}

/* The rank of a request that comes.  What a task with a journal handle reads can't wait. */
static unsigned int slu_place(struct request *rq)
{
	struct slu_data *sluice = rq->q->elevator->elevator_data;
	struct slu_client *client = slu_client(sluice, split_request_account(rq));
	bool orders = slu_orders(rq), light;
	unsigned int rank;

	if (trace_sluice_inherit_enabled() && rq != sluice->piece &&
	    (!orders || split_has_handle()))
		slu_trace_inherit(sluice, client, rq);
	/* What no process is known to have caused is above none of them. */
	if (!orders)
		return (client == sluice->client ? RANK_IDLE : client->rank) | RANKS_URGENT;
	slu_be_there(sluice, client);
	rank = split_works_for_all(sluice->device) ? client->rank
						   : rank_of_ioprio(sluice_rq_ioprio(rq));
	if (split_has_handle())
		return rank | RANKS_URGENT;
	light = rank == client->rank && slu_comes_light(sluice, client);
	client->queued++;
	return rank | (light ? RANKS_LIGHT : 0);
}

/* Whether a request is writeback that no commit asked for. */
static bool slu_is_unasked(const struct request *rq)
{
	return req_op(rq) == REQ_OP_WRITE && !(rq->cmd_flags & SLU_NEEDED) &&
	       rq->rq_flags & SLUICE_RQF_SCHED;
}

/* Whether it is that, and a more urgent rank is busy, or a light process of the same. */
static bool slu_may_wait(struct slu_data *sluice, struct request *rq)
{
	struct slu_client *client;

	lockdep_assert_held(&sluice->ranks.lock);
	if (!slu_is_unasked(rq))
		return false;
	client = slu_client(sluice, split_request_account(rq));
	return client != sluice->client &&
	       (slu_above(sluice, client->rank) || slu_light_beside(sluice, client));
}

/* Whether what waits is below a more urgent rank, and not beside a light process of its own. */
static bool slu_is_below(struct slu_data *sluice, struct request *rq)
{
	return slu_above(sluice, slu_client(sluice, split_request_account(rq))->rank);
}

/* What a tick adds to the room for what waits. */
static s64 slu_tick_room(const struct slu_data *sluice, bool below)
{
	bool light = slu_had_light(sluice, SLU_MEMORY_MS);
	u64 tick_ns = jiffies_to_nsecs(msecs_to_jiffies(light ? SLU_TICK_BESIDE_MS : SLU_TICK_MS));

	if (below)
		return tick_ns / SLU_ROOM_PART;
	return sluice->loud ? tick_ns : div_u64(tick_ns * SLU_ROOM_BESIDE_PCT, 100);
}

/* The most room for what waits: where nothing did for a tick, as when its writer was held. */
static s64 slu_most_room(const struct slu_data *sluice, bool below)
{
	return below ? SLU_ROOM_NS : slu_tick_room(sluice, false) * SLU_PIECES_BESIDE;
}

/* Keeps back what may wait. */
static void slu_put_off(struct slu_data *sluice, struct list_head *list)
{
	struct slu_client *client;
	struct request *rq, *next;
	unsigned long flags;

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	list_for_each_entry_safe(rq, next, list, queuelist) {
		if (!slu_may_wait(sluice, rq))
			continue;
		list_move_tail(&rq->queuelist, &sluice->later);
		client = slu_client(sluice, split_request_account(rq));
		client->later++;
		sluice->rank[client->rank].later++;
	}
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
}

static void slu_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				sluice_insert_t ins)
{
	struct slu_data *sluice = hctx->queue->elevator->elevator_data;
	struct request *rq;
	bool unasked = false;

	list_for_each_entry(rq, list, queuelist) {
		split_insert(sluice->device, rq);
		unasked |= slu_is_unasked(rq);
	}
	/* What the driver gave back is inside the device still. */
	if (unasked && !sluice_insert_at_head(ins))
		slu_put_off(sluice, list);
	ranks_insert_requests(hctx, list, ins);
}

/*
 * Whether the next piece of @later may go: there is room, or the queue is being frozen, which waits
 * for all of it.  With or without the lock.
 */
static bool slu_has_room(const struct slu_data *sluice)
{
	return !list_empty_careful(&sluice->later) && !READ_ONCE(sluice->piece) &&
	       (READ_ONCE(sluice->room_ns) > 0 ||
		percpu_ref_is_dying(&sluice->ranks.q->q_usage_counter));
}

/* Of what is kept back the first of the most urgent rank; there is some. */
static struct request *slu_next_piece(struct slu_data *sluice)
{
	struct request *rq, *best = NULL;
	unsigned int rank = RANKS;

	list_for_each_entry(rq, &sluice->later, queuelist) {
		const struct slu_client *client = slu_client(sluice, split_request_account(rq));

		if (client->rank < rank) {
			rank = client->rank;
			best = rq;
		}
	}
	return best;
}

/* The next piece goes before all ranks, once what else goes before them has gone. */
static void slu_take_piece(struct blk_mq_hw_ctx *hctx, struct slu_data *sluice)
{
	struct slu_client *client;
	struct request *rq = NULL;
	unsigned long flags;
	LIST_HEAD(list);

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	if (slu_has_room(sluice) && list_empty(&sluice->ranks.urgent)) {
		rq = slu_next_piece(sluice);
		/* There may be more room than that while another process's are next. */
		if (slu_may_wait(sluice, rq))
			sluice->room_ns = min(sluice->room_ns,
					      slu_most_room(sluice, slu_is_below(sluice, rq)));
		client = slu_client(sluice, split_request_account(rq));
		client->later--;
		sluice->rank[client->rank].later--;
		slu_note_dirty(sluice, client);
		list_move(&rq->queuelist, &list);
		WRITE_ONCE(sluice->piece, rq);
	}
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
	if (rq)
		ranks_insert_requests(hctx, &list, 0);
}

/* A request leaves: its causes are charged.  A piece keeps with it that it is one. */
static void slu_pay(struct slu_data *sluice, struct request *rq)
{
	bool piece = rq == sluice->piece;

	lockdep_assert_held(&sluice->ranks.lock);
	if (piece)
		WRITE_ONCE(sluice->piece, NULL);
	sluice->cost = 0;
	sluice->writes_back = !slu_orders(rq);
	split_dispatch(sluice->device, rq);
	if (!piece || !(rq->rq_flags & SLUICE_RQF_SCHED))
		return;
	sluice->pieces++;
	WRITE_ONCE(sluice->room_ns, sluice->room_ns - slu_ns(sluice, sluice->cost));
	ranks_set_note(rq, SLU_NOTE_PIECE);
}

static bool slu_has_work(struct blk_mq_hw_ctx *hctx)
{
	return ranks_has_work(hctx) || slu_has_room(hctx->queue->elevator->elevator_data);
}

static struct request *slu_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct slu_data *sluice = hctx->queue->elevator->elevator_data;
	struct request *rq;
	unsigned long flags;
	bool ranked;

	if (slu_has_room(sluice))
		slu_take_piece(hctx, sluice);
	spin_lock_irqsave(&sluice->ranks.lock, flags);
	ranked = list_empty(&sluice->ranks.urgent);
	rq = ranks_next(&sluice->ranks);
	if (rq && ranked)
		slu_client(sluice, split_request_account(rq))->queued--;
	if (rq)
		slu_pay(sluice, rq);
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
	if (rq)
		rq->rq_flags |= RQF_STARTED;
	return rq;
}

/*
 * A piece is done.  A commit that may need what is kept back waits for no more than that.
 * Return: whether the next piece may go.
 */
static bool slu_written(struct slu_data *sluice)
{
	unsigned long flags;
	bool run = false;

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	if (!--sluice->pieces && sluice->commits) {
		WRITE_ONCE(sluice->room_ns, SLU_ROOM_NS);
		run = slu_has_room(sluice);
	}
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
	return run;
}

/* Called from any context, for each request that slu_prepare_request() saw. */
static void slu_finish_request(struct request *rq)
{
	struct request_queue *q = rq->q;
	bool run = !slu_orders(rq) && ranks_note(rq) && slu_written(q->elevator->elevator_data);

	ranks_finish_request(rq);
	split_finish(rq);
	if (run)
		blk_mq_run_hw_queues(q, true);
}

/* Whether a light process has the device for itself.  A commit may need what is kept back. */
static bool slu_is_quiet(const struct slu_data *sluice)
{
	return sluice->worked >= SLU_WORKS && !sluice->loud && !sluice->commits &&
	       !list_empty(&sluice->later);
}

static bool slu_has_light(const struct slu_data *sluice)
{
	unsigned int i;

	for (i = 0; i < RANKS; i++)
		if (slu_has_requests(sluice, i | RANKS_LIGHT))
			return true;
	return false;
}

/* A tick has passed, in which pieces were kept back for light processes, or went. */
static void slu_note_quiet(struct slu_data *sluice)
{
	if (!slu_is_quiet(sluice)) {
		sluice->quiet -= min(sluice->quiet, SLU_QUIET_TICKS);
		sluice->quiet_for = 0;
		sluice->used = 0;
		sluice->loud &= sluice->quiet > 0;
		return;
	}
	sluice->quiet += SLU_LOUD_TICKS;
	sluice->quiet_for++;
	sluice->used += slu_has_light(sluice);
	if (sluice->quiet_for >= SLU_QUIET_LEAST &&
	    sluice->used * SLU_QUIET_USED < sluice->quiet_for)
		sluice->worked = -SLU_LOUD_TICKS;
	sluice->loud = sluice->quiet >= SLU_QUIET_TICKS * SLU_LOUD_TICKS;
}

/*
 * Once the pieces inside are done there is room for more; for all, if none may wait any longer.
 */
static void slu_make_room(struct slu_data *sluice)
{
	struct request *next;
	bool below;
	s64 room;

	lockdep_assert_held(&sluice->ranks.lock);
	if (list_empty(&sluice->later)) {
		room = sluice->room_ns + slu_tick_room(sluice, false);
		sluice->room_ns = min(room, slu_most_room(sluice, false));
		return;
	}
	next = slu_next_piece(sluice);
	below = slu_is_below(sluice, next);
	room = sluice->room_ns + slu_tick_room(sluice, below);
	if (!slu_may_wait(sluice, next))
		WRITE_ONCE(sluice->room_ns, SLU_PERIOD_MAX_NS);
	else if (!below && slu_is_quiet(sluice))
		WRITE_ONCE(sluice->room_ns, min(sluice->room_ns, 0));
	else if (sluice->pieces < (below ? 1U : SLU_PIECES_BESIDE))
		WRITE_ONCE(sluice->room_ns, min(room, slu_most_room(sluice, below)));
}

static unsigned int slu_piece(const struct slu_data *sluice)
{
	unsigned int sectors = SLU_PIECE_MOST;

	while (sectors > SLU_PIECE_LEAST &&
	       split_write_ns(sluice->device, (u64)sectors << SECTOR_SHIFT) > SLU_ROOM_NS)
		sectors /= 2;
	return sectors;
}

/*
 * The queue's requests are pieces while ranks compete for flash.  A limit that was changed
 * meanwhile is the user's.
 */
static void slu_set_pieces(struct slu_data *sluice, bool pieces)
{
	struct queue_limits *limits = &sluice->ranks.q->limits;
	unsigned int was = READ_ONCE(limits->max_sectors), now;

	if (was != sluice->set_sectors)
		sluice->max_sectors = was;
	now = min_not_zero(min(sluice->max_sectors, limits->max_hw_sectors),
			   limits->max_dev_sectors);
	if (pieces)
		now = min(now, slu_piece(sluice));
	if (now == was || cmpxchg(&limits->max_sectors, was, now) == was)
		sluice->set_sectors = now;
}

/*
 * Whether several ranks did something lately, have calls that wait or data to be written back.
 * Without a file system on the disk itself, what is above has limits of its own that it took from
 * this queue.
 */
static bool slu_ranks_compete(const struct slu_data *sluice)
{
	unsigned int i, there = 0;

	for (i = 0; sluice->mounted && i < RANKS; i++) {
		const struct slu_rank *r = &sluice->rank[i];

		there += !slu_since(r->last, SLU_MEMORY_MS) || !list_empty(&r->waiting) ||
			 r->expected > slu_below(sluice);
	}
	return there > 1;
}

/* The tick */

/* Return: whether a client is still known. */
static bool slu_look_at(struct slu_data *sluice, struct slu_client *client)
{
	if (client->bursts)
		slu_note_dirty(sluice, client);
	if (!held_calls_none(&client->calls) || !slu_since(client->last, SLU_MEMORY_MS))
		return true;
	slu_set_active(sluice, client, false);
	if (client->expected || client->inside)
		return true;
	slu_forget(sluice, client);
	return false;
}

/*
 * So many pages of a writer's file are a part, for which the device takes *@part_ns; if nothing of
 * that is dirty, of all that its rank has.
 */
static unsigned int slu_part(const struct slu_data *sluice, const struct slu_client *client,
			     const struct split_dirt *dirt, u64 *part_ns)
{
	u64 cost = dirt->dirty ? dirt->cost : sluice->rank[client->rank].expected;
	u64 pages = (dirt->dirty ?: cost) >> PAGE_SHIFT;
	u64 dirty_ns = slu_dirty_ns(sluice, client, cost);

	*part_ns = slu_limit_ns(sluice, client) / 2;
	if (dirty_ns > *part_ns)
		pages = mul_u64_u64_div_u64(pages, *part_ns, dirty_ns);
	return clamp_t(u64, pages, SLU_PART_LEAST, SLU_PART_MOST);
}

/* Whether a client's oldest held call is a writer's that has too much dirty. */
static bool slu_may_write_back(const struct slu_client *client)
{
	return client->bursts && slu_dirties(held_calls_first(&client->calls));
}

/* Such a writer has some of its file written back, if not enough is being written. */
static void slu_write_back(struct slu_data *sluice, struct slu_client *client)
{
	struct split_call *call = held_calls_first(&client->calls);
	struct slu_rank *r = &sluice->rank[client->rank];
	struct split_dirt dirt;
	unsigned int part;
	u64 part_ns;

	split_dirt(call, SLU_COUNTED, &dirt);
	part = slu_part(sluice, client, &dirt, &part_ns);
	if (dirt.writing >> PAGE_SHIFT >= min(part / 2, SLU_COUNTED))
		return;
	if (!dirt.dirty && !slu_since(r->wrote, part_ns / NSEC_PER_MSEC))
		return;
	r->wrote = jiffies;
	split_write_back(call, part);
}

/* Looks at some of the known clients, after those that it looked at in the last tick. */
static void slu_look(struct slu_data *sluice)
{
	struct slu_client *client, *first = NULL;
	unsigned int looks = SLU_LOOKS, answers = SLU_ANSWERS, writers = SLU_WRITERS;

	while (looks-- && answers && !list_empty(&sluice->known)) {
		client = list_first_entry(&sluice->known, struct slu_client, known);
		if (client == first)
			break;
		if (!slu_look_at(sluice, client))
			continue;
		if (!held_calls_none(&client->calls)) {
			const char *reason = client->bursts ? "dirty" : "rank";

			if (slu_may_write_back(client) && writers) {
				writers--;
				slu_write_back(sluice, client);
			}
			answers = held_calls_answer(&client->calls, reason, answers);
		}
		if (answers)
			list_move_tail(&client->known, &sluice->known);
		first = first ?: client;
	}
}

static void slu_tick(struct timer_list *timer)
{
	struct slu_data *sluice = container_of(timer, struct slu_data, tick);
	bool run, again, light;
	unsigned long flags;

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	slu_note_quiet(sluice);
	sluice->worked = slu_had_light(sluice, 2 * SLU_TICK_BESIDE_MS) ? sluice->worked + 1 : 0;
	slu_make_room(sluice);
	run = slu_has_room(sluice);
	slu_look(sluice);
	slu_review(sluice);
	light = slu_had_light(sluice, SLU_MEMORY_MS);
	again = !list_empty(&sluice->known) || !list_empty(&sluice->later);
	if (!sluice->ranks.rotating)
		slu_set_pieces(sluice,
			       again && ((light && sluice->mounted) || slu_ranks_compete(sluice)));
	if (again)
		slu_start_tick(sluice, light);
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
	if (!run)
		return;
	/* They may wait for a tag that what is kept back has. */
	sluice_wake_for_tags(sluice->ranks.q);
	blk_mq_run_hw_queues(sluice->ranks.q, true);
}

/* Life of the scheduler */

static void slu_depth_updated(struct request_queue *q)
{
	sluice_may_limit_tags(q);
}

static struct slu_data *slu_alloc(struct request_queue *q)
{
	struct slu_data *sluice = kzalloc_node(sizeof(*sluice), GFP_KERNEL, q->node);
	unsigned long before = jiffies - msecs_to_jiffies(SLU_MEMORY_MS);
	unsigned int i;

	if (!sluice)
		return NULL;
	sluice->client = kvcalloc(SPLIT_ACCOUNTS, sizeof(*sluice->client), GFP_KERNEL);
	if (!sluice->client) {
		kfree(sluice);
		return NULL;
	}
	for (i = 0; i < SPLIT_ACCOUNTS; i++) {
		INIT_LIST_HEAD(&sluice->client[i].known);
		INIT_LIST_HEAD(&sluice->client[i].waits);
		held_calls_init(&sluice->client[i].calls);
	}
	for (i = 0; i < RANKS; i++) {
		INIT_LIST_HEAD(&sluice->rank[i].waiting);
		sluice->rank[i].last = before;
		sluice->rank[i].other = before;
		sluice->rank[i].light = before;
		sluice->rank[i].wrote = before;
	}
	return sluice;
}

static void slu_free(struct slu_data *sluice)
{
	kvfree(sluice->client);
	kfree(sluice);
}

/* Called with the queue frozen. */
static int slu_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct slu_data *sluice = slu_alloc(q);
	struct split_device *device;

	if (!sluice)
		return -ENOMEM;
	ranks_init(&sluice->ranks, q);
	sluice->ranks.place = slu_place;
	sluice->ranks.low_share = SLU_LOW_SHARE;
	INIT_LIST_HEAD(&sluice->known);
	INIT_LIST_HEAD(&sluice->later);
	sluice->max_sectors = queue_max_sectors(q);
	sluice->set_sectors = sluice->max_sectors;
	sluice->burst_ms = sluice->ranks.rotating ? SLU_BURST_DISK_MS : SLU_BURST_FLASH_MS;
	timer_setup(&sluice->tick, slu_tick, 0);
	device = split_attach(q, &slu_ops, sluice);
	if (IS_ERR(device)) {
		slu_free(sluice);
		return PTR_ERR(device);
	}
	WRITE_ONCE(sluice->device, device);
	sluice_may_limit_tags(q);
	/* What may be dirty was decided at the gates; what is kept back would hold its tokens. */
	sluice_disable_wbt(q, eq);
	eq->elevator_data = sluice;
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	return 0;
}

static void slu_check_books(const struct slu_data *sluice)
{
	unsigned int i, bursts = 0, active = 0;

	WARN_ON_ONCE(sluice->held);
	WARN_ON_ONCE(!list_empty(&sluice->later) || sluice->piece || sluice->pieces);
	for (i = 0; i < RANKS; i++)
		WARN_ON_ONCE(sluice->rank[i].later);
	for (i = 0; i < SPLIT_ACCOUNTS; i++) {
		bursts += sluice->client[i].bursts;
		active += sluice->client[i].active;
		WARN_ON_ONCE(!held_calls_none(&sluice->client[i].calls) || sluice->client[i].later);
		WARN_ON_ONCE(sluice->client[i].queued);
	}
	WARN_ON_ONCE(bursts != sluice->bursts || active != sluice->active);
}

/* Called with the queue frozen: every request has been finished. */
static void slu_exit_sched(struct elevator_queue *eq)
{
	struct slu_data *sluice = eq->elevator_data;
	struct slu_client *client, *next;

	timer_shutdown_sync(&sluice->tick);
	slu_set_pieces(sluice, false);
	sluice_enable_wbt(sluice->ranks.q, eq);
	split_detach(sluice->device);
	WRITE_ONCE(sluice->device, NULL);
	ranks_exit(&sluice->ranks);
	slu_check_books(sluice);
	list_for_each_entry_safe(client, next, &sluice->known, known)
		slu_forget(sluice, client);
	slu_free(sluice);
}

/* Knobs */

RQ_KNOB(ranks, low_share, 1, RANKS_LOW_SHARE_MAX)
RQ_KNOB(ranks, hold_ms, 0, RANKS_HOLD_MS_MAX)
RQ_KNOB(slu_data, burst_ms, 0, SLU_BURST_MS_MAX)
SPLIT_COSTS_KNOB(slu_data, costs)

static sluice_attr_t slu_attrs[] = {
	RQ_KNOB_ATTR(low_share), RQ_KNOB_ATTR(hold_ms), RQ_KNOB_ATTR(burst_ms),
	RQ_KNOB_ATTR(costs),	 __ATTR_NULL,
};

#ifdef CONFIG_BLK_DEBUG_FS
/* debugfs .../sched/clients: a line for each that is known. */
static int slu_clients_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct slu_data *sluice = q->elevator->elevator_data;
	const struct slu_client *client;

	seq_puts(m, "id pid rank expected limit_ns dirty_ns inside held light\n");
	spin_lock_irq(&sluice->ranks.lock);
	list_for_each_entry(client, &sluice->known, known)
		seq_printf(m, "%td %d %u %llu %llu %llu %u %u %d\n", client - sluice->client,
			   client->account->tgid, client->rank, client->expected,
			   slu_limit_ns(sluice, client),
			   slu_dirty_ns(sluice, client, client->expected), client->inside,
			   client->calls.count, client->light);
	spin_unlock_irq(&sluice->ranks.lock);
	return 0;
}

/* debugfs .../sched/writeback: what is kept back. */
static int slu_writeback_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct slu_data *sluice = q->elevator->elevator_data;
	const struct request *rq;
	unsigned int later = 0;

	spin_lock_irq(&sluice->ranks.lock);
	list_for_each_entry(rq, &sluice->later, queuelist)
		later++;
	seq_printf(m, "later %u\npieces %u\n", later, sluice->pieces);
	spin_unlock_irq(&sluice->ranks.lock);
	return 0;
}

static const struct blk_mq_debugfs_attr slu_debugfs_attrs[] = {
	{ "state", 0400, ranks_state_show },
	{ "clients", 0400, slu_clients_show },
	{ "writeback", 0400, slu_writeback_show },
	{},
};
#endif

SLUICE_INIT_SCHED(slu_init_sched_op, slu_init_sched)
SLUICE_DEPTH_UPDATED(slu_depth_updated_op, slu_depth_updated)

static struct elevator_type slu_type = {
	.ops = {
		.init_sched		= slu_init_sched_op,
		.exit_sched		= slu_exit_sched,
		.depth_updated		= slu_depth_updated_op,
		.limit_depth		= slu_limit_depth,
		.prepare_request	= slu_prepare_request,
		.allow_merge		= split_allow_merge,
		.insert_requests	= slu_insert_requests,
		.has_work		= slu_has_work,
		.dispatch_request	= slu_dispatch_request,
		.finish_request		= slu_finish_request,
	},
	.elevator_attrs = slu_attrs,
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs = slu_debugfs_attrs,
#endif
	.elevator_name = "sluice",
	.elevator_owner = THIS_MODULE,
};

static int __init slu_init(void)
{
	return elv_register(&slu_type);
}

static void __exit slu_exit(void)
{
	elv_unregister(&slu_type);
}

module_init(slu_init);
module_exit(slu_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("I/O priorities that hold for processes, a split-level policy");
MODULE_ALIAS("sluice-iosched");

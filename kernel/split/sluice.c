// SPDX-License-Identifier: GPL-2.0-only
/*
 * sluice: I/O priorities that hold for processes, from the system call to the device
 *
 * Each process has a rank, by its I/O priority: RT 0-7, BE 0-7, IDLE.
 *
 *	reads, direct writes	wait at the block level, by rank (ranks.h): the most urgent rank
 *				first.  Lower ranks have turns, low_share per cent of the device's
 *				time.
 *	writeback, the journal	are dispatched before all of these, because a commit may need them,
 *				whatever process caused them.  Their amount is limited at the gates.
 *				Writeback that no commit asked for is deferred below a more urgent
 *				rank, and dispatched in pieces.
 *	writes, stores, fsyncs,	are admitted at the gates, before the file system has seen them.
 *	changes of names
 *
 * Admission has two rules.
 *
 * The share.  Below one more urgent rank a rank has low_share per cent of the device's time, below
 * two or more low_share per cent of that.  The device time of a call is predicted.  It is charged
 * when it becomes certain: that of data when the data becomes dirty, that of the journal when a
 * call demands a commit.  With C for that time and S for the share in per cent, the rank's next
 * call is admitted after
 *
 *	min(C * 92 / S, 1 s)
 *
 * A rank does not save up the share that it does not use.  With no more urgent rank a call is
 * admitted at once.
 *
 * The limit of dirty data.  A commit waits for dirty data that it depends on, also of other
 * processes.  So a process may have as much dirty data as the device writes in burst_ms if it is
 * alone, a part of that beside others of its rank, and little below a more urgent rank.  A rank as
 * a whole may have two such limits, and one below a more urgent rank.  A process counts for
 * SLU_MEMORY_MS after its last I/O.  A writer above its limit is held.  Meanwhile its file is
 * written back in parts, or other files of the file system if its own has no dirty pages.
 *
 * A held call waits for time and for writeback, never for another call's return.  Of a rank that
 * has had its share, one held call is admitted each SLU_STARVATION_MS; of a process above its limit
 * of dirty data, one each SLU_DIRTY_STARVATIONS times that.
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
 * The limit of a process is a burst divided by: beside a light process of its rank, whose commit
 * may wait for that data; beside any other process of its rank; alone, but of a low rank.
 */
#define SLU_LIGHT_PART 24
#define SLU_BESIDE_PART 8
#define SLU_LOW_PART 4

/* The limit below a more urgent rank, in normalised bytes: some random accesses. */
#define SLU_LIMIT_BELOW_DISK ((u64)SZ_4M)
#define SLU_LIMIT_BELOW_FLASH ((u64)SZ_512K)

/* A rank's limit, in limits of a process. */
#define SLU_RANK_LIMITS 2

/* After its last I/O a process counts for the limit of others, and a rank for the share. */
#define SLU_MEMORY_MS 1000
#define SLU_HOLD_MS 40

/* After a rank's last I/O a call inside keeps it busy for this time: it may never return. */
#define SLU_INSIDE_MS 10000

/* More urgent ranks that count for a rank's share, at most. */
#define SLU_ABOVE_MOST 2U

/* The share is promised, and costs are predicted: so calls are admitted a little early. */
#define SLU_PROMISE_PCT 92
#define SLU_PERIOD_MAX_NS ((u64)NSEC_PER_SEC)

/* Held calls are reviewed each tick.  The delay of a tick is credited to the rank. */
#define SLU_TICK_MS 10
#define SLU_CREDIT_NS (2 * SLU_TICK_MS * (u64)NSEC_PER_MSEC)

/*
 * Deferred writeback below a more urgent rank has a quarter of the device's time.  That is more
 * than the largest usual share, so that the share decides how much a rank has.  It is also little
 * enough for the drive's buffer, which a commit flushes.
 */
#define SLU_ROOM_PART 4
#define SLU_ROOM_NS (SLU_TICK_MS * (s64)NSEC_PER_MSEC / SLU_ROOM_PART)

/*
 * Deferred writeback beside a light process of its own rank has nine tenths of the device's time
 * while that one has requests, so that pieces don't pile up inside the device.  Otherwise, and
 * after exclusive ticks, it has all.  A tick is shorter then, because the light process waits for
 * the pieces of one tick.  A piece may be dispatched while another one is inside the device.
 */
#define SLU_TICK_BESIDE_MS 4
#define SLU_ROOM_BESIDE_PCT 90
#define SLU_PIECES_BESIDE 2U
#define SLU_DEFERRED_BESIDE 4U

/*
 * A light process with requests in one tick after the other, as a program that starts, would wait
 * for pieces with each of its reads.  So after SLU_LIGHT_TICKS ticks it has the device exclusively
 * for SLU_EXCLUSIVE_TICKS, in which it does most of its work.  Then pieces have SLU_SHARED_TICKS
 * with all of the room.  The exclusive ticks end early for a process that thinks more than it
 * waits: after SLU_EXCLUSIVE_LEAST ticks with requests in less than one of SLU_EXCLUSIVE_USED.
 */
#define SLU_LIGHT_TICKS 3
#define SLU_EXCLUSIVE_TICKS 62
#define SLU_SHARED_TICKS 100
#define SLU_EXCLUSIVE_LEAST 8
#define SLU_EXCLUSIVE_USED 4

/*
 * A process's use of the device counts for half as much after this time.  So a new process is
 * served first for no longer than this, and one with bursts of I/O is not light between them.
 */
#define SLU_HALF_LIFE_MS 250

#define SLU_PART_SHIFT 24

/* Use that is noted together, in normalised bytes: that of some small requests. */
#define SLU_NOTED ((u64)SZ_64K)

/* A light process's requests beyond this number of waiting ones are not light. */
#define SLU_AHEAD 16U

#define SLU_STARVATION_MS 1000
#define SLU_DIRTY_STARVATIONS 8

/* The predicted cost of a change of a name, in normalised bytes: some blocks of a journal. */
#define SLU_NAME ((u64)SZ_32K)

/*
 * The work of a tick, at most: clients that are reviewed of each rank, clients that are scanned,
 * held calls that are told their reason, and writers whose files are written back.
 */
#define SLU_REVIEWS 16U
#define SLU_SCANS 64U
#define SLU_ANSWERS 256U
#define SLU_WRITERS 8U

/*
 * Pages of a file: counted at most, and written back as a part at least and at most.  The least,
 * 128 KiB, is one piece or some, and most drives program it in parallel.  So few commits wait for
 * pieces, and each for not much more than for a small one.
 */
#define SLU_COUNTED 1024U
#define SLU_PART_LEAST 32U
#define SLU_PART_MOST 16384U

/* Tags, as divisors: left to reads; for writeback that no commit asked for. */
#define SLU_READ_PART 4
#define SLU_UNASKED_PART 2

/*
 * While ranks compete for flash no request is larger than a piece, because no rank can interrupt a
 * request.  A piece is what the device writes in SLU_ROOM_NS.  It is at most what is merged
 * (ranks.c), which is also the page cache's readahead, and at least what keeps most of the speed.
 */
#define SLU_PIECE_LEAST (32U * 1024 >> SECTOR_SHIFT)
#define SLU_PIECE_MOST (128U * 1024 >> SECTOR_SHIFT)

/*
 * A commit's last write has a flush before it and, on a drive without FUA, one after it.  A piece
 * that is dispatched between them goes before that write, or is in the drive's buffer when the
 * second flush writes it out.  So pieces wait until the write is done with both, but not longer
 * than this.
 */
#define SLU_FLUSH_MS 40

/* In a request's note: it is counted in @pieces. */
#define SLU_NOTE_PIECE BIT_ULL(RANKS_NOTE_BITS - 1)

#define SLU_GATES (SPLIT_ALL | BIT(SPLIT_STORE))
#define SLU_DIRTIES (BIT(SPLIT_WRITE) | BIT(SPLIT_STORE))

/**
 * struct slu_usage - recent use of the device, of an account or a rank
 * @cost: normalised bytes; halved each SLU_HALF_LIFE_MS
 * @when: number of half-lives at the last update
 */
struct slu_usage {
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
 * @over_limit: it has as much dirty data as it may have
 * @usage: its recent use of the device
 * @unnoted: use that @usage will have with its next one
 * @queued: its requests that wait by rank
 * @light: its @usage is less than its rank's @part; read without the lock
 * @expected: cost of its dirty data, normalised bytes
 * @guess: the error of that prediction
 * @paid: charged in advance, for calls that are inside
 * @inside: calls that were admitted and have not returned
 * @calls: its held calls
 * @released: jiffies when one of them was last released, or the first was held
 * @deferred: its requests in slu_data.deferred
 * @waits: in its rank's @waiting while it has held calls
 */
struct slu_client {
	struct split_account *account;
	struct list_head known;
	unsigned short ioprio;
	unsigned int rank;
	unsigned long last;
	bool active;
	bool over_limit;
	struct slu_usage usage;
	unsigned int queued;
	bool light;
	u64 unnoted;
	u64 expected;
	struct guess guess;
	u64 paid;
	unsigned int inside;
	struct held_calls calls;
	unsigned long released;
	unsigned int deferred;
	struct list_head waits;
};

/**
 * struct slu_rank - the processes of a rank
 * @waiting: clients with held calls; the next to be released is first
 * @active: active clients
 * @usage: recent use of the device, by its clients
 * @part: mean part of @usage that one client has, << SLU_PART_SHIFT.  It is weighted by cost, so
 *	  that light processes do not lower it, however many there are
 * @light: jiffies of the last request of a light client; read without the lock
 * @expected: sum of its clients'
 * @deferred: sum of its clients'
 * @next_ns: when its next call may be admitted below a more urgent rank
 * @latest: the client that was active last
 * @last: jiffies when it was
 * @other: jiffies when another client was
 * @inside: calls that were admitted and have not returned
 * @released: jiffies when a held call was last released, or the first was held
 * @wrote: jiffies of the last writeback for a writer whose own file has no dirty pages
 */
struct slu_rank {
	struct list_head waiting;
	unsigned int active;
	struct slu_usage usage;
	s64 part;
	unsigned long light;
	u64 expected;
	unsigned int deferred;
	u64 next_ns;
	const struct slu_client *latest;
	unsigned long last;
	unsigned long other;
	unsigned int inside;
	unsigned long released;
	unsigned long wrote;
};

/**
 * struct slu_data - the scheduler of one queue
 * @ranks: the order of requests; its lock guards all that follows, unless it says otherwise
 * @device: for the functions of split.h
 * @client: by account id
 * @known: clients that have an account
 * @rank: the ranks
 * @active: number of active clients
 * @over_limit: number of clients over their limit of dirty data
 * @held: number of held calls
 * @deferred: writeback that no commit asked for, in the order of its arrival
 * @piece: the deferred request that is dispatched next, no longer in @deferred; read without the
 *	   lock
 * @pieces: number of such requests that the driver has
 * @room_ns: device time for more of them; read without the lock
 * @commits: calls inside that wait for a commit that writes data of others first
 * @flushes: number of flushes inside the device
 * @flushing: one began, and no write with flushes was done since without another one inside; read
 *	      without the lock
 * @flushing_since: jiffies when pieces began to wait for that
 * @mounted: a file system is on the disk itself
 * @alone: a client that had no competitors with its last request; NULL: nothing is known, or there
 *	   may be one since
 * @alone_when: jiffies then
 * @light_ticks: ticks in a row with requests of light processes; below 0 after exclusive ticks that
 *		 these hardly used
 * @exclusive: balance of exclusive ticks, SLU_SHARED_TICKS for each one
 * @exclusive_ticks: exclusive ticks since the last piece
 * @exclusive_used: exclusive ticks with requests of light processes
 * @exclusive_spent: no more exclusive ticks until @exclusive is 0 again
 * @max_sectors: of the queue's requests, while no ranks compete
 * @set_sectors: the queue's limit as it was last set here
 * @cost: charged by split_dispatch() for the last request that went before all ranks, and since
 * @writes_back: that request is being dispatched, and is of the page cache or the journal
 * @tick: reviews all that depends on time, while a client is known
 * @burst_ms: knob; 0: no limit; read and written without the lock
 */
struct slu_data {
	struct ranks ranks;
	struct split_device *device;
	struct slu_client *client;
	struct list_head known;
	struct slu_rank rank[RANKS];
	unsigned int active;
	unsigned int over_limit;
	unsigned int held;
	struct list_head deferred;
	struct request *piece;
	unsigned int pieces;
	s64 room_ns;
	unsigned int commits;
	unsigned int flushes;
	bool flushing;
	unsigned long flushing_since;
	bool mounted;
	const struct slu_client *alone;
	unsigned long alone_when;
	int light_ticks;
	int exclusive;
	int exclusive_ticks;
	int exclusive_used;
	bool exclusive_spent;
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
	unsigned int kinds = sluice->over_limit ? SLU_DIRTIES : SPLIT_NONE;

	/* What comes while it is being attached finds open gates. */
	if (device)
		split_close(device, sluice->active > 1 || sluice->held ? SLU_GATES : kinds);
}

static void slu_set_rank(struct slu_data *sluice, struct slu_client *client, unsigned short ioprio)
{
	unsigned int rank = rank_of_ioprio(ioprio);

	sluice->alone = NULL;
	client->ioprio = ioprio;
	sluice->rank[client->rank].expected -= client->expected;
	sluice->rank[rank].expected += client->expected;
	sluice->rank[client->rank].deferred -= client->deferred;
	sluice->rank[rank].deferred += client->deferred;
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
			sluice->rank[rank].released = jiffies;
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
		client->usage.cost = 0;
		client->unnoted = 0;
		client->light = false;
	}
	slu_set_rank(sluice, client, ioprio);
}

static struct slu_client *slu_client_of(struct slu_data *sluice, struct split_account *account)
{
	struct slu_client *client = &sluice->client[account->id];
	unsigned short ioprio = READ_ONCE(account->ioprio);

	lockdep_assert_held(&sluice->ranks.lock);
	if (unlikely(!client->account || client->ioprio != ioprio))
		slu_client_changed(sluice, client, account, ioprio);
	return client;
}

static void slu_set_over_limit(struct slu_data *sluice, struct slu_client *client, bool over_limit)
{
	if (over_limit == client->over_limit)
		return;
	client->over_limit = over_limit;
	sluice->over_limit += over_limit ? 1 : -1;
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

/* A client does I/O, or calls.  Account 0 stands for many processes, and for none. */
static void slu_note_activity(struct slu_data *sluice, struct slu_client *client)
{
	struct slu_rank *r = &sluice->rank[client->rank];
	unsigned long now = jiffies;

	sluice->alone = NULL;
	if (client == sluice->client || (r->latest == client && r->last == now))
		return;
	if (r->latest != client)
		r->other = r->last;
	r->latest = client;
	r->last = now;
	client->last = now;
	slu_set_active(sluice, client, true);
}

static void slu_forget(struct slu_data *sluice, struct slu_client *client)
{
	struct slu_rank *r = &sluice->rank[client->rank];

	slu_set_over_limit(sluice, client, false);
	slu_set_active(sluice, client, false);
	/* Another account may get this place. */
	sluice->alone = NULL;
	if (r->latest == client) {
		r->other = r->last;
		r->latest = NULL;
	}
	list_del_init(&client->known);
	split_account_put(client->account);
	client->account = NULL;
}

/* Whether requests wait at a place of the ranks. */
static bool slu_has_requests(const struct slu_data *sluice, unsigned int place)
{
	return ranks_has_requests(&sluice->ranks.lane[ranks_lane_of(place)]);
}

/* Whether a rank has calls or requests, or had some within SLU_HOLD_MS. */
static bool slu_is_busy(const struct slu_data *sluice, unsigned int rank)
{
	const struct slu_rank *r = &sluice->rank[rank];

	return (r->inside && !slu_since(r->last, SLU_INSIDE_MS)) || !list_empty(&r->waiting) ||
	       slu_has_requests(sluice, rank) || slu_has_requests(sluice, rank | RANKS_LIGHT) ||
	       !slu_since(r->last, SLU_HOLD_MS);
}

/* The number of more urgent ranks that are busy, at most SLU_ABOVE_MOST. */
static unsigned int slu_busy_above(const struct slu_data *sluice, unsigned int rank)
{
	unsigned int above = 0;

	while (rank-- && above < SLU_ABOVE_MOST)
		above += slu_is_busy(sluice, rank);
	return above;
}

/* Whether a more urgent rank was active within SLU_MEMORY_MS. */
static bool slu_active_above(const struct slu_data *sluice, unsigned int rank)
{
	while (rank--)
		if (!slu_since(sluice->rank[rank].last, SLU_MEMORY_MS))
			return true;
	return false;
}

/* Whether another client of the same rank was active within @ms. */
static bool slu_peer_within(const struct slu_data *sluice, const struct slu_client *client,
			    unsigned int ms)
{
	const struct slu_rank *r = &sluice->rank[client->rank];

	return !slu_since(r->latest == client ? r->other : r->last, ms);
}

/* Equal ranks */

/* All are halved at the same times, so that they can be compared. */
static void slu_decay(struct slu_usage *usage)
{
	unsigned long when = jiffies / msecs_to_jiffies(SLU_HALF_LIFE_MS);

	usage->cost >>= min(when - usage->when, 63UL);
	usage->when = when;
}

/* Whether a client used less than a part of what the heavy clients of its rank used. */
static bool slu_used_less(struct slu_rank *r, struct slu_client *client, unsigned int divisor)
{
	slu_decay(&client->usage);
	slu_decay(&r->usage);
	return client->usage.cost * divisor < r->usage.cost * r->part >> SLU_PART_SHIFT;
}

/*
 * A client has used the device for what is unnoted.  It is light no longer once it has used as much
 * as the heavy clients.  A client that comes from another rank may have used more than its rank.
 */
static noinline void slu_note_usage(struct slu_data *sluice, struct slu_client *client)
{
	struct slu_rank *r = &sluice->rank[client->rank];
	u64 cost = min_t(u64, client->unnoted, SZ_1G);
	s64 part;

	client->unnoted = 0;
	slu_decay(&client->usage);
	slu_decay(&r->usage);
	client->usage.cost += cost;
	r->usage.cost += cost;
	part = div64_u64(min(client->usage.cost, r->usage.cost) << SLU_PART_SHIFT, r->usage.cost);
	r->part += div64_s64((part - r->part) * (s64)cost, r->usage.cost);
	if (client->light && !slu_used_less(r, client, 1))
		WRITE_ONCE(client->light, false);
}

/*
 * Whether a client competes with others of its rank: their requests wait or are deferred, or
 * requests wait while others are active or have held calls.
 */
static bool slu_has_competitors(const struct slu_data *sluice, const struct slu_client *client)
{
	const struct slu_rank *r = &sluice->rank[client->rank];

	return ranks_queued(&sluice->ranks, client->rank) > client->queued ||
	       r->deferred > client->deferred ||
	       (slu_has_requests(sluice, client->rank) &&
		(slu_peer_within(sluice, client, SLU_HOLD_MS) || !list_empty(&r->waiting)));
}

/*
 * A client has a new request beside others: update whether it is light.  It is, if it has few
 * requests waiting and used less than half of what the heavy clients used, until it has used as
 * much as they.  On a disk that seeks no client is light, because such a disk is much faster with
 * many requests inside.
 *
 * Return: whether it is light.
 */
static noinline bool slu_update_light(struct slu_data *sluice, struct slu_client *client)
{
	struct slu_rank *r = &sluice->rank[client->rank];
	bool light;

	if (client == sluice->client || sluice->ranks.rotating)
		return false;
	light = client->queued < SLU_AHEAD && slu_used_less(r, client, client->light ? 1 : 2);
	WRITE_ONCE(client->light, light);
	if (light)
		WRITE_ONCE(r->light, jiffies);
	return light;
}

/* Whether a light client of the same rank was active within SLU_MEMORY_MS. */
static bool slu_has_light_peer(const struct slu_data *sluice, const struct slu_client *client)
{
	return !client->light && !slu_since(sluice->rank[client->rank].light, SLU_MEMORY_MS);
}

/* Whether any rank had a light client within @ms. */
static bool slu_light_within(const struct slu_data *sluice, unsigned int ms)
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

/* The time until the next admission after @cost, below @above busy ranks, in ns. */
static u64 slu_period(const struct slu_data *sluice, u64 cost, unsigned int above)
{
	unsigned int share = READ_ONCE(sluice->ranks.low_share);
	u64 period = slu_ns(sluice, min_t(u64, cost, SZ_1G)) * SLU_PROMISE_PCT / share;

	while (--above && period < SLU_PERIOD_MAX_NS)
		period = period * 100 / share;
	return min(period, SLU_PERIOD_MAX_NS);
}

/* Charge @cost to a rank's share, if a more urgent rank is busy. */
static void slu_spend(struct slu_data *sluice, unsigned int rank, u64 cost)
{
	struct slu_rank *r = &sluice->rank[rank];
	unsigned int above = READ_ONCE(sluice->device) ? slu_busy_above(sluice, rank) : 0;
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
	return sluice->rank[rank].next_ns > ktime_get_ns() && slu_busy_above(sluice, rank);
}

/*
 * Predict the part of a call's cost that is not charged during the call.  A durable direct write
 * has the drive flushed, also where it changes nothing that is in a journal.
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

static u64 slu_limit_below(const struct slu_data *sluice)
{
	return sluice->ranks.rotating ? SLU_LIMIT_BELOW_DISK : SLU_LIMIT_BELOW_FLASH;
}

/* A client's limit of dirty data, as the time that the device takes to write it. */
static u64 slu_limit_ns(const struct slu_data *sluice, const struct slu_client *client)
{
	u64 burst_ns = READ_ONCE(sluice->burst_ms) * (u64)NSEC_PER_MSEC;

	if (slu_active_above(sluice, client->rank))
		return min(burst_ns / SLU_BESIDE_PART, slu_ns(sluice, slu_limit_below(sluice)));
	if (slu_has_light_peer(sluice, client))
		return burst_ns / SLU_LIGHT_PART;
	if (slu_peer_within(sluice, client, SLU_MEMORY_MS))
		return burst_ns / SLU_BESIDE_PART;
	return client->rank > RANK_DEFAULT ? burst_ns / SLU_LOW_PART : burst_ns;
}

/* The time that the device will take for a client's dirty data. */
static u64 slu_dirty_ns(const struct slu_data *sluice, const struct slu_client *client, u64 cost)
{
	return slu_ns(sluice, guess_cost(&client->guess, cost));
}

/* Whether a client, or its rank, has as much dirty data as it may have. */
static bool slu_is_over_limit(const struct slu_data *sluice, const struct slu_client *client)
{
	u64 limit_ns = slu_limit_ns(sluice, client), all_ns;

	if (!READ_ONCE(sluice->burst_ms))
		return false;
	if (client->deferred > (slu_active_above(sluice, client->rank) ? 0 : SLU_DEFERRED_BESIDE))
		return true;
	if (slu_dirty_ns(sluice, client, client->expected) > limit_ns)
		return true;
	all_ns = slu_ns(sluice, sluice->rank[client->rank].expected);
	if (slu_active_above(sluice, client->rank) || client->rank > RANK_DEFAULT)
		return all_ns > limit_ns;
	return client->expected > slu_limit_below(sluice) && all_ns > SLU_RANK_LIMITS * limit_ns;
}

/* A client's dirty data or its limit has changed. */
static void slu_note_dirty(struct slu_data *sluice, struct slu_client *client)
{
	/* While the device is being attached the tick does this later. */
	if (READ_ONCE(sluice->device))
		slu_set_over_limit(sluice, client, slu_is_over_limit(sluice, client));
}

/* Calls */

static bool slu_dirties(const struct split_call *call)
{
	return BIT(call->kind) & SLU_DIRTIES && !call->direct && call->inode;
}

/* Why a call must be held though no other one is; NULL: it may be admitted. */
static const char *slu_reason(const struct slu_data *sluice, const struct slu_client *client,
			      const struct split_call *call)
{
	if (slu_is_spent(sluice, client->rank))
		return "rank";
	return client->over_limit && slu_dirties(call) ? "dirty" : NULL;
}

/* Flags in a call's @private, set when it is admitted. */
#define SLU_ADMITTED BIT(0)
#define SLU_PAYS BIT(1)
#define SLU_COMMITS BIT(2)

/* Whether a call waits for a commit that writes data of others first. */
static bool slu_commits(const struct split_call *call)
{
	return (call->durable || BIT(call->kind) & SPLIT_DURABLE) &&
	       call->sb->s_magic == EXT4_SUPER_MAGIC;
}

/* Admit a call to the file system. */
static void slu_admit(struct slu_data *sluice, struct slu_client *client, struct split_call *call,
		      bool free)
{
	u64 cost = free ? 0 : slu_predict(sluice, call);

	call->private = SLU_ADMITTED;
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
		r->released = jiffies;
	if (held_calls_none(&client->calls)) {
		list_add_tail(&client->waits, &r->waiting);
		client->released = jiffies;
	}
	held_calls_add(&client->calls, call, reason);
	trace_sluice_hold(sluice->ranks.q, call->account->tgid, client->rank, call->kind, reason);
	sluice->held++;
	slu_set_gates(sluice);
}

static void slu_remove_call(struct slu_data *sluice, struct slu_client *client,
			    struct split_call *call)
{
	held_calls_del(&client->calls, call);
	if (!--sluice->held)
		slu_set_gates(sluice);
	if (held_calls_none(&client->calls))
		list_del_init(&client->waits);
}

/* Release a client's oldest held call; another client is next. */
static void slu_let_go(struct slu_data *sluice, struct slu_client *client)
{
	struct split_call *call = held_calls_first(&client->calls);
	struct slu_rank *r = &sluice->rank[client->rank];

	r->released = jiffies;
	client->released = jiffies;
	slu_remove_call(sluice, client, call);
	if (!held_calls_none(&client->calls))
		list_move_tail(&client->waits, &r->waiting);
	slu_admit(sluice, client, call, false);
	slu_note_activity(sluice, client);
	trace_sluice_let_go(sluice->ranks.q, call->account->tgid, client->rank, call->kind,
			    jiffies_to_msecs(jiffies - call->began));
	split_let_go(call);
}

/* Whether a client's calls have been held for the longest time. */
static bool slu_is_starved(const struct slu_rank *r, const struct slu_client *client, bool spent)
{
	if (spent)
		return slu_since(r->released, SLU_STARVATION_MS);
	return slu_since(client->released, SLU_DIRTY_STARVATIONS * SLU_STARVATION_MS);
}

/* Release the calls of a rank that need not be held any longer. */
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
		if (!reason || slu_is_starved(r, client, spent)) {
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
	client = slu_client_of(sluice, call->account);
	if (!free)
		slu_note_activity(sluice, client);
	slu_note_dirty(sluice, client);
	if (!held_calls_none(&client->calls))
		reason = "order";
	else if (!free)
		reason = !list_empty(&sluice->rank[client->rank].waiting) &&
					 slu_busy_above(sluice, client->rank)
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
		slu_remove_call(sluice, &sluice->client[call->account->id], call);
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
	client = slu_client_of(sluice, call->account);
	sluice->rank[client->rank].inside--;
	if (!--client->inside)
		client->paid = 0;
	if (call->private & SLU_PAYS)
		slu_note_activity(sluice, client);
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
	client = slu_client_of(sluice, account);
	client->expected += cost;
	sluice->rank[client->rank].expected += cost;
	guess = guess_cost(&client->guess, cost);
	paid = min(client->paid, guess);
	client->paid -= paid;
	slu_spend(sluice, client->rank, guess - paid);
	slu_note_activity(sluice, client);
	slu_note_dirty(sluice, client);
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
}

static void slu_settle(void *data, struct split_account *account, u64 cost)
{
	struct slu_data *sluice = data;
	struct slu_client *client;
	unsigned long flags;

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	client = slu_client_of(sluice, account);
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
	slu_spend(sluice, slu_client_of(sluice, account)->rank, cost);
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
}

/* The turns of the ranks charge reads and direct writes; these are only counted here. */
static void slu_charge(void *data, struct split_account *account, u64 cost)
{
	struct slu_data *sluice = data;
	struct slu_client *client = slu_client_of(sluice, account);

	sluice->cost += cost;
	client->unnoted += cost;
	if (sluice->writes_back)
		guess_charge(&client->guess, cost);
	if (client->unnoted >= SLU_NOTED)
		slu_note_usage(sluice, client);
}

/* Whether pieces wait for a write with flushes.  With or without the lock. */
static bool slu_is_flushing(const struct slu_data *sluice)
{
	return READ_ONCE(sluice->flushing) &&
	       !slu_since(READ_ONCE(sluice->flushing_since), SLU_FLUSH_MS);
}

static noinline bool slu_lets_piece(const struct slu_data *sluice)
{
	return !READ_ONCE(sluice->piece) &&
	       ((READ_ONCE(sluice->room_ns) > 0 && !slu_is_flushing(sluice)) ||
		percpu_ref_is_dying(&sluice->ranks.q->q_usage_counter));
}

/*
 * Whether the next deferred request may be dispatched: there is room, or the queue is being frozen,
 * which waits for all of them.  With or without the lock.
 */
static bool slu_has_room(const struct slu_data *sluice)
{
	return !list_empty(&sluice->deferred) && slu_lets_piece(sluice);
}

/* Dispatch pieces.  Submitters may wait for a tag that a deferred request has. */
static void slu_run(struct slu_data *sluice)
{
	sluice_wake_for_tags(sluice->ranks.q);
	blk_mq_run_hw_queues(sluice->ranks.q, true);
}

/* Flushes that overlap count as one.  A piece that did not go between two waits no longer. */
static void slu_flush(void *data, enum split_flush what)
{
	struct slu_data *sluice = data;
	unsigned long flags;
	bool run = false;

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	if (what == SPLIT_FLUSH_BEGINS) {
		sluice->flushes++;
		if (!sluice->flushing && !slu_has_room(sluice))
			WRITE_ONCE(sluice->flushing_since, jiffies);
		WRITE_ONCE(sluice->flushing, true);
	} else if (what != SPLIT_FLUSH_WRITTEN) {
		sluice->flushes -= !!sluice->flushes;
	} else if (!sluice->flushes) {
		WRITE_ONCE(sluice->flushing, false);
		run = slu_has_room(sluice);
	}
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
	if (run)
		slu_run(sluice);
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
	.flush = slu_flush,
};

/* Requests, in the order of a request's life */

/* A commit may wait for a request with one of these. */
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
static bool slu_leaves_tags(const struct slu_data *sluice, unsigned int rank)
{
	return !slu_since(READ_ONCE(sluice->rank[rank].light), SLU_MEMORY_MS) &&
	       !READ_ONCE(sluice->client[split_id_of_task()].light);
}

/* Whether a write is not one that waits by its rank, and then its limit. */
static noinline bool slu_limit_write(struct slu_data *sluice, blk_opf_t opf,
				     struct blk_mq_alloc_data *data)
{
	const blk_opf_t direct = REQ_SYNC | REQ_IDLE;
	bool all = split_works_for_all(sluice->device);
	unsigned int tags = sluice_nr_tags(data);

	if (!all && (opf & direct) == direct)
		return false;
	sluice_limit_tags(data, all || opf & SLU_NEEDED ? tags - tags / SLU_READ_PART
							: tags / SLU_UNASKED_PART);
	return true;
}

static noinline void slu_limit_rank(struct slu_data *sluice, struct blk_mq_alloc_data *data,
				    unsigned int rank)
{
	unsigned int tags = sluice_nr_tags(data);

	if (slu_leaves_tags(sluice, rank))
		sluice_limit_tags(data, tags - tags / SLU_READ_PART);
	ranks_limit_rank(&sluice->ranks, data, rank);
}

/* Called without locks, before a tag is allocated. */
static void slu_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct slu_data *sluice = data->q->elevator->elevator_data;
	unsigned int rank;

	if (op_is_write(opf) && slu_limit_write(sluice, opf, data))
		return;
	if (rq_blocks_others(opf))
		return;
	rank = rank_of_ioprio(get_current_ioprio());
	if (ranks_limits(&sluice->ranks, rank) ||
	    !slu_since(READ_ONCE(sluice->rank[rank].light), SLU_MEMORY_MS))
		slu_limit_rank(sluice, data, rank);
}

static void slu_prepare_request(struct request *rq)
{
	split_prepare(rq);
	ranks_prepare_request(rq);
}

/* Trace the process of a more urgent rank for which a request is dispatched before all reads. */
static noinline void slu_trace_inherit(const struct slu_data *sluice,
				       const struct slu_client *client, struct request *rq)
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

/* Looks for the place of a new request.  Reads of a task with a journal handle are urgent. */
static noinline unsigned int slu_find_place(struct slu_data *sluice, struct request *rq)
{
	struct slu_client *client = slu_client_of(sluice, split_request_account(rq));
	bool orders = slu_orders(rq), light = false;
	unsigned int rank = client->rank;

	if (trace_sluice_inherit_enabled() && rq != sluice->piece &&
	    (!orders || split_has_handle()))
		slu_trace_inherit(sluice, client, rq);
	/* A request without a known cause has the lowest rank. */
	if (!orders)
		return (client == sluice->client ? RANK_IDLE : rank) | RANKS_URGENT;
	slu_note_activity(sluice, client);
	if (sluice_rq_ioprio(rq) != client->ioprio && !split_works_for_all(sluice->device))
		rank = rank_of_ioprio(sluice_rq_ioprio(rq));
	if (split_has_handle())
		return rank | RANKS_URGENT;
	if (rank == client->rank && slu_has_competitors(sluice, client)) {
		light = slu_update_light(sluice, client);
	} else if (rank == client->rank) {
		WRITE_ONCE(client->light, false);
		sluice->alone = client;
		sluice->alone_when = jiffies;
	}
	client->queued++;
	return rank | (light ? RANKS_LIGHT : 0);
}

/*
 * Whether a request is placed as the last one was: it is a read by the same process, in the same
 * jiffy, with the same I/O priority, and the process had no competitors.
 */
static bool slu_goes_on(const struct slu_data *sluice, const struct slu_client *client,
			struct request *rq)
{
	unsigned long now = jiffies;

	return sluice->alone == client && sluice->alone_when == now && split_is_own_read(rq) &&
	       sluice_rq_ioprio(rq) == client->ioprio &&
	       READ_ONCE(client->account->ioprio) == client->ioprio && !split_has_handle();
}

/* The place of a new request, for the most frequent ones in few instructions. */
static unsigned int slu_place(struct request *rq)
{
	struct slu_data *sluice = rq->q->elevator->elevator_data;
	struct slu_client *client = &sluice->client[split_request_id(rq)];

	if (!slu_goes_on(sluice, client, rq))
		return slu_find_place(sluice, rq);
	client->queued++;
	return client->rank;
}

/* Whether a request is writeback that no commit asked for. */
static bool slu_is_unasked(const struct request *rq)
{
	return req_op(rq) == REQ_OP_WRITE && !(rq->cmd_flags & SLU_NEEDED) &&
	       rq->rq_flags & SLUICE_RQF_SCHED;
}

/* Whether a request is such writeback, with a more urgent rank busy or a light peer. */
static bool slu_may_wait(struct slu_data *sluice, struct request *rq)
{
	struct slu_client *client;

	lockdep_assert_held(&sluice->ranks.lock);
	if (!slu_is_unasked(rq))
		return false;
	client = slu_client_of(sluice, split_request_account(rq));
	return client != sluice->client &&
	       (slu_busy_above(sluice, client->rank) || slu_has_light_peer(sluice, client));
}

/* Whether a deferred request is below a busy, more urgent rank. */
static bool slu_is_below(struct slu_data *sluice, struct request *rq)
{
	return slu_busy_above(sluice, slu_client_of(sluice, split_request_account(rq))->rank);
}

/* The room that a tick adds for deferred requests, in ns of device time. */
static s64 slu_tick_room(const struct slu_data *sluice, bool below)
{
	bool light = slu_light_within(sluice, SLU_MEMORY_MS);
	u64 tick_ns = jiffies_to_nsecs(msecs_to_jiffies(light ? SLU_TICK_BESIDE_MS : SLU_TICK_MS));

	if (below)
		return tick_ns / SLU_ROOM_PART;
	if (!sluice->light_ticks || sluice->exclusive_spent)
		return tick_ns;
	return div_u64(tick_ns * SLU_ROOM_BESIDE_PCT, 100);
}

/* The most room, which is there after a tick without deferred requests. */
static s64 slu_most_room(const struct slu_data *sluice, bool below)
{
	return below ? SLU_ROOM_NS : slu_tick_room(sluice, false) * SLU_PIECES_BESIDE;
}

/* Defer the requests of a list that may wait. */
static void slu_defer(struct slu_data *sluice, struct list_head *list)
{
	struct slu_client *client;
	struct request *rq, *next;
	unsigned long flags;

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	list_for_each_entry_safe(rq, next, list, queuelist) {
		if (!slu_may_wait(sluice, rq))
			continue;
		sluice->alone = NULL;
		list_move_tail(&rq->queuelist, &sluice->deferred);
		client = slu_client_of(sluice, split_request_account(rq));
		client->deferred++;
		sluice->rank[client->rank].deferred++;
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
	/* A request that the driver gave back still counts as inside the device. */
	if (unasked && !sluice_insert_at_head(ins))
		slu_defer(sluice, list);
	ranks_insert_requests(hctx, list, ins);
}

/* The first deferred request of the most urgent rank; there is one. */
static struct request *slu_next_piece(struct slu_data *sluice)
{
	struct request *rq, *best = NULL;
	unsigned int rank = RANKS;

	list_for_each_entry(rq, &sluice->deferred, queuelist) {
		const struct slu_client *client = slu_client_of(sluice, split_request_account(rq));

		if (client->rank < rank) {
			rank = client->rank;
			best = rq;
		}
	}
	return best;
}

/* Make the next piece urgent, once no other urgent request waits. */
static noinline void slu_take_piece(struct blk_mq_hw_ctx *hctx, struct slu_data *sluice)
{
	struct slu_client *client;
	struct request *rq = NULL;
	unsigned long flags;
	LIST_HEAD(list);

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	if (slu_has_room(sluice) && list_empty(&sluice->ranks.urgent)) {
		rq = slu_next_piece(sluice);
		/* Another process's requests may have had more room than this. */
		if (slu_may_wait(sluice, rq))
			sluice->room_ns = min(sluice->room_ns,
					      slu_most_room(sluice, slu_is_below(sluice, rq)));
		client = slu_client_of(sluice, split_request_account(rq));
		client->deferred--;
		sluice->rank[client->rank].deferred--;
		slu_note_dirty(sluice, client);
		list_move(&rq->queuelist, &list);
		WRITE_ONCE(sluice->piece, rq);
	}
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
	if (rq)
		ranks_insert_requests(hctx, &list, 0);
}

/* A request that goes before all ranks: charge its causes, and note on a piece that it is one. */
static noinline void slu_pay_urgent(struct slu_data *sluice, struct request *rq)
{
	bool piece = rq == sluice->piece;

	lockdep_assert_held(&sluice->ranks.lock);
	if (piece)
		WRITE_ONCE(sluice->piece, NULL);
	sluice->alone = NULL;
	sluice->cost = 0;
	sluice->writes_back = !slu_orders(rq);
	split_dispatch(sluice->device, rq);
	sluice->writes_back = false;
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
	if (rq && ranked) {
		sluice->client[split_request_id(rq)].queued--;
		split_dispatch(sluice->device, rq);
	} else if (rq) {
		slu_pay_urgent(sluice, rq);
	}
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
	if (rq)
		rq->rq_flags |= RQF_STARTED;
	return rq;
}

/* A piece is done.  A commit may need deferred ones: with one inside, the next piece follows. */
static noinline void slu_piece_done(struct slu_data *sluice)
{
	unsigned long flags;
	bool run = false;

	spin_lock_irqsave(&sluice->ranks.lock, flags);
	if (!--sluice->pieces && sluice->commits) {
		WRITE_ONCE(sluice->room_ns, SLU_ROOM_NS);
		run = slu_has_room(sluice);
	}
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
	if (run)
		blk_mq_run_hw_queues(sluice->ranks.q, true);
}

/* Called from any context, for each request that slu_prepare_request() saw. */
static void slu_finish_request(struct request *rq)
{
	struct slu_data *sluice = rq->q->elevator->elevator_data;
	bool piece = ranks_note(rq) && !slu_orders(rq);

	ranks_finish_request(rq);
	split_finish_on(sluice->device, rq);
	if (piece)
		slu_piece_done(sluice);
}

/* Whether light processes have the device exclusively.  A commit may need deferred requests. */
static bool slu_is_exclusive(const struct slu_data *sluice)
{
	return sluice->light_ticks >= SLU_LIGHT_TICKS && !sluice->exclusive_spent &&
	       !sluice->commits && !list_empty(&sluice->deferred);
}

static bool slu_has_light(const struct slu_data *sluice)
{
	unsigned int i;

	for (i = 0; i < RANKS; i++)
		if (slu_has_requests(sluice, i | RANKS_LIGHT))
			return true;
	return false;
}

/* Count a tick as exclusive to light processes or as shared. */
static void slu_count_exclusive(struct slu_data *sluice)
{
	if (!slu_is_exclusive(sluice)) {
		sluice->exclusive -= min(sluice->exclusive, SLU_EXCLUSIVE_TICKS);
		sluice->exclusive_ticks = 0;
		sluice->exclusive_used = 0;
		sluice->exclusive_spent &= sluice->exclusive > 0;
		return;
	}
	sluice->exclusive += SLU_SHARED_TICKS;
	sluice->exclusive_ticks++;
	sluice->exclusive_used += slu_has_light(sluice);
	if (sluice->exclusive_ticks >= SLU_EXCLUSIVE_LEAST &&
	    sluice->exclusive_used * SLU_EXCLUSIVE_USED < sluice->exclusive_ticks)
		sluice->light_ticks = -SLU_SHARED_TICKS;
	sluice->exclusive_spent = sluice->exclusive >= SLU_EXCLUSIVE_TICKS * SLU_SHARED_TICKS;
}

/* Add the room of a tick once the pieces inside are done; all of it, if nothing need wait. */
static void slu_make_room(struct slu_data *sluice)
{
	struct request *next;
	bool below;
	s64 room;

	lockdep_assert_held(&sluice->ranks.lock);
	if (list_empty(&sluice->deferred)) {
		room = sluice->room_ns + slu_tick_room(sluice, false);
		sluice->room_ns = min(room, slu_most_room(sluice, false));
		return;
	}
	next = slu_next_piece(sluice);
	below = slu_is_below(sluice, next);
	room = sluice->room_ns + slu_tick_room(sluice, below);
	if (!slu_may_wait(sluice, next))
		WRITE_ONCE(sluice->room_ns, SLU_PERIOD_MAX_NS);
	else if (!below && slu_is_exclusive(sluice))
		WRITE_ONCE(sluice->room_ns, min(sluice->room_ns, 0));
	else if (sluice->pieces < (below ? 1U : SLU_PIECES_BESIDE))
		WRITE_ONCE(sluice->room_ns, min(room, slu_most_room(sluice, below)));
}

static unsigned int slu_piece_sectors(const struct slu_data *sluice)
{
	unsigned int sectors = SLU_PIECE_MOST;

	while (sectors > SLU_PIECE_LEAST &&
	       split_write_ns(sluice->device, (u64)sectors << SECTOR_SHIFT) > SLU_ROOM_NS)
		sectors /= 2;
	return sectors;
}

/*
 * Limit the queue's requests to pieces while ranks compete for flash.  A limit that was changed
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
		now = min(now, slu_piece_sectors(sluice));
	if (now == was || cmpxchg(&limits->max_sectors, was, now) == was)
		sluice->set_sectors = now;
}

/*
 * Whether several ranks were active within SLU_MEMORY_MS, have held calls or much dirty data.
 * Without a file system on the disk itself, the layers above have taken their limits from this
 * queue.
 */
static bool slu_ranks_compete(const struct slu_data *sluice)
{
	unsigned int i, there = 0;

	for (i = 0; sluice->mounted && i < RANKS; i++) {
		const struct slu_rank *r = &sluice->rank[i];

		there += !slu_since(r->last, SLU_MEMORY_MS) || !list_empty(&r->waiting) ||
			 r->expected > slu_limit_below(sluice);
	}
	return there > 1;
}

/* The tick */

/* Update a client, or forget it.  Return: whether it is still known. */
static bool slu_refresh(struct slu_data *sluice, struct slu_client *client)
{
	if (client->over_limit)
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
 * The number of pages of a writer's file that the device writes in *@part_ns.  If that file has no
 * dirty pages, it is that of all dirty data of the rank.
 */
static unsigned int slu_part_pages(const struct slu_data *sluice, const struct slu_client *client,
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

/* Whether a client's oldest held call is a write above the limit of dirty data. */
static bool slu_may_write_back(const struct slu_client *client)
{
	return client->over_limit && slu_dirties(held_calls_first(&client->calls));
}

/* Write back a part of such a writer's file, if not enough of it is being written. */
static void slu_write_back(struct slu_data *sluice, struct slu_client *client)
{
	struct split_call *call = held_calls_first(&client->calls);
	struct slu_rank *r = &sluice->rank[client->rank];
	struct split_dirt dirt;
	unsigned int part;
	u64 part_ns;

	split_count_dirt(call, SLU_COUNTED, &dirt);
	part = slu_part_pages(sluice, client, &dirt, &part_ns);
	if (dirt.writing >> PAGE_SHIFT >= min(part / 2, SLU_COUNTED))
		return;
	if (!dirt.dirty && !slu_since(r->wrote, part_ns / NSEC_PER_MSEC))
		return;
	r->wrote = jiffies;
	split_write_back(call, part);
}

/* Update some of the known clients, after those of the last tick. */
static void slu_scan(struct slu_data *sluice)
{
	struct slu_client *client, *first = NULL;
	unsigned int looks = SLU_SCANS, answers = SLU_ANSWERS, writers = SLU_WRITERS;

	while (looks-- && answers && !list_empty(&sluice->known)) {
		client = list_first_entry(&sluice->known, struct slu_client, known);
		if (client == first)
			break;
		if (!slu_refresh(sluice, client))
			continue;
		if (!held_calls_none(&client->calls)) {
			const char *reason = client->over_limit ? "dirty" : "rank";

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
	slu_count_exclusive(sluice);
	sluice->light_ticks =
		slu_light_within(sluice, 2 * SLU_TICK_BESIDE_MS) ? sluice->light_ticks + 1 : 0;
	slu_make_room(sluice);
	run = slu_has_room(sluice);
	slu_scan(sluice);
	slu_review(sluice);
	light = slu_light_within(sluice, SLU_MEMORY_MS);
	again = !list_empty(&sluice->known) || !list_empty(&sluice->deferred);
	if (!sluice->ranks.rotating)
		slu_set_pieces(sluice,
			       again && ((light && sluice->mounted) || slu_ranks_compete(sluice)));
	if (again)
		slu_start_tick(sluice, light);
	spin_unlock_irqrestore(&sluice->ranks.lock, flags);
	if (run)
		slu_run(sluice);
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
	INIT_LIST_HEAD(&sluice->deferred);
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
	/* The gates limit dirty data; deferred requests would hold the tokens of wbt. */
	sluice_disable_wbt(q, eq);
	eq->elevator_data = sluice;
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	return 0;
}

static void slu_check_books(const struct slu_data *sluice)
{
	unsigned int i, over_limit = 0, active = 0;

	WARN_ON_ONCE(sluice->held);
	WARN_ON_ONCE(!list_empty(&sluice->deferred) || sluice->piece || sluice->pieces);
	for (i = 0; i < RANKS; i++)
		WARN_ON_ONCE(sluice->rank[i].deferred);
	for (i = 0; i < SPLIT_ACCOUNTS; i++) {
		over_limit += sluice->client[i].over_limit;
		active += sluice->client[i].active;
		WARN_ON_ONCE(!held_calls_none(&sluice->client[i].calls) ||
			     sluice->client[i].deferred);
		WARN_ON_ONCE(sluice->client[i].queued);
	}
	WARN_ON_ONCE(over_limit != sluice->over_limit || active != sluice->active);
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
/* debugfs .../sched/clients: a line for each known client. */
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

/* debugfs .../sched/writeback: the number of deferred requests and of pieces. */
static int slu_writeback_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct slu_data *sluice = q->elevator->elevator_data;
	const struct request *rq;
	unsigned int deferred = 0;

	spin_lock_irq(&sluice->ranks.lock);
	list_for_each_entry(rq, &sluice->deferred, queuelist)
		deferred++;
	seq_printf(m, "deferred %u\npieces %u\n", deferred, sluice->pieces);
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

SLUICE_LIMIT_DEPTH(slu_limit_depth_op, slu_limit_depth)
SLUICE_INIT_SCHED(slu_init_sched_op, slu_init_sched)
SLUICE_DEPTH_UPDATED(slu_depth_updated_op, slu_depth_updated)

static struct elevator_type slu_type = {
	.ops = {
		.init_sched		= slu_init_sched_op,
		.exit_sched		= slu_exit_sched,
		.depth_updated		= slu_depth_updated_op,
		.limit_depth		= slu_limit_depth_op,
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
MODULE_DESCRIPTION("I/O scheduler: priorities of the processes that cause I/O or wait for it");
MODULE_ALIAS("sluice-iosched");

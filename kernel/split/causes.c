// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of sets, and how they grow and are split.  See causes.h.
 *
 * A place in the table changes hands only under the lock and with no reference left.  The last
 * reference to a set of several is dropped under the lock too, so a set that is found in a chain
 * is alive.  Accounts' own places never change hands: their count says only whether the account
 * is held.
 */
#include "causes.h"

/* Chains of sets of several, by hash: two sets each when the table is full. */
#define CAUSES_CHAINS 1024

/* A tag is a place and the number of times it has changed hands: old tags differ from new ones. */
#define CAUSES_GENERATIONS BIT(CAUSES_TAG_BITS - CAUSES_PLACE_BITS)
#define CAUSES_NOWHERE U16_MAX

/* Returned by causes_join() if no hold is left over. */
#define CAUSES_NOBODY U32_MAX

/**
 * struct causes_place - a set in the table
 * @refs: tags, and sets of several that an account is in
 * @generation: how often the place has changed hands; 0 for an account
 * @next: in the chain or in the line of free places, under the lock
 * @chain: that it is in, under the lock
 * @count: members
 * @member: by account; doesn't change as long as there is a reference
 */
struct causes_place {
	atomic_t refs;
	u16 generation;
	u16 next;
	u16 chain;
	u16 count;
	struct causes_member *member;
};

static_assert(sizeof(struct causes_place) <= 24);

/* Free places, the longest free first, so that a generation is reused as late as possible. */
struct causes_line {
	u16 first;
	u16 last;
};

/**
 * struct causes_table - all sets
 * @held: called when an account becomes a cause of something, and when it no longer is one
 * @accounts: places of accounts, which come first; then those for few members, then for many
 * @small: places for few members
 * @places: all of them
 * @lock: guards what follows, and places that change hands
 * @overflows: sets that found no place
 * @lot: state of the random numbers
 * @line: free places, for few members and for many
 * @chain: first place of each
 * @member: of all places
 * @place: all places
 */
struct causes_table {
	void (*held)(u32 account, bool held);
	unsigned int accounts;
	unsigned int small;
	unsigned int places;
	spinlock_t lock; /* guards what follows, and places that change hands */
	unsigned int overflows;
	u32 lot;
	struct causes_line line[2];
	u16 chain[CAUSES_CHAINS];
	struct causes_member *member;
	struct causes_place *place;
};

/* Chance */

/* Draws a random number below @below. */
static u64 causes_draw(u32 *lot, u64 below)
{
	*lot = *lot * 1664525U + 1013904223U;
	return ((*lot >> 8) * below) >> 24;
}

/* Splitting */

static u64 causes_total(const struct causes_member *member, unsigned int count)
{
	u64 total = 0;

	while (count--)
		total += member++->weight;
	return total;
}

/**
 * causes_split_begin() - begin to split an amount among the members of a set
 * @split: keeps how far the split has come
 * @amount: what is split
 * @member: the members
 * @count: how many
 */
void causes_split_begin(struct causes_split *split, u64 amount, const struct causes_member *member,
			unsigned int count)
{
	split->amount = amount;
	split->total = causes_total(member, count);
	split->before = 0;
}

static u64 causes_upto(const struct causes_split *split)
{
	return mul_u64_u64_div_u64(split->amount, split->before, split->total);
}

/**
 * causes_part() - the next member's part
 * @split: from causes_split_begin()
 * @weight: of the member
 *
 * To be called once for each member, in their order.  A part is less than 1 off what the
 * weight says, and all parts sum to the whole.
 *
 * Return: the part.
 */
u64 causes_part(struct causes_split *split, u32 weight)
{
	u64 before = causes_upto(split);

	split->before += weight;
	return causes_upto(split) - before;
}

/* Sets that grow */

/* Index of an account, or where it would be inserted. */
static unsigned int causes_find(const struct causes *causes, u32 account)
{
	unsigned int i = 0;

	while (i < causes->count && causes->member[i].account < account)
		i++;
	return i;
}

static bool causes_has(const struct causes *causes, unsigned int at, u32 account)
{
	return at < causes->count && causes->member[at].account == account;
}

static void causes_insert(struct causes *causes, u32 account, u32 weight)
{
	unsigned int at = causes_find(causes, account);
	struct causes_member *member = &causes->member[at];

	memmove(member + 1, member, (causes->count - at) * sizeof(*member));
	*member = (struct causes_member){ .account = account, .weight = weight };
	causes->count++;
}

static void causes_remove(struct causes *causes, unsigned int at)
{
	struct causes_member *member = &causes->member[at];

	causes->count--;
	memmove(member, member + 1, (causes->count - at) * sizeof(*member));
}

static unsigned int causes_lightest(const struct causes *causes)
{
	unsigned int i, lightest = 0;

	for (i = 1; i < causes->count; i++)
		if (causes->member[i].weight < causes->member[lightest].weight)
			lightest = i;
	return lightest;
}

static u32 causes_sum(u32 a, u32 b)
{
	return min((u64)a + b, (u64)U32_MAX);
}

/* A newcomer to a full set is weighed.  Return: whichever of the two accounts is not in the set. */
static u32 causes_weigh(struct causes *causes, u32 account, u32 weight)
{
	unsigned int at = causes_lightest(causes);
	struct causes_member lightest = causes->member[at];

	if (causes_draw(&causes->lot, (u64)lightest.weight + weight) >= weight) {
		causes->member[at].weight = causes_sum(lightest.weight, weight);
		return account;
	}
	causes_remove(causes, at);
	causes_insert(causes, account, causes_sum(lightest.weight, weight));
	return lightest.account;
}

/* Adds a member, or weight to one.  Return: the account that has one hold more than needed. */
static u32 causes_join(struct causes *causes, u32 account, u32 weight)
{
	unsigned int at = causes_find(causes, account);

	if (!weight)
		return account;
	if (causes_has(causes, at, account)) {
		causes->member[at].weight = causes_sum(causes->member[at].weight, weight);
		return account;
	}
	if (causes->count == CAUSES_MOST)
		return causes_weigh(causes, account, weight);
	causes_insert(causes, account, weight);
	return CAUSES_NOBODY;
}

/* The table */

static struct causes_place *causes_place_at(const struct causes_table *table, u32 tag)
{
	return &table->place[tag & CAUSES_NOWHERE];
}

static void causes_hold(struct causes_table *table, u32 account)
{
	if (atomic_inc_return(&table->place[account].refs) == 1)
		table->held(account, true);
}

static void causes_drop(struct causes_table *table, u32 account)
{
	int refs = atomic_dec_return(&table->place[account].refs);

	WARN_ON_ONCE(refs < 0);
	if (!refs)
		table->held(account, false);
}

/**
 * causes_members() - the members of a set
 * @table: the table
 * @tag: held by the caller
 * @count: becomes the number of members
 *
 * In any context.  Return: the members, which don't change as long as the tag is held.
 */
const struct causes_member *causes_members(const struct causes_table *table, u32 tag,
					   unsigned int *count)
{
	const struct causes_place *place = causes_place_at(table, tag);

	*count = place->count;
	return place->member;
}

/**
 * causes_add() - a set has more causes: those of a tag
 * @table: the table
 * @causes: the set
 * @tag: held by the caller as long as the set is used; an account's is its number
 * @weight: what all of them have caused, in a unit of the set
 *
 * In any context.  Bytes are a good unit: it is split among the causes of the tag.
 */
void causes_add(struct causes_table *table, struct causes *causes, u32 tag, u32 weight)
{
	const struct causes_place *place = causes_place_at(table, tag);
	struct causes_split split;
	unsigned int i;

	causes_split_begin(&split, weight, place->member, place->count);
	for (i = 0; i < place->count; i++)
		causes_join(causes, place->member[i].account,
			    causes_part(&split, place->member[i].weight));
}

/**
 * causes_gather() - causes_add() to a set that holds its accounts
 * @table: the table
 * @causes: the set, only ever given to this function until causes_release()
 * @tag: held by the caller for now
 * @weight: what all of them have caused, in a unit of the set
 *
 * In any context.  For what comes together over a time, as a commit.
 */
void causes_gather(struct causes_table *table, struct causes *causes, u32 tag, u32 weight)
{
	const struct causes_place *place = causes_place_at(table, tag);
	struct causes_split split;
	unsigned int i;

	causes_split_begin(&split, weight, place->member, place->count);
	for (i = 0; i < place->count; i++) {
		u32 account = place->member[i].account, surplus;

		causes_hold(table, account);
		surplus =
			causes_join(causes, account, causes_part(&split, place->member[i].weight));
		if (surplus != CAUSES_NOBODY)
			causes_drop(table, surplus);
	}
}

/**
 * causes_release() - empty a set that holds its accounts
 * @table: the table
 * @causes: the set
 *
 * In any context.
 */
void causes_release(struct causes_table *table, struct causes *causes)
{
	while (causes->count)
		causes_drop(table, causes->member[--causes->count].account);
}

/* Tags */

static u32 causes_gcd(u32 a, u32 b)
{
	while (b) {
		u32 rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Weights are divided by their common divisor, since sets with the same proportions are equal. */
static u32 causes_unit(const struct causes *causes)
{
	u32 unit = 0;
	unsigned int i;

	for (i = 0; i < causes->count && unit != 1; i++)
		unit = causes_gcd(causes->member[i].weight, unit);
	return unit;
}

static unsigned int causes_chain(const struct causes *causes, u32 unit)
{
	u32 hash = causes->count;
	unsigned int i;

	for (i = 0; i < causes->count; i++) {
		hash = (hash ^ causes->member[i].account) * 0x9e3779b1U;
		hash = (hash ^ hash >> 15 ^ causes->member[i].weight / unit) * 0x85ebca6bU;
	}
	return (hash ^ hash >> 13) % CAUSES_CHAINS;
}

static bool causes_equal(const struct causes_place *place, const struct causes *causes, u32 unit)
{
	unsigned int i;

	if (place->count != causes->count)
		return false;
	for (i = 0; i < causes->count; i++)
		if (place->member[i].account != causes->member[i].account ||
		    place->member[i].weight != causes->member[i].weight / unit)
			return false;
	return true;
}

static u32 causes_tag_of(const struct causes_table *table, u16 at)
{
	return at | (u32)(table->place[at].generation % CAUSES_GENERATIONS) << CAUSES_PLACE_BITS;
}

static struct causes_line *causes_line_at(struct causes_table *table, u16 at)
{
	return &table->line[at >= table->accounts + table->small];
}

static void causes_enqueue(struct causes_table *table, u16 at)
{
	struct causes_line *line = causes_line_at(table, at);

	table->place[at].next = CAUSES_NOWHERE;
	if (line->first == CAUSES_NOWHERE)
		line->first = at;
	else
		table->place[line->last].next = at;
	line->last = at;
}

static u16 causes_dequeue(struct causes_table *table, unsigned int count)
{
	struct causes_line *line = &table->line[count > CAUSES_FEW];
	u16 at = line->first;

	if (at != CAUSES_NOWHERE)
		line->first = table->place[at].next;
	return at;
}

/* Looks a set up in the table.  Return: its place; CAUSES_NOWHERE if it isn't there. */
static u16 causes_look_up(struct causes_table *table, const struct causes *causes, u32 unit,
			  unsigned int chain)
{
	u16 at = table->chain[chain];

	lockdep_assert_held(&table->lock);
	while (at != CAUSES_NOWHERE && !causes_equal(&table->place[at], causes, unit))
		at = table->place[at].next;
	if (at != CAUSES_NOWHERE)
		atomic_inc(&table->place[at].refs);
	return at;
}

/* Gives a set a free place.  Return: the place; CAUSES_NOWHERE if there is none. */
static u16 causes_settle(struct causes_table *table, const struct causes *causes, u32 unit,
			 unsigned int chain)
{
	u16 at = causes_dequeue(table, causes->count);
	struct causes_place *place;
	unsigned int i;

	lockdep_assert_held(&table->lock);
	if (at == CAUSES_NOWHERE)
		return at;
	place = &table->place[at];
	for (i = 0; i < causes->count; i++) {
		place->member[i].account = causes->member[i].account;
		place->member[i].weight = causes->member[i].weight / unit;
		causes_hold(table, causes->member[i].account);
	}
	place->count = causes->count;
	place->chain = chain;
	place->next = table->chain[chain];
	table->chain[chain] = at;
	/* A task that tries an old tag sees the new place completely filled in. */
	atomic_set_release(&place->refs, 1);
	return at;
}

/* One member, drawn by weight, stands for all. */
static u16 causes_stand_in(struct causes_table *table, const struct causes *causes)
{
	u64 total = causes_total(causes->member, causes->count);
	const struct causes_member *member = causes->member;
	u64 drawn = causes_draw(&table->lot, total);

	lockdep_assert_held(&table->lock);
	/* Pairs with causes_overflows(), which takes no lock. */
	WRITE_ONCE(table->overflows, table->overflows + 1);
	for (; drawn >= member->weight; member++)
		drawn -= member->weight;
	causes_hold(table, member->account);
	return member->account;
}

/**
 * causes_tag() - the tag of a set
 * @table: the table
 * @causes: the set; its accounts are held by the caller
 *
 * In any context.  The tag of an empty set is that of account 0.
 *
 * Return: a tag, to be given to causes_put().
 */
u32 causes_tag(struct causes_table *table, const struct causes *causes)
{
	unsigned long flags;
	unsigned int chain;
	u32 tag, unit;
	u16 at;

	if (causes->count <= 1) {
		tag = causes->count ? causes->member[0].account : 0;
		causes_hold(table, tag);
		return tag;
	}
	unit = causes_unit(causes);
	chain = causes_chain(causes, unit);
	spin_lock_irqsave(&table->lock, flags);
	at = causes_look_up(table, causes, unit, chain);
	if (at == CAUSES_NOWHERE)
		at = causes_settle(table, causes, unit, chain);
	if (at == CAUSES_NOWHERE)
		at = causes_stand_in(table, causes);
	tag = causes_tag_of(table, at);
	spin_unlock_irqrestore(&table->lock, flags);
	return tag;
}

/**
 * causes_get() - take one more reference to a tag
 * @table: the table
 * @tag: held by the caller, or the number of an account that the caller holds otherwise
 *
 * In any context.
 */
void causes_get(struct causes_table *table, u32 tag)
{
	causes_hold(table, tag & CAUSES_NOWHERE);
}

/**
 * causes_try_get() - take a reference to what may be a tag
 * @table: the table
 * @tag: any number, such as one left behind that may not be held any more
 *
 * In any context.  A stale tag is recognised until its place has changed hands 4096 times.  After
 * that, and where an account's number is used again, it is taken for the tag that is there now.
 *
 * Return: whether it is a tag, which is held then.
 */
bool causes_try_get(struct causes_table *table, u32 tag)
{
	u16 at = tag & CAUSES_NOWHERE;

	if (at >= table->places || !atomic_add_unless(&table->place[at].refs, 1, 0))
		return false;
	if (causes_tag_of(table, at) == tag)
		return true;
	causes_put(table, causes_tag_of(table, at));
	return false;
}

/* The last reference to a set of several is gone. */
static void causes_leave(struct causes_table *table, u16 at)
{
	struct causes_place *place = &table->place[at];
	u16 *link = &table->chain[place->chain];
	unsigned int i;

	lockdep_assert_held(&table->lock);
	while (*link != at)
		link = &table->place[*link].next;
	*link = place->next;
	for (i = 0; i < place->count; i++)
		causes_drop(table, place->member[i].account);
	place->generation++;
	causes_enqueue(table, at);
}

/**
 * causes_put() - drop one reference to a tag
 * @table: the table
 * @tag: held by the caller
 *
 * In any context.
 */
void causes_put(struct causes_table *table, u32 tag)
{
	struct causes_place *place = causes_place_at(table, tag);
	u16 at = tag & CAUSES_NOWHERE;
	unsigned long flags;

	if (at < table->accounts) {
		causes_drop(table, at);
		return;
	}
	if (atomic_add_unless(&place->refs, -1, 1))
		return;
	spin_lock_irqsave(&table->lock, flags);
	if (atomic_dec_and_test(&place->refs))
		causes_leave(table, at);
	spin_unlock_irqrestore(&table->lock, flags);
}

/**
 * causes_put_many() - drop several references to a tag
 * @table: the table
 * @tag: held by the caller that many times
 * @count: how many, at least 1
 *
 * In any context.
 */
void causes_put_many(struct causes_table *table, u32 tag, u32 count)
{
	atomic_sub(count - 1, &causes_place_at(table, tag)->refs);
	causes_put(table, tag);
}

/**
 * causes_refs() - how often an account is a cause
 * @table: the table
 * @account: its number
 *
 * For a caller that counts without a call: up, if it isn't 0, and down, unless to 0.
 */
atomic_t *causes_refs(const struct causes_table *table, u32 account)
{
	return &table->place[account].refs;
}

/**
 * causes_includes() - whether an account is in a set
 * @table: the table
 * @tag: may be given back meanwhile
 * @account: the account's number
 *
 * In any context.  Return: whether it was, at some moment.
 */
bool causes_includes(const struct causes_table *table, u32 tag, u32 account)
{
	const struct causes_place *place = causes_place_at(table, tag);
	u16 at = tag & CAUSES_NOWHERE;
	bool included = false;
	unsigned int i;

	if (at < table->accounts)
		return at == account;
	for (i = 0; i < READ_ONCE(place->count); i++)
		included |= READ_ONCE(place->member[i].account) == account;
	/* Pairs with a new set in the place: its generation changes before that. */
	smp_rmb();
	return included && causes_tag_of(table, at) == tag;
}

/* Whether @former has all members of @newer, each with at least its weight. */
static bool causes_covers(const struct causes_place *former, const struct causes_place *newer)
{
	unsigned int i, j = 0;

	for (i = 0; i < newer->count; i++) {
		while (j < former->count && former->member[j].account < newer->member[i].account)
			j++;
		if (j == former->count || former->member[j].account != newer->member[i].account ||
		    former->member[j].weight < newer->member[i].weight)
			return false;
	}
	return true;
}

/* Makes sure that a set has a member with at least that weight. */
static void causes_raise(struct causes *causes, u32 account, u32 weight)
{
	unsigned int at = causes_find(causes, account);

	if (causes_has(causes, at, account))
		causes->member[at].weight = max(causes->member[at].weight, weight);
	else
		causes_join(causes, account, weight);
}

/**
 * causes_unite() - something has more causes than before, as a page made dirty again
 * @table: the table
 * @former: its tag, held; the caller's reference is consumed
 * @newer: tag of the new cause, held by the caller, which keeps its reference
 *
 * In any context.  A member of both has the larger of its weights.  So an account that makes its
 * own dirty page dirty again changes nothing.
 *
 * Return: its new tag, which may be @former, to be given to causes_put().
 */
u32 causes_unite(struct causes_table *table, u32 former, u32 newer)
{
	const struct causes_place *old = causes_place_at(table, former);
	const struct causes_place *new = causes_place_at(table, newer);
	struct causes causes;
	unsigned int i;
	u32 tag;

	if (former == newer || causes_covers(old, new))
		return former;
	causes.count = old->count;
	causes.lot = former + newer;
	memcpy(causes.member, old->member, old->count * sizeof(*old->member));
	for (i = 0; i < new->count; i++)
		causes_raise(&causes, new->member[i].account, new->member[i].weight);
	tag = causes_tag(table, &causes);
	causes_put(table, former);
	return tag;
}

/* Life */

/* Gives each place its room for members, and puts the free places in line. */
static void causes_lay_out(struct causes_table *table)
{
	struct causes_member *member = table->member;
	unsigned int i;

	for (i = 0; i < table->places; i++) {
		table->place[i].member = member;
		if (i < table->accounts) {
			table->place[i].count = 1;
			*member++ = (struct causes_member){ .account = i, .weight = 1 };
			continue;
		}
		causes_enqueue(table, i);
		member += i < table->accounts + table->small ? CAUSES_FEW : CAUSES_MOST;
	}
}

/**
 * causes_create() - a table
 * @accounts: how many, at least 1
 * @small: places for sets of 2 to CAUSES_FEW accounts
 * @large: places for sets of up to CAUSES_MOST
 * @held: called with true when an account other than 0 becomes a cause, and with false when it
 *	  no longer is one.  In any context, under the table's lock or not; it must not use the
 *	  table.  If an account becomes a cause while it ceases to be one, the two calls may come in
 *	  either order.
 *
 * May sleep.  All three together are fewer than 65536.
 *
 * Return: the table, or NULL without memory.
 */
struct causes_table *causes_create(unsigned int accounts, unsigned int small, unsigned int large,
				   void (*held)(u32 account, bool held))
{
	size_t members = accounts + (size_t)small * CAUSES_FEW + (size_t)large * CAUSES_MOST;
	struct causes_table *table = kzalloc(sizeof(*table), GFP_KERNEL);
	unsigned int i;

	if (!table)
		return NULL;
	table->held = held;
	table->accounts = accounts;
	table->small = small;
	table->places = accounts + small + large;
	spin_lock_init(&table->lock);
	for (i = 0; i < CAUSES_CHAINS; i++)
		table->chain[i] = CAUSES_NOWHERE;
	table->line[0].first = CAUSES_NOWHERE;
	table->line[1].first = CAUSES_NOWHERE;
	table->place = kvcalloc(table->places, sizeof(*table->place), GFP_KERNEL);
	table->member = kvcalloc(members, sizeof(*table->member), GFP_KERNEL);
	if (!table->place || !table->member) {
		causes_destroy(table);
		return NULL;
	}
	causes_lay_out(table);
	atomic_inc(&table->place[0].refs);
	return table;
}

/**
 * causes_bytes() - what a table takes
 * @accounts: as given to causes_create(), like @small and @large
 * @small: places for few
 * @large: places for many
 *
 * Return: bytes.
 */
size_t causes_bytes(unsigned int accounts, unsigned int small, unsigned int large)
{
	size_t members = accounts + (size_t)small * CAUSES_FEW + (size_t)large * CAUSES_MOST;

	return sizeof(struct causes_table) + members * sizeof(struct causes_member) +
	       (accounts + small + large) * sizeof(struct causes_place);
}

/**
 * causes_destroy() - the end of a table
 * @table: not in use any more
 *
 * May sleep.  Return: whether all tags and sets had been given back.
 */
bool causes_destroy(struct causes_table *table)
{
	bool balanced = true;
	unsigned int i;

	for (i = 0; table->place && i < table->places; i++)
		balanced &= atomic_read(&table->place[i].refs) == !i;
	kvfree(table->member);
	kvfree(table->place);
	kfree(table);
	return balanced;
}

/**
 * causes_overflows() - how many sets found no place since the table was made
 * @table: the table
 *
 * Return: their number.
 */
unsigned int causes_overflows(const struct causes_table *table)
{
	return READ_ONCE(table->overflows);
}

// SPDX-License-Identifier: GPL-2.0-only
/* Passes, virtual time, and a heap for each line.  See stride.h. */
#include "stride.h"

/* A pass is in fractions of a normalised byte: at the largest weight a byte adds 1. */
#define STRIDE_BYTE STRIDE_WEIGHT_MAX

/* The same at the weight that clients have by default. */
#define STRIDE_UNIT (STRIDE_BYTE / STRIDE_WEIGHT)

/*
 * Upper bound of a client's debt, as a pass: 2^52 are 4.5 TB at weight 1.  A larger difference is a
 * pass that virtual time has left so far behind that it seems to be ahead.
 */
#define STRIDE_DEBT BIT_ULL(52)

/* Upper bound of what is expected of a client, normalised bytes: more than that is ignored. */
#define STRIDE_EXPECTED BIT_ULL(48)

static bool stride_before(const struct stride_client *a, const struct stride_client *b)
{
	s64 apart = a->pass - b->pass;

	return apart ? apart < 0 : (s32)(a->order - b->order) < 0;
}

/* Heaps: indexes begin with 1; a client is not before the one at half its index. */

static void stride_put(struct stride_line *line, unsigned int which, struct stride_client *client,
		       u32 at)
{
	line->heap[at - 1] = client;
	client->at[which] = at;
}

static void stride_up(struct stride_line *line, unsigned int which, struct stride_client *client)
{
	u32 at = client->at[which];

	for (; at > 1 && stride_before(client, line->heap[at / 2 - 1]); at /= 2)
		stride_put(line, which, line->heap[at / 2 - 1], at);
	stride_put(line, which, client, at);
}

static void stride_down(struct stride_line *line, unsigned int which, struct stride_client *client)
{
	u32 at = client->at[which], next;

	for (; (next = at * 2) <= line->count; at = next) {
		if (next < line->count && stride_before(line->heap[next], line->heap[next - 1]))
			next++;
		if (!stride_before(line->heap[next - 1], client))
			break;
		stride_put(line, which, line->heap[next - 1], at);
	}
	stride_put(line, which, client, at);
}

/* A client's pass has changed: moves it to its new place in each line where it waits. */
static void stride_moved(struct stride *stride, struct stride_client *client)
{
	u64 expected = min(client->expected, STRIDE_EXPECTED) * STRIDE_BYTE;
	unsigned int i;

	client->pass = client->served + div_u64(expected, client->weight);
	for (i = 0; i < STRIDE_LINES; i++) {
		if (!client->at[i])
			continue;
		stride_up(&stride->line[i], i, client);
		stride_down(&stride->line[i], i, client);
	}
}

/* Virtual time never goes back. */
static void stride_pass_by(struct stride *stride, const struct stride_client *client)
{
	if ((s64)(client->served - stride->now) > 0)
		stride->now = client->served;
}

/**
 * stride_init() - begin without clients
 * @stride: what they share
 * @heaps: room for STRIDE_LINES times so many pointers, the caller's
 * @clients: no more than this wait in a line at a time
 */
void stride_init(struct stride *stride, struct stride_client **heaps, u32 clients)
{
	unsigned int i;

	memset(stride, 0, sizeof(*stride));
	for (i = 0; i < STRIDE_LINES; i++)
		stride->line[i].heap = heaps + (size_t)i * clients;
}

/**
 * stride_client_init() - a new client, without debt or credit
 * @stride: what it shares
 * @client: the client
 * @weight: 1 to STRIDE_WEIGHT_MAX
 */
void stride_client_init(struct stride *stride, struct stride_client *client, u32 weight)
{
	memset(client, 0, sizeof(*client));
	client->served = stride->now;
	client->pass = stride->now;
	client->weight = max(weight, 1U);
}

/**
 * stride_move() - a client moves to another stride scheduler
 * @from: what it shared
 * @to: what it will share
 * @client: the client, not joined
 *
 * Its debt or credit, and what is expected of it, go with it.
 */
void stride_move(struct stride *from, struct stride *to, struct stride_client *client)
{
	WARN_ON_ONCE(client->joined);
	client->served += to->now - from->now;
	client->pass += to->now - from->now;
	from->expected -= client->expected;
	to->expected += client->expected;
}

/**
 * stride_set_weight() - from now on a client has another weight
 * @stride: what it shares
 * @client: the client
 * @weight: 1 to STRIDE_WEIGHT_MAX
 *
 * Its debt or credit stays the same, in bytes.
 */
void stride_set_weight(struct stride *stride, struct stride_client *client, u32 weight)
{
	s64 apart = client->served - stride->now;
	u64 scaled;

	weight = max(weight, 1U);
	if (weight == client->weight)
		return;
	scaled = min((u64)(apart < 0 ? -apart : apart), STRIDE_DEBT);
	scaled = mul_u64_u64_div_u64(scaled, client->weight, weight);
	client->served = stride->now + (apart < 0 ? -scaled : scaled);
	client->weight = weight;
	client->rest = 0;
	stride_moved(stride, client);
}

/**
 * stride_join() - a client has something to do
 * @stride: what it shares
 * @client: the client; if it has joined already nothing changes
 */
void stride_join(struct stride *stride, struct stride_client *client)
{
	if (client->joined)
		return;
	client->joined = true;
	stride->joined++;
	if (client->served - stride->now > STRIDE_DEBT) {
		client->served = stride->now;
		stride_moved(stride, client);
	}
}

/**
 * stride_leave() - a client has nothing to do
 * @stride: what it shares
 * @client: the client, in no line; if it hasn't joined nothing changes
 */
void stride_leave(struct stride *stride, struct stride_client *client)
{
	unsigned int i;

	for (i = 0; i < STRIDE_LINES; i++)
		WARN_ON_ONCE(client->at[i]);
	if (!client->joined)
		return;
	client->joined = false;
	stride->joined--;
}

/**
 * stride_limit_credit() - a client that isn't kept waiting can't save up more credit than this
 * @stride: what it shares
 * @client: the client
 * @most: how far it may be behind virtual time, in bytes at STRIDE_WEIGHT
 */
void stride_limit_credit(struct stride *stride, struct stride_client *client, u64 most)
{
	s64 behind = stride->now - client->pass - most * STRIDE_UNIT;

	if (behind <= 0)
		return;
	client->served += behind;
	stride_moved(stride, client);
}

/**
 * stride_wait() - a client waits in a line
 * @stride: what it shares
 * @client: the client, which has joined; if it waits there already nothing changes
 * @line: which line
 */
void stride_wait(struct stride *stride, struct stride_client *client, unsigned int line)
{
	struct stride_line *at = &stride->line[line];

	WARN_ON_ONCE(!client->joined);
	if (client->at[line])
		return;
	client->order = stride->order++;
	client->at[line] = ++at->count;
	stride_up(at, line, client);
}

/**
 * stride_unwait() - a client doesn't wait any longer
 * @stride: what it shares
 * @client: the client; if it doesn't wait nothing changes
 * @line: which line
 */
void stride_unwait(struct stride *stride, struct stride_client *client, unsigned int line)
{
	struct stride_line *at = &stride->line[line];
	u32 place = client->at[line];
	struct stride_client *last;

	if (!place)
		return;
	client->at[line] = 0;
	last = at->heap[--at->count];
	if (last == client)
		return;
	last->at[line] = place;
	stride_up(at, line, last);
	stride_down(at, line, last);
}

/**
 * stride_first() - the next client of a line
 * @stride: what the clients share
 * @line: which line
 *
 * Return: the client with the lowest pass in the line; NULL if none waits.
 */
struct stride_client *stride_first(const struct stride *stride, unsigned int line)
{
	return stride->line[line].count ? stride->line[line].heap[0] : NULL;
}

/**
 * stride_lead() - how far a client is ahead of another one
 * @client: the client
 * @other: the other one
 *
 * Return: what a client of STRIDE_WEIGHT is served in the virtual time between them,
 * normalised bytes; negative if it is behind.
 */
s64 stride_lead(const struct stride_client *client, const struct stride_client *other)
{
	return div_s64(client->pass - other->pass, STRIDE_UNIT);
}

/**
 * stride_serve() - a client is served now
 * @stride: what it shares
 * @client: from stride_first(), as a rule
 *
 * Its cost is charged by stride_charge(), now or later.
 */
void stride_serve(struct stride *stride, const struct stride_client *client)
{
	stride_pass_by(stride, client);
}

/**
 * stride_charge() - what was done for a client has cost something
 * @stride: what it shares
 * @client: the client, joined or not
 * @cost: normalised bytes, at most 2^53
 *
 * To the byte: what division leaves over is charged with the next cost.
 */
void stride_charge(struct stride *stride, struct stride_client *client, u64 cost)
{
	u64 all = cost * STRIDE_BYTE + client->rest;
	u64 pass = div_u64(all, client->weight);

	client->served += pass;
	client->rest = all - pass * client->weight;
	if (stride->joined == client->joined)
		stride_pass_by(stride, client);
	stride_moved(stride, client);
}

/**
 * stride_expect() - charge a client in advance
 * @stride: what it shares
 * @client: the client, joined or not
 * @cost: the estimate, normalised bytes
 */
void stride_expect(struct stride *stride, struct stride_client *client, u64 cost)
{
	client->expected += cost;
	stride->expected += cost;
	stride_moved(stride, client);
}

/**
 * stride_settle() - take an estimate back: the real cost is charged, or there was none
 * @stride: what it shares
 * @client: the client
 * @cost: no more than was expected
 */
void stride_settle(struct stride *stride, struct stride_client *client, u64 cost)
{
	WARN_ON_ONCE(cost > client->expected);
	cost = min(cost, client->expected);
	client->expected -= cost;
	stride->expected -= cost;
	stride_moved(stride, client);
}

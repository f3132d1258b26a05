// SPDX-License-Identifier: GPL-2.0-only
/* The two models and the advance.  See cost.h. */
#include "cost.h"

/* Figures of random access are for commands of this size, as datasheets give them. */
#define COST_RANDOM_BYTES 4096U

/* The price of a written byte is in these parts of that of a read byte. */
#define COST_PART_BITS 10
#define COST_SLOWEST_WRITE 256U

/* Fixed-point bits of a fraction whose root is taken: half of them are exact in the result. */
#define COST_FRACTION_BITS 32

/* Whether a figure is one that a device may have. */
static bool cost_in(u64 value, u64 least, u64 most)
{
	return value >= least && value <= most;
}

/**
 * cost_class_default() - what learning begins with, for a kind of device
 * @kind: what the kernel says of it
 * @capacity: bytes
 *
 * Round figures of common classes: a SATA disk of 7200 rpm, and an SSD behind SATA.  Writes are as
 * slow as a cheap SSD sustains them: a drive that is faster shows that when it writes for half a
 * second, a slower one only while it is full, and until then others would wait for what was thought
 * to be cheap.
 *
 * Return: parameters for cost_init().
 */
struct cost_device cost_class_default(enum cost_kind kind, u64 capacity)
{
	static const struct cost_device disk = {
		.kind = COST_ROTATING,
		.read_mbps = 150,
		.write_mbps = 150,
		.flush_us = 5000,
		.rpm = 7200,
		.seek_track_us = 1000,
		.seek_full_us = 16000,
	};
	static const struct cost_device flash = {
		.kind = COST_FLASH,
		.read_mbps = 500,
		.write_mbps = 100,
		.flush_us = 1000,
		.read_iops = 80000,
		.write_iops = 5000,
	};
	struct cost_device device = kind == COST_ROTATING ? disk : flash;

	device.capacity = capacity;
	return device;
}

static bool cost_valid(const struct cost_device *d)
{
	if (!cost_in(d->capacity, COST_RANDOM_BYTES, 1ULL << 63) ||
	    !cost_in(d->read_mbps, 1U, 100000U) ||
	    !cost_in(d->write_mbps, DIV_ROUND_UP(d->read_mbps, COST_SLOWEST_WRITE), 100000U) ||
	    d->flush_us > 1000000)
		return false;
	if (d->kind == COST_ROTATING)
		return cost_in(d->rpm, 1000U, 100000U) && d->seek_full_us <= 100000 &&
		       d->seek_track_us <= d->seek_full_us;
	return cost_in(d->read_iops, 10U, 100000000U) && cost_in(d->write_iops, 10U, 100000000U);
}

/* At 1 MB/s a byte takes a microsecond. */
static u64 cost_of_us(const struct cost_device *device, u64 us)
{
	return us * device->read_mbps;
}

/**
 * cost_data() - what data costs by its size alone
 * @model: the device's
 * @op: what is done
 * @bytes: how many, 2^45 at most
 *
 * Return: normalised bytes.
 */
u64 cost_data(const struct cost_model *model, enum cost_op op, u64 bytes)
{
	if (op == COST_READ)
		return bytes;
	bytes *= READ_ONCE(model->write_part);
	return (bytes + (1U << COST_PART_BITS) - 1) >> COST_PART_BITS;
}

/* What a command alone costs beyond its data's share in a long sequential transfer. */
static u64 cost_of_command(const struct cost_model *model, const struct cost_device *device,
			   enum cost_op op, u32 iops)
{
	u64 all = div_u64(cost_of_us(device, 1000000), iops);

	return all - min(all, cost_data(model, op, COST_RANDOM_BYTES));
}

/**
 * cost_init() - make the model of a device
 * @model: what is made
 * @device: its parameters
 *
 * Return: 0, or -ERANGE if a parameter is out of range: then the model is unchanged.
 */
int cost_init(struct cost_model *model, const struct cost_device *device)
{
	u64 capacity = device->capacity;
	unsigned int shift = 0;

	if (!cost_valid(device))
		return -ERANGE;
	while (capacity >> (COST_FRACTION_BITS - 1)) {
		capacity >>= 1;
		shift++;
	}
	WRITE_ONCE(model->kind, device->kind);
	WRITE_ONCE(model->capacity, capacity);
	WRITE_ONCE(model->shift, shift);
	WRITE_ONCE(model->write_part,
		   max((device->read_mbps << COST_PART_BITS) / device->write_mbps, 1U));
	WRITE_ONCE(model->flush, cost_of_us(device, device->flush_us));
	WRITE_ONCE(model->read_mbps, device->read_mbps);
	if (device->kind == COST_ROTATING) {
		WRITE_ONCE(model->near,
			   cost_of_us(device, device->seek_track_us + 30000000 / device->rpm));
		WRITE_ONCE(model->range,
			   cost_of_us(device, device->seek_full_us - device->seek_track_us));
		return 0;
	}
	WRITE_ONCE(model->command[COST_READ],
		   cost_of_command(model, device, COST_READ, device->read_iops));
	WRITE_ONCE(model->command[COST_WRITE],
		   cost_of_command(model, device, COST_WRITE, device->write_iops));
	return 0;
}

/**
 * cost_ns() - how long a device takes for so much cost
 * @model: the device's
 * @cost: normalised bytes; COST_MAX at most counts
 *
 * Return: ns.
 */
u64 cost_ns(const struct cost_model *model, u64 cost)
{
	return div_u64(min(cost, COST_MAX) * 1000, READ_ONCE(model->read_mbps));
}

/* How far a seek goes, in 1/COST_WAY: its time grows with the square root of its length. */
static u32 cost_way(const struct cost_model *model, u64 bytes)
{
	u64 capacity = READ_ONCE(model->capacity);
	u64 way = min(bytes >> READ_ONCE(model->shift), capacity);

	return int_sqrt64(div64_u64(way << COST_FRACTION_BITS, capacity));
}

static u64 cost_of_way(const struct cost_model *model, u32 way)
{
	return READ_ONCE(model->near) + READ_ONCE(model->range) * way / COST_WAY;
}

/*
 * The seek from one byte to another.  A short distance ahead may as well pass under the head; a
 * distance back can't, since a platter doesn't turn back.
 */
static void cost_move(const struct cost_model *model, u64 from, u64 to, struct cost_terms *terms)
{
	u32 way = cost_way(model, from < to ? to - from : from - to);

	if (from <= to && to - from <= cost_of_way(model, way)) {
		terms->of[COST_READ_BYTES] += to - from;
		return;
	}
	terms->of[COST_MOVES]++;
	terms->of[COST_WAYS] += way;
}

static u64 cost_sum(const struct cost_model *model, const struct cost_terms *terms)
{
	u64 cost = terms->of[COST_READ_BYTES] + terms->of[COST_FLUSHES] * READ_ONCE(model->flush) +
		   cost_data(model, COST_WRITE, terms->of[COST_WRITE_BYTES]);

	if (READ_ONCE(model->kind) == COST_FLASH)
		return cost + terms->of[COST_READS] * READ_ONCE(model->command[COST_READ]) +
		       terms->of[COST_WRITES] * READ_ONCE(model->command[COST_WRITE]);
	return cost + terms->of[COST_MOVES] * READ_ONCE(model->near) +
	       terms->of[COST_WAYS] * READ_ONCE(model->range) / COST_WAY;
}

/* Moves the cursor past a request.  Return: where it was. */
static u64 cost_pass(struct cost_cursor *cursor, u64 at, u32 bytes)
{
	u64 from = READ_ONCE(cursor->end);

	WRITE_ONCE(cursor->end, at + bytes);
	return from;
}

/**
 * cost_estimate() - what writing some data will probably cost
 * @model: the device's
 * @file: where in the file the last data became dirty
 * @at: first byte in the file
 * @bytes: how many became dirty there
 *
 * In any context.  The file is assumed to lie on the device in order.  Data that continues where
 * the last data ended will be written with it; other data needs a seek or a command of its own.
 *
 * Return: normalised bytes, less than COST_MAX.
 */
u64 cost_estimate(const struct cost_model *model, struct cost_cursor *file, u64 at, u32 bytes)
{
	struct cost_terms terms = { .of[COST_WRITE_BYTES] = bytes };
	u64 from = cost_pass(file, at, bytes);

	if (READ_ONCE(model->kind) == COST_ROTATING)
		cost_move(model, from, at, &terms);
	else
		terms.of[COST_WRITES] = from != at;
	return cost_sum(model, &terms);
}

/**
 * cost_request() - what a request costs
 * @model: the device's
 * @head: where the request dispatched before it ended; under the caller's lock
 * @io: the request
 * @terms: of what the cost is made
 *
 * In any context.
 *
 * Return: normalised bytes, less than COST_MAX.
 */
u64 cost_request(const struct cost_model *model, struct cost_cursor *head, const struct cost_io *io,
		 struct cost_terms *terms)
{
	*terms = (struct cost_terms){ .of[COST_FLUSHES] = io->flush };
	terms->of[io->op == COST_READ ? COST_READ_BYTES : COST_WRITE_BYTES] = io->bytes;
	if (READ_ONCE(model->kind) == COST_FLASH)
		terms->of[io->op == COST_READ ? COST_READS : COST_WRITES] = 1;
	else if (io->bytes)
		cost_move(model, cost_pass(head, io->at, io->bytes), io->at, terms);
	return cost_sum(model, terms);
}

/**
 * cost_expect() - data became dirty and its estimate was charged
 * @pending: the account's
 * @bytes: that became dirty
 * @cost: what was charged for them
 */
void cost_expect(struct cost_pending *pending, u64 bytes, u64 cost)
{
	pending->bytes += bytes;
	pending->cost += cost;
}

/**
 * cost_settle() - data is being written or was freed, and its estimate is void
 * @pending: the account's
 * @bytes: that are no longer dirty; bytes without an estimate may be among them
 *
 * Estimates aren't kept by page: the part that is taken back is in proportion to the bytes.  With
 * the last byte the rest of the cost is taken back.
 *
 * Return: the estimate that is void, normalised bytes.
 */
u64 cost_settle(struct cost_pending *pending, u64 bytes)
{
	u64 cost;

	bytes = min(bytes, pending->bytes);
	if (!bytes)
		return 0;
	cost = mul_u64_u64_div_u64(pending->cost, bytes, pending->bytes);
	pending->bytes -= bytes;
	pending->cost -= cost;
	return cost;
}

/* Demands over which a price is averaged: many more than share a commit, of which the first pay. */
#define COST_LOG_DEMANDS 512

/**
 * cost_demand() - an account wants something to be durable
 * @log: under the caller's lock
 *
 * All demands pay the same price, whether many share a commit or none.  Sharing is a matter of
 * chance, and an account with a small share of the device has fewer others to share with.
 *
 * Return: normalised bytes.  In the long run their sum is the cost of the demanded commits, without
 * the cost of the data that is logged.
 */
u64 cost_demand(struct cost_log *log)
{
	s64 all = (s64)log->rest + log->debt;
	u64 cost = all > 0 && log->demands ? div64_u64(all, log->demands) : 0;

	if (++log->demands >= 2 * COST_LOG_DEMANDS) {
		log->demands /= 2;
		log->rest /= 2;
	}
	log->debt -= cost;
	log->fresh = true;
	return cost;
}

/**
 * cost_commit() - what the log is given from now on belongs to another commit
 * @log: under the caller's lock
 * @own: how many bytes it has of its own, as a commit record
 */
void cost_commit(struct cost_log *log, u32 own)
{
	log->pooled = log->fresh;
	log->fresh = false;
	log->own = own;
}

/**
 * cost_log_written() - a part of the log is written
 * @model: the device's
 * @log: under the caller's lock
 * @bytes: length of that part
 * @cost: its cost, normalised bytes
 *
 * If the commit was demanded, the demands pay for everything but the logged data.
 *
 * Return: what is left for the causes of the logged changes, normalised bytes.
 */
u64 cost_log_written(const struct cost_model *model, struct cost_log *log, u32 bytes, u64 cost)
{
	u32 own = min(bytes, log->own);
	u64 data = min(cost, cost_data(model, COST_WRITE, bytes - own));

	if (!log->pooled)
		return cost;
	log->own -= own;
	log->rest += cost - data;
	log->debt += cost - data;
	return data;
}

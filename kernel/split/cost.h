/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What I/O costs, in normalised bytes: a request costs as many bytes as the device would read in
 * sequence in the same time.  On a disk of 126 MB/s, 4 KiB at random cost 1.6 MB, since 1.6 MB pass
 * under the head while the arm seeks.
 *
 * There are two levels, as in section 3.2 and Fig 8 of the split-level paper.
 *
 *	memory	cost_estimate(), when a page becomes dirty.  Prompt: it isn't known yet where on
 *		the device the page will be, or whether it will be overwritten, deleted or
 *		written beside others.  Its place in the file is known, and whether that
 *		continues from the last dirty data.
 *	block	cost_request(), when a request is dispatched.  Accurate: the place is
 *		known, and what the file system adds is a request as well.
 *
 * An estimate is charged at once, and taken back when its page is written or freed: struct
 * cost_pending has its amount.  What was really written is charged by its requests.  So a charge
 * is an estimate at first and accurate in the end, and the estimate is given back to the byte.
 *
 * Parameters are learned from the device (learn.h), or given by an administrator with the knob
 * "costs" of each policy, as figures of a datasheet or of some minutes of fio.  While they are
 * learned, the same request may cost a little more or less from one minute to the next, and a rate
 * in normalised bytes buys a little less or more.
 *
 * What the models leave out, and why:
 *
 *	zones	Near the hub a disk transfers half as fast.  A byte costs the same wherever the
 *		file system put it.  Otherwise a tenant with the inner tracks would get fewer
 *		bytes, and shares of throughput are what is promised.
 *	queues	A disk that has many requests at once serves them in a better order:
 *		the simulated one does 168 random reads a second at depth 32 and 76
 *		one by one.  The order here is that of dispatch.  So with parameters of a
 *		datasheet, random requests in a deep queue are charged up to 2.2 times what
 *		they cost.  Learned ones are of the depths that were there lately.
 *	cells	The cost of garbage collection is in the figure of random writes, by their
 *		number.  On a drive where it depends on bytes, as on the simulated one, random
 *		writes of 32 KiB cost 2.2 times what is charged here.
 *
 * Locking: calls of cost_init() on a model are serialised by the caller.  Others may use it
 * meanwhile: a request's cost may be made of old and new parameters.  Calls on a device's
 * cursor and on a cost_pending are serialised by the caller.  A file's cursor may be used by
 * several at once: each reads and writes it once, and a lost update is a wrong guess, no more.
 */
#ifndef SPLIT_COST_H
#define SPLIT_COST_H

#include "shim.h"

/*
 * An upper bound of a request's cost: 4 GiB written to a device that writes 256 times slower than
 * it reads, with the longest seek and flush that cost_init() allows.
 */
#define COST_MAX BIT_ULL(42)

enum cost_kind { COST_ROTATING, COST_FLASH };

enum cost_op { COST_READ, COST_WRITE };

/**
 * struct cost_device - what the models must know of a device
 * @kind: what a request's cost depends on: the way to it, or its size and operation
 * @capacity: bytes
 * @read_mbps: sequential read, 10^6 bytes a second: by it all else is normalised
 * @write_mbps: sequential write; at least a 256th of @read_mbps
 * @flush_us: a flush of the write cache, besides writing what is in it
 * @rpm: COST_ROTATING: revolutions a minute
 * @seek_track_us: COST_ROTATING: seek to the next track
 * @seek_full_us: COST_ROTATING: seek over all tracks
 * @read_iops: COST_FLASH: random reads of 4 KiB a second, in a deep queue
 * @write_iops: COST_FLASH: random writes of 4 KiB a second, in a deep queue
 *
 * Ranges are in cost.c.
 */
struct cost_device {
	enum cost_kind kind;
	u64 capacity;
	u32 read_mbps;
	u32 write_mbps;
	u32 flush_us;
	u32 rpm;
	u32 seek_track_us;
	u32 seek_full_us;
	u32 read_iops;
	u32 write_iops;
};

/**
 * struct cost_model - the parameters of struct cost_device, as normalised bytes
 * @kind: of the device
 * @capacity: in units of 2^@shift bytes, so that it is below 2^31
 * @shift: see @capacity
 * @write_part: a byte written, in 1024ths of one read
 * @command: COST_FLASH: what a command of each operation costs, whatever its size
 * @near: COST_ROTATING: the shortest seek to another track, and half a revolution
 * @range: COST_ROTATING: what the longest seek costs beyond the shortest
 * @flush: what a flush costs
 * @read_mbps: 10^6 bytes a second
 */
struct cost_model {
	enum cost_kind kind;
	u64 capacity;
	unsigned int shift;
	u32 write_part;
	u64 command[2];
	u64 near;
	u64 range;
	u64 flush;
	u32 read_mbps;
};

/**
 * struct cost_cursor - where the last request ended
 * @end: byte on the device, or in the file
 *
 * All zeroes is the start of the device or file, and a good first guess.
 */
struct cost_cursor {
	u64 end;
};

/**
 * struct cost_io - a request, as far as it matters
 * @at: first byte on the device
 * @bytes: of data; 0 for a command that moves none, as a discard
 * @op: what is done
 * @flush: the write cache is flushed before, or forced unit access stands in for it after
 */
struct cost_io {
	u64 at;
	u32 bytes;
	enum cost_op op;
	bool flush;
};

/*
 * What a request has of each thing that has a price.  The third and fourth depend on the kind of
 * device.
 */
enum cost_term {
	COST_READ_BYTES,
	COST_WRITE_BYTES,
	COST_READS, /* COST_FLASH: commands */
	COST_WRITES,
	COST_FLUSHES,
	COST_TERMS,
	COST_MOVES = COST_READS, /* COST_ROTATING: seeks */
	COST_WAYS = COST_WRITES, /* of the longest way's root, in 1/COST_WAY */
};

#define COST_WAY 65536U

/**
 * struct cost_terms - how much of each
 * @of: by enum cost_term
 */
struct cost_terms {
	u64 of[COST_TERMS];
};

/**
 * struct cost_pending - what an account was charged in advance
 * @bytes: dirty bytes, neither written nor freed yet
 * @cost: sum of their estimates
 */
struct cost_pending {
	u64 bytes;
	u64 cost;
};

/**
 * struct cost_log - what a log's writes cost besides the logged data: seeks, flushes, its own bytes
 * @rest: that cost, lately
 * @demands: how often something was made durable, lately
 * @debt: all of that cost, less what demands have paid
 * @fresh: there was a demand since the last commit
 * @pooled: there was one before this commit, so that demands pay for it
 * @own: bytes of this commit that are the log's own, and still to be written
 */
struct cost_log {
	u64 rest;
	u64 demands;
	s64 debt;
	bool fresh;
	bool pooled;
	u32 own;
};

struct cost_device cost_class_default(enum cost_kind kind, u64 capacity);
int cost_init(struct cost_model *model, const struct cost_device *device);

u64 cost_ns(const struct cost_model *model, u64 cost);
/* What a request without a flush costs that reads so many bytes from flash. */
static inline u64 cost_flash_read(const struct cost_model *model, u32 bytes)
{
	return READ_ONCE(model->command[COST_READ]) + bytes;
}

u64 cost_estimate(const struct cost_model *model, struct cost_cursor *file, u64 at, u32 bytes);
u64 cost_request(const struct cost_model *model, struct cost_cursor *head, const struct cost_io *io,
		 struct cost_terms *terms);

void cost_expect(struct cost_pending *pending, u64 bytes, u64 cost);
u64 cost_settle(struct cost_pending *pending, u64 bytes);

u64 cost_data(const struct cost_model *model, enum cost_op op, u64 bytes);
u64 cost_demand(struct cost_log *log);
void cost_commit(struct cost_log *log, u32 own);
u64 cost_log_written(const struct cost_model *model, struct cost_log *log, u32 bytes, u64 cost);

#endif

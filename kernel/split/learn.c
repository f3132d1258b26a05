// SPDX-License-Identifier: GPL-2.0-only
/* What a device's I/O costs, learned from the device.  See learn.h. */
#include "learn.h"

#define LEARN_NS_PER_S 1000000000ULL
#define LEARN_FS_PER_NS 1000000ULL
#define LEARN_FS_PER_US (1000 * LEARN_FS_PER_NS)
#define LEARN_FS_PER_S (LEARN_NS_PER_S * LEARN_FS_PER_NS)

/* Figures of random access are for commands of this size. */
#define LEARN_RANDOM_BYTES 4096U

/* A window is at least so long and has so much to do; a longer one says nothing of now. */
#define LEARN_WINDOW_NS (50 * 1000000ULL)
#define LEARN_WINDOW_REQUESTS 16U
#define LEARN_WINDOW_BYTES (4U * 1024 * 1024)
#define LEARN_WINDOW_MOST_NS (2 * LEARN_NS_PER_S)

/*
 * With so many requests inside, or so many bytes, a device has enough to do.  Fewer writes are
 * enough: they wait for room in its cache.
 */
#define LEARN_DEEP 32U
#define LEARN_DEEP_WRITES 4U
#define LEARN_DEEP_BYTES (512U * 1024)

/* With more requests than that a flush may have waited for them, and tells nothing of itself. */
#define LEARN_FEW 4U

/* A cache, or what a drive writes at first as into one, is full after so long. */
#define LEARN_CACHE_NS (LEARN_NS_PER_S / 2)

/* A part of the window, or of its requests, that doesn't count. */
#define LEARN_LITTLE 8

/*
 * A window corrects the sum by this part of what it is off: by more if that is far off.  It is
 * taken for at most so far off.
 */
#define LEARN_PART 4
#define LEARN_PART_FAR 2
#define LEARN_FAR 2
#define LEARN_OFF 4

/* By the prices, what takes so large a part of a window's time is as much as a device can do. */
#define LEARN_FED_OF 4
#define LEARN_FED (LEARN_FED_OF - 1)

/* After a window of so many reads, and nothing else, of flash none need be told for so long. */
#define LEARN_MANY 512U
#define LEARN_REST_NS LEARN_NS_PER_S

/* The unit of a price's weight, of the sum. */
#define LEARN_WEIGHT 1024U

/* The bounds of a price, fs: struct cost_device has the parameter, and a window an effect. */
static const u64 learn_least[COST_TERMS] = {
	[COST_READ_BYTES] = LEARN_FS_PER_US / 100000,
	[COST_WRITE_BYTES] = LEARN_FS_PER_US / 100000,
	[COST_READS] = LEARN_FS_PER_NS,
	[COST_WRITES] = LEARN_FS_PER_NS,
};

static const u64 learn_most[COST_TERMS] = {
	[COST_READ_BYTES] = LEARN_FS_PER_US, [COST_WRITE_BYTES] = LEARN_FS_PER_US,
	[COST_READS] = LEARN_FS_PER_S / 10,  [COST_WRITES] = LEARN_FS_PER_S / 10,
	[COST_FLUSHES] = LEARN_FS_PER_S,
};

static void learn_set(struct learn *learn, enum cost_term term, u64 price)
{
	learn->price[term] = clamp_t(u64, price, learn_least[term], learn_most[term]);
}

static u64 learn_command(u64 byte, u32 iops)
{
	u64 all = div_u64(LEARN_FS_PER_S, iops);

	return all - min(all, LEARN_RANDOM_BYTES * byte);
}

/**
 * learn_init() - begin with some parameters
 * @learn: the device's
 * @device: parameters that cost_init() takes
 * @tags: how many requests the device takes at most
 */
void learn_init(struct learn *learn, const struct cost_device *device, unsigned int tags)
{
	memset(learn, 0, sizeof(*learn));
	learn->kind = device->kind;
	learn->deep = clamp_t(unsigned int, tags / 2, 1, LEARN_DEEP);
	learn_set(learn, COST_READ_BYTES, div_u64(LEARN_FS_PER_US, device->read_mbps));
	learn_set(learn, COST_WRITE_BYTES, div_u64(LEARN_FS_PER_US, device->write_mbps));
	learn_set(learn, COST_FLUSHES, device->flush_us * LEARN_FS_PER_US);
	if (device->kind == COST_ROTATING) {
		learn_set(learn, COST_MOVES,
			  (device->seek_track_us + 30000000 / device->rpm) * LEARN_FS_PER_US);
		learn_set(learn, COST_WAYS,
			  (device->seek_full_us - device->seek_track_us) * LEARN_FS_PER_US);
		return;
	}
	learn_set(learn, COST_READS,
		  learn_command(learn->price[COST_READ_BYTES], device->read_iops));
	learn_set(learn, COST_WRITES,
		  learn_command(learn->price[COST_WRITE_BYTES], device->write_iops));
}

/* What some requests take by one of the prices, ns. */
static u64 learn_part(const struct learn *learn, const struct cost_terms *terms,
		      enum cost_term term)
{
	u64 unit = LEARN_FS_PER_NS;

	if (learn->kind == COST_ROTATING && term == COST_WAYS)
		unit *= COST_WAY;
	return mul_u64_u64_div_u64(terms->of[term], learn->price[term], unit);
}

/* The same by all prices but that of a flush. */
static u64 learn_sum(const struct learn *learn, const struct cost_terms *terms)
{
	enum cost_term term;
	u64 sum = 0;

	for (term = 0; term < COST_FLUSHES; term++)
		sum += learn_part(learn, terms, term);
	return sum;
}

/* Whether a window's requests were reads, nearly all. */
static bool learn_reads(const struct learn *learn)
{
	return learn->writes * LEARN_LITTLE <= learn->requests;
}

/*
 * Whether a window may lower prices, if they say that it was worth @sum.  A disk's cache hides
 * seeks, and what passes under the head between writes.
 */
static bool learn_may_fall(const struct learn *learn, u64 sum)
{
	u64 wrote = learn_part(learn, &learn->terms, COST_WRITE_BYTES);

	if (learn_reads(learn))
		return true;
	if (learn->wrote_ns < LEARN_CACHE_NS)
		return false;
	return learn->kind == COST_FLASH || (sum - wrote) * LEARN_LITTLE < sum;
}

/*
 * How much of an error is a price's, of LEARN_WEIGHT² times the sum's square.  A command's weight
 * has its least bytes in it: else what explains little would never explain more.
 */
static u64 learn_weight(const struct learn *learn, const struct cost_terms *terms,
			enum cost_term term, u64 sum)
{
	u64 part = learn_part(learn, terms, term);

	if (learn->kind == COST_FLASH && term >= COST_READS)
		part += mul_u64_u64_div_u64(terms->of[term] * LEARN_RANDOM_BYTES,
					    learn->price[term - COST_READS], LEARN_FS_PER_NS);
	part = mul_u64_u64_div_u64(part, LEARN_WEIGHT, sum);
	return part * part;
}

/* Corrects the prices by some requests that took so long, and not @sum. */
static void learn_share_out(struct learn *learn, const struct cost_terms *terms, u64 sum, u64 taken)
{
	bool far = taken > sum * LEARN_FAR || taken < sum / LEARN_FAR;
	u64 all = 0, price[COST_FLUSHES], off;
	enum cost_term term;

	taken = clamp_t(u64, taken, sum / LEARN_OFF, sum * LEARN_OFF);
	off = max(sum, taken) - min(sum, taken);
	off = div_u64(off, far ? LEARN_PART_FAR : LEARN_PART);
	for (term = 0; term < COST_FLUSHES; term++)
		all += learn_weight(learn, terms, term, sum);
	for (term = 0; term < COST_FLUSHES; term++) {
		u64 part = learn_part(learn, terms, term), share;

		price[term] = learn->price[term];
		if (!part)
			continue;
		share = mul_u64_u64_div_u64(off, learn_weight(learn, terms, term, sum), all);
		share = mul_u64_u64_div_u64(price[term], share, part);
		price[term] = taken > sum ? price[term] + share
					  : price[term] - min(share, price[term] / 2);
	}
	for (term = 0; term < COST_FLUSHES; term++)
		learn_set(learn, term, price[term]);
}

static u64 learn_bytes(const struct learn *learn)
{
	return learn->terms.of[COST_READ_BYTES] + learn->terms.of[COST_WRITE_BYTES];
}

static bool learn_is_full(const struct learn *learn)
{
	bool writes = (learn->requests - learn->writes) * LEARN_LITTLE <= learn->requests;
	u64 deep = writes ? min(learn->deep, LEARN_DEEP_WRITES) : learn->deep;
	u64 inside = div_u64(learn->inside, learn->requests);

	return learn->kind == COST_ROTATING || inside >= deep ||
	       inside * div_u64(learn_bytes(learn), learn->requests) >= LEARN_DEEP_BYTES;
}

/*
 * Looks at a window that is worth @sum by the prices, in which the device was busy for so long, and
 * may have worked for up to @spent_ns.  It hasn't done what is inside at the end, and did what was
 * inside at the beginning: the window tells nothing if that is much, since an error of its prices
 * isn't one of the window's.
 * Return: what it is worth indeed.
 */
static u64 learn_worth(const struct learn *learn, u64 sum, u64 busy_ns, u64 spent_ns, u64 inside_ns)
{
	bool full = learn_is_full(learn);
	u64 flushes = max(learn_part(learn, &learn->terms, COST_FLUSHES), learn->flushed_ns);
	u64 more = max(inside_ns, learn->inside_ns) - min(inside_ns, learn->inside_ns);

	if (!sum || more > sum / 2 || (inside_ns < learn->inside_ns && more >= busy_ns))
		return sum;
	if (inside_ns > learn->inside_ns) {
		busy_ns += more;
		spent_ns += more;
	} else {
		busy_ns -= more;
		spent_ns -= more;
	}
	if (sum + flushes < busy_ns && full)
		return busy_ns - flushes;
	return sum > spent_ns && learn_may_fall(learn, sum) ? spent_ns : sum;
}

/* A flush that is going on counts for the window up to now. */
static void learn_count_flush(struct learn *learn, u64 now_ns)
{
	if (learn->flushes)
		learn->flushed_ns += now_ns - max(learn->flush_ns, learn->began_ns);
}

static void learn_begin(struct learn *learn, u64 inside_ns, u64 now_ns)
{
	memset(&learn->terms, 0, sizeof(learn->terms));
	learn->began_ns = now_ns;
	learn->idle_ns = 0;
	learn->flushed_ns = 0;
	learn->voided = false;
	learn->requests = 0;
	learn->writes = 0;
	learn->inside = 0;
	learn->inside_ns = inside_ns;
}

static void learn_add(struct cost_terms *to, const struct cost_terms *terms)
{
	enum cost_term term;

	for (term = 0; term < COST_TERMS; term++)
		to->of[term] += terms->of[term];
}

/* Looks at the window at its end.  Return: whether a price changes. */
static bool learn_look(struct learn *learn, u64 inside_ns, u64 now_ns)
{
	u64 passed = now_ns - learn->began_ns, busy = passed - min(learn->idle_ns, passed);
	u64 sum = learn_sum(learn, &learn->terms), spent = busy, worth;
	bool works = learn->idle_ns * LEARN_LITTLE <= passed;
	bool fed = sum * LEARN_FED_OF >= passed * LEARN_FED;

	learn_count_flush(learn, now_ns);
	if (learn_reads(learn) || !(works || fed)) {
		learn->wrote_ns = 0;
	} else {
		learn->wrote_ns += passed;
		learn->known |= works && learn->wrote_ns >= LEARN_CACHE_NS;
		spent = works || learn->known ? passed : max(busy, sum / LEARN_FAR);
	}
	worth = learn_worth(learn, sum, busy, spent, inside_ns);
	if (worth != sum)
		learn_share_out(learn, &learn->terms, sum, worth);
	if (learn->kind == COST_FLASH && learn->requests >= LEARN_MANY && !learn->writes &&
	    max(sum, worth) - min(sum, worth) <= sum / LEARN_LITTLE)
		learn->rest_ns = LEARN_REST_NS;
	return worth != sum;
}

/**
 * learn_request() - the device is given a request
 * @learn: the device's
 * @terms: of what its cost is made
 * @inside: how many requests the device has, without this one
 * @inside_ns: what these cost when they were given
 * @now_ns: the time
 *
 * One without data, as a discard, has no price: a window with it tells nothing.
 *
 * Return: whether a price has changed.  If @learn->rest_ns becomes another number than 0, no read
 * need be told for so long, or until something else is.
 */
bool learn_request(struct learn *learn, const struct cost_terms *terms, unsigned int inside,
		   u64 inside_ns, u64 now_ns)
{
	u64 passed = now_ns - learn->began_ns;
	bool changed = false;

	if (!terms->of[COST_READ_BYTES] && !terms->of[COST_WRITE_BYTES]) {
		learn_begin(learn, inside_ns, now_ns);
		learn->voided = true;
		return false;
	}
	if (passed >= LEARN_WINDOW_NS && (learn->requests >= LEARN_WINDOW_REQUESTS ||
					  learn_bytes(learn) >= LEARN_WINDOW_BYTES)) {
		if (passed < LEARN_WINDOW_MOST_NS && !learn->voided)
			changed = learn_look(learn, inside_ns, now_ns);
		learn_begin(learn, inside_ns, now_ns);
		learn->voided = learn->rest_ns;
	}
	learn_add(&learn->terms, terms);
	learn->requests++;
	learn->inside += inside + 1;
	if (terms->of[COST_WRITE_BYTES]) {
		learn->writes++;
		learn_add(&learn->unflushed, terms);
		learn->unflushed_writes++;
	}
	return changed;
}

/**
 * learn_flush() - the device begins to flush its cache
 * @learn: the device's
 * @now_ns: the time
 *
 * A flush that begins or ends while another one goes on tells nothing.
 */
void learn_flush(struct learn *learn, u64 now_ns)
{
	learn->alone = !learn->flushes++;
	if (!learn->alone)
		return;
	learn->flush_ns = now_ns;
	learn->flushing = learn->unflushed;
	learn->flushing_writes = learn->unflushed_writes;
	memset(&learn->unflushed, 0, sizeof(learn->unflushed));
	learn->unflushed_writes = 0;
}

/**
 * learn_unflushed() - the flush is to be tried again
 * @learn: the device's
 * @now_ns: the time
 */
void learn_unflushed(struct learn *learn, u64 now_ns)
{
	if (!learn->flushes)
		return;
	if (learn->flushes == 1) {
		learn_count_flush(learn, now_ns);
		learn_add(&learn->unflushed, &learn->flushing);
		learn->unflushed_writes += learn->flushing_writes;
	}
	learn->flushes--;
}

/**
 * learn_flushed() - the device has flushed its cache
 * @learn: the device's
 * @inside: how many requests it has; it may have done some of them first
 * @now_ns: the time
 *
 * A flush that took longer than expected has its own price, if there was little to write.  Else it
 * shows roughly that of the writes, where the device is never full: that they are far dearer, and
 * never that they are cheaper, since they may have been written in advance.
 *
 * Return: whether a price has changed.
 */
bool learn_flushed(struct learn *learn, unsigned int inside, u64 now_ns)
{
	u64 taken = min(now_ns - learn->flush_ns, LEARN_NS_PER_S);
	u64 load = learn_sum(learn, &learn->flushing), price = learn->price[COST_FLUSHES];
	bool alone = learn->alone && learn->flushes == 1;

	if (learn->flushes == 1)
		learn_count_flush(learn, now_ns);
	learn->flushes -= !!learn->flushes;
	if (!alone)
		return false;
	if (taken * LEARN_FS_PER_NS < price) {
		load = 0;
	} else if (inside > LEARN_FEW || taken < load + price / LEARN_FS_PER_NS) {
		return false;
	} else if (learn->flushing_writes > LEARN_FEW) {
		taken -= price / LEARN_FS_PER_NS;
		if (learn->flushing_writes < LEARN_WINDOW_REQUESTS || !load ||
		    taken < load * LEARN_OFF)
			return false;
		learn_share_out(learn, &learn->flushing, load, taken);
		return true;
	}
	taken = (taken - load) * LEARN_FS_PER_NS;
	learn_set(learn, COST_FLUSHES, price - price / LEARN_PART + taken / LEARN_PART);
	return true;
}

/* As many of a unit as pass in a second, or in a microsecond. */
static u32 learn_rate(u64 all, u64 price, u32 most)
{
	return clamp_t(u64, div64_u64(all + price / 2, price), 1, most);
}

/**
 * learn_costs() - the parameters that the prices stand for
 * @learn: the device's
 * @device: its parameters, for learn_init() or from here, which change
 *
 * What is learned of seeks is one price, of track and turn together.  It becomes a track's, and the
 * rest half a turn's.
 */
void learn_costs(const struct learn *learn, struct cost_device *device)
{
	const u64 *price = learn->price;
	u64 near_us, half_us;

	device->read_mbps = learn_rate(LEARN_FS_PER_US, price[COST_READ_BYTES], 100000);
	device->write_mbps = learn_rate(LEARN_FS_PER_US, price[COST_WRITE_BYTES], 100000);
	device->write_mbps = max(device->write_mbps, DIV_ROUND_UP(device->read_mbps, 256U));
	device->flush_us = div_u64(price[COST_FLUSHES], LEARN_FS_PER_US);
	if (learn->kind == COST_FLASH) {
		u64 read = price[COST_READS] + LEARN_RANDOM_BYTES * price[COST_READ_BYTES];
		u64 write = price[COST_WRITES] + LEARN_RANDOM_BYTES * price[COST_WRITE_BYTES];

		device->read_iops = max(learn_rate(LEARN_FS_PER_S, read, 100000000), 10U);
		device->write_iops = max(learn_rate(LEARN_FS_PER_S, write, 100000000), 10U);
		return;
	}
	near_us = max(div_u64(price[COST_MOVES], LEARN_FS_PER_US), 300ULL);
	half_us = 30000000 / device->rpm;
	if (near_us < half_us) {
		half_us = near_us;
		device->rpm = 30000000 / (u32)half_us;
	}
	device->seek_track_us = min(near_us - half_us, 50000ULL);
	device->seek_full_us =
		device->seek_track_us + min(div_u64(price[COST_WAYS], LEARN_FS_PER_US), 50000ULL);
}

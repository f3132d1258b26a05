// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long a device takes for writeback: see pace.h.
 */
#include "pace.h"

#include <linux/math64.h>
#include <linux/sizes.h>

/*
 * Of struct pace: the unit, and the bounds of what a device is assumed to need.  It is learned
 * while the device has so many requests, or such large ones, for so long, with no more than a part
 * of other I/O.  Each new value has the weight 1/4.
 */
#define PACE_ONE 1024U
#define PACE_MOST (16 * PACE_ONE)
#define PACE_LEAST (PACE_ONE / 4)
#define PACE_DEEP 4
#define PACE_OTHER 15
#define PACE_LARGE ((u64)SZ_1M)
#define PACE_NS (250 * (u64)NSEC_PER_MSEC)

/*
 * Weight of the estimate, and the largest one of what was written, normalised bytes.  A journal's
 * blocks weren't in the estimate at all, so what is learned has an upper bound: so many times the
 * estimate.
 */
#define PACE_GUESS ((u64)SZ_16M)
#define PACE_GUESSES_MOST ((u64)SZ_1G)
#define PACE_GUESS_OFF 4

void pace_init(struct pace *pace)
{
	pace->slow = PACE_ONE;
}

/* Looks whether the device has enough to do, with @inside requests, and learns its pace. */
void pace_look(struct pace *pace, const struct split_device *device, int inside)
{
	u64 now = ktime_get_ns(), passed = now - pace->deep_ns, slow;
	bool ends = inside < PACE_DEEP && pace->writing < PACE_LARGE;

	if (!ends && pace->deep_ns && passed < PACE_NS)
		return;
	if (!ends && pace->deep_ns && pace->deep_written / PACE_OTHER > pace->deep_other) {
		slow = split_cost_ns(device, pace->deep_written + pace->deep_other);
		slow = mul_u64_u64_div_u64(passed, PACE_ONE, max(slow, 1ULL));
		slow = clamp_t(u64, slow, PACE_LEAST, PACE_MOST);
		pace->slow = (3 * pace->slow + (unsigned int)slow) / 4;
	}
	pace->deep_ns = ends ? 0 : now;
	pace->deep_written = 0;
	pace->deep_other = 0;
}

/* How long the device takes for so much cost. */
u64 pace_ns(const struct pace *pace, const struct split_device *device, u64 cost)
{
	return mul_u64_u32_div(split_cost_ns(device, cost), pace->slow, PACE_ONE);
}

/* Older values count for less. */
static void pace_forget(struct pace_guess *guess)
{
	if (max(guess->settled, guess->written) <= PACE_GUESSES_MOST)
		return;
	guess->settled /= 2;
	guess->written /= 2;
}

/* So much of an account's estimate is void: its data is being written, or was freed. */
void pace_settle(struct pace_guess *guess, u64 cost)
{
	guess->settled += cost;
	pace_forget(guess);
}

/* The account was charged so much for writeback. */
void pace_charge(struct pace_guess *guess, u64 cost)
{
	guess->written += cost;
	pace_forget(guess);
}

/* What an account's dirty data will cost, by what its last writeback did cost. */
u64 pace_guess(const struct pace_guess *guess, u64 expected)
{
	u64 written = min(guess->written, PACE_GUESS_OFF * guess->settled);

	return mul_u64_u64_div_u64(expected, written + PACE_GUESS, guess->settled + PACE_GUESS);
}

/* In per cent, for people to read; without the lock. */
unsigned int pace_pct(const struct pace *pace)
{
	return READ_ONCE(pace->slow) * 100 / PACE_ONE;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIMDISK_PROFILE_H
#define SIMDISK_PROFILE_H

#include "shim.h"

enum profile_kind { PROFILE_HDD = 1, PROFILE_SSD = 2 };

#define BOTH (PROFILE_HDD | PROFILE_SSD)

/*
 * Every parameter of every model: name, kinds it applies to, least, most.
 * Times are in nanoseconds of the drive, before slowdown. Rates are in 10^6
 * bytes per second. A time of 0 for discard or zeroes says that the drive
 * has no such command.
 *
 * sectors		capacity, 512 bytes each
 * queues		submission queues
 * queue_depth		commands per submission queue
 * slots		commands that the drive works on at a time
 * slowdown		every time is multiplied by this
 * seed			start of everything that is drawn by lot
 * fua			1: the drive has forced unit access
 * queued_flush		0: FLUSH and discard wait for all others, then run alone
 * read_cmd_ns		the controller is occupied by a read
 * write_cmd_ns		the controller is occupied by any other command
 * read_latency_ns	from fetching a read to its first access
 * write_latency_ns	from fetching a write to its first byte on the link
 * link_mbps		host link
 * duplex		1: the link carries reads and writes at the same time
 * flush_ns		FLUSH, besides bringing data to the medium
 * discard_ns		one discard
 * zeroes_ns		one write zeroes
 * cache_kib		write cache; 0: none, each write goes to the medium
 * protected_cache	1: the cache outlives a loss of power, FLUSH is free
 *
 * rpm			revolutions a minute
 * outer_mbps		media rate of the first track
 * inner_mbps		media rate of the last track
 * seek_track_ns	seek to the next track
 * seek_full_ns		seek over all tracks
 * seek_write_ns	extra settling before a write
 * skew_ns		from the end of a track to the start of the next
 * age_cap_ns		a command older than this goes first
 * readahead_kib	what the drive reads on after a read
 *
 * channels, dies	channels, and dies on each
 * channel_mbps		one channel
 * page_kib		unit of reading
 * program_kib		unit of programming, planes of a die together
 * read_lsb_ns, read_msb_ns		sense time by type of page
 * program_lsb_ns, program_msb_ns	program time by type of page
 * erase_ns		one block
 * block_programs	programs between two erases of a die
 * suspend_ns		a read suspends a program or erase; 0: it waits
 * sequential_wa_pct	bytes programmed per 100 written in sequence
 * random_wa_pct	the same at random: garbage collection's share is in it
 */
#define PROFILE_PARAMETERS(X)					\
	X(sectors, BOTH, 8, 1ULL << 35)				\
	X(queues, BOTH, 1, 16)					\
	X(queue_depth, BOTH, 1, 1024)				\
	X(slots, BOTH, 1, 1024)					\
	X(slowdown, BOTH, 1, 1000)				\
	X(seed, BOTH, 0, U32_MAX)				\
	X(fua, BOTH, 0, 1)					\
	X(queued_flush, BOTH, 0, 1)				\
	X(read_cmd_ns, BOTH, 0, 1000000000)			\
	X(write_cmd_ns, BOTH, 0, 1000000000)			\
	X(read_latency_ns, BOTH, 0, 1000000000)			\
	X(write_latency_ns, BOTH, 0, 1000000000)		\
	X(link_mbps, BOTH, 1, 100000)				\
	X(duplex, BOTH, 0, 1)					\
	X(flush_ns, BOTH, 0, 10000000000ULL)			\
	X(discard_ns, BOTH, 0, 10000000000ULL)			\
	X(zeroes_ns, BOTH, 0, 10000000000ULL)			\
	X(cache_kib, BOTH, 0, 1 << 20)				\
	X(protected_cache, BOTH, 0, 1)				\
	X(rpm, PROFILE_HDD, 1000, 20000)			\
	X(outer_mbps, PROFILE_HDD, 10, 1000)			\
	X(inner_mbps, PROFILE_HDD, 10, 1000)			\
	X(seek_track_ns, PROFILE_HDD, 0, 1000000000)		\
	X(seek_full_ns, PROFILE_HDD, 0, 1000000000)		\
	X(seek_write_ns, PROFILE_HDD, 0, 1000000000)		\
	X(skew_ns, PROFILE_HDD, 0, 10000000)			\
	X(age_cap_ns, PROFILE_HDD, 1, 100000000000ULL)		\
	X(readahead_kib, PROFILE_HDD, 0, 65536)			\
	X(channels, PROFILE_SSD, 1, 64)				\
	X(dies, PROFILE_SSD, 1, 16)				\
	X(channel_mbps, PROFILE_SSD, 1, 100000)			\
	X(page_kib, PROFILE_SSD, 1, 64)				\
	X(program_kib, PROFILE_SSD, 1, 1024)			\
	X(read_lsb_ns, PROFILE_SSD, 1, 1000000000)		\
	X(read_msb_ns, PROFILE_SSD, 1, 1000000000)		\
	X(program_lsb_ns, PROFILE_SSD, 1, 1000000000)		\
	X(program_msb_ns, PROFILE_SSD, 1, 1000000000)		\
	X(erase_ns, PROFILE_SSD, 0, 1000000000)			\
	X(block_programs, PROFILE_SSD, 1, 65536)		\
	X(suspend_ns, PROFILE_SSD, 0, 1000000000)		\
	X(sequential_wa_pct, PROFILE_SSD, 100, 10000)		\
	X(random_wa_pct, PROFILE_SSD, 100, 10000)

/**
 * struct profile - a drive as data
 * @name: what is written to the attribute "profile"
 * @kind: the model that simulates it
 *
 * The other members are PROFILE_PARAMETERS, described above.
 */
struct profile {
	const char *name;
	enum profile_kind kind;
#define MEMBER(name, kinds, least, most) u64 name;
	PROFILE_PARAMETERS(MEMBER)
#undef MEMBER
};

/**
 * struct profile_parameter - what is known of one parameter
 * @name: as in PROFILE_PARAMETERS
 * @offset: of the u64 in struct profile
 * @kinds: mask of enum profile_kind
 * @least: smallest value allowed
 * @most: largest value allowed
 */
struct profile_parameter {
	const char *name;
	size_t offset;
	unsigned int kinds;
	u64 least;
	u64 most;
};

extern const struct profile profiles[];
extern const unsigned int profiles_count;
extern const struct profile_parameter profile_parameters[];
extern const unsigned int profile_parameters_count;

const struct profile *profile_find(const char *name);
const struct profile_parameter *profile_parameter_find(const char *name);
int profile_set(struct profile *p, const struct profile_parameter *par, u64 value);
u64 profile_get(const struct profile *p, const struct profile_parameter *par);

#endif

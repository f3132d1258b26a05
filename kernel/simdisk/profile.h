/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIMDISK_PROFILE_H
#define SIMDISK_PROFILE_H

#include "shim.h"

enum profile_kind { PROFILE_HDD = 1, PROFILE_SSD = 2 };

#define BOTH (PROFILE_HDD | PROFILE_SSD)

/* As many groups of submission queues as a drive may have. */
#define PROFILE_QUEUES 16

/**
 * struct profile - a drive as data
 * @name: what is written to the attribute "profile"
 * @kind: the model that simulates it
 * @sectors: capacity, 512 bytes each
 * @queues: submission queues
 * @queue_depth: commands per submission queue
 * @slots: commands that the drive works on at a time
 * @wrr: 1: the controller can fetch by weights, from four submission queues a CPU
 * @slowdown: every time is multiplied by this
 * @seed: start of everything that is drawn by lot
 * @fua: 1: the drive has forced unit access
 * @read_cmd_ns: the controller is occupied by a read
 * @write_cmd_ns: the controller is occupied by any other command
 * @read_latency_ns: from fetching a read to its first access
 * @write_latency_ns: from fetching a write to its first byte on the link
 * @link_mbps: host link
 * @duplex: 1: the link carries reads and writes at the same time
 * @flush_ns: FLUSH, besides bringing data to the medium
 * @discard_ns: one discard
 * @zeroes_ns: one write zeroes
 * @cache_kib: write cache; 0: none, each write goes to the medium
 * @protected_cache: 1: the cache outlives a loss of power: FLUSH needn't drain it
 * @rpm: revolutions a minute
 * @outer_mbps: media rate of the first track
 * @inner_mbps: media rate of the last track
 * @seek_track_ns: seek to the next track
 * @seek_full_ns: seek over all tracks
 * @seek_write_ns: extra settling before a write
 * @skew_ns: from the end of a track to the start of the next
 * @age_cap_ns: a command older than this goes first
 * @readahead_kib: what the drive reads on after a read
 * @queued_flush: 0: FLUSH and discard wait for all others, then run alone
 * @channels: between controller and dies
 * @dies: on each channel
 * @channel_mbps: one channel
 * @page_kib: unit of reading
 * @program_kib: unit of programming, planes of a die together
 * @read_lsb_ns: sense time by type of page
 * @read_msb_ns: sense time by type of page
 * @program_lsb_ns: program time by type of page
 * @program_msb_ns: program time by type of page
 * @erase_ns: one block
 * @block_programs: programs between two erases of a die
 * @suspend_ns: a read suspends a program or erase; 0: it waits
 * @sequential_wa_pct: bytes programmed per 100 written in sequence
 * @random_wa_pct: the same at random: garbage collection's share is in it
 *
 * Times are in nanoseconds of the drive, before slowdown. Rates are in 10^6
 * bytes per second. A time of 0 for discard or zeroes says that the drive has
 * no such command. Ranges are in parameters.h.
 */
struct profile {
	const char *name;
	enum profile_kind kind;

	u64 sectors;
	u64 queues;
	u64 queue_depth;
	u64 slots;
	u64 wrr;
	u64 slowdown;
	u64 seed;
	u64 fua;
	u64 read_cmd_ns;
	u64 write_cmd_ns;
	u64 read_latency_ns;
	u64 write_latency_ns;
	u64 link_mbps;
	u64 duplex;
	u64 flush_ns;
	u64 discard_ns;
	u64 zeroes_ns;
	u64 cache_kib;
	u64 protected_cache;

	/* PROFILE_HDD */
	u64 rpm;
	u64 outer_mbps;
	u64 inner_mbps;
	u64 seek_track_ns;
	u64 seek_full_ns;
	u64 seek_write_ns;
	u64 skew_ns;
	u64 age_cap_ns;
	u64 readahead_kib;

	/* PROFILE_SSD */
	u64 queued_flush;
	u64 channels;
	u64 dies;
	u64 channel_mbps;
	u64 page_kib;
	u64 program_kib;
	u64 read_lsb_ns;
	u64 read_msb_ns;
	u64 program_lsb_ns;
	u64 program_msb_ns;
	u64 erase_ns;
	u64 block_programs;
	u64 suspend_ns;
	u64 sequential_wa_pct;
	u64 random_wa_pct;
};

/**
 * struct profile_parameter - what is known of one parameter
 * @name: of the member
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

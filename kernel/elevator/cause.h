/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cause of I/O: the nearest cgroup with a setting of its own (io.sluice.weight,
 * io.sluice.rate, io.sluice.deadline), else the thread group.  A cause is identified by a name, a
 * number that is never used for another cause.  Module sluice-cause has the files in each cgroup,
 * and looks up names.
 *
 * Any context, unless said otherwise.
 */
#ifndef SLUICE_CAUSE_H
#define SLUICE_CAUSE_H

#include "../compat/elevator.h"

#include <linux/atomic.h>
#include <linux/blk-cgroup.h>
#include <linux/sched.h>

/* Weights are from 1: the default, of a cause without its own, and the maximum. */
#define CAUSE_WEIGHT 100
#define CAUSE_WEIGHT_MAX 1000

/* Rates, normalised bytes a second (split/cost.h), and how many cgroups may have one at a time. */
#define CAUSE_RATE_MIN 1024ULL
#define CAUSE_RATE_MAX BIT_ULL(33)
#define CAUSE_PLACES 256

/*
 * Of the places, those for rates that were set without CAP_SYS_ADMIN: the rest is left to
 * administrators.  One delegated cgroup and all below it have a quarter of these at most.
 */
#define CAUSE_DELEGATED (CAUSE_PLACES / 2)
#define CAUSE_DELEGATED_EACH (CAUSE_DELEGATED / 4)

/* Deadlines, microseconds, and what they are for. */
#define CAUSE_DEADLINE_MIN 100U
#define CAUSE_DEADLINE_MAX 60000000U

enum cause_deadline { CAUSE_READ, CAUSE_FSYNC, CAUSE_DEADLINES };

/*
 * A cgroup's name has its inode number, never used again, and its weight: with another
 * weight it is another cause.
 */
#define CAUSE_CGROUP BIT_ULL(63)
#define CAUSE_WEIGHT_BITS 10

/* All kernel threads together, where it isn't known for which cause they work. */
#define CAUSE_KERNEL 1ULL

/* Number of settings that cgroups have: while it is 0, none is looked for. */
extern atomic_t cause_settings;

/**
 * struct cause_limit - a cgroup with a rate
 * @place: a number below CAUSE_PLACES, its own as long as it has a rate
 * @cgroup: inode number of its directory: differs if the place now belongs to another cgroup
 * @rate: CAUSE_RATE_MIN to CAUSE_RATE_MAX
 */
struct cause_limit {
	unsigned int place;
	u64 cgroup;
	u64 rate;
};

u64 cause_of_css(struct cgroup_subsys_state *css);
u64 cause_of_cgroup(void);
u64 cause_of_current(struct cgroup_subsys_state **css);
bool cause_next_limit(struct cgroup_subsys_state **css, struct cause_limit *limit);
bool cause_has_limit(unsigned int place, u64 cgroup);
u64 cause_limited(struct cgroup_subsys_state **css, bool *delegated);
unsigned int cause_longest_deadline(struct cgroup_subsys_state *css, enum cause_deadline what,
				    unsigned int otherwise);

/*
 * A process with a reused number is another cause: its start time differs.  The leader stays as
 * long as one of its threads is alive.
 */
static inline u64 cause_of_thread_group(void)
{
	u64 start = current->group_leader->start_boottime;

	return (start + ((u64)current->tgid << 40)) & ~CAUSE_CGROUP;
}

/* The current task's, in process context. */
static __always_inline u64 cause_of_task(void)
{
	if (unlikely(atomic_read(&cause_settings)))
		return cause_of_cgroup();
	return cause_of_thread_group();
}

static inline unsigned int cause_weight(u64 name)
{
	return name & CAUSE_CGROUP ? name & (BIT(CAUSE_WEIGHT_BITS) - 1) : CAUSE_WEIGHT;
}

/* The inode number of a cgroup's directory; the name must be a cgroup's. */
static inline u64 cause_cgroup_id(u64 name)
{
	return (name & ~CAUSE_CGROUP) >> CAUSE_WEIGHT_BITS;
}

#endif

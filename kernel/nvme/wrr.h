/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weighted round robin for the NVMe PCI driver: what it adds to the driver's structures.
 *
 * Each of the driver's I/O queues has four submission queues, one for each of NVMe's priorities
 * (NVMe Base 2.1, 3.4.4): the queue's own one, which is medium, and three siblings without a
 * completion queue of their own. Tags, completions and interrupts remain the queue's. A request
 * goes to the submission queue of its I/O priority.
 */
#ifndef SLUICE_NVME_WRR_H
#define SLUICE_NVME_WRR_H

#include <linux/ctype.h>
#include <linux/ioprio.h>
#include <linux/nvme.h>
#include <linux/timer.h>
#include <linux/types.h>

/* As NVMe's QPRIO. */
enum wrr_level { WRR_URGENT, WRR_HIGH, WRR_MEDIUM, WRR_LOW, WRR_LEVELS };

/* The queue's own one. */
#define WRR_OWN WRR_MEDIUM
#define WRR_SIBLINGS (WRR_LEVELS - 1)

/* Real-time, best-effort 0 to 7, idle. */
#define WRR_CLASSES 10
#define WRR_BE_FIRST 1
#define WRR_IDLE (WRR_CLASSES - 1)

/* High, medium and low have one. */
#define WRR_WEIGHTS 3
#define WRR_WEIGHT_MAX 256
/* The power of two that says "no limit". */
#define WRR_BURST_MAX 7

/* CAP.AMS: bit 17 says that weighted round robin is there. */
#define WRR_CAP_BIT 17

/* Interval at which the urgent share is looked at, */
#define WRR_TICK_MS 10
/* if at least so many commands have completed, */
#define WRR_WINDOW 32L
/* and bound of the count of commands by which others were given too little, or too much. */
#define WRR_MEMORY 4096
#define WRR_CREDIT 256
#define WRR_CAP_DEFAULT 10
#define WRR_CAP_MAX 25

/**
 * struct wrr_queue - what is added to a submission queue
 * @created: the siblings that exist on the controller, as bits by level; in the driver's own queue
 * @cqid: the completion queue that it uses
 * @level: its priority
 * @sent: commands put into it, of other classes and of urgent ones; under its sq_lock
 * @done: commands completed by any of the four, likewise; in the driver's own queue, written by
 *	the context that reaps its completions
 */
struct wrr_queue {
	unsigned long created;
	u16 cqid;
	u8 level;
	unsigned long sent[2];
	unsigned long done[2];
};

/**
 * struct wrr - what is added to a controller
 * @on: it has the mechanism, and queues for it; changes with the queues
 * @state: that state, for sysfs
 * @queues: I/O queues that the controller was asked for; siblings have higher numbers
 * @stock: I/O queues that the stock driver would have got
 * @level: of each I/O priority class and level; read and written without a lock
 * @weight: of high, medium and low; under @lock
 * @burst: power of two; under @lock
 * @lock: held while weights are changed and sent to the controller
 * @sibling: WRR_SIBLINGS for each place of the driver's queues
 * @cap: other classes are helped up to this share of completions, per cent; 0: never
 * @demoted: urgent requests go to the high queue for now
 * @tick: looks at the shares as long as there are urgent requests; the fields below are the timer's
 * @looking: the last look has armed the timer again
 * @seen: completions as of the last look
 * @window: completions until the next look that decides
 * @debt: commands that others have got too few, in hundredths
 */
struct wrr {
	bool on;
	const char *state;
	unsigned int queues;
	unsigned int stock;
	u8 level[WRR_CLASSES];
	unsigned int weight[WRR_WEIGHTS];
	unsigned int burst;
	struct mutex lock; /* weights, and telling them */
	struct nvme_queue *sibling;
	unsigned int cap;
	bool demoted;
	struct timer_list tick;
	bool looking;
	unsigned long seen[2];
	long window;
	long debt;
};

/* The place of an I/O priority in the table; class NONE has that of a process's default. */
static inline unsigned int wrr_class(unsigned short ioprio)
{
	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT:
		return 0;
	case IOPRIO_CLASS_BE:
		return WRR_BE_FIRST + (ioprio & 7);
	case IOPRIO_CLASS_IDLE:
		return WRR_IDLE;
	default:
		return WRR_BE_FIRST + IOPRIO_BE_NORM;
	}
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* High-resolution timers and work queues, alike on all kernels. */
#ifndef SLUICE_TIMER_H
#define SLUICE_TIMER_H

#include <linux/hrtimer.h>
#include <linux/workqueue.h>

#include "features.h"

/* The unbound queue's name since 6.17; 7.x warns of the old one. */
#ifndef SLUICE_HAS_DFL_WQ
#define system_dfl_wq system_unbound_wq
#endif

/**
 * sluice_hrtimer_setup() - prepare a timer before its first use
 * @timer: the timer
 * @fn: what it calls, in hard interrupt context unless @mode says soft; on PREEMPT_RT in soft
 *	unless @mode says hard
 * @clock: clock id, such as CLOCK_MONOTONIC
 * @mode: as hrtimer_start() will get it
 *
 * hrtimer_setup() came with 6.13 (908a1d775422), hrtimer_init() went with 6.16.
 */
static inline void sluice_hrtimer_setup(struct hrtimer *timer,
					enum hrtimer_restart (*fn)(struct hrtimer *),
					clockid_t clock, enum hrtimer_mode mode)
{
#ifdef SLUICE_HAS_HRTIMER_SETUP
	hrtimer_setup(timer, fn, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = fn;
#endif
}

#endif

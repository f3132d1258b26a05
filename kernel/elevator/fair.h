/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fairness between those that want a device's scheduler tags, in each hardware queue.
 *
 * Who is charged for a request is an account, one for each cause: the nearest cgroup
 * with a weight of its own (io.sluice.weight), else the thread group.  As long as
 * one account alone has requests, it may have all tags.  While others have some or
 * wait, each has at most its part of them, by weight, and who wants more waits for
 * one of its own to end: at most, but for the few tasks that were let in at the same
 * time and haven't their tags yet.  Tags that came free go to the account that has the
 * fewest for its weight.  Where three of four are free, or where the others want few and a
 * write waits for nobody, more than the part does no harm, and nobody is held.
 *
 * So the many that wait, wait before the tags and by account, and not in the one
 * line that the block layer keeps, in which a thousand requests of one application
 * are before the first of another.
 *
 * What the caller must do: fair_see() from bio_merge, fair_limit() from limit_depth,
 * fair_charge() from prepare_request, fair_discharge() from finish_request.  Only
 * fair_limit() may sleep.  None needs or takes a lock of the caller's.
 *
 * Source: the CPQ paper, section 7, with sound limits: docs/cpq.md.
 */
#ifndef SLUICE_FAIR_H
#define SLUICE_FAIR_H

#include "../compat/elevator.h"

struct fair;
struct fair_account;

struct fair *fair_create(struct request_queue *q, const unsigned int *ratio);
void fair_destroy(struct fair *fair);

void fair_see(struct fair *fair, struct bio *bio);
unsigned long fair_limit(struct fair *fair, blk_opf_t opf, struct blk_mq_alloc_data *data);
void fair_depth_changed(struct fair *fair);
struct fair_account *fair_charge(struct fair *fair, const struct request *rq);
void fair_discharge(struct fair *fair, const struct request *rq, struct fair_account *account);
int fair_show(struct fair *fair, struct seq_file *m);

#endif

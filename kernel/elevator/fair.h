/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fair sharing of a device's scheduler tags, in each hardware queue.
 *
 * A request is charged to an account, one for each cause: the nearest cgroup with a weight of its
 * own (io.sluice.weight), else the thread group.  While one account alone has requests, it may
 * have all tags.  While others have some or wait, each has at most its share of them, by weight.
 * It must then wait for one of its own requests to end before it gets another.  Only the few tasks
 * that were let in at the same time, and don't have their tags yet, may exceed that.  A free tag
 * goes to the account that has the fewest for its weight.  The limit does not apply while three
 * quarters of the tags are free.  Nor does it apply to an asynchronous write while the other
 * accounts need few tags.
 *
 * So tasks wait before the tags and by account, and not in the one line of the block layer.  There
 * a thousand requests of one application may be before the first of another.
 *
 * The caller must call fair_see() from bio_merge, fair_limit() from limit_depth, fair_charge()
 * from prepare_request and fair_discharge() from finish_request.  Only fair_limit() may sleep.
 * None needs or takes a lock of the caller's.
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

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Deadlines of open files; a part of module sluice-cause.
 */
#ifndef SLUICE_CAUSE_FILE_H
#define SLUICE_CAUSE_FILE_H

#include "cause.h"

/**
 * struct cause_file_listener - is told whether files of a disk have deadlines of their reads
 * @q: the disk's queue
 * @changed: @reads becomes 0, or no longer is; in process context, must not wait for the queue
 * @reads: number of files with such a deadline; for @changed
 * @node: cause-file.c's
 */
struct cause_file_listener {
	struct request_queue *q;
	void (*changed)(struct cause_file_listener *listener);
	unsigned int reads;
	struct list_head node;
};

unsigned int cause_file_deadline(const struct file *file, enum cause_deadline what,
				 unsigned int otherwise);
void cause_file_listen(struct cause_file_listener *listener);
void cause_file_hear_no_more(struct cause_file_listener *listener);
int cause_file_init(void);
void cause_file_exit(void);

#endif

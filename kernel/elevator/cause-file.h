/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Deadlines of open files; a part of module sluice-cause.
 */
#ifndef SLUICE_CAUSE_FILE_H
#define SLUICE_CAUSE_FILE_H

#include "cause.h"

struct notifier_block;

unsigned int cause_file_deadline(const struct file *file, enum cause_deadline what,
				 unsigned int otherwise);
bool cause_files_have_reads(void);
void cause_file_listen(struct notifier_block *listener);
void cause_file_hear_no_more(struct notifier_block *listener);
int cause_file_init(void);
void cause_file_exit(void);

#endif

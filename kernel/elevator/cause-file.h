/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Deadlines of open files; a part of module sluice-cause.
 */
#ifndef SLUICE_CAUSE_FILE_H
#define SLUICE_CAUSE_FILE_H

#include "cause.h"

unsigned int cause_file_deadline(const struct file *file, unsigned int otherwise);
int cause_file_init(void);
void cause_file_exit(void);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* The names of the tables' keys. */
#ifndef LABEL_H
#define LABEL_H

#include <limits.h>
#include "tables.h"

/* The key of a row in words. */
struct label {
	char disk[DISK_NAME];
	char who[PATH_MAX];
	const char *scheduler;
	const char *class;
	const char *op;
	unsigned int level;
};

struct file_label {
	char disk[DISK_NAME];
	const char *fs;
	const char *op;
	const char *layer;
};

struct pair_label {
	char disk[DISK_NAME];
	const char *scheduler;
	const char *issued_class;
	const char *issued_op;
	const char *waiting_class;
	const char *waiting_op;
};

struct label label_of(const struct iolat_row *key);

/* The key of the n-th histogram of `files` in words; false if the histogram is empty. */
bool label_file(int n, struct file_label *label);

struct pair_label label_pair(const struct iolat_pair *key);

/*
 * The next kind of inversion, from the n-th on, that grew in this round, also in words; NULL if
 * there is none. Moves n past it.
 */
const struct pair *next_pair(unsigned int *n, struct pair_label *label);

#endif

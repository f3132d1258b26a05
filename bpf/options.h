/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The command line's options, their words, and the exit of iolat when it cannot do what is asked.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include "iolat.h"

enum format { TEXT, JSON, CSV, OPENMETRICS };

struct options {
	enum format format;
	bool histograms, order, files, all;
	unsigned int by, dev, pid, tid, op, class;
	unsigned long long cgroup;
	double interval, alarm;
	long rounds;
	struct sockaddr_in listen;
};

struct name {
	unsigned int number;
	const char *name;
};

extern struct options options;
extern const struct name operations[], classes[], groupings[];

void parse(int argc, char **argv);

/* The name of a number; "other" if it has none. */
const char *name_of(const struct name *names, unsigned int number);

/* Say in a sentence what is wrong and what to type next. */
__attribute__((noreturn, format(printf, 2, 3))) void die(int status, const char *format, ...);

void *allocate(size_t size);

#endif

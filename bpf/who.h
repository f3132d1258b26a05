/* SPDX-License-Identifier: GPL-2.0-only */
/* Cgroups, processes and threads: what --by tells apart, by the kernel's numbers. */
#ifndef WHO_H
#define WHO_H

#include <stdbool.h>
#include <stddef.h>

/* The name in UTF-8 that every format can take; it is different for each number. */
void who_name(char *name, size_t size, unsigned long long who);

bool who_has_ended(unsigned long long who);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* The kinds of calls by name, for tracepoints; tools that read a trace know no enum. */
#ifndef SPLIT_KINDS_TRACE_H
#define SPLIT_KINDS_TRACE_H

#include "split.h"

#define SPLIT_KIND_NAMES                                                              \
	{ 0, "write" }, { 1, "fsync" }, { 2, "sync" }, { 3, "creat" },                \
	{ 4, "mkdir" }, { 5, "unlink" }, { 6, "rename" }, { 7, "truncate" },          \
	{ 8, "change" }, { 9, "store" }, { 10, "read" }
static_assert(SPLIT_READ == 10 && SPLIT_KINDS == 11);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* What the unit tests are made of: checks, numbers by lot, and a run of all tests. */
#ifndef UNITS_CHECK_H
#define UNITS_CHECK_H

#include <stdio.h>
#include <string.h>

#include "user.h"

static const char *test_name;
static int failures;

#define CHECK(condition, ...)                                                                 \
	do {                                                                                  \
		if (!(condition)) {                                                           \
			printf("%s:%d: %s: %s: ", __FILE__, __LINE__, test_name, #condition); \
			printf(__VA_ARGS__);                                                  \
			printf("\n");                                                         \
			failures++;                                                           \
		}                                                                             \
	} while (0)

/* A number below @below, the same ones in each run. */
static inline u64 draw(u64 below)
{
	static u64 state = 1;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 20) % below;
}

#define TEST(name) { #name, test_##name }

struct test {
	const char *name;
	void (*run)(void);
};

/*
 * Runs the tests whose names have @only in them, or all if it is NULL, says of each whether it
 * passed, and repeats those that failed.  Return: exit status.
 */
static inline int run_tests(const struct test *tests, unsigned int count, const char *only)
{
	const char *failed[count];
	unsigned int i, fails = 0;

	for (i = 0; i < count; i++) {
		int before = failures;

		if (only && !strstr(tests[i].name, only))
			continue;
		test_name = tests[i].name;
		tests[i].run();
		if (failures > before)
			failed[fails++] = test_name;
		printf("%s %s\n", failures > before ? "FAIL" : "ok  ", test_name);
	}
	for (i = 0; i < fails; i++)
		printf("failed: %s\n", failed[i]);
	return failures ? 1 : 0;
}

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* Cgroups, processes and threads: what --by tells apart, by the kernel's numbers. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "options.h"
#include "who.h"

#define CGROUPS "/sys/fs/cgroup"
/* The kernel's FILEID_KERNFS: a file handle that holds the file's number. */
#define KERNFS_HANDLE 0xfe

/* A cgroup's path below the root, "" if it is gone. Its file system finds it by its number. */
static void cgroup_path(char *path, size_t size, unsigned long long number)
{
	char bytes[sizeof(struct file_handle) + sizeof(number)]
		__attribute__((aligned(__alignof__(struct file_handle)))) = "",
							  link[64];
	struct file_handle *handle = (struct file_handle *)bytes;
	int root = open(CGROUPS, O_RDONLY | O_DIRECTORY | O_CLOEXEC), found;
	ssize_t length;

	handle->handle_bytes = sizeof(number);
	handle->handle_type = KERNFS_HANDLE;
	memcpy(handle->f_handle, &number, sizeof(number));
	found = open_by_handle_at(root, handle, O_PATH | O_CLOEXEC);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", found);
	length = readlink(link, path, size - 1);
	path[length > 0 ? length : 0] = '\0';
	close(found);
	close(root);
}

/* The length of the UTF-8 character at `text`; 0 if it is none, or controls a terminal. */
static int character(const unsigned char *text)
{
	static const unsigned int least[] = { 0, 0, 0xa0, 0x800, 0x10000 };
	int length = *text >= 0xf0 ? 4 : *text >= 0xe0 ? 3 : 2, n;
	unsigned int code = *text & (0xff >> (length + 1));

	if (*text < 0x80)
		return *text >= ' ' && *text < 0x7f;
	for (n = 1; n < length; n++) {
		if ((text[n] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[n] & 0x3f);
	}
	if (*text < 0xc0 || *text >= 0xf8 || code < least[length] || code > 0x10ffff)
		return 0;
	return code >= 0xd800 && code < 0xe000 ? 0 : length;
}

/*
 * Replace by underscores what has a meaning in one of the formats or is not UTF-8. True if there
 * was any.
 */
static bool make_plain(char *name)
{
	bool changed = false;
	int length;

	for (; *name; name += length ?: 1) {
		length = strchr("\"\\,", *name) ? 0 : character((unsigned char *)name);
		if (!length) {
			*name = '_';
			changed = true;
		}
	}
	return changed;
}

static void cgroup_name(char *name, size_t size, unsigned long long number)
{
	size_t length = strlen(CGROUPS);

	cgroup_path(name, size, number);
	if (strncmp(name, CGROUPS, length)) {
		snprintf(name, size, "cgroup-%llu", number);
		return;
	}
	memmove(name, name + length, strlen(name + length) + 1);
	if (!*name)
		strcpy(name, "/");
	if (make_plain(name))
		snprintf(name + strlen(name), size - strlen(name), "-%llu", number);
}

static void task_name(char *name, size_t size, unsigned long long number)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%llu/comm", number);
	file = fopen(path, "r");
	if (!file || !fgets(name, size, file))
		strcpy(name, "?");
	if (file)
		fclose(file);
	name[strcspn(name, "\n")] = '\0';
	make_plain(name);
	snprintf(name + strlen(name), size - strlen(name), "-%llu", number);
}

void who_name(char *name, size_t size, unsigned long long who)
{
	if (options.by == BY_NONE)
		*name = '\0';
	else if (who == WHO_OTHERS)
		snprintf(name, size, "others");
	else if (options.by == BY_CGROUP)
		cgroup_name(name, size, who);
	else
		task_name(name, size, who);
}

/* The idle task never ends. */
bool who_has_ended(unsigned long long who)
{
	char path[PATH_MAX];

	if (!who || who == WHO_OTHERS)
		return false;
	if (options.by == BY_CGROUP) {
		cgroup_path(path, sizeof(path), who);
		return !*path && !access(CGROUPS "/cgroup.procs", F_OK);
	}
	snprintf(path, sizeof(path), "/proc/%llu", who);
	return access(path, F_OK) && !access("/proc/self", F_OK);
}

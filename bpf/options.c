// SPDX-License-Identifier: GPL-2.0-only
/* The command line's options, and the exit of iolat when it cannot do what is asked. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "options.h"

struct options options = { .histograms = true, .dev = ANY, .op = ANY, .class = ANY };

const struct name operations[] = {
	{ IO_READ, "read" },	 { IO_WRITE, "write" },
	{ IO_FLUSH, "flush" },	 { IO_DISCARD, "discard" },
	{ IO_ZEROES, "zeroes" }, { IO_SECURE_ERASE, "secure-erase" },
	{ IO_OTHER, "other" },	 { 0, NULL },
};
const struct name classes[] = {
	{ 0, "none" }, { 1, "rt" }, { 2, "be" }, { 3, "idle" }, { 0, NULL }
};
const struct name groupings[] = {
	{ BY_CGROUP, "cgroup" },
	{ BY_PROCESS, "process" },
	{ BY_THREAD, "thread" },
	{ 0, NULL },
};

void die(int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("iolat: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(status);
}

void *allocate(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		die(1, "out of memory; next: free -h");
	return memory;
}

const char *name_of(const struct name *names, unsigned int number)
{
	for (; names->name; names++)
		if (names->number == number)
			return names->name;
	return "other";
}

static unsigned int number_of(const struct name *names, const char *what, const char *name)
{
	for (; names->name; names++)
		if (!strcmp(names->name, name))
			return names->number;
	die(2, "no %s is called '%s'; next: iolat --help", what, name);
}

static double positive(const char *text, const char *what)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0) || value > INT_MAX)
		die(2, "%s must be a number above 0, not '%s'; next: iolat --help", what, text);
	return value;
}

static unsigned int whole(const char *text, const char *what)
{
	double value = positive(text, what);

	if (value != floor(value))
		die(2, "%s must be a whole number, not '%s'; next: iolat --help", what, text);
	return value;
}

/* The kernel's own number of a disk, as in its tracepoints. */
static unsigned int disk(const char *name)
{
	char path[PATH_MAX];
	struct stat info;

	snprintf(path, sizeof(path), "%s%s", strchr(name, '/') ? "" : "/dev/", name);
	if (stat(path, &info) || !S_ISBLK(info.st_mode))
		die(2, "%s is not a block device; next: lsblk", path);
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", major(info.st_rdev),
		 minor(info.st_rdev));
	if (!access(path, F_OK))
		die(2, "%s is a partition, schedulers belong to whole disks; next: lsblk", name);
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/mq", major(info.st_rdev),
		 minor(info.st_rdev));
	if (access(path, F_OK))
		die(2, "%s has no requests of its own, watch the disk below it; next: lsblk -s",
		    name);
	return major(info.st_rdev) << 20 | minor(info.st_rdev);
}

/* Whether a cgroup has a file; if so, the first line of it. */
static bool cgroup_says(const char *path, const char *name, char *line, size_t size)
{
	char file[PATH_MAX];
	FILE *handle;

	snprintf(file, sizeof(file), "%s/%s", path, name);
	handle = fopen(file, "r");
	*line = '\0';
	if (handle && !fgets(line, size, handle))
		*line = '\0';
	if (handle)
		fclose(handle);
	return handle;
}

/*
 * A cgroup's number is that of its folder. A bio belongs to the nearest cgroup with an io
 * controller. So a cgroup without one never has I/O of its own, nor has one whose processes are
 * all in cgroups below it that have one.
 */
static unsigned long long cgroup(const char *path)
{
	char line[256], *word;
	struct stat info;

	if (stat(path, &info) || !cgroup_says(path, "cgroup.procs", line, sizeof(line)))
		die(2, "%s is not a cgroup (of version 2); next: ls -d /sys/fs/cgroup/*/", path);
	if (!cgroup_says(path, "io.stat", line, sizeof(line)))
		die(2,
		    "%s has no io controller, its I/O is counted for the cgroup above; next: "
		    "echo +io >%s/../cgroup.subtree_control",
		    path, path);
	cgroup_says(path, "cgroup.procs", line, sizeof(line));
	if (*line)
		return info.st_ino;
	cgroup_says(path, "cgroup.subtree_control", line, sizeof(line));
	for (word = strtok(line, " \n"); word; word = strtok(NULL, " \n"))
		if (!strcmp(word, "io"))
			die(2,
			    "%s has no process of its own, its I/O is that of the cgroups below "
			    "it; next: iolat --by cgroup",
			    path);
	return info.st_ino;
}

static struct sockaddr_in address(const char *text)
{
	struct sockaddr_in found = { .sin_family = AF_INET };
	const char *colon = strrchr(text, ':');
	char host[INET_ADDRSTRLEN] = "";
	unsigned int port;

	if (!colon || colon - text >= (long)sizeof(host))
		die(2,
		    "--listen takes ADDRESS:PORT, not '%s'; next: iolat --listen 127.0.0.1:19435",
		    text);
	memcpy(host, text, colon - text);
	port = whole(colon + 1, "the port");
	if (port > 65535 || inet_pton(AF_INET, host, &found.sin_addr) != 1)
		die(2,
		    "--listen takes ADDRESS:PORT, not '%s'; next: iolat --listen 127.0.0.1:19435",
		    text);
	found.sin_port = htons(port);
	return found;
}

static void usage(void)
{
	fputs("usage: iolat [OPTION]... [INTERVAL [COUNT]]\n"
	      "Where block I/O spends its time, by priority, operation, disk and scheduler.\n"
	      "Until Ctrl-C, or every INTERVAL seconds, COUNT times.\n\n"
	      "  -d, --device DISK     only this disk\n"
	      "  -p, --pid PID         only what this process queues\n"
	      "  -t, --tid TID         only what this thread queues\n"
	      "  -g, --cgroup FOLDER   only I/O of this cgroup\n"
	      "      --op OP           only read, write, flush, discard, zeroes, secure-erase\n"
	      "                        or other: operations on zones\n"
	      "      --class CLASS     only none, rt, be or idle\n"
	      "  -b, --by WHAT         a row for each cgroup, process or thread\n"
	      "  -o, --order           which I/Os overtake which: inversions, bypasses, the oldest "
	      "waiting\n"
	      "  -a, --alarm SECONDS   say so when an I/O has waited longer (with --order)\n"
	      "  -f, --files           file systems and system calls too (ext4, xfs, btrfs)\n"
	      "      --all             follow every I/O, however many there are\n"
	      "  -n, --no-histograms   only the columns\n"
	      "      --json            one line of JSON a round\n"
	      "      --csv             one line a stage\n"
	      "      --openmetrics     for a node-exporter textfile collector\n"
	      "      --listen ADDR:PORT  the same over HTTP, at /metrics\n"
	      "  -h, --help            this\n\n"
	      "examples:\n"
	      "  iolat                      all disks, until Ctrl-C\n"
	      "  iolat -d sda 1 10          one disk, every second, ten times\n"
	      "  iolat -o -b cgroup 10 1    which cgroup holds which up, for ten seconds\n"
	      "  iolat --json 10 1 | jq .   for a program\n\n"
	      "exit status: 0, 1 the kernel refuses, 2 usage, 3 an alarm went off\n",
	      stdout);
}

enum { OPT_JSON = 256, OPT_CSV, OPT_OPENMETRICS, OPT_LISTEN, OPT_ALL, OPT_OP, OPT_CLASS };

static const struct option long_options[] = {
	{ "device", required_argument, NULL, 'd' },
	{ "pid", required_argument, NULL, 'p' },
	{ "tid", required_argument, NULL, 't' },
	{ "cgroup", required_argument, NULL, 'g' },
	{ "op", required_argument, NULL, OPT_OP },
	{ "class", required_argument, NULL, OPT_CLASS },
	{ "by", required_argument, NULL, 'b' },
	{ "order", no_argument, NULL, 'o' },
	{ "alarm", required_argument, NULL, 'a' },
	{ "files", no_argument, NULL, 'f' },
	{ "all", no_argument, NULL, OPT_ALL },
	{ "no-histograms", no_argument, NULL, 'n' },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "csv", no_argument, NULL, OPT_CSV },
	{ "openmetrics", no_argument, NULL, OPT_OPENMETRICS },
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static void set_option(int letter, const char *name)
{
	switch (letter) {
	case 'd':
		options.dev = disk(optarg);
		break;
	case 'p':
		options.pid = whole(optarg, "--pid");
		break;
	case 't':
		options.tid = whole(optarg, "--tid");
		break;
	case 'g':
		options.cgroup = cgroup(optarg);
		break;
	case 'b':
		options.by = number_of(groupings, "grouping", optarg);
		break;
	case 'a':
		options.alarm = positive(optarg, "--alarm");
		options.order = true;
		break;
	case 'o':
		options.order = true;
		break;
	case 'f':
		options.files = true;
		break;
	case 'n':
		options.histograms = false;
		break;
	case OPT_OP:
		options.op = number_of(operations, "operation", optarg);
		break;
	case OPT_CLASS:
		options.class = number_of(classes, "class", optarg);
		break;
	case OPT_ALL:
		options.all = true;
		break;
	case OPT_LISTEN:
		options.listen = address(optarg);
		break;
	case OPT_JSON:
	case OPT_CSV:
	case OPT_OPENMETRICS:
		options.format = letter - OPT_JSON + JSON;
		break;
	case 'h':
		usage();
		exit(0);
	case ':':
		die(2, "%s lacks its value; next: iolat --help", name);
	default:
		die(2, "there is no option %s; next: iolat --help", name);
	}
}

void parse(int argc, char **argv)
{
	int letter;

	while ((letter = getopt_long(argc, argv, ":d:p:t:g:b:a:ofnh", long_options, NULL)) != -1)
		set_option(letter, argv[optind - 1]);
	if (argc - optind > 2)
		die(2, "too many arguments: '%s'; next: iolat --help", argv[optind + 2]);
	if (optind < argc)
		options.interval = positive(argv[optind], "INTERVAL");
	if (optind + 1 < argc)
		options.rounds = whole(argv[optind + 1], "COUNT");
	if (options.listen.sin_port && options.format != TEXT && options.format != OPENMETRICS)
		die(2, "--listen answers in OpenMetrics only; next: iolat --help");
	if (options.listen.sin_port)
		options.format = OPENMETRICS;
	if (options.listen.sin_port && options.interval)
		die(2, "--listen answers when it is asked: leave INTERVAL out; next: iolat --help");
}

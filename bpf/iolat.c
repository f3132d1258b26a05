// SPDX-License-Identifier: GPL-2.0-only
/*
 * iolat: where block I/O spends its time, by priority, operation, disk and scheduler.
 *
 * Loads the kernel half, reads its tables at the end or every interval, and prints what was added since. The tables
 * are never reset, since that would lose events; their 32-bit slots are read once a minute at least, and added up here.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include "iolat.h"
#include "iolat.skel.h"

#define SCHEMA 1
#define BAR "****************************************"
#define NSEC 1000000000ULL
/* I/Os a second and CPU that are all followed; of more, as many at random. */
#define PACE 3000
/* Seconds between readings at most: a slot holds 2^32 I/Os. */
#define READING 60
/* What the histograms may take in all, as far as MIN_ROWS rows allow. */
#define MEMORY (32UL << 20)
#define MIN_ROWS 64
#define MAX_PAIRS 1024
/* Buckets of a histogram in OpenMetrics: powers of two from 2^10 ns (1 us) to 2^34 ns (17 s). */
#define FIRST_BUCKET 10
#define FILE_ROWS (FILE_SYSTEMS * FILE_OPS * LAYERS)

enum format { TEXT, JSON, CSV, OPENMETRICS };

static struct {
	enum format format;
	bool histograms, order, files, all;
	unsigned int by, dev, pid, tgid, op, class;
	unsigned long long cgroup;
	double interval, alarm;
	long rounds;
	struct sockaddr_in listen;
} options = { .histograms = true, .dev = ANY, .op = ANY, .class = ANY };

/* A histogram's counts since it was last printed; `last` is what the kernel's slots were when they were read. */
struct total {
	unsigned long long count, sum, max, ever;
	unsigned long long slots[SLOTS];
	struct histogram last;
};

struct row {
	struct iolat_row key;
	unsigned long long ios, bytes, bios, requeues, bypasses, bypassed_max;
	struct iolat_cell last;
	struct total stages[STAGES];
};

struct pair {
	struct iolat_pair key;
	struct iolat_inversion now;
	unsigned long long before;
};

static struct iolat_bpf *bpf;
static struct row *rows[ROWS];
static struct total *files[FILE_ROWS];
static struct pair pairs[MAX_PAIRS];
static unsigned int pair_count, changes_shown;
/* The longest that an I/O of a class was seen waiting since the last print, in ns, and whether an alarm is on. */
static unsigned long long waited[DISKS][RANKS];
static bool starving[DISKS][RANKS], starved;
static unsigned long long started, printed;

struct name {
	unsigned int number;
	const char *name;
};

static const char *const stage_names[STAGES] = { "q2g", "g2i", "i2d", "q2d", "d2c", "q2c" };
static const char *const counter_names[COUNTERS] = { "followed",   "finished",	"merged",
						     "failed",	   "lost_ios",	"lost_rows",
						     "lost_order", "lost_files" };
static const char *const rank_names[RANKS] = { "rt", "be", "idle" };
static const char *const file_ops[FILE_OPS] = { "read", "write", "fsync" };
static const char *const layers[LAYERS] = { "file-system", "system-call" };
static const struct name operations[] = {
	{ IO_READ, "read" },
	{ IO_WRITE, "write" },
	{ IO_FLUSH, "flush" },
	{ IO_DISCARD, "discard" },
	{ IO_ZEROES, "zeroes" },
	{ IO_SECURE_ERASE, "secure-erase" },
	{ 0, NULL },
};
static const struct name classes[] = {
	{ 0, "none" }, { 1, "rt" }, { 2, "be" }, { 3, "idle" }, { 0, NULL }
};
static const struct name groupings[] = {
	{ BY_CGROUP, "cgroup" },
	{ BY_PROCESS, "process" },
	{ BY_THREAD, "thread" },
	{ 0, NULL },
};
static const struct {
	const char *name;
	double share;
} quantiles[] = { { "p50", 0.5 }, { "p95", 0.95 }, { "p99", 0.99 }, { "p99.9", 0.999 } };
#define QUANTILES (sizeof(quantiles) / sizeof(*quantiles))

/* Say in a sentence what is wrong and what to type next. */
__attribute__((noreturn, format(printf, 2, 3))) static void die(int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("iolat: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(status);
}

static void *allocate(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		die(1, "out of memory; try: free -h");
	return memory;
}

static unsigned long long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * NSEC + time.tv_nsec;
}

static const char *name_of(const struct name *names, unsigned int number)
{
	for (; names->name; names++)
		if (names->number == number)
			return names->name;
	return "other";
}

/* ---- what was asked for ---- */

static unsigned int number_of(const struct name *names, const char *what, const char *name)
{
	for (; names->name; names++)
		if (!strcmp(names->name, name))
			return names->number;
	die(2, "no %s is called '%s'; try: iolat --help", what, name);
}

static double positive(const char *text, const char *what)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0) || value > INT_MAX)
		die(2, "%s must be a number above 0, not '%s'; try: iolat --help", what, text);
	return value;
}

static unsigned int whole(const char *text, const char *what)
{
	double value = positive(text, what);

	if (value != floor(value))
		die(2, "%s must be a whole number, not '%s'; try: iolat --help", what, text);
	return value;
}

/* The kernel's own number of a disk, as in its tracepoints. */
static unsigned int disk(const char *name)
{
	char path[PATH_MAX];
	struct stat info;

	snprintf(path, sizeof(path), "%s%s", strchr(name, '/') ? "" : "/dev/", name);
	if (stat(path, &info) || !S_ISBLK(info.st_mode))
		die(2, "%s is no block device; try: lsblk", path);
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", major(info.st_rdev),
		 minor(info.st_rdev));
	if (!access(path, F_OK))
		die(2, "%s is a partition, schedulers belong to whole disks; try: lsblk", name);
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/mq", major(info.st_rdev),
		 minor(info.st_rdev));
	if (access(path, F_OK))
		die(2, "%s has no requests of its own, watch the disk below it; try: lsblk -s",
		    name);
	return major(info.st_rdev) << 20 | minor(info.st_rdev);
}

/* A cgroup's number is that of its folder. */
static unsigned long long cgroup(const char *path)
{
	char file[PATH_MAX];
	struct stat info;

	snprintf(file, sizeof(file), "%s/cgroup.procs", path);
	if (stat(path, &info) || access(file, F_OK))
		die(2, "%s is no cgroup (of version 2); try: ls -d /sys/fs/cgroup/*/", path);
	return info.st_ino;
}

static struct sockaddr_in address(const char *text)
{
	struct sockaddr_in found = { .sin_family = AF_INET };
	const char *colon = strrchr(text, ':');
	char host[INET_ADDRSTRLEN] = "";
	unsigned int port;

	if (!colon || colon - text >= (long)sizeof(host))
		die(2, "--listen takes ADDRESS:PORT, not '%s'; try: iolat --listen 127.0.0.1:9435",
		    text);
	memcpy(host, text, colon - text);
	port = whole(colon + 1, "the port");
	if (port > 65535 || inet_pton(AF_INET, host, &found.sin_addr) != 1)
		die(2, "--listen takes ADDRESS:PORT, not '%s'; try: iolat --listen 127.0.0.1:9435",
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
	      "  -p, --pid PID         only what this thread queues\n"
	      "  -t, --tgid PID        only what this process queues\n"
	      "  -g, --cgroup FOLDER   only I/O of this cgroup\n"
	      "      --op OP           only read, write, flush, discard, zeroes or secure-erase\n"
	      "      --class CLASS     only none, rt, be or idle\n"
	      "  -b, --by WHAT         a row for each cgroup, process or thread\n"
	      "  -o, --order           who overtakes whom: inversions, bypasses, the oldest "
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
	      "  iolat -o -b cgroup 10 1    who holds whom up, for ten seconds\n"
	      "  iolat --json 10 1 | jq .   for a program\n\n"
	      "exit status: 0, 1 the kernel refuses, 2 usage, 3 an alarm went off\n",
	      stdout);
}

enum { OPT_JSON = 256, OPT_CSV, OPT_OPENMETRICS, OPT_LISTEN, OPT_ALL, OPT_OP, OPT_CLASS };

static const struct option long_options[] = {
	{ "device", required_argument, NULL, 'd' },
	{ "pid", required_argument, NULL, 'p' },
	{ "tgid", required_argument, NULL, 't' },
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
		options.tgid = whole(optarg, "--tgid");
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
		die(2, "%s lacks its value; try: iolat --help", name);
	default:
		die(2, "there is no option %s; try: iolat --help", name);
	}
}

static void parse(int argc, char **argv)
{
	int letter;

	while ((letter = getopt_long(argc, argv, ":d:p:t:g:b:a:ofnh", long_options, NULL)) != -1)
		set_option(letter, argv[optind - 1]);
	if (argc - optind > 2)
		die(2, "too many arguments: '%s'; try: iolat --help", argv[optind + 2]);
	if (optind < argc)
		options.interval = positive(argv[optind], "INTERVAL");
	if (optind + 1 < argc)
		options.rounds = whole(argv[optind + 1], "COUNT");
	if (options.listen.sin_port && options.format != TEXT && options.format != OPENMETRICS)
		die(2, "--listen answers in OpenMetrics only; try: iolat --help");
	if (options.listen.sin_port)
		options.format = OPENMETRICS;
	if (options.listen.sin_port && options.interval)
		die(2, "--listen answers when it is asked: leave INTERVAL out; try: iolat --help");
}

/* ---- loading ---- */

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	return getenv("IOLAT_DEBUG") ? vfprintf(stderr, format, args) : 0;
}

/* The kernel won't have the program: find out why, as far as can be. */
__attribute__((noreturn)) static void refused(int error)
{
	char text[128] = "";
	FILE *lockdown = fopen("/sys/kernel/security/lockdown", "r");

	if (lockdown && fgets(text, sizeof(text), lockdown) && strstr(text, "[confidentiality]"))
		die(1, "this kernel is locked down and lets nobody look into it; try: "
		       "cat /sys/kernel/security/lockdown");
	if (error == -EPERM || error == -EACCES)
		die(1, "watching the kernel takes root; try: sudo iolat");
	if (error == -ENOMEM)
		die(1, "the kernel has no memory for the tables; try: free -h");
	die(1, "this kernel refuses the program: %s; try: IOLAT_DEBUG=1 iolat", strerror(-error));
}

static void check_kernel(void)
{
	unsigned int version, patch;
	struct utsname name;

	uname(&name);
	if (sscanf(name.release, "%u.%u", &version, &patch) == 2 && version * 1000 + patch < 5016)
		die(1, "Linux %s is too old, 5.16 or newer is needed; try: uname -r", name.release);
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		die(1, "this kernel does not describe its types, it takes one with "
		       "CONFIG_DEBUG_INFO_BTF; try: "
		       "grep BTF /boot/config-*");
}

/* The flag whose bit is an enumerator of the kernel; of that number if there is none of that name. */
static unsigned int flag(const struct btf *btf, const char *name, unsigned int bit)
{
	unsigned int id, n;

	for (id = 1; btf && id < btf__type_cnt(btf); id++) {
		const struct btf_type *type = btf__type_by_id(btf, id);

		for (n = 0; btf_is_enum(type) && n < btf_vlen(type); n++)
			if (!strcmp(btf__name_by_offset(btf, btf_enum(type)[n].name_off), name))
				bit = btf_enum(type)[n].val;
	}
	return 1U << bit;
}

static void find_flags(void)
{
	struct btf *btf = btf__load_vmlinux_btf();

	/* A macro before 6.11, always of this number. */
	bpf->rodata->flush_flag = flag(btf, "__RQF_FLUSH_SEQ", 4);
	bpf->rodata->queued_flag = flag(btf, "BIO_TRACE_COMPLETION", 7);
	btf__free(btf);
}

/* Whether the file system that a function belongs to is there: ext4 for ext4_sync_file. */
static bool has_fs_of(const char *function)
{
	FILE *list = fopen("/proc/filesystems", "r");
	size_t length = strcspn(function, "_");
	char line[64], name[64];
	bool there = false;

	while (list && !there && fgets(line, sizeof(line), list))
		there = sscanf(line, "%63s", name) == 1 && strlen(name) == length &&
			!strncmp(name, function, length);
	if (list)
		fclose(list);
	return there;
}

/* File systems whose module is not loaded have nothing to hook. */
static void choose_programs(void)
{
	struct bpf_program *program;
	int found = 0;

	bpf_program__set_autoload(bpf->progs.getrq, options.order);
	if (!options.files)
		return;
	bpf_program__set_autoload(bpf->progs.enter_call, true);
	bpf_program__set_autoload(bpf->progs.leave_call, true);
	bpf_object__for_each_program(program, bpf->obj)
	{
		const char *function = strchr(bpf_program__section_name(program), '/');
		enum bpf_attach_type type = bpf_program__expected_attach_type(program);

		if (type != BPF_TRACE_RAW_TP && has_fs_of(function + 1)) {
			bpf_program__set_autoload(program, true);
			found++;
		}
	}
	if (!found)
		die(1, "none of ext4, xfs and btrfs is loaded, --files has nothing to watch; try: "
		       "findmnt --real");
}

static unsigned int rows_for(unsigned int cpus)
{
	unsigned int count = ROWS;

	while (count > MIN_ROWS && count * cpus * STAGES * sizeof(struct histogram) > MEMORY)
		count /= 2;
	return count;
}

static void configure(void)
{
	unsigned int n, count = rows_for(libbpf_num_possible_cpus());

	bpf->rodata->only_dev = options.dev;
	bpf->rodata->only_pid = options.pid;
	bpf->rodata->only_tgid = options.tgid;
	bpf->rodata->only_cgroup = options.cgroup;
	bpf->rodata->only_op = options.op;
	bpf->rodata->only_class = options.class;
	bpf->rodata->by = options.by;
	bpf->rodata->order = options.order;
	bpf->rodata->row_count = count;
	find_flags();
	bpf->rodata->review_ns = options.all || options.order ? 0 : REVIEW * NSEC / PACE;
	bpf_map__set_max_entries(bpf->maps.cells, count);
	bpf_map__set_max_entries(bpf->maps.stages, count * STAGES);
	if (!options.files)
		bpf_map__set_max_entries(bpf->maps.files, 1);
	strcpy(bpf->bss->schedulers[0].name, "none");
	for (n = 0; n < LINES; n++)
		bpf->bss->lines[n].head = bpf->bss->lines[n].tail = 1;
}

static void load(void)
{
	int error;

	check_kernel();
	libbpf_set_print(quiet);
	bpf = iolat_bpf__open();
	if (!bpf)
		die(1, "out of memory; try: free -h");
	choose_programs();
	configure();
	error = iolat_bpf__load(bpf);
	if (!error)
		error = iolat_bpf__attach(bpf);
	if (error)
		refused(error);
}

/* ---- reading the kernel's tables ---- */

static unsigned long long slot_end(int slot)
{
	int shift = slot < 2 * SUB ? 0 : slot / SUB - 1;

	return (((unsigned long long)(slot - shift * SUB + 1) << shift) << UNIT_BITS) - 1;
}

/* The middle of a slot, at most half a slot's width from what was measured. */
static double slot_value(int slot)
{
	int shift = slot < 2 * SUB ? 0 : slot / SUB - 1;

	return slot_end(slot) - ((1ULL << shift << UNIT_BITS) - 1) / 2.0;
}

/*
 * Add what a histogram has gained since it was read before. Its maximum is that of the round if it has grown, else the
 * end of the highest slot that has.
 */
static void gain(struct total *total, const struct histogram *now)
{
	unsigned long long top = 0;
	int n;

	for (n = 0; n < SLOTS; n++) {
		unsigned int more = now->slots[n] - total->last.slots[n];

		total->slots[n] += more;
		total->count += more;
		top = more ? slot_end(n) : top;
	}
	total->sum += now->sum - total->last.sum;
	if (now->max > total->ever || top > now->max)
		top = now->max;
	total->ever = now->max;
	total->max = top > total->max ? top : total->max;
	total->last = *now;
}

static void add_histogram(struct histogram *sum, const struct histogram *part)
{
	int n;

	sum->sum += part->sum;
	sum->max = part->max > sum->max ? part->max : sum->max;
	for (n = 0; n < SLOTS; n++)
		sum->slots[n] += part->slots[n];
}

static void add_cell(struct iolat_cell *sum, const struct iolat_cell *part)
{
	sum->ios += part->ios;
	sum->bytes += part->bytes;
	sum->bios += part->bios;
	sum->requeues += part->requeues;
	sum->bypasses += part->bypasses;
	sum->bypassed_max = part->bypassed_max > sum->bypassed_max ? part->bypassed_max
								   : sum->bypassed_max;
}

static void gain_row(struct row *row, const struct iolat_cell *now)
{
	row->ios += now->ios - row->last.ios;
	row->bytes += now->bytes - row->last.bytes;
	row->bios += now->bios - row->last.bios;
	row->requeues += now->requeues - row->last.requeues;
	row->bypasses += now->bypasses - row->last.bypasses;
	if (now->bypassed_max > row->last.bypassed_max)
		row->bypassed_max = now->bypassed_max;
	row->last = *now;
}

/* Add the histogram at a place of a map, of all CPUs. */
static void read_histogram(const struct bpf_map *map, unsigned int place, struct histogram *sum,
			   int cpus)
{
	struct histogram *parts = allocate(cpus * sizeof(*parts));
	int cpu, error = bpf_map_lookup_elem(bpf_map__fd(map), &place, parts);

	for (cpu = 0; !error && cpu < cpus; cpu++)
		add_histogram(sum, &parts[cpu]);
	free(parts);
}

static void read_cell(unsigned int place, struct iolat_cell *sum, int cpus)
{
	struct iolat_cell *parts = allocate(cpus * sizeof(*parts));
	int cpu, error = bpf_map_lookup_elem(bpf_map__fd(bpf->maps.cells), &place, parts);

	for (cpu = 0; !error && cpu < cpus; cpu++)
		add_cell(sum, &parts[cpu]);
	free(parts);
}

/* The next row from `n` on with a key; two CPUs may have made the same one twice. */
static unsigned int next_of(const struct iolat_row *key, unsigned int n)
{
	while (n < bpf->rodata->row_count &&
	       memcmp((const void *)&bpf->bss->rows[n], key, sizeof(*key)))
		n++;
	return n;
}

static void read_row(unsigned int first, int cpus)
{
	const struct iolat_row key = bpf->bss->rows[first];
	struct histogram *stages = allocate(STAGES * sizeof(*stages));
	struct iolat_cell cell = { 0 };
	unsigned int n;
	int s;

	for (n = first; n < bpf->rodata->row_count; n = next_of(&key, n + 1)) {
		read_cell(n, &cell, cpus);
		for (s = 0; s < STAGES; s++)
			read_histogram(bpf->maps.stages, n * STAGES + s, &stages[s], cpus);
	}
	if (!rows[first])
		rows[first] = allocate(sizeof(*rows[first]));
	rows[first]->key = key;
	gain_row(rows[first], &cell);
	for (s = 0; s < STAGES; s++)
		gain(&rows[first]->stages[s], &stages[s]);
	free(stages);
}

static void read_files(int cpus)
{
	struct histogram sum;
	unsigned int n;

	for (n = 0; options.files && n < FILE_ROWS; n++) {
		if (!bpf->bss->file_systems[n / (FILE_OPS * LAYERS)].dev)
			continue;
		if (!files[n])
			files[n] = allocate(sizeof(*files[n]));
		memset(&sum, 0, sizeof(sum));
		read_histogram(bpf->maps.files, n, &sum, cpus);
		gain(files[n], &sum);
	}
}

static struct pair *pair_of(const struct iolat_pair *key)
{
	unsigned int n;

	for (n = 0; n < pair_count; n++)
		if (!memcmp(&pairs[n].key, key, sizeof(*key)))
			return &pairs[n];
	if (pair_count == MAX_PAIRS)
		return NULL;
	pairs[pair_count].key = *key;
	return &pairs[pair_count++];
}

static void read_pairs(void)
{
	int fd = bpf_map__fd(bpf->maps.inversions);
	struct iolat_pair key, *last = NULL;
	struct pair *pair;

	while (!bpf_map_get_next_key(fd, last, &key)) {
		pair = pair_of(&key);
		if (pair)
			bpf_map_lookup_elem(fd, &key, &pair->now);
		last = &key;
	}
}

static void read_tables(void)
{
	int cpus = libbpf_num_possible_cpus();
	unsigned int n;

	for (n = 0; n < bpf->rodata->row_count; n++) {
		const struct iolat_row key = bpf->bss->rows[n];

		if (key.what && next_of(&key, 0) == n)
			read_row(n, cpus);
	}
	read_files(cpus);
	read_pairs();
}

/* A disk by its number; those that have done I/O the kernel has named, hidden paths of NVMe among them. */
static void disk_name(char *name, size_t size, unsigned int dev)
{
	char path[64], target[PATH_MAX];
	ssize_t length;
	int n;

	for (n = 0; n < DISKS; n++)
		if (bpf->bss->disks[n].dev == dev && *bpf->bss->disks[n].name) {
			snprintf(name, size, "%s", bpf->bss->disks[n].name);
			return;
		}
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", dev >> 20, dev & 0xfffff);
	length = readlink(path, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = '\0';
	if (strrchr(target, '/'))
		snprintf(name, size, "%.31s", strrchr(target, '/') + 1);
	else
		snprintf(name, size, "%u:%u", dev >> 20, dev & 0xfffff);
}

static const char *scheduler_name(unsigned int number)
{
	return bpf->bss->schedulers[number % SCHEDULERS].name;
}

/* How long the first of a line has waited, in ns. The kernel goes on meanwhile: what is gone by now had its turn. */
static unsigned long long oldest(const struct iolat_line *line, unsigned long long now)
{
	unsigned int n = line->head, tail = line->tail;

	for (; (int)(tail - n) > 0; n++) {
		unsigned long long entry = line->line[n % LINE];
		unsigned long long q = bpf->bss->ios[((unsigned int)entry - 1) % IOS].q;

		if (entry >> 32 == n && (unsigned int)entry)
			return q < now && line->line[n % LINE] == entry ? now - q : 0;
	}
	return 0;
}

static void sound_alarm(int disk, int rank, unsigned long long age)
{
	bool late = age > options.alarm * NSEC;
	char name[DISK_NAME];

	if (late && !starving[disk][rank]) {
		disk_name(name, sizeof(name), bpf->bss->disks[disk].dev);
		fprintf(stderr,
			"iolat: ALARM: on %s with %s an I/O of class %s has waited for %.3f s\n",
			name, scheduler_name(bpf->bss->disks[disk].scheduler), rank_names[rank],
			age / 1e9);
		starved = true;
	}
	starving[disk][rank] = late;
}

static void look_for_oldest(void)
{
	unsigned long long now = now_ns(), age;
	int disk, rank;

	for (disk = 0; options.order && disk < DISKS; disk++) {
		for (rank = 0; bpf->bss->disks[disk].dev && rank < RANKS; rank++) {
			age = oldest(&bpf->bss->lines[disk << LINE_BITS | rank], now);
			waited[disk][rank] = age > waited[disk][rank] ? age : waited[disk][rank];
			if (options.alarm)
				sound_alarm(disk, rank, age);
		}
	}
}

/* ---- what the tables say ---- */

static double quantile(const struct total *total, double share)
{
	unsigned long long seen = 0;
	int slot;

	for (slot = 0; slot < SLOTS - 1; slot++) {
		seen += total->slots[slot];
		if (seen && seen >= share * total->count)
			break;
	}
	return slot_value(slot) < total->max ? slot_value(slot) : total->max;
}

static double mean(const struct total *total)
{
	return total->count ? (double)total->sum / total->count : 0;
}

/* A row's key in words. */
struct label {
	char disk[DISK_NAME];
	char who[PATH_MAX];
	const char *scheduler;
	const char *class;
	const char *op;
	unsigned int level;
};

#define CGROUPS "/sys/fs/cgroup"
/* The kernel's FILEID_KERNFS: a handle that is the file's number. */
#define KERNFS_HANDLE 0xfe

/* A cgroup's path below the root, "" if it is gone: its file system finds it by its number. */
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

/* What some format would take for its own, and nobody could read anyway, becomes an underscore. */
static void make_plain(char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < ' ' || strchr("\"\\,", *name))
			*name = '_';
}

static void who_name(char *name, size_t size, unsigned long long who)
{
	char path[64];
	FILE *file;

	*name = '\0';
	if (options.by == BY_CGROUP) {
		cgroup_path(name, size, who);
		if (!strncmp(name, CGROUPS, strlen(CGROUPS)))
			memmove(name, name + strlen(CGROUPS), strlen(name + strlen(CGROUPS)) + 1);
		else
			snprintf(name, size, "cgroup-%llu", who);
		if (!*name)
			strcpy(name, "/");
	} else if (options.by) {
		snprintf(path, sizeof(path), "/proc/%llu/comm", who);
		file = fopen(path, "r");
		if (!file || !fgets(name, size, file))
			strcpy(name, "?");
		if (file)
			fclose(file);
		name[strcspn(name, "\n")] = '\0';
		snprintf(name + strlen(name), size - strlen(name), "-%llu", who);
	}
	make_plain(name);
}

static struct label label_of(const struct iolat_row *key)
{
	struct label label = { .class = name_of(classes, key->what >> WHAT_CLASS & 7),
			       .op = name_of(operations, key->what >> WHAT_OP & 0xff),
			       .level = key->what >> WHAT_LEVEL & 7,
			       .scheduler = scheduler_name(key->what >> WHAT_SCHEDULER) };

	disk_name(label.disk, sizeof(label.disk), key->what);
	who_name(label.who, sizeof(label.who), key->who);
	return label;
}

static int by_key(const void *a, const void *b)
{
	const struct iolat_row *one = &(*(struct row *const *)a)->key,
			       *two = &(*(struct row *const *)b)->key;

	if ((unsigned int)one->what != (unsigned int)two->what)
		return (unsigned int)one->what < (unsigned int)two->what ? -1 : 1;
	if (one->what != two->what)
		return one->what < two->what ? -1 : 1;
	return one->who < two->who ? -1 : one->who > two->who;
}

struct file_label {
	char disk[DISK_NAME];
	const char *fs;
	const char *op;
	const char *layer;
};

/* What the n-th histogram of `files` is of, in words; false if nothing is in it. */
static bool label_file(int n, struct file_label *label)
{
	const struct iolat_fs *fs = &bpf->bss->file_systems[n / (FILE_OPS * LAYERS)];

	if (!files[n] || !files[n]->count)
		return false;
	disk_name(label->disk, sizeof(label->disk), fs->dev);
	label->fs = fs->type;
	label->op = file_ops[n / LAYERS % FILE_OPS];
	label->layer = layers[n % LAYERS];
	return true;
}

struct pair_label {
	char disk[DISK_NAME];
	const char *scheduler;
	const char *issued_class;
	const char *issued_op;
	const char *waiting_class;
	const char *waiting_op;
};

static struct pair_label label_pair(const struct iolat_pair *key)
{
	struct pair_label label = { .scheduler = scheduler_name(key->scheduler),
				    .issued_class = name_of(classes, key->issued_class),
				    .issued_op = name_of(operations, key->issued_op),
				    .waiting_class = name_of(classes, key->waiting_class),
				    .waiting_op = name_of(operations, key->waiting_op) };

	disk_name(label.disk, sizeof(label.disk), key->dev);
	return label;
}

/* The rows with something in them, by disk, scheduler, operation, priority and who. */
static size_t sorted_rows(struct row **sorted)
{
	size_t count = 0, n;

	for (n = 0; n < ROWS; n++)
		if (rows[n] && rows[n]->ios)
			sorted[count++] = rows[n];
	qsort(sorted, count, sizeof(*sorted), by_key);
	return count;
}

/* Who had which part of a disk's bytes: the rows' classes, levels and cgroups or processes, of all operations. */
struct share {
	struct iolat_row key;
	unsigned long long bytes;
};

static size_t shares_of(unsigned int dev, struct share *shares)
{
	const unsigned long long mask = (1ULL << WHAT_OP) - 1;
	size_t count = 0, n, k;

	for (n = 0; n < ROWS; n++) {
		if (!rows[n] || !rows[n]->bytes || (unsigned int)rows[n]->key.what != dev)
			continue;
		for (k = 0; k < count; k++)
			if (shares[k].key.what == (rows[n]->key.what & mask) &&
			    shares[k].key.who == rows[n]->key.who)
				break;
		if (k == count)
			shares[count++] =
				(struct share){ { rows[n]->key.what & mask, rows[n]->key.who }, 0 };
		shares[k].bytes += rows[n]->bytes;
	}
	return count;
}

/* Jain's index: 1 if all have the same, 1/count if one has all. */
static double jain(const struct share *shares, size_t count, double *total)
{
	double squares = 0;
	size_t n;

	*total = 0;
	for (n = 0; n < count; n++) {
		*total += shares[n].bytes;
		squares += (double)shares[n].bytes * shares[n].bytes;
	}
	return squares ? *total * *total / (count * squares) : 1;
}

/* Runs of a program that the kernel left out, because it came while the same one was running on that CPU. */
static unsigned long long missed(void)
{
	struct bpf_program *program;
	unsigned long long sum = 0;

	bpf_object__for_each_program(program, bpf->obj)
	{
		struct bpf_prog_info info = {};
		unsigned int size = sizeof(info);

		if (bpf_program__fd(program) >= 0 &&
		    !bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
			sum += info.recursion_misses;
	}
	return sum;
}

static unsigned long long lost(void)
{
	const unsigned long long *counters = (const unsigned long long *)bpf->bss->counters;

	return counters[LOST_IOS] + counters[LOST_ROWS] + counters[LOST_ORDER] +
	       counters[LOST_FILES] + missed();
}

/* ---- text ---- */

static void text_bars(const struct total *total)
{
	unsigned long long octaves[64] = { 0 }, most = 1;
	int first = 63, last = 0, n, log;

	for (n = 0; n < SLOTS; n++) {
		if (!total->slots[n])
			continue;
		log = ilogb(slot_end(n));
		octaves[log] += total->slots[n];
		most = octaves[log] > most ? octaves[log] : most;
		first = log < first ? log : first;
		last = log > last ? log : last;
	}
	for (n = first; n <= last; n++)
		printf("  %12.3f -> %-12.3f : %-8llu |%.*s\n", (1ULL << n) / 1e3,
		       ((2ULL << n) - 1) / 1e3, octaves[n], (int)(octaves[n] * strlen(BAR) / most),
		       BAR);
}

static void text_figures(const char *stage, const struct total *total)
{
	size_t q;

	printf(" %-5s %9llu", stage, total->count);
	for (q = 0; q < QUANTILES; q++)
		printf(" %11.3f", quantile(total, quantiles[q].share) / 1e3);
	printf(" %11.3f\n", total->max / 1e3);
}

static void text_row(const struct row *row)
{
	struct label label = label_of(&row->key);
	int s;

	for (s = 0; s < STAGES; s++) {
		printf("%-12s %-12s %-7s %4s/%u", label.disk, label.scheduler, label.op,
		       label.class, label.level);
		text_figures(stage_names[s], &row->stages[s]);
	}
	printf("  %s%s%llu I/Os", label.who, *label.who ? ": " : "", row->ios);
	if (row->bytes)
		printf(" of %.2f bios, %.1f KiB each", (double)row->bios / row->ios,
		       row->bytes / 1024.0 / row->ios);
	if (row->requeues)
		printf(", %llu requeued", row->requeues);
	if (options.order)
		printf(", %llu overtook an older one, one was overtaken %llu times", row->bypasses,
		       row->bypassed_max);
	printf("\n");
	if (options.histograms)
		text_bars(&row->stages[Q2C]);
}

static void text_files(void)
{
	struct file_label label;
	int n;

	for (n = 0; n < FILE_ROWS; n++) {
		if (!label_file(n, &label))
			continue;
		printf("%-12s %-12s %-7s %-6s", label.disk, label.fs, label.op, "");
		text_figures(n % LAYERS == LAYER_CALL ? "call" : "fs", files[n]);
	}
}

static void text_disk(int disk)
{
	struct share shares[ROWS];
	unsigned int dev = bpf->bss->disks[disk].dev;
	size_t count = dev ? shares_of(dev, shares) : 0, n;
	double total, index = jain(shares, count, &total);
	char name[DISK_NAME], who[PATH_MAX];
	int rank;

	if (!dev)
		return;
	disk_name(name, sizeof(name), dev);
	if (count) {
		printf("%s: shares", name);
		for (n = 0; n < count; n++) {
			who_name(who, sizeof(who), shares[n].key.who);
			printf(" %s/%llu%s%s %.1f %%",
			       name_of(classes, shares[n].key.what >> WHAT_CLASS & 7),
			       shares[n].key.what >> WHAT_LEVEL & 7, *who ? " " : "", who,
			       shares[n].bytes * 100 / total);
		}
		printf(", Jain index %.3f\n", index);
	}
	for (rank = 0; options.order && rank < RANKS; rank++)
		if (waited[disk][rank])
			printf("%s: seen waiting in class %s for %.3f ms at most\n", name,
			       rank_names[rank], waited[disk][rank] / 1e6);
}

static void text_pairs(void)
{
	unsigned int n;

	for (n = 0; n < pair_count; n++) {
		const struct iolat_pair *key = &pairs[n].key;
		struct pair_label label = label_pair(key);

		if (pairs[n].now.count == pairs[n].before)
			continue;
		printf("%s: %s: INVERSION: %llu times a %s of %s/%u went before an older %s of "
		       "%s/%u; the longest had "
		       "waited for %.3f ms (pid %u before pid %u)\n",
		       label.disk, label.scheduler, pairs[n].now.count - pairs[n].before,
		       label.issued_op, label.issued_class, key->issued_level, label.waiting_op,
		       label.waiting_class, key->waiting_level, pairs[n].now.waited / 1e6,
		       pairs[n].now.issued_pid, pairs[n].now.waiting_pid);
	}
}

/* The first change of scheduler to show: the kernel keeps the last ones. */
static unsigned int first_change(void)
{
	unsigned int count = bpf->bss->change_count;

	return count - changes_shown > CHANGES ? count - CHANGES : changes_shown;
}

static void text_changes(void)
{
	unsigned int n;
	char name[DISK_NAME];

	for (n = first_change(); n != bpf->bss->change_count; n++) {
		const struct iolat_change *change = &bpf->bss->changes[n % CHANGES];

		disk_name(name, sizeof(name), change->dev);
		printf("%s: --- %.3f s after the start: scheduler %s -> %s ---\n", name,
		       (double)(change->time - started) / NSEC, scheduler_name(change->from),
		       scheduler_name(change->to));
	}
}

static void print_text(void)
{
	const unsigned long long *counters = (const unsigned long long *)bpf->bss->counters;
	struct row *sorted[ROWS];
	size_t count = sorted_rows(sorted), n;

	if (options.interval)
		printf("%.3f s\n", (now_ns() - started) / 1e9);
	text_changes();
	printf("%-12s %-12s %-7s %-6s %-5s %9s %11s %11s %11s %11s %11s us\n", "DISK", "SCHEDULER",
	       "OP", "PRIO", "STAGE", "COUNT", "P50", "P95", "P99", "P99.9", "MAX");
	for (n = 0; n < count; n++)
		text_row(sorted[n]);
	text_files();
	for (n = 0; n < DISKS; n++)
		text_disk(n);
	text_pairs();
	printf("percentiles to %.1f %%; since the start %llu I/Os followed, ", 50.0 / SUB,
	       counters[FOLLOWED]);
	if (lost())
		printf("LOST: %llu I/Os, %llu for want of a row, %llu in order, %llu of files, "
		       "%llu events\n\n",
		       counters[LOST_IOS], counters[LOST_ROWS], counters[LOST_ORDER],
		       counters[LOST_FILES], missed());
	else
		printf("nothing lost\n\n");
}

/* ---- JSON ---- */

static void json_figures(const struct total *total)
{
	const char *comma = "";
	size_t n;

	printf("\"count\":%llu,\"sum\":%llu,\"mean\":%.1f,\"max\":%llu", total->count, total->sum,
	       mean(total), total->max);
	for (n = 0; n < QUANTILES; n++)
		printf(",\"%s\":%.0f", quantiles[n].name, quantile(total, quantiles[n].share));
	printf(",\"histogram\":[");
	for (n = 0; n < SLOTS; n++) {
		if (!total->slots[n])
			continue;
		printf("%s[%.0f,%llu]", comma, slot_value(n), total->slots[n]);
		comma = ",";
	}
	printf("]");
}

static void json_row(const struct row *row)
{
	struct label label = label_of(&row->key);
	int s;

	printf("{\"device\":\"%s\",\"scheduler\":\"%s\",\"op\":\"%s\",\"ioclass\":\"%s\",\"level\":"
	       "%u,",
	       label.disk, label.scheduler, label.op, label.class, label.level);
	if (options.by)
		printf("\"%s\":\"%s\",", name_of(groupings, options.by), label.who);
	printf("\"ios\":%llu,\"bytes\":%llu,\"bios\":%llu,\"requeues\":%llu,\"bypasses\":%llu,"
	       "\"bypassed_max\":%llu,"
	       "\"stages\":{",
	       row->ios, row->bytes, row->bios, row->requeues, row->bypasses, row->bypassed_max);
	for (s = 0; s < STAGES; s++) {
		printf("%s\"%s\":{", s ? "," : "", stage_names[s]);
		json_figures(&row->stages[s]);
		printf("}");
	}
	printf("}}");
}

static void json_shares(unsigned int dev)
{
	struct share shares[ROWS];
	size_t count = shares_of(dev, shares), n;
	double total, index = jain(shares, count, &total);
	char who[PATH_MAX];

	printf("\"jain\":%.6f,\"shares\":[", index);
	for (n = 0; n < count; n++) {
		printf("%s{\"ioclass\":\"%s\",\"level\":%llu,", n ? "," : "",
		       name_of(classes, shares[n].key.what >> WHAT_CLASS & 7),
		       shares[n].key.what >> WHAT_LEVEL & 7);
		who_name(who, sizeof(who), shares[n].key.who);
		if (options.by)
			printf("\"%s\":\"%s\",", name_of(groupings, options.by), who);
		printf("\"bytes\":%llu,\"share\":%.6f}", shares[n].bytes, shares[n].bytes / total);
	}
	printf("]");
}

static void json_changes(unsigned int dev)
{
	const char *comma = "";
	unsigned int n;

	printf("\"switches\":[");
	for (n = first_change(); n != bpf->bss->change_count; n++) {
		const struct iolat_change *change = &bpf->bss->changes[n % CHANGES];

		if (change->dev != dev)
			continue;
		printf("%s{\"seconds\":%.6f,\"from\":\"%s\",\"to\":\"%s\"}", comma,
		       (double)(change->time - started) / NSEC, scheduler_name(change->from),
		       scheduler_name(change->to));
		comma = ",";
	}
	printf("]");
}

static void json_disks(void)
{
	const char *comma = "";
	char name[DISK_NAME];
	int n, rank;

	for (n = 0; n < DISKS; n++) {
		const struct iolat_disk *disk = &bpf->bss->disks[n];

		if (!disk->dev)
			continue;
		disk_name(name, sizeof(name), disk->dev);
		printf("%s{\"device\":\"%s\",\"scheduler\":\"%s\",\"oldest\":{", comma, name,
		       scheduler_name(disk->scheduler));
		for (rank = 0; options.order && rank < RANKS; rank++)
			printf("%s\"%s\":%llu", rank ? "," : "", rank_names[rank], waited[n][rank]);
		printf("},");
		json_shares(disk->dev);
		printf(",");
		json_changes(disk->dev);
		printf("}");
		comma = ",";
	}
}

static void json_pairs(void)
{
	const char *comma = "";
	unsigned int n;

	for (n = 0; n < pair_count; n++) {
		const struct iolat_pair *key = &pairs[n].key;
		struct pair_label label = label_pair(key);

		if (pairs[n].now.count == pairs[n].before)
			continue;
		printf("%s{\"device\":\"%s\",\"scheduler\":\"%s\",\"count\":%llu,\"longest\":%llu,"
		       "\"issued\":{\"ioclass\":\"%s\",\"level\":%u,\"op\":\"%s\",\"pid\":%u},"
		       "\"waiting\":{\"ioclass\":\"%s\",\"level\":%u,\"op\":\"%s\",\"pid\":%u}}",
		       comma, label.disk, label.scheduler, pairs[n].now.count - pairs[n].before,
		       pairs[n].now.waited, label.issued_class, key->issued_level, label.issued_op,
		       pairs[n].now.issued_pid, label.waiting_class, key->waiting_level,
		       label.waiting_op, pairs[n].now.waiting_pid);
		comma = ",";
	}
}

static void json_files(void)
{
	const char *comma = "";
	struct file_label label;
	int n;

	for (n = 0; n < FILE_ROWS; n++) {
		if (!label_file(n, &label))
			continue;
		printf("%s{\"filesystem\":\"%s\",\"device\":\"%s\",\"op\":\"%s\",\"layer\":\"%s\",",
		       comma, label.fs, label.disk, label.op, label.layer);
		json_figures(files[n]);
		printf("}");
		comma = ",";
	}
}

static void print_json(void)
{
	struct row *sorted[ROWS];
	size_t count = sorted_rows(sorted), n;

	printf("{\"schema\":%d,\"unit\":\"ns\",\"relative_error\":%g,\"seconds\":%.6f,\"counters\":"
	       "{",
	       SCHEMA, 0.5 / SUB, (now_ns() - printed) / 1e9);
	for (n = 0; n < LOST_IOS; n++)
		printf("%s\"%s\":%llu", n ? "," : "", counter_names[n],
		       (unsigned long long)bpf->bss->counters[n]);
	printf("},\"lost\":{");
	for (n = LOST_IOS; n < COUNTERS; n++)
		printf("\"%s\":%llu,", counter_names[n], (unsigned long long)bpf->bss->counters[n]);
	printf("\"lost_events\":%llu},\"devices\":[", missed());
	json_disks();
	printf("],\"inversions\":[");
	json_pairs();
	printf("],\"files\":[");
	json_files();
	printf("],\"rows\":[");
	for (n = 0; n < count; n++) {
		printf("%s", n ? "," : "");
		json_row(sorted[n]);
	}
	printf("]}\n");
}

/* ---- CSV ---- */

static void csv_figures(const char *stage, const struct total *total)
{
	size_t q;

	printf("%s,%llu,%llu,%.1f", stage, total->count, total->sum, mean(total));
	for (q = 0; q < QUANTILES; q++)
		printf(",%.0f", quantile(total, quantiles[q].share));
	printf(",%llu\n", total->max);
}

static void csv_files(double seconds)
{
	struct file_label label;
	int n;

	for (n = 0; n < FILE_ROWS; n++) {
		if (!label_file(n, &label))
			continue;
		printf("%.6f,%s,%s,%s,,,,", seconds, label.disk, label.fs, label.op);
		csv_figures(label.layer, files[n]);
	}
}

/* What was lost is a line too, with its number as the count. */
static void print_csv(void)
{
	static bool headed;
	double seconds = (now_ns() - started) / 1e9;
	struct row *sorted[ROWS];
	size_t count = sorted_rows(sorted), n;
	int s;

	if (!headed)
		printf("seconds,device,scheduler,op,ioclass,level,who,stage,count,sum_ns,mean_ns,"
		       "p50_ns,p95_ns,p99_ns,"
		       "p99.9_ns,max_ns\n");
	headed = true;
	for (n = 0; n < count; n++) {
		struct label label = label_of(&sorted[n]->key);

		for (s = 0; s < STAGES; s++) {
			printf("%.6f,%s,%s,%s,%s,%u,%s,", seconds, label.disk, label.scheduler,
			       label.op, label.class, label.level, label.who);
			csv_figures(stage_names[s], &sorted[n]->stages[s]);
		}
	}
	csv_files(seconds);
	for (n = LOST_IOS; n < COUNTERS; n++)
		printf("%.6f,,,,,,,%s,%llu,,,,,,,\n", seconds, counter_names[n],
		       (unsigned long long)bpf->bss->counters[n]);
	printf("%.6f,,,,,,,lost_events,%llu,,,,,,,\n", seconds, missed());
}

/* ---- OpenMetrics ---- */

static void metric_histogram(const char *name, const char *labels, const struct total *total)
{
	unsigned long long below = 0;
	int slot = 0, log;

	for (log = FIRST_BUCKET; log < TOP_BITS; log++) {
		for (; slot < SLOTS && slot_end(slot) < 1ULL << log; slot++)
			below += total->slots[slot];
		printf("%s_bucket{%s,le=\"%.9g\"} %llu\n", name, labels,
		       (double)(1ULL << log) / NSEC, below);
	}
	printf("%s_bucket{%s,le=\"+Inf\"} %llu\n", name, labels, total->count);
	printf("%s_sum{%s} %.9f\n%s_count{%s} %llu\n", name, labels, total->sum / 1e9, name, labels,
	       total->count);
}

static void row_labels(char *text, size_t size, const struct row *row)
{
	struct label label = label_of(&row->key);

	snprintf(text, size, "device=\"%s\",scheduler=\"%s\",op=\"%s\",ioclass=\"%s\",level=\"%u\"",
		 label.disk, label.scheduler, label.op, label.class, label.level);
	if (options.by)
		snprintf(text + strlen(text), size - strlen(text), ",%s=\"%s\"",
			 name_of(groupings, options.by), label.who);
}

static void metric_stages(struct row **sorted, size_t count)
{
	char labels[PATH_MAX + 256];
	size_t n, end;
	int s;

	printf("# TYPE iolat_stage_seconds histogram\n# UNIT iolat_stage_seconds seconds\n"
	       "# HELP iolat_stage_seconds Time of block I/O in each stage.\n");
	for (n = 0; n < count; n++) {
		row_labels(labels, sizeof(labels), sorted[n]);
		end = strlen(labels);
		for (s = 0; s < STAGES; s++) {
			snprintf(labels + end, sizeof(labels) - end, ",stage=\"%s\"",
				 stage_names[s]);
			metric_histogram("iolat_stage_seconds", labels, &sorted[n]->stages[s]);
		}
	}
}

static void metric_files(void)
{
	struct file_label label;
	char labels[256];
	int n;

	printf("# TYPE iolat_file_seconds histogram\n# UNIT iolat_file_seconds seconds\n"
	       "# HELP iolat_file_seconds Time of file I/O, in the file system and in the whole "
	       "system call.\n");
	for (n = 0; n < FILE_ROWS; n++) {
		if (!label_file(n, &label))
			continue;
		snprintf(labels, sizeof(labels),
			 "filesystem=\"%s\",device=\"%s\",op=\"%s\",layer=\"%s\"", label.fs,
			 label.disk, label.op, label.layer);
		metric_histogram("iolat_file_seconds", labels, files[n]);
	}
}

/* A counter of every row, at `offset` in it. */
static void metric_counter(struct row **sorted, size_t count, const char *name, const char *help,
			   size_t offset)
{
	char labels[PATH_MAX + 256];
	size_t n;

	printf("# TYPE iolat_%s counter\n# HELP iolat_%s %s\n", name, name, help);
	for (n = 0; n < count; n++) {
		row_labels(labels, sizeof(labels), sorted[n]);
		printf("iolat_%s_total{%s} %llu\n", name, labels,
		       *(const unsigned long long *)((const char *)sorted[n] + offset));
	}
}

static void metric_order(void)
{
	char name[DISK_NAME];
	unsigned int n;
	int rank;

	printf("# TYPE iolat_oldest_seconds gauge\n# UNIT iolat_oldest_seconds seconds\n"
	       "# HELP iolat_oldest_seconds Longest that an I/O of a class was seen waiting since "
	       "the last reading.\n");
	for (n = 0; options.order && n < DISKS; n++) {
		disk_name(name, sizeof(name), bpf->bss->disks[n].dev);
		for (rank = 0; bpf->bss->disks[n].dev && rank < RANKS; rank++)
			printf("iolat_oldest_seconds{device=\"%s\",ioclass=\"%s\"} %.9f\n", name,
			       rank_names[rank], waited[n][rank] / 1e9);
	}
	printf("# TYPE iolat_inversions counter\n"
	       "# HELP iolat_inversions I/Os dispatched before an older one of a higher class.\n");
	for (n = 0; n < pair_count; n++) {
		const struct iolat_pair *key = &pairs[n].key;
		struct pair_label label = label_pair(key);

		printf("iolat_inversions_total{device=\"%s\",scheduler=\"%s\",issued_ioclass=\"%"
		       "s\",issued_level=\"%u\","
		       "issued_op=\"%s\",waiting_ioclass=\"%s\",waiting_level=\"%u\",waiting_op=\"%"
		       "s\"} %llu\n",
		       label.disk, label.scheduler, label.issued_class, key->issued_level,
		       label.issued_op, label.waiting_class, key->waiting_level, label.waiting_op,
		       pairs[n].now.count);
	}
}

static void print_openmetrics(void)
{
	struct row *sorted[ROWS];
	size_t count = sorted_rows(sorted), n;

	metric_stages(sorted, count);
	metric_counter(sorted, count, "bytes", "Bytes read or written.",
		       offsetof(struct row, bytes));
	metric_counter(sorted, count, "bios", "Bios; several may share a request.",
		       offsetof(struct row, bios));
	metric_counter(sorted, count, "requeues", "Requests given back by the driver.",
		       offsetof(struct row, requeues));
	metric_counter(sorted, count, "bypasses", "I/Os that overtook an older one.",
		       offsetof(struct row, bypasses));
	metric_files();
	metric_order();
	printf("# TYPE iolat_scheduler_changes counter\n# HELP iolat_scheduler_changes Changes of "
	       "a disk's scheduler.\n"
	       "iolat_scheduler_changes_total %u\n",
	       bpf->bss->change_count);
	printf("# TYPE iolat_lost counter\n# HELP iolat_lost What could not be measured.\n");
	for (n = LOST_IOS; n < COUNTERS; n++)
		printf("iolat_lost_total{what=\"%s\"} %llu\n", counter_names[n] + strlen("lost_"),
		       (unsigned long long)bpf->bss->counters[n]);
	printf("iolat_lost_total{what=\"events\"} %llu\n# EOF\n", missed());
}

/* ---- rounds ---- */

static void reset_total(struct total *total)
{
	total->count = total->sum = total->max = 0;
	memset(total->slots, 0, sizeof(total->slots));
}

/* Metrics only ever grow, so that whoever collects them can take differences; the oldest is of now. */
static void begin_round(void)
{
	unsigned int n;
	int s;

	memset(waited, 0, sizeof(waited));
	printed = now_ns();
	if (options.format == OPENMETRICS)
		return;
	for (n = 0; n < ROWS; n++) {
		if (!rows[n])
			continue;
		rows[n]->ios = rows[n]->bytes = rows[n]->bios = rows[n]->requeues =
			rows[n]->bypasses = 0;
		rows[n]->bypassed_max = 0;
		for (s = 0; s < STAGES; s++)
			reset_total(&rows[n]->stages[s]);
	}
	for (n = 0; n < FILE_ROWS; n++)
		if (files[n])
			reset_total(files[n]);
	for (n = 0; n < pair_count; n++)
		pairs[n].before = pairs[n].now.count;
	changes_shown = bpf->bss->change_count;
}

static void print_round(void)
{
	static void (*const printers[])(void) = { print_text, print_json, print_csv,
						  print_openmetrics };

	look_for_oldest();
	read_tables();
	printers[options.format]();
	if (fflush(stdout) || ferror(stdout))
		die(1, "can't write: %s; try: df -h .", strerror(errno));
	begin_round();
}

/* Read an HTTP request up to its empty line; false if it is none, or takes more than a second to come. */
static bool read_request(int client, char *request, size_t size)
{
	unsigned long long end = now_ns() + NSEC, now;
	struct pollfd ready = { .fd = client, .events = POLLIN };
	size_t length = 0;
	ssize_t more;

	while (length < size - 1 && (now = now_ns()) < end &&
	       poll(&ready, 1, (end - now) / 1000000) > 0 &&
	       (more = recv(client, request + length, size - 1 - length, 0)) > 0) {
		length += more;
		request[length] = '\0';
		if (strstr(request, "\r\n\r\n") || strstr(request, "\n\n"))
			return true;
	}
	return false;
}

static void answer(const char *request)
{
	if (strncmp(request, "GET /metrics", strlen("GET /metrics"))) {
		printf("HTTP/1.0 404 Not Found\r\n\r\nask for /metrics\n");
		return;
	}
	printf("HTTP/1.0 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; "
	       "charset=utf-8\r\n\r\n");
	look_for_oldest();
	read_tables();
	print_openmetrics();
	begin_round();
}

/* Answer one HTTP request; whoever is slower than a second is left. */
static void serve(int listening)
{
	int client = accept4(listening, NULL, NULL, SOCK_CLOEXEC), saved = dup(STDOUT_FILENO);
	struct timeval second = { .tv_sec = 1 };
	char request[4096];

	if (client >= 0 && saved >= 0) {
		setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
		setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second));
		if (read_request(client, request, sizeof(request)) &&
		    dup2(client, STDOUT_FILENO) >= 0) {
			answer(request);
			fflush(stdout);
			clearerr(stdout);
			dup2(saved, STDOUT_FILENO);
			shutdown(client, SHUT_WR);
			recv(client, request, sizeof(request), 0);
		}
	}
	close(saved);
	close(client);
}

static int open_socket(void)
{
	int yes = 1, listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (listening < 0 ||
	    bind(listening, (struct sockaddr *)&options.listen, sizeof(options.listen)) ||
	    listen(listening, 16))
		die(1, "can't listen there: %s; try: ss -ltn", strerror(errno));
	return listening;
}

/* Nanoseconds between looks at what waits: a quarter of the alarm, so that it is late by no more than that. */
static unsigned long long look_every(void)
{
	if (!options.order)
		return READING * NSEC;
	return options.alarm && options.alarm < 4 ? options.alarm * NSEC / 4 : NSEC;
}

/* Until a signal comes or the rounds are over. */
static void watch(int signals, int listening)
{
	struct pollfd fds[] = { { .fd = signals, .events = POLLIN },
				{ .fd = listening, .events = POLLIN } };
	unsigned long long every = look_every(), next = started, look = started + every,
			   read = started, now, until;
	long round = 0;

	do {
		next = options.interval ? next + options.interval * NSEC : ULLONG_MAX;
		while ((now = now_ns()) < next) {
			until = next < look ? next : look;
			if (poll(fds, 2, until > now ? (until - now + 999999) / 1000000 : 0) < 0 &&
			    errno != EINTR)
				die(1, "can't wait: %s; try again", strerror(errno));
			if (fds[0].revents)
				break;
			if (fds[1].revents)
				serve(listening);
			if (now_ns() < look)
				continue;
			look_for_oldest();
			look = now_ns() + every;
			if (look - read > READING * NSEC) {
				read_tables();
				read = look;
			}
		}
		if (listening < 0)
			print_round();
	} while (!fds[0].revents && ++round != options.rounds);
}

int main(int argc, char **argv)
{
	int listening = -1, signals;
	sigset_t ending;

	parse(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&ending);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGTERM);
	sigprocmask(SIG_BLOCK, &ending, NULL);
	signals = signalfd(-1, &ending, SFD_CLOEXEC);
	if (options.listen.sin_port)
		listening = open_socket();
	load();
	started = printed = now_ns();
	fputs("iolat: watching; Ctrl-C ends\n", stderr);
	watch(signals, listening);
	iolat_bpf__destroy(bpf);
	return starved ? 3 : 0;
}

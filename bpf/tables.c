// SPDX-License-Identifier: GPL-2.0-only
/* The tables of the kernel half: loading, reading and summing. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include "options.h"
#include "tables.h"
#include "who.h"

/* I/Os per second and CPU up to which all are followed; of more, as many are chosen at random. */
#define PACE 3000
/*
 * Microseconds in which every program of the kernel half ends, for kernels that cannot tell when
 * none runs any more.
 */
#define GRACE_US 10000

struct iolat_bpf *bpf;
struct row *rows[MAX_ROWS];
unsigned int row_count;
struct total *files[FILE_ROWS];
struct pair pairs[MAX_PAIRS];
unsigned int pair_count;
unsigned long long started, round_began;
bool starved;

const char *const stage_names[STAGES] = { "q2g", "g2i", "i2d", "q2d", "d2c", "q2c" };
const char *const counter_names[COUNTERS] = { "followed", "finished",  "merged",     "failed",
					      "lost_ios", "lost_rows", "lost_order", "lost_files" };
const char *const rank_names[RANKS] = { "rt", "be", "idle" };
const struct quantile quantiles[QUANTILES] = {
	{ "p50", 0.5 }, { "p95", 0.95 }, { "p99", 0.99 }, { "p99.9", 0.999 }
};

/* The kernel's rows, which it keeps filling. */
static struct iolat_cell *cells;
static struct histogram *stages;
/* The values that were last read. */
static struct {
	struct iolat_cell cell;
	struct histogram stages[STAGES];
} *last[ROWS];
static struct histogram last_files[FILE_ROWS];
/*
 * The longest wait of a class that was seen, in ns, in this period and in the one before; and when
 * this period began.
 */
static unsigned long long waited[DISKS][RANKS], waited_before[DISKS][RANKS], waited_since;
/* Whether an alarm is on. */
static bool starving[DISKS][RANKS];
static unsigned int changes_shown;

unsigned long long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * NSEC + time.tv_nsec;
}

/* Loading */

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	return getenv("IOLAT_DEBUG") ? vfprintf(stderr, format, args) : 0;
}

/* The kernel refuses the program: find out why, as far as possible. */
__attribute__((noreturn)) static void refused(int error)
{
	char text[128] = "";
	FILE *lockdown = fopen("/sys/kernel/security/lockdown", "r");

	if (lockdown && fgets(text, sizeof(text), lockdown) && strstr(text, "[confidentiality]"))
		die(1, "this kernel is locked down: BPF programs can't read its memory; next: "
		       "cat /sys/kernel/security/lockdown");
	if (error == -EPERM)
		die(1, "watching the kernel takes root; next: sudo iolat");
	if (error == -ENOMEM)
		die(1, "the kernel has no memory for the tables; next: free -h");
	die(1, "this kernel refuses the program: %s; next: IOLAT_DEBUG=1 iolat", strerror(-error));
}

static void check_kernel(void)
{
	unsigned int version, patch;
	struct utsname name;

	uname(&name);
	if (sscanf(name.release, "%u.%u", &version, &patch) == 2 && version * 1000 + patch < 5016)
		die(1, "Linux %s is too old, 5.16 or newer is needed; next: uname -r",
		    name.release);
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		die(1, "this kernel does not describe its types, it takes one with "
		       "CONFIG_DEBUG_INFO_BTF; next: "
		       "grep BTF /boot/config-*");
}

/*
 * The flag whose bit is a named enumerator of the kernel; bit `bit` if the kernel has none of that
 * name.
 */
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

	/* A macro before 6.11, always with this number. */
	bpf->rodata->flush_flag = flag(btf, "__RQF_FLUSH_SEQ", 4);
	bpf->rodata->queued_flag = flag(btf, "BIO_TRACE_COMPLETION", 7);
	btf__free(btf);
}

/* Whether the file system of a function is loaded: ext4 for ext4_sync_file. */
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

/* File systems whose module is not loaded have no functions to hook. */
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
		die(1, "none of ext4, xfs and btrfs is loaded, --files has nothing to watch; next: "
		       "findmnt --real");
}

static void configure(void)
{
	unsigned int n;

	bpf->rodata->only_dev = options.dev;
	bpf->rodata->only_process = options.pid;
	bpf->rodata->only_thread = options.tid;
	bpf->rodata->only_cgroup = options.cgroup;
	bpf->rodata->only_op = options.op;
	bpf->rodata->only_class = options.class;
	bpf->rodata->by = options.by;
	bpf->rodata->order = options.order;
	find_flags();
	bpf->rodata->review_ns = options.all || options.order ? 0 : REVIEW * NSEC / PACE;
	if (!options.files)
		bpf_map__set_max_entries(bpf->maps.files, 1);
	strcpy(bpf->bss->schedulers[0].name, "none");
	for (n = 0; n < LINES; n++)
		bpf->bss->lines[n].head = bpf->bss->lines[n].tail = 1;
}

static void *map_memory(const struct bpf_map *map)
{
	size_t size = (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map);
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	if (memory == MAP_FAILED)
		refused(-errno);
	return memory;
}

void load(void)
{
	int error;

	check_kernel();
	libbpf_set_print(quiet);
	bpf = iolat_bpf__open();
	if (!bpf)
		die(1, "out of memory; next: free -h");
	choose_programs();
	configure();
	error = iolat_bpf__load(bpf);
	if (error)
		refused(error);
	cells = map_memory(bpf->maps.cells);
	stages = map_memory(bpf->maps.stages);
	error = iolat_bpf__attach(bpf);
	if (error)
		refused(error);
	started = round_began = waited_since = now_ns();
}

/* Reading */

unsigned long long slot_end(int slot)
{
	int shift = slot < 2 * SUB ? 0 : slot / SUB - 1;

	return (((unsigned long long)(slot - shift * SUB + 1) << shift) << UNIT_BITS) - 1;
}

/* The middle of a slot, at most half a slot's width from the measured value. */
double slot_value(int slot)
{
	int shift = slot < 2 * SUB ? 0 : slot / SUB - 1;

	return slot_end(slot) - ((1ULL << shift << UNIT_BITS) - 1) / 2.0;
}

/*
 * Add what a histogram has gained since `last`, and keep it as `last`. The maximum of the round is
 * the histogram's if that has grown, else the end of the highest slot that has.
 */
static void gain(struct total *total, struct histogram *last, const struct histogram *now)
{
	unsigned long long top = 0;
	int n;

	for (n = 0; n < SLOTS; n++) {
		unsigned int more = now->slots[n] - last->slots[n];

		total->slots[n] += more;
		total->count += more;
		top = more ? slot_end(n) : top;
	}
	total->sum += now->sum - last->sum;
	if (now->max > last->max || top > now->max)
		top = now->max;
	total->max = top > total->max ? top : total->max;
	*last = *now;
}

static void add_histogram(struct histogram *sum, const struct histogram *part)
{
	int n;

	sum->sum += part->sum;
	sum->max = part->max > sum->max ? part->max : sum->max;
	for (n = 0; n < SLOTS; n++)
		sum->slots[n] += part->slots[n];
}

static void gain_row(struct row *row, struct iolat_cell *last, const struct iolat_cell *now)
{
	row->ios += now->ios - last->ios;
	row->bytes += now->bytes - last->bytes;
	row->bios += now->bios - last->bios;
	row->requeues += now->requeues - last->requeues;
	row->bypasses += now->bypasses - last->bypasses;
	if (now->bypassed_max > last->bypassed_max && now->bypassed_max > row->bypassed_max)
		row->bypassed_max = now->bypassed_max;
	*last = *now;
}

/* Add the histogram at a place of `files`, over all CPUs. */
static void read_file(unsigned int place, struct histogram *sum)
{
	int cpus = libbpf_num_possible_cpus(), cpu;
	struct histogram *parts = allocate(cpus * sizeof(*parts));
	int error = bpf_map_lookup_elem(bpf_map__fd(bpf->maps.files), &place, parts);

	for (cpu = 0; !error && cpu < cpus; cpu++)
		add_histogram(sum, &parts[cpu]);
	free(parts);
}

/* The place in `rows` of a key; `row_count` if it has none. */
static unsigned int place_of(const struct iolat_row *key)
{
	unsigned int n;

	for (n = 0; n < row_count; n++)
		if (rows[n]->key.what == key->what && rows[n]->key.who == key->who)
			break;
	return n;
}

/* The row of a key, made if there is none; NULL if there are too many. */
static struct row *row_of(const struct iolat_row *key)
{
	unsigned int n = place_of(key);

	if (n == MAX_ROWS)
		return NULL;
	if (n == row_count) {
		rows[row_count] = allocate(sizeof(**rows));
		rows[row_count++]->key = *key;
	}
	return rows[n];
}

/* Whether the kernel's n-th row is in use. */
static bool in_use(unsigned int n)
{
	return __atomic_load_n(&bpf->bss->rows[n].what, __ATOMIC_ACQUIRE) & WHAT_USED;
}

/*
 * The key of the kernel's n-th row, which is in use; its process, thread or cgroup may have ended.
 */
static struct iolat_row key_of(unsigned int n)
{
	struct iolat_row key = bpf->bss->rows[n];

	key.what &= ~WHAT_ENDED;
	return key;
}

/*
 * Whether the kernel has a row with a key. It may have several, if CPUs made them at the same
 * time.
 */
static bool has_row(const struct iolat_row *key)
{
	struct iolat_row other;
	unsigned int n;

	for (n = 0; n < ROWS; n++) {
		if (!in_use(n))
			continue;
		other = key_of(n);
		if (other.what == key->what && other.who == key->who)
			return true;
	}
	return false;
}

/*
 * Add what the kernel's n-th row has gained. An I/O is in the cell's count only after it is in all
 * histograms.
 */
static void read_row(unsigned int n)
{
	/* Read the count first: an I/O that is counted later is a reason to read the row again. */
	const unsigned long long ios = __atomic_load_n(&cells[n].ios, __ATOMIC_ACQUIRE);
	const struct iolat_row key = key_of(n);
	struct row *row = row_of(&key);
	struct iolat_cell cell;
	struct histogram now;
	int s;

	if (!last[n])
		last[n] = allocate(sizeof(*last[n]));
	if (!row || ios == last[n]->cell.ios)
		return;
	cell = cells[n];
	cell.ios = ios;
	gain_row(row, &last[n]->cell, &cell);
	for (s = 0; s < STAGES; s++) {
		now = stages[n * STAGES + s];
		gain(&row->stages[s], &last[n]->stages[s], &now);
	}
}

static void read_rows(void)
{
	unsigned int n;

	for (n = 0; n < ROWS; n++)
		if (in_use(n))
			read_row(n);
}

static void read_files(void)
{
	struct histogram sum;
	unsigned int n;

	for (n = 0; options.files && n < FILE_ROWS; n++) {
		if (!bpf->bss->file_systems[n / (FILE_OPS * LAYERS)].dev)
			continue;
		if (!files[n])
			files[n] = allocate(sizeof(*files[n]));
		memset(&sum, 0, sizeof(sum));
		read_file(n, &sum);
		gain(files[n], &last_files[n], &sum);
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

void read_tables(void)
{
	read_rows();
	read_files();
	read_pairs();
}

static void add_total(struct total *sum, const struct total *part)
{
	int n;

	sum->count += part->count;
	sum->sum += part->sum;
	sum->max = part->max > sum->max ? part->max : sum->max;
	for (n = 0; n < SLOTS; n++)
		sum->slots[n] += part->slots[n];
}

static void add_row(struct row *sum, const struct row *part)
{
	int s;

	sum->ios += part->ios;
	sum->bytes += part->bytes;
	sum->bios += part->bios;
	sum->requeues += part->requeues;
	sum->bypasses += part->bypasses;
	sum->bypassed_max = part->bypassed_max > sum->bypassed_max ? part->bypassed_max
								   : sum->bypassed_max;
	for (s = 0; s < STAGES; s++)
		add_total(&sum->stages[s], &part->stages[s]);
}

/*
 * From now on the kernel finds no row of a process, thread or cgroup that has ended. Returns the
 * number of these rows.
 */
static unsigned int mark_ended(void)
{
	unsigned int n, count = 0;

	for (n = 0; n < ROWS; n++) {
		if (!in_use(n) || !who_has_ended(bpf->bss->rows[n].who))
			continue;
		__atomic_or_fetch(&bpf->bss->rows[n].what, WHAT_ENDED, __ATOMIC_SEQ_CST);
		count++;
	}
	return count;
}

/* Wait until no program that began before is still running: they run with preemption off. */
static void wait_for_programs(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		usleep(GRACE_US);
}

/* Reset the kernel's n-th row to its initial state. */
static void give_back(unsigned int n)
{
	memset(&cells[n], 0, sizeof(*cells));
	memset(&stages[n * STAGES], 0, STAGES * sizeof(*stages));
	free(last[n]);
	last[n] = NULL;
	bpf->bss->rows[n].who = 0;
	__atomic_store_n(&bpf->bss->rows[n].what, 0, __ATOMIC_RELEASE);
	__atomic_sub_fetch(&bpf->bss->rows_used, 1, __ATOMIC_SEQ_CST);
}

/* Add the row of a key that has ended to the row for all others. */
static void unite(const struct iolat_row *key)
{
	const struct iolat_row others = { key->what, WHO_OTHERS };
	unsigned int n = place_of(key);
	struct row *row, *sum;

	if (n == row_count)
		return;
	row = rows[n];
	rows[n] = rows[--row_count];
	sum = row_of(&others);
	if (sum)
		add_row(sum, row);
	else
		__atomic_add_fetch(&bpf->bss->counters[LOST_ROWS], row->ios, __ATOMIC_SEQ_CST);
	free(row);
}

void reclaim_rows(void)
{
	unsigned int n;

	if (!options.by || __atomic_load_n(&bpf->bss->rows_used, __ATOMIC_RELAXED) < ROWS / 2 ||
	    !mark_ended())
		return;
	wait_for_programs();
	read_rows();
	for (n = 0; n < ROWS; n++) {
		const struct iolat_row key = key_of(n);

		if (!(bpf->bss->rows[n].what & WHAT_ENDED))
			continue;
		give_back(n);
		if (!has_row(&key))
			unite(&key);
	}
}

/*
 * The name of a disk by its number. The kernel half has named the disks that did I/O, among them
 * hidden paths of NVMe.
 */
void disk_name(char *name, size_t size, unsigned int dev)
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

const char *scheduler_name(unsigned long long place)
{
	return bpf->bss->schedulers[place % SCHEDULERS].name;
}

/*
 * How long the first I/O of a line has waited, in ns. The kernel goes on meanwhile: an I/O that
 * has left the line is ignored.
 */
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
			name, scheduler_name(bpf->bss->disks[disk].elevator), rank_names[rank],
			age / 1e9);
		starved = true;
	}
	starving[disk][rank] = late;
}

/*
 * Metrics may be read by several readers at any time: their maxima are of the last minute or two,
 * whichever reader asks.
 */
static void forget_waits(unsigned long long now)
{
	if (options.format != OPENMETRICS || now - waited_since < READING * NSEC)
		return;
	memcpy(waited_before, waited, sizeof(waited));
	memset(waited, 0, sizeof(waited));
	waited_since = now;
}

void look_for_oldest(void)
{
	unsigned long long now = now_ns(), age;
	int disk, rank;

	forget_waits(now);
	for (disk = 0; options.order && disk < DISKS; disk++) {
		for (rank = 0; bpf->bss->disks[disk].dev && rank < RANKS; rank++) {
			age = oldest(&bpf->bss->lines[disk << LINE_BITS | rank], now);
			waited[disk][rank] = age > waited[disk][rank] ? age : waited[disk][rank];
			if (options.alarm)
				sound_alarm(disk, rank, age);
		}
	}
}

unsigned long long longest_wait(int disk, int rank)
{
	unsigned long long now = waited[disk][rank], before = waited_before[disk][rank];

	return now > before ? now : before;
}

/* Sums over the tables */

double quantile(const struct total *total, double share)
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

double mean(const struct total *total)
{
	return total->count ? (double)total->sum / total->count : 0;
}

/* By disk, by all else of what it is, and by whose. */
static int compare(const struct iolat_row *one, const struct iolat_row *two)
{
	if ((unsigned int)one->what != (unsigned int)two->what)
		return (unsigned int)one->what < (unsigned int)two->what ? -1 : 1;
	if (one->what != two->what)
		return one->what < two->what ? -1 : 1;
	return one->who < two->who ? -1 : one->who > two->who;
}

static int by_key(const void *a, const void *b)
{
	return compare(&(*(struct row *const *)a)->key, &(*(struct row *const *)b)->key);
}

size_t sorted_rows(struct row **sorted)
{
	size_t count = 0, n;

	for (n = 0; n < row_count; n++)
		if (rows[n]->ios)
			sorted[count++] = rows[n];
	qsort(sorted, count, sizeof(*sorted), by_key);
	return count;
}

static int by_share(const void *a, const void *b)
{
	return compare(&((const struct share *)a)->key, &((const struct share *)b)->key);
}

size_t shares_of(unsigned int dev, struct share *shares)
{
	const unsigned long long mask = (1ULL << WHAT_OP) - 1;
	size_t count = 0, n, k;

	for (n = 0; n < row_count; n++) {
		if (!rows[n]->bytes || (unsigned int)rows[n]->key.what != dev)
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
	qsort(shares, count, sizeof(*shares), by_share);
	return count;
}

double jain(const struct share *shares, size_t count, double *total)
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

unsigned long long missed(void)
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

unsigned long long counted(enum counter what)
{
	return bpf->bss->counters[what];
}

unsigned int first_change(void)
{
	unsigned int count = bpf->bss->change_count;

	return count - changes_shown > CHANGES ? count - CHANGES : changes_shown;
}

static void reset_total(struct total *total)
{
	total->count = total->sum = total->max = 0;
	memset(total->slots, 0, sizeof(total->slots));
}

void begin_counts(void)
{
	unsigned int n;
	int s;

	round_began = now_ns();
	if (options.format == OPENMETRICS)
		return;
	memset(waited, 0, sizeof(waited));
	for (n = 0; n < row_count; n++) {
		rows[n]->ios = rows[n]->bytes = rows[n]->bios = rows[n]->requeues =
			rows[n]->bypasses = rows[n]->bypassed_max = 0;
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

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel half of iolat: takes the time of each step of a block I/O and adds up the stages at
 * completion.
 *
 * An I/O is identified by the address of its request's first bio. Its steps are the queueing of
 * the bio (Q), the request's insertion (I), its dispatch (D) and its completion (C). The request
 * itself records when it was allocated (G). Unlike a sector, the address belongs to one I/O for as
 * long as the I/O lives. The tables have a fixed size: nothing is allocated and no lock is taken.
 * An I/O or event that finds no room is counted.
 *
 * When a CPU has many I/Os a second, only some are followed, chosen at random. Each of them stands
 * for the I/Os that passed since the one before. Sums are right, and percentiles are those of a
 * sample.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "iolat.h"

#define CLASS_SHIFT 13
#define LEVEL_MASK 7
#define OP_MASK 0xff
#define EIOCBQUEUED 529
#define EAGAIN 11

/*
 * Bios searched for a request's first one after front merges, and bios counted in a request, at
 * most.
 */
#define FRONT_MERGES 64
#define COUNTED_BIOS 256
/*
 * Places that a row may be away from its hash, and dispatched I/Os that are skipped at once, at
 * most.
 */
#define PROBES 64
#define STEPS 64
/* Rows in use at which a new process gets no row of its own, and at which no other key gets one. */
#define FEW_LEFT (ROWS / 4 * 3)
#define FEWER_LEFT (ROWS / 8 * 7)
/* A process or thread counts as new for this long. Most of them have ended by then. */
#define YOUNG_NS 1000000000ULL
/* Attempts of a CPU to raise a maximum that other CPUs raise at the same time. */
#define RAISES 16
/* The highest number of requeues that is counted for an I/O. */
#define MOST_REQUEUES 0xffff
/* An I/O stands for at most twice 2^COARSEST I/Os. */
#define COARSEST 10

/*
 * A function that the verifier checks once, by itself, without knowledge of its callers: for code
 * with many loops or branches.
 */
#define CHECKED_ALONE __weak __noinline

const volatile __u32 only_dev = ANY;
const volatile __u32 only_process = 0;
const volatile __u32 only_thread = 0;
const volatile __u64 only_cgroup = 0;
const volatile __u32 only_op = ANY;
const volatile __u32 only_class = ANY;
const volatile __u32 by = BY_NONE;
/* RQF_FLUSH_SEQ and BIO_TRACE_COMPLETION as flags: their numbers differ between kernels. */
const volatile __u32 flush_flag = 1 << 4;
const volatile __u32 queued_flag = 1 << 7;
/* Whether the order of the waiting I/Os is kept. */
const volatile bool order = false;
/* The shortest time in ns in which REVIEW I/Os of a CPU may be followed; 0: follow all. */
const volatile __u64 review_ns = 0;

__u64 counters[COUNTERS];
struct iolat_row rows[ROWS];
__u32 rows_used;
struct iolat_disk disks[DISKS];
struct iolat_scheduler schedulers[SCHEDULERS];
struct iolat_change changes[CHANGES];
__u32 change_count;
struct iolat_line lines[LINES];
struct iolat_fs file_systems[FILE_SYSTEMS];

struct iolat_io ios[IOS];
__u64 addresses[IOS];
/* I/Os that are followed at present, and whether a bio was ever merged in front of another one. */
__u32 live;
bool front_merged;

/* All CPUs add to the same row: a row for each CPU would take 40 KB per row and CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ROWS);
	__type(key, __u32);
	__type(value, struct iolat_cell);
} cells SEC(".maps");

/* The histograms of each row, one for each stage. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ROWS *STAGES);
	__type(key, __u32);
	__type(value, struct histogram);
} stages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct iolat_pair);
	__type(value, struct iolat_inversion);
} inversions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FILE_SYSTEMS *FILE_OPS *LAYERS);
	__type(key, __u32);
	__type(value, struct histogram);
} files SEC(".maps");

static void count(enum counter what)
{
	__sync_fetch_and_add(&counters[what], 1);
}

/*
 * An address as a number for arithmetic. The verifier allows the difference of two addresses but
 * no other sum with them, and the compiler must not turn the difference into one.
 */
static __u64 id_of(const void *address)
{
	__u64 id = (const char *)address - (const char *)ios;

	barrier_var(id);
	return id;
}

/*
 * A bio's address as a plain number, with which lists of bios are walked. To check a typed step
 * the verifier searches all types, and it checks each iteration of a loop.
 */
static __u64 number_of(struct bio *bio)
{
	__u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), &bio);
	return number;
}

/*
 * The difference between an id and a plain address, taken from a typed bio, for bios known by
 * address only.
 */
static __u64 to_id(struct bio *bio)
{
	return id_of(bio) - number_of(bio);
}

static __u64 bio_after(__u64 address)
{
	return (__u64)BPF_CORE_READ((struct bio *)address, bi_next);
}

static __u32 disk_dev(struct gendisk *disk)
{
	return disk->major << 20 | disk->first_minor;
}

/* For each CPU: how many I/Os to skip, how many were skipped, and since when REVIEW is counted. */
struct iolat_pace paces[CPUS];

static struct iolat_pace *this_pace(void)
{
	return &paces[bpf_get_smp_processor_id() & (CPUS - 1)];
}

/* Adapt the stretches so that REVIEW I/Os of a CPU take between `review_ns` and twice that. */
static void review(struct iolat_pace *pace, __u64 now)
{
	__u64 took = (now - pace->since) * REVIEW / pace->seen;
	__u32 n;

	pace->since = now;
	pace->seen = 0;
	if (took < review_ns && pace->coarse < COARSEST)
		pace->coarse++;
	for (n = 0; n < COARSEST && took > 2 * review_ns && pace->coarse; n++) {
		pace->coarse--;
		took /= 2;
	}
}

/*
 * The number of I/Os that this one stands for if it is to be followed, else 0. It is random, so
 * that a regular pattern cannot hide I/Os.
 */
static __u32 weigh(struct iolat_pace *pace)
{
	__u32 weight;

	if (pace->skip) {
		pace->skip--;
		return 0;
	}
	weight = pace->stretch + 1;
	pace->random = pace->random * 1664525 + 1013904223;
	pace->stretch = (pace->random >> 16) & ((2U << (pace->coarse & 15)) - 2);
	pace->skip = pace->stretch;
	return weight;
}

static __u32 set_of(__u64 bio)
{
	return (((__u32)(bio >> 6) * 2654435761U) >> 19) & (SETS - 1);
}

/* The place of the I/O with this address; IOS if there is none. */
CHECKED_ALONE __u32 find(__u64 bio)
{
	__u32 set = set_of(bio) * WAYS, way;

	for (way = 0; way < WAYS; way++)
		if (addresses[(set + way) & (IOS - 1)] == bio)
			return (set + way) & (IOS - 1);
	return IOS;
}

static struct iolat_io *at(__u32 place)
{
	return &ios[place & (IOS - 1)];
}

static __u32 rank_of(__u32 class)
{
	return class == 1 ? RANK_RT : class == 3 ? RANK_IDLE : RANK_BE;
}

/* The place of a disk in `disks`; DISKS if there is no room. */
CHECKED_ALONE __u32 disk_of(__u32 dev)
{
	__u32 n, place;

	for (n = 0; n < DISKS; n++) {
		place = (dev + n) & (DISKS - 1);
		if (disks[place].dev == dev ||
		    !__sync_val_compare_and_swap(&disks[place].dev, 0, dev))
			return place;
	}
	return DISKS;
}

/*
 * The place of a scheduler's name in `schedulers`, the same on all CPUs; that of "none" if there
 * is no room.
 */
CHECKED_ALONE __u32 scheduler_named(__u64 first, __u64 second)
{
	__u64 key = first ^ second * 2654435761U;
	__u32 n;

	for (n = 1; n < SCHEDULERS; n++) {
		if (!__sync_val_compare_and_swap(&schedulers[n].key, 0, key)) {
			schedulers[n].word[0] = first;
			schedulers[n].word[1] = second;
		}
		if (schedulers[n].key == key)
			return n;
	}
	return 0;
}

static __u32 scheduler_of(struct elevator_queue *elevator)
{
	__u64 name[2] = {};

	if (!elevator)
		return 0;
	bpf_probe_read_kernel_str(name, sizeof(name), elevator->type->elevator_name);
	return scheduler_named(name[0], name[1]);
}

/*
 * Tells an elevator from one that had the same address before. The lowest bits are free for a
 * place.
 */
static __u64 mark_of(struct elevator_queue *elevator)
{
	return (elevator ? id_of(elevator) * 31 + id_of(elevator->type) : 1) * SCHEDULERS;
}

/*
 * The place of a disk's scheduler. One CPU records a change; the others see the new one from that
 * moment on.
 */
static __u32 current_scheduler(struct iolat_disk *disk, struct request_queue *queue)
{
	__u64 before = disk->elevator, mark = mark_of(queue->elevator);
	__u32 last = before & (SCHEDULERS - 1), now, n;

	if (before - last == mark)
		return last;
	now = scheduler_of(queue->elevator);
	if (__sync_val_compare_and_swap(&disk->elevator, before, mark | now) != before)
		return now;
	bpf_probe_read_kernel_str(disk->name, sizeof(disk->name), queue->disk->disk_name);
	if (!before || last == now)
		return now;
	n = __sync_fetch_and_add(&change_count, 1);
	changes[n & (CHANGES - 1)] =
		(struct iolat_change){ bpf_ktime_get_ns(), disk->dev, last, now };
	return now;
}

static __u32 probe(__u64 what, __u64 who, __u32 n)
{
	__u32 start = ((what ^ what >> 32 ^ who) * 2654435761U) >> 16;

	/* Steps of 1, 2, 3 and so on: rows with the same start soon take different paths. */
	return (start + n * (n + 1) / 2) & (ROWS - 1);
}

CHECKED_ALONE __u32 find_row(__u64 what, __u64 who)
{
	__u32 n, place;

	for (n = 0; n < PROBES; n++) {
		place = probe(what, who, n);
		if (rows[place].what == what && rows[place].who == who)
			return place;
	}
	return ROWS;
}

CHECKED_ALONE __u32 make_row(__u64 what, __u64 who)
{
	__u32 n, place;

	for (n = 0; n < PROBES; n++) {
		place = probe(what, who, n);
		if (rows[place].what ||
		    __sync_val_compare_and_swap(&rows[place].what, 0, WHAT_MADE))
			continue;
		rows[place].who = who;
		/* From now on find_row() finds it. */
		__sync_lock_test_and_set(&rows[place].what, what);
		__sync_fetch_and_add(&rows_used, 1);
		return place;
	}
	return ROWS;
}

/*
 * The place of an I/O's row in `rows`, which may be the row for all others; ROWS if there is no
 * room. The row keeps its key while the program runs, since rows are given back only between
 * programs. Two CPUs may make the same row twice: user space adds them up.
 */
static __u32 row_of(const struct iolat_io *io)
{
	__u32 place = find_row(io->what, io->who);

	if (place == ROWS && (!by || rows_used < (io->young ? FEW_LEFT : FEWER_LEFT)))
		place = make_row(io->what, io->who);
	if (place == ROWS && by)
		place = find_row(io->what, WHO_OTHERS);
	return place == ROWS && by ? make_row(io->what, WHO_OTHERS) : place;
}

/*
 * The operation as users know it: the kernel's writes without data are flushes, zone operations
 * have no name.
 */
static __u32 op_of(__u32 opf, __u32 bytes)
{
	__u32 op = opf & OP_MASK;

	if (op == IO_WRITE && !bytes)
		return IO_FLUSH;
	return op < 32 && IO_NAMED >> op & 1 ? op : IO_OTHER;
}

/* Class and scheduler are certain from the insertion on, and may be gone at completion. */
static void describe(struct iolat_io *io, struct request *rq)
{
	__u32 dev = disk_dev(rq->q->disk), place = disk_of(dev);
	__u16 ioprio = rq->bio->bi_ioprio;
	__u64 what = WHAT_USED | dev;

	io->known = 1;
	if (place == DISKS)
		return;
	what |= (__u64)current_scheduler(&disks[place & (DISKS - 1)], rq->q) << WHAT_SCHEDULER;
	what |= (__u64)op_of(rq->cmd_flags, rq->__data_len) << WHAT_OP;
	what |= (__u64)(ioprio >> CLASS_SHIFT) << WHAT_CLASS;
	what |= (__u64)(ioprio & LEVEL_MASK) << WHAT_LEVEL;
	io->what = what;
}

/* The first of these bios that is followed, for a request in front of which others were merged. */
CHECKED_ALONE __u32 find_behind(__u64 address, __u64 to_id)
{
	__u32 place, n;

	for (n = 0; n < FRONT_MERGES && address; n++) {
		place = find(address + to_id);
		if (place < IOS)
			return place;
		address = bio_after(address);
	}
	return IOS;
}

/* The I/O of a request: usually that of its first bio. */
static __u32 io_of(struct request *rq)
{
	struct bio *bio = rq->bio;
	__u32 place;

	if (!bio)
		return IOS;
	place = find(id_of(bio));
	if (place < IOS || !front_merged)
		return place;
	return find_behind((__u64)BPF_CORE_READ(bio, bi_next), to_id(bio));
}

static __u64 cgroup_of(struct bio *bio)
{
	return bio->bi_blkg ? bio->bi_blkg->blkcg->css.cgroup->kn->id : 0;
}

/*
 * A bio's priority. On 6.1 a bio without one gets its task's priority later; that task is running
 * now.
 */
static __u16 ioprio_of(struct bio *bio)
{
	struct io_context *context;

	if (bio->bi_ioprio)
		return bio->bi_ioprio;
	context = bpf_get_current_task_btf()->io_context;
	return context ? context->ioprio : 0;
}

static bool wanted_thread(void)
{
	__u64 id = bpf_get_current_pid_tgid();

	return (!only_process || id >> 32 == only_process) &&
	       (!only_thread || (__u32)id == only_thread);
}

static bool wanted(struct bio *bio, struct gendisk *disk)
{
	/*
	 * A device without requests (device-mapper, md) passes its bios on to a device with
	 * requests.
	 */
	if (!disk->queue->mq_ops || (only_dev != ANY && disk_dev(disk) != only_dev))
		return false;
	if (only_op != ANY && op_of(bio->bi_opf, bio->bi_iter.bi_size) != only_op)
		return false;
	if (only_class != ANY && ioprio_of(bio) >> CLASS_SHIFT != only_class)
		return false;
	if (only_cgroup && cgroup_of(bio) != only_cgroup)
		return false;
	return (!only_process && !only_thread) || wanted_thread();
}

static __u64 who_of(struct bio *bio)
{
	switch (by) {
	case BY_CGROUP:
		return cgroup_of(bio);
	case BY_PROCESS:
		return bpf_get_current_pid_tgid() >> 32;
	case BY_THREAD:
		return (__u32)bpf_get_current_pid_tgid();
	}
	return 0;
}

/* Whether the process or thread that --by counts for was started recently. */
static bool is_young(__u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (by == BY_PROCESS)
		task = task->group_leader;
	return (by == BY_PROCESS || by == BY_THREAD) && now - task->start_time < YOUNG_NS;
}

static struct iolat_line *line_of(__u32 disk, __u32 rank)
{
	__u32 line = disk << LINE_BITS | rank;

	/* 6.1 loses track of a number that is composed of two, unless the mask comes last. */
	barrier_var(line);
	return &lines[line & (LINES - 1)];
}

/* Enter the line of the I/O's class and disk. */
static void enter_line(struct iolat_io *io, __u32 place)
{
	struct iolat_line *line = line_of(io->disk, io->rank);

	io->seq = __sync_fetch_and_add(&line->tail, 1);
	line->line[io->seq & (LINE - 1)] = (__u64)io->seq << 32 | (place + 1);
	io->listed = 1;
}

static void leave_line(struct iolat_io *io)
{
	struct iolat_line *line = line_of(io->disk, io->rank);

	/* A line that is longer than LINE has overwritten its oldest entry. */
	if (line->line[io->seq & (LINE - 1)] >> 32 == io->seq)
		line->line[io->seq & (LINE - 1)] = (__u64)io->seq << 32;
	else
		count(LOST_ORDER);
	io->listed = 0;
}

static void forget(__u32 place, enum counter why)
{
	addresses[place & (IOS - 1)] = 0;
	__sync_fetch_and_add(&live, -1);
	count(why);
}

/* The I/O is no longer followed by itself. */
static void end(__u32 place, enum counter why)
{
	if (place == IOS)
		return;
	if (at(place)->listed)
		leave_line(at(place));
	forget(place, why);
}

/*
 * A free place for an address; IOS if there is none. An I/O that is still known by this address
 * had an end that was not seen.
 */
CHECKED_ALONE __u32 claim(__u64 bio)
{
	__u32 set = set_of(bio) * WAYS, way, place;

	end(find(bio), LOST_IOS);
	for (way = 0; way < WAYS; way++) {
		place = (set + way) & (IOS - 1);
		if (!addresses[place] && !__sync_val_compare_and_swap(&addresses[place], 0, bio)) {
			__sync_fetch_and_add(&live, 1);
			return place;
		}
	}
	return IOS;
}

/* A place for one more I/O that is followed; IOS if there is none. */
static __u32 follow(__u64 bio)
{
	__u32 place = claim(bio);

	count(FOLLOWED);
	if (place == IOS)
		count(LOST_IOS);
	return place;
}

/* The place of the I/O that has waited longest in a line; IOS if there is none. */
CHECKED_ALONE __u32 oldest(__u32 disk, __u32 rank)
{
	struct iolat_line *line = line_of(disk, rank);
	__u32 head = line->head, n, place = IOS;
	__u64 entry;

	for (n = 0; n < STEPS && head != line->tail; n++) {
		entry = line->line[head & (LINE - 1)];
		/* Another CPU is about to fill this entry. */
		if ((__s32)((entry >> 32) - head) < 0)
			break;
		if (entry >> 32 == head && (__u32)entry) {
			place = ((__u32)entry - 1) & (IOS - 1);
			break;
		}
		head++;
	}
	line->head = head;
	return place;
}

/* `io` goes to the device before `other`, which is older and of a higher class. */
static void invert(struct iolat_io *io, struct iolat_io *other, __u64 now)
{
	struct iolat_disk *disk = &disks[io->disk & (DISKS - 1)];
	struct iolat_pair pair = { .dev = disk->dev,
				   .scheduler = disk->elevator & (SCHEDULERS - 1),
				   .issued_class = io->ioprio >> CLASS_SHIFT,
				   .issued_level = io->ioprio & LEVEL_MASK,
				   .issued_op = io->op,
				   .waiting_class = other->ioprio >> CLASS_SHIFT,
				   .waiting_level = other->ioprio & LEVEL_MASK,
				   .waiting_op = other->op };
	struct iolat_inversion none = {}, *found;

	bpf_map_update_elem(&inversions, &pair, &none, BPF_NOEXIST);
	found = bpf_map_lookup_elem(&inversions, &pair);
	if (!found) {
		count(LOST_ORDER);
		return;
	}
	__sync_fetch_and_add(&found->count, 1);
	if (now - other->q <= found->waited)
		return;
	found->waited = now - other->q;
	found->issued_pid = io->pid;
	found->waiting_pid = other->pid;
}

/*
 * Compare an I/O that is being dispatched with the oldest of each class on its disk. An I/O that
 * has its request but was not inserted is still in its task's plug, so it was not overtaken.
 */
static void overtake(struct iolat_io *io, __u64 now)
{
	__u32 rank, place;
	struct iolat_io *other;

	for (rank = 0; rank < RANKS; rank++) {
		place = oldest(io->disk, rank);
		other = at(place);
		if (place == IOS || other->q >= io->q || (other->g && !other->i))
			continue;
		other->bypassed++;
		io->bypasses = 1;
		if (rank < io->rank)
			invert(io, other, now);
	}
}

static void begin_order(struct iolat_io *io, __u32 place, struct bio *bio, struct gendisk *disk)
{
	io->disk = disk_of(disk_dev(disk));
	if (io->disk == DISKS) {
		count(LOST_ORDER);
		return;
	}
	io->ioprio = ioprio_of(bio);
	io->op = op_of(bio->bi_opf, bio->bi_iter.bi_size);
	io->rank = rank_of(io->ioprio >> CLASS_SHIFT);
	io->pid = bpf_get_current_pid_tgid();
	enter_line(io, place);
}

static __noinline int queued(struct bio *bio, __u32 weight)
{
	struct gendisk *disk = bio->bi_bdev->bd_disk;
	struct iolat_pace *pace = this_pace();
	struct iolat_io *io;
	__u32 place;

	if (!wanted(bio, disk))
		return 0;
	place = follow(id_of(bio));
	if (place == IOS)
		return 0;
	io = at(place);
	*io = (struct iolat_io){ .q = bpf_ktime_get_ns(), .weight = weight, .who = who_of(bio) };
	io->young = is_young(io->q);
	if (review_ns && (++pace->seen >= REVIEW || io->q - pace->since > 4 * review_ns))
		review(pace, io->q);
	if (order)
		begin_order(io, place, bio, disk);
	return 0;
}

/*
 * The programs stay short while nothing is followed: the work is in a function of its own, so that
 * they save no registers for it.
 */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(bio_queue, struct bio *bio)
{
	__u32 weight = weigh(this_pace());

	return weight ? queued(bio, weight) : 0;
}

/*
 * A device without requests passed the same bio on (NVMe's multipath, md without statistics). The
 * kernel does not queue such a bio again; iolat does when it reaches a device with requests. A bio
 * of a partition is not passed on in this sense: it was queued for the same disk already, or is
 * about to be.
 */
SEC("tp_btf/block_bio_remap")
int BPF_PROG(bio_remap, struct bio *bio, dev_t from)
{
	__u32 weight;

	if (!(bio->bi_flags & queued_flag) || bio->bi_bdev->bd_dev == from ||
	    find(id_of(bio)) < IOS)
		return 0;
	weight = weigh(this_pace());
	return weight ? queued(bio, weight) : 0;
}

/* `bio` is new and covers the first part; its origin keeps the rest and is chained to it. */
SEC("tp_btf/block_split")
int BPF_PROG(bio_split, struct bio *bio)
{
	__u32 origin = find((__u64)BPF_CORE_READ(bio, bi_private) + to_id(bio)), place;
	struct iolat_io *io;

	if (origin == IOS)
		return 0;
	place = follow(id_of(bio));
	if (place == IOS)
		return 0;
	io = at(place);
	*io = *at(origin);
	if (io->listed)
		enter_line(io, place);
	return 0;
}

/* Only for the order of the waiting I/Os: whether an I/O waits for a tag or has one. */
SEC("?tp_btf/block_getrq")
int BPF_PROG(getrq, struct bio *bio)
{
	__u32 place = find(id_of(bio));

	if (place < IOS)
		at(place)->g = bpf_ktime_get_ns();
	return 0;
}

/* The bio joined another bio's request. */
static int end_bio(struct bio *bio)
{
	if (live)
		end(find(id_of(bio)), MERGED);
	return 0;
}

SEC("tp_btf/block_bio_backmerge")
int BPF_PROG(backmerge, struct bio *bio)
{
	return end_bio(bio);
}

SEC("tp_btf/block_bio_frontmerge")
int BPF_PROG(frontmerge, struct bio *bio)
{
	front_merged = true;
	return end_bio(bio);
}

/* The bio ended before it had a request; NVMe's multipath reports bios that have one, too. */
SEC("tp_btf/block_bio_complete")
int BPF_PROG(bio_complete, struct request_queue *q, struct bio *bio)
{
	__u32 place = live ? find(id_of(bio)) : IOS;

	if (place < IOS && !at(place)->known)
		end(place, FAILED);
	return 0;
}

/* `rq` was merged into its neighbour. */
SEC("tp_btf/block_rq_merge")
int BPF_PROG(rq_merge, struct request *rq)
{
	end(io_of(rq), MERGED);
	return 0;
}

/* A requeued request is inserted again; its wait began with the first insertion. */
static __noinline int inserted(struct request *rq)
{
	__u32 place = io_of(rq);
	struct iolat_io *io = at(place);

	if (place == IOS || io->i)
		return 0;
	io->i = bpf_ktime_get_ns();
	if (!io->known)
		describe(io, rq);
	return 0;
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(rq_insert, struct request *rq)
{
	return live ? inserted(rq) : 0;
}

/* The number of bios in a request, counted from the second one on. */
CHECKED_ALONE __u32 bios_from(__u64 address)
{
	__u32 n;

	for (n = 1; n < COUNTED_BIOS && address; n++)
		address = bio_after(address);
	return n;
}

CHECKED_ALONE __u32 end_joined(__u64 bio)
{
	end(find(bio), MERGED);
	return 0;
}

/* Discards join a request without an event: this is the last chance to count them as merged. */
CHECKED_ALONE __u32 end_all_joined(__u64 address, __u64 to_id)
{
	__u32 n;

	for (n = 1; n < COUNTED_BIOS && address; n++) {
		end_joined(address + to_id);
		address = bio_after(address);
	}
	return 0;
}

static __noinline void count_bios(struct iolat_io *io, struct request *rq)
{
	__u64 second = (__u64)BPF_CORE_READ(rq, bio, bi_next);

	io->bios = bios_from(second);
	if ((rq->cmd_flags & OP_MASK) == IO_DISCARD)
		end_all_joined(second, to_id(rq->bio));
}

static __noinline int issued(struct request *rq)
{
	__u32 place = io_of(rq);
	struct iolat_io *io = at(place);

	if (place == IOS)
		return 0;
	io->d = bpf_ktime_get_ns();
	if (!io->known)
		describe(io, rq);
	io->bytes = rq->__data_len;
	io->bios = 1;
	/* The request gets no more merges: its bios can be counted. */
	if (rq->bio->bi_next)
		count_bios(io, rq);
	if (!io->listed)
		return 0;
	leave_line(io);
	overtake(io, io->d);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(rq_issue, struct request *rq)
{
	return live ? issued(rq) : 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(rq_requeue, struct request *rq)
{
	__u32 place = io_of(rq);
	struct iolat_io *io = at(place);

	if (place == IOS)
		return 0;
	io->d = 0;
	/* A request for which its device has no room is requeued every few ms. */
	if (io->requeues < MOST_REQUEUES)
		io->requeues++;
	if (order && !io->listed && io->disk < DISKS)
		enter_line(io, place);
	return 0;
}

/* The number of the highest bit that is set in a value below 2^32; the value must not be 0. */
static __u32 log2_of(__u32 value)
{
	__u32 log = 0;

	if (value >> 16) {
		value >>= 16;
		log += 16;
	}
	if (value >> 8) {
		value >>= 8;
		log += 8;
	}
	if (value >> 4) {
		value >>= 4;
		log += 4;
	}
	if (value >> 2) {
		value >>= 2;
		log += 2;
	}
	return log + (value >> 1);
}

CHECKED_ALONE __u32 slot_of(__u64 value)
{
	__u32 units = value >> UNIT_BITS, shift;

	if (value >> TOP_BITS)
		return SLOTS - 1;
	if (units < SUB)
		return units;
	shift = log2_of(units) - SUB_BITS;
	return shift * SUB + (units >> shift);
}

static void raise(unsigned long long *max, __u64 value)
{
	__u64 before;
	__u32 n;

	for (n = 0; n < RAISES; n++) {
		before = *max;
		if (value <= before || __sync_val_compare_and_swap(max, before, value) == before)
			break;
	}
}

static void add(struct histogram *histogram, __u64 value, __u32 weight)
{
	__u32 slot = slot_of(value);

	__sync_fetch_and_add(&histogram->sum, value * weight);
	raise(&histogram->max, value);
	if (slot < SLOTS)
		__sync_fetch_and_add(&histogram->slots[slot], weight);
}

static void add_stage(__u32 row, enum stage stage, __u64 value, __u32 weight)
{
	__u32 place = row * STAGES + stage;
	struct histogram *histogram = bpf_map_lookup_elem(&stages, &place);

	if (histogram)
		add(histogram, value, weight);
}

/* Count an I/O after its stages were added: a reader that sees the count sees the sums too. */
static void add_cell(struct iolat_cell *cell, const struct iolat_io *io)
{
	__sync_fetch_and_add(&cell->bytes, (__u64)io->bytes * io->weight);
	__sync_fetch_and_add(&cell->bios, (__u64)io->bios * io->weight);
	if (io->requeues)
		__sync_fetch_and_add(&cell->requeues, io->requeues);
	if (io->bypasses)
		__sync_fetch_and_add(&cell->bypasses, io->bypasses);
	if (io->bypassed)
		raise(&cell->bypassed_max, io->bypassed);
	__sync_fetch_and_add(&cell->ios, io->weight);
}

/*
 * A step that never came has the time of the step before it, so that its stage is empty and the
 * sum stays exact. A flush without data is never dispatched itself, as the device gets one flush
 * for many: its whole time counts as the device's.
 */
static void finish(struct iolat_io *io, struct request *rq, __u64 c)
{
	__u32 row = io->what ? row_of(io) : ROWS;
	struct iolat_cell *cell = bpf_map_lookup_elem(&cells, &row);
	__u64 d = io->d ?: io->i, i, g = io->g ?: rq->start_time_ns;

	if (!cell) {
		count(LOST_ROWS);
		return;
	}
	/*
	 * The kernel's time may be that of an earlier request of the same plug: before Q there was
	 * no wait.
	 */
	if (g < io->q)
		g = io->q;
	d = d ?: g;
	if (g > d)
		g = d;
	/* With `none` a request may go straight to the driver: it spent no time in an elevator. */
	i = io->i ?: d;
	if (g > i)
		g = i;
	add_stage(row, Q2G, g - io->q, io->weight);
	add_stage(row, G2I, i - g, io->weight);
	add_stage(row, I2D, d - i, io->weight);
	add_stage(row, Q2D, d - io->q, io->weight);
	add_stage(row, D2C, c - d, io->weight);
	add_stage(row, Q2C, c - io->q, io->weight);
	add_cell(cell, io);
}

/* The first of these bios that is not complete when so many bytes are; 0 if there is none. */
CHECKED_ALONE __u64 first_undone(__u64 address, __u32 bytes)
{
	__u32 n, size;

	for (n = 0; n < COUNTED_BIOS && address; n++) {
		size = BPF_CORE_READ((struct bio *)address, bi_iter.bi_size);
		if (bytes < size)
			break;
		bytes -= size;
		address = bio_after(address);
	}
	return address;
}

/* Part of a request is complete: from now on its I/O is known by the first bio that is not. */
static __noinline void move_on(__u32 place, struct bio *bio, __u32 bytes)
{
	__u64 address = first_undone(number_of(bio), bytes), id = address + to_id(bio);
	__u32 to;

	if (!address || id == addresses[place & (IOS - 1)])
		return;
	to = claim(id);
	if (to == IOS) {
		end(place, LOST_IOS);
		return;
	}
	*at(to) = *at(place);
	addresses[place & (IOS - 1)] = 0;
	__sync_fetch_and_add(&live, -1);
}

static __noinline int completed(struct request *rq, __u32 bytes)
{
	__u32 place = io_of(rq);
	struct iolat_io *io = at(place);

	/*
	 * A write with flushes around it completes twice; at the second completion the flag is
	 * clear.
	 */
	if (place == IOS || rq->rq_flags & flush_flag)
		return 0;
	if (bytes < rq->__data_len) {
		move_on(place, rq->bio, bytes);
		return 0;
	}
	if (!io->known)
		describe(io, rq);
	if (io->listed)
		leave_line(io);
	finish(io, rq, bpf_ktime_get_ns());
	forget(place, FINISHED);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(rq_complete, struct request *rq, blk_status_t error, unsigned int bytes)
{
	return live ? completed(rq, bytes) : 0;
}

/*
 * What a task does: since when it is in a system call and in a file system, and which operation
 * that is.
 */
struct call {
	__u64 since;
	__u64 fs_since[FILE_OPS];
	__u32 what;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} calls SEC(".maps");

static struct call *this_call(__u64 flags)
{
	return bpf_task_storage_get(&calls, bpf_get_current_task_btf(), NULL, flags);
}

static __u32 fs_dev(struct super_block *sb)
{
	return sb->s_bdev ? disk_dev(sb->s_bdev->bd_disk) : sb->s_dev;
}

/* The place of a file system in `file_systems`; FILE_SYSTEMS if there is no room. */
static __u32 fs_of(struct super_block *sb)
{
	__u32 n, dev = fs_dev(sb);

	for (n = 0; n < FILE_SYSTEMS; n++) {
		if (!__sync_val_compare_and_swap(&file_systems[n].dev, 0, dev))
			bpf_probe_read_kernel_str(file_systems[n].type, NAME_LEN, sb->s_type->name);
		if (file_systems[n].dev == dev)
			return n;
	}
	return FILE_SYSTEMS;
}

static bool wanted_task(void)
{
	if (only_cgroup && bpf_get_current_cgroup_id() != only_cgroup)
		return false;
	return wanted_thread();
}

static int enter_fs(enum file_op op)
{
	struct call *call;

	if (!wanted_task())
		return 0;
	call = this_call(BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (call)
		call->fs_since[op] = bpf_ktime_get_ns();
	else
		count(LOST_FILES);
	return 0;
}

static void add_file(__u32 what, __u64 took)
{
	struct histogram *histogram = bpf_map_lookup_elem(&files, &what);

	if (histogram)
		add(histogram, took, 1);
	else
		count(LOST_FILES);
}

/*
 * An operation that continues in the background, or was refused because it must not wait, has not
 * taken its time yet.
 */
static int leave_fs(struct file *file, enum file_op op, long ret)
{
	struct call *call = this_call(0);
	struct super_block *sb = file->f_inode->i_sb;
	__u32 what;

	if (!call || !call->fs_since[op] || ret == -EIOCBQUEUED || ret == -EAGAIN)
		return 0;
	if (only_dev == ANY || fs_dev(sb) == only_dev) {
		what = (fs_of(sb) * FILE_OPS + op) * LAYERS;
		add_file(what + LAYER_FS, bpf_ktime_get_ns() - call->fs_since[op]);
		call->what = what + LAYER_CALL;
	}
	call->fs_since[op] = 0;
	return 0;
}

#define FILE_IO(function, op)                                                               \
	SEC("?fentry/" #function)                                                           \
	int BPF_PROG(enter_##function)                                                      \
	{                                                                                   \
		return enter_fs(op);                                                        \
	}                                                                                   \
	SEC("?fexit/" #function)                                                            \
	int BPF_PROG(leave_##function, struct kiocb *iocb, struct iov_iter *data, long ret) \
	{                                                                                   \
		return leave_fs(iocb->ki_filp, op, ret);                                    \
	}

#define FILE_FSYNC(function)                                                                     \
	SEC("?fentry/" #function)                                                                \
	int BPF_PROG(enter_##function)                                                           \
	{                                                                                        \
		return enter_fs(FILE_SYNC);                                                      \
	}                                                                                        \
	SEC("?fexit/" #function)                                                                 \
	int BPF_PROG(leave_##function, struct file *file, long from, long to, int data, int ret) \
	{                                                                                        \
		return leave_fs(file, FILE_SYNC, ret);                                           \
	}

FILE_IO(ext4_file_read_iter, FILE_READ)
FILE_IO(ext4_file_write_iter, FILE_WRITE)
FILE_FSYNC(ext4_sync_file)
FILE_IO(xfs_file_read_iter, FILE_READ)
FILE_IO(xfs_file_write_iter, FILE_WRITE)
FILE_FSYNC(xfs_file_fsync)
FILE_IO(btrfs_file_read_iter, FILE_READ)
FILE_IO(btrfs_file_write_iter, FILE_WRITE)
FILE_FSYNC(btrfs_sync_file)

/*
 * A system call counts if a file system did part of the work; calls on sockets, pipes and devices
 * don't.
 */
SEC("?tp_btf/sys_enter")
int BPF_PROG(enter_call, struct pt_regs *regs, long id)
{
	struct call *call = wanted_task() ? this_call(BPF_LOCAL_STORAGE_GET_F_CREATE) : NULL;

	if (call) {
		call->since = bpf_ktime_get_ns();
		call->what = 0;
	}
	return 0;
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(leave_call, struct pt_regs *regs, long ret)
{
	struct call *call = this_call(0);

	if (call && call->what && call->since)
		add_file(call->what, bpf_ktime_get_ns() - call->since);
	if (call)
		call->what = 0;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";

// SPDX-License-Identifier: GPL-2.0-only
/*
 * A hard disk. One arm, one medium operation at a time:
 *
 *	seek(d) = seek_track + (seek_full - seek_track) * sqrt(d / tracks)
 *
 * whose mean over random pairs of tracks is at 8/15 of that range. Then come
 * the wait until the sector comes around and the transfer at the zone's
 * rate. The platter turns with the clock, so that the same address comes by
 * at the same phase each time. When the arm is free, the drive picks the
 * command with the shortest positioning time, unless one has waited longer
 * than age_cap_ns: then the oldest. A write that has waited that long for room
 * in the cache counts too.
 *
 * After a read the drive reads on into its buffer until the arm is needed
 * elsewhere. Writes are complete in the cache, where neighbours merge; they
 * go to the medium when no read waits, compete with reads when the cache is
 * half full, and have the arm alone during a FLUSH.
 */
#include "model.h"

/* Zones of equal width, their rates in equal steps from outer to inner. */
#define HDD_ZONES 16

/* Streams that the read buffer is divided into. */
#define HDD_SEGMENTS 8

/* Places in the write cache; the firmware's table, not its memory, limits small writes. */
#define HDD_EXTENTS 128

/* Neighbours merge up to 1 MiB, so that one operation doesn't hold the arm for long. */
#define HDD_EXTENT_SECTORS 2048

/* Angles are rounded down: a sector this little past in ns is still in reach. */
#define HDD_TOLERANCE_NS 1000

/* Reading on has filled any buffer after 10 s; this keeps products below 2^64. */
#define HDD_AHEAD_NS 10000000000ULL

enum hdd_stage { HDD_DECODED, HDD_LINK_WRITE, HDD_WRITTEN, HDD_DONE };

/**
 * struct hdd_zone - tracks of the same length
 * @lba: first sector
 * @track: first track
 * @spt: sectors per track
 */
struct hdd_zone {
	u64 lba;
	u64 track;
	u64 spt;
};

/**
 * struct hdd_place - where a sector is
 * @track: counted from the outside; below 2^30, as the ranges of
 *	sectors, rpm and rate make it
 * @angle: as the time in ns after the index mark
 */
struct hdd_place {
	u32 track;
	u32 angle;
};

/**
 * struct hdd_extent - dirty data in the cache, or on its way to the medium
 * @lba: first sector
 * @sectors: length
 * @place: where @lba is
 */
struct hdd_extent {
	u64 lba;
	u32 sectors;
	struct hdd_place place;
};

/**
 * struct hdd_segment - data in the read buffer
 * @lba: first sector
 * @end: first sector behind it
 * @wanted: end of the last read by the host, from where readahead counts
 * @used: when, for replacement
 */
struct hdd_segment {
	u64 lba;
	u64 end;
	u64 wanted;
	u64 used;
};

/**
 * struct hdd - the state of a hard disk
 * @rev_ns: one revolution
 * @tracks: of all surfaces
 * @zone: the layout
 * @track: where the arm is
 * @busy_until: end of the operation on the medium, or MODEL_NEVER
 * @cmd: what it is for; NULL: a destage of @destaging
 * @destaging: extent on its way to the medium
 * @waiting: commands for the medium, in order of arrival
 * @room: writes that wait for room in the cache, in order of arrival
 * @flush: the FLUSH under way, or NULL
 * @extent: dirty data in no order
 * @extents: how many of them are used
 * @dirty: sectors in the cache, those on their way included
 * @segment: the read buffer
 * @ahead: segment that the drive is reading on, or NULL
 * @ahead_from: its end when that began
 * @ahead_at: when that began
 */
struct hdd {
	u64 rev_ns;
	u64 tracks;
	struct hdd_zone zone[HDD_ZONES];
	u64 track;
	u64 busy_until;
	struct model_cmd *cmd;
	struct hdd_extent destaging;
	struct list_head waiting;
	struct list_head room;
	struct model_cmd *flush;
	struct hdd_extent extent[HDD_EXTENTS];
	unsigned int extents;
	u64 dirty;
	struct hdd_segment segment[HDD_SEGMENTS];
	struct hdd_segment *ahead;
	u64 ahead_from;
	u64 ahead_at;
};

/* Sectors per track so that the sustained rate, skew included, is the zone's. */
static u64 hdd_spt(const struct profile *p, u64 rev_ns, unsigned int zone)
{
	s64 step = ((s64)p->inner_mbps - (s64)p->outer_mbps) * zone;
	u64 mbps = p->outer_mbps + div_s64(step, HDD_ZONES - 1);

	return max(div_u64(mbps * (rev_ns + p->skew_ns), 1000 * SECTOR_BYTES), 1ULL);
}

static void hdd_layout(struct hdd *hdd, const struct profile *p)
{
	u64 sum = 0, lba = 0, width;
	unsigned int i;

	for (i = 0; i < HDD_ZONES; i++) {
		hdd->zone[i].spt = hdd_spt(p, hdd->rev_ns, i);
		sum += hdd->zone[i].spt;
	}
	width = div64_u64(p->sectors, sum) + 1;
	for (i = 0; i < HDD_ZONES; i++) {
		hdd->zone[i].lba = lba;
		hdd->zone[i].track = width * i;
		lba += width * hdd->zone[i].spt;
	}
	hdd->tracks = width * HDD_ZONES;
}

static int hdd_init(struct model *model)
{
	struct hdd *hdd = kzalloc(sizeof(*hdd), GFP_KERNEL);

	if (!hdd)
		return -ENOMEM;
	hdd->rev_ns = div_u64(60 * 1000000000ULL, model->profile.rpm);
	hdd_layout(hdd, &model->profile);
	hdd->busy_until = MODEL_NEVER;
	INIT_LIST_HEAD(&hdd->waiting);
	INIT_LIST_HEAD(&hdd->room);
	model->drive = hdd;
	return 0;
}

static void hdd_exit(struct model *model)
{
	kfree(model->drive);
}

static const struct hdd_zone *hdd_zone_at(const struct hdd *hdd, u64 lba)
{
	unsigned int i = HDD_ZONES - 1;

	while (hdd->zone[i].lba > lba)
		i--;
	return &hdd->zone[i];
}

static struct hdd_place hdd_place_of(const struct model *model, u64 lba)
{
	const struct hdd *hdd = model->drive;
	const struct hdd_zone *zone = hdd_zone_at(hdd, lba);
	u64 track = div64_u64(lba - zone->lba, zone->spt);
	u64 sector = lba - zone->lba - track * zone->spt;
	u64 angle, turns;

	track += zone->track;
	angle = div64_u64(sector * hdd->rev_ns, zone->spt);
	angle += track * model->profile.skew_ns + model_hash(model->profile.seed);
	turns = div64_u64(angle, hdd->rev_ns);
	return (struct hdd_place){ .track = track, .angle = angle - turns * hdd->rev_ns };
}

/* Time on the medium, once the first sector is under the head. */
static u64 hdd_media_ns(const struct model *model, u64 lba, u64 sectors)
{
	const struct hdd *hdd = model->drive;
	const struct hdd_zone *zone = hdd_zone_at(hdd, lba);
	u64 first, last;

	if (!sectors)
		return 0;
	first = div64_u64(lba - zone->lba, zone->spt);
	last = div64_u64(lba - zone->lba + sectors - 1, zone->spt);
	return div64_u64(sectors * hdd->rev_ns, zone->spt) +
	       (last - first) * model->profile.skew_ns;
}

/* The skew between neighbours is just what the drive needs to go on there. */
static u64 hdd_seek_ns(const struct model *model, u32 track, bool write)
{
	const struct profile *p = &model->profile;
	const struct hdd *hdd = model->drive;
	u64 distance = track > hdd->track ? track - hdd->track : hdd->track - track;
	u64 range = max(p->seek_full_ns, p->seek_track_ns) - p->seek_track_ns;
	u64 settle = write ? p->seek_write_ns : 0;
	u64 root;

	if (distance <= 1)
		return distance ? p->skew_ns : 0;
	root = int_sqrt64(div64_u64(distance << 32, hdd->tracks));
	return settle + p->seek_track_ns + ((range * root) >> 16);
}

/* Seek and rotation from now until the place is under the head. */
static u64 hdd_position_ns(const struct model *model, struct hdd_place place, bool write)
{
	const struct hdd *hdd = model->drive;
	u64 seek = hdd_seek_ns(model, place.track, write);
	u64 arrival = model->now + seek;
	u64 phase = arrival - div64_u64(arrival, hdd->rev_ns) * hdd->rev_ns;
	u64 wait = place.angle + hdd->rev_ns + HDD_TOLERANCE_NS - phase;

	while (wait >= hdd->rev_ns)
		wait -= hdd->rev_ns;
	return seek + (wait > HDD_TOLERANCE_NS ? wait - HDD_TOLERANCE_NS : 0);
}

/* Where reading on stops. */
static u64 hdd_ahead_limit(const struct model *model, const struct hdd_segment *ahead)
{
	const struct profile *p = &model->profile;

	return min(ahead->wanted + p->readahead_kib * 2, p->sectors);
}

/* Reading on ends: the arm is needed elsewhere, or the buffer is full. */
static void hdd_leave(struct model *model)
{
	struct hdd *hdd = model->drive;

	if (!hdd->ahead)
		return;
	hdd->track = hdd_place_of(model, hdd->ahead->end).track;
	hdd->ahead = NULL;
}

/* Bring the segment that is being read on up to date. */
static void hdd_read_on(struct model *model)
{
	const struct profile *p = &model->profile;
	struct hdd *hdd = model->drive;
	u64 elapsed = min(model->now - hdd->ahead_at, HDD_AHEAD_NS);
	const struct hdd_zone *zone;
	u64 sectors, limit;

	if (!hdd->ahead)
		return;
	zone = hdd_zone_at(hdd, hdd->ahead_from);
	sectors = div64_u64(elapsed * zone->spt, hdd->rev_ns + p->skew_ns);
	limit = hdd_ahead_limit(model, hdd->ahead);
	hdd->ahead->end = min(hdd->ahead_from + sectors, limit);
	if (hdd->ahead->end == limit)
		hdd_leave(model);
}

/* The segment that holds a read's first sector, or ends there. */
static struct hdd_segment *hdd_segment_at(struct hdd *hdd, u64 lba)
{
	unsigned int i;

	for (i = 0; i < HDD_SEGMENTS; i++)
		if (hdd->segment[i].lba <= lba && lba <= hdd->segment[i].end && hdd->segment[i].end)
			return &hdd->segment[i];
	return NULL;
}

/* The first sector of a command that must come from or go to the medium. */
static u64 hdd_missing(struct hdd *hdd, const struct model_cmd *cmd)
{
	struct hdd_segment *segment;

	if (cmd->op != MODEL_READ)
		return cmd->lba;
	segment = hdd_segment_at(hdd, cmd->lba);
	return segment ? min(segment->end, cmd->lba + cmd->sectors) : cmd->lba;
}

/* Is the head, reading on, about to come to what the command misses? */
static bool hdd_continues(struct hdd *hdd, const struct model_cmd *cmd)
{
	return cmd->op == MODEL_READ && hdd->ahead && hdd_segment_at(hdd, cmd->lba) == hdd->ahead;
}

static struct hdd_segment *hdd_oldest_segment(struct hdd *hdd)
{
	struct hdd_segment *oldest = hdd->segment;
	unsigned int i;

	for (i = 1; i < HDD_SEGMENTS; i++)
		if (hdd->segment[i].used < oldest->used)
			oldest = &hdd->segment[i];
	return oldest;
}

/* A read from the medium has ended: keep it, and read on. */
static void hdd_keep(struct model *model, const struct model_cmd *cmd)
{
	struct hdd *hdd = model->drive;
	u64 end = cmd->lba + cmd->sectors;
	struct hdd_segment *segment = hdd_segment_at(hdd, cmd->lba);

	if (!segment) {
		segment = hdd_oldest_segment(hdd);
		segment->lba = cmd->lba;
	}
	segment->end = end;
	segment->wanted = end;
	segment->used = model->now;
	segment->lba = max(segment->lba, end - min(end, model->profile.readahead_kib * 4));
	hdd->ahead = segment;
	hdd->ahead_from = end;
	hdd->ahead_at = model->now;
}

/* Is the whole read in the buffer or in the write cache? */
static bool hdd_hit(struct model *model, const struct model_cmd *cmd)
{
	struct hdd *hdd = model->drive;
	u64 end = cmd->lba + cmd->sectors;
	struct hdd_segment *segment = hdd_segment_at(hdd, cmd->lba);
	unsigned int i;

	if (segment && end <= segment->end) {
		segment->wanted = max(segment->wanted, end);
		segment->used = model->now;
		return true;
	}
	for (i = 0; i < hdd->extents; i++)
		if (hdd->extent[i].lba <= cmd->lba &&
		    end <= hdd->extent[i].lba + hdd->extent[i].sectors)
			return true;
	return false;
}

static u64 hdd_cmd_cost(struct model *model, const struct model_cmd *cmd)
{
	struct hdd *hdd = model->drive;
	struct hdd_place place;

	if (hdd_continues(hdd, cmd))
		return 0;
	place = hdd_place_of(model, hdd_missing(hdd, cmd));
	return hdd_position_ns(model, place, cmd->op == MODEL_WRITE);
}

static bool hdd_overdue(const struct model *model, const struct model_cmd *cmd)
{
	return model->now - cmd->arrived > model->profile.age_cap_ns;
}

/* The command for the medium to do next. */
static struct model_cmd *hdd_choose_cmd(struct model *model, u64 *cost)
{
	struct hdd *hdd = model->drive;
	struct model_cmd *cmd, *best = NULL;

	*cost = MODEL_NEVER;
	list_for_each_entry(cmd, &hdd->waiting, node) {
		u64 ns = hdd_cmd_cost(model, cmd);

		if (ns < *cost) {
			*cost = ns;
			best = cmd;
		}
		if (hdd_overdue(model, cmd)) {
			*cost = 0;
			return cmd;
		}
	}
	return best;
}

static bool hdd_wants_destage(const struct model *model, const struct hdd *hdd)
{
	return hdd->flush || list_empty(&hdd->waiting) || !list_empty(&hdd->room) ||
	       hdd->extents > HDD_EXTENTS / 2 || hdd->dirty > model->profile.cache_kib;
}

/* The dirty extent to destage next, if it is nearer than @cost. */
static struct hdd_extent *hdd_choose_extent(struct model *model, u64 cost)
{
	struct hdd *hdd = model->drive;
	struct hdd_extent *best = NULL;
	unsigned int i;

	if (!hdd_wants_destage(model, hdd))
		return NULL;
	for (i = 0; i < hdd->extents; i++) {
		u64 ns = hdd_position_ns(model, hdd->extent[i].place, true);

		if (ns >= cost)
			continue;
		cost = ns;
		best = &hdd->extent[i];
	}
	return best;
}

static void hdd_start_extent(struct model *model, struct hdd_extent *extent)
{
	struct hdd *hdd = model->drive;

	hdd_leave(model);
	hdd->busy_until = model->now + hdd_position_ns(model, extent->place, true) +
			  hdd_media_ns(model, extent->lba, extent->sectors);
	hdd->destaging = *extent;
	hdd->cmd = NULL;
	*extent = hdd->extent[--hdd->extents];
}

static void hdd_start_cmd(struct model *model, struct model_cmd *cmd)
{
	struct hdd *hdd = model->drive;
	u64 from = hdd_missing(hdd, cmd);
	u64 cost;

	if (!hdd_continues(hdd, cmd))
		hdd_leave(model);
	cost = hdd_cmd_cost(model, cmd);
	hdd->busy_until =
		model->now + cost + hdd_media_ns(model, from, cmd->lba + cmd->sectors - from);
	hdd->cmd = cmd;
	list_del_init(&cmd->node);
}

/* Has a write waited too long for room in the cache, and longer than the command chosen? */
static bool hdd_must_destage(const struct model *model, const struct model_cmd *chosen)
{
	const struct hdd *hdd = model->drive;
	const struct model_cmd *write;

	if (list_empty(&hdd->room))
		return false;
	write = list_first_entry(&hdd->room, struct model_cmd, node);
	return hdd_overdue(model, write) && (!chosen || write->arrived < chosen->arrived);
}

/* Give a free arm something to do. */
static void hdd_go(struct model *model)
{
	struct hdd *hdd = model->drive;
	struct hdd_extent *extent;
	struct model_cmd *cmd;
	u64 cost;

	if (hdd->busy_until != MODEL_NEVER)
		return;
	hdd_read_on(model);
	cmd = hdd_choose_cmd(model, &cost);
	extent = hdd_choose_extent(model, hdd_must_destage(model, cmd) ? MODEL_NEVER : cost);
	if (extent)
		hdd_start_extent(model, extent);
	else if (cmd)
		hdd_start_cmd(model, cmd);
}

/* Put a write into the cache. False if there is no room. */
static bool hdd_cache(struct model *model, const struct model_cmd *cmd)
{
	struct hdd *hdd = model->drive;
	unsigned int i;

	if (hdd->dirty && hdd->dirty + cmd->sectors > model->profile.cache_kib * 2)
		return false;
	for (i = 0; i < hdd->extents; i++) {
		struct hdd_extent *extent = &hdd->extent[i];

		if (extent->lba + extent->sectors != cmd->lba ||
		    extent->sectors + cmd->sectors > HDD_EXTENT_SECTORS)
			continue;
		extent->sectors += cmd->sectors;
		hdd->dirty += cmd->sectors;
		return true;
	}
	if (hdd->extents == HDD_EXTENTS)
		return false;
	hdd->extent[hdd->extents++] = (struct hdd_extent){
		.lba = cmd->lba,
		.sectors = cmd->sectors,
		.place = hdd_place_of(model, cmd->lba),
	};
	hdd->dirty += cmd->sectors;
	return true;
}

static void hdd_admit(struct model *model)
{
	struct hdd *hdd = model->drive;
	struct model_cmd *cmd, *next;

	list_for_each_entry_safe(cmd, next, &hdd->room, node) {
		if (!hdd_cache(model, cmd))
			return;
		list_del_init(&cmd->node);
		model_complete(model, cmd);
	}
}

static void hdd_flush_on(struct model *model)
{
	struct hdd *hdd = model->drive;
	struct model_cmd *cmd = hdd->flush;

	if (!cmd || hdd->dirty)
		return;
	hdd->flush = NULL;
	model_schedule(model, cmd, model->now + model->profile.flush_ns, HDD_DONE);
}

/* The operation on the medium has ended. */
static void hdd_tick(struct model *model)
{
	struct hdd *hdd = model->drive;
	struct model_cmd *cmd = hdd->cmd;
	u64 end;

	if (hdd->busy_until > model->now)
		return;
	hdd->busy_until = MODEL_NEVER;
	hdd->cmd = NULL;
	end = cmd ? cmd->lba + cmd->sectors : hdd->destaging.lba + hdd->destaging.sectors;
	hdd->track = hdd_place_of(model, end - 1).track;
	if (!cmd) {
		hdd->dirty -= hdd->destaging.sectors;
		hdd_admit(model);
		hdd_flush_on(model);
	} else if (cmd->op == MODEL_READ) {
		hdd_keep(model, cmd);
		model_schedule(model, cmd, model_link(model, cmd), HDD_DONE);
	} else {
		model_complete(model, cmd);
	}
	hdd_go(model);
}

static u64 hdd_next(const struct model *model)
{
	const struct hdd *hdd = model->drive;

	return hdd->busy_until;
}

/* The end of a destage completes a command only if one waits for the cache. */
static u64 hdd_completes(const struct model *model)
{
	const struct hdd *hdd = model->drive;

	if (!hdd->cmd && !hdd->flush && list_empty(&hdd->waiting) && list_empty(&hdd->room))
		return MODEL_NEVER;
	return hdd->busy_until;
}

static u64 hdd_soonest(const struct model *model, const struct model_cmd *cmd)
{
	if (cmd->stage == HDD_DECODED || cmd->stage == HDD_LINK_WRITE)
		return model_link_end(model, cmd, cmd->due);
	return cmd->due;
}

static void hdd_start(struct model *model, struct model_cmd *cmd)
{
	const struct profile *p = &model->profile;
	struct hdd *hdd = model->drive;

	switch (cmd->op) {
	case MODEL_READ:
		model_schedule(model, cmd, model->now + p->read_latency_ns, HDD_DECODED);
		break;
	case MODEL_WRITE:
		model_schedule(model, cmd, model->now + p->write_latency_ns, HDD_LINK_WRITE);
		break;
	case MODEL_FLUSH:
		hdd->flush = cmd;
		hdd_flush_on(model);
		hdd_go(model);
		break;
	case MODEL_DISCARD:
		model_schedule(model, cmd, model->now + p->discard_ns, HDD_DONE);
		break;
	case MODEL_ZEROES:
		model_schedule(model, cmd, model->now + p->zeroes_ns, HDD_DONE);
		break;
	}
}

static void hdd_read(struct model *model, struct model_cmd *cmd)
{
	struct hdd *hdd = model->drive;

	hdd_read_on(model);
	if (hdd_hit(model, cmd)) {
		model_schedule(model, cmd, model_link(model, cmd), HDD_DONE);
		return;
	}
	list_add_tail(&cmd->node, &hdd->waiting);
	hdd_go(model);
}

static void hdd_write(struct model *model, struct model_cmd *cmd)
{
	struct hdd *hdd = model->drive;

	if (cmd->fua || !model->profile.cache_kib)
		list_add_tail(&cmd->node, &hdd->waiting);
	else if (!list_empty(&hdd->room) || !hdd_cache(model, cmd))
		list_add_tail(&cmd->node, &hdd->room);
	else
		model_complete(model, cmd);
	hdd_go(model);
}

static void hdd_expire(struct model *model, struct model_cmd *cmd)
{
	switch (cmd->stage) {
	case HDD_DECODED:
		hdd_read(model, cmd);
		break;
	case HDD_LINK_WRITE:
		model_schedule(model, cmd, model_link(model, cmd), HDD_WRITTEN);
		break;
	case HDD_WRITTEN:
		hdd_write(model, cmd);
		break;
	case HDD_DONE:
		model_complete(model, cmd);
		break;
	}
}

static void hdd_reset(struct model *model, struct list_head *orphans)
{
	struct hdd *hdd = model->drive;

	if (hdd->cmd)
		list_add_tail(&hdd->cmd->node, orphans);
	if (hdd->flush)
		list_add_tail(&hdd->flush->node, orphans);
	list_splice_tail_init(&hdd->waiting, orphans);
	list_splice_tail_init(&hdd->room, orphans);
	hdd->cmd = NULL;
	hdd->flush = NULL;
	hdd->busy_until = MODEL_NEVER;
}

const struct model_ops hdd_ops = {
	.init = hdd_init,
	.exit = hdd_exit,
	.start = hdd_start,
	.expire = hdd_expire,
	.next = hdd_next,
	.completes = hdd_completes,
	.soonest = hdd_soonest,
	.tick = hdd_tick,
	.reset = hdd_reset,
};

// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a device's I/O costs: learned from the device (learn.h), or set by an administrator, with
 * the knob "costs" of each policy.
 *
 * The knob has the parameters of struct cost_device, as "ctrl=auto kind=flash read_mbps=250 …" in
 * one line.  A write may name some of them.  The others stay as they are, unless the kind changes:
 * then they become that kind's defaults.  A write takes effect as a whole or not at all.  With
 * "ctrl=user", and where a write names parameters and no ctrl, they stay as they are; with
 * "ctrl=auto" they are what learning begins with.
 */
#include "device.h"

#include <linux/seq_file.h>
#include <linux/stddef.h>

/* One line, of which sysfs gives a page. */
#define SPLIT_COSTS_BYTES 256

/* What was measured in normalised bytes before a change of more than this part is void. */
#define SPLIT_COSTS_PART 8

static const char *const split_costs_kinds[] = {
	[COST_ROTATING] = "disk",
	[COST_FLASH] = "flash",
};

/**
 * struct split_costs_field - a parameter
 * @name: in the knob
 * @offset: of its u32 in struct cost_device
 * @kinds: of which devices, a bit each
 */
struct split_costs_field {
	const char *name;
	size_t offset;
	unsigned int kinds;
};

#define SPLIT_COSTS_FIELD(name, kinds) { #name, offsetof(struct cost_device, name), kinds }

static const struct split_costs_field split_costs_fields[] = {
	SPLIT_COSTS_FIELD(read_mbps, BIT(COST_ROTATING) | BIT(COST_FLASH)),
	SPLIT_COSTS_FIELD(write_mbps, BIT(COST_ROTATING) | BIT(COST_FLASH)),
	SPLIT_COSTS_FIELD(flush_us, BIT(COST_ROTATING) | BIT(COST_FLASH)),
	SPLIT_COSTS_FIELD(rpm, BIT(COST_ROTATING)),
	SPLIT_COSTS_FIELD(seek_track_us, BIT(COST_ROTATING)),
	SPLIT_COSTS_FIELD(seek_full_us, BIT(COST_ROTATING)),
	SPLIT_COSTS_FIELD(read_iops, BIT(COST_FLASH)),
	SPLIT_COSTS_FIELD(write_iops, BIT(COST_FLASH)),
};

static u32 *split_costs_value(struct cost_device *costs, const struct split_costs_field *field)
{
	return (void *)costs + field->offset;
}

static const char *const split_costs_ctrls[] = { [false] = "user", [true] = "auto" };

/* Writes all of it, without the line's end. */
static void split_costs_text(struct split_device *device, char *text)
{
	struct cost_device costs;
	unsigned int i;
	bool learns;
	int length;

	spin_lock_irq(&device->costs_lock);
	costs = device->costs;
	learns = device->learns;
	spin_unlock_irq(&device->costs_lock);
	length = scnprintf(text, SPLIT_COSTS_BYTES, "ctrl=%s kind=%s", split_costs_ctrls[learns],
			   split_costs_kinds[costs.kind]);
	for (i = 0; i < ARRAY_SIZE(split_costs_fields); i++)
		if (split_costs_fields[i].kinds & BIT(costs.kind))
			length += scnprintf(text + length, SPLIT_COSTS_BYTES - length, " %s=%u",
					    split_costs_fields[i].name,
					    *split_costs_value(&costs, &split_costs_fields[i]));
}

ssize_t split_costs_show(struct split_device *device, char *page)
{
	char text[SPLIT_COSTS_BYTES];

	split_costs_text(device, text);
	return sysfs_emit(page, "%s\n", text);
}
EXPORT_SYMBOL_GPL(split_costs_show);

static int split_costs_set_kind(struct cost_device *costs, const char *value)
{
	int kind = match_string(split_costs_kinds, ARRAY_SIZE(split_costs_kinds), value);

	if (kind < 0)
		return -EINVAL;
	if (kind != costs->kind)
		*costs = cost_class_default(kind, costs->capacity);
	return 0;
}

/* Takes one "name=value"; *@learns becomes 0 or 1 if it is "ctrl". */
static int split_costs_set(struct cost_device *costs, int *learns, char *word)
{
	char *value = strchr(word, '=');
	unsigned int i;

	if (!value)
		return -EINVAL;
	*value++ = '\0';
	if (!strcmp(word, "kind"))
		return split_costs_set_kind(costs, value);
	if (!strcmp(word, "ctrl")) {
		*learns = match_string(split_costs_ctrls, ARRAY_SIZE(split_costs_ctrls), value);
		return min(*learns, 0);
	}
	for (i = 0; i < ARRAY_SIZE(split_costs_fields); i++)
		if (!strcmp(word, split_costs_fields[i].name) &&
		    split_costs_fields[i].kinds & BIT(costs->kind))
			return kstrtou32(value, 10,
					 split_costs_value(costs, &split_costs_fields[i]));
	return -EINVAL;
}

/* Whether a parameter is another one, by more than a little. */
static bool split_costs_differ(struct cost_device *looked, struct cost_device *costs,
			       const struct split_costs_field *field)
{
	u32 a = *split_costs_value(looked, field), b = *split_costs_value(costs, field);

	return max(a, b) - min(a, b) > max(a, b) / SPLIT_COSTS_PART;
}

/* Has a device's I/O cost this from now on.  Return: 0 or -ERANGE. */
static int split_costs_use(struct split_device *device, struct cost_device *costs)
{
	unsigned int i, changed = 0;

	lockdep_assert_held(&device->costs_lock);
	if (cost_init(&device->model, costs))
		return -ERANGE;
	for (i = 0; i < ARRAY_SIZE(split_costs_fields); i++)
		changed |= split_costs_differ(&device->looked, costs, &split_costs_fields[i]);
	if (changed) {
		device->looked = *costs;
		WRITE_ONCE(device->costs_changed, device->costs_changed + 1);
	}
	device->costs = *costs;
	return 0;
}

/* What was learned is what I/O costs. */
static void split_costs_learned(struct split_device *device)
{
	struct cost_device costs = device->costs;

	learn_costs(&device->learn, &costs);
	split_costs_use(device, &costs);
}

/* How many requests a device takes at most. */
static unsigned int split_costs_depth(const struct request_queue *q)
{
	return min_not_zero(READ_ONCE(q->queue_depth), q->tag_set->queue_depth);
}

/**
 * split_costs_init() - begin to learn what a device's I/O costs
 * @device: with @costs, and the model made from it
 * @q: its queue
 */
void split_costs_init(struct split_device *device, struct request_queue *q)
{
	spin_lock_init(&device->costs_lock);
	device->learns = true;
	device->rests = jiffies;
	device->looked = device->costs;
	learn_init(&device->learn, &device->costs, split_costs_depth(q));
}

unsigned int split_costs_changed(const struct split_device *device)
{
	return READ_ONCE(device->costs_changed);
}
EXPORT_SYMBOL_GPL(split_costs_changed);

/* Called with the elevator's mutex held, as all stores to its knobs. */
ssize_t split_costs_store(struct split_device *device, const char *page, size_t count)
{
	char text[SPLIT_COSTS_BYTES], *rest = text, *word;
	int err = strscpy(text, page, sizeof(text)) < 0 ? -EINVAL : 0, learns = -1;
	struct cost_device costs;
	bool named = false;

	spin_lock_irq(&device->costs_lock);
	costs = device->costs;
	while (!err && (word = strsep(&rest, "\n "))) {
		err = *word ? split_costs_set(&costs, &learns, word) : 0;
		named |= *word;
	}
	err = err ?: split_costs_use(device, &costs);
	if (!err && named) {
		device->learns = learns > 0;
		learn_init(&device->learn, &costs, split_costs_depth(device->q));
		WRITE_ONCE(device->rests, jiffies);
	}
	spin_unlock_irq(&device->costs_lock);
	return err ?: count;
}
EXPORT_SYMBOL_GPL(split_costs_store);

/**
 * split_costs_given() - a device is given a request
 * @device: with it, under the policy's lock, which is taken with interrupts off
 * @terms: of what its cost is made
 * @price: that sum, in 256 normalised bytes
 *
 * What learns is told, but for reads of a device at rest.
 */
void split_costs_given(struct split_device *device, const struct cost_terms *terms, u32 price)
{
	u64 before = atomic64_fetch_add(SPLIT_INSIDE_ONE + price, &device->inside);
	unsigned int inside = before / SPLIT_INSIDE_ONE;
	u64 now = ktime_get_ns(), done = READ_ONCE(device->done_ns), before_ns;

	lockdep_assert_irqs_disabled();
	if (split_rests(device) && terms->of[COST_READ_BYTES])
		return;
	spin_lock(&device->costs_lock);
	/* If the last one's end on another CPU isn't seen yet, the device wasn't idle for long. */
	if (!inside && done > device->given_ns && done < now)
		learn_idle(&device->learn, now - done);
	device->given_ns = now;
	before_ns = split_cost_ns(device, before % SPLIT_INSIDE_ONE << 8);
	if (device->learns && learn_request(&device->learn, terms, inside, before_ns, now))
		split_costs_learned(device);
	WRITE_ONCE(device->rests, jiffies + nsecs_to_jiffies(device->learn.rest_ns));
	device->learn.rest_ns = 0;
	spin_unlock(&device->costs_lock);
}

/**
 * split_costs_look() - a device is about to have done a request
 * @device: the device
 *
 * In any context.  If it is the last one, the device has nothing to do from now on.
 */
void split_costs_look(struct split_device *device)
{
	if (split_inside_count(device) == 1)
		WRITE_ONCE(device->done_ns, ktime_get_ns());
}

/**
 * split_costs_flush() - a device flushes its cache
 * @device: the device
 * @what: it begins to, or has done so
 *
 * In any context, under RCU.
 */
void split_costs_flush(struct split_device *device, enum split_flush what)
{
	unsigned long flags;

	spin_lock_irqsave(&device->costs_lock, flags);
	if (what == SPLIT_FLUSH_BEGINS)
		learn_flush(&device->learn, ktime_get_ns());
	else if (what == SPLIT_FLUSH_BEGINS_ANEW)
		learn_unflushed(&device->learn, ktime_get_ns());
	else if (learn_flushed(&device->learn, split_inside_count(device), ktime_get_ns()) &&
		 device->learns)
		split_costs_learned(device);
	spin_unlock_irqrestore(&device->costs_lock, flags);
}

/**
 * split_costs_line() - write a line of what a device's I/O costs
 * @device: the device
 * @m: for debugfs
 */
void split_costs_line(struct split_device *device, struct seq_file *m)
{
	char text[SPLIT_COSTS_BYTES];

	split_costs_text(device, text);
	seq_printf(m, "%s %s inside=%u\n", device->disk, text, split_inside_count(device));
}

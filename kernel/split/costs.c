// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a device's I/O costs, as set by an administrator: the knob "costs" of each policy.
 *
 * It has the parameters of struct cost_device, as "kind=flash read_mbps=250 …" in one line.  A
 * write may name some of them.  The others stay as they are, unless the kind changes: then they
 * become that kind's defaults.  A write takes effect as a whole or not at all.
 *
 * A device has two models, of which one is used.  Its users have preemption off, a spinlock or RCU.
 * The other one is filled in and takes its place.  The first is free once it has no user any more.
 */
#include "device.h"

#include <linux/stddef.h>

/* One line, of which sysfs gives a page. */
#define SPLIT_COSTS_BYTES 256

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

ssize_t split_costs_show(struct split_device *device, char *page)
{
	struct cost_device costs = device->costs;
	ssize_t length = sysfs_emit(page, "kind=%s", split_costs_kinds[costs.kind]);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(split_costs_fields); i++)
		if (split_costs_fields[i].kinds & BIT(costs.kind))
			length += sysfs_emit_at(page, length, " %s=%u", split_costs_fields[i].name,
						*split_costs_value(&costs, &split_costs_fields[i]));
	return length + sysfs_emit_at(page, length, "\n");
}
EXPORT_SYMBOL_GPL(split_costs_show);

static int split_costs_set_kind(struct cost_device *costs, const char *value)
{
	int kind = match_string(split_costs_kinds, ARRAY_SIZE(split_costs_kinds), value);

	if (kind < 0)
		return -EINVAL;
	if (kind != costs->kind)
		*costs = cost_device(kind, costs->capacity);
	return 0;
}

/* Takes one "name=value". */
static int split_costs_set(struct cost_device *costs, char *word)
{
	char *value = strchr(word, '=');
	unsigned int i;

	if (!value)
		return -EINVAL;
	*value++ = '\0';
	if (!strcmp(word, "kind"))
		return split_costs_set_kind(costs, value);
	for (i = 0; i < ARRAY_SIZE(split_costs_fields); i++)
		if (!strcmp(word, split_costs_fields[i].name) &&
		    split_costs_fields[i].kinds & BIT(costs->kind))
			return kstrtou32(value, 10,
					 split_costs_value(costs, &split_costs_fields[i]));
	return -EINVAL;
}

/* Called with the elevator's mutex held, as all stores to its knobs. */
ssize_t split_costs_store(struct split_device *device, const char *page, size_t count)
{
	struct cost_model *model = &device->models[device->model == &device->models[0]];
	struct cost_device costs = device->costs;
	char text[SPLIT_COSTS_BYTES], *rest = text, *word;
	int err = strscpy(text, page, sizeof(text)) < 0 ? -EINVAL : 0;

	while (!err && (word = strsep(&rest, "\n ")))
		err = *word ? split_costs_set(&costs, word) : 0;
	err = err ?: cost_init(model, &costs);
	if (err)
		return err;
	device->costs = costs;
	/* Pairs with split_model(). */
	smp_store_release(&device->model, model);
	synchronize_rcu();
	return count;
}
EXPORT_SYMBOL_GPL(split_costs_store);

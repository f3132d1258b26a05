// SPDX-License-Identifier: GPL-2.0-only
/*
 * Settings of cgroups, in every cgroup but the root, and names.  See cause.h.
 *
 *	io.sluice.weight	its part of a disk; 1 to 1000, or "default"
 *	io.sluice.rate		what it and all below it may cost a disk, normalised bytes a
 *				second; or "max"
 *
 * A weight is that of the nearest cgroup that has one.  Rates hold all at once: whoever may
 * set one below a cgroup can't get past that of the cgroup.
 */
#include "cause.h"

#include <linux/cgroup.h>
#include <linux/slab.h>

/**
 * struct cause_cgroup - settings of a cgroup
 * @cpd: the block layer's
 * @weight: 1 to CAUSE_WEIGHT_MAX; 0: none
 * @rate: CAUSE_RATE_MIN to CAUSE_RATE_MAX; 0: none; read without the lock
 * @place: valid while it has a rate
 */
struct cause_cgroup {
	struct blkcg_policy_data cpd;
	unsigned int weight;
	unsigned int place;
	u64 rate;
};

atomic_t cause_settings;
EXPORT_SYMBOL_GPL(cause_settings);

static DEFINE_SPINLOCK(cause_lock); /* guards changes of rates, and places */
static struct cause_cgroup *cause_places[CAUSE_PLACES]; /* by their owners */

static struct blkcg_policy_data *cause_cgroup_alloc(gfp_t gfp)
{
	struct cause_cgroup *cgroup = kzalloc(sizeof(*cgroup), gfp);

	return cgroup ? &cgroup->cpd : NULL;
}

static void cause_set_weight(struct cause_cgroup *cgroup, unsigned int weight)
{
	unsigned int before = xchg(&cgroup->weight, weight);

	if (weight && !before)
		atomic_inc(&cause_settings);
	if (!weight && before)
		atomic_dec(&cause_settings);
}

/* The rate of a cgroup that has a place, and its place, go. */
static void cause_give_place(struct cause_cgroup *cgroup)
{
	lockdep_assert_held(&cause_lock);
	WRITE_ONCE(cgroup->rate, 0);
	cause_places[cgroup->place] = NULL;
	atomic_dec(&cause_settings);
}

/* Who has a rate for the first time gets a place: a free one, or that of one who is gone. */
static int cause_take_place(struct cause_cgroup *cgroup)
{
	unsigned int place;

	lockdep_assert_held(&cause_lock);
	for (place = 0; place < CAUSE_PLACES; place++) {
		struct cause_cgroup *owner = cause_places[place];

		if (owner && !css_is_dying(&owner->cpd.blkcg->css))
			continue;
		if (owner)
			cause_give_place(owner);
		cause_places[place] = cgroup;
		cgroup->place = place;
		atomic_inc(&cause_settings);
		return 0;
	}
	return -ENOSPC;
}

static int cause_set_rate(struct cause_cgroup *cgroup, u64 rate)
{
	int err = 0;

	spin_lock_irq(&cause_lock);
	if (rate && !cgroup->rate)
		err = cause_take_place(cgroup);
	if (rate && !err)
		/* Pairs with cause_next_limit(): who sees the rate sees the place. */
		smp_store_release(&cgroup->rate, rate);
	if (!rate && cgroup->rate)
		cause_give_place(cgroup);
	spin_unlock_irq(&cause_lock);
	return err;
}

static void cause_cgroup_free(struct blkcg_policy_data *cpd)
{
	struct cause_cgroup *cgroup = container_of(cpd, struct cause_cgroup, cpd);

	cause_set_weight(cgroup, 0);
	cause_set_rate(cgroup, 0);
	kfree(cgroup);
}

static struct blkcg_policy cause_policy;

static struct cause_cgroup *cause_cgroup(struct cgroup_subsys_state *css)
{
	struct blkcg *blkcg = container_of(css, struct blkcg, css);

	return container_of(blkcg->cpd[cause_policy.plid], struct cause_cgroup, cpd);
}

static int cause_weight_show(struct seq_file *m, void *unused)
{
	unsigned int weight = READ_ONCE(cause_cgroup(seq_css(m))->weight);

	if (weight)
		seq_printf(m, "%u\n", weight);
	else
		seq_puts(m, "default\n");
	return 0;
}

static ssize_t cause_weight_write(struct kernfs_open_file *of, char *text, size_t size, loff_t at)
{
	unsigned int weight = 0;
	int err;

	text = strim(text);
	if (strcmp(text, "default")) {
		err = kstrtouint(text, 10, &weight);
		if (err)
			return err;
		if (!weight || weight > CAUSE_WEIGHT_MAX)
			return -ERANGE;
	}
	cause_set_weight(cause_cgroup(of_css(of)), weight);
	return size;
}

static int cause_rate_show(struct seq_file *m, void *unused)
{
	u64 rate = READ_ONCE(cause_cgroup(seq_css(m))->rate);

	if (rate)
		seq_printf(m, "%llu\n", rate);
	else
		seq_puts(m, "max\n");
	return 0;
}

static ssize_t cause_rate_write(struct kernfs_open_file *of, char *text, size_t size, loff_t at)
{
	u64 rate = 0;
	int err;

	text = strim(text);
	if (strcmp(text, "max")) {
		err = kstrtou64(text, 10, &rate);
		if (err)
			return err;
		if (rate < CAUSE_RATE_MIN || rate > CAUSE_RATE_MAX)
			return -ERANGE;
	}
	return cause_set_rate(cause_cgroup(of_css(of)), rate) ?: size;
}

static struct cftype cause_files[] = {
	{
		.name = "sluice.weight",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = cause_weight_show,
		.write = cause_weight_write,
	},
	{
		.name = "sluice.rate",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = cause_rate_show,
		.write = cause_rate_write,
	},
	{},
};

static struct blkcg_policy cause_policy = {
	.dfl_cftypes = cause_files,
	.cpd_alloc_fn = cause_cgroup_alloc,
	.cpd_free_fn = cause_cgroup_free,
};

static u64 cause_cgroup_name(struct cgroup_subsys_state *css)
{
	unsigned int weight = READ_ONCE(cause_cgroup(css)->weight) ?: CAUSE_WEIGHT;

	return CAUSE_CGROUP | cgroup_id(css->cgroup) << CAUSE_WEIGHT_BITS | weight;
}

/* The nearest cgroup with a setting; NULL if there is none. */
static struct cgroup_subsys_state *cause_nearest(struct cgroup_subsys_state *css)
{
	const struct cause_cgroup *cgroup;

	for (; css && css->parent; css = css->parent) {
		cgroup = cause_cgroup(css);
		if (READ_ONCE(cgroup->weight) || READ_ONCE(cgroup->rate))
			return css;
	}
	return NULL;
}

/**
 * cause_of_css() - who is charged for what a cgroup dirtied
 * @css: the cgroup, of the io controller; under RCU or with a reference; may be NULL
 *
 * Return: the nearest cgroup with a setting, else itself; for the root all kernel threads.
 */
u64 cause_of_css(struct cgroup_subsys_state *css)
{
	if (!css || !css->parent)
		return CAUSE_KERNEL;
	return cause_cgroup_name(cause_nearest(css) ?: css);
}
EXPORT_SYMBOL_GPL(cause_of_css);

/**
 * cause_meet() - who the current task is, and which cgroup he is
 * @css: becomes the cgroup, of the io controller, for as long as RCU lasts; NULL if it is a
 *	 thread group
 *
 * Under RCU.
 *
 * Return: what cause_of_task() returns.
 */
u64 cause_meet(struct cgroup_subsys_state **css)
{
	*css = cause_nearest(task_css(current, io_cgrp_id));
	return *css ? cause_cgroup_name(*css) : cause_of_thread_group();
}
EXPORT_SYMBOL_GPL(cause_meet);

/* cause_of_task() where some cgroup has a setting. */
u64 cause_of_cgroup(void)
{
	struct cgroup_subsys_state *css;
	u64 name;

	rcu_read_lock();
	name = cause_meet(&css);
	rcu_read_unlock();
	return name;
}
EXPORT_SYMBOL_GPL(cause_of_cgroup);

/**
 * cause_next_limit() - whose rates hold for a cgroup
 * @css: where to begin, with a reference or under RCU; becomes where to go on
 * @limit: becomes what was found
 *
 * In any context.  From the cgroup upwards, each time the next one with a rate.
 *
 * Return: whether there is one more.
 */
bool cause_next_limit(struct cgroup_subsys_state **css, struct cause_limit *limit)
{
	const struct cause_cgroup *cgroup;

	for (; *css && (*css)->parent; *css = (*css)->parent) {
		cgroup = cause_cgroup(*css);
		/* Pairs with cause_set_rate(). */
		limit->rate = smp_load_acquire(&cgroup->rate);
		if (!limit->rate)
			continue;
		limit->place = cgroup->place;
		limit->cgroup = cgroup_id((*css)->cgroup);
		*css = (*css)->parent;
		return true;
	}
	return false;
}
EXPORT_SYMBOL_GPL(cause_next_limit);

/**
 * cause_has_limit() - whether a cgroup still has its rate
 * @place: of its limit, as cause_next_limit() said
 * @cgroup: likewise
 *
 * In any context.
 */
bool cause_has_limit(unsigned int place, u64 cgroup)
{
	const struct cause_cgroup *owner;
	unsigned long flags;
	bool has;

	spin_lock_irqsave(&cause_lock, flags);
	owner = cause_places[place];
	has = owner && cgroup_id(owner->cpd.blkcg->css.cgroup) == cgroup;
	spin_unlock_irqrestore(&cause_lock, flags);
	return has;
}
EXPORT_SYMBOL_GPL(cause_has_limit);

static int __init cause_init(void)
{
	return blkcg_policy_register(&cause_policy);
}

static void __exit cause_exit(void)
{
	blkcg_policy_unregister(&cause_policy);
}

module_init(cause_init);
module_exit(cause_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Who causes I/O, with which weight and rate");

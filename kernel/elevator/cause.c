// SPDX-License-Identifier: GPL-2.0-only
/*
 * Settings of cgroups, in every cgroup but the root, and the names of causes.  See cause.h.
 *
 *	io.sluice.weight	its part of a disk; 1 to 1000, or "default"
 *	io.sluice.rate		what it and all below it may cost a disk, normalised bytes a
 *				second; or "max"
 *	io.sluice.deadline	read=100 fsync=100 to 60000000: microseconds that its reads,
 *				and its fsyncs, may take; or "default" for either
 *
 * The weight is that of the nearest cgroup that has one.  All rates up to the root apply at once,
 * so a rate set in a delegated cgroup can't exceed its parent's.  The deadline is that of the
 * nearest cgroup that has one.  But without CAP_SYS_NICE a cgroup can only lengthen its parent's
 * deadline: when the parent's deadline grows past the child's, the child follows.
 */
#include "cause-file.h"

#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/dcache.h>
#include <linux/slab.h>

/* A deadline that was set with CAP_SYS_NICE, and may be shorter than the parent's. */
#define CAUSE_CAPABLE BIT(31)

static const char *const cause_deadline_names[CAUSE_DEADLINES] = { "read", "fsync" };

/**
 * struct cause_cgroup - settings of a cgroup
 * @cpd: the block layer's
 * @weight: 1 to CAUSE_WEIGHT_MAX; 0: none
 * @rate: CAUSE_RATE_MIN to CAUSE_RATE_MAX; 0: none; read without the lock
 * @place: valid while it has a rate
 * @delegate: the delegated cgroup that the rate was set in, see cause_delegate(); 0: an
 *	      administrator set it; valid while it has a rate
 * @deadline: CAUSE_DEADLINE_MIN to CAUSE_DEADLINE_MAX, and CAUSE_CAPABLE; 0: none
 */
struct cause_cgroup {
	struct blkcg_policy_data cpd;
	unsigned int weight;
	unsigned int place;
	u64 rate;
	u64 delegate;
	unsigned int deadline[CAUSE_DEADLINES];
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

/* Sets a setting and counts it; the value 0 removes it. */
static void cause_set(unsigned int *setting, unsigned int value)
{
	unsigned int before = xchg(setting, value);

	if (value && !before)
		atomic_inc(&cause_settings);
	if (!value && before)
		atomic_dec(&cause_settings);
}

/* A cgroup loses its rate and its place. */
static void cause_give_place(struct cause_cgroup *cgroup)
{
	lockdep_assert_held(&cause_lock);
	WRITE_ONCE(cgroup->rate, 0);
	cause_places[cgroup->place] = NULL;
	atomic_dec(&cause_settings);
}

/* A cgroup with its first rate takes a place: a free one, or that of a removed cgroup. */
static int cause_take_place(struct cause_cgroup *cgroup, u64 delegate)
{
	unsigned int place, found = CAUSE_PLACES, delegated = 0, own = 0;

	lockdep_assert_held(&cause_lock);
	for (place = 0; place < CAUSE_PLACES; place++) {
		struct cause_cgroup *owner = cause_places[place];

		if (owner && css_is_dying(&owner->cpd.blkcg->css))
			cause_give_place(owner);
		if (!cause_places[place]) {
			found = min(found, place);
			continue;
		}
		delegated += !!owner->delegate;
		own += owner->delegate == delegate;
	}
	if (found == CAUSE_PLACES ||
	    (delegate && (delegated >= CAUSE_DELEGATED || own >= CAUSE_DELEGATED_EACH)))
		return -ENOSPC;
	cause_places[found] = cgroup;
	cgroup->place = found;
	cgroup->delegate = delegate;
	atomic_inc(&cause_settings);
	return 0;
}

static int cause_set_rate(struct cause_cgroup *cgroup, u64 rate, u64 delegate)
{
	int err = 0;

	spin_lock_irq(&cause_lock);
	if (rate && !cgroup->rate)
		err = cause_take_place(cgroup, delegate);
	if (rate && !err)
		/* Pairs with cause_next_limit(): a reader that sees the rate sees the place. */
		smp_store_release(&cgroup->rate, rate);
	if (!rate && cgroup->rate)
		cause_give_place(cgroup);
	spin_unlock_irq(&cause_lock);
	return err;
}

static void cause_cgroup_free(struct blkcg_policy_data *cpd)
{
	struct cause_cgroup *cgroup = container_of(cpd, struct cause_cgroup, cpd);
	unsigned int i;

	cause_set(&cgroup->weight, 0);
	cause_set_rate(cgroup, 0, 0);
	for (i = 0; i < CAUSE_DEADLINES; i++)
		cause_set(&cgroup->deadline[i], 0);
	kfree(cgroup);
}

static struct blkcg_policy cause_policy;

static struct cause_cgroup *cause_cgroup_of(struct cgroup_subsys_state *css)
{
	struct blkcg *blkcg = container_of(css, struct blkcg, css);

	return container_of(blkcg->cpd[cause_policy.plid], struct cause_cgroup, cpd);
}

static int cause_weight_show(struct seq_file *m, void *unused)
{
	unsigned int weight = READ_ONCE(cause_cgroup_of(seq_css(m))->weight);

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
	cause_set(&cause_cgroup_of(of_css(of))->weight, weight);
	return size;
}

static int cause_rate_show(struct seq_file *m, void *unused)
{
	u64 rate = READ_ONCE(cause_cgroup_of(seq_css(m))->rate);

	if (rate)
		seq_printf(m, "%llu\n", rate);
	else
		seq_puts(m, "max\n");
	return 0;
}

/*
 * The delegated cgroup of a file that was opened without CAP_SYS_ADMIN: the highest one above the
 * file whose directory isn't owned by root.  A cgroup can't be moved, so the directories above an
 * open file stay the same.
 *
 * Return: its inode number; 1, the root's, if all directories are root's; 0 for an
 * administrator.
 */
static u64 cause_delegate(const struct file *file)
{
	const struct dentry *dentry;
	u64 delegate = 1;

	if (file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN))
		return 0;
	for (dentry = file->f_path.dentry->d_parent; !IS_ROOT(dentry); dentry = dentry->d_parent)
		if (!uid_eq(d_inode(dentry)->i_uid, GLOBAL_ROOT_UID))
			delegate = d_inode(dentry)->i_ino;
	return delegate;
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
	return cause_set_rate(cause_cgroup_of(of_css(of)), rate, cause_delegate(of->file)) ?: size;
}

static int cause_deadline_show(struct seq_file *m, void *unused)
{
	const struct cause_cgroup *cgroup = cause_cgroup_of(seq_css(m));
	unsigned int i;

	for (i = 0; i < CAUSE_DEADLINES; i++) {
		unsigned int us = READ_ONCE(cgroup->deadline[i]) & ~CAUSE_CAPABLE;

		seq_printf(m, "%s%s=", i ? " " : "", cause_deadline_names[i]);
		if (us)
			seq_printf(m, "%u", us);
		else
			seq_puts(m, "default");
	}
	seq_putc(m, '\n');
	return 0;
}

/* "read=5000", say.  Return: which it is, or a negative error. */
static int cause_parse_deadline(char *text, unsigned int *us)
{
	char *value = strchr(text, '=');
	int which, err;

	if (!value)
		return -EINVAL;
	*value++ = '\0';
	which = match_string(cause_deadline_names, CAUSE_DEADLINES, text);
	if (which < 0)
		return -EINVAL;
	*us = 0;
	if (!strcmp(value, "default"))
		return which;
	err = kstrtouint(value, 10, us);
	if (err)
		return err;
	return *us < CAUSE_DEADLINE_MIN || *us > CAUSE_DEADLINE_MAX ? -ERANGE : which;
}

/* All of the text takes effect, or nothing. */
static ssize_t cause_deadline_write(struct kernfs_open_file *of, char *text, size_t size, loff_t at)
{
	struct cgroup_subsys_state *css = of_css(of);
	bool capable = file_ns_capable(of->file, &init_user_ns, CAP_SYS_NICE);
	unsigned int deadline[CAUSE_DEADLINES], us, i, given = 0;
	char *word;
	int which;

	text = strim(text);
	while ((word = strsep(&text, " \t\n"))) {
		if (!*word)
			continue;
		which = cause_parse_deadline(word, &us);
		if (which < 0)
			return which;
		if (us && !capable && us < cause_longest_deadline(css->parent, which, 0))
			return -EPERM;
		deadline[which] = us | (us && capable ? CAUSE_CAPABLE : 0);
		given |= BIT(which);
	}
	if (!given)
		return -EINVAL;
	for (i = 0; i < CAUSE_DEADLINES; i++)
		if (given & BIT(i))
			cause_set(&cause_cgroup_of(css)->deadline[i], deadline[i]);
	return size;
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
	{
		.name = "sluice.deadline",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = cause_deadline_show,
		.write = cause_deadline_write,
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
	unsigned int weight = READ_ONCE(cause_cgroup_of(css)->weight) ?: CAUSE_WEIGHT;

	return CAUSE_CGROUP | cgroup_id(css->cgroup) << CAUSE_WEIGHT_BITS | weight;
}

static bool cause_has_setting(const struct cause_cgroup *cgroup)
{
	return READ_ONCE(cgroup->weight) || READ_ONCE(cgroup->rate) ||
	       READ_ONCE(cgroup->deadline[CAUSE_READ]) || READ_ONCE(cgroup->deadline[CAUSE_FSYNC]);
}

/* The nearest cgroup with a setting; NULL if there is none. */
static struct cgroup_subsys_state *cause_nearest(struct cgroup_subsys_state *css)
{
	for (; css && css->parent; css = css->parent)
		if (cause_has_setting(cause_cgroup_of(css)))
			return css;
	return NULL;
}

/**
 * cause_of_css() - the cause that is charged for what a cgroup dirtied
 * @css: the cgroup, of the io controller; under RCU or with a reference; may be NULL
 *
 * Return: the nearest cgroup with a setting, else @css itself; for the root, all kernel threads.
 */
u64 cause_of_css(struct cgroup_subsys_state *css)
{
	if (!css || !css->parent)
		return CAUSE_KERNEL;
	return cause_cgroup_name(cause_nearest(css) ?: css);
}
EXPORT_SYMBOL_GPL(cause_of_css);

/**
 * cause_of_current() - the current task's cause, and its cgroup
 * @css: becomes the cgroup, of the io controller, for as long as RCU lasts; NULL if the cause is a
 *	 thread group
 *
 * Under RCU.
 *
 * Return: what cause_of_task() returns.
 */
u64 cause_of_current(struct cgroup_subsys_state **css)
{
	*css = cause_nearest(task_css(current, io_cgrp_id));
	return *css ? cause_cgroup_name(*css) : cause_of_thread_group();
}
EXPORT_SYMBOL_GPL(cause_of_current);

/* cause_of_task() where some cgroup has a setting. */
u64 cause_of_cgroup(void)
{
	struct cgroup_subsys_state *css;
	u64 name;

	rcu_read_lock();
	name = cause_of_current(&css);
	rcu_read_unlock();
	return name;
}
EXPORT_SYMBOL_GPL(cause_of_cgroup);

/**
 * cause_next_limit() - the rates that apply to a cgroup, one after another
 * @css: where to begin, with a reference or under RCU; becomes where to continue
 * @limit: becomes what was found
 *
 * In any context.  Each call finds the next cgroup with a rate, from @css upwards.
 *
 * Return: whether one was found.
 */
bool cause_next_limit(struct cgroup_subsys_state **css, struct cause_limit *limit)
{
	const struct cause_cgroup *cgroup;

	for (; *css && (*css)->parent; *css = (*css)->parent) {
		cgroup = cause_cgroup_of(*css);
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
 * cause_limited() - the nearest cgroup with a rate
 * @css: where to begin, with a reference or under RCU; becomes the cgroup that was found
 * @delegated: becomes whether its rate was set without CAP_SYS_ADMIN
 *
 * In any context.  Return: its name; 0 if neither the cgroup nor one above it has a rate.
 */
u64 cause_limited(struct cgroup_subsys_state **css, bool *delegated)
{
	for (; *css && (*css)->parent; *css = (*css)->parent) {
		const struct cause_cgroup *cgroup = cause_cgroup_of(*css);

		/* Pairs with cause_set_rate(). */
		if (!smp_load_acquire(&cgroup->rate))
			continue;
		*delegated = cgroup->delegate;
		return cause_cgroup_name(*css);
	}
	return 0;
}
EXPORT_SYMBOL_GPL(cause_limited);

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

/**
 * cause_longest_deadline() - how long a cgroup's I/O may take
 * @css: with a reference or under RCU; NULL: the cause has no cgroup
 * @what: reads or fsyncs
 * @otherwise: the default where no cgroup has a deadline, microseconds
 *
 * In any context.  Return: microseconds.
 */
unsigned int cause_longest_deadline(struct cgroup_subsys_state *css, enum cause_deadline what,
				    unsigned int otherwise)
{
	unsigned int deadline, longest = 0;

	while (css && css->parent) {
		deadline = READ_ONCE(cause_cgroup_of(css)->deadline[what]);
		longest = max(longest, deadline & ~CAUSE_CAPABLE);
		if (deadline & CAUSE_CAPABLE)
			return longest;
		css = css->parent;
	}
	return max(longest, otherwise);
}
EXPORT_SYMBOL_GPL(cause_longest_deadline);

static int __init cause_init(void)
{
	int err = blkcg_policy_register(&cause_policy);

	if (err)
		return err;
	/* Last: from then on a process may have it open. */
	err = cause_file_init();
	if (err)
		blkcg_policy_unregister(&cause_policy);
	return err;
}

static void __exit cause_exit(void)
{
	cause_file_exit();
	blkcg_policy_unregister(&cause_policy);
}

module_init(cause_init);
module_exit(cause_exit);

MODULE_AUTHOR("Sluice developers");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Causes of I/O: weights, rates and deadlines of cgroups and processes");

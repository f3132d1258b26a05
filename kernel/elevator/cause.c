// SPDX-License-Identifier: GPL-2.0-only
/* Weights of cgroups, io.sluice.weight in every cgroup but the root, and names.  See cause.h. */
#include "cause.h"

#include <linux/cgroup.h>
#include <linux/slab.h>

struct cause_cgroup {
	struct blkcg_policy_data cpd;
	unsigned int weight;
};

atomic_t cause_weights;
EXPORT_SYMBOL_GPL(cause_weights);

static struct blkcg_policy_data *cause_cgroup_alloc(gfp_t gfp)
{
	struct cause_cgroup *cgroup = kzalloc(sizeof(*cgroup), gfp);

	return cgroup ? &cgroup->cpd : NULL;
}

static void cause_set_weight(struct cause_cgroup *cgroup, unsigned int weight)
{
	unsigned int before = xchg(&cgroup->weight, weight);

	if (weight && !before)
		atomic_inc(&cause_weights);
	if (!weight && before)
		atomic_dec(&cause_weights);
}

static void cause_cgroup_free(struct blkcg_policy_data *cpd)
{
	struct cause_cgroup *cgroup = container_of(cpd, struct cause_cgroup, cpd);

	cause_set_weight(cgroup, 0);
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

static struct cftype cause_files[] = { {
					       .name = "sluice.weight",
					       .flags = CFTYPE_NOT_ON_ROOT,
					       .seq_show = cause_weight_show,
					       .write = cause_weight_write,
				       },
				       {} };

static struct blkcg_policy cause_policy = {
	.dfl_cftypes = cause_files,
	.cpd_alloc_fn = cause_cgroup_alloc,
	.cpd_free_fn = cause_cgroup_free,
};

static u64 cause_cgroup_name(struct cgroup_subsys_state *css, unsigned int weight)
{
	return CAUSE_CGROUP | cgroup_id(css->cgroup) << CAUSE_WEIGHT_BITS | weight;
}

/* The name of the nearest cgroup with a weight; 0 if there is none. */
static u64 cause_weighted(struct cgroup_subsys_state *css)
{
	unsigned int weight;

	for (; css && css->parent; css = css->parent) {
		weight = READ_ONCE(cause_cgroup(css)->weight);
		if (weight)
			return cause_cgroup_name(css, weight);
	}
	return 0;
}

/**
 * cause_of_css() - who is charged for what a cgroup dirtied
 * @css: the cgroup, of the io controller; under RCU or with a reference; may be NULL
 *
 * Return: the nearest cgroup with a weight, else itself; for the root all kernel threads.
 */
u64 cause_of_css(struct cgroup_subsys_state *css)
{
	if (!css || !css->parent)
		return CAUSE_KERNEL;
	return cause_weighted(css) ?: cause_cgroup_name(css, CAUSE_WEIGHT);
}
EXPORT_SYMBOL_GPL(cause_of_css);

/* cause_of_task() where some cgroup has a weight. */
u64 cause_of_cgroup(void)
{
	u64 name;

	rcu_read_lock();
	name = cause_weighted(task_css(current, io_cgrp_id));
	rcu_read_unlock();
	return name ?: cause_of_thread_group();
}
EXPORT_SYMBOL_GPL(cause_of_cgroup);

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
MODULE_DESCRIPTION("Who causes I/O, and with which weight");

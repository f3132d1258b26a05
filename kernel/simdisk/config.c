// SPDX-License-Identifier: GPL-2.0-only
/*
 * The user's side: /sys/kernel/config/simdisk/NAME is a drive, its files are
 * the parameters, "power" plugs it in and out.
 */
#define pr_fmt(fmt) "simdisk: " fmt

#include <linux/configfs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include "disk.h"

/**
 * struct config - a directory of the user
 * @item: in configfs
 * @lock: held to change a parameter or the power of @disk
 * @disk: the drive
 */
struct config {
	struct config_item item;
	struct mutex lock; /* parameters and power */
	struct disk disk;
};

static struct config *to_config(struct config_item *item)
{
	return container_of(item, struct config, item);
}

static bool config_powered(struct config *config)
{
	lockdep_assert_held(&config->lock);
	return config->disk.gendisk;
}

/* Parameters are constant while the drive has power. */
static int config_must_be_off(struct config *config, const char *what)
{
	if (!config_powered(config))
		return 0;
	pr_err("%s: %s can't change while power is 1; write 0 to power first\n", config->disk.name,
	       what);
	return -EBUSY;
}

static int config_number(struct config *config, const char *what, const char *text, u64 *value)
{
	int error = kstrtoull(text, 0, value);

	if (error)
		pr_err("%s: %s takes a whole number\n", config->disk.name, what);
	return error;
}

static ssize_t config_parameter_show(struct config_item *item, const char *name, char *page)
{
	struct config *config = to_config(item);
	u64 value;

	mutex_lock(&config->lock);
	value = profile_get(&config->disk.profile, profile_parameter_find(name));
	mutex_unlock(&config->lock);
	return sysfs_emit(page, "%llu\n", value);
}

static int config_set(struct config *config, const struct profile_parameter *par, u64 value)
{
	struct disk *disk = &config->disk;
	int error = config_must_be_off(config, par->name);

	if (error)
		return error;
	error = profile_set(&disk->profile, par, value);
	if (error == -EINVAL)
		pr_err("%s: profile %s has no %s\n", disk->name, disk->profile.name, par->name);
	if (error == -ERANGE)
		pr_err("%s: %s takes %llu to %llu, not %llu\n", disk->name, par->name, par->least,
		       par->most, value);
	return error;
}

static ssize_t config_parameter_store(struct config_item *item, const char *name, const char *text,
				      size_t length)
{
	struct config *config = to_config(item);
	u64 value;
	int error = config_number(config, name, text, &value);

	if (error)
		return error;
	mutex_lock(&config->lock);
	error = config_set(config, profile_parameter_find(name), value);
	mutex_unlock(&config->lock);
	return error ?: length;
}

#define PARAMETER(name, ...)                                                             \
	static ssize_t config_##name##_show(struct config_item *item, char *page)        \
	{                                                                                \
		return config_parameter_show(item, #name, page);                         \
	}                                                                                \
	static ssize_t config_##name##_store(struct config_item *item, const char *text, \
					     size_t length)                              \
	{                                                                                \
		return config_parameter_store(item, #name, text, length);                \
	}

#include "parameters.h"
#undef PARAMETER

static ssize_t config_profile_show(struct config_item *item, char *page)
{
	struct config *config = to_config(item);
	const char *name;

	mutex_lock(&config->lock);
	name = config->disk.profile.name;
	mutex_unlock(&config->lock);
	return sysfs_emit(page, "%s\n", name);
}

static const struct profile *config_find_profile(const char *text)
{
	unsigned int i;

	for (i = 0; i < profiles_count; i++)
		if (sysfs_streq(text, profiles[i].name))
			return &profiles[i];
	return NULL;
}

static ssize_t config_profile_store(struct config_item *item, const char *text, size_t length)
{
	struct config *config = to_config(item);
	const struct profile *profile = config_find_profile(text);
	int error;

	if (!profile) {
		pr_err("%s: profile takes hdd, ssd, emmc or nvme\n", config->disk.name);
		return -EINVAL;
	}
	mutex_lock(&config->lock);
	error = config_must_be_off(config, "profile");
	if (!error)
		config->disk.profile = *profile;
	mutex_unlock(&config->lock);
	return error ?: length;
}

static ssize_t config_data_show(struct config_item *item, char *page)
{
	struct config *config = to_config(item);

	return sysfs_emit(page, "%s\n", READ_ONCE(config->disk.keeps_data) ? "sparse" : "none");
}

static ssize_t config_data_store(struct config_item *item, const char *text, size_t length)
{
	struct config *config = to_config(item);
	bool sparse = sysfs_streq(text, "sparse");
	int error;

	if (!sparse && !sysfs_streq(text, "none")) {
		pr_err("%s: data takes sparse or none\n", config->disk.name);
		return -EINVAL;
	}
	mutex_lock(&config->lock);
	error = config_must_be_off(config, "data");
	if (!error)
		WRITE_ONCE(config->disk.keeps_data, sparse);
	mutex_unlock(&config->lock);
	return error ?: length;
}

static ssize_t config_every_store(struct config *config, const char *what, const char *text,
				  size_t length, u32 *every)
{
	u64 value;
	int error = config_number(config, what, text, &value);

	if (error)
		return error;
	if (value > U32_MAX) {
		pr_err("%s: %s takes 0 to %u\n", config->disk.name, what, U32_MAX);
		return -ERANGE;
	}
	WRITE_ONCE(*every, value);
	return length;
}

static ssize_t config_fail_every_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%u\n", READ_ONCE(to_config(item)->disk.fail_every));
}

static ssize_t config_fail_every_store(struct config_item *item, const char *text, size_t length)
{
	struct config *config = to_config(item);

	return config_every_store(config, "fail_every", text, length, &config->disk.fail_every);
}

static ssize_t config_hang_every_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%u\n", READ_ONCE(to_config(item)->disk.hang_every));
}

static ssize_t config_hang_every_store(struct config_item *item, const char *text, size_t length)
{
	struct config *config = to_config(item);

	return config_every_store(config, "hang_every", text, length, &config->disk.hang_every);
}

static int config_weighted_refused(const struct disk *disk)
{
	if (disk->profile.wrr)
		return 0;
	pr_err("%s: profile %s fetches in turn; write 1 to wrr first, or rr to arbitration\n",
	       disk->name, disk->profile.name);
	return -EINVAL;
}

static ssize_t config_arbitration_show(struct config_item *item, char *page)
{
	struct config *config = to_config(item);
	struct disk *disk = &config->disk;
	u32 feature;
	bool weighted;

	mutex_lock(&config->lock);
	feature = disk->feature;
	weighted = disk->weighted;
	mutex_unlock(&config->lock);
	if (!weighted)
		return sysfs_emit(page, "rr\n");
	return sysfs_emit(page, "%u %u %u %u\n", arbiter_weight(feature, ARBITER_HIGH),
			  arbiter_weight(feature, ARBITER_MEDIUM),
			  arbiter_weight(feature, ARBITER_LOW), feature & ARBITER_BURST_MAX);
}

/* "HIGH MEDIUM LOW", and the power of two that is the burst. Returns 0 or -EINVAL, -ERANGE. */
static int config_weights(char *text, u32 *feature)
{
	unsigned int number[4] = {}, count = 0, i;
	char *word;
	int error;

	while ((word = strsep(&text, "\n "))) {
		if (!*word)
			continue;
		if (count == ARRAY_SIZE(number))
			return -EINVAL;
		error = kstrtouint(word, 10, &number[count++]);
		if (error)
			return error;
	}
	if (count < 3)
		return -EINVAL;
	for (i = 0; i < 3; i++)
		if (!number[i] || number[i] > ARBITER_WEIGHT_MAX)
			return -ERANGE;
	if (number[3] > ARBITER_BURST_MAX)
		return -ERANGE;
	*feature = arbiter_feature(number, number[3]);
	return 0;
}

static int config_parse_weights(const char *text, u32 *feature)
{
	char *copy = kstrdup(text, GFP_KERNEL);
	int error = copy ? config_weights(copy, feature) : -ENOMEM;

	kfree(copy);
	return error;
}

/* At any time. */
static ssize_t config_arbitration_store(struct config_item *item, const char *text, size_t length)
{
	struct config *config = to_config(item);
	bool weighted = !sysfs_streq(text, "rr");
	int error = 0;
	u32 feature = 0;

	if (weighted)
		error = config_parse_weights(text, &feature);
	if (error) {
		pr_err("%s: arbitration takes rr, or three weights, 1 to %u, and a burst, 0 to %u\n",
		       config->disk.name, ARBITER_WEIGHT_MAX, ARBITER_BURST_MAX);
		return error;
	}
	mutex_lock(&config->lock);
	if (weighted)
		error = config_weighted_refused(&config->disk);
	if (!error)
		disk_arbitrate(&config->disk, weighted, feature);
	mutex_unlock(&config->lock);
	return error ?: length;
}

static ssize_t config_stats_show(struct config_item *item, char *page)
{
	struct disk_stats s;

	disk_read_stats(&to_config(item)->disk, &s);
	return sysfs_emit(page,
			  "read %llu\nwrite %llu\nfua %llu\nflush %llu\ndiscard %llu\n"
			  "zeroes %llu\nfailed %llu\nhung %llu\ninflight %llu\n",
			  s.started[MODEL_READ], s.started[MODEL_WRITE], s.fua,
			  s.started[MODEL_FLUSH], s.started[MODEL_DISCARD], s.started[MODEL_ZEROES],
			  s.failed, s.hung, s.inflight);
}

static ssize_t config_power_show(struct config_item *item, char *page)
{
	struct config *config = to_config(item);
	bool powered;

	mutex_lock(&config->lock);
	powered = config_powered(config);
	mutex_unlock(&config->lock);
	return sysfs_emit(page, "%d\n", powered);
}

static int config_power_on(struct config *config)
{
	const struct profile *p = &config->disk.profile;
	int error;

	if (p->kind == PROFILE_HDD && p->inner_mbps > p->outer_mbps) {
		pr_err("%s: inner_mbps may not exceed outer_mbps\n", config->disk.name);
		return -EINVAL;
	}
	error = config->disk.weighted ? config_weighted_refused(&config->disk) : 0;
	if (error)
		return error;
	error = disk_power_on(&config->disk);
	if (error)
		pr_err("%s: can't power on, error %d\n", config->disk.name, error);
	return error;
}

static int config_power(struct config *config, bool on)
{
	if (on == config_powered(config))
		return 0;
	if (on)
		return config_power_on(config);
	disk_power_off(&config->disk);
	return 0;
}

static ssize_t config_power_store(struct config_item *item, const char *text, size_t length)
{
	struct config *config = to_config(item);
	bool on;
	int error = kstrtobool(text, &on);

	if (error) {
		pr_err("%s: power takes 0 or 1\n", config->disk.name);
		return error;
	}
	mutex_lock(&config->lock);
	error = config_power(config, on);
	mutex_unlock(&config->lock);
	return error ?: length;
}

#define ATTRIBUTE(name)                         \
	{                                       \
		.ca_name = #name,               \
		.ca_mode = 0644,                \
		.ca_owner = THIS_MODULE,        \
		.show = config_##name##_show,   \
		.store = config_##name##_store, \
	}

#define PARAMETER(name, ...) ATTRIBUTE(name),

static struct configfs_attribute config_attributes[] = {
	ATTRIBUTE(profile),
#include "parameters.h"
	ATTRIBUTE(data),
	ATTRIBUTE(fail_every),
	ATTRIBUTE(hang_every),
	ATTRIBUTE(arbitration),
	ATTRIBUTE(power),
	{
		.ca_name = "stats",
		.ca_mode = 0444,
		.ca_owner = THIS_MODULE,
		.show = config_stats_show,
	},
};

/* Filled by config_init(): configfs wants pointers, and a NULL behind them. */
static struct configfs_attribute *config_attrs[ARRAY_SIZE(config_attributes) + 1];

static void config_release(struct config_item *item)
{
	struct config *config = to_config(item);

	disk_exit(&config->disk);
	kfree(config);
}

static struct configfs_item_operations config_item_ops = {
	.release = config_release,
};

static const struct config_item_type config_type = {
	.ct_item_ops = &config_item_ops,
	.ct_attrs = config_attrs,
	.ct_owner = THIS_MODULE,
};

/* mkdir. The name becomes that of a block device. */
static struct config_item *config_make(struct config_group *group, const char *name)
{
	struct config *config;

	if (strlen(name) > DISK_NAME_LEN - sizeof("simdisk-")) {
		pr_err("%s: a name takes up to %zu characters\n", name,
		       DISK_NAME_LEN - sizeof("simdisk-"));
		return ERR_PTR(-ENAMETOOLONG);
	}
	config = kzalloc(sizeof(*config), GFP_KERNEL);
	if (!config)
		return ERR_PTR(-ENOMEM);
	mutex_init(&config->lock);
	config_item_init_type_name(&config->item, name, &config_type);
	disk_init(&config->disk, config_item_name(&config->item));
	return &config->item;
}

/* rmdir. */
static void config_drop(struct config_group *group, struct config_item *item)
{
	struct config *config = to_config(item);

	mutex_lock(&config->lock);
	config_power(config, false);
	mutex_unlock(&config->lock);
	config_item_put(item);
}

static struct configfs_group_operations config_group_ops = {
	.make_item = config_make,
	.drop_item = config_drop,
};

static const struct config_item_type config_root_type = {
	.ct_group_ops = &config_group_ops,
	.ct_owner = THIS_MODULE,
};

static struct configfs_subsystem config_root = {
	.su_group = {
		.cg_item = {
			.ci_namebuf = "simdisk",
			.ci_type = &config_root_type,
		},
	},
};

static int __init config_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(config_attributes); i++)
		config_attrs[i] = &config_attributes[i];
	config_group_init(&config_root.su_group);
	mutex_init(&config_root.su_mutex);
	return configfs_register_subsystem(&config_root);
}

/* Runs when no directory is left, since each holds a reference to the module. */
static void __exit config_exit(void)
{
	configfs_unregister_subsystem(&config_root);
}

module_init(config_init);
module_exit(config_exit);

MODULE_DESCRIPTION("Simulated disks: SSD and hard disk models");
MODULE_LICENSE("GPL");

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Deadlines of open files: /dev/sluice.
 *
 * Each opening of it can give one file a deadline, and has a reference to that file: what is
 * kept is bounded by how many files a process may have open, and goes when the process does.
 * Only regular files of a file system on a disk: /dev/sluice isn't one, nor is anything that
 * may refer to it, so no file refers to itself.
 */
#include "cause-file.h"
#include "cause-ioctl.h"

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/**
 * struct cause_file - a deadline
 * @file: whose; with a reference
 * @us: microseconds
 * @capable: whoever said so may have any
 * @uid: who said so: else it is nobody's matter but his
 * @node: in cause_files, by @file
 * @rcu: frees it
 */
struct cause_file {
	struct file *file;
	unsigned int us;
	bool capable;
	kuid_t uid;
	struct rhash_head node;
	struct rcu_head rcu;
};

static const struct rhashtable_params cause_file_params = {
	.key_len = sizeof(struct file *),
	.key_offset = offsetof(struct cause_file, file),
	.head_offset = offsetof(struct cause_file, node),
	.automatic_shrinking = true,
};

static struct rhashtable cause_files;
static DEFINE_MUTEX(cause_file_lock); /* guards each opening's private_data */

/**
 * cause_file_deadline() - how long an fsync of an open file may take
 * @file: the file, with a reference; NULL: there is none
 * @otherwise: its cgroup's deadline, microseconds
 *
 * In the caller's context.  Return: microseconds.
 */
unsigned int cause_file_deadline(const struct file *file, unsigned int otherwise)
{
	const struct cause_file *found;
	unsigned int us = otherwise;

	if (likely(!atomic_read(&cause_files.nelems)) || !file)
		return otherwise;
	rcu_read_lock();
	found = rhashtable_lookup(&cause_files, &file, cause_file_params);
	if (found && found->capable)
		us = found->us;
	else if (found && uid_eq(found->uid, current_fsuid()))
		us = max(found->us, otherwise);
	rcu_read_unlock();
	return us;
}
EXPORT_SYMBOL_GPL(cause_file_deadline);

static void cause_file_remove(struct cause_file *entry)
{
	lockdep_assert_held(&cause_file_lock);
	if (!entry)
		return;
	rhashtable_remove_fast(&cause_files, &entry->node, cause_file_params);
	fput(entry->file);
	kfree_rcu(entry, rcu);
}

/* The file of what was asked for, with a reference, or an error. */
static struct file *cause_file_get(const struct sluice_file_deadline *asked)
{
	struct file *file;

	if (asked->fsync_us < CAUSE_DEADLINE_MIN || asked->fsync_us > CAUSE_DEADLINE_MAX)
		return ERR_PTR(-ERANGE);
	file = fget(asked->fd);
	if (!file)
		return ERR_PTR(-EBADF);
	if (S_ISREG(file_inode(file)->i_mode) && file_inode(file)->i_sb->s_bdev &&
	    file->f_mode & FMODE_WRITE)
		return file;
	fput(file);
	return ERR_PTR(-EINVAL);
}

/* Of one file there is one: a change of it leaves no moment without. */
static int cause_file_set(struct file *device, struct cause_file *entry)
{
	struct cause_file *before = device->private_data;
	int err;

	lockdep_assert_held(&cause_file_lock);
	if (before && before->file == entry->file)
		err = rhashtable_replace_fast(&cause_files, &before->node, &entry->node,
					      cause_file_params);
	else
		err = rhashtable_lookup_insert_fast(&cause_files, &entry->node, cause_file_params);
	if (err)
		return err == -EEXIST ? -EBUSY : err;
	device->private_data = entry;
	if (before && before->file == entry->file) {
		fput(before->file);
		kfree_rcu(before, rcu);
	} else {
		cause_file_remove(before);
	}
	return 0;
}

static long cause_file_ioctl(struct file *device, unsigned int command, unsigned long arg)
{
	struct sluice_file_deadline asked;
	struct cause_file *entry;
	int err;

	if (command != SLUICE_FILE_DEADLINE)
		return -ENOTTY;
	if (copy_from_user(&asked, (void __user *)arg, sizeof(asked)))
		return -EFAULT;
	entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	if (!entry)
		return -ENOMEM;
	entry->file = cause_file_get(&asked);
	if (IS_ERR(entry->file)) {
		err = PTR_ERR(entry->file);
		kfree(entry);
		return err;
	}
	entry->us = asked.fsync_us;
	entry->capable = capable(CAP_SYS_NICE);
	entry->uid = current_fsuid();
	mutex_lock(&cause_file_lock);
	err = cause_file_set(device, entry);
	mutex_unlock(&cause_file_lock);
	if (err) {
		fput(entry->file);
		kfree(entry);
	}
	return err;
}

static int cause_file_open(struct inode *inode, struct file *device)
{
	device->private_data = NULL;
	return nonseekable_open(inode, device);
}

static int cause_file_release(struct inode *inode, struct file *device)
{
	mutex_lock(&cause_file_lock);
	cause_file_remove(device->private_data);
	mutex_unlock(&cause_file_lock);
	return 0;
}

static const struct file_operations cause_file_ops = {
	.owner = THIS_MODULE,
	.open = cause_file_open,
	.release = cause_file_release,
	.unlocked_ioctl = cause_file_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice cause_file_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "sluice",
	.mode = 0666,
	.fops = &cause_file_ops,
};

/**
 * cause_file_init() - have /dev/sluice
 *
 * Sleeps.  Return: 0 or a negative error.
 */
int cause_file_init(void)
{
	int err = rhashtable_init(&cause_files, &cause_file_params);

	if (err)
		return err;
	err = misc_register(&cause_file_device);
	if (err)
		rhashtable_destroy(&cause_files);
	return err;
}

/**
 * cause_file_exit() - have it no more; nobody has it open
 */
void cause_file_exit(void)
{
	misc_deregister(&cause_file_device);
	WARN_ON_ONCE(atomic_read(&cause_files.nelems));
	rhashtable_destroy(&cause_files);
}

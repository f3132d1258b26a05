// SPDX-License-Identifier: GPL-2.0-only
/*
 * Deadlines of open files: /dev/sluice.
 *
 * Each opening of it can give one file a deadline, and holds a reference to that file.  So the
 * number of entries is bounded by how many files a process may have open, and they go with the
 * process.  Only a regular file of a file system on a disk can have one.  /dev/sluice isn't such a
 * file, nor is anything that may refer to it, so no file refers to itself.
 */
#include "cause-file.h"
#include "cause-ioctl.h"

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/**
 * struct cause_file - deadlines
 * @file: the file that they are for, with a reference
 * @us: microseconds; 0: none
 * @capable: they were set with CAP_SYS_NICE, and hold for all users
 * @uid: the user that set them: else they hold for this user only
 * @node: in cause_files, by @file
 * @reads: in cause_file_reads, if its reads have one
 * @rcu: frees it
 */
struct cause_file {
	struct file *file;
	unsigned int us[CAUSE_DEADLINES];
	bool capable;
	kuid_t uid;
	struct rhash_head node;
	struct list_head reads;
	struct rcu_head rcu;
};

static const struct rhashtable_params cause_file_params = {
	.key_len = sizeof(struct file *),
	.key_offset = offsetof(struct cause_file, file),
	.head_offset = offsetof(struct cause_file, node),
	.automatic_shrinking = true,
};

static struct rhashtable cause_files;
static DEFINE_MUTEX(cause_file_lock); /* guards what follows, and each opening's private_data */
static LIST_HEAD(cause_file_reads);
static LIST_HEAD(cause_file_listeners);

/**
 * cause_file_deadline() - how long a read or an fsync of an open file may take
 * @file: the file, with a reference; NULL: there is none
 * @what: which of them
 * @otherwise: its cgroup's deadline, microseconds
 *
 * In the caller's context.  Return: microseconds.
 */
unsigned int cause_file_deadline(const struct file *file, enum cause_deadline what,
				 unsigned int otherwise)
{
	const struct cause_file *found;
	unsigned int us = otherwise;

	if (likely(!atomic_read(&cause_files.nelems)) || !file)
		return otherwise;
	rcu_read_lock();
	found = rhashtable_lookup(&cause_files, &file, cause_file_params);
	if (found && found->us[what] && found->capable)
		us = found->us[what];
	else if (found && uid_eq(found->uid, current_fsuid()))
		us = max(found->us[what], otherwise);
	rcu_read_unlock();
	return us;
}
EXPORT_SYMBOL_GPL(cause_file_deadline);

static struct request_queue *cause_file_queue(const struct cause_file *entry)
{
	return bdev_get_queue(file_inode(entry->file)->i_sb->s_bdev);
}

/* The number of a listener's files with a deadline of their reads changes by so many. */
static void cause_file_tell(struct cause_file_listener *listener, int by)
{
	bool before = listener->reads;

	listener->reads += by;
	if (before != !!listener->reads)
		listener->changed(listener);
}

/**
 * cause_file_listen() - be told when a disk's first file has a deadline of its reads, or the last
 * @listener: with @q and @changed
 *
 * Sleeps; the queue may be frozen.
 */
void cause_file_listen(struct cause_file_listener *listener)
{
	const struct cause_file *entry;

	mutex_lock(&cause_file_lock);
	listener->reads = 0;
	list_add(&listener->node, &cause_file_listeners);
	list_for_each_entry(entry, &cause_file_reads, reads)
		if (cause_file_queue(entry) == listener->q)
			cause_file_tell(listener, 1);
	mutex_unlock(&cause_file_lock);
}
EXPORT_SYMBOL_GPL(cause_file_listen);

/**
 * cause_file_hear_no_more() - the end of cause_file_listen()
 * @listener: isn't called any more when this returns
 */
void cause_file_hear_no_more(struct cause_file_listener *listener)
{
	mutex_lock(&cause_file_lock);
	list_del(&listener->node);
	mutex_unlock(&cause_file_lock);
}
EXPORT_SYMBOL_GPL(cause_file_hear_no_more);

static void cause_file_tell_all(const struct cause_file *entry, int by)
{
	struct cause_file_listener *listener;

	lockdep_assert_held(&cause_file_lock);
	list_for_each_entry(listener, &cause_file_listeners, node)
		if (listener->q == cause_file_queue(entry))
			cause_file_tell(listener, by);
}

/* An entry has been added to the table. */
static void cause_file_remember(struct cause_file *entry)
{
	if (!entry->us[CAUSE_READ])
		return;
	list_add(&entry->reads, &cause_file_reads);
	cause_file_tell_all(entry, 1);
}

/* An entry has been removed from the table. */
static void cause_file_forget(struct cause_file *entry)
{
	if (entry->us[CAUSE_READ]) {
		list_del(&entry->reads);
		cause_file_tell_all(entry, -1);
	}
	fput(entry->file);
	kfree_rcu(entry, rcu);
}

static void cause_file_remove(struct cause_file *entry)
{
	if (!entry)
		return;
	rhashtable_remove_fast(&cause_files, &entry->node, cause_file_params);
	cause_file_forget(entry);
}

static bool cause_file_is_deadline(u32 us)
{
	return !us || (us >= CAUSE_DEADLINE_MIN && us <= CAUSE_DEADLINE_MAX);
}

/* How a file must be open. */
static fmode_t cause_file_mode(const struct sluice_file_deadline *asked)
{
	return (asked->read_us ? FMODE_READ : 0) | (asked->fsync_us ? FMODE_WRITE : 0);
}

/* The file of what was asked for, with a reference, or an error. */
static struct file *cause_file_get(const struct sluice_file_deadline *asked)
{
	fmode_t mode = cause_file_mode(asked);
	struct file *file;

	if (!mode || !cause_file_is_deadline(asked->read_us) ||
	    !cause_file_is_deadline(asked->fsync_us))
		return ERR_PTR(-ERANGE);
	/* Every read of the disk passes a gate while one of its files has such a deadline. */
	if (asked->read_us && !capable(CAP_SYS_NICE))
		return ERR_PTR(-EPERM);
	file = fget(asked->fd);
	if (!file)
		return ERR_PTR(-EBADF);
	if (S_ISREG(file_inode(file)->i_mode) && file_inode(file)->i_sb->s_bdev &&
	    (file->f_mode & mode) == mode)
		return file;
	fput(file);
	return ERR_PTR(-EINVAL);
}

/* A file has one entry at most: a change of it leaves no moment without a deadline. */
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
	cause_file_remember(entry);
	if (before && before->file == entry->file)
		cause_file_forget(before);
	else
		cause_file_remove(before);
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
	entry->us[CAUSE_READ] = asked.read_us;
	entry->us[CAUSE_FSYNC] = asked.fsync_us;
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
 * cause_file_exit() - remove /dev/sluice; no process has it open
 */
void cause_file_exit(void)
{
	misc_deregister(&cause_file_device);
	WARN_ON_ONCE(atomic_read(&cause_files.nelems) || !list_empty(&cause_file_reads) ||
		     !list_empty(&cause_file_listeners));
	rhashtable_destroy(&cause_files);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What kernels do differently above the block layer: which file system a block device belongs to,
 * and how a file's writeback is begun.
 */
#ifndef SLUICE_COMPAT_FS_H
#define SLUICE_COMPAT_FS_H

#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/pagemap.h>
#include <linux/uaccess.h>
#include <linux/writeback.h>

#include "features.h"

/**
 * sluice_bdev_is_mounted() - whether a block device belongs to a file system
 * @bdev: the device
 *
 * Until 6.5 it has bd_super (4ae0b00bd2ba "fs: remove ->bd_super").  From 6.6 on its holder has
 * the operations of file systems (aca740cecbe5 "fs: open block device after superblock creation").
 * 7.x keeps these to itself, but no other holder can freeze.
 */
static inline bool sluice_bdev_is_mounted(const struct block_device *bdev)
{
#if defined(SLUICE_HAS_BD_SUPER)
	return READ_ONCE(bdev->bd_super);
#elif defined(SLUICE_HAS_FS_HOLDER_OPS)
	return READ_ONCE(bdev->bd_holder_ops) == &fs_holder_ops;
#else
	const struct blk_holder_ops *ops = READ_ONCE(bdev->bd_holder_ops);

	return ops && ops->freeze;
#endif
}

/**
 * sluice_bdev_fs_info() - what a file system knows the mount of a block device by
 * @bdev: the device, which sluice_bdev_is_mounted()
 *
 * The holder is the super block with ext4 and XFS, also for a log on a device of its own.  With
 * others it may be anything, so it is read as memory that may be missing.
 *
 * Return: the super block's s_fs_info, to be compared and never followed; or NULL.
 */
static inline const void *sluice_bdev_fs_info(const struct block_device *bdev)
{
#ifdef SLUICE_HAS_BD_SUPER
	const struct super_block *sb = READ_ONCE(bdev->bd_super);
#else
	const struct super_block *sb = READ_ONCE(bdev->bd_holder);
#endif
	void *info;

	return sb && !get_kernel_nofault(info, &sb->s_fs_info) ? info : NULL;
}

/**
 * sluice_flush_range() - begin the writeback of a part of a file, and wait for none of it
 * @mapping: of a file of ext4 or XFS
 * @start: the first byte
 * @last: the last byte, or LLONG_MAX
 * @pages: most pages to write
 *
 * 7.x has no filemap_fdatawrite_wbc() any more; what took its place has no limit, or is Btrfs's.
 * Errors are recorded in the file.  May sleep.
 */
static inline void sluice_flush_range(struct address_space *mapping, loff_t start, loff_t last,
				      long pages)
{
	struct writeback_control wbc = {
		.sync_mode = WB_SYNC_NONE,
		.nr_to_write = pages,
		.range_start = start,
		.range_end = last,
	};

#ifdef SLUICE_HAS_FDATAWRITE_WBC
	filemap_fdatawrite_wbc(mapping, &wbc);
#else
	if (!mapping_tagged(mapping, PAGECACHE_TAG_DIRTY))
		return;
	wbc_attach_fdatawrite_inode(&wbc, mapping->host);
	mapping->a_ops->writepages(mapping, &wbc);
	wbc_detach_inode(&wbc);
#endif
}

#endif

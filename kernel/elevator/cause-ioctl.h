/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * /dev/sluice: what a program may say of an open file.
 */
#ifndef SLUICE_CAUSE_IOCTL_H
#define SLUICE_CAUSE_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * struct sluice_file_deadline - how long reads and fsyncs of an open file may take
 * @fd: a regular file of a file system on a disk, open for what has a deadline, reading or
 *	writing; of an overlay the file below
 * @read_us: microseconds, 100 to 60000000; 0: as long as the cgroup's reads
 * @fsync_us: likewise
 */
struct sluice_file_deadline {
	__s32 fd;
	__u32 read_us;
	__u32 fsync_us;
};

/*
 * The deadline holds until /dev/sluice, as it was opened for this, is closed by all processes that
 * have inherited it.  Until then it keeps the file open, with its locks.  A new deadline replaces
 * the old one.  A deadline of reads needs CAP_SYS_NICE.  Without that capability, a deadline of
 * fsyncs can't be shorter than the cgroup's, and holds only for fsyncs of the same user.
 *
 * EBADF: no such descriptor; EINVAL: not such a file, or not open for that; ERANGE: a deadline out
 * of range, or none at all; EPERM: a deadline of reads without CAP_SYS_NICE; EBUSY: the file has
 * one through another /dev/sluice; ENOMEM.
 */
#define SLUICE_FILE_DEADLINE _IOW(0xdb, 0x01, struct sluice_file_deadline)

#endif

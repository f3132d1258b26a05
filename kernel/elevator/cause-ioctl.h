/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * /dev/sluice: what a program may say of an open file.
 */
#ifndef SLUICE_CAUSE_IOCTL_H
#define SLUICE_CAUSE_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * struct sluice_file_deadline - how long the fsyncs of an open file may take
 * @fd: a regular file, open for writing
 * @fsync_us: microseconds, 100 to 60000000
 */
struct sluice_file_deadline {
	__s32 fd;
	__u32 fsync_us;
};

/*
 * It holds until /dev/sluice, as it was opened for this, is closed, and keeps the file open so
 * long; another one takes its place.  Whoever has no CAP_SYS_NICE gets no less time than his
 * cgroup has.
 *
 * EBADF: no such descriptor; EINVAL: not a regular file, or not open for writing; ERANGE: no
 * such deadline; EBUSY: the file has one by another /dev/sluice; ENOMEM.
 */
#define SLUICE_FILE_DEADLINE _IOW(0xe5, 0x01, struct sluice_file_deadline)

#endif

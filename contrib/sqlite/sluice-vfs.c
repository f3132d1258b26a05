// SPDX-License-Identifier: GPL-2.0-only
/*
 * An SQLite VFS that gives a database in WAL mode deadlines under Split-Deadline.
 *
 * A transaction waits for an fsync of the log, and none waits for that of a checkpoint.  So each of
 * the two files has a deadline of its own while it is open, by /dev/sluice
 * (docs/split-deadline.md).  The parameters of a database's URI name them: log_ms, checkpoint_ms
 * and read_ms.  Each checkpoint ends with an fsync of the database.
 *
 * The files are those of SQLite's own VFS, "unix".  What that VFS opens is seen in the system calls
 * that it makes, which SQLite lets an extension replace.
 */
#include <sqlite3ext.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cause-ioctl.h"

SQLITE_EXTENSION_INIT1

#define DEVICE "/dev/sluice"
#define MOST_MS 60000

/* Deadlines in ms; 0: none. */
struct deadlines {
	unsigned int log;
	unsigned int checkpoint;
	unsigned int read;
};

/**
 * struct extra - what lies behind a file of the VFS below, in the same memory
 * @below: that file's methods
 * @methods: the same, with ours among them
 * @fd: the file's descriptor, -1 if it isn't known
 * @writes: the file is open for writing too
 * @keepers: of a log: openings of /dev/sluice for it and for its database, -1: none
 */
struct extra {
	const sqlite3_io_methods *below;
	sqlite3_io_methods methods;
	int fd;
	bool writes;
	int keepers[2];
};

static sqlite3_vfs *below;
static sqlite3_vfs vfs;
static int (*below_open)(const char *path, int flags, int mode);
static int (*below_fstat)(int fd, struct stat *to);

/* The descriptor that the VFS below has opened, or found open, for this thread. */
static _Thread_local int seen = -1;

static int see_open(const char *path, int flags, int mode)
{
	return seen = below_open(path, flags, mode);
}

static int see_fstat(int fd, struct stat *to)
{
	seen = fd;
	return below_fstat(fd, to);
}

static struct extra *extra_of(sqlite3_file *file)
{
	return (struct extra *)((char *)file + vfs.szOsFile - sizeof(struct extra));
}

/* Reads a parameter of a database's URI; false if it isn't a number in the range. */
static bool read_ms(const char *database, const char *name, unsigned int *ms)
{
	const char *text = sqlite3_uri_parameter(database, name);
	unsigned long value;
	char *end;

	if (!text)
		return true;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || value > MOST_MS) {
		sqlite3_log(SQLITE_CANTOPEN, "sluice-vfs: %s=%s; next: give 0 to %d ms", name, text,
			    MOST_MS);
		return false;
	}
	*ms = (unsigned int)value;
	return true;
}

static bool read_deadlines(const char *database, struct deadlines *to)
{
	*to = (struct deadlines){ .log = 100, .checkpoint = 10000 };
	return read_ms(database, "log_ms", &to->log) &&
	       read_ms(database, "checkpoint_ms", &to->checkpoint) &&
	       read_ms(database, "read_ms", &to->read);
}

/* What to do about a file that has no deadline. */
static const char *next_step(int error)
{
	switch (error) {
	case ENOENT:
		return "modprobe split-deadline";
	case EPERM:
		return "leave out read_ms, or run the program with CAP_SYS_NICE";
	default:
		return "look the error up in docs/split-deadline.md";
	}
}

/*
 * Gives a file deadlines in ms.  Return: the descriptor that keeps them, or -1.  If they can't be
 * had, a line in SQLite's log says why, and the database works as without.
 */
static int keep(const char *name, const struct extra *file, unsigned int read, unsigned int fsync)
{
	struct sluice_file_deadline deadline = {
		.fd = file->fd,
		.read_us = read * 1000,
		.fsync_us = file->writes ? fsync * 1000 : 0,
	};
	int keeper;

	if (!deadline.read_us && !deadline.fsync_us)
		return -1;
	keeper = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (keeper < 0 || ioctl(keeper, SLUICE_FILE_DEADLINE, &deadline)) {
		int error = errno;

		if (keeper >= 0)
			close(keeper);
		sqlite3_log(SQLITE_WARNING, "sluice-vfs: %s has no deadline: %s: %s; next: %s",
			    name, DEVICE, strerror(error), next_step(error));
		return -1;
	}
	return keeper;
}

static int close_log(sqlite3_file *file)
{
	struct extra *extra = extra_of(file);
	int i;

	for (i = 0; i < 2; i++)
		if (extra->keepers[i] >= 0)
			close(extra->keepers[i]);
	return extra->below->xClose(file);
}

/*
 * A checkpoint beside which transactions go on ends before it has written all of the log.  SQLite
 * would leave its data to the kernel's writeback then.
 */
static int control(sqlite3_file *file, int op, void *arg)
{
	const sqlite3_io_methods *methods = extra_of(file)->below;
	int status;

	if (op == SQLITE_FCNTL_CKPT_DONE) {
		status = methods->xSync(file, SQLITE_SYNC_NORMAL);
		if (status != SQLITE_OK)
			return status;
	}
	return methods->xFileControl(file, op, arg);
}

/* A log has been opened: it and its database get their deadlines, until it is closed. */
static void log_opened(const char *name, sqlite3_file *log)
{
	const char *database = sqlite3_filename_database(name);
	struct extra *extra = extra_of(log);
	struct extra *of_database = extra_of(sqlite3_database_file_object(name));
	struct deadlines ms;

	if (!read_deadlines(database, &ms))
		return;
	extra->keepers[0] = keep(name, extra, 0, ms.log);
	extra->keepers[1] = keep(database, of_database, ms.read, ms.checkpoint);
	extra->methods.xClose = close_log;
}

static int vfs_open(sqlite3_vfs *self, const char *name, sqlite3_file *file, int flags, int *out)
{
	struct extra *extra = extra_of(file);
	struct deadlines ms;
	int status, how = flags;

	(void)self;
	if (flags & SQLITE_OPEN_MAIN_DB && !read_deadlines(name, &ms))
		return SQLITE_CANTOPEN;
	seen = -1;
	status = below->xOpen(below, name, file, flags, &how);
	if (out)
		*out = how;
	if (status != SQLITE_OK)
		return status;
	extra->below = file->pMethods;
	extra->methods = *file->pMethods;
	file->pMethods = &extra->methods;
	extra->fd = seen;
	extra->writes = how & SQLITE_OPEN_READWRITE;
	if (flags & SQLITE_OPEN_MAIN_DB)
		extra->methods.xFileControl = control;
	if (flags & SQLITE_OPEN_WAL)
		log_opened(name, file);
	return SQLITE_OK;
}

static bool see_calls(void)
{
	sqlite3_syscall_ptr open_call, fstat_call;

	below = sqlite3_vfs_find("unix");
	if (!below || below->iVersion < 3)
		return false;
	open_call = below->xGetSystemCall(below, "open");
	fstat_call = below->xGetSystemCall(below, "fstat");
	if (!open_call || !fstat_call)
		return false;
	below_open = (int (*)(const char *, int, int))open_call;
	below_fstat = (int (*)(int, struct stat *))fstat_call;
	below->xSetSystemCall(below, "open", (sqlite3_syscall_ptr)see_open);
	below->xSetSystemCall(below, "fstat", (sqlite3_syscall_ptr)see_fstat);
	return true;
}

int sqlite3_sluicevfs_init(sqlite3 *db, char **error, const sqlite3_api_routines *api)
{
	int align = _Alignof(struct extra);

	(void)db;
	SQLITE_EXTENSION_INIT2(api);
	if (sqlite3_vfs_find("sluice"))
		return SQLITE_OK_LOAD_PERMANENTLY;
	if (!see_calls()) {
		*error = sqlite3_mprintf("sluice-vfs needs SQLite's VFS \"unix\"");
		return SQLITE_ERROR;
	}
	vfs = *below;
	vfs.pNext = NULL;
	vfs.zName = "sluice";
	vfs.szOsFile = (below->szOsFile + align - 1) / align * align + (int)sizeof(struct extra);
	vfs.xOpen = vfs_open;
	if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK)
		return SQLITE_ERROR;
	return SQLITE_OK_LOAD_PERMANENTLY;
}

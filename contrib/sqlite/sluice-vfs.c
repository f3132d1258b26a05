// SPDX-License-Identifier: GPL-2.0-only
/*
 * An SQLite VFS that gives a database in WAL mode deadlines under Split-Deadline.
 *
 * A transaction waits for an fsync of the log.  None needs to wait for the database's, if another
 * connection does the checkpoints.  So each of the two files has a deadline of its own while it is
 * open, by /dev/sluice (docs/split-deadline.md).  The parameters of a database's URI name them:
 * log_ms, checkpoint_ms and read_ms.  Each checkpoint ends with an fsync of the database.
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
/* It has sqlite3_database_file_object(). */
#define OLDEST 3032000

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
 * @ms: of a database: the deadlines
 * @failed: of a database: the result of an fsync that SQLite hasn't been told, SQLITE_OK: none
 * @keepers: of a log: openings of /dev/sluice for it and for its database, -1: none
 */
struct extra {
	const sqlite3_io_methods *below;
	sqlite3_io_methods methods;
	int fd;
	bool writes;
	struct deadlines ms;
	int failed;
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
static const char *next_step(int error, bool reads)
{
	if (error == ENOENT)
		return "modprobe split-deadline, and let the program see /dev";
	if (error == EPERM && reads)
		return "leave out read_ms, or run the program with CAP_SYS_NICE";
	if (error == EPERM || error == EACCES)
		return "let the program open " DEVICE;
	return "look the error up in docs/split-deadline.md";
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
		sqlite3_log(SQLITE_WARNING, "sluice-vfs: no deadline: %s: %s; next: %s; %s", DEVICE,
			    strerror(error), next_step(error, read), name);
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
 * would leave its data to the kernel's writeback then.  SQLite ignores the result of this call, and
 * the kernel reports a failed fsync once: sync_database() reports it before the log may be reused.
 */
static int control(sqlite3_file *file, int op, void *arg)
{
	struct extra *extra = extra_of(file);
	int status = extra->below->xFileControl(file, op, arg);

	if (op == SQLITE_FCNTL_CKPT_DONE && !extra->failed)
		extra->failed = extra->below->xSync(file, SQLITE_SYNC_NORMAL);
	if (op == SQLITE_FCNTL_VFSNAME && status == SQLITE_OK)
		*(char **)arg = sqlite3_mprintf("%s/%z", vfs.zName, *(char **)arg);
	return status;
}

static int sync_database(sqlite3_file *file, int flags)
{
	struct extra *extra = extra_of(file);
	int failed = extra->failed;

	extra->failed = SQLITE_OK;
	return failed ? failed : extra->below->xSync(file, flags);
}

/* A log has been opened: it and its database get their deadlines, until it is closed. */
static void log_opened(const char *name, sqlite3_file *file)
{
	sqlite3_file *database = sqlite3_database_file_object(name);
	struct extra *log = extra_of(file), *of_database = extra_of(database);
	const struct deadlines *ms = &of_database->ms;

	/* Another VFS above this one has files of its own. */
	if (database->pMethods != &of_database->methods)
		return;
	log->keepers[0] = keep(name, log, 0, ms->log);
	log->keepers[1] =
		keep(sqlite3_filename_database(name), of_database, ms->read, ms->checkpoint);
	log->methods.xClose = close_log;
}

static int vfs_open(sqlite3_vfs *self, const char *name, sqlite3_file *file, int flags, int *out)
{
	struct extra *extra = extra_of(file);
	int status, how = flags;

	(void)self;
	file->pMethods = NULL;
	if (flags & SQLITE_OPEN_MAIN_DB && !read_deadlines(name, &extra->ms))
		return SQLITE_CANTOPEN;
	seen = -1;
	status = below->xOpen(below, name, file, flags, &how);
	if (out)
		*out = how;
	if (status != SQLITE_OK)
		return status;
	extra->below = file->pMethods;
	extra->methods = *file->pMethods;
	/* What a later version may have is not copied. */
	if (extra->methods.iVersion > 3)
		extra->methods.iVersion = 3;
	file->pMethods = &extra->methods;
	extra->fd = seen;
	extra->writes = how & SQLITE_OPEN_READWRITE;
	extra->failed = SQLITE_OK;
	if (flags & SQLITE_OPEN_MAIN_DB) {
		extra->methods.xFileControl = control;
		extra->methods.xSync = sync_database;
	}
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

static bool vfs_begin(void)
{
	int align = _Alignof(struct extra);

	if (sqlite3_vfs_find("sluice"))
		return true;
	if (!see_calls())
		return false;
	vfs = *below;
	vfs.pNext = NULL;
	vfs.zName = "sluice";
	vfs.szOsFile = (below->szOsFile + align - 1) / align * align + (int)sizeof(struct extra);
	vfs.xOpen = vfs_open;
	/* It can't fail: SQLite is initialized. */
	sqlite3_vfs_register(&vfs, 0);
	return true;
}

int sqlite3_sluicevfs_init(sqlite3 *db, char **error, const sqlite3_api_routines *api)
{
	sqlite3_mutex *mutex;
	bool begun;

	(void)db;
	if (api->libversion_number() < OLDEST) {
		*error = api->mprintf("sluice-vfs needs SQLite 3.32");
		return SQLITE_ERROR;
	}
	if (sqlite3_api && sqlite3_api != api) {
		*error = api->mprintf("another SQLite in this process has loaded sluice-vfs");
		return SQLITE_ERROR;
	}
	SQLITE_EXTENSION_INIT2(api);
	/* Other connections may load it at the same time. */
	mutex = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_VFS3);
	sqlite3_mutex_enter(mutex);
	begun = vfs_begin();
	sqlite3_mutex_leave(mutex);
	if (!begun) {
		*error = sqlite3_mprintf("sluice-vfs needs SQLite's VFS \"unix\"");
		return SQLITE_ERROR;
	}
	return SQLITE_OK_LOAD_PERMANENTLY;
}

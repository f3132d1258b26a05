// SPDX-License-Identifier: GPL-2.0-only
/*
 * short_lived DEVICE PROCESSES - each process reads one sector past the page cache and ends; WORKERS are there at once
 *
 * PROCESSES is a multiple of WORKERS, so that as many reads are seen as were asked for.
 *
 * A process shares what it can with its parent, so that the time goes into what is tested; it has
 * a number and a start of its own nevertheless.  Exit status 1 if one could not read.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 64
#define SECTOR 512
#define FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_VFORK | SIGCHLD)

static char sector[SECTOR] __attribute__((aligned(4096)));
static char stack[16384] __attribute__((aligned(16)));
static int disk;

static int one_read(void *place)
{
	_exit(pread(disk, sector, SECTOR, *(off_t *)place * SECTOR) != SECTOR);
}

static int work(off_t place, long processes)
{
	int status;

	while (processes--) {
		pid_t child = clone(one_read, stack + sizeof(stack), FLAGS, &place);

		if (child < 0 || waitpid(child, &status, 0) < 0 || status)
			return 1;
		place += WORKERS;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int status, failed = 0;
	int i;

	if (argc != 3 || atol(argv[2]) % WORKERS)
		return 2;
	disk = open(argv[1], O_RDONLY | O_DIRECT);
	if (disk < 0)
		return 1;
	for (i = 0; i < WORKERS; i++)
		if (!fork())
			_exit(work(i, atol(argv[2]) / WORKERS));
	while (wait(&status) > 0)
		failed |= status;
	return failed != 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loaded into QEMU: its main thread does nothing while the virtual CPU executes, and it ends when the other end of the
 * socket SLUICE_CONTROL is closed.
 *
 * With `-icount sleep=off` the main thread moves the virtual clock to the next timer when it finds the CPU halted.
 * A CPU marks itself halted before it adds the instructions of its last slice to the clock, and holds no lock in
 * between. A main thread that wakes just then skips too far, by those instructions; on a busy host most runs meet
 * that moment and differ by some nanoseconds. So the CPU's thread keeps QEMU's big lock while it executes: where it
 * would let go of the lock, it lets those in that wait for it, and takes it again at once.
 *
 * A guest stops when its CPU asks the main thread to stop it. A main thread that wakes only after the CPU has stopped
 * finds every CPU idle, and moves the clock to the next timer before it stops the guest. So a CPU that has woken a
 * thread waits for it at the next point where it would let go of the lock: the guest stops at that instruction.
 *
 * QEMU must name its threads (-name debug-threads=on).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int on_mutex(pthread_mutex_t *mutex);
typedef int on_cond(pthread_cond_t *cond, pthread_mutex_t *mutex);
typedef ssize_t on_write(int fd, const void *data, size_t size);

static pthread_mutex_t *_Atomic big;
static atomic_int waiting;
/* The eventfd by which the CPU has woken a thread that has not come yet. */
static atomic_int wakes = -1;
static __thread bool executes;

static int lock(pthread_mutex_t *mutex)
{
	static on_mutex *next;

	if (!next)
		next = (on_mutex *)dlsym(RTLD_NEXT, "pthread_mutex_lock");
	return next(mutex);
}

static int unlock(pthread_mutex_t *mutex)
{
	static on_mutex *next;

	if (!next)
		next = (on_mutex *)dlsym(RTLD_NEXT, "pthread_mutex_unlock");
	return next(mutex);
}

/*
 * A thread that the CPU has woken is on its way. QEMU writes to a thread's eventfd only while that thread polls it: the
 * main thread then comes for the lock, and any other thread at least reads the eventfd.
 */
static bool awaited(void)
{
	struct pollfd fd = { .fd = wakes, .events = POLLIN };

	return fd.fd >= 0 && poll(&fd, 1, 0) > 0;
}

/* The CPU's thread waits for the first time when it holds the big lock, before it executes anything. */
int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	static on_cond *next;
	char name[16] = "";

	if (!next)
		next = (on_cond *)dlsym(RTLD_NEXT, "pthread_cond_wait");
	if (!big && !pthread_getname_np(pthread_self(), name, sizeof(name)) &&
	    !strcmp(name, "ALL CPUs/TCG")) {
		big = mutex;
		executes = true;
	}
	return next(cond, mutex);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int error;

	if (mutex != big)
		return lock(mutex);
	if (executes)
		return 0;
	waiting++;
	error = lock(mutex);
	waiting--;
	if (gettid() == getpid())
		wakes = -1;
	return error;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int error = unlock(mutex);

	if (!executes || mutex != big || error)
		return error;
	while (waiting || awaited())
		sched_yield();
	wakes = -1;
	return lock(mutex);
}

/* QEMU wakes a thread by writing a one to its eventfd. */
ssize_t write(int fd, const void *data, size_t size)
{
	static on_write *next;
	static const uint64_t one = 1;

	if (!next)
		next = (on_write *)dlsym(RTLD_NEXT, "write");
	if (executes && size == sizeof(one) && !memcmp(data, &one, size))
		wakes = fd;
	return next(fd, data, size);
}

static void *watch(void *number)
{
	struct pollfd fd = { .fd = (int)(intptr_t)number };

	while (poll(&fd, 1, -1) < 1)
		;
	_exit(1);
}

/* A thread that waits for the socket's end, and takes no data and no signal: both are for QEMU. */
__attribute__((constructor)) static void end_with_control(void)
{
	const char *number = getenv("SLUICE_CONTROL");
	sigset_t every, before;
	pthread_t thread;

	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &before);
	if (!number || pthread_create(&thread, NULL, watch, (void *)(intptr_t)atoi(number)))
		_exit(1);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

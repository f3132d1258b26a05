// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loaded into QEMU: its main thread does nothing while the virtual CPU executes.
 *
 * With `-icount sleep=off` the main thread moves the virtual clock to the next timer when it finds the CPU halted.
 * A CPU marks itself halted before it adds the instructions of its last slice to the clock, and holds no lock in
 * between. A main thread that wakes just then skips too far, by those instructions; on a busy host most runs meet
 * that moment and differ by some nanoseconds. So the CPU's thread keeps QEMU's big lock while it executes: where it
 * would let go of the lock, it lets those in that wait for it, and takes it again at once.
 *
 * QEMU must name its threads (-name debug-threads=on).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

typedef int on_mutex(pthread_mutex_t *mutex);
typedef int on_cond(pthread_cond_t *cond, pthread_mutex_t *mutex);

static pthread_mutex_t *_Atomic big;
static atomic_int waiting;
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
	return error;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int error = unlock(mutex);

	if (!executes || mutex != big || error)
		return error;
	while (waiting)
		sched_yield();
	return lock(mutex);
}

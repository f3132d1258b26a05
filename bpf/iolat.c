// SPDX-License-Identifier: GPL-2.0-only
/*
 * iolat: where block I/O spends its time, by priority, operation, disk and scheduler.
 *
 * Loads the kernel half, reads its tables at the end or at every interval, and prints what was
 * added since. The tables are not reset, since that would lose events. Their 32-bit slots are read
 * at least once a minute and added up here.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include "options.h"
#include "print.h"
#include "serve.h"
#include "tables.h"

/*
 * Nanoseconds between checks for rows to give back: too short for all rows to be used up
 * meanwhile.
 */
#define RECLAIM_NS (NSEC / 10)

static void print_round(void)
{
	static void (*const printers[])(FILE *) = { print_text, print_json, print_csv,
						    print_openmetrics };

	look_for_oldest();
	read_tables();
	printers[options.format](stdout);
	if (fflush(stdout) || ferror(stdout))
		die(1, "can't write: %s; next: df -h .", strerror(errno));
	begin_counts();
}

/*
 * Nanoseconds between looks at the waiting I/Os: a quarter of the alarm, so that the alarm is late
 * by no more than that.
 */
static unsigned long long look_every(void)
{
	unsigned long long every = options.order ? NSEC : READING * NSEC;

	if (options.alarm && options.alarm < 4)
		every = options.alarm * NSEC / 4;
	return options.by && every > RECLAIM_NS ? RECLAIM_NS : every;
}

/* Runs until a signal comes or the rounds are over. */
static void watch(int signals, int listening)
{
	struct pollfd fds[2 + CLIENTS] = { { .fd = signals, .events = POLLIN } };
	unsigned long long every = look_every(), next = started, look = started + every,
			   read = started, now, until, wait;
	unsigned int count;
	long round = 0;

	do {
		next = options.interval ? next + options.interval * NSEC : ULLONG_MAX;
		while ((now = now_ns()) < next) {
			until = next < look ? next : look;
			wait = until > now ? until - now : 0;
			count = 1 + await_clients(fds + 1, listening, &wait);
			if (poll(fds, count, (wait + 999999) / 1000000) < 0 && errno != EINTR)
				die(1, "can't wait: %s; try again", strerror(errno));
			if (fds[0].revents)
				break;
			serve(fds + 1, listening, now_ns() - now);
			if (now_ns() < look)
				continue;
			look_for_oldest();
			reclaim_rows();
			look = now_ns() + every;
			if (look - read > READING * NSEC) {
				read_tables();
				read = look;
			}
		}
		if (listening < 0)
			print_round();
	} while (!fds[0].revents && ++round != options.rounds);
}

int main(int argc, char **argv)
{
	int listening = -1, signals;
	sigset_t ending;

	parse(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&ending);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGTERM);
	sigprocmask(SIG_BLOCK, &ending, NULL);
	signals = signalfd(-1, &ending, SFD_CLOEXEC);
	if (options.listen.sin_port)
		listening = open_socket(&options.listen);
	load();
	fputs("iolat: watching; Ctrl-C ends\n", stderr);
	watch(signals, listening);
	iolat_bpf__destroy(bpf);
	return starved ? 3 : 0;
}

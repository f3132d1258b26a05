/* SPDX-License-Identifier: GPL-2.0-only */
/* OpenMetrics over HTTP. */
#ifndef SERVE_H
#define SERVE_H

#include <netinet/in.h>
#include <poll.h>

/* Clients at a time; others wait to be accepted. The answer of a full table takes some 20 MB. */
#define CLIENTS 8

/* A socket that listens there. */
int open_socket(const struct sockaddr_in *address);

/*
 * Say what to poll for, for the listening socket and the clients, 1 + CLIENTS entries at most. Returns how many; no
 * longer than `wait` ns, which it lowers to the least time that a client has left.
 */
unsigned int await_clients(struct pollfd *fds, int listening, unsigned long long *wait);

/*
 * Do what the poll that took `waited` ns has found to be possible. A client has a second of that time to ask and to take
 * the answer in, then it is left. The others are served meanwhile.
 */
void serve(const struct pollfd *fds, int listening, unsigned long long waited);

#endif

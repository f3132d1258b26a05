/* SPDX-License-Identifier: GPL-2.0-only */
/* OpenMetrics over HTTP. */
#ifndef SERVE_H
#define SERVE_H

#include <netinet/in.h>
#include <poll.h>

/*
 * Clients that are served at the same time; others wait to be accepted. The answer of a full table
 * takes some 20 MB.
 */
#define CLIENTS 8

/* A socket that listens at this address. */
int open_socket(const struct sockaddr_in *address);

/*
 * Fill in what to poll for: the listening socket and the clients, 1 + CLIENTS entries at most.
 * Returns their number. Lowers `wait`, in ns, to the least time that a client has left.
 */
unsigned int await_clients(struct pollfd *fds, int listening, unsigned long long *wait);

/*
 * Serve the sockets that the poll found ready; the poll took `waited` ns. A client has a second of
 * such time to ask and to take the answer, then it is disconnected. The others are served
 * meanwhile.
 */
void serve(const struct pollfd *fds, int listening, unsigned long long waited);

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* OpenMetrics over HTTP. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "options.h"
#include "print.h"
#include "serve.h"
#include "tables.h"

/*
 * The total time of a client in ns: for its request, for taking the answer and for closing.
 * iolat's own time does not count.
 */
#define PATIENCE NSEC

/**
 * struct client - a connection, until the client closes it or its time is up
 * @left: what is left of its time, in ns
 * @asked: bytes of @request that have come
 * @answer: allocated when the request is complete, NULL again when all of it is sent
 * @size: bytes of the answer
 * @sent: bytes of it that are sent
 */
static struct client {
	int socket;
	unsigned long long left;
	size_t asked, size, sent;
	char *answer;
	char request[4096];
} clients[CLIENTS];
static unsigned int client_count;

/* The whole answer, allocated. */
static char *answer(const char *request, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	if (!out)
		die(1, "out of memory; next: free -h");
	if (strncmp(request, "GET /metrics", strlen("GET /metrics"))) {
		fputs("HTTP/1.0 404 Not Found\r\n\r\nask for /metrics\n", out);
	} else {
		fputs("HTTP/1.0 200 OK\r\nContent-Type: application/openmetrics-text; "
		      "version=1.0.0; charset=utf-8\r\n\r\n",
		      out);
		look_for_oldest();
		read_tables();
		print_openmetrics(out);
	}
	if (fclose(out))
		die(1, "out of memory; next: free -h");
	return text;
}

/*
 * Read more of a request, which ends with an empty line; false if it is no valid request or the
 * client has closed.
 */
static bool hear(struct client *client)
{
	char *end = client->request + client->asked;
	size_t room = sizeof(client->request) - 1 - client->asked;
	ssize_t more = recv(client->socket, end, room, MSG_DONTWAIT);

	if (more <= 0)
		return false;
	end[more] = '\0';
	client->asked += more;
	if (!client->sent &&
	    (strstr(client->request, "\r\n\r\n") || strstr(client->request, "\n\n")))
		client->answer = answer(client->request, &client->size);
	return true;
}

/* Send more of an answer; false if the client does not take it. */
static bool tell(struct client *client)
{
	ssize_t sent = send(client->socket, client->answer + client->sent,
			    client->size - client->sent, MSG_DONTWAIT);

	if (sent < 0)
		return false;
	client->sent += sent;
	if (client->sent < client->size)
		return true;
	free(client->answer);
	client->answer = NULL;
	/* Data that was sent arrives completely if the client closes first. */
	return !shutdown(client->socket, SHUT_WR);
}

static void leave(struct client *client)
{
	close(client->socket);
	free(client->answer);
	*client = clients[--client_count];
}

unsigned int await_clients(struct pollfd *fds, int listening, unsigned long long *wait)
{
	unsigned int n;

	fds[0] = (struct pollfd){ .fd = client_count < CLIENTS ? listening : -1, .events = POLLIN };
	for (n = 0; n < client_count; n++) {
		fds[n + 1] = (struct pollfd){ .fd = clients[n].socket,
					      .events = clients[n].answer ? POLLOUT : POLLIN };
		*wait = clients[n].left < *wait ? clients[n].left : *wait;
	}
	return n + 1;
}

void serve(const struct pollfd *fds, int listening, unsigned long long waited)
{
	unsigned int n;
	int socket;

	/* Backwards, since the last client takes the place of one that leaves. */
	for (n = client_count; n--;) {
		struct client *client = &clients[n];

		client->left -= waited < client->left ? waited : client->left;
		if (!client->left ||
		    (fds[n + 1].revents && !(client->answer ? tell(client) : hear(client))))
			leave(client);
	}
	if (!fds[0].revents)
		return;
	socket = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	if (socket >= 0)
		clients[client_count++] = (struct client){ .socket = socket, .left = PATIENCE };
}

int open_socket(const struct sockaddr_in *address)
{
	int yes = 1, listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (listening < 0 || bind(listening, (const struct sockaddr *)address, sizeof(*address)) ||
	    listen(listening, SOMAXCONN))
		die(1, "can't listen there: %s; next: ss -ltn", strerror(errno));
	return listening;
}

// SPDX-License-Identifier: GPL-2.0-only
/* OpenMetrics over HTTP. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
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

/* What a client may take in all, in ns: to ask, to take the answer in and to close. iolat's own time isn't in it. */
#define PATIENCE NSEC

struct client {
	int socket;
	unsigned long long left;
};

/* Wait until a client can be read from or written to; false when its time is up. */
static bool wait_for(struct client *client, short events)
{
	struct pollfd ready = { .fd = client->socket, .events = events };
	unsigned long long begin = now_ns(), took;
	int result = poll(&ready, 1, client->left / 1000000);

	took = now_ns() - begin;
	client->left -= took < client->left ? took : client->left;
	return result > 0 && client->left;
}

/* Read an HTTP request up to its empty line; false if there is none. */
static bool read_request(struct client *client, char *request, size_t size)
{
	size_t length = 0;
	ssize_t more;

	while (length < size - 1 && wait_for(client, POLLIN) &&
	       (more = recv(client->socket, request + length, size - 1 - length, MSG_DONTWAIT)) >
		       0) {
		length += more;
		request[length] = '\0';
		if (strstr(request, "\r\n\r\n") || strstr(request, "\n\n"))
			return true;
	}
	return false;
}

static void send_all(struct client *client, const char *text, size_t size)
{
	ssize_t sent;

	while (size && wait_for(client, POLLOUT)) {
		sent = send(client->socket, text, size, MSG_DONTWAIT);
		if (sent < 0)
			return;
		text += sent;
		size -= sent;
	}
}

/* The whole answer, allocated. */
static char *answer(const char *request, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	if (!out)
		die(1, "out of memory; try: free -h");
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
		die(1, "out of memory; try: free -h");
	return text;
}

void serve(int listening)
{
	struct client client = { accept4(listening, NULL, NULL, SOCK_CLOEXEC), PATIENCE };
	char request[4096], *text;
	size_t size;

	if (client.socket < 0)
		return;
	if (read_request(&client, request, sizeof(request))) {
		text = answer(request, &size);
		send_all(&client, text, size);
		free(text);
		/* What was sent arrives whole if the client closes first. */
		shutdown(client.socket, SHUT_WR);
		wait_for(&client, POLLIN);
	}
	close(client.socket);
}

int open_socket(const struct sockaddr_in *address)
{
	int yes = 1, listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (listening < 0 || bind(listening, (const struct sockaddr *)address, sizeof(*address)) ||
	    listen(listening, 16))
		die(1, "can't listen there: %s; try: ss -ltn", strerror(errno));
	return listening;
}

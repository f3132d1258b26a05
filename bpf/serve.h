/* SPDX-License-Identifier: GPL-2.0-only */
/* OpenMetrics over HTTP. */
#ifndef SERVE_H
#define SERVE_H

#include <netinet/in.h>

/* A socket that listens there. */
int open_socket(const struct sockaddr_in *address);

/* Answer one HTTP request. A client has a second of iolat's time to ask and to take the answer in, then it is left. */
void serve(int listening);

#endif

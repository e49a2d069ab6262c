/* The server of test_http_server.c: a process of its own, for its limit and its processor time. */
#ifndef TESTS_UNIT_HTTP_HOST_H
#define TESTS_UNIT_HTTP_HOST_H

#include "supervisor/http_server.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILES_MAX   64
#define BIG_BYTES   (8 << 20)
#define HOST_ENDS_S 60

enum hoard {
	NO_HOARD,
	HOARD_BEFORE,
	HOARD_AFTER
}; /* takes every descriptor, before or after opening */

static struct event_base *base;
static int hoarded[FILES_MAX], hoarded_len;

static void
hoard(void)
{
	while (hoarded_len < FILES_MAX && (hoarded[hoarded_len] = dup(0)) >= 0)
		hoarded_len++;
}

static void
give_back_hoard(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	while (hoarded_len > 0)
		close(hoarded[--hoarded_len]);
}

static void
serve(const struct http_request *request, struct http_reply *reply, void *arg)
{
	(void)arg;
	reply->status = 200;
	if (strcmp(request->path, "/events") == 0) {
		reply->len = (size_t)asprintf(
		    &reply->body, "%d", event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED));
	} else if (strcmp(request->path, "/big") == 0) {
		reply->body = calloc(1, BIG_BYTES);
		reply->len = BIG_BYTES;
	} else if (strcmp(request->path, "/who") == 0) {
		reply->len = (size_t)asprintf(&reply->body, "%s %u",
					      request->local ? "local" : "tcp", request->uid);
	}
}

static _Noreturn void
serve_for_ever(const char *path, const char *address, enum hoard when, int ready_fd)
{
	const struct rlimit limit = {FILES_MAX, FILES_MAX};
	const struct timeval hoard_time = {1, 500000};
	struct http_server *server;
	char error[256];

	for (int fd = 3; fd < 256; fd++)
		if (fd != ready_fd)
			close(fd);
	alarm(HOST_ENDS_S);
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || (base = event_base_new()) == NULL)
		_exit(2);
	event_add(evsignal_new(base, SIGUSR1, give_back_hoard, NULL), NULL);
	if (when == HOARD_BEFORE) {
		hoard();
		evtimer_add(evtimer_new(base, give_back_hoard, NULL), &hoard_time);
	}
	server = http_server_open(base, serve, NULL);
	if (when == HOARD_BEFORE)
		close(hoarded[--hoarded_len]);
	if (http_server_listen_unix(server, path, 0600, error, sizeof(error)) != 0 ||
	    (address != NULL && http_server_listen_tcp(server, address, error, sizeof(error)) != 0))
		_exit(3);
	if (when == HOARD_AFTER)
		hoard();
	if (write(ready_fd, "r", 1) != 1)
		_exit(4);
	event_base_dispatch(base);
	_exit(5);
}

#endif

/* Readers of a server in this very process, which turns its loop between two looks at them. */
#ifndef TESTS_UNIT_STREAM_READER_H
#define TESTS_UNIT_STREAM_READER_H

#include "common/deadline.h"
#include "supervisor/http_server.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PRIORITIES  3
#define READ_BYTES  ((size_t)1 << 20)
#define PATIENCE_NS (20 * NS_PER_SEC)
/* The loop reads a coarse clock: a timer can be early by some of its ticks, 10 ms at the most. */
#define COARSE_NS (20 * NS_PER_MSEC)

static struct event_base *base;
static struct http_server *server;
static char root[64], socket_path[100], text[READ_BYTES];

static int
open_server(http_handler handler)
{
	char error[256];

	snprintf(root, sizeof(root), "/tmp/tf-stream-XXXXXX");
	if (mkdtemp(root) == NULL)
		return -1;
	snprintf(socket_path, sizeof(socket_path), "%s/health.sock", root);
	base = event_base_new();
	if (base == NULL || event_base_priority_init(base, PRIORITIES) != 0 ||
	    (server = http_server_open(base, handler, NULL)) == NULL)
		return -1;
	return http_server_listen_unix(server, socket_path, 0600, error, sizeof(error));
}

static int
close_server(void)
{
	http_server_close(server);
	event_base_free(base);
	unlink(socket_path);
	return rmdir(root);
}

/* Sends a request; what comes back is read by reads(). */
static int
reader(const char *request)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* Turns the loop, without waiting, until it has nothing more to do. */
static void
turn(void)
{
	for (int i = 0; i < 3 * HTTP_CLIENTS_MAX; i++)
		event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

/* Lets the loop wait for its timers until the condition holds, or patience ends. */
#define AWAIT(condition)                                                                           \
	do {                                                                                       \
		const uint64_t end_ns = monotonic_ns() + PATIENCE_NS;                              \
		while (!(condition)) {                                                             \
			assert_true(monotonic_ns() < end_ns);                                      \
			event_base_loop(base, EVLOOP_ONCE);                                        \
		}                                                                                  \
	} while (0)

/* What has come so far, NUL-terminated; *eof: and no more will. */
static const char *
reads(int fd, bool *eof)
{
	size_t len = 0;
	ssize_t n = -1;

	turn();
	while (len < sizeof(text) - 1 &&
	       (n = recv(fd, text + len, sizeof(text) - len - 1, 0)) > 0) {
		len += (size_t)n;
		turn();
	}
	text[len] = '\0';
	if (eof != NULL)
		*eof = n == 0 || (n < 0 && errno != EAGAIN);
	return text;
}

#endif

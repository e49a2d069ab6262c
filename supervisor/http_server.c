#include "supervisor/http_server.h"
#include "supervisor/http_client.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG       128
#define LISTENERS_MAX 2
#define HOST_BYTES    256

struct listener {
	struct http_server *server;
	struct event *event;
	int fd;
	bool local;
};

struct http_server {
	struct event_base *base;
	struct listener listeners[LISTENERS_MAX];
	size_t listeners_len;
	struct http_clients clients;
	struct event *pause_event; /* pending while the listeners rest for want of descriptors */
	int spare_fd;              /* given up for a moment to turn a client away */
};

static void
open_spare(struct http_server *server)
{
	if (server->spare_fd < 0)
		server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void
on_pause_over(int fd, short what, void *arg)
{
	struct http_server *server = arg;

	(void)fd;
	(void)what;
	open_spare(server);
	for (size_t i = 0; i < server->listeners_len; i++)
		event_add(server->listeners[i].event, NULL);
}

/* A listener that cannot accept stays readable: the loop would spin on it. */
static void
pause_listeners(struct http_server *server)
{
	const struct timeval second = {1, 0};

	for (size_t i = 0; i < server->listeners_len; i++)
		event_del(server->listeners[i].event);
	event_add(server->pause_event, &second);
}

static void
turn_away(int fd)
{
	static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
				     "Retry-After: 1\r\nContent-Length: 0\r\n\r\n";
	char request[1024];

	/* What is left unread resets a TCP connection, and its peer may lose the answer. */
	while (recv(fd, request, sizeof(request), MSG_DONTWAIT) > 0)
		;
	send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

static int
accept_one(int fd)
{
	int accepted;

	do {
		accepted = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	} while (accepted < 0 && (errno == EINTR || errno == ECONNABORTED));
	return accepted;
}

/* No descriptor is left: the oldest idle client gives its own, or the spare one serves a refusal.
 */
static void
make_room(struct http_server *server, int listener_fd)
{
	int fd;

	if (http_clients_evict(&server->clients))
		return;
	if (server->spare_fd >= 0) {
		close(server->spare_fd);
		server->spare_fd = -1;
		fd = accept_one(listener_fd);
		if (fd >= 0)
			turn_away(fd);
		open_spare(server);
	}
	if (server->spare_fd < 0)
		pause_listeners(server);
}

static void
admit(struct listener *listener, int fd)
{
	struct http_clients *clients = &listener->server->clients;

	if (clients->n >= HTTP_CLIENTS_MAX && !http_clients_evict(clients)) {
		turn_away(fd);
		return;
	}
	http_client_new(clients, fd, listener->local);
}

/* One at a time: what has become known since the loop looked comes before the next answer. */
static void
on_listener(int fd, short what, void *arg)
{
	struct listener *listener = arg;
	int accepted = accept_one(fd);

	(void)what;
	if (accepted >= 0) {
		admit(listener, accepted);
	} else if (errno == EMFILE || errno == ENFILE) {
		make_room(listener->server, fd);
	} else if (errno != EAGAIN) {
		log_warn("health socket: accept");
		pause_listeners(listener->server);
	}
}

struct http_server *
http_server_open(struct event_base *base, http_handler handler, void *arg)
{
	struct http_server *server = calloc(1, sizeof(*server));

	if (server == NULL)
		return NULL;
	server->base = base;
	server->spare_fd = -1;
	http_clients_init(&server->clients, base, handler, arg);
	server->pause_event = event_new(base, -1, 0, on_pause_over, server);
	if (server->pause_event == NULL) {
		free(server);
		return NULL;
	}
	open_spare(server);
	return server;
}

void
http_server_close(struct http_server *server)
{
	http_clients_close(&server->clients);
	for (size_t i = 0; i < server->listeners_len; i++) {
		event_free(server->listeners[i].event);
		close(server->listeners[i].fd);
	}
	event_free(server->pause_event);
	if (server->spare_fd >= 0)
		close(server->spare_fd);
	free(server);
}

int
http_server_streams(const struct http_server *server)
{
	return server->clients.streams;
}

void
http_server_wake(struct http_server *server)
{
	http_clients_wake(&server->clients);
}

static int
fail(const char *where, const char *why, char *error, size_t size)
{
	snprintf(error, size, "health socket: cannot listen on %s: %s", where, why);
	return -1;
}

/* Takes fd, whose address is `where`. */
static int
add_listener(struct http_server *server, int fd, bool local, const char *where, char *error,
	     size_t size)
{
	struct listener *listener = &server->listeners[server->listeners_len];

	*listener = (struct listener){server, NULL, fd, local};
	if (listen(fd, BACKLOG) == 0)
		listener->event =
		    event_new(server->base, fd, EV_READ | EV_PERSIST, on_listener, listener);
	if (listener->event == NULL) {
		fail(where, strerror(errno), error, size);
		close(fd);
		return -1;
	}
	http_event_priority(server->base, listener->event);
	event_add(listener->event, NULL);
	server->listeners_len++;
	return 0;
}

/* Makes the socket file with this mode from its first moment on. */
static int
bind_unix(int fd, const struct sockaddr_un *address, unsigned mode)
{
	mode_t umask_before = umask(~(mode_t)mode & 0777);
	int r = bind(fd, (const struct sockaddr *)address, sizeof(*address));

	umask(umask_before);
	return r;
}

int
http_server_listen_unix(struct http_server *server, const char *path, unsigned mode, char *error,
			size_t size)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *slash = strrchr(path, '/');
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return fail(path, strerror(ENAMETOOLONG), error, size);
	/* A hidden name until it listens: whoever finds the socket gets an answer. */
	memcpy(address.sun_path, path, strlen(path) + 1);
	address.sun_path[slash == NULL ? 0 : slash - path + 1] = '.';
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail(path, strerror(errno), error, size);
	if (bind_unix(fd, &address, mode) != 0) {
		fail(path, strerror(errno), error, size);
		close(fd);
		return -1;
	}
	if (add_listener(server, fd, true, path, error, size) != 0)
		return -1;
	return rename(address.sun_path, path) == 0 ? 0 : fail(path, strerror(errno), error, size);
}

/* "[::1]:80" -> "::1", "80". False if there is no port. */
static bool
split_address(const char *address, char host[HOST_BYTES], const char **port)
{
	const char *colon = strrchr(address, ':');
	size_t len;

	if (colon == NULL || colon[1] == '\0')
		return false;
	len = (size_t)(colon - address);
	if (len >= 2 && address[0] == '[' && address[len - 1] == ']') {
		address++;
		len -= 2;
	}
	if (len >= HOST_BYTES)
		return false;
	memcpy(host, address, len);
	host[len] = '\0';
	*port = colon + 1;
	return true;
}

static int
bind_tcp(const struct addrinfo *info)
{
	const int on = 1;
	int fd, saved;

	fd = socket(info->ai_family, info->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
		    info->ai_protocol);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, info->ai_addr, info->ai_addrlen) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

int
http_server_listen_tcp(struct http_server *server, const char *address, char *error, size_t size)
{
	const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
				       .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	char host[HOST_BYTES];
	const char *port;
	int fd = -1, r;

	if (!split_address(address, host, &port))
		return fail(address, "expected HOST:PORT", error, size);
	r = getaddrinfo(host[0] == '\0' ? NULL : host, port, &hints, &found);
	if (r != 0)
		return fail(address, gai_strerror(r), error, size);
	for (const struct addrinfo *info = found; info != NULL && fd < 0; info = info->ai_next)
		fd = bind_tcp(info);
	freeaddrinfo(found);
	if (fd < 0)
		return fail(address, strerror(errno), error, size);
	return add_listener(server, fd, false, address, error, size);
}

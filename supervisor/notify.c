#include "supervisor/notify.h"

#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define DATAGRAM_MAX_BYTES 4096
#define DATAGRAMS_A_TURN   64
#define FDS_MAX            16
#define NOTIFY_PRIORITY    2 /* a flood keeps nobody from being heard or answered */

struct notify {
	int rank, fd;
	struct event *event;
	notify_word word;
	void *arg;
	bool warned;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

static void
warn_once(struct notify *notify, const char *what)
{
	if (notify->warned)
		return;
	notify->warned = true;
	log_warnx("rank %d: its notify socket got %s; ignored, and so are later ones", notify->rank,
		  what);
}

static bool
parse_usec(const char *text, uint64_t *usec)
{
	char *end;

	errno = 0;
	*usec = strtoull(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' && text[0] != '-';
}

/* One KEY=VALUE of a datagram. */
static void
take_field(struct notify *notify, const char *field)
{
	struct message m = {.verb = VERB_COUNT, .rank = -1};
	static const char *const known[] = {
	    "MAINPID=",   "ERRNO=",          "BUSERROR=",     "EXIT_STATUS=",
	    "BARRIER=",   "NOTIFYACCESS=",   "FDSTORE=",      "FDNAME=",
	    "RELOADING=", "MONOTONIC_USEC=", "WATCHDOG_USEC="};

	if (strcmp(field, "READY=1") == 0) {
		m.verb = VERB_READY;
	} else if (strncmp(field, "STATUS=", 7) == 0) {
		m.verb = VERB_STATUS;
		message_to_string(field + 7, strlen(field + 7), m.text, sizeof(m.text));
	} else if (strcmp(field, "WATCHDOG=1") == 0) {
		m.verb = VERB_WATCHDOG;
	} else if (strcmp(field, "STOPPING=1") == 0) {
		m.verb = VERB_STOPPING;
	} else if (strncmp(field, "EXTEND_TIMEOUT_USEC=", 20) == 0 &&
		   parse_usec(field + 20, &m.extend_usec)) {
		m.verb = VERB_EXTEND;
	}
	if (m.verb != VERB_COUNT) {
		notify->word(notify->rank, &m, notify->arg);
		return;
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strncmp(field, known[i], strlen(known[i])) == 0)
			return;
	if (field[0] != '\0')
		warn_once(notify, "a field that means nothing here");
}

static void
take_datagram(struct notify *notify, char *text, size_t len)
{
	if (len == 0) {
		warn_once(notify, "an empty datagram");
		return;
	}
	if (memchr(text, '\0', len) != NULL && text[len - 1] != '\0')
		warn_once(notify, "a datagram with a NUL in it");
	text[len] = '\0';
	for (char *field = text, *next; field != NULL; field = next) {
		if ((next = strchr(field, '\n')) != NULL)
			*next++ = '\0';
		take_field(notify, field);
	}
}

/* BARRIER and FDSTORE bring descriptors: closing them is what the sender waits for. */
static void
close_descriptors(struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			close(fd);
		}
	}
}

static bool
receive_one(struct notify *notify)
{
	char text[DATAGRAM_MAX_BYTES + 1];
	union {
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {text, DATAGRAM_MAX_BYTES};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(notify->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EINTR;
	if ((msg.msg_flags & MSG_TRUNC) != 0)
		warn_once(notify, "a datagram over 4096 bytes");
	else
		take_datagram(notify, text, (size_t)n);
	close_descriptors(&msg);
	return true;
}

void
notify_drain(struct notify *notify)
{
	for (int i = 0; i < DATAGRAMS_A_TURN && receive_one(notify); i++)
		continue;
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	notify_drain(arg);
}

static int
bind_socket(struct notify *notify, const char *path, uid_t uid, gid_t gid)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(address.sun_path, path, strlen(path));
	memcpy(notify->path, path, strlen(path) + 1);
	notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Made with the mode at once: nobody else may slip in before a chmod. */
	if (notify->fd < 0 || fchmod(notify->fd, 0600) != 0 ||
	    bind(notify->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		return -1;
	if (chmod(path, 0600) != 0)
		return -1;
	return uid == geteuid() ? 0 : lchown(path, uid, gid);
}

struct notify *
notify_open(struct event_base *base, int rank, const char *path, uid_t uid, gid_t gid,
	    notify_word word, void *arg, char *error, size_t size)
{
	struct notify *notify = calloc(1, sizeof(*notify));

	if (notify == NULL) {
		snprintf(error, size, "%s: out of memory", path);
		return NULL;
	}
	notify->rank = rank;
	notify->fd = -1;
	notify->word = word;
	notify->arg = arg;
	if (bind_socket(notify, path, uid, gid) != 0) {
		snprintf(error, size, "%s: %s", path, strerror(errno));
		notify_close(notify);
		return NULL;
	}
	notify->event = event_new(base, notify->fd, EV_READ | EV_PERSIST, on_readable, notify);
	if (notify->event == NULL || event_priority_set(notify->event, NOTIFY_PRIORITY) != 0 ||
	    event_add(notify->event, NULL) != 0) {
		snprintf(error, size, "%s: cannot be watched", path);
		notify_close(notify);
		return NULL;
	}
	return notify;
}

int
notify_fd(const struct notify *notify)
{
	return notify == NULL ? -1 : notify->fd;
}

void
notify_close(struct notify *notify)
{
	if (notify == NULL)
		return;
	if (notify->event != NULL)
		event_free(notify->event);
	if (notify->fd >= 0)
		close(notify->fd);
	if (notify->path[0] != '\0')
		unlink(notify->path);
	free(notify);
}

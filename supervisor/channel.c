#include "supervisor/channel.h"

#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define VECTORS                16
#define CAREFUL_TERMINAL_BYTES 128

/* How a descriptor is written to without blocking. */
enum manner {
	DIRECT,  /* files: they take what comes */
	OWN,     /* through a non-blocking description */
	SEND,    /* sockets: per call */
	CAREFUL, /* after poll(2), a little at a time */
};

struct channel {
	int fd;  /* the one that is written to */
	int own; /* the same if it is ours to close, else -1 */
	enum manner manner;
	bool terminal, dead, held;
	bool waiting;   /* for the descriptor */
	bool torn;      /* what was lost began within a line */
	bool separated; /* the queue begins with a newline for that */
	char last;      /* byte written */
	int error;
	uint64_t lost;   /* lines */
	size_t released; /* while held: bytes of the queue that may go */
	struct evbuffer *queue;
	struct event *turn;     /* at the end of this turn */
	struct event *writable; /* NULL for files */
	channel_drained drained;
	void *arg;
};

static enum manner
manner_of(struct channel *channel, int fd)
{
	char path[40];
	struct stat st;

	if (fstat(fd, &st) != 0) {
		channel->dead = true;
		return DIRECT;
	}
	if (S_ISSOCK(st.st_mode))
		return SEND;
	if (!S_ISFIFO(st.st_mode) && !channel->terminal)
		return DIRECT;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	channel->own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return channel->own >= 0 ? OWN : CAREFUL;
}

/* As write(2) with EAGAIN for "not now". */
static ssize_t
write_some(struct channel *channel, struct iovec *vectors, int n)
{
	struct pollfd pfd = {.fd = channel->fd, .events = POLLOUT};
	struct msghdr message = {.msg_iov = vectors, .msg_iovlen = (size_t)n};
	size_t little = channel->terminal ? CAREFUL_TERMINAL_BYTES : PIPE_BUF;

	switch (channel->manner) {
	case SEND:
		return sendmsg(channel->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	case CAREFUL:
		if (poll(&pfd, 1, 0) == 0) {
			errno = EAGAIN;
			return -1;
		}
		if (vectors[0].iov_len > little)
			vectors[0].iov_len = little;
		return write(channel->fd, vectors[0].iov_base, vectors[0].iov_len);
	default:
		return writev(channel->fd, vectors, n);
	}
}

static size_t
allowed(const struct channel *channel)
{
	return channel->held ? channel->released : evbuffer_get_length(channel->queue);
}

static void
discard(struct channel *channel)
{
	size_t len = evbuffer_get_length(channel->queue);
	const unsigned char *text = evbuffer_pullup(channel->queue, -1);

	for (size_t i = 0; text != NULL && i < len; i++)
		channel->lost += text[i] == '\n';
	channel->lost -= channel->separated;
	channel->separated = false;
	evbuffer_drain(channel->queue, len);
	channel->released = 0;
}

/* The byte at offset `at` of the first bytes in vectors. */
static char
byte_at(const struct iovec *vectors, size_t at)
{
	while (at >= vectors->iov_len)
		at -= vectors++->iov_len;
	return ((const char *)vectors->iov_base)[at];
}

/* One write of at most `most` bytes. Returns what was written, 0 to stop, errno then tells. */
static size_t
write_once(struct channel *channel, size_t most)
{
	struct evbuffer_iovec peeked[VECTORS] = {0};
	struct iovec vectors[VECTORS] = {0};
	int n = evbuffer_peek(channel->queue, (ssize_t)most, NULL, peeked, VECTORS), used = 0;
	size_t sum = 0;
	ssize_t written;

	for (; used < n && used < VECTORS && sum < most; used++) {
		vectors[used].iov_base = peeked[used].iov_base;
		vectors[used].iov_len = peeked[used].iov_len;
		if (vectors[used].iov_len > most - sum)
			vectors[used].iov_len = most - sum;
		sum += vectors[used].iov_len;
	}
	do {
		written = write_some(channel, vectors, used);
	} while (written < 0 && errno == EINTR);
	if (written == 0)
		errno = EIO;
	if (written <= 0)
		return 0;
	channel->last = byte_at(vectors, (size_t)written - 1);
	channel->torn = channel->separated = false;
	evbuffer_drain(channel->queue, (size_t)written);
	if (channel->held)
		channel->released -= (size_t)written;
	return (size_t)written;
}

static void
await(struct channel *channel)
{
	channel->waiting = true;
	event_add(channel->writable, NULL);
}

/* A full disk may have room again; a reader that went away does not come back. */
static void
fail(struct channel *channel, int error)
{
	channel->error = error;
	channel->torn = channel->last != '\n';
	discard(channel);
	if (error != ENOSPC && error != EDQUOT && error != EFBIG)
		channel->dead = true;
}

void
channel_pump(struct channel *channel)
{
	size_t budget = CHANNEL_TURN_BYTES, most, n;
	bool waited = channel->waiting;

	channel->waiting = false;
	while ((most = allowed(channel)) > 0 && budget > 0 && !channel->dead) {
		n = write_once(channel, most < budget ? most : budget);
		if (n == 0 && errno == EAGAIN && channel->writable != NULL) {
			await(channel);
			return;
		}
		if (n == 0) {
			fail(channel, errno);
			break;
		}
		channel->error = 0;
		budget -= n;
	}
	if (allowed(channel) > 0 && !channel->dead)
		event_active(channel->turn, EV_TIMEOUT, 0);
	else if ((waited || channel->dead) && channel->drained != NULL)
		channel->drained(channel->arg);
}

static void
on_pump(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	channel_pump(arg);
}

void
channel_put(struct channel *channel, const char *data, size_t len)
{
	if (channel->dead)
		return;
	if (channel->torn && channel_queued(channel) == 0)
		channel->separated = evbuffer_add(channel->queue, "\n", 1) == 0;
	if (evbuffer_add(channel->queue, data, len) != 0)
		channel->lost++;
	if (!channel->held && !channel->waiting)
		event_active(channel->turn, EV_TIMEOUT, 0);
}

size_t
channel_queued(const struct channel *channel)
{
	return evbuffer_get_length(channel->queue);
}

void
channel_hold(struct channel *channel, bool hold)
{
	channel->held = hold;
	channel->released = hold ? channel_queued(channel) : 0;
	if (!channel->waiting)
		event_active(channel->turn, EV_TIMEOUT, 0);
}

void
channel_release(struct channel *channel)
{
	channel->released = channel_queued(channel);
	channel_pump(channel);
}

bool
channel_is_behind(const struct channel *channel)
{
	return allowed(channel) > 0;
}

bool
channel_is_waiting(const struct channel *channel)
{
	return channel->waiting;
}

uint64_t
channel_take_lost(struct channel *channel)
{
	uint64_t lost = channel->lost;

	channel->lost = 0;
	return lost;
}

bool
channel_is_dead(const struct channel *channel)
{
	return channel->dead;
}

int
channel_error(const struct channel *channel)
{
	return channel->error;
}

int
channel_fd(const struct channel *channel)
{
	return channel->fd;
}

bool
channel_is_terminal(const struct channel *channel)
{
	return channel->terminal;
}

bool
channel_same(int fd, int other)
{
	struct stat a, b;

	if (fstat(fd, &a) != 0 || fstat(other, &b) != 0)
		return false;
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

struct channel *
channel_open(struct event_base *base, int fd, channel_drained drained, void *arg)
{
	struct channel *channel = calloc(1, sizeof(*channel));

	if (channel == NULL)
		return NULL;
	channel->own = -1;
	channel->last = '\n';
	channel->drained = drained;
	channel->arg = arg;
	channel->terminal = isatty(fd) == 1;
	channel->manner = manner_of(channel, fd);
	channel->fd = channel->own >= 0 ? channel->own : fd;
	channel->queue = evbuffer_new();
	channel->turn = event_new(base, -1, 0, on_pump, channel);
	if (channel->manner != DIRECT)
		channel->writable = event_new(base, channel->fd, EV_WRITE, on_pump, channel);
	if (channel->queue == NULL || channel->turn == NULL ||
	    (channel->manner != DIRECT && channel->writable == NULL)) {
		channel_close(channel);
		return NULL;
	}
	event_priority_set(channel->turn, CHANNEL_PRIORITY);
	if (channel->writable != NULL)
		event_priority_set(channel->writable, CHANNEL_PRIORITY);
	return channel;
}

void
channel_close(struct channel *channel)
{
	if (channel->writable != NULL)
		event_free(channel->writable);
	if (channel->turn != NULL)
		event_free(channel->turn);
	if (channel->queue != NULL)
		evbuffer_free(channel->queue);
	if (channel->own >= 0)
		close(channel->own);
	free(channel);
}

/* Packets of the link in and out, on the rank's side. */
#include "worker/tfrank_link.h"

#include "common/deadline.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 4 /* of one packet; more than one is odd, all are closed but the first */

static _Thread_local char error_text[256];

/* For fork(): a child that kept the link open would hide our end from the supervisor. */
static atomic_int process_link = -1;

const char *
tfrank_error(void)
{
	return error_text;
}

int
link_error(int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error_text, sizeof(error_text), fmt, ap);
	va_end(ap);
	return -error;
}

int
link_check_process(const struct tfrank *rank)
{
	if (getpid() == rank->pid)
		return 0;
	return link_error(ECHILD, "a forked child does not speak for its rank");
}

static void
close_in_child(void)
{
	int fd = atomic_exchange(&process_link, -1);

	if (fd >= 0)
		close(fd);
}

static int register_error;

static void
register_fork_handler(void)
{
	register_error = pthread_atfork(NULL, NULL, close_in_child);
}

static int
check_socket(int fd)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0)
		return link_error(errno, LINK_FD_VARIABLE "=%d: %s", fd, strerror(errno));
	len = sizeof(int);
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0)
		return link_error(errno, LINK_FD_VARIABLE "=%d: %s", fd, strerror(errno));
	if (domain != AF_UNIX || type != SOCK_SEQPACKET)
		return link_error(EPROTOTYPE,
				  LINK_FD_VARIABLE "=%d: not a Unix socket of type SOCK_SEQPACKET",
				  fd);
	return 0;
}

int
link_adopt(struct tfrank *rank, int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int error = check_socket(fd);

	if (error != 0)
		return error;
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
		return link_error(errno, LINK_FD_VARIABLE "=%d: %s", fd, strerror(errno));
	pthread_once(&once, register_fork_handler);
	if (register_error != 0)
		return link_error(register_error, "fork handler: %s", strerror(register_error));
	rank->fd = fd;
	atomic_store(&process_link, fd);
	return 0;
}

void
link_close(struct tfrank *rank)
{
	if (rank->fd < 0)
		return;
	atomic_store(&process_link, -1);
	shutdown(rank->fd, SHUT_RDWR);
	close(rank->fd);
	rank->fd = -1;
}

int
link_usable(const struct tfrank *rank)
{
	if ((rank->seen & TFRANK_EVENT_ABORT) != 0)
		return link_error(ECONNABORTED, "the group is lost: %s: %s",
				  reason_word(rank->abort_reason), rank->abort_detail);
	if ((rank->seen & TFRANK_EVENT_CLOSED) != 0)
		return link_error(EPIPE, "the supervisor has closed the link");
	return 0;
}

static ssize_t
send_packet(int fd, const char *packet, size_t len, int passed_fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)packet, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (passed_fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &passed_fd, sizeof(int));
	}
	return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* An ABORT may lie unread behind a link that can no longer be written. */
static int
send_failed(struct tfrank *rank, int error)
{
	int lost;

	if (error != EPIPE && error != ECONNRESET)
		return link_error(error, "cannot send on the link: %s", strerror(error));
	link_receive(rank);
	lost = link_usable(rank);
	return lost != 0 ? lost : link_error(EPIPE, "the supervisor has closed the link");
}

static int
await_room(struct tfrank *rank, uint64_t deadline_ns)
{
	struct pollfd pollfd = {.fd = rank->fd, .events = POLLOUT};
	int n;

	pthread_mutex_unlock(&rank->lock);
	n = poll(&pollfd, 1, deadline_poll_ms(deadline_ns, monotonic_ns()));
	pthread_mutex_lock(&rank->lock);
	if (n == 0 && monotonic_ns() >= deadline_ns)
		return link_error(ETIMEDOUT, "the supervisor does not read the link");
	return 0;
}

int
link_send(struct tfrank *rank, const struct message *message, int fd, bool droppable)
{
	char packet[MESSAGE_MAX_BYTES];
	size_t len = message_format(message, packet);
	uint64_t deadline_ns = 0;
	int error;

	while ((error = link_usable(rank)) == 0) {
		if (send_packet(rank->fd, packet, len, fd) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return send_failed(rank, errno);
		if (droppable)
			return 0;
		if (deadline_ns == 0)
			deadline_ns = deadline_after(monotonic_ns(), SEND_TIMEOUT_NS);
		if ((error = await_room(rank, deadline_ns)) != 0)
			return error;
	}
	return error;
}

/* The first descriptor of a packet, -1 if it has none. */
static int
take_descriptor(struct msghdr *msg)
{
	int first = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (first < 0)
				first = fd;
			else
				close(fd);
		}
	}
	return first;
}

static void
take_welcome(struct tfrank *rank, const struct message *message)
{
	rank->rank = message->rank;
	rank->world_size = message->world_size;
	rank->epoch = message->epoch;
	rank->ready_timeout_usec = message->ready_timeout_usec;
	rank->collective_timeout_usec = message->collective_timeout_usec;
	rank->seen |= TFRANK_EVENT_WELCOME;
}

static void
take_abort(struct tfrank *rank, const struct message *message)
{
	if ((rank->seen & TFRANK_EVENT_ABORT) != 0)
		return;
	rank->abort_reason = message->reason;
	rank->abort_rank = message->rank;
	memcpy(rank->abort_detail, message->text, sizeof(rank->abort_detail));
	rank->seen |= TFRANK_EVENT_ABORT;
}

/* Returns true if it has kept fd. */
static bool
take_group_id(struct tfrank *rank, const struct message *message, int fd)
{
	if ((rank->seen & TFRANK_EVENT_GROUP_ID) != 0)
		return false;
	memcpy(rank->id, message->group_id, message->group_id_len);
	rank->id_len = message->group_id_len;
	rank->id_fd = fd;
	rank->seen |= TFRANK_EVENT_GROUP_ID;
	return true;
}

static int
take_packet(struct tfrank *rank, const char *packet, size_t len, int fd)
{
	struct message message;
	struct message_error error;
	bool kept = false;

	if (message_parse(packet, len, FROM_SUPERVISOR, &message, &error) != 0) {
		if (fd >= 0)
			close(fd);
		return link_error(EPROTO, "the supervisor's packet was not understood: %s%s%s",
				  error.key, error.key[0] == '\0' ? "" : ": ", error.rule);
	}
	if (message.verb == VERB_WELCOME)
		take_welcome(rank, &message);
	else if (message.verb == VERB_GROUP_ID)
		kept = take_group_id(rank, &message, fd);
	else if (message.verb == VERB_GO)
		rank->seen |= TFRANK_EVENT_GO;
	else if (message.verb == VERB_ABORT)
		take_abort(rank, &message);
	else if (message.verb == VERB_STOP) {
		rank->grace_usec = message.grace_usec;
		rank->seen |= TFRANK_EVENT_STOP;
	}
	if (!kept && fd >= 0)
		close(fd);
	return 0;
}

static bool
peer_has_closed(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLRDHUP};

	return poll(&pollfd, 1, 0) > 0 && (pollfd.revents & (POLLRDHUP | POLLHUP)) != 0;
}

/* 1: read a packet, 0: nothing there or EOF, or an error. */
static int
receive_packet(struct tfrank *rank, bool *reset)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
	} control;
	char packet[MESSAGE_MAX_BYTES];
	struct iovec iov = {packet, sizeof(packet)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;
	int error;

	msg.msg_control = &control;
	msg.msg_controllen = sizeof(control);
	n = recvmsg(rank->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
	if (n < 0 && errno == EINTR)
		return 1;
	if (n < 0 && errno == EAGAIN)
		return 0;
	/* The other side closed with packets of ours unread; its own last words come next. */
	if (n < 0 && errno == ECONNRESET && !*reset) {
		*reset = true;
		return 1;
	}
	if (n < 0 && errno != ECONNRESET)
		return link_error(errno, "cannot read the link: %s", strerror(errno));
	if (n < 0 || (n == 0 && peer_has_closed(rank->fd))) {
		rank->seen |= TFRANK_EVENT_CLOSED;
		return 0;
	}
	error = take_packet(rank, packet, (size_t)n, take_descriptor(&msg));
	return error != 0 ? error : 1;
}

int
link_receive(struct tfrank *rank)
{
	bool reset = false;
	int n;

	if ((rank->seen & TFRANK_EVENT_CLOSED) != 0)
		return 0;
	while ((n = receive_packet(rank, &reset)) > 0)
		continue;
	return n;
}

static int
wait_result(struct tfrank *rank, unsigned wanted)
{
	int error;

	if ((rank->seen & wanted & TFRANK_EVENT_WELCOME) != 0)
		return 1;
	if ((error = link_usable(rank)) != 0)
		return error;
	if ((rank->seen & TFRANK_EVENT_STOP) != 0)
		return link_error(ECANCELED, "the supervisor asks us to stop");
	return (rank->seen & wanted) != 0;
}

int
link_wait(struct tfrank *rank, unsigned wanted, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd pollfd = {.fd = rank->fd, .events = POLLIN};
		uint64_t now_ns;
		int n;

		pthread_mutex_lock(&rank->lock);
		/* What is known needs no reading, which may be another thread's. */
		if ((n = wait_result(rank, wanted)) == 0 && (n = link_receive(rank)) == 0)
			n = wait_result(rank, wanted);
		pthread_mutex_unlock(&rank->lock);
		if (n != 0)
			return n < 0 ? n : 0;
		now_ns = monotonic_ns();
		if (deadline_ns != 0 && now_ns >= deadline_ns)
			return link_error(ETIMEDOUT, "nothing came in time");
		poll(&pollfd, 1, deadline_poll_ms(deadline_ns, now_ns));
	}
}

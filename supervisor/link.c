#include "supervisor/link.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS_MAX 4 /* taken from one packet; the kernel closes the rest */

int
link_pair(int *ours, int *theirs)
{
	int one = 1, pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return -1;
	/* With credentials on it an empty packet can be told from the end. */
	if (setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) != 0 ||
	    fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0) {
		int saved = errno;

		close(pair[0]);
		close(pair[1]);
		errno = saved;
		return -1;
	}
	*ours = pair[0];
	*theirs = pair[1];
	return 0;
}

/* Keeps the first descriptor, closes the others. */
static void
take_fds(const struct cmsghdr *cmsg, int *fd, int *fds)
{
	size_t n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < n; i++) {
		int one;

		memcpy(&one, CMSG_DATA(cmsg) + i * sizeof(one), sizeof(one));
		if (*fds == 0)
			*fd = one;
		else
			close(one);
		(*fds)++;
	}
}

enum link_result
link_receive(int link_fd, char *buffer, size_t *len, int *fd, int *fds)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {buffer, MESSAGE_MAX_BYTES + 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	bool reset = false, credentials = false;
	ssize_t n;

	*fd = -1;
	*fds = 0;
	while ((n = recvmsg(link_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0) {
		/* A peer that left packets of ours unread: its own last words are behind the error.
		 */
		if (errno == ECONNRESET && !reset)
			reset = true;
		else if (errno != EINTR)
			return errno == EAGAIN ? LINK_AGAIN : LINK_EOF;
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS)
			credentials = true;
		else if (c->cmsg_type == SCM_RIGHTS)
			take_fds(c, fd, fds);
	}
	if ((msg.msg_flags & MSG_CTRUNC) != 0)
		*fds += FDS_MAX;
	*len = (size_t)n;
	if (n > 0)
		return LINK_PACKET;
	return credentials ? LINK_EMPTY : LINK_EOF;
}

int
link_send(int link_fd, const char *packet, size_t len, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {(void *)(uintptr_t)packet, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		struct cmsghdr *c = &control.align;

		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return sendmsg(link_fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* The supervisor's end of a link, for the tests of tfrank. */
#ifndef TESTS_UNIT_TFRANK_PEER_H
#define TESTS_UNIT_TFRANK_PEER_H

#include "common/message.h"
#include "worker/tfrank.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int peer; /* the supervisor's end */
static struct tfrank *rank_;

static inline void
number_variable(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static inline void
clear_environment(void)
{
	static const char *const names[] = {"TFRANK_LINK_FD", "TFRANK_RANK", "TFRANK_WORLD_SIZE",
					    "TFRANK_EPOCH",   "RANK",        "WORLD_SIZE"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

static inline int
make_link(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	peer = pair[0];
	fcntl(pair[1], F_SETFD, 0);
	number_variable("TFRANK_LINK_FD", pair[1]);
	return pair[1];
}

static inline int
setup_as(int number)
{
	clear_environment();
	make_link();
	number_variable("TFRANK_RANK", number);
	number_variable("TFRANK_WORLD_SIZE", 2);
	number_variable("TFRANK_EPOCH", 3);
	assert_int_equal(tfrank_open(&rank_), 0);
	return 0;
}

static inline int
setup(void **state)
{
	(void)state;
	return setup_as(1);
}

static inline int
setup_zero(void **state)
{
	(void)state;
	return setup_as(0);
}

static inline int
setup_bare(void **state)
{
	(void)state;
	clear_environment();
	peer = -1;
	rank_ = NULL;
	return 0;
}

static inline int
teardown(void **state)
{
	(void)state;
	tfrank_close(rank_);
	if (peer >= 0)
		close(peer);
	return 0;
}

static inline void
says(const struct message *message, int fd)
{
	char packet[MESSAGE_MAX_BYTES];
	struct iovec iov = {packet, message_format(message, packet)};
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	assert_true(sendmsg(peer, &msg, MSG_NOSIGNAL) > 0);
}

static inline void
says_verb(enum verb verb)
{
	says(&(struct message){.verb = verb}, -1);
}

static inline void
welcomes(int number)
{
	says(&(struct message){.verb = VERB_WELCOME,
			       .rank = number,
			       .world_size = 2,
			       .epoch = 4,
			       .ready_timeout_usec = 7,
			       .collective_timeout_usec = 30000000},
	     -1);
}

static inline struct message
hears(void)
{
	char packet[MESSAGE_MAX_BYTES];
	struct message message;
	struct message_error error;
	ssize_t n = recv(peer, packet, sizeof(packet), MSG_DONTWAIT);

	assert_true(n > 0);
	assert_int_equal(message_parse(packet, (size_t)n, FROM_WORKER, &message, &error), 0);
	return message;
}

static inline void
hears_nothing(void)
{
	char packet[MESSAGE_MAX_BYTES];

	assert_int_equal(recv(peer, packet, sizeof(packet), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static inline void
hello(void)
{
	assert_int_equal(tfrank_hello(rank_, "ab"), 0);
	assert_int_equal(hears().verb, VERB_HELLO);
}

static inline void *
drain_all(void *arg)
{
	char packet[MESSAGE_MAX_BYTES];
	int *last = arg;
	struct message message;
	struct message_error error;
	ssize_t n;

	do {
		if ((n = recv(peer, packet, sizeof(packet), 0)) <= 0)
			return NULL;
		message_parse(packet, (size_t)n, FROM_WORKER, &message, &error);
		*last = (int)message.verb;
	} while (message.verb != VERB_READY);
	return NULL;
}

#define linked(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define bare(test)   cmocka_unit_test_setup_teardown(test, setup_bare, teardown)

#endif

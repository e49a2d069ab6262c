/* sources: worker/tfrank.c worker/tfrank_link.c worker/tfrank_wait.c */
#include "common/deadline.h"
#include "tests/unit/tfrank_peer.h"

#include <poll.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* --- waiting --- */

static void
go_ends_the_wait(void **state)
{
	(void)state;
	hello();
	welcomes(1);
	assert_int_equal(tfrank_wait_go(rank_, monotonic_ns() + NS_PER_MSEC), -ETIMEDOUT);
	says_verb(VERB_GO);
	assert_int_equal(tfrank_wait_go(rank_, 0), 0);
}

static void
an_abort_ends_every_wait_and_tells_why(void **state)
{
	unsigned char id[8];
	size_t len;

	(void)state;
	hello();
	assert_string_equal(tfrank_abort_reason(rank_), "");
	assert_int_equal(tfrank_abort_rank(rank_), -1);
	says(&(struct message){.verb = VERB_ABORT,
			       .reason = REASON_RANK_DISCONNECTED,
			       .rank = 0,
			       .text = "rank 0 exited 1"},
	     -1);
	assert_int_equal(tfrank_wait_go(rank_, 0), -ECONNABORTED);
	assert_int_equal(tfrank_get_group_id(rank_, id, sizeof(id), &len, NULL, 0), -ECONNABORTED);
	assert_int_equal(tfrank_collective_timeout_usec(rank_), -ECONNABORTED);
	assert_int_equal(tfrank_ready(rank_, 0), -ECONNABORTED);
	assert_non_null(strstr(tfrank_error(), "rank 0 exited 1"));
	assert_string_equal(tfrank_abort_reason(rank_), "RankDisconnected");
	assert_int_equal(tfrank_abort_rank(rank_), 0);
	assert_string_equal(tfrank_abort_detail(rank_), "rank 0 exited 1");
	hears_nothing();
}

static void
an_abort_wins_over_a_go_that_came_before_it(void **state)
{
	(void)state;
	hello();
	says_verb(VERB_GO);
	says(&(struct message){.verb = VERB_ABORT, .reason = REASON_RANK_TIMEOUT, .rank = -1}, -1);
	assert_int_equal(tfrank_wait_go(rank_, 0), -ECONNABORTED);
	assert_int_equal(tfrank_abort_rank(rank_), -1);
}

static void
leave_last_words(void)
{
	hello();
	tfrank_watchdog(rank_); /* unread by the peer: what we do next is ECONNRESET */
	says(&(struct message){.verb = VERB_ABORT, .reason = REASON_RANK_PROTOCOL, .rank = 1}, -1);
	close(peer);
	peer = -1;
}

static void
last_words_behind_a_closed_link_are_read_by_who_waits(void **state)
{
	(void)state;
	leave_last_words();
	assert_int_equal(tfrank_wait_go(rank_, 0), -ECONNABORTED);
	assert_string_equal(tfrank_abort_reason(rank_), "RankProtocol");
}

static void
last_words_behind_a_closed_link_are_read_by_who_speaks(void **state)
{
	(void)state;
	leave_last_words();
	assert_int_equal(tfrank_ready(rank_, 0), -ECONNABORTED);
	assert_string_equal(tfrank_abort_reason(rank_), "RankProtocol");
}

static void
speaking_to_a_supervisor_that_has_gone_is_an_error_and_no_signal(void **state)
{
	(void)state;
	hello();
	close(peer);
	peer = -1;
	assert_int_equal(tfrank_ready(rank_, 0), -EPIPE);
}

static void
a_supervisor_that_has_gone_ends_the_wait(void **state)
{
	(void)state;
	hello();
	close(peer);
	peer = -1;
	assert_int_equal(tfrank_wait_go(rank_, 0), -EPIPE);
	assert_int_equal(tfrank_ready(rank_, 0), -EPIPE);
	assert_int_equal(tfrank_dispatch(rank_), TFRANK_EVENT_CLOSED);
	assert_int_equal(tfrank_dispatch(rank_), 0);
}

static void
a_stop_ends_the_wait_and_has_its_grace(void **state)
{
	(void)state;
	hello();
	says(&(struct message){.verb = VERB_STOP, .grace_usec = 8000000}, -1);
	assert_int_equal(tfrank_wait_go(rank_, 0), -ECANCELED);
	assert_int_equal(tfrank_stop_grace_usec(rank_), 8000000);
	assert_int_equal(tfrank_stopping(rank_), 0);
	assert_int_equal(hears().verb, VERB_STOPPING);
}

static void
an_empty_packet_is_no_end(void **state)
{
	(void)state;
	hello();
	assert_int_equal(send(peer, "", 0, 0), 0);
	assert_int_equal(tfrank_dispatch(rank_), -EPROTO);
	says_verb(VERB_GO);
	assert_int_equal(tfrank_dispatch(rank_), TFRANK_EVENT_GO);
}

static void
a_packet_that_makes_no_sense_is_an_error_with_its_rule(void **state)
{
	(void)state;
	hello();
	assert_true(send(peer, "HELLO=1", 7, 0) > 0);
	assert_int_equal(tfrank_wait_go(rank_, 0), -EPROTO);
	assert_non_null(strstr(tfrank_error(), "HELLO"));
}

static void
the_loop_of_the_caller_gets_each_event_once(void **state)
{
	struct pollfd pollfd = {.fd = tfrank_fd(rank_), .events = POLLIN};

	(void)state;
	hello();
	assert_int_equal(tfrank_dispatch(rank_), 0);
	welcomes(1);
	says_verb(VERB_GO);
	assert_int_equal(poll(&pollfd, 1, 0), 1);
	assert_int_equal(tfrank_dispatch(rank_), TFRANK_EVENT_WELCOME | TFRANK_EVENT_GO);
	assert_int_equal(tfrank_dispatch(rank_), 0);
	assert_int_equal(tfrank_wait_go(rank_, 0), 0);
}

/* --- the group id --- */

static bool
is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

static void
same_file(int a, int b)
{
	assert_true(is_same_file(a, b));
}

static void
rank_zero_gives_the_id_with_its_descriptor(void **state)
{
	char packet[MESSAGE_MAX_BYTES], control[CMSG_SPACE(sizeof(int))], id[512];
	struct iovec iov = {packet, sizeof(packet)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	int file = memfd_create("test", MFD_CLOEXEC), fd = -1;
	const struct cmsghdr *control_header;
	size_t len;

	(void)state;
	hello();
	assert_int_equal(tfrank_put_group_id(rank_, "", 0, -1), -EINVAL);
	assert_int_equal(tfrank_put_group_id(rank_, packet, 513, -1), -EINVAL);
	assert_int_equal(tfrank_put_group_id(rank_, "12345", 5, file), 0);
	assert_int_equal(tfrank_put_group_id(rank_, "12345", 5, file), -EPROTO);
	assert_true(recvmsg(peer, &msg, 0) > 0);
	control_header = CMSG_FIRSTHDR(&msg);
	assert_non_null(control_header);
	if (control_header != NULL)
		memcpy(&fd, CMSG_DATA(control_header), sizeof(fd));
	same_file(fd, file);
	close(fd);
	assert_int_equal(tfrank_get_group_id(rank_, id, sizeof(id), &len, &fd, 0), 0);
	same_file(fd, file);
	close(fd);
	close(file);
}

static void
the_others_get_the_id_and_a_close_on_exec_descriptor(void **state)
{
	struct message message = {.verb = VERB_GROUP_ID, .group_id_len = 3};
	int file = memfd_create("test", MFD_CLOEXEC), fd;
	char id[3];
	size_t len;

	(void)state;
	hello();
	memcpy(message.group_id, "xyz", 3);
	says(&message, file);
	assert_int_equal(tfrank_get_group_id(rank_, id, 2, &len, &fd, 0), -EINVAL);
	assert_int_equal(tfrank_get_group_id(rank_, id, 3, &len, &fd, 0), 0);
	assert_int_equal(len, 3);
	assert_memory_equal(id, "xyz", 3);
	same_file(fd, file);
	for (int any = STDERR_FILENO + 1; any < 64; any++)
		if (is_same_file(any, file))
			assert_int_equal(fcntl(any, F_GETFD), FD_CLOEXEC);
	close(fd);
	close(file);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    linked(go_ends_the_wait),
	    linked(an_abort_ends_every_wait_and_tells_why),
	    linked(an_abort_wins_over_a_go_that_came_before_it),
	    linked(last_words_behind_a_closed_link_are_read_by_who_waits),
	    linked(last_words_behind_a_closed_link_are_read_by_who_speaks),
	    linked(speaking_to_a_supervisor_that_has_gone_is_an_error_and_no_signal),
	    linked(a_supervisor_that_has_gone_ends_the_wait),
	    linked(a_stop_ends_the_wait_and_has_its_grace),
	    linked(an_empty_packet_is_no_end),
	    linked(a_packet_that_makes_no_sense_is_an_error_with_its_rule),
	    linked(the_loop_of_the_caller_gets_each_event_once),
	    cmocka_unit_test_setup_teardown(rank_zero_gives_the_id_with_its_descriptor, setup_zero,
					    teardown),
	    linked(the_others_get_the_id_and_a_close_on_exec_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

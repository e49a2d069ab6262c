/* sources: worker/tfrank.c worker/tfrank_link.c worker/tfrank_wait.c */
#include "tests/unit/tfrank_peer.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* --- opening --- */

static void
open_takes_the_link_out_of_the_environment_and_of_execed_children(void **state)
{
	(void)state;
	assert_null(getenv("TFRANK_LINK_FD"));
	assert_int_equal(fcntl(tfrank_fd(rank_), F_GETFD), FD_CLOEXEC);
	assert_true(tfrank_supervised(rank_));
}

static void
open_fails_with(const char *value, int error, const char *word)
{
	struct tfrank *rank = (struct tfrank *)&peer;

	setenv("TFRANK_LINK_FD", value, 1);
	assert_int_equal(tfrank_open(&rank), -error);
	assert_null(rank);
	assert_non_null(strstr(tfrank_error(), "TFRANK_LINK_FD"));
	assert_non_null(strstr(tfrank_error(), word));
	assert_string_equal(getenv("TFRANK_LINK_FD"), value);
}

static void
a_wrong_link_is_refused_by_name(void **state)
{
	char number[16];
	int pair[2];

	(void)state;
	open_fails_with("seven", EINVAL, "seven");
	open_fails_with("", EINVAL, "not a number");
	open_fails_with("-1", EINVAL, "-1");
	open_fails_with("999999", EBADF, "999999");
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	snprintf(number, sizeof(number), "%d", pair[0]);
	open_fails_with(number, ENOTSOCK, number);
	close(pair[0]);
	close(pair[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	snprintf(number, sizeof(number), "%d", pair[0]);
	open_fails_with(number, EPROTOTYPE, "SOCK_SEQPACKET");
	close(pair[0]);
	close(pair[1]);
}

static void
the_environment_names_rank_and_world_before_hello(void **state)
{
	(void)state;
	assert_int_equal(tfrank_rank(rank_), 1);
	assert_int_equal(tfrank_world_size(rank_), 2);
	assert_int_equal(tfrank_epoch(rank_), 3);
	assert_int_equal(tfrank_collective_timeout_usec(rank_), -EPROTO);
}

static void
the_welcome_is_awaited_when_asked_for(void **state)
{
	(void)state;
	hello();
	welcomes(1);
	assert_int_equal(tfrank_collective_timeout_usec(rank_), 30000000);
	assert_int_equal(tfrank_ready_timeout_usec(rank_), 7);
	assert_int_equal(tfrank_epoch(rank_), 4);
}

static void
without_the_environment_the_welcome_names_the_rank(void **state)
{
	(void)state;
	make_link();
	assert_int_equal(tfrank_open(&rank_), 0);
	assert_int_equal(tfrank_rank(rank_), -EPROTO);
	hello();
	welcomes(1);
	assert_int_equal(tfrank_rank(rank_), 1);
	assert_int_equal(tfrank_world_size(rank_), 2);
}

/* --- alone --- */

static void
without_a_supervisor_every_call_succeeds_at_once(void **state)
{
	unsigned char id[8];
	size_t len;
	int fd;

	(void)state;
	assert_int_equal(tfrank_open(&rank_), 0);
	assert_false(tfrank_supervised(rank_));
	assert_int_equal(tfrank_fd(rank_), -1);
	assert_int_equal(tfrank_rank(rank_), 0);
	assert_int_equal(tfrank_world_size(rank_), 1);
	assert_int_equal(tfrank_collective_timeout_usec(rank_), 0);
	assert_int_equal(tfrank_hello(rank_, NULL), 0);
	assert_int_equal(tfrank_status(rank_, "x"), 0);
	assert_int_equal(tfrank_progress(rank_, 1, 2, "layer", 0, 0), 0);
	assert_int_equal(tfrank_get_group_id(rank_, id, sizeof(id), &len, &fd, 0), -ENODATA);
	assert_int_equal(tfrank_put_group_id(rank_, "abc", 3, -1), 0);
	assert_int_equal(tfrank_get_group_id(rank_, id, sizeof(id), &len, &fd, 0), 0);
	assert_int_equal(len, 3);
	assert_memory_equal(id, "abc", 3);
	assert_int_equal(fd, -1);
	assert_int_equal(tfrank_ready(rank_, TFRANK_THEN_COLLECTIVE), 0);
	assert_int_equal(tfrank_dispatch(rank_) & TFRANK_EVENT_GO, TFRANK_EVENT_GO);
	assert_int_equal(tfrank_wait_go(rank_, 0), 0);
	assert_int_equal(tfrank_collective_begin(rank_, "gather"), 0);
	assert_int_equal(tfrank_collective_done(rank_, "gather"), 0);
	assert_int_equal(tfrank_serving(rank_), 0);
	assert_int_equal(tfrank_watchdog(rank_), 0);
	assert_int_equal(tfrank_extend(rank_, 1), 0);
	assert_int_equal(tfrank_failed(rank_, "x", EIO), 0);
	assert_int_equal(tfrank_stopping(rank_), 0);
}

static void
alone_the_rank_is_the_one_of_the_launcher(void **state)
{
	(void)state;
	setenv("RANK", "3", 1);
	setenv("WORLD_SIZE", "4", 1);
	assert_int_equal(tfrank_open(&rank_), 0);
	assert_int_equal(tfrank_rank(rank_), 3);
	assert_int_equal(tfrank_world_size(rank_), 4);
	tfrank_close(rank_);
	setenv("WORLD_SIZE", "3", 1);
	assert_int_equal(tfrank_open(&rank_), -EINVAL);
	assert_non_null(strstr(tfrank_error(), "RANK=3"));
}

/* --- saying --- */

static void
what_is_said_arrives_as_said(void **state)
{
	struct message message;

	(void)state;
	assert_int_equal(tfrank_hello(rank_, "00ff"), 0);
	message = hears();
	assert_int_equal(message.verb, VERB_HELLO);
	assert_int_equal(message.protocol, PROTOCOL_VERSION);
	assert_string_equal(message.settings, "00ff");
	assert_int_equal(tfrank_status(rank_, "two\nlines"), 0);
	assert_string_equal(hears().text, "two lines");
	assert_int_equal(tfrank_progress(rank_, 36, 48, "layer", 5, 9), 0);
	message = hears();
	assert_int_equal(message.progress.done, 36);
	assert_int_equal(message.progress.total, 48);
	assert_int_equal(message.progress.bytes_total, 9);
	assert_string_equal(message.progress.unit, "layer");
	assert_int_equal(tfrank_extend(rank_, 77), 0);
	assert_int_equal(hears().extend_usec, 77);
	assert_int_equal(tfrank_ready(rank_, TFRANK_THEN_SERVING), 0);
	message = hears();
	assert_false(message.then_collective);
	assert_true(message.then_serving);
	assert_int_equal(tfrank_failed(rank_, "no such file", ENOENT), 0);
	message = hears();
	assert_string_equal(message.text, "no such file");
	assert_int_equal(message.error_number, ENOENT);
	assert_int_equal(tfrank_stopping(rank_), 0);
	assert_int_equal(hears().verb, VERB_STOPPING);
}

static void
what_is_out_of_order_or_range_is_refused_before_it_is_said(void **state)
{
	(void)state;
	assert_int_equal(tfrank_ready(rank_, 0), -EPROTO);
	assert_int_equal(tfrank_watchdog(rank_), -EPROTO);
	assert_int_equal(tfrank_hello(rank_, "xyz"), -EINVAL);
	assert_int_equal(tfrank_hello(rank_, ""), -EINVAL);
	hello();
	assert_int_equal(tfrank_hello(rank_, "ab"), -EPROTO);
	assert_int_equal(tfrank_put_group_id(rank_, "a", 1, -1), -EPROTO);
	assert_int_equal(tfrank_progress(rank_, 3, 2, "layer", 0, 0), -EINVAL);
	assert_int_equal(tfrank_progress(rank_, 1, 2, "a\nb", 0, 0), -EINVAL);
	assert_int_equal(tfrank_ready(rank_, 4), -EINVAL);
	assert_int_equal(tfrank_ready(rank_, TFRANK_THEN_SERVING), 0);
	assert_int_equal(hears().verb, VERB_READY);
	assert_int_equal(tfrank_ready(rank_, 0), -EPROTO);
	assert_int_equal(tfrank_serving(rank_), -EPROTO);
	says_verb(VERB_GO);
	assert_int_equal(tfrank_wait_go(rank_, 0), 0);
	assert_int_equal(tfrank_collective_begin(rank_, "x"), -EPROTO);
	assert_int_equal(tfrank_serving(rank_), 0);
	assert_int_equal(hears().verb, VERB_SERVING);
	hears_nothing();
}

static void
a_progress_per_tensor_is_thinned_and_the_last_one_sent(void **state)
{
	int heard = 0;
	struct message message;

	(void)state;
	hello();
	for (uint64_t i = 1; i <= 1000; i++)
		assert_int_equal(tfrank_progress(rank_, i, 1000, "tensor", 0, 0), 0);
	do {
		message = hears();
		heard++;
	} while (message.progress.done != 1000);
	hears_nothing();
	assert_in_range(heard, 2, 20);
}

static void
progress_and_watchdog_are_dropped_rather_than_block(void **state)
{
	(void)state;
	hello();
	for (int i = 0; i < 5000; i++)
		assert_int_equal(tfrank_watchdog(rank_), 0);
	assert_int_equal(tfrank_progress(rank_, 1, 1, "", 0, 0), 0);
}

static void
ready_waits_for_room_instead(void **state)
{
	pthread_t thread;
	int last = -1;

	(void)state;
	hello();
	for (int i = 0; i < 5000; i++)
		tfrank_watchdog(rank_);
	assert_int_equal(pthread_create(&thread, NULL, drain_all, &last), 0);
	assert_int_equal(tfrank_ready(rank_, 0), 0);
	pthread_join(thread, NULL);
	assert_int_equal(last, VERB_READY);
}

/* --- leaving --- */

static void
close_is_seen_though_a_copy_lives_on(void **state)
{
	int copy = dup(tfrank_fd(rank_));
	char byte;

	(void)state;
	tfrank_close(rank_);
	rank_ = NULL;
	assert_int_equal(recv(peer, &byte, 1, MSG_DONTWAIT), 0);
	close(copy);
}

static void
a_forked_child_neither_speaks_nor_holds_nor_ends_the_link(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	hello();
	if ((pid = fork()) == 0) {
		int good = tfrank_watchdog(rank_) == -ECHILD && tfrank_ready(rank_, 0) == -ECHILD &&
			   tfrank_wait_go(rank_, 0) == -ECHILD &&
			   tfrank_dispatch(rank_) == -ECHILD && tfrank_rank(rank_) == -ECHILD &&
			   fcntl(tfrank_fd(rank_), F_GETFD) == -1;

		tfrank_close(rank_);
		_exit(good ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	hears_nothing();
	assert_int_equal(tfrank_ready(rank_, 0), 0);
	assert_int_equal(hears().verb, VERB_READY);
}

static void
a_child_that_no_fork_handler_saw_does_not_end_the_link(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	hello();
	if ((pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) == 0) {
		tfrank_close(rank_);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	hears_nothing();
	assert_int_equal(tfrank_ready(rank_, 0), 0);
	assert_int_equal(hears().verb, VERB_READY);
}

static void *
pet(void *arg)
{
	(void)arg;
	for (int i = 0; i < 200; i++)
		tfrank_watchdog(rank_);
	return NULL;
}

static void
a_watchdog_thread_may_speak_beside_the_writer_and_the_reader(void **state)
{
	pthread_t thread, reader;
	int last = -1, events = 0;

	(void)state;
	hello();
	assert_int_equal(pthread_create(&reader, NULL, drain_all, &last), 0);
	assert_int_equal(pthread_create(&thread, NULL, pet, NULL), 0);
	for (uint64_t i = 0; i < 200; i++)
		assert_int_equal(tfrank_progress(rank_, i, 200, "layer", 0, 0), 0);
	says_verb(VERB_GO);
	while ((events |= tfrank_dispatch(rank_)) == 0)
		continue;
	pthread_join(thread, NULL);
	assert_int_equal(tfrank_ready(rank_, 0), 0);
	pthread_join(reader, NULL);
	assert_int_equal(events, TFRANK_EVENT_GO);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    linked(open_takes_the_link_out_of_the_environment_and_of_execed_children),
	    bare(a_wrong_link_is_refused_by_name),
	    linked(the_environment_names_rank_and_world_before_hello),
	    linked(the_welcome_is_awaited_when_asked_for),
	    bare(without_the_environment_the_welcome_names_the_rank),
	    bare(without_a_supervisor_every_call_succeeds_at_once),
	    bare(alone_the_rank_is_the_one_of_the_launcher),
	    linked(what_is_said_arrives_as_said),
	    linked(what_is_out_of_order_or_range_is_refused_before_it_is_said),
	    linked(a_progress_per_tensor_is_thinned_and_the_last_one_sent),
	    linked(progress_and_watchdog_are_dropped_rather_than_block),
	    linked(ready_waits_for_room_instead),
	    linked(close_is_seen_though_a_copy_lives_on),
	    linked(a_forked_child_neither_speaks_nor_holds_nor_ends_the_link),
	    linked(a_child_that_no_fork_handler_saw_does_not_end_the_link),
	    linked(a_watchdog_thread_may_speak_beside_the_writer_and_the_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

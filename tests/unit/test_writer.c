/* sources: supervisor/writer.c supervisor/channel.c supervisor/clean.c supervisor/log_json.c */
#include "supervisor/writer.h"

#include "common/deadline.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_S  20 /* a test that blocks is killed */
#define TEXT_BYTES  (4 * 1024 * 1024)
#define FLOOD_LINES 20000
#define FLOOD_QUEUE (64 * 1024)

static struct event_base *base;
static char text[TEXT_BYTES];

static int
base_open(void **state)
{
	(void)state;
	base = event_base_new();
	assert_int_equal(event_base_priority_init(base, 3), 0);
	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
	alarm(PATIENCE_S);
	return 0;
}

static int
base_close(void **state)
{
	(void)state;
	log_set_sink(NULL, NULL);
	event_base_free(base);
	alarm(0);
	return 0;
}

static struct writer *
writer_on(int out, int err, enum log_format format)
{
	const struct writer_options options = {.out_fd = out,
					       .err_fd = err,
					       .format = format,
					       .prefix = true,
					       .group = "demo",
					       .ranks_kept = true,
					       .queue_bytes = FLOOD_QUEUE};
	struct writer *writer = writer_open(base, &options);

	assert_non_null(writer);
	log_set_sink(writer_log, writer);
	return writer;
}

static void
turns(void)
{
	for (int i = 0; i < 4; i++)
		event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

/* What can be read now, NUL-terminated, appended at text + at; the new length. */
static size_t
read_now(int fd, size_t at)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	ssize_t n;

	while (poll(&pfd, 1, 0) == 1) {
		n = read(fd, text + at, sizeof(text) - 1 - at);
		if (n <= 0)
			break;
		at += (size_t)n;
	}
	text[at] = '\0';
	return at;
}

/* All that the writer has queued, up to an end mark of ours. */
static void
read_all(int fd, int writer_fd)
{
	static const char end[] = "END";
	size_t at = 0;
	ssize_t n;

	while (event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED) > 0) {
		at = read_now(fd, at);
		event_base_loop(base, EVLOOP_ONCE);
	}
	at = read_now(fd, at);
	assert_int_equal(write(writer_fd, end, 3), 3);
	while (at < 3 || memcmp(text + at - 3, end, 3) != 0) {
		n = read(fd, text + at, sizeof(text) - 1 - at);
		assert_true(n > 0);
		at += (size_t)n;
	}
	text[at - 3] = '\0';
}

static void
say(struct writer *writer, int rank, const char *line)
{
	writer_rank_line(writer, rank, line, strlen(line));
}

static void
flood(struct writer *writer)
{
	char line[32];

	for (int i = 0; i < FLOOD_LINES; i++) {
		snprintf(line, sizeof(line), "line %d", i);
		say(writer, 1, line);
		if (i % 64 == 0)
			turns();
	}
}

/* Every line of a flood is there, in order, or counted where it is missing. */
static void
check_flood(const char *prefix)
{
	int next = 0, missing, marks = 0;
	char want[64], *line, *rest = text;

	while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
		line[strcspn(line, "\r")] = '\0';
		if (sscanf(line, "... %d lines not shown; rank-N.log has the ranks'", &missing) ==
		    1) {
			next += missing;
			marks++;
			continue;
		}
		snprintf(want, sizeof(want), "%sline %d", prefix, next);
		assert_string_equal(line, want);
		next++;
	}
	assert_int_equal(next, FLOOD_LINES);
	assert_true(marks > 0 && marks < 100);
}

static void
ranks_go_to_output_and_we_to_error(void **state)
{
	int out[2], err[2];
	struct writer *writer;

	(void)state;
	assert_int_equal(pipe(out), 0);
	assert_int_equal(pipe(err), 0);
	writer = writer_on(out[1], err[1], LOG_FORMAT_TEXT);
	say(writer, 12, "raw \033[31m\xff stays");
	log_warnx("ours");
	turns();
	read_now(out[0], 0);
	assert_string_equal(text, "[rank 12] raw \033[31m\xff stays\n");
	read_now(err[0], 0);
	assert_string_equal(text, "tfsupervisor: ours\n");
	writer_close(writer);
	for (int i = 0; i < 2; i++) {
		close(out[i]);
		close(err[i]);
	}
}

static void
one_pipe_for_both_keeps_the_order(void **state)
{
	struct writer *writer;
	int fds[2], err;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	err = dup(fds[1]);
	writer = writer_on(fds[1], err, LOG_FORMAT_TEXT);
	say(writer, 0, "one");
	log_info("two");
	say(writer, 1, "three");
	log_info("the last line");
	assert_true(writer_flush(writer, monotonic_ns() + NS_PER_SEC));
	read_now(fds[0], 0);
	assert_string_equal(text, "[rank 0] one\ntfsupervisor: two\n[rank 1] three\n"
				  "tfsupervisor: the last line\n");
	writer_close(writer);
	close(fds[0]);
	close(fds[1]);
	close(err);
}

static void
flood_through(int reader, int writer_fd, const char *prefix)
{
	int null = open("/dev/null", O_WRONLY);
	struct writer *writer = writer_on(writer_fd, null, LOG_FORMAT_TEXT);

	flood(writer);
	/* Others may have the same description: it is not ours to change. */
	assert_int_equal(fcntl(writer_fd, F_GETFL) & O_NONBLOCK, 0);
	read_all(reader, writer_fd);
	check_flood(prefix);
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
	writer_close(writer);
	close(null);
}

static void
a_reader_that_sleeps_blocks_nothing_and_is_told_what_it_missed(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	flood_through(fds[0], fds[1], "[rank 1] ");
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	flood_through(fds[0], fds[1], "[rank 1] ");
	close(fds[0]);
	close(fds[1]);
}

static void
a_terminal_that_sleeps_blocks_nothing(void **state)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;

	(void)state;
	assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	assert_true(slave >= 0);
	flood_through(master, slave, "[rank 1] ");
	close(slave);
	close(master);
}

static void
a_pipe_of_another_user_blocks_nothing(void **state)
{
	int fds[2], status;
	pid_t child;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (child == 0) {
		char path[40];

		alarm(PATIENCE_S);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[1]);
		if (setuid(65534) != 0 || open(path, O_WRONLY | O_NONBLOCK) >= 0)
			_exit(1);
		base = event_base_new();
		event_base_priority_init(base, 3);
		flood_through(fds[0], fds[1], "[rank 1] ");
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	close(fds[0]);
	close(fds[1]);
}

static void
a_reader_that_left_is_written_to_no_more(void **state)
{
	int out[2], err[2];
	struct writer *writer;

	(void)state;
	assert_int_equal(pipe(out), 0);
	assert_int_equal(pipe(err), 0);
	writer = writer_on(out[1], err[1], LOG_FORMAT_TEXT);
	close(out[0]);
	for (int i = 0; i < 10; i++) {
		say(writer, 0, "nobody reads this");
		turns();
	}
	read_now(err[0], 0);
	assert_string_equal(text, "tfsupervisor: standard output takes no more lines, rank-N.log "
				  "has the ranks': Broken pipe\n");
	close(err[0]);
	log_info("nor this");
	assert_true(writer_flush(writer, monotonic_ns() + NS_PER_SEC));
	writer_close(writer);
	close(out[1]);
	close(err[1]);
}

static void
closed_descriptors_do_no_harm(void **state)
{
	struct writer *writer = writer_on(900, 901, LOG_FORMAT_TEXT);

	(void)state;
	say(writer, 0, "nowhere");
	log_info("nowhere");
	assert_true(writer_flush(writer, monotonic_ns() + NS_PER_SEC));
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
	writer_close(writer);
}

static void
a_full_disk_loses_whole_lines_and_says_how_many(void **state)
{
	char path[] = "/tmp/test_writer.XXXXXX";
	int fd = mkstemp(path), err[2];
	struct rlimit old, small;
	struct writer *writer;

	(void)state;
	assert_int_equal(pipe(err), 0);
	writer = writer_on(fd, err[1], LOG_FORMAT_TEXT);
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){.rlim_cur = 20, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (int i = 0; i < 5; i++) {
		say(writer, 0, "12345");
		turns();
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	say(writer, 0, "again");
	turns();
	say(writer, 0, "and on");
	turns();
	text[pread(fd, text, 1000, 0)] = '\0';
	assert_string_equal(text, "[rank 0] 12345\n[rank\n[rank 0] again\n"
				  "... 4 lines not shown; rank-N.log has the ranks'\n"
				  "[rank 0] and on\n");
	read_now(err[0], 0);
	assert_non_null(strstr(text, "standard output takes no more lines"));
	assert_null(strstr(strchr(text, '\n'), "standard output"));
	writer_close(writer);
	unlink(path);
	close(fd);
	close(err[0]);
	close(err[1]);
}

static void
flush_is_bounded(void **state)
{
	struct writer *writer;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	writer = writer_on(fds[1], fds[1], LOG_FORMAT_TEXT);
	flood(writer);
	assert_false(writer_flush(writer, monotonic_ns() + 20 * NS_PER_MSEC));
	writer_close(writer);
	close(fds[0]);
	close(fds[1]);
}

static void
the_last_line_comes_last_and_survives_a_flood(void **state)
{
	static const char last[] = "tfsupervisor: demo: RankDisconnected\n";
	struct writer *writer;
	int fds[2], status;
	size_t n;
	pid_t reader;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	log_init("tfsupervisor", "demo");
	writer = writer_on(fds[1], fds[1], LOG_FORMAT_TEXT);
	flood(writer);
	log_info("RankDisconnected");
	reader = fork();
	if (reader == 0) {
		dup2(fds[0], STDIN_FILENO);
		close_range(3, ~0U, 0); /* the writer's own description too */
		for (n = 0; n < TEXT_BYTES;) {
			ssize_t r = read(STDIN_FILENO, text + n, TEXT_BYTES - n);

			if (r <= 0)
				break;
			n += (size_t)r;
		}
		n -= sizeof(last) - 1;
		_exit(memcmp(text + n, last, sizeof(last) - 1) != 0);
	}
	assert_true(writer_flush(writer, monotonic_ns() + 10 * NS_PER_SEC));
	writer_close(writer);
	close(fds[0]);
	close(fds[1]);
	waitpid(reader, &status, 0);
	assert_int_equal(status, 0);
	log_init("tfsupervisor", NULL);
}

static void
json_is_one_object_a_line(void **state)
{
	struct writer *writer;
	json_t *ours, *rank;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	log_init("tfsupervisor", "demo");
	writer = writer_on(fds[1], fds[1], LOG_FORMAT_JSON);
	log_warnx("rank 1: \"late\"");
	writer_rank_line(writer, 3, "\xff\033[31m\0x", 8);
	turns();
	read_now(fds[0], 0);
	ours = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
	rank = json_loads(strchr(text, '\n') + 1, JSON_ALLOW_NUL, NULL);
	assert_string_equal(json_string_value(json_object_get(ours, "level")), "warning");
	assert_string_equal(json_string_value(json_object_get(ours, "group")), "demo");
	assert_string_equal(json_string_value(json_object_get(ours, "message")),
			    "rank 1: \"late\"");
	assert_int_equal(strlen(json_string_value(json_object_get(ours, "time"))), 24);
	assert_int_equal(json_integer_value(json_object_get(rank, "rank")), 3);
	assert_int_equal(json_string_length(json_object_get(rank, "line")), 8);
	assert_memory_equal(json_string_value(json_object_get(rank, "line")), "?\033[31m\0x", 8);
	json_decref(ours);
	json_decref(rank);
	log_init("tfsupervisor", NULL);
	writer_close(writer);
	close(fds[0]);
	close(fds[1]);
}

static void
a_terminal_gets_no_control_characters(void **state)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	struct writer *writer;

	(void)state;
	assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	setenv("NO_COLOR", "1", 1);
	writer = writer_on(slave, slave, LOG_FORMAT_TEXT);
	assert_true(writer_has_terminal(writer) && !writer_has_color(writer));
	say(writer, 0, "\033[2J\033[31mred\a\xff");
	log_warnx("FAILED: \033]0;title\a");
	turns();
	read_now(master, 0);
	assert_string_equal(text, "[rank 0] red??\r\ntfsupervisor: FAILED: \r\n");
	writer_close(writer);
	close(slave);
	close(master);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, base_open, base_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(ranks_go_to_output_and_we_to_error),
	    TEST(one_pipe_for_both_keeps_the_order),
	    TEST(a_reader_that_sleeps_blocks_nothing_and_is_told_what_it_missed),
	    TEST(a_terminal_that_sleeps_blocks_nothing),
	    TEST(a_pipe_of_another_user_blocks_nothing),
	    TEST(a_reader_that_left_is_written_to_no_more),
	    TEST(closed_descriptors_do_no_harm),
	    TEST(a_full_disk_loses_whole_lines_and_says_how_many),
	    TEST(flush_is_bounded),
	    TEST(the_last_line_comes_last_and_survives_a_flood),
	    TEST(json_is_one_object_a_line),
	    TEST(a_terminal_gets_no_control_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

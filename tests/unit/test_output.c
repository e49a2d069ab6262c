/* sources: supervisor/output.c supervisor/lines.c supervisor/rank_log.c supervisor/clean.c */
#include "supervisor/output.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_S 20

/* What came out of an output, each piece with its newline. */
struct heard {
	char shown[300000], lines[300000];
	size_t shown_len, lines_len;
	int heard, eof;
	size_t longest;
	struct event_base *base;
	struct output *close_at_eof;
};

static struct heard got;

static void
append(char *text, size_t *len, const char *piece, size_t n)
{
	assert_true(*len + n + 1 < sizeof(got.shown));
	memcpy(text + *len, piece, n);
	*len += n;
	text[(*len)++] = '\n';
	text[*len] = '\0';
}

static void
on_heard(int rank, void *arg)
{
	(void)rank;
	(void)arg;
	got.heard++;
}

static void
on_line(int rank, const char *text, size_t len, void *arg)
{
	(void)rank;
	(void)arg;
	append(got.lines, &got.lines_len, text, len);
}

static void
on_show(int rank, const char *text, size_t len, void *arg)
{
	(void)rank;
	(void)arg;
	append(got.shown, &got.shown_len, text, len);
	if (len > got.longest)
		got.longest = len;
	event_base_loopbreak(got.base);
}

static void
on_eof(int rank, void *arg)
{
	(void)rank;
	(void)arg;
	got.eof++;
	output_close(got.close_at_eof);
	got.close_at_eof = NULL;
	event_base_loopbreak(got.base);
}

static const struct output_callbacks callbacks = {on_heard, on_line, on_show, on_eof, NULL};

static void
on_impatience(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	fail_msg("nothing came for %d s", PATIENCE_S);
}

struct fixture {
	struct event_base *base;
	struct event *impatience;
	struct output *output;
	int in; /* the rank's end */
};

static void
fixture_open(struct fixture *f, bool terminal, struct rank_log *log)
{
	struct timeval tv = {PATIENCE_S, 0};
	int fds[2];

	memset(&got, 0, sizeof(got));
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	f->base = got.base = event_base_new();
	assert_int_equal(event_base_priority_init(f->base, 3), 0);
	f->impatience = evtimer_new(f->base, on_impatience, NULL);
	evtimer_add(f->impatience, &tv);
	f->in = fds[1];
	f->output = output_open(f->base, 1, fds[0], log, terminal, &callbacks);
	assert_non_null(f->output);
}

static void
fixture_close(struct fixture *f)
{
	output_close(f->output);
	if (f->in >= 0)
		close(f->in);
	event_free(f->impatience);
	event_base_free(f->base);
}

static void
say(struct fixture *f, const char *text, size_t len)
{
	assert_int_equal(write(f->in, text, len), (ssize_t)len);
}

static void
turn(struct fixture *f)
{
	event_base_loop(f->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

/* Closes the rank's end and waits for EOF. */
static void
hang_up(struct fixture *f)
{
	close(f->in);
	f->in = -1;
	got.close_at_eof = f->output;
	f->output = NULL;
	while (got.eof == 0)
		event_base_loop(f->base, EVLOOP_ONCE);
}

static void
lines_are_whole_however_the_bytes_arrive(void **state)
{
	static const char text[] = "first\n\nthird one\r\n4%\r50%\r100%\nlast without newline";
	static const char want[] = "first\n\nthird one\n100%\nlast without newline\n";
	struct fixture f;

	(void)state;
	for (size_t cut = 0; cut < sizeof(text) - 1; cut++) {
		fixture_open(&f, false, NULL);
		say(&f, text, cut);
		turn(&f);
		say(&f, text + cut, sizeof(text) - 1 - cut);
		hang_up(&f);
		assert_string_equal(got.shown, want);
		fixture_close(&f);
	}
}

static void
every_state_of_a_rewritten_line_reaches_the_line_callback(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, false, NULL);
	say(&f, "layer 1 of 3\rlayer 2 of 3\r\rlayer 3 of 3\nend\n", 44);
	hang_up(&f);
	assert_string_equal(got.lines, "layer 1 of 3\nlayer 2 of 3\nlayer 3 of 3\nend\n");
	assert_string_equal(got.shown, "layer 3 of 3\nend\n");
	fixture_close(&f);
}

static void
a_megabyte_line_is_cut_with_a_mark_and_the_next_is_whole(void **state)
{
	static char block[64 * 1024];
	struct fixture f;
	char mark[64];

	(void)state;
	memset(block, 'x', sizeof(block));
	fixture_open(&f, false, NULL);
	for (int i = 0; i < 16; i++) {
		say(&f, block, sizeof(block));
		turn(&f);
	}
	say(&f, "\nnext\n", 6);
	hang_up(&f);
	snprintf(mark, sizeof(mark), " ... [%d bytes cut]\nnext\n",
		 1024 * 1024 - OUTPUT_LINE_BYTES);
	assert_string_equal(got.shown + OUTPUT_LINE_BYTES, mark);
	assert_true(got.longest < OUTPUT_LINE_BYTES + 64);
	fixture_close(&f);
}

static void
an_unfinished_line_holds_bounded_memory(void **state)
{
	static char block[64 * 1024];
	struct lines lines = {0};
	struct lines_sink sink = {0};

	(void)state;
	memset(block, 'x', sizeof(block));
	for (int i = 0; i < 100; i++)
		assert_int_equal(lines_feed(&lines, block, sizeof(block), &sink), 0);
	assert_true(lines.cap < OUTPUT_LINE_BYTES + 100);
	lines_free(&lines);
}

static void
an_unfinished_line_is_shown_on_a_terminal_and_its_rest_later(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, true, NULL);
	say(&f, "Continue?", 9);
	while (got.shown_len == 0)
		event_base_loop(f.base, EVLOOP_ONCE);
	assert_string_equal(got.shown, "Continue?\n");
	assert_int_equal(got.lines_len, 0);
	say(&f, " yes\nnext\n", 10);
	hang_up(&f);
	assert_string_equal(got.shown, "Continue?\n yes\nnext\n");
	assert_string_equal(got.lines, "Continue? yes\nnext\n");
	fixture_close(&f);
}

static void
a_rewritten_line_is_shown_now_and_then_not_each_time(void **state)
{
	struct fixture f;
	char text[32];

	(void)state;
	fixture_open(&f, true, NULL);
	for (int i = 0; i < 1000; i++) {
		say(&f, text, (size_t)snprintf(text, sizeof(text), "%d of 1000\r", i));
		turn(&f);
	}
	while (got.shown_len == 0)
		event_base_loop(f.base, EVLOOP_ONCE);
	assert_string_equal(got.shown, "999 of 1000\n");
	say(&f, "\n", 1);
	hang_up(&f);
	assert_string_equal(got.shown, "999 of 1000\n");
	fixture_close(&f);
}

static void
raw_bytes_reach_the_file_as_they_are(void **state)
{
	static const char raw[] = "\033[31mred\033[0m\r\0\xff\xfe\n\tend";
	char dir[] = "/tmp/test_output.XXXXXX", path[64], file[64];
	struct fixture f;
	int dirfd, fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	dirfd = open(dir, O_DIRECTORY | O_CLOEXEC);
	fixture_open(&f, false, rank_log_open(dirfd, 1, 1, 1 << 20));
	say(&f, raw, sizeof(raw) - 1);
	hang_up(&f);
	snprintf(path, sizeof(path), "%s/rank-1.log", dir);
	fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, file, sizeof(file)), sizeof(raw) - 1);
	assert_memory_equal(file, raw, sizeof(raw) - 1);
	close(fd);
	unlink(path);
	rmdir(dir);
	close(dirfd);
	fixture_close(&f);
}

static void
one_turn_reads_a_bounded_number_of_bytes(void **state)
{
	static char block[1024 * 1024];
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = i % 1024 == 1023 ? '\n' : 'x';
	fixture_open(&f, false, NULL);
	assert_true(fcntl(f.in, F_SETPIPE_SZ, (int)sizeof(block)) >= 256 * 1024);
	fcntl(f.in, F_SETFL, O_NONBLOCK);
	assert_true(write(f.in, block, sizeof(block)) >= 256 * 1024);
	turn(&f);
	assert_int_equal(got.heard, 1);
	assert_true(got.shown_len > 0 && got.shown_len <= OUTPUT_TURN_BYTES);
	fixture_close(&f);
}

static int links_served;

static void
on_link(evutil_socket_t fd, short what, void *arg)
{
	char byte;

	(void)what;
	(void)arg;
	assert_int_equal(read(fd, &byte, 1), 1);
	assert_int_equal(got.heard, 0);
	links_served++;
}

static void
a_link_is_served_before_a_flood_of_output(void **state)
{
	struct fixture f;
	struct event *link;
	int fds[2];

	(void)state;
	fixture_open(&f, false, NULL);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	link = event_new(f.base, fds[0], EV_READ | EV_PERSIST, on_link, NULL);
	event_priority_set(link, 0);
	event_add(link, NULL);
	say(&f, "flood\n", 6);
	assert_int_equal(write(fds[1], "x", 1), 1);
	turn(&f);
	turn(&f);
	assert_int_equal(links_served, 1);
	assert_int_equal(got.heard, 1);
	event_free(link);
	close(fds[0]);
	close(fds[1]);
	fixture_close(&f);
}

static void
drain_takes_the_last_words_though_the_pipe_stays_open(void **state)
{
	struct fixture f;
	char line[32];

	(void)state;
	fixture_open(&f, false, NULL);
	for (int i = 0; i < 3000; i++)
		say(&f, line, (size_t)snprintf(line, sizeof(line), "line %06d\n", i));
	say(&f, "and a last", 10);
	output_drain(f.output);
	assert_int_equal(got.shown_len, 3000 * 12 + 11);
	assert_string_equal(got.shown + got.shown_len - 23, "line 002999\nand a last\n");
	assert_int_equal(got.eof, 0);
	say(&f, "a grandchild\n", 13);
	hang_up(&f);
	assert_string_equal(got.shown + got.shown_len - 13, "a grandchild\n");
	fixture_close(&f);
}

static void
drain_is_not_held_by_who_goes_on_writing(void **state)
{
	static const char text[] = "again and again\n";
	struct fixture f;
	pid_t child;

	(void)state;
	fixture_open(&f, false, NULL);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			if (write(f.in, text, sizeof(text) - 1) < 0)
				_exit(0);
	}
	for (size_t taken = 0; taken < 4 * 1024 * 1024; taken += got.shown_len) {
		got.shown_len = got.lines_len = 0;
		output_drain(f.output);
		assert_true(got.shown_len <= 65536 + sizeof(text));
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	fixture_close(&f);
}

static void
the_tail_is_the_last_lines_cleaned(void **state)
{
	const char *lines[100];
	struct fixture f;
	char line[4096];

	(void)state;
	fixture_open(&f, false, NULL);
	assert_int_equal(output_tail(f.output, lines, 100), 0);
	for (int i = 0; i < 200; i++)
		say(&f, line, (size_t)snprintf(line, sizeof(line), "line %d\n", i));
	say(&f, "\033[31mbad \xff\001\n", 12);
	turn(&f);
	assert_int_equal(output_tail(f.output, lines, 100), OUTPUT_TAIL_LINES);
	assert_string_equal(lines[OUTPUT_TAIL_LINES - 2], "line 199");
	assert_string_equal(lines[OUTPUT_TAIL_LINES - 1], "bad ??");
	assert_int_equal(output_tail(f.output, lines, 2), 2);
	assert_string_equal(lines[0], "line 199");
	memset(line, 'y', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	for (int i = 0; i < 20; i++) {
		say(&f, line, sizeof(line));
		turn(&f);
	}
	assert_true(output_tail(f.output, lines, 100) < 20);
	assert_int_equal(strlen(lines[0]), OUTPUT_TAIL_BYTES / 4);
	fixture_close(&f);
}

static void
nothing_wakes_the_loop_while_a_rank_is_silent(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, true, NULL);
	say(&f, "half", 4);
	turn(&f);
	say(&f, " done\n", 6);
	turn(&f);
	/* The pipe itself is left, and our own impatience. */
	assert_int_equal(event_base_get_num_events(f.base, EVENT_BASE_COUNT_ADDED), 2);
	fixture_close(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_are_whole_however_the_bytes_arrive),
	    cmocka_unit_test(every_state_of_a_rewritten_line_reaches_the_line_callback),
	    cmocka_unit_test(a_megabyte_line_is_cut_with_a_mark_and_the_next_is_whole),
	    cmocka_unit_test(an_unfinished_line_holds_bounded_memory),
	    cmocka_unit_test(an_unfinished_line_is_shown_on_a_terminal_and_its_rest_later),
	    cmocka_unit_test(a_rewritten_line_is_shown_now_and_then_not_each_time),
	    cmocka_unit_test(raw_bytes_reach_the_file_as_they_are),
	    cmocka_unit_test(one_turn_reads_a_bounded_number_of_bytes),
	    cmocka_unit_test(a_link_is_served_before_a_flood_of_output),
	    cmocka_unit_test(drain_takes_the_last_words_though_the_pipe_stays_open),
	    cmocka_unit_test(drain_is_not_held_by_who_goes_on_writing),
	    cmocka_unit_test(the_tail_is_the_last_lines_cleaned),
	    cmocka_unit_test(nothing_wakes_the_loop_while_a_rank_is_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

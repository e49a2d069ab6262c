/* sources: supervisor/terminal.c supervisor/bars.c supervisor/canvas.c supervisor/narrate.c supervisor/progress.c supervisor/writer.c supervisor/channel.c supervisor/clean.c supervisor/log_json.c supervisor/group.c supervisor/group_death.c supervisor/group_end.c supervisor/group_rank.c supervisor/group_start.c supervisor/group_text.c supervisor/group_time.c supervisor/bound.c */
#include "supervisor/terminal.h"

#include "common/log.h"
#include "supervisor/bars.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/screen.h"

#define PATIENCE_S 20
#define RANKS_MOST 1000

/* --- a group, and a terminal that it is drawn on --- */

static struct group group;
static struct event_base *base;
static struct event *impatience, *watch;
static struct writer *writer;
static struct terminal *terminal;
static struct screen screen;
static int master, slave;
static size_t bytes;

static void
on_impatience(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	fail_msg("nothing came for %d s", PATIENCE_S);
}

/* What the terminal was sent is shown on the screen, but for an escape sequence not yet whole. */
static void
look(evutil_socket_t fd, short what, void *arg)
{
	static char text[8192];
	static size_t len;
	const char *escape;
	ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);

	(void)what;
	(void)arg;
	assert_true(n > 0);
	bytes += (size_t)n;
	len += (size_t)n;
	text[len] = '\0';
	escape = strrchr(text, '\033');
	if (escape == NULL || strpbrk(escape, "hlmAJ") != NULL) {
		screen_feed(&screen, text);
		len = 0;
	}
}

static void
group_of(int ranks)
{
	struct group_settings settings = {.world_size = ranks};
	uint64_t now = monotonic_ns();

	assert_int_equal(group_init(&group, &settings), 0);
	group.state = GROUP_LOADING;
	group.epoch = 1;
	group.started_ns = now - 75 * NS_PER_SEC;
	group.timer_ns[TIMER_LOAD] = group.started_ns + 3600 * NS_PER_SEC;
	for (int i = 0; i < ranks; i++) {
		struct rank *rank = &group.ranks[i];

		rank->state = RANK_LOADING;
		rank->forked = rank->said_hello = true;
		rank->forked_ns = rank->state_ns = group.started_ns;
		rank->progress = (struct progress){.done = 36, .total = 48, .unit = "layer"};
	}
}

static void
make_ready(int rank)
{
	group.ranks[rank].state = RANK_READY;
	group.ranks[rank].was_ready = true;
	group.ranks[rank].ready_ns = group.started_ns + 12300 * NS_PER_MSEC;
	if (group.ready_count++ == 0)
		group.first_ready_ns = group.ranks[rank].ready_ns;
}

static void
resize(int columns)
{
	struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = SCREEN_ROWS};

	assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
}

static void
open_on(int out, int err, enum log_format format)
{
	const struct writer_options options = {
	    .out_fd = out, .err_fd = err, .format = format, .prefix = true};
	struct timeval tv = {PATIENCE_S, 0};

	base = event_base_new();
	assert_int_equal(event_base_priority_init(base, 3), 0);
	impatience = evtimer_new(base, on_impatience, NULL);
	evtimer_add(impatience, &tv);
	watch = event_new(base, master, EV_READ | EV_PERSIST, look, NULL);
	event_add(watch, NULL);
	writer = writer_open(base, &options);
	log_set_sink(writer_log, writer);
	terminal = terminal_open(base, writer, &group);
	assert_non_null(terminal);
	bytes = 0;
}

static void
open_terminal(int ranks, int columns)
{
	setenv("TERM", "xterm", 1);
	setenv("NO_COLOR", "1", 1);
	group_of(ranks);
	master = posix_openpt(O_RDWR | O_NOCTTY);
	assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	assert_true(slave >= 0);
	resize(columns);
	screen_init(&screen, columns);
	open_on(slave, slave, LOG_FORMAT_TEXT);
}

static void
close_terminal(void)
{
	terminal_close(terminal);
	log_set_sink(NULL, NULL);
	writer_close(writer);
	event_free(impatience);
	event_free(watch);
	event_base_free(base);
	group_free(&group);
	close(slave);
	close(master);
}

/* Runs the loop until `text` is on the screen, or is no more. */
static void
await(const char *text, bool there)
{
	while (screen_shows(&screen, text) != there)
		event_base_loop(base, EVLOOP_ONCE);
}

/* --- */

static void
no_row_is_wider_than_the_terminal(void **state)
{
	static struct progress_history histories[16];
	struct bars bars = {0};
	char text[8192];

	(void)state;
	group_of(16);
	make_ready(3);
	for (int i = 8; i < 16; i++) {
		group.ranks[i].state = RANK_CONNECTED;
		snprintf(group.ranks[i].status_text, sizeof(group.ranks[i].status_text),
			 "\033[31mwide \xe6\xbc\xa2\xe5\xad\x97 text \xff that never seems to end, "
			 "for it goes on and on and on and on and on and on and on and on and on");
	}
	for (int columns = 1; columns <= BARS_COLUMNS_MAX + 40; columns++) {
		assert_int_equal(
		    bars_render(&bars, &group, histories, monotonic_ns(), columns, 40, false), 0);
		assert_int_equal(bars.rows, 17);
		for (int i = 0; i < bars.rows; i++)
			assert_true(bars.widths[i] < columns);
		assert_true(bars.len < sizeof(text));
		memcpy(text, bars.text, bars.len);
		text[bars.len] = '\0';
		screen_init(&screen, columns);
		screen_feed(&screen, text);
		assert_false(screen.overflowed);
	}
	bars_free(&bars);
	group_free(&group);
}

static void
a_bar_per_rank_tells_phase_progress_and_who_is_waited_for(void **state)
{
	(void)state;
	open_terminal(2, 80);
	make_ready(0);
	terminal_update(terminal, monotonic_ns());
	await("1 of 2 ready, waiting for rank 1", true);
	assert_string_equal(screen_row(&screen, 0),
			    "rank 0  ready       [#############]  after 12.3 s, waits for 1");
	assert_string_equal(screen_row(&screen, 1),
			    "rank 1  loading     [#########....]  layer 36 of 48");
	close_terminal();
}

static void
lines_scroll_above_the_bars(void **state)
{
	char line[64];

	(void)state;
	open_terminal(2, 80);
	terminal_update(terminal, monotonic_ns());
	await("0 of 2 ready", true);
	for (int i = 0; i < 100; i++) {
		snprintf(line, sizeof(line), "line %d", i);
		writer_rank_line(writer, 1, line, strlen(line));
	}
	await("[rank 1] line 99", true);
	await("0 of 2 ready", true);
	assert_string_equal(screen_row(&screen, SCREEN_ROWS - 5), "[rank 1] line 99");
	assert_non_null(strstr(screen_row(&screen, SCREEN_ROWS - 4), "rank 0  loading"));
	assert_non_null(strstr(screen_row(&screen, SCREEN_ROWS - 2), "0 of 2 ready"));
	assert_false(screen.bars_scrolled);
	close_terminal();
}

static void
nothing_is_redrawn_unless_something_changed(void **state)
{
	size_t before;
	uint64_t start;
	int frames = 0;

	(void)state;
	open_terminal(2, 80);
	group.timer_ns[TIMER_LOAD] = 0;
	terminal_update(terminal, monotonic_ns());
	await("0 of 2 ready", true);
	before = bytes;
	start = monotonic_ns();
	/* The clock that is shown may tick twice within a second and a bit. */
	while (monotonic_ns() - start < NS_PER_SEC) {
		size_t last = bytes;

		terminal_update(terminal, monotonic_ns());
		event_base_loop(base, EVLOOP_ONCE);
		frames += bytes != last;
	}
	assert_true(frames <= 4); /* a frame may reach us in two pieces */
	assert_true(bytes - before < 1000);
	close_terminal();
}

static void
a_flood_of_changes_is_redrawn_ten_times_a_second(void **state)
{
	uint64_t start = monotonic_ns(), ms;
	size_t frames = 0, last;

	(void)state;
	open_terminal(2, 80);
	while (monotonic_ns() - start < NS_PER_SEC / 2) {
		last = bytes;
		group.ranks[1].progress.total++;
		terminal_update(terminal, monotonic_ns());
		event_base_loop(base, EVLOOP_ONCE);
		frames += bytes != last;
	}
	ms = (monotonic_ns() - start) / NS_PER_MSEC;
	/* A frame may reach us in two pieces. */
	assert_true(frames > 0 && frames <= 2 * (ms / 100 + 1));
	close_terminal();
}

static void
the_screen_is_clean_at_the_end(void **state)
{
	(void)state;
	open_terminal(4, 80);
	terminal_update(terminal, monotonic_ns());
	await("0 of 4 ready", true);
	writer_rank_line(writer, 0, "a line", 6);
	terminal_close(terminal);
	terminal = NULL;
	log_info("the last line");
	assert_true(writer_flush(writer, monotonic_ns() + NS_PER_SEC));
	await("the last line", true);
	assert_string_equal(screen_row(&screen, 0), "[rank 0] a line");
	assert_string_equal(screen_row(&screen, 1), "tfsupervisor: the last line");
	for (int i = 2; i < SCREEN_ROWS; i++)
		assert_string_equal(screen_row(&screen, i), "");
	assert_int_equal(screen.row, 2);
	assert_true(screen.wraps);
	close_terminal();
}

static void
nothing_is_drawn_and_no_timer_runs_while_serving(void **state)
{
	(void)state;
	open_terminal(2, 80);
	terminal_update(terminal, monotonic_ns());
	await("0 of 2 ready", true);
	group.go = true;
	group.state = GROUP_SERVING;
	terminal_update(terminal, monotonic_ns());
	await("rank 0", false);
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 2);
	writer_rank_line(writer, 0, "at once", 7);
	await("[rank 0] at once", true);
	close_terminal();
}

static void
a_narrower_terminal_gets_narrower_bars(void **state)
{
	(void)state;
	open_terminal(2, 100);
	make_ready(0);
	terminal_update(terminal, monotonic_ns());
	await("1 of 2 ready", true);
	resize(50);
	screen_init(&screen, 50);
	screen.row = 10; /* broken rows may lie above */
	await("1 of 2 ready", true);
	assert_false(screen.overflowed);
	close_terminal();
}

static void
of_a_thousand_ranks_the_late_ones_are_shown(void **state)
{
	(void)state;
	open_terminal(RANKS_MOST, 80);
	for (int i = 0; i < RANKS_MOST; i++)
		if (i != 17 && i != 999)
			make_ready(i);
	terminal_update(terminal, monotonic_ns());
	await("998 of 1000 ready, waiting for ranks 17, 999", true);
	assert_non_null(strstr(screen_row(&screen, 0), "rank  17  loading"));
	assert_non_null(strstr(screen_row(&screen, 1), "rank 999  loading"));
	assert_non_null(strstr(screen_row(&screen, 2), "(998 more ranks not shown)"));
	close_terminal();
}

static void
a_dumb_terminal_gets_lines(void **state)
{
	(void)state;
	open_terminal(2, 80);
	terminal_close(terminal);
	log_set_sink(NULL, NULL);
	writer_close(writer);
	event_free(impatience);
	event_free(watch);
	event_base_free(base);
	setenv("TERM", "dumb", 1);
	open_on(slave, slave, LOG_FORMAT_TEXT);
	terminal_update(terminal, monotonic_ns());
	terminal_transition(terminal, 1, RANK_STARTING, RANK_LOADING, monotonic_ns());
	await("tfsupervisor: rank 1: loading", true);
	close_terminal();
}

/* The timer that is not our impatience: checks when it is due and lets it be so now. */
static int
ring(const struct event_base *b, const struct event *event, void *arg)
{
	struct timeval due, now, *seconds = arg;

	(void)b;
	if (event == impatience || event == watch || !event_pending(event, EV_TIMEOUT, &due))
		return 0;
	gettimeofday(&now, NULL);
	timersub(&due, &now, seconds);
	event_active((struct event *)(uintptr_t)event, EV_TIMEOUT, 0);
	return 1;
}

static void
elsewhere_a_line_says_every_30_s_who_is_waited_for(void **state)
{
	static const char want[] = "tfsupervisor: waiting for rank 1: layer 36 of 48, 1m";
	struct timeval due;
	char line[256];
	int fds[2];
	ssize_t n;

	(void)state;
	group_of(2);
	make_ready(0);
	assert_int_equal(pipe(fds), 0);
	master = fds[0];
	slave = fds[1];
	open_on(slave, slave, LOG_FORMAT_TEXT);
	event_del(watch);
	terminal_update(terminal, monotonic_ns());
	for (int i = 0; i < 2; i++) {
		assert_int_equal(event_base_foreach_event(base, ring, &due), 1);
		assert_true(due.tv_sec >= 28 && due.tv_sec <= 30);
		event_base_loop(base, EVLOOP_ONCE);
		event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		n = read(master, line, sizeof(line));
		assert_true(n > 0);
		assert_memory_equal(line, want, sizeof(want) - 1);
	}
	group.go = true;
	group.state = GROUP_SERVING;
	terminal_update(terminal, monotonic_ns());
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 1);
	close_terminal();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_row_is_wider_than_the_terminal),
	    cmocka_unit_test(a_bar_per_rank_tells_phase_progress_and_who_is_waited_for),
	    cmocka_unit_test(lines_scroll_above_the_bars),
	    cmocka_unit_test(nothing_is_redrawn_unless_something_changed),
	    cmocka_unit_test(a_flood_of_changes_is_redrawn_ten_times_a_second),
	    cmocka_unit_test(the_screen_is_clean_at_the_end),
	    cmocka_unit_test(nothing_is_drawn_and_no_timer_runs_while_serving),
	    cmocka_unit_test(a_narrower_terminal_gets_narrower_bars),
	    cmocka_unit_test(of_a_thousand_ranks_the_late_ones_are_shown),
	    cmocka_unit_test(a_dumb_terminal_gets_lines),
	    cmocka_unit_test(elsewhere_a_line_says_every_30_s_who_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "supervisor/terminal.h"

#include "common/log.h"
#include "supervisor/bars.h"
#include "supervisor/narrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SAMPLE_NS    NS_PER_SEC /* between two looks at every rank's progress */
#define COLUMNS      80         /* where the terminal does not tell */
#define LINES        24
#define CLEAR_TO_END "\033[J"

struct terminal {
	struct writer *writer;
	const struct group *group;
	struct progress_history *histories; /* [world_size] */
	struct event *timer;
	uint64_t due_ns; /* what the timer is set to, 0: it is not */
	uint64_t sampled_ns, frame_ns;
	uint32_t epoch;
	bool bars_wanted; /* a terminal is there */
	bool hooked;
	bool visible; /* the bars of `drawn` stand on the screen, the cursor below them */
	struct bars drawn, next;
	int columns; /* when they were drawn */
};

static void
set_timer(struct terminal *terminal, uint64_t due_ns, uint64_t now_ns)
{
	uint64_t wait_ns = due_ns > now_ns ? due_ns - now_ns : 0;
	struct timeval tv = {.tv_sec = (time_t)(wait_ns / NS_PER_SEC),
			     .tv_usec = (suseconds_t)(wait_ns % NS_PER_SEC / NS_PER_USEC)};

	if (terminal->due_ns != 0 && terminal->due_ns <= due_ns)
		return;
	terminal->due_ns = due_ns;
	evtimer_add(terminal->timer, &tv);
}

static void
stop_timer(struct terminal *terminal)
{
	terminal->due_ns = 0;
	evtimer_del(terminal->timer);
}

static void
sample(struct terminal *terminal, uint64_t now_ns)
{
	const struct group *group = terminal->group;
	size_t world = (size_t)group->settings.world_size;

	if (terminal->epoch != group->epoch)
		memset(terminal->histories, 0, world * sizeof(*terminal->histories));
	else if (now_ns - terminal->sampled_ns < SAMPLE_NS)
		return;
	terminal->epoch = group->epoch;
	terminal->sampled_ns = now_ns;
	for (size_t i = 0; i < world; i++)
		progress_note(&terminal->histories[i], &group->ranks[i].progress, now_ns);
}

static bool
is_waiting(const struct terminal *terminal)
{
	enum bound bound;

	return waiting_bound(terminal->group, &bound);
}

/* --- bars --- */

/* Who was put into the background leaves the screen to others. Our guard has the terminal. */
static bool
in_foreground(const struct terminal *terminal)
{
	pid_t group = tcgetpgrp(writer_terminal_fd(terminal->writer));

	return group < 0 || group == getpgrp() || group == getpgid(getppid());
}

static void
get_size(const struct terminal *terminal, int *columns, int *lines)
{
	struct winsize size;

	*columns = COLUMNS;
	*lines = LINES;
	if (ioctl(writer_terminal_fd(terminal->writer), TIOCGWINSZ, &size) != 0)
		return;
	if (size.ws_col > 0)
		*columns = size.ws_col;
	if (size.ws_row > 0)
		*lines = size.ws_row;
}

/* Rows that the bars take by now: a terminal that has become narrower may have broken them. */
static int
rows_on_screen(const struct terminal *terminal)
{
	int rows = 0, columns, lines;

	get_size(terminal, &columns, &lines);
	if (columns >= terminal->columns)
		return terminal->drawn.rows;
	for (int i = 0; i < terminal->drawn.rows; i++)
		rows += 1 + (terminal->drawn.widths[i] > 0 ? terminal->drawn.widths[i] - 1 : 0) /
				columns;
	return rows < lines ? rows : lines - 1;
}

static void
erase(struct terminal *terminal)
{
	char text[32];
	int n;

	if (!terminal->visible)
		return;
	n = snprintf(text, sizeof(text), "\r\033[%dA" CLEAR_TO_END, rows_on_screen(terminal));
	writer_terminal_text(terminal->writer, text, (size_t)n);
	terminal->visible = false;
}

static bool
same_as_drawn(const struct terminal *terminal)
{
	return terminal->visible && terminal->next.len == terminal->drawn.len &&
	       memcmp(terminal->next.text, terminal->drawn.text, terminal->next.len) == 0;
}

static void
draw(struct terminal *terminal, uint64_t now_ns)
{
	struct bars swap;
	int columns, lines;

	get_size(terminal, &columns, &lines);
	if (bars_render(&terminal->next, terminal->group, terminal->histories, now_ns, columns,
			lines, writer_has_color(terminal->writer)) != 0)
		return;
	if (columns == terminal->columns && same_as_drawn(terminal))
		return;
	erase(terminal);
	writer_terminal_text(terminal->writer, terminal->next.text, terminal->next.len);
	swap = terminal->drawn;
	terminal->drawn = terminal->next;
	terminal->next = swap;
	terminal->columns = columns;
	terminal->visible = true;
}

static void
unhook(struct terminal *terminal)
{
	erase(terminal);
	if (!terminal->hooked)
		return;
	terminal->hooked = false;
	writer_set_hooks(terminal->writer, NULL);
}

static void
before_line(void *arg)
{
	struct terminal *terminal = arg;
	uint64_t now_ns = monotonic_ns();

	erase(terminal);
	set_timer(terminal, terminal->frame_ns + TERMINAL_FRAME_NS, now_ns);
}

static void
on_urgent(void *arg)
{
	struct terminal *terminal = arg;

	writer_release(terminal->writer);
}

static void
on_drained(void *arg)
{
	struct terminal *terminal = arg;

	set_timer(terminal, terminal->frame_ns + TERMINAL_FRAME_NS, monotonic_ns());
}

static void
hook(struct terminal *terminal)
{
	const struct writer_hooks hooks = {.before_line = before_line,
					   .urgent = on_urgent,
					   .drained = on_drained,
					   .arg = terminal};

	if (terminal->hooked)
		return;
	terminal->hooked = true;
	writer_set_hooks(terminal->writer, &hooks);
}

/* Lines and bars since the last frame leave together, so that nothing flickers. */
static void
frame(struct terminal *terminal, uint64_t now_ns)
{
	if (!is_waiting(terminal)) {
		unhook(terminal);
		return;
	}
	set_timer(terminal, now_ns + TERMINAL_TICK_NS, now_ns);
	if (!in_foreground(terminal)) {
		unhook(terminal);
		return;
	}
	hook(terminal);
	if (writer_is_behind(terminal->writer))
		return;
	sample(terminal, now_ns);
	terminal->frame_ns = now_ns;
	draw(terminal, now_ns);
	writer_release(terminal->writer);
}

/* --- lines --- */

static void
say_waiting(struct terminal *terminal, uint64_t now_ns)
{
	char line[NARRATE_LINE_BYTES];

	if (!is_waiting(terminal))
		return;
	sample(terminal, now_ns);
	if (waiting_line(terminal->group, terminal->histories, now_ns, line, sizeof(line)))
		log_info("%s", line);
	set_timer(terminal, now_ns + TERMINAL_WAITING_NS, now_ns);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct terminal *terminal = arg;

	(void)fd;
	(void)what;
	terminal->due_ns = 0;
	if (terminal->bars_wanted)
		frame(terminal, monotonic_ns());
	else
		say_waiting(terminal, monotonic_ns());
}

void
terminal_update(struct terminal *terminal, uint64_t now_ns)
{
	if (!is_waiting(terminal)) {
		stop_timer(terminal);
		unhook(terminal);
	} else if (terminal->bars_wanted) {
		set_timer(terminal, terminal->frame_ns + TERMINAL_FRAME_NS, now_ns);
	} else {
		sample(terminal, now_ns);
		set_timer(terminal, now_ns + TERMINAL_WAITING_NS, now_ns);
	}
}

void
terminal_transition(struct terminal *terminal, int rank, int from, int to, uint64_t now_ns)
{
	char line[NARRATE_LINE_BYTES];

	/* The bars show what a rank does until it is gone. */
	if (terminal->bars_wanted && rank != NO_RANK && to != RANK_GONE)
		return;
	if (transition_line(terminal->group, rank, from, to, now_ns, line, sizeof(line)))
		log_info("%s", line);
}

void
terminal_hide(struct terminal *terminal)
{
	stop_timer(terminal);
	unhook(terminal);
	writer_release(terminal->writer);
}

struct terminal *
terminal_open(struct event_base *base, struct writer *writer, const struct group *group)
{
	struct terminal *terminal = calloc(1, sizeof(*terminal));

	if (terminal == NULL)
		return NULL;
	terminal->writer = writer;
	terminal->group = group;
	terminal->bars_wanted = writer_has_terminal(writer);
	terminal->histories =
	    calloc((size_t)group->settings.world_size, sizeof(*terminal->histories));
	terminal->timer = evtimer_new(base, on_timer, terminal);
	if (terminal->histories == NULL || terminal->timer == NULL ||
	    event_priority_set(terminal->timer, TERMINAL_PRIORITY) != 0) {
		terminal_close(terminal);
		return NULL;
	}
	return terminal;
}

void
terminal_close(struct terminal *terminal)
{
	if (terminal == NULL)
		return;
	unhook(terminal);
	if (terminal->timer != NULL)
		event_free(terminal->timer);
	bars_free(&terminal->drawn);
	bars_free(&terminal->next);
	free(terminal->histories);
	free(terminal);
}

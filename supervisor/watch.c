#include "supervisor/watch.h"

#include "common/log.h"
#include "supervisor/client_stream.h"
#include "supervisor/status_view.h"
#include "supervisor/frame.h"
#include "supervisor/screen.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 1280
#define SECOND_MS  1000 /* what is shown in seconds goes on */
#define KEYS       "q or Ctrl-C leaves"
#define ROW_END    "\033[K\r\n"

struct watch {
	const struct client_group *group;
	struct client_stream stream;
	struct frame frame;
	struct canvas canvas;
	bool live;                /* the past is told */
	bool changed;             /* /status is to be asked for */
	bool ended, failed;       /* the group, as its last transition tells */
	bool closed;              /* the stream */
	char message[LINE_BYTES]; /* of the last epoch's end */
};

static void
print_change(const json_t *entry)
{
	const char *time = view_text(entry, "time");
	char line[LINE_BYTES];

	if (!view_entry_line(entry, line, sizeof(line)))
		return;
	/* "2026-11-30T17:03:02.123Z": the time of day. */
	if (strlen(time) > 19)
		printf("%.8s  ", time + 11);
	client_print(stdout, line);
	putchar('\n');
	fflush(stdout);
}

static void
take_entry(struct watch *watch, const char *line, bool print)
{
	json_t *entry = json_loads(line, 0, NULL);

	if (watch->live && print)
		print_change(entry);
	if (strcmp(view_text(entry, "event"), "epoch-end") == 0)
		snprintf(watch->message, sizeof(watch->message), "%s", view_text(entry, "text"));
	watch->ended = view_entry_is_end(entry, &watch->failed);
	watch->changed = true;
	json_decref(entry);
}

static void
take_events(struct watch *watch, bool print)
{
	enum stream_word word;
	const char *line;

	while ((word = client_stream_next(&watch->stream, &line)) != STREAM_NOTHING) {
		if (word == STREAM_END) {
			watch->closed = true;
			return;
		}
		if (word == STREAM_ENTRY)
			take_entry(watch, line, print);
		watch->live = watch->live || word == STREAM_LIVE;
		watch->changed = true;
	}
}

static void
ask_status(struct watch *watch)
{
	struct client_answer answer;

	watch->changed = false;
	if (watch->ended || client_request(watch->group, "GET", "/status", &answer) != 0)
		return;
	frame_take(&watch->frame, json_loads(answer.body, 0, NULL), monotonic_ns());
	free(answer.body);
}

static int
tell_end(const struct watch *watch)
{
	if (watch->ended) {
		printf("%s: ", watch->group->name);
		client_print(stdout, watch->message);
		printf("\n");
		return watch->failed ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	log_warnx("group %s is no longer heard: its supervisor is gone, or this was too slow a "
		  "reader",
		  watch->group->name);
	return EXIT_FAILURE;
}

/* --- elsewhere --- */

static int
watch_lines(struct watch *watch)
{
	ask_status(watch);
	watch->canvas.columns = LINE_BYTES;
	frame_render(&watch->frame, &watch->canvas, LINE_BYTES, monotonic_ns(), false, "\n", NULL);
	fwrite(watch->canvas.text, 1, watch->canvas.len, stdout);
	fflush(stdout);
	while (!watch->ended && !watch->closed) {
		client_stream_read(&watch->stream);
		take_events(watch, true);
	}
	return tell_end(watch);
}

/* --- on a terminal --- */

static void
draw(struct watch *watch)
{
	int lines;

	screen_size(&watch->canvas.columns, &lines);
	frame_render(&watch->frame, &watch->canvas, lines, monotonic_ns(), client_colors(stdout),
		     ROW_END, KEYS);
	screen_show(watch->canvas.text, watch->canvas.len);
}

/* What is left on the screen of a shell is the last look. */
static void
leave_picture(struct watch *watch)
{
	int lines;

	screen_size(&watch->canvas.columns, &lines);
	frame_render(&watch->frame, &watch->canvas, lines, monotonic_ns(), client_colors(stdout),
		     "\n", NULL);
	fwrite(watch->canvas.text, 1, watch->canvas.len, stdout);
}

/* False if the watcher wants to leave. */
static bool
await_change(struct watch *watch, struct screen *screen)
{
	struct pollfd polled[] = {{watch->stream.fd, POLLIN, 0},
				  {screen->signals, POLLIN, 0},
				  {screen->keys ? STDIN_FILENO : -1, POLLIN, 0}};

	if (poll(polled, 3, SECOND_MS) < 0)
		return errno == EINTR;
	if (polled[1].revents != 0 && !screen_hear_signals(screen))
		return false;
	if (polled[2].revents != 0 && !screen_hear_keys(screen))
		return false;
	if (polled[0].revents != 0) {
		client_stream_read(&watch->stream);
		take_events(watch, false);
	}
	return true;
}

static int
watch_screen(struct watch *watch)
{
	struct screen screen;
	bool stays = true;

	if (screen_open(&screen) != 0) {
		log_warn("the terminal");
		return EXIT_FAILURE;
	}
	while (stays && !watch->ended && !watch->closed) {
		if (watch->changed)
			ask_status(watch);
		draw(watch);
		stays = await_change(watch, &screen);
	}
	screen_close(&screen);
	leave_picture(watch);
	return stays ? tell_end(watch) : EXIT_SUCCESS;
}

int
watch_group(const struct client_group *group)
{
	static struct watch watch;
	const char *term = getenv("TERM");
	bool screen = isatty(STDOUT_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
	int status;

	watch.group = group;
	watch.changed = true;
	if (client_stream_open(group, &watch.stream) != 0)
		return EXIT_FAILURE;
	take_events(&watch, false);
	status = screen ? watch_screen(&watch) : watch_lines(&watch);
	client_stream_close(&watch.stream);
	frame_free(&watch.frame);
	free(watch.canvas.text);
	return status;
}

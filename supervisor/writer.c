#include "supervisor/writer.h"

#include "common/deadline.h"
#include "supervisor/channel.h"
#include "supervisor/clean.h"
#include "supervisor/log_json.h"

#include <inttypes.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECORATION_BYTES 64 /* prefix, colours, newline */
#define RED              "\033[31m"
#define YELLOW           "\033[33m"
#define PLAIN            "\033[0m"

/* One of the two descriptors. */
struct side {
	const char *name;
	struct channel *channel;
	uint64_t dropped; /* lines, not yet told */
	bool warned;      /* that it takes no more */
};

struct writer {
	struct side sides[2], *out, *err; /* the same side if both lead to the same file */
	struct writer_options options;
	char group[64];
	bool color; /* wanted, where a terminal is */
	bool dumb;  /* the terminal can do nothing */
	struct writer_hooks hooks;
	bool hooked;
	char *scratch; /* the line being made */
	size_t scratch_cap;
};

static char *
scratch(struct writer *writer, size_t len)
{
	size_t need = len + CLEAN_GROWTH_BYTES + DECORATION_BYTES;
	char *grown;

	if (need > writer->scratch_cap) {
		grown = realloc(writer->scratch, need);
		if (grown == NULL)
			return NULL;
		writer->scratch = grown;
		writer->scratch_cap = need;
	}
	return writer->scratch;
}

static void
put(struct writer *writer, struct side *side, const char *text, size_t len)
{
	if (writer->hooked && side == writer->err)
		writer->hooks.before_line(writer->hooks.arg);
	channel_put(side->channel, text, len);
}

/* Tells how many lines are missing at this place. */
static void
put_mark(struct writer *writer, struct side *side)
{
	const char *hint = writer->options.ranks_kept ? "; rank-N.log has the ranks'" : "";
	char text[128], *json = NULL;

	side->dropped += channel_take_lost(side->channel);
	if (side->dropped == 0)
		return;
	snprintf(text, sizeof(text), "... %" PRIu64 " lines not shown%s\n", side->dropped, hint);
	if (writer->options.format == LOG_FORMAT_JSON) {
		text[strlen(text) - 1] = '\0';
		json = log_json_own(LOG_LEVEL_WARN, writer->group, text);
	}
	side->dropped = 0;
	put(writer, side, json != NULL ? json : text, strlen(json != NULL ? json : text));
	if (json != NULL)
		put(writer, side, "\n", 1);
	free(json);
}

/* len includes the newline. */
static void
put_line(struct writer *writer, struct side *side, const char *text, size_t len, bool own)
{
	size_t bytes = writer->options.queue_bytes, queued = channel_queued(side->channel);
	size_t limit = own ? bytes + WRITER_RESERVE_BYTES : bytes;
	bool crowded = queued > bytes / 2 && !own;

	if (channel_error(side->channel) == 0 && !crowded)
		put_mark(writer, side);
	if (queued + len > limit || (side->dropped > 0 && crowded))
		side->dropped++;
	else
		put(writer, side, text, len);
}

/* Said once, on the other descriptor. */
static void
warn_of_loss(struct writer *writer, struct side *side)
{
	int error = channel_error(side->channel);

	if (error == 0 || side->warned)
		return;
	side->warned = true;
	if (writer->out == writer->err)
		return;
	errno = error;
	log_warn("%s takes no more lines%s", side->name,
		 writer->options.ranks_kept ? ", rank-N.log has the ranks'" : "");
}

static bool
colored(const struct writer *writer, const struct side *side)
{
	return writer->color && channel_is_terminal(side->channel);
}

static void
put_json(struct writer *writer, struct side *side, char *json, bool own)
{
	size_t len;

	if (json == NULL) {
		side->dropped++;
		return;
	}
	len = strlen(json);
	json[len] = '\n'; /* in place of its NUL */
	put_line(writer, side, json, len + 1, own);
	free(json);
}

void
writer_rank_line(struct writer *writer, int rank, const char *line, size_t len)
{
	struct side *side = writer->out;
	char *text;
	size_t n = 0;

	warn_of_loss(writer, side);
	if (channel_is_dead(side->channel))
		return;
	if (writer->options.format == LOG_FORMAT_JSON) {
		put_json(writer, side, log_json_rank(writer->group, rank, line, len), false);
		return;
	}
	text = scratch(writer, len);
	if (text == NULL) {
		side->dropped++;
		return;
	}
	if (writer->options.prefix)
		n = (size_t)snprintf(text, DECORATION_BYTES, "[rank %d] ", rank);
	if (channel_is_terminal(side->channel)) {
		n += clean_terminal(line, len, colored(writer, side), text + n);
	} else {
		memcpy(text + n, line, len);
		n += len;
	}
	text[n++] = '\n';
	put_line(writer, side, text, n, false);
}

static size_t
append(char *text, size_t n, const char *piece)
{
	size_t len = strlen(piece);

	memcpy(text + n, piece, len);
	return n + len;
}

/* The line as text, with its newline; its length. */
static size_t
own_text(struct writer *writer, enum log_level level, const char *line, char *text)
{
	bool color = level != LOG_LEVEL_INFO && colored(writer, writer->err);
	size_t n = 0;

	if (color)
		n = append(text, n, level == LOG_LEVEL_WARN ? YELLOW : RED);
	if (channel_is_terminal(writer->err->channel))
		n += clean_terminal(line, strlen(line), false, text + n);
	else
		n = append(text, n, line);
	return append(text, n, color ? PLAIN "\n" : "\n");
}

void
writer_log(enum log_level level, const char *line, void *arg)
{
	struct writer *writer = arg;
	struct side *side = writer->err;
	char *text;

	if (channel_is_dead(side->channel))
		return;
	if (writer->options.format == LOG_FORMAT_JSON) {
		put_json(writer, side, log_json_own(level, writer->group, line), true);
		return;
	}
	text = scratch(writer, strlen(line));
	if (text == NULL) {
		side->dropped++;
		return;
	}
	put_line(writer, side, text, own_text(writer, level, line, text), true);
	if (level == LOG_LEVEL_ERROR && writer->hooked)
		writer->hooks.urgent(writer->hooks.arg);
	else if (level == LOG_LEVEL_ERROR)
		channel_pump(side->channel);
}

static void
on_drained(void *arg)
{
	struct writer *writer = arg;

	for (size_t i = 0; i < 2; i++)
		if (writer->sides[i].channel != NULL &&
		    channel_queued(writer->sides[i].channel) == 0 &&
		    channel_error(writer->sides[i].channel) == 0)
			put_mark(writer, &writer->sides[i]);
	if (writer->hooked && !channel_is_behind(writer->err->channel))
		writer->hooks.drained(writer->hooks.arg);
}

static void
write_side(struct writer *writer, struct side *side)
{
	put_mark(writer, side);
	if (writer->hooked && side == writer->err)
		channel_release(side->channel);
	else
		channel_pump(side->channel);
}

static short
wanted(const struct side *side)
{
	return channel_queued(side->channel) > 0 && !channel_is_dead(side->channel) ? POLLOUT : 0;
}

bool
writer_flush(struct writer *writer, uint64_t deadline_ns)
{
	struct pollfd fds[2];
	bool waiting;
	int ms;

	for (;;) {
		write_side(writer, writer->out);
		write_side(writer, writer->err);
		for (int i = 0; i < 2; i++) {
			struct side *side = i == 0 ? writer->out : writer->err;

			fds[i].events = wanted(side);
			fds[i].fd = fds[i].events != 0 ? channel_fd(side->channel) : -1;
		}
		if (fds[0].events == 0 && fds[1].events == 0)
			return true;
		waiting = channel_is_waiting(writer->out->channel) ||
			  channel_is_waiting(writer->err->channel);
		ms = deadline_poll_ms(deadline_ns, monotonic_ns());
		if (ms == 0)
			return false;
		poll(fds, 2, waiting ? ms : 0);
	}
}

bool
writer_has_terminal(const struct writer *writer)
{
	return channel_is_terminal(writer->err->channel) && !writer->dumb &&
	       writer->options.format == LOG_FORMAT_TEXT;
}

bool
writer_out_is_terminal(const struct writer *writer)
{
	return channel_is_terminal(writer->out->channel);
}

bool
writer_has_color(const struct writer *writer)
{
	return colored(writer, writer->err);
}

void
writer_set_hooks(struct writer *writer, const struct writer_hooks *hooks)
{
	writer->hooked = hooks != NULL;
	if (hooks != NULL)
		writer->hooks = *hooks;
	channel_hold(writer->err->channel, hooks != NULL);
}

void
writer_terminal_text(struct writer *writer, const char *text, size_t len)
{
	channel_put(writer->err->channel, text, len);
}

void
writer_release(struct writer *writer)
{
	channel_release(writer->err->channel);
}

bool
writer_is_behind(const struct writer *writer)
{
	return channel_is_behind(writer->err->channel);
}

int
writer_terminal_fd(const struct writer *writer)
{
	return channel_fd(writer->err->channel);
}

static void
read_environment(struct writer *writer)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	writer->dumb = term == NULL || term[0] == '\0' || strcmp(term, "dumb") == 0;
	writer->color = !writer->dumb && (no_color == NULL || no_color[0] == '\0');
}

struct writer *
writer_open(struct event_base *base, const struct writer_options *options)
{
	struct writer *writer = calloc(1, sizeof(*writer));

	if (writer == NULL)
		return NULL;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	writer->options = *options;
	if (options->queue_bytes == 0)
		writer->options.queue_bytes = WRITER_QUEUE_BYTES;
	if (options->group != NULL)
		snprintf(writer->group, sizeof(writer->group), "%s", options->group);
	read_environment(writer);
	writer->err = &writer->sides[0];
	writer->err->name = "standard error";
	writer->err->channel = channel_open(base, options->err_fd, on_drained, writer);
	writer->out = writer->err;
	if (!channel_same(options->out_fd, options->err_fd)) {
		writer->out = &writer->sides[1];
		writer->out->name = "standard output";
		writer->out->channel = channel_open(base, options->out_fd, on_drained, writer);
	}
	if (writer->err->channel == NULL || writer->out->channel == NULL) {
		writer_close(writer);
		return NULL;
	}
	return writer;
}

void
writer_close(struct writer *writer)
{
	for (size_t i = 0; i < 2; i++)
		if (writer->sides[i].channel != NULL)
			channel_close(writer->sides[i].channel);
	free(writer->scratch);
	free(writer);
}

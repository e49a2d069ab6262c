#include "supervisor/output.h"

#include "supervisor/clean.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CHUNK_BYTES      (16 * 1024)
#define TAIL_FIRST_BYTES 512

struct output {
	int rank, fd; /* fd -1 after EOF */
	bool terminal;
	struct event *readable, *unfinished;
	struct rank_log *log;
	const struct output_callbacks *callbacks;
	struct lines lines;
	char *tail; /* the last lines, each with its newline */
	size_t tail_len, tail_cap;
};

/* Drops the oldest lines until len more bytes fit. */
static void
tail_make_room(struct output *output, size_t len)
{
	const char *newline;
	size_t drop;

	while (output->tail_len + len > OUTPUT_TAIL_BYTES) {
		drop = output->tail_len + len - OUTPUT_TAIL_BYTES;
		newline = memchr(output->tail + drop - 1, '\n', output->tail_len - drop + 1);
		drop = (size_t)(newline - output->tail) + 1;
		output->tail_len -= drop;
		memmove(output->tail, output->tail + drop, output->tail_len);
	}
}

static bool
tail_grow(struct output *output, size_t len)
{
	size_t cap = output->tail_cap == 0 ? TAIL_FIRST_BYTES : output->tail_cap;
	char *grown;

	while (cap < output->tail_len + len)
		cap *= 2;
	if (cap == output->tail_cap)
		return true;
	grown = realloc(output->tail, cap);
	if (grown == NULL)
		return false;
	output->tail = grown;
	output->tail_cap = cap;
	return true;
}

static void
tail_add(struct output *output, const char *text, size_t len)
{
	if (len > OUTPUT_TAIL_BYTES / 4)
		len = OUTPUT_TAIL_BYTES / 4;
	tail_make_room(output, len + 1);
	if (!tail_grow(output, len + 1))
		return;
	memcpy(output->tail + output->tail_len, text, len);
	output->tail[output->tail_len + len] = '\n';
	output->tail_len += len + 1;
}

static void
on_line(const char *text, size_t len, void *arg)
{
	struct output *output = arg;

	tail_add(output, text, len);
	if (output->callbacks->line != NULL)
		output->callbacks->line(output->rank, text, len, output->callbacks->arg);
}

static void
on_state(const char *text, size_t len, void *arg)
{
	struct output *output = arg;

	if (output->callbacks->line != NULL)
		output->callbacks->line(output->rank, text, len, output->callbacks->arg);
}

static void
on_show(const char *text, size_t len, void *arg)
{
	struct output *output = arg;

	if (output->callbacks->show != NULL)
		output->callbacks->show(output->rank, text, len, output->callbacks->arg);
}

static struct lines_sink
sink_of(struct output *output)
{
	return (struct lines_sink){
	    .line = on_line, .state = on_state, .show = on_show, .arg = output};
}

/* How long a line that is not finished may stay unseen; 0: until it is. */
static uint64_t
patience_ns(const struct output *output)
{
	if (output->lines.rewritten)
		return output->terminal ? OUTPUT_REWRITE_NS : OUTPUT_REWRITE_ELSEWHERE_NS;
	return output->terminal ? OUTPUT_PARTIAL_NS : 0;
}

/* From the first unseen byte on, however many follow. */
static void
await_unfinished(struct output *output, bool anew)
{
	uint64_t wait = patience_ns(output);
	struct timeval tv = {.tv_sec = (time_t)(wait / NS_PER_SEC),
			     .tv_usec = (suseconds_t)(wait % NS_PER_SEC / NS_PER_USEC)};

	if (anew || !lines_pending(&output->lines))
		evtimer_del(output->unfinished);
	if (lines_pending(&output->lines) && wait > 0 && !evtimer_pending(output->unfinished, NULL))
		evtimer_add(output->unfinished, &tv);
}

static void
on_unfinished(evutil_socket_t fd, short what, void *arg)
{
	struct output *output = arg;
	struct lines_sink sink = sink_of(output);

	(void)fd;
	(void)what;
	lines_show(&output->lines, &sink);
}

/* Reads at most `most` bytes, fewer when the pipe is empty. True if it is over. */
static bool
take(struct output *output, size_t most)
{
	static char chunk[CHUNK_BYTES];
	struct lines_sink sink = sink_of(output);
	size_t taken = 0, finished = 0, want;
	bool eof = false;
	ssize_t n;

	while (taken < most) {
		want = most - taken < sizeof(chunk) ? most - taken : sizeof(chunk);
		n = read(output->fd, chunk, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			eof = n == 0 || errno != EAGAIN;
			break;
		}
		taken += (size_t)n;
		if (output->log != NULL)
			rank_log_write(output->log, chunk, (size_t)n);
		finished += lines_feed(&output->lines, chunk, (size_t)n, &sink);
		if ((size_t)n < want)
			break;
	}
	await_unfinished(output, finished > 0);
	if (taken > 0 && output->callbacks->heard != NULL)
		output->callbacks->heard(output->rank, output->callbacks->arg);
	return eof;
}

static void
end_line(struct output *output)
{
	struct lines_sink sink = sink_of(output);

	lines_end(&output->lines, &sink);
	evtimer_del(output->unfinished);
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct output *output = arg;

	(void)fd;
	(void)what;
	if (!take(output, OUTPUT_TURN_BYTES))
		return;
	end_line(output);
	event_del(output->readable);
	close(output->fd);
	output->fd = -1;
	if (output->callbacks->eof != NULL)
		output->callbacks->eof(output->rank, output->callbacks->arg);
}

void
output_drain(struct output *output)
{
	int waiting = 0;

	if (output->fd < 0)
		return;
	/* What a dead rank wrote is all in the pipe by now; what others add meanwhile can wait. */
	if (ioctl(output->fd, FIONREAD, &waiting) == 0 && waiting > 0)
		take(output, (size_t)waiting);
	end_line(output);
}

size_t
output_tail(const struct output *output, const char **lines, size_t max)
{
	static char text[OUTPUT_TAIL_BYTES + OUTPUT_TAIL_LINES * CLEAN_GROWTH_BYTES];
	const char *end, *start, *newline;
	size_t n = 0, used = 0;

	if (output->tail == NULL)
		return 0;
	if (max > OUTPUT_TAIL_LINES)
		max = OUTPUT_TAIL_LINES;
	end = start = output->tail + output->tail_len;
	for (; n < max && start > output->tail; n++) {
		newline = memrchr(output->tail, '\n', (size_t)(start - output->tail) - 1);
		start = newline != NULL ? newline + 1 : output->tail;
	}
	for (size_t i = 0; i < n; i++) {
		newline = memchr(start, '\n', (size_t)(end - start));
		lines[i] = text + used;
		used += clean_terminal(start, (size_t)(newline - start), false, text + used);
		text[used++] = '\0';
		start = newline + 1;
	}
	return n;
}

struct output *
output_open(struct event_base *base, int rank, int fd, struct rank_log *log, bool terminal,
	    const struct output_callbacks *callbacks)
{
	struct output *output = calloc(1, sizeof(*output));

	if (output == NULL) {
		close(fd);
		return NULL;
	}
	output->rank = rank;
	output->fd = fd;
	output->terminal = terminal;
	output->callbacks = callbacks;
	output->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, output);
	output->unfinished = evtimer_new(base, on_unfinished, output);
	if (output->readable == NULL || output->unfinished == NULL ||
	    fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
	    event_priority_set(output->readable, OUTPUT_PRIORITY) != 0 ||
	    event_priority_set(output->unfinished, OUTPUT_PRIORITY) != 0 ||
	    event_add(output->readable, NULL) != 0) {
		output_close(output);
		return NULL;
	}
	output->log = log;
	return output;
}

void
output_close(struct output *output)
{
	if (output == NULL)
		return;
	if (output->readable != NULL)
		event_free(output->readable);
	if (output->unfinished != NULL)
		event_free(output->unfinished);
	if (output->fd >= 0)
		close(output->fd);
	rank_log_close(output->log);
	lines_free(&output->lines);
	free(output->tail);
	free(output);
}

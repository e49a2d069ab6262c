#include "supervisor/lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK_BYTES  48
#define FIRST_BYTES 256
#define KEEP_BYTES  1024 /* a larger buffer is given back once it is empty */

/* Without memory the line is cut where it stands. */
static void
keep(struct lines *lines, const char *data, size_t len)
{
	size_t room = OUTPUT_LINE_BYTES - lines->len, n = len < room ? len : room;
	size_t cap = lines->cap == 0 ? FIRST_BYTES : lines->cap;
	char *grown;

	if (lines->cut > 0)
		n = 0;
	while (cap < lines->len + n + MARK_BYTES)
		cap *= 2;
	if (cap > OUTPUT_LINE_BYTES + MARK_BYTES)
		cap = OUTPUT_LINE_BYTES + MARK_BYTES;
	if (n > 0 && cap > lines->cap) {
		grown = realloc(lines->buf, cap);
		if (grown == NULL) {
			n = 0;
		} else {
			lines->buf = grown;
			lines->cap = cap;
		}
	}
	if (n > 0)
		memcpy(lines->buf + lines->len, data, n);
	lines->len += n;
	lines->cut += len - n;
}

static void
restart(struct lines *lines)
{
	lines->len = 0;
	lines->shown = 0;
	lines->cut = 0;
	lines->returned = false;
	if (lines->cap > KEEP_BYTES)
		lines_free(lines);
}

void
lines_free(struct lines *lines)
{
	free(lines->buf);
	lines->buf = NULL;
	lines->cap = 0;
	lines->len = 0;
}

static bool
begun(const struct lines *lines)
{
	return lines->len > 0 || lines->cut > 0;
}

static void
finish(struct lines *lines, const struct lines_sink *sink)
{
	bool all_shown = lines->len > 0 && lines->shown == lines->len && lines->cut == 0;

	if (lines->cut > 0 && lines->cap >= lines->len + MARK_BYTES)
		lines->len += (size_t)snprintf(lines->buf + lines->len, MARK_BYTES,
					       " ... [%" PRIu64 " bytes cut]", lines->cut);
	sink->line(lines->buf != NULL ? lines->buf : "", lines->len, sink->arg);
	if (!all_shown)
		sink->show(lines->buf != NULL ? lines->buf + lines->shown : "",
			   lines->len - lines->shown, sink->arg);
	restart(lines);
	lines->rewritten = false;
}

/* A carriage return turned out not to belong to a newline. */
static void
replace(struct lines *lines, const struct lines_sink *sink)
{
	sink->state(lines->buf != NULL ? lines->buf : "", lines->len, sink->arg);
	restart(lines);
	lines->rewritten = true;
}

/* A piece without newline. */
static void
feed_piece(struct lines *lines, const char *data, size_t len, const struct lines_sink *sink)
{
	const char *end = data + len, *stop;

	while (data < end) {
		stop = memchr(data, '\r', (size_t)(end - data));
		if (stop == NULL)
			stop = end;
		if (stop > data) {
			if (lines->returned)
				replace(lines, sink);
			keep(lines, data, (size_t)(stop - data));
		}
		if (stop == end)
			break;
		lines->returned = begun(lines);
		data = stop + 1;
	}
}

size_t
lines_feed(struct lines *lines, const char *data, size_t len, const struct lines_sink *sink)
{
	const char *end = data + len, *newline;
	size_t n, finished = 0;

	while (data < end && (newline = memchr(data, '\n', (size_t)(end - data))) != NULL) {
		n = (size_t)(newline - data);
		if (!begun(lines) && n <= OUTPUT_LINE_BYTES && memchr(data, '\r', n) == NULL) {
			sink->line(data, n, sink->arg);
			sink->show(data, n, sink->arg);
			lines->rewritten = false;
		} else {
			feed_piece(lines, data, n, sink);
			finish(lines, sink);
		}
		finished++;
		data = newline + 1;
	}
	feed_piece(lines, data, (size_t)(end - data), sink);
	return finished;
}

bool
lines_pending(const struct lines *lines)
{
	return lines->len > lines->shown;
}

void
lines_show(struct lines *lines, const struct lines_sink *sink)
{
	if (!lines_pending(lines))
		return;
	sink->show(lines->buf + lines->shown, lines->len - lines->shown, sink->arg);
	lines->shown = lines->len;
}

void
lines_end(struct lines *lines, const struct lines_sink *sink)
{
	if (begun(lines))
		finish(lines, sink);
}

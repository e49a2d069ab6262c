/*
 * Our own standard output and standard error: the ranks' lines go to the one, ours to the other.
 * No call blocks and no reader holds us up: lines are queued up to a bound and written when the
 * descriptor takes them; what does not fit is counted and told as "... N lines not shown". A
 * reader that went away is written to no more. Where both are the same file, pipe or terminal
 * there is one queue, so that the order is kept.
 */
#ifndef SUPERVISOR_WRITER_H
#define SUPERVISOR_WRITER_H

#include "common/log.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WRITER_QUEUE_BYTES   (8 * 1024 * 1024) /* of ranks' lines, per queue */
#define WRITER_RESERVE_BYTES (256 * 1024)      /* on top of it, for our own lines and bars */

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

struct writer_options {
	int out_fd, err_fd; /* STDOUT_FILENO, STDERR_FILENO; stay the caller's */
	enum log_format format;
	bool prefix;        /* "[rank N] " before each rank's line */
	const char *group;  /* for JSON; copied, may be NULL */
	bool ranks_kept;    /* rank-N.log are written, so a mark may point there */
	size_t queue_bytes; /* 0 = WRITER_QUEUE_BYTES */
};

struct writer;

/*
 * NULL if memory ran out. `base` has 3 priorities. SIGPIPE and SIGXFSZ are ignored from here on: a
 * child must restore them. Does not install itself as log sink: log_set_sink(writer_log, writer).
 */
struct writer *writer_open(struct event_base *base, const struct writer_options *options);

/* Queues one line of a rank, without newline; any bytes. */
void writer_rank_line(struct writer *writer, int rank, const char *line, size_t len);

/* A log_sink; arg is the writer. */
void writer_log(enum log_level level, const char *line, void *arg);

/*
 * Writes until both queues are empty (true) or the deadline has passed, the ranks' lines first.
 * Blocks in poll(2): for the way out only. So that the last line comes last: flush, log it, flush.
 */
bool writer_flush(struct writer *writer, uint64_t deadline_ns);

/* Drops what is still queued; flush before. If it is the log's sink, log_set_sink(NULL) first. */
void writer_close(struct writer *writer);

/* Bars may be drawn on standard error: a terminal that is not dumb, and text format. */
bool writer_has_terminal(const struct writer *writer);
/* Standard output is a terminal: unfinished lines are worth showing. */
bool writer_out_is_terminal(const struct writer *writer);
/* Colours are wanted there: a terminal and no NO_COLOR. */
bool writer_has_color(const struct writer *writer);

/*
 * For terminal.c. While hooks are set, nothing is written to the terminal but by writer_release():
 * `before_line` is called before a line is queued for it, `urgent` after one of level error,
 * `drained` when a queue that had to wait is empty again.
 */
struct writer_hooks {
	void (*before_line)(void *arg);
	void (*urgent)(void *arg);
	void (*drained)(void *arg);
	void *arg;
};
void writer_set_hooks(struct writer *writer, const struct writer_hooks *hooks);
/* Queues text for the terminal as it is. */
void writer_terminal_text(struct writer *writer, const char *text, size_t len);
/* Lets go of what is queued for the terminal. */
void writer_release(struct writer *writer);
/* The terminal has not yet taken what was released. */
bool writer_is_behind(const struct writer *writer);
/* The terminal's descriptor. */
int writer_terminal_fd(const struct writer *writer);

#endif

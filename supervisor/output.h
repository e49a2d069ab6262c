/*
 * What one rank prints: standard output and standard error come through one pipe. Raw bytes go to
 * its rank_log, whole lines to the callbacks. Of a line that is rewritten by carriage returns the
 * last state counts; a line over OUTPUT_LINE_BYTES is cut there with a mark. Memory is bounded
 * whatever the rank writes, and so is what is read in one turn of the loop.
 */
#ifndef SUPERVISOR_OUTPUT_H
#define SUPERVISOR_OUTPUT_H

#include "common/deadline.h"
#include "supervisor/lines.h"
#include "supervisor/rank_log.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#define OUTPUT_TURN_BYTES (64 * 1024)
#define OUTPUT_TAIL_LINES 50
#define OUTPUT_TAIL_BYTES (8 * 1024)
#define OUTPUT_PRIORITY   2

#define OUTPUT_PARTIAL_NS           (250 * NS_PER_MSEC) /* an unfinished line is shown, on a terminal */
#define OUTPUT_REWRITE_NS           NS_PER_SEC /* a rewritten line is shown, on a terminal */
#define OUTPUT_REWRITE_ELSEWHERE_NS (10 * NS_PER_SEC)

/* Texts have no newline, are not NUL-terminated, may hold any bytes and are valid in the call only.
 */
struct output_callbacks {
	/* Bytes came; once a turn. */
	void (*heard)(int rank, void *arg);
	/* A whole line, and each state that a carriage return replaced: what a log: probe reads. */
	void (*line)(int rank, const char *text, size_t len, void *arg);
	/* What a person is shown. */
	void (*show)(int rank, const char *text, size_t len, void *arg);
	/* Every writer of the pipe is gone; the pipe is closed. output_close() may be called. */
	void (*eof)(int rank, void *arg);
	void *arg;
};

struct output;

/*
 * Takes ownership of fd, the read end, also on failure, and of `log` (NULL: no file) on success
 * only. `callbacks` is the caller's and outlives the output; members may be NULL. `terminal`:
 * lines are shown on one. NULL if memory ran out. `base` has 3 priorities.
 */
struct output *output_open(struct event_base *base, int rank, int fd, struct rank_log *log,
			   bool terminal, const struct output_callbacks *callbacks);

/*
 * At the news of the rank's death: reads what is in the pipe at this moment and ends its last
 * line. A grandchild that goes on writing holds nobody. No eof callback comes from here.
 */
void output_drain(struct output *output);

/*
 * The rank's last lines, oldest first, cleaned: valid UTF-8, no control characters. Fills lines[]
 * with at most `max` and at most OUTPUT_TAIL_LINES, returns how many. They stand until the next
 * call, for whatever rank.
 */
size_t output_tail(const struct output *output, const char **lines, size_t max);

/* Closes pipe and log. NULL is nothing. */
void output_close(struct output *output);

#endif

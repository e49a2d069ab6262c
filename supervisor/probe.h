/*
 * A question put to a rank that does not speak: does its HTTP server answer, does a port or socket
 * accept, is a file there, was a line printed. Asked from the loop on a doubling schedule, each try
 * bounded; a probe that has succeeded asks no more, unless it is to watch a serving rank.
 */
#ifndef SUPERVISOR_PROBE_H
#define SUPERVISOR_PROBE_H

#include "common/deadline.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#define PROBE_FIRST_NS (50 * NS_PER_MSEC) /* to the second try; doubles from there */
#define PROBE_LAST_NS  (2 * NS_PER_SEC)   /* the longest pause between two tries */
#define PROBE_TRY_NS   (5 * NS_PER_SEC)   /* what one try may take */

struct probe;

/* Called for each try that succeeded. */
typedef void (*probe_success)(int rank, void *arg);

/*
 * `spec` is http:URL, tcp:[HOST:]PORT, unix:PATH, file:PATH or log:REGEX, braces filled. With
 * every_ns 0 the probe ends with its first success; otherwise it asks again every_ns after each.
 * NULL with a text in error[0..size) on failure.
 */
struct probe *probe_open(struct event_base *base, int rank, const char *spec, uint64_t every_ns,
			 probe_success success, void *arg, char *error, size_t size);

/* A line that the rank printed, for log:. */
void probe_line(struct probe *probe, const char *text, size_t len);

/* NULL is nothing. */
void probe_close(struct probe *probe);

#endif

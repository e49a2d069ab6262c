/*
 * The group as JSON, in one place for /status and reports. Seconds are numbers with a fraction;
 * null stands for what is not known or does not apply.
 */
#ifndef SUPERVISOR_STATUS_JSON_H
#define SUPERVISOR_STATUS_JSON_H

#include "supervisor/evidence.h"
#include "supervisor/group.h"
#include "supervisor/timeline.h"

#include <jansson.h>

#define STATUS_DIGITS    12 /* of a number, for JSON_REAL_PRECISION: 1.035, not 1.0349999999 */
#define TAIL_LOST_LINES  20 /* log lines of the lost rank in a reason */
#define TAIL_OTHER_LINES 10 /* of every other rank in a report */

/* What answers and reports are made of; read at the moment of asking. */
struct status_source {
	const char *name; /* of the group */
	const struct group *group;
	pid_t pid; /* whom an operator may signal: ours, or the guard's */
	/* The GPUs of a rank, "1" or "0,1"; NULL: none. May be NULL. */
	const char *(*gpu)(int rank, void *arg);
	/*
	 * The last lines that a rank printed, oldest first, at most max. Returns how many; the
	 * strings stay valid until the next call. May be NULL.
	 */
	size_t (*tail)(int rank, const char **lines, size_t max, void *arg);
	/* Where the rank was when a bound passed; NULL: not looked at. May be NULL. */
	const struct evidence *(*evidence)(int rank, void *arg);
	void *arg;
	const struct timeline *timeline; /* NULL: none is kept */
};

/* The document of GET /status. The caller drops the reference; NULL if memory ran out. */
json_t *status_json(const struct status_source *source, uint64_t now_ns);

/* Of the first cause: JSON null while nothing is lost. */
json_t *status_reason(const struct status_source *source, uint64_t now_ns);

/* A string with '?' for every byte that is not UTF-8. */
json_t *status_text(const char *text);

/* Seconds to the millisecond. */
json_t *status_seconds(uint64_t ns);

/* A monotonic moment as "2026-11-30T17:03:02.123Z", and in milliseconds since 1970. */
json_t *status_time(uint64_t at_ns, uint64_t now_ns);
int64_t status_wall_ms(uint64_t at_ns, uint64_t now_ns);
json_t *status_wall_time(int64_t wall_ms);

/* The last lines of a rank as an array of strings, at most max (<= TAIL_LOST_LINES). */
json_t *status_tail(const struct status_source *source, int rank, size_t max);

/* NULL if the rank has none, or is NO_RANK. */
const char *status_gpu(const struct status_source *source, int rank);

#endif

/*
 * The drills: a real group of `tfworker rank` below a real `tfsupervisor run`, in a temporary
 * directory, of which rank 1 does something wrong; then what the receipts and the report say is
 * held against what the drill promises.
 */
#ifndef SUPERVISOR_DRILL_H
#define SUPERVISOR_DRILL_H

#include "common/deadline.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRILL_ERROR_BYTES 512

/* X(enum suffix, word, default delay in ns) */
#define DRILL_MODES(X)                                                                             \
	X(LATE, "late", 35 * NS_PER_SEC)                                                           \
	X(GONE, "gone", NS_PER_SEC)                                                                \
	X(SUM, "sum", NS_PER_SEC)                                                                  \
	X(EOF, "eof", NS_PER_SEC)                                                                  \
	X(MISSING, "missing", 2 * NS_PER_SEC)                                                      \
	X(TIMEOUT, "timeout", 2 * NS_PER_SEC)

enum drill_mode {
#define X(id, word, delay) DRILL_##id,
	DRILL_MODES(X)
#undef X
	    DRILL_MODE_COUNT
};

struct drill {
	enum drill_mode mode;
	int ranks; /* 2 or more */
	uint64_t delay_ns;
	const char *backend;              /* "host" or "cuda" */
	const char *model;                /* a checkpoint, NULL: a small one is made */
	char supervisor[PATH_MAX];        /* our own program */
	char worker[PATH_MAX];            /* tfworker */
	uint64_t ready_ns, collective_ns; /* the bounds of the group; see drill_bounds */
};

/* What a drill left. */
struct drill_result {
	int status;       /* of `tfsupervisor run`: exit status, or 128 + signal */
	json_t *report;   /* its report; NULL if it left none */
	json_t *receipts; /* array, one a rank; null where a rank left none */
};

const char *drill_word(enum drill_mode mode);
uint64_t drill_default_delay_ns(enum drill_mode mode);

/*
 * Chooses the group's bounds so that the point of the drill stays at any delay: `late` would trip a
 * collective bound that ran from its own load's end, `missing` trips the ready bound, `timeout` the
 * collective bound.
 */
void drill_bounds(struct drill *drill);

/*
 * Runs it and cleans up, whatever happens. The group's lines go to standard error. 0 with *result
 * to be freed, or -1 with a text. All signals must be blocked; SIGINT, SIGTERM and SIGHUP stop the
 * group and are returned in *interrupted, else 0.
 */
int drill_run(const struct drill *drill, struct drill_result *result, int *interrupted,
	      char error[DRILL_ERROR_BYTES]);
void drill_result_free(struct drill_result *result);

/* drill_place.c: the temporary directory, with run/ and state/ in it. 0, or -1 with a text. */
int drill_place_make(char place[PATH_MAX], char error[DRILL_ERROR_BYTES]);
void drill_place_remove(const char *place);
/* Writes the group's INI file into it. */
int drill_place_write_ini(const struct drill *drill, const char *place, const char *model,
			  char path[PATH_MAX], char error[DRILL_ERROR_BYTES]);
/* Reads what the group left in it. */
void drill_place_read(const struct drill *drill, const char *place, struct drill_result *result);

/*
 * drill_judge.c: what the drill promises against what was seen, as an array of {"check",
 * "measured", "bound", "ok"}; texts for people.
 */
json_t *drill_judge(const struct drill *drill, const struct drill_result *result);
bool drill_passed(const json_t *checks);

#endif

/*
 * The start of every rank, moment by moment, over the newest epochs, and what ended each: bounded
 * memory, no I/O but the wall clock.
 */
#ifndef SUPERVISOR_TIMELINE_H
#define SUPERVISOR_TIMELINE_H

#include <jansson.h>
#include <stdint.h>

#define TIMELINE_EPOCHS 8   /* kept at most */
#define TIMELINE_ROWS   512 /* ranks times epochs; one epoch is kept whatever its size */

/* X(enum suffix, key) in the order in which they come */
#define MOMENTS(X)                                                                                 \
	X(FORKED, "forked")                                                                        \
	X(HELLO, "hello")                                                                          \
	X(LOAD, "load") /* first progress */                                                       \
	X(READY, "ready")                                                                          \
	X(COLLECTIVE, "collective") /* said that it begins */                                      \
	X(COLLECTIVE_DONE, "collective_done")                                                      \
	X(SERVING, "serving")                                                                      \
	X(GONE, "gone")

enum moment {
#define X(id, key) MOMENT_##id,
	MOMENTS(X)
#undef X
	    MOMENT_COUNT
};

struct timeline;

/* NULL if memory ran out. */
struct timeline *timeline_open(int world_size);
void timeline_close(struct timeline *timeline);

/* A new epoch; the oldest one may be forgotten. What follows is of this epoch. */
void timeline_begin(struct timeline *timeline, uint32_t number, uint64_t now_ns);
/* 0: it has not come yet. */
void timeline_mark(struct timeline *timeline, int rank, enum moment moment, uint64_t at_ns);
void timeline_go(struct timeline *timeline, uint64_t at_ns);
/* Tree empty. Takes `reason`, JSON null for none; `message` is the epoch's last line. */
void timeline_end(struct timeline *timeline, json_t *reason, const char *message, uint64_t now_ns);

/*
 * [{"epoch","time","age_seconds","go_seconds","lasted_seconds","message","reason","ranks":
 * [{"forked":0.004,...}]}], oldest epoch first; moments in seconds since the epoch's start, those
 * that never came left out. NULL if memory ran out.
 */
json_t *timeline_json(const struct timeline *timeline, uint64_t now_ns);

#endif

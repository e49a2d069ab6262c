/* What a rank did and when, as one JSON object: for the drills, and for whoever asks afterwards. */
#ifndef WORKER_RECEIPT_H
#define WORKER_RECEIPT_H

#include "worker/collective.h"
#include "worker/load_error.h"

#include <stdbool.h>
#include <stdint.h>

/* X(enum suffix, key): moments, CLOCK_MONOTONIC ns */
#define MOMENTS(X)                                                                                 \
	X(START, "start")                                                                          \
	X(HELLO, "hello")                                                                          \
	X(LOADED, "loaded")                                                                        \
	X(READY, "ready")                                                                          \
	X(GO, "go")                                                                                \
	X(COLLECTIVE_BEGIN, "collective_begin")                                                    \
	X(COLLECTIVE_DONE, "collective_done")                                                      \
	X(SERVING, "serving")                                                                      \
	X(END, "end")     /* ABORT, STOP, the end of the link or a signal came */                  \
	X(LEAVE, "leave") /* just before FAILED was said or the link closed */                     \
	X(EXIT, "exit")

enum moment {
#define X(id, key) MOMENT_##id,
	MOMENTS(X)
#undef X
	    MOMENT_COUNT
};

/* X(enum suffix, word) */
#define OUTCOMES(X)                                                                                \
	X(NONE, "none")                                                                            \
	X(DONE, "done")               /* left after the first collective, as --once asks */        \
	X(SERVED, "served")           /* stopped while serving */                                  \
	X(STOPPED, "stopped")         /* stopped before */                                         \
	X(ABORTED, "aborted")         /* the group was lost */                                     \
	X(FAILED, "failed")           /* this rank failed: see error */                            \
	X(CLOSED, "closed")           /* the supervisor has gone */                                \
	X(SIGNALLED, "signalled")     /* SIGTERM or SIGINT that no STOP explains */                \
	X(LINK_CLOSED, "link-closed") /* a drill: lived on without its link */

enum outcome {
#define X(id, word) OUTCOME_##id,
	OUTCOMES(X)
#undef X
	    OUTCOME_COUNT
};

struct receipt {
	int rank, world_size;
	int64_t epoch;
	enum outcome outcome;
	struct load_error error;                   /* FAILED; text "" otherwise */
	char abort_reason[32], abort_detail[1024]; /* ABORTED */
	int abort_rank;
	uint64_t moments[MOMENT_COUNT];   /* 0: never */
	uint64_t bytes, layers, checksum; /* of the load, once LOADED */
	uint64_t load_ns;
	bool has_gather, has_sum;
	struct gather_result gather;
	struct sum_result sum;
};

const char *outcome_word(enum outcome outcome);

/* Now, unless it has been. */
void receipt_mark(struct receipt *receipt, enum moment moment);

/* Writes it to path as a whole: beside it first, then renamed. 0 or -1. */
int receipt_write(const struct receipt *receipt, const char *path, struct load_error *error);

#endif

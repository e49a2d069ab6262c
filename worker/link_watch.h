/*
 * The thread that reads the link, so that an end of the group reaches a rank wherever it is: it
 * turns what the supervisor says, and SIGTERM and SIGINT, into flags and wakes whoever waits. At
 * the first end it arms the bounded way out.
 */
#ifndef WORKER_LINK_WATCH_H
#define WORKER_LINK_WATCH_H

#include "worker/tfrank.h"

#include <stdint.h>

/* X(enum suffix): what has come */
#define WATCHES(X)                                                                                 \
	X(GROUP_ID)                                                                                \
	X(GO)                                                                                      \
	X(STOP)                                                                                    \
	X(ABORT)                                                                                   \
	X(CLOSED) /* the supervisor has gone */                                                    \
	X(SIGNAL) /* SIGTERM or SIGINT */                                                          \
	X(BROKEN) /* the link cannot be read or understood */

enum watch {
#define X(id) WATCH_##id,
	WATCHES(X)
#undef X
	    WATCH_COUNT
};

#define WATCH_BIT(watch) (1u << (watch))
#define WATCH_ENDS                                                                                 \
	(WATCH_BIT(WATCH_STOP) | WATCH_BIT(WATCH_ABORT) | WATCH_BIT(WATCH_CLOSED) |                \
	 WATCH_BIT(WATCH_SIGNAL) | WATCH_BIT(WATCH_BROKEN))

struct link_watch;

/*
 * Starts the thread; SIGTERM and SIGINT must be blocked. It owns the reading of the link until
 * link_watch_end. NULL with errno set on error.
 */
struct link_watch *link_watch_start(struct tfrank *link);

/* Ends the thread. NULL is fine. */
void link_watch_end(struct link_watch *watch);

/* The WATCH_BITs that have come. */
unsigned link_watch_seen(struct link_watch *watch);

/* Waits for one of `wanted` or an end until the deadline (0: none); returns what has come. */
unsigned link_watch_wait(struct link_watch *watch, unsigned wanted, uint64_t deadline_ns);

/* When it came, 0 if it has not. CLOCK_MONOTONIC ns. */
uint64_t link_watch_moment(struct link_watch *watch, enum watch which);

/* The first of the ends, 0 if there is none. */
uint64_t link_watch_end_moment(struct link_watch *watch);

/* The signal of WATCH_SIGNAL, and the text of WATCH_BROKEN. */
int link_watch_signal(struct link_watch *watch);
const char *link_watch_error(struct link_watch *watch);

/*
 * fn(arg) is called at the first end, from the thread, or at once if it has been. It replaces the
 * one before, which is not running any more when this returns. fn may be NULL.
 */
void link_watch_on_end(struct link_watch *watch, void (*fn)(void *arg), void *arg);

/* Reads the link now: without a supervisor nothing else says that GO has come. */
void link_watch_poke(struct link_watch *watch);

#endif

/* The bounds of a group: one list yields enum, the word in reasons, the INI key and the default. */
#ifndef SUPERVISOR_BOUND_H
#define SUPERVISOR_BOUND_H

#include "common/deadline.h"

/* X(enum suffix, word in a reason, INI key of [group], default in ns) */
#define BOUNDS(X)                                                                                  \
	X(LOAD, "load", "load_timeout", 3600 * NS_PER_SEC)                                         \
	X(READY, "ready", "ready_timeout", 600 * NS_PER_SEC)                                       \
	X(STALL, "stall", "stall_timeout", 0)                                                      \
	X(COLLECTIVE, "collective", "collective_timeout", 30 * NS_PER_SEC)                         \
	X(WARMUP, "warmup", "warmup_timeout", 600 * NS_PER_SEC)                                    \
	X(WATCHDOG, "watchdog", "watchdog_timeout", 0)                                             \
	X(ABORT, "abort", "abort_timeout", 2 * NS_PER_SEC)                                         \
	X(STOP, "stop", "stop_timeout", 8 * NS_PER_SEC)                                            \
	X(REAP, "stop", "reap_timeout", 5 * NS_PER_SEC)

enum bound {
#define X(id, word, key, timeout) BOUND_##id,
	BOUNDS(X)
#undef X
	    BOUND_COUNT
};

const char *bound_word(enum bound bound);
const char *bound_key(enum bound bound);
uint64_t bound_default_ns(enum bound bound);

#endif

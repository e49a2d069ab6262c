/*
 * Why a group ended: one list yields the enum, the word on the wire and in JSON, and the exit
 * status of `tfsupervisor run`.
 */
#ifndef COMMON_REASON_H
#define COMMON_REASON_H

#include <stdbool.h>

#define EXIT_USAGE       64
#define EXIT_CONFIG      78
#define EXIT_JOB_SIGTERM 143
#define EXIT_JOB_SIGINT  130

/* X(enum suffix, word, exit status) */
#define REASONS(X)                                                                                 \
	X(NONE, "", 0)                                                                             \
	X(RANK_DISCONNECTED, "RankDisconnected", 10)                                               \
	X(RANK_TIMEOUT, "RankTimeout", 11)                                                         \
	X(RANK_MISMATCH, "RankMismatch", 12)                                                       \
	X(RANK_PROTOCOL, "RankProtocol", 13)                                                       \
	X(SPAWN_FAILED, "SpawnFailed", 14)                                                         \
	X(PREFLIGHT_FAILED, "PreflightFailed", 15)

enum reason {
#define X(id, word, status) REASON_##id,
	REASONS(X)
#undef X
	    REASON_COUNT
};

/* The word, "" for REASON_NONE. Static storage. */
const char *reason_word(enum reason reason);

/* Exit status of `run`. */
int reason_exit_status(enum reason reason);

/* False and *reason untouched if the word is none of ours. */
bool reason_from_word(const char *word, enum reason *reason);

#endif

/*
 * The link's vocabulary: one packet of KEY=VALUE lines on a SOCK_SEQPACKET socket, the verb first.
 * Parsing refuses what is malformed; whether a well-formed packet is in its place is the state
 * machine's business.
 */
#ifndef COMMON_MESSAGE_H
#define COMMON_MESSAGE_H

#include "common/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_MAX_BYTES 4096 /* one packet */
#define MESSAGE_TEXT_BYTES                                                                         \
	1024 /* a shown text, with its NUL; longer ones are cut at a character                     \
	      */
#define MESSAGE_UNIT_BYTES   32
#define MESSAGE_NAME_BYTES   64
#define MESSAGE_DIGEST_BYTES 129 /* hex digits and NUL */
#define GROUP_ID_MAX_BYTES   512 /* decoded */
#define PROTOCOL_VERSION     1
#define LINK_FD_VARIABLE     "TFRANK_LINK_FD"

enum message_sender { FROM_WORKER = 1, FROM_SUPERVISOR = 2, FROM_EITHER = 3 };

/* X(enum suffix, word on the wire, who says it) */
#define VERBS(X)                                                                                   \
	X(HELLO, "HELLO", FROM_WORKER)                                                             \
	X(STATUS, "STATUS", FROM_WORKER)                                                           \
	X(PROGRESS, "PROGRESS", FROM_WORKER)                                                       \
	X(GROUP_ID, "GROUP_ID", FROM_EITHER)                                                       \
	X(READY, "READY", FROM_WORKER)                                                             \
	X(COLLECTIVE, "COLLECTIVE", FROM_WORKER)                                                   \
	X(SERVING, "SERVING", FROM_WORKER)                                                         \
	X(WATCHDOG, "WATCHDOG", FROM_WORKER)                                                       \
	X(EXTEND, "EXTEND_TIMEOUT_USEC", FROM_WORKER)                                              \
	X(FAILED, "FAILED", FROM_WORKER)                                                           \
	X(STOPPING, "STOPPING", FROM_WORKER)                                                       \
	X(WELCOME, "WELCOME", FROM_SUPERVISOR)                                                     \
	X(GO, "GO", FROM_SUPERVISOR)                                                               \
	X(ABORT, "ABORT", FROM_SUPERVISOR)                                                         \
	X(STOP, "STOP", FROM_SUPERVISOR)

enum verb {
#define X(id, word, sender) VERB_##id,
	VERBS(X)
#undef X
	    VERB_COUNT
};

/* Load progress; total 0 = not known. bytes_total 0 = bytes not told. */
struct progress {
	uint64_t done, total; /* in units */
	char unit[MESSAGE_UNIT_BYTES];
	uint64_t bytes, bytes_total;
};

/* Fields that a verb does not use are zero. Strings are NUL-terminated UTF-8. */
struct message {
	enum verb verb;
	/* HELLO */
	uint32_t protocol;
	char settings[MESSAGE_DIGEST_BYTES]; /* "" if the rank told none */
	/* STATUS, FAILED, and DETAIL of ABORT */
	char text[MESSAGE_TEXT_BYTES];
	int error_number; /* ERRNO of FAILED, 0 if none */
	/* PROGRESS */
	struct progress progress;
	/* GROUP_ID */
	unsigned char group_id[GROUP_ID_MAX_BYTES];
	size_t group_id_len; /* bytes */
	/* READY */
	bool then_collective, then_serving;
	/* COLLECTIVE */
	bool collective_done; /* false: begin */
	char name[MESSAGE_NAME_BYTES];
	/* EXTEND; at most 24 h */
	uint64_t extend_usec;
	/* WELCOME; rank also of ABORT (-1: no single rank) */
	int rank, world_size;
	uint32_t epoch;
	uint64_t ready_timeout_usec, collective_timeout_usec; /* 0 = off */
	/* ABORT */
	enum reason reason;
	/* STOP */
	uint64_t grace_usec;
};

/* What was wrong with a packet. */
struct message_error {
	char key[MESSAGE_NAME_BYTES]; /* "" if no key is at fault */
	char rule[160];
};

/*
 * Reads one packet of len bytes said by `sender`. 0, or -1 with *error filled. A length of 0 or
 * over MESSAGE_MAX_BYTES is malformed. *message is written in either case.
 */
int message_parse(const void *packet, size_t len, enum message_sender sender,
		  struct message *message, struct message_error *error);

/*
 * Writes the packet of *message. Returns its length, 1 to MESSAGE_MAX_BYTES. Newlines within texts
 * become spaces, other control characters '?'; texts are cut to fit.
 */
size_t message_format(const struct message *message, char buffer[MESSAGE_MAX_BYTES]);

const char *verb_word(enum verb verb);

/* One line for people: newlines of the packet as spaces, control characters and bad UTF-8 as '?'.
 */
void message_to_string(const void *packet, size_t len, char *out, size_t size);

/* Base64 with padding. base64_decode returns the decoded length or -1. */
size_t base64_encode(const unsigned char *data, size_t len, char *out, size_t size);
long base64_decode(const char *text, unsigned char *out, size_t size);

/* Length of the UTF-8 prefix that is valid and free of NUL. Equal to len when all of it is. */
size_t utf8_valid_prefix(const void *text, size_t len);

#endif

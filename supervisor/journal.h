/*
 * What has happened to the group: every transition of rank and group, go, the first cause,
 * warnings, requests, the start and the end of each epoch. The newest entries are kept in memory
 * as they are and become JSON when somebody asks. No I/O but the wall clock.
 */
#ifndef SUPERVISOR_JOURNAL_H
#define SUPERVISOR_JOURNAL_H

#include "supervisor/group.h"
#include "supervisor/timeline.h"

#define JOURNAL_ENTRIES    1000 /* kept, and as many as an epoch of the group may make */
#define JOURNAL_PER_RANK   12
#define JOURNAL_LINE_BYTES 8192 /* the longest line, with its NUL */
#define JOURNAL_TEXT_BYTES 1024 /* of a text, before JSON makes it longer */

/* X(enum suffix, word) */
#define JOURNAL_KINDS(X)                                                                           \
	X(EPOCH_START, "epoch-start")                                                              \
	X(FORKED, "forked")                                                                        \
	X(RANK, "rank")   /* from one state to another */                                          \
	X(GROUP, "group") /* from one state to another */                                          \
	X(GO, "go")                                                                                \
	X(NEWS, "news") /* the first cause is known */                                             \
	X(WARNING, "warning")                                                                      \
	X(STOP, "stop")       /* was asked for */                                                  \
	X(RESTART, "restart") /* was asked for */                                                  \
	X(EPOCH_END, "epoch-end")

struct journal;

/* `group` is the caller's and outlives the journal. NULL if memory ran out. */
struct journal *journal_open(const struct group *group);
void journal_close(struct journal *journal);

/* After a step of the group and its actions; the text of an entry is made here. NULL is nothing. */
void journal_step(struct journal *journal, const struct group_event *event,
		  const struct actions *actions, uint64_t now_ns);

/* At tree empty. Takes `reason` (JSON null for none); `message` is the last line. NULL is nothing.
 */
void journal_epoch_over(struct journal *journal, json_t *reason, const char *message,
			uint64_t now_ns);

/* Entries are numbered from 1: the oldest that is kept, and the one that comes next. */
uint64_t journal_oldest(const struct journal *journal);
uint64_t journal_next(const struct journal *journal);

/*
 * The entry as a line of JSON in ASCII, without newline: {"seq","monotonic_ns","time","epoch",
 * "event",...,"text"}. Its length; 0 if it is not kept or memory ran out.
 */
size_t journal_line(const struct journal *journal, uint64_t seq, char line[JOURNAL_LINE_BYTES]);

const struct timeline *journal_timeline(const struct journal *journal);

#endif

/*
 * The state machine of a group: no I/O, no clock. group_step() takes one event and appends the
 * actions that follow from it; the loop turns descriptors and timers into events and actions into
 * system calls. All times are CLOCK_MONOTONIC nanoseconds.
 */
#ifndef SUPERVISOR_GROUP_H
#define SUPERVISOR_GROUP_H

#include "common/message.h"
#include "common/reason.h"
#include "supervisor/bound.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NO_RANK         (-1)
#define CAUSE_BYTES     (MESSAGE_TEXT_BYTES + 32)
#define DETAIL_BYTES    512
#define JUDGE_DELAY_NS  (50 * NS_PER_MSEC)  /* a rank's SIGTERM may be everybody's */
#define CLOSE_GRACE_NS  (2 * NS_PER_SEC)    /* a job's closed link to its rank's exit */
#define ABORT_TERM_NS   (500 * NS_PER_MSEC) /* ABORT to SIGTERM */
#define REPEAT_NS       (200 * NS_PER_MSEC) /* a stop repeated within this is one stop */
#define EXTEND_MAX_NS   (86400 * NS_PER_SEC)
#define STOP_SIGNAL     0          /* KILL: the rank's stop_signal, then SIGCONT */
#define DUMP_LEAD_NS    NS_PER_SEC /* dump_signal to the end by a bound */
#define SILENCE_WARN_NS (300 * NS_PER_SEC)

/* X(enum suffix, word) */
#define RANK_STATES(X)                                                                             \
	X(STARTING, "starting")                                                                    \
	X(CONNECTED, "connected")                                                                  \
	X(LOADING, "loading")                                                                      \
	X(READY, "ready")                                                                          \
	X(COLLECTIVE, "collective")                                                                \
	X(WARMING, "warming")                                                                      \
	X(SERVING, "serving")                                                                      \
	X(STOPPING, "stopping")                                                                    \
	X(GONE, "gone")

#define GROUP_STATES(X)                                                                            \
	X(STARTING, "starting")                                                                    \
	X(LOADING, "loading")                                                                      \
	X(COLLECTIVE, "collective")                                                                \
	X(WARMING, "warming")                                                                      \
	X(SERVING, "serving")                                                                      \
	X(STOPPING, "stopping")                                                                    \
	X(BACKOFF, "backoff")                                                                      \
	X(FAILED, "failed")                                                                        \
	X(STOPPED, "stopped")

/*
 * X(enum suffix, word). Of a rank: what its link said, what its process did. The words of the
 * first block are verbs; a verb without a cell would let a worker do the impossible.
 */
#define RANK_EVENTS(X)                                                                             \
	X(HELLO, "hello")                                                                          \
	X(STATUS, "status")                                                                        \
	X(PROGRESS, "progress")                                                                    \
	X(GROUP_ID, "group-id")                                                                    \
	X(READY, "ready")                                                                          \
	X(COLLECTIVE, "collective")                                                                \
	X(SERVING, "serving")                                                                      \
	X(WATCHDOG, "watchdog")                                                                    \
	X(EXTEND, "extend")                                                                        \
	X(FAILED, "failed")                                                                        \
	X(STOPPING, "stopping")                                                                    \
	X(MALFORMED, "malformed")       /* the packet that message_parse refused */                \
	X(NOTIFY_READY, "notify-ready") /* READY=1 on the notify socket */                         \
	X(PROBE_READY, "probe-ready")   /* a ready probe succeeded, or ready = none */             \
	X(HEARD, "heard")               /* an output line, or a packet that says nothing more */   \
	X(OBSERVED, "observed")         /* progress, read from the rank's own lines */             \
	X(SUSPENDED, "suspended")       /* stopped by a signal */                                  \
	X(RESUMED, "resumed")                                                                      \
	X(CLOSED, "closed")   /* EOF on the link of a process that lives on */                     \
	X(SPAWNED, "spawned") /* forked; event.pid */                                              \
	X(DIED, "died")       /* news: the process is ending or ended */                           \
	X(REAPED, "reaped")   /* waited for; the status is final */                                \
	X(SPAWN_FAILED, "spawn-failed")

#define GROUP_EVENTS(X)                                                                            \
	X(START, "start")           /* fork every rank of the epoch */                             \
	X(STOP, "stop")             /* an operator asked: signal or verb */                        \
	X(RESTART, "restart")       /* an operator asked */                                        \
	X(ABANDONED, "abandoned")   /* the guard has died */                                       \
	X(BOUND, "bound")           /* the deadline that group_due() named has passed */           \
	X(TREE_EMPTY, "tree-empty") /* no process is left below us */

enum rank_state {
#define X(id, word) RANK_##id,
	RANK_STATES(X)
#undef X
	    RANK_STATE_COUNT
};

enum group_state {
#define X(id, word) GROUP_##id,
	GROUP_STATES(X)
#undef X
	    GROUP_STATE_COUNT
};

enum event_kind {
#define X(id, word) EVENT_##id,
	RANK_EVENTS(X) GROUP_EVENTS(X)
#undef X
	    EVENT_COUNT
};

#define EVENT_RANK_LAST EVENT_SPAWN_FAILED

/* How a rank speaks; decided by its first word. */
enum rank_kind { KIND_SILENT, KIND_LINK, KIND_NOTIFY, KIND_PROBED };

/* How a process ended. Known at the news where /proc tells, else `died`. */
struct ending {
	enum { ENDING_UNKNOWN, ENDING_EXITED, ENDING_KILLED } how;
	int code; /* exit code, or signal */
};

/* A deadline that the loop reports by EVENT_BOUND. X(enum suffix) */
enum timer {
	TIMER_LOAD,      /* group: fork to last READY */
	TIMER_READY,     /* group: first READY to last READY */
	TIMER_LOAD_HALF, /* group: warnings at half and nine tenths */
	TIMER_LOAD_LATE,
	TIMER_READY_HALF,
	TIMER_READY_LATE,
	TIMER_TERM,    /* group: ABORT to SIGTERM */
	TIMER_KILL,    /* group: SIGKILL */
	TIMER_REAP,    /* group: the kernel has had its time */
	TIMER_BACKOFF, /* group: next epoch */
	GROUP_TIMER_COUNT
};

enum rank_timer {
	RANK_TIMER_STALL,
	RANK_TIMER_SILENCE, /* a warning, not a bound */
	RANK_TIMER_PHASE,   /* collective or warm-up bound of this rank */
	RANK_TIMER_WATCHDOG,
	RANK_TIMER_JUDGE, /* a SIGTERM that was not ours, or a closed link, is judged */
	RANK_TIMER_COUNT
};

struct group_event {
	enum event_kind kind;
	int rank;                          /* NO_RANK for events of the group */
	const struct message *message;     /* verbs; valid during the step only */
	const struct message_error *error; /* MALFORMED */
	const char *text;                  /* SPAWN_FAILED: error and path */
	struct ending ending;              /* DIED, REAPED */
	const char *note;                  /* DIED, REAPED: beside the ending, or NULL; static */
	pid_t pid;                         /* SPAWNED */
	int fd;                            /* that came with the message; for the loop alone */
	bool notify;                       /* said on the notify socket: oddities are ignored */
	int signal;                        /* STOP: SIGTERM, SIGINT, 0 = a verb */
	int timer;                         /* BOUND: enum timer, or enum rank_timer if rank >= 0 */
};

/* The first cause; frozen when set. */
struct loss {
	enum reason reason; /* REASON_NONE: nothing is lost */
	int rank;           /* NO_RANK: no single one */
	char cause[CAUSE_BYTES];
	enum rank_state phase;
	enum bound bound; /* valid for RANK_TIMEOUT */
	char detail[DETAIL_BYTES];
	struct ending ending;
	bool by_end;      /* the rank's own end is the cause: `died` until it is told */
	bool by_close;    /* its link was closed; its exit, if it comes unasked, names the cause */
	const char *note; /* of the rank's ending, or NULL; static storage */
	int error_number; /* ERRNO of FAILED */
	pid_t pid;
	struct progress progress;
	uint64_t at_ns;
};

struct rank {
	enum rank_state state;
	enum rank_kind kind;
	pid_t pid;   /* kept after the end for reports */
	bool forked; /* a process of this epoch exists or existed */
	bool reaped;
	bool said_hello;
	bool was_ready;  /* said READY in this epoch */
	bool link_ready; /* said it on its link: then_... are known */
	bool link_closed;
	bool told; /* has its ABORT or STOP: what it says changes nothing */
	bool said_stopping;
	bool died;    /* news of its end */
	bool pending; /* its end waits for RANK_TIMER_JUDGE */
	bool victim;  /* ended after the first cause; killed_by_us() tells how */
	bool began;   /* said COLLECTIVE=begin */
	bool then_collective, then_serving;
	bool unhealthy;        /* watchdog bound passed once */
	bool suspended;        /* stopped by a signal */
	const char *note;      /* what is known beside the ending, NULL: nothing; the loop's */
	enum rank_state phase; /* the last state before stopping or gone */
	uint64_t sent_signals; /* bit n: we sent signal n; bit 0: after its end, to its group */
	struct ending ending;
	char settings[MESSAGE_DIGEST_BYTES];
	char status_text[MESSAGE_TEXT_BYTES];
	struct progress progress;
	enum bound phase_bound; /* what RANK_TIMER_PHASE stands for */
	uint64_t timer_ns[RANK_TIMER_COUNT];
	uint64_t forked_ns, hello_ns, ready_ns, serving_ns; /* 0 = not yet */
	uint64_t state_ns, heard_ns, died_ns;
};

/* What the machine needs of the configuration. */
struct group_settings {
	int world_size;
	bool job;
	bool ready_auto; /* in a job, ranks hold nobody back until one has spoken */
	bool no_gate;    /* ready = none: go is there from the start */
	bool restart;
	int restart_max;
	uint64_t restart_window_ns, restart_backoff_ns;
	bool stop_in_order, stop_reverse; /* one rank after the other */
	const int *stop_signals;          /* [world_size], borrowed; NULL: SIGTERM */
	const int *dump_signals;          /* [world_size], 0: none; borrowed; NULL: none at all */
	uint64_t timeout_ns[BOUND_COUNT];
};

/* X(enum suffix, word) */
#define ACTIONS(X)                                                                                 \
	X(FORK, "fork") /* rank: start its process */                                              \
	X(SEND_WELCOME, "welcome")                                                                 \
	X(SEND_GROUP_ID, "group-id") /* the cached id to this rank */                              \
	X(KEEP_GROUP_ID, "keep-id")  /* cache the message's id and descriptor */                   \
	X(SEND_GO, "go")                                                                           \
	X(SEND_ABORT, "abort") /* of group->loss */                                                \
	X(SEND_STOP, "stop")                                                                       \
	X(KILL, "kill")             /* signal to the rank's process group */                       \
	X(SWEEP, "sweep")           /* number: signal to whatever is left below us */              \
	X(EVIDENCE, "evidence")     /* a bound has passed: note where every rank is */             \
	X(NEWS, "news")             /* the first cause is frozen: report it */                     \
	X(WARN, "warn")             /* warning */                                                  \
	X(WARN_LATE, "warn-late")   /* half or nine tenths of a bound: bound, percent */           \
	X(EPOCH_OVER, "epoch-over") /* tree empty: write the epoch's report */                     \
	X(EXIT, "exit")             /* leave the loop with group->exit_status */

enum action_kind {
#define X(id, word) ACTION_##id,
	ACTIONS(X)
#undef X
	    ACTION_COUNT
};

struct action {
	enum action_kind kind;
	int rank;   /* NO_RANK where it means the group */
	int number; /* KILL, SWEEP: signal, STOP_SIGNAL; WARN_LATE: percent of the bound that has
		       passed */
	enum bound bound; /* WARN_LATE */
	const char *text; /* WARN: static storage */
};

struct actions {
	struct action *v; /* [cap] */
	size_t n, cap;
};

struct group {
	struct group_settings settings;
	enum group_state state;
	uint32_t epoch;     /* 0 before the first start, then 1, 2, ... */
	struct rank *ranks; /* [world_size] */
	int ready_count;    /* ranks that said READY */
	int hello_count;
	bool spoken; /* some rank has spoken in this epoch */
	bool go;     /* said in this epoch */
	bool group_id_kept;
	bool stop_wanted;    /* an operator asked, or a rank announced its leave */
	bool stop_asked;     /* an operator asked */
	bool restart_wanted; /* an operator asked */
	int stop_signal;     /* the signal that asked first, 0 = a verb */
	uint64_t stop_ns;    /* of the last signal that asked, 0: none */
	bool hurried;
	bool abandoned; /* the guard has died */
	bool killed;    /* SIGKILL has been sent to what was left */
	bool dumped;    /* the late ranks have had their dump_signal in this epoch */
	uint64_t dumped_ns;
	struct loss loss;
	int exit_status;
	uint64_t started_ns; /* first fork of the epoch */
	uint64_t first_ready_ns, go_ns;
	uint64_t skew_ns; /* first READY to last READY, once go */
	uint64_t state_ns;
	uint64_t timer_ns[GROUP_TIMER_COUNT];
	uint64_t window_ns; /* start of the restart window */
	int window_restarts;
	uint64_t backoff_ns;
	uint64_t go_total, restarts_total;
	uint64_t failures_total[REASON_COUNT];
};

/* 0, or -1 if memory ran out. The group starts in GROUP_STARTING at epoch 0; free with group_free.
 */
int group_init(struct group *group, const struct group_settings *settings);
void group_free(struct group *group);

/* Appends to *actions (reset first). Memory for them is owned by the caller: see actions_init. */
void group_step(struct group *group, const struct group_event *event, uint64_t now_ns,
		struct actions *actions);

int actions_init(struct actions *actions, int world_size);
void actions_free(struct actions *actions);

/* The next deadline of any kind, 0 if none. */
uint64_t group_next_deadline(const struct group *group);
/* Fills *event with one EVENT_BOUND whose deadline is at or before now; false if none is. */
bool group_due(const struct group *group, uint64_t now_ns, struct group_event *event);
/* Moves every deadline by delta_ns (we were stopped by job control). */
void group_shift(struct group *group, uint64_t delta_ns);

/* Ranks that hold the group back under `bound`: comma-separated numbers, at most a few, "and N
 * more". */
void group_late_ranks(const struct group *group, enum bound bound, char *out, size_t size);
/* True if the rank is one of them. */
bool rank_is_late(const struct group *group, int rank, enum bound bound);

/* "exited 3", "killed SIGKILL", "died" */
void ending_to_string(struct ending ending, char *out, size_t size);
/* "SIGKILL"; "signal 99" where it has no name. */
void signal_name(int signal, char *out, size_t size);
/* "layer 36 of 48", "36 of 48", "" */
void progress_to_string(const struct progress *progress, char *out, size_t size);

/* True if the process was ended by a signal that we sent. */
bool rank_killed_by_us(const struct rank *rank);
/* A process that has not been reaped exists. */
bool rank_is_alive(const struct rank *rank);
/* False once a stop or an end has begun: no rank may be forked any more. */
bool group_may_fork(const struct group *group);
/* Some state in which a loss is news: neither stopping nor over. */
bool group_is_running(const struct group *group);

/* Service healthy: /readyz. */
bool group_is_serving(const struct group *group);

const char *rank_state_word(enum rank_state state);
const char *group_state_word(enum group_state state);
const char *event_word(enum event_kind kind);
const char *action_word(enum action_kind kind);

#endif

/* The parent of the ranks: turns descriptors and timers into events, and actions into system calls.
 */
#ifndef SUPERVISOR_SUPERVISOR_H
#define SUPERVISOR_SUPERVISOR_H

#include "supervisor/config.h"
#include "supervisor/environ.h"
#include "supervisor/group.h"
#include "supervisor/guard.h"
#include "supervisor/health.h"
#include "supervisor/journal.h"
#include "supervisor/link.h"
#include "supervisor/evidence.h"
#include "supervisor/notify.h"
#include "supervisor/oom.h"
#include "supervisor/probe.h"
#include "supervisor/output.h"
#include "supervisor/report.h"
#include "supervisor/rundir.h"
#include "supervisor/spawn.h"
#include "supervisor/terminal.h"
#include "supervisor/writer.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <poll.h>
#include <regex.h>
#include <sys/types.h>

#define NOTE_BYTES 256
#define EXIT_LOOP  71 /* the loop itself cannot go on; the guard ends the group */

/* How `run` was called, beside the configuration. */
struct run_options {
	const char *run_dir; /* --run-dir, NULL: not given */
	enum log_format log_format;
	bool prefix; /* "[rank N] " before the ranks' lines */
};

/* What the loop holds of a rank of the present epoch. Descriptors are -1 where there is none. */
struct rank_io {
	struct supervisor *owner;
	int rank;
	int link_fd, pidfd;
	struct event *link, *exit;
	struct notify *notify;
	struct probe *ready, *alive; /* NULL: not asked */
	regex_t progress;
	bool has_progress;
	uint64_t passed_signals; /* bit n: signal n came to us and was passed on */
	char note[NOTE_BYTES];
	struct output *output;
	char *gpu;             /* its own GPUs, "" or NULL: none */
	char *visible_devices; /* CUDA_VISIBLE_DEVICES, NULL: as inherited */
	bool fork_wanted;
	int late_words; /* said after the end had begun */
	uint64_t turn;  /* in which its link was read last */
	bool has_user;  /* runs as another user: an exit code of 0 in /proc may mean "not told" */
	enum rank_state shown; /* last told on standard error */
};

struct supervisor {
	struct config *config;
	const struct run_options *options;
	struct group group;
	struct actions actions;
	struct rank_io *ranks; /* [world_size] */
	struct pollfd
	    *polled;       /* [2 * world_size] links and notify sockets, to look at all at once */
	int *stop_signals; /* [world_size] */
	int *dump_signals; /* [world_size], NULL: no rank has one */
	pid_t *pids;       /* [world_size] of this epoch, 0: not forked; zombies until its end */
	struct evidence
	    *evidence; /* [world_size] where each rank was when a bound passed, or NULL */
	struct oom oom;
	struct rundir rundir;
	char rundir_error[RUNDIR_ERROR_BYTES];
	struct status_source source;

	struct event_base *base;
	struct event *timer, *news, *signals, *guard;
	uint64_t timer_ns; /* what the timer is set to, 0: off */
	uint64_t turn;     /* counts the turns of the loop */
	uint64_t turn_ns;  /* of the first step of this turn, 0: none yet */
	struct writer *writer;
	struct terminal *terminal;
	struct health *health;
	struct journal *journal; /* NULL before the preflight is over */
	struct output_callbacks output_callbacks;
	int signal_fd, port_fd;
	const struct guard *guarded_by;
	uint64_t stopped_ns; /* by job control since then, 0: not */

	struct environ_values common; /* of every rank */
	struct worker_limit *limits;  /* [limits_len], of the rank being forked */
	size_t limits_len;
	struct rlimit open_files; /* as we found it: what ranks get */
	int fork_next;            /* ranks below it have no fork outstanding */

	unsigned char group_id[GROUP_ID_MAX_BYTES];
	size_t group_id_len;
	int group_id_fd;            /* -1: none came with it */
	char go[MESSAGE_MAX_BYTES]; /* the packet, made beforehand */
	size_t go_len;
	char abort[MESSAGE_MAX_BYTES]; /* made at the news */
	size_t abort_len;

	enum group_state shown;
	bool news_untold;
	bool heard_all;  /* in this turn of the loop */
	bool in_step;    /* actions are being carried out */
	bool changed;    /* since the last look at the screen and the timer */
	bool child_died; /* SIGCHLD since the last look */
	int sweep;       /* the signal that what is left below us gets, 0: none */
	bool over;       /* leave the loop */
};

/* Runs the group to its end; the exit status of `run`. Signals are blocked by the caller. */
int supervise(const struct guard *guard, struct config *config, const struct run_options *options);

/* supervisor.c */
void supervisor_step(struct supervisor *s, struct group_event event);
void supervisor_rank_event(struct supervisor *s, int rank, enum event_kind kind);
/* Everything that was said before this moment is heard before a deadline or a death is judged. */
void supervisor_hear_all(struct supervisor *s);

/* The same, and what ends is judged. */
void supervisor_read_all(struct supervisor *s);

/* supervisor_act.c */
void supervisor_act(struct supervisor *s, const struct group_event *event);
void supervisor_tell_news(struct supervisor *s);
const struct evidence *supervisor_evidence(int rank, void *arg);
/* Carries on with what an end has begun; called in every turn. */
void supervisor_sweep(struct supervisor *s);

/* supervisor_rank.c: one rank from fork to its last descriptor */
int supervisor_raise_open_files(struct supervisor *s, char *error, size_t size);
int supervisor_prepare(struct supervisor *s, char *error, size_t size);
/* Forks the next ranks that are wanted, some at a time, so that those that run are heard. */
void supervisor_fork_some(struct supervisor *s);
bool supervisor_forks_wanted(const struct supervisor *s);
/* What a rank is told in its environment and by braces, but for what only its fork knows. */
struct environ_values supervisor_values(const struct supervisor *s, int rank);
void supervisor_close_rank(struct supervisor *s, int rank);
size_t supervisor_tail(int rank, const char **lines, size_t max, void *arg);
const char *supervisor_gpu(int rank, void *arg);

/* supervisor_link.c: what ranks say, and how their ends become known */
void supervisor_watch_rank(struct supervisor *s, int rank);
void supervisor_read_link(struct supervisor *s, int rank);
void supervisor_notify_word(int rank, const struct message *message, void *arg);

/* supervisor_note.c */
/* What is known beside the ending of a rank, NULL: nothing; stands as long as the epoch. */
const char *supervisor_note(struct supervisor *s, int rank, struct ending ending);
/* Makes TORCHELASTIC_ERROR_FILE writable for the user, NULL: ours. 0, or -1 with errno set. */
int supervisor_open_error_file(struct supervisor *s, int rank, const struct spawn_user *user);

/* supervisor_probe.c: ranks that do not speak */
void supervisor_open_probes(struct supervisor *s, int rank);
void supervisor_watch_alive(struct supervisor *s, int rank);
void supervisor_close_probes(struct supervisor *s, int rank);
void supervisor_on_line(int rank, const char *text, size_t len, void *arg);

/* supervisor_signal.c */
int supervisor_open_signals(struct supervisor *s);
void supervisor_read_signals(struct supervisor *s);
/* A stop that the guard has got and had no time yet to pass on. True if it was one. */
bool supervisor_guard_is_asked(struct supervisor *s);
/*
 * Signals the rank's process group, and the rank itself if it has joined another. The rank is not
 * yet waited for. False with errno set if nobody was there.
 */
bool supervisor_signal_rank(pid_t pid, int signal);

#endif

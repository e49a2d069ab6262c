/* What the files of the state machine share. Private to group*.c. */
#ifndef SUPERVISOR_GROUP_INTERNAL_H
#define SUPERVISOR_GROUP_INTERNAL_H

#include "common/duration.h"
#include "supervisor/group.h"

/* One call of group_step(). */
struct step {
	struct group *g;
	const struct group_event *event;
	uint64_t now_ns;
	uint64_t due_ns; /* BOUND: the deadline itself */
	struct actions *out;
};

/* group.c */
_Noreturn void impossible(const char *state, enum event_kind event);
void act(struct step *step, enum action_kind kind, int rank, int number);
void warn(struct step *step, int rank, const char *text);
void set_group_state(struct step *step, enum group_state state);
void set_rank_state(struct step *step, struct rank *rank, enum rank_state state);
int rank_number(const struct group *group, const struct rank *rank);

/* group_rank.c: cells of the table of ranks */
void rank_step(struct step *step, struct rank *rank);

/* group_death.c: what the end of a process means */
void on_died(struct step *step, struct rank *rank);
void on_reaped(struct step *step, struct rank *rank);
void on_judge(struct step *step, struct rank *rank);

/* group_start.c: from the first fork to serving */
void begin_epoch(struct step *step);
void rank_becomes_ready(struct step *step, struct rank *rank);
void rank_after_go(struct step *step, struct rank *rank);
void rank_ends_collective(struct step *step, struct rank *rank);
void rank_serves(struct step *step, struct rank *rank);
void update_group_state(struct step *step);

/* group_end.c: loss, stop, kill, tree empty, restart */
void lose(struct step *step, struct rank *rank, enum reason reason, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void lose_bound(struct step *step, struct rank *rank, enum bound bound);
void lose_dead(struct step *step, struct rank *rank);
/* A link was closed by a process that lives on, or is on its way out. */
void lose_closed(struct step *step, struct rank *rank);
void name_end(struct loss *loss);
/* The earliest end that waits for its judgement, NULL if none does. */
struct rank *first_pending(const struct group *group);
void forget_pending(struct group *group);
void kill_rank(struct step *step, struct rank *rank, int signal);
void begin_stop(struct step *step);
void stop_in_end(struct step *step);
void finish_job(struct step *step);
void continue_end(struct step *step);
void kill_everything(struct step *step);
void give_up(struct step *step);
void term_the_told(struct step *step);
void tree_empty(struct step *step);
void end_group(struct step *step);

/* group_time.c */
void arm_load_timers(struct step *step, uint64_t from_ns);
void arm_ready_timers(struct step *step);
void disarm_start_timers(struct group *group);
void disarm_rank_timers(struct rank *rank);
void arm_silence(struct step *step, struct rank *rank);
void heard(struct step *step, struct rank *rank);
/* A running bound may move away from now, by an extension, and never nearer. */
void push_back(uint64_t *timer_ns, uint64_t deadline_ns);
void extend(struct step *step, struct rank *rank, uint64_t ns);
void on_bound(struct step *step);

#endif

/* What the end of a rank's process means: a leave, a part of a stop, or a loss. */
#include "supervisor/group_internal.h"

#include <signal.h>

#define EXIT_CODE_SIGNALLED 128 /* a shell's way to say that a signal ended its command */

/* A signal that everybody may have got, or what shells and runtimes make of one. */
static bool
may_be_a_stop(const struct group *g, const struct rank *rank)
{
	struct ending e = rank->ending;

	if (e.how == ENDING_KILLED)
		return (e.code == SIGTERM || e.code == SIGINT) && !rank_killed_by_us(rank);
	if (e.how != ENDING_EXITED)
		return false;
	return e.code == EXIT_CODE_SIGNALLED + SIGTERM || e.code == EXIT_CODE_SIGNALLED + SIGINT ||
	       (e.code == 0 && !g->settings.job);
}

/* A job's ranks may leave with 0 once go was given, or while nobody has asked for a gate. */
static bool
may_leave(const struct group *g)
{
	bool ungated = g->settings.ready_auto && !g->spoken;

	return g->settings.job && (g->go || ungated);
}

static bool
left_in_peace(const struct rank *rank)
{
	return rank->ending.how == ENDING_EXITED && rank->ending.code == 0;
}

static void
judge_later(struct rank *rank)
{
	rank->pending = true;
	rank->timer_ns[RANK_TIMER_JUDGE] = deadline_after(rank->died_ns, JUDGE_DELAY_NS);
}

static void
judge_end(struct step *step, struct rank *rank)
{
	struct group *g = step->g;
	/* The pidfd will tell whether it may. */
	bool unsure = may_leave(g) && rank->ending.how == ENDING_UNKNOWN;

	if (may_leave(g) && left_in_peace(rank))
		return;
	if (unsure || may_be_a_stop(g, rank) || first_pending(g) != NULL)
		judge_later(rank);
	else
		lose_dead(step, rank);
}

/* A shell tells of the signal that ended its command. */
static bool
ended_by_us(const struct rank *rank)
{
	int signal = rank->ending.code - EXIT_CODE_SIGNALLED;

	return rank_killed_by_us(rank) ||
	       (rank->ending.how == ENDING_EXITED && signal > 0 && signal < 64 &&
		(rank->sent_signals & UINT64_C(1) << signal) != 0);
}

/*
 * After an announced leave nobody has asked for, whoever ends otherwise than by exit 0 or by our
 * own signal is a loss after all.
 */
static void
judge_leave(struct step *step, struct rank *rank)
{
	struct group *g = step->g;

	if (g->state != GROUP_STOPPING || g->loss.reason != REASON_NONE || !g->stop_wanted ||
	    g->stop_asked || g->restart_wanted || rank->ending.how == ENDING_UNKNOWN ||
	    left_in_peace(rank) || ended_by_us(rank))
		return;
	if (may_be_a_stop(g, rank) || first_pending(g) != NULL)
		judge_later(rank);
	else
		lose_dead(step, rank);
}

void
on_judge(struct step *step, struct rank *rank)
{
	if (rank->pending)
		lose_dead(step, rank);
	else if (rank->link_closed && !rank->died)
		lose_closed(step, rank);
}

static bool
ending_is_known(const struct rank *rank)
{
	return rank->ending.how != ENDING_UNKNOWN;
}

/* It closed its link on its way out: how it went then says more than that it closed it. */
static void
name_leave(struct group *g, const struct rank *rank)
{
	g->loss.by_close = false;
	g->loss.by_end = true;
	g->loss.ending = rank->ending;
	g->loss.note = rank->note;
	name_end(&g->loss);
}

static void
judge(struct step *step, struct rank *rank)
{
	struct group *g = step->g;

	if (group_is_running(g))
		judge_end(step, rank);
	else if (g->loss.reason != REASON_NONE && g->loss.rank != rank_number(g, rank))
		rank->victim = true;
	else if (g->loss.by_close && rank->sent_signals == 0 && ending_is_known(rank))
		name_leave(g, rank);
	else
		judge_leave(step, rank);
}

void
on_died(struct step *step, struct rank *rank)
{
	if (rank->died)
		return;
	rank->died = true;
	rank->died_ns = step->now_ns;
	rank->ending = step->event->ending;
	rank->note = step->event->note;
	disarm_rank_timers(rank);
	rank->timer_ns[RANK_TIMER_JUDGE] = 0;
	judge(step, rank);
}

/* What /proc could not tell. */
static void
learn_ending(struct step *step, struct rank *rank)
{
	struct group *g = step->g;

	rank->ending = step->event->ending;
	if (step->event->note != NULL)
		rank->note = step->event->note;
	if (g->loss.by_end && g->loss.rank == rank_number(g, rank)) {
		g->loss.ending = rank->ending;
		g->loss.note = rank->note;
		name_end(&g->loss);
	} else if (rank->pending || !group_is_running(g)) {
		rank->pending = false;
		rank->timer_ns[RANK_TIMER_JUDGE] = 0;
		judge(step, rank);
	}
}

/* The last cell of a process: its ending is known now in any case. */
void
on_reaped(struct step *step, struct rank *rank)
{
	if (!rank->died)
		on_died(step, rank);
	else if (rank->ending.how == ENDING_UNKNOWN)
		learn_ending(step, rank);
	rank->reaped = true;
	set_rank_state(step, rank, RANK_GONE);
	update_group_state(step);
	if (group_is_running(step->g))
		finish_job(step);
	else
		continue_end(step);
}

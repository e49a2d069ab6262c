/* The end of a group: one path for loss, stop and restart that only ever gets harder. */
#include "supervisor/group_internal.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BACKOFF_MAX_NS (60 * NS_PER_SEC)

static bool
all_reaped(const struct group *g)
{
	for (int i = 0; i < g->settings.world_size; i++)
		if (rank_is_alive(&g->ranks[i]))
			return false;
	return true;
}

static int
stop_signal_of(const struct group *g, const struct rank *rank)
{
	return g->settings.stop_signals == NULL ? SIGTERM
						: g->settings.stop_signals[rank_number(g, rank)];
}

/* A leader that has ended leaves its process group behind, and its own end is not our doing. */
void
kill_rank(struct step *step, struct rank *rank, int signal)
{
	int sent = signal == STOP_SIGNAL ? stop_signal_of(step->g, rank) : signal;

	if (!rank->forked)
		return;
	rank->sent_signals |= UINT64_C(1) << (rank->died ? 0 : sent);
	act(step, ACTION_KILL, rank_number(step->g, rank), signal);
}

/* The timer that hardens an end may only move forward. */
static void
arm_kill(struct step *step, uint64_t timeout_ns)
{
	uint64_t *timer_ns = &step->g->timer_ns[TIMER_KILL];
	uint64_t deadline_ns = deadline_after(step->now_ns, timeout_ns);

	if (*timer_ns == 0 || (deadline_ns != 0 && deadline_ns < *timer_ns))
		*timer_ns = deadline_ns;
}

static void
enter_end(struct step *step)
{
	struct group *g = step->g;

	memset(g->timer_ns, 0, sizeof(g->timer_ns));
	set_group_state(step, GROUP_STOPPING);
	for (int i = 0; i < g->settings.world_size; i++) {
		disarm_rank_timers(&g->ranks[i]);
		if (!g->ranks[i].pending)
			g->ranks[i].timer_ns[RANK_TIMER_JUDGE] = 0;
		if (rank_is_alive(&g->ranks[i]))
			set_rank_state(step, &g->ranks[i], RANK_STOPPING);
	}
}

static bool
can_be_told(const struct rank *rank)
{
	return rank->said_hello && !rank->link_closed && !rank->died;
}

/* Knows that it is to leave. */
static bool
is_asked(const struct rank *rank)
{
	return rank->told || rank->sent_signals != 0;
}

/* ABORT leaves before any signal: with a default handler SIGTERM would outrun it. */
static void
abort_ranks(struct step *step)
{
	struct group *g = step->g;

	for (int i = 0; i < g->settings.world_size; i++) {
		struct rank *rank = &g->ranks[i];

		if (is_asked(rank) || !can_be_told(rank))
			continue;
		rank->told = true;
		act(step, ACTION_SEND_ABORT, i, 0);
	}
	for (int i = 0; i < g->settings.world_size; i++)
		if (!is_asked(&g->ranks[i]))
			kill_rank(step, &g->ranks[i], SIGTERM);
}

/* An earlier death whose judgement is pending is the first cause of whatever follows it. */
struct rank *
first_pending(const struct group *g)
{
	struct rank *first = NULL;

	for (int i = 0; i < g->settings.world_size; i++) {
		struct rank *rank = &g->ranks[i];

		if (rank->pending && (first == NULL || rank->died_ns < first->died_ns))
			first = rank;
	}
	return first;
}

/* They are part of a stop, or victims. */
void
forget_pending(struct group *g)
{
	for (int i = 0; i < g->settings.world_size; i++) {
		g->ranks[i].pending = false;
		g->ranks[i].timer_ns[RANK_TIMER_JUDGE] = 0;
	}
}

/* rank is NULL where it is no single one. */
static void
freeze(struct step *step, const struct rank *rank, enum reason reason)
{
	struct group *g = step->g;
	struct loss *loss = &g->loss;

	loss->reason = reason;
	loss->at_ns = step->now_ns;
	g->failures_total[reason]++;
	if (rank == NULL)
		return;
	loss->rank = rank_number(g, rank);
	loss->phase = rank->phase;
	loss->pid = rank->pid;
	loss->progress = rank->progress;
	loss->ending = rank->ending;
	loss->note = rank->note;
	if (rank->ending.how == ENDING_KILLED && rank->ending.code == SIGABRT && g->go)
		loss->note = "it aborted itself: it may be the victim of a peer that is stuck";
	if (step->event->kind == EVENT_FAILED && step->event->rank == loss->rank)
		loss->error_number = step->event->message->error_number;
}

static void
end_by_loss(struct step *step)
{
	struct group *g = step->g;
	forget_pending(g);
	if (group_is_running(g))
		enter_end(step);
	if (!g->killed) {
		abort_ranks(step);
		g->timer_ns[TIMER_TERM] = deadline_after(step->now_ns, ABORT_TERM_NS);
		arm_kill(step, g->settings.timeout_ns[BOUND_ABORT]);
	}
	for (int i = 0; i < g->settings.world_size; i++)
		if (g->ranks[i].died && g->ranks[i].died_ns >= g->loss.at_ns && i != g->loss.rank)
			g->ranks[i].victim = true;
	act(step, ACTION_NEWS, g->loss.rank, 0);
	if (!g->killed)
		continue_end(step);
}

/* An end whose judgement is pending comes before whatever follows it. */
static bool
lose_pending(struct step *step)
{
	struct rank *first = first_pending(step->g);

	if (first != NULL)
		lose_dead(step, first);
	return first != NULL;
}

void
lose(struct step *step, struct rank *rank, enum reason reason, const char *fmt, ...)
{
	struct group *g = step->g;
	va_list ap;

	if (!group_is_running(g) || lose_pending(step))
		return;
	freeze(step, rank, reason);
	va_start(ap, fmt);
	vsnprintf(g->loss.cause, sizeof(g->loss.cause), fmt, ap);
	va_end(ap);
	snprintf(g->loss.detail, sizeof(g->loss.detail), "rank %d: %.480s", g->loss.rank,
		 g->loss.cause);
	end_by_loss(step);
}

void
name_end(struct loss *loss)
{
	ending_to_string(loss->ending, loss->cause, sizeof(loss->cause));
	snprintf(loss->detail, sizeof(loss->detail), "rank %d: %.300s%s%s%s", loss->rank,
		 loss->cause, loss->note != NULL ? " (" : "", loss->note != NULL ? loss->note : "",
		 loss->note != NULL ? ")" : "");
}

void
lose_dead(struct step *step, struct rank *rank)
{
	struct group *g = step->g;
	struct rank *first = first_pending(g);

	if (first == NULL || rank->died_ns < first->died_ns)
		first = rank;
	freeze(step, first, REASON_RANK_DISCONNECTED);
	g->loss.at_ns = first->died_ns;
	g->loss.by_end = true;
	name_end(&g->loss);
	end_by_loss(step);
}

/* The peers are told at once; the rank itself has until then no signal that could spoil its exit.
 */
void
lose_closed(struct step *step, struct rank *rank)
{
	if (!group_is_running(step->g) || first_pending(step->g) != NULL) {
		lose(step, rank, REASON_RANK_DISCONNECTED, "link-closed");
		return;
	}
	rank->told = true;
	lose(step, rank, REASON_RANK_DISCONNECTED, "link-closed");
	step->g->loss.by_close = true;
}

void
lose_bound(struct step *step, struct rank *rank, enum bound bound)
{
	struct group *g = step->g;
	char late[128], timeout[DURATION_TEXT_BYTES];

	if (g->loss.reason != REASON_NONE || lose_pending(step))
		return;
	act(step, ACTION_EVIDENCE, NO_RANK, 0);
	freeze(step, rank, REASON_RANK_TIMEOUT);
	g->loss.bound = bound;
	format_duration(g->settings.timeout_ns[bound], timeout, sizeof(timeout));
	group_late_ranks(g, bound, late, sizeof(late));
	if (late[0] == '\0' && rank != NULL)
		snprintf(late, sizeof(late), "%d", rank_number(g, rank));
	snprintf(g->loss.cause, sizeof(g->loss.cause), "%s of %s passed", bound_key(bound),
		 timeout);
	if (rank == NULL)
		snprintf(g->loss.detail, sizeof(g->loss.detail),
			 "late: processes below the ranks; %s = %s", bound_key(bound), timeout);
	else
		snprintf(g->loss.detail, sizeof(g->loss.detail), "late: rank %s; %s = %s", late,
			 bound_key(bound), timeout);
	end_by_loss(step);
}

static void
stop_rank(struct step *step, struct rank *rank)
{
	if (is_asked(rank) || !rank_is_alive(rank))
		return;
	if (can_be_told(rank)) {
		rank->told = true;
		act(step, ACTION_SEND_STOP, rank_number(step->g, rank), 0);
	}
	/* Who has announced its leave is on its way: a signal could only spoil its exit status. */
	if (!rank->said_stopping)
		kill_rank(step, rank, STOP_SIGNAL);
}

/* In order: the next rank is asked when the one before it is gone. */
static void
stop_next_rank(struct step *step)
{
	struct group *g = step->g;
	int n = g->settings.world_size;

	for (int k = 0; k < n; k++) {
		struct rank *rank = &g->ranks[g->settings.stop_reverse ? n - 1 - k : k];

		if (!rank_is_alive(rank))
			continue;
		stop_rank(step, rank);
		if (g->settings.stop_in_order)
			return;
	}
}

void
begin_stop(struct step *step)
{
	step->g->stop_wanted = true;
	enter_end(step);
	arm_kill(step, step->g->settings.timeout_ns[BOUND_STOP]);
	stop_next_rank(step);
	continue_end(step);
}

/* An end that waits longer than a stop may is held to stop_timeout from here on. */
void
stop_in_end(struct step *step)
{
	if (!step->g->killed)
		arm_kill(step, step->g->settings.timeout_ns[BOUND_STOP]);
	continue_end(step);
}

static bool
all_left_in_peace(const struct group *g)
{
	for (int i = 0; i < g->settings.world_size; i++) {
		const struct rank *rank = &g->ranks[i];

		if (!rank->reaped || rank->ending.how != ENDING_EXITED || rank->ending.code != 0)
			return false;
	}
	return true;
}

/* Whom we asked to leave had not finished, however gently it left. */
static bool
some_rank_was_asked(const struct group *g)
{
	for (int i = 0; i < g->settings.world_size; i++) {
		const struct rank *rank = &g->ranks[i];

		if ((rank->told && !rank->said_stopping) || rank->sent_signals > 1)
			return true;
	}
	return false;
}

/* Every rank of a running job has left in peace: what they left behind gets its SIGTERM. */
void
finish_job(struct step *step)
{
	if (!step->g->settings.job || !all_left_in_peace(step->g))
		return;
	enter_end(step);
	arm_kill(step, step->g->settings.timeout_ns[BOUND_ABORT]);
	continue_end(step);
}

void
continue_end(struct step *step)
{
	struct group *g = step->g;

	if (g->state != GROUP_STOPPING)
		return;
	if (all_reaped(g) && first_pending(g) == NULL)
		act(step, ACTION_SWEEP, NO_RANK, g->killed ? SIGKILL : SIGTERM);
	else if (g->stop_wanted && g->loss.reason == REASON_NONE && !g->killed)
		stop_next_rank(step);
}

void
term_the_told(struct step *step)
{
	struct group *g = step->g;

	for (int i = 0; i < g->settings.world_size; i++)
		if (rank_is_alive(&g->ranks[i]) && g->ranks[i].told)
			kill_rank(step, &g->ranks[i], SIGTERM);
}

void
kill_everything(struct step *step)
{
	struct group *g = step->g;

	if (g->killed)
		return;
	if (group_is_running(g))
		enter_end(step);
	g->killed = true;
	g->timer_ns[TIMER_TERM] = g->timer_ns[TIMER_KILL] = 0;
	g->timer_ns[TIMER_REAP] = deadline_after(step->now_ns, g->settings.timeout_ns[BOUND_REAP]);
	for (int i = 0; i < g->settings.world_size; i++)
		kill_rank(step, &g->ranks[i], SIGKILL);
	act(step, ACTION_SWEEP, NO_RANK, SIGKILL);
}

void
end_group(struct step *step)
{
	struct group *g = step->g;
	bool unfinished =
	    g->settings.job && g->stop_asked && (some_rank_was_asked(g) || !all_left_in_peace(g));

	memset(g->timer_ns, 0, sizeof(g->timer_ns));
	set_group_state(step, g->loss.reason != REASON_NONE ? GROUP_FAILED : GROUP_STOPPED);
	g->exit_status = reason_exit_status(g->loss.reason);
	if (g->loss.reason == REASON_NONE && unfinished && g->stop_signal == SIGTERM)
		g->exit_status = EXIT_JOB_SIGTERM;
	else if (g->loss.reason == REASON_NONE && unfinished && g->stop_signal == SIGINT)
		g->exit_status = EXIT_JOB_SIGINT;
	act(step, ACTION_EXIT, NO_RANK, g->exit_status);
}

/* What SIGKILL does not end is the kernel's; it is named, and nobody waits for it for ever. */
void
give_up(struct step *step)
{
	struct group *g = step->g;
	struct rank *left = NULL;

	for (int i = g->settings.world_size - 1; i >= 0; i--) {
		if (!rank_is_alive(&g->ranks[i]))
			continue;
		left = &g->ranks[i];
		warn(step, i, "is not given up by the kernel after SIGKILL");
	}
	if (left == NULL)
		warn(step, NO_RANK, "processes below the ranks do not end after SIGKILL");
	lose_bound(step, left, BOUND_REAP);
	act(step, ACTION_EPOCH_OVER, NO_RANK, 0);
	end_group(step);
}

static bool
restart_is_due(struct step *step)
{
	struct group *g = step->g;
	const struct group_settings *s = &g->settings;

	if (!s->restart || g->stop_wanted || g->loss.reason == REASON_NONE ||
	    g->loss.reason == REASON_RANK_MISMATCH || g->loss.reason == REASON_SPAWN_FAILED)
		return false;
	if (g->window_ns == 0 || step->now_ns - g->window_ns > s->restart_window_ns) {
		g->window_ns = step->now_ns;
		g->window_restarts = 0;
		g->backoff_ns = s->restart_backoff_ns;
	}
	return g->window_restarts < s->restart_max;
}

/* The next epoch begins by a timer, so that this one can be reported before it is forgotten. */
static void
back_off(struct step *step, uint64_t delay_ns)
{
	struct group *g = step->g;

	g->restarts_total++;
	memset(g->timer_ns, 0, sizeof(g->timer_ns));
	g->timer_ns[TIMER_BACKOFF] =
	    delay_ns == 0 ? step->now_ns : deadline_after(step->now_ns, delay_ns);
	set_group_state(step, GROUP_BACKOFF);
}

void
tree_empty(struct step *step)
{
	struct group *g = step->g;

	lose_pending(step);
	act(step, ACTION_EPOCH_OVER, NO_RANK, 0);
	if (g->restart_wanted) {
		back_off(step, 0);
	} else if (restart_is_due(step)) {
		g->window_restarts++;
		back_off(step, g->backoff_ns);
		g->backoff_ns =
		    g->backoff_ns * 2 > BACKOFF_MAX_NS ? BACKOFF_MAX_NS : g->backoff_ns * 2;
	} else {
		end_group(step);
	}
}

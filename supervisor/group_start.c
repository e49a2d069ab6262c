/* From the first fork of an epoch to serving. */
#include "supervisor/group_internal.h"

#include <string.h>

static void
reset_rank(struct rank *rank, uint64_t now_ns)
{
	memset(rank, 0, sizeof(*rank));
	rank->state_ns = now_ns;
}

void
begin_epoch(struct step *step)
{
	struct group *g = step->g;

	g->epoch++;
	g->ready_count = g->hello_count = 0;
	g->spoken = g->group_id_kept = false;
	g->go = g->settings.no_gate;
	g->stop_wanted = g->restart_wanted = g->killed = g->hurried = g->dumped = false;
	g->first_ready_ns = g->go_ns = g->skew_ns = 0;
	g->started_ns = step->now_ns;
	memset(g->timer_ns, 0, sizeof(g->timer_ns));
	memset(&g->loss, 0, sizeof(g->loss));
	g->loss.rank = NO_RANK;
	set_group_state(step, GROUP_STARTING);
	for (int i = 0; i < g->settings.world_size; i++) {
		reset_rank(&g->ranks[i], step->now_ns);
		act(step, ACTION_FORK, i, 0);
	}
	if (!g->settings.no_gate && !(g->settings.job && g->settings.ready_auto))
		arm_load_timers(step, step->now_ns);
}

/* The state of a running group is that of its hindmost rank. */
void
update_group_state(struct step *step)
{
	struct group *g = step->g;
	enum group_state state = GROUP_SERVING;

	if (!group_is_running(g))
		return;
	if (!g->go) {
		set_group_state(step, g->spoken ? GROUP_LOADING : GROUP_STARTING);
		return;
	}
	for (int i = 0; i < g->settings.world_size; i++) {
		const struct rank *rank = &g->ranks[i];

		if (!rank->forked)
			state = GROUP_STARTING;
		else if (rank->state == RANK_COLLECTIVE && state > GROUP_COLLECTIVE)
			state = GROUP_COLLECTIVE;
		else if (rank->state == RANK_WARMING && state > GROUP_WARMING)
			state = GROUP_WARMING;
	}
	set_group_state(step, state);
}

static void
start_phase(struct step *step, struct rank *rank, enum rank_state state, enum bound bound)
{
	set_rank_state(step, rank, state);
	rank->phase_bound = bound;
	rank->timer_ns[RANK_TIMER_PHASE] =
	    deadline_after(step->now_ns, step->g->settings.timeout_ns[bound]);
	heard(step, rank);
}

void
rank_serves(struct step *step, struct rank *rank)
{
	set_rank_state(step, rank, RANK_SERVING);
	rank->serving_ns = step->now_ns;
	disarm_rank_timers(rank);
	rank->timer_ns[RANK_TIMER_WATCHDOG] =
	    deadline_after(step->now_ns, step->g->settings.timeout_ns[BOUND_WATCHDOG]);
	update_group_state(step);
}

void
rank_ends_collective(struct step *step, struct rank *rank)
{
	if (rank->then_serving) {
		start_phase(step, rank, RANK_WARMING, BOUND_WARMUP);
		update_group_state(step);
	} else {
		rank_serves(step, rank);
	}
}

void
rank_after_go(struct step *step, struct rank *rank)
{
	if (rank->then_collective)
		start_phase(step, rank, RANK_COLLECTIVE, BOUND_COLLECTIVE);
	else
		rank_ends_collective(step, rank);
}

/* The packets leave before anything else is done: every rank waits for them. */
static void
give_go(struct step *step)
{
	struct group *g = step->g;

	g->go = true;
	g->go_ns = step->now_ns;
	g->skew_ns = step->now_ns - g->first_ready_ns;
	g->go_total++;
	disarm_start_timers(g);
	for (int i = 0; i < g->settings.world_size; i++)
		if (g->ranks[i].said_hello)
			act(step, ACTION_SEND_GO, i, 0);
	for (int i = 0; i < g->settings.world_size; i++)
		rank_after_go(step, &g->ranks[i]);
	update_group_state(step);
}

void
rank_becomes_ready(struct step *step, struct rank *rank)
{
	struct group *g = step->g;

	rank->was_ready = true;
	rank->ready_ns = step->now_ns;
	rank->timer_ns[RANK_TIMER_STALL] = 0;
	rank->timer_ns[RANK_TIMER_SILENCE] = 0;
	set_rank_state(step, rank, RANK_READY);
	if (++g->ready_count == 1) {
		g->first_ready_ns = step->now_ns;
		arm_ready_timers(step);
	}
	/* With one of them dead, go could only be followed by its loss. */
	if (g->ready_count == g->settings.world_size && first_pending(g) == NULL)
		give_go(step);
	else
		update_group_state(step);
}

/* Deadlines: arming, shifting, finding the next, and what each one's passing means. */
#include "supervisor/group_internal.h"

#include <string.h>

#define HALF_PERCENT 50
#define LATE_PERCENT 90

static uint64_t
part_of(uint64_t from_ns, uint64_t timeout_ns, unsigned percent)
{
	return timeout_ns == 0 ? 0 : deadline_after(from_ns, timeout_ns / 100 * percent);
}

void
arm_load_timers(struct step *step, uint64_t from_ns)
{
	struct group *g = step->g;
	uint64_t timeout_ns = g->settings.timeout_ns[BOUND_LOAD];

	g->timer_ns[TIMER_LOAD] = deadline_after(from_ns, timeout_ns);
	g->timer_ns[TIMER_LOAD_HALF] = part_of(from_ns, timeout_ns, HALF_PERCENT);
	g->timer_ns[TIMER_LOAD_LATE] = part_of(from_ns, timeout_ns, LATE_PERCENT);
}

void
arm_ready_timers(struct step *step)
{
	struct group *g = step->g;
	uint64_t timeout_ns = g->settings.timeout_ns[BOUND_READY];

	g->timer_ns[TIMER_READY] = deadline_after(step->now_ns, timeout_ns);
	g->timer_ns[TIMER_READY_HALF] = part_of(step->now_ns, timeout_ns, HALF_PERCENT);
	g->timer_ns[TIMER_READY_LATE] = part_of(step->now_ns, timeout_ns, LATE_PERCENT);
}

void
disarm_start_timers(struct group *g)
{
	for (int i = TIMER_LOAD; i <= TIMER_READY_LATE; i++)
		g->timer_ns[i] = 0;
}

void
disarm_rank_timers(struct rank *rank)
{
	for (int i = 0; i < RANK_TIMER_JUDGE; i++)
		rank->timer_ns[i] = 0;
}

/* A job that nobody gates simply runs, however silent; a ready rank has nothing to say. */
static bool
silence_counts(const struct group *g, const struct rank *rank)
{
	bool ungated = g->settings.job && g->settings.ready_auto && !g->spoken;

	return !ungated && rank->forked && !rank->died && rank->state != RANK_READY &&
	       rank->state < RANK_SERVING;
}

void
push_back(uint64_t *timer_ns, uint64_t deadline_ns)
{
	if (*timer_ns < deadline_ns)
		*timer_ns = deadline_ns;
}

void
arm_silence(struct step *step, struct rank *rank)
{
	if (!silence_counts(step->g, rank))
		return;
	push_back(&rank->timer_ns[RANK_TIMER_STALL],
		  deadline_after(step->now_ns, step->g->settings.timeout_ns[BOUND_STALL]));
	push_back(&rank->timer_ns[RANK_TIMER_SILENCE],
		  deadline_after(step->now_ns, SILENCE_WARN_NS));
}

void
heard(struct step *step, struct rank *rank)
{
	rank->heard_ns = step->now_ns;
	arm_silence(step, rank);
}

static void
push_running(uint64_t *timer_ns, uint64_t deadline_ns)
{
	if (*timer_ns != 0)
		push_back(timer_ns, deadline_ns);
}

void
extend(struct step *step, struct rank *rank, uint64_t ns)
{
	struct group *g = step->g;
	uint64_t deadline_ns =
	    deadline_after(step->now_ns, ns > EXTEND_MAX_NS ? EXTEND_MAX_NS : ns);

	push_running(&g->timer_ns[TIMER_LOAD], deadline_ns);
	push_running(&g->timer_ns[TIMER_READY], deadline_ns);
	push_running(&rank->timer_ns[RANK_TIMER_STALL], deadline_ns);
	push_running(&rank->timer_ns[RANK_TIMER_PHASE], deadline_ns);
	push_running(&rank->timer_ns[RANK_TIMER_WATCHDOG], deadline_ns);
}

static void
earlier(uint64_t *next_ns, uint64_t timer_ns)
{
	if (timer_ns != 0 && (*next_ns == 0 || timer_ns < *next_ns))
		*next_ns = timer_ns;
}

static enum bound
bound_of(enum timer timer)
{
	return timer == TIMER_LOAD ? BOUND_LOAD : timer == TIMER_READY ? BOUND_READY : BOUND_COUNT;
}

static enum bound
bound_of_rank(const struct rank *rank, enum rank_timer timer)
{
	if (timer == RANK_TIMER_STALL)
		return BOUND_STALL;
	if (timer == RANK_TIMER_PHASE)
		return rank->phase_bound;
	return timer == RANK_TIMER_WATCHDOG && rank->unhealthy ? BOUND_WATCHDOG : BOUND_COUNT;
}

/* Where ranks are to dump first they are asked that long before the bound ends the group. */
static uint64_t
alarm_of(const struct group *g, uint64_t timer_ns, enum bound bound)
{
	bool early = g->settings.dump_signals != NULL && !g->dumped && bound != BOUND_COUNT &&
		     g->settings.timeout_ns[bound] > DUMP_LEAD_NS;

	return early && timer_ns > DUMP_LEAD_NS ? timer_ns - DUMP_LEAD_NS : timer_ns;
}

static uint64_t
group_alarm(const struct group *g, enum timer timer)
{
	return alarm_of(g, g->timer_ns[timer], bound_of(timer));
}

static uint64_t
rank_alarm(const struct group *g, const struct rank *rank, enum rank_timer timer)
{
	return alarm_of(g, rank->timer_ns[timer], bound_of_rank(rank, timer));
}

uint64_t
group_next_deadline(const struct group *g)
{
	uint64_t next_ns = 0;

	for (int i = 0; i < GROUP_TIMER_COUNT; i++)
		earlier(&next_ns, group_alarm(g, (enum timer)i));
	for (int r = 0; r < g->settings.world_size; r++)
		for (int i = 0; i < RANK_TIMER_COUNT; i++)
			earlier(&next_ns, rank_alarm(g, &g->ranks[r], (enum rank_timer)i));
	return next_ns;
}

bool
group_due(const struct group *g, uint64_t now_ns, struct group_event *event)
{
	uint64_t first_ns = group_next_deadline(g);

	if (first_ns == 0 || first_ns > now_ns)
		return false;
	*event = (struct group_event){.kind = EVENT_BOUND, .rank = NO_RANK};
	for (int i = 0; i < GROUP_TIMER_COUNT; i++)
		if (group_alarm(g, (enum timer)i) == first_ns) {
			event->timer = i;
			return true;
		}
	for (int r = 0; r < g->settings.world_size; r++)
		for (int i = 0; i < RANK_TIMER_COUNT; i++)
			if (rank_alarm(g, &g->ranks[r], (enum rank_timer)i) == first_ns) {
				event->rank = r;
				event->timer = i;
				return true;
			}
	return false;
}

static void
shift(uint64_t *timer_ns, uint64_t delta_ns)
{
	if (*timer_ns != 0)
		*timer_ns = deadline_after(*timer_ns, delta_ns);
}

void
group_shift(struct group *g, uint64_t delta_ns)
{
	for (int i = 0; i < GROUP_TIMER_COUNT; i++)
		shift(&g->timer_ns[i], delta_ns);
	for (int r = 0; r < g->settings.world_size; r++)
		for (int i = 0; i < RANK_TIMER_COUNT; i++)
			shift(&g->ranks[r].timer_ns[i], delta_ns);
}

/* --- who is late --- */

/* In the first collective those who have not begun hold up those who have. */
static bool
late_in_collective(const struct group *g, const struct rank *rank)
{
	if (rank->state != RANK_COLLECTIVE)
		return false;
	for (int i = 0; i < g->settings.world_size; i++)
		if (g->ranks[i].state == RANK_COLLECTIVE && !g->ranks[i].began)
			return !rank->began;
	return true;
}

static bool
is_late(const struct group *g, const struct rank *rank, enum bound bound)
{
	/* Once frozen, the states are those of the end: the phase tells where a rank was. */
	enum rank_state phase = rank->state < RANK_STOPPING ? rank->state : rank->phase;

	switch (bound) {
	case BOUND_LOAD:
	case BOUND_READY:
		return !rank->was_ready;
	case BOUND_COLLECTIVE:
		return late_in_collective(g, rank);
	case BOUND_WARMUP:
		return phase == RANK_WARMING;
	case BOUND_ABORT:
	case BOUND_STOP:
	case BOUND_REAP:
		return rank_is_alive(rank);
	case BOUND_STALL:
	case BOUND_WATCHDOG:
	case BOUND_COUNT:
		break;
	}
	return false;
}

bool
rank_is_late(const struct group *g, int rank, enum bound bound)
{
	return is_late(g, &g->ranks[rank], bound);
}

static struct rank *
first_late(struct group *g, enum bound bound)
{
	for (int i = 0; i < g->settings.world_size; i++)
		if (rank_is_late(g, i, bound))
			return &g->ranks[i];
	return NULL;
}

/* --- what the passing of a deadline means --- */

static void
warn_late(struct step *step, enum bound bound, int percent)
{
	struct action *action;

	act(step, ACTION_WARN_LATE, NO_RANK, percent);
	action = &step->out->v[step->out->n - 1];
	action->bound = bound;
}

static void
ask_for_dumps(struct step *step, enum bound bound, const struct rank *rank)
{
	struct group *g = step->g;

	g->dumped = true;
	g->dumped_ns = step->now_ns;
	for (int i = 0; i < g->settings.world_size; i++)
		if (g->settings.dump_signals[i] != 0 && rank_is_alive(&g->ranks[i]) &&
		    (&g->ranks[i] == rank || rank_is_late(g, i, bound)))
			act(step, ACTION_KILL, i, g->settings.dump_signals[i]);
}

/*
 * Before the first end by a bound the late ranks get their dump_signal, and the time to act on it.
 * True if the bound is to be judged later.
 */
static bool
dump_first(struct step *step, enum bound bound, const struct rank *rank, uint64_t *timer_ns)
{
	struct group *g = step->g;

	uint64_t until_ns = step->due_ns;

	if (g->settings.dump_signals == NULL)
		return false;
	if (!g->dumped)
		ask_for_dumps(step, bound, rank);
	push_back(&until_ns, deadline_after(g->dumped_ns, DUMP_LEAD_NS));
	*timer_ns = until_ns > step->now_ns ? until_ns : 0;
	return *timer_ns != 0;
}

static void
lose_late(struct step *step, enum bound bound, uint64_t *timer_ns)
{
	struct rank *late = first_late(step->g, bound);

	if (late != NULL && !dump_first(step, bound, late, timer_ns))
		lose_bound(step, late, bound);
}

static void
lose_this(struct step *step, struct rank *rank, enum bound bound, enum rank_timer timer)
{
	if (!dump_first(step, bound, rank, &rank->timer_ns[timer]))
		lose_bound(step, rank, bound);
}

static void
on_group_bound(struct step *step, enum timer timer)
{
	switch (timer) {
	case TIMER_LOAD:
		lose_late(step, BOUND_LOAD, &step->g->timer_ns[TIMER_LOAD]);
		break;
	case TIMER_READY:
		lose_late(step, BOUND_READY, &step->g->timer_ns[TIMER_READY]);
		break;
	case TIMER_LOAD_HALF:
		warn_late(step, BOUND_LOAD, HALF_PERCENT);
		break;
	case TIMER_LOAD_LATE:
		warn_late(step, BOUND_LOAD, LATE_PERCENT);
		break;
	case TIMER_READY_HALF:
		warn_late(step, BOUND_READY, HALF_PERCENT);
		break;
	case TIMER_READY_LATE:
		warn_late(step, BOUND_READY, LATE_PERCENT);
		break;
	case TIMER_TERM:
		term_the_told(step);
		break;
	case TIMER_KILL:
		kill_everything(step);
		break;
	case TIMER_REAP:
		give_up(step);
		break;
	case TIMER_BACKOFF:
		begin_epoch(step);
		break;
	case GROUP_TIMER_COUNT:
		break;
	}
}

/* At the bound a warning and an unhealthy group, at twice the bound the end. */
static void
on_watchdog_bound(struct step *step, struct rank *rank)
{
	if (rank->unhealthy) {
		lose_this(step, rank, BOUND_WATCHDOG, RANK_TIMER_WATCHDOG);
		return;
	}
	rank->unhealthy = true;
	rank->timer_ns[RANK_TIMER_WATCHDOG] =
	    deadline_after(step->now_ns, step->g->settings.timeout_ns[BOUND_WATCHDOG]);
	warn(step, rank_number(step->g, rank),
	     "has not said WATCHDOG for watchdog_timeout: not ready; ends at twice the bound");
}

static void
on_rank_bound(struct step *step, struct rank *rank, enum rank_timer timer)
{
	switch (timer) {
	case RANK_TIMER_STALL:
		lose_this(step, rank, BOUND_STALL, RANK_TIMER_STALL);
		break;
	case RANK_TIMER_SILENCE:
		warn(step, rank_number(step->g, rank), "has been silent for 5 minutes");
		break;
	case RANK_TIMER_PHASE:
		if (rank->phase_bound == BOUND_COLLECTIVE)
			lose_late(step, BOUND_COLLECTIVE, &rank->timer_ns[timer]);
		else
			lose_this(step, rank, rank->phase_bound, timer);
		break;
	case RANK_TIMER_WATCHDOG:
		on_watchdog_bound(step, rank);
		break;
	case RANK_TIMER_JUDGE:
		on_judge(step, rank);
		break;
	case RANK_TIMER_COUNT:
		break;
	}
}

void
on_bound(struct step *step)
{
	const struct group_event *event = step->event;
	struct group *g = step->g;
	uint64_t *timer_ns = event->rank == NO_RANK ? &g->timer_ns[event->timer]
						    : &g->ranks[event->rank].timer_ns[event->timer];

	step->due_ns = *timer_ns;
	*timer_ns = 0;
	if (event->rank == NO_RANK)
		on_group_bound(step, (enum timer)event->timer);
	else
		on_rank_bound(step, &g->ranks[event->rank], (enum rank_timer)event->timer);
}

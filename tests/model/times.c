#include "tests/model/times.h"

#include <string.h>

static uint64_t
due(const struct world *world, enum bound bound)
{
	uint64_t timeout_ns = world->group.settings.timeout_ns[bound];

	return timeout_ns == 0 ? 0 : world->now_ns + timeout_ns;
}

static void
later(uint64_t *due_ns, uint64_t at_ns)
{
	if (*due_ns < at_ns)
		*due_ns = at_ns;
}

static void
earlier(uint64_t *due_ns, uint64_t at_ns)
{
	if (*due_ns == 0 || *due_ns > at_ns)
		*due_ns = at_ns;
}

/* A job that nobody gates runs on in silence, a ready rank waits in silence. */
static bool
silence_counts(const struct world *world, int rank)
{
	const struct world_options *o = world->options;
	enum rank_state state = world->group.ranks[rank].state;
	bool ungated = o->job && o->ready_auto && !world->spoken;

	return !ungated && world->p[rank].forked && !world->p[rank].dead && state != RANK_READY &&
	       state < RANK_SERVING;
}

static void
note_silence(struct times *times, const struct world *world, int rank)
{
	struct rank_times *t = &times->ranks[rank];

	if (!silence_counts(world, rank)) {
		t->stall_ns = t->silence_ns = 0;
		return;
	}
	later(&t->stall_ns, due(world, BOUND_STALL));
	later(&t->silence_ns, world->now_ns + SILENCE_WARN_NS);
}

static void
note_extension(struct times *times, const struct world *world, int rank)
{
	struct rank_times *t = &times->ranks[rank];
	uint64_t *running[] = {&times->load_ns, &times->ready_ns, &t->stall_ns, &t->phase_ns,
			       &t->watchdog_ns};
	uint64_t until_ns = world->now_ns + WORLD_EXTEND_NS;

	for (size_t i = 0; i < sizeof(running) / sizeof(running[0]); i++)
		if (*running[i] != 0)
			later(running[i], until_ns);
}

/* A new state begins a new bound. */
static void
note_phase(struct times *times, const struct world *world, int rank)
{
	struct rank_times *t = &times->ranks[rank];
	enum rank_state state = world->group.ranks[rank].state;

	if (state == t->state)
		return;
	t->state = state;
	t->phase_ns = state == RANK_COLLECTIVE ? due(world, BOUND_COLLECTIVE)
		      : state == RANK_WARMING  ? due(world, BOUND_WARMUP)
					       : 0;
	t->watchdog_ns = state == RANK_SERVING ? due(world, BOUND_WATCHDOG) : 0;
	if (state >= RANK_READY)
		note_silence(times, world, rank);
}

static void
note_heard(struct times *times, const struct world *world, struct happening h)
{
	struct rank_times *t = &times->ranks[h.rank];

	if (h.kind > EVENT_HEARD && h.kind != EVENT_OBSERVED && h.kind != EVENT_SPAWNED)
		return;
	note_silence(times, world, h.rank);
	if (h.kind == EVENT_EXTEND)
		note_extension(times, world, h.rank);
	if (h.kind == EVENT_WATCHDOG && t->watchdog_ns != 0)
		later(&t->watchdog_ns, due(world, BOUND_WATCHDOG));
}

/* The timer that a bound has by a happening; NULL if it is of another sort. */
static uint64_t *
timer_of(struct times *times, struct happening h)
{
	if (h.rank == NO_RANK)
		return h.variant == TIMER_LOAD    ? &times->load_ns
		       : h.variant == TIMER_READY ? &times->ready_ns
						  : NULL;
	switch ((enum rank_timer)h.variant) {
	case RANK_TIMER_STALL:
		return &times->ranks[h.rank].stall_ns;
	case RANK_TIMER_PHASE:
		return &times->ranks[h.rank].phase_ns;
	case RANK_TIMER_WATCHDOG:
		return &times->ranks[h.rank].watchdog_ns;
	case RANK_TIMER_SILENCE:
	case RANK_TIMER_JUDGE:
	case RANK_TIMER_COUNT:
		break;
	}
	return NULL;
}

/* Who was asked for a dump has the time for it before any bound ends the group. */
static void
note_bound(struct times *times, const struct world *world, struct happening h)
{
	uint64_t *timer_ns = timer_of(times, h);

	if (h.rank != NO_RANK && h.variant == RANK_TIMER_WATCHDOG &&
	    !times->ranks[h.rank].unhealthy)
		*timer_ns = due(world, BOUND_WATCHDOG);
	else if (h.rank != NO_RANK && h.variant == RANK_TIMER_SILENCE)
		times->ranks[h.rank].silence_ns = 0;
	else if (world->options->dump && timer_ns != NULL)
		later(timer_ns, world->dumped_ns + DUMP_LEAD_NS);
}

static void
note_running(struct times *times, const struct world *world, struct happening h)
{
	const struct world_options *o = world->options;
	bool gated = !o->no_gate && (!o->job || !o->ready_auto || world->spoken);
	bool one_ready = false;

	for (int i = 0; i < o->ranks; i++) {
		one_ready = one_ready || (world->p[i].ready && !o->no_gate);
		if (times->load_ns == 0 && gated && !world->go && o->job && o->ready_auto)
			note_silence(times, world, i);
		note_phase(times, world, i);
	}
	if (h.kind == EVENT_BOUND)
		note_bound(times, world, h);
	else if (h.rank >= 0 && !world->p[h.rank].dead)
		note_heard(times, world, h);
	if (times->load_ns == 0 && gated)
		times->load_ns = due(world, BOUND_LOAD);
	if (times->ready_ns == 0 && one_ready)
		times->ready_ns = due(world, BOUND_READY);
	if (world->go)
		times->load_ns = times->ready_ns = 0;
}

static void
note_ends(struct times *times, const struct world *world)
{
	for (int i = 0; i < world->options->ranks; i++) {
		const struct process *p = &world->p[i];
		struct rank_times *t = &times->ranks[i];

		if (p->waiting)
			t->judge_ns = p->died_ns + JUDGE_DELAY_NS;
		else if (!p->closing || !group_is_running(&world->group))
			t->judge_ns = 0;
		else if (t->judge_ns == 0)
			t->judge_ns = world->now_ns + CLOSE_GRACE_NS;
		if (p->dead || !group_is_running(&world->group))
			t->stall_ns = t->silence_ns = t->phase_ns = t->watchdog_ns = 0;
	}
}

static void
note_end(struct times *times, const struct world *world, struct happening h)
{
	bool lost = world->news && !times->lost, begins = times->state != GROUP_STOPPING;
	bool asked = h.kind == EVENT_STOP && world->asked;

	times->load_ns = times->ready_ns = 0;
	times->lost = world->news;
	if (world->group.killed) {
		times->term_ns = times->kill_ns = 0;
		if (times->reap_ns == 0)
			times->reap_ns = due(world, BOUND_REAP);
		return;
	}
	if (h.kind == EVENT_BOUND && h.rank == NO_RANK && h.variant == TIMER_TERM)
		times->term_ns = 0;
	if (lost) {
		times->term_ns = world->now_ns + ABORT_TERM_NS;
		earlier(&times->kill_ns, due(world, BOUND_ABORT));
	} else if (begins) {
		bool stops = world->leave || world->asked || world->restart_asked;

		earlier(&times->kill_ns, due(world, stops ? BOUND_STOP : BOUND_ABORT));
	} else if (asked) {
		earlier(&times->kill_ns, due(world, BOUND_STOP));
	}
}

static void
note_backoff(struct times *times, const struct world *world)
{
	const uint64_t most_ns = 60 * NS_PER_SEC;

	if (times->state == GROUP_BACKOFF)
		return;
	times->term_ns = times->kill_ns = times->reap_ns = 0;
	times->backoff_ns = world->now_ns;
	if (world->restart_asked)
		return;
	if (times->window_ns == 0 ||
	    world->now_ns - times->window_ns > world->group.settings.restart_window_ns) {
		times->window_ns = world->now_ns;
		times->backoff = world->group.settings.restart_backoff_ns;
	}
	times->backoff_ns += times->backoff;
	times->backoff = times->backoff * 2 > most_ns ? most_ns : times->backoff * 2;
}

static void
compare(const struct world *world, struct happening happening, uint64_t is_ns, uint64_t due_ns,
	const char *promise)
{
	if (is_ns != due_ns)
		world_failed(world, happening, promise);
}

static void
compare_all(const struct times *times, const struct world *world, struct happening h)
{
	const uint64_t *g = world->group.timer_ns;

	compare(world, h, g[TIMER_LOAD], times->load_ns, "load_timeout is due when it is due");
	compare(world, h, g[TIMER_READY], times->ready_ns, "ready_timeout is due when it is due");
	compare(world, h, g[TIMER_TERM], times->term_ns, "SIGTERM is due 500 ms after ABORT");
	compare(world, h, g[TIMER_KILL], times->kill_ns, "SIGKILL is due when it is due");
	compare(world, h, g[TIMER_REAP], times->reap_ns, "reap_timeout is due when it is due");
	compare(world, h, g[TIMER_BACKOFF], times->backoff_ns, "the backoff doubles to 1m");
	for (int i = 0; i < world->options->ranks; i++) {
		const uint64_t *r = world->group.ranks[i].timer_ns;
		const struct rank_times *t = &times->ranks[i];

		compare(world, h, r[RANK_TIMER_STALL], t->stall_ns, "stall_timeout is due");
		compare(world, h, r[RANK_TIMER_SILENCE], t->silence_ns, "silence is warned of");
		compare(world, h, r[RANK_TIMER_PHASE], t->phase_ns, "the phase's bound is due");
		compare(world, h, r[RANK_TIMER_WATCHDOG], t->watchdog_ns, "watchdog is due");
		compare(world, h, r[RANK_TIMER_JUDGE], t->judge_ns, "an end is judged in time");
	}
}

void
times_step(struct times *times, const struct world *world, struct happening h)
{
	const struct group *g = &world->group;

	if (g->epoch != times->epoch) {
		uint64_t backoff = times->backoff, window_ns = times->window_ns;

		memset(times, 0, sizeof(*times));
		times->epoch = g->epoch;
		times->backoff = backoff;
		times->window_ns = window_ns;
	}
	if (group_is_running(g))
		note_running(times, world, h);
	else if (g->state == GROUP_STOPPING)
		note_end(times, world, h);
	else if (g->state == GROUP_BACKOFF)
		note_backoff(times, world);
	else
		times->term_ns = times->kill_ns = times->reap_ns = times->backoff_ns = 0;
	note_ends(times, world);
	times->state = g->state;
	for (int i = 0; i < world->options->ranks; i++)
		times->ranks[i].unhealthy = g->ranks[i].unhealthy;
	compare_all(times, world, h);
}

/* The promises that hold after every step. */
#include "tests/model/world.h"

#include <signal.h>
#include <string.h>

/* --- actions --- */

static bool
can_be_told(const struct process *p)
{
	return p->hello && p->link_open && !p->dead;
}

static void
check_fork(struct world *world, const struct before *before, struct happening happening, int rank)
{
	REQUIRE(world->group.epoch == before->epoch + 1);
	REQUIRE(!world->asked);
	REQUIRE(before->epoch == 0 || before->state == GROUP_BACKOFF);
	REQUIRE(!world->p[rank].forked && !world->p[rank].fork_wanted);
	world->p[rank].fork_wanted = true;
}

static void
check_go(struct world *world, struct happening happening, int rank)
{
	REQUIRE(can_be_told(&world->p[rank]));
	REQUIRE(world->group.loss.reason == REASON_NONE && !world->leave && !world->asked);
	for (int i = 0; i < world->options->ranks; i++)
		REQUIRE(world->p[i].ready || world->options->no_gate);
	REQUIRE(world->p[rank].gos++ == 0);
}

static void
check_abort(struct world *world, struct happening happening, int rank)
{
	struct process *p = &world->p[rank];

	REQUIRE(world->group.loss.reason != REASON_NONE);
	REQUIRE(can_be_told(p));
	REQUIRE(p->sent == 0); /* a signal would have outrun it */
	REQUIRE(p->stops == 0);
	REQUIRE(p->aborts++ == 0);
}

static void
check_stop(struct world *world, struct happening happening, int rank)
{
	struct process *p = &world->p[rank];

	REQUIRE(world->leave || world->asked || world->restart_asked);
	REQUIRE(can_be_told(p));
	REQUIRE(p->aborts == 0 && !p->killed);
	REQUIRE(p->stops++ == 0);
}

static void
check_kill(struct world *world, struct happening happening, int rank, int signal)
{
	struct process *p = &world->p[rank];
	int sent = signal == STOP_SIGNAL ? SIGTERM : signal;

	REQUIRE(p->forked);
	if (signal == WORLD_DUMP_SIGNAL) {
		REQUIRE(world->dumped && happening.kind == EVENT_BOUND && !p->reaped);
		return;
	}
	REQUIRE(!group_is_running(&world->group));
	REQUIRE(sent == SIGTERM || sent == SIGKILL);
	REQUIRE(!p->killed || sent == SIGKILL);
	if (sent == SIGKILL)
		p->killed = true;
	if (!p->dead)
		p->sent |= UINT64_C(1) << sent;
}

static void
check_sweep(struct world *world, struct happening happening, int signal)
{
	REQUIRE(!group_is_running(&world->group));
	REQUIRE(signal == SIGTERM || signal == SIGKILL);
	REQUIRE(!world->swept_hard || signal == SIGKILL);
	REQUIRE(signal == SIGKILL || !world_holds_ranks(world));
	world->swept = true;
	world->swept_hard = signal == SIGKILL;
}

/* In peace, and not because it was asked to. */
static bool
ended_by_itself(const struct process *p)
{
	if (!p->reaped || p->end != END_EXIT_0 || p->sent != 0 || p->aborts != 0)
		return false;
	return p->stops == 0 || p->stopping;
}

static void
check_exit(struct world *world, struct happening happening)
{
	const struct group *g = &world->group;
	int status = reason_exit_status(g->loss.reason);
	bool unfinished = false;

	for (int i = 0; i < world->options->ranks; i++)
		unfinished = unfinished || !ended_by_itself(&world->p[i]);
	if (g->loss.reason == REASON_NONE && world->options->job && unfinished && world->asked &&
	    world->asked_by != STOP_BY_VERB)
		status = world->asked_by == STOP_BY_INT ? EXIT_JOB_SIGINT : EXIT_JOB_SIGTERM;
	REQUIRE(!world->over);
	REQUIRE(world->epoch_over);
	REQUIRE(g->exit_status == status);
	REQUIRE(g->state == (g->loss.reason == REASON_NONE ? GROUP_STOPPED : GROUP_FAILED));
	world->over = true;
}

static void
check_epoch_over(struct world *world, struct happening happening)
{
	bool given_up = happening.kind == EVENT_BOUND && happening.variant == TIMER_REAP;

	REQUIRE(!world->epoch_over);
	REQUIRE(given_up || !world_holds_ranks(world));
	REQUIRE(given_up || happening.kind == EVENT_TREE_EMPTY);
	world->epoch_over = true;
}

static void
check_action(struct world *world, const struct before *before, struct happening happening,
	     const struct action *action)
{
	int rank = action->rank;

	switch (action->kind) {
	case ACTION_FORK:
		check_fork(world, before, happening, rank);
		break;
	case ACTION_SEND_WELCOME:
		REQUIRE(happening.kind == EVENT_HELLO && happening.rank == rank);
		break;
	case ACTION_SEND_GROUP_ID:
		REQUIRE(world->group_id && rank != 0 && can_be_told(&world->p[rank]));
		break;
	case ACTION_KEEP_GROUP_ID:
		REQUIRE(happening.kind == EVENT_GROUP_ID && happening.rank == 0);
		break;
	case ACTION_SEND_GO:
		check_go(world, happening, rank);
		break;
	case ACTION_SEND_ABORT:
		check_abort(world, happening, rank);
		break;
	case ACTION_SEND_STOP:
		check_stop(world, happening, rank);
		break;
	case ACTION_KILL:
		check_kill(world, happening, rank, action->number);
		break;
	case ACTION_SWEEP:
		check_sweep(world, happening, action->number);
		break;
	case ACTION_NEWS:
		REQUIRE(before->reason == REASON_NONE && !world->news);
		world->news = true;
		break;
	case ACTION_EPOCH_OVER:
		check_epoch_over(world, happening);
		break;
	case ACTION_EXIT:
		check_exit(world, happening);
		break;
	case ACTION_EVIDENCE:
		REQUIRE(before->reason == REASON_NONE && happening.kind == EVENT_BOUND);
		break;
	case ACTION_WARN:
	case ACTION_WARN_LATE:
	case ACTION_COUNT:
		break;
	}
}

/* --- steps --- */

/* An epoch begins with nothing known. */
static void
begin_epoch(struct world *world)
{
	memset(world->p, 0, sizeof(world->p));
	world->spoken = world->group_id = world->news = false;
	world->leave = world->restart_asked = world->dumped = false;
	world->swept = world->swept_hard = world->epoch_over = false;
	world->go = world->options->no_gate;
}

static void
check_loss(struct world *world, const struct before *before, struct happening happening,
	   struct loss_seen expected)
{
	const struct loss *loss = &world->group.loss;

	if (before->reason != REASON_NONE) {
		REQUIRE(loss->reason == before->reason && loss->rank == before->lost);
		REQUIRE(loss->bound == before->bound && loss->at_ns == before->at_ns);
		REQUIRE(loss->by_end ||
			memcmp(loss->cause, before->cause, sizeof(before->cause)) == 0);
		return;
	}
	REQUIRE(loss->reason == expected.reason);
	REQUIRE(loss->reason == REASON_NONE || expected.rank == ANY_RANK ||
		loss->rank == expected.rank);
	REQUIRE((loss->reason != REASON_NONE) == world->news);
}

/*
 * ABORT to every live rank that said HELLO, SIGTERM at once to every other; but whose closed link
 * is the loss said HELLO and cannot be told: its SIGTERM comes with that of the told.
 */
static void
check_everybody_knows(struct world *world, struct happening happening)
{
	for (int i = 0; i < world->options->ranks; i++) {
		const struct process *p = &world->p[i];

		if (!p->forked || p->dead)
			continue;
		if (can_be_told(p))
			REQUIRE(p->aborts == 1 && p->sent == 0);
		else if (world->group.loss.by_close && world->group.loss.rank == i)
			REQUIRE(p->aborts == 0 && p->sent == 0);
		else
			REQUIRE(p->aborts == 0 && p->sent == UINT64_C(1) << SIGTERM);
	}
}

/* go comes with the last READY, to every rank that said HELLO, and to nobody if one is dead. */
static void
check_gate(struct world *world, struct happening happening)
{
	bool ready = true;

	for (int i = 0; i < world->options->ranks; i++)
		ready = ready && world->p[i].ready && !world->p[i].dead;
	if (group_is_running(&world->group) && !world->options->no_gate)
		REQUIRE(world->group.go == (world->go || ready));
	world->go = world->group.go;
	for (int i = 0; i < world->options->ranks && group_is_running(&world->group); i++)
		if (world->go && can_be_told(&world->p[i]))
			REQUIRE(world->p[i].gos == 1);
}

/* An end only gets harder. */
static void
check_harder(struct world *world, const struct before *before, struct happening happening)
{
	static const enum timer hardening[] = {TIMER_KILL, TIMER_REAP};
	const struct group *g = &world->group;

	if (before->state != GROUP_STOPPING || g->state != GROUP_STOPPING)
		return;
	REQUIRE(g->killed || !before->killed);
	for (size_t i = 0; i < sizeof(hardening) / sizeof(hardening[0]); i++) {
		uint64_t was = before->timer_ns[hardening[i]], is = g->timer_ns[hardening[i]];

		REQUIRE(was == 0 || is <= was);
		REQUIRE(was == 0 || is != 0 || g->killed);
	}
}

/* SIGKILL comes by its bound, by a second signal, or when the guard has died. */
static void
check_hurry(const struct world *world, const struct before *before, struct happening happening)
{
	bool by_bound = happening.kind == EVENT_BOUND && happening.rank == NO_RANK &&
			happening.variant == TIMER_KILL;

	if (world->group.state == GROUP_STOPPING)
		REQUIRE(world->group.killed == (before->killed || by_bound || world->hurried ||
						happening.kind == EVENT_ABANDONED));
}

/* A running group ends by a loss, by a wish, or as a job that is done. */
static void
check_end_has_a_cause(const struct world *world, const struct before *before,
		      struct happening happening)
{
	bool done = world->options->job;

	if (!world_running(before) || group_is_running(&world->group))
		return;
	for (int i = 0; i < world->options->ranks; i++)
		done = done && world->p[i].reaped && world->p[i].end == END_EXIT_0;
	REQUIRE(done || world->group.loss.reason != REASON_NONE || world->leave || world->asked ||
		world->restart_asked);
}

/* A restart is an operator's wish, or follows some losses; never a deliberate stop. */
static void
check_restart(const struct world *world, const struct before *before, struct happening happening)
{
	enum reason reason = world->group.loss.reason;

	if (world->group.state != GROUP_BACKOFF || before->state == GROUP_BACKOFF)
		return;
	REQUIRE(!world->asked);
	REQUIRE(world->restart_asked || (world->options->restarts > 0 && !world->leave));
	REQUIRE(world->restart_asked || reason != REASON_NONE);
	REQUIRE(world->restart_asked ||
		(reason != REASON_RANK_MISMATCH && reason != REASON_SPAWN_FAILED));
	REQUIRE(world->group.window_restarts <= world->options->restarts);
}

void
world_check(struct world *world, const struct before *before, struct happening happening,
	    struct loss_seen expected)
{
	const struct actions *actions = &world->actions;

	REQUIRE(actions->n <= actions->cap);
	if (world->over)
		REQUIRE(actions->n == 0 && world->group.state == before->state);
	if (comes_too_late(world, before, happening))
		REQUIRE(actions->n == 0);
	if (world->group.epoch != before->epoch)
		begin_epoch(world);
	for (size_t i = 0; i < actions->n; i++)
		check_action(world, before, happening, &actions->v[i]);
	if (world->group.epoch == before->epoch && before->state < GROUP_BACKOFF)
		check_loss(world, before, happening, expected);
	if (world_running(before) && world->group.loss.reason != REASON_NONE)
		check_everybody_knows(world, happening);
	check_gate(world, happening);
	check_harder(world, before, happening);
	check_restart(world, before, happening);
	check_hurry(world, before, happening);
	check_end_has_a_cause(world, before, happening);
}

/* --- states --- */

static void
check_rank(const struct world *world, struct happening happening, int n)
{
	const struct rank *rank = &world->group.ranks[n];
	const struct process *p = &world->p[n];
	bool running = group_is_running(&world->group) && !p->dead;

	REQUIRE(rank->forked == p->forked && rank->reaped == p->reaped && rank->died == p->dead);
	REQUIRE(rank->said_hello == p->hello);
	REQUIRE(rank->pending == p->waiting);
	REQUIRE((rank->timer_ns[RANK_TIMER_JUDGE] != 0) == (p->waiting || (running && p->closing)));
	for (int i = 0; i < RANK_TIMER_JUDGE; i++)
		REQUIRE(running || rank->timer_ns[i] == 0);
	REQUIRE(!running ||
		(rank->state < RANK_STOPPING &&
		 rank->was_ready == (p->ready || (world->options->no_gate && p->forked))));
	if (running && (rank->state == RANK_COLLECTIVE || rank->state == RANK_WARMING))
		REQUIRE(rank->timer_ns[RANK_TIMER_PHASE] != 0);
	if (running && rank->state == RANK_SERVING)
		REQUIRE(rank->timer_ns[RANK_TIMER_WATCHDOG] != 0);
}

static void
check_counters(const struct world *world, struct happening happening)
{
	const struct group *g = &world->group;
	int ready = 0, hello = 0;

	for (int i = 0; i < g->settings.world_size; i++) {
		ready += g->ranks[i].was_ready;
		hello += g->ranks[i].said_hello;
	}
	REQUIRE(g->hello_count == hello);
	REQUIRE(world->options->no_gate || g->ready_count == ready);
	REQUIRE(!g->go || world->options->no_gate || g->ready_count == g->settings.world_size);
}

static bool
some_rank_waits(const struct world *world)
{
	for (int i = 0; i < world->options->ranks; i++)
		if (world->p[i].waiting)
			return true;
	return false;
}

static void
check_running(const struct world *world, struct happening happening)
{
	const struct group *g = &world->group;
	const struct world_options *o = world->options;
	bool gated = !o->job || !o->ready_auto || world->spoken;

	REQUIRE(g->loss.reason == REASON_NONE && !g->killed && !world->asked);
	REQUIRE(g->timer_ns[TIMER_TERM] == 0 && g->timer_ns[TIMER_KILL] == 0);
	REQUIRE(g->timer_ns[TIMER_REAP] == 0 && g->timer_ns[TIMER_BACKOFF] == 0);
	if (g->go)
		REQUIRE(g->timer_ns[TIMER_LOAD] == 0 && g->timer_ns[TIMER_READY] == 0);
	else if (gated && !some_rank_waits(world))
		REQUIRE(g->timer_ns[TIMER_LOAD] != 0);
	if (!g->go && g->ready_count > 0 && !some_rank_waits(world))
		REQUIRE(g->timer_ns[TIMER_READY] != 0);
	check_counters(world, happening);
}

static void
check_stopping(const struct world *world, struct happening happening)
{
	const struct group *g = &world->group;

	REQUIRE(g->killed || g->timer_ns[TIMER_KILL] != 0);
	REQUIRE(!g->killed || g->timer_ns[TIMER_REAP] != 0);
	REQUIRE(world->swept || world_holds_ranks(world) || some_rank_waits(world));
	REQUIRE(!g->killed || world->swept_hard);
	for (int i = 0; i < world->options->ranks && g->killed; i++)
		REQUIRE(world->p[i].killed || world->p[i].reaped || !world->p[i].forked);
}

static void
check_no_timers(const struct world *world, struct happening happening, int but)
{
	const struct group *g = &world->group;

	for (int i = 0; i < GROUP_TIMER_COUNT; i++)
		REQUIRE((g->timer_ns[i] != 0) == (i == but));
}

void
world_check_state(const struct world *world, struct happening happening)
{
	const struct group *g = &world->group;

	for (int i = 0; i < world->options->ranks; i++)
		check_rank(world, happening, i);
	if (group_is_running(g))
		check_running(world, happening);
	else if (g->state == GROUP_STOPPING)
		check_stopping(world, happening);
	else
		check_no_timers(world, happening,
				g->state == GROUP_BACKOFF ? (int)TIMER_BACKOFF
							  : (int)GROUP_TIMER_COUNT);
}

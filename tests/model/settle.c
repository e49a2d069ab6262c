/*
 * What does not matter for how a world goes on, or no longer does, is forgotten, so that worlds
 * that differ in nothing else are one state.
 */
#include "tests/model/record.h"

#include <string.h>

/* Only texts are made of these. */
static void
forget_texts(struct rank *rank)
{
	rank->pid = 0;
	rank->victim = rank->began = false;
	rank->note = NULL;
	rank->phase = RANK_STARTING;
}

/* A rank that has ended, or is in a group that ends, is heard no more. */
static void
forget_words(struct rank *rank, struct process *p)
{
	rank->kind = KIND_SILENT;
	rank->link_ready = rank->unhealthy = rank->suspended = false;
	rank->then_collective = rank->then_serving = false;
	rank->phase_bound = BOUND_LOAD;
	p->link_ready = p->announced = false;
	p->voice = p->digest = 0;
}

/* Who knows that it is to leave is told nothing more by its link. */
static void
forget_link(struct rank *rank, struct process *p)
{
	rank->said_hello = rank->link_closed = p->hello = false;
	p->link_open = p->forked && !p->reaped;
}

static void
settle_running(const struct world *world, struct rank *rank, struct process *p)
{
	if (rank->died)
		forget_words(rank, p);
	if (rank->state >= RANK_READY || !world->options->notify) {
		rank->kind = KIND_SILENT;
		p->voice = 0;
	}
	if (rank->state == RANK_SERVING)
		rank->then_serving = false;
	/* A warning that was given may be given again: it changes nothing. */
	rank->timer_ns[RANK_TIMER_SILENCE] = rank->timer_ns[RANK_TIMER_STALL];
}

/* In a loss it is of no weight how the others end, in an asked stop whether in peace. */
static void
settle_ending(const struct world *world, struct rank *rank, struct process *p)
{
	bool job = world->options->job && world->group.loss.reason == REASON_NONE;
	bool peace = !job || (p->end == END_EXIT_0 && p->sent == 0 && p->aborts == 0 &&
			      (p->stops == 0 || p->stopping));

	rank->sent_signals = rank->sent_signals > 1 ? 2 : rank->sent_signals;
	p->sent = p->sent != 0 ? 1 : 0;
	if (!job)
		rank->said_stopping = p->stopping = false;
	if (!rank->died || p->end == END_UNKNOWN)
		return;
	rank->ending = (struct ending){ENDING_EXITED, peace ? 0 : 3};
	p->end = peace ? END_EXIT_0 : END_EXIT_3;
	if (!rank->reaped)
		return;
	rank->told = rank->said_stopping = p->stopping = p->killed = false;
	rank->sent_signals = p->sent = 0;
	p->aborts = p->stops = 0;
}

static void
settle_ended(const struct world *world, struct rank *rank, struct process *p)
{
	bool asked = world->group.loss.reason != REASON_NONE || world->asked;

	forget_words(rank, p);
	rank->was_ready = p->ready = false;
	p->gos = 0;
	if (rank->died || rank->told || rank->sent_signals != 0)
		forget_link(rank, p);
	if (asked || world->restart_asked)
		settle_ending(world, rank, p);
}

static void
settle_group(struct group *g, const struct world *world)
{
	static const enum timer warnings[][2] = {
	    {TIMER_LOAD_HALF, TIMER_LOAD},
	    {TIMER_LOAD_LATE, TIMER_LOAD},
	    {TIMER_READY_HALF, TIMER_READY},
	    {TIMER_READY_LATE, TIMER_READY},
	};

	g->epoch = 1;
	g->go_total = g->restarts_total = 0;
	g->started_ns = g->first_ready_ns = g->go_ns = g->state_ns = 0;
	g->loss.pid = 0;
	g->loss.note = NULL;
	g->loss.rank = g->loss.reason == REASON_NONE ? NO_RANK : 0;
	g->loss.phase = RANK_STARTING;
	g->loss.bound = BOUND_LOAD;
	g->loss.by_end = false;
	g->loss.ending = (struct ending){ENDING_UNKNOWN, 0};
	g->loss.error_number = 0;
	g->hurried = false;
	if (g->stop_ns != 0)
		g->stop_ns = world->now_ns;
	g->dumped_ns = 0;
	for (size_t i = 0; i < sizeof(warnings) / sizeof(warnings[0]); i++)
		g->timer_ns[warnings[i][0]] = g->timer_ns[warnings[i][1]];
}

void
world_settle(struct world *world)
{
	struct group *g = &world->group;

	for (int i = 0; i < world->options->ranks; i++) {
		forget_texts(&g->ranks[i]);
		if (group_is_running(g))
			settle_running(world, &g->ranks[i], &world->p[i]);
		else
			settle_ended(world, &g->ranks[i], &world->p[i]);
	}
	settle_group(g, world);
	/* Nothing hurries more than SIGKILL. */
	if (g->killed && world->asked) {
		g->stop_ns = world->now_ns;
		world->signalled = true;
	}
	if (!world->options->job)
		g->stop_signal = world->asked_by = 0;
	if (group_is_running(g))
		return;
	g->ready_count = g->hello_count = 0;
	g->spoken = g->go = g->group_id_kept = g->dumped = false;
	world->spoken = world->go = world->group_id = world->dumped = false;
}

#include "common/log.h"
#include "tests/model/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The step that is being taken, for fatalx(). */
static const struct world *at_hand;
static struct happening at_hand_by;

static const int dump_signals[WORLD_RANKS_MAX] = {
    WORLD_DUMP_SIGNAL, WORLD_DUMP_SIGNAL, WORLD_DUMP_SIGNAL, WORLD_DUMP_SIGNAL,
    WORLD_DUMP_SIGNAL, WORLD_DUMP_SIGNAL, WORLD_DUMP_SIGNAL, WORLD_DUMP_SIGNAL,
};

/* Stands in for the one of common/log.c: the machine met what it holds to be impossible. */
void
fatalx(int status, const char *fmt, ...)
{
	char text[128];
	va_list ap;

	(void)status;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	world_failed(at_hand, at_hand_by, text);
}

int
world_init(struct world *world, const struct world_options *options)
{
	struct group_settings settings = {
	    .world_size = options->ranks,
	    .job = options->job,
	    .ready_auto = options->ready_auto,
	    .no_gate = options->no_gate,
	    .restart = options->restarts > 0,
	    .restart_max = options->restarts,
	    .restart_window_ns = 3600 * NS_PER_SEC,
	    .restart_backoff_ns = NS_PER_SEC,
	    .stop_in_order = options->in_order,
	    .stop_reverse = options->reverse,
	};

	for (int i = 0; i < BOUND_COUNT; i++)
		settings.timeout_ns[i] = bound_default_ns((enum bound)i);
	settings.timeout_ns[BOUND_STALL] = 60 * NS_PER_SEC;
	settings.timeout_ns[BOUND_WATCHDOG] = 20 * NS_PER_SEC;
	if (options->dump)
		settings.dump_signals = dump_signals;
	memset(world, 0, sizeof(*world));
	world->options = options;
	world->now_ns = WORLD_BEGIN_NS;
	if (group_init(&world->group, &settings) != 0 ||
	    actions_init(&world->actions, options->ranks) != 0)
		return -1;
	world_step(world, (struct happening){EVENT_START, NO_RANK, 0});
	return 0;
}

void
world_free(struct world *world)
{
	group_free(&world->group);
	actions_free(&world->actions);
}

/* --- what may happen --- */

struct list {
	struct happening *v;
	int n;
};

static void
add(struct list *list, enum event_kind kind, int rank, int variant)
{
	list->v[list->n++] = (struct happening){(uint8_t)kind, (int8_t)rank, (uint8_t)variant};
}

static void
add_variants(struct list *list, enum event_kind kind, int rank, unsigned set)
{
	for (int i = 0; set >> i != 0; i++)
		if ((set >> i & 1) != 0)
			add(list, kind, rank, i);
}

static void
add_link_words(struct list *list, const struct world *world, int rank)
{
	static const enum event_kind plain[] = {
	    EVENT_STATUS, EVENT_PROGRESS, EVENT_GROUP_ID, EVENT_SERVING,   EVENT_WATCHDOG,
	    EVENT_EXTEND, EVENT_FAILED,   EVENT_STOPPING, EVENT_MALFORMED,
	};

	add_variants(list, EVENT_HELLO, rank,
		     !world->options->mismatch ? 1U << HELLO_A
		     : rank == 0               ? 1U << HELLO_A | 1U << HELLO_OLD
					       : 1U << HELLO_A | 1U << HELLO_B);
	add_variants(list, EVENT_READY, rank, world->options->then);
	add_variants(list, EVENT_COLLECTIVE, rank, 3);
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		add(list, plain[i], rank, 0);
}

static void
add_notify_words(struct list *list, int rank)
{
	add(list, EVENT_NOTIFY_READY, rank, 0);
	add(list, EVENT_STATUS, rank, 1);
	add(list, EVENT_WATCHDOG, rank, 1);
	add(list, EVENT_EXTEND, rank, 1);
	add(list, EVENT_STOPPING, rank, 1);
}

/* What a dead process told last may still arrive; its sockets may be held by its children. */
static void
add_words(struct list *list, const struct world *world, int rank)
{
	const struct process *p = &world->p[rank];

	if (world->options->link && p->link_open)
		add_link_words(list, world, rank);
	if (world->options->notify)
		add_notify_words(list, rank);
	if (world->options->probe)
		add(list, EVENT_PROBE_READY, rank, 0);
	add(list, EVENT_HEARD, rank, 0);
	if (world->options->notify)
		add(list, EVENT_OBSERVED, rank, 0);
	if (world->options->suspend) {
		add(list, EVENT_SUSPENDED, rank, 0);
		add(list, EVENT_RESUMED, rank, 0);
	}
	if (p->link_open && world->options->link)
		add(list, EVENT_CLOSED, rank, 0);
}

static void
add_end(struct list *list, const struct world *world, int rank)
{
	const struct process *p = &world->p[rank];
	unsigned endings = world->options->endings, known = endings & ~(1U << END_UNKNOWN);

	if (!p->dead) {
		add_variants(list, EVENT_DIED, rank, endings);
		add_variants(list, EVENT_REAPED, rank, known);
	} else if (p->end == END_UNKNOWN) {
		add_variants(list, EVENT_REAPED, rank, known);
	} else {
		add(list, EVENT_REAPED, rank, p->end);
	}
}

static void
add_rank(struct list *list, const struct world *world, int rank)
{
	const struct process *p = &world->p[rank];

	if (p->fork_wanted && !world->over) {
		add(list, EVENT_SPAWNED, rank, 0);
		add(list, EVENT_SPAWN_FAILED, rank, 0);
	}
	if (!p->forked)
		return;
	add_words(list, world, rank);
	if (!p->reaped)
		add_end(list, world, rank);
	for (int i = 0; i < RANK_TIMER_COUNT; i++)
		if (world->group.ranks[rank].timer_ns[i] != 0)
			add(list, EVENT_BOUND, rank, i);
}

bool
world_holds_ranks(const struct world *world)
{
	for (int i = 0; i < world->options->ranks; i++)
		if (world->p[i].forked && !world->p[i].reaped)
			return true;
	return false;
}

int
world_possible(const struct world *world, struct happening *out)
{
	struct list list = {out, 0};

	for (int i = 0; i < world->options->ranks; i++)
		add_rank(&list, world, i);
	for (int i = 0; i < GROUP_TIMER_COUNT; i++)
		if (world->group.timer_ns[i] != 0)
			add(&list, EVENT_BOUND, NO_RANK, i);
	add_variants(&list, EVENT_STOP, NO_RANK, (1U << STOP_KIND_COUNT) - 1);
	add(&list, EVENT_RESTART, NO_RANK, 0);
	add(&list, EVENT_ABANDONED, NO_RANK, 0);
	if (world->swept && !world_holds_ranks(world))
		add(&list, EVENT_TREE_EMPTY, NO_RANK, 0);
	return list.n;
}

/* --- a step --- */

static struct before
look(const struct world *world, struct happening h)
{
	const struct group *g = &world->group;
	struct before before = {.state = g->state,
				.epoch = g->epoch,
				.killed = g->killed,
				.reason = g->loss.reason,
				.lost = g->loss.rank,
				.bound = g->loss.bound,
				.at_ns = g->loss.at_ns};

	memcpy(before.cause, g->loss.cause, sizeof(before.cause));
	memcpy(before.timer_ns, g->timer_ns, sizeof(before.timer_ns));
	if (h.rank >= 0)
		before.unhealthy = g->ranks[h.rank].unhealthy;
	return before;
}

/*
 * While the clock stands still a deadline that passes is moved to now, and an earlier stop, that it
 * be no repeat, back from it.
 */
static void
prepare(struct world *world, struct happening h)
{
	struct group *g = &world->group;

	if (!world->frozen)
		return;
	if (h.kind == EVENT_STOP && h.variant == STOP_HURRY && g->stop_ns != 0)
		g->stop_ns = world->now_ns - REPEAT_NS;
	if (h.kind != EVENT_BOUND)
		return;
	if (h.rank == NO_RANK)
		g->timer_ns[h.variant] = world->now_ns;
	else
		g->ranks[h.rank].timer_ns[h.variant] = world->now_ns;
	if (g->dumped)
		g->dumped_ns = world->now_ns - DUMP_LEAD_NS;
}

void
world_step(struct world *world, struct happening h)
{
	struct group_event event = world_event(h);
	struct before before = look(world, h);
	struct loss_seen expected = world_expected_loss(world, &before, h);

	at_hand = world;
	at_hand_by = h;
	world_note(world, &before, h, expected);
	prepare(world, h);
	group_step(&world->group, &event, world->now_ns, &world->actions);
	world_check(world, &before, h, expected);
	world_check_state(world, h);
}

/*
 * Groups of eight ranks that live through what chance brings, with the time running: the promises
 * of check.c and times.c after every step. A seed that fails is replayed by its number.
 *
 *	simulate [--seeds N] [--first N]
 *	simulate --seed N --trace
 */
#include "tests/model/times.h"
#include "tests/model/world.h"

#include <err.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX     400
#define END_STEPS_MAX 200 /* from a stop to the end */
#define ODD_PERMILLE  10  /* of what happens, anything possible at all */
#define ASK_PERMILLE  2   /* an operator asks for something, or the guard dies */

#define COMMON                                                                                     \
	.ranks = WORLD_RANKS_MAX, .mismatch = true, .suspend = true,                               \
	.then = (1U << THEN_COUNT) - 1, .endings = (1U << END_COUNT) - 1

static const struct world_options kinds[] = {
    {COMMON, .name = "service, link", .ready_auto = true, .link = true},
    {COMMON, .name = "service, link and notify, restart", .ready_auto = true, .link = true,
     .notify = true, .restarts = 8},
    {COMMON, .name = "service, probe, stop in order", .link = true, .probe = true, .in_order = true,
     .restarts = 8},
    {COMMON, .name = "job, link", .job = true, .link = true, .restarts = 8},
    {COMMON, .name = "job, auto, stop in reverse", .job = true, .ready_auto = true, .link = true,
     .notify = true, .in_order = true, .reverse = true},
    {COMMON, .name = "job, ready = none", .job = true, .no_gate = true, .link = true},
    {COMMON, .name = "service, link, dump_signal", .ready_auto = true, .link = true, .dump = true},
    {COMMON, .name = "service, notify", .ready_auto = true, .notify = true, .restarts = 8},
};

static struct {
	struct world world;
	struct times times;
	uint64_t seed, random;
	bool trace;
	uint64_t steps, goes, losses[REASON_COUNT];
} simulation;

static uint64_t
random_below(uint64_t n)
{
	uint64_t z = simulation.random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % n;
}

void
world_failed(const struct world *world, struct happening last, const char *promise)
{
	char text[64];

	happening_to_string(last, text, sizeof(text));
	fprintf(stderr,
		"seed %" PRIu64 " (%s), after %s: broken: %s\n"
		"replay: simulate --seed %" PRIu64 " --trace\n",
		simulation.seed, world->options->name, text, promise, simulation.seed);
	exit(1);
}

static void
print_happening(struct happening h)
{
	char text[64];

	happening_to_string(h, text, sizeof(text));
	printf("%14.6f %-28s", (double)(simulation.world.now_ns - WORLD_BEGIN_NS) / NS_PER_SEC,
	       text);
	fflush(stdout);
}

static void
print_outcome(void)
{
	const struct world *world = &simulation.world;

	printf(" %-11s", group_state_word(world->group.state));
	for (size_t i = 0; i < world->actions.n; i++) {
		const struct action *action = &world->actions.v[i];

		printf(" %s", action_word(action->kind));
		if (action->rank != NO_RANK)
			printf(":%d", action->rank);
	}
	printf("\n");
}

/* The group as it was, to see that what comes too late changes nothing. */
static struct {
	struct group group;
	struct rank ranks[WORLD_RANKS_MAX];
} then;

/* The memory itself: what comes too late writes nowhere. */
static bool
same_bytes(const void *a, const void *b, size_t size)
{
	return memcmp(a, b, size) == 0;
}

static void
step_too_late(struct happening h)
{
	struct world *world = &simulation.world;
	size_t size = sizeof(then.ranks);

	then.group = world->group;
	memcpy(then.ranks, world->group.ranks, size);
	world_step(world, h);
	if (!same_bytes(&then.group, &world->group, sizeof(then.group)) ||
	    !same_bytes(then.ranks, world->group.ranks, size))
		world_failed(world, h, "what comes too late changes nothing");
}

static uint64_t
due_ns(struct happening h)
{
	const struct group *g = &simulation.world.group;

	return h.rank == NO_RANK ? g->timer_ns[h.variant] : g->ranks[h.rank].timer_ns[h.variant];
}

/* Of all timers, 0 if none is set. */
static uint64_t
earliest_ns(void)
{
	const struct group *g = &simulation.world.group;
	uint64_t first_ns = UINT64_MAX;

	for (int i = 0; i < GROUP_TIMER_COUNT; i++)
		if (g->timer_ns[i] != 0 && g->timer_ns[i] < first_ns)
			first_ns = g->timer_ns[i];
	for (int r = 0; r < g->settings.world_size; r++)
		for (int i = 0; i < RANK_TIMER_COUNT; i++)
			if (g->ranks[r].timer_ns[i] != 0 && g->ranks[r].timer_ns[i] < first_ns)
				first_ns = g->ranks[r].timer_ns[i];
	return first_ns == UINT64_MAX ? 0 : first_ns;
}

static void
step_bound(struct happening h)
{
	struct world *world = &simulation.world;
	uint64_t at_ns = due_ns(h), lead_ns = world->options->dump ? DUMP_LEAD_NS : 0;
	bool lost = world->news;

	if (at_ns == 0 || at_ns > world->now_ns + lead_ns)
		world_failed(world, h, "no bound passes before it is due");
	if (at_ns > earliest_ns() + lead_ns)
		world_failed(world, h, "deadlines pass in their order");
	world_step(world, h);
	if (world->news && !lost && at_ns > world->now_ns)
		world_failed(world, h, "no bound ends a group before it is due");
}

static void
step(struct happening h)
{
	struct world *world = &simulation.world;
	const struct before before = {.state = world->group.state};
	bool went = world->go;

	if (simulation.trace)
		print_happening(h);
	if (comes_too_late(world, &before, h))
		step_too_late(h);
	else if (h.kind == EVENT_BOUND)
		step_bound(h);
	else
		world_step(world, h);
	if (simulation.trace)
		print_outcome();
	times_step(&simulation.times, world, h);
	simulation.steps++;
	simulation.goes += world->go && !went && !world->options->no_gate;
	if (h.kind == EVENT_TREE_EMPTY)
		simulation.losses[world->group.loss.reason]++;
}

static struct happening
says(enum event_kind kind, int rank, int variant)
{
	return (struct happening){(uint8_t)kind, (int8_t)rank, (uint8_t)variant};
}

/* --- time --- */

/* Everything that is due by now, in the order of the deadlines. */
static void
pass_deadlines(void)
{
	struct world *world = &simulation.world;
	struct group_event event;

	while (group_due(&world->group, world->now_ns, &event))
		step((struct happening){EVENT_BOUND, (int8_t)event.rank, (uint8_t)event.timer});
}

/* Until at_ns at most: deadlines on the way are met when they are due, or by a late loop. */
static void
wait_until(uint64_t at_ns)
{
	struct world *world = &simulation.world;
	uint64_t next_ns = group_next_deadline(&world->group);
	bool late = random_below(8) == 0;

	if ((next_ns == 0) != (earliest_ns() == 0) || next_ns > earliest_ns())
		world_failed(world, says(EVENT_BOUND, NO_RANK, 0), "the next deadline is told");
	world->now_ns = next_ns != 0 && next_ns <= at_ns && !late ? next_ns : at_ns;
	pass_deadlines();
}

static uint64_t
random_wait_ns(void)
{
	static const uint64_t spans_ns[] = {
	    NS_PER_USEC, NS_PER_MSEC, 10 * NS_PER_MSEC, 100 * NS_PER_MSEC,
	    NS_PER_SEC,  NS_PER_SEC,  10 * NS_PER_SEC,  10 * NS_PER_SEC,
	};

	if (random_below(100) == 0)
		return random_below(700 * NS_PER_SEC);
	return random_below(spans_ns[random_below(sizeof(spans_ns) / sizeof(spans_ns[0]))]);
}

/* --- what a rank would do --- */

static struct happening
next_before_go(int rank)
{
	const struct world *world = &simulation.world;
	const struct process *p = &world->p[rank];
	bool by_link =
	    world->options->link && p->link_open && !(world->options->notify && rank % 2);

	if (p->ready)
		return says(EVENT_HEARD, rank, 0);
	if (world->options->probe && random_below(4) == 0)
		return says(EVENT_PROBE_READY, rank, 0);
	if (!by_link)
		return random_below(3) != 0 || !world->options->notify
			   ? says(EVENT_HEARD, rank, 0)
			   : says(EVENT_NOTIFY_READY, rank, 0);
	if (!p->hello)
		return says(EVENT_HELLO, rank, HELLO_A);
	if (rank == 0 && !world->group_id && random_below(2) == 0)
		return says(EVENT_GROUP_ID, rank, 0);
	if (random_below(2) == 0)
		return says(EVENT_PROGRESS, rank, 0);
	return says(EVENT_READY, rank, (int)random_below(THEN_COUNT));
}

static struct happening
next_after_go(int rank)
{
	const struct world *world = &simulation.world;
	bool notify = !world->p[rank].hello;

	switch (world->group.ranks[rank].state) {
	case RANK_COLLECTIVE:
		return says(EVENT_COLLECTIVE, rank, (int)random_below(2));
	case RANK_WARMING:
		return says(EVENT_SERVING, rank, 0);
	case RANK_SERVING:
		if (notify && !world->options->notify)
			return says(EVENT_HEARD, rank, 0);
		return says(EVENT_WATCHDOG, rank, notify);
	default:
		return says(EVENT_HEARD, rank, 0);
	}
}

static struct happening
next_of_the_end(int rank)
{
	const struct process *p = &simulation.world.p[rank];
	bool term = (p->sent >> SIGTERM & 1) != 0;
	int end = p->killed ? END_SIGKILL : term ? END_SIGTERM : END_EXIT_0;

	if (p->dead && p->end != END_UNKNOWN)
		return says(EVENT_REAPED, rank, p->end);
	if (p->dead)
		return says(EVENT_REAPED, rank, end);
	if (!p->killed && random_below(3) == 0)
		return says(EVENT_HEARD, rank, 0);
	return says(random_below(2) == 0 ? EVENT_DIED : EVENT_REAPED, rank, end);
}

static struct happening
next_of(int rank)
{
	const struct world *world = &simulation.world;
	const struct process *p = &world->p[rank];

	if (!p->forked)
		return says(EVENT_SPAWNED, rank, 0);
	if (p->dead || !group_is_running(&world->group))
		return next_of_the_end(rank);
	return world->go ? next_after_go(rank) : next_before_go(rank);
}

/* --- one life --- */

static bool
is_possible(int rank)
{
	const struct process *p = &simulation.world.p[rank];

	return p->forked ? !p->reaped : p->fork_wanted && group_may_fork(&simulation.world.group);
}

/* Bounds pass by the clock alone. */
static int
possible_now(struct happening *possible)
{
	int n = world_possible(&simulation.world, possible), kept = 0;

	for (int i = 0; i < n; i++)
		if (possible[i].kind != EVENT_BOUND)
			possible[kept++] = possible[i];
	return kept;
}

static struct happening
an_operator_asks(void)
{
	if (random_below(10) == 0)
		return says(EVENT_ABANDONED, NO_RANK, 0);
	if (random_below(3) == 0)
		return says(EVENT_RESTART, NO_RANK, 0);
	return says(EVENT_STOP, NO_RANK, (int)random_below(STOP_KIND_COUNT));
}

/* Something odd, or what some rank would do, or nothing. */
static void
happen(void)
{
	struct happening possible[HAPPENINGS_MAX];
	struct world *world = &simulation.world;
	int rank = (int)random_below(WORLD_RANKS_MAX);

	if (random_below(1000) < ODD_PERMILLE) {
		int n = possible_now(possible);

		if (n > 0)
			step(possible[random_below((uint64_t)n)]);
		return;
	}
	if (random_below(1000) < ASK_PERMILLE) {
		step(an_operator_asks());
		return;
	}
	if (world->group.state == GROUP_STOPPING && world->swept && !world_holds_ranks(world))
		step(says(EVENT_TREE_EMPTY, NO_RANK, 0));
	else if (is_possible(rank))
		step(next_of(rank));
}

static void
live(uint64_t seed)
{
	struct world *world = &simulation.world;
	const struct world_options *options;

	simulation.seed = simulation.random = seed;
	options = &kinds[random_below(sizeof(kinds) / sizeof(kinds[0]))];
	memset(&simulation.times, 0, sizeof(simulation.times));
	if (world_init(world, options) != 0)
		err(1, "%s", options->name);
	times_step(&simulation.times, world, says(EVENT_START, NO_RANK, 0));
	for (int i = 0; i < STEPS_MAX && !world->over; i++) {
		happen();
		if (!world->over && random_below(3) == 0)
			wait_until(world->now_ns + random_wait_ns());
	}
	for (int i = 0; !world->over; i++) {
		if (i == END_STEPS_MAX)
			world_failed(world, says(EVENT_STOP, NO_RANK, 0), "the end is reached");
		if (group_is_running(&world->group) || world->group.state == GROUP_BACKOFF)
			step(says(EVENT_STOP, NO_RANK, STOP_BY_TERM));
		for (int rank = 0; rank < WORLD_RANKS_MAX && !world->over; rank++)
			happen();
		if (!world->over)
			wait_until(world->now_ns + NS_PER_SEC);
	}
	world_free(world);
}

static void
print_totals(uint64_t seeds)
{
	printf("%" PRIu64 " seeds, %" PRIu64 " steps, %" PRIu64 " times go; ended by", seeds,
	       simulation.steps, simulation.goes);
	for (int i = 0; i < REASON_COUNT; i++)
		if (simulation.losses[i] > 0)
			printf(" %s %" PRIu64,
			       i == REASON_NONE ? "request" : reason_word((enum reason)i),
			       simulation.losses[i]);
	printf("\n");
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {{"seeds", required_argument, NULL, 'n'},
						{"first", required_argument, NULL, 'f'},
						{"seed", required_argument, NULL, 's'},
						{"trace", no_argument, NULL, 't'},
						{NULL, 0, NULL, 0}};
	uint64_t seeds = 100000, first = 1;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'n')
			seeds = strtoull(optarg, NULL, 10);
		else if (c == 'f' || c == 's')
			first = strtoull(optarg, NULL, 10);
		else if (c == 't')
			simulation.trace = true;
		else
			errx(2, "usage: simulate [--seeds N] [--first N] | --seed N --trace");
		if (c == 's')
			seeds = 1;
	}
	for (uint64_t seed = first; seed < first + seeds; seed++)
		live(seed);
	print_totals(seeds);
	return 0;
}

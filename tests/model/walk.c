/*
 * The exhaustive walk: every state that a group of two or three ranks can be in, by every event
 * that can come there, with the clock standing still and every deadline free to pass at any time.
 * After each step the promises of check.c must hold, and from every state the end must be near.
 */
#include "tests/model/record.h"

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define END_STEPS_MAX 64 /* from any state to the end, deadlines passing */
#define ALL_THEN      ((1U << THEN_COUNT) - 1)
#define ALL_ENDINGS   ((1U << END_COUNT) - 1)

static const struct world_options walks[] = {
    {.name = "service of 2, any link word",
     .ranks = 2,
     .ready_auto = true,
     .link = true,
     .mismatch = true,
     .then = ALL_THEN,
     .endings = ALL_ENDINGS},
    {.name = "service of 2, link and notify, restart, stop in order",
     .ranks = 2,
     .ready_auto = true,
     .restarts = 1,
     .in_order = true,
     .link = true,
     .notify = true,
     .then = 1U << THEN_BOTH,
     .endings = ALL_ENDINGS},
    {.name = "job of 2 that nobody need gate",
     .ranks = 2,
     .job = true,
     .ready_auto = true,
     .link = true,
     .notify = true,
     .then = 1U << THEN_NONE | 1U << THEN_COLLECTIVE,
     .endings = ALL_ENDINGS},
    {.name = "job of 2, ready = link, restart, stop in reverse",
     .ranks = 2,
     .job = true,
     .restarts = 1,
     .in_order = true,
     .reverse = true,
     .link = true,
     .mismatch = true,
     .then = 1U << THEN_SERVING,
     .endings = ALL_ENDINGS},
    {.name = "service of 2, ready by a probe",
     .ranks = 2,
     .link = true,
     .probe = true,
     .dump = true,
     .then = 1U << THEN_COLLECTIVE,
     .endings = ALL_ENDINGS},
    {.name = "service of 2, ready = none",
     .ranks = 2,
     .no_gate = true,
     .link = true,
     .notify = true,
     .suspend = true,
     .then = 1U << THEN_BOTH,
     .endings = ALL_ENDINGS},
    {.name = "job of 2, ready = none",
     .ranks = 2,
     .job = true,
     .no_gate = true,
     .link = true,
     .then = 1U << THEN_COLLECTIVE,
     .endings = ALL_ENDINGS},
    {.name = "service of 3, link",
     .ranks = 3,
     .ready_auto = true,
     .link = true,
     .then = 1U << THEN_NONE,
     .endings = 1U << END_EXIT_3 | 1U << END_SIGTERM},
    {.name = "job of 3, link, stop in order",
     .ranks = 3,
     .job = true,
     .ready_auto = true,
     .in_order = true,
     .link = true,
     .then = 1U << THEN_COLLECTIVE,
     .endings = 1U << END_EXIT_0 | 1U << END_SIGKILL},
    {.name = "service of 3, notify, restart",
     .ranks = 3,
     .ready_auto = true,
     .restarts = 1,
     .notify = true,
     .endings = 1U << END_EXIT_0 | 1U << END_SIGTERM},
};

/* Worlds that wait for their turn: records, and the indices of their states. */
struct queue {
	unsigned char *records; /* [cap * size] */
	uint32_t *indices;      /* [cap] */
	size_t n, cap, size;
};

static struct {
	struct world world;
	struct states met, ended; /* ended: states from which the end was reached */
	struct queue now, next;
	unsigned char record[RECORD_MAX_BYTES];
	size_t size;
	uint32_t at;          /* the state whose turn it is */
	enum group_state was; /* of that state */
	uint64_t transitions;
} walk;

static void
push(struct queue *queue, const unsigned char *record, uint32_t index)
{
	if (queue->n == queue->cap) {
		queue->cap = queue->cap == 0 ? 1024 : queue->cap * 2;
		queue->records = realloc(queue->records, queue->cap * queue->size);
		queue->indices = realloc(queue->indices, queue->cap * sizeof(*queue->indices));
		if (queue->records == NULL || queue->indices == NULL)
			err(1, "%zu states", queue->n);
	}
	memcpy(queue->records + queue->n * queue->size, record, queue->size);
	queue->indices[queue->n++] = index;
}

static void
print_way(uint32_t index)
{
	char text[64];

	if (walk.met.n == 0)
		return;
	if (walk.met.v[index].from != index)
		print_way(walk.met.v[index].from);
	happening_to_string(walk.met.v[index].by, text, sizeof(text));
	fprintf(stderr, "  %s\n", text);
}

void
world_failed(const struct world *world, struct happening last, const char *promise)
{
	char text[64];

	fprintf(stderr, "%s: broken: %s\nafter\n", world->options->name, promise);
	print_way(walk.at);
	happening_to_string(last, text, sizeof(text));
	fprintf(stderr, "  %s\n", text);
	exit(1);
}

/* --- from every state the end is near --- */

static struct happening
stuck(void)
{
	world_failed(&walk.world, (struct happening){EVENT_BOUND, NO_RANK, 0},
		     "the end is reached");
}

static struct happening
reaping(int rank)
{
	const struct process *p = &walk.world.p[rank];
	int end = p->dead && p->end != END_UNKNOWN ? p->end : END_SIGKILL;

	return (struct happening){EVENT_REAPED, (int8_t)rank, (uint8_t)end};
}

/* What a world does in which nothing ends but by SIGKILL, and a running group is asked to stop. */
static struct happening
next_of_the_end(void)
{
	const struct world *world = &walk.world;

	if (world->group.state != GROUP_STOPPING)
		return (struct happening){EVENT_STOP, NO_RANK, STOP_BY_TERM};
	for (int i = 0; i < world->options->ranks; i++) {
		const struct process *p = &world->p[i];

		if (p->forked && !p->reaped && (p->killed || p->dead))
			return reaping(i);
		if (p->waiting && p->reaped)
			return (struct happening){EVENT_BOUND, (int8_t)i, RANK_TIMER_JUDGE};
	}
	if (world->swept && !world_holds_ranks(world))
		return (struct happening){EVENT_TREE_EMPTY, NO_RANK, 0};
	if (world->group.timer_ns[TIMER_KILL] != 0)
		return (struct happening){EVENT_BOUND, NO_RANK, TIMER_KILL};
	return stuck();
}

static void
go_to_the_end(void)
{
	unsigned char record[RECORD_MAX_BYTES];

	for (int i = 0; !walk.world.over; i++) {
		if (i == END_STEPS_MAX)
			stuck();
		record_save(&walk.world, record);
		if (!states_add(&walk.ended, record_hash(record, walk.size), 0,
				(struct happening){0, 0, 0}))
			return;
		world_step(&walk.world, next_of_the_end());
	}
}

/* --- the walk --- */

/* What comes too late changes nothing. */
static void
check_change(struct happening by)
{
	const struct before before = {.state = walk.was};

	if (comes_too_late(&walk.world, &before, by))
		world_failed(&walk.world, by, "what comes too late changes nothing");
}

/* True if the world has changed. */
static bool
meet(struct happening by)
{
	unsigned char record[RECORD_MAX_BYTES];

	record_save(&walk.world, record);
	walk.transitions++;
	if (memcmp(record, walk.record, walk.size) == 0)
		return false;
	check_change(by);
	if (states_add(&walk.met, record_hash(record, walk.size), walk.at, by))
		push(&walk.next, record, (uint32_t)walk.met.n - 1);
	return true;
}

static void
visit(const unsigned char *record, uint32_t index)
{
	struct happening possible[HAPPENINGS_MAX];
	int n;

	walk.at = index;
	memcpy(walk.record, record, walk.size);
	record_load(&walk.world, record);
	go_to_the_end();
	record_load(&walk.world, record);
	walk.was = walk.world.group.state;
	n = world_possible(&walk.world, possible);
	for (int i = 0; i < n; i++) {
		world_step(&walk.world, possible[i]);
		if (meet(possible[i]))
			record_load(&walk.world, record);
	}
}

static void
walk_all(const struct world_options *options)
{
	memset(&walk, 0, sizeof(walk));
	states_init(&walk.met);
	states_init(&walk.ended);
	if (world_init(&walk.world, options) != 0)
		err(1, "%s", options->name);
	walk.world.frozen = true;
	walk.size = walk.now.size = walk.next.size = record_size(&walk.world);
	meet((struct happening){EVENT_START, NO_RANK, 0});
	while (walk.next.n > 0) {
		struct queue done = walk.now;

		walk.now = walk.next;
		walk.next = done;
		walk.next.n = 0;
		for (size_t i = 0; i < walk.now.n; i++)
			visit(walk.now.records + i * walk.size, walk.now.indices[i]);
	}
	printf("%-54s %9zu states %10llu transitions\n", options->name, walk.met.n,
	       (unsigned long long)walk.transitions);
	fflush(stdout);
	states_free(&walk.met);
	states_free(&walk.ended);
	free(walk.now.records);
	free(walk.now.indices);
	free(walk.next.records);
	free(walk.next.indices);
	world_free(&walk.world);
}

static bool
is_named(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc == 1;
}

/* Arguments are the names of the walks to take; without any all are. */
int
main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(walks) / sizeof(walks[0]); i++)
		if (is_named(walks[i].name, argc, argv))
			walk_all(&walks[i]);
	return 0;
}

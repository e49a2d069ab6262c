#include "tests/model/record.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a struct that make a state: texts and counters that nothing depends on are left out. */
struct range {
	size_t from, to;
};

#define END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

static const struct range group_ranges[] = {
    {offsetof(struct group, state), offsetof(struct group, ranks)},
    {END_OF(struct group, ranks), offsetof(struct group, loss.cause)},
    {END_OF(struct group, loss.cause), offsetof(struct group, loss.detail)},
    {END_OF(struct group, loss.detail), offsetof(struct group, loss.progress)},
    {END_OF(struct group, loss.progress), sizeof(struct group)},
};

static const struct range rank_ranges[] = {
    {0, offsetof(struct rank, settings)},
    {END_OF(struct rank, progress), sizeof(struct rank)},
};

static const struct range world_ranges[] = {
    {offsetof(struct world, spoken), sizeof(struct world)},
};

#define RANGES(ranges) (sizeof(ranges) / sizeof((ranges)[0]))

static unsigned char *
save(unsigned char *out, const void *from, const struct range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = ranges[i].to - ranges[i].from;

		memcpy(out, (const unsigned char *)from + ranges[i].from, len);
		out += len;
	}
	return out;
}

static const unsigned char *
load(const unsigned char *in, void *to, const struct range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = ranges[i].to - ranges[i].from;

		memcpy((unsigned char *)to + ranges[i].from, in, len);
		in += len;
	}
	return in;
}

static size_t
length(const struct range *ranges, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += ranges[i].to - ranges[i].from;
	return len;
}

size_t
record_size(const struct world *world)
{
	size_t rank = length(rank_ranges, RANGES(rank_ranges)) + sizeof(struct process);

	return length(group_ranges, RANGES(group_ranges)) +
	       length(world_ranges, RANGES(world_ranges)) + (size_t)world->options->ranks * rank;
}

/* --- what does not matter, or no longer --- */

/* How a process ended decides on while its end can be a loss, or a job can be done. */
static bool
endings_matter(const struct world *world)
{
	const struct group *g = &world->group;

	if (group_is_running(g))
		return true;
	if (g->loss.reason != REASON_NONE || world->restart_asked)
		return false;
	return !world->asked || (world->options->job && world->finished);
}

static void
forget_ending(struct rank *rank, struct process *p)
{
	if (rank->died)
		rank->ending = (struct ending){ENDING_EXITED, 0};
	p->end = END_EXIT_0;
	rank->sent_signals = rank->sent_signals > 1 ? 2 : rank->sent_signals;
	p->sent = p->sent != 0 ? 1 : 0;
}

/* Times that no deadline hangs on, and what only texts are made of. */
static void
forget_texts(struct rank *rank)
{
	rank->pid = 0;
	rank->victim = rank->began = false;
	rank->phase = RANK_STARTING;
	rank->forked_ns = rank->hello_ns = rank->ready_ns = rank->serving_ns = 0;
	rank->state_ns = rank->heard_ns = 0;
}

static void
forget_words(struct rank *rank, struct process *p)
{
	rank->kind = KIND_SILENT;
	rank->link_ready = rank->unhealthy = false;
	rank->then_collective = rank->then_serving = false;
	rank->phase_bound = BOUND_LOAD;
	p->link_ready = p->announced = false;
	p->voice = p->digest = 0;
}

static void
settle_rank(const struct world *world, struct rank *rank, struct process *p)
{
	bool running = group_is_running(&world->group);

	forget_texts(rank);
	if (!running || rank->died)
		forget_words(rank, p);
	if (!endings_matter(world))
		forget_ending(rank, p);
	if (rank->state >= RANK_READY || !world->options->notify) {
		rank->kind = KIND_SILENT;
		p->voice = 0;
	}
	if (rank->state == RANK_SERVING)
		rank->then_serving = false;
	/* A warning that was given may be given again: it changes nothing. */
	rank->timer_ns[RANK_TIMER_SILENCE] = rank->timer_ns[RANK_TIMER_STALL];
	if (running)
		return;
	rank->was_ready = p->ready = false;
	p->gos = 0;
	if (world->group.loss.reason == REASON_NONE)
		return;
	rank->link_closed = rank->said_stopping = false;
	p->link_open = p->forked && !p->reaped;
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
	memset(g->failures_total, 0, sizeof(g->failures_total));
	g->loss.pid = 0;
	g->loss.rank = g->loss.reason == REASON_NONE ? NO_RANK : 0;
	g->loss.phase = RANK_STARTING;
	g->loss.bound = BOUND_LOAD;
	g->loss.by_end = false;
	g->loss.ending = (struct ending){ENDING_UNKNOWN, 0};
	g->loss.error_number = 0;
	g->hurried = false;
	if (g->stop_ns != 0)
		g->stop_ns = world->now_ns;
	for (size_t i = 0; i < sizeof(warnings) / sizeof(warnings[0]); i++)
		g->timer_ns[warnings[i][0]] = g->timer_ns[warnings[i][1]];
}

static void
settle(struct world *world)
{
	struct group *g = &world->group;

	for (int i = 0; i < world->options->ranks; i++)
		settle_rank(world, &g->ranks[i], &world->p[i]);
	settle_group(g, world);
	if (!world->options->job)
		g->stop_signal = world->asked_by = 0;
	if (group_is_running(g))
		return;
	g->ready_count = g->hello_count = 0;
	g->spoken = g->go = g->group_id_kept = false;
	world->spoken = world->go = world->group_id = false;
}

void
record_save(struct world *world, unsigned char *record)
{
	settle(world);
	record = save(record, &world->group, group_ranges, RANGES(group_ranges));
	record = save(record, world, world_ranges, RANGES(world_ranges));
	for (int i = 0; i < world->options->ranks; i++) {
		record = save(record, &world->group.ranks[i], rank_ranges, RANGES(rank_ranges));
		memcpy(record, &world->p[i], sizeof(world->p[i]));
		record += sizeof(world->p[i]);
	}
}

void
record_load(struct world *world, const unsigned char *record)
{
	record = load(record, &world->group, group_ranges, RANGES(group_ranges));
	record = load(record, world, world_ranges, RANGES(world_ranges));
	for (int i = 0; i < world->options->ranks; i++) {
		struct rank *rank = &world->group.ranks[i];

		record = load(record, rank, rank_ranges, RANGES(rank_ranges));
		memcpy(&world->p[i], record, sizeof(world->p[i]));
		record += sizeof(world->p[i]);
		strcpy(rank->settings, world->p[i].digest == HELLO_B ? "bb" : "aa");
	}
}

uint64_t
record_hash(const unsigned char *record, size_t size)
{
	uint64_t hash = size * UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = 0; i < size; i += 8) {
		uint64_t word = 0;

		memcpy(&word, record + i, size - i < 8 ? size - i : 8);
		hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
		hash ^= hash >> 32;
	}
	return hash;
}

/* --- the states met so far --- */

static void
grow(struct states *states)
{
	size_t slots = states->slots * 2;
	uint32_t *table = calloc(slots, sizeof(*table));

	states->cap = slots / 2;
	states->v = realloc(states->v, states->cap * sizeof(*states->v));
	if (table == NULL || states->v == NULL)
		err(1, "%zu states", states->n);
	for (size_t i = 0; i < states->n; i++) {
		size_t slot = states->v[i].hash % slots;

		while (table[slot] != 0)
			slot = (slot + 1) % slots;
		table[slot] = (uint32_t)i + 1;
	}
	free(states->table);
	states->table = table;
	states->slots = slots;
}

void
states_init(struct states *states)
{
	*states = (struct states){.slots = 1 << 15};
	grow(states);
}

void
states_free(struct states *states)
{
	free(states->v);
	free(states->table);
}

bool
states_add(struct states *states, uint64_t hash, uint32_t from, struct happening by)
{
	size_t slot = hash % states->slots;

	for (; states->table[slot] != 0; slot = (slot + 1) % states->slots)
		if (states->v[states->table[slot] - 1].hash == hash)
			return false;
	states->v[states->n] = (struct state){hash, from, by};
	states->table[slot] = (uint32_t)++states->n;
	if (states->n == states->cap)
		grow(states);
	return true;
}

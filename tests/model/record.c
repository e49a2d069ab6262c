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
    {END_OF(struct group, loss.progress), offsetof(struct group, failures_total)},
    {END_OF(struct group, failures_total), sizeof(struct group)},
};

static const struct range rank_ranges[] = {
    {0, offsetof(struct rank, settings)},
    {END_OF(struct rank, progress), offsetof(struct rank, forked_ns)},
    {offsetof(struct rank, died_ns), sizeof(struct rank)},
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

void
record_save(struct world *world, unsigned char *record)
{
	world_settle(world);
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

/* Two words at a time, so that the multiplications do not wait for each other. */
uint64_t
record_hash(const unsigned char *record, size_t size)
{
	const uint64_t odd = UINT64_C(0xff51afd7ed558ccd);
	uint64_t a = size, b = ~size, word[2];

	for (size_t i = 0; i < size; i += sizeof(word)) {
		word[0] = word[1] = 0;
		memcpy(word, record + i, size - i < sizeof(word) ? size - i : sizeof(word));
		a = (a ^ word[0]) * odd;
		a ^= a >> 32;
		b = (b + word[1]) * odd;
		b ^= b >> 29;
	}
	return a ^ b * odd;
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

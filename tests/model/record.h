/*
 * A world as bytes, for the walk: what decides how it goes on, and nothing else. Two worlds of one
 * record are one state.
 */
#ifndef TESTS_MODEL_RECORD_H
#define TESTS_MODEL_RECORD_H

#include "tests/model/world.h"

#include <stddef.h>
#include <stdint.h>

#define RECORD_MAX_BYTES 4096

size_t record_size(const struct world *world);
/* settle.c */
void world_settle(struct world *world);
/* Settles the world, then writes record_size() bytes. */
void record_save(struct world *world, unsigned char *record);
/* Into a world of the same options. */
void record_load(struct world *world, const unsigned char *record);
uint64_t record_hash(const unsigned char *record, size_t size);

/* The states met so far: indices 0, 1, 2, ... in order of meeting, and how each was met first. */
struct state {
	uint64_t hash;
	uint32_t from; /* index; its own for the first */
	struct happening by;
};

struct states {
	struct state *v; /* [n] */
	uint32_t *table; /* [slots], index + 1, 0: free */
	size_t n, cap, slots;
};

/* Memory that runs out ends the program. */
void states_init(struct states *states);
void states_free(struct states *states);
/* True if it is new. */
bool states_add(struct states *states, uint64_t hash, uint32_t from, struct happening by);

#endif

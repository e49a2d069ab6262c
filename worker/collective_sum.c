/* Sums of expert slots over all ranks, against the reference. */
#include "kernels/checksum.h"
#include "kernels/slot_sum.h"
#include "worker/collective.h"

#include "common/deadline.h"

#include <stdlib.h>
#include <string.h>

#define TOP_K    4
#define HIDDEN   64
#define ROWS_MAX 67 /* a prime, so that no world size but itself divides it */

/* (ROWS_MAX, HIDDEN) of float fit into the smallest slot. */
_Static_assert(ROWS_MAX *HIDDEN * sizeof(float) <= 32 << 10, "see SLOT_MIN_BYTES");

struct sum_case {
	struct host_comm *comm;
	size_t rows;
	uint64_t deadline_ns;
	uint16_t slots[ROWS_MAX * TOP_K * HIDDEN]; /* bf16 (rows, TOP_K, HIDDEN) */
	float weights[ROWS_MAX * TOP_K];           /* (rows, TOP_K) */
	float sums[ROWS_MAX * HIDDEN];             /* (rows, HIDDEN), first ours, then all ranks' */
	double expected[ROWS_MAX * HIDDEN];
};

void
rows_of_rank(size_t rows, int world_size, int rank, size_t *first, size_t *count)
{
	size_t world = (size_t)world_size, r = (size_t)rank, more = rows % world;

	*first = rows / world * r + (r < more ? r : more);
	*count = rows / world + (r < more);
}

/* -32 .. 31 of 32nds: six bits, so that a product has 11 and float adds 2^13 of them exactly. */
static float
small_fraction(uint64_t seed, int low)
{
	return (float)((int)(checksum_splitmix64(seed) >> 58) + low) / 32.0f;
}

/* The slots and weights of a rank follow from its number, so that every rank knows all. */
static void
make_slots(struct sum_case *c, int rank)
{
	uint64_t seed = host_comm_salt(c->comm) + ((uint64_t)rank << 40 | (uint64_t)c->rows << 20);

	for (size_t i = 0; i < c->rows * TOP_K * HIDDEN; i++)
		c->slots[i] = bf16_from_float(small_fraction(seed + 2 * i, -32));
	for (size_t i = 0; i < c->rows * TOP_K; i++)
		c->weights[i] = small_fraction(seed + 2 * i + 1, 0);
}

/* After it `sums` has the sums over all ranks, for our own rows. */
static enum comm_result
reduce_scatter(struct sum_case *c)
{
	size_t first, count;
	enum comm_result ended = host_comm_all_gather(
	    c->comm, c->sums, c->rows * HIDDEN * sizeof(*c->sums), c->deadline_ns);

	if (ended != COMM_OK)
		return ended;
	rows_of_rank(c->rows, host_comm_world_size(c->comm), host_comm_rank(c->comm), &first,
		     &count);
	memset(c->sums, 0, sizeof(c->sums));
	for (int rank = 0; rank < host_comm_world_size(c->comm); rank++) {
		const float *theirs = host_comm_slot(c->comm, rank);

		for (size_t i = first * HIDDEN; i < (first + count) * HIDDEN; i++)
			c->sums[i] += theirs[i];
	}
	return COMM_OK;
}

/* After it `sums` has all rows. */
static enum comm_result
gather_rows(struct sum_case *c)
{
	int world_size = host_comm_world_size(c->comm);
	size_t first, count;
	enum comm_result ended;

	rows_of_rank(c->rows, world_size, host_comm_rank(c->comm), &first, &count);
	ended = host_comm_all_gather(c->comm, c->sums + first * HIDDEN,
				     count * HIDDEN * sizeof(*c->sums), c->deadline_ns);
	if (ended != COMM_OK)
		return ended;
	for (int rank = 0; rank < world_size; rank++) {
		rows_of_rank(c->rows, world_size, rank, &first, &count);
		memcpy(c->sums + first * HIDDEN, host_comm_slot(c->comm, rank),
		       count * HIDDEN * sizeof(*c->sums));
	}
	return COMM_OK;
}

static void
compare(struct sum_case *c, struct sum_result *result)
{
	memset(c->expected, 0, sizeof(c->expected));
	for (int rank = 0; rank < host_comm_world_size(c->comm); rank++) {
		make_slots(c, rank);
		slot_sum_ref(c->slots, c->weights, c->rows, TOP_K, HIDDEN, c->expected);
	}
	for (size_t i = 0; i < c->rows * HIDDEN; i++)
		result->wrong += (double)c->sums[i] != c->expected[i];
	result->sums += c->rows * HIDDEN;
	result->rows += c->rows;
	result->cases++;
}

static enum comm_result
run_case(struct sum_case *c, size_t rows, struct sum_result *result)
{
	enum comm_result ended;
	uint64_t start_ns = monotonic_ns();

	c->rows = rows;
	make_slots(c, host_comm_rank(c->comm));
	slot_sum_host(c->slots, c->weights, rows, TOP_K, HIDDEN, c->sums);
	if ((ended = reduce_scatter(c)) != COMM_OK || (ended = gather_rows(c)) != COMM_OK)
		return ended;
	result->ns += monotonic_ns() - start_ns;
	compare(c, result);
	return COMM_OK;
}

enum comm_result
collective_sum(struct host_comm *comm, uint64_t deadline_ns, struct sum_result *result)
{
	size_t world = (size_t)host_comm_world_size(comm);
	const size_t rows[] = {0, 1, world - 1, world, world + 1, 2 * world + 1, ROWS_MAX};
	struct sum_case *c = malloc(sizeof(*c));
	enum comm_result ended = COMM_OK;

	*result = (struct sum_result){0};
	if (c == NULL)
		return COMM_NO_MEMORY;
	c->comm = comm;
	c->deadline_ns = deadline_ns;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && ended == COMM_OK; i++)
		if (rows[i] <= ROWS_MAX)
			ended = run_case(c, rows[i], result);
	free(c);
	return ended;
}

#include "worker/collective.h"

#include "common/deadline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_MAX_BYTES ((size_t)4 << 20)
#define SLOTS_MAX_BYTES                                                                            \
	((size_t)32 << 20)                /* all ranks' together: a rank's memory is its model's   \
					   */
#define SLOT_MIN_BYTES ((size_t)32 << 10) /* the largest case of collective_sum fits */
#define PAGE_BYTES     4096

size_t
collective_slot_bytes(int world_size)
{
	size_t bytes = SLOTS_MAX_BYTES / (size_t)world_size / PAGE_BYTES * PAGE_BYTES;

	if (bytes > SLOT_MAX_BYTES)
		return SLOT_MAX_BYTES;
	return bytes < SLOT_MIN_BYTES ? SLOT_MIN_BYTES : bytes;
}

static size_t
gather_words(const struct host_comm *comm, size_t arena_bytes)
{
	size_t fit = host_comm_slot_bytes(comm) / GATHER_ELEMENT_BYTES;
	size_t have = arena_bytes / sizeof(uint64_t);

	return have < fit ? have : fit;
}

static void
check_slots(const struct host_comm *comm, size_t words, struct gather_result *result)
{
	for (int rank = 0; rank < host_comm_world_size(comm); rank++) {
		struct gather_fault fault;
		uint64_t wrong = gather_check_ref(host_comm_slot(comm, rank), words,
						  host_comm_salt(comm), (uint32_t)rank, &fault);

		if (wrong > 0 && result->wrong == 0)
			result->fault = fault;
		result->wrong += wrong;
	}
}

static enum comm_result
timed_gather(struct host_comm *comm, const void *own, uint64_t deadline_ns,
	     struct gather_result *result)
{
	enum comm_result ended = host_comm_barrier(comm, deadline_ns);

	if (ended != COMM_OK)
		return ended;
	result->ns = monotonic_ns();
	ended = host_comm_all_gather(comm, own, result->bytes, deadline_ns);
	result->ns = monotonic_ns() - result->ns;
	return ended;
}

enum comm_result
collective_gather(struct host_comm *comm, const unsigned char *arena, size_t bytes,
		  uint64_t deadline_ns, struct gather_result *result)
{
	size_t words = gather_words(comm, bytes);
	uint64_t *own = malloc(words * GATHER_ELEMENT_BYTES + 1);
	enum comm_result ended;

	if (own == NULL)
		return COMM_NO_MEMORY;
	*result = (struct gather_result){
	    .bytes = words * GATHER_ELEMENT_BYTES,
	    .elements = words * (uint64_t)host_comm_world_size(comm),
	};
	if (words > 0)
		gather_fill_ref(arena, words, host_comm_salt(comm), (uint32_t)host_comm_rank(comm),
				own);
	ended = timed_gather(comm, own, deadline_ns, result);
	free(own);
	if (ended == COMM_OK)
		check_slots(comm, words, result);
	return ended;
}

double
gather_bus_bandwidth(const struct gather_result *result, int world_size)
{
	if (result->ns == 0)
		return 0;
	return (double)result->bytes * (world_size - 1) / ((double)result->ns / NS_PER_SEC);
}

int
collective_own_slot_holds(const struct host_comm *comm, const unsigned char *arena,
			  const struct gather_result *result)
{
	size_t words = result->bytes / GATHER_ELEMENT_BYTES;

	return memcmp(host_comm_slot(comm, host_comm_rank(comm)), arena,
		      words * sizeof(uint64_t)) == 0;
}

/* The first collective of a group, on the host backend: every element checked on every rank. */
#ifndef WORKER_COLLECTIVE_H
#define WORKER_COLLECTIVE_H

#include "kernels/gather_check.h"
#include "worker/host_comm.h"

#include <stddef.h>
#include <stdint.h>

/* What a communicator's slots should hold for these collectives, in bytes. */
size_t collective_slot_bytes(int world_size);

struct gather_result {
	uint64_t bytes;            /* that each rank gives */
	uint64_t elements, wrong;  /* of all ranks */
	struct gather_fault fault; /* the first wrong one */
	uint64_t ns;               /* the gather alone: all have come to all have given */
};

/*
 * All-gathers the beginning of the loaded memory, arena[0..bytes), as far as a slot holds it with
 * its tags, and checks what came. All ranks must have arenas of one size. *result is valid for
 * COMM_OK.
 */
enum comm_result collective_gather(struct host_comm *comm, const unsigned char *arena, size_t bytes,
				   uint64_t deadline_ns, struct gather_result *result);

/* Bytes a second that cross a bus, as nccl-tests count an all-gather; 0 if it took no time. */
double gather_bus_bandwidth(const struct gather_result *result, int world_size);

/* True while our own slot still holds the beginning of the arena. */
int collective_own_slot_holds(const struct host_comm *comm, const unsigned char *arena,
			      const struct gather_result *result);

struct sum_result {
	uint64_t cases, rows; /* shapes tried, and their rows together */
	uint64_t sums, wrong; /* elements compared with the reference, and those that differ */
	uint64_t ns;
};

/*
 * Sums of expert slots, for several numbers of rows, none and such that do not divide among them:
 * each rank sums its own slots, the sums are reduce-scattered by rows and gathered, and every rank
 * compares all of them with the reference. The values are such that float adds them exactly, in
 * any order.
 */
enum comm_result collective_sum(struct host_comm *comm, uint64_t deadline_ns,
				struct sum_result *result);

/* The rows of a rank: the first rows % world_size ranks have one more. */
void rows_of_rank(size_t rows, int world_size, int rank, size_t *first, size_t *count);

#endif

/* sources: worker/collective.c worker/collective_sum.c worker/host_comm.c worker/load_error.c kernels/gather_check_ref.c kernels/slot_sum_ref.c */
#include "common/deadline.h"
#include "worker/collective.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ARENA_BYTES 100003
#define WORDS       (ARENA_BYTES / 8)
#define LATE        (20 * NS_PER_SEC)

static unsigned char id[HOST_ID_BYTES];
static int memory;

static uint64_t
late(void)
{
	return monotonic_ns() + LATE;
}

/* Rank 0 here, the others in processes; rank 1 runs `odd`. */
static void
run(int world_size, int (*body)(struct host_comm *), int (*odd)(struct host_comm *))
{
	struct load_error error;
	struct host_comm *comm;
	int status;

	memory = host_comm_create(world_size, collective_slot_bytes(world_size), id, &error);
	assert_true(memory >= 0);
	for (int rank = world_size - 1; rank >= 0; rank--) {
		if (rank > 0 && fork() != 0)
			continue;
		assert_int_equal(
		    host_comm_open(&comm, id, sizeof(id), memory, rank, world_size, &error), 0);
		status = rank == 1 ? odd(comm) : body(comm);
		host_comm_close(comm);
		if (rank > 0)
			_exit(status);
		assert_int_equal(status, 0);
	}
	for (int rank = 1; rank < world_size; rank++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	close(memory);
}

static unsigned char *
arena_of(const struct host_comm *comm)
{
	unsigned char *arena = malloc(ARENA_BYTES);

	memset(arena, host_comm_rank(comm) + 1, ARENA_BYTES);
	return arena;
}

static int
gathers(struct host_comm *comm)
{
	unsigned char *arena = arena_of(comm);
	struct gather_result result;
	enum comm_result ended = collective_gather(comm, arena, ARENA_BYTES, late(), &result);
	const unsigned char *last = host_comm_slot(comm, host_comm_world_size(comm) - 1);
	int good = ended == COMM_OK && result.wrong == 0 && result.bytes == WORDS * 16 &&
		   result.elements == WORDS * (uint64_t)host_comm_world_size(comm) &&
		   last[WORDS * 8 - 1] == host_comm_world_size(comm) &&
		   collective_own_slot_holds(comm, arena, &result);

	free(arena);
	return good ? 0 : 1;
}

static void
the_gather_brings_every_rank_the_arena_of_every_rank(void **state)
{
	(void)state;
	for (int world_size = 1; world_size <= 5; world_size++)
		run(world_size, gathers, gathers);
}

static int
sees_the_fault_of_rank_1(struct host_comm *comm)
{
	unsigned char *arena = arena_of(comm);
	struct gather_result result;
	enum comm_result ended = collective_gather(comm, arena, ARENA_BYTES, late(), &result);

	free(arena);
	return ended == COMM_OK && result.wrong == 1 && result.fault.rank == 1 &&
		       result.fault.index == 77
		   ? 0
		   : 1;
}

static int
gives_a_wrong_element(struct host_comm *comm)
{
	unsigned char *arena = arena_of(comm);
	uint64_t *own = malloc(WORDS * 16);
	int ended;

	gather_fill_ref(arena, WORDS, host_comm_salt(comm), 1, own);
	own[77]++;
	ended = host_comm_barrier(comm, late()) != COMM_OK ||
		host_comm_all_gather(comm, own, WORDS * 16, late()) != COMM_OK;
	free(own);
	free(arena);
	return ended;
}

static void
one_wrong_element_is_counted_and_placed_on_every_rank(void **state)
{
	(void)state;
	run(3, sees_the_fault_of_rank_1, gives_a_wrong_element);
}

static int
sums(struct host_comm *comm)
{
	struct sum_result result;

	return collective_sum(comm, late(), &result) == COMM_OK && result.wrong == 0 &&
		       result.cases >= 6 && result.sums > 0
		   ? 0
		   : 1;
}

static void
the_sums_of_all_ranks_equal_the_reference_on_every_rank(void **state)
{
	(void)state;
	for (int world_size = 1; world_size <= 5; world_size++)
		run(world_size, sums, sums);
}

static int
gives_nothing(struct host_comm *comm)
{
	static const float zeros[67 * 64];
	size_t rows[] = {0, 1, 1, 2, 3, 5, 67};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t first, count;

		rows_of_rank(rows[i], 2, 1, &first, &count);
		if (host_comm_all_gather(comm, zeros, rows[i] * 64 * 4, late()) != COMM_OK ||
		    host_comm_all_gather(comm, zeros, count * 64 * 4, late()) != COMM_OK)
			return 1;
	}
	return 0;
}

static int
sees_wrong_sums(struct host_comm *comm)
{
	struct sum_result result;

	return collective_sum(comm, late(), &result) == COMM_OK && result.wrong > 0 ? 0 : 1;
}

static void
a_rank_that_adds_nothing_is_noticed(void **state)
{
	(void)state;
	run(2, sees_wrong_sums, gives_nothing);
}

static void
rows_are_shared_out_whole_and_evenly(void **state)
{
	(void)state;
	for (size_t rows = 0; rows < 40; rows++)
		for (int world_size = 1; world_size < 20; world_size++) {
			size_t next = 0, first, count;

			for (int rank = 0; rank < world_size; rank++) {
				rows_of_rank(rows, world_size, rank, &first, &count);
				assert_int_equal(first, next);
				assert_in_range(count, rows / (size_t)world_size,
						rows / (size_t)world_size + 1);
				next = first + count;
			}
			assert_int_equal(next, rows);
		}
}

static void
slots_leave_the_memory_to_the_model(void **state)
{
	(void)state;
	assert_int_equal(collective_slot_bytes(1), 4 << 20);
	assert_int_equal(collective_slot_bytes(8), 4 << 20);
	assert_true(64 * collective_slot_bytes(64) <= 32 << 20);
	assert_int_equal(collective_slot_bytes(1024) % 4096, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_gather_brings_every_rank_the_arena_of_every_rank),
	    cmocka_unit_test(one_wrong_element_is_counted_and_placed_on_every_rank),
	    cmocka_unit_test(the_sums_of_all_ranks_equal_the_reference_on_every_rank),
	    cmocka_unit_test(a_rank_that_adds_nothing_is_noticed),
	    cmocka_unit_test(rows_are_shared_out_whole_and_evenly),
	    cmocka_unit_test(slots_leave_the_memory_to_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* sources: worker/host_comm.c worker/load_error.c */
#include "common/deadline.h"
#include "worker/host_comm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SLOT_BYTES 8192
#define SOON       (200 * NS_PER_MSEC)
#define LATE       (20 * NS_PER_SEC)

static unsigned char id[HOST_ID_BYTES];
static int memory = -1;

static uint64_t
in(uint64_t ns)
{
	return monotonic_ns() + ns;
}

static void
create(int world_size)
{
	struct load_error error;

	memory = host_comm_create(world_size, SLOT_BYTES, id, &error);
	if (memory < 0)
		fail_msg("%s", error.text);
}

static struct host_comm *
join(int rank, int world_size)
{
	struct load_error error;
	struct host_comm *comm;

	if (host_comm_open(&comm, id, sizeof(id), memory, rank, world_size, &error) != 0)
		fail_msg("%s", error.text);
	return comm;
}

static int
teardown(void **state)
{
	(void)state;
	if (memory >= 0)
		close(memory);
	memory = -1;
	return 0;
}

static int
run_rank(int rank, int world_size, int (*body)(struct host_comm *comm))
{
	struct host_comm *comm = join(rank, world_size);
	int failed = body(comm);

	host_comm_close(comm);
	return failed;
}

/* Runs `body` as ranks 1.. of world_size in processes, as rank 0 here; all must return 0. */
static void
run_ranks(int world_size, int (*body)(struct host_comm *comm))
{
	pid_t pids[16];

	create(world_size);
	for (int rank = 1; rank < world_size; rank++)
		if ((pids[rank] = fork()) == 0)
			_exit(run_rank(rank, world_size, body));
	assert_int_equal(run_rank(0, world_size, body), 0);
	for (int rank = 1; rank < world_size; rank++) {
		int status;

		assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
		assert_int_equal(status, 0);
	}
}

static int
gather_many_times(struct host_comm *comm)
{
	unsigned char own[SLOT_BYTES];

	for (int round = 0; round < 200; round++) {
		memset(own, round * 16 + host_comm_rank(comm), sizeof(own));
		if (host_comm_all_gather(comm, own, sizeof(own), in(LATE)) != COMM_OK)
			return 1;
		for (int rank = 0; rank < host_comm_world_size(comm); rank++) {
			const unsigned char *slot = host_comm_slot(comm, rank);
			unsigned char expected = (unsigned char)(round * 16 + rank);

			for (size_t i = 0; i < SLOT_BYTES; i++)
				if (slot[i] != expected)
					return 2;
		}
	}
	return 0;
}

static void
every_rank_sees_what_every_rank_gave_in_each_round(void **state)
{
	(void)state;
	run_ranks(4, gather_many_times);
}

static void
a_group_of_one_does_not_wait(void **state)
{
	(void)state;
	run_ranks(1, gather_many_times);
}

static void
a_wait_ends_at_its_deadline_and_breaks_the_communicator(void **state)
{
	struct host_comm *comm;
	uint64_t deadline_ns = in(20 * NS_PER_MSEC);

	(void)state;
	create(2);
	comm = join(0, 2);
	assert_int_equal(host_comm_barrier(comm, deadline_ns), COMM_TIMEOUT);
	assert_true(monotonic_ns() >= deadline_ns);
	assert_true(monotonic_ns() < deadline_ns + LATE);
	assert_int_equal(host_comm_barrier(comm, 0), COMM_ENDED);
	host_comm_close(comm);
}

static void
a_dead_peer_holds_the_others_no_longer_than_the_deadline(void **state)
{
	struct host_comm *comm;
	pid_t pid;

	(void)state;
	create(2);
	if ((pid = fork()) == 0) {
		host_comm_barrier(join(1, 2), in(LATE));
		raise(SIGKILL);
	}
	comm = join(0, 2);
	assert_int_equal(host_comm_barrier(comm, in(LATE)), COMM_OK);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(host_comm_barrier(comm, in(20 * NS_PER_MSEC)), COMM_TIMEOUT);
	host_comm_close(comm);
}

static void *
end_it(void *arg)
{
	host_comm_end(arg);
	return NULL;
}

static void
an_end_from_another_thread_ends_the_wait_at_once(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		struct host_comm *comm;
		pthread_t thread;

		create(2);
		comm = join(0, 2);
		assert_int_equal(pthread_create(&thread, NULL, end_it, comm), 0);
		assert_int_equal(host_comm_barrier(comm, in(LATE)), COMM_ENDED);
		pthread_join(thread, NULL);
		assert_int_equal(host_comm_barrier(comm, 0), COMM_ENDED);
		host_comm_close(comm);
		teardown(NULL);
	}
}

static void
the_end_of_one_rank_leaves_the_waits_of_the_others(void **state)
{
	struct host_comm *comm;
	pid_t pid;
	int status;

	(void)state;
	create(3);
	if ((pid = fork()) == 0) {
		struct host_comm *other = join(1, 3);

		int result;

		host_comm_post_moment(other, 1);
		result = (int)host_comm_barrier(other, in(SOON));
		host_comm_close(other);
		_exit(result);
	}
	comm = join(0, 3);
	assert_int_equal(host_comm_await_moment(comm, 1, &(uint64_t){0}, in(LATE)), COMM_OK);
	host_comm_end(comm);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), COMM_TIMEOUT);
	host_comm_close(comm);
}

static int
post_or_await(struct host_comm *comm)
{
	uint64_t ns = 0;

	if (host_comm_rank(comm) == 0)
		host_comm_post_moment(comm, 77);
	if (host_comm_await_moment(comm, 0, &ns, in(LATE)) != COMM_OK)
		return 1;
	return ns == 77 ? 0 : 2;
}

static void
a_moment_posted_is_awaited_by_the_others(void **state)
{
	(void)state;
	run_ranks(3, post_or_await);
}

static void
refused(int fd, const unsigned char *bytes, size_t len, int world_size, const char *word)
{
	struct load_error error;
	struct host_comm *comm;

	assert_int_equal(host_comm_open(&comm, bytes, len, fd, 0, world_size, &error), -1);
	assert_null(comm);
	assert_non_null(strstr(error.text, "communicator: "));
	if (strstr(error.text, word) == NULL)
		fail_msg("no \"%s\" in \"%s\"", word, error.text);
}

static void
memory_that_is_not_the_groups_is_refused(void **state)
{
	unsigned char other[HOST_ID_BYTES];
	int unsealed = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), second;

	(void)state;
	create(2);
	refused(memory, id, sizeof(id) - 1, 2, "31 bytes");
	refused(memory, id, sizeof(id), 3, "for 2 ranks");
	memcpy(other, id, sizeof(id));
	other[0] ^= 1;
	refused(memory, other, sizeof(other), 2, "not one of the host backend");
	refused(unsealed, id, sizeof(id), 2, "not sealed");
	assert_int_equal(fcntl(unsealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	refused(unsealed, id, sizeof(id), 2, "has 0 bytes");
	refused(-1, id, sizeof(id), 2, strerror(EBADF));
	second = host_comm_create(2, SLOT_BYTES, other, NULL);
	refused(second, id, sizeof(id), 2, "another group");
	close(second);
	close(unsealed);
}

static void
the_memory_can_neither_shrink_nor_lose_its_seals(void **state)
{
	(void)state;
	create(2);
	assert_int_equal(ftruncate(memory, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(every_rank_sees_what_every_rank_gave_in_each_round, teardown),
	    cmocka_unit_test_teardown(a_group_of_one_does_not_wait, teardown),
	    cmocka_unit_test_teardown(a_wait_ends_at_its_deadline_and_breaks_the_communicator,
				      teardown),
	    cmocka_unit_test_teardown(a_dead_peer_holds_the_others_no_longer_than_the_deadline,
				      teardown),
	    cmocka_unit_test_teardown(an_end_from_another_thread_ends_the_wait_at_once, teardown),
	    cmocka_unit_test_teardown(the_end_of_one_rank_leaves_the_waits_of_the_others, teardown),
	    cmocka_unit_test_teardown(a_moment_posted_is_awaited_by_the_others, teardown),
	    cmocka_unit_test_teardown(memory_that_is_not_the_groups_is_refused, teardown),
	    cmocka_unit_test_teardown(the_memory_can_neither_shrink_nor_lose_its_seals, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The communicator, and the steps that use it. */
#include "worker/rank_run.h"

#include "common/deadline.h"
#include "worker/collective.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define COLLECTIVE_SPARE_NS                                                                        \
	(5 * NS_PER_SEC) /* the supervisor's bound comes first: it knows who is late */

static int
open_communicator(struct rank_run *run, const unsigned char *id, size_t len, int fd)
{
	struct load_error error;

	if (host_comm_open(&run->comm, id, len, fd, run->receipt.rank, run->receipt.world_size,
			   &error) != 0)
		return rank_failed(run, &error);
	return 0;
}

int
rank_give_group_id(struct rank_run *run)
{
	unsigned char id[HOST_ID_BYTES];
	int world_size = run->receipt.world_size;
	struct load_error error;
	int fd, result;

	if (run->receipt.rank != 0)
		return 0;
	fd = host_comm_create(world_size, collective_slot_bytes(world_size), id, &error);
	if (fd < 0)
		return rank_failed(run, &error);
	if ((result = tfrank_put_group_id(run->link, id, sizeof(id), fd)) != 0)
		result = rank_link_failed(run, result);
	else
		result = open_communicator(run, id, sizeof(id), fd);
	close(fd);
	return result;
}

static void
end_communicator(void *comm)
{
	host_comm_end(comm);
}

int
rank_join(struct rank_run *run)
{
	unsigned char id[HOST_ID_BYTES];
	int fd, error, result = 0;
	size_t len;

	if (run->comm == NULL) {
		link_watch_wait(run->watch, WATCH_BIT(WATCH_GROUP_ID) | WATCH_BIT(WATCH_GO), 0);
		if ((link_watch_seen(run->watch) & (WATCH_BIT(WATCH_GROUP_ID) | WATCH_ENDS)) == 0)
			return rank_fail(run, EPROTO, "go came without a group id of rank 0");
		error = tfrank_get_group_id(run->link, id, sizeof(id), &len, &fd, monotonic_ns());
		if (error != 0)
			return rank_link_failed(run, error);
		result = open_communicator(run, id, len, fd);
		if (fd >= 0)
			close(fd);
	}
	if (result == 0)
		link_watch_on_end(run->watch, end_communicator, run->comm);
	return result;
}

int
rank_join_if_given(struct rank_run *run)
{
	if ((link_watch_seen(run->watch) & WATCH_BIT(WATCH_GROUP_ID)) == 0)
		return 0;
	return rank_join(run);
}

static uint64_t
collective_deadline_ns(struct rank_run *run)
{
	int64_t usec = tfrank_collective_timeout_usec(run->link);

	if (usec <= 0)
		return 0;
	return deadline_after(run->receipt.moments[MOMENT_GO] + COLLECTIVE_SPARE_NS,
			      (uint64_t)usec * NS_PER_USEC);
}

static int
comm_failed(struct rank_run *run, enum comm_result result)
{
	if (result == COMM_ENDED)
		return rank_ended(run);
	if (result == COMM_TIMEOUT)
		return rank_fail(run, ETIMEDOUT, "first collective: not every rank came");
	return rank_fail(run, ENOMEM, "first collective");
}

static int
sum_slots(struct rank_run *run, uint64_t deadline_ns)
{
	struct sum_result *sum = &run->receipt.sum;
	enum comm_result result = collective_sum(run->comm, deadline_ns, sum);
	char text[128];

	if (result != COMM_OK)
		return comm_failed(run, result);
	run->receipt.has_sum = true;
	printf("sum: %" PRIu64 " rows, %" PRIu64 " sums in %.1f ms, %" PRIu64 " wrong\n", sum->rows,
	       sum->sums, (double)sum->ns / NS_PER_MSEC, sum->wrong);
	if (sum->wrong == 0)
		return 0;
	snprintf(text, sizeof(text), "sum: %" PRIu64 " of %" PRIu64 " sums are wrong", sum->wrong,
		 sum->sums);
	return rank_fail(run, 0, text);
}

static int
gather_arena(struct rank_run *run, uint64_t deadline_ns)
{
	struct gather_result *gather = &run->receipt.gather;
	enum comm_result result;
	size_t bytes;
	const unsigned char *arena = load_arena(run->load, &bytes);
	char text[128];

	result = collective_gather(run->comm, arena, bytes, deadline_ns, gather);
	if (result != COMM_OK)
		return comm_failed(run, result);
	run->receipt.has_gather = true;
	printf("first collective: gather of %.1f MiB a rank in %.2f ms, busbw %.2f GB/s, %" PRIu64
	       " of %" PRIu64 " elements wrong\n",
	       (double)gather->bytes / (1 << 20), (double)gather->ns / NS_PER_MSEC,
	       gather_bus_bandwidth(gather, run->receipt.world_size) / 1e9, gather->wrong,
	       gather->elements);
	if (gather->wrong == 0)
		return 0;
	snprintf(text, sizeof(text),
		 "gather: %" PRIu64 " of %" PRIu64 " elements are wrong, the first is %" PRIu64
		 " of rank %u",
		 gather->wrong, gather->elements, gather->fault.index, gather->fault.rank);
	return rank_fail(run, 0, text);
}

int
rank_first_collective(struct rank_run *run)
{
	uint64_t deadline_ns = collective_deadline_ns(run);
	int error;

	receipt_mark(&run->receipt, MOMENT_COLLECTIVE_BEGIN);
	if ((error = tfrank_collective_begin(run->link, "gather")) != 0)
		return rank_link_failed(run, error);
	run->in_collective = true;
	if ((run->options->sum && sum_slots(run, deadline_ns) != 0) ||
	    gather_arena(run, deadline_ns) != 0)
		return -1;
	receipt_mark(&run->receipt, MOMENT_COLLECTIVE_DONE);
	run->in_collective = false;
	if ((error = tfrank_collective_done(run->link, "gather")) != 0)
		return rank_link_failed(run, error);
	return 0;
}

/* One turn of the work loop: the memory is still what was gathered. */
static int
work(struct rank_run *run)
{
	size_t bytes;
	const unsigned char *arena = load_arena(run->load, &bytes);
	int error;

	if (!collective_own_slot_holds(run->comm, arena, &run->receipt.gather))
		return rank_fail(run, 0, "the loaded weights are no longer what was gathered");
	if ((error = tfrank_watchdog(run->link)) != 0)
		return rank_link_failed(run, error);
	return 0;
}

int
rank_serve(struct rank_run *run)
{
	uint64_t next_ns = 0;
	int error;

	if (run->options->once) {
		run->receipt.outcome = OUTCOME_DONE;
		return -1;
	}
	receipt_mark(&run->receipt, MOMENT_SERVING);
	if ((error = tfrank_serving(run->link)) != 0)
		return rank_link_failed(run, error);
	printf("serving\n");
	do {
		if (run->options->watchdog_ns != 0 && work(run) != 0)
			return -1;
		next_ns = deadline_after(monotonic_ns(), run->options->watchdog_ns);
	} while ((link_watch_wait(run->watch, 0, next_ns) & WATCH_ENDS) == 0);
	return rank_ended(run);
}

/* What rank 1 does otherwise in a drill. */
#include "common/deadline.h"
#include "worker/rank_run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#define DRILLED_RANK 1
#define PACE_NS      (100 * NS_PER_MSEC)

bool
rank_is_drilled(const struct rank_run *run, enum drill drill)
{
	return run->options->drill == drill && run->receipt.rank == DRILLED_RANK;
}

bool
rank_drill_paces(const struct rank_run *run)
{
	return rank_is_drilled(run, DRILL_LATE) || rank_is_drilled(run, DRILL_GONE) ||
	       rank_is_drilled(run, DRILL_EOF);
}

/* Until the group ends, or for ever. */
static int
wait_for_end(struct rank_run *run)
{
	link_watch_wait(run->watch, 0, 0);
	return rank_ended(run);
}

int
rank_drill_before_hello(struct rank_run *run)
{
	if (!rank_is_drilled(run, DRILL_MISSING))
		return 0;
	printf("drill missing: says no hello\n");
	return wait_for_end(run);
}

int
rank_drill_after_go(struct rank_run *run)
{
	if (!rank_is_drilled(run, DRILL_TIMEOUT))
		return 0;
	printf("drill timeout: does not join the first collective\n");
	return wait_for_end(run);
}

/* Tells a load that is as far as the time between start and end, but never at its end. */
static void
tell_paced(struct rank_run *run, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t total = run->receipt.layers > 0 ? run->receipt.layers : 1;
	double part = (double)(monotonic_ns() - start_ns) / (double)(end_ns - start_ns);
	double most = 1 - 1 / (double)total;

	part = part > most ? most : part;
	tfrank_progress(run->link, (uint64_t)(part * (double)total + 1e-6), total,
			run->receipt.layers > 0 ? "layer" : "",
			(uint64_t)(part * (double)run->receipt.bytes), run->receipt.bytes);
}

/* -1 if the group ended before. */
static int
hold_until(struct rank_run *run, uint64_t end_ns)
{
	uint64_t start_ns = monotonic_ns(), now_ns;

	while ((now_ns = monotonic_ns()) < end_ns) {
		uint64_t next_ns = now_ns + PACE_NS < end_ns ? now_ns + PACE_NS : end_ns;

		tell_paced(run, start_ns, end_ns);
		if ((link_watch_wait(run->watch, 0, next_ns) & WATCH_ENDS) != 0)
			return rank_ended(run);
	}
	return 0;
}

/* The load of rank 1 ends `delay` after that of rank 0. */
static int
be_late(struct rank_run *run)
{
	uint64_t first_ready_ns;

	if (rank_join(run) != 0)
		return -1;
	if (host_comm_await_moment(run->comm, 0, &first_ready_ns, 0) != COMM_OK)
		return rank_ended(run);
	return hold_until(run, first_ready_ns + run->options->delay_ns);
}

static int
be_gone(struct rank_run *run)
{
	struct load_error error;

	load_error_set(&error, 0, "drill gone: the load was made to fail");
	return rank_failed(run, &error);
}

/* Closes the link and lives on until a signal. */
static int
close_link_only(struct rank_run *run)
{
	sigset_t set;
	int signal;

	printf("drill eof: closes its link\n");
	link_watch_end(run->watch);
	run->watch = NULL;
	receipt_mark(&run->receipt, MOMENT_LEAVE);
	tfrank_close(run->link);
	run->link = NULL;
	run->receipt.outcome = OUTCOME_LINK_CLOSED;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigwait(&set, &signal);
	return -1;
}

int
rank_drill_after_load(struct rank_run *run)
{
	if (!rank_drill_paces(run))
		return 0;
	if (rank_is_drilled(run, DRILL_LATE))
		return be_late(run);
	if (hold_until(run, run->receipt.moments[MOMENT_HELLO] + run->options->delay_ns) != 0)
		return -1;
	return rank_is_drilled(run, DRILL_GONE) ? be_gone(run) : close_link_only(run);
}

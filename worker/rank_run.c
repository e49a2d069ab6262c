#include "worker/rank_run.h"

#include "common/log.h"
#include "worker/way_out.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

int
rank_failed(struct rank_run *run, const struct load_error *error)
{
	run->receipt.outcome = OUTCOME_FAILED;
	run->receipt.error = *error;
	run->status = 1;
	log_warnx("%s", error->text);
	receipt_mark(&run->receipt, MOMENT_LEAVE);
	/* If it cannot be said, the end of the link says it. */
	tfrank_failed(run->link, error->text, error->error_number);
	return -1;
}

int
rank_fail(struct rank_run *run, int error_number, const char *text)
{
	struct load_error error;

	load_error_set(&error, error_number, "%s", text);
	return rank_failed(run, &error);
}

static int
aborted(struct rank_run *run)
{
	struct receipt *receipt = &run->receipt;

	receipt->outcome = OUTCOME_ABORTED;
	receipt->abort_rank = tfrank_abort_rank(run->link);
	snprintf(receipt->abort_reason, sizeof(receipt->abort_reason), "%s",
		 tfrank_abort_reason(run->link));
	snprintf(receipt->abort_detail, sizeof(receipt->abort_detail), "%s",
		 tfrank_abort_detail(run->link));
	run->status = 1;
	printf("the group is lost: %s: %s\n", receipt->abort_reason, receipt->abort_detail);
	return -1;
}

int
rank_ended(struct rank_run *run)
{
	unsigned seen = link_watch_seen(run->watch);
	struct receipt *receipt = &run->receipt;

	receipt->moments[MOMENT_END] = link_watch_end_moment(run->watch);
	if ((seen & WATCH_BIT(WATCH_ABORT)) != 0)
		return aborted(run);
	if ((seen & WATCH_BIT(WATCH_STOP)) != 0) {
		receipt->outcome =
		    receipt->moments[MOMENT_SERVING] != 0 ? OUTCOME_SERVED : OUTCOME_STOPPED;
	} else if ((seen & WATCH_BIT(WATCH_CLOSED)) != 0) {
		receipt->outcome = OUTCOME_CLOSED;
		run->status = 1;
		log_warnx("the supervisor has gone");
	} else if ((seen & WATCH_BIT(WATCH_SIGNAL)) != 0) {
		receipt->outcome = OUTCOME_SIGNALLED;
		run->signal = link_watch_signal(run->watch);
	} else {
		return rank_fail(run, EPROTO, link_watch_error(run->watch));
	}
	return -1;
}

int
rank_link_failed(struct rank_run *run, int error)
{
	char text[LOAD_ERROR_BYTES];

	if (error == -ECONNABORTED || error == -EPIPE || error == -ECANCELED) {
		link_watch_wait(run->watch, 0, 0);
		return rank_ended(run);
	}
	snprintf(text, sizeof(text), "link: %s", tfrank_error());
	return rank_fail(run, -error, text);
}

static int (*const course[])(struct rank_run *run) = {
    rank_open_link,
    rank_drill_before_hello,
    rank_open_checkpoint,
    rank_say_hello,
    rank_give_group_id,
    rank_load_weights,
    rank_join_if_given,
    rank_drill_after_load,
    rank_be_ready,
    rank_await_go,
    rank_join,
    rank_drill_after_go,
    rank_first_collective,
    rank_serve,
};

/* --- the way out --- */

static void
free_engine(void *arg)
{
	struct rank_run *run = arg;

	load_close(run->load);
	run->load = NULL;
}

static void
abort_communicator(void *arg)
{
	struct rank_run *run = arg;

	if (run->watch != NULL)
		link_watch_on_end(run->watch, NULL, NULL);
	host_comm_close(run->comm);
	run->comm = NULL;
}

/* Who leaves unasked must not close the link and then live on, be it for a moment: exit closes it.
 */
static void
close_link(void *arg)
{
	struct rank_run *run = arg;

	link_watch_end(run->watch);
	run->watch = NULL;
	receipt_mark(&run->receipt, MOMENT_LEAVE);
	if (run->receipt.outcome == OUTCOME_DONE)
		return;
	tfrank_close(run->link);
	run->link = NULL;
}

static void
write_receipt(void *arg)
{
	struct rank_run *run = arg;
	struct load_error error;

	receipt_mark(&run->receipt, MOMENT_EXIT);
	if (run->options->receipt == NULL ||
	    receipt_write(&run->receipt, run->options->receipt, &error) == 0)
		return;
	log_warnx("%s", error.text);
	run->status = 1;
}

static void
leave(struct rank_run *run)
{
	const struct way_out_step engine = {"free the engine", free_engine, run};
	const struct way_out_step communicator = {"abort the communicator", abort_communicator,
						  run};
	const struct way_out_step steps[] = {
	    run->in_collective ? communicator : engine,
	    run->in_collective ? engine : communicator,
	    {"close the link", close_link, run},
	    {"write the receipt", write_receipt, run},
	};

	way_out_arm(WAY_OUT_BOUND_NS, run->status);
	way_out_run(steps, sizeof(steps) / sizeof(steps[0]));
}

/* As the signal would have done: whoever waits for us sees what it was. */
static void
die_by(int signal_number)
{
	sigset_t set;

	fflush(NULL);
	sigemptyset(&set);
	sigaddset(&set, signal_number);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

int
rank_run(const struct rank_options *options)
{
	static struct rank_run run; /* its link may stay open until exit */
	sigset_t set;
	int error = way_out_init();

	if (error != 0) {
		log_warnx("timer: %s", strerror(error));
		return 1;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	run.options = options;
	receipt_mark(&run.receipt, MOMENT_START);
	for (size_t i = 0; i < sizeof(course) / sizeof(course[0]); i++)
		if (course[i](&run) != 0)
			break;
	leave(&run);
	if (run.signal != 0)
		die_by(run.signal);
	return run.status;
}

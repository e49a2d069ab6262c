/* The steps up to go. */
#include "worker/rank_run.h"

#include "common/deadline.h"
#include "common/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

int
rank_open_link(struct rank_run *run)
{
	int error = tfrank_open(&run->link);

	if (error != 0) {
		log_warnx("%s", tfrank_error());
		run->receipt.outcome = OUTCOME_FAILED;
		load_error_set(&run->receipt.error, 0, "%s", tfrank_error());
		run->status = 1;
		return -1;
	}
	if ((run->watch = link_watch_start(run->link)) == NULL)
		return rank_fail(run, errno, "link thread");
	run->receipt.rank = tfrank_rank(run->link);
	run->receipt.world_size = tfrank_world_size(run->link);
	run->receipt.epoch = tfrank_epoch(run->link);
	if (run->receipt.rank < 0 || run->receipt.world_size < 0 || run->receipt.epoch < 0)
		return rank_link_failed(run, -EPROTO);
	return 0;
}

int
rank_open_checkpoint(struct rank_run *run)
{
	struct load_error error;
	struct slice_totals totals;

	run->load =
	    load_open(run->options->dir, run->receipt.rank, run->receipt.world_size, &error);
	if (run->load == NULL)
		return rank_failed(run, &error);
	load_totals_get(run->load, &totals);
	run->receipt.bytes = totals.bytes;
	run->receipt.layers = load_layer_count(run->load);
	return 0;
}

/* Everything in which the ranks must agree: the checkpoint's table, how many we are, what we do. */
int
rank_say_hello(struct rank_run *run)
{
	const struct rank_options *options = run->options;
	char digest[LOAD_DIGEST_BYTES], settings[LOAD_DIGEST_BYTES + 16];
	int error;

	load_digest(run->load, digest);
	snprintf(settings, sizeof(settings), "%s%04x%02x", digest,
		 (unsigned)run->receipt.world_size & 0xffff,
		 (unsigned)(options->sum | options->once << 1));
	receipt_mark(&run->receipt, MOMENT_HELLO);
	if ((error = tfrank_hello(run->link, settings)) != 0)
		return rank_link_failed(run, error);
	return 0;
}

static void
tell_progress(const struct load_progress *progress, void *arg)
{
	struct rank_run *run = arg;

	if (rank_drill_paces(run))
		return;
	/* What cannot be said is not: the link thread knows better why. */
	tfrank_progress(run->link, progress->layers_done, progress->layers,
			progress->layers > 0 ? "layer" : "", progress->bytes_done, progress->bytes);
}

static void
cancel_load(void *load)
{
	load_cancel(load);
}

int
rank_load_weights(struct rank_run *run)
{
	struct load_options options = {
	    .threads = run->options->threads, .progress = tell_progress, .arg = run};
	uint64_t start_ns = monotonic_ns();
	struct load_error error;
	int result;

	link_watch_on_end(run->watch, cancel_load, run->load);
	result = load_run(run->load, &options, &error);
	link_watch_on_end(run->watch, NULL, NULL);
	if ((link_watch_seen(run->watch) & WATCH_ENDS) != 0)
		return rank_ended(run);
	if (result != 0)
		return rank_failed(run, &error);
	receipt_mark(&run->receipt, MOMENT_LOADED);
	run->receipt.load_ns = run->receipt.moments[MOMENT_LOADED] - start_ns;
	run->receipt.checksum = load_checksum(run->load);
	printf("loaded %" PRIu64 " layers, %.1f MiB in %.2f s (%.2f GB/s), checksum 0x%016" PRIx64
	       "\n",
	       run->receipt.layers, (double)run->receipt.bytes / (1 << 20),
	       (double)run->receipt.load_ns / NS_PER_SEC,
	       (double)run->receipt.bytes / ((double)run->receipt.load_ns + 1),
	       run->receipt.checksum);
	return 0;
}

int
rank_be_ready(struct rank_run *run)
{
	unsigned then = TFRANK_THEN_COLLECTIVE | (run->options->once ? 0 : TFRANK_THEN_SERVING);
	int error;

	if (rank_drill_paces(run))
		tfrank_progress(run->link, run->receipt.layers, run->receipt.layers,
				run->receipt.layers > 0 ? "layer" : "", run->receipt.bytes,
				run->receipt.bytes);
	receipt_mark(&run->receipt, MOMENT_READY);
	if (run->comm != NULL)
		host_comm_post_moment(run->comm, run->receipt.moments[MOMENT_READY]);
	if ((error = tfrank_ready(run->link, then)) != 0)
		return rank_link_failed(run, error);
	return 0;
}

int
rank_await_go(struct rank_run *run)
{
	if (!tfrank_supervised(run->link))
		link_watch_poke(run->watch);
	if ((link_watch_wait(run->watch, WATCH_BIT(WATCH_GO), 0) & WATCH_ENDS) != 0)
		return rank_ended(run);
	run->receipt.moments[MOMENT_GO] = link_watch_moment(run->watch, WATCH_GO);
	printf("waited %.3f s for go\n",
	       (double)(run->receipt.moments[MOMENT_GO] - run->receipt.moments[MOMENT_READY]) /
		   NS_PER_SEC);
	return 0;
}

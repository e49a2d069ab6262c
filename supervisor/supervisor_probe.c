/* Ranks that do not speak: what is asked of them, and what is read from their lines. */
#include "supervisor/supervisor.h"

#include "common/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIVE_PARTS   4 /* questions within one watchdog_timeout */
#define LINE_BYTES    1024
#define GROUPS_NEEDED 3 /* the whole and two numbers */

static void
on_ready(int rank, void *arg)
{
	struct supervisor *s = arg;
	struct probe *probe = s->ranks[rank].ready;

	s->ranks[rank].ready = NULL;
	supervisor_rank_event(s, rank, EVENT_PROBE_READY);
	probe_close(probe);
}

static void
on_alive(int rank, void *arg)
{
	supervisor_step(arg,
			(struct group_event){.kind = EVENT_WATCHDOG, .rank = rank, .notify = true});
}

static struct probe *
open_probe(struct supervisor *s, int rank, const char *spec, uint64_t every_ns,
	   probe_success success)
{
	struct environ_values values = supervisor_values(s, rank);
	struct brace_values braces = environ_braces(rank, &values);
	char *filled = brace_fill(spec, &braces), error[RUNDIR_ERROR_BYTES];
	struct probe *probe = NULL;

	if (filled != NULL)
		probe =
		    probe_open(s->base, rank, filled, every_ns, success, s, error, sizeof(error));
	if (probe == NULL)
		log_warnx("rank %d: %s", rank, filled != NULL ? error : "out of memory");
	free(filled);
	return probe;
}

static void
open_progress(struct rank_io *io, const char *spec)
{
	/* The configuration has compiled it once: only memory can fail. */
	io->has_progress =
	    spec != NULL && regcomp(&io->progress, strchr(spec, ':') + 1, REG_EXTENDED) == 0;
}

void
supervisor_open_probes(struct supervisor *s, int rank)
{
	const struct worker_settings *worker = config_worker(s->config, rank);

	open_progress(&s->ranks[rank], worker->progress);
	if (worker->ready == READY_PROBE)
		s->ranks[rank].ready = open_probe(s, rank, worker->ready_probe, 0, on_ready);
}

void
supervisor_watch_alive(struct supervisor *s, int rank)
{
	const struct worker_settings *worker = config_worker(s->config, rank);
	uint64_t timeout_ns = s->group.settings.timeout_ns[BOUND_WATCHDOG];

	if (worker->alive != NULL && timeout_ns > 0 && s->ranks[rank].alive == NULL)
		s->ranks[rank].alive =
		    open_probe(s, rank, worker->alive, timeout_ns / ALIVE_PARTS, on_alive);
}

void
supervisor_close_probes(struct supervisor *s, int rank)
{
	struct rank_io *io = &s->ranks[rank];

	probe_close(io->ready);
	probe_close(io->alive);
	io->ready = io->alive = NULL;
	if (io->has_progress)
		regfree(&io->progress);
	io->has_progress = false;
}

/* "layer 36 of 48" by "layer ([0-9]+) of ([0-9]+)"; the word before the first number is the unit.
 */
static void
read_progress(struct supervisor *s, int rank, const char *line)
{
	struct message m = {.verb = VERB_PROGRESS};
	struct group_event event = {
	    .kind = EVENT_OBSERVED, .rank = rank, .message = &m, .notify = true};
	regmatch_t found[GROUPS_NEEDED];

	if (regexec(&s->ranks[rank].progress, line, GROUPS_NEEDED, found, 0) != 0 ||
	    found[1].rm_so < 0 || found[2].rm_so < 0)
		return;
	m.progress.done = strtoull(line + found[1].rm_so, NULL, 10);
	m.progress.total = strtoull(line + found[2].rm_so, NULL, 10);
	if (m.progress.done <= m.progress.total)
		supervisor_step(s, event);
}

void
supervisor_on_line(int rank, const char *text, size_t len, void *arg)
{
	struct supervisor *s = arg;
	struct rank_io *io = &s->ranks[rank];
	char line[LINE_BYTES];

	probe_line(io->alive, text, len);
	if (io->has_progress) {
		snprintf(line, sizeof(line), "%.*s",
			 (int)(len < sizeof(line) ? len : sizeof(line) - 1), text);
		read_progress(s, rank, line);
	}
	probe_line(io->ready, text, len);
}

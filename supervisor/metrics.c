#include "supervisor/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PREFIX "tfsupervisor_"

/* A sample's value for one rank; false if the rank has none. */
typedef bool (*rank_value)(const struct rank *rank, double *value);

static bool
is_up(const struct rank *rank, double *value)
{
	*value = rank_is_alive(rank) && !rank->died ? 1 : 0;
	return true;
}

static bool
is_ready(const struct rank *rank, double *value)
{
	*value = rank->was_ready && !rank->died ? 1 : 0;
	return true;
}

/* By bytes where the rank tells them: layers differ in size. */
static bool
load_ratio(const struct rank *rank, double *value)
{
	const struct progress *progress = &rank->progress;

	if (rank->was_ready)
		*value = 1;
	else if (progress->bytes_total > 0)
		*value = (double)progress->bytes / (double)progress->bytes_total;
	else if (progress->total > 0)
		*value = (double)progress->done / (double)progress->total;
	else
		return false;
	return true;
}

static void
head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", name, help, name, type);
}

/* The format's own rule: backslash, quote and newline are escaped. */
static void
label(FILE *out, const char *name, const char *value)
{
	fprintf(out, "%s=\"", name);
	for (; *value != '\0'; value++) {
		if (*value == '\n')
			fputs("\\n", out);
		else if (*value == '\\' || *value == '"')
			fprintf(out, "\\%c", *value);
		else
			fputc(*value, out);
	}
	fputc('"', out);
}

/* NAME{group="demo", up to the second label. */
static void
begin(FILE *out, const char *name, const char *group)
{
	fprintf(out, PREFIX "%s{", name);
	label(out, "group", group);
}

static void
rank_metric(FILE *out, const struct status_source *source, const char *name, const char *help,
	    rank_value value_of)
{
	double value;

	head(out, name, "gauge", help);
	for (int i = 0; i < source->group->settings.world_size; i++) {
		if (!value_of(&source->group->ranks[i], &value))
			continue;
		begin(out, name, source->name);
		fprintf(out, ",rank=\"%d\"} %.10g\n", i, value);
	}
}

static void
counter(FILE *out, const struct status_source *source, const char *name, const char *help,
	uint64_t value)
{
	head(out, name, "counter", help);
	begin(out, name, source->name);
	fprintf(out, "} %" PRIu64 "\n", value);
}

static void
skew(FILE *out, const struct status_source *source)
{
	const char *name = "ready_skew_seconds";

	head(out, name, "gauge", "From the first rank ready to the last, in this epoch.");
	if (source->group->go_ns == 0)
		return;
	begin(out, name, source->name);
	fprintf(out, "} %.6f\n", (double)source->group->skew_ns / (double)NS_PER_SEC);
}

static void
failures(FILE *out, const struct status_source *source)
{
	const char *name = "failures_total";

	head(out, name, "counter", "Times the group was lost, by reason.");
	for (int i = REASON_NONE + 1; i < REASON_COUNT; i++) {
		begin(out, name, source->name);
		fputc(',', out);
		label(out, "reason", reason_word((enum reason)i));
		fprintf(out, "} %" PRIu64 "\n", source->group->failures_total[i]);
	}
}

static void
states(FILE *out, const struct status_source *source)
{
	const char *name = "state";

	head(out, name, "gauge", "1 for the state the group is in, 0 for the others.");
	for (int i = 0; i < GROUP_STATE_COUNT; i++) {
		begin(out, name, source->name);
		fputc(',', out);
		label(out, "state", group_state_word((enum group_state)i));
		fprintf(out, "} %d\n", source->group->state == (enum group_state)i);
	}
}

char *
metrics_text(const struct status_source *source, size_t *len)
{
	const struct group *group = source->group;
	char *text = NULL;
	bool failed;
	FILE *out;

	out = open_memstream(&text, len);
	if (out == NULL)
		return NULL;
	rank_metric(out, source, "rank_up", "1 while the rank's process lives.", is_up);
	rank_metric(out, source, "rank_ready", "1 from the rank's READY on.", is_ready);
	rank_metric(out, source, "load_progress_ratio", "How much of its load a rank has done.",
		    load_ratio);
	skew(out, source);
	counter(out, source, "go_total", "Times every rank was ready and go was said.",
		group->go_total);
	failures(out, source);
	counter(out, source, "restarts_total", "Times the whole group was started again.",
		group->restarts_total);
	states(out, source);
	failed = ferror(out) != 0;
	if (fclose(out) != 0 || failed) {
		free(text);
		return NULL;
	}
	return text;
}

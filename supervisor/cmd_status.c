#include "supervisor/canvas.h"
#include "supervisor/client.h"
#include "supervisor/cmd.h"

#include "common/log.h"
#include "common/reason.h"
#include "supervisor/narrate.h"
#include "supervisor/status_view.h"
#include "supervisor/watch.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define BAR_CELLS 20

static const char *run_dir;
static bool json, watch;

static const struct client_option options[] = {
    {"--json", &json, NULL},
    {"--watch", &watch, NULL},
    {"--run-dir", NULL, &run_dir},
    {NULL, NULL, NULL},
};

static const struct client_verb verb = {
    "tfsupervisor status [NAME] [--json | --watch] [--run-dir DIR]",
    "Shows how far every rank is; with --watch until the group has ended, or until q or Ctrl-C:\n"
    "in place on a terminal, else as a line for each change. NAME may be left out if one group\n"
    "is running.\n"
    "Exit status: 0 serving, or a job that runs; 3 not yet; 1 failed, or there is no such group;\n"
    "with --watch 0, or 1 if the group has failed meanwhile.\n",
    options,
};

static void
print_bar(double done, const char *color)
{
	char cells[BAR_CELLS + 1];

	for (int i = 0; i < BAR_CELLS; i++)
		cells[i] = i < (int)(done * BAR_CELLS) ? '#' : '.';
	cells[BAR_CELLS] = '\0';
	if (done < 0)
		memset(cells, ' ', BAR_CELLS);
	printf("[%s%s%s]", color, cells, color[0] != '\0' ? CANVAS_PLAIN : "");
}

static void
progress_text(const json_t *rank, char *out, size_t size)
{
	const json_t *progress = json_object_get(rank, "progress");
	const char *unit = view_text(progress, "unit");

	out[0] = '\0';
	if (!view_is_null(progress, "total"))
		snprintf(out, size, "%.0f/%.0f%s%s", view_number(progress, "done"),
			 view_number(progress, "total"), unit[0] != '\0' ? " " : "", unit);
}

static void
ago_text(const json_t *rank, const char *key, char *out, size_t size)
{
	if (view_is_null(rank, key))
		snprintf(out, size, "-");
	else
		format_elapsed((uint64_t)(view_number(rank, key) * 1e9), out, size);
}

static void
print_rank(const json_t *rank, bool colors)
{
	const char *state = view_text(rank, "state"), *gpu = view_text(rank, "gpu");
	const char *color = colors ? view_color(state) : "";
	char progress[96], rss[32], since[32], heard[32];

	progress_text(rank, progress, sizeof(progress));
	view_size(rank, rss, sizeof(rss));
	ago_text(rank, "state_seconds", since, sizeof(since));
	ago_text(rank, "last_heard_seconds", heard, sizeof(heard));
	printf("%4.0f  %-10s ", view_number(rank, "rank"), state);
	print_bar(view_fraction(rank), color);
	printf(" %-14s %-8s %-8s %-10s %7.0f  %-4s ", progress, since, heard, rss,
	       view_number(rank, "pid"), gpu[0] != '\0' ? gpu : "-");
	client_print(stdout, view_text(rank, "status_text"));
	printf("\n");
}

static void
print_reason(const json_t *reason)
{
	if (!json_is_object(reason))
		return;
	printf("%s: ", view_text(reason, "name"));
	if (!view_is_null(reason, "rank"))
		printf("rank %.0f: ", view_number(reason, "rank"));
	client_print(stdout, view_text(reason, "cause"));
	printf("\n");
}

static void
print_table(const json_t *status)
{
	const char *state = view_text(status, "state");
	bool colors = client_colors(stdout);
	const json_t *rank;
	size_t i;

	printf("%s: %s%s%s (%s, epoch %.0f, pid %.0f)\n", view_text(status, "group"),
	       colors ? view_color(state) : "", state, colors ? CANVAS_PLAIN : "",
	       view_text(status, "mode"), view_number(status, "epoch"), view_number(status, "pid"));
	print_reason(json_object_get(status, "reason"));
	printf("%4s  %-10s %-22s %-14s %-8s %-8s %-10s %7s  %-4s %s\n", "RANK", "STATE", "LOAD",
	       "PROGRESS", "SINCE", "HEARD", "MEMORY", "PID", "GPU", "SAYS");
	json_array_foreach(json_object_get(status, "ranks"), i, rank) print_rank(rank, colors);
}

static int
show(const struct client_group *group)
{
	struct client_answer answer;
	json_t *status;
	int result;

	if (client_request(group, "GET", "/status", &answer) != 0)
		return EXIT_FAILURE;
	status = json_loads(answer.body, 0, NULL);
	if (answer.status != 200 || status == NULL) {
		log_warnx("group %s: no status (HTTP %d)", group->name, answer.status);
		free(answer.body);
		return EXIT_FAILURE;
	}
	if (json)
		printf("%s\n", answer.body);
	else
		print_table(status);
	result = view_exit_status(status);
	json_decref(status);
	free(answer.body);
	return result;
}

int
cmd_status(int argc, char **argv)
{
	struct client_group group;
	const char *name;
	int status;

	status = client_options(argc, argv, &verb, &name);
	if (status >= 0)
		return status;
	if (json && watch) {
		log_warnx("--json and --watch are two ways to look: choose one");
		fprintf(stderr, "usage: %s\n", verb.usage);
		return EXIT_USAGE;
	}
	if (client_find(run_dir, name, &group) != 0)
		return EXIT_FAILURE;
	status = watch ? watch_group(&group) : show(&group);
	client_close(&group);
	return status;
}

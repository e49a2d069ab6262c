#include "supervisor/client.h"
#include "supervisor/cmd.h"

#include "common/log.h"
#include "supervisor/narrate.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_NOT_YET 3
#define BAR_CELLS    20
#define GREEN        "\033[32m"
#define YELLOW       "\033[33m"
#define RED          "\033[31m"
#define PLAIN        "\033[0m"

static const char *run_dir;
static bool json;

static const struct client_option options[] = {
    {"--json", &json, NULL},
    {"--run-dir", NULL, &run_dir},
    {NULL, NULL, NULL},
};

static const struct client_verb verb = {
    "tfsupervisor status [NAME] [--json] [--run-dir DIR]",
    "Shows how far every rank is. NAME may be left out if one group is running.\n"
    "Exit status: 0 serving, or a job that runs; 3 not yet; 1 failed, or there is no such group.\n",
    options,
};

static const char *
text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

static double
number_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static bool
is_null(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return value == NULL || json_is_null(value);
}

/* A job that nobody gates runs from its start on. */
static int
exit_status(const json_t *status)
{
	const char *state = text_of(status, "state");
	bool ungated = strcmp(text_of(status, "mode"), "job") == 0 &&
		       !json_is_true(json_object_get(status, "spoken"));

	if (strcmp(state, "serving") == 0)
		return EXIT_SUCCESS;
	if (strcmp(state, "failed") == 0 || strcmp(state, "stopped") == 0)
		return EXIT_FAILURE;
	if (strcmp(state, "stopping") == 0 && !is_null(status, "reason"))
		return EXIT_FAILURE;
	return strcmp(state, "starting") == 0 && ungated ? EXIT_SUCCESS : EXIT_NOT_YET;
}

/* 0 to 1; -1 if the rank told nothing. Who is ready has loaded everything. */
static double
fraction(const json_t *rank)
{
	const json_t *progress = json_object_get(rank, "progress");
	const char *state = text_of(rank, "state");
	double done = number_of(progress, "bytes"), total = number_of(progress, "bytes_total");

	if (strcmp(state, "ready") == 0 || strcmp(state, "collective") == 0 ||
	    strcmp(state, "warming") == 0 || strcmp(state, "serving") == 0)
		return 1;
	if (total <= 0) {
		done = number_of(progress, "done");
		total = number_of(progress, "total");
	}
	if (total <= 0)
		return -1;
	return done < total ? done / total : 1;
}

static const char *
color_of(const char *state)
{
	if (strcmp(state, "gone") == 0 || strcmp(state, "failed") == 0)
		return RED;
	if (strcmp(state, "serving") == 0 || strcmp(state, "ready") == 0)
		return GREEN;
	return YELLOW;
}

static void
print_bar(double done, const char *color)
{
	char cells[BAR_CELLS + 1];

	for (int i = 0; i < BAR_CELLS; i++)
		cells[i] = i < (int)(done * BAR_CELLS) ? '#' : '.';
	cells[BAR_CELLS] = '\0';
	if (done < 0)
		memset(cells, ' ', BAR_CELLS);
	printf("[%s%s%s]", color, cells, color[0] != '\0' ? PLAIN : "");
}

static void
progress_text(const json_t *rank, char *out, size_t size)
{
	const json_t *progress = json_object_get(rank, "progress");
	const char *unit = text_of(progress, "unit");

	out[0] = '\0';
	if (!is_null(progress, "total"))
		snprintf(out, size, "%.0f/%.0f%s%s", number_of(progress, "done"),
			 number_of(progress, "total"), unit[0] != '\0' ? " " : "", unit);
}

static void
size_text(const json_t *rank, char *out, size_t size)
{
	double bytes = number_of(rank, "rss_bytes");

	if (is_null(rank, "rss_bytes"))
		snprintf(out, size, "-");
	else if (bytes < 1024.0 * 1024 * 1024)
		snprintf(out, size, "%.1f MiB", bytes / 1024 / 1024);
	else
		snprintf(out, size, "%.1f GiB", bytes / 1024 / 1024 / 1024);
}

static void
ago_text(const json_t *rank, const char *key, char *out, size_t size)
{
	if (is_null(rank, key))
		snprintf(out, size, "-");
	else
		format_elapsed((uint64_t)(number_of(rank, key) * 1e9), out, size);
}

static void
print_rank(const json_t *rank, bool colors)
{
	const char *state = text_of(rank, "state"), *gpu = text_of(rank, "gpu");
	const char *color = colors ? color_of(state) : "";
	char progress[96], rss[32], since[32], heard[32];

	progress_text(rank, progress, sizeof(progress));
	size_text(rank, rss, sizeof(rss));
	ago_text(rank, "state_seconds", since, sizeof(since));
	ago_text(rank, "last_heard_seconds", heard, sizeof(heard));
	printf("%4.0f  %-10s ", number_of(rank, "rank"), state);
	print_bar(fraction(rank), color);
	printf(" %-14s %-8s %-8s %-10s %7.0f  %-4s ", progress, since, heard, rss,
	       number_of(rank, "pid"), gpu[0] != '\0' ? gpu : "-");
	client_print(stdout, text_of(rank, "status_text"));
	printf("\n");
}

static void
print_reason(const json_t *reason)
{
	if (!json_is_object(reason))
		return;
	printf("%s: ", text_of(reason, "name"));
	if (!is_null(reason, "rank"))
		printf("rank %.0f: ", number_of(reason, "rank"));
	client_print(stdout, text_of(reason, "cause"));
	printf("\n");
}

static void
print_table(const json_t *status)
{
	const char *state = text_of(status, "state");
	bool colors = client_colors(stdout);
	const json_t *rank;
	size_t i;

	printf("%s: %s%s%s (%s, epoch %.0f, pid %.0f)\n", text_of(status, "group"),
	       colors ? color_of(state) : "", state, colors ? PLAIN : "", text_of(status, "mode"),
	       number_of(status, "epoch"), number_of(status, "pid"));
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
	result = exit_status(status);
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
	if (client_find(run_dir, name, &group) != 0)
		return EXIT_FAILURE;
	status = show(&group);
	client_close(&group);
	return status;
}

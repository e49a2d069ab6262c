#include "supervisor/client.h"
#include "supervisor/client_reports.h"
#include "supervisor/cmd.h"
#include "supervisor/report.h"
#include "supervisor/why.h"

#include "common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *run_dir;
static bool list, json;

static const struct client_option options[] = {
    {"--list", &list, NULL},
    {"--json", &json, NULL},
    {"--run-dir", NULL, &run_dir},
    {NULL, NULL, NULL},
};

static const struct client_verb verb = {
    "tfsupervisor why [NAME] [--list] [--json] [--run-dir DIR]",
    "Tells what ended a group, also after it has gone: its last failure, or with --list its last\n"
    "ends. Without NAME that of the one group that is running, else the last of any group.\n"
    "Exit status: 0, or 1 if nothing is on record.\n",
    options,
};

static const char *
reason_time(const json_t *report)
{
	const char *time;

	time = json_string_value(json_object_get(json_object_get(report, "reason"), "time"));
	return time != NULL ? time : "";
}

/* What the living group knows of a loss may not have reached the state directory yet. */
static void
add_running(json_t *reports, const struct client_group *group)
{
	char path[PATH_MAX + sizeof(RUNDIR_REPORT) + 1];
	json_t *report;

	snprintf(path, sizeof(path), "%s/" RUNDIR_REPORT, group->path);
	report = json_load_file(path, 0, NULL);
	if (json_is_object(report) &&
	    strcmp(reason_time(report), reason_time(json_array_get(reports, 0))) > 0)
		json_array_insert(reports, 0, report);
	json_decref(report);
}

static const json_t *
last_failure(const json_t *reports)
{
	const json_t *report;
	size_t i;

	json_array_foreach(reports, i, report)
	{
		if (json_is_object(json_object_get(report, "reason")))
			return report;
	}
	return NULL;
}

static void
print_json(const json_t *document)
{
	if (json_dumpf(document, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(STATUS_DIGITS)) == 0)
		printf("\n");
}

static int
show_list(const json_t *reports)
{
	const json_t *report;
	size_t i;

	if (json) {
		print_json(reports);
		return EXIT_SUCCESS;
	}
	json_array_foreach(reports, i, report)
	{
		printf("%s  %s  epoch %lld  ", json_string_value(json_object_get(report, "time")),
		       json_string_value(json_object_get(report, "group")),
		       (long long)json_integer_value(json_object_get(report, "epoch")));
		client_print(stdout, json_string_value(json_object_get(report, "message")));
		printf("\n");
	}
	return EXIT_SUCCESS;
}

static int
show(const json_t *reports, const char *name, const char *state_dir)
{
	const json_t *failure = last_failure(reports);
	const char *whose = name != NULL ? name : "any group";

	if (json_array_size(reports) == 0) {
		log_warnx("no end of %s is on record in %s", whose, state_dir);
		return EXIT_FAILURE;
	}
	if (list)
		return show_list(reports);
	if (failure == NULL) {
		log_warnx("no failure of %s is on record in %s; the last ends are shown by --list",
			  whose, state_dir);
		return EXIT_FAILURE;
	}
	if (json)
		print_json(failure);
	else
		why_print(stdout, failure);
	return EXIT_SUCCESS;
}

int
cmd_why(int argc, char **argv)
{
	char state_dir[PATH_MAX];
	struct client_group group;
	const char *name;
	json_t *reports;
	bool running;
	int status;

	status = client_options(argc, argv, &verb, &name);
	if (status >= 0)
		return status;
	client_state_dir(state_dir);
	running = client_look(run_dir, name, &group) == 0;
	if (running && name == NULL)
		name = group.name;
	reports = client_reports(state_dir, name);
	if (running)
		add_running(reports, &group);
	status = show(reports, name, state_dir);
	json_decref(reports);
	if (running)
		client_close(&group);
	return status;
}

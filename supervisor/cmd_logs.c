#include "supervisor/client.h"
#include "supervisor/client_reports.h"
#include "supervisor/cmd.h"
#include "supervisor/logs.h"

#include "common/log.h"
#include "common/reason.h"
#include "supervisor/status_view.h"
#include "supervisor/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *run_dir, *rank_word;
static bool follow;

static const struct client_option options[] = {
    {"--rank", NULL, &rank_word},
    {"--follow", &follow, NULL},
    {"--run-dir", NULL, &run_dir},
    {NULL, NULL, NULL},
};

static const struct client_verb verb = {
    "tfsupervisor logs [NAME] [--rank N] [--follow] [--run-dir DIR]",
    "Prints what the ranks, or one of them, printed in this epoch; with --follow also what they\n"
    "go on to print, until the group has ended. Of a group that has gone: its last lines, from\n"
    "the last report. NAME may be left out if one group is running.\n"
    "Exit status: 0, or 1 if nothing is known of such a group.\n",
    options,
};

static bool
parse_rank(const char *word, int *rank)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(word, &end, 10);
	if (errno != 0 || end == word || *end != '\0' || n < 0 || n >= RANKS_MAX)
		return false;
	*rank = (int)n;
	return true;
}

static int
print_tail(int rank, const json_t *lines)
{
	const json_t *line;
	size_t i;

	json_array_foreach(lines, i, line)
	{
		const char *text = json_string_value(line);

		logs_print(rank, text, text == NULL ? 0 : strlen(text));
	}
	return (int)json_array_size(lines);
}

static int
print_tails(const json_t *report, int wanted)
{
	const json_t *reason = json_object_get(report, "reason"), *rank;
	const json_t *lost = json_object_get(reason, "rank");
	int lines = 0;
	size_t i;

	json_array_foreach(json_object_get(report, "ranks"), i, rank)
	{
		bool is_lost = json_is_integer(lost) && json_integer_value(lost) == (json_int_t)i;

		if (wanted >= 0 && (size_t)wanted != i)
			continue;
		lines += print_tail((int)i, json_object_get(is_lost ? reason : rank, "log_tail"));
	}
	return lines;
}

/* 0 or 1; -1 if nothing is on record. */
static int
show_report(const char *name, int rank)
{
	char state_dir[PATH_MAX];
	const json_t *report;
	json_t *reports;

	client_state_dir(state_dir);
	reports = client_reports(state_dir, name);
	report = json_array_get(reports, 0);
	if (report == NULL) {
		json_decref(reports);
		return -1;
	}
	log_info("group %s has gone: these are its last lines, of epoch %lld, which ended at %s",
		 view_text(report, "group"),
		 (long long)json_integer_value(json_object_get(report, "epoch")),
		 view_text(report, "time"));
	if (print_tails(report, rank) == 0)
		log_info("nothing was printed%s", rank >= 0 ? " by this rank" : "");
	json_decref(reports);
	return EXIT_SUCCESS;
}

int
cmd_logs(int argc, char **argv)
{
	struct client_group group;
	const char *name;
	int status, found, rank = -1;

	status = client_options(argc, argv, &verb, &name);
	if (status >= 0)
		return status;
	if (rank_word != NULL && !parse_rank(rank_word, &rank)) {
		log_warnx("--rank wants a number from 0 to %d, not \"%s\"", RANKS_MAX - 1,
			  rank_word);
		fprintf(stderr, "usage: %s\n", verb.usage);
		return EXIT_USAGE;
	}
	found = client_look(run_dir, name, &group);
	if (found == -1 && (status = show_report(name, rank)) >= 0)
		return status;
	if (found != 0 && client_find(run_dir, name, &group) != 0)
		return EXIT_FAILURE;
	status = logs_show(&group, rank, follow);
	client_close(&group);
	return status;
}

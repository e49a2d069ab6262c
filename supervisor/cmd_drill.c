/* drill: a self-test with a receipt. */
#include "supervisor/cmd.h"

#include "common/duration.h"
#include "common/log.h"
#include "common/reason.h"
#include "supervisor/config.h"
#include "supervisor/drill.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DELAY_LEAST_NS (50 * NS_PER_MSEC)
#define DELAY_MOST_NS  (3600 * NS_PER_SEC)

static const char usage[] =
    "usage: tfsupervisor drill late|gone|sum|eof|missing|timeout [--ranks N] [--delay D]\n"
    "           [--backend host|cuda] [--model DIR] [--json]\n";

static const char help[] =
    "Runs a real group, of which rank 1 does something wrong, and judges what was seen.\n"
    "  late     ends its load D (35s) after rank 0: all start, none waits in a collective\n"
    "  gone     leaves after D (1s), as a failed load does: RankDisconnected\n"
    "  sum      nothing wrong: sums of expert slots equal the reference on every rank\n"
    "  eof      closes its link after D (1s) and lives on: RankDisconnected, link-closed\n"
    "  missing  never says hello: RankTimeout of the ready bound, D (2s)\n"
    "  timeout  never joins the first collective: RankTimeout of the collective bound, D (2s)\n"
    "Exit status: 0 PASS, 1 FAIL or not run, 64 usage.\n";

static const struct option options[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"delay", required_argument, NULL, 'd'},
    {"backend", required_argument, NULL, 'b'},
    {"model", required_argument, NULL, 'm'},
    {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int
bad_usage(const char *what, const char *word)
{
	log_warnx("drill: %s: \"%s\"", what, word);
	fputs(usage, stderr);
	return EXIT_USAGE;
}

static int
take_mode(const char *word, struct drill *drill)
{
	for (int mode = 0; mode < DRILL_MODE_COUNT; mode++)
		if (strcmp(word, drill_word((enum drill_mode)mode)) == 0) {
			drill->mode = (enum drill_mode)mode;
			return 0;
		}
	return bad_usage("the mode is late, gone, sum, eof, missing or timeout", word);
}

/* 0, or the exit status. */
static int
take_option(int option, struct drill *drill, bool *json)
{
	char *end;
	long n;

	switch (option) {
	case 'n':
		n = strtol(optarg, &end, 10);
		if (*optarg < '0' || *optarg > '9' || *end != '\0' || n < 2 || n > RANKS_MAX)
			return bad_usage("--ranks takes a number from 2 to 1024", optarg);
		drill->ranks = (int)n;
		return 0;
	case 'd':
		if (parse_duration(optarg, &drill->delay_ns) != 0 ||
		    drill->delay_ns < DELAY_LEAST_NS || drill->delay_ns > DELAY_MOST_NS)
			return bad_usage("--delay takes 50ms to 1h", optarg);
		return 0;
	case 'b':
		drill->backend = optarg;
		if (strcmp(optarg, "host") != 0 && strcmp(optarg, "cuda") != 0)
			return bad_usage("--backend is host or cuda", optarg);
		return 0;
	case 'm':
		drill->model = optarg;
		return 0;
	default:
		*json = true;
		return 0;
	}
}

static int
parse(int argc, char **argv, struct drill *drill, bool *json)
{
	int option, status;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?')
			return bad_usage("unknown option, or one without its value",
					 argv[optind - 1]);
		if (option == 'h') {
			printf("%s%s", usage, help);
			exit(EXIT_SUCCESS);
		}
		if ((status = take_option(option, drill, json)) != 0)
			return status;
	}
	if (optind != argc - 1)
		return bad_usage("one mode at a time", optind < argc ? argv[optind + 1] : "");
	if ((status = take_mode(argv[optind], drill)) != 0)
		return status;
	if (drill->delay_ns == 0)
		drill->delay_ns = drill_default_delay_ns(drill->mode);
	return 0;
}

/* --- finding the programs --- */

static int
find_in_path(const char *name, char out[PATH_MAX])
{
	const char *path = getenv("PATH");

	while (path != NULL && *path != '\0') {
		int len = (int)strcspn(path, ":");

		if (len > 0 && len < PATH_MAX - 32) {
			snprintf(out, PATH_MAX, "%.*s/%s", len, path, name);
			if (access(out, X_OK) == 0)
				return 0;
		}
		path += len + (path[len] == ':');
	}
	return -1;
}

static int
find_programs(struct drill *drill)
{
	ssize_t n = readlink("/proc/self/exe", drill->supervisor, sizeof(drill->supervisor) - 1);
	int folder;

	if (n <= 0 || n > PATH_MAX - 32) {
		log_warn("/proc/self/exe");
		return -1;
	}
	drill->supervisor[n] = '\0';
	folder = (int)(strrchr(drill->supervisor, '/') - drill->supervisor);
	snprintf(drill->worker, sizeof(drill->worker), "%.*s/tfworker", folder, drill->supervisor);
	if (access(drill->worker, X_OK) == 0 || find_in_path("tfworker", drill->worker) == 0)
		return 0;
	log_warnx("drill: no tfworker beside %s, nor in PATH", drill->supervisor);
	return -1;
}

/* --- telling --- */

static void
print_table(const struct drill *drill, const struct drill_result *result, const json_t *checks)
{
	const char *message = json_string_value(json_object_get(result->report, "message"));
	char delay[DURATION_TEXT_BYTES];
	const json_t *check;
	size_t i;

	format_duration(drill->delay_ns, delay, sizeof(delay));
	printf("drill %s, %d ranks, delay %s, backend %s\n", drill_word(drill->mode), drill->ranks,
	       delay, drill->backend);
	printf("  %-38s %-22s %s\n", "check", "measured", "promised");
	json_array_foreach(checks, i, check)
	{
		printf("  %-38s %-22s %-20s %s\n",
		       json_string_value(json_object_get(check, "check")),
		       json_string_value(json_object_get(check, "measured")),
		       json_string_value(json_object_get(check, "bound")),
		       json_is_true(json_object_get(check, "ok")) ? "ok" : "WRONG");
	}
	if (message != NULL)
		printf("  last line: %s\n", message);
	printf("%s\n", drill_passed(checks) ? "PASS" : "FAIL");
}

static void
print_json(const struct drill *drill, const struct drill_result *result, json_t *checks)
{
	json_t *document = json_pack(
	    "{s:s, s:s, s:i, s:I, s:s, s:i, s:O, s:O?, s:O}", "mode", drill_word(drill->mode),
	    "verdict", drill_passed(checks) ? "PASS" : "FAIL", "ranks", drill->ranks, "delay_ms",
	    (json_int_t)(drill->delay_ns / NS_PER_MSEC), "backend", drill->backend, "exit_status",
	    result->status, "checks", checks, "report", result->report, "receipts",
	    result->receipts);

	if (document != NULL && json_dumpf(document, stdout, JSON_INDENT(1)) == 0)
		printf("\n");
	json_decref(document);
}

static int
tell(const struct drill *drill, const struct drill_result *result, bool json)
{
	json_t *checks = drill_judge(drill, result);
	bool passed = drill_passed(checks);

	if (json)
		print_json(drill, result, checks);
	else
		print_table(drill, result, checks);
	json_decref(checks);
	return passed && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
cmd_drill(int argc, char **argv)
{
	struct drill drill = {.ranks = 2, .backend = "host"};
	char error[DRILL_ERROR_BYTES], model[PATH_MAX];
	struct drill_result result;
	bool json = false;
	int interrupted, status = parse(argc, argv, &drill, &json);

	if (status != 0)
		return status;
	if (drill.model != NULL) {
		if (realpath(drill.model, model) == NULL) {
			log_warn("drill: --model %s", drill.model);
			return EXIT_FAILURE;
		}
		drill.model = model;
	}
	if (find_programs(&drill) != 0)
		return EXIT_FAILURE;
	drill_bounds(&drill);
	if (drill_run(&drill, &result, &interrupted, error) != 0) {
		log_warnx("drill %s: not run: %s", drill_word(drill.mode), error);
		return EXIT_FAILURE;
	}
	if (interrupted == 0)
		status = tell(&drill, &result, json);
	else
		log_warnx("drill %s: interrupted", drill_word(drill.mode));
	drill_result_free(&result);
	return interrupted == 0 ? status : 128 + interrupted;
}

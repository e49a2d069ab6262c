/* run: the group in the foreground. */
#include "common/log.h"
#include "supervisor/cmd.h"
#include "supervisor/config.h"
#include "supervisor/guard.h"
#include "supervisor/supervisor.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: tfsupervisor run FILE or NAME [--set SECTION.KEY=VALUE]... [OPTIONS]\n"
    "       tfsupervisor run [--ranks N] [--set SECTION.KEY=VALUE]... [OPTIONS] -- COMMAND...\n"
    "options: --run-dir DIR, --log-format text|json, --prefix auto|never\n";

struct arguments {
	struct run_options options;
	const char *file, *word; /* word: being looked at */
	char **command;          /* NULL: none */
	char **sets;             /* [sets_len] */
	size_t sets_len;
	int ranks; /* 0: not given */
};

struct supervision {
	struct config *config;
	const struct run_options *options;
};

static int
supervise_from_guard(const struct guard *guard, void *arg)
{
	struct supervision *supervision = arg;

	return supervise(guard, supervision->config, supervision->options);
}

/* A supervisor that was killed leaves its folder: opening it cleans it, closing removes it. */
static void
clean_up_after(void *arg)
{
	const struct supervision *supervision = arg;
	char error[RUNDIR_ERROR_BYTES];
	struct rundir dir;

	if (rundir_open(&dir, supervision->options->run_dir, supervision->config->run_dir,
			supervision->config->name, getpid(), error, sizeof(error)) == 0)
		rundir_close(&dir);
}

static int
bad_usage(const char *what, const char *word)
{
	fprintf(stderr, "tfsupervisor: run: %s%s%s\n%s", what, word[0] != '\0' ? ": " : "", word,
		usage);
	return EXIT_USAGE;
}

static int
take_ranks(struct arguments *a, const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end != '\0' || n < 1 || n > RANKS_MAX)
		return bad_usage("--ranks takes a number from 1 to 1024", text);
	a->ranks = (int)n;
	return 0;
}

static int
take_option(struct arguments *a, int option)
{
	switch (option) {
	case 's':
		a->sets[a->sets_len++] = optarg;
		return 0;
	case 'n':
		return take_ranks(a, optarg);
	case 'd':
		a->options.run_dir = optarg;
		return 0;
	case 'f':
		a->options.log_format =
		    strcmp(optarg, "json") == 0 ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
		if (strcmp(optarg, "json") != 0 && strcmp(optarg, "text") != 0)
			return bad_usage("--log-format is text or json", optarg);
		return 0;
	case 'p':
		a->options.prefix = strcmp(optarg, "never") != 0;
		if (strcmp(optarg, "never") != 0 && strcmp(optarg, "auto") != 0)
			return bad_usage("--prefix is auto or never", optarg);
		return 0;
	case 'h':
		fputs(usage, stdout);
		exit(EXIT_SUCCESS);
	default:
		return bad_usage("unknown option, or one without its value", a->word);
	}
}

/* What stands behind "--" is the command, whatever it looks like. */
static int
split_command(int argc, char **argv, char ***command)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") != 0)
			continue;
		*command = argv + i + 1;
		argv[i] = NULL;
		return i;
	}
	*command = NULL;
	return argc;
}

static int
parse_arguments(int argc, char **argv, struct arguments *a)
{
	static const struct option options[] = {{"set", required_argument, NULL, 's'},
						{"ranks", required_argument, NULL, 'n'},
						{"run-dir", required_argument, NULL, 'd'},
						{"log-format", required_argument, NULL, 'f'},
						{"prefix", required_argument, NULL, 'p'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	int option, status;

	argc = split_command(argc, argv, &a->command);
	opterr = 0;
	while (a->word = argv[optind] != NULL ? argv[optind] : "",
	       (option = getopt_long(argc, argv, "", options, NULL)) != -1)
		if ((status = take_option(a, option)) != 0)
			return status;
	if (optind < argc)
		a->file = argv[optind++];
	if (optind < argc)
		return bad_usage("one FILE or NAME at a time", argv[optind]);
	if (a->file != NULL && a->command != NULL)
		return bad_usage("a FILE, or a COMMAND behind --, not both", a->file);
	if (a->file == NULL && (a->command == NULL || a->command[0] == NULL))
		return bad_usage("a FILE, a NAME or -- COMMAND is missing", "");
	return 0;
}

static int
load(struct arguments *a, struct config *config, struct config_error *error)
{
	char path[PATH_MAX], name[GROUP_NAME_MAX_BYTES + 1], ranks[32];

	if (a->command != NULL) {
		snprintf(name, sizeof(name), "run-%d", (int)getpid());
		return config_from_command(name, a->command, a->ranks, a->sets, a->sets_len, config,
					   error);
	}
	if (a->ranks > 0) {
		snprintf(ranks, sizeof(ranks), "group.ranks=%d", a->ranks);
		a->sets[a->sets_len++] = ranks;
	}
	if (config_find(a->file, path, sizeof(path), error) != 0)
		return -1;
	return config_load(path, a->sets, a->sets_len, config, error);
}

int
cmd_run(int argc, char **argv)
{
	struct arguments a = {.options = {.prefix = true}};
	struct config config;
	struct config_error error;
	struct supervision supervision = {&config, &a.options};
	const struct guarded program = {supervise_from_guard, clean_up_after, &supervision};
	int status;

	if (spawn_reserve() != 0)
		fatal(EXIT_LOOP, "descriptors");
	if ((a.sets = calloc((size_t)argc + 1, sizeof(*a.sets))) == NULL)
		fatal(EXIT_LOOP, "run");
	if ((status = parse_arguments(argc, argv, &a)) == 0) {
		if (load(&a, &config, &error) != 0) {
			log_warnx("%s", error.text);
			status = EXIT_CONFIG;
		} else {
			log_init("tfsupervisor", config.name);
			status = guard_run(&program, config.pid_namespace);
			config_free(&config);
		}
	}
	free(a.sets);
	return status;
}

#include "supervisor/cmd.h"

#include "common/log.h"
#include "common/reason.h"
#include "supervisor/check_print.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define USAGE                                                                                      \
	"usage: tfsupervisor check FILE or NAME [--set SECTION.KEY=VALUE]...\n"                    \
	"       tfsupervisor check [--ranks N] [--set SECTION.KEY=VALUE]... -- COMMAND...\n"
#define HELP                                                                                       \
	"Validates, and prints what a start would do: ranks, GPUs, bounds, commands, "             \
	"environment,\n"                                                                           \
	"and where each value came from. Starts nothing. Exit status: 0 valid, 78 invalid, 64 "    \
	"usage.\n"

struct arguments {
	const char *file;
	char *const *command;
	int ranks;   /* 0: not given */
	char **sets; /* [sets_len] */
	size_t sets_len;
};

static int
usage(const char *what, const char *word)
{
	log_warnx("check: %s%s%s%s", what, *word != '\0' ? " \"" : "", word,
		  *word != '\0' ? "\"" : "");
	fputs(USAGE, stderr);
	return EXIT_USAGE;
}

static int
unknown_option(const char *word)
{
	static const char *const options[] = {"--set", "--ranks", "--help"};
	const char *near = nearest_word(word, options, sizeof(options) / sizeof(options[0]));
	char what[64];

	if (near == NULL)
		return usage("unknown option", word);
	snprintf(what, sizeof(what), "did you mean %s? Unknown option", near);
	return usage(what, word);
}

/*
 * True if argv[*i] is the option `name`; *value is what stands behind its '=', or the next word, ""
 * if there is none.
 */
static bool
is_option(int argc, char **argv, int *i, const char *name, const char **value)
{
	size_t len = strlen(name);
	const char *word = argv[*i];

	if (strncmp(word, name, len) != 0 || (word[len] != '\0' && word[len] != '='))
		return false;
	if (word[len] == '=')
		*value = word + len + 1;
	else
		*value = *i + 1 < argc ? argv[++*i] : "";
	return true;
}

static int
read_ranks(const char *text, int *ranks)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (*text < '0' || *text > '9' || *end != '\0' || number < 1 || number > RANKS_MAX)
		return usage("--ranks wants a number from 1 to 1024, not", text);
	*ranks = (int)number;
	return 0;
}

/* 0, or the exit status. */
static int
read_argument(int argc, char **argv, int *i, struct arguments *arguments)
{
	const char *value;

	if (strcmp(argv[*i], "--") == 0) {
		arguments->command = argv + *i + 1;
		*i = argc;
		return 0;
	}
	if (is_option(argc, argv, i, "--set", &value)) {
		if (*value == '\0')
			return usage("--set wants SECTION.KEY=VALUE", "");
		arguments->sets[arguments->sets_len++] = (char *)value;
		return 0;
	}
	if (is_option(argc, argv, i, "--ranks", &value))
		return read_ranks(value, &arguments->ranks);
	if (argv[*i][0] == '-')
		return unknown_option(argv[*i]);
	if (arguments->file != NULL)
		return usage("one FILE is enough, what is", argv[*i]);
	arguments->file = argv[*i];
	return 0;
}

static int
read_arguments(int argc, char **argv, struct arguments *arguments)
{
	int status = 0;

	for (int i = 1; i < argc && status == 0; i++)
		status = read_argument(argc, argv, &i, arguments);
	if (status != 0)
		return status;
	if (arguments->file != NULL && arguments->command != NULL)
		return usage("FILE or -- COMMAND, not both", "");
	if (arguments->file == NULL &&
	    (arguments->command == NULL || arguments->command[0] == NULL))
		return usage("FILE or -- COMMAND is missing", "");
	return 0;
}

static int
load(struct arguments *arguments, struct config *config, struct config_error *error)
{
	char path[PATH_MAX], name[GROUP_NAME_MAX_BYTES + 1], ranks[32];

	if (arguments->file == NULL) {
		snprintf(name, sizeof(name), "run-%ld", (long)getpid());
		return config_from_command(name, arguments->command, arguments->ranks,
					   arguments->sets, arguments->sets_len, config, error);
	}
	if (arguments->ranks > 0) {
		snprintf(ranks, sizeof(ranks), "group.ranks=%d", arguments->ranks);
		arguments->sets[arguments->sets_len++] = ranks;
	}
	if (config_find(arguments->file, path, sizeof(path), error) != 0)
		return -1;
	return config_load(path, arguments->sets, arguments->sets_len, config, error);
}

static int
check(struct arguments *arguments)
{
	struct check checked = {0};
	struct config_error error;
	int status = EXIT_CONFIG;

	if (load(arguments, &checked.config, &error) != 0) {
		log_warnx("%s", error.text);
		return status;
	}
	if (check_gpus_here(&checked, &error) == 0) {
		check_print(&checked, stdout);
		status = EXIT_SUCCESS;
	} else {
		log_warnx("%s", error.text);
	}
	gpus_free(&checked.gpus);
	config_free(&checked.config);
	return status;
}

int
cmd_check(int argc, char **argv)
{
	struct arguments arguments = {.sets = calloc((size_t)argc, sizeof(*arguments.sets))};
	int status;

	if (arguments.sets == NULL)
		fatalx(EXIT_FAILURE, "out of memory");
	if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		fputs(USAGE HELP, stdout);
		free(arguments.sets);
		return EXIT_SUCCESS;
	}
	status = read_arguments(argc, argv, &arguments);
	if (status == 0)
		status = check(&arguments);
	free(arguments.sets);
	if (status == 0 && fflush(stdout) != 0)
		fatal(EXIT_FAILURE, "standard output");
	return status;
}

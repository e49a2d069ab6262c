/* The table of verbs: dispatch, help and usage come from it. */
#include "common/log.h"
#include "common/message.h"
#include "supervisor/cmd.h"
#include "supervisor/config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>
#include <jansson.h>

#define EXIT_OS_ERROR 71

static const struct verb_entry {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *synopsis, *help;
} table[] = {
    {"run", cmd_run, "FILE or NAME [--set SECTION.KEY=VALUE]... | [--ranks N] -- COMMAND...",
     "run a group in the foreground"},
    {"check", cmd_check, "FILE [--set SECTION.KEY=VALUE]... | [--ranks N] -- COMMAND...",
     "validate and print what would happen"},
    {"status", cmd_status, "[NAME] [--json | --watch]", "how far every rank is"},
    {"health", cmd_health, "[NAME] [--startup | --ready | --live]", "exit 0 or 1, for probes"},
    {"stop", cmd_stop, "[NAME]", "stop a group; return when its tree is empty"},
    {"restart", cmd_restart, "[NAME]", "start all ranks anew; return when they serve again"},
    {"logs", cmd_logs, "[NAME] [--rank N] [--follow]", "what the ranks printed"},
    {"events", cmd_events, "[NAME] [--follow]", "every transition as a line of JSON"},
    {"why", cmd_why, "[NAME] [--list]", "what ended a group, also after it has gone"},
    {"drill", cmd_drill,
     "MODE [--ranks N] [--delay D] [--backend host|cuda] [--model DIR] [--json]",
     "self-test with a receipt; MODE is late, gone, sum, eof, missing or timeout"},
};

#define VERBS_LEN (sizeof(table) / sizeof(table[0]))

static void
print_help(FILE *out)
{
	fprintf(out,
		"usage: tfsupervisor VERB [ARGUMENTS]\n"
		"Starts the ranks of a tensor-parallel model, says go when every one is ready,\n"
		"and ends them all, with the reason, when one is lost.\n\n");
	for (size_t i = 0; i < VERBS_LEN; i++)
		fprintf(out, "  %-7s %s\n          %s\n", table[i].name, table[i].synopsis,
			table[i].help);
	fprintf(out, "\n  --help, --version\n");
}

static void
print_version(void)
{
	printf("tfsupervisor %s (protocol %d, libevent %s, jansson %s, inih)\n", TF_VERSION,
	       PROTOCOL_VERSION, event_get_version(), JANSSON_VERSION);
}

/* Whoever starts us may have closed them: a descriptor of ours must never be taken for one. */
static void
open_standard_descriptors(void)
{
	int fd;

	do {
		if ((fd = open("/dev/null", O_RDWR)) < 0)
			_exit(EXIT_OS_ERROR);
	} while (fd <= STDERR_FILENO);
	close(fd);
}

static int
unknown_verb(const char *word)
{
	const char *names[VERBS_LEN], *near;

	for (size_t i = 0; i < VERBS_LEN; i++)
		names[i] = table[i].name;
	near = nearest_word(word, names, VERBS_LEN);
	fprintf(stderr, "tfsupervisor: there is no verb \"%s\"%s%s%s\n", word,
		near != NULL ? ", did you mean \"" : "", near != NULL ? near : "",
		near != NULL ? "\"?" : "");
	print_help(stderr);
	return EXIT_USAGE;
}

int
main(int argc, char **argv)
{
	sigset_t all;

	/* Held from the first instruction: a stop that comes now is a stop, not our death. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	open_standard_descriptors();
	log_init("tfsupervisor", NULL);
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_help(stdout);
		return EXIT_SUCCESS;
	}
	if (strcmp(argv[1], "--version") == 0) {
		print_version();
		return EXIT_SUCCESS;
	}
	for (size_t i = 0; i < VERBS_LEN; i++)
		if (strcmp(argv[1], table[i].name) == 0)
			return table[i].run(argc - 1, argv + 1);
	return unknown_verb(argv[1]);
}

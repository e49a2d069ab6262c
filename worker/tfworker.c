/* The bundled worker: one table of verbs that dispatches and prints the help. */
#include "worker/cmd.h"

#include "common/log.h"

#include <stdio.h>
#include <string.h>

#ifndef TF_VERSION
#error "TF_VERSION comes from the build"
#endif

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} verbs[] = {
    {"rank", cmd_rank, "load, wait for go, first collective, serve: a rank of a group"},
    {"synth", cmd_synth, "write a checkpoint of a model's shape, with made-up weights"},
    {"plan", cmd_plan, "show what each rank would read of a checkpoint"},
    {"verify", cmd_verify, "check a checkpoint and print its checksum"},
};

#define VERB_COUNT (sizeof(verbs) / sizeof(verbs[0]))

static void
print_help(FILE *out)
{
	fprintf(out, "usage: tfworker VERB [ARGUMENTS]\n");
	for (size_t i = 0; i < VERB_COUNT; i++)
		fprintf(out, "  %-8s %s\n", verbs[i].name, verbs[i].help);
	fprintf(out, "  tfworker VERB alone shows its usage; tfworker --version\n");
}

int
main(int argc, char **argv)
{
	log_init("tfworker", NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_help(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("tfworker %s\n", TF_VERSION);
		return 0;
	}
	for (size_t i = 0; i < VERB_COUNT; i++)
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	log_warnx("%s: no such verb", argv[1]);
	print_help(stderr);
	return EXIT_USAGE;
}

#include "supervisor/client.h"
#include "supervisor/cmd.h"

#include "common/log.h"
#include "common/reason.h"

#include <stdlib.h>
#include <string.h>

static const char *run_dir;
static bool startup, ready, live;

static const struct client_option options[] = {
    {"--startup", &startup, NULL}, {"--ready", &ready, NULL}, {"--live", &live, NULL},
    {"--run-dir", NULL, &run_dir}, {NULL, NULL, NULL},
};

static const struct client_verb verb = {
    "tfsupervisor health [NAME] [--startup | --ready | --live] [--run-dir DIR]",
    "For probes: --startup after go, --ready (the default) while serving, --live unless failed.\n"
    "NAME may be left out if one group is running.\n"
    "Exit status: 0 yes, 1 no, or there is no such group.\n",
    options,
};

/* Exit status 0 if the probe says yes; its word is printed in either case. */
static int
ask(const struct client_group *group, const char *path)
{
	struct client_answer answer;
	int status;

	if (client_request(group, "GET", path, &answer) != 0)
		return EXIT_FAILURE;
	status = answer.status == 200 ? EXIT_SUCCESS : EXIT_FAILURE;
	client_print(stdout, group->name);
	printf(": ");
	answer.body[strcspn(answer.body, "\n")] = '\0';
	client_print(stdout, answer.body);
	printf("\n");
	free(answer.body);
	return status;
}

int
cmd_health(int argc, char **argv)
{
	struct client_group group;
	const char *name;
	int status;

	status = client_options(argc, argv, &verb, &name);
	if (status >= 0)
		return status;
	if (startup + ready + live > 1) {
		log_warnx("--startup, --ready and --live ask different questions: choose one");
		fprintf(stderr, "usage: %s\n", verb.usage);
		return EXIT_USAGE;
	}
	if (client_find(run_dir, name, &group) != 0)
		return EXIT_FAILURE;
	status = ask(&group, startup ? "/startupz" : live ? "/livez" : "/readyz");
	client_close(&group);
	return status;
}

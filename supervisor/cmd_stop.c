#include "supervisor/client.h"
#include "supervisor/cmd.h"

#include "common/log.h"
#include "supervisor/narrate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

static const char *run_dir;

static const struct client_option options[] = {
    {"--run-dir", NULL, &run_dir},
    {NULL, NULL, NULL},
};

static const struct client_verb verb = {
    "tfsupervisor stop [NAME] [--run-dir DIR]",
    "Asks the group to stop and returns when nothing of it is left.\n"
    "NAME may be left out if one group is running.\n"
    "Exit status: 0 stopped, 1 there is no such group or it refused.\n",
    options,
};

/* The lock is given back when the last process of ours is about to go: after tree empty. */
static int
await_end(const struct client_group *group)
{
	while (flock(group->pid_fd, LOCK_SH) != 0) {
		if (errno == EINTR)
			continue;
		log_warn("waiting for the end of group %s", group->name);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

static int
stop(const struct client_group *group)
{
	uint64_t start_ns = monotonic_ns();
	struct client_answer answer;
	char elapsed[32];
	int status;

	if (client_request(group, "POST", "/stop", &answer) != 0)
		return EXIT_FAILURE;
	free(answer.body);
	if (answer.status != 202) {
		log_warnx("group %s refused to stop (HTTP %d)%s", group->name, answer.status,
			  answer.status == 403 ? ": only root and whoever started it may ask" : "");
		return EXIT_FAILURE;
	}
	status = await_end(group);
	format_elapsed(monotonic_ns() - start_ns, elapsed, sizeof(elapsed));
	if (status == EXIT_SUCCESS)
		printf("%s: stopped after %s\n", group->name, elapsed);
	return status;
}

int
cmd_stop(int argc, char **argv)
{
	struct client_group group;
	const char *name;
	int status;

	status = client_options(argc, argv, &verb, &name);
	if (status >= 0)
		return status;
	if (client_find(run_dir, name, &group) != 0)
		return EXIT_FAILURE;
	status = stop(&group);
	client_close(&group);
	return status;
}

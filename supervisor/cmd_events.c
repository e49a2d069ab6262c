#include "supervisor/client_stream.h"
#include "supervisor/status_view.h"
#include "supervisor/cmd.h"

#include "common/log.h"

#include <stdlib.h>

static const char *run_dir;
static bool follow;

static const struct client_option options[] = {
    {"--follow", &follow, NULL},
    {"--run-dir", NULL, &run_dir},
    {NULL, NULL, NULL},
};

static const struct client_verb verb = {
    "tfsupervisor events [NAME] [--follow] [--run-dir DIR]",
    "Prints every transition of the group that is still remembered as a line of JSON; with\n"
    "--follow also those that come, until the group has ended.\n"
    "NAME may be left out if one group is running.\n"
    "Exit status: 0, or 1 if there is no such group or it is no longer heard.\n",
    options,
};

static bool
ends_group(const char *line)
{
	json_t *entry = json_loads(line, 0, NULL);
	bool failed, end = view_entry_is_end(entry, &failed);

	json_decref(entry);
	return end;
}

static int
show(const struct client_group *group)
{
	static struct client_stream stream;
	enum stream_word word;
	bool over = false;
	const char *line;

	if (client_stream_open(group, &stream) != 0)
		return EXIT_FAILURE;
	while ((word = client_stream_await(&stream, &line)) != STREAM_END) {
		if (word == STREAM_LIVE && !follow)
			break;
		if (word == STREAM_LIVE)
			fflush(stdout);
		if (word != STREAM_ENTRY)
			continue;
		puts(line);
		over = over || ends_group(line);
		/* Once live, who reads us wants each as it comes. */
		if (stream.at == stream.len)
			fflush(stdout);
	}
	client_stream_close(&stream);
	if (word != STREAM_END || over)
		return EXIT_SUCCESS;
	log_warnx("group %s is no longer heard: its supervisor is gone, or this was too slow a "
		  "reader",
		  group->name);
	return EXIT_FAILURE;
}

int
cmd_events(int argc, char **argv)
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

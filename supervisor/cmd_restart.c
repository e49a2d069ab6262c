#include "supervisor/client_stream.h"
#include "supervisor/status_view.h"
#include "supervisor/cmd.h"

#include "common/log.h"
#include "supervisor/narrate.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES 2048

static const char *run_dir;

static const struct client_option options[] = {
    {"--run-dir", NULL, &run_dir},
    {NULL, NULL, NULL},
};

static const struct client_verb verb = {
    "tfsupervisor restart [NAME] [--run-dir DIR]",
    "Asks the group to stop its ranks and start all of them anew, and returns when they serve\n"
    "again (a job that nobody gates: when they run). NAME may be left out if one group is "
    "running.\n"
    "Exit status: 0 serving again; 1 there is no such group, it refused, or it ended instead.\n",
    options,
};

/* What is known of the new start while it is awaited. */
struct restart {
	const struct client_group *group;
	json_int_t epoch, world_size, forked;
	bool job, asked, serving, ended;
	char message[MESSAGE_BYTES]; /* of the last epoch's end */
};

static json_t *
get_status(const struct client_group *group)
{
	struct client_answer answer;
	json_t *status;

	if (client_request(group, "GET", "/status", &answer) != 0)
		return NULL;
	status = json_loads(answer.body, 0, NULL);
	free(answer.body);
	return status;
}

static int
ask(const struct client_group *group)
{
	struct client_answer answer;

	if (client_request(group, "POST", "/restart", &answer) != 0)
		return -1;
	free(answer.body);
	if (answer.status == 202)
		return 0;
	log_warnx("group %s refused to restart (HTTP %d)%s", group->name, answer.status,
		  answer.status == 403   ? ": only root and whoever started it may ask"
		  : answer.status == 409 ? ": it is being stopped"
					 : "");
	return -1;
}

/* Nobody tells when a job's ranks have all begun their work: when they run they may well have. */
static bool
runs_ungated(const struct restart *restart)
{
	json_t *status;
	bool runs;

	if (!restart->job || restart->forked < restart->world_size)
		return false;
	status = get_status(restart->group);
	runs = strcmp(view_text(status, "state"), "starting") == 0 &&
	       json_is_false(json_object_get(status, "spoken"));
	json_decref(status);
	return runs;
}

static void
look_at(struct restart *restart, const json_t *entry)
{
	json_int_t epoch = json_integer_value(json_object_get(entry, "epoch"));
	const char *event = view_text(entry, "event");
	bool failed;

	if (!restart->asked) {
		restart->epoch = epoch;
		return;
	}
	/* Ours, or one that came before: what was served until then does not count. */
	if (strcmp(event, "restart") == 0)
		restart->epoch = epoch;
	if (strcmp(event, "epoch-start") == 0)
		restart->forked = 0;
	if (strcmp(event, "forked") == 0 && epoch > restart->epoch)
		restart->forked++;
	if (strcmp(event, "epoch-end") == 0)
		snprintf(restart->message, sizeof(restart->message), "%s",
			 view_text(entry, "text"));
	restart->ended = view_entry_is_end(entry, &failed);
	restart->serving =
	    epoch > restart->epoch &&
	    ((strcmp(event, "group") == 0 && strcmp(view_text(entry, "to"), "serving") == 0) ||
	     (strcmp(event, "forked") == 0 && runs_ungated(restart)));
}

static int
tell(const struct restart *restart, uint64_t start_ns)
{
	char elapsed[32];

	if (restart->serving) {
		format_elapsed(monotonic_ns() - start_ns, elapsed, sizeof(elapsed));
		printf("%s: %s again after %s\n", restart->group->name,
		       restart->job ? "running" : "serving", elapsed);
		return EXIT_SUCCESS;
	}
	fprintf(stderr, "tfsupervisor: %s ended instead: ", restart->group->name);
	client_print(stderr, restart->message[0] != '\0' ? restart->message
							 : "its supervisor is no longer heard");
	fprintf(stderr, "\n");
	return EXIT_FAILURE;
}

static int
await_serving(struct restart *restart, struct client_stream *stream)
{
	const uint64_t start_ns = monotonic_ns();
	enum stream_word word;
	const char *line;
	json_t *entry;

	while (!restart->serving && !restart->ended &&
	       (word = client_stream_await(stream, &line)) != STREAM_END) {
		if (word == STREAM_LIVE && ask(restart->group) != 0)
			return EXIT_FAILURE;
		restart->asked = restart->asked || word == STREAM_LIVE;
		if (word != STREAM_ENTRY)
			continue;
		entry = json_loads(line, 0, NULL);
		look_at(restart, entry);
		json_decref(entry);
	}
	return tell(restart, start_ns);
}

/* Listening comes before asking: nothing that follows can be missed. */
static int
restart_group(const struct client_group *group)
{
	static struct client_stream stream;
	struct restart restart = {.group = group};
	json_t *status = get_status(group);
	int result;

	restart.job = strcmp(view_text(status, "mode"), "job") == 0;
	restart.world_size = json_integer_value(json_object_get(status, "world_size"));
	json_decref(status);
	if (status == NULL || client_stream_open(group, &stream) != 0)
		return EXIT_FAILURE;
	result = await_serving(&restart, &stream);
	client_stream_close(&stream);
	return result;
}

int
cmd_restart(int argc, char **argv)
{
	struct client_group group;
	const char *name;
	int status;

	status = client_options(argc, argv, &verb, &name);
	if (status >= 0)
		return status;
	if (client_find(run_dir, name, &group) != 0)
		return EXIT_FAILURE;
	status = restart_group(&group);
	client_close(&group);
	return status;
}

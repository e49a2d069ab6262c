#include "supervisor/config_check.h"

#include "supervisor/gpus.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The place that decides [worker] `key` for a rank. */
static struct config_place
place_of(const struct config *config, const char *key, int rank)
{
	const struct config_entry *entry =
	    store_find(config->store, config_key_find("worker", key), rank);

	return entry != NULL ? entry->place : (struct config_place){.file = config->source};
}

static int
check_sections(const struct config *config, struct config_error *error)
{
	for (size_t i = 0; i < config->store->entries_len && config->ranks > 0; i++) {
		const struct config_entry *entry = &config->store->entries[i];

		if (entry->worker >= config->ranks)
			return config_fail(error, &entry->place,
					   "[worker.%d], but there are %d ranks, numbered from 0",
					   entry->worker, config->ranks);
	}
	return 0;
}

static bool
command_given(const struct config *config)
{
	const struct config_key *command = config_key_find("worker", "command");

	for (size_t i = 0; i < config->store->entries_len; i++) {
		if (config->store->entries[i].key == command)
			return true;
	}
	return false;
}

static int
check_commands(const struct config *config, struct config_error *error)
{
	struct config_place place = {.file = config->source};

	if (!command_given(config))
		return config_fail(error, &place, "no command: write command = ... in [worker]");
	for (size_t i = 0; i < config->workers_len && config->ranks > 0; i++) {
		if (config->workers[i].command == NULL)
			return config_fail(
			    error, &place,
			    "no command for rank %zu: write command = ... in [worker] or "
			    "[worker.%zu]",
			    i, i);
	}
	return 0;
}

static int
check_gpus(const struct config *config, struct config_error *error)
{
	struct config_place place = place_of(config, "gpus", EVERY_RANK);
	const char *gpus = gpus_of_group(config);
	size_t listed = 1;
	int needed;

	if (config->ranks == 0 && strcmp(gpus, "none") == 0)
		return config_fail(
		    error, &place,
		    "ranks = auto means one per GPU, but gpus = none: write ranks = N in [group]");
	if (config->ranks == 0 || strcmp(gpus, "none") == 0 || strcmp(gpus, "auto") == 0)
		return 0;
	for (; *gpus != '\0'; gpus++)
		listed += *gpus == ',';
	needed = gpus_needed(config);
	if ((size_t)needed > listed)
		return config_fail(error, &place,
				   "%d ranks need %d GPUs in all, but gpus lists %zu",
				   config->ranks, needed, listed);
	return 0;
}

/* CUDA_VISIBLE_DEVICES is ours as soon as a rank has GPUs. */
static int
check_environment(const struct config *config, struct config_error *error)
{
	const struct config_entry *given = NULL;

	for (size_t i = 0; i < config->store->entries_len; i++) {
		const struct config_entry *entry = &config->store->entries[i];

		if (entry->key == NULL && strcmp(entry->name, "CUDA_VISIBLE_DEVICES") == 0)
			given = entry;
	}
	for (size_t i = 0; i < config->workers_len && given != NULL; i++) {
		if (strcmp(config->workers[i].gpus, "none") != 0)
			return config_fail(
			    error, &given->place,
			    "CUDA_VISIBLE_DEVICES is computed from gpus: write gpus = %.80s in "
			    "[worker], or gpus = none to set it yourself",
			    given->value);
	}
	return 0;
}

static int
check_user(const struct config *config, int rank, const char *user, struct config_error *error)
{
	struct config_place place;
	char shown[CONFIG_SHOWN_BYTES];

	if (user == NULL || getpwnam(user) != NULL)
		return 0;
	place = place_of(config, "user", rank);
	return config_fail(error, &place, "unknown user \"%s\"", config_shown(user, shown));
}

/* A directory whose braces are not all known before the start is left to the start. */
static int
check_directory(const struct config *config, int rank, const char *directory,
		struct config_error *error)
{
	struct brace_values values = {rank, rank, config->ranks, NULL, 0, NULL, 0, NULL};
	struct config_place place;
	char *path, shown[CONFIG_SHOWN_BYTES];
	struct stat st;
	int problem = 0;

	if (directory == NULL)
		return 0;
	path = brace_fill(directory, &values);
	if (path == NULL)
		return config_fail_memory(error);
	if (stat(path, &st) != 0)
		problem = strchr(path, '{') == NULL ? errno : 0;
	else if (!S_ISDIR(st.st_mode))
		problem = ENOTDIR;
	config_shown(path, shown);
	free(path);
	if (problem == 0)
		return 0;
	place = place_of(config, "directory", rank);
	return config_fail(error, &place, "directory \"%s\": %s", shown, strerror(problem));
}

static int
check_worker(const struct config *config, size_t i, struct config_error *error)
{
	const struct worker_settings *worker = &config->workers[i];
	const struct worker_settings *before = i > 0 ? worker - 1 : NULL;
	int rank = config->ranks > 0 ? (int)i : EVERY_RANK;

	/* Ranks without values of their own share the strings of [worker]. */
	if ((before == NULL || before->user != worker->user) &&
	    check_user(config, rank, worker->user, error) != 0)
		return -1;
	if (worker->directory != NULL && rank == EVERY_RANK &&
	    strchr(worker->directory, '{') != NULL)
		return 0;
	if (before != NULL && before->directory == worker->directory &&
	    (worker->directory == NULL || strchr(worker->directory, '{') == NULL))
		return 0;
	return check_directory(config, rank, worker->directory, error);
}

int
config_check(const struct config *config, struct config_error *error)
{
	if (check_sections(config, error) != 0 || check_commands(config, error) != 0 ||
	    check_gpus(config, error) != 0 || check_environment(config, error) != 0)
		return -1;
	for (size_t i = 0; i < config->workers_len; i++) {
		if (check_worker(config, i, error) != 0)
			return -1;
	}
	return 0;
}

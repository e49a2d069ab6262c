#include "supervisor/config.h"

#include "supervisor/config_check.h"
#include "supervisor/config_entries.h"
#include "supervisor/config_types.h"
#include "supervisor/config_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_FOLDER "/etc/tfsupervisor"
#define CONFIG_SUFFIX ".ini"

/* Every key of `scope` into *base: what was written for the rank, else the default. */
static int
resolve(struct config_store *store, enum config_scope scope, int rank, void *base,
	struct config_error *error)
{
	struct config_parse parse = {.store = store, .base = base};
	const struct config_entry *entry;
	const char *text;

	for (size_t i = 0; i < config_keys_len; i++) {
		if (config_keys[i].scope != scope)
			continue;
		parse.key = &config_keys[i];
		entry = store_find(store, parse.key, rank);
		text = entry != NULL ? entry->value : parse.key->fallback;
		/* Each entry was checked when it was taken: only memory can fail. */
		if (text != NULL && config_parse_value(&parse, text) != 0)
			return config_fail_memory(error);
	}
	return 0;
}

static int
resolve_worker(struct config_store *store, int rank, struct worker_settings *worker,
	       struct config_error *error)
{
	const struct config_entry *gpus;

	*worker = (struct worker_settings){0};
	if (resolve(store, SCOPE_WORKER, rank, worker, error) != 0)
		return -1;
	gpus = store_find(store, config_key_find("worker", "gpus"), rank);
	worker->gpus_own = gpus != NULL && gpus->worker != EVERY_RANK;
	return 0;
}

/* workers[0..n): those that no section names share the strings of [worker]. */
static int
resolve_workers(struct config *config, int n, struct config_error *error)
{
	struct worker_settings base;

	config->workers_len = n > 0 ? (size_t)n : 1;
	config->workers =
	    store_alloc(config->store, config->workers_len * sizeof(*config->workers));
	if (config->workers == NULL)
		return config_fail_memory(error);
	if (resolve_worker(config->store, EVERY_RANK, &base, error) != 0)
		return -1;
	for (size_t i = 0; i < config->workers_len; i++) {
		config->workers[i] = base;
		if (n > 0 && store_names_rank(config->store, (int)i) &&
		    resolve_worker(config->store, (int)i, &config->workers[i], error) != 0)
			return -1;
	}
	return 0;
}

/* Variables in order of writing; a later value of the same name takes its place. */
static int
resolve_environment(struct config *config, struct config_error *error)
{
	struct config_store *store = config->store;
	struct config_variable *variables;
	size_t j;

	variables = store_alloc(store, (store->entries_len + 1) * sizeof(*variables));
	if (variables == NULL)
		return config_fail_memory(error);
	config->environment = variables;
	for (size_t i = 0; i < store->entries_len; i++) {
		const struct config_entry *entry = &store->entries[i];

		if (entry->key != NULL)
			continue;
		for (j = 0; j < config->environment_len; j++) {
			if (strcmp(variables[j].name, entry->name) == 0)
				break;
		}
		variables[j] = (struct config_variable){entry->name, entry->value};
		if (j == config->environment_len)
			config->environment_len++;
	}
	return 0;
}

/* The default name: that of the file, without folder and .ini. */
static int
name_from_file(struct config *config, struct config_error *error)
{
	const struct config_place place = {.file = config->source};
	struct config_parse parse = {
	    .key = config_key_find("group", "name"), .store = config->store, .base = config};
	char *name, *suffix, shown[CONFIG_SHOWN_BYTES];

	if (config->name[0] != '\0' || config->source == NULL)
		return 0;
	name = strrchr(config->source, '/');
	name = store_copy(config->store, name != NULL ? name + 1 : config->source);
	if (name == NULL)
		return config_fail_memory(error);
	suffix = strrchr(name, '.');
	if (suffix != NULL && strcmp(suffix, CONFIG_SUFFIX) == 0)
		*suffix = '\0';
	if (config_parse_value(&parse, name) == 0)
		return 0;
	return config_fail(error, &place,
			   "\"%s\" is no name for a group: write name = ... in [group], %s",
			   config_shown(name, shown), parse.why);
}

static int
finish(struct config *config, char *const *sets, size_t sets_len, struct config_error *error)
{
	for (size_t i = 0; i < sets_len; i++) {
		if (config_take_set(config->store, sets[i], error) != 0)
			return -1;
	}
	for (int i = 0; i < BOUND_COUNT; i++)
		config->timeout_ns[i] = bound_default_ns((enum bound)i);
	if (resolve(config->store, SCOPE_GROUP, EVERY_RANK, config, error) != 0 ||
	    name_from_file(config, error) != 0 || resolve_environment(config, error) != 0 ||
	    resolve_workers(config, config->ranks, error) != 0)
		return -1;
	return config_check(config, error);
}

/* An empty config with its store. */
static int
start(struct config *config, const char *path, struct config_error *error)
{
	*config = (struct config){.store = calloc(1, sizeof(*config->store))};
	if (config->store == NULL) {
		config_fail_memory(error);
		return -1;
	}
	if (path != NULL && (config->source = store_copy(config->store, path)) == NULL) {
		config_free(config);
		config_fail_memory(error);
		return -1;
	}
	return 0;
}

int
config_load_stream(FILE *file, const char *path, char *const *sets, size_t sets_len,
		   struct config *out, struct config_error *error)
{
	if (start(out, path, error) != 0)
		return -1;
	if (config_take_file(out->store, file, out->source, error) == 0 &&
	    finish(out, sets, sets_len, error) == 0)
		return 0;
	config_free(out);
	return -1;
}

int
config_load(const char *path, char *const *sets, size_t sets_len, struct config *out,
	    struct config_error *error)
{
	const struct config_place place = {.file = path};
	FILE *file = fopen(path, "re");
	int r;

	if (file == NULL)
		return config_fail(error, &place, "%s", strerror(errno));
	r = config_load_stream(file, path, sets, sets_len, out, error);
	fclose(file);
	return r;
}

static int
take_command(struct config_store *store, const char *name, char *const *argv, int ranks,
	     struct config_error *error)
{
	char number[16], *command = store_keep(store, words_quote(argv));

	if (command == NULL)
		return config_fail_memory(error);
	snprintf(number, sizeof(number), "%d", ranks);
	if (config_take_argument(store, "group", "name", name, error) != 0 ||
	    config_take_argument(store, "group", "mode", "job", error) != 0)
		return -1;
	if (ranks != 0 && config_take_argument(store, "group", "ranks", number, error) != 0)
		return -1;
	return config_take_argument(store, "worker", "command", command, error);
}

int
config_from_command(const char *name, char *const *argv, int ranks, char *const *sets,
		    size_t sets_len, struct config *out, struct config_error *error)
{
	if (start(out, NULL, error) != 0)
		return -1;
	if (take_command(out->store, name, argv, ranks, error) == 0 &&
	    finish(out, sets, sets_len, error) == 0)
		return 0;
	config_free(out);
	return -1;
}

void
config_free(struct config *config)
{
	if (config->store != NULL)
		store_free(config->store);
	free(config->store);
	*config = (struct config){0};
}

int
config_set_ranks(struct config *config, int n, struct config_error *error)
{
	struct config grown = *config;

	grown.ranks = n;
	if (resolve_workers(&grown, n, error) != 0 || config_check(&grown, error) != 0)
		return -1;
	*config = grown;
	return 0;
}

const struct worker_settings *
config_worker(const struct config *config, int rank)
{
	return &config->workers[rank];
}

int
config_find(const char *arg, char *path, size_t size, struct config_error *error)
{
	const struct config_place place = {.file = arg};
	int n;

	n = snprintf(path, size, "%s", arg);
	if (n >= 0 && (size_t)n < size && (strchr(arg, '/') != NULL || access(arg, F_OK) == 0))
		return 0;
	n = snprintf(path, size, CONFIG_FOLDER "/%s" CONFIG_SUFFIX, arg);
	if (n < 0 || (size_t)n >= size)
		return config_fail(error, &place, "the name is too long");
	if (strchr(arg, '/') == NULL && access(path, F_OK) == 0)
		return 0;
	if (strchr(arg, '/') != NULL || strstr(arg, CONFIG_SUFFIX) != NULL)
		return config_fail(error, &place, "there is no such file");
	return config_fail(error, &place, "there is no such file here and no %s", path);
}

#include "supervisor/config_types.h"

#include <stdlib.h>
#include <string.h>

#define CPUS_MAX     8192 /* the kernel's most */
#define NOFILE_LEAST 16   /* the link wants a descriptor above those in use */

/*
 * The next item of a comma-separated list, blanks trimmed, copied into the list's own memory. NULL
 * at its end.
 */
static char *
next_item(char **list)
{
	char *item = strsep(list, ","), *end;

	if (item == NULL)
		return NULL;
	item += strspn(item, " \t");
	end = item + strlen(item);
	while (end > item && strchr(" \t", end[-1]) != NULL)
		*--end = '\0';
	return item;
}

/* An index, or a UUID as the driver writes it. */
static bool
gpu_name_ok(const char *name)
{
	static const char uuid[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-/";
	uint64_t index;

	if (strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0)
		return name[4] != '\0' && name[strspn(name, uuid)] == '\0';
	return config_number(name, RANKS_MAX, &index) && (name[0] != '0' || name[1] == '\0');
}

/* True if `name` is one of the comma-separated names in list. */
static bool
list_holds(const char *list, const char *name)
{
	size_t len = strlen(name), n;

	for (; *list != '\0'; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (n == len && strncmp(list, name, n) == 0)
			return true;
	}
	return false;
}

int
config_parse_gpus(struct config_parse *parse, const char *text)
{
	struct worker_settings *worker = parse->base;
	char *list = store_copy(parse->store, text), *item, *end;

	if (strcmp(text, "auto") == 0 || strcmp(text, "none") == 0)
		return config_keep_text(parse, text, &worker->gpus);
	worker->gpus = end = store_alloc(parse->store, strlen(text) + 1);
	if (list == NULL || worker->gpus == NULL)
		return config_why(parse, "out of memory");
	while ((item = next_item(&list)) != NULL) {
		if (!gpu_name_ok(item))
			return config_why(
			    parse, "\"%.60s\" is neither an index nor a GPU-... or MIG-... UUID",
			    item);
		if (list_holds(worker->gpus, item))
			return config_why(parse, "GPU %.60s is given twice", item);
		if (end != worker->gpus)
			*end++ = ',';
		end = stpcpy(end, item);
	}
	return 0;
}

static bool
cpu_range_ok(char *item)
{
	char *last = strchr(item, '-');
	uint64_t a, b;

	if (last != NULL)
		*last++ = '\0';
	return config_number(item, CPUS_MAX - 1, &a) &&
	       (last == NULL || (config_number(last, CPUS_MAX - 1, &b) && a <= b));
}

int
config_parse_cpus(struct config_parse *parse, const char *text)
{
	struct worker_settings *worker = parse->base;
	char *list = store_copy(parse->store, text), *item;

	if (list == NULL)
		return config_why(parse, "out of memory");
	while (strcmp(text, "auto") != 0 && (item = next_item(&list)) != NULL) {
		if (!cpu_range_ok(item))
			return -1;
	}
	return config_keep_text(parse, text, &worker->cpus);
}

static const struct {
	const char *name;
	int resource;
} resources[] = {
    {"as", RLIMIT_AS},           {"core", RLIMIT_CORE},         {"cpu", RLIMIT_CPU},
    {"data", RLIMIT_DATA},       {"fsize", RLIMIT_FSIZE},       {"locks", RLIMIT_LOCKS},
    {"memlock", RLIMIT_MEMLOCK}, {"msgqueue", RLIMIT_MSGQUEUE}, {"nice", RLIMIT_NICE},
    {"nofile", RLIMIT_NOFILE},   {"nproc", RLIMIT_NPROC},       {"rss", RLIMIT_RSS},
    {"rtprio", RLIMIT_RTPRIO},   {"rttime", RLIMIT_RTTIME},     {"sigpending", RLIMIT_SIGPENDING},
    {"stack", RLIMIT_STACK},
};

#define RESOURCES (sizeof(resources) / sizeof(resources[0]))

/* Index into resources[], or -1 with why filled. */
static int
limit_resource(struct config_parse *parse, const char *name)
{
	const char *words[RESOURCES], *near;

	for (size_t i = 0; i < RESOURCES; i++) {
		if (strcmp(resources[i].name, name) == 0)
			return resources[i].resource;
		words[i] = resources[i].name;
	}
	near = nearest_word(name, words, RESOURCES);
	if (near == NULL)
		return config_why(parse, "\"%.40s\" is no limit", name);
	return config_why(parse, "\"%.40s\" is no limit; did you mean \"%s\"?", name, near);
}

static bool
limit_value(const char *text, rlim_t *value)
{
	uint64_t bytes;

	if (strcmp(text, "unlimited") == 0 || strcmp(text, "infinity") == 0) {
		*value = RLIM_INFINITY;
		return true;
	}
	if (!config_size(text, &bytes) || bytes >= RLIM_INFINITY)
		return false;
	*value = (rlim_t)bytes;
	return true;
}

/* "soft:hard" or one value for both. */
static int
limit_values(struct config_parse *parse, char *text, struct worker_limit *limit)
{
	char *hard = strchr(text, ':');

	if (hard != NULL)
		*hard++ = '\0';
	if (!limit_value(text, &limit->soft) ||
	    !limit_value(hard != NULL ? hard : text, &limit->hard))
		return config_why(
		    parse,
		    "\"%.40s%s%.40s\" is no limit's value: a number, a size, unlimited, or "
		    "soft:hard",
		    text, hard != NULL ? ":" : "", hard != NULL ? hard : "");
	if (limit->soft > limit->hard)
		return config_why(parse, "soft %s is over hard %s", text, hard);
	if (limit->resource == RLIMIT_NOFILE && limit->soft < NOFILE_LEAST)
		return config_why(parse, "nofile is at least %d", NOFILE_LEAST);
	return 0;
}

/* Cuts the next word out of *text, which ends at one of `ends`; moves behind it and its blanks. */
static char *
cut_word(char **text, const char *ends)
{
	char *word = *text, *end = word + strcspn(word, ends), *next = end + strspn(end, " \t");

	if (*next != '\0' && strchr(ends, *next) != NULL && strchr(" \t", *next) == NULL)
		next += 1 + strspn(next + 1, " \t");
	*text = next;
	*end = '\0';
	return word;
}

static int
parse_limit(struct config_parse *parse, char **text, struct worker_settings *worker)
{
	struct worker_limit *limit = &worker->limits[worker->limits_len];
	char *name = cut_word(text, " \t="), *value = cut_word(text, " \t,");

	limit->resource = limit_resource(parse, name);
	if (limit->resource < 0)
		return -1;
	if (*value == '\0')
		return config_why(parse, "%s has no value: write %s=VALUE", name, name);
	for (size_t i = 0; i < worker->limits_len; i++) {
		if (worker->limits[i].resource == limit->resource)
			return config_why(parse, "%s is given twice", name);
	}
	worker->limits_len++;
	return limit_values(parse, value, limit);
}

int
config_parse_limits(struct config_parse *parse, const char *text)
{
	struct worker_settings *worker = parse->base;
	char *copy = store_copy(parse->store, text);
	bool core = false;

	worker->limits = store_alloc(parse->store, (RESOURCES + 1) * sizeof(*worker->limits));
	worker->limits_len = 0;
	if (copy == NULL || worker->limits == NULL)
		return config_why(parse, "out of memory");
	while (*copy != '\0') {
		if (parse_limit(parse, &copy, worker) != 0)
			return -1;
	}
	for (size_t i = 0; i < worker->limits_len; i++)
		core = core || worker->limits[i].resource == RLIMIT_CORE;
	if (!core)
		worker->limits[worker->limits_len++] = (struct worker_limit){RLIMIT_CORE, 0, 0};
	return 0;
}

int
config_parse_exit_words(struct config_parse *parse, const char *text)
{
	char *list = store_copy(parse->store, text), *item, *word;
	bool given[256] = {false};
	uint64_t status;

	if (strcmp(text, "none") == 0) {
		*(char **)config_field(parse) = NULL;
		return 0;
	}
	if (list == NULL)
		return config_why(parse, "out of memory");
	while ((item = next_item(&list)) != NULL) {
		word = strchr(item, ':');
		if (word == NULL || word[1 + strspn(word + 1, " \t")] == '\0')
			return config_why(parse, "\"%.60s\" is not STATUS:WORDS", item);
		*word = '\0';
		if (!config_number(item, 255, &status))
			return config_why(parse, "\"%.60s\" is no exit status, 0 to 255", item);
		if (given[status])
			return config_why(parse, "status %s is given twice", item);
		given[status] = true;
	}
	return config_keep_text(parse, text, config_field(parse));
}

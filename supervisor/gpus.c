#include "supervisor/gpus.h"

#include "supervisor/config_types.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_ERROR "out of memory"

static int
fail(char error[GPUS_ERROR_BYTES], const char *text)
{
	snprintf(error, GPUS_ERROR_BYTES, "%s", text);
	return -1;
}

int
gpus_count(const char *proc)
{
	DIR *dir = opendir(proc);
	struct dirent *entry;
	int count = 0;

	if (dir == NULL)
		return 0;
	while ((entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static void
list_free(struct gpu_list *list)
{
	for (size_t i = 0; i < list->len; i++)
		free(list->names[i]);
	free(list->names);
	*list = (struct gpu_list){0};
}

static int
list_add(struct gpu_list *list, const char *name, size_t len)
{
	char **names = reallocarray(list->names, list->len + 2, sizeof(*names));

	if (names == NULL)
		return -1;
	list->names = names;
	names[list->len] = strndup(name, len);
	names[list->len + 1] = NULL;
	return names[list->len] != NULL ? (list->len++, 0) : -1;
}

static bool
list_holds(const struct gpu_list *list, const char *name)
{
	for (size_t i = 0; i < list->len; i++) {
		if (strcmp(list->names[i], name) == 0)
			return true;
	}
	return false;
}

/* The names of a comma-separated text, blanks around them left out. */
static int
list_split(struct gpu_list *list, const char *text)
{
	size_t len, kept;

	for (; *text != '\0'; text += len + (text[len] == ',')) {
		text += strspn(text, " \t");
		len = kept = strcspn(text, ",");
		while (kept > 0 && strchr(" \t", text[kept - 1]) != NULL)
			kept--;
		if (list_add(list, text, kept) != 0)
			return -1;
	}
	return 0;
}

/* Comma-separated; NULL if memory ran out. */
static char *
list_join(const struct gpu_list *list)
{
	size_t bytes = 1;
	char *text, *end;

	for (size_t i = 0; i < list->len; i++)
		bytes += strlen(list->names[i]) + 1;
	text = end = malloc(bytes);
	if (text == NULL)
		return NULL;
	*end = '\0';
	for (size_t i = 0; i < list->len; i++) {
		if (i > 0)
			end = stpcpy(end, ",");
		end = stpcpy(end, list->names[i]);
	}
	return text;
}

static bool
name_is_uuid(const char *name)
{
	return strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0;
}

/* As CUDA reads the variable: up to the first name that means no device. */
static int
open_here(struct gpu_list *here, const char *inherited, int count)
{
	struct gpu_list all = {0};
	char index[16];
	uint64_t n;
	int r = 0;

	for (int i = 0; inherited == NULL && i < count && r == 0; i++)
		r = list_add(here, index, (size_t)snprintf(index, sizeof(index), "%d", i));
	if (inherited == NULL || count == 0)
		return r;
	r = list_split(&all, inherited);
	for (size_t i = 0; i < all.len && r == 0; i++) {
		if (!name_is_uuid(all.names[i]) &&
		    !config_number(all.names[i], (uint64_t)count - 1, &n))
			break;
		r = list_add(here, all.names[i], strlen(all.names[i]));
	}
	list_free(&all);
	return r;
}

/* Refuses a GPU of `list` that is not here. UUIDs are believed where all GPUs are ours. */
static int
check_here(const struct gpus *gpus, const struct gpu_list *list, bool inherited,
	   char error[GPUS_ERROR_BYTES])
{
	char *here;

	for (size_t i = 0; i < list->len; i++) {
		const char *name = list->names[i];

		if (list_holds(&gpus->here, name) ||
		    (!inherited && gpus->here.len > 0 && name_is_uuid(name)))
			continue;
		here = list_join(&gpus->here);
		if (here == NULL)
			return fail(error, MEMORY_ERROR);
		snprintf(error, GPUS_ERROR_BYTES, "gpus names %.80s, but %s%.300s", name,
			 gpus->here.len == 0 ? "no GPU was found"
			 : inherited         ? "the inherited CUDA_VISIBLE_DEVICES holds "
					     : "the GPUs here are ",
			 here);
		free(here);
		return -1;
	}
	return 0;
}

const char *
gpus_of_group(const struct config *config)
{
	for (size_t i = 0; i < config->workers_len; i++) {
		if (!config->workers[i].gpus_own)
			return config->workers[i].gpus;
	}
	return "none";
}

static bool
is_list(const char *gpus)
{
	return strcmp(gpus, "auto") != 0 && strcmp(gpus, "none") != 0;
}

int
gpus_open(struct gpus *gpus, const struct config *config, const char *inherited, int count,
	  char error[GPUS_ERROR_BYTES])
{
	const char *text = gpus_of_group(config);
	int r;

	*gpus = (struct gpus){0};
	r = open_here(&gpus->here, inherited, count);
	if (r == 0 && strcmp(text, "none") != 0)
		r = is_list(text) ? list_split(&gpus->group, text)
				  : open_here(&gpus->group, inherited, count);
	if (r != 0)
		fail(error, MEMORY_ERROR);
	else
		r = check_here(gpus, &gpus->group, inherited != NULL, error);
	for (size_t i = 0; i < config->workers_len && r == 0; i++) {
		const struct worker_settings *worker = &config->workers[i];
		struct gpu_list own = {0};

		if (!worker->gpus_own || !is_list(worker->gpus))
			continue;
		r = list_split(&own, worker->gpus);
		if (r != 0)
			fail(error, MEMORY_ERROR);
		else
			r = check_here(gpus, &own, inherited != NULL, error);
		list_free(&own);
	}
	if (r != 0)
		gpus_free(gpus);
	return r;
}

void
gpus_free(struct gpus *gpus)
{
	list_free(&gpus->here);
	list_free(&gpus->group);
}

int
gpus_ranks(const struct gpus *gpus, const struct config *config)
{
	int per_rank = config->workers[0].gpus_per_rank;

	if (per_rank == 0)
		return gpus->group.len > 0;
	return (int)gpus->group.len / per_rank;
}

/* GPUs that a rank takes out of the group's. */
static int
takes(const struct worker_settings *worker)
{
	if (worker->gpus_own || strcmp(worker->gpus, "none") == 0)
		return 0;
	return worker->gpus_per_rank;
}

/* Those that the ranks before `rank` take. */
static int
taken_before(const struct config *config, int rank)
{
	int taken = 0;

	for (int i = 0; i < rank; i++)
		taken += takes(&config->workers[i]);
	return taken;
}

int
gpus_needed(const struct config *config)
{
	return taken_before(config, (int)config->workers_len);
}

/* The part of the group's GPUs that is the rank's own, names shared with it. */
static int
own_part(const struct gpus *gpus, const struct config *config, int rank, struct gpu_list *own,
	 char error[GPUS_ERROR_BYTES])
{
	size_t first = (size_t)taken_before(config, rank);
	int wanted = takes(&config->workers[rank]);

	*own = gpus->group;
	if (wanted == 0)
		return 0;
	if (first + (size_t)wanted > gpus->group.len) {
		snprintf(
		    error, GPUS_ERROR_BYTES,
		    "the ranks need %d GPUs and %zu %s here, rank %d goes without: lower ranks or "
		    "gpus_per_rank, or set gpus = none if they need no GPU",
		    gpus_needed(config), gpus->group.len, gpus->group.len == 1 ? "is" : "are",
		    rank);
		return -1;
	}
	own->names += first;
	own->len = (size_t)wanted;
	return 0;
}

/* own first, then the rest of the group, names shared with both. */
static int
own_first(const struct gpu_list *own, const struct gpu_list *group, struct gpu_list *all)
{
	all->names = calloc(own->len + group->len + 1, sizeof(*all->names));
	if (all->names == NULL)
		return -1;
	all->len = 0;
	for (size_t i = 0; i < own->len; i++)
		all->names[all->len++] = own->names[i];
	for (size_t i = 0; i < group->len; i++) {
		if (!list_holds(own, group->names[i]))
			all->names[all->len++] = group->names[i];
	}
	return 0;
}

static char *
visible_text(const struct gpus *gpus, const struct gpu_list *own, enum gpu_env gpu_env)
{
	struct gpu_list all;
	char *text;

	if (gpu_env == GPU_ENV_ONE)
		return list_join(own);
	if (gpu_env == GPU_ENV_ALL)
		return list_join(&gpus->group);
	if (own_first(own, &gpus->group, &all) != 0)
		return NULL;
	text = list_join(&all);
	free(all.names);
	return text;
}

/* The share of a rank with a `gpus` of its own. */
static void
assign_own(const struct gpus *gpus, const char *text, struct gpu_share *share)
{
	share->own = is_list(text) ? strdup(text) : list_join(&gpus->here);
	if (share->own != NULL)
		share->visible = strdup(share->own);
}

int
gpus_assign(const struct gpus *gpus, const struct config *config, int rank, struct gpu_share *share,
	    char error[GPUS_ERROR_BYTES])
{
	const struct worker_settings *worker = &config->workers[rank];
	struct gpu_list own;

	*share = (struct gpu_share){0};
	if (strcmp(worker->gpus, "none") == 0 || gpus->here.len == 0) {
		share->own = strdup("");
		return share->own != NULL ? 0 : fail(error, MEMORY_ERROR);
	}
	if (worker->gpus_own) {
		assign_own(gpus, worker->gpus, share);
	} else {
		if (own_part(gpus, config, rank, &own, error) != 0)
			return -1;
		share->own = list_join(&own);
		share->visible = visible_text(gpus, &own, worker->gpu_env);
	}
	if (share->own != NULL && share->visible != NULL)
		return 0;
	gpus_share_free(share);
	return fail(error, MEMORY_ERROR);
}

void
gpus_share_free(struct gpu_share *share)
{
	free(share->own);
	free(share->visible);
	*share = (struct gpu_share){0};
}

#include "supervisor/config_entries.h"

#include "supervisor/config_ini.h"
#include "supervisor/config_types.h"
#include "supervisor/environ.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define WORKER_PREFIX  "worker."
#define SET_NAME_BYTES 192 /* section and key of a --set */

struct collector {
	struct config_store *store;
	const char *path;
	int section_line[RANKS_MAX + 8]; /* by worker, then by config_sections[]; 0: not seen */
};

/*
 * "group", "worker" and so on for a section's text, with *worker set; NULL with *error filled if it
 * is none of ours.
 */
static const char *
section_base(const char *text, int *worker, const struct config_place *place,
	     struct config_error *error)
{
	char shown[CONFIG_SHOWN_BYTES];
	const char *near, *digits;
	uint64_t number;

	*worker = EVERY_RANK;
	for (size_t i = 0; i < config_sections_len; i++) {
		if (strcmp(config_sections[i], text) == 0 && strchr(text, '.') == NULL)
			return config_sections[i];
	}
	config_shown(text, shown);
	if (strncmp(text, WORKER_PREFIX, strlen(WORKER_PREFIX)) != 0) {
		near = nearest_word(text, config_sections, config_sections_len);
		if (near == NULL)
			config_fail(error, place, "unknown section \"%s\"", shown);
		else
			config_fail(error, place, "unknown section \"%s\"; did you mean \"%s\"?",
				    shown, near);
		return NULL;
	}
	digits = text + strlen(WORKER_PREFIX);
	if (!config_number(digits, RANKS_MAX - 1, &number) ||
	    (digits[0] == '0' && digits[1] != '\0')) {
		config_fail(error, place, "unknown section \"%s\": write worker.0 to worker.%d",
			    shown, RANKS_MAX - 1);
		return NULL;
	}
	*worker = (int)number;
	return "worker";
}

static int
check_variable(const char *name, const struct config_place *place, struct config_error *error)
{
	char shown[CONFIG_SHOWN_BYTES];
	bool ok = isalpha((unsigned char)*name) || *name == '_';

	for (const char *p = name; ok && *p != '\0'; p++)
		ok = isalnum((unsigned char)*p) || *p == '_';
	config_shown(name, shown);
	if (!ok)
		return config_fail(
		    error, place,
		    "\"%s\" is no variable's name: letters, digits and _, no digit first", shown);
	if (environ_is_computed(name, strlen(name)))
		return config_fail(error, place,
				   "%s is computed for each rank: [environment] cannot set it",
				   shown);
	return 0;
}

static int
refuse_key(const char *section, const char *name, const struct config_place *place,
	   struct config_error *error)
{
	const struct config_key *elsewhere = config_key_anywhere(name);
	char shown[CONFIG_SHOWN_BYTES];
	const char *near;

	config_shown(name, shown);
	if (elsewhere != NULL)
		return config_fail(error, place, "\"%s\" belongs in [%s], not in [%s]", shown,
				   elsewhere->section, section);
	near = config_key_nearest(section, name);
	if (near != NULL)
		return config_fail(error, place, "unknown key \"%s\" in [%s]; did you mean \"%s\"?",
				   shown, section, near);
	near = config_key_nearest(NULL, name);
	if (near != NULL)
		return config_fail(error, place,
				   "unknown key \"%s\" in [%s]; did you mean \"%s\" of [%s]?",
				   shown, section, near, config_key_anywhere(near)->section);
	return config_fail(error, place, "unknown key \"%s\" in [%s]", shown, section);
}

/* Finds the key of *entry, for `section` as config_sections[] has it. */
static int
find_key(struct config_entry *entry, const char *section, struct config_error *error)
{
	if (strcmp(section, "environment") == 0)
		return check_variable(entry->name, &entry->place, error);
	entry->key = config_key_find(section, entry->name);
	if (entry->key == NULL)
		return refuse_key(section, entry->name, &entry->place, error);
	if (entry->worker != EVERY_RANK && entry->key->scope != SCOPE_WORKER)
		return config_fail(
		    error, &entry->place,
		    "%s holds for the whole group: it belongs in [worker], not in [worker.%d]",
		    entry->name, entry->worker);
	return 0;
}

static int
check_value(struct config_store *store, const struct config_entry *entry,
	    struct config_error *error)
{
	union {
		struct config config;
		struct worker_settings worker;
	} scratch = {0};
	struct config_parse parse = {.key = entry->key, .store = store, .base = &scratch};
	char shown[CONFIG_SHOWN_BYTES];

	for (const char *p = entry->value; *p != '\0'; p++) {
		if (entry->place.set != NULL && (unsigned char)*p < ' ' && *p != '\t')
			return config_fail(error, &entry->place, "%s holds %s", entry->name,
					   *p == '\n' ? "a line break" : "a control character");
	}
	if (entry->key == NULL || config_parse_value(&parse, entry->value) == 0)
		return 0;
	if (*entry->value == '\0')
		return config_fail(error, &entry->place, "%s has no value: %s", entry->name,
				   parse.why);
	return config_fail(error, &entry->place, "bad value \"%s\" for %s: %s%s",
			   config_shown(entry->value, shown), entry->name, parse.why,
			   strstr(entry->value, " #") != NULL || strstr(entry->value, " ;") != NULL
			       ? "; a comment needs a line of its own"
			       : "");
}

/* Refuses a second entry of the same key, or variable, in the same section of the file. */
static int
check_duplicate(const struct config_store *store, const struct config_entry *entry,
		struct config_error *error)
{
	char shown[CONFIG_SHOWN_BYTES];

	for (size_t i = 0; i < store->entries_len; i++) {
		const struct config_entry *other = &store->entries[i];

		if (other->key == entry->key && other->worker == entry->worker &&
		    strcmp(other->name, entry->name) == 0)
			return config_fail(error, &entry->place,
					   "\"%s\" is given twice, first on line %d",
					   config_shown(entry->name, shown), other->place.line);
	}
	return 0;
}

static int
add_entry(struct config_store *store, struct config_entry *entry, const char *section,
	  struct config_error *error)
{
	if (find_key(entry, section, error) != 0)
		return -1;
	if (entry->place.line > 0 && check_duplicate(store, entry, error) != 0)
		return -1;
	if (check_value(store, entry, error) != 0)
		return -1;
	return store_add(store, entry) == 0 ? 0 : config_fail_memory(error);
}

static int
take_section(struct collector *collector, const char *section, const struct config_place *place,
	     struct config_error *error)
{
	const char *base;
	int worker, *line;

	base = section_base(section, &worker, place, error);
	if (base == NULL)
		return -1;
	if (worker == EVERY_RANK) {
		worker = RANKS_MAX;
		while (strcmp(config_sections[worker - RANKS_MAX], base) != 0)
			worker++;
	}
	line = &collector->section_line[worker];
	if (*line != 0)
		return config_fail(error, place, "section [%s] is given twice, first on line %d",
				   section, *line);
	*line = place->line;
	return 0;
}

static int
take_line(void *arg, const char *section, const char *name, const char *value, int line,
	  struct config_error *error)
{
	struct collector *collector = arg;
	struct config_entry entry = {
	    .name = (char *)name,
	    .value = (char *)value,
	    .place = {.file = collector->path, .line = line},
	};
	const struct config_key *key;
	char shown[CONFIG_SHOWN_BYTES];
	const char *base;

	if (name == NULL)
		return take_section(collector, section, &entry.place, error);
	if (*section == '\0') {
		key = config_key_anywhere(name);
		return config_fail(
		    error, &entry.place, "\"%s\" stands before the first section%s%s%s",
		    config_shown(name, shown), key != NULL ? "; it belongs in [" : "",
		    key != NULL ? key->section : "", key != NULL ? "]" : "");
	}
	base = section_base(section, &entry.worker, &entry.place, error);
	if (base == NULL)
		return -1;
	return add_entry(collector->store, &entry, base, error);
}

int
config_take_file(struct config_store *store, FILE *file, const char *path,
		 struct config_error *error)
{
	struct collector collector = {.store = store, .path = path};

	return config_ini_read(file, path, take_line, &collector, error);
}

static int
refuse_set(const char *text, const struct config_place *place, struct config_error *error)
{
	char name[SET_NAME_BYTES];
	const struct config_key *key;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "="), text);
	key = config_key_anywhere(name);
	if (key != NULL)
		return config_fail(error, place, "write section.key=value, here %s.%s=value",
				   key->section, key->key);
	return config_fail(error, place, "write section.key=value, such as group.ranks=2");
}

int
config_take_set(struct config_store *store, const char *text, struct config_error *error)
{
	struct config_entry entry = {.place = {.set = store_copy(store, text)}};
	size_t len = strcspn(text, "=");
	char section[SET_NAME_BYTES], *dot;
	const char *base;

	if (entry.place.set == NULL)
		return config_fail_memory(error);
	if (text[len] == '\0' || len >= sizeof(section))
		return refuse_set(text, &entry.place, error);
	memcpy(section, text, len);
	section[len] = '\0';
	dot = strrchr(section, '.');
	if (dot == NULL)
		return refuse_set(text, &entry.place, error);
	*dot = '\0';
	entry.name = dot + 1;
	entry.value = (char *)text + len + 1;
	base = section_base(section, &entry.worker, &entry.place, error);
	if (base == NULL)
		return -1;
	return add_entry(store, &entry, base, error);
}

int
config_take_argument(struct config_store *store, const char *section, const char *name,
		     const char *value, struct config_error *error)
{
	struct config_entry entry = {
	    .worker = EVERY_RANK,
	    .name = (char *)name,
	    .value = (char *)value,
	};

	return add_entry(store, &entry, section, error);
}

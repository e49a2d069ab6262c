#include "supervisor/config_store.h"

#include <string.h>

#define KEY_WIDTH   20
#define VALUE_WIDTH 28

static void
print_line(FILE *out, const char *key, const char *value, const struct config_entry *entry,
	   const char *origin)
{
	char place[CONFIG_ERROR_BYTES];

	if (entry != NULL) {
		config_place_text(&entry->place, place, sizeof(place));
		origin = place;
	}
	fprintf(out, "  %-*s %-*s  %s\n", KEY_WIDTH, key, VALUE_WIDTH, value, origin);
}

static void
print_key(const struct config *config, const struct config_key *key, FILE *out)
{
	const struct config_entry *entry = store_find(config->store, key, EVERY_RANK);
	char text[CONFIG_ERROR_BYTES];

	if (entry != NULL) {
		print_line(out, key->key, entry->value, entry, NULL);
	} else if (strcmp(key->key, "name") == 0) {
		print_line(out, key->key, config->name, NULL, "default: the file's name");
	} else {
		config_key_default(key, text, sizeof(text));
		print_line(out, key->key, text, NULL, "default");
	}
}

static void
print_section(const struct config *config, const char *section, FILE *out)
{
	fprintf(out, "[%s]\n", section);
	for (size_t i = 0; i < config_keys_len; i++) {
		if (strcmp(config_keys[i].section, section) == 0)
			print_key(config, &config_keys[i], out);
	}
}

/* What holds for one rank alone. */
static void
print_worker(const struct config *config, int rank, FILE *out)
{
	if (!store_names_rank(config->store, rank))
		return;
	fprintf(out, "[worker.%d]\n", rank);
	for (size_t i = 0; i < config_keys_len; i++) {
		const struct config_key *key = &config_keys[i];
		const struct config_entry *entry = store_find(config->store, key, rank);

		if (entry != NULL && entry->worker == rank)
			print_line(out, key->key, entry->value, entry, NULL);
	}
}

static void
print_environment(const struct config *config, FILE *out)
{
	const struct config_store *store = config->store;

	if (config->environment_len == 0)
		return;
	fprintf(out, "[environment]\n");
	for (size_t i = 0; i < config->environment_len; i++) {
		const struct config_variable *variable = &config->environment[i];

		for (size_t j = 0; j < store->entries_len; j++) {
			if (store->entries[j].value == variable->value)
				print_line(out, variable->name, variable->value, &store->entries[j],
					   NULL);
		}
	}
}

void
config_print(const struct config *config, FILE *out)
{
	print_section(config, "group", out);
	print_section(config, "worker", out);
	for (int rank = 0; rank < RANKS_MAX; rank++)
		print_worker(config, rank, out);
	print_environment(config, out);
	print_section(config, "health", out);
}

/* Text of the table as scdoc wants it. */
static void
print_escaped(const char *text, FILE *out)
{
	for (; *text != '\0'; text++) {
		if (strchr("*_\\~", *text) != NULL)
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void
print_manual_key(const struct config_key *key, FILE *out)
{
	char text[CONFIG_ERROR_BYTES];

	fprintf(out, "*%s* = ", key->key);
	config_key_form(key, text, sizeof(text));
	print_escaped(text, out);
	config_key_default(key, text, sizeof(text));
	fprintf(out, " (%s", key->unset != NULL ? "if absent: " : "default: ");
	print_escaped(text, out);
	fprintf(out, ")\n\t");
	print_escaped(key->help, out);
	fprintf(out, "\n\n");
}

void
config_print_manual(FILE *out)
{
	const char *section = "";

	for (size_t i = 0; i < config_keys_len; i++) {
		const struct config_key *key = &config_keys[i];

		if (strcmp(key->section, section) != 0) {
			section = key->section;
			fprintf(out, "## [%s]\n\n", section);
		}
		print_manual_key(key, out);
	}
}

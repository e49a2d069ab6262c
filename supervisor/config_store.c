#include "supervisor/config_store.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void *
store_keep(struct config_store *store, void *block)
{
	void **blocks;

	if (block == NULL)
		return NULL;
	blocks = reallocarray(store->blocks, store->blocks_len + 1, sizeof(*blocks));
	if (blocks == NULL) {
		free(block);
		return NULL;
	}
	store->blocks = blocks;
	blocks[store->blocks_len++] = block;
	return block;
}

void *
store_alloc(struct config_store *store, size_t bytes)
{
	return store_keep(store, calloc(1, bytes));
}

char *
store_copy(struct config_store *store, const char *text)
{
	return store_keep(store, strdup(text));
}

void
store_free(struct config_store *store)
{
	for (size_t i = 0; i < store->blocks_len; i++)
		free(store->blocks[i]);
	free(store->blocks);
	free(store->entries);
	*store = (struct config_store){0};
}

int
store_add(struct config_store *store, const struct config_entry *entry)
{
	struct config_entry *entries, *added;

	entries = reallocarray(store->entries, store->entries_len + 1, sizeof(*entries));
	if (entries == NULL)
		return -1;
	store->entries = entries;
	added = &entries[store->entries_len];
	*added = *entry;
	added->name = store_copy(store, entry->name);
	added->value = store_copy(store, entry->value);
	if (added->name == NULL || added->value == NULL)
		return -1;
	store->entries_len++;
	return 0;
}

const struct config_entry *
store_find(const struct config_store *store, const struct config_key *key, int rank)
{
	const struct config_entry *found = NULL, *entry;

	for (size_t i = 0; i < store->entries_len; i++) {
		entry = &store->entries[i];
		if (entry->key != key || (entry->worker != EVERY_RANK && entry->worker != rank))
			continue;
		if (found == NULL || entry->place.set != NULL || entry->worker != EVERY_RANK)
			found = entry;
	}
	return found;
}

bool
store_names_rank(const struct config_store *store, int rank)
{
	for (size_t i = 0; i < store->entries_len; i++) {
		if (store->entries[i].worker == rank)
			return true;
	}
	return false;
}

const char *
config_shown(const char *word, char out[CONFIG_SHOWN_BYTES])
{
	size_t len = strlen(word);

	if (len < CONFIG_SHOWN_BYTES) {
		memcpy(out, word, len + 1);
		return out;
	}
	len = CONFIG_SHOWN_BYTES - sizeof("...");
	while (len > 0 && ((unsigned char)word[len] & 0xc0) == 0x80)
		len--;
	memcpy(out, word, len);
	memcpy(out + len, "...", sizeof("..."));
	return out;
}

void
config_place_text(const struct config_place *place, char *out, size_t size)
{
	char shown[CONFIG_SHOWN_BYTES];

	if (place->set != NULL)
		snprintf(out, size, "--set %s", config_shown(place->set, shown));
	else if (place->file != NULL && place->line > 0)
		snprintf(out, size, "%s:%d", place->file, place->line);
	else
		snprintf(out, size, "%s", place->file != NULL ? place->file : "command line");
}

int
config_fail(struct config_error *error, const struct config_place *place, const char *fmt, ...)
{
	char *text = error->text;
	va_list ap;
	size_t n;

	config_place_text(place, text, sizeof(error->text) - sizeof(": "));
	n = strlen(text);
	n += (size_t)snprintf(text + n, sizeof(error->text) - n, ": ");
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(error->text) - n, fmt, ap);
	va_end(ap);
	for (; *text != '\0'; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
	}
	return -1;
}

int
config_fail_memory(struct config_error *error)
{
	snprintf(error->text, sizeof(error->text), "out of memory");
	return -1;
}

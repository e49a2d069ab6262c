/*
 * The private side of a config: the memory of all its strings, and every value as it was written,
 * with its place.
 */
#ifndef SUPERVISOR_CONFIG_STORE_H
#define SUPERVISOR_CONFIG_STORE_H

#include "supervisor/config.h"
#include "supervisor/config_keys.h"

#define CONFIG_SHOWN_BYTES 96 /* of a word in an error, with its NUL */
#define EVERY_RANK         (-1)

/* Where a value was written. All NULL: by the command line itself (COMMAND, --ranks). */
struct config_place {
	const char *file; /* line 0: the file as a whole */
	int line;
	const char *set; /* the text of a --set */
};

struct config_entry {
	const struct config_key *key; /* NULL: a variable of [environment] */
	int worker;                   /* N of [worker.N], else EVERY_RANK */
	char *name;                   /* of the key or variable */
	char *value;
	struct config_place place;
};

struct config_store {
	struct config_entry *entries; /* [entries_len], in order of writing, --set last */
	size_t entries_len;
	void **blocks; /* [blocks_len] */
	size_t blocks_len;
};

/* NULL if memory ran out. What they return lives as long as the store. */
void *store_alloc(struct config_store *store, size_t bytes); /* zeroed */
char *store_copy(struct config_store *store, const char *text);
void *store_keep(struct config_store *store, void *block); /* takes a block of malloc() */
void store_free(struct config_store *store);

/* Copies *entry, its name and its value. 0, or -1 if memory ran out. */
int store_add(struct config_store *store, const struct config_entry *entry);

/*
 * The entry that decides key for a rank (EVERY_RANK: for those without a section of their own):
 * the last --set, else [worker.N], else what was written before. NULL: the default holds.
 */
const struct config_entry *store_find(const struct config_store *store,
				      const struct config_key *key, int rank);

/* True if a [worker.N] or --set worker.N names this rank. */
bool store_names_rank(const struct config_store *store, int rank);

/* "FILE:LINE", "--set TEXT", "command line" */
void config_place_text(const struct config_place *place, char *out, size_t size);

/* Fills *error with "PLACE: text", control characters as '?'. Returns -1. */
int config_fail(struct config_error *error, const struct config_place *place, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int config_fail_memory(struct config_error *error);

/* `word`, cut at a character and ended by "..." if it is long. */
const char *config_shown(const char *word, char out[CONFIG_SHOWN_BYTES]);

#endif

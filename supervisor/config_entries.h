/* From lines of a file and --set options to entries of the store, each checked by itself. */
#ifndef SUPERVISOR_CONFIG_ENTRIES_H
#define SUPERVISOR_CONFIG_ENTRIES_H

#include "supervisor/config_store.h"

/* Adds what the file says. `path` must outlive the store. 0, or -1 with *error filled. */
int config_take_file(struct config_store *store, FILE *file, const char *path,
		     struct config_error *error);

/* Adds one "section.key=value". 0, or -1 with *error filled. */
int config_take_set(struct config_store *store, const char *text, struct config_error *error);

/* Adds what the command line itself says: COMMAND and --ranks. 0, or -1 with *error filled. */
int config_take_argument(struct config_store *store, const char *section, const char *name,
			 const char *value, struct config_error *error);

#endif

/*
 * INI files through inih, with its limits kept away: a reader of our own counts lines, refuses what
 * inih would misread, and hands inih a short stand-in for each value.
 */
#ifndef SUPERVISOR_CONFIG_INI_H
#define SUPERVISOR_CONFIG_INI_H

#include "supervisor/config.h"

#define INI_LINE_MAX_BYTES 65536
#define INI_NAME_MAX_BYTES 128

/*
 * Called for each section line (name and value NULL) and each key, in the order of the file.
 * section is "" before the first. Returns 0, or -1 with *error filled, which ends the reading.
 */
typedef int (*ini_take)(void *arg, const char *section, const char *name, const char *value,
			int line, struct config_error *error);

/* Reads file to its end; errors call it `path`. 0, or -1 with *error filled. */
int config_ini_read(FILE *file, const char *path, ini_take take, void *arg,
		    struct config_error *error);

#endif

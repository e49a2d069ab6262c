/* The verbs' side of the state directory: what is on record of groups, also of those that are gone.
 */
#ifndef SUPERVISOR_CLIENT_REPORTS_H
#define SUPERVISOR_CLIENT_REPORTS_H

#include <jansson.h>
#include <limits.h>

/* The state directory's path, "" with a word to the user if there is none. */
void client_state_dir(char state_dir[PATH_MAX]);

/*
 * The last reports of group `name`, of any group if NULL, newest first: an array, owned by the
 * caller.
 */
json_t *client_reports(const char *state_dir, const char *name);

#endif

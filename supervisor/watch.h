/* `status --watch`: a group as it goes, without asking it more often than it changes. */
#ifndef SUPERVISOR_WATCH_H
#define SUPERVISOR_WATCH_H

#include "supervisor/client.h"

/*
 * In place on a terminal, until q or Ctrl-C; elsewhere a line for each change; in both cases until
 * the group has ended. The exit status: 0, or 1 if the group has failed or is no longer heard.
 */
int watch_group(const struct client_group *group);

#endif

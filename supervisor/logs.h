/* What the ranks of a living group print, for a person: the verb `logs`. */
#ifndef SUPERVISOR_LOGS_H
#define SUPERVISOR_LOGS_H

#include "supervisor/client.h"

/* Prints the line as `run` does, "[rank N] " before it; on a terminal without control sequences. */
void logs_print(int rank, const char *text, size_t len);

/*
 * Prints what is kept of this epoch, rank by rank; rank -1 stands for all of them. With `follow`
 * goes on with what comes until the group has ended. The exit status.
 */
int logs_show(const struct client_group *group, int rank, bool follow);

#endif

/* --log-format json: one object a line. */
#ifndef SUPERVISOR_LOG_JSON_H
#define SUPERVISOR_LOG_JSON_H

#include "common/log.h"

#include <stddef.h>

/*
 * {"time","level","group","message"}: a line of ours, without newline; its "tfsupervisor: GROUP: "
 * is left out. Caller frees; NULL if memory ran out.
 */
char *log_json_own(enum log_level level, const char *group, const char *line);

/* {"time","group","rank","line"}: a line of a rank. Caller frees; NULL if memory ran out. */
char *log_json_rank(const char *group, int rank, const char *line, size_t len);

#endif

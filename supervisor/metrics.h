/* GET /metrics: the group in Prometheus' text format. */
#ifndef SUPERVISOR_METRICS_H
#define SUPERVISOR_METRICS_H

#include "supervisor/status_json.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* The text with its length in *len; the caller frees it. NULL if memory ran out. */
char *metrics_text(const struct status_source *source, size_t *len);

#endif

/* A report as an incident note: what, who, when, how far, the others, last lines, what to do. */
#ifndef SUPERVISOR_WHY_H
#define SUPERVISOR_WHY_H

#include <jansson.h>
#include <stdio.h>

/* Of a report with a reason; fields that are missing are left out. */
void why_print(FILE *out, const json_t *report);

/* What to look at or change, for a reason as reports have it. Static storage. */
const char *why_advice(const json_t *reason);

#endif

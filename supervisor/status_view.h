/* What /status and /events say, for people: the parts that the verbs share. Pure. */
#ifndef SUPERVISOR_STATUS_VIEW_H
#define SUPERVISOR_STATUS_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A string of a JSON object, "" if it has none; a number, 0 if it has none. */
const char *view_text(const json_t *object, const char *key);
double view_number(const json_t *object, const char *key);
bool view_is_null(const json_t *object, const char *key);

/* 0 to 1; -1 if the rank told nothing. Who is ready has loaded everything. */
double view_fraction(const json_t *rank);

/* The colour of a state of rank or group, an escape sequence. */
const char *view_color(const char *state);

/* "1.2 GiB", "-" */
void view_size(const json_t *rank, char *out, size_t size);

/* 0 serving, or a job that runs; 3 not yet; 1 failed. */
int view_exit_status(const json_t *status);

/* An entry of the journal as a line for people. False if it says nothing to them. */
bool view_entry_line(const json_t *entry, char *out, size_t size);

/* The entry ends the group: *failed tells how. */
bool view_entry_is_end(const json_t *entry, bool *failed);

#endif

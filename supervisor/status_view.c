#include "supervisor/status_view.h"

#include "supervisor/canvas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_NOT_YET 3

const char *
view_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

double
view_number(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

bool
view_is_null(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return value == NULL || json_is_null(value);
}

/* A job that nobody gates runs from its start on. */
int
view_exit_status(const json_t *status)
{
	const char *state = view_text(status, "state");
	bool ungated = strcmp(view_text(status, "mode"), "job") == 0 &&
		       !json_is_true(json_object_get(status, "spoken"));

	if (strcmp(state, "serving") == 0)
		return EXIT_SUCCESS;
	if (strcmp(state, "failed") == 0 || strcmp(state, "stopped") == 0)
		return EXIT_FAILURE;
	if (strcmp(state, "stopping") == 0 && !view_is_null(status, "reason"))
		return EXIT_FAILURE;
	return strcmp(state, "starting") == 0 && ungated ? EXIT_SUCCESS : EXIT_NOT_YET;
}

double
view_fraction(const json_t *rank)
{
	const json_t *progress = json_object_get(rank, "progress");
	const char *state = view_text(rank, "state");
	double done = view_number(progress, "bytes"), total = view_number(progress, "bytes_total");

	if (strcmp(state, "ready") == 0 || strcmp(state, "collective") == 0 ||
	    strcmp(state, "warming") == 0 || strcmp(state, "serving") == 0)
		return 1;
	if (total <= 0) {
		done = view_number(progress, "done");
		total = view_number(progress, "total");
	}
	if (total <= 0)
		return -1;
	return done < total ? done / total : 1;
}

const char *
view_color(const char *state)
{
	if (strcmp(state, "gone") == 0 || strcmp(state, "failed") == 0)
		return CANVAS_RED;
	if (strcmp(state, "serving") == 0 || strcmp(state, "ready") == 0)
		return CANVAS_GREEN;
	return CANVAS_YELLOW;
}

void
view_size(const json_t *rank, char *out, size_t size)
{
	double bytes = view_number(rank, "rss_bytes");

	if (view_is_null(rank, "rss_bytes"))
		snprintf(out, size, "-");
	else if (bytes < 1024.0 * 1024 * 1024)
		snprintf(out, size, "%.1f MiB", bytes / 1024 / 1024);
	else
		snprintf(out, size, "%.1f GiB", bytes / 1024 / 1024 / 1024);
}

/* --- entries of the journal --- */

static bool
is(const json_t *entry, const char *event)
{
	return strcmp(view_text(entry, "event"), event) == 0;
}

bool
view_entry_line(const json_t *entry, char *out, size_t size)
{
	int rank = (int)json_integer_value(json_object_get(entry, "rank"));
	const char *text = view_text(entry, "text");

	if (is(entry, "warning") && json_object_get(entry, "rank") != NULL)
		snprintf(out, size, "rank %d %s", rank, text);
	else if (text[0] != '\0')
		snprintf(out, size, "%s", text);
	else if (is(entry, "forked"))
		snprintf(out, size, "rank %d: forked, pid %lld", rank,
			 (long long)json_integer_value(json_object_get(entry, "pid")));
	else if (is(entry, "rank"))
		snprintf(out, size, "rank %d: %s", rank, view_text(entry, "to"));
	else if (is(entry, "group"))
		snprintf(out, size, "%s", view_text(entry, "to"));
	else
		return false;
	return true;
}

bool
view_entry_is_end(const json_t *entry, bool *failed)
{
	const char *to = view_text(entry, "to");

	*failed = strcmp(to, "failed") == 0;
	return is(entry, "group") && (*failed || strcmp(to, "stopped") == 0);
}

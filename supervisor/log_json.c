#include "supervisor/log_json.h"

#include "supervisor/clean.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROGRAM_PREFIX "tfsupervisor: "

static const char *const levels[] = {
    [LOG_LEVEL_INFO] = "info", [LOG_LEVEL_WARN] = "warning", [LOG_LEVEL_ERROR] = "error"};

/* Of the wall clock, in UTC, with milliseconds: RFC 3339. */
static json_t *
time_string(void)
{
	struct timespec now;
	struct tm tm;
	char date[32], text[48];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%03ldZ", date, now.tv_nsec / 1000000);
	return json_string(text);
}

/* Any bytes as a JSON string; NULL if memory ran out. */
static json_t *
clean_string(const char *text, size_t len)
{
	char *clean = malloc(len + CLEAN_GROWTH_BYTES);
	json_t *string;

	if (clean == NULL)
		return NULL;
	string = json_stringn(clean, clean_utf8(text, len, clean));
	free(clean);
	return string;
}

static char *
dump(json_t *object)
{
	char *text;

	if (object == NULL)
		return NULL;
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

static const char *
without_prefix(const char *line, const char *group)
{
	size_t n = strlen(PROGRAM_PREFIX), g = group != NULL ? strlen(group) : 0;

	if (strncmp(line, PROGRAM_PREFIX, n) != 0)
		return line;
	line += n;
	if (g > 0 && strncmp(line, group, g) == 0 && strncmp(line + g, ": ", 2) == 0)
		line += g + 2;
	return line;
}

char *
log_json_own(enum log_level level, const char *group, const char *line)
{
	const char *message = without_prefix(line, group);

	return dump(json_pack("{s:o, s:s, s:s?, s:o}", "time", time_string(), "level",
			      levels[level], "group", group, "message",
			      clean_string(message, strlen(message))));
}

char *
log_json_rank(const char *group, int rank, const char *line, size_t len)
{
	return dump(json_pack("{s:o, s:s?, s:i, s:o}", "time", time_string(), "group", group,
			      "rank", rank, "line", clean_string(line, len)));
}

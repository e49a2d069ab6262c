#include "common/duration.h"

#include "common/deadline.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *word;
	uint64_t ns;
} units[] = {
    {"h", 3600 * NS_PER_SEC},
    {"m", 60 * NS_PER_SEC},
    {"s", NS_PER_SEC},
    {"ms", NS_PER_MSEC},
};

#define UNITS (sizeof(units) / sizeof(units[0]))

void
format_duration(uint64_t ns, char *out, size_t size)
{
	uint64_t s = ns / NS_PER_SEC, ms = ns / NS_PER_MSEC;
	size_t n = 0;

	if (ms == 0) {
		snprintf(out, size, "0");
		return;
	}
	if (s < 60 && ms % 1000 != 0) {
		snprintf(out, size, "%ums", (unsigned)ms);
		return;
	}
	ns = s * NS_PER_SEC;
	for (size_t i = 0; i < UNITS; i++) {
		if (ns >= units[i].ns && n < size)
			n +=
			    (size_t)snprintf(out + n, size - n, "%llu%s",
					     (unsigned long long)(ns / units[i].ns), units[i].word);
		ns %= units[i].ns;
	}
}

/* Reads digits at *text. False if there are none or they do not fit. */
static bool
read_number(const char **text, uint64_t *number)
{
	const char *p = *text;

	*number = 0;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, (uint64_t)(*p - '0'), number))
			return false;
	}
	if (p == *text)
		return false;
	*text = p;
	return true;
}

/* Index of the unit that *text starts with, at or after `first`; UNITS if none. */
static size_t
read_unit(const char **text, size_t first)
{
	size_t len = strspn(*text, "hms");

	for (size_t i = first; i < UNITS; i++) {
		if (strlen(units[i].word) == len && strncmp(units[i].word, *text, len) == 0) {
			*text += len;
			return i;
		}
	}
	return UNITS;
}

int
parse_duration(const char *text, uint64_t *ns)
{
	uint64_t number, total = 0;
	size_t unit = 0;

	if (strcmp(text, "0") == 0) {
		*ns = 0;
		return 0;
	}
	do {
		if (!read_number(&text, &number) || (unit = read_unit(&text, unit)) == UNITS)
			return -1;
		if (__builtin_mul_overflow(number, units[unit].ns, &number) ||
		    __builtin_add_overflow(total, number, &total))
			return -1;
		unit++;
	} while (*text != '\0');
	*ns = total;
	return 0;
}

#include "worker/args.h"

#include "common/log.h"
#include "worker/cmd.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
args_usage(const char *usage, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_warnx("%s", text);
	log_warnx("usage: %s", usage);
	return EXIT_USAGE;
}

int
args_refused(const char *usage, char **argv, int optind_now)
{
	return args_usage(usage, "'%s': unknown, or without its value", argv[optind_now - 1]);
}

/* Digits only: strtoull takes signs and blanks. */
static int
parse(const char *text, uint64_t *number, const char **rest)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -1;
	errno = 0;
	*number = strtoull(text, &end, 10);
	*rest = end;
	return errno == 0 ? 0 : -1;
}

int
args_number(const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
	const char *rest;

	if (parse(text, number, &rest) != 0 || *rest != '\0')
		return -1;
	return *number >= min && *number <= max ? 0 : -1;
}

int
args_size(const char *text, uint64_t *bytes)
{
	static const struct {
		const char *unit;
		uint64_t bytes;
	} units[] = {{"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
	const char *rest;

	if (parse(text, bytes, &rest) != 0 || *bytes == 0)
		return -1;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(rest, units[i].unit) == 0)
			return __builtin_mul_overflow(*bytes, units[i].bytes, bytes) ? -1 : 0;
	return -1;
}

int
args_flush(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	log_warn("standard output");
	return 1;
}

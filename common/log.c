#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_LINE_BYTES 4096

static char prefix[96] = "tfsupervisor: ";
static log_sink sink_fn;
static void *sink_arg;

void
log_init(const char *prog, const char *group)
{
	if (group != NULL)
		snprintf(prefix, sizeof(prefix), "%s: %s: ", prog, group);
	else
		snprintf(prefix, sizeof(prefix), "%s: ", prog);
}

void
log_set_sink(log_sink sink, void *arg)
{
	sink_fn = sink;
	sink_arg = arg;
}

static void
emit(enum log_level level, const char *error, const char *fmt, va_list ap)
{
	char line[LOG_LINE_BYTES];
	size_t n;
	int r;

	n = (size_t)snprintf(line, sizeof(line), "%s", prefix);
	r = vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	if (r > 0)
		n += (size_t)r;
	if (n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	if (error != NULL && n < sizeof(line) - 2) {
		r = snprintf(line + n, sizeof(line) - n - 1, ": %s", error);
		if (r > 0)
			n += (size_t)r;
		if (n > sizeof(line) - 2)
			n = sizeof(line) - 2;
	}
	if (sink_fn != NULL) {
		line[n] = '\0';
		sink_fn(level, line, sink_arg);
		return;
	}
	line[n++] = '\n';
	/* Standard error may be closed or full: there is nobody left to tell. */
	if (write(STDERR_FILENO, line, n) < 0)
		return;
}

void
log_info(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit(LOG_LEVEL_INFO, NULL, fmt, ap);
	va_end(ap);
}

void
log_warn(const char *fmt, ...)
{
	const char *error = strerror(errno);
	va_list ap;

	va_start(ap, fmt);
	emit(LOG_LEVEL_WARN, error, fmt, ap);
	va_end(ap);
}

void
log_warnx(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit(LOG_LEVEL_WARN, NULL, fmt, ap);
	va_end(ap);
}

void
fatal(int status, const char *fmt, ...)
{
	const char *error = strerror(errno);
	va_list ap;

	va_start(ap, fmt);
	emit(LOG_LEVEL_ERROR, error, fmt, ap);
	va_end(ap);
	exit(status);
}

void
fatalx(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit(LOG_LEVEL_ERROR, NULL, fmt, ap);
	va_end(ap);
	exit(status);
}

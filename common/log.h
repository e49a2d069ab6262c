/*
 * Our own lines, on standard error: "tfsupervisor: demo: text". log_warn adds errno, log_warnx
 * does not. fatal is for main and start-up only; libraries return errors.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdarg.h>
#include <stdbool.h>

enum log_level { LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

/*
 * Takes a finished line without newline instead of standard error (a terminal keeps bars below
 * the lines; --log-format json). NULL restores the default.
 */
typedef void (*log_sink)(enum log_level level, const char *line, void *arg);

/* prog and group are copied; group may be NULL. */
void log_init(const char *prog, const char *group);
void log_set_sink(log_sink sink, void *arg);

void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warnx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void fatal(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void fatalx(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif

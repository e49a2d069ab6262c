/* What the verbs' command lines share. */
#ifndef WORKER_ARGS_H
#define WORKER_ARGS_H

#include <stdint.h>

/* Says what is wrong and the usage line, "tfworker VERB ..."; returns EXIT_USAGE. */
int args_usage(const char *usage, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for the option or the missing value that getopt_long (with opterr 0) stumbled over. */
int args_refused(const char *usage, char **argv, int optind_now);

/* A whole number, min to max. 0 or -1. */
int args_number(const char *text, uint64_t min, uint64_t max, uint64_t *number);

/* Bytes: a whole number above 0, with KiB, MiB or GiB. 0 or -1. */
int args_size(const char *text, uint64_t *bytes);

/* Flushes standard output: status, or 1 if what was printed could not be written. */
int args_flush(int status);

#endif

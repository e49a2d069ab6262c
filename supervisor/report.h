/*
 * What is told about the end of a group: the last line for people, and the same as JSON in the
 * run directory, the state directory and /dev/termination-log.
 */
#ifndef SUPERVISOR_REPORT_H
#define SUPERVISOR_REPORT_H

#include "supervisor/rundir.h"
#include "supervisor/status_json.h"

#define REPORT_LINE_BYTES        2048
#define REPORT_KEEP              10 /* reports of a group in the state directory */
#define REPORT_TERMINATION_BYTES 4096
#define REPORT_TERMINATION_LOG   "/dev/termination-log"

/*
 * The last line, without "tfsupervisor: NAME: " and newline. Cut to fit; returns its length. Before
 * the end it says where the group stands.
 */
size_t report_last_line(const struct status_source *source, uint64_t now_ns, char *out,
			size_t size);

/*
 * The document: /status with message, exit status, time, how every rank ended and what it printed
 * last. The caller drops the reference; NULL if memory ran out.
 */
json_t *report_json(const struct status_source *source, uint64_t now_ns);

/* At the news: report.json in the group's folder. What cannot be written is warned of. */
void report_news(const struct status_source *source, const struct rundir *dir, uint64_t now_ns);

/*
 * At tree empty: report.json (unless the folder is not open), the state directory, of which the
 * oldest reports are removed, and the termination log. What cannot be written is warned of.
 */
void report_end(const struct status_source *source, const struct rundir *dir, uint64_t now_ns);

/* What report_end() does beyond that, with a text in error[0..size) and -1 on failure. */
int report_save(const char *state_dir, const json_t *report, char *error, size_t size);
int report_termination(const char *path, const json_t *report, char *error, size_t size);

/* File names of reports within the state directory, newest first. */
struct report_names {
	char **v; /* [n] */
	size_t n;
};

/*
 * Those of one group, of all groups if NULL; run-PID names count as one. 0, or -1 with errno; a
 * directory that is not there holds none. Free in either case.
 */
int report_list(const char *state_dir, const char *group, struct report_names *names);
void report_list_free(struct report_names *names);

#endif

/*
 * Directories. The run directory holds one folder per group: flocked by its supervisor for as long
 * as anything of the group lives, removed at its end. The state directory holds the reports.
 * Functions that can fail return 0 or -1 with a text in error[0..size) that names path and cause.
 */
#ifndef SUPERVISOR_RUNDIR_H
#define SUPERVISOR_RUNDIR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RUNDIR_ERROR_BYTES   1024
#define RUNDIR_BASES_MAX     5
#define RUNDIR_SOCKET_BYTES  108 /* sun_path with its NUL */
#define RUNDIR_HEALTH_SOCKET "health.sock"
#define RUNDIR_REPORT        "report.json"
#define RUNDIR_PID           "pid"

/* A group's folder while we hold it. */
struct rundir {
	char path[PATH_MAX]; /* absolute */
	int fd;              /* the folder, holds the flock; -1: closed */
	int base_fd;         /* the run directory it lies in */
	int pid_fd;          /* the pid file, locked too: clients wait for its release */
	bool made_base;      /* the run directory did not exist before */
};

/* The base run directories that clients look in, in the design's order. */
struct rundir_bases {
	char path[RUNDIR_BASES_MAX][PATH_MAX];
	size_t n;
};

/*
 * Finds or creates the run directory (option: --run-dir, configured: run_dir; NULL if not given),
 * creates and locks the folder of group `name` in it, cleans what a dead supervisor left there
 * (said in one line) and writes `pid` into its pid file. Descriptors are close-on-exec; the lock
 * holds until every process that inherited them by fork has closed them.
 */
int rundir_open(struct rundir *dir, const char *option, const char *configured, const char *name,
		pid_t pid, char *error, size_t size);

/* Removes the folder with all it holds, then gives the lock back. Harmless when repeated. */
void rundir_close(struct rundir *dir);

/* Closes the descriptors and removes nothing: for the process that is not to clean up. */
void rundir_forget(struct rundir *dir);

/* The path of a socket in the folder; an error if it is longer than 107 bytes. */
int rundir_socket_path(const struct rundir *dir, const char *file, char path[RUNDIR_SOCKET_BYTES],
		       char *error, size_t size);

/* Where a client looks: the option alone if given, else every place of the design. */
void rundir_bases(struct rundir_bases *bases, const char *option, const char *configured);

/* The one where a supervisor makes its folder. */
int rundir_base(char path[PATH_MAX], const char *option, const char *configured, char *error,
		size_t size);

/*
 * Opens a run directory (flags: O_RDONLY or O_PATH) that is not a link planted by another user.
 * The descriptor, or -1; errno tells ENOENT from the rest.
 */
int rundir_open_base(const char *path, int flags, char *error, size_t size);

/* The state directory's path, and the same created if need be. */
int statedir_path(char path[PATH_MAX], char *error, size_t size);
int statedir_make(char path[PATH_MAX], char *error, size_t size);

#endif

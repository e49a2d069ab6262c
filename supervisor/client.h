/*
 * The verbs' side: options, where a group is, and one blocking request to its health socket.
 * No event loop. Functions that fail have told the user why on standard error.
 */
#ifndef SUPERVISOR_CLIENT_H
#define SUPERVISOR_CLIENT_H

#include "supervisor/rundir.h"

#include "common/deadline.h"

#include <stdint.h>
#include <stdio.h>

#define CLIENT_TIMEOUT_NS (5 * NS_PER_SEC) /* for one answer */
#define CLIENT_NAME_BYTES 256
#define CLIENT_SEVERAL    (-2)

/* An option of a verb: "--json" sets *flag; "--run-dir DIR" sets *value. One of both is NULL. */
struct client_option {
	const char *word;
	bool *flag;
	const char **value;
};

struct client_verb {
	const char *usage; /* "tfsupervisor stop [NAME] [--run-dir DIR]" */
	const char *help;  /* what it does and its exit statuses, in whole lines */
	const struct client_option *options; /* ends with a NULL word */
};

/*
 * Reads argv[1..argc). At most one word that is no option: *name, NULL without. -1: go on; else the
 * exit status: 64 with the usage on standard error, 0 after --help.
 */
int client_options(int argc, char **argv, const struct client_verb *verb, const char **name);

/* A group whose supervisor lives. */
struct client_group {
	char name[CLIENT_NAME_BYTES];
	char path[PATH_MAX]; /* its folder */
	int pid_fd;          /* its pid file, locked by the supervisor until tree empty */
	long pid;
};

/*
 * Finds the living group `name`, or the only one there is if name is NULL. 0, or not: told why,
 * with the names of the living groups if there are several.
 */
int client_find(const char *run_dir, const char *name, struct client_group *group);
/* The same without a word to the user; CLIENT_SEVERAL if name is NULL and several live. */
int client_look(const char *run_dir, const char *name, struct client_group *group);
void client_close(struct client_group *group);

struct client_answer {
	int status; /* of HTTP */
	char *body; /* NUL-terminated; freed by the caller */
};

/* One request under CLIENT_TIMEOUT_NS. 0, or -1: told why. */
int client_request(const struct client_group *group, const char *method, const char *path,
		   struct client_answer *answer);

/* The connected socket of the group, or -1 with errno. */
int client_connect(const struct client_group *group);
/* Says that the group does not answer, and why; -1. */
int client_fail(const struct client_group *group, const char *why);

/* Writes text for a person, without control sequences. NULL is nothing. */
void client_print(FILE *out, const char *text);

/* True if colours are wanted on out: a terminal, no NO_COLOR. */
bool client_colors(FILE *out);

#endif

/*
 * Starting a rank: the child shares our memory until it runs its own program, so that the cost does
 * not grow with ours, and any step that fails is known here when spawn_rank() returns.
 */
#ifndef SUPERVISOR_SPAWN_H
#define SUPERVISOR_SPAWN_H

#include "supervisor/config.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define LINK_FD_HIGHEST 1023

/* A user to become. groups[] as initgroups(3) would set them. */
struct spawn_user {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* [groups_len] */
	size_t groups_len;
};

struct spawn_request {
	char *const *argv; /* NULL-terminated; argv[0] is looked for in path[] */
	char *const *envp;
	char *const *path;             /* files to try in turn, NULL-terminated: see spawn_path() */
	const char *directory;         /* NULL: ours */
	const struct spawn_user *user; /* NULL: ours */
	const struct worker_limit *limits;
	size_t limits_len;
	const cpu_set_t *cpus; /* NULL: ours */
	size_t cpus_size;
	int output_fd;   /* becomes standard output and standard error */
	int link_fd;     /* the child's end of the link */
	int link_number; /* where the child finds it */
};

struct spawned {
	pid_t pid;
	int pidfd; /* close-on-exec, the caller's */
};

/*
 * Sets the lowest descriptors above standard error aside: through them a child takes what it needs,
 * so that the rest of ours, thousands in a large group, need be neither copied nor closed. Before
 * anything else is opened. 0, or -1 with errno set.
 */
int spawn_reserve(void);

/* 0, or -1 with "what: why" in error[0..size). Called from the main thread, signals blocked. */
int spawn_rank(const struct spawn_request *request, struct spawned *out, char *error, size_t size);

/*
 * The files that `command` may stand for: itself if it has a slash, else one in each folder of the
 * PATH in envp. Freed with spawn_path_free(); NULL if memory ran out.
 */
char **spawn_path(const char *command, char *const *envp);
void spawn_path_free(char **path);

/* 0, or -1 with errno set (ENOENT: no such user). Free with spawn_user_free(). */
int spawn_user_find(const char *name, struct spawn_user *user);
void spawn_user_free(struct spawn_user *user);

/* min(soft limit of descriptors, 1024) - 1, after the rank's own limits. */
int spawn_link_number(const struct worker_limit *limits, size_t limits_len);

#endif

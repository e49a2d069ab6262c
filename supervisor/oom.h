/* Whether the kernel killed for want of memory in our control group (version 2 or 1). */
#ifndef SUPERVISOR_OOM_H
#define SUPERVISOR_OOM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Where the kernel counts them; -1: nowhere that we can read. */
struct oom {
	int fd;
	uint64_t kills; /* when last looked at */
};

/* Opens the counter of the control group that we are in. Never fails: without one nothing is seen.
 */
void oom_open(struct oom *oom);
/* True if there were kills since the last call, or since oom_open(). */
bool oom_has_killed(struct oom *oom);
void oom_close(struct oom *oom);

/*
 * The counter's path by the lines of a /proc/PID/cgroup and the root under which control groups are
 * mounted. False if the lines name none.
 */
bool oom_path(FILE *cgroup, const char *root, char *path, size_t size);
/* The count in the text of memory.events or memory.oom_control, 0 if it holds none. */
uint64_t oom_count(const char *text);

#endif

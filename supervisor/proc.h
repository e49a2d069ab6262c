/* What /proc tells of a process. */
#ifndef SUPERVISOR_PROC_H
#define SUPERVISOR_PROC_H

#include "supervisor/group.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum proc_news {
	PROC_LIVES,      /* not on its way out */
	PROC_ENDS,       /* on its way out, and how is known */
	PROC_UNSURE,     /* on its way out; how, the pidfd will tell */
	PROC_UNREADABLE, /* not to be read here */
};

/*
 * How a child of ours is, of which no wait has been done, so that its number is its own. *ending is
 * filled for PROC_ENDS.
 */
enum proc_news proc_news(pid_t pid, struct ending *ending);

/* The state letter ('R', 'S', 'T', 'Z', ...) of a process, 0 if it cannot be read. */
char proc_state(pid_t pid);

/* True if the process has the signal still before it. */
bool proc_has_pending(pid_t pid, int signal);

/* The parent of a process, -1 if it cannot be read. */
pid_t proc_parent(pid_t pid);

/*
 * The children of a process, all its threads', as far as they fit: pids[0..max). Returns how many
 * there are. Those of `pid` 0 are our own.
 */
size_t proc_children(pid_t pid, pid_t *pids, size_t max);

/* From a wait status. */
struct ending ending_from_status(int status);
/* From waitid's si_code and si_status. */
struct ending ending_from_siginfo(int code, int status);

#endif

#include "supervisor/tree.h"

#include "common/deadline.h"
#include "supervisor/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILDREN_MAX   4096              /* looked at in one go; the next round sees the rest */
#define RESCAN_NS      (2 * NS_PER_MSEC) /* a child may have been born since the last look */
#define FIRST_PRIORITY (-20)             /* may be refused: then at the priority that we have */
#define DEPTH_MAX      64

int
tree_adopt(void)
{
	return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static bool
is_kept(pid_t pid, const pid_t *keep, size_t keep_len)
{
	for (size_t i = 0; i < keep_len; i++)
		if (keep[i] == pid)
			return true;
	return false;
}

/* Our children; *n of them in memory that the caller frees. NULL if there is no memory. */
static pid_t *
children_of(pid_t parent, size_t *n)
{
	size_t max = 64;

	for (;;) {
		pid_t *pids = malloc(max * sizeof(*pids));

		if (pids == NULL)
			return NULL;
		*n = proc_children(parent, pids, max);
		if (*n <= max)
			return pids;
		if (max >= CHILDREN_MAX) {
			*n = max;
			return pids;
		}
		free(pids);
		max = *n + 64;
	}
}

void
tree_reap(const pid_t *keep, size_t keep_len)
{
	siginfo_t info;
	pid_t *pids;
	size_t n;

	/* As long as no rank has ended there is no need to look at all of them. */
	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 ||
		    info.si_pid == 0)
			return;
		if (is_kept(info.si_pid, keep, keep_len))
			break;
		waitpid(info.si_pid, NULL, WNOHANG | __WALL);
	}
	pids = children_of(0, &n);
	for (size_t i = 0; pids != NULL && i < n; i++)
		if (!is_kept(pids[i], keep, keep_len))
			waitpid(pids[i], NULL, WNOHANG | __WALL);
	free(pids);
}

static size_t signal_below(pid_t parent, int signal, const pid_t *keep, size_t keep_len, int depth);

/* A child of ours cannot be reused before we wait for it; any other is pinned first. */
static size_t
signal_one(pid_t parent, pid_t pid, int signal, const pid_t *keep, size_t keep_len, int depth)
{
	bool ours = parent == 0;
	size_t n = 0;
	int fd = -1;

	if (!ours && ((fd = pidfd_open(pid, 0)) < 0 || proc_parent(pid) != parent)) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	if (!ours || !is_kept(pid, keep, keep_len)) {
		n++;
		if (fd >= 0)
			pidfd_send_signal(fd, signal, NULL, 0);
		else
			kill(pid, signal);
	}
	if (fd >= 0)
		close(fd);
	return n + signal_below(pid, signal, keep, keep_len, depth + 1);
}

static size_t
signal_below(pid_t parent, int signal, const pid_t *keep, size_t keep_len, int depth)
{
	size_t n, found = 0;
	pid_t *pids;

	if (depth > DEPTH_MAX || (pids = children_of(parent, &n)) == NULL)
		return 0;
	for (size_t i = 0; i < n; i++)
		found += signal_one(parent, pids[i], signal, keep, keep_len, depth);
	free(pids);
	return found;
}

/*
 * Who is slower than those who fork below us never sees the end of them. The priority is ours for
 * the moment only: what is forked later does not inherit it.
 */
size_t
tree_signal(int signal, const pid_t *keep, size_t keep_len)
{
	int priority = getpriority(PRIO_PROCESS, 0);
	bool hurries = signal == SIGKILL && setpriority(PRIO_PROCESS, 0, FIRST_PRIORITY) == 0;
	size_t found = signal_below(0, signal, keep, keep_len, 0);

	if (hurries)
		setpriority(PRIO_PROCESS, 0, priority);
	return found;
}

bool
tree_holds_only(const pid_t *keep, size_t keep_len)
{
	size_t n;
	pid_t *pids = children_of(0, &n);
	bool only = pids != NULL;

	for (size_t i = 0; only && i < n; i++)
		only = is_kept(pids[i], keep, keep_len);
	free(pids);
	return only;
}

bool
tree_is_empty(void)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
		continue;
	return pid < 0 && errno == ECHILD;
}

bool
tree_kill_all(unsigned long long deadline_ns)
{
	const struct timespec rescan = {.tv_nsec = RESCAN_NS};
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (!tree_is_empty()) {
		if (monotonic_ns() >= deadline_ns)
			return false;
		tree_signal(SIGKILL, NULL, 0);
		sigtimedwait(&child, NULL, &rescan);
	}
	return true;
}

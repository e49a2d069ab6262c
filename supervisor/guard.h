/*
 * The outermost process: what a shell, systemd or a container runtime sees. It passes signals on,
 * reaps orphans, returns the supervisor's exit status, and ends everything below it if the
 * supervisor dies.
 */
#ifndef SUPERVISOR_GUARD_H
#define SUPERVISOR_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

/* What the supervisor is told of its guard. */
struct guard {
	int fd;    /* at EOF when the guard has died, which also sends us SIGTERM */
	pid_t pid; /* as the guard itself sees it */
	bool init; /* we are the init of a PID namespace: our end is everybody's below us */
};

/* What is guarded. */
struct guarded {
	/* The supervisor's whole life; its exit status. */
	int (*supervise)(const struct guard *guard, void *arg);
	/* In the guard, once a supervisor that was killed has nothing left below it. */
	void (*clean_up)(void *arg);
	void *arg;
};

/*
 * Forks; the child runs supervise() in a process group of its own, and with pid_namespace as init
 * of a PID namespace with a /proc of its own, and ends with its result. Returns the exit status in
 * the parent. All signals are blocked by the caller, from its first instruction on.
 */
int guard_run(const struct guarded *program, bool pid_namespace);

/* True if the guard has died. */
bool guard_is_gone(const struct guard *guard);

#endif

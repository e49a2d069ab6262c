/*
 * The outermost process: what a shell, systemd or a container runtime sees. It passes signals on,
 * reaps orphans, returns the supervisor's exit status, and ends everything below it if the
 * supervisor dies.
 */
#ifndef SUPERVISOR_GUARD_H
#define SUPERVISOR_GUARD_H

/*
 * Forks; the child runs supervise(guard_fd, arg) in a process group of its own and ends with its
 * result. guard_fd is at EOF when the guard has died, which also sends the child SIGTERM. Returns
 * the exit status in the parent. All signals are blocked by the caller, from its first
 * instruction on.
 */
int guard_run(int (*supervise)(int guard_fd, void *arg), void *arg);

#endif

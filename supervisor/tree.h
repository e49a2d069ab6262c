/*
 * Everything below us: ranks, their children, and escapees that became ours when their parents
 * died. Nothing here goes by name; whoever is signalled is our child, or its descent is checked
 * while a pidfd pins it.
 */
#ifndef SUPERVISOR_TREE_H
#define SUPERVISOR_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Orphans below us become our children. 0 or -1 with errno set. */
int tree_adopt(void);

/*
 * Waits for every child that has ended, but for those in keep[0..keep_len): ranks stay zombies
 * until the end, so that the number of their process group cannot be reused.
 */
void tree_reap(const pid_t *keep, size_t keep_len);

/* Sends the signal to every descendant but those in keep[] themselves. Returns how many there were.
 */
size_t tree_signal(int signal, const pid_t *keep, size_t keep_len);

/* True if we have no child but those in keep[]. */
bool tree_holds_only(const pid_t *keep, size_t keep_len);

/* Waits for every child that has ended; true if there is no child left at all. */
bool tree_is_empty(void);

/*
 * Guard's last resort: SIGKILL to every descendant until none is left or the deadline has passed
 * (CLOCK_MONOTONIC ns). True if none is left. SIGCHLD must be blocked.
 */
bool tree_kill_all(unsigned long long deadline_ns);

#endif

/*
 * The page that a benchmark shares with the ranks it starts: who did what when, in ns of
 * CLOCK_MONOTONIC, and counters to wait on. The ranks open it by the path in TF_BENCH_TIMES.
 */
#ifndef TESTS_BENCH_TIMES_H
#define TESTS_BENCH_TIMES_H

#include <stdint.h>
#include <sys/types.h>

#define TIMES_VARIABLE "TF_BENCH_TIMES"
#define TIMES_RANKS    1024 /* the most that one page holds */

/* One cache line a rank, so that ranks do not slow each other. 0 = not yet. */
struct rank_times {
	_Alignas(64) uint64_t main_ns; /* main() entered */
	uint64_t hello_ns;             /* HELLO sent */
	uint64_t ready_ns;             /* just before READY is sent */
	uint64_t go_ns;                /* GO received */
	uint64_t abort_ns;             /* ABORT received; SIGTERM where there is no link */
	pid_t pid;
};

struct times {
	uint32_t world_size;
	uint64_t start_ns; /* bare_group: its own main() */
	/* ranks that have got so far; futex words */
	uint32_t began, ready, went, aborted;
	struct rank_times ranks[TIMES_RANKS];
};

uint64_t times_now(void);

/* The page of a new memory file; its descriptor is left open for *path, "/proc/PID/fd/N". */
struct times *times_create(char *path, size_t size);

/* The page at the path in TIMES_VARIABLE. NULL with errno set. */
struct times *times_open(void);

/* One more; wakes whoever waits. */
void times_count(uint32_t *counter);

/* Waits until *counter >= wanted. 0, or -1 when timeout_ns has passed. */
int times_await(uint32_t *counter, uint32_t wanted, uint64_t timeout_ns);

#endif

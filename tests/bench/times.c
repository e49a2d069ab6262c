#include "tests/bench/times.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t
times_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static struct times *
times_map(int fd)
{
	void *page = mmap(NULL, sizeof(struct times), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return page == MAP_FAILED ? NULL : page;
}

struct times *
times_create(char *path, size_t size)
{
	int fd = memfd_create("bench-times", MFD_CLOEXEC);

	if (fd == -1 || ftruncate(fd, sizeof(struct times)) == -1)
		return NULL;
	snprintf(path, size, "/proc/%d/fd/%d", (int)getpid(), fd);
	return times_map(fd);
}

struct times *
times_open(void)
{
	const char *path = getenv(TIMES_VARIABLE);
	struct times *times;
	int fd;

	if (path == NULL) {
		errno = ENOENT;
		return NULL;
	}
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd == -1)
		return NULL;
	times = times_map(fd);
	close(fd);
	return times;
}

void
times_count(uint32_t *counter)
{
	__atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, counter, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int
times_await(uint32_t *counter, uint32_t wanted, uint64_t timeout_ns)
{
	uint64_t end = times_now() + timeout_ns;

	for (;;) {
		uint32_t seen = __atomic_load_n(counter, __ATOMIC_SEQ_CST);
		uint64_t now = times_now();
		struct timespec left;

		if (seen >= wanted)
			return 0;
		if (now >= end)
			return -1;
		left.tv_sec = (time_t)((end - now) / 1000000000U);
		left.tv_nsec = (long)((end - now) % 1000000000U);
		syscall(SYS_futex, counter, FUTEX_WAIT, seen, &left, NULL, 0);
	}
}

#include "common/deadline.h"

#include <limits.h>
#include <time.h>

uint64_t
monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t
deadline_after(uint64_t now_ns, uint64_t timeout_ns)
{
	if (timeout_ns == 0)
		return 0;
	if (timeout_ns > UINT64_MAX - now_ns)
		return UINT64_MAX;
	return now_ns + timeout_ns;
}

int
deadline_poll_ms(uint64_t deadline_ns, uint64_t now_ns)
{
	uint64_t ms;

	if (deadline_ns == 0)
		return -1;
	if (deadline_ns <= now_ns)
		return 0;
	ms = (deadline_ns - now_ns - 1) / NS_PER_MSEC + 1;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

/*
 * The bounded way out of a worker: steps are run one after the other, and if one hangs (a driver, a
 * file system) the process ends all the same, by _exit from a timer, with a line that names the
 * step.
 */
#ifndef WORKER_WAY_OUT_H
#define WORKER_WAY_OUT_H

#include <stddef.h>
#include <stdint.h>

#define WAY_OUT_BOUND_NS UINT64_C(1500000000) /* within the supervisor's abort_timeout */

struct way_out_step {
	const char *name; /* "free the engine"; static storage */
	void (*run)(void *arg);
	void *arg;
};

/* Makes the timer, so that nothing is left that can fail when it is needed. 0, or an errno. */
int way_out_init(void);

/*
 * From now on the process ends within bound_ns, by _exit(status) if nothing else ends it. Of
 * several calls, from any thread, the earliest deadline counts.
 */
void way_out_arm(uint64_t bound_ns, int status);

void way_out_run(const struct way_out_step *steps, size_t n);

#endif

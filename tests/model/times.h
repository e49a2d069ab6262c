/*
 * When each bound is due, told from what happened and the settings alone: the simulation compares
 * it with every timer of the machine after every step.
 */
#ifndef TESTS_MODEL_TIMES_H
#define TESTS_MODEL_TIMES_H

#include "tests/model/world.h"

struct rank_times {
	uint64_t stall_ns, silence_ns, phase_ns, watchdog_ns, judge_ns;
	enum rank_state state; /* at the last look */
	bool unhealthy;        /* then too */
};

struct times {
	uint64_t load_ns, ready_ns; /* 0: off, here as everywhere */
	uint64_t term_ns, kill_ns, reap_ns, backoff_ns;
	uint64_t backoff;   /* the next one */
	uint64_t window_ns; /* start of the restart window */
	struct rank_times ranks[WORLD_RANKS_MAX];
	bool lost;
	enum group_state state;
	uint32_t epoch;
};

/* Takes note of the step that was just taken, and compares. */
void times_step(struct times *times, const struct world *world, struct happening happening);

#endif

/* A group of two ranks in the middle of its load, for tests of what is told about it. */
#ifndef TESTS_UNIT_DEMO_GROUP_H
#define TESTS_UNIT_DEMO_GROUP_H

#include "supervisor/status_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEMO_START_NS (1000 * NS_PER_SEC)
#define DEMO_NOW_NS   (1012 * NS_PER_SEC + 300 * NS_PER_MSEC)

struct demo {
	struct group group;
	struct status_source source;
};

static const char *
demo_gpu(int rank, void *arg)
{
	(void)arg;
	return rank == 0 ? "0" : "1";
}

static size_t
demo_tail(int rank, const char **lines, size_t max, void *arg)
{
	static const char *const last[] = {"loading shard 3", "bad \xff byte", "out of memory"};
	size_t n = max < 3 ? max : 3;

	(void)arg;
	if (rank != 1)
		return 0;
	for (size_t i = 0; i < n; i++)
		lines[i] = last[3 - n + i];
	return n;
}

static void
demo_rank(struct rank *rank, pid_t pid, uint64_t done, enum rank_state state)
{
	rank->state = rank->phase = state;
	rank->kind = KIND_LINK;
	rank->pid = pid;
	rank->forked = rank->said_hello = true;
	rank->progress = (struct progress){done, 48, "layer", done << 20, 48 << 20};
	rank->state_ns = DEMO_START_NS + NS_PER_SEC;
	rank->heard_ns = DEMO_NOW_NS - 250 * NS_PER_MSEC;
}

/* Rank 0 is ready, rank 1 is at layer 36 of 48. */
static int
demo_setup(void **state)
{
	struct group_settings settings = {.world_size = 2};
	struct demo *demo = calloc(1, sizeof(*demo));

	for (int i = 0; i < BOUND_COUNT; i++)
		settings.timeout_ns[i] = bound_default_ns((enum bound)i);
	if (demo == NULL || group_init(&demo->group, &settings) != 0)
		return -1;
	demo->group.epoch = 1;
	demo->group.state = GROUP_LOADING;
	demo->group.spoken = true;
	demo->group.started_ns = DEMO_START_NS;
	demo_rank(&demo->group.ranks[0], getpid(), 48, RANK_READY);
	demo->group.ranks[0].was_ready = true;
	demo->group.ready_count = 1;
	demo_rank(&demo->group.ranks[1], 4242, 36, RANK_LOADING);
	demo->source = (struct status_source){
	    .name = "demo", .group = &demo->group, .pid = 4200, .gpu = demo_gpu, .tail = demo_tail};
	*state = demo;
	return 0;
}

static int
demo_teardown(void **state)
{
	struct demo *demo = *state;

	group_free(&demo->group);
	free(demo);
	return 0;
}

/* Rank 1 is lost for this reason; the group ends. */
static inline struct loss *
demo_lose(struct demo *demo, enum reason reason, const char *cause)
{
	struct loss *loss = &demo->group.loss;

	*loss = (struct loss){.reason = reason,
			      .rank = 1,
			      .phase = demo->group.ranks[1].phase,
			      .pid = 4242,
			      .progress = demo->group.ranks[1].progress,
			      .at_ns = DEMO_NOW_NS};
	snprintf(loss->cause, sizeof(loss->cause), "%s", cause);
	snprintf(loss->detail, sizeof(loss->detail), "rank 1: %.400s", cause);
	demo->group.state = GROUP_STOPPING;
	return loss;
}

#endif

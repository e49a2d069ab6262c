/* sources: supervisor/narrate.c supervisor/progress.c supervisor/group.c supervisor/group_death.c supervisor/group_end.c supervisor/group_rank.c supervisor/group_start.c supervisor/group_text.c supervisor/group_time.c supervisor/bound.c */
#include "supervisor/narrate.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define T0        (1000 * NS_PER_SEC)
#define RANKS     5
#define AT(tenth) (T0 + (uint64_t)(tenth)*100 * NS_PER_MSEC)

static struct group group;
static struct progress_history histories[RANKS];

/* Five ranks started at T0, all loading: rank N is at layer 10 N of 48. */
static int
group_open(void **state)
{
	struct group_settings settings = {.world_size = RANKS, .restart_max = 3};

	(void)state;
	settings.timeout_ns[BOUND_LOAD] = 3600 * NS_PER_SEC;
	settings.timeout_ns[BOUND_READY] = 600 * NS_PER_SEC;
	assert_int_equal(group_init(&group, &settings), 0);
	memset(histories, 0, sizeof(histories));
	group.state = GROUP_LOADING;
	group.epoch = 1;
	group.started_ns = T0;
	group.timer_ns[TIMER_LOAD] = T0 + 3600 * NS_PER_SEC;
	group.loss.rank = NO_RANK;
	for (int i = 0; i < RANKS; i++) {
		struct rank *rank = &group.ranks[i];

		rank->state = RANK_LOADING;
		rank->forked = rank->said_hello = true;
		rank->pid = 4000 + i;
		rank->forked_ns = rank->state_ns = T0;
		rank->progress =
		    (struct progress){.done = 10 * (uint64_t)i, .total = 48, .unit = "layer"};
		progress_note(&histories[i], &rank->progress, T0);
	}
	return 0;
}

static int
group_close(void **state)
{
	(void)state;
	group_free(&group);
	return 0;
}

static void
make_ready(int rank, uint64_t at_ns)
{
	group.ranks[rank].state = RANK_READY;
	group.ranks[rank].was_ready = true;
	group.ranks[rank].ready_ns = at_ns;
	group.ranks[rank].progress.done = 48;
	if (group.ready_count++ == 0) {
		group.first_ready_ns = at_ns;
		group.timer_ns[TIMER_READY] = at_ns + 600 * NS_PER_SEC;
	}
}

static void
give_go(enum group_state to)
{
	group.go = true;
	group.go_ns = AT(1900);
	group.skew_ns = 3100 * NS_PER_MSEC;
	group.state = to;
}

static const char *
tell(int rank, int from, int to, uint64_t now_ns)
{
	static char line[NARRATE_LINE_BYTES];

	return transition_line(&group, rank, from, to, now_ns, line, sizeof(line)) ? line : NULL;
}

static const char *
waiting(uint64_t now_ns)
{
	static char line[NARRATE_LINE_BYTES];

	return waiting_line(&group, histories, now_ns, line, sizeof(line)) ? line : NULL;
}

static void
who_is_waited_for_is_named_with_its_progress_and_the_bound(void **state)
{
	(void)state;
	for (int i = 0; i < RANKS; i++)
		if (i != 3)
			make_ready(i, AT(24) - 190 * NS_PER_SEC);
	group.ranks[3].progress.done = 31;
	progress_note(&histories[3], &group.ranks[3].progress, AT(24));
	assert_string_equal(waiting(AT(24)),
			    "waiting for rank 3: layer 31 of 48, about 40 s left, 3m10s of 10m");
}

static void
several_late_ranks_are_one_line_with_the_slowest(void **state)
{
	(void)state;
	make_ready(3, AT(10));
	make_ready(4, AT(20));
	assert_string_equal(waiting(AT(1910)),
			    "waiting for ranks 0, 1, 2: the slowest is rank 0, "
			    "layer 0 of 48, no progress for 3m11s, 3m10s of 10m");
}

static void
a_rank_that_tells_nothing_is_told_by_state_and_status(void **state)
{
	(void)state;
	for (int i = 1; i < RANKS; i++)
		make_ready(i, T0);
	group.ranks[0].state = RANK_CONNECTED;
	group.ranks[0].progress = (struct progress){0};
	group.timer_ns[TIMER_READY] = 0;
	assert_string_equal(waiting(AT(300)), "waiting for rank 0: connected, 30s");
	snprintf(group.ranks[0].status_text, sizeof(group.ranks[0].status_text), "compiling");
	assert_string_equal(waiting(AT(300)), "waiting for rank 0: connected, compiling, 30s");
}

static void
nobody_is_waited_for_once_all_serve_or_in_an_ungated_job(void **state)
{
	(void)state;
	give_go(GROUP_SERVING);
	assert_null(waiting(AT(300)));
	group.go = false;
	group.state = GROUP_STARTING;
	group.settings.job = group.settings.ready_auto = true;
	assert_null(waiting(AT(300)));
	group.state = GROUP_STOPPING;
	group.spoken = true;
	assert_null(waiting(AT(300)));
}

static void
a_warm_up_is_waited_for_too(void **state)
{
	(void)state;
	for (int i = 0; i < RANKS; i++) {
		make_ready(i, T0);
		group.ranks[i].state = i == 2 ? RANK_WARMING : RANK_SERVING;
	}
	give_go(GROUP_WARMING);
	group.ranks[2].state_ns = AT(1900);
	group.ranks[2].timer_ns[RANK_TIMER_PHASE] = AT(1900) + 600 * NS_PER_SEC;
	assert_string_equal(waiting(AT(2500)), "waiting for rank 2: warming, 1m of 10m");
}

static void
ready_says_after_how_long_and_who_is_waited_for(void **state)
{
	(void)state;
	make_ready(1, AT(123));
	assert_string_equal(
	    tell(1, RANK_LOADING, RANK_READY, AT(123)),
	    "rank 1: ready after 12.3 s (layer 48 of 48), waits for ranks 0, 2, 3, 4");
	for (int i = 2; i < RANKS; i++)
		make_ready(i, AT(124));
	assert_string_equal(tell(4, RANK_LOADING, RANK_READY, AT(123)),
			    "rank 4: ready after 12.4 s (layer 48 of 48), waits for rank 0");
}

static void
the_last_to_be_ready_is_told_though_go_came_in_the_same_step(void **state)
{
	(void)state;
	for (int i = 0; i < RANKS; i++)
		make_ready(i, AT(1900));
	give_go(GROUP_COLLECTIVE);
	assert_string_equal(tell(0, RANK_LOADING, RANK_COLLECTIVE, AT(1900)),
			    "rank 0: ready after 3m10s (layer 48 of 48)");
	assert_null(tell(1, RANK_READY, RANK_COLLECTIVE, AT(1900)));
	assert_string_equal(tell(0, RANK_LOADING, RANK_SERVING, AT(1901)),
			    "rank 0: ready after 3m10s (layer 48 of 48), serving, 0.1 s after go");
}

static void
go_says_how_long_and_how_skewed_the_start_was(void **state)
{
	(void)state;
	give_go(GROUP_COLLECTIVE);
	assert_string_equal(
	    tell(NO_RANK, GROUP_LOADING, GROUP_COLLECTIVE, AT(1900)),
	    "go: all 5 ranks ready after 3m10s, skew 3.1 s, first collective begins");
	assert_string_equal(tell(NO_RANK, GROUP_COLLECTIVE, GROUP_SERVING, AT(1905)),
			    "serving, 0.5 s after go");
	assert_string_equal(tell(NO_RANK, GROUP_STARTING, GROUP_SERVING, AT(1900)),
			    "go: all 5 ranks ready after 3m10s, skew 3.1 s, serving");
	group.go_ns = 0;
	assert_string_equal(tell(NO_RANK, GROUP_STARTING, GROUP_SERVING, AT(1900)), "serving");
}

static void
an_end_says_why_and_whose(void **state)
{
	struct rank *rank = &group.ranks[1];

	(void)state;
	group.stop_asked = group.stop_wanted = true;
	group.stop_signal = SIGTERM;
	assert_string_equal(tell(NO_RANK, GROUP_SERVING, GROUP_STOPPING, T0),
			    "stopping: SIGTERM came");
	group.loss.reason = REASON_RANK_DISCONNECTED;
	group.loss.rank = 0;
	snprintf(group.loss.cause, sizeof(group.loss.cause), "exited 3");
	assert_string_equal(tell(NO_RANK, GROUP_LOADING, GROUP_STOPPING, T0),
			    "ending the group: RankDisconnected: rank 0, exited 3");
	rank->ending.how = ENDING_KILLED;
	rank->ending.code = SIGTERM;
	rank->sent_signals = UINT64_C(1) << SIGTERM;
	assert_string_equal(tell(1, RANK_STOPPING, RANK_GONE, T0),
			    "rank 1: gone, killed SIGTERM by us");
	rank->sent_signals = 0;
	rank->victim = true;
	rank->ending.how = ENDING_EXITED;
	rank->ending.code = 1;
	assert_string_equal(tell(1, RANK_STOPPING, RANK_GONE, T0),
			    "rank 1: gone, exited 1, after the loss of rank 0");
	group.timer_ns[TIMER_BACKOFF] = T0 + 2 * NS_PER_SEC;
	group.window_restarts = 1;
	assert_string_equal(tell(NO_RANK, GROUP_STOPPING, GROUP_BACKOFF, T0),
			    "restarting in 2.0 s, restart 1 of 3");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, group_open, group_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(who_is_waited_for_is_named_with_its_progress_and_the_bound),
	    TEST(several_late_ranks_are_one_line_with_the_slowest),
	    TEST(a_rank_that_tells_nothing_is_told_by_state_and_status),
	    TEST(nobody_is_waited_for_once_all_serve_or_in_an_ungated_job),
	    TEST(a_warm_up_is_waited_for_too),
	    TEST(ready_says_after_how_long_and_who_is_waited_for),
	    TEST(the_last_to_be_ready_is_told_though_go_came_in_the_same_step),
	    TEST(go_says_how_long_and_how_skewed_the_start_was),
	    TEST(an_end_says_why_and_whose),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

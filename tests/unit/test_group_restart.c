/* sources: supervisor/group*.c supervisor/bound.c */
/* Restarts, and the exit status of `run`. */
#include "tests/unit/group_case.h"

static struct group_settings
restarting(void)
{
	struct group_settings settings = service_settings();

	settings.restart = true;
	return settings;
}

/* The epoch is lost by an exit of rank 1, and its tree is empty at once. */
static void
lose_epoch(void)
{
	dies(1, ENDING_EXITED, 1);
	empty_tree();
}

static void
spawn_all(void)
{
	for (int i = 0; i < group.settings.world_size; i++)
		spawn(i);
}

static void
the_whole_group_is_forked_anew_after_the_backoff(void **state)
{
	(void)state;
	begin(restarting());
	go("");
	lose_epoch();
	assert_int_equal(group.state, GROUP_BACKOFF);
	assert_int_equal(count(ACTION_EPOCH_OVER, NO_RANK), 1);
	assert_int_equal(count(ACTION_FORK, 0), 0);
	assert_false(wait_for(NS_PER_SEC - 1));
	wait_for(1);
	assert_int_equal(count(ACTION_FORK, 0), 1);
	assert_int_equal(count(ACTION_FORK, 1), 1);
	assert_int_equal(group.epoch, 2);
	assert_int_equal(group.loss.reason, REASON_NONE);
	assert_false(group.go);
	spawn_all();
	go("");
	assert_int_equal(group.go_total, 2);
}

static void
the_backoff_doubles_to_a_minute(void **state)
{
	static const uint64_t expected[] = {1, 2, 4, 8, 16, 32, 60, 60};
	struct group_settings settings = restarting();

	(void)state;
	settings.restart_max = 8;
	begin(settings);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		lose_epoch();
		assert_int_equal(group.timer_ns[TIMER_BACKOFF] - now_ns, expected[i] * NS_PER_SEC);
		wait_for(expected[i] * NS_PER_SEC);
		spawn_all();
	}
	lose_epoch();
	assert_int_equal(group.state, GROUP_FAILED);
}

static void
restart_max_holds_within_the_window_however_short_the_lives(void **state)
{
	(void)state;
	begin(restarting());
	for (int i = 0; i < 3; i++) {
		lose_epoch();
		assert_int_equal(group.state, GROUP_BACKOFF);
		wait_for(60 * NS_PER_SEC);
		spawn_all();
	}
	lose_epoch();
	assert_int_equal(group.state, GROUP_FAILED);
	assert_int_equal(group.exit_status, 10);
	assert_int_equal(group.restarts_total, 3);
}

static void
after_the_window_restarts_count_anew(void **state)
{
	(void)state;
	begin(restarting());
	for (int i = 0; i < 3; i++) {
		lose_epoch();
		wait_for(60 * NS_PER_SEC);
		spawn_all();
	}
	go("");
	wait_for(3600 * NS_PER_SEC);
	lose_epoch();
	assert_int_equal(group.state, GROUP_BACKOFF);
	assert_int_equal(group.timer_ns[TIMER_BACKOFF] - now_ns, NS_PER_SEC);
}

static void
some_losses_are_never_restarted(void **state)
{
	(void)state;
	begin(restarting());
	say_hello(0);
	say(1, "HELLO=1\nPROTOCOL=1\nSETTINGS=ff");
	empty_tree();
	assert_int_equal(group.state, GROUP_FAILED);
	assert_int_equal(group.exit_status, 12);
	start(restarting());
	step((struct group_event){
	    .kind = EVENT_SPAWN_FAILED, .rank = 1, .text = "/no: No such file"});
	assert_true(is_lost(REASON_SPAWN_FAILED, 1));
	assert_string_equal(group.loss.cause, "/no: No such file");
	empty_tree();
	assert_int_equal(group.exit_status, 14);
	begin(restarting());
	say(1, "nonsense");
	empty_tree();
	assert_int_equal(group.state, GROUP_BACKOFF);
}

static void
a_deliberate_stop_is_never_restarted(void **state)
{
	(void)state;
	begin(restarting());
	dies(1, ENDING_EXITED, 1);
	stop(SIGTERM);
	empty_tree();
	assert_int_equal(group.state, GROUP_FAILED);
	assert_int_equal(group.exit_status, 10);
	begin(restarting());
	go("");
	say(0, "STOPPING=1");
	empty_tree();
	assert_int_equal(group.state, GROUP_STOPPED);
}

static void
a_stop_between_two_epochs_is_the_end(void **state)
{
	(void)state;
	begin(restarting());
	lose_epoch();
	stop(SIGTERM);
	assert_int_equal(group.state, GROUP_STOPPED);
	assert_int_equal(group.exit_status, 0);
	assert_int_equal(count(ACTION_EXIT, NO_RANK), 1);
	assert_int_equal(count(ACTION_EPOCH_OVER, NO_RANK), 0);
	assert_false(wait_for(3600 * NS_PER_SEC));
}

static void
an_operators_restart_counts_for_no_failure(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	group_event(EVENT_RESTART);
	assert_int_equal(count(ACTION_SEND_STOP, 0), 1);
	assert_int_equal(kills(1, STOP_SIGNAL), 1);
	dies(0, ENDING_EXITED, 3);
	empty_tree();
	wait_for(0);
	assert_int_equal(group.epoch, 2);
	assert_int_equal(group.window_restarts, 0);
	assert_int_equal(count(ACTION_FORK, 0), 1);
}

static void
a_restart_asked_for_while_a_group_fails_is_kept(void **state)
{
	(void)state;
	begin(service_settings());
	dies(1, ENDING_EXITED, 1);
	group_event(EVENT_RESTART);
	empty_tree();
	wait_for(0);
	assert_int_equal(group.epoch, 2);
	assert_true(group_is_running(&group));
}

static void
a_stop_takes_a_restart_back(void **state)
{
	(void)state;
	begin(service_settings());
	group_event(EVENT_RESTART);
	stop(0);
	group_event(EVENT_RESTART);
	empty_tree();
	assert_int_equal(group.state, GROUP_STOPPED);
	assert_int_equal(group.exit_status, 0);
}

/* --- exit status --- */

static void
an_unfinished_job_exits_by_the_signal_that_ended_it(void **state)
{
	static const struct {
		int signal, status;
	} cases[] = {{SIGTERM, 143}, {SIGINT, 130}, {0, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(job_settings());
		go("");
		stop(cases[i].signal);
		empty_tree();
		assert_int_equal(group.exit_status, cases[i].status);
		begin(service_settings());
		go("");
		stop(cases[i].signal);
		empty_tree();
		assert_int_equal(group.exit_status, 0);
	}
}

static void
the_first_signal_decides_the_status_of_a_job(void **state)
{
	(void)state;
	begin(job_settings());
	stop(SIGINT);
	now_ns += NS_PER_SEC;
	stop(SIGTERM);
	group_event(EVENT_ABANDONED);
	empty_tree();
	assert_int_equal(group.exit_status, 130);
}

static void
a_signal_after_the_last_rank_left_ends_no_job(void **state)
{
	(void)state;
	begin(job_settings());
	go("");
	dies(0, ENDING_EXITED, 0);
	dies(1, ENDING_EXITED, 0);
	stop(SIGTERM);
	empty_tree();
	assert_int_equal(group.exit_status, 0);
}

static void
a_job_is_done_when_every_rank_left_with_0(void **state)
{
	(void)state;
	begin(job_settings());
	go("");
	reap(1);
	assert_true(group_is_running(&group));
	reap(0);
	assert_true(sweeps(SIGTERM));
	assert_int_equal(group.timer_ns[TIMER_KILL], now_ns + 2 * NS_PER_SEC);
	group_event(EVENT_TREE_EMPTY);
	assert_int_equal(group.state, GROUP_STOPPED);
	assert_int_equal(group.exit_status, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_whole_group_is_forked_anew_after_the_backoff),
	    cmocka_unit_test(the_backoff_doubles_to_a_minute),
	    cmocka_unit_test(restart_max_holds_within_the_window_however_short_the_lives),
	    cmocka_unit_test(after_the_window_restarts_count_anew),
	    cmocka_unit_test(some_losses_are_never_restarted),
	    cmocka_unit_test(a_deliberate_stop_is_never_restarted),
	    cmocka_unit_test(a_stop_between_two_epochs_is_the_end),
	    cmocka_unit_test(an_operators_restart_counts_for_no_failure),
	    cmocka_unit_test(a_restart_asked_for_while_a_group_fails_is_kept),
	    cmocka_unit_test(a_stop_takes_a_restart_back),
	    cmocka_unit_test(an_unfinished_job_exits_by_the_signal_that_ended_it),
	    cmocka_unit_test(the_first_signal_decides_the_status_of_a_job),
	    cmocka_unit_test(a_signal_after_the_last_rank_left_ends_no_job),
	    cmocka_unit_test(a_job_is_done_when_every_rank_left_with_0),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	end_case();
	return failed;
}

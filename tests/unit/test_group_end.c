/* sources: supervisor/group*.c supervisor/bound.c */
/* How a group ends: after a loss, by a stop, by an announced leave. */
#include "tests/unit/group_case.h"

/* --- the end after a loss --- */

static void
an_end_by_loss_takes_its_steps_in_time(void **state)
{
	(void)state;
	begin(of_ranks(service_settings(), 3));
	say_hello(0);
	dies(2, ENDING_EXITED, 1);
	assert_int_equal(count(ACTION_SEND_ABORT, 0), 1);
	assert_int_equal(kills(0, SIGTERM), 0);
	assert_int_equal(kills(1, SIGTERM), 1);
	assert_true(wait_for(ABORT_TERM_NS));
	assert_int_equal(kills(0, SIGTERM), 1);
	assert_int_equal(kills(1, SIGTERM), 0);
	wait_for(2 * NS_PER_SEC - ABORT_TERM_NS - 1);
	assert_false(group.killed);
	wait_for(1);
	assert_int_equal(kills(0, SIGKILL), 1);
	assert_int_equal(kills(1, SIGKILL), 1);
	assert_true(sweeps(SIGKILL));
}

static void
the_tree_is_swept_once_every_rank_is_gone(void **state)
{
	(void)state;
	begin(service_settings());
	dies(1, ENDING_EXITED, 1);
	reap(1);
	assert_int_equal(actions.n, 0);
	reap(0);
	assert_true(sweeps(SIGTERM));
	assert_int_equal(count(ACTION_EXIT, NO_RANK), 0);
	group_event(EVENT_TREE_EMPTY);
	assert_int_equal(count(ACTION_EPOCH_OVER, NO_RANK), 1);
	assert_int_equal(count(ACTION_EXIT, NO_RANK), 1);
	assert_int_equal(group.state, GROUP_FAILED);
	assert_int_equal(group.exit_status, 10);
	assert_int_equal(group_next_deadline(&group), 0);
}

static void
a_rank_forked_into_an_end_is_killed(void **state)
{
	(void)state;
	start(service_settings());
	assert_int_equal(count(ACTION_FORK, 0), 1);
	stop(SIGTERM);
	assert_false(group_may_fork(&group));
	assert_true(sweeps(SIGTERM));
	spawn(0);
	assert_int_equal(kills(0, SIGKILL), 1);
	assert_int_equal(group_next_deadline(&group), group.timer_ns[TIMER_KILL]);
	ends(EVENT_REAPED, 0, ENDING_KILLED, SIGKILL);
	assert_true(sweeps(SIGTERM));
}

static void
what_the_kernel_does_not_give_up_is_named(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	stop(0);
	wait_for(8 * NS_PER_SEC);
	assert_true(group.killed);
	reap(0);
	wait_for(5 * NS_PER_SEC);
	assert_true(is_lost(REASON_RANK_TIMEOUT, 1));
	assert_string_equal(bound_word(group.loss.bound), "stop");
	assert_int_equal(count(ACTION_WARN, 1), 1);
	assert_int_equal(count(ACTION_EXIT, NO_RANK), 1);
	assert_int_equal(group.exit_status, 11);
}

static void
so_is_what_the_ranks_left_behind(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	stop(0);
	wait_for(8 * NS_PER_SEC);
	reap(0);
	reap(1);
	wait_for(5 * NS_PER_SEC);
	assert_true(is_lost(REASON_RANK_TIMEOUT, NO_RANK));
	assert_int_equal(group.exit_status, 11);
}

/* --- stop and leave --- */

static void
a_stop_before_the_first_fork_ends_at_once(void **state)
{
	(void)state;
	start(service_settings());
	stop(SIGTERM);
	assert_false(group_may_fork(&group));
	assert_true(sweeps(SIGTERM));
	group_event(EVENT_TREE_EMPTY);
	assert_int_equal(group.state, GROUP_STOPPED);
	assert_int_equal(group.exit_status, 0);
}

static void
a_stop_tells_then_signals_then_kills(void **state)
{
	(void)state;
	begin(service_settings());
	say_hello(0);
	stop(SIGTERM);
	assert_int_equal(count(ACTION_SEND_STOP, 0), 1);
	assert_int_equal(count(ACTION_SEND_STOP, 1), 0);
	assert_int_equal(kills(0, STOP_SIGNAL), 1);
	assert_int_equal(kills(1, STOP_SIGNAL), 1);
	wait_for(8 * NS_PER_SEC - 1);
	assert_false(group.killed);
	wait_for(1);
	assert_int_equal(kills(0, SIGKILL), 1);
	assert_int_equal(kills(1, SIGKILL), 1);
}

static void
a_stop_in_order_asks_one_rank_after_the_other(void **state)
{
	struct group_settings settings = of_ranks(service_settings(), 3);

	(void)state;
	settings.stop_in_order = settings.stop_reverse = true;
	begin(settings);
	stop(SIGTERM);
	assert_int_equal(kills(2, STOP_SIGNAL), 1);
	assert_int_equal(kills(1, STOP_SIGNAL) + kills(0, STOP_SIGNAL), 0);
	reap(2);
	assert_int_equal(kills(1, STOP_SIGNAL), 1);
	reap(1);
	assert_int_equal(kills(0, STOP_SIGNAL), 1);
}

static void
a_second_signal_hurries_and_a_repeat_does_not(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	stop(SIGINT);
	now_ns += REPEAT_NS - 1;
	stop(SIGINT);
	assert_int_equal(actions.n, 0);
	now_ns += NS_PER_SEC;
	stop(SIGINT);
	assert_true(group.hurried && group.killed);
	assert_int_equal(kills(0, SIGKILL), 1);
	assert_int_equal(group.timer_ns[TIMER_REAP], now_ns + 5 * NS_PER_SEC);
	now_ns += NS_PER_SEC;
	stop(SIGINT);
	group_event(EVENT_ABANDONED);
	assert_int_equal(group.timer_ns[TIMER_REAP], now_ns + 4 * NS_PER_SEC);
}

static void
two_clients_that_ask_for_one_stop_do_not_hurry_it(void **state)
{
	(void)state;
	begin(service_settings());
	stop(0);
	now_ns += NS_PER_SEC;
	stop(0);
	assert_false(group.killed);
	stop(SIGTERM);
	assert_false(group.killed);
	now_ns += NS_PER_SEC;
	stop(SIGTERM);
	assert_true(group.killed);
}

static void
after_a_stop_nothing_is_a_loss(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	stop(SIGTERM);
	rank_event(0, EVENT_CLOSED);
	say(1, "FAILED=stopped");
	say(1, "nonsense");
	dies(0, ENDING_KILLED, SIGSEGV);
	dies(1, ENDING_EXITED, 3);
	empty_tree();
	assert_int_equal(group.loss.reason, REASON_NONE);
	assert_int_equal(group.exit_status, 0);
}

static void
an_announced_leave_stops_the_others_in_order(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	say(1, "STOPPING=1");
	assert_int_equal(count(ACTION_SEND_STOP, 0), 1);
	assert_int_equal(kills(0, STOP_SIGNAL), 1);
	assert_int_equal(kills(1, STOP_SIGNAL), 0);
	rank_event(1, EVENT_CLOSED);
	empty_tree();
	assert_int_equal(group.state, GROUP_STOPPED);
	assert_int_equal(group.exit_status, 0);
}

static void
a_leave_that_ends_otherwise_is_a_loss_after_all(void **state)
{
	static const struct {
		int how, code;
		bool lost;
	} cases[] = {
	    {ENDING_EXITED, 0, false},
	    {ENDING_EXITED, 3, true},
	    {ENDING_KILLED, SIGSEGV, true},
	    {ENDING_KILLED, SIGTERM, false},
	    {ENDING_EXITED, 128 + SIGTERM, false},
	    {ENDING_KILLED, SIGKILL, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(service_settings());
		go("");
		say(1, "STOPPING=1");
		ends(EVENT_REAPED, 0, cases[i].how, cases[i].code);
		reap(1);
		group_event(EVENT_TREE_EMPTY);
		assert_int_equal(is_lost(REASON_RANK_DISCONNECTED, 0), cases[i].lost);
		assert_int_equal(group.exit_status, cases[i].lost ? 10 : 0);
	}
}

static void
a_sigterm_during_a_leave_is_judged_50_ms_later_too(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	dies(0, ENDING_KILLED, SIGTERM);
	say(1, "STOPPING=1");
	reap(0);
	reap(1);
	assert_false(sweeps(SIGTERM));
	wait_for(JUDGE_DELAY_NS);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 0));
	assert_true(sweeps(SIGTERM));
	group_event(EVENT_TREE_EMPTY);
	assert_int_equal(group.exit_status, 10);
}

static void
a_loss_in_a_leave_reaches_who_was_not_asked_yet(void **state)
{
	struct group_settings settings = of_ranks(service_settings(), 3);

	(void)state;
	settings.stop_in_order = true;
	begin(settings);
	go("");
	say(0, "STOPPING=1");
	assert_int_equal(kills(1, STOP_SIGNAL), 0);
	ends(EVENT_REAPED, 0, ENDING_EXITED, 9);
	assert_int_equal(count(ACTION_SEND_ABORT, 1), 1);
	assert_int_equal(count(ACTION_SEND_ABORT, 2), 1);
	assert_int_equal(group.timer_ns[TIMER_KILL], now_ns + 2 * NS_PER_SEC);
}

static void
the_stop_signal_of_a_rank_is_known_as_ours(void **state)
{
	static const int signals[2] = {SIGINT, SIGQUIT};
	struct group_settings settings = service_settings();

	(void)state;
	settings.stop_signals = signals;
	begin(settings);
	stop(0);
	dies(1, ENDING_KILLED, SIGQUIT);
	assert_true(rank_killed_by_us(&group.ranks[1]));
}

static void
a_dead_guard_ends_everything_at_once(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	group_event(EVENT_RESTART);
	group_event(EVENT_ABANDONED);
	assert_int_equal(kills(0, SIGKILL), 1);
	assert_true(sweeps(SIGKILL));
	empty_tree();
	assert_int_equal(group.state, GROUP_STOPPED);
	assert_int_equal(count(ACTION_FORK, 0), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_end_by_loss_takes_its_steps_in_time),
	    cmocka_unit_test(the_tree_is_swept_once_every_rank_is_gone),
	    cmocka_unit_test(a_rank_forked_into_an_end_is_killed),
	    cmocka_unit_test(what_the_kernel_does_not_give_up_is_named),
	    cmocka_unit_test(so_is_what_the_ranks_left_behind),
	    cmocka_unit_test(a_stop_before_the_first_fork_ends_at_once),
	    cmocka_unit_test(a_stop_tells_then_signals_then_kills),
	    cmocka_unit_test(a_stop_in_order_asks_one_rank_after_the_other),
	    cmocka_unit_test(a_second_signal_hurries_and_a_repeat_does_not),
	    cmocka_unit_test(two_clients_that_ask_for_one_stop_do_not_hurry_it),
	    cmocka_unit_test(after_a_stop_nothing_is_a_loss),
	    cmocka_unit_test(an_announced_leave_stops_the_others_in_order),
	    cmocka_unit_test(a_leave_that_ends_otherwise_is_a_loss_after_all),
	    cmocka_unit_test(a_sigterm_during_a_leave_is_judged_50_ms_later_too),
	    cmocka_unit_test(a_loss_in_a_leave_reaches_who_was_not_asked_yet),
	    cmocka_unit_test(the_stop_signal_of_a_rank_is_known_as_ours),
	    cmocka_unit_test(a_dead_guard_ends_everything_at_once),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	end_case();
	return failed;
}

/* sources: supervisor/group*.c supervisor/bound.c */
/* What an end means, and how a group ends: loss, stop, leave, restart, exit status. */
#include "tests/unit/group_case.h"

#define SOON_NS (JUDGE_DELAY_NS - 1)

static struct group_settings
of_ranks(struct group_settings settings, int ranks)
{
	settings.world_size = ranks;
	return settings;
}

/* --- what is a loss --- */

static void
an_exit_is_a_loss_or_a_leave_by_mode_and_moment(void **state)
{
	static const struct {
		bool job, after_go;
		int code;
		bool lost;
	} cases[] = {
	    {false, false, 0, true}, {false, true, 0, true}, {false, false, 3, true},
	    {false, true, 3, true},  {true, false, 0, true}, {true, true, 0, false},
	    {true, false, 3, true},  {true, true, 3, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(cases[i].job ? job_settings() : service_settings());
		if (cases[i].after_go)
			go("");
		else
			say_hello(0);
		dies(1, ENDING_EXITED, cases[i].code);
		wait_for(JUDGE_DELAY_NS);
		assert_int_equal(is_lost(REASON_RANK_DISCONNECTED, 1), cases[i].lost);
	}
}

static void
a_job_whose_ranks_must_speak_may_not_leave_in_silence(void **state)
{
	(void)state;
	begin(job_settings());
	dies(1, ENDING_EXITED, 0);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 1));
	empty_tree();
	assert_int_equal(group.exit_status, 10);
}

static void
a_service_that_leaves_as_one_is_lost(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	reap(0);
	reap(1);
	assert_true(group_is_running(&group));
	assert_false(group_is_serving(&group));
	wait_for(JUDGE_DELAY_NS);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 0));
	group_event(EVENT_TREE_EMPTY);
	assert_int_equal(group.exit_status, 10);
}

static void
a_kill_from_outside_is_news_at_once(void **state)
{
	(void)state;
	begin(service_settings());
	say_hello(0);
	dies(1, ENDING_KILLED, SIGKILL);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 1));
	assert_string_equal(group.loss.cause, "killed SIGKILL");
	assert_int_equal(group.loss.phase, RANK_STARTING);
	assert_int_equal(count(ACTION_SEND_ABORT, 0), 1);
	assert_int_equal(kills(0, SIGTERM), 0);
	assert_int_equal(count(ACTION_NEWS, 1), 1);
}

static void
a_sigterm_that_is_not_ours_is_judged_50_ms_later(void **state)
{
	static const int signals[] = {SIGTERM, SIGINT};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		begin(service_settings());
		go("");
		dies(1, ENDING_KILLED, signals[i]);
		wait_for(SOON_NS);
		assert_true(group_is_running(&group));
		wait_for(1);
		assert_true(is_lost(REASON_RANK_DISCONNECTED, 1));
		assert_int_equal(group.loss.at_ns, CASE_BEGIN_NS);
	}
}

static void
a_stop_within_50_ms_makes_it_a_stop(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	dies(1, ENDING_KILLED, SIGTERM);
	reap(1);
	wait_for(SOON_NS);
	stop(SIGTERM);
	wait_for(JUDGE_DELAY_NS);
	empty_tree();
	assert_int_equal(group.state, GROUP_STOPPED);
	assert_int_equal(group.exit_status, 0);
}

static void
the_first_cause_is_the_end_that_waits(void **state)
{
	(void)state;
	begin(of_ranks(service_settings(), 3));
	go("");
	dies(2, ENDING_KILLED, SIGTERM);
	now_ns += 10 * NS_PER_MSEC;
	dies(0, ENDING_KILLED, SIGKILL);
	assert_true(group_is_running(&group));
	say(1, "FAILED=peer lost\nERRNO=5");
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 2));
	assert_string_equal(group.loss.cause, "killed SIGTERM");
	assert_int_equal(group.loss.error_number, 0);
	assert_true(group.ranks[0].victim);
	assert_false(group.ranks[1].victim);
	assert_false(group.ranks[2].victim);
}

static void
nobody_goes_with_a_dead_rank(void **state)
{
	(void)state;
	begin(service_settings());
	make_ready(0, "");
	dies(0, ENDING_KILLED, SIGTERM);
	make_ready(1, "");
	assert_false(group.go);
	wait_for(JUDGE_DELAY_NS);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 0));
}

static void
the_first_cause_is_final(void **state)
{
	(void)state;
	begin(of_ranks(service_settings(), 3));
	go("");
	say(1, "FAILED=out of memory\nERRNO=12");
	assert_string_equal(group.loss.cause, "failed: out of memory");
	assert_int_equal(group.loss.error_number, 12);
	dies(0, ENDING_KILLED, SIGSEGV);
	say(2, "nonsense");
	say(2, "FAILED=me too");
	rank_event(2, EVENT_CLOSED);
	wait_for(60 * NS_PER_SEC);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 1));
	assert_string_equal(group.loss.cause, "failed: out of memory");
	assert_true(group.ranks[0].victim);
	assert_int_equal(group.failures_total[REASON_RANK_DISCONNECTED], 1);
}

static void
a_cause_that_proc_could_not_tell_is_named_by_the_pidfd(void **state)
{
	(void)state;
	begin(service_settings());
	say_hello(0);
	dies(1, ENDING_UNKNOWN, 0);
	assert_string_equal(group.loss.cause, "died");
	ends(EVENT_REAPED, 1, ENDING_EXITED, 7);
	assert_string_equal(group.loss.cause, "exited 7");
	assert_int_equal(group.loss.ending.code, 7);
}

static void
a_job_waits_for_the_pidfd_before_it_calls_an_end_a_loss(void **state)
{
	(void)state;
	begin(job_settings());
	go("");
	dies(0, ENDING_UNKNOWN, 0);
	assert_true(group_is_running(&group));
	ends(EVENT_REAPED, 0, ENDING_EXITED, 0);
	now_ns += NS_PER_MSEC;
	dies(1, ENDING_UNKNOWN, 0);
	ends(EVENT_REAPED, 1, ENDING_EXITED, 4);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 1));
	assert_string_equal(group.loss.cause, "exited 4");
	assert_false(group.ranks[0].victim);
}

static void
our_signal_to_a_dead_ranks_group_did_not_kill_it(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	dies(1, ENDING_KILLED, SIGTERM);
	wait_for(JUDGE_DELAY_NS + ABORT_TERM_NS);
	assert_false(rank_killed_by_us(&group.ranks[1]));
	dies(0, ENDING_KILLED, SIGTERM);
	assert_true(rank_killed_by_us(&group.ranks[0]));
	assert_true(group.ranks[0].victim);
}

static void
what_comes_after_a_death_is_too_late(void **state)
{
	struct rank then;

	(void)state;
	begin(job_settings());
	go("collective,serving");
	dies(0, ENDING_EXITED, 0);
	then = group.ranks[0];
	say(0, "COLLECTIVE=done");
	say(0, "nonsense");
	rank_event(0, EVENT_CLOSED);
	assert_true(group_is_running(&group));
	assert_memory_equal(then.timer_ns, group.ranks[0].timer_ns, sizeof(then.timer_ns));
}

static void
a_jobs_rank_may_close_its_link_on_its_way_out(void **state)
{
	(void)state;
	begin(job_settings());
	go("");
	rank_event(0, EVENT_CLOSED);
	dies(0, ENDING_EXITED, 0);
	rank_event(1, EVENT_CLOSED);
	wait_for(CLOSE_GRACE_NS - 1);
	assert_true(group_is_running(&group));
	wait_for(1);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 1));
	assert_string_equal(group.loss.cause, "link-closed");
}

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
	begin(service_settings());
	end_case();
	begin(of_ranks(service_settings(), 1));
	group.settings.world_size = 1;
	stop(SIGTERM);
	group.ranks[0].forked = false;
	group.ranks[0].state = RANK_STARTING;
	spawn(0);
	assert_int_equal(kills(0, SIGKILL), 1);
	assert_int_equal(group_next_deadline(&group), group.timer_ns[TIMER_KILL]);
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
	    cmocka_unit_test(an_exit_is_a_loss_or_a_leave_by_mode_and_moment),
	    cmocka_unit_test(a_job_whose_ranks_must_speak_may_not_leave_in_silence),
	    cmocka_unit_test(a_service_that_leaves_as_one_is_lost),
	    cmocka_unit_test(a_kill_from_outside_is_news_at_once),
	    cmocka_unit_test(a_sigterm_that_is_not_ours_is_judged_50_ms_later),
	    cmocka_unit_test(a_stop_within_50_ms_makes_it_a_stop),
	    cmocka_unit_test(the_first_cause_is_the_end_that_waits),
	    cmocka_unit_test(nobody_goes_with_a_dead_rank),
	    cmocka_unit_test(the_first_cause_is_final),
	    cmocka_unit_test(a_cause_that_proc_could_not_tell_is_named_by_the_pidfd),
	    cmocka_unit_test(a_job_waits_for_the_pidfd_before_it_calls_an_end_a_loss),
	    cmocka_unit_test(our_signal_to_a_dead_ranks_group_did_not_kill_it),
	    cmocka_unit_test(what_comes_after_a_death_is_too_late),
	    cmocka_unit_test(a_jobs_rank_may_close_its_link_on_its_way_out),
	    cmocka_unit_test(an_end_by_loss_takes_its_steps_in_time),
	    cmocka_unit_test(the_tree_is_swept_once_every_rank_is_gone),
	    cmocka_unit_test(a_rank_forked_into_an_end_is_killed),
	    cmocka_unit_test(what_the_kernel_does_not_give_up_is_named),
	    cmocka_unit_test(so_is_what_the_ranks_left_behind),
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

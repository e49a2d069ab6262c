/* sources: supervisor/group*.c supervisor/bound.c */
/* What the end of a rank means: a leave, a part of a stop, or a loss, and whose fault it is. */
#include "tests/unit/group_case.h"

#define SOON_NS (JUDGE_DELAY_NS - 1)

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

static void
how_a_rank_left_says_more_than_that_it_closed_its_link(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	rank_event(1, EVENT_CLOSED);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 1));
	assert_int_equal(count(ACTION_SEND_ABORT, 0), 1);
	assert_int_equal(kills(1, SIGTERM), 0);
	ends(EVENT_REAPED, 1, ENDING_EXITED, 3);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 1));
	assert_string_equal(group.loss.cause, "exited 3");
}

static void
a_rank_that_closed_its_link_and_lives_on_is_ended_by_us(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	rank_event(1, EVENT_CLOSED);
	wait_for(ABORT_TERM_NS);
	assert_int_equal(kills(1, SIGTERM), 1);
	ends(EVENT_REAPED, 1, ENDING_KILLED, SIGTERM);
	assert_string_equal(group.loss.cause, "link-closed");
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
	    cmocka_unit_test(how_a_rank_left_says_more_than_that_it_closed_its_link),
	    cmocka_unit_test(a_rank_that_closed_its_link_and_lives_on_is_ended_by_us),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	end_case();
	return failed;
}

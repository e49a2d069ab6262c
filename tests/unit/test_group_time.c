/* sources: supervisor/group*.c supervisor/bound.c */
/* The bounds: when they begin, when they pass, whom they name, and how they are extended. */
#include "tests/unit/group_case.h"

#define SECONDS(n) ((n)*NS_PER_SEC)

static struct group_settings
watched(void)
{
	struct group_settings settings = service_settings();

	settings.timeout_ns[BOUND_WATCHDOG] = SECONDS(20);
	settings.timeout_ns[BOUND_STALL] = SECONDS(60);
	return settings;
}

static void
a_ready_rank_waits_ready_timeout_for_its_peers(void **state)
{
	(void)state;
	begin(service_settings());
	wait_for(SECONDS(100));
	make_ready(0, "");
	wait_for(SECONDS(600) - 1);
	assert_true(group_is_running(&group));
	wait_for(1);
	assert_true(is_lost(REASON_RANK_TIMEOUT, 1));
	assert_int_equal(group.loss.bound, BOUND_READY);
	assert_string_equal(group.loss.detail, "late: rank 1; ready_timeout = 10m");
}

static void
after_go_neither_load_nor_ready_bound_runs(void **state)
{
	(void)state;
	begin(service_settings());
	go("");
	assert_int_equal(group_next_deadline(&group), 0);
}

static void
late_ranks_are_warned_of_at_half_and_nine_tenths(void **state)
{
	(void)state;
	begin(service_settings());
	wait_for(SECONDS(1));
	make_ready(0, "");
	wait_for(SECONDS(300));
	assert_int_equal(actions.v[0].kind, ACTION_WARN_LATE);
	assert_int_equal(actions.v[0].bound, BOUND_READY);
	assert_int_equal(actions.v[0].number, 50);
	wait_for(SECONDS(240));
	assert_int_equal(actions.v[0].kind, ACTION_WARN_LATE);
	assert_int_equal(actions.v[0].number, 90);
	begin(service_settings());
	wait_for(SECONDS(1800));
	assert_int_equal(actions.v[0].kind, ACTION_WARN_LATE);
	assert_int_equal(actions.v[0].bound, BOUND_LOAD);
}

static void
the_collective_bound_names_who_has_not_begun(void **state)
{
	(void)state;
	begin(service_settings());
	go("collective");
	say(0, "COLLECTIVE=begin");
	wait_for(SECONDS(30) - 1);
	assert_int_equal(group.state, GROUP_COLLECTIVE);
	wait_for(1);
	assert_true(is_lost(REASON_RANK_TIMEOUT, 1));
	assert_int_equal(group.loss.bound, BOUND_COLLECTIVE);
	assert_string_equal(group.loss.detail, "late: rank 1; collective_timeout = 30s");
	assert_int_equal(group.loss.phase, RANK_COLLECTIVE);
}

static void
a_warm_up_has_a_bound_of_its_own(void **state)
{
	(void)state;
	begin(service_settings());
	go("collective,serving");
	wait_for(SECONDS(29));
	say(0, "COLLECTIVE=done");
	say(1, "SERVING=1");
	wait_for(SECONDS(600) - 1);
	assert_int_equal(group.state, GROUP_WARMING);
	wait_for(1);
	assert_true(is_lost(REASON_RANK_TIMEOUT, 0));
	assert_int_equal(group.loss.bound, BOUND_WARMUP);
}

static void
a_stalled_rank_is_named_though_it_is_alone(void **state)
{
	(void)state;
	begin(watched());
	say_hello(1);
	wait_for(SECONDS(59));
	say(1, "PROGRESS=1/2");
	rank_event(0, EVENT_HEARD);
	wait_for(SECONDS(59));
	assert_true(group_is_running(&group));
	rank_event(0, EVENT_HEARD);
	wait_for(SECONDS(1));
	assert_true(is_lost(REASON_RANK_TIMEOUT, 1));
	assert_string_equal(group.loss.detail, "late: rank 1; stall_timeout = 1m");
}

static void
a_ready_rank_may_be_silent_and_so_may_one_that_serves(void **state)
{
	(void)state;
	begin(watched());
	make_ready(0, "serving");
	for (int i = 0; i < 9; i++) {
		wait_for(SECONDS(59));
		rank_event(1, EVENT_HEARD);
	}
	assert_true(group_is_running(&group));
	make_ready(1, "");
	wait_for(SECONDS(15));
	say(1, "WATCHDOG=1");
	assert_int_equal(group.ranks[1].timer_ns[RANK_TIMER_STALL], 0);
	assert_int_not_equal(group.ranks[0].timer_ns[RANK_TIMER_STALL], 0);
}

static void
silence_is_warned_of_after_five_minutes_without_any_bound(void **state)
{
	(void)state;
	begin(service_settings());
	say_hello(0);
	assert_false(wait_for(SECONDS(299)));
	assert_true(wait_for(SECONDS(1)));
	assert_int_equal(count(ACTION_WARN, 0) + count(ACTION_WARN, 1), 1);
	assert_true(group_is_running(&group));
}

static void
the_first_word_of_a_job_begins_the_stall_of_every_rank(void **state)
{
	struct group_settings settings = watched();

	(void)state;
	settings.job = true;
	begin(settings);
	wait_for(SECONDS(1000));
	say_hello(0);
	wait_for(SECONDS(30));
	say(0, "STATUS=loads");
	wait_for(SECONDS(30));
	assert_true(is_lost(REASON_RANK_TIMEOUT, 1));
	assert_int_equal(group.loss.bound, BOUND_STALL);
}

static void
the_watchdog_warns_at_the_bound_and_ends_at_twice_the_bound(void **state)
{
	(void)state;
	begin(watched());
	go("");
	assert_true(group_is_serving(&group));
	for (int i = 0; i < 4; i++) {
		wait_for(SECONDS(10));
		say(0, "WATCHDOG=1");
		if (i == 0)
			say(1, "WATCHDOG=1");
		assert_int_equal(group_is_serving(&group), i < 2);
	}
	assert_true(group.ranks[1].unhealthy);
	assert_true(group_is_running(&group));
	wait_for(SECONDS(10));
	assert_true(is_lost(REASON_RANK_TIMEOUT, 1));
	assert_int_equal(group.loss.bound, BOUND_WATCHDOG);
	assert_int_equal(now_ns - CASE_BEGIN_NS, SECONDS(50));
}

static void
a_rank_that_is_heard_again_serves_again(void **state)
{
	(void)state;
	begin(watched());
	go("");
	wait_for(SECONDS(21));
	assert_false(group_is_serving(&group));
	say(0, "WATCHDOG=1");
	say(1, "WATCHDOG=1");
	assert_true(group_is_serving(&group));
	assert_int_equal(count(ACTION_WARN, 1), 1);
	wait_for(SECONDS(19));
	assert_true(group_is_serving(&group));
}

static void
an_extension_moves_the_running_bound_and_only_away(void **state)
{
	struct group_settings settings = watched();
	uint64_t due_ns;

	(void)state;
	settings.timeout_ns[BOUND_LOAD] = SECONDS(100);
	begin(settings);
	say_hello(0);
	due_ns = now_ns + SECONDS(100);
	say(0, "EXTEND_TIMEOUT_USEC=0");
	say(0, "EXTEND_TIMEOUT_USEC=50000000");
	assert_int_equal(group.timer_ns[TIMER_LOAD], due_ns);
	say(0, "EXTEND_TIMEOUT_USEC=200000000");
	assert_int_equal(group.timer_ns[TIMER_LOAD], now_ns + SECONDS(200));
	assert_int_equal(group.ranks[0].timer_ns[RANK_TIMER_STALL], now_ns + SECONDS(200));
	say(0, "PROGRESS=1/2");
	assert_int_equal(group.ranks[0].timer_ns[RANK_TIMER_STALL], now_ns + SECONDS(200));
	assert_int_equal(group.ranks[1].timer_ns[RANK_TIMER_STALL], now_ns + SECONDS(60));
	assert_int_equal(group.timer_ns[TIMER_READY], 0);
}

static void
an_extension_is_at_most_a_day(void **state)
{
	(void)state;
	begin(service_settings());
	say_hello(0);
	say(0, "EXTEND_TIMEOUT_USEC=18446744073709551615");
	assert_int_equal(group.timer_ns[TIMER_LOAD], now_ns + SECONDS(86400));
}

static void
an_unparsed_extension_does_not_wrap(void **state)
{
	static const struct message message = {.verb = VERB_EXTEND,
					       .extend_usec = UINT64_MAX / 1000 + 2};

	(void)state;
	begin(service_settings());
	step((struct group_event){
	    .kind = EVENT_EXTEND, .rank = 0, .message = &message, .notify = true});
	assert_int_equal(group.timer_ns[TIMER_LOAD], now_ns + SECONDS(86400));
}

static void
an_extension_holds_the_watchdog_too(void **state)
{
	(void)state;
	begin(watched());
	go("");
	say(0, "EXTEND_TIMEOUT_USEC=100000000");
	say(0, "WATCHDOG=1");
	assert_int_equal(group.ranks[0].timer_ns[RANK_TIMER_WATCHDOG], now_ns + SECONDS(100));
}

static void
bounds_that_are_off_never_pass(void **state)
{
	struct group_settings settings = service_settings();

	(void)state;
	memset(settings.timeout_ns, 0, sizeof(settings.timeout_ns));
	begin(settings);
	make_ready(0, "collective,serving");
	wait_for(SECONDS(1000000));
	make_ready(1, "collective,serving");
	wait_for(SECONDS(1000000));
	assert_int_equal(group.state, GROUP_COLLECTIVE);
}

static void
a_bound_that_passes_while_an_end_waits_is_not_the_cause(void **state)
{
	(void)state;
	begin(service_settings());
	go("collective");
	wait_for(SECONDS(30) - 10 * NS_PER_MSEC);
	dies(0, ENDING_KILLED, SIGTERM);
	wait_for(10 * NS_PER_MSEC);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 0));
}

static void
a_late_loop_meets_the_earliest_deadline_first(void **state)
{
	struct group_event event;

	(void)state;
	begin(watched());
	make_ready(0, "");
	now_ns += SECONDS(4000);
	assert_true(group_due(&group, now_ns, &event));
	assert_int_equal(event.rank, 1);
	assert_int_equal(event.timer, RANK_TIMER_STALL);
}

static void
a_shift_moves_every_deadline(void **state)
{
	uint64_t next_ns;

	(void)state;
	begin(watched());
	make_ready(0, "");
	next_ns = group_next_deadline(&group);
	group_shift(&group, SECONDS(500));
	assert_int_equal(group_next_deadline(&group), next_ns + SECONDS(500));
	assert_int_equal(group.timer_ns[TIMER_READY], now_ns + SECONDS(1100));
	assert_int_equal(group.timer_ns[TIMER_KILL], 0);
}

static void
many_late_ranks_are_counted(void **state)
{
	struct group_settings settings = service_settings();
	char text[128];

	(void)state;
	settings.world_size = 12;
	begin(settings);
	make_ready(3, "");
	group_late_ranks(&group, BOUND_READY, text, sizeof(text));
	assert_string_equal(text, "0, 1, 2, 4, 5, 6, 7, 8 and 3 more");
}

/* --- dump_signal --- */

static const int dump_signals[2] = {SIGUSR1, SIGUSR1};

static void
dump_signal_is_sent_a_second_before_a_bound_ends_the_group(void **state)
{
	struct group_settings settings = service_settings();

	(void)state;
	settings.dump_signals = dump_signals;
	begin(settings);
	go("collective");
	say(0, "COLLECTIVE=begin");
	assert_false(wait_for(SECONDS(29) - 1));
	assert_true(wait_for(1));
	assert_int_equal(kills(1, SIGUSR1), 1);
	assert_int_equal(kills(0, SIGUSR1), 0);
	assert_false(wait_for(SECONDS(1) - 1));
	assert_true(wait_for(1));
	assert_true(is_lost(REASON_RANK_TIMEOUT, 1));
	assert_false(rank_killed_by_us(&group.ranks[1]));
}

static void
a_bound_shorter_than_that_gives_the_time_afterwards(void **state)
{
	struct group_settings settings = service_settings();

	(void)state;
	settings.dump_signals = dump_signals;
	settings.timeout_ns[BOUND_COLLECTIVE] = NS_PER_SEC / 2;
	begin(settings);
	go("collective");
	wait_for(NS_PER_SEC / 2);
	assert_true(group.dumped);
	wait_for(NS_PER_SEC - 1);
	assert_true(group_is_running(&group));
	wait_for(1);
	assert_true(is_lost(REASON_RANK_TIMEOUT, 0));
}

static void
the_watchdogs_first_warning_dumps_nothing(void **state)
{
	struct group_settings settings = watched();

	(void)state;
	settings.dump_signals = dump_signals;
	begin(settings);
	go("");
	wait_for(SECONDS(20));
	assert_false(group.dumped);
	wait_for(SECONDS(19));
	assert_true(group.dumped);
	assert_true(group_is_running(&group));
	wait_for(SECONDS(1));
	assert_int_equal(group.loss.bound, BOUND_WATCHDOG);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_ready_rank_waits_ready_timeout_for_its_peers),
	    cmocka_unit_test(after_go_neither_load_nor_ready_bound_runs),
	    cmocka_unit_test(late_ranks_are_warned_of_at_half_and_nine_tenths),
	    cmocka_unit_test(the_collective_bound_names_who_has_not_begun),
	    cmocka_unit_test(a_warm_up_has_a_bound_of_its_own),
	    cmocka_unit_test(a_stalled_rank_is_named_though_it_is_alone),
	    cmocka_unit_test(a_ready_rank_may_be_silent_and_so_may_one_that_serves),
	    cmocka_unit_test(silence_is_warned_of_after_five_minutes_without_any_bound),
	    cmocka_unit_test(the_first_word_of_a_job_begins_the_stall_of_every_rank),
	    cmocka_unit_test(the_watchdog_warns_at_the_bound_and_ends_at_twice_the_bound),
	    cmocka_unit_test(a_rank_that_is_heard_again_serves_again),
	    cmocka_unit_test(an_extension_moves_the_running_bound_and_only_away),
	    cmocka_unit_test(an_extension_is_at_most_a_day),
	    cmocka_unit_test(an_unparsed_extension_does_not_wrap),
	    cmocka_unit_test(an_extension_holds_the_watchdog_too),
	    cmocka_unit_test(bounds_that_are_off_never_pass),
	    cmocka_unit_test(a_bound_that_passes_while_an_end_waits_is_not_the_cause),
	    cmocka_unit_test(a_late_loop_meets_the_earliest_deadline_first),
	    cmocka_unit_test(a_shift_moves_every_deadline),
	    cmocka_unit_test(many_late_ranks_are_counted),
	    cmocka_unit_test(dump_signal_is_sent_a_second_before_a_bound_ends_the_group),
	    cmocka_unit_test(a_bound_shorter_than_that_gives_the_time_afterwards),
	    cmocka_unit_test(the_watchdogs_first_warning_dumps_nothing),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	end_case();
	return failed;
}

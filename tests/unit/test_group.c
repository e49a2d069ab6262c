/* sources: supervisor/group*.c supervisor/bound.c */
/* The link's tables cell by cell, from the first fork to serving. */
#include "tests/unit/group_case.h"

enum moment { BEFORE_HELLO, AFTER_HELLO, WHEN_READY, AFTER_GO, WHEN_SERVING, MOMENTS };

/* Rank 0 at that moment of its life; its READY announced `then`. */
static void
bring_to(enum moment moment, const char *then)
{
	begin(service_settings());
	if (moment >= AFTER_HELLO)
		say_hello(0);
	if (moment >= WHEN_READY)
		make_ready(0, then);
	if (moment >= AFTER_GO)
		make_ready(1, then);
	if (moment >= WHEN_SERVING)
		say(0, "SERVING=1");
}

static void
a_word_out_of_its_place_is_a_protocol_error(void **state)
{
	/* A letter per moment: '.' allowed, 'P' RankProtocol, 'D' RankDisconnected, 's' a stop. */
	static const struct {
		const char *packet, *then, *outcome;
	} cases[] = {
	    {"HELLO=1\nPROTOCOL=1\nSETTINGS=aa", "collective", ".PPPP"},
	    {"STATUS=x", "collective", "....."},
	    {"PROGRESS=1/2", "collective", "P...."},
	    {"GROUP_ID=AAAA", "collective", "P..PP"},
	    {"READY=1", "collective", "P...."},
	    {"COLLECTIVE=begin", "collective", "PPP.."},
	    {"COLLECTIVE=done", "collective", "PPP.."},
	    {"COLLECTIVE=begin", "serving", "PPPPP"},
	    {"COLLECTIVE=done", "", "PPPPP"},
	    {"SERVING=1", "collective", "PPP.."},
	    {"SERVING=1", "", "PPP.."},
	    {"WATCHDOG=1", "collective", "P...."},
	    {"EXTEND_TIMEOUT_USEC=5", "collective", "P...."},
	    {"FAILED=no", "collective", "DDDDD"},
	    {"STOPPING=1", "collective", "sssss"},
	    {"READY=2", "collective", "PPPPP"},
	    {"nonsense", "collective", "PPPPP"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int m = 0; m < MOMENTS; m++) {
			char expected = cases[i].outcome[m], seen;

			bring_to((enum moment)m, cases[i].then);
			say(0, cases[i].packet);
			seen = is_lost(REASON_RANK_PROTOCOL, 0)                                ? 'P'
			       : is_lost(REASON_RANK_DISCONNECTED, 0)                          ? 'D'
			       : group.loss.reason == REASON_NONE && !group_is_running(&group) ? 's'
			       : group.loss.reason == REASON_NONE                              ? '.'
								  : '?';
			if (seen != expected)
				fail_msg("%s at moment %d: '%c', not '%c'", cases[i].packet, m,
					 seen, expected);
		}
	}
}

static void
a_misplaced_packet_is_told_by_word_and_rule(void **state)
{
	(void)state;
	bring_to(AFTER_HELLO, "");
	say(0, "HELLO=1\nPROTOCOL=1");
	assert_string_equal(group.loss.cause, "HELLO: comes first and once");
	bring_to(BEFORE_HELLO, "");
	say(0, "READY=1\nTHEN=dancing");
	assert_string_equal(group.loss.cause,
			    "THEN: must be collective, serving, or both with a comma");
}

static void
what_follows_go_is_what_ready_announced(void **state)
{
	static const struct {
		const char *then;
		enum rank_state after_go, after_done;
	} cases[] = {
	    {"", RANK_SERVING, RANK_SERVING},
	    {"collective", RANK_COLLECTIVE, RANK_SERVING},
	    {"serving", RANK_WARMING, RANK_WARMING},
	    {"collective,serving", RANK_COLLECTIVE, RANK_WARMING},
	    {"serving,collective", RANK_COLLECTIVE, RANK_WARMING},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bring_to(AFTER_GO, cases[i].then);
		assert_int_equal(group.ranks[0].state, cases[i].after_go);
		if (cases[i].after_go == RANK_COLLECTIVE) {
			say(0, "COLLECTIVE=begin\nNAME=gather");
			assert_int_equal(group.ranks[0].state, RANK_COLLECTIVE);
			say(0, "COLLECTIVE=done\nNAME=gather");
		}
		assert_int_equal(group.ranks[0].state, cases[i].after_done);
		say(0, "SERVING=1");
		assert_int_equal(group.ranks[0].state, RANK_SERVING);
	}
}

static void
serving_ends_the_collective_too(void **state)
{
	(void)state;
	bring_to(AFTER_GO, "collective,serving");
	say(0, "SERVING=1");
	assert_int_equal(group.ranks[0].state, RANK_SERVING);
	assert_int_equal(group.state, GROUP_COLLECTIVE);
	say(1, "SERVING=1");
	assert_int_equal(group.state, GROUP_SERVING);
	assert_true(group_is_serving(&group));
}

static void
go_comes_with_the_last_ready_and_to_every_rank_once(void **state)
{
	(void)state;
	begin(service_settings());
	say_hello(0);
	assert_int_equal(count(ACTION_SEND_WELCOME, 0), 1);
	say_hello(1);
	make_ready(1, "collective");
	assert_false(group.go);
	now_ns += 35 * NS_PER_SEC;
	make_ready(0, "collective");
	assert_true(group.go);
	assert_int_equal(count(ACTION_SEND_GO, 0), 1);
	assert_int_equal(count(ACTION_SEND_GO, 1), 1);
	assert_int_equal(group.skew_ns, 35 * NS_PER_SEC);
	say(0, "READY=1\nTHEN=serving");
	assert_int_equal(actions.n, 0);
	assert_int_equal(group.ranks[0].state, RANK_COLLECTIVE);
}

static void
a_second_ready_counts_for_nothing(void **state)
{
	(void)state;
	begin(service_settings());
	make_ready(0, "collective");
	say(0, "READY=1\nTHEN=serving");
	say(0, "READY=1");
	assert_int_equal(group.ready_count, 1);
	assert_false(group.go);
	assert_true(group.ranks[0].then_collective && !group.ranks[0].then_serving);
}

static void
a_group_of_one_gets_go_at_its_ready(void **state)
{
	struct group_settings settings = service_settings();

	(void)state;
	settings.world_size = 1;
	begin(settings);
	make_ready(0, "");
	assert_int_equal(count(ACTION_SEND_GO, 0), 1);
	assert_int_equal(group.state, GROUP_SERVING);
}

static void
ranks_that_differ_are_a_mismatch_that_names_two(void **state)
{
	static const char *const hellos[] = {"HELLO=1\nPROTOCOL=1\nSETTINGS=ab",
					     "HELLO=1\nPROTOCOL=1",
					     "HELLO=1\nPROTOCOL=2\nSETTINGS=aa"};

	(void)state;
	for (size_t i = 0; i < sizeof(hellos) / sizeof(hellos[0]); i++) {
		begin(service_settings());
		say_hello(0);
		say(1, hellos[i]);
		assert_true(is_lost(REASON_RANK_MISMATCH, 1));
		assert_non_null(strstr(group.loss.cause, "rank 1"));
		assert_int_equal(count(ACTION_SEND_WELCOME, 1), 0);
		assert_int_equal(count(ACTION_SEND_ABORT, 0), 1);
		assert_int_equal(count(ACTION_SEND_ABORT, 1), 1);
	}
	assert_non_null(strstr(group.loss.cause, "protocol 2"));
	begin(service_settings());
	say_hello(0);
	say(1, hellos[0]);
	assert_non_null(strstr(group.loss.cause, "rank 0"));
}

static void
the_group_id_goes_to_every_other_rank_after_its_welcome(void **state)
{
	struct group_settings settings = service_settings();

	(void)state;
	settings.world_size = 3;
	begin(settings);
	say_hello(0);
	say_hello(1);
	say(0, "GROUP_ID=AAAA");
	assert_int_equal(count(ACTION_KEEP_GROUP_ID, 0), 1);
	assert_int_equal(count(ACTION_SEND_GROUP_ID, 1), 1);
	assert_int_equal(count(ACTION_SEND_GROUP_ID, 0), 0);
	assert_int_equal(count(ACTION_SEND_GROUP_ID, 2), 0);
	say_hello(2);
	assert_int_equal(actions.v[0].kind, ACTION_SEND_WELCOME);
	assert_int_equal(actions.v[1].kind, ACTION_SEND_GROUP_ID);
	say(0, "GROUP_ID=AAAA");
	assert_true(is_lost(REASON_RANK_PROTOCOL, 0));
}

static void
only_rank_0_gives_the_group_id(void **state)
{
	(void)state;
	begin(service_settings());
	say_hello(1);
	say(1, "GROUP_ID=AAAA");
	assert_true(is_lost(REASON_RANK_PROTOCOL, 1));
}

static void
a_link_that_closes_before_hello_is_no_loss(void **state)
{
	(void)state;
	begin(service_settings());
	rank_event(0, EVENT_CLOSED);
	assert_true(group_is_running(&group));
	say_hello(1);
	rank_event(1, EVENT_CLOSED);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 1));
	assert_string_equal(group.loss.cause, "link-closed");
}

static void
progress_without_its_unit_means_the_one_told_before(void **state)
{
	(void)state;
	begin(service_settings());
	say_hello(0);
	assert_int_equal(group.ranks[0].state, RANK_CONNECTED);
	say(0, "PROGRESS=1/48\nUNIT=layer\nBYTES=10/480");
	assert_int_equal(group.ranks[0].state, RANK_LOADING);
	say(0, "PROGRESS=2/48");
	assert_string_equal(group.ranks[0].progress.unit, "layer");
	assert_int_equal(group.ranks[0].progress.bytes, 10);
	assert_int_equal(group.ranks[0].progress.done, 2);
	make_ready(0, "");
	say(0, "PROGRESS=3/48");
	assert_int_equal(group.ranks[0].state, RANK_READY);
	assert_int_equal(group.ranks[0].progress.done, 3);
}

/* --- ranks that speak otherwise --- */

static void
notify(int rank, enum event_kind kind)
{
	static const struct message message = {.verb = VERB_STATUS, .extend_usec = 30000000};

	step((struct group_event){.kind = kind, .rank = rank, .message = &message, .notify = true});
}

static void
a_notify_rank_is_ready_by_its_socket_and_serves_from_go_on(void **state)
{
	(void)state;
	begin(service_settings());
	notify(0, EVENT_STATUS);
	notify(0, EVENT_NOTIFY_READY);
	assert_int_equal(group.ranks[0].state, RANK_READY);
	make_ready(1, "serving");
	assert_int_equal(count(ACTION_SEND_GO, 0), 0);
	assert_int_equal(count(ACTION_SEND_GO, 1), 1);
	assert_int_equal(group.ranks[0].state, RANK_SERVING);
	assert_int_equal(group.state, GROUP_WARMING);
}

static void
oddities_on_the_notify_socket_are_no_offence(void **state)
{
	(void)state;
	begin(service_settings());
	notify(0, EVENT_WATCHDOG);
	notify(0, EVENT_NOTIFY_READY);
	notify(0, EVENT_NOTIFY_READY);
	assert_true(group_is_running(&group));
	assert_int_equal(group.ready_count, 1);
}

static void
a_notify_rank_may_extend_its_load(void **state)
{
	struct group_settings settings = service_settings();

	(void)state;
	settings.timeout_ns[BOUND_LOAD] = 10 * NS_PER_SEC;
	begin(settings);
	notify(0, EVENT_EXTEND);
	assert_int_equal(group.timer_ns[TIMER_LOAD], now_ns + 30 * NS_PER_SEC);
}

static void
a_notify_rank_that_says_hello_gets_its_go_too(void **state)
{
	(void)state;
	begin(service_settings());
	notify(0, EVENT_STATUS);
	say_hello(0);
	make_ready(1, "");
	make_ready(0, "collective");
	assert_int_equal(count(ACTION_SEND_GO, 0), 1);
	assert_int_equal(group.ranks[0].state, RANK_COLLECTIVE);
}

static void
a_probed_rank_that_links_is_welcome_and_gets_its_go(void **state)
{
	struct group_settings settings = service_settings();

	(void)state;
	settings.ready_auto = false;
	begin(settings);
	rank_event(0, EVENT_PROBE_READY);
	say_hello(0);
	assert_true(group_is_running(&group));
	assert_int_equal(count(ACTION_SEND_WELCOME, 0), 1);
	rank_event(1, EVENT_PROBE_READY);
	assert_int_equal(count(ACTION_SEND_GO, 0), 1);
	assert_int_equal(count(ACTION_SEND_GO, 1), 0);
}

static void
without_a_gate_go_is_there_from_the_start(void **state)
{
	struct group_settings settings = service_settings();

	(void)state;
	settings.no_gate = true;
	settings.ready_auto = false;
	begin(settings);
	assert_int_equal(group.state, GROUP_SERVING);
	assert_int_equal(group.timer_ns[TIMER_LOAD], 0);
	say_hello(1);
	assert_int_equal(count(ACTION_SEND_GO, 1), 1);
	say(1, "READY=1\nTHEN=collective");
	say(1, "COLLECTIVE=begin");
	say(1, "SERVING=1");
	assert_int_equal(group.state, GROUP_SERVING);
}

static void
link_words_before_hello_are_misplaced_however_the_rank_became_ready(void **state)
{
	(void)state;
	begin(service_settings());
	notify(0, EVENT_NOTIFY_READY);
	say(0, "PROGRESS=1/2");
	assert_true(is_lost(REASON_RANK_PROTOCOL, 0));
}

/* --- a job that nobody gates --- */

static struct group_settings
auto_job(void)
{
	struct group_settings settings = job_settings();

	settings.ready_auto = true;
	return settings;
}

static void
a_silent_job_simply_runs(void **state)
{
	(void)state;
	begin(auto_job());
	assert_int_equal(group_next_deadline(&group), 0);
	wait_for(100 * 3600 * NS_PER_SEC);
	dies(0, ENDING_EXITED, 0);
	reap(0);
	assert_true(group_is_running(&group));
	reap(1);
	assert_true(sweeps(SIGTERM));
	group_event(EVENT_TREE_EMPTY);
	assert_int_equal(group.state, GROUP_STOPPED);
	assert_int_equal(group.exit_status, 0);
}

static void
the_first_word_gates_a_job(void **state)
{
	(void)state;
	begin(auto_job());
	wait_for(7200 * NS_PER_SEC);
	say(0, "STATUS=here");
	assert_int_equal(group.state, GROUP_LOADING);
	assert_int_equal(group.timer_ns[TIMER_LOAD], now_ns + 3600 * NS_PER_SEC);
	dies(1, ENDING_EXITED, 0);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 1));
}

static void
who_left_in_silence_can_never_be_ready(void **state)
{
	struct group_settings settings = auto_job();

	(void)state;
	settings.world_size = 3;
	begin(settings);
	now_ns += NS_PER_SEC;
	dies(1, ENDING_EXITED, 0);
	now_ns += NS_PER_SEC;
	dies(0, ENDING_EXITED, 0);
	say_hello(2);
	assert_true(is_lost(REASON_RANK_DISCONNECTED, 1));
	assert_string_equal(group.loss.cause, "exited 0");
	assert_int_equal(group.loss.at_ns, CASE_BEGIN_NS + NS_PER_SEC);
}

static void
a_service_that_says_nothing_is_bounded_by_load_timeout(void **state)
{
	(void)state;
	begin(service_settings());
	wait_for(3600 * NS_PER_SEC - 1);
	assert_true(group_is_running(&group));
	wait_for(1);
	assert_true(is_lost(REASON_RANK_TIMEOUT, 0));
	assert_int_equal(group.loss.bound, BOUND_LOAD);
	assert_non_null(strstr(group.loss.detail, "0, 1"));
	assert_non_null(strstr(group.loss.detail, "load_timeout"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_word_out_of_its_place_is_a_protocol_error),
	    cmocka_unit_test(a_misplaced_packet_is_told_by_word_and_rule),
	    cmocka_unit_test(what_follows_go_is_what_ready_announced),
	    cmocka_unit_test(serving_ends_the_collective_too),
	    cmocka_unit_test(go_comes_with_the_last_ready_and_to_every_rank_once),
	    cmocka_unit_test(a_second_ready_counts_for_nothing),
	    cmocka_unit_test(a_group_of_one_gets_go_at_its_ready),
	    cmocka_unit_test(ranks_that_differ_are_a_mismatch_that_names_two),
	    cmocka_unit_test(the_group_id_goes_to_every_other_rank_after_its_welcome),
	    cmocka_unit_test(only_rank_0_gives_the_group_id),
	    cmocka_unit_test(a_link_that_closes_before_hello_is_no_loss),
	    cmocka_unit_test(progress_without_its_unit_means_the_one_told_before),
	    cmocka_unit_test(a_notify_rank_is_ready_by_its_socket_and_serves_from_go_on),
	    cmocka_unit_test(oddities_on_the_notify_socket_are_no_offence),
	    cmocka_unit_test(a_notify_rank_may_extend_its_load),
	    cmocka_unit_test(a_notify_rank_that_says_hello_gets_its_go_too),
	    cmocka_unit_test(a_probed_rank_that_links_is_welcome_and_gets_its_go),
	    cmocka_unit_test(without_a_gate_go_is_there_from_the_start),
	    cmocka_unit_test(link_words_before_hello_are_misplaced_however_the_rank_became_ready),
	    cmocka_unit_test(a_silent_job_simply_runs),
	    cmocka_unit_test(the_first_word_gates_a_job),
	    cmocka_unit_test(who_left_in_silence_can_never_be_ready),
	    cmocka_unit_test(a_service_that_says_nothing_is_bounded_by_load_timeout),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	end_case();
	return failed;
}

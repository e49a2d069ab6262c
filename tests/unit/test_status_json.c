/* sources: supervisor/status_json.c supervisor/clean.c supervisor/timeline.c supervisor/narrate.c supervisor/progress.c supervisor/group*.c supervisor/bound.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/demo_group.h"

#include <signal.h>
#include <time.h>

static json_t *
item(const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	assert_non_null(value);
	return value;
}

static void
assert_keys(const json_t *object, const char *expected)
{
	char keys[1024] = "";
	const char *key;
	json_t *value;
	size_t n = 0;

	json_object_foreach((json_t *)object, key, value)
	{
		n += (size_t)snprintf(keys + n, sizeof(keys) - n, "%s%s", n > 0 ? " " : "", key);
	}
	assert_string_equal(keys, expected);
}

static void
assert_text(const json_t *object, const char *key, const char *expected)
{
	assert_true(json_is_string(item(object, key)));
	assert_string_equal(json_string_value(item(object, key)), expected);
}

static void
assert_seconds(const json_t *object, const char *key, double expected)
{
	assert_true(json_is_real(item(object, key)));
	assert_true(json_number_value(item(object, key)) == expected);
}

static void
assert_is_null(const json_t *object, const char *key)
{
	assert_true(json_is_null(item(object, key)));
}

static void
status_has_the_fields_of_the_design(void **state)
{
	const struct demo *demo = *state;
	json_t *status = status_json(&demo->source, DEMO_NOW_NS), *rank, *progress;

	assert_keys(status, "group state mode spoken epoch pid world_size reason go_seconds "
			    "ready_skew_seconds bounds waiting ranks");
	assert_text(status, "group", "demo");
	assert_text(status, "state", "loading");
	assert_text(status, "mode", "service");
	assert_true(json_is_true(item(status, "spoken")));
	assert_int_equal(json_integer_value(item(status, "epoch")), 1);
	assert_int_equal(json_integer_value(item(status, "pid")), 4200);
	assert_int_equal(json_integer_value(item(status, "world_size")), 2);
	assert_is_null(status, "reason");
	assert_is_null(status, "go_seconds");
	assert_is_null(status, "ready_skew_seconds");
	assert_seconds(item(status, "bounds"), "load_timeout", 3600);
	assert_seconds(item(status, "bounds"), "stall_timeout", 0);
	assert_int_equal(json_object_size(item(status, "bounds")), BOUND_COUNT);
	assert_int_equal(json_array_size(item(status, "ranks")), 2);
	rank = json_array_get(item(status, "ranks"), 1);
	assert_keys(rank, "rank state pid gpu progress status_text state_seconds "
			  "last_heard_seconds rss_bytes");
	assert_int_equal(json_integer_value(item(rank, "rank")), 1);
	assert_text(rank, "state", "loading");
	assert_int_equal(json_integer_value(item(rank, "pid")), 4242);
	assert_text(rank, "gpu", "1");
	assert_is_null(rank, "status_text");
	assert_seconds(rank, "state_seconds", 11.3);
	assert_seconds(rank, "last_heard_seconds", 0.25);
	progress = item(rank, "progress");
	assert_keys(progress, "done total unit bytes bytes_total");
	assert_int_equal(json_integer_value(item(progress, "done")), 36);
	assert_int_equal(json_integer_value(item(progress, "bytes_total")), 48 << 20);
	json_decref(status);
}

static void
go_and_skew_are_told_from_go_on(void **state)
{
	struct demo *demo = *state;
	json_t *status;

	demo->group.go = true;
	demo->group.go_ns = DEMO_START_NS + 35035 * NS_PER_MSEC;
	demo->group.skew_ns = 35 * NS_PER_SEC + 20 * NS_PER_USEC;
	status = status_json(&demo->source, DEMO_NOW_NS + 60 * NS_PER_SEC);
	assert_seconds(status, "go_seconds", 35.035);
	assert_seconds(status, "ready_skew_seconds", 35);
	json_decref(status);
}

static void
memory_is_that_of_a_living_rank(void **state)
{
	struct demo *demo = *state;
	json_t *status = status_json(&demo->source, DEMO_NOW_NS);

	assert_true(json_integer_value(
			item(json_array_get(item(status, "ranks"), 0), "rss_bytes")) > 100000);
	json_decref(status);
	demo->group.ranks[0].reaped = true;
	status = status_json(&demo->source, DEMO_NOW_NS);
	assert_is_null(json_array_get(item(status, "ranks"), 0), "rss_bytes");
	json_decref(status);
}

static void
a_reason_has_the_fields_of_the_design(void **state)
{
	struct demo *demo = *state;
	struct rank *other = &demo->group.ranks[0];
	json_t *status, *reason, *victim;

	demo_lose(demo, REASON_RANK_DISCONNECTED, "killed SIGKILL")->ending =
	    (struct ending){ENDING_KILLED, SIGKILL};
	other->victim = other->died = true;
	other->died_ns = DEMO_NOW_NS + 12 * NS_PER_MSEC;
	other->ending = (struct ending){ENDING_EXITED, 1};
	status = status_json(&demo->source, DEMO_NOW_NS + NS_PER_SEC);
	reason = item(status, "reason");
	assert_keys(reason, "name rank cause phase bound detail exit_code signal pid gpu progress "
			    "monotonic_ns time victims log_tail");
	assert_text(reason, "name", "RankDisconnected");
	assert_int_equal(json_integer_value(item(reason, "rank")), 1);
	assert_text(reason, "cause", "killed SIGKILL");
	assert_text(reason, "phase", "loading");
	assert_is_null(reason, "bound");
	assert_is_null(reason, "exit_code");
	assert_text(reason, "signal", "SIGKILL");
	assert_int_equal(json_integer_value(item(reason, "pid")), 4242);
	assert_text(reason, "gpu", "1");
	assert_int_equal(json_integer_value(item(item(reason, "progress"), "done")), 36);
	assert_int_equal(json_integer_value(item(reason, "monotonic_ns")), DEMO_NOW_NS);
	assert_int_equal(json_array_size(item(reason, "victims")), 1);
	victim = json_array_get(item(reason, "victims"), 0);
	assert_int_equal(json_integer_value(item(victim, "rank")), 0);
	assert_text(victim, "cause", "exited 1");
	assert_true(json_is_false(item(victim, "killed_by_us")));
	assert_seconds(victim, "after_seconds", 0.012);
	assert_int_equal(json_array_size(item(reason, "log_tail")), 3);
	assert_string_equal(json_string_value(json_array_get(item(reason, "log_tail"), 1)),
			    "bad ? byte");
	json_decref(status);
}

static void
the_reason_s_time_is_that_of_the_news(void **state)
{
	struct demo *demo = *state;
	uint64_t now_ns = monotonic_ns();
	char now[32], before[32];
	json_t *status;
	time_t t;

	demo_lose(demo, REASON_RANK_TIMEOUT, "load_timeout of 1h passed")->bound = BOUND_LOAD;
	demo->group.loss.at_ns = now_ns - 100 * NS_PER_SEC;
	t = time(NULL) - 100;
	strftime(before, sizeof(before), "%Y-%m-%dT%H:%M:%S", gmtime(&t));
	status = status_json(&demo->source, now_ns);
	t = time(NULL) - 100;
	strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%S", gmtime(&t));
	assert_text(item(status, "reason"), "bound", "load");
	assert_true(strncmp(json_string_value(item(item(status, "reason"), "time")), before, 19) >=
		    0);
	assert_true(strncmp(json_string_value(item(item(status, "reason"), "time")), now, 19) <= 0);
	assert_int_equal(strlen(json_string_value(item(item(status, "reason"), "time"))), 24);
	json_decref(status);
}

static void
what_is_not_known_is_null(void **state)
{
	struct demo *demo = *state;
	json_t *status, *rank, *progress;

	memset(&demo->group.ranks[1], 0, sizeof(struct rank));
	demo->source.gpu = NULL;
	demo->source.tail = NULL;
	demo_lose(demo, REASON_PREFLIGHT_FAILED, "no GPU")->rank = NO_RANK;
	demo->group.loss.pid = 0;
	status = status_json(&demo->source, DEMO_NOW_NS);
	rank = json_array_get(item(status, "ranks"), 1);
	assert_is_null(rank, "pid");
	assert_is_null(rank, "gpu");
	assert_is_null(rank, "last_heard_seconds");
	progress = item(rank, "progress");
	assert_int_equal(json_integer_value(item(progress, "done")), 0);
	assert_is_null(progress, "total");
	assert_is_null(progress, "unit");
	assert_is_null(progress, "bytes");
	assert_is_null(item(status, "reason"), "rank");
	assert_is_null(item(status, "reason"), "phase");
	assert_is_null(item(status, "reason"), "pid");
	assert_is_null(item(status, "reason"), "progress");
	assert_int_equal(json_array_size(item(item(status, "reason"), "log_tail")), 0);
	json_decref(status);
}

static void
whatever_a_rank_says_the_document_is_json(void **state)
{
	struct demo *demo = *state;
	json_t *status;
	char *text;

	snprintf(demo->group.ranks[1].status_text, MESSAGE_TEXT_BYTES, "%s",
		 "\"\\ \x01 \xc3\xa9 \xff\xfe \xe2\x82");
	status = status_json(&demo->source, DEMO_NOW_NS);
	text = json_dumps(status, JSON_COMPACT);
	json_decref(status);
	assert_non_null(text);
	status = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(status);
	assert_non_null(strstr(text, "\xc3\xa9 ??"));
	json_decref(status);
	free(text);
}

#define test(name) cmocka_unit_test_setup_teardown(name, demo_setup, demo_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    test(status_has_the_fields_of_the_design),
	    test(go_and_skew_are_told_from_go_on),
	    test(memory_is_that_of_a_living_rank),
	    test(a_reason_has_the_fields_of_the_design),
	    test(the_reason_s_time_is_that_of_the_news),
	    test(what_is_not_known_is_null),
	    test(whatever_a_rank_says_the_document_is_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

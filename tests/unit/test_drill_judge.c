/* sources: supervisor/drill_judge.c */
#include "supervisor/drill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000

/* What a good run leaves: times in ms, rank 1's delay being 1,000. */
static const char *const went =
    "{\"outcome\": \"done\", \"moments_ns\": {\"hello\": 1, \"ready\": 10, \"go\": 1010,"
    " \"collective_done\": 1020}, \"gather\": {\"elements\": 9, \"wrong\": 0},"
    " \"sum\": {\"sums\": 9, \"wrong\": 0}}";
static const char *const went_late =
    "{\"outcome\": \"done\", \"moments_ns\": {\"hello\": 1, \"ready\": 1010, \"go\": 1011,"
    " \"collective_done\": 1020}, \"gather\": {\"elements\": 9, \"wrong\": 0},"
    " \"sum\": {\"sums\": 9, \"wrong\": 0}}";
static const char *const told_of_loss =
    "{\"outcome\": \"aborted\", \"abort\": {\"reason\": \"RankDisconnected\"},"
    " \"moments_ns\": {\"hello\": 1, \"ready\": 10, \"go\": 0, \"end\": 1012}}";
static const char *const told_of_timeout =
    "{\"outcome\": \"aborted\", \"abort\": {\"reason\": \"RankTimeout\"},"
    " \"moments_ns\": {\"hello\": 1, \"ready\": 10, \"go\": 10, \"end\": 1012}}";
static const char *const left =
    "{\"outcome\": \"failed\", \"moments_ns\": {\"hello\": 10, \"leave\": 1010}}";
static const char *const closed =
    "{\"outcome\": \"link-closed\", \"moments_ns\": {\"hello\": 10, \"leave\": 1010}}";
static const char *const silent = "{\"outcome\": \"signalled\", \"moments_ns\": {}}";
static const char *const stayed_away =
    "{\"outcome\": \"aborted\", \"moments_ns\": {\"hello\": 1, \"ready\": 9}}";

static const char *const no_reason = "{\"reason\": null}";
static const char *const disconnected =
    "{\"reason\": {\"name\": \"RankDisconnected\", \"rank\": 1, \"cause\": \"link-closed\"}}";
static const char *const ready_bound =
    "{\"reason\": {\"name\": \"RankTimeout\", \"rank\": 1, \"bound\": \"ready\","
    " \"phase\": \"starting\"}}";
static const char *const collective_bound =
    "{\"reason\": {\"name\": \"RankTimeout\", \"rank\": 1, \"bound\": \"collective\","
    " \"phase\": \"collective\"}}";

static json_t *
parse(const char *text)
{
	json_t *json = json_loads(text, 0, NULL), *value;
	const char *key;

	assert_non_null(json);
	json_object_foreach(json_object_get(json, "moments_ns"), key, value)
	    json_integer_set(value, json_integer_value(value) * MS);
	return json;
}

struct story {
	enum drill_mode mode;
	int status;
	const char *report, *first, *second; /* receipts of ranks 0 and 1 */
};

static const struct story good[] = {
    {DRILL_LATE, 0, no_reason, went, went_late},
    {DRILL_SUM, 0, no_reason, went, went_late},
    {DRILL_GONE, 10, disconnected, told_of_loss, left},
    {DRILL_EOF, 10, disconnected, told_of_loss, closed},
    {DRILL_MISSING, 11, ready_bound, told_of_timeout, silent},
    {DRILL_TIMEOUT, 11, collective_bound, told_of_timeout, stayed_away},
};

#define GOOD_LEN (sizeof(good) / sizeof(good[0]))

static bool
passes(struct story story)
{
	struct drill drill = {.mode = story.mode,
			      .ranks = 2,
			      .delay_ns = UINT64_C(1000) * MS,
			      .collective_ns = UINT64_C(857) * MS};
	struct drill_result result = {.status = story.status};
	json_t *checks;
	bool passed;

	result.report = parse(story.report);
	result.receipts = json_pack("[o, o]", parse(story.first), parse(story.second));
	checks = drill_judge(&drill, &result);
	passed = drill_passed(checks);
	json_decref(checks);
	json_decref(result.report);
	json_decref(result.receipts);
	return passed;
}

/* The story with one text replaced by another in all of it; it must have been there. */
static bool
passes_with(struct story story, const char *old, const char *new)
{
	static char texts[3][1024];
	const char **parts[] = {&story.report, &story.first, &story.second};
	int found = 0;

	for (int i = 0; i < 3; i++) {
		const char *at = strstr(*parts[i], old);

		if (at == NULL)
			continue;
		found++;
		snprintf(texts[i], sizeof(texts[i]), "%.*s%s%s", (int)(at - *parts[i]), *parts[i],
			 new, at + strlen(old));
		*parts[i] = texts[i];
	}
	assert_true(found > 0);
	return passes(story);
}

static void
what_each_drill_promises_passes(void **state)
{
	(void)state;
	for (size_t i = 0; i < GOOD_LEN; i++)
		assert_true(passes(good[i]));
}

static void
another_exit_status_fails(void **state)
{
	(void)state;
	for (size_t i = 0; i < GOOD_LEN; i++) {
		struct story story = good[i];

		story.status++;
		assert_false(passes(story));
	}
}

static void
a_run_that_left_nothing_fails(void **state)
{
	(void)state;
	for (size_t i = 0; i < GOOD_LEN; i++) {
		struct story story = good[i];

		story.report = story.first = story.second = "{}";
		assert_false(passes(story));
	}
}

static void
a_wait_that_is_too_short_or_too_long_fails(void **state)
{
	(void)state;
	assert_false(passes_with(good[0], "\"ready\": 10,", "\"ready\": 11,"));
	assert_false(passes_with(good[0], "\"go\": 1010", "\"go\": 1111"));
	assert_false(passes_with(good[0], "\"go\": 1011", "\"go\": 1016"));
	assert_false(
	    passes_with(good[0], "\"collective_done\": 1020", "\"collective_done\": 1900"));
}

static void
wrong_elements_and_sums_fail(void **state)
{
	(void)state;
	assert_false(
	    passes_with(good[0], "\"elements\": 9, \"wrong\": 0", "\"elements\": 9, \"wrong\": 1"));
	assert_false(
	    passes_with(good[1], "\"sums\": 9, \"wrong\": 0", "\"sums\": 9, \"wrong\": 1"));
	assert_false(passes_with(good[1], "\"sums\": 9", "\"sums\": 0"));
	assert_false(
	    passes_with(good[0], "\"reason\": null", "\"reason\": {\"name\": \"RankTimeout\"}"));
}

static void
late_or_wrong_news_of_a_leave_fails(void **state)
{
	(void)state;
	for (size_t i = 2; i <= 3; i++) {
		assert_true(passes_with(good[i], "\"end\": 1012", "\"end\": 1015"));
		assert_false(passes_with(good[i], "\"end\": 1012", "\"end\": 1016"));
		assert_false(passes_with(good[i], "\"end\": 1012", "\"end\": 1009"));
		assert_false(passes_with(good[i], "\"leave\": 1010", "\"leave\": 1009"));
		assert_false(passes_with(good[i], "\"rank\": 1", "\"rank\": 0"));
		assert_false(passes_with(good[i], "\"reason\": \"RankDisconnected\"",
					 "\"reason\": \"RankTimeout\""));
	}
	assert_false(passes_with(good[3], "link-closed\"}", "exited 1\"}"));
}

static void
another_bound_phase_or_moment_fails(void **state)
{
	(void)state;
	for (size_t i = 4; i <= 5; i++) {
		assert_false(passes_with(good[i], "\"bound\": \"", "\"bound\": \"load"));
		assert_false(passes_with(good[i], "\"phase\": \"", "\"phase\": \"x"));
		assert_false(passes_with(good[i], "\"end\": 1012", "\"end\": 1009"));
		assert_false(passes_with(good[i], "\"end\": 1012", "\"end\": 1111"));
		assert_false(passes_with(good[i], "\"rank\": 1", "\"rank\": 0"));
	}
	assert_false(passes_with(good[4], "\"moments_ns\": {}", "\"moments_ns\": {\"hello\": 5}"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_each_drill_promises_passes),
	    cmocka_unit_test(another_exit_status_fails),
	    cmocka_unit_test(a_run_that_left_nothing_fails),
	    cmocka_unit_test(a_wait_that_is_too_short_or_too_long_fails),
	    cmocka_unit_test(wrong_elements_and_sums_fail),
	    cmocka_unit_test(late_or_wrong_news_of_a_leave_fails),
	    cmocka_unit_test(another_bound_phase_or_moment_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

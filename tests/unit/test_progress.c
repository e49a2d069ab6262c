/* sources: supervisor/progress.c */
#include "supervisor/progress.h"

#include "common/deadline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define T0 (1000 * NS_PER_SEC)

static struct progress
layers(uint64_t done, uint64_t total)
{
	return (struct progress){.done = done, .total = total, .unit = "layer"};
}

/* One layer each `step`, looked at ten times a step. */
static uint64_t
load(struct progress_history *history, uint64_t layers_done, uint64_t step_ns)
{
	uint64_t now = T0;

	for (uint64_t i = 0; i <= layers_done; i++) {
		struct progress progress = layers(i, 48);

		for (int look = 0; look < 10 && (look == 0 || i < layers_done); look++) {
			progress_note(history, &progress, now);
			now += step_ns / 10;
		}
	}
	return now - step_ns / 10;
}

static void
expect_left(const struct progress_history *history, uint64_t now, const char *want)
{
	char text[48];

	left_to_string(history, now, text, sizeof(text));
	assert_string_equal(text, want);
}

static void
a_steady_load_tells_its_rate_and_time_left(void **state)
{
	struct progress_history history = {0};
	uint64_t now = load(&history, 31, NS_PER_SEC), left;
	char text[48];

	(void)state;
	assert_true(progress_rate(&history) > 0.99 && progress_rate(&history) < 1.01);
	assert_true(progress_left(&history, now, &left));
	assert_true(left > 16 * NS_PER_SEC && left < 18 * NS_PER_SEC);
	rate_to_string(&history, "layer", text, sizeof(text));
	assert_string_equal(text, "1.0 layer/s");
	expect_left(&history, now, "about 17 s left");
	expect_left(&history, now + 7 * NS_PER_SEC, "about 10 s left");
}

static void
steps_of_twenty_seconds_are_judged_too(void **state)
{
	struct progress_history history = {0};
	uint64_t now = load(&history, 3, 20 * NS_PER_SEC);

	(void)state;
	expect_left(&history, now, "about 15 min left");
	expect_left(&history, now + 3 * 3600 * NS_PER_SEC, "");
}

static void
what_is_not_known_is_not_told(void **state)
{
	struct progress_history history = {0};
	struct progress nothing = {0}, first = layers(0, 48), all = layers(48, 48);
	uint64_t left;
	char text[48];

	(void)state;
	progress_note(&history, &nothing, T0);
	assert_false(progress_left(&history, T0, &left));
	assert_true(progress_fraction(&nothing) < 0);
	progress_note(&history, &first, T0);
	progress_note(&history, &first, T0 + 60 * NS_PER_SEC);
	assert_false(progress_left(&history, T0 + 60 * NS_PER_SEC, &left));
	rate_to_string(&history, "layer", text, sizeof(text));
	assert_string_equal(text, "");
	progress_note(&history, &all, T0 + 61 * NS_PER_SEC);
	expect_left(&history, T0 + 61 * NS_PER_SEC, "");
}

static void
bytes_are_preferred_to_units(void **state)
{
	struct progress_history history = {0};
	struct progress progress = layers(0, 48);
	char text[48];

	(void)state;
	progress.bytes_total = UINT64_C(100000000000);
	for (uint64_t s = 0; s <= 10; s++) {
		progress.bytes = s * UINT64_C(2500000000);
		progress_note(&history, &progress, T0 + s * NS_PER_SEC);
	}
	rate_to_string(&history, "layer", text, sizeof(text));
	assert_string_equal(text, "2.5 GB/s");
	expect_left(&history, T0 + 10 * NS_PER_SEC, "about 30 s left");
	assert_true(progress_fraction(&progress) == 0.25);
}

static void
an_old_rate_is_forgotten(void **state)
{
	struct progress_history history = {0};
	struct progress progress = layers(0, 10000);
	uint64_t now = T0;

	(void)state;
	for (int s = 0; s < 100; s++, now += NS_PER_SEC) {
		progress.done += s < 50 ? 100 : 10;
		progress_note(&history, &progress, now);
	}
	assert_true(progress_rate(&history) > 9.9 && progress_rate(&history) < 10.1);
}

static void
a_count_that_falls_starts_anew(void **state)
{
	struct progress_history history = {0};
	struct progress again = layers(1, 48);
	uint64_t left, now = load(&history, 31, NS_PER_SEC);

	(void)state;
	progress_note(&history, &again, now);
	assert_false(progress_left(&history, now, &left));
	assert_int_equal(history.n, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_steady_load_tells_its_rate_and_time_left),
	    cmocka_unit_test(steps_of_twenty_seconds_are_judged_too),
	    cmocka_unit_test(what_is_not_known_is_not_told),
	    cmocka_unit_test(bytes_are_preferred_to_units),
	    cmocka_unit_test(an_old_rate_is_forgotten),
	    cmocka_unit_test(a_count_that_falls_starts_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* sources: supervisor/metrics.c supervisor/group*.c supervisor/bound.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/metrics.h"
#include "tests/unit/demo_group.h"

#include <stdio.h>

static char *
text_of(const struct demo *demo)
{
	size_t len = 0;
	char *text = metrics_text(&demo->source, &len);

	assert_non_null(text);
	assert_int_equal(strlen(text), len);
	assert_int_equal(text[len - 1], '\n');
	return text;
}

/* A line of the text is just this. */
static bool
has_line(const char *text, const char *line)
{
	const char *found = text;
	size_t len = strlen(line);

	while ((found = strstr(found, line)) != NULL) {
		if ((found == text || found[-1] == '\n') && found[len] == '\n')
			return true;
		found += len;
	}
	return false;
}

static void
every_metric_of_the_design_is_there_with_help_and_type(void **state)
{
	static const struct {
		const char *name, *type;
	} metrics[] = {{"rank_up", "gauge"},
		       {"rank_ready", "gauge"},
		       {"load_progress_ratio", "gauge"},
		       {"ready_skew_seconds", "gauge"},
		       {"go_total", "counter"},
		       {"failures_total", "counter"},
		       {"restarts_total", "counter"},
		       {"state", "gauge"}};
	char *text = text_of(*state), line[128];

	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
		snprintf(line, sizeof(line), "# TYPE tfsupervisor_%s %s", metrics[i].name,
			 metrics[i].type);
		assert_true(has_line(text, line));
		snprintf(line, sizeof(line), "# HELP tfsupervisor_%s ", metrics[i].name);
		assert_non_null(strstr(text, line));
	}
	free(text);
}

static void
ranks_are_told_apart(void **state)
{
	struct demo *demo = *state;
	char *text;

	demo->group.ranks[1].died = true;
	text = text_of(demo);
	assert_true(has_line(text, "tfsupervisor_rank_up{group=\"demo\",rank=\"0\"} 1"));
	assert_true(has_line(text, "tfsupervisor_rank_up{group=\"demo\",rank=\"1\"} 0"));
	assert_true(has_line(text, "tfsupervisor_rank_ready{group=\"demo\",rank=\"0\"} 1"));
	assert_true(has_line(text, "tfsupervisor_rank_ready{group=\"demo\",rank=\"1\"} 0"));
	assert_true(
	    has_line(text, "tfsupervisor_load_progress_ratio{group=\"demo\",rank=\"0\"} 1"));
	assert_true(
	    has_line(text, "tfsupervisor_load_progress_ratio{group=\"demo\",rank=\"1\"} 0.75"));
	free(text);
}

static void
what_is_not_known_has_no_sample(void **state)
{
	struct demo *demo = *state;
	char *text;

	demo->group.ranks[1].progress = (struct progress){0};
	text = text_of(demo);
	assert_null(strstr(text, "load_progress_ratio{group=\"demo\",rank=\"1\"}"));
	assert_null(strstr(text, "ready_skew_seconds{"));
	free(text);
	demo->group.go_ns = DEMO_NOW_NS;
	demo->group.skew_ns = 35020 * NS_PER_MSEC;
	text = text_of(demo);
	assert_true(has_line(text, "tfsupervisor_ready_skew_seconds{group=\"demo\"} 35.020000"));
	free(text);
}

static void
counters_and_the_state_are_told(void **state)
{
	struct demo *demo = *state;
	char *text;

	demo->group.go_total = 3;
	demo->group.restarts_total = 2;
	demo->group.failures_total[REASON_RANK_TIMEOUT] = 4;
	text = text_of(demo);
	assert_true(has_line(text, "tfsupervisor_go_total{group=\"demo\"} 3"));
	assert_true(has_line(text, "tfsupervisor_restarts_total{group=\"demo\"} 2"));
	assert_true(
	    has_line(text, "tfsupervisor_failures_total{group=\"demo\",reason=\"RankTimeout\"} 4"));
	assert_true(has_line(
	    text, "tfsupervisor_failures_total{group=\"demo\",reason=\"RankDisconnected\"} 0"));
	assert_true(has_line(text, "tfsupervisor_state{group=\"demo\",state=\"loading\"} 1"));
	assert_true(has_line(text, "tfsupervisor_state{group=\"demo\",state=\"serving\"} 0"));
	free(text);
}

static void
labels_are_escaped(void **state)
{
	struct demo *demo = *state;
	char *text;

	demo->source.name = "a\"b\\c\nd";
	text = text_of(demo);
	assert_true(has_line(text, "tfsupervisor_go_total{group=\"a\\\"b\\\\c\\nd\"} 0"));
	free(text);
}

#define test(name) cmocka_unit_test_setup_teardown(name, demo_setup, demo_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    test(every_metric_of_the_design_is_there_with_help_and_type),
	    test(ranks_are_told_apart),
	    test(what_is_not_known_has_no_sample),
	    test(counters_and_the_state_are_told),
	    test(labels_are_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

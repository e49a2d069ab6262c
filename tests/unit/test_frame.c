/* sources: supervisor/frame.c supervisor/canvas.c supervisor/clean.c supervisor/status_view.c supervisor/status_json.c supervisor/timeline.c supervisor/narrate.c supervisor/progress.c supervisor/group*.c supervisor/bound.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/frame.h"
#include "tests/unit/demo_group.h"

#define LINES 24

static struct frame frame;
static struct canvas canvas;

static int
setup(void **state)
{
	canvas.columns = 80;
	return demo_setup(state);
}

static int
teardown(void **state)
{
	frame_free(&frame);
	free(canvas.text);
	canvas = (struct canvas){0};
	return demo_teardown(state);
}

static void
take(const struct demo *demo, uint64_t now_ns)
{
	frame_take(&frame, status_json(&demo->source, now_ns), now_ns);
}

static const char *
render(int lines, uint64_t now_ns, const char *note)
{
	static char text[16384];

	frame_render(&frame, &canvas, lines, now_ns, false, "\n", note);
	assert_true(canvas.len < sizeof(text));
	memcpy(text, canvas.text, canvas.len);
	text[canvas.len] = '\0';
	return text;
}

static int
rows_of(const char *text, int columns)
{
	int rows = 0;

	for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1, rows++)
		assert_in_range(end - text, 0, columns);
	assert_string_equal(text, "");
	return rows;
}

static void
a_look_names_group_waited_for_and_every_rank(void **state)
{
	struct demo *demo = *state;
	const char *text;

	demo->group.first_ready_ns = DEMO_NOW_NS - 190 * NS_PER_SEC;
	demo->group.timer_ns[TIMER_READY] = demo->group.first_ready_ns + 600 * NS_PER_SEC;
	take(demo, DEMO_NOW_NS);
	text = render(LINES, DEMO_NOW_NS, NULL);
	assert_non_null(strstr(text, "demo: loading (service, epoch 1, pid 4200)\n"
				     "waiting for rank 1, 3m10s of 10m (ready_timeout)\n"
				     "RANK  STATE      LOAD"));
	assert_non_null(strstr(text, "\n   0  ready      [###############]  11s"));
	assert_non_null(strstr(text, "\n   1  loading    [###########....]  layer 36 of 48\n"));
	assert_int_equal(rows_of(text, 80), 5);
}

static void
seconds_go_on_between_two_looks(void **state)
{
	const char *text;

	take(*state, DEMO_NOW_NS);
	text = render(LINES, DEMO_NOW_NS + 7 * NS_PER_SEC, NULL);
	assert_non_null(strstr(text, "]  18s"));
}

static void
rate_and_time_left_come_from_looks_seconds_apart(void **state)
{
	struct demo *demo = *state;
	const char *text;

	take(demo, DEMO_NOW_NS);
	demo->group.ranks[1].progress.bytes += 4 << 20;
	demo->group.ranks[1].progress.done += 4;
	take(demo, DEMO_NOW_NS + 4 * NS_PER_SEC);
	text = render(LINES, DEMO_NOW_NS + 4 * NS_PER_SEC, NULL);
	assert_non_null(strstr(text, "layer 40 of 48, 1 MB/s, about 8 s left\n"));
	demo->group.epoch = 2;
	take(demo, DEMO_NOW_NS + 5 * NS_PER_SEC);
	text = render(LINES, DEMO_NOW_NS + 5 * NS_PER_SEC, NULL);
	assert_non_null(strstr(text, "layer 40 of 48\n"));
}

static void
a_loss_is_told_in_place_of_the_wait(void **state)
{
	demo_lose(*state, REASON_RANK_DISCONNECTED, "killed SIGKILL");
	take(*state, DEMO_NOW_NS);
	assert_non_null(strstr(render(LINES, DEMO_NOW_NS, NULL),
			       "demo: stopping (service, epoch 1, pid 4200)\n"
			       "RankDisconnected: rank 1: killed SIGKILL\n"));
}

static void
hostile_texts_move_no_cursor_and_fill_one_row(void **state)
{
	struct demo *demo = *state;
	const char *text;

	demo->group.ranks[0].state = RANK_SERVING;
	snprintf(demo->group.ranks[0].status_text, MESSAGE_TEXT_BYTES,
		 "\033[2J\033]0;title\aone\r\ntwo\xc2\x9b%0200d", 0);
	take(demo, DEMO_NOW_NS);
	text = render(LINES, DEMO_NOW_NS, NULL);
	assert_int_equal(rows_of(text, 80), 5);
	assert_null(strchr(text, '\033'));
	assert_null(strchr(text, '\r'));
	assert_null(strstr(text, "\xc2\x9b"));
}

static void
large_groups_fit_with_those_first_that_are_waited_for(void **state)
{
	struct demo *demo = *state;
	struct group_settings settings = demo->group.settings;
	const char *text;

	group_free(&demo->group);
	settings.world_size = 1000;
	assert_int_equal(group_init(&demo->group, &settings), 0);
	demo->group.epoch = 1;
	demo->group.state = GROUP_LOADING;
	demo->group.spoken = true;
	demo->group.first_ready_ns = demo->group.started_ns = DEMO_START_NS;
	for (int i = 0; i < 1000; i++) {
		demo_rank(&demo->group.ranks[i], 5000 + i, 48, RANK_READY);
		demo->group.ranks[i].was_ready = i != 777;
	}
	demo->group.ranks[777].state = RANK_LOADING;
	take(demo, DEMO_NOW_NS);
	text = render(10, DEMO_NOW_NS, "the note");
	assert_int_equal(rows_of(text, 80), 9);
	assert_non_null(strstr(text, "LOAD               \n 777  loading"));
	assert_non_null(strstr(text, "\n      996 more ranks not shown\nthe note\n"));
	assert_int_equal(rows_of(render(5, DEMO_NOW_NS, "the note"), 80), 1);
	canvas.columns = 10;
	assert_int_equal(rows_of(render(10, DEMO_NOW_NS, "the note"), 10), 9);
}

static void
what_is_no_status_changes_nothing(void **state)
{
	take(*state, DEMO_NOW_NS);
	frame_take(&frame, NULL, DEMO_NOW_NS);
	frame_take(&frame, json_pack("{s:[]}", "ranks"), DEMO_NOW_NS);
	frame_take(&frame, json_string("ranks"), DEMO_NOW_NS);
	assert_non_null(strstr(render(LINES, DEMO_NOW_NS, NULL), "demo: loading"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_look_names_group_waited_for_and_every_rank),
	    TEST(seconds_go_on_between_two_looks),
	    TEST(rate_and_time_left_come_from_looks_seconds_apart),
	    TEST(a_loss_is_told_in_place_of_the_wait),
	    TEST(hostile_texts_move_no_cursor_and_fill_one_row),
	    TEST(large_groups_fit_with_those_first_that_are_waited_for),
	    TEST(what_is_no_status_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

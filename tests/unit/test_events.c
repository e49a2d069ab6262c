/* sources: supervisor/events.c supervisor/http_server.c supervisor/http_client.c supervisor/http_request.c supervisor/journal.c supervisor/timeline.c supervisor/status_json.c supervisor/clean.c supervisor/narrate.c supervisor/progress.c supervisor/group*.c supervisor/bound.c */
#include "supervisor/events.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/stream_reader.h"

#define ENTRIES (JOURNAL_ENTRIES + JOURNAL_PER_RANK)

static struct group group;
static struct actions actions;
static struct journal *journal;
static struct events *events;

static void
serve(const struct http_request *request, struct http_reply *reply, void *arg)
{
	(void)request;
	(void)arg;
	reply->status = 200;
	reply->type = EVENTS_CONTENT_TYPE;
	reply->stream = events_stream(events);
}

static int
setup(void **state)
{
	const struct group_settings settings = {.world_size = 1};

	(void)state;
	if (open_server(serve) != 0 || group_init(&group, &settings) != 0 ||
	    actions_init(&actions, 1) != 0 || (journal = journal_open(&group)) == NULL ||
	    (events = events_open(base, server, journal)) == NULL)
		return -1;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	events_close(events);
	journal_close(journal);
	actions_free(&actions);
	group_free(&group);
	return close_server();
}

static void
step(enum event_kind kind)
{
	const struct group_event event = {
	    .kind = kind, .rank = kind <= EVENT_RANK_LAST ? 0 : NO_RANK, .pid = 42};
	uint64_t now_ns = monotonic_ns();

	group_step(&group, &event, now_ns, &actions);
	journal_step(journal, &event, &actions, now_ns);
	events_changed(events);
}

static int
count(const char *answer, const char *word)
{
	int n = 0;

	for (const char *at = answer; (at = strstr(at, word)) != NULL; at++)
		n++;
	return n;
}

static void
a_reader_gets_the_past_then_the_word_live_then_the_present(void **state)
{
	const char *answer, *live;
	int fd;

	(void)state;
	step(EVENT_START);
	fd = reader("GET /events HTTP/1.1\r\n\r\n");
	answer = reads(fd, NULL);
	assert_non_null(strstr(answer, "Content-Type: text/event-stream"));
	live = strstr(answer, "\nevent: live\ndata: {}\n\n");
	assert_non_null(live);
	assert_true(strstr(answer, "\n\r\nid: 1\ndata: {\"seq\":1,") < live);
	assert_string_equal(live + strlen("\nevent: live\ndata: {}\n\n"), "");
	step(EVENT_SPAWNED);
	answer = reads(fd, NULL);
	assert_int_equal(strncmp(answer, "id: 2\ndata: {\"seq\":2,", 20), 0);
	assert_int_equal(strncmp(answer + strlen(answer) - 3, "}\n\n", 3), 0);
	close(fd);
}

/* Changes come by the thousand while ranks load; what a page asks for is asked for twice a second.
 */
static void
changes_are_told_at_most_twice_a_second_and_none_is_forgotten(void **state)
{
	uint64_t start_ns = monotonic_ns(), told_ns;
	int fd;

	(void)state;
	step(EVENT_START);
	fd = reader("GET /events HTTP/1.1\r\n\r\n");
	reads(fd, NULL);
	for (int i = 0; i < 100; i++)
		events_changed(events);
	assert_int_equal(count(reads(fd, NULL), "event: status\n"), 0);
	AWAIT(count(reads(fd, NULL), "event: status\n") == 1);
	told_ns = monotonic_ns();
	assert_in_range(told_ns - start_ns, EVENTS_TICK_NS - COARSE_NS, EVENTS_QUIET_NS / 2);
	events_changed(events);
	AWAIT(count(reads(fd, NULL), "event: status\n") == 1);
	assert_true(monotonic_ns() - start_ns >= 2 * (EVENTS_TICK_NS - COARSE_NS));
	close(fd);
}

static void
no_timer_runs_while_nobody_reads(void **state)
{
	int idle = event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), fd;

	(void)state;
	step(EVENT_START);
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), idle);
	fd = reader("GET /events HTTP/1.1\r\n\r\n");
	reads(fd, NULL);
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), idle + 2);
	close(fd);
	turn();
	/* The last timer finds nobody, and is the last. */
	events_changed(events);
	AWAIT(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED) == idle);
}

static void
who_is_overtaken_by_the_journal_is_dropped(void **state)
{
	int fd;
	bool eof;

	(void)state;
	step(EVENT_START);
	step(EVENT_SPAWNED);
	fd = reader("GET /events HTTP/1.1\r\n\r\n");
	reads(fd, NULL);
	/* It does not read, and nobody goes on sending, while all that is kept is replaced. */
	for (size_t i = 0; i < ENTRIES + 1; i++) {
		const struct group_event event = {
		    .kind = group.ranks[0].suspended ? EVENT_RESUMED : EVENT_SUSPENDED};

		group_step(&group, &event, monotonic_ns(), &actions);
		journal_step(journal, &event, &actions, monotonic_ns());
	}
	events_changed(events);
	reads(fd, &eof);
	assert_true(eof);
	assert_int_equal(http_server_streams(server), 0);
	close(fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_reader_gets_the_past_then_the_word_live_then_the_present),
	    TEST(changes_are_told_at_most_twice_a_second_and_none_is_forgotten),
	    TEST(no_timer_runs_while_nobody_reads),
	    TEST(who_is_overtaken_by_the_journal_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* sources: supervisor/journal.c supervisor/timeline.c supervisor/status_json.c supervisor/clean.c supervisor/narrate.c supervisor/progress.c supervisor/group*.c supervisor/bound.c */
#include "supervisor/journal.h"

#include "supervisor/status_json.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define T0      (1000 * NS_PER_SEC)
#define WORLD   2
#define PID     4000
#define SUMMARY 4096

static struct group group;
static struct actions actions;
static struct journal *journal;
static uint64_t now_ns;

static int
open_world(int world, bool restart)
{
	struct group_settings settings = {.world_size = world,
					  .restart = restart,
					  .restart_max = 3,
					  .restart_window_ns = 3600 * NS_PER_SEC,
					  .restart_backoff_ns = NS_PER_SEC};

	settings.timeout_ns[BOUND_READY] = 600 * NS_PER_SEC;
	settings.timeout_ns[BOUND_STOP] = 8 * NS_PER_SEC;
	now_ns = T0;
	if (group_init(&group, &settings) != 0 || actions_init(&actions, world) != 0)
		return -1;
	journal = journal_open(&group);
	return journal == NULL ? -1 : 0;
}

static int
setup(void **state)
{
	(void)state;
	return open_world(WORLD, true);
}

static int
teardown(void **state)
{
	(void)state;
	journal_close(journal);
	actions_free(&actions);
	group_free(&group);
	return 0;
}

static void
step(struct group_event event)
{
	now_ns += NS_PER_SEC;
	group_step(&group, &event, now_ns, &actions);
	for (size_t i = 0; i < actions.n; i++)
		if (actions.v[i].kind == ACTION_EPOCH_OVER)
			journal_epoch_over(journal, json_pack("{s:s}", "name", "why"), "it ended",
					   now_ns);
	journal_step(journal, &event, &actions, now_ns);
}

static void
say(int rank, enum event_kind kind, const struct message *message)
{
	step((struct group_event){.kind = kind, .rank = rank, .message = message});
}

static void
ask(enum event_kind kind, int number)
{
	step((struct group_event){.kind = kind, .rank = NO_RANK, .signal = number});
}

static void
spawn(int rank)
{
	step((struct group_event){.kind = EVENT_SPAWNED, .rank = rank, .pid = PID + rank});
}

static void
die(int rank, int signal)
{
	step((struct group_event){
	    .kind = EVENT_REAPED, .rank = rank, .ending = {ENDING_KILLED, signal}});
}

static void
hello_and_ready(int rank, bool collective)
{
	const struct message hello = {.verb = VERB_HELLO, .protocol = PROTOCOL_VERSION};
	const struct message progress = {.verb = VERB_PROGRESS,
					 .progress = {.done = 1, .total = 4, .unit = "layer"}};
	const struct message ready = {.verb = VERB_READY, .then_collective = collective};

	say(rank, EVENT_HELLO, &hello);
	say(rank, EVENT_PROGRESS, &progress);
	say(rank, EVENT_READY, &ready);
}

/* Two ranks forked and ready; the second is late by seven seconds. */
static void
start(bool collective)
{
	spawn(0);
	spawn(1);
	hello_and_ready(0, collective);
	now_ns += 5 * NS_PER_SEC;
	hello_and_ready(1, collective);
}

static json_t *
entry(uint64_t seq)
{
	char line[JOURNAL_LINE_BYTES];
	json_t *object;
	size_t len = journal_line(journal, seq, line);

	assert_true(len > 0);
	for (size_t i = 0; i < len; i++)
		assert_in_range(line[i], ' ', '~');
	object = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(object);
	assert_int_equal(json_integer_value(json_object_get(object, "seq")), seq);
	return object;
}

static const char *
word(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

/* "rank 0 loading>ready; go; ..." of what came since `from`. */
static const char *
summary(uint64_t from)
{
	static char out[SUMMARY];
	size_t n = 0;

	out[0] = '\0';
	for (uint64_t seq = from; seq < journal_next(journal); seq++) {
		json_t *object = entry(seq), *rank = json_object_get(object, "rank");

		n += (size_t)snprintf(out + n, SUMMARY - n, "%s%s", n > 0 ? "; " : "",
				      word(object, "event"));
		if (rank != NULL)
			n += (size_t)snprintf(out + n, SUMMARY - n, " %d",
					      (int)json_integer_value(rank));
		if (word(object, "to")[0] != '\0')
			n += (size_t)snprintf(out + n, SUMMARY - n, " %s>%s", word(object, "from"),
					      word(object, "to"));
		json_decref(object);
		assert_true(n < SUMMARY);
	}
	return out;
}

static void
every_transition_of_a_start_is_told_in_order(void **state)
{
	const struct message done = {.verb = VERB_COLLECTIVE, .collective_done = true};

	(void)state;
	ask(EVENT_START, 0);
	start(true);
	assert_string_equal(summary(1), "epoch-start; forked 0; forked 1; "
					"rank 0 starting>connected; group starting>loading; "
					"rank 0 connected>loading; rank 0 loading>ready; "
					"rank 1 starting>connected; rank 1 connected>loading; "
					"rank 1 loading>ready; go; rank 0 ready>collective; "
					"rank 1 ready>collective; group loading>collective");
	say(0, EVENT_COLLECTIVE, &done);
	say(1, EVENT_COLLECTIVE, &done);
	assert_string_equal(summary(15), "rank 0 collective>serving; rank 1 collective>serving; "
					 "group collective>serving");
}

static void
an_entry_has_its_moment_its_epoch_and_words_for_people(void **state)
{
	json_t *object;

	(void)state;
	ask(EVENT_START, 0);
	start(true);
	object = entry(7);
	assert_int_equal(json_integer_value(json_object_get(object, "monotonic_ns")),
			 group.ranks[0].ready_ns);
	assert_int_equal(json_integer_value(json_object_get(object, "epoch")), 1);
	assert_int_equal(strlen(word(object, "time")), strlen("2026-11-30T17:03:02.123Z"));
	assert_string_equal(word(object, "text"),
			    "rank 0: ready after 4.0 s (layer 1 of 4), waits for rank 1");
	json_decref(object);
	object = entry(11);
	assert_true(json_number_value(json_object_get(object, "ready_skew_seconds")) == 8);
	json_decref(object);
	object = entry(3);
	assert_int_equal(json_integer_value(json_object_get(object, "pid")), PID + 1);
	json_decref(object);
}

static void
a_loss_tells_its_first_cause_and_then_its_victims_and_the_next_epoch(void **state)
{
	uint64_t from;
	json_t *object;

	(void)state;
	ask(EVENT_START, 0);
	start(false);
	from = journal_next(journal);
	die(1, SIGKILL);
	object = entry(from);
	assert_string_equal(word(object, "event"), "news");
	assert_string_equal(word(object, "reason"), "RankDisconnected");
	assert_string_equal(word(object, "cause"), "killed SIGKILL");
	assert_string_equal(word(object, "phase"), "serving");
	json_decref(object);
	die(0, SIGTERM);
	ask(EVENT_TREE_EMPTY, 0);
	step((struct group_event){.kind = EVENT_BOUND, .rank = NO_RANK, .timer = TIMER_BACKOFF});
	assert_string_equal(summary(from),
			    "news 1; rank 0 serving>stopping; rank 1 serving>gone; "
			    "group serving>stopping; rank 0 stopping>gone; epoch-end; "
			    "group stopping>backoff; epoch-start; group backoff>starting");
	object = entry(journal_next(journal) - 1);
	assert_int_equal(json_integer_value(json_object_get(object, "epoch")), 2);
	json_decref(object);
}

static void
requests_are_told_once_each_with_their_signal(void **state)
{
	uint64_t from;
	json_t *object;

	(void)state;
	ask(EVENT_START, 0);
	start(false);
	from = journal_next(journal);
	ask(EVENT_RESTART, 0);
	ask(EVENT_RESTART, 0);
	ask(EVENT_STOP, SIGTERM);
	assert_string_equal(summary(from),
			    "restart; rank 0 serving>stopping; rank 1 serving>stopping; "
			    "group serving>stopping; stop");
	object = entry(journal_next(journal) - 1);
	assert_string_equal(word(object, "signal"), "SIGTERM");
	json_decref(object);
	ask(EVENT_STOP, SIGTERM);
	assert_string_equal(summary(journal_next(journal) - 1), "warning");
}

static void
a_restart_out_of_a_backoff_is_told_with_the_epoch_it_begins(void **state)
{
	uint64_t from;

	(void)state;
	ask(EVENT_START, 0);
	spawn(0);
	spawn(1);
	die(1, SIGKILL);
	die(0, SIGTERM);
	ask(EVENT_TREE_EMPTY, 0);
	from = journal_next(journal);
	ask(EVENT_RESTART, 0);
	assert_string_equal(summary(from), "restart; epoch-start; group backoff>starting");
}

static void
warnings_name_bound_and_late_ranks(void **state)
{
	json_t *object;

	(void)state;
	ask(EVENT_START, 0);
	spawn(0);
	spawn(1);
	hello_and_ready(0, false);
	step((struct group_event){.kind = EVENT_BOUND, .rank = NO_RANK, .timer = TIMER_READY_HALF});
	object = entry(journal_next(journal) - 1);
	assert_string_equal(word(object, "event"), "warning");
	assert_string_equal(word(object, "text"),
			    "50 % of ready_timeout = 10m has passed; late: rank 1");
	json_decref(object);
	say(1, EVENT_SUSPENDED, NULL);
	object = entry(journal_next(journal) - 1);
	assert_string_equal(word(object, "text"), "is stopped by a signal");
	json_decref(object);
}

/* What a rank says ends up on an operator's terminal: entry() insists on printable ASCII. */
static void
hostile_texts_stay_within_their_line(void **state)
{
	struct message failed = {.verb = VERB_FAILED};
	char hostile[] = "\xff\x1b[2J\"\\\n\xe2\x80\xae\xc2\x9b";
	json_t *object;

	(void)state;
	for (size_t i = 0; i + sizeof(hostile) < sizeof(failed.text); i += sizeof(hostile) - 1)
		memcpy(failed.text + i, hostile, sizeof(hostile));
	ask(EVENT_START, 0);
	spawn(0);
	say(0, EVENT_FAILED, &failed);
	object = entry(3);
	assert_string_equal(word(object, "event"), "news");
	assert_int_equal(strncmp(word(object, "cause"), "failed: ?\x1b[2J\"\\\n\xe2\x80\xae", 19),
			 0);
	json_decref(object);
}

static void
the_newest_entries_are_kept_and_the_oldest_forgotten(void **state)
{
	char line[JOURNAL_LINE_BYTES];
	uint64_t kept = JOURNAL_ENTRIES + JOURNAL_PER_RANK * WORLD;

	(void)state;
	ask(EVENT_START, 0);
	spawn(0);
	while (journal_next(journal) <= kept + 100)
		say(0, group.ranks[0].suspended ? EVENT_RESUMED : EVENT_SUSPENDED, NULL);
	assert_int_equal(journal_next(journal) - journal_oldest(journal), kept);
	assert_int_equal(journal_line(journal, journal_oldest(journal) - 1, line), 0);
	assert_int_equal(journal_line(journal, journal_next(journal), line), 0);
	json_decref(entry(journal_oldest(journal)));
	json_decref(entry(journal_next(journal) - 1));
}

static double
moment(const json_t *timeline, size_t epoch, size_t rank, const char *key)
{
	const json_t *ranks = json_object_get(json_array_get(timeline, epoch), "ranks");
	const json_t *value = json_object_get(json_array_get(ranks, rank), key);

	return value == NULL ? -1 : json_number_value(value);
}

static void
the_timeline_has_every_moment_of_a_start(void **state)
{
	const struct message begin = {.verb = VERB_COLLECTIVE};
	const struct message done = {.verb = VERB_COLLECTIVE, .collective_done = true};
	json_t *timeline;

	(void)state;
	ask(EVENT_START, 0);
	start(true);
	say(1, EVENT_COLLECTIVE, &begin);
	say(1, EVENT_COLLECTIVE, &done);
	timeline = timeline_json(journal_timeline(journal), now_ns);
	assert_int_equal(json_array_size(timeline), 1);
	assert_true(moment(timeline, 0, 0, "forked") == 1);
	assert_true(moment(timeline, 0, 0, "hello") == 3);
	assert_true(moment(timeline, 0, 0, "load") == 4);
	assert_true(moment(timeline, 0, 0, "ready") == 5);
	assert_true(moment(timeline, 0, 0, "collective") == -1);
	assert_true(moment(timeline, 0, 1, "ready") == 13);
	assert_true(moment(timeline, 0, 1, "collective") == 14);
	assert_true(moment(timeline, 0, 1, "collective_done") == 15);
	assert_true(moment(timeline, 0, 1, "serving") == 15);
	assert_true(moment(timeline, 0, 1, "gone") == -1);
	assert_true(json_number_value(json_object_get(json_array_get(timeline, 0), "go_seconds")) ==
		    13);
	json_decref(timeline);
}

static void
the_timeline_keeps_the_newest_epochs_with_what_ended_them(void **state)
{
	json_t *timeline, *first, *last;

	(void)state;
	ask(EVENT_START, 0);
	for (int i = 0; i < TIMELINE_EPOCHS + 2; i++) {
		spawn(0);
		die(0, SIGKILL);
		ask(EVENT_TREE_EMPTY, 0);
		ask(EVENT_RESTART, 0);
		if (group.state == GROUP_FAILED)
			break;
		/* Never so many that the machine gives up: each counts anew. */
		group.window_restarts = 0;
	}
	timeline = timeline_json(journal_timeline(journal), now_ns);
	assert_int_equal(json_array_size(timeline), TIMELINE_EPOCHS);
	first = json_array_get(timeline, 0);
	last = json_array_get(timeline, TIMELINE_EPOCHS - 1);
	assert_int_equal(json_integer_value(json_object_get(first, "epoch")), 4);
	assert_string_equal(word(first, "message"), "it ended");
	assert_string_equal(word(json_object_get(first, "reason"), "name"), "why");
	assert_true(json_number_value(json_object_get(first, "lasted_seconds")) == 3);
	assert_true(moment(timeline, 0, 0, "gone") == 2);
	assert_int_equal(json_integer_value(json_object_get(last, "epoch")), TIMELINE_EPOCHS + 3);
	assert_true(json_is_null(json_object_get(last, "reason")));
	assert_true(json_is_null(json_object_get(last, "lasted_seconds")));
	assert_true(moment(timeline, TIMELINE_EPOCHS - 1, 0, "forked") == -1);
	json_decref(timeline);
}

static void
one_epoch_is_kept_of_a_group_of_any_size(void **state)
{
	json_t *timeline;

	(void)state;
	assert_int_equal(open_world(1024, true), 0);
	ask(EVENT_START, 0);
	spawn(1023);
	timeline = timeline_json(journal_timeline(journal), now_ns);
	assert_int_equal(json_array_size(timeline), 1);
	assert_true(moment(timeline, 0, 1023, "forked") == 1);
	json_decref(timeline);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(every_transition_of_a_start_is_told_in_order),
	    TEST(an_entry_has_its_moment_its_epoch_and_words_for_people),
	    TEST(a_loss_tells_its_first_cause_and_then_its_victims_and_the_next_epoch),
	    TEST(requests_are_told_once_each_with_their_signal),
	    TEST(a_restart_out_of_a_backoff_is_told_with_the_epoch_it_begins),
	    TEST(warnings_name_bound_and_late_ranks),
	    TEST(hostile_texts_stay_within_their_line),
	    TEST(the_newest_entries_are_kept_and_the_oldest_forgotten),
	    TEST(the_timeline_has_every_moment_of_a_start),
	    TEST(the_timeline_keeps_the_newest_epochs_with_what_ended_them),
	    cmocka_unit_test_teardown(one_epoch_is_kept_of_a_group_of_any_size, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

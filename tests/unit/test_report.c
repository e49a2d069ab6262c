/* sources: supervisor/report.c supervisor/report_line.c supervisor/status_json.c supervisor/clean.c supervisor/timeline.c supervisor/narrate.c supervisor/progress.c supervisor/rundir.c supervisor/rundir_path.c supervisor/group*.c supervisor/bound.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/log.h"
#include "supervisor/report.h"
#include "tests/unit/demo_group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

static char line[REPORT_LINE_BYTES];
static char error[RUNDIR_ERROR_BYTES];
static char root[64];

static const char *
last_line(const struct demo *demo)
{
	size_t n = report_last_line(&demo->source, DEMO_NOW_NS, line, sizeof(line));

	assert_int_equal(n, strlen(line));
	return line;
}

static void
a_killed_rank_is_named_with_what_it_was_at(void **state)
{
	struct demo *demo = *state;

	demo_lose(demo, REASON_RANK_DISCONNECTED, "killed SIGKILL")->ending =
	    (struct ending){ENDING_KILLED, SIGKILL};
	assert_string_equal(
	    last_line(demo),
	    "RankDisconnected: rank 1 (pid 4242, gpu 1) was killed by SIGKILL while loading "
	    "(layer 36 of 48), 12.3 s after the start");
}

static void
every_cause_of_a_disconnect_has_its_words(void **state)
{
	struct demo *demo = *state;
	struct loss *loss;

	demo_lose(demo, REASON_RANK_DISCONNECTED, "exited 3")->ending =
	    (struct ending){ENDING_EXITED, 3};
	assert_non_null(strstr(last_line(demo), "gpu 1) exited 3 while loading (layer 36"));
	loss = demo_lose(demo, REASON_RANK_DISCONNECTED, "failed: no such file: x");
	loss->error_number = ENOENT;
	assert_non_null(strstr(
	    last_line(demo),
	    "gpu 1) failed: no such file: x (errno 2: No such file or directory) while loading"));
	demo_lose(demo, REASON_RANK_DISCONNECTED, "link-closed")->phase = RANK_SERVING;
	assert_non_null(
	    strstr(last_line(demo), "closed its link and lived on while serving, 12.3 s"));
	demo_lose(demo, REASON_RANK_DISCONNECTED, "died")->phase = RANK_COLLECTIVE;
	assert_non_null(strstr(last_line(demo), "gpu 1) died in its first collective, 12.3 s"));
	demo_lose(demo, REASON_RANK_DISCONNECTED, "exited 1")->phase = RANK_STARTING;
	demo->source.gpu = NULL;
	demo->group.loss.ending = (struct ending){ENDING_EXITED, 1};
	assert_string_equal(
	    last_line(demo),
	    "RankDisconnected: rank 1 (pid 4242) exited 1 while starting, 12.3 s after the start");
}

static void
a_timeout_names_the_key_to_raise(void **state)
{
	struct demo *demo = *state;
	struct loss *loss;

	loss = demo_lose(demo, REASON_RANK_TIMEOUT, "load_timeout of 1h passed");
	loss->bound = BOUND_LOAD;
	snprintf(loss->detail, sizeof(loss->detail), "late: rank 1; load_timeout = 1h");
	assert_string_equal(
	    last_line(demo),
	    "RankTimeout: rank 1 (pid 4242, gpu 1) was still loading (layer 36 of 48) when "
	    "load_timeout = 1h passed, 12.3 s after the start; raise load_timeout in [group] if it "
	    "only needs longer");
	snprintf(loss->detail, sizeof(loss->detail), "late: rank 1, 3; load_timeout = 1h");
	assert_non_null(strstr(last_line(demo), "passed (late: rank 1, 3), 12.3 s"));
	loss->bound = BOUND_COLLECTIVE;
	loss->phase = RANK_COLLECTIVE;
	assert_non_null(strstr(last_line(demo),
			       "was still in its first collective when collective_timeout = 30s"));
	loss->bound = BOUND_WATCHDOG;
	loss->phase = RANK_SERVING;
	assert_non_null(strstr(last_line(demo), "said no WATCHDOG for twice watchdog_timeout = "));
	loss->bound = BOUND_STALL;
	assert_non_null(strstr(last_line(demo), "was silent for stall_timeout = "));
	loss->bound = BOUND_REAP;
	assert_non_null(
	    strstr(last_line(demo), "was not given up by the kernel within reap_timeout = 5s"));
}

static void
the_other_reasons_have_their_words(void **state)
{
	struct demo *demo = *state;

	demo_lose(demo, REASON_RANK_MISMATCH, "the settings of rank 1 differ from those of rank 0");
	assert_string_equal(
	    last_line(demo),
	    "RankMismatch: the settings of rank 1 differ from those of rank 0, 12.3 s after the "
	    "start; start every rank from the same program and settings");
	demo_lose(demo, REASON_RANK_PROTOCOL, "GROUP_ID: a second one");
	assert_string_equal(
	    last_line(demo),
	    "RankProtocol: rank 1 (pid 4242, gpu 1) broke the protocol (GROUP_ID: a second one) "
	    "while loading (layer 36 of 48), 12.3 s after the start");
	demo_lose(demo, REASON_SPAWN_FAILED, "exec /nope: No such file or directory")->pid = 0;
	assert_string_equal(last_line(demo), "SpawnFailed: rank 1 (gpu 1) could not be started: "
					     "exec /nope: No such file or directory");
	demo_lose(demo, REASON_PREFLIGHT_FAILED, "port 80 is taken")->rank = NO_RANK;
	assert_string_equal(last_line(demo), "PreflightFailed: port 80 is taken");
}

static void
a_clean_end_says_how_it_came(void **state)
{
	struct demo *demo = *state;
	struct group *group = &demo->group;

	group->state = GROUP_STOPPED;
	group->stop_wanted = group->stop_asked = true;
	assert_string_equal(last_line(demo), "stopped on request, 12.3 s after the start");
	group->stop_signal = SIGTERM;
	assert_string_equal(last_line(demo),
			    "stopped on request (SIGTERM), 12.3 s after the start");
	group->killed = true;
	assert_string_equal(
	    last_line(demo),
	    "stopped on request (SIGTERM), 12.3 s after the start; what outlived stop_timeout = 8s "
	    "was killed");
	group->killed = false;
	group->settings.job = true;
	group->exit_status = EXIT_JOB_SIGINT;
	assert_string_equal(last_line(demo),
			    "unfinished job stopped by SIGINT, 12.3 s after the start");
	group->stop_wanted = group->stop_asked = false;
	group->exit_status = 0;
	assert_string_equal(last_line(demo),
			    "job done: all 2 ranks exited 0, 12.3 s after the start");
	group->settings.job = false;
	group->stop_wanted = group->ranks[1].said_stopping = true;
	assert_string_equal(
	    last_line(demo),
	    "stopped in order after rank 1 announced its leave, 12.3 s after the start");
	group->state = GROUP_LOADING;
	assert_string_equal(last_line(demo), "loading, 12.3 s after the start");
}

static void
the_line_is_cut_at_a_character(void **state)
{
	struct demo *demo = *state;
	char small[80];

	demo_lose(
	    demo, REASON_RANK_DISCONNECTED,
	    "failed: "
	    "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
	for (size_t size = 1; size <= sizeof(small); size++) {
		size_t n = report_last_line(&demo->source, DEMO_NOW_NS, small, size);

		assert_true(n < size);
		assert_int_equal(small[n], '\0');
		assert_int_equal(utf8_valid_prefix(small, n), n);
	}
}

/* --- files --- */

static int
setup(void **state)
{
	snprintf(root, sizeof(root), "/tmp/tf-report-XXXXXX");
	return mkdtemp(root) == NULL ? -1 : demo_setup(state);
}

static int
teardown(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command) != 0 ? -1 : demo_teardown(state);
}

static json_t *
report_at(const struct demo *demo, const char *name, int second)
{
	json_t *report = report_json(&demo->source, DEMO_NOW_NS);
	char time[32];

	snprintf(time, sizeof(time), "2026-11-30T17:03:%02d.000Z", second);
	json_object_set_new(report, "group", json_string(name));
	json_object_set_new(report, "time", json_string(time));
	return report;
}

static void
save(const struct demo *demo, const char *name, int second)
{
	json_t *report = report_at(demo, name, second);

	assert_int_equal(report_save(root, report, error, sizeof(error)), 0);
	json_decref(report);
}

static int
count_files(void)
{
	const struct dirent *entry;
	DIR *list = opendir(root);
	int n = 0;

	while ((entry = readdir(list)) != NULL)
		n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
	closedir(list);
	return n;
}

static void
a_report_has_status_message_and_the_ranks_ends(void **state)
{
	struct demo *demo = *state;
	json_t *report, *rank;

	demo->source.tail = demo_tail;
	demo_lose(demo, REASON_RANK_DISCONNECTED, "exited 3");
	demo->group.ranks[0].died = demo->group.ranks[0].victim = true;
	demo->group.ranks[0].ending = (struct ending){ENDING_KILLED, SIGTERM};
	report = report_json(&demo->source, DEMO_NOW_NS);
	assert_non_null(strstr(json_string_value(json_object_get(report, "message")), "rank 1"));
	assert_int_equal(json_integer_value(json_object_get(report, "exit_status")), 10);
	assert_true(json_number_value(json_object_get(report, "lasted_seconds")) == 12.3);
	assert_true(json_is_object(json_object_get(report, "reason")));
	assert_true(json_is_object(json_object_get(report, "bounds")));
	rank = json_array_get(json_object_get(report, "ranks"), 0);
	assert_string_equal(json_string_value(json_object_get(rank, "ending")), "killed SIGTERM");
	assert_string_equal(json_string_value(json_object_get(rank, "phase")), "ready");
	assert_true(json_is_array(json_object_get(rank, "log_tail")));
	assert_null(
	    json_object_get(json_array_get(json_object_get(report, "ranks"), 1), "log_tail"));
	json_decref(report);
}

static void
the_last_ten_reports_of_each_group_are_kept(void **state)
{
	struct report_names names;
	struct stat st;
	char path[128];

	for (int i = 0; i < 13; i++)
		save(*state, "demo", i);
	save(*state, "demo2", 0);
	assert_int_equal(count_files(), REPORT_KEEP + 1);
	assert_int_equal(report_list(root, "demo", &names), 0);
	assert_int_equal(names.n, REPORT_KEEP);
	assert_string_equal(names.v[0], "demo.2026-11-30T17_03_12.000Z-e1.json");
	assert_string_equal(names.v[9], "demo.2026-11-30T17_03_03.000Z-e1.json");
	snprintf(path, sizeof(path), "%s/%s", root, names.v[0]);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	report_list_free(&names);
}

static void
commands_without_a_file_share_ten_reports(void **state)
{
	struct report_names names;
	char name[32];

	for (int i = 0; i < 13; i++) {
		snprintf(name, sizeof(name), "run-%d", 1000 + i);
		save(*state, name, i);
	}
	save(*state, "run-me", 0);
	assert_int_equal(count_files(), REPORT_KEEP + 1);
	assert_int_equal(report_list(root, "run-7", &names), 0);
	assert_int_equal(names.n, REPORT_KEEP);
	report_list_free(&names);
	assert_int_equal(report_list(root, "run-me", &names), 0);
	assert_int_equal(names.n, 1);
	report_list_free(&names);
}

static void
a_directory_that_takes_no_report_is_named(void **state)
{
	json_t *report = report_at(*state, "demo", 0);

	assert_int_equal(report_save("/nonexistent", report, error, sizeof(error)), -1);
	assert_string_equal(error, "report /nonexistent: No such file or directory");
	assert_int_equal(report_save("/sys", report, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "report /sys/demo.2026"));
	json_decref(report);
}

static int warnings;

static void
count_line(enum log_level level, const char *text, void *arg)
{
	(void)text;
	(void)arg;
	warnings += level == LOG_LEVEL_WARN;
}

static void
a_report_that_cannot_be_written_is_a_warning(void **state)
{
	struct demo *demo = *state;
	struct rundir dir;

	assert_int_equal(rundir_open(&dir, root, NULL, "demo", 1, error, sizeof(error)), 0);
	setenv("STATE_DIRECTORY", "/sys", 1);
	demo_lose(demo, REASON_RANK_DISCONNECTED, "exited 3");
	log_set_sink(count_line, NULL);
	report_news(&demo->source, &dir, DEMO_NOW_NS);
	assert_int_equal(warnings, 0);
	assert_int_equal(faccessat(dir.fd, RUNDIR_REPORT, R_OK, 0), 0);
	report_end(&demo->source, &dir, DEMO_NOW_NS);
	assert_int_equal(warnings, 1);
	log_set_sink(NULL, NULL);
	rundir_close(&dir);
}

static void
the_termination_log_is_small_json_and_never_created(void **state)
{
	struct demo *demo = *state;
	json_t *report, *read_back;
	char path[128];
	struct stat st;
	int fd;

	memset(demo->group.ranks, 0, sizeof(struct rank));
	demo_lose(demo, REASON_RANK_DISCONNECTED, "");
	memset(demo->group.loss.cause, '"', CAUSE_BYTES - 1);
	memset(demo->group.loss.detail, '\\', DETAIL_BYTES - 1);
	report = report_json(&demo->source, DEMO_NOW_NS);
	snprintf(path, sizeof(path), "%s/termination-log", root);
	assert_int_equal(report_termination(path, report, error, sizeof(error)), 0);
	assert_int_equal(access(path, F_OK), -1);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(ftruncate(fd, 10000), 0);
	close(fd);
	assert_int_equal(report_termination(path, report, error, sizeof(error)), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_in_range(st.st_size, 100, REPORT_TERMINATION_BYTES);
	read_back = json_load_file(path, 0, NULL);
	assert_non_null(read_back);
	assert_string_equal(
	    json_string_value(json_object_get(json_object_get(read_back, "reason"), "name")),
	    "RankDisconnected");
	json_decref(read_back);
	json_decref(report);
}

static void
a_termination_log_that_is_no_file_is_left_alone(void **state)
{
	json_t *report = report_at(*state, "demo", 0);

	assert_int_equal(report_termination("/dev/null", report, error, sizeof(error)), 0);
	json_decref(report);
}

#define pure(name)  cmocka_unit_test_setup_teardown(name, demo_setup, demo_teardown)
#define files(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    pure(a_killed_rank_is_named_with_what_it_was_at),
	    pure(every_cause_of_a_disconnect_has_its_words),
	    pure(a_timeout_names_the_key_to_raise),
	    pure(the_other_reasons_have_their_words),
	    pure(a_clean_end_says_how_it_came),
	    pure(the_line_is_cut_at_a_character),
	    files(a_report_has_status_message_and_the_ranks_ends),
	    files(the_last_ten_reports_of_each_group_are_kept),
	    files(commands_without_a_file_share_ten_reports),
	    files(a_directory_that_takes_no_report_is_named),
	    files(a_report_that_cannot_be_written_is_a_warning),
	    files(the_termination_log_is_small_json_and_never_created),
	    files(a_termination_log_that_is_no_file_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

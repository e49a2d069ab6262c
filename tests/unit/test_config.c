/* sources: supervisor/config*.c supervisor/bound.c supervisor/environ.c supervisor/gpus.c */
#include "supervisor/config.h"

#include "supervisor/bound.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LENGTH(array)   (sizeof(array) / sizeof((array)[0]))
#define LONG_WORD_BYTES 4000
#define PRINT_MAX_BYTES 65536

static struct config config;
static struct config_error error;

static int
load_sets(const char *text, const char *const *sets, size_t sets_len)
{
	FILE *file = fmemopen((void *)text, strlen(text), "r");
	int r;

	assert_non_null(file);
	r = config_load_stream(file, "some/demo.ini", (char *const *)sets, sets_len, &config,
			       &error);
	fclose(file);
	return r;
}

static void
load(const char *text)
{
	if (load_sets(text, NULL, 0) != 0)
		fail_msg("%s", error.text);
}

static int
unload(void **state)
{
	(void)state;
	config_free(&config);
	return 0;
}

static void
defaults_are_those_of_the_contract(void **state)
{
	static const uint64_t seconds[BOUND_COUNT] = {
	    [BOUND_LOAD] = 3600, [BOUND_READY] = 600, [BOUND_COLLECTIVE] = 30, [BOUND_WARMUP] = 600,
	    [BOUND_ABORT] = 2,   [BOUND_STOP] = 8,    [BOUND_REAP] = 5,
	};
	const struct worker_settings *worker;

	(void)state;
	load("[worker]\ncommand = engine\n");
	assert_string_equal(config.name, "demo");
	assert_string_equal(config.source, "some/demo.ini");
	assert_int_equal(config.ranks, 0);
	assert_int_equal(config.mode, MODE_SERVICE);
	for (size_t i = 0; i < BOUND_COUNT; i++)
		assert_int_equal(config.timeout_ns[i], seconds[i] * NS_PER_SEC);
	assert_int_equal(config.restart, RESTART_NEVER);
	assert_int_equal(config.restart_max, 3);
	assert_int_equal(config.restart_window_ns, 3600 * NS_PER_SEC);
	assert_int_equal(config.restart_backoff_ns, NS_PER_SEC);
	assert_false(config.pid_namespace);
	assert_null(config.run_dir);
	assert_int_equal(config.stop_order, STOP_TOGETHER);
	assert_int_equal(config.environment_len, 0);
	assert_int_equal(config.health_mode, 0600);
	assert_null(config.http);
	assert_int_equal(config.workers_len, 1);

	worker = config_worker(&config, 0);
	assert_string_equal(worker->argv[0], "engine");
	assert_null(worker->argv[1]);
	assert_null(worker->directory);
	assert_null(worker->user);
	assert_string_equal(worker->gpus, "auto");
	assert_false(worker->gpus_own);
	assert_int_equal(worker->gpus_per_rank, 1);
	assert_int_equal(worker->gpu_env, GPU_ENV_ALL);
	assert_string_equal(worker->cpus, "auto");
	assert_int_equal(worker->ready, READY_AUTO);
	assert_null(worker->ready_probe);
	assert_null(worker->alive);
	assert_null(worker->progress);
	assert_int_equal(worker->stop_signal, 15);
	assert_int_equal(worker->dump_signal, 0);
	assert_int_equal(worker->log_bytes, 16 << 20);
	assert_int_equal(worker->limits_len, 1);
	assert_int_equal(worker->limits[0].resource, RLIMIT_CORE);
	assert_int_equal(worker->limits[0].hard, 0);
	assert_null(worker->exit_words);
	assert_null(worker->drain);
}

static void
every_key_is_read(void **state)
{
	const struct worker_settings *worker;

	(void)state;
	load("[group]\nname = a_B-9\nranks = 3\nmode = job\nload_timeout = 0\nready_timeout = "
	     "1h30m\n"
	     "stall_timeout = 90s\ncollective_timeout = 250ms\nwarmup_timeout = 2m\n"
	     "watchdog_timeout = 10s\nabort_timeout = 1s\nstop_timeout = 3s\nreap_timeout = 4s\n"
	     "restart = on-failure\nrestart_max = 0\nrestart_window = 10m\nrestart_backoff = 0\n"
	     "pid_namespace = On\nrun_dir = /run/x\n"
	     "[worker]\ncommand = a 'b c'\ndirectory = /\nuser = root\ngpus = 0, GPU-1a ,MIG-2b\n"
	     "gpus_per_rank = all\ngpu_env = first\ncpus = 0-3,8\nready = tcp:80{rank}\n"
	     "alive = http://[::1]:80/health\nprogress = log:layer ([0-9]+) of ([0-9]+)\n"
	     "stop_signal = sigint\nstop_order = reverse\ndump_signal = RTMIN+1\nlog = 2GiB\n"
	     "limits = nofile = 1024:unlimited, core=1MiB stack = 8MiB ,nproc=7\n"
	     "exit_words = 70:peer lost, 3:stalled\ndrain = curl -X POST 'http://x/drain'\n"
	     "[environment]\nA = 1\nb_2 =\n_C = x=y;\"z\" {rank}\n"
	     "[health]\nmode = 660\nhttp = 0.0.0.0:9090\n");
	assert_string_equal(config.name, "a_B-9");
	assert_int_equal(config.ranks, 3);
	assert_int_equal(config.mode, MODE_JOB);
	assert_int_equal(config.timeout_ns[BOUND_LOAD], 0);
	assert_int_equal(config.timeout_ns[BOUND_READY], 5400 * NS_PER_SEC);
	assert_int_equal(config.timeout_ns[BOUND_STALL], 90 * NS_PER_SEC);
	assert_int_equal(config.timeout_ns[BOUND_COLLECTIVE], 250 * NS_PER_MSEC);
	assert_int_equal(config.timeout_ns[BOUND_WARMUP], 120 * NS_PER_SEC);
	assert_int_equal(config.timeout_ns[BOUND_WATCHDOG], 10 * NS_PER_SEC);
	assert_int_equal(config.timeout_ns[BOUND_ABORT], NS_PER_SEC);
	assert_int_equal(config.timeout_ns[BOUND_STOP], 3 * NS_PER_SEC);
	assert_int_equal(config.timeout_ns[BOUND_REAP], 4 * NS_PER_SEC);
	assert_int_equal(config.restart, RESTART_ON_FAILURE);
	assert_int_equal(config.restart_max, 0);
	assert_int_equal(config.restart_window_ns, 600 * NS_PER_SEC);
	assert_int_equal(config.restart_backoff_ns, 0);
	assert_true(config.pid_namespace);
	assert_string_equal(config.run_dir, "/run/x");
	assert_int_equal(config.stop_order, STOP_REVERSE);
	assert_int_equal(config.health_mode, 0660);
	assert_string_equal(config.http, "0.0.0.0:9090");
	assert_int_equal(config.environment_len, 3);
	assert_string_equal(config.environment[1].name, "b_2");
	assert_string_equal(config.environment[1].value, "");
	assert_string_equal(config.environment[2].value, "x=y;\"z\" {rank}");

	assert_int_equal(config.workers_len, 3);
	worker = config_worker(&config, 2);
	assert_string_equal(worker->argv[1], "b c");
	assert_string_equal(worker->directory, "/");
	assert_string_equal(worker->user, "root");
	assert_string_equal(worker->gpus, "0,GPU-1a,MIG-2b");
	assert_int_equal(worker->gpus_per_rank, 0);
	assert_int_equal(worker->gpu_env, GPU_ENV_FIRST);
	assert_string_equal(worker->cpus, "0-3,8");
	assert_int_equal(worker->ready, READY_PROBE);
	assert_string_equal(worker->ready_probe, "tcp:80{rank}");
	assert_string_equal(worker->alive, "http://[::1]:80/health");
	assert_string_equal(worker->progress, "log:layer ([0-9]+) of ([0-9]+)");
	assert_int_equal(worker->stop_signal, 2);
	assert_int_equal(worker->dump_signal, SIGRTMIN + 1);
	assert_int_equal(worker->log_bytes, 2ULL << 30);
	assert_string_equal(worker->exit_words, "70:peer lost, 3:stalled");
	assert_string_equal(worker->drain, "curl -X POST 'http://x/drain'");
	assert_int_equal(worker->limits_len, 4);
	assert_int_equal(worker->limits[0].resource, RLIMIT_NOFILE);
	assert_int_equal(worker->limits[0].soft, 1024);
	assert_true(worker->limits[0].hard == RLIM_INFINITY);
	assert_int_equal(worker->limits[1].soft, 1 << 20);
	assert_int_equal(worker->limits[2].hard, 8 << 20);
	assert_int_equal(worker->limits[3].resource, RLIMIT_NPROC);
}

static void
every_form_of_ready_is_known(void **state)
{
	static const struct {
		const char *text;
		enum ready_kind kind;
	} cases[] = {
	    {"auto", READY_AUTO},
	    {"none", READY_NONE},
	    {"link", READY_LINK},
	    {"notify", READY_NOTIFY},
	    {"http://127.0.0.1:8000/health", READY_PROBE},
	    {"http:http://localhost", READY_PROBE},
	    {"tcp:8000", READY_PROBE},
	    {"tcp:localhost:8000", READY_PROBE},
	    {"tcp:[::1]:{master_port}", READY_PROBE},
	    {"unix:{run_dir}/x.sock", READY_PROBE},
	    {"file:/tmp/ready.{rank}", READY_PROBE},
	    {"log:^[A-Z]+ startup complete; port=[0-9]{4,5}$", READY_PROBE},
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		snprintf(text, sizeof(text), "[worker]\ncommand = a\nready = %s\n", cases[i].text);
		load(text);
		assert_int_equal(config.workers[0].ready, cases[i].kind);
		if (cases[i].kind == READY_PROBE)
			assert_string_equal(config.workers[0].ready_probe, cases[i].text);
		config_free(&config);
	}
}

static void
a_long_command_arrives_whole(void **state)
{
	char word[LONG_WORD_BYTES + 1], text[2 * LONG_WORD_BYTES];

	(void)state;
	for (size_t i = 0; i < LONG_WORD_BYTES; i++)
		word[i] = "abc=;:#{}[]"[i % 11];
	word[LONG_WORD_BYTES] = '\0';
	snprintf(text, sizeof(text),
		 "[worker]\ncommand = sh -c \"echo a ; b\" x=y '%s' # no comment\n", word);
	load(text);
	assert_string_equal(config.workers[0].argv[2], "echo a ; b");
	assert_string_equal(config.workers[0].argv[3], "x=y");
	assert_string_equal(config.workers[0].argv[4], word);
	assert_string_equal(config.workers[0].argv[5], "#");
}

static void
precedence_is_default_file_worker_set(void **state)
{
	static const char *const sets[] = {
	    "group.ranks=3",     "worker.2.log=3MiB", "group.mode=job", "worker.1.gpu_env=one",
	    "environment.A=b=c", "environment.N=new", "group.ranks=4",  "worker.stop_signal=HUP"};

	(void)state;
	assert_int_equal(load_sets("[group]\nranks = 2\n[worker]\ncommand = all\nlog = 1MiB\n"
				   "[worker.1]\ncommand = one\nlog = 2MiB\nstop_signal = INT\n"
				   "[environment]\nA = a\nB = b\n",
				   sets, LENGTH(sets)),
			 0);
	assert_int_equal(config.ranks, 4);
	assert_int_equal(config.mode, MODE_JOB);
	assert_int_equal(config.workers_len, 4);
	assert_string_equal(config.workers[0].command, "all");
	assert_string_equal(config.workers[1].command, "one");
	assert_int_equal(config.workers[0].log_bytes, 1 << 20);
	assert_int_equal(config.workers[1].log_bytes, 2 << 20);
	assert_int_equal(config.workers[2].log_bytes, 3 << 20);
	assert_int_equal(config.workers[3].log_bytes, 1 << 20);
	assert_int_equal(config.workers[0].gpu_env, GPU_ENV_ALL);
	assert_int_equal(config.workers[1].gpu_env, GPU_ENV_ONE);
	/* --set of [worker] comes after the file's [worker.1]. */
	assert_int_equal(config.workers[1].stop_signal, 1);
	assert_int_equal(config.environment_len, 3);
	assert_string_equal(config.environment[0].name, "A");
	assert_string_equal(config.environment[0].value, "b=c");
	assert_string_equal(config.environment[2].value, "new");
}

static void
a_rank_s_section_wins_wherever_it_stands(void **state)
{
	(void)state;
	load("[worker.1]\nlog = 1MiB\n[worker]\ncommand = a\nlog = 2MiB\n[group]\nranks = 2\n");
	assert_int_equal(config.workers[0].log_bytes, 2 << 20);
	assert_int_equal(config.workers[1].log_bytes, 1 << 20);
}

static void
no_core_is_dumped_unless_limits_name_it(void **state)
{
	(void)state;
	load("[group]\nranks = 2\n[worker]\ncommand = a\nlimits = nofile=64\n"
	     "[worker.1]\nlimits = core=unlimited\n");
	assert_int_equal(config.workers[0].limits_len, 2);
	assert_int_equal(config.workers[0].limits[1].resource, RLIMIT_CORE);
	assert_int_equal(config.workers[0].limits[1].soft, 0);
	assert_int_equal(config.workers[0].limits[1].hard, 0);
	assert_int_equal(config.workers[1].limits_len, 1);
	assert_true(config.workers[1].limits[0].soft == RLIM_INFINITY);
}

static void
ranks_without_a_section_share_their_strings(void **state)
{
	(void)state;
	load("[group]\nranks = 1024\n[worker]\ncommand = a b\n[worker.7]\nlog = 0\n");
	assert_ptr_equal(config.workers[0].argv, config.workers[1023].argv);
	assert_ptr_not_equal(config.workers[0].argv, config.workers[7].argv);
	assert_string_equal(config.workers[7].argv[1], "b");
}

static void
auto_ranks_are_fixed_once_and_sections_applied(void **state)
{
	(void)state;
	load("[worker]\ncommand = a\n[worker.1]\ncommand = b\n");
	assert_int_equal(config.workers_len, 1);
	assert_int_equal(config_set_ranks(&config, 2, &error), 0);
	assert_int_equal(config.ranks, 2);
	assert_string_equal(config.workers[0].command, "a");
	assert_string_equal(config.workers[1].command, "b");
}

static void
auto_ranks_that_leave_a_section_over_are_refused(void **state)
{
	(void)state;
	load("[worker]\ncommand = a\n[worker.4]\nlog = 0\n");
	assert_int_equal(config_set_ranks(&config, 4, &error), -1);
	assert_string_equal(error.text,
			    "some/demo.ini:4: [worker.4], but there are 4 ranks, numbered from 0");
	assert_int_equal(config.ranks, 0);
	assert_int_equal(config.workers_len, 1);
}

static void
a_command_alone_is_a_job(void **state)
{
	static char *const argv[] = {"python3", "-c", "print('a b')\n", "", "{rank}", NULL};
	static char *const sets[] = {"worker.log=0"};

	(void)state;
	assert_int_equal(config_from_command("run-42", argv, 8, sets, 1, &config, &error), 0);
	assert_string_equal(config.name, "run-42");
	assert_null(config.source);
	assert_int_equal(config.mode, MODE_JOB);
	assert_int_equal(config.ranks, 8);
	assert_int_equal(config.workers[7].log_bytes, 0);
	for (size_t i = 0; argv[i] != NULL; i++)
		assert_string_equal(config.workers[7].argv[i], argv[i]);
	assert_null(config.workers[7].argv[LENGTH(argv) - 1]);
}

static void
braces_that_are_known_are_filled_and_others_left(void **state)
{
	const struct brace_values all = {3, 1, 8, "5", 2, "10.0.0.1", 29500, "/run/x"};
	const struct brace_values few = {.rank = 0, .world_size = 1};
	static const struct {
		const char *text, *all, *few;
	} cases[] = {
	    {"", "", ""},
	    {"plain", "plain", "plain"},
	    {"{rank}{local_rank}/{world_size}", "31/8", "00/1"},
	    {"{gpu} {epoch}", "5 2", "{gpu} {epoch}"},
	    {"{master_addr}:{master_port}{run_dir}", "10.0.0.1:29500/run/x",
	     "{master_addr}:{master_port}{run_dir}"},
	    {"{} {x} {Rank} { rank } {rank", "{} {x} {Rank} { rank } {rank",
	     "{} {x} {Rank} { rank } {rank"},
	    {"{{rank}} }{", "{3} }{", "{0} }{"},
	    {"{\"a\": {rank}}", "{\"a\": 3}", "{\"a\": 0}"},
	};
	char *text;

	(void)state;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		text = brace_fill(cases[i].text, &all);
		assert_string_equal(text, cases[i].all);
		free(text);
		text = brace_fill(cases[i].text, &few);
		assert_string_equal(text, cases[i].few);
		free(text);
	}
}

static void
the_nearest_word_is_one_that_was_meant(void **state)
{
	static const char *const words[] = {"command", "ranks", "ready_timeout", "load_timeout",
					    "x"};
	static const struct {
		const char *word, *near;
	} cases[] = {
	    {"comand", "command"},
	    {"commnad", "command"},
	    {"COMMAND", "command"},
	    {"rank", "ranks"},
	    {"ready-timeout", "ready_timeout"},
	    {"laod_timeout", "load_timeout"},
	    {"zebra", NULL},
	    {"", NULL},
	    {"y", NULL},
	};
	const char *near;
	char longest[4096];

	(void)state;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		near = nearest_word(cases[i].word, words, LENGTH(words));
		if (cases[i].near == NULL)
			assert_null(near);
		else
			assert_string_equal(near, cases[i].near);
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_null(nearest_word(longest, words, LENGTH(words)));
}

static void
print_to(char *text, void (*print)(const struct config *, FILE *))
{
	FILE *file = fmemopen(text, PRINT_MAX_BYTES, "w");

	assert_non_null(file);
	print(&config, file);
	fclose(file);
}

static void
print_the_manual(const struct config *unused, FILE *file)
{
	(void)unused;
	config_print_manual(file);
}

static void
every_value_is_shown_with_its_place(void **state)
{
	static const char *const sets[] = {"group.ranks=2", "environment.B=2"};
	static const char *const lines[] = {
	    "  name                 demo                          default: the file's name\n",
	    "  ranks                2                             --set group.ranks=2\n",
	    "  mode                 job                           some/demo.ini:2\n",
	    "  ready_timeout        10m                           default\n",
	    "[worker.1]\n  log                  0                             some/demo.ini:6\n",
	    "[environment]\n  A                    1                             some/demo.ini:8\n",
	    "  B                    2                             --set environment.B=2\n",
	};
	static char text[PRINT_MAX_BYTES];

	(void)state;
	assert_int_equal(
	    load_sets("[group]\nmode = job\n[worker]\ncommand = a\n[worker.1]\nlog = 0\n"
		      "[environment]\nA = 1\n",
		      sets, LENGTH(sets)),
	    0);
	print_to(text, config_print);
	for (size_t i = 0; i < LENGTH(lines); i++) {
		if (strstr(text, lines[i]) == NULL)
			fail_msg("missing: %s", lines[i]);
	}
}

static void
the_manual_names_every_key_with_its_default(void **state)
{
	static const char *const lines[] = {
	    "## [group]\n",
	    "*ranks* = auto or 1 to 1024 (default: auto)\n\t",
	    "*ready_timeout* = a duration such as 500ms, 30s, 10m or 1h30m, from 0 to 8760h "
	    "(default: 10m)\n",
	    "*stop_order* = together, forward or reverse (default: together)\n",
	    "*command* = a program and its arguments, quoted as for a shell (if absent: must be "
	    "given)",
	    "{local\\_rank}",
	};
	static char text[PRINT_MAX_BYTES];

	(void)state;
	print_to(text, print_the_manual);
	for (size_t i = 0; i < LENGTH(lines); i++) {
		if (strstr(text, lines[i]) == NULL)
			fail_msg("missing: %s", lines[i]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(defaults_are_those_of_the_contract, unload),
	    cmocka_unit_test_teardown(every_key_is_read, unload),
	    cmocka_unit_test_teardown(every_form_of_ready_is_known, unload),
	    cmocka_unit_test_teardown(a_long_command_arrives_whole, unload),
	    cmocka_unit_test_teardown(precedence_is_default_file_worker_set, unload),
	    cmocka_unit_test_teardown(a_rank_s_section_wins_wherever_it_stands, unload),
	    cmocka_unit_test_teardown(no_core_is_dumped_unless_limits_name_it, unload),
	    cmocka_unit_test_teardown(ranks_without_a_section_share_their_strings, unload),
	    cmocka_unit_test_teardown(auto_ranks_are_fixed_once_and_sections_applied, unload),
	    cmocka_unit_test_teardown(auto_ranks_that_leave_a_section_over_are_refused, unload),
	    cmocka_unit_test_teardown(a_command_alone_is_a_job, unload),
	    cmocka_unit_test(braces_that_are_known_are_filled_and_others_left),
	    cmocka_unit_test(the_nearest_word_is_one_that_was_meant),
	    cmocka_unit_test_teardown(every_value_is_shown_with_its_place, unload),
	    cmocka_unit_test(the_manual_names_every_key_with_its_default),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

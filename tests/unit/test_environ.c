/* sources: supervisor/config*.c supervisor/bound.c supervisor/environ.c supervisor/gpus.c */
#include "supervisor/environ.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static struct config config;

static const struct environ_values values = {
    .world_size = 4,
    .epoch = 3,
    .master_addr = "127.0.0.1",
    .master_port = 29511,
    .link_fd = 1023,
    .run_dir = "/run/t/demo",
    .gpu = "2",
    .visible_devices = "0,1,2,3",
    .notify_socket = "/run/t/demo/notify-2.sock",
    .error_file = "/run/t/demo/error-2.json",
};

static void
load(const char *text)
{
	struct config_error error;
	FILE *file = fmemopen((void *)text, strlen(text), "r");

	if (config_load_stream(file, "demo.ini", NULL, 0, &config, &error) != 0)
		fail_msg("%s", error.text);
	fclose(file);
}

static int
start(void **state)
{
	static char *mine[] = {"PATH=/bin",
			       "RANK=9",
			       "RANKING=kept",
			       "TFRANK_LINK_FD=7",
			       "TFRANK_RANK=7",
			       "TFRANK_OTHER=7",
			       "NOTIFY_SOCKET=/run/systemd",
			       "NOTIFY_SOCKETS=kept",
			       "WATCHDOG_USEC=5",
			       "WATCHDOG_PID=1",
			       "LISTEN_FDS=2",
			       "LISTEN_PID=1",
			       "LISTENING=kept",
			       "MASTER_PORT=1",
			       "CUDA_VISIBLE_DEVICES=7",
			       "A=inherited",
			       "EMPTY=",
			       "TORCHELASTIC_ERROR_FILE=/x",
			       NULL};

	(void)state;
	environ = mine;
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	config_free(&config);
	return 0;
}

/* The one value of a name; NULL if it is not there. */
static const char *
value_of(char **variables, const char *name)
{
	size_t len = strlen(name);
	const char *found = NULL;

	for (; *variables != NULL; variables++) {
		if (strncmp(*variables, name, len) != 0 || (*variables)[len] != '=')
			continue;
		if (found != NULL)
			fail_msg("%s is there twice", name);
		found = *variables + len + 1;
	}
	return found;
}

static void
check(char **variables, const char *name, const char *wanted)
{
	const char *found = value_of(variables, name);

	if (wanted == NULL && found != NULL)
		fail_msg("%s=%s is there", name, found);
	if (wanted != NULL && (found == NULL || strcmp(found, wanted) != 0))
		fail_msg("%s=%s, not %s", name, found != NULL ? found : "(nothing)", wanted);
}

static void
a_rank_finds_what_torchrun_would_set(void **state)
{
	static const struct {
		const char *name, *value;
	} wanted[] = {
	    {"RANK", "2"},
	    {"LOCAL_RANK", "2"},
	    {"WORLD_SIZE", "4"},
	    {"LOCAL_WORLD_SIZE", "4"},
	    {"GROUP_RANK", "0"},
	    {"GROUP_WORLD_SIZE", "1"},
	    {"ROLE_RANK", "2"},
	    {"ROLE_NAME", "default"},
	    {"ROLE_WORLD_SIZE", "4"},
	    {"MASTER_ADDR", "127.0.0.1"},
	    {"MASTER_PORT", "29511"},
	    {"TORCHELASTIC_RESTART_COUNT", "2"},
	    {"TORCHELASTIC_MAX_RESTARTS", "0"},
	    {"TORCHELASTIC_RUN_ID", "demo"},
	    {"TORCHELASTIC_ERROR_FILE", "/run/t/demo/error-2.json"},
	    {"TFRANK_LINK_FD", "1023"},
	    {"TFRANK_RANK", "2"},
	    {"TFRANK_WORLD_SIZE", "4"},
	    {"TFRANK_EPOCH", "3"},
	    {"NOTIFY_SOCKET", "/run/t/demo/notify-2.sock"},
	    {"CUDA_VISIBLE_DEVICES", "0,1,2,3"},
	};
	char **variables;

	(void)state;
	load("[group]\nranks = 4\n[worker]\ncommand = a\n");
	variables = environ_build(&config, 2, &values);
	assert_non_null(variables);
	for (size_t i = 0; i < LENGTH(wanted); i++)
		check(variables, wanted[i].name, wanted[i].value);
	free(variables);
}

static void
a_rank_inherits_ours_but_what_is_ours_alone(void **state)
{
	static const struct {
		const char *name, *value;
	} wanted[] = {
	    {"PATH", "/bin"},       {"RANKING", "kept"},     {"NOTIFY_SOCKETS", "kept"},
	    {"LISTENING", "kept"},  {"EMPTY", ""},           {"A", "inherited"},
	    {"TFRANK_OTHER", NULL}, {"WATCHDOG_USEC", NULL}, {"WATCHDOG_PID", NULL},
	    {"LISTEN_FDS", NULL},   {"LISTEN_PID", NULL},
	};
	char **variables;

	(void)state;
	load("[group]\nranks = 4\n[worker]\ncommand = a\n");
	variables = environ_build(&config, 2, &values);
	for (size_t i = 0; i < LENGTH(wanted); i++)
		check(variables, wanted[i].name, wanted[i].value);
	free(variables);
}

static void
what_is_not_known_is_left_out(void **state)
{
	static const char *const names[] = {"MASTER_ADDR",
					    "MASTER_PORT",
					    "NOTIFY_SOCKET",
					    "TFRANK_LINK_FD",
					    "TFRANK_EPOCH",
					    "TORCHELASTIC_ERROR_FILE",
					    "TORCHELASTIC_RESTART_COUNT"};
	const struct environ_values few = {.world_size = 1, .link_fd = -1};
	char **variables;

	(void)state;
	load("[group]\nranks = 1\n[worker]\ncommand = a\ngpus = none\n");
	variables = environ_build(&config, 0, &few);
	for (size_t i = 0; i < LENGTH(names); i++)
		check(variables, names[i], NULL);
	check(variables, "CUDA_VISIBLE_DEVICES", "7");
	free(variables);
}

static void
configured_variables_come_before_inherited_ones_with_braces_filled(void **state)
{
	char **variables;

	(void)state;
	load("[group]\nranks = 4\nrestart = on-failure\nrestart_max = 5\n[worker]\ncommand = a\n"
	     "[environment]\nA = {rank}/{world_size} on {gpu}, {other} $A\nEMPTY = \n"
	     "ADDR = {master_addr}:{master_port}\nDIR={run_dir}/{epoch}\n");
	variables = environ_build(&config, 2, &values);
	check(variables, "A", "2/4 on 2, {other} $A");
	check(variables, "EMPTY", "");
	check(variables, "ADDR", "127.0.0.1:29511");
	check(variables, "DIR", "/run/t/demo/3");
	check(variables, "TORCHELASTIC_MAX_RESTARTS", "5");
	free(variables);
}

static void
a_configured_cuda_set_stands_where_no_gpu_is_asked_for(void **state)
{
	struct environ_values none = values;
	char **variables;

	(void)state;
	none.visible_devices = NULL;
	load("[group]\nranks = 4\n[worker]\ncommand = a\ngpus = none\n"
	     "[environment]\nCUDA_VISIBLE_DEVICES = {rank}\n");
	variables = environ_build(&config, 3, &none);
	check(variables, "CUDA_VISIBLE_DEVICES", "3");
	free(variables);
}

static void
a_command_is_filled_word_by_word(void **state)
{
	static const char *const wanted[] = {"/bin/2", "two words 2", "", "{x}", "--port=29511"};
	char **argv;

	(void)state;
	load("[group]\nranks = 4\n[worker]\ncommand = /bin/{rank} 'two words {local_rank}' '' {x} "
	     "--port={master_port}\n[worker.3]\ncommand = other\n");
	argv = argv_build(&config, 2, &values);
	for (size_t i = 0; i < LENGTH(wanted); i++)
		assert_string_equal(argv[i], wanted[i]);
	assert_null(argv[LENGTH(wanted)]);
	free(argv);
	argv = argv_build(&config, 3, &values);
	assert_string_equal(argv[0], "other");
	assert_null(argv[1]);
	free(argv);
}

static void
without_an_environment_of_our_own_the_computed_one_stands(void **state)
{
	char **variables;

	(void)state;
	load("[group]\nranks = 4\n[worker]\ncommand = a\n");
	environ = NULL;
	variables = environ_build(&config, 1, &values);
	check(variables, "RANK", "1");
	check(variables, "PATH", NULL);
	free(variables);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_rank_finds_what_torchrun_would_set, start, stop),
	    cmocka_unit_test_setup_teardown(a_rank_inherits_ours_but_what_is_ours_alone, start,
					    stop),
	    cmocka_unit_test_setup_teardown(what_is_not_known_is_left_out, start, stop),
	    cmocka_unit_test_setup_teardown(
		configured_variables_come_before_inherited_ones_with_braces_filled, start, stop),
	    cmocka_unit_test_setup_teardown(a_configured_cuda_set_stands_where_no_gpu_is_asked_for,
					    start, stop),
	    cmocka_unit_test_setup_teardown(a_command_is_filled_word_by_word, start, stop),
	    cmocka_unit_test_setup_teardown(
		without_an_environment_of_our_own_the_computed_one_stands, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

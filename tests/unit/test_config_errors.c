/* sources: supervisor/config*.c supervisor/bound.c supervisor/environ.c supervisor/gpus.c */
/* Each mistake in an INI file or a --set is refused with its place, its word and the way out. */
#include "supervisor/config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define WORKER        "[worker]\ncommand = a\n"
#define TEXT_BYTES    512

struct mistake {
	const char *text, *error;
};

static struct config config;
static struct config_error error;

/* error.text is what loading leaves. */
static void
load_wrong(const char *text, const char *set)
{
	char *const sets[] = {(char *)set};
	FILE *file = fmemopen((void *)text, strlen(text), "r");

	assert_non_null(file);
	if (config_load_stream(file, "x.ini", sets, set != NULL, &config, &error) == 0)
		fail_msg("taken: %s%s", text, set != NULL ? set : "");
	assert_null(config.store);
	fclose(file);
}

static void
check_all(const struct mistake *mistakes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		load_wrong(mistakes[i].text, NULL);
		assert_string_equal(error.text, mistakes[i].error);
	}
}

static void
a_wrong_line_is_refused(void **state)
{
	static const struct mistake mistakes[] = {
	    {"[group]\n ranks = 2\n",
	     "x.ini:2: the line is indented: keys, sections and values start at the first column, "
	     "a value ends with its line"},
	    {"[worker]\ncommand = a\n\t--more\n",
	     "x.ini:3: the line is indented: keys, sections and values start at the first column, "
	     "a value ends with its line"},
	    {"[group\n", "x.ini:1: the section has no closing ]"},
	    {"[group] # main\n",
	     "x.ini:1: a comment needs a line of its own: \"# main\" follows the section"},
	    {"[group]\nranks\n", "x.ini:2: \"ranks\" is neither [section] nor key = value"},
	    {"[group]\nranks: 2\n", "x.ini:2: \"ranks: 2\" is neither [section] nor key = value"},
	    {"[group]\nranks: x = 2\n", "x.ini:2: \"ranks: x\" is no name: write key = value"},
	    {"[group]\n= 2\n", "x.ini:2: \"\" is no name: write key = value"},
	    {"ranks = 2\n",
	     "x.ini:1: \"ranks\" stands before the first section; it belongs in [group]"},
	    {"foo = 2\n", "x.ini:1: \"foo\" stands before the first section"},
	    {"[group]\nname = a\rb\n",
	     "x.ini:2: byte 0x0d at column 9: the file is not plain text"},
	    {"[group]\n# \x1b[31m\n", "x.ini:2: byte 0x1b at column 3: the file is not plain text"},
	};

	(void)state;
	check_all(mistakes, LENGTH(mistakes));
}

static void
an_unknown_section_is_refused(void **state)
{
	static const struct mistake mistakes[] = {
	    {"[grup]\n", "x.ini:1: unknown section \"grup\"; did you mean \"group\"?"},
	    {"[Group]\n", "x.ini:1: unknown section \"Group\"; did you mean \"group\"?"},
	    {"[ group ]\n", "x.ini:1: unknown section \" group \"; did you mean \"group\"?"},
	    {"[workers]\n", "x.ini:1: unknown section \"workers\"; did you mean \"worker\"?"},
	    {"[enviroment]\n",
	     "x.ini:1: unknown section \"enviroment\"; did you mean \"environment\"?"},
	    {"[cluster]\n", "x.ini:1: unknown section \"cluster\""},
	    {"[]\n", "x.ini:1: unknown section \"\""},
	    {"[worker.]\n", "x.ini:1: unknown section \"worker.\": write worker.0 to worker.1023"},
	    {"[worker.N]\n",
	     "x.ini:1: unknown section \"worker.N\": write worker.0 to worker.1023"},
	    {"[worker.01]\n",
	     "x.ini:1: unknown section \"worker.01\": write worker.0 to worker.1023"},
	    {"[worker.1024]\n",
	     "x.ini:1: unknown section \"worker.1024\": write worker.0 to worker.1023"},
	    {"[worker.-1]\n",
	     "x.ini:1: unknown section \"worker.-1\": write worker.0 to worker.1023"},
	};

	(void)state;
	check_all(mistakes, LENGTH(mistakes));
}

static void
an_unknown_or_misplaced_key_is_refused(void **state)
{
	static const struct mistake mistakes[] = {
	    {"[worker]\ncomand = a\n",
	     "x.ini:2: unknown key \"comand\" in [worker]; did you mean \"command\"?"},
	    {"[worker.0]\nGpus = 0\n",
	     "x.ini:2: unknown key \"Gpus\" in [worker]; did you mean \"gpus\"?"},
	    {"[health]\ncomand = a\n", "x.ini:2: unknown key \"comand\" in [health]; did you mean "
				       "\"command\" of [worker]?"},
	    {"[group]\nzebra = a\n", "x.ini:2: unknown key \"zebra\" in [group]"},
	    {"[group]\ncommand = a\n", "x.ini:2: \"command\" belongs in [worker], not in [group]"},
	    {"[worker]\nranks = 2\n", "x.ini:2: \"ranks\" belongs in [group], not in [worker]"},
	    {"[worker.1]\nstop_order = reverse\n",
	     "x.ini:2: stop_order holds for the whole group: it belongs in [worker], not in "
	     "[worker.1]"},
	};

	(void)state;
	check_all(mistakes, LENGTH(mistakes));
}

static void
a_duplicate_names_both_lines(void **state)
{
	static const struct mistake mistakes[] = {
	    {"[worker]\ncommand = a\nlog = 0\ncommand = b\n",
	     "x.ini:4: \"command\" is given twice, first on line 2"},
	    {"[group]\n[worker]\n\n[group]\n",
	     "x.ini:4: section [group] is given twice, first on line 1"},
	    {"[worker.3]\n[worker.3]\n",
	     "x.ini:2: section [worker.3] is given twice, first on line 1"},
	    {"[environment]\nA = 1\nB = 1\nA = 1\n",
	     "x.ini:4: \"A\" is given twice, first on line 2"},
	};

	(void)state;
	check_all(mistakes, LENGTH(mistakes));
}

static void
a_bad_value_of_group_is_refused(void **state)
{
#define DURATION "a duration such as 500ms, 30s, 10m or 1h30m, from "
	static const struct mistake mistakes[] = {
	    {"[group]\nranks =\n", "x.ini:2: ranks has no value: write auto or 1 to 1024"},
	    {"[group]\nranks = 0\n", "x.ini:2: bad value \"0\" for ranks: write auto or 1 to 1024"},
	    {"[group]\nranks = 1025\n",
	     "x.ini:2: bad value \"1025\" for ranks: write auto or 1 to 1024"},
	    {"[group]\nranks = -1\n",
	     "x.ini:2: bad value \"-1\" for ranks: write auto or 1 to 1024"},
	    {"[group]\nranks = 2 # two\n",
	     "x.ini:2: bad value \"2 # two\" for ranks: write auto or 1 to 1024; a comment needs a "
	     "line of its own"},
	    {"[group]\nname = a.b\n",
	     "x.ini:2: bad value \"a.b\" for name: write 1 to 32 letters, digits, _ or -"},
	    {"[group]\nname = abcdefghijklmnopqrstuvwxyz0123456\n",
	     "x.ini:2: bad value \"abcdefghijklmnopqrstuvwxyz0123456\" for name: write 1 to 32 "
	     "letters, digits, _ or -"},
	    {"[group]\nname = \xc3\xa9\n",
	     "x.ini:2: bad value \"\xc3\xa9\" for name: write 1 to 32 letters, digits, _ or -"},
	    {"[group]\nmode = servce\n",
	     "x.ini:2: bad value \"servce\" for mode: did you mean \"service\"?"},
	    {"[group]\nmode = batch\n",
	     "x.ini:2: bad value \"batch\" for mode: write service or job"},
	    {"[group]\nrestart = always\n",
	     "x.ini:2: bad value \"always\" for restart: write never or on-failure"},
	    {"[group]\nload_timeout = 10\n",
	     "x.ini:2: bad value \"10\" for load_timeout: a unit is missing: write 10s or 10ms"},
	    {"[group]\nready_timeout = 10 m\n",
	     "x.ini:2: bad value \"10 m\" for ready_timeout: write " DURATION "0 to 8760h"},
	    {"[group]\nabort_timeout = 8761h\n",
	     "x.ini:2: bad value \"8761h\" for abort_timeout: write " DURATION "0 to 8760h"},
	    {"[group]\nrestart_window = 0\n",
	     "x.ini:2: bad value \"0\" for restart_window: write " DURATION "1ms to 8760h"},
	    {"[group]\nrestart_backoff = 61s\n",
	     "x.ini:2: bad value \"61s\" for restart_backoff: write " DURATION "0 to 1m"},
	    {"[group]\nrestart_max = many\n",
	     "x.ini:2: bad value \"many\" for restart_max: write 0 to 1000000"},
	    {"[group]\nrestart_max = 99999999999999999999\n",
	     "x.ini:2: bad value \"99999999999999999999\" for restart_max: write 0 to 1000000"},
	    {"[group]\npid_namespace = maybe\n",
	     "x.ini:2: bad value \"maybe\" for pid_namespace: write yes or no"},
	    {"[health]\nmode = 600x\n",
	     "x.ini:2: bad value \"600x\" for mode: write octal permission "
	     "bits, the owner's 6 among them, such as 0600 or 0660"},
	    {"[health]\nmode = 0066\n",
	     "x.ini:2: bad value \"0066\" for mode: write octal permission "
	     "bits, the owner's 6 among them, such as 0600 or 0660"},
	    {"[health]\nhttp = 9090\n", "x.ini:2: bad value \"9090\" for http: write none, or "
					"HOST:PORT such as 127.0.0.1:9090 or [::1]:9090"},
	    {"[health]\nhttp = a:70000\n",
	     "x.ini:2: bad value \"a:70000\" for http: write none, or "
	     "HOST:PORT such as 127.0.0.1:9090 or [::1]:9090"},
	};
#undef DURATION

	(void)state;
	check_all(mistakes, LENGTH(mistakes));
}

/* "[worker]\nKEY = VALUE\n" is refused with "x.ini:2: bad value \"VALUE\" for KEY: WHY". */
static void
a_bad_value_of_worker_is_refused(void **state)
{
	static const struct {
		const char *key, *value, *why;
	} mistakes[] = {
	    {"command", "sh -c 'x", "byte 7: this ' is never closed"},
	    {"command", "a \"b c", "byte 3: this \" is never closed"},
	    {"command", "''", "it names no program"},
	    {"gpus", "0,0", "GPU 0 is given twice"},
	    {"gpus", "0,1,x", "\"x\" is neither an index nor a GPU-... or MIG-... UUID"},
	    {"gpus", "0,,1", "\"\" is neither an index nor a GPU-... or MIG-... UUID"},
	    {"gpus", "00", "\"00\" is neither an index nor a GPU-... or MIG-... UUID"},
	    {"gpus", "GPU-a b", "\"GPU-a b\" is neither an index nor a GPU-... or MIG-... UUID"},
	    {"gpus_per_rank", "0", "write all or 1 to 1024"},
	    {"gpu_env", "frist", "did you mean \"first\"?"},
	    {"cpus", "3-0", "write auto or a list such as 0-3,8"},
	    {"cpus", "0-3,x", "write auto or a list such as 0-3,8"},
	    {"cpus", "8192", "write auto or a list such as 0-3,8"},
	    {"ready", "htp://x",
	     "did you mean \"http:\"? Known are auto, none, link, notify, http:URL, "
	     "tcp:PORT, unix:PATH, file:PATH or log:REGEX"},
	    {"ready", "https://x",
	     "did you mean \"http:\"? Known are auto, none, link, notify, "
	     "http:URL, tcp:PORT, unix:PATH, file:PATH or log:REGEX"},
	    {"ready", "links",
	     "did you mean \"link\"? Known are auto, none, link, notify, http:URL, "
	     "tcp:PORT, unix:PATH, file:PATH or log:REGEX"},
	    {"ready", "magic",
	     "write auto, none, link, notify, http:URL, tcp:PORT, unix:PATH, "
	     "file:PATH or log:REGEX"},
	    {"ready", "http:/x", "\"/x\" is no URL: http://HOST:PORT/PATH"},
	    {"ready", "http://x:99999/", "\"//x:99999/\" is no URL: http://HOST:PORT/PATH"},
	    {"ready", "tcp:0", "\"0\" is neither PORT nor HOST:PORT"},
	    {"ready", "tcp:", "\"\" is neither PORT nor HOST:PORT"},
	    {"ready", "unix:x.sock", "\"x.sock\" is no absolute path"},
	    {"ready", "file:", "\"\" is no absolute path"},
	    {"ready", "log:a(b", "\"a(b\": Unmatched ( or \\("},
	    {"ready", "log:", "an empty regular expression fits every line"},
	    {"alive", "link", "write none, http:URL, tcp:PORT, unix:PATH, file:PATH or log:REGEX"},
	    {"alive", "tcp:a:b", "\"a:b\" is neither PORT nor HOST:PORT"},
	    {"progress", "tcp:80",
	     "write none or log:REGEX with a group for what is done and one for "
	     "the total"},
	    {"progress", "log:layer ([0-9]+)",
	     "\"layer ([0-9]+)\" has 1 groups in parentheses, 2 are "
	     "needed"},
	    {"stop_signal", "SIGFOO", "write a signal such as TERM, SIGINT or 15"},
	    {"stop_signal", "0", "write a signal such as TERM, SIGINT or 15"},
	    {"stop_signal", "65", "write a signal such as TERM, SIGINT or 15"},
	    {"stop_signal", "STOP", "it ends no process"},
	    {"stop_order", "backward", "write together, forward or reverse"},
	    {"dump_signal", "x", "write none or a signal such as QUIT, SIGABRT or 3"},
	    {"log", "16MB", "write a size such as 65536, 512KiB, 16MiB or 1GiB"},
	    {"log", "-1", "write a size such as 65536, 512KiB, 16MiB or 1GiB"},
	    {"log", "99999999999GiB", "write a size such as 65536, 512KiB, 16MiB or 1GiB"},
	    {"limits", "nofiles=3", "\"nofiles\" is no limit; did you mean \"nofile\"?"},
	    {"limits", "zebra=3", "\"zebra\" is no limit"},
	    {"limits", "nofile", "nofile has no value: write nofile=VALUE"},
	    {"limits", "core=0, core=1", "core is given twice"},
	    {"limits", "core=x",
	     "\"x\" is no limit's value: a number, a size, unlimited, or soft:hard"},
	    {"limits", "nproc=9:8", "soft 9 is over hard 8"},
	    {"limits", "nofile=3", "nofile is at least 16"},
	    {"exit_words", "70", "\"70\" is not STATUS:WORDS"},
	    {"exit_words", "70:", "\"70:\" is not STATUS:WORDS"},
	    {"exit_words", "256:x", "\"256\" is no exit status, 0 to 255"},
	    {"exit_words", "3:a, 3:b", "status 3 is given twice"},
	    {"drain", "http:x", "\"x\" is no URL: http://HOST:PORT/PATH"},
	    {"drain", "curl '", "byte 6: this ' is never closed"},
	};
	char text[TEXT_BYTES], wanted[TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < LENGTH(mistakes); i++) {
		snprintf(text, sizeof(text), "[worker]\n%s = %s\n", mistakes[i].key,
			 mistakes[i].value);
		snprintf(wanted, sizeof(wanted), "x.ini:2: bad value \"%s\" for %s: %s",
			 mistakes[i].value, mistakes[i].key, mistakes[i].why);
		load_wrong(text, NULL);
		assert_string_equal(error.text, wanted);
	}
}

static void
what_does_not_exist_or_go_together_is_refused(void **state)
{
	static const struct mistake mistakes[] = {
	    {"[group]\nranks = 1\n", "x.ini: no command: write command = ... in [worker]"},
	    {"[group]\nranks = 2\n[worker.1]\ncommand = a\n",
	     "x.ini: no command for rank 0: write command = ... in [worker] or [worker.0]"},
	    {"[group]\nranks = 2\n" WORKER "[worker.2]\nlog = 0\n",
	     "x.ini:6: [worker.2], but there are 2 ranks, numbered from 0"},
	    {WORKER "gpus = none\n",
	     "x.ini:3: ranks = auto means one per GPU, but gpus = none: write "
	     "ranks = N in [group]"},
	    {"[group]\nranks = 3\n" WORKER "gpus = 0,1\n",
	     "x.ini:5: 3 ranks need 3 GPUs in all, but gpus lists 2"},
	    {"[group]\nranks = 2\n" WORKER "gpus = 0,1,2\ngpus_per_rank = 2\n",
	     "x.ini:5: 2 ranks need 4 GPUs in all, but gpus lists 3"},
	    {WORKER "user = no-such-user-here\n", "x.ini:3: unknown user \"no-such-user-here\""},
	    {"[group]\nranks = 2\n" WORKER "[worker.1]\nuser = no-such-user-here\n",
	     "x.ini:6: unknown user \"no-such-user-here\""},
	    {WORKER "directory = /no/such/place\n",
	     "x.ini:3: directory \"/no/such/place\": No such file or directory"},
	    {"[group]\nranks = 2\n" WORKER "[worker.1]\ndirectory = /no/such/place\n",
	     "x.ini:6: directory \"/no/such/place\": No such file or directory"},
	    {WORKER "directory = /dev/null\n", "x.ini:3: directory \"/dev/null\": Not a directory"},
	    {"[group]\nranks = 2\n" WORKER "[worker.1]\ndirectory = /no/{rank}\n",
	     "x.ini:6: directory \"/no/1\": No such file or directory"},
	};

	(void)state;
	check_all(mistakes, LENGTH(mistakes));
}

static void
a_directory_known_only_at_the_start_is_left_to_it(void **state)
{
	static const char text[] =
	    "[group]\nranks = 2\n" WORKER "directory = /no/{rank}/{run_dir}\n";
	FILE *file = fmemopen((void *)text, sizeof(text) - 1, "r");

	(void)state;
	assert_int_equal(config_load_stream(file, "x.ini", NULL, 0, &config, &error), 0);
	config_free(&config);
	fclose(file);
}

static void
a_computed_variable_cannot_be_set(void **state)
{
	static const char *const names[] = {"RANK",
					    "LOCAL_RANK",
					    "WORLD_SIZE",
					    "LOCAL_WORLD_SIZE",
					    "GROUP_RANK",
					    "ROLE_RANK",
					    "ROLE_NAME",
					    "ROLE_WORLD_SIZE",
					    "GROUP_WORLD_SIZE",
					    "MASTER_ADDR",
					    "MASTER_PORT",
					    "TORCHELASTIC_RESTART_COUNT",
					    "TORCHELASTIC_MAX_RESTARTS",
					    "TORCHELASTIC_RUN_ID",
					    "TORCHELASTIC_ERROR_FILE",
					    "TFRANK_LINK_FD",
					    "TFRANK_RANK",
					    "TFRANK_WORLD_SIZE",
					    "TFRANK_EPOCH",
					    "TFRANK_ANYTHING",
					    "NOTIFY_SOCKET"};
	char text[TEXT_BYTES], wanted[TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < LENGTH(names); i++) {
		snprintf(text, sizeof(text), WORKER "[environment]\n%s = 1\n", names[i]);
		snprintf(wanted, sizeof(wanted),
			 "x.ini:4: %s is computed for each rank: [environment] cannot set it",
			 names[i]);
		load_wrong(text, NULL);
		assert_string_equal(error.text, wanted);
	}
	load_wrong("[environment]\n1A = 1\n", NULL);
	assert_string_equal(
	    error.text,
	    "x.ini:2: \"1A\" is no variable's name: letters, digits and _, no digit first");
	load_wrong("[environment]\nA-B = 1\n", NULL);
	assert_string_equal(
	    error.text,
	    "x.ini:2: \"A-B\" is no variable's name: letters, digits and _, no digit first");
	load_wrong(WORKER "[environment]\nCUDA_VISIBLE_DEVICES = 1\n", NULL);
	assert_string_equal(
	    error.text,
	    "x.ini:4: CUDA_VISIBLE_DEVICES is computed from gpus: write gpus = 1 in [worker], or "
	    "gpus = none to set it yourself");
}

static void
a_bad_set_is_refused_with_its_text(void **state)
{
	static const struct {
		const char *set, *why;
	} mistakes[] = {
	    {"", "write section.key=value, such as group.ranks=2"},
	    {"ranks=2", "write section.key=value, here group.ranks=value"},
	    {"group.ranks", "write section.key=value, such as group.ranks=2"},
	    {"grup.ranks=2", "unknown section \"grup\"; did you mean \"group\"?"},
	    {"group.rank=2", "unknown key \"rank\" in [group]; did you mean \"ranks\"?"},
	    {"group.ranks=x", "bad value \"x\" for ranks: write auto or 1 to 1024"},
	    {"group.ranks=", "ranks has no value: write auto or 1 to 1024"},
	    {"worker.x.log=0", "unknown section \"worker.x\": write worker.0 to worker.1023"},
	    {"worker.9.log=0", "[worker.9], but there are 2 ranks, numbered from 0"},
	    {"environment.RANK=0", "RANK is computed for each rank: [environment] cannot set it"},
	    {"environment.A=a\nb", "A holds a line break"},
	    {"worker.command=a\x1b[1m", "command holds a control character"},
	};
	char wanted[TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < LENGTH(mistakes); i++) {
		load_wrong("[group]\nranks = 2\n" WORKER, mistakes[i].set);
		snprintf(wanted, sizeof(wanted), "--set %s: %s", mistakes[i].set, mistakes[i].why);
		for (char *p = wanted; *p != '\0'; p++)
			*p = *p < ' ' && *p > 0 ? '?' : *p;
		assert_string_equal(error.text, wanted);
	}
}

static void
a_value_is_judged_even_where_a_set_replaces_it(void **state)
{
	(void)state;
	load_wrong("[group]\nranks = x\n" WORKER, "group.ranks=2");
	assert_string_equal(error.text,
			    "x.ini:2: bad value \"x\" for ranks: write auto or 1 to 1024");
}

static void
a_file_whose_name_names_no_group_asks_for_one(void **state)
{
	FILE *file = fmemopen((void *)WORKER, strlen(WORKER), "r");

	(void)state;
	assert_int_equal(config_load_stream(file, "/a/my server.ini", NULL, 0, &config, &error),
			 -1);
	assert_string_equal(
	    error.text,
	    "/a/my server.ini: \"my server\" is no name for a group: write name = ... in [group], "
	    "write 1 to 32 letters, digits, _ or -");
	fclose(file);
}

static void
a_file_that_cannot_be_read_is_named(void **state)
{
	char path[64];

	(void)state;
	assert_int_equal(config_load("/no/such.ini", NULL, 0, &config, &error), -1);
	assert_string_equal(error.text, "/no/such.ini: No such file or directory");
	assert_int_equal(config_load("/", NULL, 0, &config, &error), -1);
	assert_string_equal(error.text, "/: Is a directory");
	assert_int_equal(config_find("no-such-group", path, sizeof(path), &error), -1);
	assert_string_equal(error.text, "no-such-group: there is no such file here and no "
					"/etc/tfsupervisor/no-such-group.ini");
	assert_int_equal(config_find("/no/such.ini", path, sizeof(path), &error), 0);
	assert_string_equal(path, "/no/such.ini");
	assert_int_equal(config_find("x", path, 4, &error), -1);
}

static void
a_long_word_is_cut_in_the_error(void **state)
{
	char text[5000] = "[group]\nranks = ";

	(void)state;
	memset(text + strlen(text), 'x', 4000);
	load_wrong(text, NULL);
	assert_true(strlen(error.text) < 200);
	assert_non_null(strstr(error.text, "xxx...\" for ranks: write auto or 1 to 1024"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_wrong_line_is_refused),
	    cmocka_unit_test(an_unknown_section_is_refused),
	    cmocka_unit_test(an_unknown_or_misplaced_key_is_refused),
	    cmocka_unit_test(a_duplicate_names_both_lines),
	    cmocka_unit_test(a_bad_value_of_group_is_refused),
	    cmocka_unit_test(a_bad_value_of_worker_is_refused),
	    cmocka_unit_test(what_does_not_exist_or_go_together_is_refused),
	    cmocka_unit_test(a_directory_known_only_at_the_start_is_left_to_it),
	    cmocka_unit_test(a_computed_variable_cannot_be_set),
	    cmocka_unit_test(a_bad_set_is_refused_with_its_text),
	    cmocka_unit_test(a_value_is_judged_even_where_a_set_replaces_it),
	    cmocka_unit_test(a_file_whose_name_names_no_group_asks_for_one),
	    cmocka_unit_test(a_file_that_cannot_be_read_is_named),
	    cmocka_unit_test(a_long_word_is_cut_in_the_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

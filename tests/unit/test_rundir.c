/* sources: supervisor/rundir.c supervisor/rundir_path.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/log.h"
#include "supervisor/rundir.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define TURNS  100 /* that each of four gets, in whatever order */

static char root[64]; /* of one test */
static char base[128];
static char error[RUNDIR_ERROR_BYTES];
static char logged[1024];
static int log_lines;

static void
keep_line(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	log_lines++;
	snprintf(logged, sizeof(logged), "%s", line);
}

static int
setup(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/tf-rundir-XXXXXX");
	if (mkdtemp(root) == NULL)
		return -1;
	snprintf(base, sizeof(base), "%s/run", root);
	log_lines = 0;
	error[0] = logged[0] = '\0';
	log_set_sink(keep_line, NULL);
	unsetenv("RUNTIME_DIRECTORY");
	unsetenv("STATE_DIRECTORY");
	unsetenv("XDG_RUNTIME_DIR");
	return 0;
}

static int
teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static int
open_demo(struct rundir *dir)
{
	return rundir_open(dir, base, NULL, "demo", 4242, error, sizeof(error));
}

static mode_t
mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static const char *
below(const char *folder, const char *file)
{
	static char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/%.30s", folder, file);
	return path;
}

static void
write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void
a_group_has_a_private_folder_with_its_pid(void **state)
{
	char text[16] = "";
	struct rundir dir;
	mode_t before;
	int fd;

	(void)state;
	before = umask(077);
	assert_int_equal(open_demo(&dir), 0);
	umask(before);
	assert_int_equal(mode_of(base), 0711);
	assert_int_equal(mode_of(dir.path), 0700);
	fd = open(below(dir.path, "pid"), O_RDONLY);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	assert_string_equal(text, "4242\n");
	assert_int_equal(log_lines, 0);
	rundir_close(&dir);
}

static void
a_living_group_is_refused_by_name_and_pid(void **state)
{
	struct rundir dir, second;

	(void)state;
	assert_int_equal(open_demo(&dir), 0);
	assert_int_equal(open_demo(&second), -1);
	assert_non_null(strstr(error, "group demo is already running: pid 4242"));
	assert_int_equal(access(below(dir.path, "pid"), F_OK), 0);
	assert_int_equal(rundir_open(&second, base, NULL, "other", 1, error, sizeof(error)), 0);
	rundir_close(&second);
	rundir_close(&dir);
}

static void
nothing_is_left_at_the_end(void **state)
{
	struct rundir dir;

	(void)state;
	assert_int_equal(open_demo(&dir), 0);
	write_file(below(dir.path, "rank-0.log"), "x");
	mkdir(below(dir.path, "cache"), 0700);
	write_file(below(dir.path, "cache/file"), "x");
	assert_int_equal(symlink("/etc/passwd", below(dir.path, "link")), 0);
	rundir_close(&dir);
	assert_int_equal(access(base, F_OK), -1);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
	assert_int_equal(log_lines, 0);
	rundir_close(&dir);
}

static void
a_run_directory_that_was_there_stays(void **state)
{
	struct rundir dir;

	(void)state;
	mkdir(base, 0755);
	assert_int_equal(open_demo(&dir), 0);
	rundir_close(&dir);
	assert_int_equal(mode_of(base), 0755);
	assert_int_equal(access(below(base, "demo"), F_OK), -1);
}

static void
leftovers_of_a_dead_supervisor_are_cleaned_in_one_line(void **state)
{
	struct rundir dir;

	(void)state;
	assert_int_equal(open_demo(&dir), 0);
	write_file(below(dir.path, "health.sock"), "");
	write_file(below(dir.path, "report.json"), "{}");
	rundir_forget(&dir);
	assert_int_equal(open_demo(&dir), 0);
	assert_int_equal(log_lines, 1);
	assert_non_null(strstr(logged, "3 files left by a supervisor that is gone (pid 4242)"));
	assert_int_equal(access(below(dir.path, "health.sock"), F_OK), -1);
	rundir_close(&dir);
}

static void
what_no_supervisor_left_is_never_removed(void **state)
{
	struct rundir dir;

	(void)state;
	mkdir(base, 0755);
	mkdir(below(base, "demo"), 0755);
	write_file(below(base, "demo/thesis.txt"), "x");
	assert_int_equal(open_demo(&dir), -1);
	assert_non_null(strstr(error, "run/demo holds files that no supervisor left there"));
	assert_int_equal(access(below(base, "demo/thesis.txt"), F_OK), 0);
}

static void
a_socket_path_that_is_too_long_is_refused_with_its_length(void **state)
{
	char deep[160], path[RUNDIR_SOCKET_BYTES];
	struct rundir dir;

	(void)state;
	memset(deep, 'x', sizeof(deep));
	snprintf(deep, sizeof(deep), "%s/", root);
	memset(deep + strlen(deep), 'x', 91 - strlen(deep));
	deep[91] = '\0';
	/* 91 + "/demo/health.sock" = 108 */
	assert_int_equal(rundir_open(&dir, deep, NULL, "demo", 1, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "/demo/health.sock has 108 bytes"));
	assert_int_equal(access(deep, F_OK), -1);
	deep[90] = '\0';
	assert_int_equal(rundir_open(&dir, deep, NULL, "demo", 1, error, sizeof(error)), 0);
	assert_int_equal(rundir_socket_path(&dir, "health.sock", path, error, sizeof(error)), 0);
	assert_int_equal(strlen(path), 107);
	assert_int_equal(rundir_socket_path(&dir, "notify-3.sock", path, error, sizeof(error)), -1);
	rundir_close(&dir);
}

static void
a_directory_that_cannot_be_used_is_named_with_the_reason(void **state)
{
	struct rundir dir;

	(void)state;
	write_file(base, "a file");
	assert_int_equal(open_demo(&dir), -1);
	assert_non_null(strstr(error, base));
	assert_non_null(strstr(error, "Not a directory"));
	assert_int_equal(rundir_open(&dir, "/nonexistent/x", NULL, "demo", 1, error, sizeof(error)),
			 -1);
	assert_non_null(strstr(error, "/nonexistent/x: No such file or directory"));
	assert_int_equal(rundir_open(&dir, "", NULL, "demo", 1, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "empty"));
	assert_int_equal(rundir_open(&dir, "/sys", NULL, "demo", 1, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "/sys/demo: "));
}

static void
what_others_may_write_is_refused(void **state)
{
	struct rundir dir;

	(void)state;
	mkdir(base, 0700);
	chmod(base, 0777);
	assert_int_equal(open_demo(&dir), -1);
	assert_non_null(strstr(error, "may be written by others (mode 0777)"));
	chmod(base, 01777);
	assert_int_equal(open_demo(&dir), 0);
	rundir_close(&dir);
}

static void
what_others_planted_is_refused(void **state)
{
	char target[160];
	struct rundir dir;

	(void)state;
	if (geteuid() != 0)
		skip();
	snprintf(target, sizeof(target), "%s/target", root);
	mkdir(target, 0755);
	assert_int_equal(symlink(target, base), 0);
	assert_int_equal(lchown(base, NOBODY, NOBODY), 0);
	assert_int_equal(open_demo(&dir), -1);
	assert_non_null(strstr(error, "Operation not permitted"));
	assert_int_equal(lchown(base, 0, 0), 0);
	assert_int_equal(open_demo(&dir), 0);
	rundir_close(&dir);
	assert_int_equal(chown(target, NOBODY, NOBODY), 0);
	assert_int_equal(open_demo(&dir), -1);
	assert_non_null(strstr(error, "belongs to uid 65534"));
	assert_int_equal(chown(target, 0, 0), 0);
	mkdir(below(target, "demo"), 0700);
	assert_int_equal(chown(below(target, "demo"), NOBODY, NOBODY), 0);
	assert_int_equal(open_demo(&dir), -1);
	assert_non_null(strstr(error, "belongs to uid 65534"));
}

/* Opens and closes; a holder makes a file that must not be there, and removes it. */
static int
contend(const char *mark)
{
	struct rundir dir;
	int held = 0, fd;

	while (held < TURNS) {
		if (open_demo(&dir) != 0) {
			if (strstr(error, "is already running") == NULL &&
			    strstr(error, "is being started or ended") == NULL)
				return 2;
			continue;
		}
		fd = open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600);
		if (fd < 0)
			return 3;
		held++;
		close(fd);
		unlink(mark);
		rundir_close(&dir);
	}
	return 0;
}

static void
two_never_hold_one_group_however_it_comes_and_goes(void **state)
{
	char mark[128];
	int status;

	(void)state;
	snprintf(mark, sizeof(mark), "%s/mark", root);
	for (int i = 0; i < 4; i++)
		if (fork() == 0)
			_exit(contend(mark));
	for (int i = 0; i < 4; i++) {
		assert_true(wait(&status) > 0);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	/* Whoever made the run directory may have ended before the others did. */
	assert_true(access(base, F_OK) != 0 || rmdir(base) == 0);
}

/* The guard keeps the lock while the supervisor has died, and cleans up. */
static void
the_lock_holds_until_the_last_process_of_ours_lets_go(void **state)
{
	struct rundir dir, second;
	int pipes[2], status;
	pid_t pid;
	char c;

	(void)state;
	assert_int_equal(open_demo(&dir), 0);
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		close(pipes[1]);
		if (read(pipes[0], &c, 1) != 0)
			_exit(1);
		rundir_close(&dir);
		_exit(0);
	}
	close(pipes[0]);
	rundir_forget(&dir);
	assert_int_equal(open_demo(&second), -1);
	assert_non_null(strstr(error, "pid 4242"));
	close(pipes[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(access(base, F_OK), -1);
	assert_int_equal(open_demo(&second), 0);
	rundir_close(&second);
}

static void
the_directory_follows_the_rules_of_the_design(void **state)
{
	char path[PATH_MAX], expected[64];
	struct rundir_bases bases;

	(void)state;
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	setenv("RUNTIME_DIRECTORY", "/run/first:/run/second", 1);
	assert_int_equal(rundir_base(path, "/a/", "/b", error, sizeof(error)), 0);
	assert_string_equal(path, "/a");
	assert_int_equal(rundir_base(path, NULL, "/b", error, sizeof(error)), 0);
	assert_string_equal(path, "/b");
	assert_int_equal(rundir_base(path, NULL, NULL, error, sizeof(error)), 0);
	assert_string_equal(path, "/run/first");
	rundir_bases(&bases, NULL, "/b");
	assert_int_equal(bases.n, 5);
	assert_string_equal(bases.path[0], "/b");
	assert_string_equal(bases.path[1], "/run/first");
	assert_string_equal(bases.path[2], "/run/tfsupervisor");
	assert_string_equal(bases.path[3], "/run/user/7/tfsupervisor");
	snprintf(expected, sizeof(expected), "/tmp/tfsupervisor-%u", geteuid());
	assert_string_equal(bases.path[4], expected);
	rundir_bases(&bases, "/a", "/b");
	assert_int_equal(bases.n, 1);
	unsetenv("RUNTIME_DIRECTORY");
	assert_int_equal(rundir_base(path, NULL, NULL, error, sizeof(error)), 0);
	assert_string_equal(path,
			    geteuid() == 0 ? "/run/tfsupervisor" : "/run/user/7/tfsupervisor");
}

static void
the_state_directory_is_made_with_its_parents(void **state)
{
	char path[PATH_MAX], wanted[128];

	(void)state;
	snprintf(wanted, sizeof(wanted), "%s/a/b/state", root);
	setenv("STATE_DIRECTORY", wanted, 1);
	assert_int_equal(statedir_make(path, error, sizeof(error)), 0);
	assert_string_equal(path, wanted);
	assert_int_equal(mode_of(wanted), 0700);
	assert_int_equal(statedir_make(path, error, sizeof(error)), 0);
	write_file(base, "a file");
	setenv("STATE_DIRECTORY", below(base, "x"), 1);
	assert_int_equal(statedir_make(path, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "/run/x: Not a directory"));
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    test(a_group_has_a_private_folder_with_its_pid),
	    test(a_living_group_is_refused_by_name_and_pid),
	    test(nothing_is_left_at_the_end),
	    test(a_run_directory_that_was_there_stays),
	    test(leftovers_of_a_dead_supervisor_are_cleaned_in_one_line),
	    test(what_no_supervisor_left_is_never_removed),
	    test(a_socket_path_that_is_too_long_is_refused_with_its_length),
	    test(a_directory_that_cannot_be_used_is_named_with_the_reason),
	    test(what_others_may_write_is_refused),
	    test(what_others_planted_is_refused),
	    test(two_never_hold_one_group_however_it_comes_and_goes),
	    test(the_lock_holds_until_the_last_process_of_ours_lets_go),
	    test(the_directory_follows_the_rules_of_the_design),
	    test(the_state_directory_is_made_with_its_parents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* sources: worker/way_out.c */
#include "common/deadline.h"
#include "worker/way_out.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BOUND_NS (50 * NS_PER_MSEC)

static int pipe_fds[2];

static void
put(void *letter)
{
	if (write(pipe_fds[1], letter, 1) != 1)
		_exit(99);
}

static void
hang(void *arg)
{
	(void)arg;
	for (;;)
		pause();
}

/* Runs body in a process whose standard error is the pipe; its status, its output in *out. */
static int
run(void (*body)(void), char out[256])
{
	size_t n = 0;
	ssize_t got;
	int status;
	pid_t pid;

	assert_int_equal(pipe(pipe_fds), 0);
	if ((pid = fork()) == 0) {
		dup2(pipe_fds[1], STDERR_FILENO);
		if (way_out_init() != 0)
			_exit(98);
		body();
		_exit(0);
	}
	close(pipe_fds[1]);
	while ((got = read(pipe_fds[0], out + n, 255 - n)) > 0)
		n += (size_t)got;
	out[n] = '\0';
	close(pipe_fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void
leave_in_order(void)
{
	const struct way_out_step steps[] = {{"one", put, "1"}, {"two", put, "2"}};

	way_out_arm(20 * NS_PER_SEC, 7);
	way_out_run(steps, 2);
}

static void
steps_run_in_order_within_the_bound(void **state)
{
	char out[256];

	(void)state;
	assert_int_equal(run(leave_in_order, out), 0);
	assert_string_equal(out, "12");
}

static void
hang_in_two(void)
{
	const struct way_out_step steps[] = {
	    {"one", put, "1"}, {"the second step", hang, NULL}, {"three", put, "3"}};

	way_out_arm(BOUND_NS, 7);
	way_out_run(steps, 3);
}

static void
a_step_that_hangs_is_named_and_the_process_ends(void **state)
{
	char out[256];

	(void)state;
	assert_int_equal(run(hang_in_two, out), 7);
	assert_non_null(strstr(out, "the second step"));
	assert_null(strchr(out, '3'));
}

static void
hang_before(void)
{
	way_out_arm(BOUND_NS, 5);
	hang(NULL);
}

static void
who_never_reaches_the_way_out_ends_too(void **state)
{
	char out[256];

	(void)state;
	assert_int_equal(run(hang_before, out), 5);
}

static void
arm_twice(void)
{
	way_out_arm(20 * NS_PER_SEC, 3);
	way_out_arm(BOUND_NS, 4);
	way_out_arm(30 * NS_PER_SEC, 5);
	hang(NULL);
}

static void
the_earliest_deadline_counts(void **state)
{
	uint64_t start_ns = monotonic_ns();
	char out[256];

	(void)state;
	assert_int_equal(run(arm_twice, out), 4);
	assert_true(monotonic_ns() - start_ns < 20 * NS_PER_SEC);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(steps_run_in_order_within_the_bound),
	    cmocka_unit_test(a_step_that_hangs_is_named_and_the_process_ends),
	    cmocka_unit_test(who_never_reaches_the_way_out_ends_too),
	    cmocka_unit_test(the_earliest_deadline_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

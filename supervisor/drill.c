#include "supervisor/drill.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LATE_BOUND_NS    (30 * NS_PER_SEC) /* the collective bound that the late case tripped */
#define LATE_DELAY_NS    (35 * NS_PER_SEC) /* by this delay */
#define LEAST_BOUND_NS   (200 * NS_PER_MSEC)
#define READY_DEFAULT_NS (600 * NS_PER_SEC)
#define DRILL_DEADLINE_NS                                                                          \
	(7200 * NS_PER_SEC) /* beyond the delay: loading has a bound of its own                    \
			     */
#define STOP_DEADLINE_NS (20 * NS_PER_SEC)

static const struct {
	const char *word;
	uint64_t delay_ns;
} modes[DRILL_MODE_COUNT] = {
#define X(id, word, delay) [DRILL_##id] = {word, delay},
    DRILL_MODES(X)
#undef X
};

const char *
drill_word(enum drill_mode mode)
{
	return modes[mode].word;
}

uint64_t
drill_default_delay_ns(enum drill_mode mode)
{
	return modes[mode].delay_ns;
}

static uint64_t
at_least(uint64_t ns, uint64_t least_ns)
{
	return ns < least_ns ? least_ns : ns;
}

void
drill_bounds(struct drill *drill)
{
	uint64_t delay_ns = drill->delay_ns;

	drill->ready_ns = at_least(READY_DEFAULT_NS, 2 * delay_ns);
	drill->collective_ns = LATE_BOUND_NS;
	if (drill->mode == DRILL_LATE)
		drill->collective_ns = at_least(
		    (uint64_t)((double)delay_ns * LATE_BOUND_NS / LATE_DELAY_NS), LEAST_BOUND_NS);
	else if (drill->mode == DRILL_MISSING)
		drill->ready_ns = delay_ns;
	else if (drill->mode == DRILL_TIMEOUT)
		drill->collective_ns = delay_ns;
}

/* --- a child, with standard output on standard error --- */

static int
spawn(char *const *argv, pid_t *pid, char error[DRILL_ERROR_BYTES])
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int failed;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &none);
	failed = posix_spawn(pid, argv[0], &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	if (failed != 0)
		snprintf(error, DRILL_ERROR_BYTES, "%.400s: %s", argv[0], strerror(failed));
	return failed != 0 ? -1 : 0;
}

static void
fill_awaited(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
}

/* The next signal of the set, 0 when the deadline has passed. */
static int
next_signal(const sigset_t *set, uint64_t deadline_ns)
{
	uint64_t now_ns = monotonic_ns();
	uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
	struct timespec left = {(time_t)(left_ns / NS_PER_SEC), (long)(left_ns % NS_PER_SEC)};
	int signal_number = sigtimedwait(set, NULL, &left);

	if (signal_number < 0)
		return errno == EAGAIN ? 0 : SIGCHLD;
	return signal_number;
}

/*
 * Waits for the child. A signal to us, or the deadline, is a SIGTERM for it, and SIGKILL for what
 * does not obey.
 */
static int
await(pid_t pid, uint64_t deadline_ns, int *interrupted)
{
	bool stopping = false;
	sigset_t set;
	int status = 0;

	fill_awaited(&set);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		int number = next_signal(&set, deadline_ns);

		if (number == SIGCHLD)
			continue;
		if (number != 0)
			*interrupted = number;
		kill(pid, stopping && number == 0 ? SIGKILL : SIGTERM);
		if (!stopping || number == 0)
			deadline_ns = monotonic_ns() + STOP_DEADLINE_NS;
		stopping = true;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int
run_program(char *const *argv, uint64_t timeout_ns, int *status, int *interrupted,
	    char error[DRILL_ERROR_BYTES])
{
	pid_t pid;

	if (spawn(argv, &pid, error) != 0)
		return -1;
	*status = await(pid, monotonic_ns() + timeout_ns, interrupted);
	return 0;
}

/* --- the drill --- */

/* A tfworker without the backend refuses its name before it would show its help. */
static int
check_backend(const struct drill *drill, int *interrupted, char error[DRILL_ERROR_BYTES])
{
	char *argv[] = {(char *)drill->worker,  "rank",   "--backend",
			(char *)drill->backend, "--help", NULL};
	int status;

	if (strcmp(drill->backend, "host") == 0)
		return 0;
	if (run_program(argv, STOP_DEADLINE_NS, &status, interrupted, error) != 0)
		return -1;
	if (status == 0)
		return 0;
	snprintf(error, DRILL_ERROR_BYTES, "%.400s has no backend %s", drill->worker,
		 drill->backend);
	return -1;
}

/* The multiple of the number of ranks that is `least` or just above: every cut divides. */
static void
dimension(const struct drill *drill, int least, char out[16])
{
	snprintf(out, 16, "%d", (least + drill->ranks - 1) / drill->ranks * drill->ranks);
}

static int
make_model(const struct drill *drill, const char *model, int *interrupted,
	   char error[DRILL_ERROR_BYTES])
{
	char hidden[16], intermediate[16], vocab[16], head_dim[16];
	char *argv[] = {(char *)drill->worker,
			"synth",
			(char *)model,
			"--layers",
			"12",
			"--hidden",
			hidden,
			"--intermediate",
			intermediate,
			"--vocab",
			vocab,
			"--heads",
			"4",
			"--kv-heads",
			"2",
			"--head-dim",
			head_dim,
			NULL};
	int status;

	dimension(drill, 256, hidden);
	dimension(drill, 512, intermediate);
	dimension(drill, 2048, vocab);
	dimension(drill, 64, head_dim);
	if (run_program(argv, DRILL_DEADLINE_NS, &status, interrupted, error) != 0)
		return -1;
	if (status == 0)
		return 0;
	snprintf(error, DRILL_ERROR_BYTES, "%.200s synth %.200s: exit status %d", drill->worker,
		 model, status);
	return -1;
}

static int
run_group(const struct drill *drill, const char *place, const char *model,
	  struct drill_result *result, int *interrupted, char error[DRILL_ERROR_BYTES])
{
	char ini[PATH_MAX], state[PATH_MAX + 8];
	char *argv[] = {(char *)drill->supervisor, "run", ini, NULL};

	snprintf(state, sizeof(state), "%s/state", place);
	if (setenv("STATE_DIRECTORY", state, 1) != 0) {
		snprintf(error, DRILL_ERROR_BYTES, "STATE_DIRECTORY: %s", strerror(errno));
		return -1;
	}
	if (drill_place_write_ini(drill, place, model, ini, error) != 0)
		return -1;
	return run_program(argv, drill->delay_ns + DRILL_DEADLINE_NS, &result->status, interrupted,
			   error);
}

static int
run_in(const struct drill *drill, const char *place, struct drill_result *result, int *interrupted,
       char error[DRILL_ERROR_BYTES])
{
	char made[PATH_MAX + 8];
	const char *model = drill->model;

	snprintf(made, sizeof(made), "%s/model", place);
	if (model == NULL) {
		if (make_model(drill, made, interrupted, error) != 0)
			return -1;
		model = made;
	}
	if (*interrupted == 0 && run_group(drill, place, model, result, interrupted, error) != 0)
		return -1;
	drill_place_read(drill, place, result);
	return 0;
}

int
drill_run(const struct drill *drill, struct drill_result *result, int *interrupted,
	  char error[DRILL_ERROR_BYTES])
{
	char place[PATH_MAX];
	int failed;

	*result = (struct drill_result){0};
	*interrupted = 0;
	/* Whoever started us may ignore it, and then there is nothing to wait for. */
	signal(SIGCHLD, SIG_DFL);
	if (check_backend(drill, interrupted, error) != 0 || drill_place_make(place, error) != 0)
		return -1;
	failed = run_in(drill, place, result, interrupted, error);
	drill_place_remove(place);
	return failed;
}

void
drill_result_free(struct drill_result *result)
{
	json_decref(result->report);
	json_decref(result->receipts);
}

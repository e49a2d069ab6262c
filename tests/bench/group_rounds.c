/*
 * Rounds of a group's whole life: start of N ranks, go, SIGKILL of one, ABORT at every peer, the
 * end. Each round runs every program given, one after the other, over the same ranks:
 *
 *     group_rounds RANKS ROUNDS NAME STATUS COMMAND... [: NAME STATUS COMMAND...]...
 *
 * STATUS is the exit status that the program must have in the end. Prints a line a group, in us,
 * "-" where ranks without a link have nothing to say:
 *
 *     NAME START HELLO GO ABORT GONE
 *
 * START exec of the program to main() of the last rank (from bare_group's own main()), HELLO the
 * same to the last HELLO sent, GO last READY sent to last GO received, ABORT the SIGKILL to the
 * last ABORT received, GONE the SIGKILL to the program reaped with nothing left below it.
 */
#include "tests/bench/times.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOUND_NS     UINT64_C(60000000000) /* of every wait of a round */
#define LOOK_NS      UINT64_C(200000000)   /* between looks whether the group still lives */
#define SETTLE_MS    3                     /* go to SIGKILL, so that the loss comes in peace */
#define PROGRAMS_MAX 8
#define LOG_VARIABLE "TF_BENCH_LOG"

struct program {
	const char *name;
	int status;  /* wanted in the end */
	char **argv; /* NULL-terminated */
};

static _Noreturn void
die(const char *what)
{
	const char *log = getenv(LOG_VARIABLE);

	fprintf(stderr, "group_rounds: %s; the group's last words: %s\n", what,
		log ? log : "unset");
	exit(1);
}

/* Starts the program with its output in the log. */
static pid_t
start(char *const *argv)
{
	posix_spawn_file_actions_t actions;
	const char *log = getenv(LOG_VARIABLE);
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, log ? log : "/dev/null",
					 O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	posix_spawn_file_actions_adddup2(&actions, 1, 2);
	errno = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
	if (errno != 0)
		die(argv[0]);
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

/* The latest of a moment over the ranks, without the rank `except`. */
static uint64_t
last_of(const struct times *times, size_t moment, uint32_t except)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < times->world_size; i++) {
		uint64_t at;

		memcpy(&at, (const char *)&times->ranks[i] + moment, sizeof(at));
		if (i != except && at > last)
			last = at;
	}
	return last;
}

/* In us; "-" if one of the two moments never came. */
static void
print_span(uint64_t from, uint64_t to)
{
	if (from == 0 || to == 0)
		printf(" -");
	else
		printf(" %.1f", ((double)to - (double)from) / 1000.0);
}

static void
report(const char *name, const struct times *times, uint32_t victim, uint64_t started_ns,
       uint64_t killed_ns, uint64_t gone_ns)
{
#define LAST(moment, except) last_of(times, offsetof(struct rank_times, moment), except)
	uint32_t nobody = times->world_size;

	printf("%s", name);
	print_span(started_ns, LAST(main_ns, nobody));
	print_span(started_ns, LAST(hello_ns, nobody));
	print_span(LAST(ready_ns, nobody), LAST(go_ns, nobody));
	print_span(killed_ns, LAST(abort_ns, victim));
	print_span(killed_ns, gone_ns);
	printf("\n");
	fflush(stdout);
#undef LAST
}

/* Waits for a counter while the group lives. */
static void
await_ranks(pid_t pid, uint32_t *counter, uint32_t wanted, const char *what)
{
	uint64_t end = times_now() + BOUND_NS;

	while (times_await(counter, wanted, LOOK_NS) == -1) {
		siginfo_t info = {0};

		waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
		if (info.si_pid == pid || times_now() > end)
			die(what);
	}
}

static void
one_group(struct times *times, const struct program *program, uint32_t n, uint32_t victim)
{
	uint64_t started_ns, killed_ns, gone_ns;
	int status;
	pid_t pid;

	memset(times, 0, sizeof(*times));
	times->world_size = n;
	started_ns = times_now();
	pid = start(program->argv);
	await_ranks(pid, &times->went, n, "not every rank was let go");
	poll(NULL, 0, SETTLE_MS);
	killed_ns = times_now();
	kill(times->ranks[victim].pid, SIGKILL);
	await_ranks(pid, &times->aborted, n - 1, "not every peer had its ABORT");
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	gone_ns = times_now();
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
		die("the tree is not empty at the end");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != program->status)
		die("wrong exit status");
	report(program->name, times, victim, times->start_ns ? times->start_ns : started_ns,
	       killed_ns, gone_ns);
}

/* Cuts the words at each ":"; a NULL takes its place. Returns how many programs there are. */
static size_t
read_programs(char **words, struct program *programs)
{
	size_t n = 0;

	while (words[0] != NULL && n < PROGRAMS_MAX) {
		if (words[1] == NULL || words[2] == NULL)
			die("a program is NAME STATUS COMMAND...");
		programs[n++] = (struct program){words[0], atoi(words[1]), words + 2};
		while (*words != NULL && strcmp(*words, ":") != 0)
			words++;
		if (*words != NULL)
			*words++ = NULL;
	}
	return n;
}

int
main(int argc, char **argv)
{
	struct program programs[PROGRAMS_MAX];
	char path[64];
	struct times *times;
	uint32_t n, rounds;
	size_t count;

	if (argc < 6)
		die("usage: group_rounds RANKS ROUNDS NAME STATUS COMMAND... [: ...]");
	n = (uint32_t)atoi(argv[1]);
	rounds = (uint32_t)atoi(argv[2]);
	count = read_programs(argv + 3, programs);
	times = times_create(path, sizeof(path));
	if (times == NULL || n < 2 || n > TIMES_RANKS)
		die("2 to 1024 ranks");
	setenv(TIMES_VARIABLE, path, 1);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (uint32_t i = 0; i < rounds; i++)
		for (size_t j = 0; j < count; j++)
			one_group(times, &programs[j], n, i % n);
	return 0;
}

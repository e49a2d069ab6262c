/*
 * The lower bound that tfsupervisor is held against: starts N ranks with vfork-like clones, one
 * epoll loop over links and pidfds, WELCOME, GO and ABORT as prebuilt packets, and nothing else.
 *
 *     bare_group N COMMAND
 */
#include "tests/bench/times.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_STACK_BYTES 65536
#define TURN_EVENTS       64
#define LINK_FD           1023 /* where a rank finds its link */

struct bare_rank {
	int link, child_link, pidfd;
	pid_t pid;
	bool lost, gone;
};

struct bare_group {
	struct bare_rank ranks[TIMES_RANKS];
	uint32_t world_size, ready, gone;
	int epoll;
	bool aborted;
};

struct child {
	int link;
	char *argv[2], **envp;
};

static const char WELCOME[] = "WELCOME=1\nRANK=0\nWORLD_SIZE=8\nEPOCH=1\n"
			      "READY_TIMEOUT_USEC=600000000\nCOLLECTIVE_TIMEOUT_USEC=30000000\n";
static const char GO[] = "GO=1\n";
static const char ABORT[] = "ABORT=RankDisconnected\nRANK=0\nDETAIL=killed SIGKILL\n";

static _Noreturn void
die(const char *what)
{
	fprintf(stderr, "bare_group: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Runs in a child that shares our memory while we wait. */
static int
child_main(void *arg)
{
	struct child *child = arg;

	if (dup2(child->link, LINK_FD) == child->link)
		fcntl(LINK_FD, F_SETFD, 0);
	execve(child->argv[0], child->argv, child->envp);
	_exit(127);
}

static void
watch(struct bare_group *group, int fd, uint64_t data)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = data};

	if (epoll_ctl(group->epoll, EPOLL_CTL_ADD, fd, &event) == -1)
		die("epoll_ctl");
}

static void
spawn(struct bare_group *group, uint32_t i, char *command, char **envp, char *stack)
{
	struct bare_rank *rank = &group->ranks[i];
	struct child child = {-1, {command, NULL}, envp};
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == -1)
		die("socketpair");
	child.link = pair[1];
	rank->link = pair[0];
	rank->pid = clone(child_main, stack + CHILD_STACK_BYTES,
			  CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &child, &rank->pidfd);
	if (rank->pid == -1)
		die("clone");
	close(pair[1]);
	watch(group, rank->link, i);
	watch(group, rank->pidfd, (uint64_t)i | UINT64_C(1) << 32);
}

static void
send_all(struct bare_group *group, const char *packet)
{
	for (uint32_t i = 0; i < group->world_size; i++)
		if (!group->ranks[i].lost)
			send(group->ranks[i].link, packet, strlen(packet),
			     MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void
lose(struct bare_group *group, struct bare_rank *rank)
{
	rank->lost = true;
	if (!group->aborted) {
		group->aborted = true;
		send_all(group, ABORT);
	}
}

static void
hear(struct bare_group *group, struct bare_rank *rank)
{
	char packet[4096];
	ssize_t n = recv(rank->link, packet, sizeof(packet), MSG_DONTWAIT);

	if (n <= 0) {
		epoll_ctl(group->epoll, EPOLL_CTL_DEL, rank->link, NULL);
		lose(group, rank);
	} else if (packet[0] == 'H') {
		send(rank->link, WELCOME, sizeof(WELCOME) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	} else if (packet[0] == 'R' && ++group->ready == group->world_size) {
		send_all(group, GO);
	}
}

static void
reap(struct bare_group *group, struct bare_rank *rank)
{
	epoll_ctl(group->epoll, EPOLL_CTL_DEL, rank->pidfd, NULL);
	lose(group, rank);
	waitpid(rank->pid, NULL, 0);
	group->gone++;
}

static void
loop(struct bare_group *group)
{
	struct epoll_event events[TURN_EVENTS];

	while (group->gone < group->world_size) {
		int n = epoll_wait(group->epoll, events, TURN_EVENTS, -1);

		for (int i = 0; i < n; i++) {
			struct bare_rank *rank = &group->ranks[(uint32_t)events[i].data.u64];

			if (events[i].data.u64 >> 32)
				reap(group, rank);
			else
				hear(group, rank);
		}
	}
}

/* The environment with room for the two variables that differ by rank. */
static char **
child_environment(char *rank, char *link)
{
	size_t n = 0;
	char **envp;

	while (environ[n] != NULL)
		n++;
	envp = calloc(n + 3, sizeof(*envp));
	if (envp == NULL)
		die("environment");
	memcpy(envp, environ, n * sizeof(*envp));
	envp[n] = rank;
	envp[n + 1] = link;
	return envp;
}

int
main(int argc, char **argv)
{
	static struct bare_group group;
	static char stack[CHILD_STACK_BYTES] __attribute__((aligned(16)));
	uint64_t main_ns = times_now();
	struct times *times = times_open();
	struct rlimit files;
	char rank[32], link[32], **envp;

	if (times == NULL || argc != 3)
		die("usage: bare_group N COMMAND, run by group_rounds");
	times->start_ns = main_ns;
	group.world_size = (uint32_t)atoi(argv[1]);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	group.epoll = epoll_create1(EPOLL_CLOEXEC);
	snprintf(link, sizeof(link), "TFRANK_LINK_FD=%d", LINK_FD);
	envp = child_environment(rank, link);
	for (uint32_t i = 0; i < group.world_size; i++) {
		snprintf(rank, sizeof(rank), "RANK=%u", i);
		spawn(&group, i, argv[2], envp, stack);
	}
	loop(&group);
	free(envp);
	return 0;
}

/*
 * The smallest rank there is: says HELLO, is READY once welcomed, notes when GO and ABORT come.
 * The last rank holds its READY back until all others have said theirs, so that what is measured
 * is the release and not the start. Without a link (torchrun) SIGTERM stands for ABORT.
 */
#include "tests/bench/times.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOLD_NS UINT64_C(60000000000)

static int
number_of(const char *variable)
{
	const char *text = getenv(variable);

	return text == NULL ? -1 : atoi(text);
}

static _Noreturn void
die(const char *what)
{
	fprintf(stderr, "rank_stub: %s: %s\n", what, strerror(errno));
	exit(3);
}

static void
say(int link, const char *packet)
{
	if (send(link, packet, strlen(packet), MSG_NOSIGNAL) == -1)
		die("send");
}

/* Reads packets until one of this verb comes. */
static void
hear(int link, const char *verb)
{
	char packet[4097];

	for (;;) {
		ssize_t n = recv(link, packet, sizeof(packet) - 1, 0);

		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			die("the link ended");
		packet[n] = '\0';
		if (strncmp(packet, verb, strlen(verb)) == 0)
			return;
	}
}

static void
rank_with_link(struct times *times, struct rank_times *mine, bool last, int link)
{
	say(link, "HELLO=1\nPROTOCOL=1\nSETTINGS=00\n");
	mine->hello_ns = times_now();
	hear(link, "WELCOME=");
	if (last && times_await(&times->ready, times->world_size - 1, HOLD_NS) == -1)
		die("the other ranks are not ready");
	mine->ready_ns = times_now();
	say(link, "READY=1\n");
	times_count(&times->ready);
	hear(link, "GO=");
	mine->go_ns = times_now();
	times_count(&times->went);
	hear(link, "ABORT=");
	mine->abort_ns = times_now();
	times_count(&times->aborted);
}

static void
rank_without_link(struct times *times, struct rank_times *mine, const sigset_t *signals)
{
	int signal_number;

	times_count(&times->went);
	if (sigwait(signals, &signal_number) != 0)
		die("sigwait");
	mine->abort_ns = times_now();
	times_count(&times->aborted);
}

int
main(void)
{
	uint64_t main_ns = times_now();
	struct times *times = times_open();
	int rank = number_of("RANK"), link = number_of("TFRANK_LINK_FD");
	struct rank_times *mine;
	sigset_t signals;

	if (times == NULL || rank < 0 || rank >= TIMES_RANKS) {
		fprintf(stderr, "rank_stub: run me by group_rounds: no %s\n", TIMES_VARIABLE);
		return 2;
	}
	mine = &times->ranks[rank];
	mine->main_ns = main_ns;
	mine->pid = getpid();
	times_count(&times->began);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	if (link == -1) {
		sigprocmask(SIG_BLOCK, &signals, NULL);
		rank_without_link(times, mine, &signals);
	} else {
		rank_with_link(times, mine, (uint32_t)rank + 1 == times->world_size, link);
	}
	return 0;
}

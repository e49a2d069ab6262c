#include "supervisor/guard.h"

#include "common/deadline.h"
#include "common/log.h"
#include "supervisor/group.h"
#include "supervisor/proc.h"
#include "supervisor/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLEAN_UP_NS      (5 * NS_PER_SEC)
#define EXIT_OS_ERROR    71
#define EXIT_KILLED_BASE 128

static bool
is_ignored(int signal)
{
	struct sigaction action;

	return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static bool
has_terminal(void)
{
	int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* A signal that was ignored when we were started (nohup, a shell's background) stays ignored. */
static void
choose_signals(sigset_t *wanted)
{
	static const int passed[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
				     SIGUSR1, SIGUSR2, SIGTSTP, SIGWINCH};

	sigemptyset(wanted);
	sigaddset(wanted, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		if (!is_ignored(passed[i]))
			sigaddset(wanted, passed[i]);
}

/* Reaps everything that has ended; true with *status set when the supervisor is among them. */
static bool
reap(pid_t supervisor, int *status)
{
	bool over = false;
	int ended;
	pid_t pid;

	while ((pid = waitpid(-1, &ended, WNOHANG)) > 0) {
		if (pid != supervisor)
			continue;
		*status = ended;
		over = true;
	}
	return over;
}

/* Ctrl-Z: the group stops first, then we do; on fg the other way round. */
static void
stop_with_the_group(pid_t supervisor)
{
	siginfo_t info;

	kill(supervisor, SIGTSTP);
	waitid(P_PID, (id_t)supervisor, &info, WSTOPPED | WEXITED | WNOWAIT);
	if (info.si_code == CLD_STOPPED)
		kill(getpid(), SIGSTOP);
	kill(supervisor, SIGCONT);
}

/* A supervisor that somebody has stopped could not act on it otherwise. */
static void
ask_stop(pid_t supervisor, int signal)
{
	kill(supervisor, signal);
	kill(supervisor, SIGCONT);
}

static void
pass_on(pid_t supervisor, int signal, bool had_terminal)
{
	switch (signal) {
	case SIGTSTP:
		stop_with_the_group(supervisor);
		break;
	case SIGTERM:
	case SIGINT:
	case SIGQUIT:
		ask_stop(supervisor, signal);
		break;
	case SIGHUP:
		if (had_terminal && !has_terminal())
			ask_stop(supervisor, SIGTERM);
		else
			kill(supervisor, signal);
		break;
	default:
		kill(supervisor, signal);
	}
}

static int
watch(pid_t supervisor)
{
	bool had_terminal = has_terminal();
	sigset_t wanted;
	siginfo_t info;
	int status = 0;

	choose_signals(&wanted);
	while (!reap(supervisor, &status)) {
		if (sigwaitinfo(&wanted, &info) < 0)
			continue;
		if (info.si_signo != SIGCHLD)
			pass_on(supervisor, info.si_signo, had_terminal);
	}
	return status;
}

static int
end_of_watch(int status)
{
	struct ending ending = ending_from_status(status);
	char name[32];

	if (ending.how == ENDING_KILLED) {
		signal_name(ending.code, name, sizeof(name));
		log_warnx("the supervisor was killed by %s: ending the group", name);
	}
	if (!tree_kill_all(monotonic_ns() + CLEAN_UP_NS))
		log_warnx("processes are left that the kernel does not give up after SIGKILL");
	return ending.how == ENDING_KILLED ? EXIT_KILLED_BASE + ending.code : ending.code;
}

_Noreturn static void
become_supervisor(pid_t guard, const int fds[2], int (*supervise)(int guard_fd, void *arg),
		  void *arg)
{
	close(fds[1]);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != guard)
		exit(EXIT_KILLED_BASE + SIGTERM);
	exit(supervise(fds[0], arg));
}

int
guard_run(int (*supervise)(int guard_fd, void *arg), void *arg)
{
	pid_t guard = getpid(), supervisor;
	int fds[2];

	if (is_ignored(SIGCHLD))
		signal(SIGCHLD, SIG_DFL);
	if (tree_adopt() != 0 || pipe2(fds, O_CLOEXEC) != 0)
		fatal(EXIT_OS_ERROR, "guard");
	if ((supervisor = fork()) < 0)
		fatal(EXIT_OS_ERROR, "fork of the supervisor");
	if (supervisor == 0)
		become_supervisor(guard, fds, supervise, arg);
	close(fds[0]);
	setpgid(supervisor, supervisor);
	return end_of_watch(watch(supervisor));
}

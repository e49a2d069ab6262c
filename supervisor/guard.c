#include "supervisor/guard.h"

#include "common/deadline.h"
#include "common/log.h"
#include "common/reason.h"
#include "supervisor/group.h"
#include "supervisor/proc.h"
#include "supervisor/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
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
stop_with_the_group(pid_t supervisor, bool init)
{
	siginfo_t info = {.si_code = CLD_STOPPED};

	kill(supervisor, SIGTSTP);
	/* An init cannot stop itself: it holds its bounds instead. */
	if (!init)
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
pass_on(pid_t supervisor, bool init, int signal, bool had_terminal)
{
	switch (signal) {
	case SIGTSTP:
		stop_with_the_group(supervisor, init);
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
watch(pid_t supervisor, bool init)
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
			pass_on(supervisor, init, info.si_signo, had_terminal);
	}
	return status;
}

static int
end_of_watch(const struct guarded *program, int status)
{
	struct ending ending = ending_from_status(status);
	char name[32];

	if (!tree_kill_all(monotonic_ns() + CLEAN_UP_NS))
		log_warnx("processes are left that the kernel does not give up after SIGKILL");
	else if (ending.how == ENDING_KILLED)
		program->clean_up(program->arg);
	if (ending.how == ENDING_KILLED) {
		signal_name(ending.code, name, sizeof(name));
		log_warnx("the supervisor was killed by %s: the group was ended", name);
	}
	return ending.how == ENDING_KILLED ? EXIT_KILLED_BASE + ending.code : ending.code;
}

/* As init we would end with the first child if /proc still were that of the outer namespace. */
static bool
mount_proc(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
}

static bool
write_map(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return written;
}

/* Without privilege a user namespace gives us the right, in which we stay who we are. */
static bool
unshare_with_user(void)
{
	char uid_map[64], gid_map[64];

	snprintf(uid_map, sizeof(uid_map), "%u %u 1\n", geteuid(), geteuid());
	snprintf(gid_map, sizeof(gid_map), "%u %u 1\n", getegid(), getegid());
	return unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0 &&
	       write_map("/proc/self/setgroups", "deny") &&
	       write_map("/proc/self/uid_map", uid_map) && write_map("/proc/self/gid_map", gid_map);
}

static bool
enter_namespace(void)
{
	if (unshare(CLONE_NEWPID) == 0)
		return true;
	return errno == EPERM && unshare_with_user();
}

static int
refuse_namespace(void)
{
	log_warn("PreflightFailed: pid_namespace = yes: a namespace cannot be had here");
	return reason_exit_status(REASON_PREFLIGHT_FAILED);
}

bool
guard_is_gone(const struct guard *guard)
{
	struct pollfd polled = {.fd = guard->fd, .events = POLLIN};

	return poll(&polled, 1, 0) > 0;
}

_Noreturn static void
become_supervisor(const struct guard *guard, int far_end, const struct guarded *program)
{
	close(far_end);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (guard_is_gone(guard))
		exit(EXIT_KILLED_BASE + SIGTERM);
	if (guard->init && !mount_proc())
		exit(refuse_namespace());
	exit(program->supervise(guard, program->arg));
}

int
guard_run(const struct guarded *program, bool pid_namespace)
{
	struct guard guard = {.pid = getpid(), .init = pid_namespace};
	pid_t supervisor;
	int fds[2];

	if (is_ignored(SIGCHLD))
		signal(SIGCHLD, SIG_DFL);
	if (tree_adopt() != 0 || pipe2(fds, O_CLOEXEC) != 0)
		fatal(EXIT_OS_ERROR, "guard");
	if (pid_namespace && !enter_namespace())
		return refuse_namespace();
	guard.fd = fds[0];
	if ((supervisor = fork()) < 0)
		fatal(EXIT_OS_ERROR, "fork of the supervisor");
	if (supervisor == 0)
		become_supervisor(&guard, fds[1], program);
	close(fds[0]);
	setpgid(supervisor, supervisor);
	return end_of_watch(program, watch(supervisor, guard.init));
}

/* Signals and the guard's end, as events. */
#include "supervisor/supervisor.h"

#include "common/log.h"
#include "supervisor/proc.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static void
ask_stop(struct supervisor *s, int signal)
{
	struct group_event event = {.kind = EVENT_STOP, .rank = NO_RANK, .signal = signal};

	/* The guard's death sends us SIGTERM as well: nobody asked for a stop then. */
	if (guard_is_gone(s->guarded_by))
		event.kind = EVENT_ABANDONED;
	supervisor_step(s, event);
}

bool
supervisor_guard_is_asked(struct supervisor *s)
{
	static const int stops[] = {SIGTERM, SIGINT};

	/* Of an init's namespace the guard is no part: its number means nothing there. */
	for (size_t i = 0; i < 2 && !s->guarded_by->init; i++) {
		if (!proc_has_pending(s->guarded_by->pid, stops[i]))
			continue;
		ask_stop(s, stops[i]);
		return true;
	}
	return false;
}

bool
supervisor_signal_rank(pid_t pid, int signal)
{
	bool sent = kill(-pid, signal) == 0;

	return (getpgid(pid) != pid && kill(pid, signal) == 0) || sent;
}

/* To every rank's own group, once. */
static void
pass_on(struct supervisor *s, int signal)
{
	for (int i = 0; i < s->group.settings.world_size; i++)
		if (rank_is_alive(&s->group.ranks[i]) && !s->group.ranks[i].died) {
			s->ranks[i].passed_signals |= UINT64_C(1) << signal;
			supervisor_signal_rank(s->pids[i], signal);
		}
}

/* Ctrl-Z: the ranks stop, then we do. The time that passes until fg counts for no bound. */
static void
stop_with_the_ranks(struct supervisor *s)
{
	terminal_hide(s->terminal);
	pass_on(s, SIGTSTP);
	if (s->stopped_ns == 0)
		s->stopped_ns = monotonic_ns();
	if (!s->guarded_by->init)
		kill(getpid(), SIGSTOP);
}

static void
go_on_with_the_ranks(struct supervisor *s)
{
	if (s->stopped_ns == 0)
		return;
	group_shift(&s->group, monotonic_ns() - s->stopped_ns);
	s->stopped_ns = 0;
	pass_on(s, SIGCONT);
	s->changed = true;
}

/* Whom somebody else stops says nothing, and holds all its peers up. */
static void
tell_stop(struct supervisor *s, int rank, const siginfo_t *info)
{
	bool stopped = info->si_code == CLD_STOPPED;
	char name[32];

	/* Those that Ctrl-Z stopped go on with us. */
	if (!group_is_running(&s->group) || stopped == s->group.ranks[rank].suspended ||
	    (stopped && s->stopped_ns != 0))
		return;
	supervisor_rank_event(s, rank, stopped ? EVENT_SUSPENDED : EVENT_RESUMED);
	signal_name(info->si_status, name, sizeof(name));
	if (stopped)
		log_warnx("rank %d (pid %d) was stopped by %s, and its peers wait for it: kill "
			  "-CONT %d lets it go on",
			  rank, (int)info->si_pid, name, (int)info->si_pid);
	else
		log_info("rank %d (pid %d) goes on", rank, (int)info->si_pid);
}

static void
look_for_stops(struct supervisor *s)
{
	siginfo_t info = {0};

	while (waitid(P_ALL, 0, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 && info.si_pid != 0) {
		for (int i = 0; i < s->group.settings.world_size; i++)
			if (s->pids[i] == info.si_pid)
				tell_stop(s, i, &info);
		info.si_pid = 0;
	}
}

static void
on_one_signal(struct supervisor *s, int signal)
{
	switch (signal) {
	case SIGCHLD:
		s->child_died = true;
		look_for_stops(s);
		break;
	case SIGTERM:
	case SIGINT:
		ask_stop(s, signal);
		break;
	case SIGQUIT:
		ask_stop(s, SIGINT);
		break;
	case SIGTSTP:
		stop_with_the_ranks(s);
		break;
	case SIGCONT:
		go_on_with_the_ranks(s);
		break;
	case SIGHUP:
	case SIGUSR1:
	case SIGUSR2:
		pass_on(s, signal);
		break;
	default:
		break;
	}
}

void
supervisor_read_signals(struct supervisor *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		on_one_signal(s, (int)info.ssi_signo);
}

static void
on_signals(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	supervisor_read_signals(arg);
}

static void
on_guard(evutil_socket_t fd, short what, void *arg)
{
	struct supervisor *s = arg;
	struct group_event event = {.kind = EVENT_ABANDONED, .rank = NO_RANK};

	(void)fd;
	(void)what;
	event_free(s->guard);
	s->guard = NULL;
	log_warnx("the guard has died: ending the group");
	supervisor_step(s, event);
}

int
supervisor_open_signals(struct supervisor *s)
{
	static const int ours[] = {SIGCHLD, SIGTERM, SIGINT,  SIGQUIT, SIGTSTP,
				   SIGHUP,  SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		sigaddset(&set, ours[i]);
	if ((s->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)) < 0)
		return -1;
	s->signals = event_new(s->base, s->signal_fd, EV_READ | EV_PERSIST, on_signals, s);
	s->guard = event_new(s->base, s->guarded_by->fd, EV_READ, on_guard, s);
	if (s->signals == NULL || s->guard == NULL || event_priority_set(s->signals, 0) != 0 ||
	    event_priority_set(s->guard, 0) != 0 || event_add(s->signals, NULL) != 0)
		return -1;
	return event_add(s->guard, NULL);
}

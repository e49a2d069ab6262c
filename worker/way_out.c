#include "worker/way_out.h"

#include "common/deadline.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static timer_t timer;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t armed_ns; /* 0: not armed */
static volatile sig_atomic_t exit_status;
static const char *volatile step_name = "the work loop";

static void
say(const char *text)
{
	/* Nothing can be done about a failure here. */
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		return;
}

static void
deadline_passed(int signal)
{
	(void)signal;
	say("tfworker: hung in: ");
	say(step_name);
	say("; leaving all the same\n");
	_exit(exit_status);
}

int
way_out_init(void)
{
	struct sigaction action = {.sa_handler = deadline_passed};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	if (sigaction(SIGALRM, &action, NULL) != 0 ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
		return errno;
	return pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void
way_out_arm(uint64_t bound_ns, int status)
{
	uint64_t deadline_ns = deadline_after(monotonic_ns(), bound_ns);
	struct itimerspec when = {
	    .it_value = {(time_t)(deadline_ns / NS_PER_SEC), (long)(deadline_ns % NS_PER_SEC)}};

	pthread_mutex_lock(&lock);
	if (armed_ns == 0 || deadline_ns < armed_ns) {
		armed_ns = deadline_ns;
		exit_status = status;
		timer_settime(timer, TIMER_ABSTIME, &when, NULL);
	}
	pthread_mutex_unlock(&lock);
}

void
way_out_run(const struct way_out_step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		step_name = steps[i].name;
		steps[i].run(steps[i].arg);
	}
	step_name = "the exit";
}

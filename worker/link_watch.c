#include "worker/link_watch.h"

#include "common/deadline.h"
#include "worker/way_out.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct link_watch {
	struct tfrank *link;
	int poke_fd, signal_fd;
	pthread_t thread;
	pthread_mutex_t lock; /* over all that follows */
	pthread_cond_t changed;
	bool quit;
	unsigned seen;
	uint64_t moments[WATCH_COUNT];
	int signal;
	char error[256];
	void (*on_end)(void *arg);
	void *on_end_arg;
};

static const struct {
	int event;
	enum watch watch;
} events[] = {
    {TFRANK_EVENT_GROUP_ID, WATCH_GROUP_ID}, {TFRANK_EVENT_GO, WATCH_GO},
    {TFRANK_EVENT_STOP, WATCH_STOP},         {TFRANK_EVENT_ABORT, WATCH_ABORT},
    {TFRANK_EVENT_CLOSED, WATCH_CLOSED},
};

/* Locked. */
static void
note(struct link_watch *watch, enum watch which, uint64_t now_ns)
{
	if ((watch->seen & WATCH_BIT(which)) == 0)
		watch->moments[which] = now_ns;
	watch->seen |= WATCH_BIT(which);
}

static uint64_t
way_out_bound_ns(const struct link_watch *watch)
{
	uint64_t grace_ns = tfrank_stop_grace_usec(watch->link) * NS_PER_USEC;

	if (watch->seen & (WATCH_BIT(WATCH_ABORT) | WATCH_BIT(WATCH_CLOSED)) || grace_ns == 0)
		return WAY_OUT_BOUND_NS;
	return grace_ns;
}

/* Locked. */
static void
note_all(struct link_watch *watch, int fresh, int signal, uint64_t now_ns)
{
	unsigned before = watch->seen & WATCH_ENDS;

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (fresh >= 0 && (fresh & events[i].event) != 0)
			note(watch, events[i].watch, now_ns);
	if (fresh < 0) {
		snprintf(watch->error, sizeof(watch->error), "%s", tfrank_error());
		note(watch, WATCH_BROKEN, now_ns);
	}
	if (signal != 0) {
		watch->signal = signal;
		note(watch, WATCH_SIGNAL, now_ns);
	}
	if ((watch->seen & WATCH_ENDS) == before)
		return;
	way_out_arm(way_out_bound_ns(watch), 1);
	if (before == 0 && watch->on_end != NULL)
		watch->on_end(watch->on_end_arg);
}

/* The last signal that came, 0 if none did. */
static int
read_signals(int fd)
{
	struct signalfd_siginfo info;
	int signal = 0;

	while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		signal = (int)info.ssi_signo;
	return signal;
}

static void
drain_pokes(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

static void *
watch_link(void *arg)
{
	struct link_watch *watch = arg;
	struct pollfd fds[] = {{tfrank_fd(watch->link), POLLIN, 0},
			       {watch->signal_fd, POLLIN, 0},
			       {watch->poke_fd, POLLIN, 0}};
	const unsigned unreadable = WATCH_BIT(WATCH_CLOSED) | WATCH_BIT(WATCH_BROKEN);
	bool quit = false;

	while (!quit) {
		int signal, fresh;

		poll(fds, 3, -1);
		/* In this order: the STOP that explains a SIGTERM was sent before it. */
		signal = read_signals(watch->signal_fd);
		drain_pokes(watch->poke_fd);
		fresh = fds[0].fd < 0 && tfrank_supervised(watch->link)
			    ? 0
			    : tfrank_dispatch(watch->link);
		pthread_mutex_lock(&watch->lock);
		note_all(watch, fresh, signal, monotonic_ns());
		if ((watch->seen & unreadable) != 0)
			fds[0].fd = -1;
		quit = watch->quit;
		pthread_cond_broadcast(&watch->changed);
		pthread_mutex_unlock(&watch->lock);
	}
	return NULL;
}

static int
open_descriptors(struct link_watch *watch)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	watch->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return watch->poke_fd >= 0 && watch->signal_fd >= 0 ? 0 : errno;
}

static void
free_watch(struct link_watch *watch)
{
	if (watch->poke_fd >= 0)
		close(watch->poke_fd);
	if (watch->signal_fd >= 0)
		close(watch->signal_fd);
	pthread_cond_destroy(&watch->changed);
	pthread_mutex_destroy(&watch->lock);
	free(watch);
}

struct link_watch *
link_watch_start(struct tfrank *link)
{
	struct link_watch *watch = calloc(1, sizeof(*watch));
	pthread_condattr_t attr;
	int error;

	if (watch == NULL)
		return NULL;
	watch->link = link;
	pthread_mutex_init(&watch->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&watch->changed, &attr);
	pthread_condattr_destroy(&attr);
	if ((error = open_descriptors(watch)) != 0 ||
	    (error = pthread_create(&watch->thread, NULL, watch_link, watch)) != 0) {
		free_watch(watch);
		errno = error;
		return NULL;
	}
	return watch;
}

void
link_watch_poke(struct link_watch *watch)
{
	uint64_t one = 1;

	/* Only a full counter can refuse it, and that one is readable already. */
	if (write(watch->poke_fd, &one, sizeof(one)) < 0)
		return;
}

void
link_watch_end(struct link_watch *watch)
{
	if (watch == NULL)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->quit = true;
	pthread_mutex_unlock(&watch->lock);
	link_watch_poke(watch);
	pthread_join(watch->thread, NULL);
	free_watch(watch);
}

unsigned
link_watch_seen(struct link_watch *watch)
{
	unsigned seen;

	pthread_mutex_lock(&watch->lock);
	seen = watch->seen;
	pthread_mutex_unlock(&watch->lock);
	return seen;
}

unsigned
link_watch_wait(struct link_watch *watch, unsigned wanted, uint64_t deadline_ns)
{
	struct timespec until = {(time_t)(deadline_ns / NS_PER_SEC),
				 (long)(deadline_ns % NS_PER_SEC)};
	unsigned seen;
	int error = 0;

	pthread_mutex_lock(&watch->lock);
	while ((watch->seen & (wanted | WATCH_ENDS)) == 0 && error == 0) {
		if (deadline_ns == 0)
			error = pthread_cond_wait(&watch->changed, &watch->lock);
		else
			error = pthread_cond_timedwait(&watch->changed, &watch->lock, &until);
	}
	seen = watch->seen;
	pthread_mutex_unlock(&watch->lock);
	return seen;
}

uint64_t
link_watch_moment(struct link_watch *watch, enum watch which)
{
	uint64_t ns;

	pthread_mutex_lock(&watch->lock);
	ns = watch->moments[which];
	pthread_mutex_unlock(&watch->lock);
	return ns;
}

uint64_t
link_watch_end_moment(struct link_watch *watch)
{
	uint64_t first = 0;

	for (int which = 0; which < WATCH_COUNT; which++) {
		uint64_t ns = link_watch_moment(watch, (enum watch)which);

		if ((WATCH_ENDS & WATCH_BIT(which)) != 0 && ns != 0 && (first == 0 || ns < first))
			first = ns;
	}
	return first;
}

int
link_watch_signal(struct link_watch *watch)
{
	int signal;

	pthread_mutex_lock(&watch->lock);
	signal = watch->signal;
	pthread_mutex_unlock(&watch->lock);
	return signal;
}

const char *
link_watch_error(struct link_watch *watch)
{
	return watch->error;
}

void
link_watch_on_end(struct link_watch *watch, void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&watch->lock);
	watch->on_end = fn;
	watch->on_end_arg = arg;
	if (fn != NULL && (watch->seen & WATCH_ENDS) != 0)
		fn(arg);
	pthread_mutex_unlock(&watch->lock);
}

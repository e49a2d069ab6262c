/* What ranks say, and how their ends become known. */
#include "supervisor/supervisor.h"

#include "common/log.h"
#include "supervisor/proc.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PACKETS_A_TURN 64  /* of one link: a flood must not keep the others waiting */
#define PACKETS_HELD   512 /* more than a link holds: what was said before a death is read */
#define LATE_WORDS_MAX 8   /* of one rank are logged */
#define PRIORITY_LINK  0
#define PRIORITY_FLOOD 2
#define LOGGED_BYTES   256

static const enum event_kind event_of_verb[VERB_COUNT] = {
    [VERB_HELLO] = EVENT_HELLO,       [VERB_STATUS] = EVENT_STATUS,
    [VERB_PROGRESS] = EVENT_PROGRESS, [VERB_GROUP_ID] = EVENT_GROUP_ID,
    [VERB_READY] = EVENT_READY,       [VERB_COLLECTIVE] = EVENT_COLLECTIVE,
    [VERB_SERVING] = EVENT_SERVING,   [VERB_WATCHDOG] = EVENT_WATCHDOG,
    [VERB_EXTEND] = EVENT_EXTEND,     [VERB_FAILED] = EVENT_FAILED,
    [VERB_STOPPING] = EVENT_STOPPING,
};

static void
log_late_words(struct supervisor *s, int rank, const char *packet, size_t len)
{
	struct rank_io *io = &s->ranks[rank];
	char text[LOGGED_BYTES];

	if (group_is_running(&s->group) || io->late_words++ >= LATE_WORDS_MAX)
		return;
	message_to_string(packet, len, text, sizeof(text));
	log_info("rank %d said after the end had begun: %s", rank, text);
}

/* A descriptor belongs to a GROUP_ID, one to a packet. */
static int
check_descriptors(const struct message *m, int fds, struct message_error *error)
{
	if (fds == 0 || (fds == 1 && m->verb == VERB_GROUP_ID))
		return 0;
	snprintf(error->key, sizeof(error->key), "%s", verb_word(m->verb));
	snprintf(error->rule, sizeof(error->rule), "only GROUP_ID carries a descriptor, and one");
	return -1;
}

/* Takes fd. */
static void
take_packet(struct supervisor *s, int rank, const char *packet, size_t len, int fd, int fds)
{
	struct message_error error;
	struct message message;
	struct group_event event = {.rank = rank, .message = &message, .error = &error};

	log_late_words(s, rank, packet, len);
	if (message_parse(packet, len, FROM_WORKER, &message, &error) != 0 ||
	    check_descriptors(&message, fds, &error) != 0) {
		event.kind = EVENT_MALFORMED;
	} else {
		event.kind = event_of_verb[message.verb];
		event.fd = fd;
	}
	supervisor_step(s, event);
	if (fd >= 0 && fd != s->group_id_fd)
		close(fd);
}

static void
close_link(struct rank_io *io)
{
	if (io->link != NULL)
		event_free(io->link);
	if (io->link_fd >= 0)
		close(io->link_fd);
	io->link = NULL;
	io->link_fd = -1;
}

/*
 * Who leaves a job in peace can be nobody's victim, and accuses nobody: the rest need not be heard
 * before it is judged.
 */
static void
hear_before_judging(struct supervisor *s, const struct group_event *event)
{
	bool in_peace = event->kind != EVENT_CLOSED && s->group.settings.job && s->group.go &&
			event->ending.how == ENDING_EXITED && event->ending.code == 0;

	if (in_peace || !group_is_running(&s->group))
		return;
	supervisor_read_signals(s);
	supervisor_hear_all(s);
}

/* EOF is the first sign of a death, or a closed link of a process that lives on: /proc tells. */
static void
judge_eof(struct supervisor *s, int rank)
{
	struct rank_io *io = &s->ranks[rank];
	struct group_event event = {.kind = EVENT_DIED, .rank = rank};

	close_link(io);
	switch (proc_news(s->pids[rank], &event.ending)) {
	case PROC_LIVES:
		event.kind = EVENT_CLOSED;
		break;
	case PROC_ENDS:
		if (io->has_user && event.ending.how == ENDING_EXITED && event.ending.code == 0)
			return;
		break;
	case PROC_UNREADABLE:
		break;
	case PROC_UNSURE:
		return;
	}
	event.note = supervisor_note(s, rank, event.ending);
	hear_before_judging(s, &event);
	supervisor_step(s, event);
}

/* True if there may be more to read. */
static bool
read_packet(struct supervisor *s, int rank, bool *eof)
{
	char packet[MESSAGE_MAX_BYTES + 1];
	size_t len = 0;
	int fd, fds;

	switch (link_receive(s->ranks[rank].link_fd, packet, &len, &fd, &fds)) {
	case LINK_PACKET:
	case LINK_EMPTY:
		take_packet(s, rank, packet, len, fd, fds);
		return s->ranks[rank].link_fd >= 0;
	case LINK_EOF:
		*eof = true;
		return false;
	case LINK_AGAIN:
		return false;
	}
	return false;
}

/* Reads up to `most` packets. False if there may be more. */
static bool
read_packets(struct supervisor *s, int rank, int most, bool *eof)
{
	if (s->ranks[rank].link_fd < 0)
		return true;
	for (int i = 0; i < most; i++)
		if (!read_packet(s, rank, eof))
			return true;
	return false;
}

/* The same, and an end is judged. */
static bool
read_link(struct supervisor *s, int rank, int most)
{
	bool eof = false, drained = read_packets(s, rank, most, &eof);

	if (eof)
		judge_eof(s, rank);
	return drained;
}

void
supervisor_read_link(struct supervisor *s, int rank)
{
	struct rank_io *io = &s->ranks[rank];
	bool flood = !read_link(s, rank, PACKETS_A_TURN) || io->turn == s->turn;

	io->turn = s->turn;
	if (io->link != NULL)
		event_priority_set(io->link, flood ? PRIORITY_FLOOD : PRIORITY_LINK);
}

/* Which links and notify sockets have something to read. False if none has. */
static bool
poll_all(struct supervisor *s)
{
	int n = s->group.settings.world_size;

	for (int i = 0; i < n; i++) {
		s->polled[2 * i] = (struct pollfd){.fd = s->ranks[i].link_fd, .events = POLLIN};
		s->polled[2 * i + 1] =
		    (struct pollfd){.fd = notify_fd(s->ranks[i].notify), .events = POLLIN};
	}
	return poll(s->polled, 2 * (nfds_t)n, 0) > 0;
}

/* An end that is met on the way is judged by its own event. */
void
supervisor_hear_all(struct supervisor *s)
{
	bool eof;

	if (s->heard_all)
		return;
	s->heard_all = true;
	if (!poll_all(s))
		return;
	for (int i = 0; i < s->group.settings.world_size && group_is_running(&s->group); i++) {
		if (s->polled[2 * i].revents != 0)
			read_packets(s, i, PACKETS_HELD, &eof);
		if (s->polled[2 * i + 1].revents != 0)
			notify_drain(s->ranks[i].notify);
	}
}

void
supervisor_read_all(struct supervisor *s)
{
	if (!poll_all(s))
		return;
	for (int i = 0; i < s->group.settings.world_size && group_is_running(&s->group); i++)
		if (s->polled[2 * i].revents != 0)
			read_link(s, i, PACKETS_HELD);
}

static void
on_link(evutil_socket_t fd, short what, void *arg)
{
	struct rank_io *io = arg;

	(void)fd;
	(void)what;
	supervisor_read_link(io->owner, io->rank);
}

/* The status is looked at, not taken: the zombie pins the number of its process group. */
static void
on_exit_of_rank(evutil_socket_t fd, short what, void *arg)
{
	struct rank_io *io = arg;
	struct supervisor *s = io->owner;
	struct group_event event = {.kind = EVENT_REAPED, .rank = io->rank};
	siginfo_t info = {0};
	bool eof;

	(void)what;
	if (waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
		return;
	event.ending = ending_from_siginfo(info.si_code, info.si_status);
	if (!s->group.ranks[io->rank].died)
		event.note = supervisor_note(s, io->rank, event.ending);
	hear_before_judging(s, &event);
	read_packets(s, io->rank, PACKETS_HELD, &eof);
	event_free(io->exit);
	io->exit = NULL;
	close_link(io);
	supervisor_step(s, event);
}

void
supervisor_watch_rank(struct supervisor *s, int rank)
{
	struct rank_io *io = &s->ranks[rank];

	io->owner = s;
	io->rank = rank;
	io->link = event_new(s->base, io->link_fd, EV_READ | EV_PERSIST, on_link, io);
	io->exit = event_new(s->base, io->pidfd, EV_READ | EV_PERSIST, on_exit_of_rank, io);
	if (io->link == NULL || io->exit == NULL || event_priority_set(io->link, PRIORITY_LINK) ||
	    event_priority_set(io->exit, PRIORITY_LINK) || event_add(io->link, NULL) != 0 ||
	    event_add(io->exit, NULL) != 0)
		fatalx(EXIT_LOOP, "rank %d cannot be watched: out of memory", rank);
}

void
supervisor_notify_word(int rank, const struct message *message, void *arg)
{
	struct group_event event = {.rank = rank, .message = message, .notify = true};

	event.kind =
	    message->verb == VERB_READY ? EVENT_NOTIFY_READY : event_of_verb[message->verb];
	supervisor_step(arg, event);
}

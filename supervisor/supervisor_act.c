/* Carries out the actions of the state machine. */
#include "supervisor/supervisor.h"

#include "common/log.h"
#include "supervisor/tree.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEWS_DELAY_USEC 2000

static void
send_packet(struct supervisor *s, int rank, const char *packet, size_t len, int fd)
{
	if (s->ranks[rank].link_fd < 0)
		return;
	/* Gone already: its end is on the way to us. */
	if (link_send(s->ranks[rank].link_fd, packet, len, fd) != 0 && errno != EPIPE &&
	    errno != ECONNRESET)
		log_warn("rank %d does not take its packet", rank);
}

static void
send_message(struct supervisor *s, int rank, const struct message *message, int fd)
{
	char packet[MESSAGE_MAX_BYTES];

	send_packet(s, rank, packet, message_format(message, packet), fd);
}

static void
send_welcome(struct supervisor *s, int rank)
{
	const uint64_t *timeout_ns = s->group.settings.timeout_ns;
	struct message m = {.verb = VERB_WELCOME,
			    .rank = rank,
			    .world_size = s->group.settings.world_size,
			    .epoch = s->group.epoch,
			    .ready_timeout_usec = timeout_ns[BOUND_READY] / NS_PER_USEC,
			    .collective_timeout_usec = timeout_ns[BOUND_COLLECTIVE] / NS_PER_USEC};

	send_message(s, rank, &m, -1);
}

static void
send_group_id(struct supervisor *s, int rank)
{
	struct message m = {.verb = VERB_GROUP_ID, .group_id_len = s->group_id_len};

	memcpy(m.group_id, s->group_id, s->group_id_len);
	send_message(s, rank, &m, s->group_id_fd);
}

static void
forget_group_id(struct supervisor *s)
{
	if (s->group_id_fd >= 0)
		close(s->group_id_fd);
	s->group_id_fd = -1;
}

static void
keep_group_id(struct supervisor *s, const struct group_event *event)
{
	forget_group_id(s);
	memcpy(s->group_id, event->message->group_id, event->message->group_id_len);
	s->group_id_len = event->message->group_id_len;
	s->group_id_fd = event->fd;
}

/* One packet for all: each is sent as soon as it can be. */
static void
send_abort(struct supervisor *s, int rank)
{
	if (s->abort_len == 0) {
		struct message m = {
		    .verb = VERB_ABORT, .reason = s->group.loss.reason, .rank = s->group.loss.rank};

		snprintf(m.text, sizeof(m.text), "%s", s->group.loss.detail);
		s->abort_len = message_format(&m, s->abort);
	}
	send_packet(s, rank, s->abort, s->abort_len, -1);
}

static void
send_stop(struct supervisor *s, int rank)
{
	struct message m = {.verb = VERB_STOP,
			    .grace_usec = s->group.settings.timeout_ns[BOUND_STOP] / NS_PER_USEC};

	send_message(s, rank, &m, -1);
}

/* The leader is alive, or a zombie of ours: its group's number is nobody else's. */
static void
kill_group(struct supervisor *s, int rank, int signal)
{
	pid_t pid = s->pids[rank];

	if (pid <= 0)
		return;
	if (signal == STOP_SIGNAL)
		signal = config_worker(s->config, rank)->stop_signal;
	if (!supervisor_signal_rank(pid, signal) && errno != ESRCH)
		log_warn("rank %d (pid %d) cannot be sent signal %d", rank, (int)pid, signal);
	/* A stopped process cannot act on it otherwise. */
	if (signal != SIGKILL)
		supervisor_signal_rank(pid, SIGCONT);
}

static void
begin_sweep(struct supervisor *s, int signal)
{
	s->sweep = signal;
	for (int i = 0; i < s->group.settings.world_size; i++)
		if (s->group.ranks[i].reaped)
			kill_group(s, i, signal);
	tree_signal(signal, s->pids, (size_t)s->group.settings.world_size);
	s->child_died = true;
}

void
supervisor_sweep(struct supervisor *s)
{
	size_t n = (size_t)s->group.settings.world_size;
	struct group_event event = {.kind = EVENT_TREE_EMPTY, .rank = NO_RANK};

	if (s->sweep == 0 && s->group.state == GROUP_STOPPING)
		return;
	if (s->child_died || s->sweep == SIGKILL)
		tree_reap(s->pids, n);
	s->child_died = false;
	if (s->sweep == 0)
		return;
	if (s->sweep == SIGKILL)
		tree_signal(SIGKILL, s->pids, n);
	for (size_t i = 0; i < n; i++)
		if (rank_is_alive(&s->group.ranks[i]))
			return;
	if (!tree_holds_only(s->pids, n))
		return;
	/* The leaders are waited for now, and their numbers may become anybody's. */
	memset(s->pids, 0, n * sizeof(*s->pids));
	if (!tree_is_empty())
		return;
	s->sweep = 0;
	supervisor_step(s, event);
}

/*
 * What the news costs, in lines and documents, is spent when the ranks have had the time to wake up
 * and read their ABORT.
 */
void
supervisor_tell_news(struct supervisor *s)
{
	const struct loss *loss = &s->group.loss;

	if (!s->news_untold)
		return;
	s->news_untold = false;
	if (loss->rank != NO_RANK && s->ranks[loss->rank].output != NULL)
		output_drain(s->ranks[loss->rank].output);
	report_news(&s->source, &s->rundir, monotonic_ns());
}

/* Before the ranks are told: what they do then is no evidence. */
static void
gather_evidence(struct supervisor *s)
{
	size_t n = (size_t)s->group.settings.world_size;

	if (s->evidence == NULL && (s->evidence = calloc(n, sizeof(*s->evidence))) == NULL)
		return;
	for (size_t i = 0; i < n; i++)
		if (rank_is_alive(&s->group.ranks[i]))
			evidence_gather(s->pids[i], &s->evidence[i]);
}

const struct evidence *
supervisor_evidence(int rank, void *arg)
{
	struct supervisor *s = arg;

	return s->evidence == NULL ? NULL : &s->evidence[rank];
}

static void
warn_late(struct supervisor *s, const struct action *action)
{
	char ranks[128], timeout[DURATION_TEXT_BYTES], progress[128] = "";

	group_late_ranks(&s->group, action->bound, ranks, sizeof(ranks));
	format_duration(s->group.settings.timeout_ns[action->bound], timeout, sizeof(timeout));
	for (int i = 0; i < s->group.settings.world_size && progress[0] == '\0'; i++)
		if (rank_is_late(&s->group, i, action->bound))
			progress_to_string(&s->group.ranks[i].progress, progress, sizeof(progress));
	log_warnx("%d %% of %s = %s has passed; late: rank %s (%s)", action->number,
		  bound_key(action->bound), timeout, ranks,
		  progress[0] != '\0' ? progress : "no progress told");
}

/* While the ranks' last lines are there. */
static void
note_end(struct supervisor *s)
{
	char line[REPORT_LINE_BYTES];
	uint64_t now_ns = monotonic_ns();

	report_last_line(&s->source, now_ns, line, sizeof(line));
	journal_epoch_over(s->journal, status_reason(&s->source, now_ns), line, s->group.state_ns);
}

static void
end_epoch(struct supervisor *s)
{
	supervisor_tell_news(s);
	for (int i = 0; i < s->group.settings.world_size; i++)
		if (s->ranks[i].output != NULL)
			output_drain(s->ranks[i].output);
	report_end(&s->source, &s->rundir, monotonic_ns());
	note_end(s);
	for (int i = 0; i < s->group.settings.world_size; i++)
		supervisor_close_rank(s, i);
	forget_group_id(s);
	free(s->evidence);
	s->evidence = NULL;
	s->abort_len = 0;
}

static void
act_one(struct supervisor *s, const struct action *action, const struct group_event *event)
{
	switch (action->kind) {
	case ACTION_FORK:
		s->ranks[action->rank].fork_wanted = true;
		s->ranks[action->rank].shown = RANK_STARTING;
		s->fork_next = 0;
		break;
	case ACTION_SEND_WELCOME:
		send_welcome(s, action->rank);
		break;
	case ACTION_SEND_GROUP_ID:
		send_group_id(s, action->rank);
		break;
	case ACTION_KEEP_GROUP_ID:
		keep_group_id(s, event);
		break;
	case ACTION_SEND_GO:
		send_packet(s, action->rank, s->go, s->go_len, -1);
		break;
	case ACTION_SEND_ABORT:
		send_abort(s, action->rank);
		break;
	case ACTION_SEND_STOP:
		send_stop(s, action->rank);
		break;
	case ACTION_KILL:
		kill_group(s, action->rank, action->number);
		break;
	case ACTION_SWEEP:
		begin_sweep(s, action->number);
		break;
	case ACTION_EVIDENCE:
		gather_evidence(s);
		break;
	case ACTION_NEWS:
		s->news_untold = true;
		event_add(s->news, &(struct timeval){.tv_usec = NEWS_DELAY_USEC});
		break;
	case ACTION_WARN:
		if (action->rank == NO_RANK)
			log_warnx("%s", action->text);
		else
			log_warnx("rank %d %s", action->rank, action->text);
		break;
	case ACTION_WARN_LATE:
		warn_late(s, action);
		break;
	case ACTION_EPOCH_OVER:
		end_epoch(s);
		break;
	case ACTION_EXIT:
		s->over = true;
		break;
	case ACTION_COUNT:
		break;
	}
}

void
supervisor_act(struct supervisor *s, const struct group_event *event)
{
	for (size_t i = 0; i < s->actions.n; i++)
		act_one(s, &s->actions.v[i], event);
	/* After go every rank has it. */
	if (s->group.go)
		forget_group_id(s);
}

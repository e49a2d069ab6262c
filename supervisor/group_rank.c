/* The table of the ranks: what each event means in each state of a rank. */
#include "supervisor/group_internal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef void (*rank_cell)(struct step *step, struct rank *rank);

static void
on_ignore(struct step *step, struct rank *rank)
{
	(void)step;
	(void)rank;
}

/* A well-formed packet out of its place. sd_notify's own looseness is no offence. */
static void
misplaced(struct step *step, struct rank *rank, const char *word, const char *rule)
{
	if (step->event->notify)
		return;
	lose(step, rank, REASON_RANK_PROTOCOL, "%s: %s", word, rule);
}

static void
on_misplaced(struct step *step, struct rank *rank)
{
	static const struct {
		const char *word, *rule;
	} rules[EVENT_RANK_LAST + 1] = {
	    [EVENT_HELLO] = {"HELLO", "comes first and once"},
	    [EVENT_PROGRESS] = {"PROGRESS", "is allowed after HELLO"},
	    [EVENT_GROUP_ID] = {"GROUP_ID", "is allowed from rank 0, once an epoch, before go"},
	    [EVENT_READY] = {"READY", "is allowed after HELLO"},
	    [EVENT_COLLECTIVE] = {"COLLECTIVE", "is allowed after GO, if READY announced it"},
	    [EVENT_SERVING] = {"SERVING", "is allowed after GO"},
	    [EVENT_WATCHDOG] = {"WATCHDOG", "is allowed after HELLO"},
	    [EVENT_EXTEND] = {"EXTEND_TIMEOUT_USEC", "is allowed after HELLO"},
	};

	misplaced(step, rank, rules[step->event->kind].word, rules[step->event->kind].rule);
}

/* Who has left in peace: earliest first, NULL if nobody has. */
static struct rank *
first_left(const struct group *g)
{
	struct rank *first = NULL;

	for (int i = 0; i < g->settings.world_size; i++) {
		struct rank *rank = &g->ranks[i];

		if (rank->died && !rank->pending &&
		    (first == NULL || rank->died_ns < first->died_ns))
			first = rank;
	}
	return first;
}

/* Some rank was heard of for the first time: from here on the group is gated. */
static void
note_spoken(struct step *step, struct rank *rank, enum rank_kind kind)
{
	struct group *g = step->g;

	if (rank->kind == KIND_SILENT)
		rank->kind = kind;
	if (g->spoken)
		return;
	g->spoken = true;
	if (g->settings.job && g->settings.ready_auto) {
		arm_load_timers(step, step->now_ns);
		for (int i = 0; i < g->settings.world_size; i++)
			arm_silence(step, &g->ranks[i]);
	}
	update_group_state(step);
	/* Who has left without a word can never be ready. */
	if (!g->go && first_left(g) != NULL)
		lose_dead(step, first_left(g));
}

static const struct rank *
first_other_hello(const struct group *g, const struct rank *rank)
{
	for (int i = 0; i < g->settings.world_size; i++)
		if (g->ranks[i].said_hello && &g->ranks[i] != rank)
			return &g->ranks[i];
	return NULL;
}

static void
on_hello(struct step *step, struct rank *rank)
{
	const struct message *m = step->event->message;
	struct group *g = step->g;
	const struct rank *other = first_other_hello(g, rank);
	int n = rank_number(g, rank);

	rank->said_hello = true;
	rank->hello_ns = step->now_ns;
	g->hello_count++;
	snprintf(rank->settings, sizeof(rank->settings), "%s", m->settings);
	if (rank->state == RANK_STARTING)
		set_rank_state(step, rank, RANK_CONNECTED);
	if (m->protocol != PROTOCOL_VERSION) {
		lose(step, rank, REASON_RANK_MISMATCH,
		     "rank %d speaks protocol %u, the supervisor speaks %d", n, m->protocol,
		     PROTOCOL_VERSION);
		return;
	}
	if (other != NULL && strcasecmp(other->settings, rank->settings) != 0) {
		lose(step, rank, REASON_RANK_MISMATCH,
		     "the settings of rank %d (%.40s) differ from those of rank %d (%.40s)", n,
		     rank->settings[0] == '\0' ? "none" : rank->settings, rank_number(g, other),
		     other->settings[0] == '\0' ? "none" : other->settings);
		return;
	}
	act(step, ACTION_SEND_WELCOME, n, 0);
	if (g->group_id_kept && n != 0)
		act(step, ACTION_SEND_GROUP_ID, n, 0);
	if (g->go)
		act(step, ACTION_SEND_GO, n, 0);
	update_group_state(step);
}

/* A rank that was ready by its notify socket or a probe may still say its first HELLO. */
static void
on_late_hello(struct step *step, struct rank *rank)
{
	if (rank->said_hello)
		on_misplaced(step, rank);
	else
		on_hello(step, rank);
}

static void
on_status(struct step *step, struct rank *rank)
{
	snprintf(rank->status_text, sizeof(rank->status_text), "%s", step->event->message->text);
}

static void
take_progress(struct step *step, struct rank *rank)
{
	struct progress unit = rank->progress;

	rank->progress = step->event->message->progress;
	/* A packet that leaves out its unit means the one told before. */
	if (rank->progress.unit[0] == '\0')
		memcpy(rank->progress.unit, unit.unit, sizeof(rank->progress.unit));
	if (rank->progress.bytes_total == 0) {
		rank->progress.bytes = unit.bytes;
		rank->progress.bytes_total = unit.bytes_total;
	}
}

static void
on_progress(struct step *step, struct rank *rank)
{
	take_progress(step, rank);
	if (rank->state == RANK_CONNECTED)
		set_rank_state(step, rank, RANK_LOADING);
}

/* A rank that speaks no protocol shows by its lines that it loads. */
static void
on_observed(struct step *step, struct rank *rank)
{
	take_progress(step, rank);
	if (rank->state == RANK_STARTING)
		set_rank_state(step, rank, RANK_LOADING);
}

static void
on_suspended(struct step *step, struct rank *rank)
{
	(void)step;
	rank->suspended = true;
}

static void
on_resumed(struct step *step, struct rank *rank)
{
	(void)step;
	rank->suspended = false;
}

static void
on_group_id(struct step *step, struct rank *rank)
{
	struct group *g = step->g;

	if (rank_number(g, rank) != 0 || g->group_id_kept || g->go) {
		on_misplaced(step, rank);
		return;
	}
	g->group_id_kept = true;
	act(step, ACTION_KEEP_GROUP_ID, 0, 0);
	for (int i = 1; i < g->settings.world_size; i++)
		if (g->ranks[i].said_hello && !g->ranks[i].link_closed && !g->ranks[i].died)
			act(step, ACTION_SEND_GROUP_ID, i, 0);
}

static void
note_then(struct step *step, struct rank *rank)
{
	const struct message *m = step->event->message;

	rank->link_ready = true;
	rank->then_collective = m->then_collective;
	rank->then_serving = m->then_serving;
}

static void
on_ready(struct step *step, struct rank *rank)
{
	note_then(step, rank);
	rank_becomes_ready(step, rank);
}

static void
on_ready_again(struct step *step, struct rank *rank)
{
	if (!rank->link_ready)
		note_then(step, rank);
}

/* Ready by notify socket or probe: such a rank serves from go on. */
static void
on_plain_ready(struct step *step, struct rank *rank)
{
	rank_becomes_ready(step, rank);
}

/* The first word decides how a rank speaks: who said HELLO there is ready by the link. */
static void
on_notify_ready(struct step *step, struct rank *rank)
{
	if (rank->kind == KIND_NOTIFY || !rank->said_hello)
		rank_becomes_ready(step, rank);
}

static void
on_collective(struct step *step, struct rank *rank)
{
	if (step->event->message->collective_done)
		rank_ends_collective(step, rank);
	else
		rank->began = true;
}

static void
on_late_collective(struct step *step, struct rank *rank)
{
	if (!rank->then_collective)
		on_misplaced(step, rank);
}

static void
on_serving(struct step *step, struct rank *rank)
{
	rank_serves(step, rank);
}

static void
on_watchdog(struct step *step, struct rank *rank)
{
	uint64_t timeout_ns = step->g->settings.timeout_ns[BOUND_WATCHDOG];

	if (rank->state != RANK_SERVING || timeout_ns == 0)
		return;
	if (rank->unhealthy)
		warn(step, rank_number(step->g, rank), "is heard again");
	rank->unhealthy = false;
	push_back(&rank->timer_ns[RANK_TIMER_WATCHDOG], deadline_after(step->now_ns, timeout_ns));
}

static void
on_extend(struct step *step, struct rank *rank)
{
	uint64_t usec = step->event->message->extend_usec;

	extend(step, rank, usec > EXTEND_MAX_NS / NS_PER_USEC ? EXTEND_MAX_NS : usec * NS_PER_USEC);
}

static void
on_failed(struct step *step, struct rank *rank)
{
	lose(step, rank, REASON_RANK_DISCONNECTED, "failed: %s", step->event->message->text);
}

static void
on_stopping(struct step *step, struct rank *rank)
{
	rank->said_stopping = true;
	begin_stop(step);
}

static void
on_malformed(struct step *step, struct rank *rank)
{
	const struct message_error *error = step->event->error;

	lose(step, rank, REASON_RANK_PROTOCOL, "%s%s%s", error->key,
	     error->key[0] != '\0' ? ": " : "", error->rule);
}

static void
on_closed(struct step *step, struct rank *rank)
{
	const struct group *g = step->g;

	rank->link_closed = true;
	if (!rank->said_hello || rank->said_stopping)
		return;
	/* A job's rank that has done its work closes its link on its way to its exit status. */
	if (g->settings.job && g->go)
		rank->timer_ns[RANK_TIMER_JUDGE] = deadline_after(step->now_ns, CLOSE_GRACE_NS);
	else
		lose_closed(step, rank);
}

static void
on_closed_in_end(struct step *step, struct rank *rank)
{
	(void)step;
	rank->link_closed = true;
}

static void
on_spawned(struct step *step, struct rank *rank)
{
	struct group *g = step->g;

	rank->forked = true;
	rank->pid = step->event->pid;
	rank->forked_ns = step->now_ns;
	if (!group_is_running(g)) {
		/* The stop came while it was being forked. */
		set_rank_state(step, rank, RANK_STOPPING);
		kill_rank(step, rank, SIGKILL);
		return;
	}
	heard(step, rank);
	if (g->settings.no_gate) {
		rank->was_ready = true;
		rank->ready_ns = step->now_ns;
		rank->kind = KIND_PROBED;
		rank_after_go(step, rank);
		update_group_state(step);
	}
}

static void
on_spawn_failed(struct step *step, struct rank *rank)
{
	lose(step, rank, REASON_SPAWN_FAILED, "%s", step->event->text);
}

#define END_CELLS                                                                                  \
	[EVENT_SPAWNED] = on_spawned, [EVENT_DIED] = on_died, [EVENT_REAPED] = on_reaped,          \
	[EVENT_SPAWN_FAILED] = on_spawn_failed
#define LIVE_CELLS                                                                                 \
	[EVENT_STATUS] = on_status, [EVENT_FAILED] = on_failed, [EVENT_STOPPING] = on_stopping,    \
	[EVENT_MALFORMED] = on_malformed, [EVENT_HEARD] = on_ignore, [EVENT_CLOSED] = on_closed,   \
	[EVENT_OBSERVED] = on_observed, [EVENT_SUSPENDED] = on_suspended,                          \
	[EVENT_RESUMED] = on_resumed, [EVENT_DIED] = on_died, [EVENT_REAPED] = on_reaped
#define LINKED_CELLS                                                                               \
	LIVE_CELLS, [EVENT_HELLO] = on_late_hello, [EVENT_PROGRESS] = on_progress,                 \
		    [EVENT_WATCHDOG] = on_watchdog, [EVENT_EXTEND] = on_extend
#define LOADING_CELLS                                                                              \
	LINKED_CELLS, [EVENT_GROUP_ID] = on_group_id, [EVENT_READY] = on_ready,                    \
		      [EVENT_COLLECTIVE] = on_misplaced, [EVENT_SERVING] = on_misplaced,           \
		      [EVENT_NOTIFY_READY] = on_notify_ready, [EVENT_PROBE_READY] = on_plain_ready
#define READY_CELLS                                                                                \
	LINKED_CELLS, [EVENT_READY] = on_ready_again, [EVENT_NOTIFY_READY] = on_ignore,            \
		      [EVENT_PROBE_READY] = on_ignore
#define ENDED_CELLS                                                                                \
	END_CELLS, [EVENT_HELLO] = on_ignore, [EVENT_STATUS] = on_ignore,                          \
		   [EVENT_PROGRESS] = on_ignore, [EVENT_GROUP_ID] = on_ignore,                     \
		   [EVENT_READY] = on_ignore, [EVENT_COLLECTIVE] = on_ignore,                      \
		   [EVENT_SERVING] = on_ignore, [EVENT_WATCHDOG] = on_ignore,                      \
		   [EVENT_EXTEND] = on_ignore, [EVENT_FAILED] = on_ignore,                         \
		   [EVENT_STOPPING] = on_ignore, [EVENT_MALFORMED] = on_ignore,                    \
		   [EVENT_NOTIFY_READY] = on_ignore, [EVENT_PROBE_READY] = on_ignore,              \
		   [EVENT_HEARD] = on_ignore, [EVENT_OBSERVED] = on_ignore,                        \
		   [EVENT_SUSPENDED] = on_ignore, [EVENT_RESUMED] = on_ignore,                     \
		   [EVENT_CLOSED] = on_closed_in_end

/* An empty cell is impossible. Whatever a worker can cause has a cell. */
static const rank_cell rank_table[RANK_STATE_COUNT][EVENT_RANK_LAST + 1] = {
    [RANK_STARTING] =
	{LIVE_CELLS, [EVENT_SPAWNED] = on_spawned, [EVENT_SPAWN_FAILED] = on_spawn_failed,
	 [EVENT_HELLO] = on_hello, [EVENT_NOTIFY_READY] = on_plain_ready,
	 [EVENT_PROBE_READY] = on_plain_ready, [EVENT_PROGRESS] = on_misplaced,
	 [EVENT_GROUP_ID] = on_misplaced, [EVENT_READY] = on_misplaced,
	 [EVENT_COLLECTIVE] = on_misplaced, [EVENT_SERVING] = on_misplaced,
	 [EVENT_WATCHDOG] = on_watchdog, [EVENT_EXTEND] = on_extend},
    [RANK_CONNECTED] = {LOADING_CELLS},
    [RANK_LOADING] = {LOADING_CELLS},
    [RANK_READY] = {READY_CELLS, [EVENT_GROUP_ID] = on_group_id, [EVENT_COLLECTIVE] = on_misplaced,
		    [EVENT_SERVING] = on_misplaced},
    [RANK_COLLECTIVE] = {READY_CELLS, [EVENT_GROUP_ID] = on_misplaced,
			 [EVENT_COLLECTIVE] = on_collective, [EVENT_SERVING] = on_serving},
    [RANK_WARMING] = {READY_CELLS, [EVENT_GROUP_ID] = on_misplaced,
		      [EVENT_COLLECTIVE] = on_late_collective, [EVENT_SERVING] = on_serving},
    [RANK_SERVING] = {READY_CELLS, [EVENT_GROUP_ID] = on_misplaced,
		      [EVENT_COLLECTIVE] = on_late_collective, [EVENT_SERVING] = on_ignore},
    [RANK_STOPPING] = {ENDED_CELLS},
    [RANK_GONE] = {ENDED_CELLS},
};

/* The link's own words decide how a rank speaks, and every one of them is a sign of life. */
static void
note_word(struct step *step, struct rank *rank)
{
	enum event_kind kind = step->event->kind;

	if (kind <= EVENT_MALFORMED || kind == EVENT_NOTIFY_READY)
		note_spoken(step, rank, step->event->notify ? KIND_NOTIFY : KIND_LINK);
	else if (kind == EVENT_PROBE_READY)
		note_spoken(step, rank, KIND_PROBED);
	else if (kind != EVENT_HEARD && kind != EVENT_OBSERVED)
		return;
	heard(step, rank);
}

/* Before its HELLO a rank may say little on its link, however it became ready. */
static bool
is_too_early(const struct step *step, const struct rank *rank)
{
	enum event_kind kind = step->event->kind;

	return kind >= EVENT_PROGRESS && kind <= EVENT_EXTEND && !step->event->notify &&
	       !rank->said_hello;
}

/* What comes after the news of a rank's end comes too late. */
static enum rank_state
row_of(const struct rank *rank)
{
	return rank->died ? RANK_GONE : rank->state;
}

void
rank_step(struct step *step, struct rank *rank)
{
	rank_cell cell;

	/* A rank of a group that is ending is in one of the last two states, or was never forked.
	 */
	if (group_is_running(step->g) && row_of(rank) < RANK_STOPPING)
		note_word(step, rank);
	cell = rank_table[row_of(rank)][step->event->kind];
	if (cell == NULL)
		impossible(rank_state_word(rank->state), step->event->kind);
	if (row_of(rank) < RANK_STOPPING && is_too_early(step, rank))
		cell = on_misplaced;
	cell(step, rank);
}

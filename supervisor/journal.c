#include "supervisor/journal.h"

#include "common/duration.h"
#include "supervisor/narrate.h"
#include "supervisor/status_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
#define X(id, word) ENTRY_##id,
	JOURNAL_KINDS(X)
#undef X
};

static const char *const kind_words[] = {
#define X(id, word) [ENTRY_##id] = (word),
    JOURNAL_KINDS(X)
#undef X
};

struct entry {
	uint64_t at_ns;
	int64_t wall_ms; /* since 1970 */
	uint32_t epoch;
	enum kind kind;
	int rank;     /* NO_RANK: the group's */
	int from, to; /* states; NEWS: reason and phase */
	int number;   /* FORKED: pid; STOP: signal; GO: skew in ms */
	char *text;   /* for people, or NULL; NEWS: the cause */
};

/* What the group was like after the step before. */
struct seen {
	uint32_t epoch;
	enum group_state state;
	bool go, stop_asked, hurried, restart_wanted;
	enum reason reason;
};

struct seen_rank {
	enum rank_state state;
	bool forked, ready, began, suspended;
};

struct journal {
	const struct group *group;
	struct timeline *timeline;
	struct seen seen;
	struct seen_rank *ranks; /* [world_size] */
	struct entry *entries;   /* [cap], a ring */
	size_t cap;
	uint64_t next; /* number of the entry that comes next */
};

struct journal *
journal_open(const struct group *group)
{
	size_t world = (size_t)group->settings.world_size;
	struct journal *journal = calloc(1, sizeof(*journal));

	if (journal == NULL)
		return NULL;
	journal->group = group;
	journal->seen.state = group->state;
	journal->next = 1;
	journal->cap = JOURNAL_ENTRIES + JOURNAL_PER_RANK * world;
	journal->entries = calloc(journal->cap, sizeof(*journal->entries));
	journal->ranks = calloc(world, sizeof(*journal->ranks));
	journal->timeline = timeline_open(group->settings.world_size);
	if (journal->entries != NULL && journal->ranks != NULL && journal->timeline != NULL)
		return journal;
	journal_close(journal);
	return NULL;
}

void
journal_close(struct journal *journal)
{
	if (journal == NULL)
		return;
	for (size_t i = 0; journal->entries != NULL && i < journal->cap; i++)
		free(journal->entries[i].text);
	timeline_close(journal->timeline);
	free(journal->entries);
	free(journal->ranks);
	free(journal);
}

const struct timeline *
journal_timeline(const struct journal *journal)
{
	return journal->timeline;
}

/* --- noting --- */

/* The caller fills in the rest; text may be NULL, and is copied. */
static struct entry *
note(struct journal *journal, enum kind kind, int rank, uint64_t at_ns, const char *text)
{
	struct entry *entry = &journal->entries[journal->next++ % journal->cap];

	free(entry->text);
	*entry = (struct entry){.at_ns = at_ns,
				.wall_ms = status_wall_ms(at_ns, monotonic_ns()),
				.epoch = journal->seen.epoch,
				.kind = kind,
				.rank = rank};
	if (text != NULL)
		entry->text = strndup(text, JOURNAL_TEXT_BYTES);
	return entry;
}

static void
note_transition(struct journal *journal, int rank, int from, int to, uint64_t at_ns)
{
	enum kind kind = rank == NO_RANK ? ENTRY_GROUP : ENTRY_RANK;
	char text[NARRATE_LINE_BYTES];
	struct entry *entry;
	/* The first state is told by its epoch's own entry. */
	bool told = (kind == ENTRY_RANK || to != GROUP_STARTING) &&
		    transition_line(journal->group, rank, from, to, at_ns, text, sizeof(text));
	entry = note(journal, kind, rank, at_ns, told ? text : NULL);
	entry->from = from;
	entry->to = to;
}

static void
note_epoch(struct journal *journal, uint64_t now_ns)
{
	const struct group *group = journal->group;
	char text[NARRATE_LINE_BYTES];

	if (group->epoch == journal->seen.epoch)
		return;
	journal->seen = (struct seen){.epoch = group->epoch, .state = journal->seen.state};
	memset(journal->ranks, 0, (size_t)group->settings.world_size * sizeof(*journal->ranks));
	timeline_begin(journal->timeline, group->epoch, now_ns);
	transition_line(group, NO_RANK, GROUP_STARTING, GROUP_STARTING, now_ns, text, sizeof(text));
	note(journal, ENTRY_EPOCH_START, NO_RANK, now_ns, text);
}

static void
note_requests(struct journal *journal, const struct group_event *event, uint64_t now_ns)
{
	const struct group *group = journal->group;
	struct seen *seen = &journal->seen;

	if (group->stop_asked && !seen->stop_asked)
		note(journal, ENTRY_STOP, NO_RANK, now_ns, NULL)->number = group->stop_signal;
	if (group->hurried && !seen->hurried)
		note(journal, ENTRY_WARNING, NO_RANK, now_ns,
		     "asked to stop again: whatever is left is killed");
	/* Between two epochs a request is no wish: the next one begins at once. */
	if (event->kind == EVENT_RESTART && !seen->restart_wanted &&
	    (group->restart_wanted || group->epoch != seen->epoch))
		note(journal, ENTRY_RESTART, NO_RANK, now_ns, NULL);
	seen->stop_asked = group->stop_asked;
	seen->hurried = group->hurried;
	seen->restart_wanted = group->restart_wanted;
}

static void
note_news(struct journal *journal)
{
	const struct loss *loss = &journal->group->loss;
	bool known = journal->seen.reason != REASON_NONE;
	struct entry *entry;

	journal->seen.reason = loss->reason;
	if (known || loss->reason == REASON_NONE)
		return;
	entry = note(journal, ENTRY_NEWS, loss->rank, loss->at_ns, loss->cause);
	entry->from = (int)loss->reason;
	entry->to = (int)loss->phase;
}

/* What comes before go; the last rank's ready, go and what follows it are one step. */
static void
note_ready(struct journal *journal, int number)
{
	const struct rank *rank = &journal->group->ranks[number];
	struct seen_rank *seen = &journal->ranks[number];

	if (rank->forked && !seen->forked)
		note(journal, ENTRY_FORKED, number, rank->forked_ns, NULL)->number = rank->pid;
	if (rank->was_ready && !seen->ready) {
		note_transition(journal, number, (int)seen->state, RANK_READY, rank->ready_ns);
		seen->state = RANK_READY;
	}
	seen->forked = rank->forked;
	seen->ready = rank->was_ready;
}

static void
mark_moments(struct journal *journal, int number)
{
	const struct rank *rank = &journal->group->ranks[number];
	const struct seen_rank *seen = &journal->ranks[number];
	struct timeline *timeline = journal->timeline;

	timeline_mark(timeline, number, MOMENT_FORKED, rank->forked_ns);
	timeline_mark(timeline, number, MOMENT_HELLO, rank->hello_ns);
	timeline_mark(timeline, number, MOMENT_READY, rank->ready_ns);
	timeline_mark(timeline, number, MOMENT_SERVING, rank->serving_ns);
	timeline_mark(timeline, number, MOMENT_GONE, rank->died_ns);
	if (rank->state == RANK_LOADING)
		timeline_mark(timeline, number, MOMENT_LOAD, rank->state_ns);
	if (seen->state == RANK_COLLECTIVE &&
	    (rank->state == RANK_WARMING || rank->state == RANK_SERVING))
		timeline_mark(timeline, number, MOMENT_COLLECTIVE_DONE, rank->state_ns);
}

static void
note_rank(struct journal *journal, int number, uint64_t now_ns)
{
	const struct rank *rank = &journal->group->ranks[number];
	struct seen_rank *seen = &journal->ranks[number];

	mark_moments(journal, number);
	if (rank->began && !seen->began)
		timeline_mark(journal->timeline, number, MOMENT_COLLECTIVE, now_ns);
	if (rank->suspended != seen->suspended && rank->state < RANK_STOPPING)
		note(journal, ENTRY_WARNING, number, now_ns,
		     rank->suspended ? "is stopped by a signal" : "goes on after its stop");
	if (rank->state != seen->state)
		note_transition(journal, number, (int)seen->state, (int)rank->state,
				rank->state_ns);
	seen->state = rank->state;
	seen->began = rank->began;
	seen->suspended = rank->suspended;
}

static void
note_go(struct journal *journal)
{
	const struct group *group = journal->group;
	bool given = group->go && !journal->seen.go;

	journal->seen.go = group->go;
	if (!given || group->go_ns == 0)
		return;
	timeline_go(journal->timeline, group->go_ns);
	note(journal, ENTRY_GO, NO_RANK, group->go_ns, NULL)->number =
	    (int)(group->skew_ns / NS_PER_MSEC);
}

static void
note_late(struct journal *journal, const struct action *action, uint64_t now_ns)
{
	const struct group *group = journal->group;
	char text[JOURNAL_TEXT_BYTES], ranks[128], timeout[DURATION_TEXT_BYTES];

	group_late_ranks(group, action->bound, ranks, sizeof(ranks));
	format_duration(group->settings.timeout_ns[action->bound], timeout, sizeof(timeout));
	snprintf(text, sizeof(text), "%d %% of %s = %s has passed; late: rank %s", action->number,
		 bound_key(action->bound), timeout, ranks);
	note(journal, ENTRY_WARNING, NO_RANK, now_ns, text);
}

static void
note_warnings(struct journal *journal, const struct actions *actions, uint64_t now_ns)
{
	for (size_t i = 0; i < actions->n; i++) {
		const struct action *action = &actions->v[i];

		if (action->kind == ACTION_WARN)
			note(journal, ENTRY_WARNING, action->rank, now_ns, action->text);
		else if (action->kind == ACTION_WARN_LATE)
			note_late(journal, action, now_ns);
	}
}

/* Steps that move the group may move every rank. */
static bool
is_wide(const struct journal *journal, const struct group_event *event)
{
	const struct seen *seen = &journal->seen;
	const struct group *group = journal->group;

	return event->kind > EVENT_RANK_LAST || event->rank == NO_RANK ||
	       seen->state != group->state || seen->go != group->go;
}

void
journal_step(struct journal *journal, const struct group_event *event,
	     const struct actions *actions, uint64_t now_ns)
{
	int first, end;

	if (journal == NULL)
		return;
	note_requests(journal, event, now_ns);
	note_epoch(journal, now_ns);
	note_news(journal);
	first = is_wide(journal, event) ? 0 : event->rank;
	end = is_wide(journal, event) ? journal->group->settings.world_size : event->rank + 1;
	for (int i = first; i < end; i++)
		note_ready(journal, i);
	note_go(journal);
	for (int i = first; i < end; i++)
		note_rank(journal, i, now_ns);
	if (journal->group->state != journal->seen.state)
		note_transition(journal, NO_RANK, (int)journal->seen.state,
				(int)journal->group->state, now_ns);
	journal->seen.state = journal->group->state;
	note_warnings(journal, actions, now_ns);
}

void
journal_epoch_over(struct journal *journal, json_t *reason, const char *message, uint64_t now_ns)
{
	if (journal == NULL) {
		json_decref(reason);
		return;
	}
	timeline_end(journal->timeline, reason, message, now_ns);
	note(journal, ENTRY_EPOCH_END, NO_RANK, now_ns, message);
}

/* --- telling --- */

uint64_t
journal_next(const struct journal *journal)
{
	return journal->next;
}

uint64_t
journal_oldest(const struct journal *journal)
{
	return journal->next > journal->cap ? journal->next - journal->cap : 1;
}

static void
add_states(json_t *object, const struct entry *entry)
{
	bool rank = entry->kind == ENTRY_RANK;
	const char *from = rank ? rank_state_word((enum rank_state)entry->from)
				: group_state_word((enum group_state)entry->from);
	const char *to = rank ? rank_state_word((enum rank_state)entry->to)
			      : group_state_word((enum group_state)entry->to);

	json_object_set_new(object, "from", json_string(from));
	json_object_set_new(object, "to", json_string(to));
}

static void
add_news(json_t *object, const struct entry *entry)
{
	json_object_set_new(object, "reason", json_string(reason_word((enum reason)entry->from)));
	json_object_set_new(object, "cause",
			    entry->text == NULL ? json_null() : status_text(entry->text));
	if (entry->rank != NO_RANK)
		json_object_set_new(object, "phase",
				    json_string(rank_state_word((enum rank_state)entry->to)));
}

static void
add_signal(json_t *object, const struct entry *entry)
{
	char name[32] = "";

	if (entry->number != 0)
		signal_name(entry->number, name, sizeof(name));
	json_object_set_new(object, "signal", name[0] == '\0' ? json_null() : json_string(name));
}

static void
add_details(json_t *object, const struct entry *entry)
{
	switch (entry->kind) {
	case ENTRY_FORKED:
		json_object_set_new(object, "pid", json_integer(entry->number));
		break;
	case ENTRY_RANK:
	case ENTRY_GROUP:
		add_states(object, entry);
		break;
	case ENTRY_GO:
		json_object_set_new(object, "ready_skew_seconds",
				    json_real((double)entry->number / 1e3));
		break;
	case ENTRY_NEWS:
		add_news(object, entry);
		return;
	case ENTRY_STOP:
		add_signal(object, entry);
		break;
	case ENTRY_EPOCH_START:
	case ENTRY_EPOCH_END:
	case ENTRY_WARNING:
	case ENTRY_RESTART:
		break;
	}
	if (entry->text != NULL)
		json_object_set_new(object, "text", status_text(entry->text));
}

size_t
journal_line(const struct journal *journal, uint64_t seq, char line[JOURNAL_LINE_BYTES])
{
	const struct entry *entry = &journal->entries[seq % journal->cap];
	json_t *object;
	size_t len;

	if (seq < journal_oldest(journal) || seq >= journal->next)
		return 0;
	object = json_pack("{s:I, s:I, s:o, s:i, s:s}", "seq", (json_int_t)seq, "monotonic_ns",
			   (json_int_t)entry->at_ns, "time", status_wall_time(entry->wall_ms),
			   "epoch", (int)entry->epoch, "event", kind_words[entry->kind]);
	if (entry->rank != NO_RANK)
		json_object_set_new(object, "rank", json_integer(entry->rank));
	add_details(object, entry);
	len = json_dumpb(object, line, JOURNAL_LINE_BYTES,
			 JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(STATUS_DIGITS));
	json_decref(object);
	return len < JOURNAL_LINE_BYTES ? len : 0;
}

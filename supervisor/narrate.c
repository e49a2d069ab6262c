#include "supervisor/narrate.h"

#include "common/duration.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STALE_NS      (30 * NS_PER_SEC) /* progress older than this is said to be */
#define STATUS_COLUMN 80
#define RANKS_BYTES   128

struct text {
	char *out;
	size_t size, len;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *text, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text->out + text->len, text->size - text->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		text->len += (size_t)n;
	if (text->len >= text->size)
		text->len = text->size - 1;
}

void
format_elapsed(uint64_t ns, char *out, size_t size)
{
	if (ns < 60 * NS_PER_SEC)
		snprintf(out, size, "%.1f s", (double)(ns / (100 * NS_PER_MSEC)) / 10);
	else
		format_seconds(ns, out, size);
}

void
format_seconds(uint64_t ns, char *out, size_t size)
{
	if (ns < NS_PER_SEC)
		snprintf(out, size, "0s");
	else
		format_duration(ns / NS_PER_SEC * NS_PER_SEC, out, size);
}

static void
add_elapsed(struct text *text, uint64_t from_ns, uint64_t to_ns)
{
	char elapsed[DURATION_TEXT_BYTES];

	format_elapsed(to_ns > from_ns ? to_ns - from_ns : 0, elapsed, sizeof(elapsed));
	add(text, "%s", elapsed);
}

static const char *
plural(int n)
{
	return n == 1 ? "" : "s";
}

/* --- who is waited for --- */

bool
waiting_bound(const struct group *group, enum bound *bound)
{
	const struct group_settings *settings = &group->settings;

	if (group->state == GROUP_COLLECTIVE)
		*bound = BOUND_COLLECTIVE;
	else if (group->state == GROUP_WARMING)
		*bound = BOUND_WARMUP;
	else if (group->state != GROUP_STARTING && group->state != GROUP_LOADING)
		return false;
	else if (group->go || (settings->job && settings->ready_auto && !group->spoken))
		return false;
	else
		*bound = group->first_ready_ns != 0 ? BOUND_READY : BOUND_LOAD;
	return group->epoch > 0;
}

static int
first_late_rank(const struct group *group, enum bound bound)
{
	for (int i = 0; i < group->settings.world_size; i++)
		if (rank_is_late(group, i, bound))
			return i;
	return NO_RANK;
}

bool
waiting_span(const struct group *group, enum bound *bound, uint64_t *from_ns, uint64_t *deadline_ns)
{
	int late;

	if (!waiting_bound(group, bound) || (late = first_late_rank(group, *bound)) == NO_RANK)
		return false;
	if (*bound == BOUND_LOAD) {
		*from_ns = group->started_ns;
		*deadline_ns = group->timer_ns[TIMER_LOAD];
	} else if (*bound == BOUND_READY) {
		*from_ns = group->first_ready_ns;
		*deadline_ns = group->timer_ns[TIMER_READY];
	} else {
		*from_ns = group->ranks[late].state_ns;
		*deadline_ns = group->ranks[late].timer_ns[RANK_TIMER_PHASE];
	}
	return true;
}

void
waited_to_string(const struct group *group, uint64_t now_ns, char *out, size_t size)
{
	struct text text = {out, size, 0};
	char elapsed[DURATION_TEXT_BYTES];
	uint64_t from_ns, deadline_ns;
	enum bound bound;

	out[0] = '\0';
	if (!waiting_span(group, &bound, &from_ns, &deadline_ns))
		return;
	format_seconds(now_ns > from_ns ? now_ns - from_ns : 0, elapsed, sizeof(elapsed));
	add(&text, "%s", elapsed);
	if (deadline_ns <= from_ns)
		return;
	format_seconds(deadline_ns - from_ns, elapsed, sizeof(elapsed));
	add(&text, " of %s", elapsed);
}

/* "layer 31 of 48, about 40 s left" */
static void
add_progress(struct text *text, const struct rank *rank, const struct progress_history *history,
	     uint64_t now_ns)
{
	char progress[MESSAGE_UNIT_BYTES + 64], left[48];

	progress_to_string(&rank->progress, progress, sizeof(progress));
	if (progress[0] == '\0' || rank->state > RANK_LOADING) {
		add(text, "%s", rank_state_word(rank->state));
		if (rank->status_text[0] != '\0')
			add(text, ", %.*s", STATUS_COLUMN, rank->status_text);
		return;
	}
	add(text, "%s", progress);
	left_to_string(history, now_ns, left, sizeof(left));
	if (history->n > 0 && now_ns > history->at_ns && now_ns - history->at_ns >= STALE_NS) {
		format_seconds(now_ns - history->at_ns, left, sizeof(left));
		add(text, ", no progress for %s", left);
	} else if (left[0] != '\0') {
		add(text, ", %s", left);
	}
}

/* The late rank that has come least far. */
static int
slowest_rank(const struct group *group, enum bound bound, int *late)
{
	int slowest = NO_RANK;
	double least = 2, fraction;

	*late = 0;
	for (int i = 0; i < group->settings.world_size; i++) {
		if (!rank_is_late(group, i, bound))
			continue;
		(*late)++;
		fraction = progress_fraction(&group->ranks[i].progress);
		if (fraction < least) {
			least = fraction;
			slowest = i;
		}
	}
	return slowest;
}

bool
waiting_line(const struct group *group, const struct progress_history *histories, uint64_t now_ns,
	     char *out, size_t size)
{
	struct text text = {out, size, 0};
	char ranks[RANKS_BYTES], waited[64];
	enum bound bound;
	int slowest, late;

	if (!waiting_bound(group, &bound))
		return false;
	slowest = slowest_rank(group, bound, &late);
	if (slowest == NO_RANK)
		return false;
	group_late_ranks(group, bound, ranks, sizeof(ranks));
	add(&text, "waiting for rank%s %s: ", plural(late), ranks);
	if (late > 1)
		add(&text, "the slowest is rank %d, ", slowest);
	add_progress(&text, &group->ranks[slowest], &histories[slowest], now_ns);
	waited_to_string(group, now_ns, waited, sizeof(waited));
	add(&text, ", %s", waited);
	return true;
}

/* --- one rank --- */

static void
add_since_go(struct text *text, const struct group *group, const char *what, uint64_t now_ns)
{
	add(text, "%s", what);
	if (group->go_ns == 0)
		return;
	add(text, ", ");
	add_elapsed(text, group->go_ns, now_ns);
	add(text, " after go");
}

static void
add_ready(struct text *text, const struct group *group, const struct rank *rank)
{
	char progress[MESSAGE_UNIT_BYTES + 64], ranks[RANKS_BYTES];
	int waited_for = group->settings.world_size - group->ready_count;

	add(text, "ready after ");
	add_elapsed(text, rank->forked_ns, rank->ready_ns);
	progress_to_string(&rank->progress, progress, sizeof(progress));
	if (progress[0] != '\0')
		add(text, " (%s)", progress);
	if (waited_for == 0 || group->go)
		return;
	group_late_ranks(group, BOUND_READY, ranks, sizeof(ranks));
	add(text, ", waits for rank%s %s", plural(waited_for), ranks);
}

static void
add_gone(struct text *text, const struct group *group, const struct rank *rank)
{
	char ending[64];

	ending_to_string(rank->ending, ending, sizeof(ending));
	add(text, "gone, %s", ending);
	if (rank_killed_by_us(rank))
		add(text, " by us");
	else if (rank->victim && group->loss.rank != NO_RANK)
		add(text, ", after the loss of rank %d", group->loss.rank);
}

/* The last rank's ready and what follows go come in one step. */
static bool
skipped_ready(const struct rank *rank, int from, int to)
{
	return from < RANK_READY && to > RANK_READY && to < RANK_STOPPING && rank->was_ready;
}

static bool
rank_line(struct text *text, const struct group *group, const struct rank *rank, int from, int to,
	  uint64_t now_ns)
{
	bool ready = skipped_ready(rank, from, to);

	if (ready)
		add_ready(text, group, rank);
	switch ((enum rank_state)to) {
	case RANK_STARTING:
		add(text, "starting");
		return true;
	case RANK_CONNECTED:
		add(text, "connected after ");
		add_elapsed(text, rank->forked_ns, rank->hello_ns);
		return true;
	case RANK_LOADING:
		add(text, "loading");
		return true;
	case RANK_READY:
		add_ready(text, group, rank);
		return true;
	case RANK_WARMING:
	case RANK_SERVING:
		add(text, "%s", ready ? ", " : "");
		add_since_go(text, group, to == RANK_SERVING ? "serving" : "warming up", now_ns);
		return true;
	case RANK_GONE:
		add_gone(text, group, rank);
		return true;
	case RANK_COLLECTIVE: /* begins for all at once: the group's line */
	case RANK_STOPPING:
	case RANK_STATE_COUNT:
		break;
	}
	return ready;
}

/* --- the group --- */

static void
add_go(struct text *text, const struct group *group, int to)
{
	int n = group->settings.world_size;

	add(text, "go: all %d ranks ready after ", n);
	add_elapsed(text, group->started_ns, group->go_ns);
	if (n > 1) {
		add(text, ", skew ");
		add_elapsed(text, 0, group->skew_ns);
	}
	add(text, to == GROUP_SERVING      ? ", serving"
		  : to == GROUP_COLLECTIVE ? ", first collective begins"
					   : ", warming up");
}

static void
add_stopping(struct text *text, const struct group *group)
{
	char name[32];

	if (group->loss.reason != REASON_NONE) {
		add(text, "ending the group: %s: ", reason_word(group->loss.reason));
		if (group->loss.rank != NO_RANK)
			add(text, "rank %d, ", group->loss.rank);
		add(text, "%s", group->loss.cause);
	} else if (group->abandoned) {
		add(text, "ending the group: the guard has died");
	} else if (group->stop_asked && group->stop_signal != 0) {
		signal_name(group->stop_signal, name, sizeof(name));
		add(text, "stopping: %s came", name);
	} else if (group->stop_asked) {
		add(text, "stopping: an operator asked");
	} else if (group->restart_wanted) {
		add(text, "restarting: an operator asked");
	} else if (group->stop_wanted) {
		add(text, "stopping: a rank announced its leave");
	} else {
		add(text, "ending the group");
	}
}

static void
add_backoff(struct text *text, const struct group *group, uint64_t now_ns)
{
	if (group->restart_wanted) {
		add(text, "restarting now");
		return;
	}
	add(text, "restarting in ");
	add_elapsed(text, now_ns, group->timer_ns[TIMER_BACKOFF]);
	add(text, ", restart %d of %d", group->window_restarts, group->settings.restart_max);
}

static bool
group_line(struct text *text, const struct group *group, int from, int to, uint64_t now_ns)
{
	int n = group->settings.world_size;
	bool go = from == GROUP_STARTING || from == GROUP_LOADING;

	switch ((enum group_state)to) {
	case GROUP_STARTING:
		add(text, "starting %d rank%s", n, plural(n));
		if (group->epoch > 1)
			add(text, ", epoch %" PRIu32, group->epoch);
		return true;
	case GROUP_COLLECTIVE:
	case GROUP_WARMING:
	case GROUP_SERVING:
		if (go && group->go_ns != 0)
			add_go(text, group, to);
		else if (to == GROUP_SERVING)
			add_since_go(text, group, "serving", now_ns);
		else
			add_since_go(text, group, "first collective done, warming up", now_ns);
		return true;
	case GROUP_STOPPING:
		add_stopping(text, group);
		return true;
	case GROUP_BACKOFF:
		add_backoff(text, group, now_ns);
		return true;
	case GROUP_LOADING: /* the ranks' own lines say it */
	case GROUP_FAILED:  /* the last line says it */
	case GROUP_STOPPED:
	case GROUP_STATE_COUNT:
		break;
	}
	return false;
}

bool
transition_line(const struct group *group, int rank, int from, int to, uint64_t now_ns, char *out,
		size_t size)
{
	struct text text = {out, size, 0};

	out[0] = '\0';
	if (rank == NO_RANK)
		return group_line(&text, group, from, to, now_ns);
	add(&text, "rank %d: ", rank);
	return rank_line(&text, group, &group->ranks[rank], from, to, now_ns);
}

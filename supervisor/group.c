/* The table of the group, and the way into the table of the ranks. */
#include "common/log.h"
#include "supervisor/group.h"
#include "supervisor/group_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_IMPOSSIBLE  70
#define ACTIONS_PER_RANK 6
#define ACTIONS_OF_GROUP 16

int
group_init(struct group *g, const struct group_settings *settings)
{
	memset(g, 0, sizeof(*g));
	g->settings = *settings;
	g->loss.rank = NO_RANK;
	g->ranks = calloc((size_t)settings->world_size, sizeof(*g->ranks));
	return g->ranks == NULL ? -1 : 0;
}

void
group_free(struct group *g)
{
	free(g->ranks);
	g->ranks = NULL;
}

int
actions_init(struct actions *actions, int world_size)
{
	actions->n = 0;
	actions->cap = (size_t)world_size * ACTIONS_PER_RANK + ACTIONS_OF_GROUP;
	actions->v = calloc(actions->cap, sizeof(*actions->v));
	return actions->v == NULL ? -1 : 0;
}

void
actions_free(struct actions *actions)
{
	free(actions->v);
	actions->v = NULL;
}

/* An empty cell was reached: the supervisor is wrong about the world, and its guard ends the group.
 */
void
impossible(const char *state, enum event_kind event)
{
	fatalx(EXIT_IMPOSSIBLE, "impossible: %s while %s", event_word(event), state);
}

static struct action *
append(struct step *step, enum action_kind kind, int rank)
{
	struct action *action;

	assert(step->out->n < step->out->cap);
	action = &step->out->v[step->out->n++];
	*action = (struct action){.kind = kind, .rank = rank};
	return action;
}

void
act(struct step *step, enum action_kind kind, int rank, int number)
{
	append(step, kind, rank)->number = number;
}

void
warn(struct step *step, int rank, const char *text)
{
	append(step, ACTION_WARN, rank)->text = text;
}

int
rank_number(const struct group *g, const struct rank *rank)
{
	return (int)(rank - g->ranks);
}

void
set_group_state(struct step *step, enum group_state state)
{
	if (step->g->state == state)
		return;
	step->g->state = state;
	step->g->state_ns = step->now_ns;
}

void
set_rank_state(struct step *step, struct rank *rank, enum rank_state state)
{
	if (rank->state == state)
		return;
	if (state < RANK_STOPPING)
		rank->phase = state;
	rank->state = state;
	rank->state_ns = step->now_ns;
}

bool
rank_is_alive(const struct rank *rank)
{
	return rank->forked && !rank->reaped;
}

bool
rank_killed_by_us(const struct rank *rank)
{
	return rank->ending.how == ENDING_KILLED && rank->ending.code > 0 &&
	       rank->ending.code < 64 &&
	       (rank->sent_signals & UINT64_C(1) << rank->ending.code) != 0;
}

bool
group_is_running(const struct group *g)
{
	return g->state < GROUP_STOPPING;
}

bool
group_may_fork(const struct group *g)
{
	return group_is_running(g);
}

bool
group_is_serving(const struct group *g)
{
	if (g->state != GROUP_SERVING)
		return false;
	for (int i = 0; i < g->settings.world_size; i++)
		if (g->ranks[i].unhealthy || g->ranks[i].suspended || g->ranks[i].pending ||
		    (g->ranks[i].said_hello && g->ranks[i].link_closed))
			return false;
	return true;
}

/* --- cells of the group --- */

typedef void (*group_cell)(struct step *step);

static void
on_ignore(struct step *step)
{
	(void)step;
}

static void
ask_stop(struct step *step)
{
	struct group *g = step->g;

	g->stop_asked = g->stop_wanted = true;
	g->restart_wanted = false;
	g->stop_signal = step->event->signal;
	forget_pending(g);
}

static void
on_stop(struct step *step)
{
	struct group *g = step->g;
	bool by_signal = step->event->signal != 0, again = g->stop_ns != 0;

	if (by_signal && again && step->now_ns - g->stop_ns < REPEAT_NS)
		return;
	if (by_signal)
		g->stop_ns = step->now_ns;
	if (g->stop_asked) {
		/* Only a signal hurries: two clients may well ask for the same stop. */
		if (by_signal && again) {
			g->hurried = true;
			kill_everything(step);
		}
		return;
	}
	ask_stop(step);
	if (group_is_running(g))
		begin_stop(step);
	else
		stop_in_end(step);
}

/* Between two epochs nothing runs: a stop is the end. */
static void
on_stop_in_backoff(struct step *step)
{
	struct group *g = step->g;

	ask_stop(step);
	memset(&g->loss, 0, sizeof(g->loss));
	g->loss.rank = NO_RANK;
	end_group(step);
}

static void
on_restart(struct step *step)
{
	step->g->restart_wanted = true;
	forget_pending(step->g);
	begin_stop(step);
}

static void
on_restart_in_stop(struct step *step)
{
	if (step->g->stop_asked)
		return;
	step->g->restart_wanted = true;
	forget_pending(step->g);
	continue_end(step);
}

static void
on_abandoned(struct step *step)
{
	step->g->abandoned = true;
	if (!step->g->stop_asked)
		ask_stop(step);
	kill_everything(step);
}

static void
on_tree_empty(struct step *step)
{
	tree_empty(step);
}

/* The machine may be asked to begin only once; later epochs are begun by itself. */
static void
on_start(struct step *step)
{
	if (step->g->epoch != 0)
		impossible(group_state_word(step->g->state), EVENT_START);
	begin_epoch(step);
}

#define RUNNING_CELLS                                                                              \
	[EVENT_STOP] = on_stop, [EVENT_RESTART] = on_restart, [EVENT_ABANDONED] = on_abandoned,    \
	[EVENT_BOUND] = on_bound
#define OVER_CELLS                                                                                 \
	[EVENT_STOP] = on_ignore, [EVENT_RESTART] = on_ignore, [EVENT_ABANDONED] = on_ignore,      \
	[EVENT_BOUND] = on_ignore, [EVENT_TREE_EMPTY] = on_ignore

/* An empty cell is impossible: the loop never brings that event in that state. */
static const group_cell group_table[GROUP_STATE_COUNT][EVENT_COUNT] = {
    [GROUP_STARTING] = {RUNNING_CELLS, [EVENT_START] = on_start},
    [GROUP_LOADING] = {RUNNING_CELLS},
    [GROUP_COLLECTIVE] = {RUNNING_CELLS},
    [GROUP_WARMING] = {RUNNING_CELLS},
    [GROUP_SERVING] = {RUNNING_CELLS},
    [GROUP_STOPPING] = {[EVENT_STOP] = on_stop,
			[EVENT_RESTART] = on_restart_in_stop,
			[EVENT_ABANDONED] = on_abandoned,
			[EVENT_BOUND] = on_bound,
			[EVENT_TREE_EMPTY] = on_tree_empty},
    [GROUP_BACKOFF] = {[EVENT_STOP] = on_stop_in_backoff,
		       [EVENT_RESTART] = begin_epoch,
		       [EVENT_ABANDONED] = on_stop_in_backoff,
		       [EVENT_BOUND] = on_bound},
    [GROUP_FAILED] = {OVER_CELLS},
    [GROUP_STOPPED] = {OVER_CELLS},
};

void
group_step(struct group *g, const struct group_event *event, uint64_t now_ns,
	   struct actions *actions)
{
	struct step step = {.g = g, .event = event, .now_ns = now_ns, .out = actions};
	group_cell cell;

	actions->n = 0;
	if (event->kind <= EVENT_RANK_LAST) {
		rank_step(&step, &g->ranks[event->rank]);
		return;
	}
	cell = group_table[g->state][event->kind];
	if (cell == NULL)
		impossible(group_state_word(g->state), event->kind);
	cell(&step);
}

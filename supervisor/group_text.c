/* Words and texts of the state machine. */
#include "supervisor/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LATE_RANKS_SHOWN 8

static const char *const rank_states[] = {
#define X(id, word) [RANK_##id] = (word),
    RANK_STATES(X)
#undef X
};

static const char *const group_states[] = {
#define X(id, word) [GROUP_##id] = (word),
    GROUP_STATES(X)
#undef X
};

static const char *const events[] = {
#define X(id, word) [EVENT_##id] = (word),
    RANK_EVENTS(X) GROUP_EVENTS(X)
#undef X
};

static const char *const actions[] = {
#define X(id, word) [ACTION_##id] = (word),
    ACTIONS(X)
#undef X
};

const char *
rank_state_word(enum rank_state state)
{
	return rank_states[state];
}

const char *
group_state_word(enum group_state state)
{
	return group_states[state];
}

const char *
event_word(enum event_kind kind)
{
	return events[kind];
}

const char *
action_word(enum action_kind kind)
{
	return actions[kind];
}

void
signal_name(int signal, char *out, size_t size)
{
	const char *name = sigabbrev_np(signal);

	if (name != NULL)
		snprintf(out, size, "SIG%s", name);
	else
		snprintf(out, size, "signal %d", signal);
}

void
ending_to_string(struct ending ending, char *out, size_t size)
{
	char name[32];

	switch (ending.how) {
	case ENDING_EXITED:
		snprintf(out, size, "exited %d", ending.code);
		return;
	case ENDING_KILLED:
		signal_name(ending.code, name, sizeof(name));
		snprintf(out, size, "killed %s", name);
		return;
	case ENDING_UNKNOWN:
		snprintf(out, size, "died");
		return;
	}
}

void
progress_to_string(const struct progress *progress, char *out, size_t size)
{
	if (progress->total == 0)
		snprintf(out, size, "%s", "");
	else
		snprintf(out, size, "%s%s%" PRIu64 " of %" PRIu64, progress->unit,
			 progress->unit[0] != '\0' ? " " : "", progress->done, progress->total);
}

void
group_late_ranks(const struct group *group, enum bound bound, char *out, size_t size)
{
	int late = 0;
	size_t n = 0;

	out[0] = '\0';
	for (int i = 0; i < group->settings.world_size; i++) {
		if (!rank_is_late(group, i, bound) || ++late > LATE_RANKS_SHOWN)
			continue;
		n += (size_t)snprintf(out + n, size - n, "%s%d", n > 0 ? ", " : "", i);
		if (n >= size)
			n = size - 1;
	}
	if (late > LATE_RANKS_SHOWN)
		snprintf(out + n, size - n, " and %d more", late - LATE_RANKS_SHOWN);
}

/* The events that the state machine gets to see, made of happenings. */
#include "tests/model/world.h"

#include <signal.h>
#include <stdio.h>

static const struct message hellos[HELLO_COUNT] = {
    [HELLO_A] = {.verb = VERB_HELLO, .protocol = PROTOCOL_VERSION, .settings = "aa"},
    [HELLO_B] = {.verb = VERB_HELLO, .protocol = PROTOCOL_VERSION, .settings = "bb"},
    [HELLO_OLD] = {.verb = VERB_HELLO, .protocol = PROTOCOL_VERSION + 1, .settings = "aa"},
};

static const struct message readies[THEN_COUNT] = {
    [THEN_NONE] = {.verb = VERB_READY},
    [THEN_COLLECTIVE] = {.verb = VERB_READY, .then_collective = true},
    [THEN_SERVING] = {.verb = VERB_READY, .then_serving = true},
    [THEN_BOTH] = {.verb = VERB_READY, .then_collective = true, .then_serving = true},
};

static const struct message collectives[2] = {
    {.verb = VERB_COLLECTIVE},
    {.verb = VERB_COLLECTIVE, .collective_done = true},
};

static const struct message others[EVENT_COUNT] = {
    [EVENT_STATUS] = {.verb = VERB_STATUS, .text = "loads"},
    [EVENT_PROGRESS] = {.verb = VERB_PROGRESS, .progress = {.done = 1, .total = 2}},
    [EVENT_OBSERVED] = {.verb = VERB_PROGRESS, .progress = {.done = 1, .total = 2}},
    [EVENT_GROUP_ID] = {.verb = VERB_GROUP_ID, .group_id_len = 1},
    [EVENT_SERVING] = {.verb = VERB_SERVING},
    [EVENT_WATCHDOG] = {.verb = VERB_WATCHDOG},
    [EVENT_EXTEND] = {.verb = VERB_EXTEND, .extend_usec = WORLD_EXTEND_NS / NS_PER_USEC},
    [EVENT_FAILED] = {.verb = VERB_FAILED, .text = "no memory", .error_number = 12},
    [EVENT_STOPPING] = {.verb = VERB_STOPPING},
};

static const struct message_error malformed = {.key = "READY", .rule = "must be 1"};

static const struct ending endings[END_COUNT] = {
#define X(id, ...) [END_##id] = __VA_ARGS__,
    ENDINGS(X)
#undef X
};

static const char *const end_words[END_COUNT] = {
#define X(id, ...) [END_##id] = #id,
    ENDINGS(X)
#undef X
};

static bool
may_be_notified(enum event_kind kind)
{
	return kind == EVENT_STATUS || kind == EVENT_WATCHDOG || kind == EVENT_EXTEND ||
	       kind == EVENT_STOPPING;
}

bool
is_notified(struct happening h)
{
	return h.kind == EVENT_NOTIFY_READY ||
	       (may_be_notified((enum event_kind)h.kind) && h.variant != 0);
}

static int
stop_signal(uint8_t variant)
{
	switch ((enum stop_kind)variant) {
	case STOP_BY_INT:
		return SIGINT;
	case STOP_BY_VERB:
		return 0;
	case STOP_BY_TERM:
	case STOP_HURRY:
	case STOP_KIND_COUNT:
		break;
	}
	return SIGTERM;
}

struct group_event
world_event(struct happening h)
{
	struct group_event event = {
	    .kind = (enum event_kind)h.kind, .rank = h.rank, .message = &others[h.kind]};

	switch (event.kind) {
	case EVENT_HELLO:
		event.message = &hellos[h.variant];
		break;
	case EVENT_READY:
		event.message = &readies[h.variant];
		break;
	case EVENT_COLLECTIVE:
		event.message = &collectives[h.variant];
		break;
	case EVENT_MALFORMED:
		event.error = &malformed;
		break;
	case EVENT_SPAWNED:
		event.pid = 1000 + h.rank;
		break;
	case EVENT_SPAWN_FAILED:
		event.text = "/no/such: No such file or directory";
		break;
	case EVENT_DIED:
	case EVENT_REAPED:
		event.ending = endings[h.variant];
		break;
	case EVENT_STOP:
		event.signal = stop_signal(h.variant);
		break;
	case EVENT_BOUND:
		event.timer = h.variant;
		break;
	default:
		event.notify = is_notified(h);
		break;
	}
	return event;
}

void
happening_to_string(struct happening h, char *out, size_t size)
{
	const char *word = event_word((enum event_kind)h.kind);

	if (h.rank == NO_RANK)
		snprintf(out, size, "group %s %d", word, h.variant);
	else if (h.kind == EVENT_DIED || h.kind == EVENT_REAPED)
		snprintf(out, size, "rank %d %s %s", h.rank, word, end_words[h.variant]);
	else
		snprintf(out, size, "rank %d %s %d", h.rank, word, h.variant);
}

bool
is_word(struct happening h)
{
	return h.kind <= EVENT_PROBE_READY;
}

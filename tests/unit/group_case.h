/* A group of the state machine, told one thing after the other; what it does is asked after each.
 */
#ifndef TESTS_UNIT_GROUP_CASE_H
#define TESTS_UNIT_GROUP_CASE_H

#include "supervisor/group.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASE_BEGIN_NS (1000 * NS_PER_SEC)

/* Reset by begin(); one at a time. */
static struct group group;
static struct actions actions;
static uint64_t now_ns;

/* A service of two ranks with the bounds of the design, watchdog and stall off. */
static inline struct group_settings
service_settings(void)
{
	struct group_settings settings = {.world_size = 2,
					  .ready_auto = true,
					  .restart_max = 3,
					  .restart_window_ns = 3600 * NS_PER_SEC,
					  .restart_backoff_ns = NS_PER_SEC};

	for (int i = 0; i < BOUND_COUNT; i++)
		settings.timeout_ns[i] = bound_default_ns((enum bound)i);
	return settings;
}

static inline struct group_settings
job_settings(void)
{
	struct group_settings settings = service_settings();

	settings.job = true;
	settings.ready_auto = false;
	return settings;
}

static inline struct group_settings
of_ranks(struct group_settings settings, int ranks)
{
	settings.world_size = ranks;
	return settings;
}

static inline void
step(struct group_event event)
{
	group_step(&group, &event, now_ns, &actions);
}

static inline void
rank_event(int rank, enum event_kind kind)
{
	step((struct group_event){.kind = kind, .rank = rank});
}

static inline void
group_event(enum event_kind kind)
{
	step((struct group_event){.kind = kind, .rank = NO_RANK});
}

static inline void
spawn(int rank)
{
	step((struct group_event){.kind = EVENT_SPAWNED, .rank = rank, .pid = 100 + rank});
}

static inline void
end_case(void)
{
	group_free(&group);
	actions_free(&actions);
}

/* Starts the group; no rank is forked yet. */
static inline void
start(struct group_settings settings)
{
	end_case();
	now_ns = CASE_BEGIN_NS;
	assert_int_equal(group_init(&group, &settings), 0);
	assert_int_equal(actions_init(&actions, settings.world_size), 0);
	group_event(EVENT_START);
}

/* Starts the group and forks its ranks. */
static inline void
begin(struct group_settings settings)
{
	start(settings);
	for (int i = 0; i < settings.world_size; i++)
		spawn(i);
}

/* One packet as the link brings it. */
static inline void
say(int rank, const char *packet)
{
	static const enum event_kind kinds[VERB_COUNT] = {
	    [VERB_HELLO] = EVENT_HELLO,       [VERB_STATUS] = EVENT_STATUS,
	    [VERB_PROGRESS] = EVENT_PROGRESS, [VERB_GROUP_ID] = EVENT_GROUP_ID,
	    [VERB_READY] = EVENT_READY,       [VERB_COLLECTIVE] = EVENT_COLLECTIVE,
	    [VERB_SERVING] = EVENT_SERVING,   [VERB_WATCHDOG] = EVENT_WATCHDOG,
	    [VERB_EXTEND] = EVENT_EXTEND,     [VERB_FAILED] = EVENT_FAILED,
	    [VERB_STOPPING] = EVENT_STOPPING,
	};
	struct message message;
	struct message_error error;
	struct group_event event = {
	    .kind = EVENT_MALFORMED, .rank = rank, .message = &message, .error = &error};

	if (message_parse(packet, strlen(packet), FROM_WORKER, &message, &error) == 0)
		event.kind = kinds[message.verb];
	step(event);
}

static inline void
say_hello(int rank)
{
	say(rank, "HELLO=1\nPROTOCOL=1\nSETTINGS=aa");
}

/* All say HELLO and READY with this THEN, "" for none. */
static inline void
make_ready(int rank, const char *then)
{
	char packet[64] = "READY=1";

	if (!group.ranks[rank].said_hello)
		say_hello(rank);
	if (then[0] != '\0')
		snprintf(packet, sizeof(packet), "READY=1\nTHEN=%s", then);
	say(rank, packet);
}

static inline void
go(const char *then)
{
	for (int i = 0; i < group.settings.world_size; i++)
		make_ready(i, then);
	assert_true(group.go);
}

static inline void
ends(enum event_kind kind, int rank, int how, int code)
{
	struct group_event event = {.kind = kind, .rank = rank};

	event.ending.how = (unsigned)how;
	event.ending.code = code;
	step(event);
}

static inline void
dies(int rank, int how, int code)
{
	ends(EVENT_DIED, rank, how, code);
}

/* Waited for as it died, or by exit 0. */
static inline void
reap(int rank)
{
	bool died = group.ranks[rank].died;
	struct ending ending = group.ranks[rank].ending;

	ends(EVENT_REAPED, rank, died ? (int)ending.how : ENDING_EXITED, died ? ending.code : 0);
}

static inline void
stop(int signal)
{
	step((struct group_event){.kind = EVENT_STOP, .rank = NO_RANK, .signal = signal});
}

/* Until at_ns, with every deadline on the way met in time. True if one passed. */
static inline bool
wait_until(uint64_t at_ns)
{
	struct group_event event;
	bool passed = false;

	for (;;) {
		uint64_t next_ns = group_next_deadline(&group);

		if (next_ns == 0 || next_ns > at_ns)
			break;
		now_ns = next_ns > now_ns ? next_ns : now_ns;
		while (group_due(&group, now_ns, &event)) {
			step(event);
			passed = true;
		}
	}
	now_ns = at_ns;
	return passed;
}

static inline bool
wait_for(uint64_t ns)
{
	return wait_until(now_ns + ns);
}

/* --- what the last step did --- */

static inline int
count(enum action_kind kind, int rank)
{
	int n = 0;

	for (size_t i = 0; i < actions.n; i++)
		n += actions.v[i].kind == kind && actions.v[i].rank == rank;
	return n;
}

static inline int
kills(int rank, int signal)
{
	int n = 0;

	for (size_t i = 0; i < actions.n; i++)
		n += actions.v[i].kind == ACTION_KILL && actions.v[i].rank == rank &&
		     actions.v[i].number == signal;
	return n;
}

static inline bool
sweeps(int signal)
{
	for (size_t i = 0; i < actions.n; i++)
		if (actions.v[i].kind == ACTION_SWEEP && actions.v[i].number == signal)
			return true;
	return false;
}

static inline bool
is_lost(enum reason reason, int rank)
{
	return group.loss.reason == reason && group.loss.rank == rank;
}

/* Every process ends by exit 0 and is waited for, then the tree is empty. */
static inline void
empty_tree(void)
{
	for (int i = 0; i < group.settings.world_size; i++)
		if (rank_is_alive(&group.ranks[i]))
			reap(i);
	group_event(EVENT_TREE_EMPTY);
}

#endif

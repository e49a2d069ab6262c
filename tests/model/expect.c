/* What the contract says must follow, told without looking into the machine. */
#include "tests/model/world.h"

#include <signal.h>

#define NOTHING ((struct loss_seen){REASON_NONE, NO_RANK})

/* How the end of a process is to be taken. */
enum verdict { PEACE, LATER, LOSS };

bool
world_running(const struct before *before)
{
	return before->state < GROUP_STOPPING;
}

bool
comes_too_late(const struct world *world, const struct before *before, struct happening h)
{
	return h.kind < EVENT_CLOSED && (!world_running(before) || world->p[h.rank].dead);
}

static bool
leaves_unasked(const struct world *world, const struct before *before)
{
	return before->state == GROUP_STOPPING && before->reason == REASON_NONE && world->leave &&
	       !world->asked && !world->restart_asked;
}

/* The earliest dead rank that is waiting, or is not; NO_RANK. */
static int
first_dead(const struct world *world, bool waiting)
{
	int first = NO_RANK;

	for (int i = 0; i < world->options->ranks; i++) {
		const struct process *p = &world->p[i];

		if (p->dead && p->waiting == waiting &&
		    (first == NO_RANK || p->died_ns < world->p[first].died_ns))
			first = i;
	}
	return first;
}

static bool
another_waits(const struct world *world, int rank)
{
	for (int i = 0; i < world->options->ranks; i++)
		if (i != rank && world->p[i].waiting)
			return true;
	return false;
}

static bool
ended_by_us(const struct process *p, int end)
{
	int signal = end == END_SIGKILL                          ? SIGKILL
		     : end == END_SIGTERM || end == END_EXIT_143 ? SIGTERM
								 : 0;

	return signal != 0 && (p->sent >> signal & 1) != 0;
}

static enum verdict
judge(const struct world *world, const struct before *before, int rank, int end)
{
	const struct world_options *o = world->options;
	bool may_leave = o->job && (world->go || (o->ready_auto && !world->spoken));
	bool may_be_a_stop = end == END_SIGTERM || end == END_EXIT_143;

	if (world_running(before)) {
		if (end == END_EXIT_0 && may_leave)
			return PEACE;
		if ((end == END_EXIT_0 && !o->job) || (end == END_UNKNOWN && may_leave))
			may_be_a_stop = true;
	} else if (!leaves_unasked(world, before) || end == END_EXIT_0 || end == END_UNKNOWN ||
		   ended_by_us(&world->p[rank], end)) {
		return PEACE;
	}
	return may_be_a_stop || another_waits(world, rank) ? LATER : LOSS;
}

/* --- words --- */

static bool
hello_mismatches(const struct world *world, struct happening h)
{
	if (h.variant == HELLO_OLD)
		return true;
	for (int i = 0; i < world->options->ranks; i++)
		if (world->p[i].hello && world->p[i].digest != h.variant)
			return true;
	return false;
}

/* The order table of the link. */
static enum reason
reason_of_link_word(const struct world *world, struct happening h)
{
	const struct process *p = &world->p[h.rank];
	bool allowed = true;

	switch (h.kind) {
	case EVENT_HELLO:
		if (!p->hello && hello_mismatches(world, h))
			return REASON_RANK_MISMATCH;
		allowed = !p->hello;
		break;
	case EVENT_PROGRESS:
	case EVENT_READY:
	case EVENT_WATCHDOG:
	case EVENT_EXTEND:
		allowed = p->hello;
		break;
	case EVENT_GROUP_ID:
		allowed = p->hello && h.rank == 0 && !world->group_id && !world->go;
		break;
	case EVENT_COLLECTIVE:
		allowed = p->hello && world->go && p->announced;
		break;
	case EVENT_SERVING:
		allowed = p->hello && world->go;
		break;
	case EVENT_MALFORMED:
		allowed = false;
		break;
	case EVENT_FAILED:
		return REASON_RANK_DISCONNECTED;
	default:
		break;
	}
	return allowed ? REASON_NONE : REASON_RANK_PROTOCOL;
}

/* The first word gates a job: who has left in peace before it can never be ready. */
static bool
gates_too_late(const struct world *world)
{
	return !world->spoken && !world->go && first_dead(world, false) != NO_RANK;
}

static struct loss_seen
loss_of_word(const struct world *world, struct happening h)
{
	enum reason reason = is_notified(h) ? REASON_NONE : reason_of_link_word(world, h);

	if (world->p[h.rank].dead)
		return NOTHING;
	if (gates_too_late(world))
		return (struct loss_seen){REASON_RANK_DISCONNECTED, first_dead(world, false)};
	return (struct loss_seen){reason, h.rank};
}

/* --- bounds --- */

static int
first_not_ready(const struct world *world)
{
	for (int i = 0; i < world->options->ranks; i++)
		if (!world->p[i].ready)
			return i;
	return NO_RANK;
}

static struct loss_seen
loss_of_group_bound(const struct world *world, struct happening h)
{
	int late = first_not_ready(world);

	if ((h.variant != TIMER_LOAD && h.variant != TIMER_READY) || late == NO_RANK)
		return NOTHING;
	return (struct loss_seen){REASON_RANK_TIMEOUT, late};
}

static struct loss_seen
loss_of_rank_bound(const struct world *world, const struct before *before, struct happening h)
{
	switch ((enum rank_timer)h.variant) {
	case RANK_TIMER_STALL:
		return (struct loss_seen){REASON_RANK_TIMEOUT, h.rank};
	case RANK_TIMER_WATCHDOG:
		return before->unhealthy ? (struct loss_seen){REASON_RANK_TIMEOUT, h.rank}
					 : NOTHING;
	case RANK_TIMER_PHASE:
		return (struct loss_seen){REASON_RANK_TIMEOUT, ANY_RANK};
	case RANK_TIMER_JUDGE:
		return world->p[h.rank].waiting || world->p[h.rank].closing
			   ? (struct loss_seen){REASON_RANK_DISCONNECTED, h.rank}
			   : NOTHING;
	case RANK_TIMER_SILENCE:
	case RANK_TIMER_COUNT:
		break;
	}
	return NOTHING;
}

/* --- all together --- */

static bool
is_news_of_an_end(const struct world *world, struct happening h)
{
	const struct process *p = &world->p[h.rank];

	return (h.kind == EVENT_DIED && !p->dead) ||
	       (h.kind == EVENT_REAPED && (!p->dead || p->end == END_UNKNOWN));
}

/* A job's rank that has done its work closes its link on its way out. */
static bool
may_close(const struct world *world)
{
	return world->options->job && world->go;
}

static struct loss_seen
loss_while_running(const struct world *world, const struct before *before, struct happening h)
{
	switch (h.kind) {
	case EVENT_SPAWN_FAILED:
		return (struct loss_seen){REASON_SPAWN_FAILED, h.rank};
	case EVENT_CLOSED:
		if (!world->p[h.rank].hello || world->p[h.rank].dead || may_close(world))
			return NOTHING;
		return (struct loss_seen){REASON_RANK_DISCONNECTED, h.rank};
	case EVENT_BOUND:
		return h.rank == NO_RANK ? loss_of_group_bound(world, h)
					 : loss_of_rank_bound(world, before, h);
	default:
		return is_word(h) ? loss_of_word(world, h) : NOTHING;
	}
}

/* The first bound that passes in an epoch asks for dumps; until they had their time none ends it.
 */
static bool
dumps_first(const struct world *world, const struct before *before, struct happening h)
{
	bool had_time =
	    world->dumped && (world->frozen || world->now_ns >= world->dumped_ns + DUMP_LEAD_NS);

	return world->options->dump && !had_time && h.kind == EVENT_BOUND &&
	       world_running(before) &&
	       loss_while_running(world, before, h).reason == REASON_RANK_TIMEOUT;
}

static struct loss_seen
loss_in_the_end(const struct world *world, const struct before *before, struct happening h)
{
	if (before->state != GROUP_STOPPING || before->reason != REASON_NONE)
		return NOTHING;
	if (h.kind == EVENT_BOUND && h.rank == NO_RANK && h.variant == TIMER_REAP)
		return (struct loss_seen){REASON_RANK_TIMEOUT, ANY_RANK};
	if ((h.kind == EVENT_BOUND && h.rank != NO_RANK && h.variant == RANK_TIMER_JUDGE) ||
	    (h.kind == EVENT_TREE_EMPTY && first_dead(world, true) != NO_RANK))
		return (struct loss_seen){REASON_RANK_DISCONNECTED, ANY_RANK};
	return NOTHING;
}

struct loss_seen
world_expected_loss(const struct world *world, const struct before *before, struct happening h)
{
	struct loss_seen loss;

	if (h.kind == EVENT_DIED || h.kind == EVENT_REAPED) {
		if (!is_news_of_an_end(world, h) ||
		    (world->p[h.rank].dead && before->reason != REASON_NONE) ||
		    judge(world, before, h.rank, h.variant) != LOSS)
			return NOTHING;
		return (struct loss_seen){REASON_RANK_DISCONNECTED, h.rank};
	}
	if (dumps_first(world, before, h))
		return NOTHING;
	loss = world_running(before) ? loss_while_running(world, before, h)
				     : loss_in_the_end(world, before, h);
	/* The first cause comes first. */
	if (loss.reason != REASON_NONE && first_dead(world, true) != NO_RANK)
		return (struct loss_seen){REASON_RANK_DISCONNECTED, first_dead(world, true)};
	return loss;
}

/* --- taking note --- */

static void
note_end(struct world *world, const struct before *before, struct happening h)
{
	struct process *p = &world->p[h.rank];

	if (is_news_of_an_end(world, h)) {
		p->waiting = judge(world, before, h.rank, h.variant) == LATER;
		p->end = h.variant;
		if (!p->dead)
			p->died_ns = world->now_ns;
		p->dead = true;
		p->closing = false;
	}
	if (h.kind == EVENT_REAPED) {
		p->reaped = true;
		p->link_open = false;
	}
}

static void
note_link_word(struct world *world, struct happening h)
{
	struct process *p = &world->p[h.rank];

	switch (h.kind) {
	case EVENT_HELLO:
		p->hello = true;
		p->digest = h.variant;
		break;
	case EVENT_GROUP_ID:
		world->group_id = true;
		break;
	case EVENT_READY:
		if (!p->link_ready)
			p->announced = h.variant == THEN_COLLECTIVE || h.variant == THEN_BOTH;
		p->ready = p->link_ready = true;
		break;
	default:
		break;
	}
}

static void
note_word(struct world *world, struct happening h, bool lost)
{
	struct process *p = &world->p[h.rank];
	bool unheard = gates_too_late(world);

	if (p->dead)
		return;
	world->spoken = true;
	if (p->voice == VOICE_NONE)
		p->voice = h.kind == EVENT_PROBE_READY ? VOICE_PROBE
			   : is_notified(h)            ? VOICE_NOTIFY
						       : VOICE_LINK;
	if (unheard || (lost && h.kind != EVENT_HELLO))
		return;
	if (h.kind == EVENT_STOPPING)
		world->leave = p->stopping = true;
	else if (!is_notified(h) && h.kind != EVENT_PROBE_READY)
		note_link_word(world, h);
	else if (h.kind == EVENT_PROBE_READY)
		p->ready = true;
	else if (h.kind == EVENT_NOTIFY_READY && (p->voice == VOICE_NOTIFY || !p->hello))
		p->ready = true;
}

static void
forget_waiting(struct world *world)
{
	for (int i = 0; i < world->options->ranks; i++)
		world->p[i].waiting = world->p[i].closing = false;
}

/* A second signal, and not a repeat of the first, hurries. */
static void
note_signal(struct world *world, const struct before *before, struct happening h)
{
	bool repeated =
	    world->frozen ? h.variant != STOP_HURRY : world->now_ns - world->signal_ns < REPEAT_NS;

	if (before->state >= GROUP_BACKOFF || h.kind != EVENT_STOP || h.variant == STOP_BY_VERB ||
	    (world->signalled && repeated))
		return;
	world->hurried = world->signalled;
	world->signalled = true;
	world->signal_ns = world->now_ns;
}

static void
note_asked(struct world *world, const struct before *before, struct happening h)
{
	if (before->state >= GROUP_FAILED || world->asked)
		return;
	if (h.kind == EVENT_RESTART) {
		world->restart_asked = before->state != GROUP_BACKOFF;
	} else {
		world->asked = true;
		world->asked_by = h.kind == EVENT_ABANDONED ? STOP_BY_VERB : h.variant;
	}
	forget_waiting(world);
}

void
world_note(struct world *world, const struct before *before, struct happening h,
	   struct loss_seen expected)
{
	struct process *p = h.rank == NO_RANK ? NULL : &world->p[h.rank];
	bool lost = expected.reason != REASON_NONE;

	world->hurried = false;
	if (dumps_first(world, before, h) && !world->dumped) {
		world->dumped = true;
		world->dumped_ns = world->now_ns;
	}
	if (is_word(h) && world_running(before))
		note_word(world, h, lost);
	switch (h.kind) {
	case EVENT_SPAWNED:
		p->fork_wanted = false;
		p->forked = p->link_open = true;
		break;
	case EVENT_SPAWN_FAILED:
		p->fork_wanted = false;
		break;
	case EVENT_CLOSED:
		p->link_open = false;
		p->closing = world_running(before) && p->hello && !p->dead && may_close(world);
		break;
	case EVENT_DIED:
	case EVENT_REAPED:
		note_end(world, before, h);
		break;
	case EVENT_TREE_EMPTY:
		world->swept = false;
		break;
	case EVENT_STOP:
	case EVENT_RESTART:
	case EVENT_ABANDONED:
		note_signal(world, before, h);
		note_asked(world, before, h);
		break;
	default:
		break;
	}
	if (lost)
		forget_waiting(world);
}

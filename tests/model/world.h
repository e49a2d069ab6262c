/*
 * The world around the state machine, for the walk and the simulation: which events are possible,
 * what is known of each rank's process without asking the machine, and the promises that are
 * checked after every step.
 */
#ifndef TESTS_MODEL_WORLD_H
#define TESTS_MODEL_WORLD_H

#include "supervisor/group.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define WORLD_RANKS_MAX   8
#define HAPPENINGS_MAX    640 /* possible in one state */
#define WORLD_BEGIN_NS    (1000 * NS_PER_SEC)
#define ANY_RANK          (-2)
#define WORLD_EXTEND_NS   (30 * NS_PER_SEC)
#define WORLD_DUMP_SIGNAL SIGUSR1

/* How a rank spoke first. */
enum voice { VOICE_NONE, VOICE_LINK, VOICE_NOTIFY, VOICE_PROBE };

/* X(enum suffix, struct ending) */
#define ENDINGS(X)                                                                                 \
	X(EXIT_0, {ENDING_EXITED, 0})                                                              \
	X(EXIT_3, {ENDING_EXITED, 3})                                                              \
	X(EXIT_143, {ENDING_EXITED, 143})                                                          \
	X(SIGKILL, {ENDING_KILLED, SIGKILL})                                                       \
	X(SIGTERM, {ENDING_KILLED, SIGTERM})                                                       \
	X(UNKNOWN, {ENDING_UNKNOWN, 0})

enum end_kind {
#define X(id, ...) END_##id,
	ENDINGS(X)
#undef X
	    END_COUNT
};

/* What STOP is asked by. HURRY is a signal well after the one before. */
enum stop_kind { STOP_BY_TERM, STOP_BY_INT, STOP_BY_VERB, STOP_HURRY, STOP_KIND_COUNT };

/* Bits of READY's THEN. */
enum { THEN_NONE, THEN_COLLECTIVE, THEN_SERVING, THEN_BOTH, THEN_COUNT };

/* Digests of HELLO; the last one speaks another protocol. */
enum { HELLO_A, HELLO_B, HELLO_OLD, HELLO_COUNT };

struct world_options {
	const char *name;
	int ranks;
	bool job, ready_auto, no_gate, in_order, reverse;
	int restarts;             /* restart_max; 0: never */
	bool link, notify, probe; /* which of them the ranks use */
	bool mismatch;            /* HELLOs that do not match */
	bool suspend;             /* ranks are stopped by signals, and continued */
	bool dump;                /* dump_signal is set */
	unsigned then;            /* set of 1 << THEN_ that READY says */
	unsigned endings;         /* set of 1 << END_ */
};

/* Something that happens. */
struct happening {
	uint8_t kind; /* enum event_kind */
	int8_t rank;
	uint8_t variant; /* notify, THEN_, HELLO_, END_, enum stop_kind, timer, done: by kind */
};

/* What the world knows of one rank in this epoch. */
struct process {
	bool fork_wanted, forked, dead, reaped, link_open;
	bool hello, ready, link_ready, announced, stopping; /* said; announced THEN=collective */
	bool waiting;                                       /* its end is judged later */
	bool closing;                                       /* so is the end of its link */
	bool killed;                                        /* by a SIGKILL of ours */
	uint8_t voice, digest;
	uint8_t gos, aborts, stops; /* packets it was sent */
	uint8_t end;                /* enum end_kind that was told first */
	uint64_t sent;              /* bit n: signal n was sent before its end */
	uint64_t died_ns;
};

struct world {
	const struct world_options *options;
	struct group group;
	struct actions actions;
	uint64_t now_ns;
	uint64_t dumped_ns,
	    signal_ns; /* of the last signal that asked for a stop, but for repeats */
	bool hurried;  /* a second signal asked, in this step */
	bool frozen;   /* the clock stands still: any deadline may pass, and any stop may hurry */
	struct process p[WORLD_RANKS_MAX];
	bool spoken, go, group_id, news, dumped;
	bool leave, asked, restart_asked; /* why the group stops */
	bool signalled;                   /* asked by a signal */
	bool swept, swept_hard, epoch_over, over;
	uint8_t asked_by; /* enum stop_kind */
};

/* Where a program of ours tells how the world came to fail; does not return. */
extern _Noreturn void world_failed(const struct world *world, struct happening last,
				   const char *promise);

/* 0, or -1 if memory ran out. The group has been started. */
int world_init(struct world *world, const struct world_options *options);
void world_free(struct world *world);

/* A process of the group's is alive or a zombie. */
bool world_holds_ranks(const struct world *world);

/* Fills out[HAPPENINGS_MAX]; returns how many. */
int world_possible(const struct world *world, struct happening *out);

/* Lets it happen: the event, the step, and every check. */
void world_step(struct world *world, struct happening happening);

/* world_event.c: the event of a happening, and its words; valid until the program ends. */
struct group_event world_event(struct happening happening);
void happening_to_string(struct happening happening, char *out, size_t size);
bool is_word(struct happening happening);
bool is_notified(struct happening happening);

/* What a step is compared with. */
struct before {
	enum group_state state;
	uint32_t epoch;
	bool killed;
	bool unhealthy;     /* the rank at hand */
	enum reason reason; /* of the loss, and so on */
	int lost;
	enum bound bound;
	uint64_t at_ns;
	char cause[64];
	uint64_t timer_ns[GROUP_TIMER_COUNT];
};

struct loss_seen {
	enum reason reason;
	int rank; /* may be ANY_RANK */
};

/* expect.c: the contract, told without looking into the machine */
bool world_running(const struct before *before);
/* Heard after the news of its rank's end, or after the end of the group began. */
bool comes_too_late(const struct world *world, const struct before *before,
		    struct happening happening);
/* The loss that must follow from what was known before. */
struct loss_seen world_expected_loss(const struct world *world, const struct before *before,
				     struct happening happening);
void world_note(struct world *world, const struct before *before, struct happening happening,
		struct loss_seen expected);

/* check.c: what the step did, and the state that it left */
void world_check(struct world *world, const struct before *before, struct happening happening,
		 struct loss_seen expected);
void world_check_state(const struct world *world, struct happening happening);

#define REQUIRE(promise)                                                                           \
	do {                                                                                       \
		if (!(promise))                                                                    \
			world_failed(world, happening, #promise);                                  \
	} while (0)

#endif

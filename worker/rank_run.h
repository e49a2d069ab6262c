/*
 * The course of one rank: link, checkpoint, hello, group id, load, ready, go, first collective,
 * serving, and the bounded way out of each of them.
 */
#ifndef WORKER_RANK_RUN_H
#define WORKER_RANK_RUN_H

#include "worker/host_comm.h"
#include "worker/link_watch.h"
#include "worker/load.h"
#include "worker/receipt.h"

#include <stdbool.h>
#include <stdint.h>

/* X(enum suffix, word): what rank 1 does otherwise than it should; `sum` is every rank's. */
#define DRILLS(X)                                                                                  \
	X(NONE, "none")                                                                            \
	X(LATE, "late")                                                                            \
	X(GONE, "gone")                                                                            \
	X(SUM, "sum")                                                                              \
	X(EOF, "eof")                                                                              \
	X(MISSING, "missing")                                                                      \
	X(TIMEOUT, "timeout")

enum drill {
#define X(id, word) DRILL_##id,
	DRILLS(X)
#undef X
	    DRILL_COUNT
};

struct rank_options {
	const char *dir;
	int threads; /* 0: as the loader does */
	bool sum, once;
	const char *receipt; /* NULL: none */
	enum drill drill;
	uint64_t delay_ns;    /* of the drill */
	uint64_t watchdog_ns; /* between two turns of the work loop, 0: it only waits */
};

struct rank_run {
	const struct rank_options *options;
	struct tfrank *link; /* NULL: closed */
	struct link_watch *watch;
	struct load *load;
	struct host_comm *comm; /* NULL: not joined yet */
	bool in_collective;
	int status; /* of the exit */
	int signal; /* that ends the process instead, 0: none */
	struct receipt receipt;
};

/* Runs the rank to its end; the exit status of the process, which may also end in here. */
int rank_run(const struct rank_options *options);

/*
 * How a step ends: 0 goes on, -1 leaves. rank_failed tells the supervisor the text; rank_ended
 * finds out which end has come; rank_link_failed is for an error of a call to tfrank. All return
 * -1.
 */
int rank_failed(struct rank_run *run, const struct load_error *error);
int rank_fail(struct rank_run *run, int error_number, const char *text);
int rank_ended(struct rank_run *run);
int rank_link_failed(struct rank_run *run, int error);

/* --- rank_steps.c --- */

int rank_open_link(struct rank_run *run);
int rank_open_checkpoint(struct rank_run *run);
int rank_say_hello(struct rank_run *run);
int rank_load_weights(struct rank_run *run);
int rank_be_ready(struct rank_run *run);
int rank_await_go(struct rank_run *run);

/* --- rank_collective.c --- */

int rank_give_group_id(struct rank_run *run);
/* Opens the communicator of the group id, once, and lets an end of the group end its waits. */
int rank_join(struct rank_run *run);
/* The same before ready, if the id is here already: less is left to do between go and collective.
 */
int rank_join_if_given(struct rank_run *run);
int rank_first_collective(struct rank_run *run);
int rank_serve(struct rank_run *run);

/* --- rank_drill.c: where the course may be left by a drill --- */

bool rank_is_drilled(const struct rank_run *run, enum drill drill);
/* Progress is told by rank_drill_after_load, not by the loader. */
bool rank_drill_paces(const struct rank_run *run);
int rank_drill_before_hello(struct rank_run *run);
int rank_drill_after_load(struct rank_run *run);
int rank_drill_after_go(struct rank_run *run);

#endif

/*
 * tfrank: the rank's end of tfsupervisor's link. An engine opens it, says hello, tells how far its
 * load is, says ready, and waits for go before its first collective, so that no rank waits in a
 * collective for a peer that still loads. When the group is lost the link says why, at once.
 *
 *	struct tfrank *rank;
 *
 *	if (tfrank_open(&rank) < 0)
 *		errx(1, "%s", tfrank_error());
 *	tfrank_hello(rank, settings);
 *	for (i = 0; i < layers; i++) {
 *		load_layer(i);
 *		tfrank_progress(rank, i + 1, layers, "layer", 0, 0);
 *	}
 *	tfrank_ready(rank, TFRANK_THEN_COLLECTIVE | TFRANK_THEN_SERVING);
 *	if (tfrank_wait_go(rank, 0) < 0)
 *		leave();
 *	tfrank_collective_begin(rank, "gather");
 *	...
 *	tfrank_collective_done(rank, "gather");
 *	tfrank_serving(rank);
 *
 * Without a supervisor (no TFRANK_LINK_FD) there is nobody to wait for: every call succeeds at
 *once, rank and world size come from RANK and WORLD_SIZE, and an engine runs unchanged by hand.
 *
 * Errors are negative errno values; tfrank_error() has the text.
 *	-ECONNABORTED  the group is lost: tfrank_abort_reason() and its like say why
 *	-ECANCELED     the supervisor asks us to stop, while we waited for something else
 *	-EPIPE         the supervisor has gone, or the link was closed
 *	-ETIMEDOUT     the deadline passed
 *	-EPROTO        out of order (ready before hello, a collective before go), or the supervisor
 *	               said what this library does not understand
 *	-EINVAL        an argument is out of its range
 *	-ENODATA       there is no group id, and no supervisor to wait for
 *	-ECHILD        we are a fork()ed child of the rank: only the rank itself speaks on the link
 * and those of the system calls beneath.
 *
 * Deadlines are absolute nanoseconds of CLOCK_MONOTONIC, 0 = none. Calls that say something may
 *come from any thread. Calls that wait (tfrank_wait_*, tfrank_get_group_id, tfrank_dispatch) belong
 *to one thread at a time. The library starts no threads, installs no signal handlers and sends no
 * SIGPIPE.
 */
#ifndef TFRANK_H
#define TFRANK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TFRANK_GROUP_ID_MAX_BYTES 512

/* What follows go, for tfrank_ready: a bounded first collective, a warm-up until serving. */
#define TFRANK_THEN_COLLECTIVE 1u
#define TFRANK_THEN_SERVING    2u

/* What tfrank_dispatch has read, as a set of bits. */
#define TFRANK_EVENT_WELCOME  1  /* rank, epoch and bounds are known */
#define TFRANK_EVENT_GROUP_ID 2  /* tfrank_get_group_id returns at once */
#define TFRANK_EVENT_GO       4  /* every rank of this epoch is ready */
#define TFRANK_EVENT_STOP     8  /* an operator asked: leave in order within the grace */
#define TFRANK_EVENT_ABORT    16 /* the group is lost */
#define TFRANK_EVENT_CLOSED   32 /* the supervisor has gone: leave */

struct tfrank;

/*
 * Takes the link over from the environment: TFRANK_LINK_FD is removed from it and the descriptor
 * becomes close-on-exec; a fork()ed child loses it. Call it early, before other threads read the
 * environment. On error *out is NULL, the environment is as it was, and the text names the variable
 * at fault. Free with tfrank_close.
 */
int tfrank_open(struct tfrank **out);

/*
 * Shuts the link down, so that the supervisor sees its end even where a child still holds a copy,
 * and frees the handle. For the way out only: to the supervisor a rank whose link has ended and
 * that lives on is lost. NULL is fine.
 */
void tfrank_close(struct tfrank *rank);

/* Text of this thread's last call that failed, "" if none did. Valid until its next one. */
const char *tfrank_error(void);

/* True (1) if there is a supervisor at the other end. */
int tfrank_supervised(const struct tfrank *rank);

/*
 * Says hello: first, once. settings are up to 128 hex digits over everything in which all ranks
 * must agree (model, version, options, world size), or NULL; a group whose digests differ does not
 * start.
 */
int tfrank_hello(struct tfrank *rank, const char *settings);

/*
 * Who we are. From the environment where it tells, so they may be asked before hello; otherwise
 * they wait for the supervisor's answer to hello. Negative on error.
 */
int tfrank_rank(struct tfrank *rank);
int tfrank_world_size(struct tfrank *rank);
/* One try at a start of the group; counts up at every restart. */
int64_t tfrank_epoch(struct tfrank *rank);

/*
 * The supervisor's bounds in microseconds, 0 = off: first READY to last READY, and go to
 * COLLECTIVE=done. They wait for the answer to hello. Negative on error.
 */
int64_t tfrank_ready_timeout_usec(struct tfrank *rank);
int64_t tfrank_collective_timeout_usec(struct tfrank *rank);

/* A line for people. */
int tfrank_status(struct tfrank *rank, const char *text);

/*
 * How far the load is: done of total units ("layer"; NULL or "" = none), and bytes of bytes_total
 * (0 = not told). Cheap enough for every tensor: at most 20 a second are sent, the last one (done
 * == total, bytes == bytes_total) always, and one that would block is dropped.
 */
int tfrank_progress(struct tfrank *rank, uint64_t done, uint64_t total, const char *unit,
		    uint64_t bytes, uint64_t bytes_total);

/*
 * Rank 0 gives the id by which the ranks find each other (an ncclUniqueId, 1 to
 * TFRANK_GROUP_ID_MAX_BYTES bytes), once, after hello and before ready, with a descriptor that
 * every other rank gets a copy of, or -1. fd stays the caller's.
 */
int tfrank_put_group_id(struct tfrank *rank, const void *id, size_t len, int fd);

/*
 * The other ranks wait for it: id[0..size) and *len are filled, and *fd is the caller's to close,
 * -1 if none came. fd may be NULL. -EINVAL if the id is longer than size. On rank 0, and without a
 * supervisor, it is what was put.
 */
int tfrank_get_group_id(struct tfrank *rank, void *id, size_t size, size_t *len, int *fd,
			uint64_t deadline_ns);

/* Load-ready, once; then is a set of TFRANK_THEN_ bits. */
int tfrank_ready(struct tfrank *rank, unsigned then);

/* Until go, at once if it has come. */
int tfrank_wait_go(struct tfrank *rank, uint64_t deadline_ns);

/* Around the first collective, after go, if ready announced it. name is for people. */
int tfrank_collective_begin(struct tfrank *rank, const char *name);
int tfrank_collective_done(struct tfrank *rank, const char *name);

/* Up. */
int tfrank_serving(struct tfrank *rank);

/* The work loop turns. Dropped rather than block. */
int tfrank_watchdog(struct tfrank *rank);

/* The bound that runs becomes max(itself, now + usec), at most 24 h ahead. */
int tfrank_extend(struct tfrank *rank, uint64_t usec);

/* The load failed or we cannot go on: the group ends with this text. error_number may be 0. */
int tfrank_failed(struct tfrank *rank, const char *text, int error_number);

/* We are about to leave: the whole group is stopped in order. */
int tfrank_stopping(struct tfrank *rank);

/*
 * For a loop of the caller's: the descriptor, to be polled for reading only (-1 without a
 * supervisor), and what to call when it is readable: reads everything that is there without
 * blocking and returns the TFRANK_EVENT_ bits that are new, 0 if none, negative on error. After
 * TFRANK_EVENT_CLOSED the descriptor stays readable: stop polling it.
 */
int tfrank_fd(const struct tfrank *rank);
int tfrank_dispatch(struct tfrank *rank);

/*
 * Why the group was lost, once -ECONNABORTED or TFRANK_EVENT_ABORT said that it is; "" and -1
 * before. Reasons are RankDisconnected, RankTimeout, RankMismatch, RankProtocol, SpawnFailed. The
 * rank is the lost one, -1 if it is no single one. Valid until tfrank_close.
 */
const char *tfrank_abort_reason(const struct tfrank *rank);
int tfrank_abort_rank(const struct tfrank *rank);
const char *tfrank_abort_detail(const struct tfrank *rank);

/* How long a stop may take, in microseconds; 0 before TFRANK_EVENT_STOP. */
uint64_t tfrank_stop_grace_usec(const struct tfrank *rank);

#ifdef __cplusplus
}
#endif

#endif

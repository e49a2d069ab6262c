/*
 * The host backend's communicator: ranks of one host meet in a memfd that rank 0 creates, seals
 * against shrinking and passes with the group id. They wait on a futex in it; every wait has one
 * absolute deadline and is ended at once by host_comm_end, from any thread.
 *
 * A wait that did not end with COMM_OK leaves the communicator broken: all later ones return
 * COMM_ENDED.
 */
#ifndef WORKER_HOST_COMM_H
#define WORKER_HOST_COMM_H

#include "worker/load_error.h"

#include <stddef.h>
#include <stdint.h>

#define HOST_ID_BYTES 32

enum comm_result {
	COMM_OK,
	COMM_ENDED,   /* host_comm_end, or broken before */
	COMM_TIMEOUT, /* the deadline passed */
	COMM_NO_MEMORY
};

struct host_comm;

/*
 * Creates the shared memory, a slot of slot_bytes (a multiple of 4096) for each rank, all of it
 * allocated. Fills id and returns the descriptor, the caller's to close, or -1.
 */
int host_comm_create(int world_size, size_t slot_bytes, unsigned char id[HOST_ID_BYTES],
		     struct load_error *error);

/*
 * Maps the memory behind fd (which may be closed afterwards) once it is what id says and cannot
 * shrink. 0 with *out to be closed, or -1.
 */
int host_comm_open(struct host_comm **out, const unsigned char *id, size_t id_len, int fd, int rank,
		   int world_size, struct load_error *error);

/* Ends all waits of this process, now and later. Other ranks' waits are their own. */
void host_comm_end(struct host_comm *comm);

/* No other thread may use it any more. NULL is fine. */
void host_comm_close(struct host_comm *comm);

int host_comm_rank(const struct host_comm *comm);
int host_comm_world_size(const struct host_comm *comm);
size_t host_comm_slot_bytes(const struct host_comm *comm);
/* A number that only this group's communicator has. */
uint64_t host_comm_salt(const struct host_comm *comm);

/* rank's slot, page-aligned. */
void *host_comm_slot(const struct host_comm *comm, int rank);

/* Until every rank has come. What ranks wrote before is seen by all after it. */
enum comm_result host_comm_barrier(struct host_comm *comm, uint64_t deadline_ns);

/*
 * Copies own[0..bytes), at most a slot, into our slot, once every rank has come and so is done with
 * the slots, and waits until every rank has copied: then all slots may be read.
 */
enum comm_result host_comm_all_gather(struct host_comm *comm, const void *own, size_t bytes,
				      uint64_t deadline_ns);

/* A moment that the others can wait for; not 0. */
void host_comm_post_moment(struct host_comm *comm, uint64_t ns);
enum comm_result host_comm_await_moment(struct host_comm *comm, int rank, uint64_t *ns,
					uint64_t deadline_ns);

#endif

/* What load.c, which plans and answers, and load_run.c, which reads, share. */
#ifndef WORKER_LOAD_PRIVATE_H
#define WORKER_LOAD_PRIVATE_H

#include "worker/checkpoint.h"
#include "worker/load.h"

#include <pthread.h>
#include <stdatomic.h>

#define LOAD_NO_LAYER SIZE_MAX

struct load_slot {
	struct slice slice;
	uint64_t arena_offset; /* bytes */
	size_t layer;          /* or LOAD_NO_LAYER */
	atomic_uint_least64_t sum;
};

/* What a thread takes at a time: bytes [first, first + count) of the only run, or such runs. */
struct load_piece {
	size_t slot;
	uint64_t first, count;
};

struct load {
	struct checkpoint checkpoint;
	int rank, world_size;
	struct load_slot *slots; /* [checkpoint.tensor_count] */
	struct slice_totals totals;
	struct load_piece *pieces; /* [piece_count], by file and offset */
	size_t piece_count, piece_capacity;
	size_t layer_count;
	size_t *layer_left; /* [layer_count] pieces not yet read */

	void *map; /* the arena, and what aligns it to huge pages */
	size_t map_bytes;
	unsigned char *arena; /* NULL without one */
	size_t arena_bytes;

	struct load_options options;
	pthread_t threads[LOAD_THREADS_MAX];
	int thread_count;
	bool started, finished;
	int done_fd; /* eventfd; -1 before load_start */
	atomic_size_t next_piece;
	atomic_int running;
	atomic_bool cancelled, failed;
	pthread_mutex_t mutex;   /* over what follows, and layer_left */
	struct load_error error; /* the first, if failed */
	struct load_progress progress;
	uint64_t told_ns; /* of the last call of options.progress */
};

/* Plans the pieces; sets progress to what is to be done. */
int load_plan_pieces(struct load *load, struct load_error *error);

#endif

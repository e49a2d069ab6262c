/*
 * One rank's share of a checkpoint, read by pread threads into one arena and summed on the way.
 * load_open checks everything but the weights; load_start begins to read; load_finish ends it.
 */
#ifndef WORKER_LOAD_H
#define WORKER_LOAD_H

#include "worker/load_error.h"
#include "worker/safetensors.h"
#include "worker/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_ALIGN_BYTES  256 /* of every part within the arena */
#define LOAD_THREADS_MAX  16
#define LOAD_DIGEST_BYTES 33 /* 128 bits as hex digits, and NUL */

struct load;

/* A tensor, and what this rank has of it. */
struct load_part {
	const char *name; /* with shape: owned by the load */
	enum dtype dtype;
	size_t ndim;
	const uint64_t *shape; /* [ndim], of the whole tensor */
	enum slice_cut cut;
	uint64_t rows, columns;    /* of the slice, in elements; 0 where the cut is whole */
	uint64_t bytes;            /* of the slice, which is contiguous, rows first */
	const unsigned char *data; /* in the arena; NULL before load_start and without one */
	uint64_t checksum; /* of the slice at its place in the whole; valid after the load */
};

struct load_progress {
	uint64_t layers_done, layers; /* layers: 0 if no tensor's name tells one */
	uint64_t bytes_done, bytes;   /* of this rank's own */
};

/*
 * Called from a loading thread, one call at a time, bytes rising: at each layer's end, about every
 * 50 ms, and at the end of a load that succeeds. It must not block for long, nor call load_finish.
 */
typedef void (*load_progress_fn)(const struct load_progress *progress, void *arg);

struct load_options {
	int threads;               /* 0: the CPUs allowed, at most LOAD_THREADS_MAX */
	bool no_arena;             /* read and sum, keep nothing */
	load_progress_fn progress; /* may be NULL */
	void *arg;
};

/*
 * Opens the checkpoint in the folder `dir`, checks every header and that everything can be cut for
 * world_size; 0 <= rank < world_size. NULL on error. Free with load_close.
 */
struct load *load_open(const char *dir, int rank, int world_size, struct load_error *error);

/* Maps the arena and starts the threads, with all signals blocked in them. Once. 0 or -1. */
int load_start(struct load *load, const struct load_options *options, struct load_error *error);

/* A descriptor that becomes readable when every thread has ended: for a poll of the caller's. */
int load_fd(const struct load *load);

/* Ends the reading after the 512 KiB that each thread is at; from any thread, or a signal handler.
 */
void load_cancel(struct load *load);

/*
 * Waits for the threads. 0, or -1 with the first error: ECANCELED after load_cancel. Must be called
 * once after each load_start that succeeded, before the parts' data and checksums are used.
 */
int load_finish(struct load *load, struct load_error *error);

/* load_start and load_finish. */
int load_run(struct load *load, const struct load_options *options, struct load_error *error);

/* Cancels and waits if threads are still reading; frees everything, the arena too. NULL is fine. */
void load_close(struct load *load);

size_t load_part_count(const struct load *load);
/* i < load_part_count(); in the order of file name and offset. */
struct load_part load_part_get(const struct load *load, size_t i);
/* The part of that name; false if there is none. */
bool load_part_find(const struct load *load, const char *name, struct load_part *part);
void load_totals_get(const struct load *load, struct slice_totals *totals);
uint64_t load_shard_count(const struct load *load);
uint64_t load_layer_count(const struct load *load);

/*
 * The arena: all parts, each at a multiple of LOAD_ALIGN_BYTES, zeros between; laid out alike on
 * every rank of a group. NULL and 0 without one.
 */
unsigned char *load_arena(const struct load *load, size_t *bytes);

/*
 * This rank's share of the checkpoint's checksum: the sum over tensors of the part's checksum times
 * the tensor's weight (FNV-1a of its name, 64 bits, lowest bit set), modulo 2^64, where a tensor
 * that is whole on every rank is counted by rank 0 alone. The shares of all ranks add up to the
 * share of rank 0 of 1, which `tfworker verify` prints, whatever the world size.
 */
uint64_t load_checksum(const struct load *load);

/*
 * Hex digits of a digest over all names, dtypes and shapes, whatever files they are in: ranks that
 * look at different checkpoints differ. Says nothing about the weights.
 */
void load_digest(const struct load *load, char digest[LOAD_DIGEST_BYTES]);

#endif

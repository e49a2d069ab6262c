/* Which bytes of a tensor belong to a rank. */
#ifndef WORKER_SLICE_H
#define WORKER_SLICE_H

#include "worker/load_error.h"
#include "worker/safetensors.h"

#include <stdint.h>

/* X(enum suffix, word): how a tensor is shared out among the ranks */
#define SLICE_CUTS(X)                                                                              \
	X(WHOLE, "whole")     /* every rank has all of it */                                       \
	X(ROWS, "rows")       /* the first dimension is cut */                                     \
	X(COLUMNS, "columns") /* the last one of two is */

enum slice_cut {
#define X(id, word) SLICE_##id,
	SLICE_CUTS(X)
#undef X
	    SLICE_CUT_COUNT
};

/*
 * `count` runs of `run` bytes, the first at byte `first` of the tensor, each `stride` bytes after
 * the one before. Whole tensors and cuts by rows are one run.
 */
struct slice {
	enum slice_cut cut;
	uint64_t first, run, stride, count; /* bytes; count is 0 if run is */
	uint64_t rows, columns; /* of the slice, in elements; 0 where the cut is whole */
};

/* What slices come to. */
struct slice_totals {
	uint64_t bytes;
	uint64_t tensors_by_cut[SLICE_CUT_COUNT];
	uint64_t bytes_by_cut[SLICE_CUT_COUNT];
};

const char *slice_cut_word(enum slice_cut cut);
uint64_t slice_bytes(const struct slice *slice);
void slice_totals_add(struct slice_totals *totals, const struct slice *slice);

/*
 * The cut by the tensor's name, as Hugging Face names it: a two-dimensional X.weight with X one of
 * q_proj, k_proj, v_proj, gate_proj, up_proj, embed_tokens and lm_head is cut by rows, with o_proj
 * and down_proj by columns.
 */
enum slice_cut slice_cut_of(const char *name, size_t ndim);

/* rank's slice; 0 <= rank < world_size. -1: it does not divide; the text names the tensor. */
int slice_of(const struct tensor *tensor, int rank, int world_size, struct slice *slice,
	     struct load_error *error);

#endif

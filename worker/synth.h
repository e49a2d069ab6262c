/*
 * Writes a checkpoint of a model's real layout: config.json, index and shards, bf16, with finite
 * pseudo-random weights that depend on the seed and the tensor's name alone.
 */
#ifndef WORKER_SYNTH_H
#define WORKER_SYNTH_H

#include "worker/load_error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SYNTH_SHARD_BYTES UINT64_C(5000000000) /* as Hugging Face cuts them */
#define SYNTH_THREADS_MAX 16

/* X(enum suffix, word) */
#define SYNTH_LAYOUTS(X)                                                                           \
	X(QWEN3, "qwen3")                                                                          \
	X(LLAMA, "llama")

enum synth_layout {
#define X(id, word) SYNTH_##id,
	SYNTH_LAYOUTS(X)
#undef X
	    SYNTH_LAYOUT_COUNT
};

struct synth_model {
	enum synth_layout layout;
	uint64_t layers, hidden, intermediate, vocab; /* 1 or more each */
	uint64_t heads, kv_heads, head_dim;           /* 0: chosen; see synth_choose_heads */
	uint64_t seed;
	uint64_t shards;      /* how many, or 0: */
	uint64_t shard_bytes; /* at most so many bytes of tensors each, if one tensor is not more */
};

struct synth_result {
	uint64_t tensors, shards, bytes; /* of tensors */
	int threads;
};

/* The word's layout, or SYNTH_LAYOUT_COUNT. */
enum synth_layout synth_layout_of(const char *word);

/*
 * Fills in what is 0: head_dim is 128 from a hidden size of 1024 on, else 64, or the largest power
 * of two below that divides it; heads = hidden / head_dim; kv_heads the largest of 8, 4, 2, 1 that
 * divides heads and is less. -1: they do not fit together.
 */
int synth_choose_heads(struct synth_model *model, struct load_error *error);

/*
 * Writes to the folder `dir`, made if absent. Refuses a folder that already has a checkpoint.
 * *stop, which a signal handler may set, ends it with ECANCELED. On error what was written is
 * removed.
 */
int synth_write(const char *dir, const struct synth_model *model, const atomic_bool *stop,
		struct synth_result *result, struct load_error *error);

#endif

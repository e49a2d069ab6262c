/* What synth.c, which plans, and synth_write.c, which writes, share. */
#ifndef WORKER_SYNTH_PRIVATE_H
#define WORKER_SYNTH_PRIVATE_H

#include "worker/synth.h"

#include <jansson.h>
#include <stddef.h>

#define SYNTH_NAME_BYTES 128
#define SYNTH_FILE_BYTES 64

struct synth_tensor {
	char name[SYNTH_NAME_BYTES];
	uint64_t shape[2]; /* [ndim] */
	int ndim;          /* 1: a norm's weights */
	uint64_t bytes;
	size_t shard;
	uint64_t offset; /* from the begin of the shard's data */
};

struct synth_shard {
	char name[SYNTH_FILE_BYTES];
	uint64_t bytes; /* of tensors */
	char *header;   /* with its length in front, padded to 8 bytes; 0 until the plan is made */
	size_t header_bytes;
};

struct synth_plan {
	struct synth_tensor *tensors; /* [tensor_count], in the order of the model */
	size_t tensor_count, tensor_capacity;
	struct synth_shard *shards; /* [shard_count] */
	size_t shard_count;
	uint64_t bytes;
	char *config; /* text of config.json */
	char *index;  /* text of the index; NULL where one shard needs none */
};

int synth_plan_make(struct synth_plan *plan, const struct synth_model *model,
		    struct load_error *error);
void synth_plan_free(struct synth_plan *plan);

#endif

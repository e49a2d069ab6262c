/* Small checkpoints in a temporary folder, for tests. */
#ifndef TESTS_UNIT_SHARDS_H
#define TESTS_UNIT_SHARDS_H

#include "worker/safetensors.h"

#define SHARDS_DIR_BYTES 64

struct shard_tensor {
	const char *name;
	enum dtype dtype;
	size_t ndim;
	uint64_t shape[3];
};

/* Makes an empty folder. */
void shards_make_dir(char dir[SHARDS_DIR_BYTES]);
/* Removes it with the files in it. */
void shards_remove_dir(const char *dir);

/* Byte k of the tensor whose name gave the seed. */
uint64_t shards_seed(const char *name);
unsigned char shards_byte(uint64_t seed, uint64_t k);

/* A file of the format with these tensors, filled by shards_byte. */
void shards_write(const char *dir, const char *file, const struct shard_tensor *tensors,
		  size_t count);
/* Any file; length in front of the text if it is not negative. */
void shards_write_raw(const char *dir, const char *file, int64_t length, const char *text,
		      size_t bytes);
/* Puts `map`, such as {"a":"x.safetensors"}, into an index. */
void shards_write_index(const char *dir, const char *map);

#endif

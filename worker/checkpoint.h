/*
 * A checkpoint: a folder with model.safetensors.index.json and the files that it names or, where
 * there is no index, with model.safetensors. Every header is checked, and index and files agree
 * both ways. Files lie in the folder itself (no '/' in a name); a symbolic link to a regular file
 * is followed, wherever it points, since caches keep checkpoints so.
 */
#ifndef WORKER_CHECKPOINT_H
#define WORKER_CHECKPOINT_H

#include "worker/load_error.h"
#include "worker/safetensors.h"

#include <stddef.h>
#include <stdint.h>

#define CHECKPOINT_INDEX "model.safetensors.index.json"
#define CHECKPOINT_FILE  "model.safetensors"

struct checkpoint_file {
	char *path; /* folder and name, for errors */
	const char *name;
	int fd;
	uint64_t bytes;
};

struct checkpoint {
	struct checkpoint_file *files; /* [file_count], by name */
	size_t file_count;
	struct tensor *tensors; /* [tensor_count], by file and offset */
	size_t tensor_count;
	size_t *by_name; /* [tensor_count]: indices of tensors in the order of their names */
};

/* 0, or -1 with *checkpoint empty. Its descriptors stay open until checkpoint_close. */
int checkpoint_open(struct checkpoint *checkpoint, const char *dir, struct load_error *error);
void checkpoint_close(struct checkpoint *checkpoint);

/* Index of the tensor of that name, or -1. */
ssize_t checkpoint_find(const struct checkpoint *checkpoint, const char *name);

#endif

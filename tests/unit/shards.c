#include "tests/unit/shards.h"

#include "worker/checkpoint.h"

#include <dirent.h>
#include <endian.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 512

void
shards_make_dir(char dir[SHARDS_DIR_BYTES])
{
	snprintf(dir, SHARDS_DIR_BYTES, "/tmp/tf-shards-XXXXXX");
	if (mkdtemp(dir) == NULL)
		err(1, "%s", dir);
}

void
shards_remove_dir(const char *dir)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;
	char path[PATH_BYTES];

	while (d != NULL && (entry = readdir(d)) != NULL) {
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			remove(path);
	}
	if (d != NULL)
		closedir(d);
	rmdir(dir);
}

uint64_t
shards_seed(const char *name)
{
	uint64_t seed = 1;

	for (; *name != '\0'; name++)
		seed = (seed ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return seed;
}

unsigned char
shards_byte(uint64_t seed, uint64_t k)
{
	return (unsigned char)((seed + k) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

static FILE *
open_for_writing(const char *dir, const char *file)
{
	char path[PATH_BYTES];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "we");
	if (f == NULL)
		err(1, "%s", path);
	return f;
}

static uint64_t
bytes_of(const struct shard_tensor *t)
{
	uint64_t bits = dtype_bits(t->dtype);

	for (size_t i = 0; i < t->ndim; i++)
		bits *= t->shape[i];
	return bits / 8;
}

static json_t *
header_of(const struct shard_tensor *tensors, size_t count)
{
	json_t *root = json_object(), *shape;
	uint64_t begin = 0, end;

	for (size_t i = 0; i < count; i++, begin = end) {
		end = begin + bytes_of(&tensors[i]);
		shape = json_array();
		for (size_t k = 0; k < tensors[i].ndim; k++)
			json_array_append_new(shape, json_integer((json_int_t)tensors[i].shape[k]));
		json_object_set_new(root, tensors[i].name,
				    json_pack("{s:s, s:o, s:[I, I]}", "dtype",
					      dtype_word(tensors[i].dtype), "shape", shape,
					      "data_offsets", (json_int_t)begin, (json_int_t)end));
	}
	return root;
}

void
shards_write(const char *dir, const char *file, const struct shard_tensor *tensors, size_t count)
{
	json_t *root = header_of(tensors, count);
	char *text = json_dumps(root, JSON_COMPACT);
	uint64_t length = htole64(strlen(text));
	FILE *f = open_for_writing(dir, file);

	fwrite(&length, sizeof(length), 1, f);
	fputs(text, f);
	for (size_t i = 0; i < count; i++) {
		uint64_t seed = shards_seed(tensors[i].name), bytes = bytes_of(&tensors[i]);

		for (uint64_t k = 0; k < bytes; k++)
			putc_unlocked(shards_byte(seed, k), f);
	}
	if (fclose(f) != 0)
		err(1, "%s/%s", dir, file);
	free(text);
	json_decref(root);
}

void
shards_write_raw(const char *dir, const char *file, int64_t length, const char *text, size_t bytes)
{
	uint64_t little = htole64((uint64_t)length);
	FILE *f = open_for_writing(dir, file);

	if (length >= 0)
		fwrite(&little, sizeof(little), 1, f);
	fwrite(text, 1, bytes, f);
	if (fclose(f) != 0)
		err(1, "%s/%s", dir, file);
}

void
shards_write_index(const char *dir, const char *map)
{
	FILE *f = open_for_writing(dir, CHECKPOINT_INDEX);

	fprintf(f, "{\"metadata\":{\"total_size\":0},\"weight_map\":%s}", map);
	if (fclose(f) != 0)
		err(1, "%s/" CHECKPOINT_INDEX, dir);
}

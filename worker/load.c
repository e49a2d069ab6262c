#include "worker/load_private.h"

#include "kernels/checksum.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FNV_BASIS  UINT64_C(0xcbf29ce484222325)
#define FNV_FACTOR UINT64_C(0x100000001b3)

struct digest {
	uint64_t fnv, mixed;
};

/* Length of the name up to and with "layers.N.", 0 if it is not within a layer. */
static size_t
layer_prefix(const char *name)
{
	static const char word[] = "layers.";
	const char *p = name, *end;

	while ((p = strstr(p, word)) != NULL) {
		end = p + sizeof(word) - 1;
		while (isdigit((unsigned char)*end))
			end++;
		if ((p == name || p[-1] == '.') && end[-1] != '.' && *end == '.')
			return (size_t)(end - name) + 1;
		p++;
	}
	return 0;
}

/* Names that begin alike stand side by side in the order of names. */
static void
number_layers(struct load *load)
{
	const struct checkpoint *c = &load->checkpoint;
	const char *name, *last = NULL;
	size_t prefix, last_prefix = 0;

	for (size_t i = 0; i < c->tensor_count; i++) {
		name = c->tensors[c->by_name[i]].name;
		prefix = layer_prefix(name);
		load->slots[c->by_name[i]].layer = LOAD_NO_LAYER;
		if (prefix == 0)
			continue;
		if (last == NULL || prefix != last_prefix || strncmp(name, last, prefix) != 0)
			load->layer_count++;
		load->slots[c->by_name[i]].layer = load->layer_count - 1;
		last = name;
		last_prefix = prefix;
	}
}

static int
plan_slot(struct load *load, size_t i, struct load_error *error)
{
	const struct tensor *tensor = &load->checkpoint.tensors[i];
	const char *path = load->checkpoint.files[tensor->file].path;
	struct load_slot *slot = &load->slots[i];
	struct load_error inner;
	uint64_t next;

	if (slice_of(tensor, load->rank, load->world_size, &slot->slice, &inner) != 0)
		return load_error_set(error, 0, "%s: %s", path, inner.text);
	slot->arena_offset = load->arena_bytes;
	if (__builtin_add_overflow(load->arena_bytes, slice_bytes(&slot->slice), &next) ||
	    next > SIZE_MAX / 2)
		return load_error_set(error, ENOMEM, "%s: tensor '%s': the bytes up to here", path,
				      tensor->name);
	load->arena_bytes = (next + LOAD_ALIGN_BYTES - 1) / LOAD_ALIGN_BYTES * LOAD_ALIGN_BYTES;
	slice_totals_add(&load->totals, &slot->slice);
	return 0;
}

static int
plan(struct load *load, struct load_error *error)
{
	load->slots = calloc(load->checkpoint.tensor_count + 1, sizeof(*load->slots));
	if (load->slots == NULL)
		return load_error_set(error, ENOMEM, "the plan of the load");
	for (size_t i = 0; i < load->checkpoint.tensor_count; i++)
		if (plan_slot(load, i, error) != 0)
			return -1;
	number_layers(load);
	return load_plan_pieces(load, error);
}

struct load *
load_open(const char *dir, int rank, int world_size, struct load_error *error)
{
	struct load *load;

	load = calloc(1, sizeof(*load));
	if (load == NULL) {
		load_error_set(error, ENOMEM, "%s", dir);
		return NULL;
	}
	load->rank = rank;
	load->world_size = world_size;
	load->done_fd = -1;
	pthread_mutex_init(&load->mutex, NULL);
	if (checkpoint_open(&load->checkpoint, dir, error) != 0 || plan(load, error) != 0) {
		load_close(load);
		return NULL;
	}
	return load;
}

int
load_run(struct load *load, const struct load_options *options, struct load_error *error)
{
	if (load_start(load, options, error) != 0)
		return -1;
	return load_finish(load, error);
}

void
load_close(struct load *load)
{
	if (load == NULL)
		return;
	if (load->started && !load->finished) {
		load_cancel(load);
		load_finish(load, NULL);
	}
	if (load->map != NULL)
		munmap(load->map, load->map_bytes);
	if (load->done_fd >= 0)
		close(load->done_fd);
	pthread_mutex_destroy(&load->mutex);
	checkpoint_close(&load->checkpoint);
	free(load->slots);
	free(load->pieces);
	free(load->layer_left);
	free(load);
}

size_t
load_part_count(const struct load *load)
{
	return load->checkpoint.tensor_count;
}

struct load_part
load_part_get(const struct load *load, size_t i)
{
	const struct tensor *tensor = &load->checkpoint.tensors[i];
	struct load_slot *slot = &load->slots[i];

	return (struct load_part){
	    .name = tensor->name,
	    .dtype = tensor->dtype,
	    .ndim = tensor->ndim,
	    .shape = tensor->shape,
	    .cut = slot->slice.cut,
	    .rows = slot->slice.rows,
	    .columns = slot->slice.columns,
	    .bytes = slice_bytes(&slot->slice),
	    .data = load->arena != NULL ? load->arena + slot->arena_offset : NULL,
	    .checksum = atomic_load(&slot->sum),
	};
}

bool
load_part_find(const struct load *load, const char *name, struct load_part *part)
{
	ssize_t i = checkpoint_find(&load->checkpoint, name);

	if (i < 0)
		return false;
	*part = load_part_get(load, (size_t)i);
	return true;
}

void
load_totals_get(const struct load *load, struct slice_totals *totals)
{
	*totals = load->totals;
}

uint64_t
load_shard_count(const struct load *load)
{
	return load->checkpoint.file_count;
}

uint64_t
load_layer_count(const struct load *load)
{
	return load->layer_count;
}

unsigned char *
load_arena(const struct load *load, size_t *bytes)
{
	*bytes = load->arena != NULL ? load->arena_bytes : 0;
	return load->arena;
}

static void
digest_add(struct digest *digest, const void *data, size_t bytes)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < bytes; i++) {
		digest->fnv = (digest->fnv ^ p[i]) * FNV_FACTOR;
		digest->mixed = checksum_splitmix64(digest->mixed ^ p[i]);
	}
}

static void
digest_add_number(struct digest *digest, uint64_t number)
{
	unsigned char bytes[8];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(number >> (8 * i));
	digest_add(digest, bytes, sizeof(bytes));
}

uint64_t
load_checksum(const struct load *load)
{
	uint64_t total = 0;

	for (size_t i = 0; i < load->checkpoint.tensor_count; i++) {
		const char *name = load->checkpoint.tensors[i].name;
		struct digest weight = {.fnv = FNV_BASIS};

		if (load->slots[i].slice.cut == SLICE_WHOLE && load->rank != 0)
			continue;
		digest_add(&weight, name, strlen(name));
		total += atomic_load(&load->slots[i].sum) * (weight.fnv | 1);
	}
	return total;
}

void
load_digest(const struct load *load, char digest[LOAD_DIGEST_BYTES])
{
	const struct checkpoint *c = &load->checkpoint;
	struct digest d = {.fnv = FNV_BASIS};

	for (size_t i = 0; i < c->tensor_count; i++) {
		const struct tensor *tensor = &c->tensors[c->by_name[i]];
		const char *word = dtype_word(tensor->dtype);

		digest_add(&d, tensor->name, strlen(tensor->name) + 1);
		digest_add(&d, word, strlen(word) + 1);
		digest_add_number(&d, tensor->ndim);
		for (size_t k = 0; k < tensor->ndim; k++)
			digest_add_number(&d, tensor->shape[k]);
	}
	snprintf(digest, LOAD_DIGEST_BYTES, "%016" PRIx64 "%016" PRIx64, d.fnv, d.mixed);
}

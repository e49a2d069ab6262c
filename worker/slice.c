#include "worker/slice.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

static const struct {
	const char *module; /* the last component but "weight" */
	enum slice_cut cut;
} cuts[] = {
    {"q_proj", SLICE_ROWS},    {"k_proj", SLICE_ROWS},    {"v_proj", SLICE_ROWS},
    {"gate_proj", SLICE_ROWS}, {"up_proj", SLICE_ROWS},   {"embed_tokens", SLICE_ROWS},
    {"lm_head", SLICE_ROWS},   {"o_proj", SLICE_COLUMNS}, {"down_proj", SLICE_COLUMNS},
};

const char *
slice_cut_word(enum slice_cut cut)
{
	static const char *const words[SLICE_CUT_COUNT] = {
#define X(id, word) [SLICE_##id] = word,
	    SLICE_CUTS(X)
#undef X
	};

	return words[cut];
}

uint64_t
slice_bytes(const struct slice *slice)
{
	return slice->run * slice->count;
}

void
slice_totals_add(struct slice_totals *totals, const struct slice *slice)
{
	totals->bytes += slice_bytes(slice);
	totals->tensors_by_cut[slice->cut]++;
	totals->bytes_by_cut[slice->cut] += slice_bytes(slice);
}

/* True if the name is MODULE.weight, or ends in .MODULE.weight. */
static bool
names_weight_of(const char *name, const char *module)
{
	static const char suffix[] = ".weight";
	size_t n = strlen(name), m = strlen(module), s = sizeof(suffix) - 1;

	return n >= m + s && strcmp(name + n - s, suffix) == 0 &&
	       memcmp(name + n - s - m, module, m) == 0 &&
	       (n == m + s || name[n - s - m - 1] == '.');
}

enum slice_cut
slice_cut_of(const char *name, size_t ndim)
{
	if (ndim != 2)
		return SLICE_WHOLE;
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++)
		if (names_weight_of(name, cuts[i].module))
			return cuts[i].cut;
	return SLICE_WHOLE;
}

static int
check_divides(const struct tensor *tensor, enum slice_cut cut, int world_size,
	      struct load_error *error)
{
	uint64_t n = tensor->shape[cut == SLICE_ROWS ? 0 : 1];
	uint64_t row_bits = tensor->shape[1] * dtype_bits(tensor->dtype);

	if (n % (uint64_t)world_size != 0)
		return load_error_set(error, 0,
				      "tensor '%s': %" PRIu64 " %s do not divide among %d ranks",
				      tensor->name, n, slice_cut_word(cut), world_size);
	if (row_bits % 8 != 0 || (cut == SLICE_COLUMNS && row_bits / (uint64_t)world_size % 8 != 0))
		return load_error_set(error, 0,
				      "tensor '%s': its rows of %" PRIu64
				      " %s cannot be cut at whole bytes for %d ranks",
				      tensor->name, tensor->shape[1], dtype_word(tensor->dtype),
				      world_size);
	return 0;
}

static struct slice
whole(const struct tensor *tensor)
{
	return (struct slice){
	    .cut = SLICE_WHOLE,
	    .run = tensor->bytes,
	    .stride = tensor->bytes,
	    .count = tensor->bytes > 0,
	};
}

int
slice_of(const struct tensor *tensor, int rank, int world_size, struct slice *slice,
	 struct load_error *error)
{
	enum slice_cut cut = slice_cut_of(tensor->name, tensor->ndim);
	uint64_t n = (uint64_t)world_size, row_bytes;

	*slice = whole(tensor);
	if (cut == SLICE_WHOLE)
		return 0;
	slice->cut = cut;
	slice->rows = tensor->shape[0];
	slice->columns = tensor->shape[1];
	if (world_size == 1)
		return 0;
	if (check_divides(tensor, cut, world_size, error) != 0)
		return -1;
	row_bytes = tensor->shape[1] * dtype_bits(tensor->dtype) / 8;
	if (cut == SLICE_ROWS) {
		slice->rows /= n;
		slice->run = slice->stride = slice->rows * row_bytes;
		slice->first = (uint64_t)rank * slice->run;
	} else {
		slice->columns /= n;
		slice->run = row_bytes / n;
		slice->stride = row_bytes;
		slice->first = (uint64_t)rank * slice->run;
		slice->count = slice->run > 0 ? slice->rows : 0;
	}
	return 0;
}

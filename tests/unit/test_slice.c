/* sources: worker/slice.c worker/safetensors.c worker/load_error.c */
#include "worker/slice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tensor
tensor_of(const char *name, enum dtype dtype, uint64_t rows, uint64_t columns, uint64_t *shape)
{
	shape[0] = rows;
	shape[1] = columns;
	return (struct tensor){
	    .name = (char *)(uintptr_t)name,
	    .dtype = dtype,
	    .ndim = 2,
	    .shape = shape,
	    .bytes = rows * columns * dtype_bits(dtype) / 8,
	};
}

static void
the_name_tells_the_cut(void **state)
{
	static const struct {
		const char *name;
		enum slice_cut cut;
	} cases[] = {
	    {"model.layers.0.self_attn.q_proj.weight", SLICE_ROWS},
	    {"model.layers.0.self_attn.k_proj.weight", SLICE_ROWS},
	    {"model.layers.0.self_attn.v_proj.weight", SLICE_ROWS},
	    {"model.layers.0.self_attn.o_proj.weight", SLICE_COLUMNS},
	    {"model.layers.0.mlp.gate_proj.weight", SLICE_ROWS},
	    {"model.layers.0.mlp.up_proj.weight", SLICE_ROWS},
	    {"model.layers.0.mlp.down_proj.weight", SLICE_COLUMNS},
	    {"model.layers.7.mlp.experts.3.down_proj.weight", SLICE_COLUMNS},
	    {"model.layers.7.mlp.experts.3.gate_proj.weight", SLICE_ROWS},
	    {"model.embed_tokens.weight", SLICE_ROWS},
	    {"lm_head.weight", SLICE_ROWS},
	    {"model.layers.7.mlp.gate.weight", SLICE_WHOLE},
	    {"model.layers.0.self_attn.q_norm.weight", SLICE_WHOLE},
	    {"model.layers.0.self_attn.q_proj.weight_scale", SLICE_WHOLE},
	    {"model.layers.0.self_attn.qkv_proj.weight", SLICE_WHOLE},
	    {"model.layers.0.self_attn.xq_proj.weight", SLICE_WHOLE},
	    {"my_lm_head.weight", SLICE_WHOLE},
	    {"q_proj", SLICE_WHOLE},
	    {"weight", SLICE_WHOLE},
	    {"", SLICE_WHOLE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(slice_cut_of(cases[i].name, 2), cases[i].cut);
}

static void
only_two_dimensions_are_cut(void **state)
{
	(void)state;
	for (size_t ndim = 0; ndim < 5; ndim++)
		assert_int_equal(slice_cut_of("a.q_proj.weight", ndim),
				 ndim == 2 ? SLICE_ROWS : SLICE_WHOLE);
}

/* Counts how often each byte of the tensor is in a slice of some rank. */
static void
count_bytes(const struct tensor *tensor, int world_size, unsigned char *seen)
{
	struct load_error error;
	struct slice slice;
	uint64_t total = 0;

	for (int rank = 0; rank < world_size; rank++) {
		assert_int_equal(slice_of(tensor, rank, world_size, &slice, &error), 0);
		for (uint64_t i = 0; i < slice.count; i++)
			for (uint64_t k = 0; k < slice.run; k++)
				seen[slice.first + i * slice.stride + k]++;
		total += slice_bytes(&slice);
	}
	assert_int_equal(total, tensor->bytes);
}

static void
cut_slices_hold_each_byte_once(void **state)
{
	static const char *const names[] = {"a.up_proj.weight", "a.down_proj.weight"};
	unsigned char seen[12 * 24 * 2];
	uint64_t shape[2];

	(void)state;
	for (size_t n = 0; n < 2; n++)
		for (int world_size = 1; world_size <= 4; world_size++) {
			struct tensor t = tensor_of(names[n], DTYPE_BF16, 12, 24, shape);

			memset(seen, 0, sizeof(seen));
			count_bytes(&t, world_size, seen);
			for (size_t i = 0; i < sizeof(seen); i++)
				assert_int_equal(seen[i], 1);
		}
}

static void
columns_of_rank_1_of_3_lie_where_they_should(void **state)
{
	uint64_t shape[2];
	struct tensor t = tensor_of("o_proj.weight", DTYPE_F32, 5, 6, shape);
	struct slice slice;

	(void)state;
	assert_int_equal(slice_of(&t, 1, 3, &slice, NULL), 0);
	assert_int_equal(slice.cut, SLICE_COLUMNS);
	assert_int_equal(slice.first, 8);
	assert_int_equal(slice.run, 8);
	assert_int_equal(slice.stride, 24);
	assert_int_equal(slice.count, 5);
	assert_int_equal(slice.rows, 5);
	assert_int_equal(slice.columns, 2);
}

static void
whole_tensors_are_every_ranks(void **state)
{
	uint64_t shape[2];
	struct tensor t = tensor_of("model.norm.weight", DTYPE_BF16, 7, 1, shape);
	struct slice slice;

	(void)state;
	for (int rank = 0; rank < 4; rank++) {
		assert_int_equal(slice_of(&t, rank, 4, &slice, NULL), 0);
		assert_int_equal(slice.cut, SLICE_WHOLE);
		assert_int_equal(slice_bytes(&slice), 14);
	}
}

static void
what_does_not_divide_is_refused_by_name(void **state)
{
	uint64_t shape[2];
	struct tensor rows = tensor_of("a.b.v_proj.weight", DTYPE_BF16, 10, 9, shape);
	struct load_error error;
	struct slice slice;

	(void)state;
	assert_int_equal(slice_of(&rows, 0, 3, &slice, &error), -1);
	assert_non_null(strstr(error.text, "'a.b.v_proj.weight'"));
	assert_non_null(strstr(error.text, "10 rows"));
	assert_non_null(strstr(error.text, "3 ranks"));
	assert_int_equal(slice_of(&rows, 0, 5, &slice, &error), 0);
}

static void
elements_below_a_byte_are_not_cut_in_two(void **state)
{
	uint64_t shape[2];
	struct tensor t = tensor_of("x.down_proj.weight", DTYPE_F4, 8, 6, shape);
	struct load_error error;
	struct slice slice;

	(void)state;
	assert_int_equal(slice_of(&t, 0, 2, &slice, &error), -1);
	assert_non_null(strstr(error.text, "x.down_proj.weight"));
	t = tensor_of("x.up_proj.weight", DTYPE_F4, 8, 3, shape);
	assert_int_equal(slice_of(&t, 0, 2, &slice, &error), -1);
	assert_int_equal(slice_of(&t, 0, 1, &slice, &error), 0);
	t = tensor_of("x.down_proj.weight", DTYPE_F4, 8, 8, shape);
	assert_int_equal(slice_of(&t, 1, 2, &slice, &error), 0);
	assert_int_equal(slice.first, 2);
}

static void
empty_tensors_have_no_runs(void **state)
{
	uint64_t shape[2];
	struct tensor t = tensor_of("q_proj.weight", DTYPE_BF16, 0, 8, shape);
	struct slice slice;

	(void)state;
	assert_int_equal(slice_of(&t, 1, 2, &slice, NULL), 0);
	assert_int_equal(slice.count, 0);
	t = tensor_of("o_proj.weight", DTYPE_BF16, 8, 0, shape);
	assert_int_equal(slice_of(&t, 1, 2, &slice, NULL), 0);
	assert_int_equal(slice.count, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_name_tells_the_cut),
	    cmocka_unit_test(only_two_dimensions_are_cut),
	    cmocka_unit_test(cut_slices_hold_each_byte_once),
	    cmocka_unit_test(columns_of_rank_1_of_3_lie_where_they_should),
	    cmocka_unit_test(whole_tensors_are_every_ranks),
	    cmocka_unit_test(what_does_not_divide_is_refused_by_name),
	    cmocka_unit_test(elements_below_a_byte_are_not_cut_in_two),
	    cmocka_unit_test(empty_tensors_have_no_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

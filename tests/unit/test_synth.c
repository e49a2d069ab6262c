/* sources: worker/synth.c worker/synth_write.c worker/checkpoint.c worker/safetensors.c worker/load_error.c kernels/checksum_ref.c tests/unit/shards.c */
#include "worker/synth.h"

#include "tests/unit/shards.h"
#include "worker/checkpoint.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char parent[SHARDS_DIR_BYTES];
static char dir[128];

static int
setup(void **state)
{
	(void)state;
	shards_make_dir(parent);
	snprintf(dir, sizeof(dir), "%s/model", parent);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	shards_remove_dir(dir);
	shards_remove_dir(parent);
	return 0;
}

static struct synth_model
small_model(void)
{
	struct synth_model model = {.layers = 3,
				    .hidden = 64,
				    .intermediate = 96,
				    .vocab = 32,
				    .shard_bytes = SYNTH_SHARD_BYTES};

	assert_int_equal(synth_choose_heads(&model, NULL), 0);
	return model;
}

static void
heads_are_chosen_as_real_models_have_them(void **state)
{
	static const struct {
		uint64_t hidden, head_dim, heads, kv_heads;
	} cases[] = {
	    {4096, 128, 32, 8}, {1024, 128, 8, 4}, {512, 64, 8, 4},
	    {64, 64, 1, 1},     {36, 4, 9, 1},     {7, 1, 7, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct synth_model m = {.hidden = cases[i].hidden};

		assert_int_equal(synth_choose_heads(&m, NULL), 0);
		assert_int_equal(m.head_dim, cases[i].head_dim);
		assert_int_equal(m.heads, cases[i].heads);
		assert_int_equal(m.kv_heads, cases[i].kv_heads);
	}
}

static void
heads_that_do_not_fit_are_refused(void **state)
{
	struct synth_model uneven = {.hidden = 96, .heads = 3, .kv_heads = 2};
	struct synth_model wide = {.hidden = 64, .head_dim = 128};
	struct load_error error;

	(void)state;
	assert_int_equal(synth_choose_heads(&uneven, &error), -1);
	assert_non_null(strstr(error.text, "3 heads"));
	assert_int_equal(synth_choose_heads(&wide, &error), -1);
	assert_non_null(strstr(error.text, "128"));
}

/* As many shards as asked for, none of them empty, and all of them a checkpoint. */
static void
every_number_of_shards_can_be_had(void **state)
{
	const atomic_bool stop = false;
	struct synth_model model = small_model();
	struct synth_result result = {.tensors = 1};
	struct checkpoint c;

	(void)state;
	for (model.shards = 1; model.shards <= result.tensors; model.shards++) {
		assert_int_equal(synth_write(dir, &model, &stop, &result, NULL), 0);
		assert_int_equal(result.shards, model.shards);
		assert_int_equal(checkpoint_open(&c, dir, NULL), 0);
		assert_int_equal(c.file_count, model.shards);
		assert_int_equal(c.tensor_count, result.tensors);
		checkpoint_close(&c);
		shards_remove_dir(dir);
	}
	assert_int_equal(synth_write(dir, &model, &stop, &result, NULL), -1);
	assert_int_equal(access(dir, F_OK), -1);
}

static void
shards_of_a_size_are_not_larger(void **state)
{
	const atomic_bool stop = false;
	struct synth_model model = small_model();
	struct synth_result result;
	struct checkpoint c;

	(void)state;
	model.shard_bytes = 30000;
	assert_int_equal(synth_write(dir, &model, &stop, &result, NULL), 0);
	assert_int_equal(checkpoint_open(&c, dir, NULL), 0);
	assert_true(c.file_count > 2);
	for (size_t i = 0; i < c.file_count; i++)
		assert_true(c.files[i].bytes < 30000 + 4096);
	checkpoint_close(&c);
}

static void
a_stopped_write_leaves_nothing(void **state)
{
	const atomic_bool stop = true;
	struct synth_model model = small_model();
	struct synth_result result;
	struct load_error error;

	(void)state;
	assert_int_equal(synth_write(dir, &model, &stop, &result, &error), -1);
	assert_int_equal(error.error_number, ECANCELED);
	assert_int_equal(access(dir, F_OK), -1);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(synth_write(dir, &model, &stop, &result, &error), -1);
	assert_int_equal(rmdir(dir), 0);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(heads_are_chosen_as_real_models_have_them),
	    TEST(heads_that_do_not_fit_are_refused),
	    TEST(every_number_of_shards_can_be_had),
	    TEST(shards_of_a_size_are_not_larger),
	    TEST(a_stopped_write_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

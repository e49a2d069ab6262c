/* sources: worker/load.c worker/load_run.c worker/checkpoint.c worker/slice.c worker/safetensors.c worker/load_error.c kernels/checksum_ref.c tests/unit/shards.c */
#include "worker/load.h"

#include "kernels/checksum.h"
#include "tests/unit/shards.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define HANG_SECONDS 60
#define ONE          "one.safetensors"
#define TWO          "two.safetensors"
#define COUNT(v)     (sizeof(v) / sizeof((v)[0]))

/* Runs of odd lengths, of more than a block, with gaps that are read through and that are not. */
static const struct shard_tensor one[] = {
    {"model.embed_tokens.weight", DTYPE_BF16, 2, {24, 7, 0}},
    {"model.layers.0.self_attn.o_proj.weight", DTYPE_U8, 2, {1000, 12, 0}},
    {"model.layers.0.norm.weight", DTYPE_F32, 1, {13, 0, 0}},
    {"model.layers.0.mlp.up_proj.weight", DTYPE_BF16, 2, {12, 400001, 0}},
    {"model.layers.0.mlp.gate_proj.weight", DTYPE_BF16, 2, {0, 5, 0}},
};
static const struct shard_tensor two[] = {
    {"model.layers.1.mlp.down_proj.weight", DTYPE_U8, 2, {5, 600012, 0}},
    {"model.layers.10.mlp.experts.3.down_proj.weight", DTYPE_BF16, 2, {3, 36, 0}},
    {"model.layers.1.scale", DTYPE_F64, 0, {0, 0, 0}},
    {"lm_head.weight", DTYPE_F16, 2, {12, 1, 0}},
};
static char dir[SHARDS_DIR_BYTES];

static void
write_checkpoint(void)
{
	char map[2048];
	size_t n = 0;

	shards_write(dir, ONE, one, COUNT(one));
	shards_write(dir, TWO, two, COUNT(two));
	for (size_t i = 0; i < COUNT(one); i++)
		n += (size_t)snprintf(map + n, sizeof(map) - n, "%s\"%s\":\"" ONE "\"",
				      i == 0 ? "{" : ",", one[i].name);
	for (size_t i = 0; i < COUNT(two); i++)
		n += (size_t)snprintf(map + n, sizeof(map) - n, ",\"%s\":\"" TWO "\"", two[i].name);
	snprintf(map + n, sizeof(map) - n, "}");
	shards_write_index(dir, map);
}

static int
setup(void **state)
{
	(void)state;
	alarm(HANG_SECONDS);
	shards_make_dir(dir);
	write_checkpoint();
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	shards_remove_dir(dir);
	alarm(0);
	return 0;
}

static struct load *
load_of(int rank, int world_size, const struct load_options *options)
{
	struct load_error error = {.text = ""};
	struct load *load = load_open(dir, rank, world_size, &error);

	if (load == NULL)
		fail_msg("%s", error.text);
	if (load_run(load, options, &error) != 0)
		fail_msg("%s", error.text);
	return load;
}

/* Every byte of the part is the one of the whole tensor at its row and column. */
static void
check_bytes(const struct load_part *part, int rank, int world_size)
{
	uint64_t element = dtype_bits(part->dtype) / 8;
	uint64_t columns = part->ndim == 2 ? part->shape[1] : 1;
	uint64_t first_row = part->cut == SLICE_ROWS ? part->rows * (uint64_t)rank : 0;
	uint64_t first_column = part->cut == SLICE_COLUMNS ? part->columns * (uint64_t)rank : 0;
	uint64_t row, column, seed = shards_seed(part->name);

	assert_int_equal((uintptr_t)part->data % LOAD_ALIGN_BYTES, 0);
	for (uint64_t k = 0; k < part->bytes; k++) {
		uint64_t at = k;

		if (part->cut != SLICE_WHOLE) {
			row = first_row + k / (part->columns * element);
			column = first_column * element + k % (part->columns * element);
			at = row * columns * element + column;
		}
		if (part->data[k] != shards_byte(seed, at))
			fail_msg("rank %d of %d: %s: byte %ju is wrong", rank, world_size,
				 part->name, (uintmax_t)k);
	}
}

static void
each_rank_has_its_bytes_and_the_sums_add_up(void **state)
{
	const struct load_options verify = {.no_arena = true, .threads = 2}, options = {0};
	struct load *whole = load_of(0, 1, &verify);

	(void)state;
	for (int world_size = 1; world_size <= 4; world_size++) {
		uint64_t sums[COUNT(one) + COUNT(two)] = {0}, total = 0;

		for (int rank = 0; rank < world_size; rank++) {
			struct load *load = load_of(rank, world_size, &options);

			for (size_t i = 0; i < load_part_count(load); i++) {
				struct load_part part = load_part_get(load, i);

				check_bytes(&part, rank, world_size);
				if (part.cut != SLICE_WHOLE || rank == 0)
					sums[i] += part.checksum;
			}
			total += load_checksum(load);
			load_close(load);
		}
		for (size_t i = 0; i < load_part_count(whole); i++)
			assert_true(sums[i] == load_part_get(whole, i).checksum);
		assert_true(total == load_checksum(whole));
	}
	load_close(whole);
}

static void
the_sum_is_that_of_the_bytes(void **state)
{
	const struct load_options options = {.threads = 3};
	struct load *load = load_of(0, 1, &options);
	struct load_part part;

	(void)state;
	for (size_t i = 0; i < load_part_count(load); i++) {
		part = load_part_get(load, i);
		assert_true(part.checksum == checksum_part(part.data, part.bytes, 0));
	}
	assert_true(load_part_find(load, "lm_head.weight", &part));
	assert_int_equal(part.bytes, 24);
	assert_false(load_part_find(load, "lm_head", &part));
	load_close(load);
}

static void
tensors_exchanged_change_the_total(void **state)
{
	static const struct shard_tensor pair[] = {{"a", DTYPE_U8, 1, {64, 0, 0}},
						   {"b", DTYPE_U8, 1, {64, 0, 0}}};
	const struct load_options options = {0};
	char data[128], header[] =
			    "{\"a\":{\"dtype\":\"U8\",\"shape\":[64],\"data_offsets\":[0,64]},"
			    "\"b\":{\"dtype\":\"U8\",\"shape\":[64],\"data_offsets\":[64,128]}}";
	char file[sizeof(header) - 1 + sizeof(data)];
	struct load *load;
	uint64_t before;

	(void)state;
	shards_remove_dir(dir);
	shards_make_dir(dir);
	shards_write(dir, "model.safetensors", pair, 2);
	load = load_of(0, 1, &options);
	before = load_checksum(load);
	load_close(load);
	for (uint64_t k = 0; k < sizeof(data); k++)
		data[k] = (char)shards_byte(shards_seed(k < 64 ? "b" : "a"), k % 64);
	memcpy(file, header, sizeof(header) - 1);
	memcpy(file + sizeof(header) - 1, data, sizeof(data));
	shards_write_raw(dir, "model.safetensors", sizeof(header) - 1, file, sizeof(file));
	load = load_of(0, 1, &options);
	assert_true(load_checksum(load) != before);
	load_close(load);
}

/* A file that loses its end after the headers were checked is an error, never a signal. */
static void
a_file_cut_short_while_loading_is_an_error(void **state)
{
	const struct load_options options = {.threads = 2};
	struct load_error error;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/" TWO, dir);
	for (int world_size = 1; world_size <= 2; world_size++) {
		struct load *load = load_open(dir, 0, world_size, &error);

		assert_non_null(load);
		assert_int_equal(truncate(path, 700000), 0);
		assert_int_equal(load_run(load, &options, &error), -1);
		assert_int_equal(error.error_number, 0);
		assert_non_null(strstr(error.text, path));
		assert_non_null(strstr(error.text, "at offset"));
		assert_non_null(strstr(error.text, "expected"));
		assert_non_null(strstr(error.text, "cut short"));
		load_close(load);
		write_checkpoint();
	}
}

struct watch {
	struct load_progress last;
	struct load *cancel; /* at the first call */
	uint64_t calls;
	bool fell;
};

static void
on_progress(const struct load_progress *progress, void *arg)
{
	struct watch *w = arg;

	w->fell |= progress->bytes_done < w->last.bytes_done ||
		   progress->layers_done < w->last.layers_done;
	w->last = *progress;
	w->calls++;
	if (w->cancel != NULL)
		load_cancel(w->cancel);
}

static void
progress_rises_to_all_layers_and_bytes(void **state)
{
	struct watch w = {0};
	const struct load_options options = {.threads = 4, .progress = on_progress, .arg = &w};
	struct load *load = load_of(1, 2, &options);
	struct slice_totals totals;

	(void)state;
	load_totals_get(load, &totals);
	assert_false(w.fell);
	assert_true(w.calls >= 1);
	assert_int_equal(w.last.layers, 3);
	assert_int_equal(w.last.layers_done, 3);
	assert_int_equal(w.last.bytes, totals.bytes);
	assert_int_equal(w.last.bytes_done, totals.bytes);
	assert_int_equal(load_layer_count(load), 3);
	load_close(load);
}

static void
a_cancelled_load_ends_and_says_so(void **state)
{
	struct watch w = {0};
	const struct load_options options = {.threads = 1, .progress = on_progress, .arg = &w};
	struct load_error error;
	struct load *load = load_open(dir, 0, 1, &error);

	(void)state;
	w.cancel = load;
	assert_int_equal(load_run(load, &options, &error), -1);
	assert_int_equal(error.error_number, ECANCELED);
	assert_int_equal(w.calls, 1);
	load_close(load);
}

static void
closing_ends_a_load_that_still_reads(void **state)
{
	const struct load_options options = {0};
	struct load_error error;
	struct load *load = load_open(dir, 0, 1, &error);

	(void)state;
	assert_int_equal(load_start(load, &options, &error), 0);
	load_close(load);
}

static void
the_descriptor_tells_the_end(void **state)
{
	const struct load_options options = {.threads = 2};
	struct load_error error;
	struct load *load = load_open(dir, 0, 2, &error);
	struct pollfd pfd = {.events = POLLIN};

	(void)state;
	assert_int_equal(load_start(load, &options, &error), 0);
	pfd.fd = load_fd(load);
	assert_int_equal(poll(&pfd, 1, -1), 1);
	assert_int_equal(load_finish(load, &error), 0);
	load_close(load);
}

static void
what_does_not_divide_is_refused_before_reading(void **state)
{
	struct load_error error;

	(void)state;
	assert_null(load_open(dir, 0, 5, &error));
	assert_non_null(strstr(error.text, dir));
	assert_non_null(strstr(error.text, "'model.embed_tokens.weight'"));
}

static void
the_digest_follows_the_tensors_not_the_files(void **state)
{
	struct shard_tensor all[COUNT(one) + COUNT(two)];
	char first[LOAD_DIGEST_BYTES], same[LOAD_DIGEST_BYTES], other[LOAD_DIGEST_BYTES];
	struct load *load = load_open(dir, 0, 1, NULL);

	(void)state;
	load_digest(load, first);
	load_close(load);
	memcpy(all, two, sizeof(two));
	memcpy(all + COUNT(two), one, sizeof(one));
	shards_remove_dir(dir);
	shards_make_dir(dir);
	shards_write(dir, "model.safetensors", all, COUNT(all));
	load = load_open(dir, 1, 2, NULL);
	load_digest(load, same);
	load_close(load);
	all[0].shape[0]++;
	shards_write(dir, "model.safetensors", all, COUNT(all));
	load = load_open(dir, 0, 1, NULL);
	load_digest(load, other);
	load_close(load);
	assert_int_equal(strlen(first), LOAD_DIGEST_BYTES - 1);
	assert_string_equal(first, same);
	assert_string_not_equal(first, other);
}

static void
a_checkpoint_without_bytes_loads(void **state)
{
	struct watch w = {0};
	const struct load_options options = {.progress = on_progress, .arg = &w};
	struct load *load;
	size_t bytes;

	(void)state;
	shards_remove_dir(dir);
	shards_make_dir(dir);
	shards_write(dir, "model.safetensors", &one[4], 1);
	load = load_of(0, 2, &options);
	assert_int_equal(w.last.layers_done, 1);
	assert_non_null(load_arena(load, &bytes));
	load_close(load);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(each_rank_has_its_bytes_and_the_sums_add_up),
	    TEST(the_sum_is_that_of_the_bytes),
	    TEST(tensors_exchanged_change_the_total),
	    TEST(a_file_cut_short_while_loading_is_an_error),
	    TEST(progress_rises_to_all_layers_and_bytes),
	    TEST(a_cancelled_load_ends_and_says_so),
	    TEST(closing_ends_a_load_that_still_reads),
	    TEST(the_descriptor_tells_the_end),
	    TEST(what_does_not_divide_is_refused_before_reading),
	    TEST(the_digest_follows_the_tensors_not_the_files),
	    TEST(a_checkpoint_without_bytes_loads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

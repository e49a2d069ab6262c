/* sources: worker/checkpoint.c worker/safetensors.c worker/load_error.c tests/unit/shards.c */
#include "worker/checkpoint.h"

#include "tests/unit/shards.h"

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

#define HANG_SECONDS 20
#define ONE          "one.safetensors"
#define TWO          "two.safetensors"
#define MAP          "{\"a\":\"" ONE "\",\"b\":\"" TWO "\"}"

static const struct shard_tensor a[] = {{"a", DTYPE_BF16, 2, {3, 4, 0}}};
static const struct shard_tensor b[] = {{"b", DTYPE_U8, 0, {0, 0, 0}}};
static char dir[SHARDS_DIR_BYTES];

static int
setup(void **state)
{
	(void)state;
	alarm(HANG_SECONDS);
	shards_make_dir(dir);
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

static const char *
path_of(const char *file)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s%s%s", dir, file[0] != '\0' ? "/" : "", file);
	return path;
}

/* The texts must all be in the refusal. */
static void
assert_refused(const char *file, const char *found, const char *expected)
{
	struct load_error error = {.text = ""};
	struct checkpoint c;

	if (checkpoint_open(&c, dir, &error) == 0)
		fail_msg("accepted; expected a refusal with: %s", found);
	if (strstr(error.text, path_of(file)) == NULL || strstr(error.text, found) == NULL ||
	    strstr(error.text, expected) == NULL)
		fail_msg("refused with: %s\nexpected in it: %s, %s, %s", error.text, path_of(file),
			 found, expected);
	assert_int_equal(c.file_count, 0);
}

static void
index_and_files_make_one_checkpoint(void **state)
{
	struct load_error error;
	struct checkpoint c;

	(void)state;
	shards_write(dir, ONE, a, 1);
	shards_write(dir, TWO, b, 1);
	shards_write(dir, "stranger.safetensors", a, 1);
	shards_write_index(dir, MAP);
	assert_int_equal(checkpoint_open(&c, dir, &error), 0);
	assert_int_equal(c.file_count, 2);
	assert_int_equal(c.tensor_count, 2);
	assert_string_equal(c.files[1].name, TWO);
	assert_int_equal(c.tensors[1].file, 1);
	assert_int_equal(checkpoint_find(&c, "b"), 1);
	assert_int_equal(checkpoint_find(&c, "c"), -1);
	checkpoint_close(&c);
}

static void
one_file_needs_no_index(void **state)
{
	struct load_error error;
	struct checkpoint c;

	(void)state;
	shards_write(dir, CHECKPOINT_FILE, a, 1);
	assert_int_equal(checkpoint_open(&c, dir, &error), 0);
	assert_int_equal(c.tensor_count, 1);
	checkpoint_close(&c);
}

static void
a_link_to_a_file_elsewhere_is_followed(void **state)
{
	struct load_error error;
	struct checkpoint c;
	char elsewhere[SHARDS_DIR_BYTES], target[128];

	(void)state;
	shards_make_dir(elsewhere);
	shards_write(elsewhere, "blob", a, 1);
	snprintf(target, sizeof(target), "%s/blob", elsewhere);
	assert_int_equal(symlink(target, path_of(CHECKPOINT_FILE)), 0);
	assert_int_equal(checkpoint_open(&c, dir, &error), 0);
	checkpoint_close(&c);
	shards_remove_dir(elsewhere);
}

static void
a_folder_without_checkpoint_is_told_so(void **state)
{
	struct load_error error;
	struct checkpoint c;

	(void)state;
	assert_refused("", "found no checkpoint", CHECKPOINT_INDEX);
	assert_int_equal(checkpoint_open(&c, "/nowhere/at/all", &error), -1);
	assert_int_equal(error.error_number, ENOENT);
	assert_non_null(strstr(error.text, "/nowhere/at/all"));
}

static void
index_and_files_must_agree_both_ways(void **state)
{
	static const struct shard_tensor both[] = {{"b", DTYPE_U8, 0, {0, 0, 0}},
						   {"extra", DTYPE_U8, 0, {0, 0, 0}}};

	(void)state;
	shards_write(dir, ONE, a, 1);
	shards_write(dir, TWO, b, 1);
	shards_write_index(dir, "{\"a\":\"" ONE "\",\"b\":\"" TWO "\",\"absent\":\"" ONE "\"}");
	assert_refused(CHECKPOINT_INDEX, "'absent'", "'" ONE "', which does not have it");
	shards_write_index(dir, "{\"a\":\"" TWO "\",\"b\":\"" ONE "\"}");
	assert_refused(ONE, "tensor 'a'", "expects it in '" TWO "'");
	shards_write(dir, TWO, both, 2);
	shards_write_index(dir, MAP);
	assert_refused(TWO, "tensor 'extra'", "not listed");
	shards_write(dir, TWO, a, 1);
	assert_refused(TWO, "tensor 'a'", "expects it in '" ONE "'");
	unlink(path_of(TWO));
	assert_refused(TWO, "", "No such file");
}

static void
no_path_leads_out_of_the_folder(void **state)
{
	static const char *const names[] = {"../x", "/etc/passwd", "sub/x", "..", ".", ""};
	char map[128];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(map, sizeof(map), "{\"a\":\"%s\"}", names[i]);
		shards_write_index(dir, map);
		assert_refused(CHECKPOINT_INDEX, "tensor 'a': found file '",
			       "of the folder itself");
	}
}

static void
a_bad_index_is_refused(void **state)
{
	static const char *const maps[] = {"[]", "null", "3"};

	(void)state;
	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		shards_write_index(dir, maps[i]);
		assert_refused(CHECKPOINT_INDEX, "weight_map", "expected an object");
	}
	shards_write_index(dir, "{\"a\":1}");
	assert_refused(CHECKPOINT_INDEX, "tensor 'a'", "name of a file");
	shards_write_index(dir, "{\"a\":\"" ONE "\",\"a\":\"" ONE "\"}");
	assert_refused(CHECKPOINT_INDEX, "duplicate", "\"a\"");
	shards_write_raw(dir, CHECKPOINT_INDEX, -1, "[]", 2);
	assert_refused(CHECKPOINT_INDEX, "expected one object", "");
	shards_write_raw(dir, CHECKPOINT_INDEX, -1, "", 0);
	assert_refused(CHECKPOINT_INDEX, "not the JSON expected", "");
}

static void
only_regular_files_are_read_and_none_is_waited_for(void **state)
{
	(void)state;
	assert_int_equal(mkfifo(path_of(CHECKPOINT_FILE), 0600), 0);
	assert_refused(CHECKPOINT_FILE, "found a FIFO", "expected a regular file");
	unlink(path_of(CHECKPOINT_FILE));
	assert_int_equal(mkdir(path_of(CHECKPOINT_FILE), 0700), 0);
	assert_refused(CHECKPOINT_FILE, "found a folder", "expected a regular file");
	rmdir(path_of(CHECKPOINT_FILE));
	assert_int_equal(symlink("/dev/null", path_of(CHECKPOINT_FILE)), 0);
	assert_refused(CHECKPOINT_FILE, "found a special file", "expected a regular file");
	assert_int_equal(mkfifo(path_of(CHECKPOINT_INDEX), 0600), 0);
	assert_refused(CHECKPOINT_INDEX, "found a FIFO", "expected a regular file");
}

static void
wrong_lengths_are_refused(void **state)
{
	(void)state;
	shards_write_raw(dir, CHECKPOINT_FILE, -1, "", 0);
	assert_refused(CHECKPOINT_FILE, "found 0 bytes", "expected 8");
	shards_write_raw(dir, CHECKPOINT_FILE, -1, "1234567", 7);
	assert_refused(CHECKPOINT_FILE, "found 7 bytes", "expected 8");
	shards_write_raw(dir, CHECKPOINT_FILE, 100000001, "{}", 2);
	assert_refused(CHECKPOINT_FILE, "found length 100000001", "at most 100000000");
	shards_write_raw(dir, CHECKPOINT_FILE, 100000000, "{}", 2);
	assert_refused(CHECKPOINT_FILE, "found length 100000000", "at most 2");
	shards_write_raw(dir, CHECKPOINT_FILE, 0, "{}", 2);
	assert_refused(CHECKPOINT_FILE, "begin with '{'", "");
	shards_write_raw(dir, CHECKPOINT_FILE, INT64_MAX, "{}", 2);
	assert_refused(CHECKPOINT_FILE, "found length 9223372036854775807", "at most 100000000");
}

static void
a_file_cut_short_or_longer_is_refused(void **state)
{
	struct stat st;

	(void)state;
	shards_write(dir, CHECKPOINT_FILE, a, 1);
	assert_int_equal(stat(path_of(CHECKPOINT_FILE), &st), 0);
	assert_int_equal(truncate(path_of(CHECKPOINT_FILE), st.st_size - 1), 0);
	assert_refused(CHECKPOINT_FILE, "it is cut short", "expected");
	assert_int_equal(truncate(path_of(CHECKPOINT_FILE), st.st_size + 1), 0);
	assert_refused(CHECKPOINT_FILE, "bytes follow the last tensor", "expected");
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(index_and_files_make_one_checkpoint),
	    TEST(one_file_needs_no_index),
	    TEST(a_link_to_a_file_elsewhere_is_followed),
	    TEST(a_folder_without_checkpoint_is_told_so),
	    TEST(index_and_files_must_agree_both_ways),
	    TEST(no_path_leads_out_of_the_folder),
	    TEST(a_bad_index_is_refused),
	    TEST(only_regular_files_are_read_and_none_is_waited_for),
	    TEST(wrong_lengths_are_refused),
	    TEST(a_file_cut_short_or_longer_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

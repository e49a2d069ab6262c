/* sources: supervisor/config*.c supervisor/bound.c supervisor/environ.c supervisor/gpus.c */
#include "supervisor/gpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define RANKS         4

static struct config config;
static char error[GPUS_ERROR_BYTES];

/* [group] ranks, [worker] with a command, and `text` behind it. */
static void
load(const char *ranks, const char *text)
{
	struct config_error problem;
	char whole[512];
	FILE *file;

	snprintf(whole, sizeof(whole), "[group]\nranks = %s\n[worker]\ncommand = a\n%s", ranks,
		 text);
	file = fmemopen(whole, strlen(whole), "r");
	if (config_load_stream(file, "demo.ini", NULL, 0, &config, &problem) != 0)
		fail_msg("%s", problem.text);
	fclose(file);
}

static int
unload(void **state)
{
	(void)state;
	config_free(&config);
	return 0;
}

static void
shares_follow_gpus_per_rank_and_gpu_env(void **state)
{
	static const struct {
		const char *ranks, *text, *inherited;
		int count;
		const char *own[RANKS], *visible[RANKS];
	} cases[] = {
	    {"2", "", NULL, 2, {"0", "1"}, {"0,1", "0,1"}},
	    {"2", "gpu_env = first\n", NULL, 3, {"0", "1"}, {"0,1,2", "1,0,2"}},
	    {"2", "gpu_env = one\n", NULL, 2, {"0", "1"}, {"0", "1"}},
	    {"2", "", "5,3", 8, {"5", "3"}, {"5,3", "5,3"}},
	    {"2",
	     "gpu_env = first\n",
	     "GPU-a, GPU-b ,MIG-c",
	     8,
	     {"GPU-a", "GPU-b"},
	     {"GPU-a,GPU-b,MIG-c", "GPU-b,GPU-a,MIG-c"}},
	    {"2", "gpus = 7,5,6\ngpu_env = first\n", NULL, 8, {"7", "5"}, {"7,5,6", "5,7,6"}},
	    {"2", "gpus = 5,6\n", "4,5,6", 8, {"5", "6"}, {"5,6", "5,6"}},
	    {"2", "gpus_per_rank = 2\ngpu_env = one\n", NULL, 4, {"0,1", "2,3"}, {"0,1", "2,3"}},
	    {"2",
	     "gpus_per_rank = 2\ngpu_env = first\n",
	     NULL,
	     5,
	     {"0,1", "2,3"},
	     {"0,1,2,3,4", "2,3,0,1,4"}},
	    {"2", "gpus_per_rank = all\n", NULL, 3, {"0,1,2", "0,1,2"}, {"0,1,2", "0,1,2"}},
	    {"3",
	     "gpu_env = one\n[worker.1]\ngpus = 6,7\n",
	     NULL,
	     8,
	     {"0", "6,7", "1"},
	     {"0", "6,7", "1"}},
	    {"3", "[worker.1]\ngpus = none\n", NULL, 2, {"0", "", "1"}, {"0,1", NULL, "0,1"}},
	    {"3",
	     "gpu_env = one\n[worker.0]\ngpus_per_rank = 2\n",
	     NULL,
	     4,
	     {"0,1", "2", "3"},
	     {"0,1", "2", "3"}},
	    {"2",
	     "gpus = 0,1\n[worker.1]\ngpus = auto\n",
	     NULL,
	     3,
	     {"0", "0,1,2"},
	     {"0,1", "0,1,2"}},
	    {"2", "", NULL, 0, {"", ""}, {NULL, NULL}},
	    {"2", "", "0,1", 0, {"", ""}, {NULL, NULL}},
	    {"2", "", "", 8, {"", ""}, {NULL, NULL}},
	    {"2", "gpus = none\n", NULL, 8, {"", ""}, {NULL, NULL}},
	    /* CUDA ignores what follows the first name that is no device. */
	    {"1", "", "1,-1,0", 2, {"1"}, {"1"}},
	    {"1", "", "0,9,1", 2, {"0"}, {"0"}},
	};
	struct gpu_share share;
	struct gpus gpus;

	(void)state;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		load(cases[i].ranks, cases[i].text);
		if (gpus_open(&gpus, &config, cases[i].inherited, cases[i].count, error) != 0)
			fail_msg("case %zu: %s", i, error);
		for (int rank = 0; rank < config.ranks; rank++) {
			if (gpus_assign(&gpus, &config, rank, &share, error) != 0)
				fail_msg("case %zu: %s", i, error);
			assert_string_equal(share.own, cases[i].own[rank]);
			if (cases[i].visible[rank] == NULL)
				assert_null(share.visible);
			else
				assert_string_equal(share.visible, cases[i].visible[rank]);
			gpus_share_free(&share);
		}
		gpus_free(&gpus);
		config_free(&config);
	}
}

static void
auto_ranks_are_one_per_gpu(void **state)
{
	static const struct {
		const char *text, *inherited;
		int count, ranks;
	} cases[] = {
	    {"", NULL, 8, 8},
	    {"", NULL, 0, 0},
	    {"", "2,3", 8, 2},
	    {"", "", 8, 0},
	    {"gpus = 1,2,3\n", NULL, 8, 3},
	    {"gpus_per_rank = 2\n", NULL, 8, 4},
	    {"gpus_per_rank = 3\n", NULL, 8, 2},
	    {"gpus_per_rank = all\n", NULL, 8, 1},
	    {"gpus_per_rank = all\n", NULL, 0, 0},
	};
	struct gpus gpus;

	(void)state;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		load("auto", cases[i].text);
		assert_int_equal(
		    gpus_open(&gpus, &config, cases[i].inherited, cases[i].count, error), 0);
		assert_int_equal(gpus_ranks(&gpus, &config), cases[i].ranks);
		gpus_free(&gpus);
		config_free(&config);
	}
}

static void
a_gpu_that_is_not_here_is_named(void **state)
{
	static const struct {
		const char *text, *inherited;
		int count;
		const char *error;
	} cases[] = {
	    {"gpus = 0,2\n", NULL, 2, "gpus names 2, but the GPUs here are 0,1"},
	    {"gpus = 0,1\n", "4,5", 8,
	     "gpus names 0, but the inherited CUDA_VISIBLE_DEVICES holds 4,5"},
	    {"gpus = GPU-a,GPU-b\n", "GPU-a", 8,
	     "gpus names GPU-b, but the inherited CUDA_VISIBLE_DEVICES holds GPU-a"},
	    {"gpus = 0,1\n", NULL, 0, "gpus names 0, but no GPU was found"},
	    {"gpus = GPU-a,GPU-b\n", NULL, 0, "gpus names GPU-a, but no GPU was found"},
	    {"[worker.1]\ngpus = 3\n", NULL, 2, "gpus names 3, but the GPUs here are 0,1"},
	};
	struct gpus gpus;

	(void)state;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		load("2", cases[i].text);
		assert_int_equal(
		    gpus_open(&gpus, &config, cases[i].inherited, cases[i].count, error), -1);
		assert_string_equal(error, cases[i].error);
		config_free(&config);
	}
}

static void
a_rank_without_a_gpu_is_named(void **state)
{
	struct gpu_share share;
	struct gpus gpus;

	(void)state;
	load("3", "");
	assert_int_equal(gpus_open(&gpus, &config, NULL, 2, error), 0);
	assert_int_equal(gpus_assign(&gpus, &config, 1, &share, error), 0);
	gpus_share_free(&share);
	assert_int_equal(gpus_assign(&gpus, &config, 2, &share, error), -1);
	assert_string_equal(
	    error, "the ranks need 3 GPUs and 2 are here, rank 2 goes without: lower ranks or "
		   "gpus_per_rank, or set gpus = none if they need no GPU");
	gpus_free(&gpus);
}

static void
the_driver_s_folder_is_counted(void **state)
{
	char dir[] = "/tmp/test-gpus-XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(gpus_count(dir), 0);
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/0000:%02x:00.0", dir, i);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	assert_int_equal(gpus_count(dir), 3);
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/0000:%02x:00.0", dir, i);
		rmdir(path);
	}
	rmdir(dir);
	assert_int_equal(gpus_count(dir), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(shares_follow_gpus_per_rank_and_gpu_env, unload),
	    cmocka_unit_test_teardown(auto_ranks_are_one_per_gpu, unload),
	    cmocka_unit_test_teardown(a_gpu_that_is_not_here_is_named, unload),
	    cmocka_unit_test_teardown(a_rank_without_a_gpu_is_named, unload),
	    cmocka_unit_test(the_driver_s_folder_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

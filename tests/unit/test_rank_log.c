/* sources: supervisor/rank_log.c */
#include "supervisor/rank_log.h"

#include "common/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/test_rank_log.XXXXXX";
static int dirfd_ = -1;
static int warnings;

static void
count_warning(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	assert_int_equal(level, LOG_LEVEL_WARN);
	assert_non_null(strstr(line, "rank 1"));
	warnings++;
}

static int
folder_open(void **state)
{
	(void)state;
	memcpy(strrchr(dir, '.') + 1, "XXXXXX", 6);
	assert_non_null(mkdtemp(dir));
	dirfd_ = open(dir, O_DIRECTORY | O_CLOEXEC);
	warnings = 0;
	log_set_sink(count_warning, NULL);
	return 0;
}

static int
folder_close(void **state)
{
	DIR *d = fdopendir(dirfd_);
	struct dirent *entry;

	(void)state;
	while ((entry = readdir(d)) != NULL)
		unlinkat(dirfd_, entry->d_name, 0);
	closedir(d);
	rmdir(dir);
	log_set_sink(NULL, NULL);
	return 0;
}

/* The file's bytes, NUL-terminated; "" if there is none. */
static const char *
contents(const char *name)
{
	static char text[100000];
	int fd = openat(dirfd_, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	assert_true(n >= 0);
	text[n] = '\0';
	if (fd >= 0)
		close(fd);
	return text;
}

static int
count_files(void)
{
	DIR *d = opendir(dir);
	int n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n - 2;
}

static void
the_newest_bytes_up_to_the_cap_are_kept_in_whole_lines(void **state)
{
	struct rank_log *log = rank_log_open(dirfd_, 1, 1, 1000);
	char line[32], both[2000];
	struct stat st;

	(void)state;
	for (int i = 0; i < 1000; i++)
		rank_log_write(log, line, (size_t)snprintf(line, sizeof(line), "line %05d\n", i));
	rank_log_close(log);
	assert_int_equal(count_files(), 2);
	assert_int_equal(fstatat(dirfd_, "rank-1.log.1", &st, 0), 0);
	assert_int_equal(st.st_size, 500 / 11 * 11);
	snprintf(both, sizeof(both), "%s", contents("rank-1.log.1"));
	snprintf(both + strlen(both), sizeof(both) - strlen(both), "%s", contents("rank-1.log"));
	assert_true(strlen(both) > 500 && strlen(both) <= 1000);
	for (int i = 999, at = (int)strlen(both); at > 0; i--, at -= 11) {
		snprintf(line, sizeof(line), "line %05d\n", i);
		assert_memory_equal(both + at - 11, line, 11);
	}
}

static void
one_write_may_be_larger_than_the_cap(void **state)
{
	struct rank_log *log = rank_log_open(dirfd_, 1, 1, 100);
	char big[1000];

	(void)state;
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)('a' + i % 26);
	rank_log_write(log, big, sizeof(big));
	rank_log_close(log);
	assert_memory_equal(contents("rank-1.log.1"), big + 900, 50);
	assert_memory_equal(contents("rank-1.log"), big + 950, 50);
}

static void
a_bounded_number_of_earlier_epochs_is_kept(void **state)
{
	char text[32];

	(void)state;
	for (uint32_t epoch = 1; epoch <= 10; epoch++) {
		struct rank_log *log = rank_log_open(dirfd_, 1, epoch, 20);

		for (int i = 0; i < 4; i++)
			rank_log_write(log, text,
				       (size_t)snprintf(text, sizeof(text), "epoch %u\n", epoch));
		rank_log_close(log);
	}
	assert_string_equal(contents("rank-1.log"), "epoch 10\n");
	assert_string_equal(contents("rank-1.log.1"), "epoch 10\n");
	assert_string_equal(contents("rank-1.epoch-9.log"), "epoch 9\n");
	assert_string_equal(contents("rank-1.epoch-7.log.1"), "epoch 7\n");
	assert_int_equal(count_files(), 2 * (1 + RANK_LOG_EPOCHS));
}

static void
a_first_epoch_starts_over_leftovers(void **state)
{
	struct rank_log *log = rank_log_open(dirfd_, 1, 1, 20);

	(void)state;
	for (int i = 0; i < 4; i++)
		rank_log_write(log, "stale one\n", 10);
	rank_log_close(log);
	log = rank_log_open(dirfd_, 1, 1, 1000);
	rank_log_write(log, "fresh\n", 6);
	rank_log_close(log);
	assert_string_equal(contents("rank-1.log"), "fresh\n");
	assert_int_equal(count_files(), 1);
}

static void
a_full_disk_is_warned_of_once_and_the_gap_is_marked(void **state)
{
	struct rank_log *log = rank_log_open(dirfd_, 1, 1, 100000);
	struct rlimit old, small;
	char line[64];

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){.rlim_cur = 25, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (int i = 0; i < 10; i++)
		rank_log_write(log, line, (size_t)snprintf(line, sizeof(line), "line %03d\n", i));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	rank_log_write(log, "again\n", 6);
	rank_log_close(log);
	snprintf(line, sizeof(line), "\n... 65 bytes not written: %s\nagain\n", strerror(EFBIG));
	assert_memory_equal(contents("rank-1.log"), "line 000\nline 001\nline 00", 25);
	assert_string_equal(contents("rank-1.log") + 25, line);
	assert_int_equal(warnings, 1);
}

static void
the_file_is_ours_alone_whatever_the_umask(void **state)
{
	mode_t old = umask(0777);
	struct rank_log *log = rank_log_open(dirfd_, 1, 1, 1000);
	struct stat st;

	(void)state;
	rank_log_write(log, "mine\n", 5);
	umask(old);
	assert_int_equal(fstatat(dirfd_, "rank-1.log", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	rank_log_close(log);
}

static void
a_silent_rank_has_no_file(void **state)
{
	struct rank_log *log = rank_log_open(dirfd_, 1, 1, 1000);
	struct stat st;

	(void)state;
	assert_int_equal(fstatat(dirfd_, "rank-1.log", &st, 0), -1);
	rank_log_close(log);
}

static void
a_planted_link_is_not_followed(void **state)
{
	struct rank_log *log;

	(void)state;
	assert_int_equal(symlinkat("elsewhere", dirfd_, "rank-1.log"), 0);
	log = rank_log_open(dirfd_, 1, 1, 1000);
	assert_non_null(log);
	rank_log_write(log, "mine\n", 5);
	rank_log_close(log);
	assert_string_equal(contents("rank-1.log"), "mine\n");
	assert_int_equal(faccessat(dirfd_, "elsewhere", F_OK, 0), -1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_open, folder_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_newest_bytes_up_to_the_cap_are_kept_in_whole_lines),
	    TEST(one_write_may_be_larger_than_the_cap),
	    TEST(a_bounded_number_of_earlier_epochs_is_kept),
	    TEST(a_first_epoch_starts_over_leftovers),
	    TEST(a_full_disk_is_warned_of_once_and_the_gap_is_marked),
	    TEST(the_file_is_ours_alone_whatever_the_umask),
	    TEST(a_silent_rank_has_no_file),
	    TEST(a_planted_link_is_not_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

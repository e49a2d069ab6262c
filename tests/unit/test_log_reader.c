/* sources: supervisor/log_reader.c supervisor/lines.c supervisor/rank_log.c */
#include "supervisor/log_reader.h"

#include "supervisor/rank_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CAP_BYTES 64 /* a file holds half of it: three lines */

static char root[64], got[4096];
static int dirfd;
static struct log_reader reader;
static struct rank_log *rank_log;

static void
on_line(int rank, const char *text, size_t len, void *arg)
{
	size_t n = strlen(got);

	(void)arg;
	assert_int_equal(rank, 3);
	snprintf(got + n, sizeof(got) - n, "%.*s;", (int)len, text);
}

static int
setup(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/tf-reader-XXXXXX");
	if (mkdtemp(root) == NULL)
		return -1;
	dirfd = open(root, O_RDONLY | O_DIRECTORY);
	reader = (struct log_reader){.dirfd = dirfd, .rank = 3, .fd = -1, .line = on_line};
	rank_log = rank_log_open(dirfd, 3, 1, CAP_BYTES);
	got[0] = '\0';
	return dirfd < 0 || rank_log == NULL ? -1 : 0;
}

static int
teardown(void **state)
{
	char command[128];

	(void)state;
	rank_log_close(rank_log);
	close(dirfd);
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

/* Lines of ten bytes. */
static void
print(int from, int n)
{
	char line[16];

	for (int i = from; i < from + n; i++)
		rank_log_write(rank_log, line,
			       (size_t)snprintf(line, sizeof(line), "line %04d\n", i));
}

static void
expect(int from, int n)
{
	char expected[4096] = "";
	size_t len = 0;

	for (int i = from; i < from + n; i++)
		len += (size_t)snprintf(expected + len, sizeof(expected) - len, "line %04d;", i);
	assert_string_equal(got, expected);
	got[0] = '\0';
}

static void
the_older_half_comes_before_the_newer(void **state)
{
	(void)state;
	print(0, 5);
	log_reader_end(&reader);
	expect(0, 5);
}

static void
a_file_that_is_rotated_between_two_looks_is_read_to_its_end(void **state)
{
	(void)state;
	log_reader_more(&reader);
	expect(0, 0);
	print(0, 1);
	log_reader_more(&reader);
	expect(0, 1);
	print(1, 3);
	log_reader_more(&reader);
	expect(1, 3);
	log_reader_end(&reader);
	expect(0, 0);
}

static void
a_line_that_goes_on_in_the_next_file_stays_one(void **state)
{
	(void)state;
	rank_log_write(rank_log, "a line ", 7);
	log_reader_more(&reader);
	rank_log_write(rank_log, "that is longer than half a file is\n", 35);
	log_reader_more(&reader);
	assert_string_equal(got, "a line that is longer than half a file is;");
	got[0] = '\0';
	log_reader_end(&reader);
	expect(0, 0);
}

static void
a_whole_file_that_came_and_became_the_older_half_is_not_missed(void **state)
{
	(void)state;
	print(0, 2);
	log_reader_more(&reader);
	expect(0, 2);
	print(2, 6);
	log_reader_end(&reader);
	expect(2, 6);
}

static void
the_next_epoch_is_read_from_its_start_and_the_last_line_before_it_ended(void **state)
{
	(void)state;
	print(0, 1);
	rank_log_write(rank_log, "unfinished", 10);
	log_reader_more(&reader);
	expect(0, 1);
	rank_log_close(rank_log);
	rank_log = rank_log_open(dirfd, 3, 2, CAP_BYTES);
	print(5, 1);
	log_reader_more(&reader);
	assert_string_equal(got, "unfinished;line 0005;");
	got[0] = '\0';
	log_reader_end(&reader);
	expect(0, 0);
}

static void
what_is_no_file_of_ours_is_not_read(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/rank-3.log", root);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	log_reader_more(&reader);
	log_reader_end(&reader);
	expect(0, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_older_half_comes_before_the_newer),
	    TEST(a_file_that_is_rotated_between_two_looks_is_read_to_its_end),
	    TEST(a_line_that_goes_on_in_the_next_file_stays_one),
	    TEST(a_whole_file_that_came_and_became_the_older_half_is_not_missed),
	    TEST(the_next_epoch_is_read_from_its_start_and_the_last_line_before_it_ended),
	    TEST(what_is_no_file_of_ours_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

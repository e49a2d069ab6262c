/* sources: supervisor/clean.c */
#include "supervisor/clean.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void
expect(const char *text, size_t len, bool color, const char *want)
{
	char *copy = malloc(len > 0 ? len : 1), out[512];
	size_t n;

	/* A block of its own, so that reading past it is seen. */
	memcpy(copy, text, len);
	n = clean_terminal(copy, len, color, out);
	free(copy);
	assert_int_equal(n, strlen(want));
	assert_memory_equal(out, want, n);
	assert_true(n <= len + CLEAN_GROWTH_BYTES);
}

#define EXPECT(text, color, want) expect(text, sizeof(text) - 1, color, want)

static void
control_characters_do_not_reach_a_terminal(void **state)
{
	(void)state;
	EXPECT("a\tb\bc\007d\177e\0f", false, "a\tb?c?d?e?f");
	EXPECT("\xc2\x9b"
	       "31m",
	       false, "?31m");
}

static void
what_is_not_utf8_is_shown_as_question_marks(void **state)
{
	(void)state;
	EXPECT("gr\xc3\xbc\xc3\x9f"
	       "e \xe2\x82\xac \xf0\x9f\x98\x80",
	       false,
	       "gr\xc3\xbc\xc3\x9f"
	       "e \xe2\x82\xac \xf0\x9f\x98\x80");
	EXPECT("\xff\xfe|\xc3|\xe2\x82|\xf0\x9f\x98", false, "??|?|??|???");
	EXPECT("\xed\xa0\x80\xc0\x80", false, "?????");
}

static void
escape_sequences_vanish(void **state)
{
	(void)state;
	EXPECT("\033[2J\033[10;20Hhere\033[K", true, "here");
	EXPECT("\033]0;a title\007text\033]8;;http://x\033\\link", true, "textlink");
	EXPECT("\033]0;never ended", true, "0;never ended");
	EXPECT("\033(Bplain\0337\033", true, "plain");
	EXPECT("\033[", true, "");
	EXPECT("\033[31", true, "");
	EXPECT("\033[?25l\033[31;\xff"
	       "mx",
	       true, "?mx");
}

static void
colours_stay_where_wanted_and_end_with_the_line(void **state)
{
	(void)state;
	EXPECT("\033[1;31mred\033[0m", true, "\033[1;31mred\033[0m\033[0m");
	EXPECT("\033[1;31mred\033[0m", false, "red");
	EXPECT("\033[31mred", true, "\033[31mred\033[0m");
	EXPECT("\033[>4;2m", true, "");
}

static void
json_text_keeps_all_but_broken_utf8(void **state)
{
	char out[64];
	size_t n;

	(void)state;
	n = clean_utf8("\033[31m\xff\0\xc3\xbc\xc3", 10, out);
	assert_int_equal(n, 10);
	assert_memory_equal(out, "\033[31m?\0\xc3\xbc?", 10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(control_characters_do_not_reach_a_terminal),
	    cmocka_unit_test(what_is_not_utf8_is_shown_as_question_marks),
	    cmocka_unit_test(escape_sequences_vanish),
	    cmocka_unit_test(colours_stay_where_wanted_and_end_with_the_line),
	    cmocka_unit_test(json_text_keeps_all_but_broken_utf8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* sources: supervisor/config_words.c */
#include "supervisor/config_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORDS_MAX 8

static void
words_are_split_as_a_shell_would_without_expansion(void **state)
{
	static const struct {
		const char *text, *words[WORDS_MAX];
	} cases[] = {
	    {"", {NULL}},
	    {" \t ", {NULL}},
	    {"a b\tc", {"a", "b", "c"}},
	    {"  a  ", {"a"}},
	    {"'a b' \"c d\"", {"a b", "c d"}},
	    {"a'b c'd", {"ab cd"}},
	    {"'' \"\"", {"", ""}},
	    {"a\\ b \\\\ \\'", {"a b", "\\", "'"}},
	    {"'a\\b' \"a\\b\" \"\\\"\\\\\\$\\`\"", {"a\\b", "a\\b", "\"\\$`"}},
	    {"$HOME ~ *.c `id` $(id) #x", {"$HOME", "~", "*.c", "`id`", "$(id)", "#x"}},
	    {"a;b | c && d > e", {"a;b", "|", "c", "&&", "d", ">", "e"}},
	    {"sh -c \"echo a ; sleep 1\" x=y", {"sh", "-c", "echo a ; sleep 1", "x=y"}},
	    {"'it'\\''s'", {"it's"}},
	    {"{rank} '{rank}'", {"{rank}", "{rank}"}},
	    {"\xc3\xa9 'a\nb'", {"\xc3\xa9", "a\nb"}},
	};
	struct words_error error;
	char **words;
	size_t count, j;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		words = words_split(cases[i].text, &count, &error);
		assert_non_null(words);
		for (j = 0; cases[i].words[j] != NULL; j++)
			assert_string_equal(words[j], cases[i].words[j]);
		assert_int_equal(count, j);
		assert_null(words[count]);
		free(words);
	}
}

static void
an_open_quote_is_an_error_with_its_place(void **state)
{
	static const struct {
		const char *text, *what;
		size_t position;
	} cases[] = {
	    {"'", "this ' is never closed", 1},
	    {"sh -c \"echo", "this \" is never closed", 7},
	    {"a 'b' c'd e", "this ' is never closed", 8},
	    {"\"a\\\"", "this \" is never closed", 1},
	    {"ab \\", "nothing follows this backslash", 4},
	};
	struct words_error error;
	size_t count;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_null(words_split(cases[i].text, &count, &error));
		assert_string_equal(error.what, cases[i].what);
		assert_int_equal(error.position, cases[i].position);
	}
}

static void
quoted_words_split_into_themselves(void **state)
{
	static char *const words[] = {"plain", "",         "a b",    "it's",       "\"",
				      "\\",    "$HOME",    "a\nb\t", "--x={rank}", "'",
				      "''",    "\xff\x01", "a;b",    NULL};
	char *text = words_quote(words), **back;
	struct words_error error;
	size_t count;

	(void)state;
	assert_non_null(text);
	back = words_split(text, &count, &error);
	assert_non_null(back);
	for (size_t i = 0; words[i] != NULL; i++)
		assert_string_equal(back[i], words[i]);
	assert_int_equal(count, sizeof(words) / sizeof(words[0]) - 1);
	free(back);
	free(text);
}

static void
a_plain_word_stays_plain(void **state)
{
	static char *const words[] = {"python3", "-m", "a.b", "--port=80", "x y", NULL};
	char *text = words_quote(words);

	(void)state;
	assert_string_equal(text, "python3 -m a.b --port=80 'x y'");
	free(text);
}

static void
every_short_text_splits_or_is_refused(void **state)
{
	static const char bytes[] = "a '\"\\\t$";
	char text[7] = "", **words;
	struct words_error error;
	size_t count, n = sizeof(bytes) - 1, total = 1;

	(void)state;
	for (size_t len = 0; len < sizeof(text); len++, total *= n) {
		for (size_t i = 0; i < total; i++) {
			size_t rest = i;

			for (size_t j = 0; j < len; j++, rest /= n)
				text[j] = bytes[rest % n];
			text[len] = '\0';
			words = words_split(text, &count, &error);
			if (words == NULL)
				assert_in_range(error.position, 1, len);
			free(words);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(words_are_split_as_a_shell_would_without_expansion),
	    cmocka_unit_test(an_open_quote_is_an_error_with_its_place),
	    cmocka_unit_test(quoted_words_split_into_themselves),
	    cmocka_unit_test(a_plain_word_stays_plain),
	    cmocka_unit_test(every_short_text_splits_or_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

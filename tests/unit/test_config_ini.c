/* sources: supervisor/config*.c supervisor/bound.c supervisor/environ.c supervisor/gpus.c */
/* Bytes to lines to values: what an editor, another system or a careless hand may leave in a file.
 */
#include "supervisor/config_ini.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEN_BYTES (4 * INI_LINE_MAX_BYTES)

static char seen[SEEN_BYTES]; /* "LINE[section]NAME=VALUE|..." */
static struct config_error error;

static int
take(void *arg, const char *section, const char *name, const char *value, int line,
     struct config_error *unused)
{
	size_t n = strlen(seen);

	(void)arg;
	(void)unused;
	if (name == NULL)
		snprintf(seen + n, sizeof(seen) - n, "%d[%s]|", line, section);
	else
		snprintf(seen + n, sizeof(seen) - n, "%d[%s]%s=%s|", line, section, name, value);
	return 0;
}

static int
read_bytes(const char *bytes, size_t len)
{
	FILE *file = fmemopen((void *)bytes, len, "r");
	int r;

	assert_non_null(file);
	seen[0] = '\0';
	error.text[0] = '\0';
	r = config_ini_read(file, "x.ini", take, NULL, &error);
	fclose(file);
	return r;
}

#define READ(bytes) read_bytes(bytes, sizeof(bytes) - 1)

static void
lines_become_keys_with_their_numbers(void **state)
{
	(void)state;
	assert_int_equal(
	    READ("# a\n; b\n\n  \t\n[s]\n  # indented\na=1\nb = 2 \n\n[t.0]\nc\t=\t3\t\n"), 0);
	assert_string_equal(seen, "5[s]|7[s]a=1|8[s]b=2|10[t.0]|11[t.0]c=3|");
}

static void
values_are_taken_to_the_end_of_the_line(void **state)
{
	(void)state;
	assert_int_equal(
	    READ("[s]\na = x ; y # z\nb = \"q\" 'r' = : [ ]\nc = ;\nd = #\ne =\nf = =\n"), 0);
	assert_string_equal(
	    seen, "1[s]|2[s]a=x ; y # z|3[s]b=\"q\" 'r' = : [ ]|4[s]c=;|5[s]d=#|6[s]e=|7[s]f==|");
}

static void
the_last_line_needs_no_newline(void **state)
{
	(void)state;
	assert_int_equal(READ("[s]\na = 1"), 0);
	assert_string_equal(seen, "1[s]|2[s]a=1|");
	assert_int_equal(READ("[s]"), 0);
	assert_string_equal(seen, "1[s]|");
}

static void
a_byte_order_mark_and_carriage_returns_are_taken_off(void **state)
{
	(void)state;
	assert_int_equal(READ("\xef\xbb\xbf[s]\r\na = 1\r\n\r\n# c\r\nb = 2\r"), 0);
	assert_string_equal(seen, "1[s]|2[s]a=1|5[s]b=2|");
	assert_int_equal(READ("\xef\xbb\xbf# c\n[s]\n"), 0);
	assert_string_equal(seen, "2[s]|");
	assert_int_equal(READ("[s]\n\xef\xbb\xbf[t]\n"), -1);
}

static void
bytes_that_are_no_text_are_refused(void **state)
{
	(void)state;
	assert_int_equal(READ("[s]\na = 1\0 2\n"), -1);
	assert_string_equal(error.text,
			    "x.ini:2: byte 0x00 at column 6: the file is not plain text");
	assert_int_equal(READ("\xff\xfe[\0s\0]\0\n\0"), -1);
	assert_string_equal(error.text,
			    "x.ini:1: byte 0x00 at column 4: the file is not plain text");
	assert_int_equal(READ("[s]\n\x7f"
			      "ELF\n"),
			 -1);
	assert_int_equal(READ("a\rb\rc"), -1);
	assert_int_equal(READ("[s]\na = \xc3\xa9\xff\n"), 0);
}

static void
values_of_any_length_up_to_the_limit_arrive_whole(void **state)
{
	static const size_t lens[] = {1,
				      100,
				      185,
				      190,
				      195,
				      196,
				      197,
				      198,
				      199,
				      200,
				      201,
				      255,
				      256,
				      4000,
				      4096,
				      INI_LINE_MAX_BYTES - 5,
				      INI_LINE_MAX_BYTES - 4};
	static char text[INI_LINE_MAX_BYTES + 64], wanted[INI_LINE_MAX_BYTES + 64];

	(void)state;
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		char *value = stpcpy(text, "[s]\na = ");

		memset(value, 'x', lens[i]);
		memcpy(value + lens[i], "\nb = 2\n", sizeof("\nb = 2\n"));
		assert_int_equal(read_bytes(text, strlen(text)), 0);
		value = stpcpy(wanted, "1[s]|2[s]a=");
		memset(value, 'x', lens[i]);
		memcpy(value + lens[i], "|3[s]b=2|", sizeof("|3[s]b=2|"));
		assert_string_equal(seen, wanted);
	}
}

static void
an_over_long_line_is_refused(void **state)
{
	static char text[INI_LINE_MAX_BYTES + 64];

	(void)state;
	strcpy(text, "[s]\na = ");
	memset(text + strlen(text), 'x', INI_LINE_MAX_BYTES);
	assert_int_equal(read_bytes(text, strlen(text)), -1);
	assert_string_equal(error.text, "x.ini:2: the line is longer than 65536 bytes");
}

static void
long_names_are_whole_or_refused(void **state)
{
	char text[512], name[256], wanted[512];

	(void)state;
	for (size_t len = 1; len < sizeof(name) - 1; len++) {
		memset(name, 'n', len);
		name[len] = '\0';
		snprintf(text, sizeof(text), "[s]\n%s = 1\nb = 2\n", name);
		if (len > INI_NAME_MAX_BYTES) {
			assert_int_equal(read_bytes(text, strlen(text)), -1);
			assert_non_null(strstr(error.text, "is longer than 128 bytes"));
			continue;
		}
		assert_int_equal(read_bytes(text, strlen(text)), 0);
		snprintf(wanted, sizeof(wanted), "1[s]|2[s]%s=1|3[s]b=2|", name);
		assert_string_equal(seen, wanted);
	}
}

static void
an_indented_line_is_refused_unless_it_says_nothing(void **state)
{
	(void)state;
	assert_int_equal(READ("[s]\na = 1\n b = 2\n"), -1);
	assert_non_null(strstr(error.text, "x.ini:3: the line is indented"));
	assert_int_equal(READ(" [s]\n"), -1);
	assert_int_equal(READ("[s]\na = 1\n\t; c\n   \n"), 0);
	assert_string_equal(seen, "1[s]|2[s]a=1|");
}

static int
take_until_b(void *arg, const char *section, const char *name, const char *value, int line,
	     struct config_error *text)
{
	take(arg, section, name, value, line, text);
	if (name == NULL || strcmp(name, "b") != 0)
		return 0;
	snprintf(text->text, sizeof(text->text), "enough");
	return -1;
}

static void
a_refusal_ends_the_reading(void **state)
{
	static const char text[] = "[s]\na = 1\nb = 2\nc = 3\n[t]\n";
	FILE *file = fmemopen((void *)text, sizeof(text) - 1, "r");

	(void)state;
	seen[0] = '\0';
	assert_int_equal(config_ini_read(file, "x.ini", take_until_b, NULL, &error), -1);
	assert_string_equal(error.text, "enough");
	assert_string_equal(seen, "1[s]|2[s]a=1|3[s]b=2|");
	fclose(file);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_become_keys_with_their_numbers),
	    cmocka_unit_test(values_are_taken_to_the_end_of_the_line),
	    cmocka_unit_test(the_last_line_needs_no_newline),
	    cmocka_unit_test(a_byte_order_mark_and_carriage_returns_are_taken_off),
	    cmocka_unit_test(bytes_that_are_no_text_are_refused),
	    cmocka_unit_test(values_of_any_length_up_to_the_limit_arrive_whole),
	    cmocka_unit_test(an_over_long_line_is_refused),
	    cmocka_unit_test(long_names_are_whole_or_refused),
	    cmocka_unit_test(an_indented_line_is_refused_unless_it_says_nothing),
	    cmocka_unit_test(a_refusal_ends_the_reading),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

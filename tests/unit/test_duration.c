/* sources: */
#include "common/deadline.h"
#include "common/duration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void
a_duration_is_read_in_its_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {
	    {"0", 0},
	    {"0s", 0},
	    {"500ms", 500 * NS_PER_MSEC},
	    {"2s", 2 * NS_PER_SEC},
	    {"10m", 600 * NS_PER_SEC},
	    {"1h", 3600 * NS_PER_SEC},
	    {"1h30m", 5400 * NS_PER_SEC},
	    {"3m10s", 190 * NS_PER_SEC},
	    {"1s500ms", 1500 * NS_PER_MSEC},
	    {"8760h", 8760 * 3600 * NS_PER_SEC},
	};
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ns = 1;
		assert_int_equal(parse_duration(cases[i].text, &ns), 0);
		assert_int_equal(ns, cases[i].ns);
	}
}

static void
what_is_no_duration_is_refused_and_changes_nothing(void **state)
{
	static const char *const texts[] = {
	    "",         "10",    "00",    "s",     "1.5s", "-1s",
	    "+1s",      " 1s",   "1s ",   "1 s",   "1S",   "1sec",
	    "1d",       "30m1h", "1s1s",  "1ms2s", "10m5", "99999999999999999999s",
	    "5124096h", "1e3s",  "0x10s", "1h\n"};
	uint64_t ns = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (parse_duration(texts[i], &ns) == 0)
			fail_msg("\"%s\" was taken", texts[i]);
		assert_int_equal(ns, 7);
	}
}

static void
a_duration_is_written_as_people_write_it(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
	    {0, "0"},
	    {999999, "0"},
	    {NS_PER_MSEC, "1ms"},
	    {1500 * NS_PER_MSEC, "1500ms"},
	    {35 * NS_PER_SEC, "35s"},
	    {35 * NS_PER_SEC + 12 * NS_PER_MSEC, "35012ms"},
	    {60 * NS_PER_SEC, "1m"},
	    {60 * NS_PER_SEC + NS_PER_MSEC, "1m"},
	    {190 * NS_PER_SEC, "3m10s"},
	    {3600 * NS_PER_SEC, "1h"},
	    {3601 * NS_PER_SEC, "1h1s"},
	    {UINT64_MAX, "5124095h34m33s"},
	};
	char text[DURATION_TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		format_duration(cases[i].ns, text, sizeof(text));
		assert_string_equal(text, cases[i].text);
	}
}

static void
what_is_written_is_read_back(void **state)
{
	char text[DURATION_TEXT_BYTES];
	uint64_t ns, back;

	(void)state;
	for (uint64_t i = 0; i < 200000; i += 7) {
		ns = i < 60000 ? i * NS_PER_MSEC : (i - 59000) * NS_PER_SEC;
		format_duration(ns, text, sizeof(text));
		assert_int_equal(parse_duration(text, &back), 0);
		assert_int_equal(back, ns);
	}
}

static void
a_short_buffer_is_cut_and_never_overrun(void **state)
{
	char text[8] = "#######";

	(void)state;
	format_duration(UINT64_MAX, text, 4);
	assert_string_equal(text, "512");
	assert_memory_equal(text + 4, "###", 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_duration_is_read_in_its_unit),
	    cmocka_unit_test(what_is_no_duration_is_refused_and_changes_nothing),
	    cmocka_unit_test(a_duration_is_written_as_people_write_it),
	    cmocka_unit_test(what_is_written_is_read_back),
	    cmocka_unit_test(a_short_buffer_is_cut_and_never_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

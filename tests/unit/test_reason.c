/* sources: */
#include "common/reason.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	enum reason reason;
	const char *word;
	int status;
} contract[] = {
    {REASON_NONE, "", 0},
    {REASON_RANK_DISCONNECTED, "RankDisconnected", 10},
    {REASON_RANK_TIMEOUT, "RankTimeout", 11},
    {REASON_RANK_MISMATCH, "RankMismatch", 12},
    {REASON_RANK_PROTOCOL, "RankProtocol", 13},
    {REASON_SPAWN_FAILED, "SpawnFailed", 14},
    {REASON_PREFLIGHT_FAILED, "PreflightFailed", 15},
};

static void
words_and_statuses_are_those_of_the_contract(void **state)
{
	(void)state;
	assert_int_equal(sizeof(contract) / sizeof(contract[0]), REASON_COUNT);
	for (size_t i = 0; i < REASON_COUNT; i++) {
		assert_string_equal(reason_word(contract[i].reason), contract[i].word);
		assert_int_equal(reason_exit_status(contract[i].reason), contract[i].status);
	}
	assert_int_equal(EXIT_USAGE, 64);
	assert_int_equal(EXIT_CONFIG, 78);
	assert_int_equal(EXIT_JOB_SIGTERM, 143);
	assert_int_equal(EXIT_JOB_SIGINT, 130);
}

static void
a_word_is_read_back_as_its_reason(void **state)
{
	enum reason reason;

	(void)state;
	for (size_t i = 1; i < REASON_COUNT; i++) {
		reason = REASON_NONE;
		assert_true(reason_from_word(contract[i].word, &reason));
		assert_int_equal(reason, contract[i].reason);
	}
}

static void
a_word_that_is_none_of_ours_changes_nothing(void **state)
{
	static const char *const words[] = {"", "Rank", "ranktimeout", "RankTimeout ",
					    "RankTimeouts"};
	enum reason reason = REASON_SPAWN_FAILED;

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_false(reason_from_word(words[i], &reason));
	assert_int_equal(reason, REASON_SPAWN_FAILED);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(words_and_statuses_are_those_of_the_contract),
	    cmocka_unit_test(a_word_is_read_back_as_its_reason),
	    cmocka_unit_test(a_word_that_is_none_of_ours_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

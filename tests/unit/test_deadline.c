/* sources: */
#include "common/deadline.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void
a_deadline_is_now_and_its_timeout(void **state)
{
	(void)state;
	assert_int_equal(deadline_after(5, 7), 12);
	assert_int_equal(deadline_after(0, 1), 1);
}

static void
a_timeout_of_0_is_off(void **state)
{
	(void)state;
	assert_int_equal(deadline_after(5, 0), 0);
}

static void
a_deadline_saturates_instead_of_wrapping(void **state)
{
	(void)state;
	assert_int_equal(deadline_after(5, UINT64_MAX), UINT64_MAX);
	assert_int_equal(deadline_after(UINT64_MAX, 1), UINT64_MAX);
	assert_int_equal(deadline_after(5, UINT64_MAX - 5), UINT64_MAX);
	assert_int_equal(deadline_after(5, UINT64_MAX - 6), UINT64_MAX - 1);
}

static void
poll_waits_until_the_deadline_has_passed_and_no_less(void **state)
{
	(void)state;
	assert_int_equal(deadline_poll_ms(0, 100), -1);
	assert_int_equal(deadline_poll_ms(100, 100), 0);
	assert_int_equal(deadline_poll_ms(99, 100), 0);
	assert_int_equal(deadline_poll_ms(101, 100), 1);
	assert_int_equal(deadline_poll_ms(100 + NS_PER_MSEC, 100), 1);
	assert_int_equal(deadline_poll_ms(101 + NS_PER_MSEC, 100), 2);
	assert_int_equal(deadline_poll_ms(UINT64_MAX, 0), INT_MAX);
}

static void
the_clock_goes_forward(void **state)
{
	uint64_t first_ns = monotonic_ns(), second_ns = monotonic_ns();

	(void)state;
	assert_true(first_ns > 0);
	assert_true(second_ns >= first_ns);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_deadline_is_now_and_its_timeout),
	    cmocka_unit_test(a_timeout_of_0_is_off),
	    cmocka_unit_test(a_deadline_saturates_instead_of_wrapping),
	    cmocka_unit_test(poll_waits_until_the_deadline_has_passed_and_no_less),
	    cmocka_unit_test(the_clock_goes_forward),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* sources: kernels/gather_check_ref.c */
#include "kernels/gather_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define WORDS 1000
#define SALT  UINT64_C(0x1234)

static unsigned char data[WORDS * 8 + 1];
static uint64_t slot[2 * WORDS];

static int
setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i % 7 == 0 ? i / 7 : 0);
	gather_fill_ref(data + 1, WORDS, SALT, 3, slot);
	return 0;
}

static uint64_t
wrong_as(uint64_t salt, uint32_t rank, struct gather_fault *fault)
{
	return gather_check_ref(slot, WORDS, salt, rank, fault);
}

static void
what_was_filled_is_right_and_holds_the_data(void **state)
{
	struct gather_fault fault;

	(void)state;
	assert_int_equal(wrong_as(SALT, 3, &fault), 0);
	assert_memory_equal(slot, data + 1, WORDS * 8);
	assert_int_equal(gather_check_ref(slot, 0, SALT, 3, &fault), 0);
}

static void
every_single_bit_is_noticed_with_its_place(void **state)
{
	struct gather_fault fault;

	(void)state;
	for (size_t i = 0; i < 2 * WORDS; i++) {
		uint64_t bit = UINT64_C(1) << i % 64;

		slot[i] ^= bit;
		assert_int_equal(wrong_as(SALT, 3, &fault), 1);
		assert_int_equal(fault.rank, 3);
		assert_int_equal(fault.index, i % WORDS);
		slot[i] ^= bit;
	}
}

static void
another_rank_or_salt_fits_nowhere(void **state)
{
	struct gather_fault fault;

	(void)state;
	assert_int_equal(wrong_as(SALT, 2, &fault), WORDS);
	assert_int_equal(wrong_as(SALT + 1, 3, &fault), WORDS);
	assert_int_equal(fault.index, 0);
}

static void
a_shift_is_noticed_even_among_equal_values(void **state)
{
	struct gather_fault fault;

	(void)state;
	memset(data, 0, sizeof(data));
	gather_fill_ref(data, WORDS, SALT, 3, slot);
	memmove(slot + WORDS, slot + WORDS + 1, (WORDS - 1) * 8);
	assert_int_equal(wrong_as(SALT, 3, &fault), WORDS - 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(what_was_filled_is_right_and_holds_the_data, setup),
	    cmocka_unit_test_setup(every_single_bit_is_noticed_with_its_place, setup),
	    cmocka_unit_test_setup(another_rank_or_salt_fits_nowhere, setup),
	    cmocka_unit_test_setup(a_shift_is_noticed_even_among_equal_values, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

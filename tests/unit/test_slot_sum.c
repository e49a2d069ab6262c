/* sources: kernels/slot_sum_ref.c */
#include "kernels/slot_sum.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void
every_bf16_survives_the_way_through_float(void **state)
{
	(void)state;
	for (uint32_t bits = 0; bits <= 0xffff; bits++) {
		float value = bf16_to_float((uint16_t)bits);

		if (isnan(value))
			assert_true(isnan(bf16_to_float(bf16_from_float(value))));
		else
			assert_int_equal(bf16_from_float(value), bits);
	}
}

static void
bf16_is_rounded_to_nearest_even(void **state)
{
	(void)state;
	assert_int_equal(bf16_from_float(1.0f), 0x3f80);
	assert_int_equal(bf16_from_float(1.0f + 0x1p-8f), 0x3f80);     /* tie, to even: down */
	assert_int_equal(bf16_from_float(1.0f + 3 * 0x1p-8f), 0x3f82); /* tie, to even: up */
	assert_int_equal(bf16_from_float(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);
	assert_int_equal(bf16_from_float(FLT_MAX), 0x7f80);
	assert_int_equal(bf16_from_float(-INFINITY), 0xff80);
}

static void
a_row_is_the_weighted_sum_of_its_own_slots(void **state)
{
	/* (2, 2, 3) */
	const float values[] = {1, 2, 3, 10, 20, 30, -1, -2, -4, 0.5f, 0.25f, 8};
	const float weights[] = {0.5f, 0.25f, 2, 4};
	const float expected[] = {3, 6, 9, 0, -3, 24};
	uint16_t slots[12];
	double sums[6] = {0};
	float host[6];

	(void)state;
	for (size_t i = 0; i < 12; i++)
		slots[i] = bf16_from_float(values[i]);
	slot_sum_ref(slots, weights, 2, 2, 3, sums);
	slot_sum_host(slots, weights, 2, 2, 3, host);
	for (size_t i = 0; i < 6; i++) {
		assert_true(sums[i] == (double)expected[i]);
		assert_true(host[i] == expected[i]);
	}
	slot_sum_ref(slots, weights, 2, 2, 3, sums);
	assert_true(sums[0] == 6); /* adds */
}

static void
no_rows_touch_nothing(void **state)
{
	double sum = 7;
	float host = 7;

	(void)state;
	slot_sum_ref(NULL, NULL, 0, 8, 64, &sum);
	slot_sum_host(NULL, NULL, 0, 8, 64, &host);
	assert_true(sum == 7 && host == 7);
}

static float
any_float(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return ldexpf((float)(int32_t)(*seed >> 32), (int)(*seed >> 20 & 15) - 40);
}

static void
the_host_backend_is_within_float_rounding_of_the_reference(void **state)
{
	enum { ROWS = 37, TOP_K = 8, HIDDEN = 50 };
	static uint16_t slots[ROWS * TOP_K * HIDDEN];
	static float weights[ROWS * TOP_K], host[ROWS * HIDDEN];
	static double sums[ROWS * HIDDEN];
	uint64_t seed = 1;

	(void)state;
	for (size_t i = 0; i < ROWS * TOP_K * HIDDEN; i++)
		slots[i] = bf16_from_float(any_float(&seed));
	for (size_t i = 0; i < ROWS * TOP_K; i++)
		weights[i] = any_float(&seed);
	slot_sum_ref(slots, weights, ROWS, TOP_K, HIDDEN, sums);
	slot_sum_host(slots, weights, ROWS, TOP_K, HIDDEN, host);
	for (size_t i = 0; i < ROWS * HIDDEN; i++) {
		double size = 0;

		for (size_t k = 0; k < TOP_K; k++) {
			size_t slot = i / HIDDEN * TOP_K + k;

			size += fabs((double)weights[slot] *
				     (double)bf16_to_float(slots[slot * HIDDEN + i % HIDDEN]));
		}
		assert_true(fabs((double)host[i] - sums[i]) <= 2 * TOP_K * size * 0x1p-24);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_bf16_survives_the_way_through_float),
	    cmocka_unit_test(bf16_is_rounded_to_nearest_even),
	    cmocka_unit_test(a_row_is_the_weighted_sum_of_its_own_slots),
	    cmocka_unit_test(no_rows_touch_nothing),
	    cmocka_unit_test(the_host_backend_is_within_float_rounding_of_the_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

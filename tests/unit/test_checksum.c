/* sources: kernels/checksum_ref.c */
#include "kernels/checksum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES 4096

static unsigned char data[BYTES];

static void
fill_data(void)
{
	for (size_t i = 0; i < BYTES; i++)
		data[i] = (unsigned char)(checksum_splitmix64(i) >> 13);
}

/* Byte after byte, as the definition says. */
static uint64_t
by_definition(const unsigned char *bytes, size_t n, uint64_t offset)
{
	uint64_t sum = 0, at;

	for (size_t i = 0; i < n; i++) {
		at = offset + i;
		sum += ((uint64_t)bytes[i] << (at % 8 * 8)) * (checksum_splitmix64(at / 8) | 1);
	}
	return sum;
}

static void
known_values_stay_what_they_are(void **state)
{
	unsigned char few[13], many[1000];

	(void)state;
	for (size_t i = 0; i < sizeof(few); i++)
		few[i] = (unsigned char)(i + 1);
	for (size_t i = 0; i < sizeof(many); i++)
		many[i] = (unsigned char)(i * 7 + 3);
	assert_true(checksum_splitmix64(0) == UINT64_C(0xe220a8397b1dcdaf));
	assert_true(checksum_part(few, sizeof(few), 0) == UINT64_C(0xb815b215ccc5f878));
	assert_true(checksum_part(many, sizeof(many), 0) == UINT64_C(0xa9457688062b6f63));
}

static void
every_offset_length_and_alignment_follows_the_definition(void **state)
{
	static const uint64_t bases[] = {0, 8 * 1000, UINT64_C(1) << 40};

	(void)state;
	fill_data();
	for (size_t b = 0; b < sizeof(bases) / sizeof(bases[0]); b++)
		for (size_t align = 0; align < 9; align++)
			for (size_t shift = 0; shift < 17; shift++)
				for (size_t n = 0; n < 90; n++)
					assert_true(
					    checksum_part(data + align, n, bases[b] + shift) ==
					    by_definition(data + align, n, bases[b] + shift));
}

static void
slices_cut_anywhere_add_up_to_the_whole(void **state)
{
	uint64_t whole, sum;
	size_t cut1, cut2;

	(void)state;
	fill_data();
	whole = checksum_part(data, BYTES, 0);
	for (uint64_t i = 0; i < 2000; i++) {
		cut1 = checksum_splitmix64(2 * i) % (BYTES + 1);
		cut2 = cut1 + checksum_splitmix64(2 * i + 1) % (BYTES + 1 - cut1);
		sum = checksum_part(data, cut1, 0);
		sum += checksum_part(data + cut1, cut2 - cut1, cut1);
		sum += checksum_part(data + cut2, BYTES - cut2, cut2);
		assert_true(sum == whole);
	}
}

static void
no_changed_or_exchanged_byte_goes_unseen(void **state)
{
	uint64_t whole;

	(void)state;
	fill_data();
	whole = checksum_part(data, BYTES, 0);
	for (size_t i = 0; i < BYTES; i++) {
		data[i] ^= 0x40;
		assert_true(checksum_part(data, BYTES, 0) != whole);
		data[i] ^= 0x40;
	}
	memmove(data + 8, data, BYTES - 8);
	assert_true(checksum_part(data, BYTES, 0) != whole);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(known_values_stay_what_they_are),
	    cmocka_unit_test(every_offset_length_and_alignment_follows_the_definition),
	    cmocka_unit_test(slices_cut_anywhere_add_up_to_the_whole),
	    cmocka_unit_test(no_changed_or_exchanged_byte_goes_unseen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

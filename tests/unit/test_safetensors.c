/* sources: worker/safetensors.c worker/load_error.c */
#include "worker/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Parses as a file with so many bytes behind the header. */
static int
parse(struct safetensors *st, const char *header, uint64_t data_bytes, struct load_error *error)
{
	size_t n = strlen(header);
	char *copy = malloc(n > 0 ? n : 1);
	int r;

	memcpy(copy, header, n);
	r = safetensors_parse(st, "dir/file", copy, n, SAFETENSORS_LENGTH_BYTES + n + data_bytes,
			      error);
	free(copy);
	return r;
}

static void
assert_refused(const char *header, uint64_t data_bytes, const char *reason)
{
	struct load_error error;
	struct safetensors st;

	error.text[0] = '\0';
	if (parse(&st, header, data_bytes, &error) == 0)
		fail_msg("accepted: %s", header);
	if (strstr(error.text, reason) == NULL || strstr(error.text, "dir/file: ") != error.text)
		fail_msg("%s\nrefused with: %s\nnot with: %s", header, error.text, reason);
	assert_null(st.tensors);
}

static void
assert_accepted(const char *header, uint64_t data_bytes, size_t count)
{
	struct load_error error;
	struct safetensors st;

	if (parse(&st, header, data_bytes, &error) != 0)
		fail_msg("%s\nrefused: %s", header, error.text);
	assert_int_equal(st.count, count);
	safetensors_free(&st);
}

#define T(dtype, shape, begin, end)                                                                \
	"{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void
tensors_come_in_the_order_of_their_bytes(void **state)
{
	static const char header[] =
	    "{\"b\":" T("F32", "[2,3]", 4, 28) ",\"__metadata__\":{\"k\":"
					       "\"v\"},\"a\":" T("BF16", "[2]", 0, 4) "}   ";
	struct load_error error;
	struct safetensors st;

	(void)state;
	assert_int_equal(parse(&st, header, 28, &error), 0);
	assert_int_equal(st.count, 2);
	assert_string_equal(st.tensors[0].name, "a");
	assert_int_equal(st.tensors[0].offset, SAFETENSORS_LENGTH_BYTES + strlen(header));
	assert_int_equal(st.tensors[0].bytes, 4);
	assert_string_equal(st.tensors[1].name, "b");
	assert_int_equal(st.tensors[1].dtype, DTYPE_F32);
	assert_int_equal(st.tensors[1].ndim, 2);
	assert_int_equal(st.tensors[1].shape[1], 3);
	assert_int_equal(st.tensors[1].offset, SAFETENSORS_LENGTH_BYTES + strlen(header) + 4);
	safetensors_free(&st);
}

static void
every_type_of_the_format_has_its_size(void **state)
{
	char header[256];

	(void)state;
	for (enum dtype d = 0; d < DTYPE_COUNT; d++) {
		snprintf(header, sizeof(header),
			 "{\"t\":{\"dtype\":\"%s\",\"shape\":[8],\"data_offsets\":[0,%d]}}",
			 dtype_word(d), (int)dtype_bits(d));
		assert_accepted(header, dtype_bits(d), 1);
		assert_refused(header, dtype_bits(d) - 1, "it is cut short");
	}
}

static void
empty_tensors_and_scalars_are_tensors(void **state)
{
	(void)state;
	assert_accepted("{}", 0, 0);
	assert_accepted("{\"s\":" T("F64", "[]", 0, 8) "}", 8, 1);
	assert_accepted("{\"e\":" T("F32", "[3,0,5]", 0, 0) "}", 0, 1);
	assert_accepted("{\"e\":" T("U8", "[0]", 4, 4) ",\"a\":" T("U8", "[4]", 0, 4) ",\"b\":" T(
			    "U8", "[1]", 4, 5) "}",
			5, 3);
}

static void
unknown_fields_are_ignored_as_by_the_reference(void **state)
{
	(void)state;
	assert_accepted("{\"t\":{\"x\":1,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
			1, 1);
}

static void
holes_overlaps_and_wrong_ends_are_refused(void **state)
{
	(void)state;
	assert_refused("{\"t\":" T("U8", "[2]", 1, 3) "}", 3,
		       "'t': data_offsets: found begin 1, "
		       "expected 0 (a hole)");
	assert_refused("{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 3, 5) "}", 5,
		       "'b': data_offsets: found begin 3, expected 2 (a hole)");
	assert_refused("{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 1, 3) "}", 3,
		       "'b': data_offsets: found begin 1, expected 2 (an overlap)");
	assert_refused("{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 0, 2) "}", 2,
		       "(an overlap)");
	assert_refused("{\"t\":" T("U8", "[2]", 0, 2) "}", 3, "bytes follow the last tensor");
	assert_refused("{\"t\":" T("U8", "[2]", 0, 2) "}", 1, "it is cut short");
	assert_refused("{\"t\":" T("U8", "[2]", 2, 0) "}", 2, "end 0 is before begin 2");
	assert_refused("{}", 1, "bytes follow the last tensor");
}

static void
sizes_other_than_shape_times_type_are_refused(void **state)
{
	(void)state;
	assert_refused("{\"t\":" T("F32", "[2]", 0, 4) "}", 4, "found 4 bytes, expected 8");
	assert_refused("{\"t\":" T("F32", "[0]", 0, 4) "}", 4, "found 4 bytes, expected 0");
	assert_refused("{\"t\":" T("F4", "[3]", 0, 1) "}", 1, "not whole bytes");
}

static void
sizes_that_overflow_are_refused(void **state)
{
	(void)state;
	assert_refused("{\"t\":" T("U8", "[4294967296,4294967296]", 0, 0) "}", 0, "overflows");
	assert_refused("{\"t\":" T("F64", "[2305843009213693952]", 0, 0) "}", 0, "overflows");
	assert_refused("{\"t\":" T("U8", "[9223372036854775807,9223372036854775807]", 0, 1) "}", 1,
		       "overflows");
	assert_refused("{\"t\":" T("U8", "[18446744073709551616]", 0, 0) "}", 0, "too big integer");
}

static void
duplicate_names_and_fields_are_refused(void **state)
{
	(void)state;
	assert_refused("{\"t\":" T("U8", "[1]", 0, 1) ",\"t\":" T("U8", "[1]", 1, 2) "}", 2,
		       "duplicate object key");
	assert_refused("{\"t\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":"
		       "[0,1]}}",
		       1, "duplicate object key");
	assert_refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate object key");
}

static void
other_types_than_the_formats_are_refused(void **state)
{
	static const char *const numbers[] = {"1.0", "-1", "\"1\"", "null", "true", "[1]", "1e0"};
	char header[256];

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		snprintf(header, sizeof(header),
			 "{\"t\":{\"dtype\":\"U8\",\"shape\":[%s],\"data_offsets\":[0,1]}}",
			 numbers[i]);
		assert_refused(header, 1, "'t': shape[0]");
		snprintf(header, sizeof(header),
			 "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,%s]}}",
			 numbers[i]);
		assert_refused(header, 1, "'t': data_offsets[1]");
	}
	assert_refused("{\"t\":" T("U9", "[1]", 0, 1) "}", 1, "'t': dtype: found 'U9'");
	assert_refused("{\"t\":" T("u8", "[1]", 0, 1) "}", 1, "'t': dtype: found 'u8'");
	assert_refused("{\"t\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "dtype");
	assert_refused("{\"t\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "'t': dtype");
	assert_refused("{\"t\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "'t': shape");
	assert_refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "'t': data_offsets");
	assert_refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1,
		       "'t': data_offsets");
	assert_refused("{\"t\":[]}", 0, "'t': expected an object");
	assert_refused("{\"__metadata__\":[]}", 0, "__metadata__: expected an object");
	assert_refused("{\"__metadata__\":{\"k\":1}}", 0, "__metadata__: 'k' is not a string");
}

static void
what_is_not_one_json_object_is_refused(void **state)
{
	(void)state;
	assert_refused("", 0, "begin with '{'");
	assert_refused(" {}", 0, "begin with '{'");
	assert_refused("[]", 0, "begin with '{'");
	assert_refused("{", 0, "not the JSON expected");
	assert_refused("{}{}", 0, "not the JSON expected");
	assert_refused("{} x", 0, "not the JSON expected");
	assert_refused("{\"\xff\":1}", 0, "0xff");
	assert_refused("{\"\xc0\xaf\":1}", 0, "0xc0");
	assert_refused("{\"\\u0000\":1}", 0, "u0000");
}

static void
a_nul_in_the_header_is_refused(void **state)
{
	static const char header[] = "{}\0";
	struct load_error error;
	struct safetensors st;

	(void)state;
	assert_int_equal(safetensors_parse(&st, "f", header, 3, 11, &error), -1);
}

static void
a_header_longer_than_the_file_is_refused(void **state)
{
	struct load_error error;
	struct safetensors st;

	(void)state;
	assert_int_equal(safetensors_parse(&st, "f", "{}", 2, 9, &error), -1);
	assert_non_null(strstr(error.text, "found length 2, expected at most 1"));
	assert_int_equal(safetensors_parse(&st, "f", "{}", 2, 3, &error), -1);
}

static void
an_odd_name_cannot_break_the_line(void **state)
{
	struct load_error error;
	struct safetensors st;
	char header[8000], name[3000];

	(void)state;
	assert_int_equal(parse(&st, "{\"a\\nFAILED=x\\u001b[2J\":1}", 0, &error), -1);
	assert_null(strchr(error.text, '\n'));
	assert_null(strchr(error.text, '\033'));
	for (size_t i = 0; i + 2 < sizeof(name); i += 2)
		memcpy(name + i, "\xc3\xa4", 3);
	for (int pad = 0; pad < 2; pad++) {
		snprintf(header, sizeof(header), "{\"%s%s\":1}", pad ? "x" : "", name);
		assert_int_equal(parse(&st, header, 0, &error), -1);
		assert_true(strlen(error.text) >= LOAD_ERROR_BYTES - 3);
		assert_int_equal((unsigned char)error.text[strlen(error.text) - 1], 0xa4);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tensors_come_in_the_order_of_their_bytes),
	    cmocka_unit_test(every_type_of_the_format_has_its_size),
	    cmocka_unit_test(empty_tensors_and_scalars_are_tensors),
	    cmocka_unit_test(unknown_fields_are_ignored_as_by_the_reference),
	    cmocka_unit_test(holes_overlaps_and_wrong_ends_are_refused),
	    cmocka_unit_test(sizes_other_than_shape_times_type_are_refused),
	    cmocka_unit_test(sizes_that_overflow_are_refused),
	    cmocka_unit_test(duplicate_names_and_fields_are_refused),
	    cmocka_unit_test(other_types_than_the_formats_are_refused),
	    cmocka_unit_test(what_is_not_one_json_object_is_refused),
	    cmocka_unit_test(a_nul_in_the_header_is_refused),
	    cmocka_unit_test(a_header_longer_than_the_file_is_refused),
	    cmocka_unit_test(an_odd_name_cannot_break_the_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

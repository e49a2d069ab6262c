/* sources: */
/* The link's packets: what is taken, what is refused by which rule, and what is written. */
#include "common/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct message message;
static struct message_error error;

static int
parse(const char *packet, enum message_sender sender)
{
	return message_parse(packet, strlen(packet), sender, &message, &error);
}

static void
every_word_of_a_worker_is_read(void **state)
{
	(void)state;
	assert_int_equal(parse("HELLO=1\nPROTOCOL=1\nSETTINGS=0aF9", FROM_WORKER), 0);
	assert_int_equal(message.verb, VERB_HELLO);
	assert_int_equal(message.protocol, 1);
	assert_string_equal(message.settings, "0aF9");
	assert_int_equal(parse("STATUS=loads = slowly", FROM_WORKER), 0);
	assert_string_equal(message.text, "loads = slowly");
	assert_int_equal(parse("PROGRESS=36/48\nUNIT=layer\nBYTES=7/9\n", FROM_WORKER), 0);
	assert_int_equal(message.progress.done, 36);
	assert_int_equal(message.progress.total, 48);
	assert_string_equal(message.progress.unit, "layer");
	assert_int_equal(message.progress.bytes, 7);
	assert_int_equal(message.progress.bytes_total, 9);
	assert_int_equal(parse("GROUP_ID=AAEC", FROM_WORKER), 0);
	assert_int_equal(message.group_id_len, 3);
	assert_memory_equal(message.group_id, "\0\1\2", 3);
	assert_int_equal(parse("COLLECTIVE=done\nNAME=gather", FROM_WORKER), 0);
	assert_true(message.collective_done);
	assert_string_equal(message.name, "gather");
	assert_int_equal(parse("COLLECTIVE=begin", FROM_WORKER), 0);
	assert_false(message.collective_done);
	assert_int_equal(parse("EXTEND_TIMEOUT_USEC=5", FROM_WORKER), 0);
	assert_int_equal(message.extend_usec, 5);
	assert_int_equal(parse("FAILED=no memory\nERRNO=12", FROM_WORKER), 0);
	assert_string_equal(message.text, "no memory");
	assert_int_equal(message.error_number, 12);
	assert_int_equal(parse("SERVING=1", FROM_WORKER), 0);
	assert_int_equal(parse("WATCHDOG=1", FROM_WORKER), 0);
	assert_int_equal(parse("STOPPING=1", FROM_WORKER), 0);
	assert_int_equal(message.verb, VERB_STOPPING);
}

static void
every_word_of_the_supervisor_is_read(void **state)
{
	(void)state;
	assert_int_equal(parse("WELCOME=1\nRANK=3\nWORLD_SIZE=8\nEPOCH=2\n"
			       "READY_TIMEOUT_USEC=600000000\nCOLLECTIVE_TIMEOUT_USEC=0",
			       FROM_SUPERVISOR),
			 0);
	assert_int_equal(message.rank, 3);
	assert_int_equal(message.world_size, 8);
	assert_int_equal(message.epoch, 2);
	assert_int_equal(message.ready_timeout_usec, 600000000);
	assert_int_equal(message.collective_timeout_usec, 0);
	assert_int_equal(parse("GROUP_ID=AAEC", FROM_SUPERVISOR), 0);
	assert_int_equal(parse("GO=1", FROM_SUPERVISOR), 0);
	assert_int_equal(message.verb, VERB_GO);
	assert_int_equal(parse("ABORT=RankTimeout\nRANK=-1\nDETAIL=late", FROM_SUPERVISOR), 0);
	assert_int_equal(message.reason, REASON_RANK_TIMEOUT);
	assert_int_equal(message.rank, -1);
	assert_string_equal(message.text, "late");
	assert_int_equal(parse("STOP=1\nGRACE_USEC=8000000", FROM_SUPERVISOR), 0);
	assert_int_equal(message.grace_usec, 8000000);
}

static void
then_is_a_set_of_two_words(void **state)
{
	static const struct {
		const char *packet;
		bool collective, serving;
	} cases[] = {
	    {"READY=1", false, false},
	    {"READY=1\nTHEN=", false, false},
	    {"READY=1\nTHEN=collective", true, false},
	    {"READY=1\nTHEN=serving", false, true},
	    {"READY=1\nTHEN=collective,serving", true, true},
	    {"READY=1\nTHEN=serving,collective", true, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].packet, FROM_WORKER), 0);
		assert_int_equal(message.then_collective, cases[i].collective);
		assert_int_equal(message.then_serving, cases[i].serving);
	}
}

static void
what_is_malformed_is_refused_by_key_and_rule(void **state)
{
	static const struct {
		const char *packet, *key, *rule; /* a part of the rule */
	} cases[] = {
	    {"\n", "", "KEY=VALUE"},
	    {"READY", "READY", "KEY=VALUE"},
	    {"READY=1\n\n", "", "KEY=VALUE"},
	    {"\nREADY=1", "", "KEY=VALUE"},
	    {"=1", "", "letters, digits and _"},
	    {"READY =1", "READY ", "letters, digits and _"},
	    {"1READY=1", "1READY", "letters, digits and _"},
	    {"R\xc3\xa9"
	     "ADY=1",
	     "R\xc3\xa9"
	     "ADY",
	     "letters, digits and _"},
	    {"ready=1", "ready", "first line must be a verb"},
	    {"WHATEVER=1", "WHATEVER", "first line must be a verb"},
	    {"UNIT=layer\nPROGRESS=1/2", "UNIT", "first line must be a verb"},
	    {"GO=1", "GO", "not said by this side"},
	    {"WELCOME=1", "WELCOME", "not said by this side"},
	    {"READY=1\nSERVING=1", "SERVING", "one verb a packet"},
	    {"READY=1\nREADY=1", "READY", "twice"},
	    {"READY=1\nTHEN=serving\nTHEN=serving", "THEN", "twice"},
	    {"READY=0", "READY", "must be 1"},
	    {"READY=", "READY", "must be 1"},
	    {"READY=11", "READY", "must be 1"},
	    {"HELLO=1", "PROTOCOL", "must come with HELLO"},
	    {"HELLO=1\nPROTOCOL=-1", "PROTOCOL", "integer"},
	    {"HELLO=1\nPROTOCOL=4294967296", "PROTOCOL", "integer"},
	    {"HELLO=1\nPROTOCOL=1\nSETTINGS=", "SETTINGS", "hex digits"},
	    {"HELLO=1\nPROTOCOL=1\nSETTINGS=xyz", "SETTINGS", "hex digits"},
	    {"PROGRESS=1", "PROGRESS", "done/total"},
	    {"PROGRESS=2/1", "PROGRESS", "done/total"},
	    {"PROGRESS=1/", "PROGRESS", "done/total"},
	    {"PROGRESS=/1", "PROGRESS", "done/total"},
	    {"PROGRESS=1/2/3", "PROGRESS", "done/total"},
	    {"PROGRESS=+1/2", "PROGRESS", "done/total"},
	    {"PROGRESS= 1/2", "PROGRESS", "done/total"},
	    {"PROGRESS=1/18446744073709551616", "PROGRESS", "done/total"},
	    {"PROGRESS=1/2\nUNIT=", "UNIT", "1 to 31 bytes"},
	    {"PROGRESS=1/2\nUNIT=12345678901234567890123456789012", "UNIT", "1 to 31 bytes"},
	    {"PROGRESS=1/2\nBYTES=3/2", "BYTES", "done/total"},
	    {"GROUP_ID=", "GROUP_ID", "base64"},
	    {"GROUP_ID=AAA", "GROUP_ID", "base64"},
	    {"GROUP_ID=A===", "GROUP_ID", "base64"},
	    {"GROUP_ID=AA=A", "GROUP_ID", "base64"},
	    {"GROUP_ID=AB==", "GROUP_ID", "base64"},
	    {"GROUP_ID=AAB=", "GROUP_ID", "base64"},
	    {"GROUP_ID=AA==AAAA", "GROUP_ID", "base64"},
	    {"GROUP_ID=AA-_", "GROUP_ID", "base64"},
	    {"READY=1\nTHEN=dancing", "THEN", "collective, serving"},
	    {"READY=1\nTHEN=collective,", "THEN", "collective, serving"},
	    {"READY=1\nTHEN=,serving", "THEN", "collective, serving"},
	    {"READY=1\nTHEN=serving,serving", "THEN", "collective, serving"},
	    {"COLLECTIVE=1", "COLLECTIVE", "begin or done"},
	    {"COLLECTIVE=done\nNAME=", "NAME", "1 to 63 bytes"},
	    {"EXTEND_TIMEOUT_USEC=1.5", "EXTEND_TIMEOUT_USEC", "microseconds"},
	    {"EXTEND_TIMEOUT_USEC=18446744073709551616", "EXTEND_TIMEOUT_USEC", "microseconds"},
	    {"FAILED=x\nERRNO=-5", "ERRNO", "integer"},
	    {"FAILED=x\nERRNO=2147483648", "ERRNO", "integer"},
	    {"STATUS=x\nERRNO=much", "ERRNO", "integer"},
	    {"STATUS=\xff", "", "UTF-8"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (parse(cases[i].packet, FROM_WORKER) == 0)
			fail_msg("\"%s\" was taken", cases[i].packet);
		assert_string_equal(error.key, cases[i].key);
		if (strstr(error.rule, cases[i].rule) == NULL)
			fail_msg("\"%s\": %s", cases[i].packet, error.rule);
	}
}

static void
the_supervisors_words_are_checked_as_well(void **state)
{
	static const char *const packets[] = {
	    "WELCOME=1\nWORLD_SIZE=2\nEPOCH=1",
	    "WELCOME=1\nRANK=0\nEPOCH=1",
	    "WELCOME=1\nRANK=0\nWORLD_SIZE=2",
	    "WELCOME=1\nRANK=65536\nWORLD_SIZE=2\nEPOCH=1",
	    "WELCOME=1\nRANK=0\nWORLD_SIZE=0\nEPOCH=1",
	    "WELCOME=1\nRANK=0\nWORLD_SIZE=2\nEPOCH=4294967296",
	    "WELCOME=1\nRANK=0\nWORLD_SIZE=2\nEPOCH=1\nREADY_TIMEOUT_USEC=soon",
	    "ABORT=Whatever\nRANK=0",
	    "ABORT=\nRANK=0",
	    "ABORT=RankTimeout\nRANK=-2",
	    "STOP=1\nGRACE_USEC=-1",
	    "READY=1",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(packets) / sizeof(packets[0]); i++)
		if (parse(packets[i], FROM_SUPERVISOR) == 0)
			fail_msg("\"%s\" was taken", packets[i]);
}

static void
unknown_keys_are_ignored(void **state)
{
	(void)state;
	assert_int_equal(parse("READY=1\nCOLOUR=red\nTHEN=serving\nCOLOUR=blue\nx=\n", FROM_WORKER),
			 0);
	assert_true(message.then_serving);
}

static void
a_key_of_another_verb_means_nothing(void **state)
{
	(void)state;
	assert_int_equal(parse("FAILED=no memory\nDETAIL=other\nTHEN=serving", FROM_WORKER), 0);
	assert_string_equal(message.text, "no memory");
	assert_false(message.then_serving);
	assert_int_equal(parse("STATUS=x\nERRNO=5\nRANK=3\nPROTOCOL=9", FROM_WORKER), 0);
	assert_int_equal(message.error_number, 0);
	assert_int_equal(message.rank, -1);
	assert_int_equal(message.protocol, 0);
}

static void
a_packet_has_1_to_4096_bytes(void **state)
{
	char packet[MESSAGE_MAX_BYTES + 2];

	(void)state;
	memset(packet, 'x', sizeof(packet));
	memcpy(packet, "STATUS=", 7);
	assert_int_equal(message_parse(packet, 0, FROM_WORKER, &message, &error), -1);
	assert_non_null(strstr(error.rule, "1 to 4096"));
	assert_int_equal(message_parse(packet, 1, FROM_WORKER, &message, &error), -1);
	assert_int_equal(message_parse(packet, 4096, FROM_WORKER, &message, &error), 0);
	assert_int_equal(strlen(message.text), MESSAGE_TEXT_BYTES - 1);
	assert_int_equal(message_parse(packet, 4097, FROM_WORKER, &message, &error), -1);
	assert_non_null(strstr(error.rule, "1 to 4096"));
}

static void
a_packet_is_utf8_without_nul(void **state)
{
	static const struct {
		const char *bytes;
		size_t len, valid;
	} cases[] = {
	    {"a\0b", 3, 1},
	    {"\x7f", 1, 1},
	    {"\x80", 1, 0}, /* a continuation alone */
	    {"\xc2\xa0", 2, 2},
	    {"\xc1\xbf", 2, 0}, /* overlong */
	    {"\xc0\x80", 2, 0}, /* an overlong NUL */
	    {"\xdf\xbf", 2, 2},
	    {"\xc3", 1, 0}, /* cut short */
	    {"\xc3(", 2, 0},
	    {"\xe0\xa0\x80", 3, 3},
	    {"\xe0\x9f\xbf", 3, 0}, /* overlong */
	    {"\xed\x9f\xbf", 3, 3},
	    {"\xed\xa0\x80", 3, 0}, /* a surrogate */
	    {"\xef\xbf\xbf", 3, 3},
	    {"\xe2\x82", 2, 0},
	    {"\xe2\x82(", 3, 0},
	    {"\xf0\x90\x80\x80", 4, 4},
	    {"\xf0\x8f\xbf\xbf", 4, 0}, /* overlong */
	    {"\xf4\x8f\xbf\xbf", 4, 4},
	    {"\xf4\x90\x80\x80", 4, 0}, /* beyond Unicode */
	    {"\xf5\x80\x80\x80", 4, 0},
	    {"\xf0\x9f\x92", 3, 0},
	    {"ab\xff", 3, 2},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char packet[16] = "STATUS=";
		int refused = cases[i].valid != cases[i].len;

		assert_int_equal(utf8_valid_prefix(cases[i].bytes, cases[i].len), cases[i].valid);
		memcpy(packet + 7, cases[i].bytes, cases[i].len);
		assert_int_equal(
		    message_parse(packet, 7 + cases[i].len, FROM_WORKER, &message, &error),
		    -refused);
	}
}

static void
a_text_is_cut_at_a_character(void **state)
{
	char packet[7 + MESSAGE_TEXT_BYTES + 2] = "STATUS=";

	(void)state;
	memset(packet + 7, 'x', MESSAGE_TEXT_BYTES - 2);
	memcpy(packet + 7 + MESSAGE_TEXT_BYTES - 2, "\xe2\x82\xac", 4);
	assert_int_equal(parse(packet, FROM_WORKER), 0);
	assert_int_equal(strlen(message.text), MESSAGE_TEXT_BYTES - 2);
}

static void
an_extension_is_at_most_a_day(void **state)
{
	(void)state;
	assert_int_equal(parse("EXTEND_TIMEOUT_USEC=18446744073709551615", FROM_WORKER), 0);
	assert_int_equal(message.extend_usec, UINT64_C(86400000000));
}

static void
settings_have_up_to_128_hex_digits(void **state)
{
	char packet[256] = "HELLO=1\nPROTOCOL=1\nSETTINGS=";
	size_t start = strlen(packet);

	(void)state;
	memset(packet + start, 'f', 128);
	assert_int_equal(parse(packet, FROM_WORKER), 0);
	assert_int_equal(strlen(message.settings), 128);
	packet[start + 128] = 'f';
	assert_int_equal(parse(packet, FROM_WORKER), -1);
}

static void
a_group_id_has_1_to_512_bytes(void **state)
{
	unsigned char id[GROUP_ID_MAX_BYTES + 1];
	char packet[1024] = "GROUP_ID=";

	(void)state;
	for (size_t i = 0; i < sizeof(id); i++)
		id[i] = (unsigned char)(i * 7);
	for (size_t len = 1; len <= sizeof(id); len++) {
		base64_encode(id, len, packet + 9, sizeof(packet) - 9);
		if (len > GROUP_ID_MAX_BYTES) {
			assert_int_equal(parse(packet, FROM_WORKER), -1);
			continue;
		}
		assert_int_equal(parse(packet, FROM_WORKER), 0);
		assert_int_equal(message.group_id_len, len);
		assert_memory_equal(message.group_id, id, len);
	}
}

static void
what_is_written_reads_as_it_was(void **state)
{
	const struct message messages[] = {
	    {.verb = VERB_HELLO, .protocol = 1, .settings = "abc"},
	    {.verb = VERB_HELLO, .protocol = UINT32_MAX},
	    {.verb = VERB_STATUS, .text = "loads"},
	    {.verb = VERB_PROGRESS, .progress = {1, UINT64_MAX, "layer", 2, 3}},
	    {.verb = VERB_PROGRESS, .progress = {0, 0, "", 0, 0}},
	    {.verb = VERB_GROUP_ID, .group_id = {1, 2, 255}, .group_id_len = 3},
	    {.verb = VERB_GROUP_ID, .group_id = {9}, .group_id_len = GROUP_ID_MAX_BYTES},
	    {.verb = VERB_READY},
	    {.verb = VERB_READY, .then_collective = true, .then_serving = true},
	    {.verb = VERB_READY, .then_serving = true},
	    {.verb = VERB_COLLECTIVE, .name = "gather"},
	    {.verb = VERB_COLLECTIVE, .collective_done = true},
	    {.verb = VERB_SERVING},
	    {.verb = VERB_WATCHDOG},
	    {.verb = VERB_EXTEND, .extend_usec = 7},
	    {.verb = VERB_FAILED, .text = "no = memory", .error_number = 12},
	    {.verb = VERB_STOPPING},
	    {.verb = VERB_WELCOME,
	     .rank = 1023,
	     .world_size = 1024,
	     .epoch = UINT32_MAX,
	     .ready_timeout_usec = UINT64_MAX,
	     .collective_timeout_usec = 1},
	    {.verb = VERB_GO},
	    {.verb = VERB_ABORT, .reason = REASON_RANK_PROTOCOL, .rank = -1, .text = "why"},
	    {.verb = VERB_STOP, .grace_usec = 8},
	};
	char packet[MESSAGE_MAX_BYTES], again[MESSAGE_MAX_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		bool ours = messages[i].verb >= VERB_WELCOME;
		size_t n = message_format(&messages[i], packet);

		assert_int_equal(message_parse(packet, n, ours ? FROM_SUPERVISOR : FROM_WORKER,
					       &message, &error),
				 0);
		assert_int_equal(message.verb, messages[i].verb);
		assert_int_equal(message_format(&message, again), n);
		assert_memory_equal(again, packet, n);
	}
}

static void
texts_are_written_on_one_line_without_control_characters(void **state)
{
	const struct message failed = {.verb = VERB_FAILED,
				       .text = "two\nlines\r\x1b[31m \xc2\x9b"
					       "1m \xc3\xa9"};
	char packet[MESSAGE_MAX_BYTES];
	size_t n = message_format(&failed, packet);

	(void)state;
	assert_int_equal(message_parse(packet, n, FROM_WORKER, &message, &error), 0);
	assert_string_equal(message.text, "two lines??[31m ?1m \xc3\xa9");
}

static void
a_packet_is_shown_as_one_line(void **state)
{
	char line[16];

	(void)state;
	message_to_string("A=1\nB=\xff\x01\n", 9, line, sizeof(line));
	assert_string_equal(line, "A=1 B=??");
	message_to_string("A=\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 17,
			  line, sizeof(line));
	assert_string_equal(line, "A=\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac");
	message_to_string("", 0, line, sizeof(line));
	assert_string_equal(line, "");
}

static void
base64_has_one_spelling(void **state)
{
	static const struct {
		const char *text;
		long len;
	} cases[] = {
	    {"", 0},     {"AA==", 1},  {"AAA=", 2},   {"AAAA", 3},   {"/+==", -1},
	    {"/w==", 1}, {"//8=", 2},  {"////", 3},   {"AAAAA", -1}, {"====", -1},
	    {"AA=", -1}, {"A A=", -1}, {"AAAA=", -1}, {"AAA==", -1}, {"AAAA====", -1},
	};
	unsigned char out[8];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (base64_decode(cases[i].text, out, sizeof(out)) != cases[i].len)
			fail_msg("\"%s\"", cases[i].text);
	assert_int_equal(base64_decode("AAAAAAAAAAAA", out, sizeof(out)), -1);
	assert_int_equal(base64_decode("AAAAAAAAAAA=", out, sizeof(out)), 8);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_word_of_a_worker_is_read),
	    cmocka_unit_test(every_word_of_the_supervisor_is_read),
	    cmocka_unit_test(then_is_a_set_of_two_words),
	    cmocka_unit_test(what_is_malformed_is_refused_by_key_and_rule),
	    cmocka_unit_test(the_supervisors_words_are_checked_as_well),
	    cmocka_unit_test(unknown_keys_are_ignored),
	    cmocka_unit_test(a_key_of_another_verb_means_nothing),
	    cmocka_unit_test(a_packet_has_1_to_4096_bytes),
	    cmocka_unit_test(a_packet_is_utf8_without_nul),
	    cmocka_unit_test(a_text_is_cut_at_a_character),
	    cmocka_unit_test(an_extension_is_at_most_a_day),
	    cmocka_unit_test(settings_have_up_to_128_hex_digits),
	    cmocka_unit_test(a_group_id_has_1_to_512_bytes),
	    cmocka_unit_test(what_is_written_reads_as_it_was),
	    cmocka_unit_test(texts_are_written_on_one_line_without_control_characters),
	    cmocka_unit_test(a_packet_is_shown_as_one_line),
	    cmocka_unit_test(base64_has_one_spelling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

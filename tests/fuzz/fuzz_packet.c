/* sources: */
/* A packet: what parses can be written, and what was written parses to the same packet again. */
#include "common/message.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
require(bool promise)
{
	if (!promise)
		abort();
}

static void
check_round_trip(const struct message *message, enum message_sender sender)
{
	char first[MESSAGE_MAX_BYTES], second[MESSAGE_MAX_BYTES];
	struct message again;
	struct message_error error;
	size_t n = message_format(message, first);

	require(n >= 1 && n <= MESSAGE_MAX_BYTES);
	require(message_parse(first, n, sender, &again, &error) == 0);
	require(again.verb == message->verb);
	require(message_format(&again, second) == n && memcmp(first, second, n) == 0);
}

static void
check_side(const uint8_t *data, size_t len, enum message_sender sender)
{
	struct message message;
	struct message_error error;

	if (message_parse(data, len, sender, &message, &error) == 0)
		check_round_trip(&message, sender);
	else
		require(error.rule[0] != '\0');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char line[256];

	check_side(data, len, FROM_WORKER);
	check_side(data, len, FROM_SUPERVISOR);
	message_to_string(data, len, line, sizeof(line));
	require(utf8_valid_prefix(line, strlen(line)) == strlen(line));
	return 0;
}

/* Writing packets. */
#include "common/message.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct packet {
	char *p; /* [MESSAGE_MAX_BYTES] */
	size_t n;
};

static void put(struct packet *packet, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* What does not fit is left out whole; only put_text may be cut. */
static void
put(struct packet *packet, const char *fmt, ...)
{
	char line[(GROUP_ID_MAX_BYTES + 2) / 3 * 4 + 64];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(line) || packet->n + (size_t)n > MESSAGE_MAX_BYTES)
		return;
	memcpy(packet->p + packet->n, line, (size_t)n);
	packet->n += (size_t)n;
}

static void
put_text(struct packet *packet, const char *key, const char *text)
{
	char clean[MESSAGE_TEXT_BYTES];

	message_to_string(text, strlen(text), clean, sizeof(clean));
	put(packet, "%s=", key);
	if (packet->n + strlen(clean) < MESSAGE_MAX_BYTES) {
		memcpy(packet->p + packet->n, clean, strlen(clean));
		packet->n += strlen(clean);
	}
	put(packet, "\n");
}

static void
put_progress(struct packet *packet, const struct progress *progress)
{
	put(packet, "PROGRESS=%" PRIu64 "/%" PRIu64 "\n", progress->done, progress->total);
	if (progress->unit[0] != '\0')
		put(packet, "UNIT=%s\n", progress->unit);
	if (progress->bytes_total > 0)
		put(packet, "BYTES=%" PRIu64 "/%" PRIu64 "\n", progress->bytes,
		    progress->bytes_total);
}

static void
put_group_id(struct packet *packet, const struct message *m)
{
	char text[(GROUP_ID_MAX_BYTES + 2) / 3 * 4 + 1];

	base64_encode(m->group_id, m->group_id_len, text, sizeof(text));
	put(packet, "GROUP_ID=%s\n", text);
}

static void
put_ready(struct packet *packet, const struct message *m)
{
	put(packet, "READY=1\n");
	if (m->then_collective || m->then_serving)
		put(packet, "THEN=%s%s%s\n", m->then_collective ? "collective" : "",
		    m->then_collective && m->then_serving ? "," : "",
		    m->then_serving ? "serving" : "");
}

static void
put_welcome(struct packet *packet, const struct message *m)
{
	put(packet,
	    "WELCOME=1\nRANK=%d\nWORLD_SIZE=%d\nEPOCH=%" PRIu32 "\nREADY_TIMEOUT_USEC=%" PRIu64
	    "\nCOLLECTIVE_TIMEOUT_USEC=%" PRIu64 "\n",
	    m->rank, m->world_size, m->epoch, m->ready_timeout_usec, m->collective_timeout_usec);
}

size_t
message_format(const struct message *message, char buffer[MESSAGE_MAX_BYTES])
{
	struct packet packet = {buffer, 0};

	switch (message->verb) {
	case VERB_HELLO:
		put(&packet, "HELLO=1\nPROTOCOL=%" PRIu32 "\n", message->protocol);
		if (message->settings[0] != '\0')
			put(&packet, "SETTINGS=%s\n", message->settings);
		break;
	case VERB_STATUS:
		put_text(&packet, "STATUS", message->text);
		break;
	case VERB_PROGRESS:
		put_progress(&packet, &message->progress);
		break;
	case VERB_GROUP_ID:
		put_group_id(&packet, message);
		break;
	case VERB_READY:
		put_ready(&packet, message);
		break;
	case VERB_COLLECTIVE:
		put(&packet, "COLLECTIVE=%s\n", message->collective_done ? "done" : "begin");
		if (message->name[0] != '\0')
			put_text(&packet, "NAME", message->name);
		break;
	case VERB_EXTEND:
		put(&packet, "EXTEND_TIMEOUT_USEC=%" PRIu64 "\n", message->extend_usec);
		break;
	case VERB_FAILED:
		put_text(&packet, "FAILED", message->text);
		if (message->error_number != 0)
			put(&packet, "ERRNO=%d\n", message->error_number);
		break;
	case VERB_WELCOME:
		put_welcome(&packet, message);
		break;
	case VERB_ABORT:
		put(&packet, "ABORT=%s\nRANK=%d\n", reason_word(message->reason), message->rank);
		put_text(&packet, "DETAIL", message->text);
		break;
	case VERB_STOP:
		put(&packet, "STOP=1\nGRACE_USEC=%" PRIu64 "\n", message->grace_usec);
		break;
	case VERB_SERVING:
	case VERB_WATCHDOG:
	case VERB_STOPPING:
	case VERB_GO:
		put(&packet, "%s=1\n", verb_word(message->verb));
		break;
	case VERB_COUNT:
		break;
	}
	return packet.n;
}

/* Reading packets, by one table of verbs and one of keys. */
#include "common/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EXTEND_MAX_USEC   (UINT64_C(86400) * 1000000)
#define INTEGER_DIGITS    20
#define RANKS_ON_THE_WIRE 65535

static const struct {
	const char *word;
	enum message_sender sender;
} verbs[VERB_COUNT] = {
#define X(id, word, sender) [VERB_##id] = {word, sender},
    VERBS(X)
#undef X
};

const char *
verb_word(enum verb verb)
{
	return verbs[verb].word;
}

/* A value within the packet, not NUL-terminated. */
struct value {
	const char *p;
	size_t len;
};

struct parser {
	struct message *message;
	struct message_error *error;
	enum message_sender sender;
};

static int malformed(struct parser *parser, const char *key, size_t key_len, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int
malformed(struct parser *parser, const char *key, size_t key_len, const char *fmt, ...)
{
	va_list ap;

	message_to_string(key, key_len, parser->error->key, sizeof(parser->error->key));
	va_start(ap, fmt);
	vsnprintf(parser->error->rule, sizeof(parser->error->rule), fmt, ap);
	va_end(ap);
	return -1;
}

static bool
value_is(struct value value, const char *word)
{
	return value.len == strlen(word) && memcmp(value.p, word, value.len) == 0;
}

/* As much as fits without cutting a character, fit to be shown: a rank's text is nobody's terminal.
 */
static void
copy_text(char *out, size_t size, struct value value)
{
	message_to_string(value.p, value.len, out, size);
}

static bool
parse_u64(struct value value, uint64_t *out)
{
	uint64_t v = 0;

	if (value.len == 0 || value.len > INTEGER_DIGITS)
		return false;
	for (size_t i = 0; i < value.len; i++) {
		unsigned d = (unsigned)(value.p[i] - '0');

		if (d > 9 || v > (UINT64_MAX - d) / 10)
			return false;
		v = v * 10 + d;
	}
	*out = v;
	return true;
}

static bool
parse_bounded(struct value value, uint64_t max, uint64_t *out)
{
	return parse_u64(value, out) && *out <= max;
}

/* "done/total" with done <= total */
static bool
parse_ratio(struct value value, uint64_t *done, uint64_t *total)
{
	const char *slash = memchr(value.p, '/', value.len);
	struct value left, right;

	if (slash == NULL)
		return false;
	left = (struct value){value.p, (size_t)(slash - value.p)};
	right = (struct value){slash + 1, value.len - left.len - 1};
	return parse_u64(left, done) && parse_u64(right, total) && *done <= *total;
}

static bool
parse_hex(struct value value, char *out, size_t size)
{
	if (value.len == 0 || value.len >= size)
		return false;
	for (size_t i = 0; i < value.len; i++)
		if (memchr("0123456789abcdefABCDEF", value.p[i], 22) == NULL)
			return false;
	memcpy(out, value.p, value.len);
	out[value.len] = '\0';
	return true;
}

static bool
parse_then(struct value value, struct message *m)
{
	while (value.len > 0) {
		const char *comma = memchr(value.p, ',', value.len);
		size_t n = comma == NULL ? value.len : (size_t)(comma - value.p);
		struct value word = {value.p, n};
		bool *flag;

		if (value_is(word, "collective"))
			flag = &m->then_collective;
		else if (value_is(word, "serving"))
			flag = &m->then_serving;
		else
			return false;
		if (*flag || (comma != NULL && n + 1 == value.len))
			return false;
		*flag = true;
		value.p += n + (comma != NULL);
		value.len -= n + (comma != NULL);
	}
	return true;
}

/* --- one function a key: fills the message or names the rule that the value breaks --- */

typedef const char *(*key_reader)(struct value value, struct message *m);

static const char *
read_one(struct value value, struct message *m)
{
	(void)m;
	return value_is(value, "1") ? NULL : "must be 1";
}

static const char *
read_text(struct value value, struct message *m)
{
	copy_text(m->text, sizeof(m->text), value);
	return NULL;
}

static const char *
read_progress(struct value value, struct message *m)
{
	return parse_ratio(value, &m->progress.done, &m->progress.total)
		   ? NULL
		   : "must be done/total, two integers, done at most total";
}

static const char *
read_bytes(struct value value, struct message *m)
{
	return parse_ratio(value, &m->progress.bytes, &m->progress.bytes_total)
		   ? NULL
		   : "must be done/total, two integers, done at most total";
}

static const char *
read_unit(struct value value, struct message *m)
{
	if (value.len == 0 || value.len >= sizeof(m->progress.unit))
		return "must be 1 to 31 bytes";
	copy_text(m->progress.unit, sizeof(m->progress.unit), value);
	return NULL;
}

static const char *
read_group_id(struct value value, struct message *m)
{
	char text[(GROUP_ID_MAX_BYTES + 2) / 3 * 4 + 1];
	long n = -1;

	if (value.len < sizeof(text)) {
		memcpy(text, value.p, value.len);
		text[value.len] = '\0';
		n = base64_decode(text, m->group_id, sizeof(m->group_id));
	}
	if (n < 1)
		return "must be base64 of 1 to 512 bytes";
	m->group_id_len = (size_t)n;
	return NULL;
}

static const char *
read_then(struct value value, struct message *m)
{
	return parse_then(value, m) ? NULL : "must be collective, serving, or both with a comma";
}

static const char *
read_collective(struct value value, struct message *m)
{
	m->collective_done = value_is(value, "done");
	return m->collective_done || value_is(value, "begin") ? NULL : "must be begin or done";
}

static const char *
read_name(struct value value, struct message *m)
{
	if (value.len == 0 || value.len >= sizeof(m->name))
		return "must be 1 to 63 bytes";
	copy_text(m->name, sizeof(m->name), value);
	return NULL;
}

static const char *
read_extend(struct value value, struct message *m)
{
	if (!parse_u64(value, &m->extend_usec))
		return "must be an integer, microseconds";
	if (m->extend_usec > EXTEND_MAX_USEC)
		m->extend_usec = EXTEND_MAX_USEC;
	return NULL;
}

static const char *
read_errno(struct value value, struct message *m)
{
	uint64_t v;

	if (!parse_bounded(value, INT32_MAX, &v))
		return "must be an integer, 0 to 2147483647";
	m->error_number = (int)v;
	return NULL;
}

static const char *
read_protocol(struct value value, struct message *m)
{
	uint64_t v;

	if (!parse_bounded(value, UINT32_MAX, &v))
		return "must be an integer, 0 to 4294967295";
	m->protocol = (uint32_t)v;
	return NULL;
}

static const char *
read_settings(struct value value, struct message *m)
{
	return parse_hex(value, m->settings, sizeof(m->settings)) ? NULL
								  : "must be 1 to 128 hex digits";
}

static const char *
read_rank(struct value value, struct message *m)
{
	uint64_t v;

	if (value_is(value, "-1"))
		v = UINT64_MAX;
	else if (!parse_bounded(value, RANKS_ON_THE_WIRE, &v))
		return "must be a rank";
	m->rank = v == UINT64_MAX ? -1 : (int)v;
	return NULL;
}

static const char *
read_world_size(struct value value, struct message *m)
{
	uint64_t v;

	if (!parse_bounded(value, RANKS_ON_THE_WIRE, &v) || v == 0)
		return "must be a number of ranks";
	m->world_size = (int)v;
	return NULL;
}

static const char *
read_epoch(struct value value, struct message *m)
{
	uint64_t v;

	if (!parse_bounded(value, UINT32_MAX, &v))
		return "must be an integer, 0 to 4294967295";
	m->epoch = (uint32_t)v;
	return NULL;
}

static const char *
read_ready_timeout(struct value value, struct message *m)
{
	return parse_u64(value, &m->ready_timeout_usec) ? NULL : "must be an integer, microseconds";
}

static const char *
read_collective_timeout(struct value value, struct message *m)
{
	return parse_u64(value, &m->collective_timeout_usec) ? NULL
							     : "must be an integer, microseconds";
}

static const char *
read_grace(struct value value, struct message *m)
{
	return parse_u64(value, &m->grace_usec) ? NULL : "must be an integer, microseconds";
}

static const char *
read_abort(struct value value, struct message *m)
{
	char word[MESSAGE_NAME_BYTES];

	copy_text(word, sizeof(word), value);
	return reason_from_word(word, &m->reason) ? NULL : "must be a reason";
}

/* The verbs come first and in the order of enum verb, so that a key's index is its verb. */
enum { KEY_FIRST_FIELD = VERB_COUNT };

#define OF(verb) (1U << VERB_##verb)

static const struct {
	const char *word;
	key_reader read;
	unsigned verbs; /* set of 1 << verb that it belongs to; 0: it is a verb */
} keys[] = {
    [VERB_HELLO] = {"HELLO", read_one, 0},
    [VERB_STATUS] = {"STATUS", read_text, 0},
    [VERB_PROGRESS] = {"PROGRESS", read_progress, 0},
    [VERB_GROUP_ID] = {"GROUP_ID", read_group_id, 0},
    [VERB_READY] = {"READY", read_one, 0},
    [VERB_COLLECTIVE] = {"COLLECTIVE", read_collective, 0},
    [VERB_SERVING] = {"SERVING", read_one, 0},
    [VERB_WATCHDOG] = {"WATCHDOG", read_one, 0},
    [VERB_EXTEND] = {"EXTEND_TIMEOUT_USEC", read_extend, 0},
    [VERB_FAILED] = {"FAILED", read_text, 0},
    [VERB_STOPPING] = {"STOPPING", read_one, 0},
    [VERB_WELCOME] = {"WELCOME", read_one, 0},
    [VERB_GO] = {"GO", read_one, 0},
    [VERB_ABORT] = {"ABORT", read_abort, 0},
    [VERB_STOP] = {"STOP", read_one, 0},
    {"PROTOCOL", read_protocol, OF(HELLO)},
    {"SETTINGS", read_settings, OF(HELLO)},
    {"UNIT", read_unit, OF(PROGRESS)},
    {"BYTES", read_bytes, OF(PROGRESS)},
    {"THEN", read_then, OF(READY)},
    {"NAME", read_name, OF(COLLECTIVE)},
    {"ERRNO", read_errno, OF(FAILED)},
    {"RANK", read_rank, OF(WELCOME) | OF(ABORT)},
    {"WORLD_SIZE", read_world_size, OF(WELCOME)},
    {"EPOCH", read_epoch, OF(WELCOME)},
    {"READY_TIMEOUT_USEC", read_ready_timeout, OF(WELCOME)},
    {"COLLECTIVE_TIMEOUT_USEC", read_collective_timeout, OF(WELCOME)},
    {"DETAIL", read_text, OF(ABORT)},
    {"GRACE_USEC", read_grace, OF(STOP)},
};

#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))
_Static_assert(KEY_COUNT <= 64, "the set of keys seen is one word");

static size_t
find_key(struct value word)
{
	size_t i;

	for (i = 0; i < KEY_COUNT; i++)
		if (value_is(word, keys[i].word))
			break;
	return i;
}

static bool
key_is_word(struct value key)
{
	if (key.len == 0 || (key.p[0] >= '0' && key.p[0] <= '9'))
		return false;
	for (size_t i = 0; i < key.len; i++) {
		char c = key.p[i];

		if (c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') &&
		    (c < 'a' || c > 'z'))
			return false;
	}
	return true;
}

static int
parse_verb(struct parser *parser, struct value key, size_t index)
{
	if (index >= KEY_FIRST_FIELD)
		return malformed(parser, key.p, key.len, "the first line must be a verb");
	if ((verbs[index].sender & parser->sender) == 0)
		return malformed(parser, key.p, key.len, "is not said by this side");
	parser->message->verb = (enum verb)index;
	return 0;
}

/* A key of another verb is checked like its own, and means nothing. */
static const char *
read_value(struct parser *parser, size_t index, struct value value)
{
	struct message other;

	if (index < KEY_FIRST_FIELD || (keys[index].verbs >> parser->message->verb & 1) != 0)
		return keys[index].read(value, parser->message);
	memset(&other, 0, sizeof(other));
	return keys[index].read(value, &other);
}

static int
parse_line(struct parser *parser, struct value line, uint64_t *seen)
{
	const char *equals = memchr(line.p, '=', line.len);
	struct value key, value;
	const char *rule;
	size_t index;

	if (equals == NULL)
		return malformed(parser, line.p, line.len, "a line must be KEY=VALUE");
	key = (struct value){line.p, (size_t)(equals - line.p)};
	value = (struct value){equals + 1, line.len - key.len - 1};
	if (!key_is_word(key))
		return malformed(parser, key.p, key.len, "a key is letters, digits and _");
	index = find_key(key);
	if (*seen == 0) {
		if (parse_verb(parser, key, index) != 0)
			return -1;
	} else if (index < KEY_FIRST_FIELD && (*seen & UINT64_C(1) << index) == 0) {
		return malformed(parser, key.p, key.len, "one verb a packet");
	}
	if (index == KEY_COUNT)
		return 0;
	if ((*seen & UINT64_C(1) << index) != 0)
		return malformed(parser, key.p, key.len, "a key must not come twice");
	*seen |= UINT64_C(1) << index;
	if ((rule = read_value(parser, index, value)) != NULL)
		return malformed(parser, key.p, key.len, "%s", rule);
	return 0;
}

static bool
seen_key(uint64_t seen, const char *word)
{
	size_t index = find_key((struct value){word, strlen(word)});

	return (seen & UINT64_C(1) << index) != 0;
}

static int
check_required(struct parser *parser, uint64_t seen)
{
	static const struct {
		enum verb verb;
		const char *key;
	} required[] = {
	    {VERB_HELLO, "PROTOCOL"},
	    {VERB_WELCOME, "RANK"},
	    {VERB_WELCOME, "WORLD_SIZE"},
	    {VERB_WELCOME, "EPOCH"},
	};

	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
		if (required[i].verb == parser->message->verb && !seen_key(seen, required[i].key))
			return malformed(parser, required[i].key, strlen(required[i].key),
					 "must come with %s", verb_word(parser->message->verb));
	return 0;
}

int
message_parse(const void *packet, size_t len, enum message_sender sender, struct message *message,
	      struct message_error *error)
{
	struct parser parser = {message, error, sender};
	const char *p = packet, *end;
	uint64_t seen = 0;

	memset(message, 0, sizeof(*message));
	memset(error, 0, sizeof(*error));
	message->verb = VERB_COUNT;
	message->rank = -1;
	if (len == 0 || len > MESSAGE_MAX_BYTES)
		return malformed(&parser, "", 0, "a packet is 1 to %d bytes", MESSAGE_MAX_BYTES);
	if (utf8_valid_prefix(packet, len) != len)
		return malformed(&parser, "", 0, "a packet is UTF-8 without NUL");
	if (p[len - 1] == '\n')
		len--;
	end = p + len;
	for (;;) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((newline == NULL ? end : newline) - p);

		if (parse_line(&parser, (struct value){p, n}, &seen) != 0)
			return -1;
		if (newline == NULL)
			return check_required(&parser, seen);
		p = newline + 1;
	}
}

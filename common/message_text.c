/* The link's text encodings: UTF-8, base64, and a packet as one line for people. */
#include "common/message.h"

#include <string.h>

/* Length of the well-formed sequence at p, 0 if there is none. Overlong forms and surrogates are
 * refused. */
static size_t
utf8_sequence(const unsigned char *p, size_t left)
{
	unsigned low = 0x80, high = 0xbf;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		n = 2;
	else if ((p[0] & 0xf0) == 0xe0)
		n = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		n = 4;
	else
		return 0;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (left < n || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

size_t
utf8_valid_prefix(const void *text, size_t len)
{
	const unsigned char *p = text;
	size_t i = 0, n;

	while (i < len && p[i] != '\0' && (n = utf8_sequence(p + i, len - i)) > 0)
		i += n;
	return i;
}

/* Of one byte and of two, and those that turn the direction of writing: terminals obey them all. */
static bool
is_control(const unsigned char *p)
{
	if (p[0] == 0xe2)
		return (p[1] == 0x80 && p[2] >= 0xaa && p[2] <= 0xae) ||
		       (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);
	return p[0] < 0x20 || p[0] == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0);
}

void
message_to_string(const void *packet, size_t len, char *out, size_t size)
{
	const unsigned char *p = packet;
	size_t i = 0, o = 0;

	if (len > 0 && p[len - 1] == '\n')
		len--;
	while (i < len) {
		size_t n = utf8_sequence(p + i, len - i);
		size_t take = n == 0 ? 1 : n;

		if (o + take >= size)
			break;
		if (p[i] == '\n') {
			out[o++] = ' ';
		} else if (n == 0 || is_control(p + i)) {
			out[o++] = '?';
		} else {
			memcpy(out + o, p + i, take);
			o += take;
		}
		i += take;
	}
	out[o] = '\0';
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t
base64_encode(const unsigned char *data, size_t len, char *out, size_t size)
{
	size_t o = 0;

	for (size_t i = 0; i < len && o + 5 <= size; i += 3) {
		size_t left = len - i;
		unsigned v = (unsigned)data[i] << 16;

		if (left > 1)
			v |= (unsigned)data[i + 1] << 8;
		if (left > 2)
			v |= data[i + 2];
		out[o++] = digits[v >> 18];
		out[o++] = digits[v >> 12 & 63];
		out[o++] = left > 1 ? digits[v >> 6 & 63] : '=';
		out[o++] = left > 2 ? digits[v & 63] : '=';
	}
	out[o] = '\0';
	return o;
}

static int
digit_value(char c)
{
	const char *p;

	if (c == '\0' || (p = strchr(digits, c)) == NULL)
		return -1;
	return (int)(p - digits);
}

long
base64_decode(const char *text, unsigned char *out, size_t size)
{
	size_t len = strlen(text), o = 0;

	if (len % 4 != 0)
		return -1;
	for (size_t i = 0; i < len; i += 4) {
		int last = i + 4 == len;
		int pad = !last ? 0 : text[i + 2] == '=' ? 2 : text[i + 3] == '=';
		unsigned v = 0;

		if (pad == 2 && text[i + 3] != '=')
			return -1;
		for (int k = 0; k < 4; k++) {
			int d = k >= 4 - pad ? 0 : digit_value(text[i + (size_t)k]);

			if (d < 0)
				return -1;
			v = v << 6 | (unsigned)d;
		}
		/* Bits that the padding leaves over must be zero: one id has one spelling. */
		if ((pad == 1 && (v & 0xff) != 0) || (pad == 2 && (v & 0xffff) != 0))
			return -1;
		if (o + 3 - (size_t)pad > size)
			return -1;
		out[o++] = (unsigned char)(v >> 16);
		if (pad < 2)
			out[o++] = (unsigned char)(v >> 8);
		if (pad < 1)
			out[o++] = (unsigned char)v;
	}
	return (long)o;
}

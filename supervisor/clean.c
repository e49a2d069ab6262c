#include "supervisor/clean.h"

#include "common/message.h"

#include <string.h>

#define ESCAPE 0x1b
#define BELL   0x07
#define RESET  "\033[0m"

/* Length of a CSI sequence, from its ESC; *colors if all it does is set colours. */
static size_t
csi_length(const char *text, size_t len, bool *colors)
{
	size_t i = 2;

	while (i < len && text[i] >= 0x30 && text[i] <= 0x3f)
		i++;
	*colors = i < len && text[i] == 'm' && strspn(text + 2, "0123456789;:") >= i - 2;
	while (i < len && text[i] >= 0x20 && text[i] <= 0x2f)
		i++;
	return i < len && text[i] >= 0x40 && text[i] <= 0x7e ? i + 1 : i;
}

/* Length of a string sequence (title, hyperlink, device control); its introducer if it never ends.
 */
static size_t
string_length(const char *text, size_t len)
{
	for (size_t i = 2; i < len; i++) {
		if (text[i] == BELL)
			return i + 1;
		if (text[i] == ESCAPE && i + 1 < len && text[i + 1] == '\\')
			return i + 2;
	}
	return 2;
}

static size_t
escape_length(const char *text, size_t len, bool *colors)
{
	size_t i = 1;

	*colors = false;
	if (len < 2)
		return len;
	if (text[1] == '[')
		return csi_length(text, len, colors);
	if (strchr("]PX^_", text[1]) != NULL && text[1] != '\0')
		return string_length(text, len);
	while (i < len && text[i] >= 0x20 && text[i] <= 0x2f)
		i++;
	return i < len && text[i] >= 0x30 && text[i] <= 0x7e ? i + 1 : i;
}

/* Bytes of the valid character at text, 0 if it is none. */
static size_t
character_length(const char *text, size_t len)
{
	unsigned char c = (unsigned char)text[0];
	size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

	if (c == 0)
		return 1;
	return n <= len && utf8_valid_prefix(text, n) == n ? n : 0;
}

static bool
is_control(const char *text, size_t n)
{
	unsigned char c = (unsigned char)text[0];

	if (n == 1)
		return (c < 0x20 && c != '\t') || c == 0x7f;
	return n == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0;
}

size_t
clean_terminal(const char *text, size_t len, bool color, char *out)
{
	bool colors, colored = false;
	size_t i = 0, o = 0, n;

	while (i < len) {
		if (text[i] == ESCAPE) {
			n = escape_length(text + i, len - i, &colors);
			if (colors && color) {
				memcpy(out + o, text + i, n);
				o += n;
				colored = true;
			}
			i += n;
			continue;
		}
		n = character_length(text + i, len - i);
		if (n == 0 || is_control(text + i, n)) {
			out[o++] = '?';
			i += n == 0 ? 1 : n;
			continue;
		}
		memcpy(out + o, text + i, n);
		o += n;
		i += n;
	}
	if (colored) {
		memcpy(out + o, RESET, sizeof(RESET) - 1);
		o += sizeof(RESET) - 1;
	}
	return o;
}

size_t
clean_utf8(const char *text, size_t len, char *out)
{
	size_t i = 0, n;

	memcpy(out, text, len);
	while (i < len) {
		n = character_length(text + i, len - i);
		if (n == 0)
			out[i++] = '?';
		i += n;
	}
	return len;
}

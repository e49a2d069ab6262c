#include "supervisor/canvas.h"

#include "supervisor/clean.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 1024
#define CELL_BYTES  256 /* one piece of a row */
#define WIDE_FROM   0x1100

static void
put(struct canvas *canvas, const char *text, size_t len)
{
	size_t cap = canvas->cap == 0 ? FIRST_BYTES : canvas->cap;
	char *grown;

	while (cap < canvas->len + len)
		cap *= 2;
	if (cap > canvas->cap) {
		grown = realloc(canvas->text, cap);
		if (grown == NULL) {
			canvas->failed = true;
			return;
		}
		canvas->text = grown;
		canvas->cap = cap;
	}
	memcpy(canvas->text + canvas->len, text, len);
	canvas->len += len;
}

void
canvas_put(struct canvas *canvas, const char *text)
{
	put(canvas, text, strlen(text));
}

/* Columns of the character at text, *bytes long; a wide one where it might be. */
static int
character_width(const unsigned char *text, size_t *bytes)
{
	unsigned c = text[0];

	if (c < 0x80) {
		*bytes = 1;
		return 1;
	}
	*bytes = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	if (*bytes == 2)
		return 1;
	return *bytes == 4 || ((c & 0x0f) << 12 | (text[1] & 0x3fu) << 6) >= WIDE_FROM ? 2 : 1;
}

void
canvas_cell(struct canvas *canvas, const char *fmt, ...)
{
	char raw[CELL_BYTES], text[CELL_BYTES + CLEAN_GROWTH_BYTES];
	size_t len, i, bytes;
	va_list ap;
	int n, w;

	va_start(ap, fmt);
	n = vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	len = clean_terminal(raw, strlen(raw), false, text);
	for (i = 0; i < len; i += bytes) {
		w = character_width((const unsigned char *)text + i, &bytes);
		if (canvas->width + w > canvas->columns)
			break;
		canvas->width += w;
	}
	put(canvas, text, i);
}

void
canvas_bar(struct canvas *canvas, double fraction, int cells)
{
	canvas_cell(canvas, "[");
	for (int i = 0; i < cells; i++)
		canvas_cell(canvas, fraction < 0                                ? " "
				    : (double)i + 1 <= fraction * (double)cells ? "#"
										: ".");
	canvas_cell(canvas, "]");
}

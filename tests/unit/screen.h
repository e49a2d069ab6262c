/* A terminal small enough to be checked: what it shows after the bytes it got. After cmocka.h. */
#ifndef TESTS_UNIT_SCREEN_H
#define TESTS_UNIT_SCREEN_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SCREEN_ROWS    24
#define SCREEN_COLUMNS 200

struct screen {
	char cells[SCREEN_ROWS][SCREEN_COLUMNS + 1];
	int row, column, columns;
	bool wraps;
	bool overflowed;    /* a row was longer than the terminal */
	bool bars_scrolled; /* a bar left at the top */
};

static inline void
screen_init(struct screen *screen, int columns)
{
	memset(screen, 0, sizeof(*screen));
	screen->columns = columns;
	screen->wraps = true;
	for (int i = 0; i < SCREEN_ROWS; i++)
		memset(screen->cells[i], ' ', SCREEN_COLUMNS);
}

static inline void
screen_newline(struct screen *screen)
{
	if (++screen->row < SCREEN_ROWS)
		return;
	screen->row = SCREEN_ROWS - 1;
	screen->bars_scrolled |= strstr(screen->cells[0], "loading") != NULL;
	memmove(screen->cells[0], screen->cells[1], sizeof(screen->cells[0]) * (SCREEN_ROWS - 1));
	memset(screen->cells[SCREEN_ROWS - 1], ' ', SCREEN_COLUMNS);
}

static inline size_t
screen_escape(struct screen *screen, const char *text)
{
	int n = 0, used = 0;
	char verb = 0;

	if (sscanf(text, "\033[?%d%c%n", &n, &verb, &used) == 2) {
		assert_int_equal(n, 7);
		screen->wraps = verb == 'h';
		return (size_t)used;
	}
	if (sscanf(text, "\033[%d%c%n", &n, &verb, &used) == 2) {
		if (verb == 'A') {
			assert_true(n > 0 && n <= screen->row);
			screen->row -= n;
		} else {
			assert_int_equal(verb, 'm');
		}
		return (size_t)used;
	}
	assert_memory_equal(text, "\033[J", 3);
	memset(screen->cells[screen->row] + screen->column, ' ',
	       (size_t)(SCREEN_COLUMNS - screen->column));
	for (int i = screen->row + 1; i < SCREEN_ROWS; i++)
		memset(screen->cells[i], ' ', SCREEN_COLUMNS);
	return 3;
}

static inline void
screen_feed(struct screen *screen, const char *text)
{
	while (*text != '\0') {
		if (*text == '\033') {
			text += screen_escape(screen, text);
			continue;
		}
		if (*text == '\r') {
			screen->column = 0;
		} else if (*text == '\n') {
			screen_newline(screen);
		} else if ((*text & 0xc0) != 0x80) {
			if (screen->column >= screen->columns)
				screen->overflowed = true;
			else
				screen->cells[screen->row][screen->column++] = *text;
		}
		text++;
	}
}

/* A row without the spaces at its end. */
static inline const char *
screen_row(const struct screen *screen, int row)
{
	static char text[SCREEN_COLUMNS + 1];
	size_t n = SCREEN_COLUMNS;

	memcpy(text, screen->cells[row], sizeof(text));
	while (n > 0 && text[n - 1] == ' ')
		n--;
	text[n] = '\0';
	return text;
}

static inline bool
screen_shows(const struct screen *screen, const char *text)
{
	for (int i = 0; i < SCREEN_ROWS; i++)
		if (strstr(screen_row(screen, i), text) != NULL)
			return true;
	return false;
}

#endif

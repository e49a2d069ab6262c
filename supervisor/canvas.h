/* Rows of text for a terminal, none of them wider than it. Pure. */
#ifndef SUPERVISOR_CANVAS_H
#define SUPERVISOR_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

#define CANVAS_GREEN  "\033[32m"
#define CANVAS_YELLOW "\033[33m"
#define CANVAS_RED    "\033[31m"
#define CANVAS_PLAIN  "\033[0m"

/* Zeroed at the start but for columns; text is free()d by its owner. */
struct canvas {
	char *text;
	size_t len, cap;
	int columns; /* that may be filled */
	int width;   /* filled in this row */
	bool failed; /* memory ran out */
};

/* As it is, counted as no column: colours, moves and ends of rows. */
void canvas_put(struct canvas *canvas, const char *text);

/* Adds text to the row as far as there are columns; of others' text control sequences vanish. */
void canvas_cell(struct canvas *canvas, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* [####....] of so many cells; a fraction below 0 leaves it blank. */
void canvas_bar(struct canvas *canvas, double fraction, int cells);

#endif

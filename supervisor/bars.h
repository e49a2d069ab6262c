/* A bar per rank as text for a terminal. Pure: no I/O, no clock. */
#ifndef SUPERVISOR_BARS_H
#define SUPERVISOR_BARS_H

#include "supervisor/group.h"
#include "supervisor/progress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BARS_COLUMNS_MAX 160
#define BARS_ROWS_MAX    64

/* Zeroed at the start; bars_free() at the end. */
struct bars {
	char *text; /* rows, each ended by "\r\n"; the cursor stands below them */
	size_t len, cap;
	int rows;
	int widths[BARS_ROWS_MAX]; /* columns of each row */
};

/*
 * Renders the ranks of a group that waits (waiting_bound) for a terminal of columns x lines: no row
 * is wider than columns - 1, and at least half of the lines stay free. Ranks that find no place are
 * those that nobody waits for; the last row sums up. histories[world_size]. -1 if memory ran out.
 */
int bars_render(struct bars *bars, const struct group *group,
		const struct progress_history *histories, uint64_t now_ns, int columns, int lines,
		bool color);

void bars_free(struct bars *bars);

#endif

/* One look at /status as rows for a terminal: `status --watch`. Pure: no I/O, no clock. */
#ifndef SUPERVISOR_FRAME_H
#define SUPERVISOR_FRAME_H

#include "supervisor/canvas.h"
#include "supervisor/progress.h"

#include <jansson.h>
#include <stdint.h>

/* Zeroed at the start; frame_free() at the end. */
struct frame {
	json_t *status; /* the newest */
	uint64_t at_ns; /* when it was taken */
	json_int_t epoch;
	struct progress_history *histories; /* [world_size] */
	size_t world_size;
};

/* Takes the document. One that is no status, or NULL, changes nothing. */
void frame_take(struct frame *frame, json_t *status, uint64_t now_ns);

/*
 * Renders for a terminal of `lines` lines: no more rows than lines - 1, each ended by row_end, none
 * wider than canvas->columns. Where there is no room for every rank those come first that hold the
 * group back. `note`, unless NULL, is the last row.
 */
void frame_render(const struct frame *frame, struct canvas *canvas, int lines, uint64_t now_ns,
		  bool color, const char *row_end, const char *note);

void frame_free(struct frame *frame);

#endif

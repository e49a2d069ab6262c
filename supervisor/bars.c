#include "supervisor/bars.h"

#include "common/duration.h"
#include "supervisor/canvas.h"
#include "supervisor/narrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_COLUMNS 10 /* the longest word of a state */
#define TEXT_COLUMNS  42 /* "layer 36 of 48, 12.3 GB/s, about 40 s left" */
#define BAR_MIN       6  /* cells */
#define BAR_MAX       30
#define TEXT_BYTES    256
/* Long rows are cut, not wrapped, should the terminal have shrunk meanwhile. */
#define NO_WRAP "\033[?7l"
#define WRAP    "\033[?7h"

struct drawing {
	struct canvas canvas;
	struct bars *bars;
	const struct group *group;
	const struct progress_history *histories;
	enum bound bound;
	uint64_t now_ns;
	bool color;
};

static void
end_row(struct drawing *drawing)
{
	drawing->bars->widths[drawing->bars->rows++] = drawing->canvas.width;
	drawing->canvas.width = 0;
	canvas_put(&drawing->canvas, "\r\n");
}

static int
digits(int n)
{
	return n < 10 ? 1 : n < 100 ? 2 : n < 1000 ? 3 : 4;
}

static void
draw_bar(struct drawing *drawing, const struct rank *rank)
{
	double fraction = rank->was_ready ? 1 : progress_fraction(&rank->progress);
	int cells = drawing->canvas.columns - drawing->canvas.width - TEXT_COLUMNS - 4;

	if (cells < BAR_MIN)
		cells = BAR_MIN;
	if (cells > BAR_MAX)
		cells = BAR_MAX;
	canvas_bar(&drawing->canvas, fraction, cells);
	canvas_cell(&drawing->canvas, "  ");
}

static void
draw_since(struct drawing *drawing, uint64_t from_ns)
{
	char elapsed[DURATION_TEXT_BYTES];

	format_seconds(drawing->now_ns > from_ns ? drawing->now_ns - from_ns : 0, elapsed,
		       sizeof(elapsed));
	canvas_cell(&drawing->canvas, "%s", elapsed);
}

/* Where there is no room for all of it the rate goes first. */
static void
draw_progress(struct drawing *drawing, const struct rank *rank, int n)
{
	const struct progress_history *history = &drawing->histories[n];
	char done[MESSAGE_UNIT_BYTES + 64], rate[MESSAGE_UNIT_BYTES + 64], left[48];
	size_t room = (size_t)(drawing->canvas.columns - drawing->canvas.width);

	progress_to_string(&rank->progress, done, sizeof(done));
	rate_to_string(history, rank->progress.unit, rate, sizeof(rate));
	left_to_string(history, drawing->now_ns, left, sizeof(left));
	canvas_cell(&drawing->canvas, "%s", done);
	if (rate[0] != '\0' && strlen(done) + strlen(rate) + strlen(left) + 4 <= room)
		canvas_cell(&drawing->canvas, ", %s", rate);
	if (left[0] != '\0')
		canvas_cell(&drawing->canvas, ", %s", left);
}

static void
draw_ready(struct drawing *drawing, const struct rank *rank)
{
	char text[TEXT_BYTES];

	format_elapsed(rank->ready_ns - rank->forked_ns, text, sizeof(text));
	canvas_cell(&drawing->canvas, "after %s", text);
	group_late_ranks(drawing->group, BOUND_READY, text, sizeof(text));
	if (text[0] != '\0')
		canvas_cell(&drawing->canvas, ", waits for %s", text);
}

static void
draw_text(struct drawing *drawing, const struct rank *rank, int n)
{
	if (rank->state == RANK_READY) {
		draw_ready(drawing, rank);
	} else if (rank->state == RANK_LOADING) {
		draw_progress(drawing, rank, n);
	} else {
		draw_since(drawing, rank->state_ns);
		if (rank->status_text[0] != '\0')
			canvas_cell(&drawing->canvas, ", %.160s", rank->status_text);
	}
}

static void
draw_rank(struct drawing *drawing, int n)
{
	const struct rank *rank = &drawing->group->ranks[n];
	const char *color = rank->state >= RANK_READY ? CANVAS_GREEN : CANVAS_YELLOW;

	canvas_cell(&drawing->canvas, "rank %*d  ", digits(drawing->group->settings.world_size - 1),
		    n);
	if (drawing->color)
		canvas_put(&drawing->canvas, color);
	canvas_cell(&drawing->canvas, "%-*s", STATE_COLUMNS, rank_state_word(rank->state));
	if (drawing->color)
		canvas_put(&drawing->canvas, CANVAS_PLAIN);
	canvas_cell(&drawing->canvas, "  ");
	draw_bar(drawing, rank);
	draw_text(drawing, rank, n);
	end_row(drawing);
}

static void
draw_summary(struct drawing *drawing, int late, int hidden)
{
	const struct group *group = drawing->group;
	char text[TEXT_BYTES];

	if (drawing->bound == BOUND_COLLECTIVE)
		canvas_cell(&drawing->canvas, "first collective");
	else if (drawing->bound == BOUND_WARMUP)
		canvas_cell(&drawing->canvas, "warming up");
	else
		canvas_cell(&drawing->canvas, "%d of %d ready", group->ready_count,
			    group->settings.world_size);
	if (late > 0) {
		group_late_ranks(group, drawing->bound, text, sizeof(text));
		canvas_cell(&drawing->canvas, ", waiting for rank%s %s", late == 1 ? "" : "s",
			    text);
		waited_to_string(group, drawing->now_ns, text, sizeof(text));
		canvas_cell(&drawing->canvas, ", %s", text);
	}
	if (hidden > 0)
		canvas_cell(&drawing->canvas, " (%d more rank%s not shown)", hidden,
			    hidden == 1 ? "" : "s");
	end_row(drawing);
}

static void
draw_ranks(struct drawing *drawing, int room)
{
	int world = drawing->group->settings.world_size, late = 0, shown = 0;
	bool wanted;

	for (int i = 0; i < world; i++) {
		wanted = rank_is_late(drawing->group, i, drawing->bound);
		late += wanted;
		if ((wanted || world <= room) && shown < room) {
			draw_rank(drawing, i);
			shown++;
		}
	}
	draw_summary(drawing, late, world - shown);
}

int
bars_render(struct bars *bars, const struct group *group, const struct progress_history *histories,
	    uint64_t now_ns, int columns, int lines, bool color)
{
	struct drawing drawing = {.canvas = {.text = bars->text, .cap = bars->cap},
				  .bars = bars,
				  .group = group,
				  .histories = histories,
				  .now_ns = now_ns,
				  .color = color};
	int rows = lines / 2 < BARS_ROWS_MAX ? lines / 2 : BARS_ROWS_MAX;

	bars->len = 0;
	bars->rows = 0;
	drawing.canvas.columns = columns <= BARS_COLUMNS_MAX ? columns - 1 : BARS_COLUMNS_MAX;
	if (!waiting_bound(group, &drawing.bound))
		return 0;
	canvas_put(&drawing.canvas, NO_WRAP);
	draw_ranks(&drawing, rows > 1 ? rows - 1 : 0);
	canvas_put(&drawing.canvas, WRAP);
	bars->text = drawing.canvas.text;
	bars->cap = drawing.canvas.cap;
	bars->len = drawing.canvas.len;
	return drawing.canvas.failed ? -1 : 0;
}

void
bars_free(struct bars *bars)
{
	free(bars->text);
	*bars = (struct bars){0};
}

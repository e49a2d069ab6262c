#include "supervisor/frame.h"

#include "common/deadline.h"
#include "supervisor/narrate.h"
#include "supervisor/status_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIXED_ROWS   3  /* the group, what it waits for, the heads of the columns */
#define TEXT_COLUMNS 44 /* beside a bar: "layer 36 of 48, 12.3 GB/s, about 40 s left" */
#define LEFT_COLUMNS 17 /* number and state */
#define BAR_MIN      6  /* cells */
#define BAR_MAX      30
#define NAMED_RANKS  8

struct drawing {
	const struct frame *frame;
	struct canvas *canvas;
	uint64_t now_ns;
	bool color;
	const char *row_end;
	int rows, rows_max, bar;
};

static void
read_progress(const json_t *rank, struct progress *progress)
{
	const json_t *json = json_object_get(rank, "progress");

	*progress = (struct progress){.done = (uint64_t)view_number(json, "done"),
				      .total = (uint64_t)view_number(json, "total"),
				      .bytes = (uint64_t)view_number(json, "bytes"),
				      .bytes_total = (uint64_t)view_number(json, "bytes_total")};
	snprintf(progress->unit, sizeof(progress->unit), "%s", view_text(json, "unit"));
}

void
frame_take(struct frame *frame, json_t *status, uint64_t now_ns)
{
	json_t *ranks = json_object_get(status, "ranks"), *rank;
	json_int_t epoch = json_integer_value(json_object_get(status, "epoch"));
	size_t world = json_array_size(ranks), i;
	struct progress progress;

	if (world == 0) {
		json_decref(status);
		return;
	}
	if (world != frame->world_size || epoch != frame->epoch) {
		free(frame->histories);
		frame->histories = calloc(world, sizeof(*frame->histories));
		frame->world_size = frame->histories == NULL ? 0 : world;
	}
	json_decref(frame->status);
	frame->status = status;
	frame->at_ns = now_ns;
	frame->epoch = epoch;
	json_array_foreach(ranks, i, rank)
	{
		read_progress(rank, &progress);
		if (i < frame->world_size)
			progress_note(&frame->histories[i], &progress, now_ns);
	}
}

void
frame_free(struct frame *frame)
{
	json_decref(frame->status);
	free(frame->histories);
	*frame = (struct frame){0};
}

/* --- drawing --- */

static void
end_row(struct drawing *drawing)
{
	canvas_put(drawing->canvas, drawing->row_end);
	drawing->canvas->width = 0;
	drawing->rows++;
}

static void
draw_state(struct drawing *drawing, const char *state)
{
	if (drawing->color)
		canvas_put(drawing->canvas, view_color(state));
	canvas_cell(drawing->canvas, "%s", state);
	if (drawing->color)
		canvas_put(drawing->canvas, CANVAS_PLAIN);
}

/* Since then some time has passed: what is counted in seconds goes on. */
static void
draw_seconds(struct drawing *drawing, double seconds)
{
	uint64_t passed_ns = drawing->now_ns - drawing->frame->at_ns;
	char text[32];

	format_seconds((uint64_t)(seconds * 1e9) + passed_ns, text, sizeof(text));
	canvas_cell(drawing->canvas, "%s", text);
}

static void
draw_group(struct drawing *drawing)
{
	const json_t *status = drawing->frame->status;

	canvas_cell(drawing->canvas, "%s: ", view_text(status, "group"));
	draw_state(drawing, view_text(status, "state"));
	canvas_cell(drawing->canvas, " (%s, epoch %.0f, pid %.0f)", view_text(status, "mode"),
		    view_number(status, "epoch"), view_number(status, "pid"));
	end_row(drawing);
}

static void
draw_waiting(struct drawing *drawing, const json_t *waiting)
{
	const json_t *ranks = json_object_get(waiting, "ranks"), *rank;
	char bound[32];
	size_t n = json_array_size(ranks), i;

	canvas_cell(drawing->canvas, "waiting for rank%s ", n == 1 ? "" : "s");
	json_array_foreach(ranks, i, rank)
	{
		if (i < NAMED_RANKS)
			canvas_cell(drawing->canvas, "%s%d", i > 0 ? ", " : "",
				    (int)json_integer_value(rank));
	}
	if (n > NAMED_RANKS)
		canvas_cell(drawing->canvas, " and %zu more", n - NAMED_RANKS);
	canvas_cell(drawing->canvas, ", ");
	draw_seconds(drawing, view_number(waiting, "seconds"));
	if (view_is_null(waiting, "of_seconds"))
		return;
	format_seconds((uint64_t)(view_number(waiting, "of_seconds") * 1e9), bound, sizeof(bound));
	canvas_cell(drawing->canvas, " of %s (%s)", bound, view_text(waiting, "bound"));
}

/* Why it ends, whom it waits for, or how fast it was. */
static void
draw_story(struct drawing *drawing)
{
	const json_t *status = drawing->frame->status;
	const json_t *reason = json_object_get(status, "reason");

	if (json_is_object(reason)) {
		canvas_cell(drawing->canvas, "%s: ", view_text(reason, "name"));
		if (!view_is_null(reason, "rank"))
			canvas_cell(drawing->canvas, "rank %.0f: ", view_number(reason, "rank"));
		canvas_cell(drawing->canvas, "%.200s", view_text(reason, "cause"));
	} else if (!view_is_null(status, "waiting")) {
		draw_waiting(drawing, json_object_get(status, "waiting"));
	} else if (!view_is_null(status, "go_seconds")) {
		canvas_cell(drawing->canvas, "go after %.1f s, ready skew %.1f s",
			    view_number(status, "go_seconds"),
			    view_number(status, "ready_skew_seconds"));
	}
	end_row(drawing);
}

/* Where there is no room for all of it the rate goes first. */
static void
draw_progress(struct drawing *drawing, const json_t *rank, size_t number)
{
	const struct progress_history *history = &drawing->frame->histories[number];
	size_t room = (size_t)(drawing->canvas->columns - drawing->canvas->width);
	char done[MESSAGE_UNIT_BYTES + 64], rate[MESSAGE_UNIT_BYTES + 64], left[48];
	struct progress progress;

	read_progress(rank, &progress);
	progress_to_string(&progress, done, sizeof(done));
	rate_to_string(history, progress.unit, rate, sizeof(rate));
	left_to_string(history, drawing->now_ns, left, sizeof(left));
	canvas_cell(drawing->canvas, "%s", done);
	if (rate[0] != '\0' && strlen(done) + strlen(rate) + strlen(left) + 4 <= room)
		canvas_cell(drawing->canvas, ", %s", rate);
	if (left[0] != '\0')
		canvas_cell(drawing->canvas, ", %s", left);
}

static void
draw_rank(struct drawing *drawing, const json_t *rank, size_t number)
{
	const char *state = view_text(rank, "state"), *text = view_text(rank, "status_text");
	const json_t *progress = json_object_get(rank, "progress");
	struct canvas *canvas = drawing->canvas;
	char size[32];

	canvas_cell(canvas, "%4zu  ", number);
	draw_state(drawing, state);
	while (canvas->width < LEFT_COLUMNS && canvas->width < canvas->columns)
		canvas_cell(canvas, " ");
	canvas_bar(canvas, view_fraction(rank), drawing->bar);
	canvas_cell(canvas, "  ");
	if (strcmp(state, "loading") == 0 && !view_is_null(progress, "total") &&
	    number < drawing->frame->world_size) {
		draw_progress(drawing, rank, number);
	} else {
		view_size(rank, size, sizeof(size));
		draw_seconds(drawing, view_number(rank, "state_seconds"));
		if (!view_is_null(rank, "rss_bytes"))
			canvas_cell(canvas, ", %s", size);
		if (text[0] != '\0')
			canvas_cell(canvas, ", %.160s", text);
	}
	end_row(drawing);
}

static bool
is_waited_for(const json_t *status, size_t number)
{
	const json_t *rank;
	size_t i;

	json_array_foreach(json_object_get(json_object_get(status, "waiting"), "ranks"), i, rank)
	{
		if ((size_t)json_integer_value(rank) == number)
			return true;
	}
	return false;
}

/* Ranks that are waited for, or all the others, as far as there are rows. How many. */
static size_t
draw_ranks(struct drawing *drawing, bool waited_for)
{
	const json_t *status = drawing->frame->status, *rank;
	size_t i, drawn = 0;

	json_array_foreach(json_object_get(status, "ranks"), i, rank)
	{
		if (drawing->rows >= drawing->rows_max || is_waited_for(status, i) != waited_for)
			continue;
		draw_rank(drawing, rank, i);
		drawn++;
	}
	return drawn;
}

static void
draw_heads(struct drawing *drawing)
{
	canvas_cell(drawing->canvas, "RANK  STATE      LOAD%*s", drawing->bar, "");
	end_row(drawing);
}

static void
draw_all_ranks(struct drawing *drawing)
{
	const json_t *rank, *ranks = json_object_get(drawing->frame->status, "ranks");
	size_t world = json_array_size(ranks), drawn, i;

	if ((int)world <= drawing->rows_max - drawing->rows) {
		json_array_foreach(ranks, i, rank) draw_rank(drawing, rank, i);
		return;
	}
	drawing->rows_max--;
	drawn = draw_ranks(drawing, true);
	drawn += draw_ranks(drawing, false);
	canvas_cell(drawing->canvas, "      %zu more ranks not shown", world - drawn);
	end_row(drawing);
}

void
frame_render(const struct frame *frame, struct canvas *canvas, int lines, uint64_t now_ns,
	     bool color, const char *row_end, const char *note)
{
	struct drawing drawing = {.frame = frame,
				  .canvas = canvas,
				  .now_ns = now_ns,
				  .color = color,
				  .row_end = row_end,
				  .rows_max = lines - 1 - (note != NULL)};

	canvas->len = 0;
	canvas->width = 0;
	drawing.bar = canvas->columns - LEFT_COLUMNS - TEXT_COLUMNS - 4;
	drawing.bar = drawing.bar < BAR_MIN   ? BAR_MIN
		      : drawing.bar > BAR_MAX ? BAR_MAX
					      : drawing.bar;
	if (frame->status != NULL && drawing.rows_max > FIXED_ROWS) {
		draw_group(&drawing);
		draw_story(&drawing);
		draw_heads(&drawing);
		draw_all_ranks(&drawing);
	}
	if (note == NULL)
		return;
	canvas_cell(canvas, "%.200s", note);
	end_row(&drawing);
}

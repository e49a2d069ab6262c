#include "supervisor/bars.h"

#include "common/duration.h"
#include "supervisor/clean.h"
#include "supervisor/narrate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_COLUMNS 10 /* the longest word of a state */
#define TEXT_COLUMNS  42 /* "layer 36 of 48, 12.3 GB/s, about 40 s left" */
#define BAR_MIN       6  /* cells */
#define BAR_MAX       30
#define CELL_BYTES    256 /* one piece of a row */
#define WIDE_FROM     0x1100
#define GREEN         "\033[32m"
#define YELLOW        "\033[33m"
#define PLAIN         "\033[0m"
/* Long rows are cut, not wrapped, should the terminal have shrunk meanwhile. */
#define NO_WRAP "\033[?7l"
#define WRAP    "\033[?7h"

struct canvas {
	struct bars *bars;
	const struct group *group;
	const struct progress_history *histories;
	enum bound bound;
	uint64_t now_ns;
	int columns; /* that may be filled */
	int width;   /* filled in this row */
	bool color, failed;
};

static void
put(struct canvas *canvas, const char *text, size_t len)
{
	struct bars *bars = canvas->bars;
	size_t cap = bars->cap == 0 ? 1024 : bars->cap;
	char *grown;

	while (cap < bars->len + len)
		cap *= 2;
	if (cap > bars->cap) {
		grown = realloc(bars->text, cap);
		if (grown == NULL) {
			canvas->failed = true;
			return;
		}
		bars->text = grown;
		bars->cap = cap;
	}
	memcpy(bars->text + bars->len, text, len);
	bars->len += len;
}

static void
put_string(struct canvas *canvas, const char *text)
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

/* Adds text to the row as far as there are columns. */
static void __attribute__((format(printf, 2, 3))) cell(struct canvas *canvas, const char *fmt, ...)
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

static void
end_row(struct canvas *canvas)
{
	canvas->bars->widths[canvas->bars->rows++] = canvas->width;
	canvas->width = 0;
	put_string(canvas, "\r\n");
}

static int
digits(int n)
{
	return n < 10 ? 1 : n < 100 ? 2 : n < 1000 ? 3 : 4;
}

static void
draw_bar(struct canvas *canvas, const struct rank *rank)
{
	double fraction = rank->was_ready ? 1 : progress_fraction(&rank->progress);
	int cells = canvas->columns - canvas->width - TEXT_COLUMNS - 4;

	if (cells < BAR_MIN)
		cells = BAR_MIN;
	if (cells > BAR_MAX)
		cells = BAR_MAX;
	cell(canvas, "[");
	for (int i = 0; i < cells; i++)
		cell(canvas, (double)i + 1 <= fraction * cells ? "#" : ".");
	cell(canvas, "]  ");
}

static void
draw_since(struct canvas *canvas, uint64_t from_ns)
{
	char elapsed[DURATION_TEXT_BYTES];

	format_seconds(canvas->now_ns > from_ns ? canvas->now_ns - from_ns : 0, elapsed,
		       sizeof(elapsed));
	cell(canvas, "%s", elapsed);
}

/* Where there is no room for all of it the rate goes first. */
static void
draw_progress(struct canvas *canvas, const struct rank *rank, int n)
{
	const struct progress_history *history = &canvas->histories[n];
	char done[MESSAGE_UNIT_BYTES + 64], rate[MESSAGE_UNIT_BYTES + 64], left[48];
	size_t room = (size_t)(canvas->columns - canvas->width);

	progress_to_string(&rank->progress, done, sizeof(done));
	rate_to_string(history, rank->progress.unit, rate, sizeof(rate));
	left_to_string(history, canvas->now_ns, left, sizeof(left));
	cell(canvas, "%s", done);
	if (rate[0] != '\0' && strlen(done) + strlen(rate) + strlen(left) + 4 <= room)
		cell(canvas, ", %s", rate);
	if (left[0] != '\0')
		cell(canvas, ", %s", left);
}

static void
draw_ready(struct canvas *canvas, const struct rank *rank)
{
	char text[CELL_BYTES];

	format_elapsed(rank->ready_ns - rank->forked_ns, text, sizeof(text));
	cell(canvas, "after %s", text);
	group_late_ranks(canvas->group, BOUND_READY, text, sizeof(text));
	if (text[0] != '\0')
		cell(canvas, ", waits for %s", text);
}

static void
draw_text(struct canvas *canvas, const struct rank *rank, int n)
{
	if (rank->state == RANK_READY) {
		draw_ready(canvas, rank);
	} else if (rank->state == RANK_LOADING) {
		draw_progress(canvas, rank, n);
	} else {
		draw_since(canvas, rank->state_ns);
		if (rank->status_text[0] != '\0')
			cell(canvas, ", %.160s", rank->status_text);
	}
}

static void
draw_rank(struct canvas *canvas, int n)
{
	const struct rank *rank = &canvas->group->ranks[n];
	const char *color = rank->state >= RANK_READY ? GREEN : YELLOW;

	cell(canvas, "rank %*d  ", digits(canvas->group->settings.world_size - 1), n);
	if (canvas->color)
		put_string(canvas, color);
	cell(canvas, "%-*s", STATE_COLUMNS, rank_state_word(rank->state));
	if (canvas->color)
		put_string(canvas, PLAIN);
	cell(canvas, "  ");
	draw_bar(canvas, rank);
	draw_text(canvas, rank, n);
	end_row(canvas);
}

static void
draw_summary(struct canvas *canvas, int late, int hidden)
{
	const struct group *group = canvas->group;
	char text[CELL_BYTES];

	if (canvas->bound == BOUND_COLLECTIVE)
		cell(canvas, "first collective");
	else if (canvas->bound == BOUND_WARMUP)
		cell(canvas, "warming up");
	else
		cell(canvas, "%d of %d ready", group->ready_count, group->settings.world_size);
	if (late > 0) {
		group_late_ranks(group, canvas->bound, text, sizeof(text));
		cell(canvas, ", waiting for rank%s %s", late == 1 ? "" : "s", text);
		waited_to_string(group, canvas->now_ns, text, sizeof(text));
		cell(canvas, ", %s", text);
	}
	if (hidden > 0)
		cell(canvas, " (%d more rank%s not shown)", hidden, hidden == 1 ? "" : "s");
	end_row(canvas);
}

static void
draw_ranks(struct canvas *canvas, int room)
{
	int world = canvas->group->settings.world_size, late = 0, shown = 0;
	bool wanted;

	for (int i = 0; i < world; i++) {
		wanted = rank_is_late(canvas->group, i, canvas->bound);
		late += wanted;
		if ((wanted || world <= room) && shown < room) {
			draw_rank(canvas, i);
			shown++;
		}
	}
	draw_summary(canvas, late, world - shown);
}

int
bars_render(struct bars *bars, const struct group *group, const struct progress_history *histories,
	    uint64_t now_ns, int columns, int lines, bool color)
{
	struct canvas canvas = {
	    .bars = bars, .group = group, .histories = histories, .now_ns = now_ns, .color = color};
	int rows = lines / 2 < BARS_ROWS_MAX ? lines / 2 : BARS_ROWS_MAX;

	bars->len = 0;
	bars->rows = 0;
	canvas.columns = columns <= BARS_COLUMNS_MAX ? columns - 1 : BARS_COLUMNS_MAX;
	if (!waiting_bound(group, &canvas.bound))
		return 0;
	put_string(&canvas, NO_WRAP);
	draw_ranks(&canvas, rows > 1 ? rows - 1 : 0);
	put_string(&canvas, WRAP);
	return canvas.failed ? -1 : 0;
}

void
bars_free(struct bars *bars)
{
	free(bars->text);
	*bars = (struct bars){0};
}

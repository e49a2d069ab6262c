#include "supervisor/progress.h"

#include "common/deadline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RATE_MIN_NS (500 * NS_PER_MSEC) /* over less a rate says nothing */

static void
sample(struct progress_history *history)
{
	if (history->n == PROGRESS_SAMPLES) {
		history->n--;
		memmove(&history->samples[0], &history->samples[1],
			(size_t)history->n * sizeof(history->samples[0]));
	}
	history->samples[history->n].at_ns = history->at_ns;
	history->samples[history->n].done = history->done;
	history->n++;
}

void
progress_note(struct progress_history *history, const struct progress *progress, uint64_t now_ns)
{
	bool bytes = progress->bytes_total > 0;
	uint64_t done = bytes ? progress->bytes : progress->done;
	uint64_t total = bytes ? progress->bytes_total : progress->total;

	if (total == 0)
		return;
	if (history->n == 0 || history->bytes != bytes || history->total != total ||
	    done < history->done) {
		*history = (struct progress_history){
		    .at_ns = now_ns, .done = done, .total = total, .bytes = bytes};
		sample(history);
		return;
	}
	if (done == history->done)
		return;
	history->done = done;
	history->at_ns = now_ns;
	if (now_ns - history->samples[history->n - 1].at_ns >= PROGRESS_SAMPLE_NS)
		sample(history);
}

double
progress_rate(const struct progress_history *history)
{
	uint64_t ns = history->n > 0 ? history->at_ns - history->samples[0].at_ns : 0;

	if (ns < RATE_MIN_NS)
		return 0;
	return (double)(history->done - history->samples[0].done) * (double)NS_PER_SEC / (double)ns;
}

bool
progress_left(const struct progress_history *history, uint64_t now_ns, uint64_t *left_ns)
{
	double rate = progress_rate(history), left;

	if (rate <= 0 || history->done >= history->total)
		return false;
	left = (double)(history->total - history->done) / rate * (double)NS_PER_SEC -
	       (double)(now_ns - history->at_ns);
	if (left <= 0 || left >= (double)UINT64_MAX)
		return false;
	*left_ns = (uint64_t)left;
	return true;
}

double
progress_fraction(const struct progress *progress)
{
	bool bytes = progress->bytes_total > 0;
	uint64_t done = bytes ? progress->bytes : progress->done;
	uint64_t total = bytes ? progress->bytes_total : progress->total;

	if (total == 0)
		return -1;
	return done >= total ? 1 : (double)done / (double)total;
}

void
left_to_string(const struct progress_history *history, uint64_t now_ns, char *out, size_t size)
{
	uint64_t left_ns, s;

	out[0] = '\0';
	if (!progress_left(history, now_ns, &left_ns))
		return;
	s = (left_ns + NS_PER_SEC / 2) / NS_PER_SEC;
	if (s == 0)
		s = 1;
	else if (s > 20)
		s = (s + 2) / 5 * 5;
	if (s <= 90)
		snprintf(out, size, "about %" PRIu64 " s left", s);
	else if (s <= 90 * 60)
		snprintf(out, size, "about %" PRIu64 " min left", (s + 30) / 60);
	else
		snprintf(out, size, "about %" PRIu64 " h left", (s + 1800) / 3600);
}

void
rate_to_string(const struct progress_history *history, const char *unit, char *out, size_t size)
{
	double rate = progress_rate(history);

	out[0] = '\0';
	if (rate <= 0)
		return;
	if (!history->bytes)
		snprintf(out, size, rate < 0.1 ? "%.2f%s%s/s" : "%.1f%s%s/s", rate,
			 unit[0] != '\0' ? " " : "", unit);
	else if (rate >= 1e9)
		snprintf(out, size, "%.1f GB/s", rate / 1e9);
	else if (rate >= 1e6)
		snprintf(out, size, "%.0f MB/s", rate / 1e6);
	else
		snprintf(out, size, "%.0f kB/s", rate / 1e3);
}

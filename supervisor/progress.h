/* How fast a load goes and when it will be done, from what a rank told so far. Pure. */
#ifndef SUPERVISOR_PROGRESS_H
#define SUPERVISOR_PROGRESS_H

#include "common/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_SAMPLES   8
#define PROGRESS_SAMPLE_NS UINT64_C(2000000000) /* between two kept samples, at least */

/* Zeroed: nothing known. Counts bytes where the rank tells them, else units. */
struct progress_history {
	struct {
		uint64_t at_ns, done;
	} samples[PROGRESS_SAMPLES]; /* oldest first */
	uint64_t at_ns, done, total; /* newest, and when it was first seen */
	int n;
	bool bytes;
};

/* Notes what is known at now. A total that changed or a count that fell starts the history anew. */
void progress_note(struct progress_history *history, const struct progress *progress,
		   uint64_t now_ns);

/* Units, or bytes if history->bytes, a second over the samples kept; 0 if not known. */
double progress_rate(const struct progress_history *history);

/* False if not known: too little was seen, or the rank is overdue by its own rate. */
bool progress_left(const struct progress_history *history, uint64_t now_ns, uint64_t *left_ns);

/* 0 to 1, or -1 if the total is not known. */
double progress_fraction(const struct progress *progress);

/* "about 40 s left", "about 3 min left"; "1.2 GB/s", "0.8 layer/s". "" if not known. */
void left_to_string(const struct progress_history *history, uint64_t now_ns, char *out,
		    size_t size);
void rate_to_string(const struct progress_history *history, const char *unit, char *out,
		    size_t size);

#endif

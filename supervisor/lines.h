/*
 * Cuts a stream of bytes into lines. A carriage return that no newline follows begins a new state
 * of the same line; the last state is the line. Past OUTPUT_LINE_BYTES bytes are only counted.
 * Pure, but for the memory of the line that is not finished yet.
 */
#ifndef SUPERVISOR_LINES_H
#define SUPERVISOR_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_LINE_BYTES (8 * 1024)

/* Zeroed at the start. */
struct lines {
	char *buf;
	size_t len, cap; /* bytes of buf */
	size_t shown;    /* of them shown before the line was finished */
	uint64_t cut;    /* bytes past OUTPUT_LINE_BYTES */
	bool returned;   /* a carriage return came last */
	bool rewritten;  /* this line has had a state before */
};

/* Texts are valid in the call only and not NUL-terminated. */
struct lines_sink {
	void (*line)(const char *text, size_t len, void *arg);  /* finished; cut ones with a mark */
	void (*state)(const char *text, size_t len, void *arg); /* was replaced by another */
	void (*show)(const char *text, size_t len,
		     void *arg); /* of a line what was not shown yet */
	void *arg;
};

/* Returns how many lines were finished. */
size_t lines_feed(struct lines *lines, const char *data, size_t len, const struct lines_sink *sink);

/* Something has come that is neither finished nor shown. */
bool lines_pending(const struct lines *lines);
/* Shows it. */
void lines_show(struct lines *lines, const struct lines_sink *sink);
/* Nothing more comes, or not soon: finishes the line if one was begun. */
void lines_end(struct lines *lines, const struct lines_sink *sink);

void lines_free(struct lines *lines);

#endif

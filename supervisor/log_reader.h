/* The verbs' side of rank-N.log: whole lines, whatever becomes of the file meanwhile. */
#ifndef SUPERVISOR_LOG_READER_H
#define SUPERVISOR_LOG_READER_H

#include "supervisor/lines.h"

#include <sys/types.h>

struct log_reader {
	int dirfd; /* the group's folder; the caller's, open as long as the reader */
	int rank;
	int fd; /* of the file that is read; -1 at the start */
	ino_t inode;
	struct lines lines; /* zeroed at the start */
	/* Gets every whole line without its newline; any bytes. */
	void (*line)(int rank, const char *text, size_t len, void *arg);
	void *arg;
};

/* Reads what has come since; at first all there is, the older half of the file before the newer. */
void log_reader_more(struct log_reader *reader);

/* Reads the rest, ends the last line and closes. */
void log_reader_end(struct log_reader *reader);

#endif

/* The verbs' side of GET /events. */
#ifndef SUPERVISOR_CLIENT_STREAM_H
#define SUPERVISOR_CLIENT_STREAM_H

#include "supervisor/client.h"

enum stream_word {
	STREAM_NOTHING, /* nothing whole has come */
	STREAM_ENTRY,   /* of the journal */
	STREAM_LIVE,    /* the entries that were kept are told */
	STREAM_STATUS,  /* /status may have changed */
	STREAM_END      /* the supervisor has closed it, or is gone */
};

struct client_stream {
	int fd;
	bool ended;
	size_t at, len; /* what of in[] is not looked at yet */
	char in[65536];
};

/* 0, or -1: told why. Close in the first case only. */
int client_stream_open(const struct client_group *group, struct client_stream *stream);
void client_stream_close(struct client_stream *stream);

/* Reads what is there; waits for something if nothing is. */
void client_stream_read(struct client_stream *stream);

/*
 * The next event of what was read. *entry is its line, valid until the next read; only for
 * STREAM_ENTRY.
 */
enum stream_word client_stream_next(struct client_stream *stream, const char **entry);
/* The same, and reads until there is one. */
enum stream_word client_stream_await(struct client_stream *stream, const char **entry);

#endif

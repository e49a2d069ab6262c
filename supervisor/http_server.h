/*
 * A small HTTP server on the loop: HTTP_CLIENTS_MAX clients at a time, of which the oldest whose
 * request is not whole yet makes room for a new one; HTTP_IDLE_NS to send a request, and again for
 * each part of an answer to be taken, but no bound for who waits at the end of a stream. It
 * survives its descriptor limit without spinning. No timer runs while no client is connected.
 */
#ifndef SUPERVISOR_HTTP_SERVER_H
#define SUPERVISOR_HTTP_SERVER_H

#include "common/deadline.h"
#include "supervisor/http_request.h"

#include <event2/event.h>

#define HTTP_CLIENTS_MAX  16
#define HTTP_STREAMS_MAX  12 /* of the clients: probes always find a place */
#define HTTP_IDLE_NS      (2 * NS_PER_SEC)
#define HTTP_STREAM_BYTES ((size_t)64 * 1024) /* queued for one stream at most */

/* Where the reader of a stream is: zeroed at its start, then the stream's own. */
struct stream_place {
	uint64_t next, tick;
	bool live;
};

/* An answer without end, made when its reader has taken what came before. */
struct http_stream {
	/*
	 * Writes what comes next into out[0..size). Returns its length, 0 if there is nothing yet,
	 * -1 if the reader has come too late for it: it is dropped.
	 */
	ssize_t (*next)(struct stream_place *place, char *out, size_t size, void *arg);
	void *arg;
};

struct http_reply {
	int status;
	const char *type;    /* of the content; static storage */
	const char *allow;   /* methods, for 405; static storage */
	const char *headers; /* more of them, each ended by CRLF; static storage, may be NULL */
	char *body;          /* malloc()ed; the server frees it; NULL: the status in words */
	size_t len;
	const struct http_stream *stream; /* in place of a body; outlives the server */
	void (*then)(void *arg); /* called with then_arg once the answer is queued; may be NULL */
	void *then_arg;
};

typedef void (*http_handler)(const struct http_request *request, struct http_reply *reply,
			     void *arg);

struct http_server;

/* NULL if memory ran out. */
struct http_server *http_server_open(struct event_base *base, http_handler handler, void *arg);
void http_server_close(struct http_server *server);

/* How many clients read a stream. */
int http_server_streams(const struct http_server *server);
/* There may be more to read: every stream whose reader waits goes on. Not from within next(). */
void http_server_wake(struct http_server *server);

/* 0, or -1 with a text in error[0..size). */
int http_server_listen_unix(struct http_server *server, const char *path, unsigned mode,
			    char *error, size_t size);
/* HOST:PORT, [HOST]:PORT or :PORT. */
int http_server_listen_tcp(struct http_server *server, const char *address, char *error,
			   size_t size);

#endif

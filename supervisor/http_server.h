/*
 * A small HTTP server on the loop: HTTP_CLIENTS_MAX clients at a time, of which the oldest whose
 * request is not whole yet makes room for a new one; HTTP_IDLE_NS to send a request, and again for
 * each part of an answer to be taken. It survives its descriptor limit without spinning. No timer
 * runs while no client is connected.
 */
#ifndef SUPERVISOR_HTTP_SERVER_H
#define SUPERVISOR_HTTP_SERVER_H

#include "common/deadline.h"
#include "supervisor/http_request.h"

#include <event2/event.h>

#define HTTP_CLIENTS_MAX 16
#define HTTP_IDLE_NS     (2 * NS_PER_SEC)

struct http_reply {
	int status;
	const char *type;  /* of the content; static storage */
	const char *allow; /* methods, for 405; static storage */
	char *body;        /* malloc()ed; the server frees it; NULL: the status in words */
	size_t len;
	void (*then)(void *arg); /* called with then_arg once the answer is queued; may be NULL */
	void *then_arg;
};

typedef void (*http_handler)(const struct http_request *request, struct http_reply *reply,
			     void *arg);

struct http_server;

/* NULL if memory ran out. */
struct http_server *http_server_open(struct event_base *base, http_handler handler, void *arg);
void http_server_close(struct http_server *server);

/* 0, or -1 with a text in error[0..size). */
int http_server_listen_unix(struct http_server *server, const char *path, unsigned mode,
			    char *error, size_t size);
/* HOST:PORT, [HOST]:PORT or :PORT. */
int http_server_listen_tcp(struct http_server *server, const char *address, char *error,
			   size_t size);

#endif

/* The server's side of its clients: from the accepted socket to the answer's last byte. */
#ifndef SUPERVISOR_HTTP_CLIENT_H
#define SUPERVISOR_HTTP_CLIENT_H

#include "supervisor/http_server.h"

struct http_client;

struct http_clients {
	struct http_client *v[HTTP_CLIENTS_MAX]; /* [n], oldest first */
	int n, streams;                          /* streams: of the n */
	struct event_base *base;
	http_handler handler;
	void *arg;
};

void http_clients_init(struct http_clients *clients, struct event_base *base, http_handler handler,
		       void *arg);
void http_clients_close(struct http_clients *clients);

/*
 * Takes fd and reads what is there: a request that is whole is answered at once. There must be
 * room for one more.
 */
void http_client_new(struct http_clients *clients, int fd, bool local);

/* Drops the oldest client whose request is not whole, or whose answer is sent; false if none. */
bool http_clients_evict(struct http_clients *clients);

/* Goes on with every stream whose reader has taken what was there. */
void http_clients_wake(struct http_clients *clients);

/* The base's lowest priority. */
void http_event_priority(struct event_base *base, struct event *event);

#endif

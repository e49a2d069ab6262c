/*
 * The health socket: HTTP/1.1 on a Unix socket and, if asked for, on TCP. Answers are made from the
 * group at the moment of asking. It listens from health_open() on and has no timer while no client
 * is connected.
 */
#ifndef SUPERVISOR_HEALTH_H
#define SUPERVISOR_HEALTH_H

#include "supervisor/journal.h"
#include "supervisor/status_json.h"

#include <event2/event.h>

struct health;

struct health_settings {
	const char *path; /* of the Unix socket; not yet there */
	unsigned mode;    /* its permission bits */
	const char *http; /* HOST:PORT, [HOST]:PORT or :PORT; NULL: no TCP */
	struct status_source source;
	void (*look)(void *arg); /* called before an answer: news that is there counts; or NULL */
	const struct journal *journal;
	void (*stop)(void *arg);    /* POST /stop was accepted; called after its answer is queued */
	void (*restart)(void *arg); /* the same of POST /restart */
	void *arg;
};

/*
 * Settings are copied; what their source points to must live as long as the socket. Events
 * have the base's lowest priority, so that an answer follows the news of the same turn. NULL with
 * a text in error[0..size) on failure.
 */
struct health *health_open(struct event_base *base, const struct health_settings *settings,
			   char *error, size_t size);

/* The group has changed: once a turn of the loop, for those who read /events. NULL is allowed. */
void health_changed(struct health *health);

/* Closes every socket; the Unix socket's path is removed with the run directory. NULL is allowed.
 */
void health_close(struct health *health);

#endif

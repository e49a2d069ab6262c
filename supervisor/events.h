/*
 * GET /events: the journal as server-sent events. A reader gets the entries that are kept, then
 * `live`, then every new entry as an event without a name; and, at most twice a second while
 * something changes and every EVENTS_QUIET_NS in any case, `status`: /status is worth asking for.
 * No timer runs while nobody reads.
 */
#ifndef SUPERVISOR_EVENTS_H
#define SUPERVISOR_EVENTS_H

#include "supervisor/http_server.h"
#include "supervisor/journal.h"

#define EVENTS_CONTENT_TYPE "text/event-stream; charset=utf-8"
#define EVENTS_TICK_NS      (500 * NS_PER_MSEC)
#define EVENTS_QUIET_NS     (15 * NS_PER_SEC)

struct events;

/* `journal` and `server` outlive them. NULL if memory ran out. */
struct events *events_open(struct event_base *base, struct http_server *server,
			   const struct journal *journal);
void events_close(struct events *events);

/* For the answer to a new reader. */
const struct http_stream *events_stream(struct events *events);

/* The group has changed: once a turn of the loop. Cheap while nobody reads. */
void events_changed(struct events *events);

#endif

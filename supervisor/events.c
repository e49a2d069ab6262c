#include "supervisor/events.h"

#include "supervisor/http_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK "event: status\ndata: {}\n\n"
#define LIVE "retry: 1000\nevent: live\ndata: {}\n\n"

struct events {
	const struct journal *journal;
	struct http_server *server;
	struct http_stream stream;
	struct event *timer;
	uint64_t tick, tick_ns; /* how many there were, and when the last one was */
	bool changed;           /* since then */
};

/* Pending while somebody reads: for the next tick that is due, or only to be heard. */
static void
set_timer(struct events *events, uint64_t now_ns)
{
	uint64_t due_ns = events->tick_ns + (events->changed ? EVENTS_TICK_NS : EVENTS_QUIET_NS);
	uint64_t wait_ns = due_ns > now_ns ? due_ns - now_ns : 0;
	struct timeval tv = {.tv_sec = (time_t)(wait_ns / NS_PER_SEC),
			     .tv_usec = (suseconds_t)(wait_ns % NS_PER_SEC / NS_PER_USEC)};

	evtimer_add(events->timer, &tv);
}

static void
give_tick(struct events *events, uint64_t now_ns)
{
	events->tick++;
	events->tick_ns = now_ns;
	events->changed = false;
	http_server_wake(events->server);
	if (http_server_streams(events->server) > 0)
		set_timer(events, now_ns);
}

static void
on_timer(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	give_tick(arg, monotonic_ns());
}

/* "data: {...}", an empty line. 0 if it does not fit. */
static size_t
write_entry(const struct events *events, uint64_t seq, char *out, size_t size)
{
	char line[JOURNAL_LINE_BYTES];
	size_t len = journal_line(events->journal, seq, line);
	int n;

	n = snprintf(out, size, "id: %llu\ndata: %.*s\n\n", (unsigned long long)seq, (int)len,
		     line);
	return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

static size_t
write_word(const char *word, char *out, size_t size)
{
	size_t len = strlen(word);

	if (len > size)
		return 0;
	memcpy(out, word, len);
	return len;
}

static ssize_t
next_part(struct stream_place *place, char *out, size_t size, void *arg)
{
	const struct events *events = arg;
	size_t len = 0, n;

	if (place->next == 0)
		place->next = journal_oldest(events->journal);
	if (place->next < journal_oldest(events->journal))
		return -1;
	for (; place->next < journal_next(events->journal); place->next++) {
		n = write_entry(events, place->next, out + len, size - len);
		if (n == 0)
			return (ssize_t)len;
		len += n;
	}
	if (!place->live) {
		n = write_word(LIVE, out + len, size - len);
		place->live = n > 0;
		place->tick = events->tick;
	} else if (place->tick != events->tick) {
		n = write_word(TICK, out + len, size - len);
		place->tick = n > 0 ? events->tick : place->tick;
	} else {
		n = 0;
	}
	return (ssize_t)(len + n);
}

const struct http_stream *
events_stream(struct events *events)
{
	if (!evtimer_pending(events->timer, NULL)) {
		events->tick_ns = monotonic_ns();
		set_timer(events, events->tick_ns);
	}
	return &events->stream;
}

void
events_changed(struct events *events)
{
	uint64_t now_ns;

	if (events == NULL || http_server_streams(events->server) == 0)
		return;
	now_ns = monotonic_ns();
	if (now_ns - events->tick_ns >= EVENTS_TICK_NS) {
		give_tick(events, now_ns);
		return;
	}
	http_server_wake(events->server);
	if (events->changed)
		return;
	events->changed = true;
	set_timer(events, now_ns);
}

struct events *
events_open(struct event_base *base, struct http_server *server, const struct journal *journal)
{
	struct events *events = calloc(1, sizeof(*events));

	if (events == NULL)
		return NULL;
	events->journal = journal;
	events->server = server;
	events->stream = (struct http_stream){next_part, events};
	events->timer = evtimer_new(base, on_timer, events);
	if (events->timer == NULL) {
		free(events);
		return NULL;
	}
	http_event_priority(base, events->timer);
	return events;
}

void
events_close(struct events *events)
{
	if (events == NULL)
		return;
	event_free(events->timer);
	free(events);
}

/*
 * A rank's own sd_notify socket: a datagram socket in the group's folder. The socket is the
 * identity, whoever the sender is. Unknown and odd fields are ignored with one warning.
 */
#ifndef SUPERVISOR_NOTIFY_H
#define SUPERVISOR_NOTIFY_H

#include "common/message.h"

#include <event2/event.h>
#include <sys/types.h>

struct notify;

/* Called for each field that means something: READY, STATUS, WATCHDOG, EXTEND, STOPPING. */
typedef void (*notify_word)(int rank, const struct message *message, void *arg);

/*
 * Binds a socket at `path`, which belongs to uid and gid and to nobody else. NULL with a text in
 * error[0..size) on failure.
 */
struct notify *notify_open(struct event_base *base, int rank, const char *path, uid_t uid,
			   gid_t gid, notify_word word, void *arg, char *error, size_t size);

/* Reads what is there now, up to a bound: last words are heard before a death is judged. */
void notify_drain(struct notify *notify);

/* Its descriptor, for one poll of many; -1 for NULL. */
int notify_fd(const struct notify *notify);

/* Closes and removes the socket. NULL is nothing. */
void notify_close(struct notify *notify);

#endif

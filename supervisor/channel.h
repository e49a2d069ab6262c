/*
 * A queue of bytes on its way to a descriptor that we share with others and must not make
 * non-blocking. Never blocks: terminals and pipes are opened anew with a description of our own;
 * where that is not allowed they are polled and given no more than a free pipe buffer takes.
 */
#ifndef SUPERVISOR_CHANNEL_H
#define SUPERVISOR_CHANNEL_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANNEL_TURN_BYTES (256 * 1024) /* written in one turn of the loop */
#define CHANNEL_PRIORITY   2

struct channel;

/* Called when what had to wait has been written, and when the reader went away. */
typedef void (*channel_drained)(void *arg);

/* The descriptor stays the caller's. NULL if memory ran out. */
struct channel *channel_open(struct event_base *base, int fd, channel_drained drained, void *arg);
void channel_close(struct channel *channel);

/* Appends; written at the end of this turn of the loop, or when the descriptor takes it. */
void channel_put(struct channel *channel, const char *data, size_t len);
/* Bytes not yet written. */
size_t channel_queued(const struct channel *channel);

/* While held, only what stood in the queue at the last release is written. */
void channel_hold(struct channel *channel, bool hold);
void channel_release(struct channel *channel);
/* Something released is not written yet. */
bool channel_is_behind(const struct channel *channel);

/* Writes at once what the descriptor takes, CHANNEL_TURN_BYTES at most. */
void channel_pump(struct channel *channel);
/* The descriptor takes no more at present. */
bool channel_is_waiting(const struct channel *channel);

/* There is nobody to write to any more; what is put vanishes. */
bool channel_is_dead(const struct channel *channel);
/* The error of the last write if it lost bytes (a full disk, a reader gone), else 0. */
int channel_error(const struct channel *channel);
/* Lines lost so since the last call. */
uint64_t channel_take_lost(struct channel *channel);
/* The descriptor to poll(2) for POLLOUT. */
int channel_fd(const struct channel *channel);
bool channel_is_terminal(const struct channel *channel);

/* Both lead to the same file, pipe or terminal. */
bool channel_same(int fd, int other);

#endif

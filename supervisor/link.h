/*
 * Our end of a rank's link: a SOCK_SEQPACKET socket. Who the rank is follows from the descriptor.
 */
#ifndef SUPERVISOR_LINK_H
#define SUPERVISOR_LINK_H

#include "common/message.h"

#include <stddef.h>

enum link_result {
	LINK_PACKET, /* one packet, and a descriptor if one came with it */
	LINK_EMPTY,  /* a packet of no bytes: malformed */
	LINK_AGAIN,  /* nothing there now */
	LINK_EOF,
};

/* Both ends close-on-exec; ours is non-blocking. 0, or -1 with errno set. */
int link_pair(int *ours, int *theirs);

/*
 * Reads one packet into buffer[MESSAGE_MAX_BYTES + 1]; *len may be MESSAGE_MAX_BYTES + 1 for a
 * longer one, which was cut. *fd is the caller's to close, -1 if none came; *fds counts those that
 * came.
 */
enum link_result link_receive(int link_fd, char *buffer, size_t *len, int *fd, int *fds);

/* 0, or -1 with errno set: EAGAIN if the rank does not read, EPIPE if it has gone. fd -1: none. */
int link_send(int link_fd, const char *packet, size_t len, int fd);

#endif

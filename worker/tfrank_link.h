/* The inside of tfrank: its handle, and packets in and out. Not installed. */
#ifndef WORKER_TFRANK_LINK_H
#define WORKER_TFRANK_LINK_H

#include "common/message.h"
#include "worker/tfrank.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#define SEND_TIMEOUT_NS                                                                            \
	(30 * NS_PER_SEC) /* a supervisor that reads nothing for so long is lost                   \
			   */

struct tfrank {
	pid_t pid; /* of the process that opened the link */
	int fd;    /* -1: no supervisor, or closed */
	bool alone;
	pthread_mutex_t lock; /* over all that follows */
	unsigned seen;        /* TFRANK_EVENT_ bits that have come */
	unsigned told;        /* those of them that tfrank_dispatch has returned */
	bool said_hello, said_ready, put_id;
	unsigned then;
	int rank, world_size; /* -1: not known yet */
	int64_t epoch;
	uint64_t ready_timeout_usec, collective_timeout_usec, grace_usec;
	unsigned char id[GROUP_ID_MAX_BYTES];
	size_t id_len; /* bytes; 0: none */
	int id_fd;     /* -1: none */
	enum reason abort_reason;
	int abort_rank;
	char abort_detail[MESSAGE_TEXT_BYTES];
	uint64_t progress_ns; /* of the last PROGRESS sent */
};

/* Sets tfrank_error() and returns -error. */
int link_error(int error, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Takes `fd` over: our own, close-on-exec, a SOCK_SEQPACKET Unix socket. 0, or an error. */
int link_adopt(struct tfrank *rank, int fd);

/* Shuts down and closes. */
void link_close(struct tfrank *rank);

/* 0, or -ECHILD in a forked child. */
int link_check_process(const struct tfrank *rank);

/* 0, or why nothing can be said: the group is lost, the link closed. Locked. */
int link_usable(const struct tfrank *rank);

/*
 * Sends *message with a copy of fd (-1: none). Locked; the lock is let go while a full socket is
 * awaited. `droppable`: 0 at once if it is full.
 */
int link_send(struct tfrank *rank, const struct message *message, int fd, bool droppable);

/* Reads what is there without blocking. Locked. */
int link_receive(struct tfrank *rank);

/*
 * Until one of the events `wanted` has come. Losses and a stop come first, but for WELCOME, which
 * counts whenever it has come. Not locked.
 */
int link_wait(struct tfrank *rank, unsigned wanted, uint64_t deadline_ns);

#endif

/* The public calls of tfrank that ask and wait. */
#include "worker/tfrank.h"

#include "worker/tfrank_link.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum field { FIELD_RANK, FIELD_WORLD_SIZE, FIELD_EPOCH, FIELD_READY, FIELD_COLLECTIVE };

static int64_t
usec_or_max(uint64_t usec)
{
	return usec > INT64_MAX ? INT64_MAX : (int64_t)usec;
}

/* -1: not known yet. Locked. */
static int64_t
field_value(const struct tfrank *rank, enum field field)
{
	bool welcome = (rank->seen & TFRANK_EVENT_WELCOME) != 0;

	switch (field) {
	case FIELD_RANK:
		return rank->rank;
	case FIELD_WORLD_SIZE:
		return rank->world_size;
	case FIELD_EPOCH:
		return rank->epoch;
	case FIELD_READY:
		return welcome ? usec_or_max(rank->ready_timeout_usec) : -1;
	case FIELD_COLLECTIVE:
		return welcome ? usec_or_max(rank->collective_timeout_usec) : -1;
	}
	return -1;
}

static int64_t
look_up(struct tfrank *rank, enum field field, bool *said_hello)
{
	int64_t value;

	pthread_mutex_lock(&rank->lock);
	value = field_value(rank, field);
	*said_hello = rank->said_hello;
	pthread_mutex_unlock(&rank->lock);
	return value;
}

static int64_t
ask(struct tfrank *rank, enum field field)
{
	bool said_hello;
	int error = link_check_process(rank);
	int64_t value;

	if (error != 0)
		return error;
	if ((value = look_up(rank, field, &said_hello)) >= 0)
		return value;
	if (!said_hello)
		return link_error(EPROTO, "the supervisor tells this after hello only");
	if ((error = link_wait(rank, TFRANK_EVENT_WELCOME, 0)) != 0)
		return error;
	return look_up(rank, field, &said_hello);
}

int
tfrank_rank(struct tfrank *rank)
{
	return (int)ask(rank, FIELD_RANK);
}

int
tfrank_world_size(struct tfrank *rank)
{
	return (int)ask(rank, FIELD_WORLD_SIZE);
}

int64_t
tfrank_epoch(struct tfrank *rank)
{
	return ask(rank, FIELD_EPOCH);
}

int64_t
tfrank_ready_timeout_usec(struct tfrank *rank)
{
	return ask(rank, FIELD_READY);
}

int64_t
tfrank_collective_timeout_usec(struct tfrank *rank)
{
	return ask(rank, FIELD_COLLECTIVE);
}

/* Without a supervisor what is wanted is here, or will never be. */
static int
wait_alone(struct tfrank *rank, unsigned wanted)
{
	unsigned seen;

	pthread_mutex_lock(&rank->lock);
	seen = rank->seen;
	pthread_mutex_unlock(&rank->lock);
	if ((seen & wanted) != 0)
		return 0;
	if (wanted == TFRANK_EVENT_GO)
		return link_error(EPROTO, "wait for go: after ready only");
	return link_error(ENODATA, "there is no group id, and no supervisor to wait for");
}

static int
wait_for(struct tfrank *rank, unsigned wanted, uint64_t deadline_ns)
{
	int error = link_check_process(rank);

	if (error != 0)
		return error;
	return rank->alone ? wait_alone(rank, wanted) : link_wait(rank, wanted, deadline_ns);
}

int
tfrank_wait_go(struct tfrank *rank, uint64_t deadline_ns)
{
	return wait_for(rank, TFRANK_EVENT_GO, deadline_ns);
}

/* Locked. */
static int
copy_group_id(const struct tfrank *rank, void *id, size_t size, size_t *len, int *fd)
{
	if (rank->id_len > size)
		return link_error(EINVAL, "group id: %zu bytes do not fit into %zu", rank->id_len,
				  size);
	if (fd != NULL) {
		*fd = -1;
		if (rank->id_fd >= 0 && (*fd = fcntl(rank->id_fd, F_DUPFD_CLOEXEC, 3)) < 0)
			return link_error(errno, "group id: descriptor: %s", strerror(errno));
	}
	memcpy(id, rank->id, rank->id_len);
	*len = rank->id_len;
	return 0;
}

int
tfrank_get_group_id(struct tfrank *rank, void *id, size_t size, size_t *len, int *fd,
		    uint64_t deadline_ns)
{
	int error = wait_for(rank, TFRANK_EVENT_GROUP_ID, deadline_ns);

	if (error != 0)
		return error;
	pthread_mutex_lock(&rank->lock);
	error = copy_group_id(rank, id, size, len, fd);
	pthread_mutex_unlock(&rank->lock);
	return error;
}

int
tfrank_fd(const struct tfrank *rank)
{
	return rank->fd;
}

int
tfrank_dispatch(struct tfrank *rank)
{
	unsigned fresh;
	int error = link_check_process(rank);

	if (error != 0)
		return error;
	pthread_mutex_lock(&rank->lock);
	if (!rank->alone)
		error = link_receive(rank);
	fresh = rank->seen & ~rank->told;
	if (error == 0)
		rank->told |= fresh;
	pthread_mutex_unlock(&rank->lock);
	return error != 0 ? error : (int)fresh;
}

/* Written once, before the event that tells of it: what is returned stays. */
static bool
is_aborted(const struct tfrank *rank)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&rank->lock;
	bool aborted;

	pthread_mutex_lock(lock);
	aborted = (rank->seen & TFRANK_EVENT_ABORT) != 0;
	pthread_mutex_unlock(lock);
	return aborted;
}

const char *
tfrank_abort_reason(const struct tfrank *rank)
{
	return is_aborted(rank) ? reason_word(rank->abort_reason) : "";
}

int
tfrank_abort_rank(const struct tfrank *rank)
{
	return is_aborted(rank) ? rank->abort_rank : -1;
}

const char *
tfrank_abort_detail(const struct tfrank *rank)
{
	return is_aborted(rank) ? rank->abort_detail : "";
}

uint64_t
tfrank_stop_grace_usec(const struct tfrank *rank)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&rank->lock;
	uint64_t usec;

	pthread_mutex_lock(lock);
	usec = rank->grace_usec;
	pthread_mutex_unlock(lock);
	return usec;
}

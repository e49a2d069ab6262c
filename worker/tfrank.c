/* The public calls of tfrank: who may say what, and when. */
#include "worker/tfrank.h"

#include "common/deadline.h"
#include "worker/tfrank_link.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_INTERVAL_NS (50 * NS_PER_MSEC)

/* A whole number of an environment variable: fallback if it is not set, or an error. */
static int
environment_int(const char *name, int min, int fallback, int *out)
{
	const char *text = getenv(name);
	char *end;
	long v;

	*out = fallback;
	if (text == NULL)
		return 0;
	errno = 0;
	v = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || v < min || v > INT_MAX)
		return link_error(EINVAL, "%s=%s: not a number from %d on", name, text, min);
	*out = (int)v;
	return 0;
}

static int
open_alone(struct tfrank *rank)
{
	int error;

	rank->alone = true;
	rank->epoch = 0;
	rank->seen = TFRANK_EVENT_WELCOME;
	if ((error = environment_int("RANK", 0, 0, &rank->rank)) != 0 ||
	    (error = environment_int("WORLD_SIZE", 1, 1, &rank->world_size)) != 0)
		return error;
	if (rank->rank >= rank->world_size)
		return link_error(EINVAL, "RANK=%d: not below WORLD_SIZE, %d", rank->rank,
				  rank->world_size);
	return 0;
}

static int
open_link(struct tfrank *rank)
{
	int error, fd, epoch;

	if ((error = environment_int(LINK_FD_VARIABLE, 0, -1, &fd)) != 0 ||
	    (error = environment_int("TFRANK_RANK", 0, -1, &rank->rank)) != 0 ||
	    (error = environment_int("TFRANK_WORLD_SIZE", 1, -1, &rank->world_size)) != 0 ||
	    (error = environment_int("TFRANK_EPOCH", 0, -1, &epoch)) != 0)
		return error;
	rank->epoch = epoch;
	if ((error = link_adopt(rank, fd)) != 0)
		return error;
	unsetenv(LINK_FD_VARIABLE);
	return 0;
}

int
tfrank_open(struct tfrank **out)
{
	struct tfrank *rank = calloc(1, sizeof(*rank));
	int error;

	*out = NULL;
	if (rank == NULL)
		return link_error(ENOMEM, "out of memory");
	rank->pid = getpid();
	rank->fd = rank->id_fd = -1;
	rank->abort_rank = -1;
	pthread_mutex_init(&rank->lock, NULL);
	error = getenv(LINK_FD_VARIABLE) == NULL ? open_alone(rank) : open_link(rank);
	if (error != 0) {
		pthread_mutex_destroy(&rank->lock);
		free(rank);
		return error;
	}
	*out = rank;
	return 0;
}

void
tfrank_close(struct tfrank *rank)
{
	if (rank == NULL)
		return;
	if (getpid() == rank->pid) {
		link_close(rank);
		pthread_mutex_destroy(&rank->lock);
	}
	if (rank->id_fd >= 0)
		close(rank->id_fd);
	free(rank);
}

int
tfrank_supervised(const struct tfrank *rank)
{
	return !rank->alone;
}

/* --- saying --- */

static int
out_of_order(const char *what, const char *rule)
{
	return link_error(EPROTO, "%s: %s", what, rule);
}

/* Every call that says something begins here; 0 with the lock held. */
static int
begin(struct tfrank *rank, const char *what, bool after_hello)
{
	int error = link_check_process(rank);

	if (error != 0)
		return error;
	pthread_mutex_lock(&rank->lock);
	if (after_hello && !rank->said_hello)
		error = out_of_order(what, "after hello only");
	if (error != 0)
		pthread_mutex_unlock(&rank->lock);
	return error;
}

static int
end(struct tfrank *rank, int error)
{
	pthread_mutex_unlock(&rank->lock);
	return error;
}

static int
send_or_not(struct tfrank *rank, const struct message *message, int fd, bool droppable)
{
	return rank->alone ? 0 : link_send(rank, message, fd, droppable);
}

static int
say(struct tfrank *rank, const struct message *message)
{
	return send_or_not(rank, message, -1, false);
}

static bool
is_digest(const char *text)
{
	size_t len = strlen(text);

	return len > 0 && len < MESSAGE_DIGEST_BYTES &&
	       strspn(text, "0123456789abcdefABCDEF") == len;
}

int
tfrank_hello(struct tfrank *rank, const char *settings)
{
	struct message message = {.verb = VERB_HELLO, .protocol = PROTOCOL_VERSION};
	int error;

	if (settings != NULL && !is_digest(settings))
		return link_error(EINVAL, "hello: settings must be 1 to 128 hex digits");
	if (settings != NULL)
		memcpy(message.settings, settings, strlen(settings) + 1);
	if ((error = begin(rank, "hello", false)) != 0)
		return error;
	if (rank->said_hello)
		return end(rank, out_of_order("hello", "only once"));
	error = say(rank, &message);
	rank->said_hello = error == 0;
	return end(rank, error);
}

int
tfrank_status(struct tfrank *rank, const char *text)
{
	struct message message = {.verb = VERB_STATUS};
	int error = begin(rank, "status", false);

	if (error != 0)
		return error;
	snprintf(message.text, sizeof(message.text), "%s", text);
	return end(rank, say(rank, &message));
}

static bool
unit_is_plain(const char *unit)
{
	size_t len = strlen(unit);

	if (len >= MESSAGE_UNIT_BYTES || utf8_valid_prefix(unit, len) != len)
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)unit[i] < ' ' || unit[i] == 0x7f)
			return false;
	return true;
}

int
tfrank_progress(struct tfrank *rank, uint64_t done, uint64_t total, const char *unit,
		uint64_t bytes, uint64_t bytes_total)
{
	struct message message = {.verb = VERB_PROGRESS};
	bool last = done == total && bytes == bytes_total;
	uint64_t now_ns = monotonic_ns();
	int error;

	if ((total > 0 && done > total) || (bytes_total > 0 && bytes > bytes_total))
		return link_error(EINVAL, "progress: more is done than there is");
	if (unit != NULL && !unit_is_plain(unit))
		return link_error(EINVAL, "progress: a unit is one word of at most 31 bytes");
	message.progress.done = total > 0 ? done : 0;
	message.progress.total = total;
	message.progress.bytes = bytes;
	message.progress.bytes_total = bytes_total;
	snprintf(message.progress.unit, sizeof(message.progress.unit), "%s",
		 unit == NULL ? "" : unit);
	if ((error = begin(rank, "progress", true)) != 0)
		return error;
	if (!last && rank->progress_ns != 0 && now_ns - rank->progress_ns < PROGRESS_INTERVAL_NS)
		return end(rank, rank->alone ? 0 : link_usable(rank));
	rank->progress_ns = now_ns;
	return end(rank, send_or_not(rank, &message, -1, true));
}

/* Keeps our own copy, for tfrank_get_group_id on this rank. */
static int
keep_group_id(struct tfrank *rank, const void *id, size_t len, int fd)
{
	if (fd >= 0 && (rank->id_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3)) < 0)
		return link_error(errno, "group id: descriptor %d: %s", fd, strerror(errno));
	memcpy(rank->id, id, len);
	rank->id_len = len;
	rank->put_id = true;
	rank->seen |= TFRANK_EVENT_GROUP_ID;
	rank->told |= TFRANK_EVENT_GROUP_ID;
	return 0;
}

int
tfrank_put_group_id(struct tfrank *rank, const void *id, size_t len, int fd)
{
	struct message message = {.verb = VERB_GROUP_ID, .group_id_len = len};
	int error;

	if (len == 0 || len > GROUP_ID_MAX_BYTES)
		return link_error(EINVAL, "group id: 1 to %d bytes", GROUP_ID_MAX_BYTES);
	memcpy(message.group_id, id, len);
	if ((error = begin(rank, "group id", true)) != 0)
		return error;
	if (rank->rank > 0)
		error = out_of_order("group id", "from rank 0 only");
	else if (rank->put_id || rank->said_ready)
		error = out_of_order("group id", "only once, and before ready");
	else if ((error = send_or_not(rank, &message, fd, false)) == 0)
		error = keep_group_id(rank, id, len, fd);
	return end(rank, error);
}

int
tfrank_ready(struct tfrank *rank, unsigned then)
{
	struct message message = {
	    .verb = VERB_READY,
	    .then_collective = (then & TFRANK_THEN_COLLECTIVE) != 0,
	    .then_serving = (then & TFRANK_THEN_SERVING) != 0,
	};
	int error;

	if ((then & ~(TFRANK_THEN_COLLECTIVE | TFRANK_THEN_SERVING)) != 0)
		return link_error(EINVAL, "ready: %#x is no set of TFRANK_THEN_ bits", then);
	if ((error = begin(rank, "ready", true)) != 0)
		return error;
	if (rank->said_ready)
		return end(rank, out_of_order("ready", "only once"));
	if ((error = say(rank, &message)) == 0) {
		rank->said_ready = true;
		rank->then = then;
		if (rank->alone)
			rank->seen |= TFRANK_EVENT_GO;
	}
	return end(rank, error);
}

static int
after_go(struct tfrank *rank, const struct message *message, const char *what, unsigned announced)
{
	int error = begin(rank, what, true);

	if (error != 0)
		return error;
	if ((rank->seen & TFRANK_EVENT_GO) == 0)
		error = out_of_order(what, "after go only");
	else if ((rank->then & announced) != announced)
		error = out_of_order(what, "was not announced by ready");
	else
		error = say(rank, message);
	return end(rank, error);
}

int
tfrank_collective_begin(struct tfrank *rank, const char *name)
{
	struct message message = {.verb = VERB_COLLECTIVE};

	snprintf(message.name, sizeof(message.name), "%s", name);
	return after_go(rank, &message, "collective begin", TFRANK_THEN_COLLECTIVE);
}

int
tfrank_collective_done(struct tfrank *rank, const char *name)
{
	struct message message = {.verb = VERB_COLLECTIVE, .collective_done = true};

	snprintf(message.name, sizeof(message.name), "%s", name);
	return after_go(rank, &message, "collective done", TFRANK_THEN_COLLECTIVE);
}

int
tfrank_serving(struct tfrank *rank)
{
	return after_go(rank, &(struct message){.verb = VERB_SERVING}, "serving", 0);
}

int
tfrank_watchdog(struct tfrank *rank)
{
	int error = begin(rank, "watchdog", true);

	if (error != 0)
		return error;
	return end(rank, send_or_not(rank, &(struct message){.verb = VERB_WATCHDOG}, -1, true));
}

int
tfrank_extend(struct tfrank *rank, uint64_t usec)
{
	struct message message = {.verb = VERB_EXTEND, .extend_usec = usec};
	int error = begin(rank, "extend", true);

	return error != 0 ? error : end(rank, say(rank, &message));
}

int
tfrank_failed(struct tfrank *rank, const char *text, int error_number)
{
	struct message message = {.verb = VERB_FAILED, .error_number = error_number};
	int error;

	if (error_number < 0)
		return link_error(EINVAL, "failed: errno %d is negative", error_number);
	if ((error = begin(rank, "failed", false)) != 0)
		return error;
	snprintf(message.text, sizeof(message.text), "%s", text);
	return end(rank, say(rank, &message));
}

int
tfrank_stopping(struct tfrank *rank)
{
	int error = begin(rank, "stopping", false);

	if (error != 0)
		return error;
	return end(rank, say(rank, &(struct message){.verb = VERB_STOPPING}));
}

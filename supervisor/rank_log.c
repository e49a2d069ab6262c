#include "supervisor/rank_log.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES 64

struct rank_log {
	int dirfd, fd; /* fd -1: nothing was written yet, or it could not be opened */
	int rank;
	uint64_t half, size;  /* bytes */
	uint64_t lost;        /* bytes that the disk did not take since the last that it took */
	int error;            /* why */
	bool warned, midline; /* midline: the file ends within a line */
};

/* rank-1.log, rank-1.log.1; of an earlier epoch rank-1.epoch-2.log and so on. */
static void
file_name(char *name, int rank, uint32_t epoch, bool older)
{
	const char *suffix = older ? ".1" : "";

	if (epoch == 0)
		snprintf(name, NAME_BYTES, "rank-%d.log%s", rank, suffix);
	else
		snprintf(name, NAME_BYTES, "rank-%d.epoch-%" PRIu32 ".log%s", rank, epoch, suffix);
}

static int
file_open(int dirfd, int rank)
{
	char name[NAME_BYTES];
	int fd;

	file_name(name, rank, 0, false);
	fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		fchmod(fd, 0600); /* whatever the umask */
	return fd;
}

/* Puts the files of the epoch before aside and removes those that are no longer kept. */
static void
files_put_aside(int dirfd, int rank, uint32_t epoch)
{
	char from[NAME_BYTES], to[NAME_BYTES];

	for (int older = 0; older < 2; older++) {
		file_name(from, rank, 0, older != 0);
		if (epoch <= 1) {
			unlinkat(dirfd, from, 0);
			continue;
		}
		file_name(to, rank, epoch - 1, older != 0);
		renameat(dirfd, from, dirfd, to);
		if (epoch - 1 > RANK_LOG_EPOCHS) {
			file_name(to, rank, epoch - 1 - RANK_LOG_EPOCHS, older != 0);
			unlinkat(dirfd, to, 0);
		}
	}
}

struct rank_log *
rank_log_open(int dirfd, int rank, uint32_t epoch, uint64_t cap_bytes)
{
	struct rank_log *log;

	if (cap_bytes == 0) {
		errno = EINVAL;
		return NULL;
	}
	log = calloc(1, sizeof(*log));
	if (log == NULL)
		return NULL;
	files_put_aside(dirfd, rank, epoch);
	log->dirfd = dirfd;
	log->rank = rank;
	log->half = cap_bytes < 2 ? 1 : cap_bytes / 2;
	log->fd = -1;
	return log;
}

static void
lose(struct rank_log *log, size_t len, int error)
{
	log->lost += len;
	log->error = error;
	if (log->warned)
		return;
	log->warned = true;
	errno = error;
	log_warn("rank %d: its output is not all kept in rank-%d.log", log->rank, log->rank);
}

/* Bytes written; fewer than len if the disk would not take the rest, errno then tells. */
static size_t
write_all(int fd, const char *data, size_t len)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = write(fd, data + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static void
rotate(struct rank_log *log)
{
	char name[NAME_BYTES], older[NAME_BYTES];

	if (log->fd < 0)
		return;
	file_name(name, log->rank, 0, false);
	file_name(older, log->rank, 0, true);
	renameat(log->dirfd, name, log->dirfd, older);
	close(log->fd);
	log->fd = file_open(log->dirfd, log->rank);
	log->size = 0;
	log->midline = false;
}

static bool
mark_gap(struct rank_log *log)
{
	char mark[160];
	size_t len, done;

	len = (size_t)snprintf(mark, sizeof(mark), "\n... %" PRIu64 " bytes not written: %s\n",
			       log->lost, strerror(log->error));
	done = write_all(log->fd, mark, len);
	log->size += done;
	if (done < len)
		return false;
	log->lost = 0;
	return true;
}

static void
append(struct rank_log *log, const char *data, size_t len)
{
	size_t done;

	if (log->fd < 0)
		log->fd = file_open(log->dirfd, log->rank);
	if (log->fd < 0 || (log->lost > 0 && !mark_gap(log))) {
		lose(log, len, errno);
		return;
	}
	done = write_all(log->fd, data, len);
	log->size += done;
	if (done > 0)
		log->midline = data[done - 1] != '\n';
	if (done < len)
		lose(log, len - done, errno);
}

/* How much of data goes into the present file: whole lines where that can be. */
static size_t
fitting(const struct rank_log *log, const char *data, size_t len)
{
	uint64_t room = log->half > log->size ? log->half - log->size : 0;
	const char *newline;

	if (len <= room)
		return len;
	newline = memrchr(data, '\n', (size_t)room);
	if (newline != NULL)
		return (size_t)(newline - data) + 1;
	return log->midline || log->size == 0 ? (size_t)room : 0;
}

void
rank_log_write(struct rank_log *log, const char *data, size_t len)
{
	size_t n;

	while (len > 0) {
		n = fitting(log, data, len);
		if (n > 0)
			append(log, data, n);
		data += n;
		len -= n;
		if (len > 0)
			rotate(log);
	}
}

void
rank_log_close(struct rank_log *log)
{
	if (log == NULL)
		return;
	if (log->fd >= 0)
		close(log->fd);
	free(log);
}

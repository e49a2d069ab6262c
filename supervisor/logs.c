#include "supervisor/logs.h"

#include "common/log.h"
#include "supervisor/clean.h"
#include "supervisor/config.h"
#include "supervisor/log_reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_FILE (-1)

struct logs {
	int dirfd, wanted;
	struct log_reader *readers[RANKS_MAX]; /* NULL: has no file yet */
	int inotify, pidfd;                    /* -1: none */
	bool over;
};

void
logs_print(int rank, const char *text, size_t len)
{
	char clean[OUTPUT_LINE_BYTES + 64 + CLEAN_GROWTH_BYTES];

	printf("[rank %d] ", rank);
	if (isatty(STDOUT_FILENO) && len + CLEAN_GROWTH_BYTES <= sizeof(clean)) {
		len = clean_terminal(text, len, client_colors(stdout), clean);
		text = clean;
	}
	fwrite(text, 1, len, stdout);
	putchar('\n');
}

static void
on_line(int rank, const char *text, size_t len, void *arg)
{
	(void)arg;
	logs_print(rank, text, len);
}

/* The rank whose file this is: rank-3.log. */
static int
rank_of(const char *name)
{
	int rank, end = 0;

	if (sscanf(name, "rank-%4d.log%n", &rank, &end) != 1 || end == 0 || name[end] != '\0' ||
	    rank < 0 || rank >= RANKS_MAX)
		return NO_FILE;
	return rank;
}

static void
read_rank(struct logs *logs, int rank)
{
	struct log_reader *reader = logs->readers[rank];

	if (logs->wanted >= 0 && rank != logs->wanted)
		return;
	if (reader == NULL && (reader = calloc(1, sizeof(*reader))) != NULL)
		*reader = (struct log_reader){
		    .dirfd = logs->dirfd, .rank = rank, .fd = -1, .line = on_line};
	logs->readers[rank] = reader;
	if (reader != NULL)
		log_reader_more(reader);
}

/* In the order of the ranks, those that have a file. */
static void
read_all(struct logs *logs)
{
	bool there[RANKS_MAX] = {false};
	const struct dirent *entry;
	int fd, rank;
	DIR *list;

	fd = openat(logs->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	list = fd < 0 ? NULL : fdopendir(fd);
	if (list == NULL) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(list)) != NULL)
		if ((rank = rank_of(entry->d_name)) != NO_FILE)
			there[rank] = true;
	closedir(list);
	for (rank = 0; rank < RANKS_MAX; rank++)
		if (there[rank])
			read_rank(logs, rank);
}

static int
end_all(struct logs *logs)
{
	int files = 0;

	for (int rank = 0; rank < RANKS_MAX; rank++) {
		if (logs->readers[rank] == NULL)
			continue;
		files++;
		log_reader_end(logs->readers[rank]);
		free(logs->readers[rank]);
	}
	fflush(stdout);
	return files;
}

/* --- following --- */

static void
on_change(struct logs *logs, const struct inotify_event *event)
{
	int rank = event->len > 0 ? rank_of(event->name) : NO_FILE;
	bool deleted = (event->mask & IN_DELETE) != 0;

	/* The folder goes with its group; our own descriptor of it would hide its end. */
	if (deleted && strcmp(event->name, RUNDIR_PID) == 0)
		logs->over = true;
	else if ((event->mask & IN_Q_OVERFLOW) != 0)
		read_all(logs);
	else if (rank != NO_FILE && !deleted)
		read_rank(logs, rank);
}

static void
read_changes(struct logs *logs)
{
	union {
		struct inotify_event event; /* for the alignment */
		char bytes[16384];
	} in;
	const struct inotify_event *event;
	ssize_t n = read(logs->inotify, in.bytes, sizeof(in.bytes)), at = 0;

	while (at < n) {
		event = (const struct inotify_event *)(const void *)(in.bytes + at);
		on_change(logs, event);
		at += (ssize_t)(sizeof(*event) + event->len);
	}
}

/*
 * The guard is gone. Where nobody removes the folder any more, the lock that it held tells when
 * nothing of the group is left.
 */
static void
await_release(struct logs *logs, const struct client_group *group)
{
	while (flock(group->pid_fd, LOCK_SH) != 0 && errno == EINTR)
		;
	logs->over = true;
}

static void
follow_all(struct logs *logs, const struct client_group *group)
{
	struct pollfd polled[] = {{logs->inotify, POLLIN, 0}, {logs->pidfd, POLLIN, 0}};

	while (!logs->over) {
		fflush(stdout);
		if (poll(polled, 2, -1) < 0)
			continue;
		if (polled[0].revents != 0)
			read_changes(logs);
		else if (polled[1].revents != 0)
			await_release(logs, group);
	}
}

/* A file per rank is open while they are followed. */
static void
raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int
open_logs(struct logs *logs, const struct client_group *group, bool follow)
{
	const uint32_t wanted = IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR;

	raise_limit();
	logs->inotify = logs->pidfd = -1;
	logs->dirfd = open(group->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (logs->dirfd < 0)
		return -1;
	if (!follow)
		return 0;
	logs->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)group->pid, 0);
	logs->inotify = inotify_init1(IN_CLOEXEC);
	if (logs->inotify < 0 || inotify_add_watch(logs->inotify, group->path, wanted) < 0)
		return -1;
	return 0;
}

static void
close_logs(struct logs *logs)
{
	const int fds[] = {logs->dirfd, logs->inotify, logs->pidfd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

int
logs_show(const struct client_group *group, int rank, bool follow)
{
	static struct logs logs;
	int files;

	logs.wanted = rank;
	if (open_logs(&logs, group, follow) != 0) {
		log_warn("group %s: its folder %s", group->name, group->path);
		close_logs(&logs);
		return EXIT_FAILURE;
	}
	read_all(&logs);
	if (follow)
		follow_all(&logs, group);
	files = end_all(&logs);
	if (files == 0 && rank >= 0)
		log_info("rank %d of group %s has printed nothing that is kept", rank, group->name);
	else if (files == 0)
		log_info("no rank of group %s has printed anything that is kept", group->name);
	close_logs(&logs);
	return EXIT_SUCCESS;
}

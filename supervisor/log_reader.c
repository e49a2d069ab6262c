#include "supervisor/log_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES 65536
#define NAME_BYTES 32

static void
on_line(const char *text, size_t len, void *arg)
{
	const struct log_reader *reader = arg;

	reader->line(reader->rank, text, len, reader->arg);
}

/* What was rewritten before its line was finished is not shown. */
static void
on_other(const char *text, size_t len, void *arg)
{
	(void)text;
	(void)len;
	(void)arg;
}

static int
open_file(const struct log_reader *reader, const char *suffix, ino_t *inode)
{
	char name[NAME_BYTES];
	struct stat st;
	int fd;

	snprintf(name, sizeof(name), "rank-%d.log%s", reader->rank, suffix);
	fd = openat(reader->dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		return -1;
	}
	if (fd >= 0)
		*inode = st.st_ino;
	return fd;
}

static void
read_file(struct log_reader *reader, int fd)
{
	const struct lines_sink sink = {on_line, on_other, on_other, reader};
	char data[READ_BYTES];
	ssize_t n;

	while (fd >= 0 && ((n = read(fd, data, sizeof(data))) > 0 || (n < 0 && errno == EINTR)))
		if (n > 0)
			lines_feed(&reader->lines, data, (size_t)n, &sink);
}

/*
 * The file has another's place: of its own epoch, then the one before is the older half now, or of
 * the next. Between two looks there may have been a whole one that is the older half already.
 */
static void
change_file(struct log_reader *reader, int fd, ino_t inode)
{
	const struct lines_sink sink = {on_line, on_other, on_other, reader};
	ino_t older_inode = 0;
	int older = open_file(reader, ".1", &older_inode);

	if (older < 0 || older_inode != reader->inode)
		lines_end(&reader->lines, &sink);
	if (older >= 0 && older_inode != reader->inode && older_inode != inode)
		read_file(reader, older);
	if (older >= 0)
		close(older);
	if (reader->fd >= 0)
		close(reader->fd);
	reader->fd = fd;
	reader->inode = inode;
	read_file(reader, fd);
}

void
log_reader_more(struct log_reader *reader)
{
	ino_t inode = 0;
	int fd = open_file(reader, "", &inode);

	/* Whatever has taken its place by now, the old one is complete. */
	read_file(reader, reader->fd);
	if (fd >= 0 && (reader->fd < 0 || inode != reader->inode))
		change_file(reader, fd, inode);
	else if (fd >= 0)
		close(fd);
}

void
log_reader_end(struct log_reader *reader)
{
	const struct lines_sink sink = {on_line, on_other, on_other, reader};

	log_reader_more(reader);
	lines_end(&reader->lines, &sink);
	lines_free(&reader->lines);
	if (reader->fd >= 0)
		close(reader->fd);
	reader->fd = -1;
}

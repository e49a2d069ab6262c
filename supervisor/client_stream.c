#include "supervisor/client_stream.h"

#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUSY 503

static int
take_head(const struct client_group *group, struct client_stream *stream)
{
	const uint64_t deadline_ns = deadline_after(monotonic_ns(), CLIENT_TIMEOUT_NS);
	struct pollfd pfd = {stream->fd, POLLIN, 0};
	int status = 0;
	char *body;

	while ((body = memmem(stream->in, stream->len, "\r\n\r\n", 4)) == NULL) {
		if (poll(&pfd, 1, deadline_poll_ms(deadline_ns, monotonic_ns())) == 0)
			return client_fail(group, strerror(ETIMEDOUT));
		client_stream_read(stream);
		if (stream->ended)
			return client_fail(group, "it hung up");
	}
	stream->at = (size_t)(body - stream->in) + 4;
	*body = '\0';
	sscanf(stream->in, "HTTP/1.1 %d ", &status);
	if (status == BUSY)
		return client_fail(group, "too many read its events already");
	if (status != 200)
		return client_fail(group, "it tells no events");
	return 0;
}

int
client_stream_open(const struct client_group *group, struct client_stream *stream)
{
	static const char request[] = "GET /events HTTP/1.1\r\nHost: events\r\n\r\n";

	stream->at = stream->len = 0;
	stream->ended = false;
	stream->fd = client_connect(group);
	if (stream->fd < 0)
		return client_fail(group, strerror(errno));
	if (send(stream->fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0 && errno != EPIPE)
		client_fail(group, strerror(errno));
	else if (take_head(group, stream) == 0)
		return 0;
	close(stream->fd);
	return -1;
}

void
client_stream_close(struct client_stream *stream)
{
	close(stream->fd);
}

void
client_stream_read(struct client_stream *stream)
{
	ssize_t n;

	memmove(stream->in, stream->in + stream->at, stream->len - stream->at);
	stream->len -= stream->at;
	stream->at = 0;
	do {
		n = recv(stream->fd, stream->in + stream->len, sizeof(stream->in) - stream->len, 0);
	} while (n < 0 && errno == EINTR);
	if (n > 0)
		stream->len += (size_t)n;
	else
		stream->ended = true;
}

/* One block of lines, each of them ended by a newline. */
static enum stream_word
read_block(char *block, const char **entry)
{
	enum stream_word word = STREAM_ENTRY;
	char *save = NULL;

	*entry = NULL;
	for (char *line = strtok_r(block, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		if (strcmp(line, "event: live") == 0)
			word = STREAM_LIVE;
		else if (strcmp(line, "event: status") == 0)
			word = STREAM_STATUS;
		else if (strncmp(line, "data: ", 6) == 0)
			*entry = line + 6;
	}
	return *entry == NULL ? STREAM_NOTHING : word;
}

enum stream_word
client_stream_next(struct client_stream *stream, const char **entry)
{
	char *block, *end;
	enum stream_word word;

	for (;;) {
		block = stream->in + stream->at;
		end = memmem(block, stream->len - stream->at, "\n\n", 2);
		if (end == NULL)
			return stream->ended ? STREAM_END : STREAM_NOTHING;
		*end = '\0';
		stream->at = (size_t)(end - stream->in) + 2;
		word = read_block(block, entry);
		if (word != STREAM_NOTHING)
			return word;
	}
}

enum stream_word
client_stream_await(struct client_stream *stream, const char **entry)
{
	enum stream_word word;

	while ((word = client_stream_next(stream, entry)) == STREAM_NOTHING)
		client_stream_read(stream);
	return word;
}

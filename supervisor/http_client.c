#include "supervisor/http_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_BYTES 1024 /* of an answer */

enum phase {
	READING,
	WRITING,
	STREAMING,
	DRAINING /* refused before it was read whole: the peer may still be sending */
};

struct http_client {
	struct http_clients *clients;
	struct event *event;
	int fd;
	enum phase phase;
	bool local, refused;
	uid_t uid;
	uint64_t deadline_ns; /* 0: none */
	char *out;            /* the answer, or a part of the stream */
	size_t out_len, out_sent;
	const struct http_stream *stream; /* STREAMING */
	struct stream_place place;
	size_t in_len;
	char in[HTTP_HEAD_MAX_BYTES + HTTP_BODY_MAX_BYTES];
};

void
http_event_priority(struct event_base *base, struct event *event)
{
	event_priority_set(event, event_base_get_npriorities(base) - 1);
}

void
http_clients_init(struct http_clients *clients, struct event_base *base, http_handler handler,
		  void *arg)
{
	clients->n = clients->streams = 0;
	clients->base = base;
	clients->handler = handler;
	clients->arg = arg;
}

static void
client_free(struct http_client *client)
{
	struct http_clients *clients = client->clients;
	int i = 0;

	while (clients->v[i] != client)
		i++;
	clients->n--;
	clients->streams -= client->phase == STREAMING;
	memmove(&clients->v[i], &clients->v[i + 1],
		(size_t)(clients->n - i) * sizeof(struct http_client *));
	event_free(client->event);
	close(client->fd);
	free(client->out);
	free(client);
}

void
http_clients_close(struct http_clients *clients)
{
	while (clients->n > 0)
		client_free(clients->v[clients->n - 1]);
}

bool
http_clients_evict(struct http_clients *clients)
{
	for (int i = 0; i < clients->n; i++) {
		if (clients->v[i]->phase == WRITING || clients->v[i]->phase == STREAMING)
			continue;
		client_free(clients->v[i]);
		return true;
	}
	return false;
}

static void on_client(int fd, short what, void *arg);

/* Waits until the deadline for the socket to be readable, or writable. */
static void
await(struct http_client *client, short what)
{
	uint64_t now_ns = monotonic_ns(), left_ns;
	struct timeval tv;

	left_ns = client->deadline_ns > now_ns ? client->deadline_ns - now_ns : 0;
	tv.tv_sec = (time_t)(left_ns / NS_PER_SEC);
	tv.tv_usec = (suseconds_t)(left_ns % NS_PER_SEC / NS_PER_USEC);
	event_del(client->event);
	event_assign(client->event, client->clients->base, client->fd, what, on_client, client);
	http_event_priority(client->clients->base, client->event);
	event_add(client->event, client->deadline_ns != 0 ? &tv : NULL);
}

static void
restart_deadline(struct http_client *client)
{
	client->deadline_ns = deadline_after(monotonic_ns(), HTTP_IDLE_NS);
}

static void
finish(struct http_client *client)
{
	if (!client->refused) {
		client_free(client);
		return;
	}
	shutdown(client->fd, SHUT_WR);
	client->phase = DRAINING;
	restart_deadline(client);
	await(client, EV_READ);
}

/* False if it waits for the reader, or is gone. */
static bool
send_out(struct http_client *client)
{
	ssize_t n;

	while (client->out_sent < client->out_len) {
		n = send(client->fd, client->out + client->out_sent,
			 client->out_len - client->out_sent, MSG_NOSIGNAL);
		if (n > 0) {
			client->out_sent += (size_t)n;
			restart_deadline(client);
		} else if (n < 0 && errno == EAGAIN) {
			await(client, EV_WRITE);
			return false;
		} else if (n == 0 || errno != EINTR) {
			client_free(client);
			return false;
		}
	}
	return true;
}

static void
go_on_streaming(struct http_client *client)
{
	ssize_t n;

	while (send_out(client)) {
		n = client->stream->next(&client->place, client->out, HTTP_STREAM_BYTES,
					 client->stream->arg);
		if (n < 0) {
			client_free(client);
			return;
		}
		client->out_len = (size_t)n;
		client->out_sent = 0;
		if (n > 0) {
			restart_deadline(client);
			continue;
		}
		client->deadline_ns = 0;
		await(client, EV_READ);
		return;
	}
}

void
http_clients_wake(struct http_clients *clients)
{
	for (int i = clients->n - 1; i >= 0; i--) {
		struct http_client *client = clients->v[i];

		if (client->phase == STREAMING && client->out_sent == client->out_len)
			go_on_streaming(client);
	}
}

static int
write_head(char head[HEAD_BYTES], const struct http_reply *reply, size_t len)
{
	const char *type = reply->type != NULL ? reply->type : "text/plain; charset=utf-8";
	char length[64] = "";

	if (reply->stream == NULL)
		snprintf(length, sizeof(length), "Content-Length: %zu\r\n", len);
	return snprintf(
	    head, HEAD_BYTES,
	    "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s%s%s%s%s"
	    "X-Content-Type-Options: nosniff\r\n"
	    "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
	    reply->status, http_status_text(reply->status), type, length,
	    reply->allow != NULL ? "Allow: " : "", reply->allow != NULL ? reply->allow : "",
	    reply->allow != NULL ? "\r\n" : "", reply->headers != NULL ? reply->headers : "");
}

/* Head and body in one piece. */
static bool
build_answer(struct http_client *client, enum http_method method, const struct http_reply *reply)
{
	const char *body = reply->body;
	size_t len = reply->len;
	char words[64];

	if (body == NULL) {
		len =
		    (size_t)snprintf(words, sizeof(words), "%s\n", http_status_text(reply->status));
		body = words;
	}
	client->out = malloc(reply->stream != NULL ? HTTP_STREAM_BYTES : HEAD_BYTES + len);
	if (client->out == NULL)
		return false;
	client->out_len = (size_t)write_head(client->out, reply, len);
	if (method != HTTP_HEAD && reply->stream == NULL) {
		memcpy(client->out + client->out_len, body, len);
		client->out_len += len;
	}
	return true;
}

/* Sends what was built, and goes on as the answer wants it. */
static void
start_writing(struct http_client *client, const struct http_stream *stream)
{
	client->stream = stream;
	client->phase = stream != NULL ? STREAMING : WRITING;
	client->clients->streams += stream != NULL;
	restart_deadline(client);
	if (stream != NULL)
		go_on_streaming(client);
	else if (send_out(client))
		finish(client);
}

static void
respond(struct http_client *client, struct http_request *request, int status)
{
	struct http_clients *clients = client->clients;
	struct http_reply reply = {.status = status};
	bool built;

	request->local = client->local;
	request->uid = client->uid;
	client->refused = status != 200;
	if (status == 200)
		clients->handler(request, &reply, clients->arg);
	if (reply.stream != NULL && clients->streams >= HTTP_STREAMS_MAX)
		reply = (struct http_reply){.status = 503};
	built = build_answer(client, request->method, &reply);
	free(reply.body);
	if (built)
		start_writing(client, request->method == HTTP_HEAD ? NULL : reply.stream);
	else
		client_free(client);
	if (reply.then != NULL)
		reply.then(reply.then_arg);
}

static void
read_in(struct http_client *client)
{
	struct http_request request;
	ssize_t n;
	int status;

	for (;;) {
		n = recv(client->fd, client->in + client->in_len,
			 sizeof(client->in) - client->in_len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			await(client, EV_READ);
			return;
		}
		if (n <= 0) {
			client_free(client);
			return;
		}
		client->in_len += (size_t)n;
		status = http_request_parse(client->in, client->in_len, &request);
		if (status != 0) {
			respond(client, &request, status);
			return;
		}
	}
}

/* Whatever else a client says is of no interest but its leave. */
static void
drain(struct http_client *client)
{
	ssize_t n = recv(client->fd, client->in, sizeof(client->in), 0);

	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		await(client, EV_READ);
	else
		client_free(client);
}

static void
on_client(int fd, short what, void *arg)
{
	struct http_client *client = arg;

	(void)fd;
	if ((what & EV_TIMEOUT) != 0)
		client_free(client);
	else if (client->phase == READING)
		read_in(client);
	else if ((what & EV_READ) != 0)
		drain(client);
	else if (client->phase == STREAMING)
		go_on_streaming(client);
	else if (send_out(client))
		finish(client);
}

void
http_client_new(struct http_clients *clients, int fd, bool local)
{
	struct http_client *client = malloc(sizeof(*client));
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);

	if (client != NULL)
		*client = (struct http_client){.clients = clients, .fd = fd, .local = local};
	if (client != NULL)
		client->event = event_new(clients->base, fd, EV_READ, on_client, client);
	if (client == NULL || client->event == NULL ||
	    (local && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)) {
		if (client != NULL && client->event != NULL)
			event_free(client->event);
		free(client);
		close(fd);
		return;
	}
	client->uid = cred.uid;
	clients->v[clients->n++] = client;
	restart_deadline(client);
	await(client, EV_READ);
}

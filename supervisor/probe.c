#include "supervisor/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/bufferevent.h>
#include <event2/http.h>

#define PROBE_PRIORITY 1
#define LINE_BYTES     1024 /* of a line, that a regular expression sees */
#define HTTP_PORT      80
#define STATUS_OK      200 /* to below 400, as orchestrators' probes count */
#define STATUS_REFUSED 400

struct probe {
	struct event_base *base;
	int rank;
	uint64_t every_ns, pause_ns;
	probe_success success;
	void *arg;
	struct event *timer;
	void (*try)(struct probe *);

	/* Of its kind. */
	struct evhttp_uri *uri;
	struct evhttp_connection *connection;
	struct sockaddr_storage address;
	socklen_t address_len;
	struct bufferevent *bev;
	char *path;
	regex_t regex;
	bool has_regex;
};

static struct timeval
timeval_of(uint64_t ns)
{
	return (struct timeval){.tv_sec = (time_t)(ns / NS_PER_SEC),
				.tv_usec = (suseconds_t)(ns % NS_PER_SEC / NS_PER_USEC)};
}

static void
ask_after(struct probe *probe, uint64_t ns)
{
	struct timeval tv = timeval_of(ns);

	event_add(probe->timer, &tv);
}

static void
end_try(struct probe *probe)
{
	if (probe->connection != NULL)
		evhttp_connection_free(probe->connection);
	if (probe->bev != NULL)
		bufferevent_free(probe->bev);
	probe->connection = NULL;
	probe->bev = NULL;
}

static void
finish_try(struct probe *probe, bool ok)
{
	end_try(probe);
	if (!ok) {
		ask_after(probe, probe->pause_ns);
		probe->pause_ns *= 2;
		if (probe->pause_ns > PROBE_LAST_NS)
			probe->pause_ns = PROBE_LAST_NS;
		return;
	}
	probe->pause_ns = PROBE_FIRST_NS;
	if (probe->every_ns != 0)
		ask_after(probe, probe->every_ns);
	probe->success(probe->rank, probe->arg);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct probe *probe = arg;

	(void)fd;
	(void)what;
	probe->try(probe);
}

/* --- http --- */

/* The connection is ours to free, but not from within its own callback. */
static void
on_http_answer(struct evhttp_request *request, void *arg)
{
	struct probe *probe = arg;
	int status = request == NULL ? 0 : evhttp_request_get_response_code(request);

	evhttp_connection_free_on_completion(probe->connection);
	probe->connection = NULL;
	finish_try(probe, status >= STATUS_OK && status < STATUS_REFUSED);
}

static void
try_http(struct probe *probe)
{
	const char *host = evhttp_uri_get_host(probe->uri);
	const char *path = evhttp_uri_get_path(probe->uri);
	const char *query = evhttp_uri_get_query(probe->uri);
	int port = evhttp_uri_get_port(probe->uri);
	struct timeval tv = timeval_of(PROBE_TRY_NS);
	struct evhttp_request *request;
	char target[LINE_BYTES];

	snprintf(target, sizeof(target), "%s%s%s", path[0] == '\0' ? "/" : path,
		 query != NULL ? "?" : "", query != NULL ? query : "");
	probe->connection = evhttp_connection_base_new(
	    probe->base, NULL, host, (unsigned short)(port < 0 ? HTTP_PORT : port));
	request = evhttp_request_new(on_http_answer, probe);
	if (probe->connection == NULL || request == NULL) {
		finish_try(probe, false);
		return;
	}
	evhttp_connection_set_timeout_tv(probe->connection, &tv);
	evhttp_connection_set_retries(probe->connection, 0);
	evhttp_add_header(evhttp_request_get_output_headers(request), "Host", host);
	evhttp_add_header(evhttp_request_get_output_headers(request), "Connection", "close");
	/* On failure the callback has been called, or never will be. */
	if (evhttp_make_request(probe->connection, request, EVHTTP_REQ_GET, target) != 0 &&
	    probe->connection != NULL)
		finish_try(probe, false);
}

static int
open_http(struct probe *probe, const char *text)
{
	char url[LINE_BYTES];

	/* The scheme may stand once, as part of the URL, or twice. */
	snprintf(url, sizeof(url), "%s%s", strncmp(text, "//", 2) == 0 ? "http:" : "", text);
	probe->uri = evhttp_uri_parse(url);
	probe->try = try_http;
	return probe->uri == NULL || evhttp_uri_get_host(probe->uri) == NULL ? -1 : 0;
}

/* --- tcp and unix --- */

static void
on_connection(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	finish_try(arg, (what & BEV_EVENT_CONNECTED) != 0);
}

static void
try_connect(struct probe *probe)
{
	struct timeval tv = timeval_of(PROBE_TRY_NS);

	probe->bev = bufferevent_socket_new(probe->base, -1, BEV_OPT_CLOSE_ON_FREE);
	if (probe->bev == NULL) {
		finish_try(probe, false);
		return;
	}
	bufferevent_setcb(probe->bev, NULL, NULL, on_connection, probe);
	bufferevent_set_timeouts(probe->bev, &tv, &tv);
	if (bufferevent_socket_connect(probe->bev, (struct sockaddr *)&probe->address,
				       (int)probe->address_len) != 0 &&
	    probe->bev != NULL)
		finish_try(probe, false);
}

/* HOST is resolved once: a rank's own port is on this host. */
static int
open_tcp(struct probe *probe, const char *text)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	const char *colon = strrchr(text, ':');
	char host[256] = "127.0.0.1";
	struct addrinfo *found;

	if (colon != NULL) {
		int bracket = text[0] == '[';

		snprintf(host, sizeof(host), "%.*s", (int)(colon - text) - 2 * bracket,
			 text + bracket);
	}
	if (getaddrinfo(host, colon != NULL ? colon + 1 : text, &hints, &found) != 0)
		return -1;
	memcpy(&probe->address, found->ai_addr, found->ai_addrlen);
	probe->address_len = found->ai_addrlen;
	freeaddrinfo(found);
	probe->try = try_connect;
	return 0;
}

static int
open_unix(struct probe *probe, const char *text)
{
	struct sockaddr_un *address = (struct sockaddr_un *)&probe->address;

	address->sun_family = AF_UNIX;
	if (strlen(text) >= sizeof(address->sun_path))
		return -1;
	memcpy(address->sun_path, text, strlen(text) + 1);
	probe->address_len = sizeof(*address);
	probe->try = try_connect;
	return 0;
}

/* --- file and log --- */

static void
try_file(struct probe *probe)
{
	finish_try(probe, access(probe->path, F_OK) == 0);
}

static int
open_file(struct probe *probe, const char *text)
{
	probe->path = strdup(text);
	probe->try = try_file;
	return probe->path == NULL ? -1 : 0;
}

/* Nothing to ask: the lines come by themselves. */
static int
open_log(struct probe *probe, const char *text)
{
	probe->has_regex = regcomp(&probe->regex, text, REG_EXTENDED | REG_NOSUB) == 0;
	return probe->has_regex ? 0 : -1;
}

void
probe_line(struct probe *probe, const char *text, size_t len)
{
	char line[LINE_BYTES];

	if (probe == NULL || !probe->has_regex)
		return;
	snprintf(line, sizeof(line), "%.*s", (int)(len < sizeof(line) ? len : sizeof(line) - 1),
		 text);
	if (regexec(&probe->regex, line, 0, NULL, 0) == 0)
		probe->success(probe->rank, probe->arg);
}

static const struct {
	const char *scheme;
	int (*open)(struct probe *, const char *);
} schemes[] = {{"http:", open_http},
	       {"tcp:", open_tcp},
	       {"unix:", open_unix},
	       {"file:", open_file},
	       {"log:", open_log}};

static int
open_kind(struct probe *probe, const char *spec)
{
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (strncmp(spec, schemes[i].scheme, strlen(schemes[i].scheme)) == 0)
			return schemes[i].open(probe, spec + strlen(schemes[i].scheme));
	errno = EINVAL;
	return -1;
}

struct probe *
probe_open(struct event_base *base, int rank, const char *spec, uint64_t every_ns,
	   probe_success success, void *arg, char *error, size_t size)
{
	struct probe *probe = calloc(1, sizeof(*probe));

	if (probe == NULL) {
		snprintf(error, size, "probe %s: out of memory", spec);
		return NULL;
	}
	probe->base = base;
	probe->rank = rank;
	probe->every_ns = every_ns;
	probe->pause_ns = PROBE_FIRST_NS;
	probe->success = success;
	probe->arg = arg;
	probe->timer = evtimer_new(base, on_timer, probe);
	if (probe->timer == NULL || open_kind(probe, spec) != 0) {
		snprintf(error, size, "probe %s cannot be asked", spec);
		probe_close(probe);
		return NULL;
	}
	event_priority_set(probe->timer, PROBE_PRIORITY);
	if (probe->try != NULL)
		ask_after(probe, every_ns != 0 ? every_ns : PROBE_FIRST_NS);
	return probe;
}

void
probe_close(struct probe *probe)
{
	if (probe == NULL)
		return;
	end_try(probe);
	if (probe->timer != NULL)
		event_free(probe->timer);
	if (probe->uri != NULL)
		evhttp_uri_free(probe->uri);
	if (probe->has_regex)
		regfree(&probe->regex);
	free(probe->path);
	free(probe);
}

#include "supervisor/health.h"

#include "supervisor/events.h"
#include "supervisor/http_server.h"
#include "supervisor/metrics.h"
#include "supervisor/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A deadline of the group that passed this long ago unheeded: the loop is stuck. */
#define HEARTBEAT_LATE_NS (5 * NS_PER_SEC)

struct health {
	struct health_settings settings;
	struct http_server *server;
	struct events *events;
};

/* A probe's answer, with the state as its body. */
static void
answer_probe(const struct group *group, bool ok, struct http_reply *reply)
{
	int n;

	reply->status = ok ? 200 : 503;
	n = asprintf(&reply->body, "%s\n", group_state_word(group->state));
	if (n < 0)
		reply->body = NULL;
	reply->len = n < 0 ? 0 : (size_t)n;
}

static void
get_startupz(const struct health *health, struct http_reply *reply)
{
	const struct group *group = health->settings.source.group;

	answer_probe(group, group->go && group_is_running(group), reply);
}

static void
get_readyz(const struct health *health, struct http_reply *reply)
{
	const struct group *group = health->settings.source.group;

	answer_probe(group, group_is_serving(group), reply);
}

static bool
heartbeat_is_late(const struct group *group)
{
	uint64_t next_ns = group_next_deadline(group);

	return next_ns != 0 && monotonic_ns() > deadline_after(next_ns, HEARTBEAT_LATE_NS);
}

static void
get_livez(const struct health *health, struct http_reply *reply)
{
	const struct group *group = health->settings.source.group;
	bool lost = group->loss.reason != REASON_NONE && !group->settings.restart;
	bool failed = group->state == GROUP_FAILED || lost;

	answer_probe(group, !failed && !heartbeat_is_late(group), reply);
}

static void
get_status(const struct health *health, struct http_reply *reply)
{
	json_t *status = status_json(&health->settings.source, monotonic_ns());

	reply->body = json_dumps(status, JSON_COMPACT | JSON_REAL_PRECISION(STATUS_DIGITS));
	json_decref(status);
	reply->status = reply->body != NULL ? 200 : 500;
	reply->len = reply->body != NULL ? strlen(reply->body) : 0;
	reply->type = "application/json";
}

static void
get_metrics(const struct health *health, struct http_reply *reply)
{
	reply->body = metrics_text(&health->settings.source, &reply->len);
	reply->status = reply->body != NULL ? 200 : 500;
	reply->type = METRICS_CONTENT_TYPE;
}

static void
get_events(const struct health *health, struct http_reply *reply)
{
	reply->status = 200;
	reply->type = EVENTS_CONTENT_TYPE;
	reply->stream = events_stream(health->events);
}

static void
get_page(const struct health *health, struct http_reply *reply)
{
	(void)health;
	reply->body = malloc(page_html_len);
	reply->status = reply->body != NULL ? 200 : 500;
	reply->type = "text/html; charset=utf-8";
	reply->headers = page_headers;
	if (reply->body == NULL)
		return;
	memcpy(reply->body, page_html, page_html_len);
	reply->len = page_html_len;
}

static void
post_stop(const struct health *health, struct http_reply *reply)
{
	reply->status = 202;
	reply->then = health->settings.stop;
	reply->then_arg = health->settings.arg;
}

/* Who is being stopped is not started again. */
static void
post_restart(const struct health *health, struct http_reply *reply)
{
	const struct group *group = health->settings.source.group;

	if (group->stop_asked || group->state == GROUP_FAILED || group->state == GROUP_STOPPED) {
		reply->status = 409;
		return;
	}
	reply->status = 202;
	reply->then = health->settings.restart;
	reply->then_arg = health->settings.arg;
}

static const struct route {
	const char *path;
	enum http_method method; /* HTTP_GET answers HEAD too */
	void (*answer)(const struct health *health, struct http_reply *reply);
} routes[] = {
    {"/startupz", HTTP_GET, get_startupz},
    {"/readyz", HTTP_GET, get_readyz},
    {"/livez", HTTP_GET, get_livez},
    {"/status", HTTP_GET, get_status},
    {"/metrics", HTTP_GET, get_metrics},
    {"/events", HTTP_GET, get_events},
    {"/", HTTP_GET, get_page},
    {"/stop", HTTP_POST, post_stop},
    {"/restart", HTTP_POST, post_restart},
};

static const struct route *
find_route(const char *path)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
		if (strcmp(routes[i].path, path) == 0)
			return &routes[i];
	return NULL;
}

static bool
method_fits(const struct route *route, enum http_method method)
{
	return method == route->method || (method == HTTP_HEAD && route->method == HTTP_GET);
}

/* What changes something is for root and for whoever runs the group, on this host. */
static bool
may_post(const struct http_request *request)
{
	return request->local && (request->uid == 0 || request->uid == geteuid());
}

static void
on_request(const struct http_request *request, struct http_reply *reply, void *arg)
{
	const struct health *health = arg;
	const struct route *route = find_route(request->path);

	if (route == NULL) {
		reply->status = 404;
	} else if (!method_fits(route, request->method)) {
		reply->status = 405;
		reply->allow = route->method == HTTP_POST ? "POST" : "GET, HEAD";
	} else if (route->method == HTTP_POST && !may_post(request)) {
		reply->status = 403;
	} else {
		if (health->settings.look != NULL)
			health->settings.look(health->settings.arg);
		route->answer(health, reply);
	}
}

struct health *
health_open(struct event_base *base, const struct health_settings *settings, char *error,
	    size_t size)
{
	struct health *health = calloc(1, sizeof(*health));

	if (health != NULL) {
		health->settings = *settings;
		health->server = http_server_open(base, on_request, health);
	}
	if (health != NULL && health->server != NULL)
		health->events = events_open(base, health->server, settings->journal);
	if (health == NULL || health->events == NULL) {
		snprintf(error, size, "health socket: out of memory");
		health_close(health);
		return NULL;
	}
	if (http_server_listen_unix(health->server, settings->path, settings->mode, error, size) !=
		0 ||
	    (settings->http != NULL &&
	     http_server_listen_tcp(health->server, settings->http, error, size) != 0)) {
		health_close(health);
		return NULL;
	}
	return health;
}

void
health_changed(struct health *health)
{
	if (health != NULL)
		events_changed(health->events);
}

void
health_close(struct health *health)
{
	if (health == NULL)
		return;
	events_close(health->events);
	if (health->server != NULL)
		http_server_close(health->server);
	free(health);
}

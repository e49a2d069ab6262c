/* A request of HTTP/1.0 or 1.1, read whole before it is answered; the connection then closes. */
#ifndef SUPERVISOR_HTTP_REQUEST_H
#define SUPERVISOR_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HTTP_HEAD_MAX_BYTES 8192 /* request line and headers, with the empty line */
#define HTTP_BODY_MAX_BYTES 4096
#define HTTP_PATH_BYTES     128 /* longer ones are nowhere to be found */

enum http_method { HTTP_GET = 1, HTTP_HEAD = 2, HTTP_POST = 4, HTTP_OTHER = 8 };

struct http_request {
	enum http_method method;
	char path[HTTP_PATH_BYTES]; /* without the query; "" if it is too long */
	size_t len;                 /* bytes of head and body */
	bool local;                 /* came by the Unix socket */
	uid_t uid;                  /* of the peer, if local */
};

/*
 * Reads data[0..len). 0: incomplete so far; 200: whole, *request filled but for local and uid; else
 * the status to refuse it with, *request.method being what is known of it.
 */
int http_request_parse(const char *data, size_t len, struct http_request *request);

/* "OK" of 200. */
const char *http_status_text(int status);

#endif

/* sources: supervisor/http_request.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/http_request.h"

#include <stdio.h>
#include <string.h>

static struct http_request request;

static int
parse(const char *text)
{
	return http_request_parse(text, strlen(text), &request);
}

static void
a_whole_request_is_read(void **state)
{
	(void)state;
	assert_int_equal(parse("GET /status HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n"), 200);
	assert_int_equal(request.method, HTTP_GET);
	assert_string_equal(request.path, "/status");
	assert_int_equal(parse("HEAD /readyz?verbose=1 HTTP/1.0\n\n"), 200);
	assert_int_equal(request.method, HTTP_HEAD);
	assert_string_equal(request.path, "/readyz");
	assert_int_equal(parse("DELETE / HTTP/1.1\r\n\r\n"), 200);
	assert_int_equal(request.method, HTTP_OTHER);
}

static void
a_part_of_a_request_is_waited_for(void **state)
{
	const char *text = "POST /stop HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";

	(void)state;
	for (size_t i = 0; i < strlen(text); i++)
		assert_int_equal(http_request_parse(text, i, &request), 0);
	assert_int_equal(parse(text), 200);
	assert_int_equal(request.method, HTTP_POST);
	assert_int_equal(request.len, strlen(text));
}

static void
what_is_not_http_is_refused(void **state)
{
	static const struct {
		const char *text;
		int status;
	} cases[] = {
	    {"\r\n\r\n", 400},
	    {"GET\r\n\r\n", 400},
	    {"GET /\r\n\r\n", 400},
	    {"GET status HTTP/1.1\r\n\r\n", 400},
	    {"GET http://x/status HTTP/1.1\r\n\r\n", 400},
	    {" GET / HTTP/1.1\r\n\r\n", 400},
	    {"GET / HTTP/1.1 x\r\n\r\n", 505},
	    {"GET / HTTP/2.0\r\n\r\n", 505},
	    {"GET / http/1.1\r\n\r\n", 400},
	    {"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400},
	    {"GET / HTTP/1.1\r\n: x\r\n\r\n", 400},
	    {"POST / HTTP/1.1\r\nContent-Length: \r\n\r\n", 400},
	    {"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
	    {"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
	    {"POST / HTTP/1.1\r\nContent-Length: 4097\r\n\r\n", 413},
	    {"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999999\r\n\r\n", 413},
	    {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(parse(cases[i].text), cases[i].status);
	assert_int_equal(http_request_parse("GET /a\0b HTTP/1.1\r\n\r\n", 21, &request), 400);
}

static void
a_refusal_does_not_wait_for_the_rest(void **state)
{
	(void)state;
	assert_int_equal(parse("HELO mail.example\r\n"), 400);
	assert_int_equal(parse("POST / HTTP/1.1\r\nContent-Length: 5000\r\n"), 413);
}

static void
the_head_is_limited(void **state)
{
	static char text[2 * HTTP_HEAD_MAX_BYTES];
	int n;

	(void)state;
	memset(text, 'x', sizeof(text));
	n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nX: ");
	text[n] = 'x';
	assert_int_equal(http_request_parse(text, HTTP_HEAD_MAX_BYTES - 1, &request), 0);
	assert_int_equal(http_request_parse(text, HTTP_HEAD_MAX_BYTES, &request), 431);
	memcpy(text + HTTP_HEAD_MAX_BYTES - 4, "\r\n\r\n", 4);
	assert_int_equal(http_request_parse(text, HTTP_HEAD_MAX_BYTES, &request), 200);
	memset(text, 'x', sizeof(text));
	assert_int_equal(http_request_parse(text, HTTP_HEAD_MAX_BYTES, &request), 431);
}

static void
a_path_that_is_too_long_is_nowhere(void **state)
{
	char text[512], path[HTTP_PATH_BYTES + 1];

	(void)state;
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[HTTP_PATH_BYTES] = '\0';
	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n\r\n", path);
	assert_int_equal(parse(text), 200);
	assert_string_equal(request.path, "");
	path[HTTP_PATH_BYTES - 1] = '\0';
	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n\r\n", path);
	assert_int_equal(parse(text), 200);
	assert_string_equal(request.path, path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_whole_request_is_read),
	    cmocka_unit_test(a_part_of_a_request_is_waited_for),
	    cmocka_unit_test(what_is_not_http_is_refused),
	    cmocka_unit_test(a_refusal_does_not_wait_for_the_rest),
	    cmocka_unit_test(the_head_is_limited),
	    cmocka_unit_test(a_path_that_is_too_long_is_nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

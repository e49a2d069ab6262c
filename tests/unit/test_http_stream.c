/* sources: supervisor/http_server.c supervisor/http_client.c supervisor/http_request.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/stream_reader.h"

#define LINE_BYTES 8
#define ENDLESS    UINT64_MAX

/* A stream of numbered lines of seven digits. */
static uint64_t lines, written;
static bool too_late;

static ssize_t
next_lines(struct stream_place *place, char *out, size_t size, void *arg)
{
	size_t len = 0;

	(void)arg;
	if (too_late)
		return -1;
	for (; place->next < lines && len + LINE_BYTES < size; len += LINE_BYTES)
		snprintf(out + len, LINE_BYTES + 1, "%07u\n", (unsigned)++place->next % 10000000);
	written += len;
	return (ssize_t)len;
}

static const struct http_stream stream = {next_lines, NULL};

static void
serve(const struct http_request *request, struct http_reply *reply, void *arg)
{
	(void)arg;
	reply->status = 200;
	if (strcmp(request->path, "/stream") == 0)
		reply->stream = &stream;
}

static int
setup(void **state)
{
	(void)state;
	lines = written = 0;
	too_late = false;
	return open_server(serve);
}

static int
teardown(void **state)
{
	(void)state;
	return close_server();
}

static const char *
body(const char *answer)
{
	const char *end = strstr(answer, "\r\n\r\n");

	assert_non_null(end);
	return end + 4;
}

static void
a_reader_gets_what_is_there_and_then_what_comes(void **state)
{
	int fd;
	bool eof;

	(void)state;
	lines = 2;
	fd = reader("GET /stream HTTP/1.1\r\n\r\n");
	assert_string_equal(body(reads(fd, &eof)), "0000001\n0000002\n");
	assert_null(strstr(text, "Content-Length"));
	assert_false(eof);
	lines = 3;
	assert_string_equal(reads(fd, &eof), "");
	http_server_wake(server);
	assert_string_equal(reads(fd, &eof), "0000003\n");
	close(fd);
}

static void
a_reader_who_waits_is_not_timed_out_and_costs_no_timer(void **state)
{
	const struct timeval longer = {HTTP_IDLE_NS / NS_PER_SEC, 300000};
	int fd;
	bool eof;

	(void)state;
	fd = reader("GET /stream HTTP/1.1\r\n\r\n");
	reads(fd, &eof);
	event_base_loopexit(base, &longer);
	event_base_dispatch(base);
	assert_int_equal(http_server_streams(server), 1);
	lines = 1;
	http_server_wake(server);
	assert_string_equal(reads(fd, &eof), "0000001\n");
	close(fd);
}

static void
a_reader_who_does_not_read_is_dropped_and_little_is_queued_for_it(void **state)
{
	const uint64_t start_ns = monotonic_ns();
	int fd;

	(void)state;
	lines = ENDLESS;
	fd = reader("GET /stream HTTP/1.1\r\n\r\n");
	turn();
	assert_int_equal(http_server_streams(server), 1);
	/* Its socket holds some, the server one part. */
	assert_true(written < HTTP_STREAM_BYTES + 1000000);
	AWAIT(http_server_streams(server) == 0);
	assert_true(monotonic_ns() - start_ns >= HTTP_IDLE_NS - COARSE_NS);
	close(fd);
}

static void
a_reader_who_has_come_too_late_is_dropped(void **state)
{
	int fd;
	bool eof;

	(void)state;
	lines = 1;
	fd = reader("GET /stream HTTP/1.1\r\n\r\n");
	reads(fd, &eof);
	too_late = true;
	http_server_wake(server);
	assert_int_equal(http_server_streams(server), 0);
	reads(fd, &eof);
	assert_true(eof);
	close(fd);
}

static void
the_leave_of_a_reader_is_noticed_while_nothing_is_to_be_said(void **state)
{
	int fd, other;

	(void)state;
	fd = reader("GET /stream HTTP/1.1\r\n\r\n");
	other = reader("GET /stream HTTP/1.1\r\n\r\n");
	turn();
	assert_int_equal(http_server_streams(server), 2);
	assert_int_equal(send(fd, "chatter", 7, MSG_NOSIGNAL), 7);
	turn();
	assert_int_equal(http_server_streams(server), 2);
	close(fd);
	turn();
	assert_int_equal(http_server_streams(server), 1);
	close(other);
}

/* Streams are neither idle nor incomplete: nobody makes room for a probe but those who are. */
static void
readers_leave_places_for_probes_and_keep_their_own(void **state)
{
	int readers[HTTP_STREAMS_MAX], silent[2 * HTTP_CLIENTS_MAX], fd;
	bool eof;

	(void)state;
	for (int i = 0; i < HTTP_STREAMS_MAX; i++)
		readers[i] = reader("GET /stream HTTP/1.1\r\n\r\n");
	turn();
	assert_int_equal(http_server_streams(server), HTTP_STREAMS_MAX);
	fd = reader("GET /stream HTTP/1.1\r\n\r\n");
	assert_int_equal(strncmp(reads(fd, &eof), "HTTP/1.1 503 ", 13), 0);
	assert_true(eof);
	close(fd);
	for (int i = 0; i < 2 * HTTP_CLIENTS_MAX; i++)
		silent[i] = reader("GET");
	turn();
	fd = reader("GET /probe HTTP/1.1\r\n\r\n");
	assert_int_equal(strncmp(reads(fd, &eof), "HTTP/1.1 200 ", 13), 0);
	close(fd);
	assert_int_equal(http_server_streams(server), HTTP_STREAMS_MAX);
	lines = 1;
	http_server_wake(server);
	for (int i = 0; i < HTTP_STREAMS_MAX; i++) {
		assert_string_equal(body(reads(readers[i], &eof)), "0000001\n");
		close(readers[i]);
	}
	for (int i = 0; i < 2 * HTTP_CLIENTS_MAX; i++)
		close(silent[i]);
}

static void
everything_arrives_in_order_however_long_it_is(void **state)
{
	int fd;
	char expected[LINE_BYTES + 1];
	const char *at;

	(void)state;
	lines = 100000;
	fd = reader("GET /stream HTTP/1.1\r\n\r\n");
	at = body(reads(fd, NULL));
	for (unsigned i = 1; i <= lines; i++, at += LINE_BYTES) {
		snprintf(expected, sizeof(expected), "%07u\n", i);
		assert_memory_equal(at, expected, LINE_BYTES);
	}
	assert_int_equal(*at, '\0');
	close(fd);
}

static void
who_asks_for_the_head_gets_no_stream(void **state)
{
	bool eof;
	int fd;

	(void)state;
	lines = 1;
	fd = reader("HEAD /stream HTTP/1.1\r\n\r\n");
	assert_string_equal(body(reads(fd, &eof)), "");
	assert_true(eof);
	assert_int_equal(http_server_streams(server), 0);
	close(fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_reader_gets_what_is_there_and_then_what_comes),
	    TEST(a_reader_who_waits_is_not_timed_out_and_costs_no_timer),
	    TEST(a_reader_who_does_not_read_is_dropped_and_little_is_queued_for_it),
	    TEST(a_reader_who_has_come_too_late_is_dropped),
	    TEST(the_leave_of_a_reader_is_noticed_while_nothing_is_to_be_said),
	    TEST(readers_leave_places_for_probes_and_keep_their_own),
	    TEST(everything_arrives_in_order_however_long_it_is),
	    TEST(who_asks_for_the_head_gets_no_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* sources: supervisor/http_server.c supervisor/http_client.c supervisor/http_request.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/http_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define SILENT       1000
#define CPU_SPIN_MS  700 /* of about 2,000: who spins takes all of it that it gets */
#define PATIENCE_S   20
#define ANSWER_BYTES 1024

/* --- the clients' side --- */

static char root[64], path[128], answer[ANSWER_BYTES];
static pid_t pid;

static void
start(const char *address, enum hoard when)
{
	int pipes[2];
	char c;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		serve_for_ever(path, address, when, pipes[1]);
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &c, 1), 1);
	close(pipes[0]);
}

static int
setup(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/tf-http-XXXXXX");
	if (mkdtemp(root) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/health.sock", root);
	pid = 0;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	unlink(path);
	return rmdir(root);
}

static int
patient(int fd)
{
	const struct timeval timeout = {PATIENCE_S, 0};

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	return fd;
}

static int
client(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = patient(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));

	snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void
say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* The HTTP status of the answer that is read to its end; 0 if there is none. Closes fd. */
static int
hear(int fd)
{
	size_t len = 0;
	ssize_t n;

	while ((n = recv(fd, answer + len, sizeof(answer) - len - 1, 0)) > 0)
		len += (size_t)n;
	assert_int_equal(n, 0);
	answer[len] = '\0';
	close(fd);
	return len > 12 ? atoi(answer + strlen("HTTP/1.1 ")) : 0;
}

static int
get(const char *what)
{
	char request[128];
	int fd = client();

	snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", what);
	say(fd, request);
	return hear(fd);
}

/* The status that a client gets who may find the connection closed before it has spoken. */
static int
get_hastily(void)
{
	static const char request[] = "GET / HTTP/1.1\r\n\r\n";
	int fd = client();
	ssize_t n;

	(void)!send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL);
	n = recv(fd, answer, sizeof(answer) - 1, 0);
	close(fd);
	assert_true(n > 12);
	answer[n] = '\0';
	return atoi(answer + strlen("HTTP/1.1 "));
}

static const char *
body(void)
{
	const char *found = strstr(answer, "\r\n\r\n");

	assert_non_null(found);
	return found + 4;
}

/* Processor time of the server, in milliseconds. */
static long
cpu_ms(void)
{
	unsigned long user = 0, system = 0;
	char name[64], text[512];
	ssize_t n;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	fd = open(name, O_RDONLY);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	assert_true(n > 0);
	text[n] = '\0';
	assert_int_equal(sscanf(strrchr(text, ')') + 2,
				"%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
				&system),
			 2);
	return (long)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

static void
await_close(int fd)
{
	struct pollfd pfd = {fd, POLLRDHUP, 0};

	assert_int_equal(poll(&pfd, 1, PATIENCE_S * 1000), 1);
}

static bool
is_closed(int fd)
{
	struct pollfd pfd = {fd, POLLRDHUP, 0};

	return poll(&pfd, 1, 0) == 1;
}

/* --- promises --- */

static void
a_request_is_answered_and_the_connection_closed(void **state)
{
	int fd;

	(void)state;
	start(NULL, NO_HOARD);
	assert_int_equal(get("/"), 200);
	assert_string_equal(body(), "OK\n");
	assert_non_null(strstr(answer, "\r\nContent-Length: 3\r\n"));
	assert_non_null(strstr(answer, "\r\nConnection: close\r\n"));
	assert_int_equal(get("/who"), 200);
	snprintf(root + 32, sizeof(root) - 32, "local %u", geteuid());
	assert_string_equal(body(), root + 32);
	fd = client();
	say(fd, "HEAD / HTTP/1.1\r\n\r\n");
	assert_int_equal(hear(fd), 200);
	assert_non_null(strstr(answer, "\r\nContent-Length: 3\r\n"));
	assert_string_equal(body(), "");
	fd = client();
	say(fd, "GET / HT");
	assert_int_equal(get("/"), 200);
	say(fd, "TP/1.1\r\n\r\n");
	assert_int_equal(hear(fd), 200);
	fd = client();
	say(fd, "nonsense\r\n");
	assert_int_equal(hear(fd), 400);
}

static void
the_oldest_incomplete_client_makes_room(void **state)
{
	int silent[HTTP_CLIENTS_MAX];

	(void)state;
	start(NULL, NO_HOARD);
	for (int i = 0; i < HTTP_CLIENTS_MAX; i++)
		silent[i] = client();
	say(silent[0], "GET /");
	assert_int_equal(get("/"), 200);
	await_close(silent[0]);
	assert_false(is_closed(silent[1]));
	say(silent[1], "GET / HTTP/1.1\r\n\r\n");
	assert_int_equal(hear(silent[1]), 200);
	close(silent[0]);
	for (int i = 2; i < HTTP_CLIENTS_MAX; i++)
		close(silent[i]);
}

static void
a_thousand_silent_clients_neither_spin_nor_starve(void **state)
{
	const struct rlimit limit = {SILENT + 100, SILENT + 100};
	static int silent[SILENT];
	long before_ms;

	(void)state;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		skip();
	start(NULL, NO_HOARD);
	for (int i = 0; i < SILENT; i++) {
		silent[i] = client();
		if (i % 50 == 0)
			assert_int_equal(get("/"), 200);
	}
	for (int i = 0; i < 100; i++)
		assert_int_equal(get("/"), 200);
	before_ms = cpu_ms();
	silent[0] = (close(silent[0]), client());
	await_close(silent[0]);
	assert_in_range(cpu_ms() - before_ms, 0, CPU_SPIN_MS);
	assert_int_equal(get("/events"), 200);
	for (int i = 0; i < SILENT; i++)
		close(silent[i]);
}

static void
without_a_descriptor_clients_are_turned_away(void **state)
{
	(void)state;
	start(NULL, HOARD_AFTER);
	for (int i = 0; i < 100; i++)
		assert_int_equal(get_hastily(), 503);
	kill(pid, SIGUSR1);
	while (get_hastily() != 200)
		;
}

/* Not even the spare one: clients wait in the queue, and the server rests. */
static void
without_a_spare_descriptor_the_server_rests(void **state)
{
	long before_ms;
	int fd;

	(void)state;
	start(NULL, HOARD_BEFORE);
	fd = client();
	before_ms = cpu_ms();
	say(fd, "GET / HTTP/1.1\r\n\r\n");
	assert_int_equal(hear(fd), 200);
	assert_in_range(cpu_ms() - before_ms, 0, CPU_SPIN_MS);
	assert_int_equal(get("/"), 200);
}

static void
who_does_not_take_its_answer_is_dropped(void **state)
{
	int fd;

	(void)state;
	start(NULL, NO_HOARD);
	fd = client();
	say(fd, "GET /big HTTP/1.1\r\n\r\n");
	await_close(fd);
	close(fd);
	assert_int_equal(get("/"), 200);
}

static void
no_timer_runs_without_a_client(void **state)
{
	int fd;

	(void)state;
	start(NULL, NO_HOARD);
	assert_int_equal(get("/events"), 200);
	/* SIGUSR1 and the listener. */
	assert_string_equal(body(), "2");
	fd = client();
	say(fd, "GET");
	close(fd);
	fd = client();
	say(fd, "nonsense\r\n");
	assert_int_equal(hear(fd), 400);
	while (get("/events") == 200 && strcmp(body(), "2") != 0)
		;
	assert_string_equal(body(), "2");
}

static int
tcp_client(in_port_t port)
{
	struct sockaddr_in address = {
	    .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = patient(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* A port that was free a moment ago. */
static in_port_t
free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	close(fd);
	return address.sin_port;
}

static void
tcp_is_served_too_and_a_refusal_arrives(void **state)
{
	in_port_t port = free_port();
	char address[64], big[32768];
	int fd;

	(void)state;
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(port));
	start(address, NO_HOARD);
	fd = tcp_client(port);
	say(fd, "GET /who HTTP/1.1\r\n\r\n");
	assert_int_equal(hear(fd), 200);
	assert_non_null(strstr(body(), "tcp "));
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	fd = tcp_client(port);
	say(fd, big);
	assert_int_equal(hear(fd), 431);
}

static void
an_address_that_cannot_be_had_is_named(void **state)
{
	struct event_base *local = event_base_new();
	struct http_server *server = http_server_open(local, serve, NULL);
	char error[256];

	(void)state;
	assert_int_equal(http_server_listen_tcp(server, "8080", error, sizeof(error)), -1);
	assert_string_equal(error, "health socket: cannot listen on 8080: expected HOST:PORT");
	assert_int_equal(http_server_listen_tcp(server, "192.0.2.1:1", error, sizeof(error)), -1);
	assert_non_null(strstr(error, "192.0.2.1:1: "));
	assert_int_equal(http_server_listen_tcp(server, "127.0.0.1:http", error, sizeof(error)),
			 -1);
	assert_int_equal(
	    http_server_listen_unix(server, "/nonexistent/s", 0600, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "/nonexistent/s: No such file or directory"));
	assert_int_equal(http_server_listen_tcp(server, "[::1]:0", error, sizeof(error)), 0);
	http_server_close(server);
	event_base_free(local);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    test(a_request_is_answered_and_the_connection_closed),
	    test(the_oldest_incomplete_client_makes_room),
	    test(a_thousand_silent_clients_neither_spin_nor_starve),
	    test(without_a_descriptor_clients_are_turned_away),
	    test(without_a_spare_descriptor_the_server_rests),
	    test(who_does_not_take_its_answer_is_dropped),
	    test(no_timer_runs_without_a_client),
	    test(tcp_is_served_too_and_a_refusal_arrives),
	    test(an_address_that_cannot_be_had_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

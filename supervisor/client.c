#include "supervisor/client.h"

#include "common/log.h"
#include "common/reason.h"
#include "supervisor/clean.h"
#include "supervisor/config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_MAX_BYTES (64UL << 20)
#define OPTIONS_MAX      16

/* --- options --- */

static int
usage(const struct client_verb *verb)
{
	fprintf(stderr, "usage: %s\n", verb->usage);
	return EXIT_USAGE;
}

static int
unknown_option(const struct client_verb *verb, const char *word)
{
	const char *words[OPTIONS_MAX], *near;
	size_t n = 0;

	for (const struct client_option *o = verb->options; o->word != NULL && n < OPTIONS_MAX; o++)
		words[n++] = o->word;
	near = nearest_word(word, words, n);
	if (near != NULL)
		log_warnx("there is no option \"%s\": did you mean %s?", word, near);
	else
		log_warnx("there is no option \"%s\"", word);
	return usage(verb);
}

/* "--run-dir" and "--run-dir=DIR" are both this option. */
static bool
is_option(const struct client_option *option, const char *word)
{
	size_t len = strlen(option->word);

	if (strncmp(option->word, word, len) != 0)
		return false;
	return word[len] == '\0' || (word[len] == '=' && option->value != NULL);
}

/* argv[*i] is an option: takes it, and its value. -1, or the exit status. */
static int
take_option(int argc, char **argv, int *i, const struct client_verb *verb)
{
	const struct client_option *option = verb->options;
	const char *word = argv[*i], *equals = strchr(word, '=');

	while (option->word != NULL && !is_option(option, word))
		option++;
	if (option->word == NULL)
		return unknown_option(verb, word);
	if (option->flag != NULL) {
		*option->flag = true;
		return -1;
	}
	if (equals == NULL && *i + 1 >= argc) {
		log_warnx("%s wants a value", word);
		return usage(verb);
	}
	*option->value = equals != NULL ? equals + 1 : argv[++*i];
	return -1;
}

int
client_options(int argc, char **argv, const struct client_verb *verb, const char **name)
{
	sigset_t all;
	int status;

	/* main() holds signals back for those who supervise; a client ends of them as usual. */
	sigfillset(&all);
	sigprocmask(SIG_UNBLOCK, &all, NULL);
	*name = NULL;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			printf("usage: %s\n%s", verb->usage, verb->help);
			return EXIT_SUCCESS;
		}
		if (argv[i][0] == '-') {
			status = take_option(argc, argv, &i, verb);
			if (status >= 0)
				return status;
		} else if (*name != NULL) {
			log_warnx("one NAME is enough: \"%s\" is one too many", argv[i]);
			return usage(verb);
		} else {
			*name = argv[i];
		}
	}
	return -1;
}

/* --- one request --- */

int
client_fail(const struct client_group *group, const char *why)
{
	log_warnx("group %s (pid %ld) does not answer on %s/%s: %s", group->name, group->pid,
		  group->path, RUNDIR_HEALTH_SOCKET, why);
	return -1;
}

/* A Unix socket's connect() blocks while the listener's queue is full: the timeout bounds it. */
int
client_connect(const struct client_group *group)
{
	const struct timeval timeout = {CLIENT_TIMEOUT_NS / NS_PER_SEC, 0};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, n, saved;

	n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", group->path,
		     RUNDIR_HEALTH_SOCKET);
	if (n < 0 || (size_t)n >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	saved = errno == EAGAIN ? ETIMEDOUT : errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Reads to EOF under the deadline. The malloc()ed, NUL-terminated text, or NULL with errno. */
static char *
read_all(int fd, uint64_t deadline_ns)
{
	size_t len = 0, size = 65536;
	char *text = malloc(size), *grown;
	struct pollfd pfd = {fd, POLLIN, 0};
	ssize_t n = -1;

	while (text != NULL) {
		if (poll(&pfd, 1, deadline_poll_ms(deadline_ns, monotonic_ns())) == 0) {
			errno = ETIMEDOUT;
			break;
		}
		n = recv(fd, text + len, size - len - 1, MSG_DONTWAIT);
		/* Who is turned away before it has spoken finds a reset behind the answer. */
		if (n == 0 || (n < 0 && errno == ECONNRESET && len > 0)) {
			text[len] = '\0';
			return text;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			break;
		len += n > 0 ? (size_t)n : 0;
		if (size - len > 1)
			continue;
		grown = size < ANSWER_MAX_BYTES ? realloc(text, size *= 2) : NULL;
		if (grown == NULL)
			break;
		text = grown;
	}
	free(text);
	return NULL;
}

static int
split_answer(const struct client_group *group, char *text, struct client_answer *answer)
{
	char *body = strstr(text, "\r\n\r\n");

	if (body == NULL || sscanf(text, "HTTP/1.1 %d ", &answer->status) != 1) {
		free(text);
		return client_fail(group, "what it says is not HTTP");
	}
	body += 4;
	memmove(text, body, strlen(body) + 1);
	answer->body = text;
	return 0;
}

int
client_request(const struct client_group *group, const char *method, const char *path,
	       struct client_answer *answer)
{
	uint64_t deadline_ns = deadline_after(monotonic_ns(), CLIENT_TIMEOUT_NS);
	char request[256], *text = NULL;
	int fd, n, saved;

	n = snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, path,
		     group->name);
	fd = client_connect(group);
	if (fd < 0)
		return client_fail(group, strerror(errno));
	if (send(fd, request, (size_t)n, MSG_NOSIGNAL) == n || errno == EPIPE)
		text = read_all(fd, deadline_ns);
	saved = errno;
	close(fd);
	return text == NULL ? client_fail(group, strerror(saved))
			    : split_answer(group, text, answer);
}

/* --- what a person sees --- */

void
client_print(FILE *out, const char *text)
{
	size_t len = text == NULL ? 0 : strlen(text);
	char *clean;

	clean = malloc(len + CLEAN_GROWTH_BYTES);
	if (clean == NULL)
		return;
	fwrite(clean, 1, clean_terminal(text, len, false, clean), out);
	free(clean);
}

bool
client_colors(FILE *out)
{
	const char *no_color = getenv("NO_COLOR");

	return (no_color == NULL || no_color[0] == '\0') && isatty(fileno(out));
}

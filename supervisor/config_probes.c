#include "supervisor/config_types.h"

#include "supervisor/config_words.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define PORT_MAX        65535
#define PROGRESS_GROUPS 2

/* What braces may come to, so that a probe that holds some can be judged. */
static const struct brace_values plausible = {
    .world_size = 1,
    .gpu = "0",
    .epoch = 1,
    .master_addr = "127.0.0.1",
    .master_port = 29500,
    .run_dir = "/run/tfsupervisor",
};

static bool
port_ok(const char *text)
{
	uint64_t port;

	return config_number(text, PORT_MAX, &port) && port > 0;
}

/* HOST:PORT or [HOST]:PORT. */
static bool
host_port_ok(const char *text)
{
	const char *port = strrchr(text, ':');
	size_t len;

	if (port == NULL || !port_ok(port + 1))
		return false;
	len = (size_t)(port - text);
	if (*text == '[')
		return len > 2 && text[len - 1] == ']' && strcspn(text, "]") == len - 1;
	return len > 0 && strcspn(text, ":/ ") == len;
}

/* //HOST[:PORT][/PATH], with or without http: before it. */
static bool
url_ok(const char *text)
{
	char authority[256];
	size_t len;

	if (strncmp(text, "http:", 5) == 0)
		text += 5;
	if (strncmp(text, "//", 2) != 0)
		return false;
	text += 2;
	len = strcspn(text, "/?#");
	if (len == 0 || len >= sizeof(authority) || strpbrk(text, " \t") != NULL)
		return false;
	memcpy(authority, text, len);
	authority[len] = '\0';
	if (strchr(authority, ':') == NULL)
		return true;
	if (authority[0] == '[' && authority[len - 1] == ']')
		return len > 2;
	return host_port_ok(authority);
}

static int
check_http(struct config_parse *parse, const char *text)
{
	return url_ok(text) ? 0
			    : config_why(parse, "\"%.80s\" is no URL: http://HOST:PORT/PATH", text);
}

static int
check_tcp(struct config_parse *parse, const char *text)
{
	if (port_ok(text) || host_port_ok(text))
		return 0;
	return config_why(parse, "\"%.80s\" is neither PORT nor HOST:PORT", text);
}

static int
check_path(struct config_parse *parse, const char *text)
{
	return *text == '/' ? 0 : config_why(parse, "\"%.80s\" is no absolute path", text);
}

static int
check_unix(struct config_parse *parse, const char *text)
{
	if (strlen(text) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return config_why(parse, "a socket's path has at most 107 bytes");
	return check_path(parse, text);
}

/* A regular expression with at least `groups` groups. */
static int
check_regex(struct config_parse *parse, const char *text, size_t groups)
{
	char problem[128];
	regex_t regex;
	size_t found;
	int r;

	if (*text == '\0')
		return config_why(parse, "an empty regular expression fits every line");
	r = regcomp(&regex, text, REG_EXTENDED);
	if (r != 0) {
		regerror(r, &regex, problem, sizeof(problem));
		return config_why(parse, "\"%.80s\": %s", text, problem);
	}
	found = regex.re_nsub;
	regfree(&regex);
	if (found < groups)
		return config_why(parse, "\"%.80s\" has %zu groups in parentheses, %zu are needed",
				  text, found, groups);
	return 0;
}

static int
check_log(struct config_parse *parse, const char *text)
{
	return check_regex(parse, text, 0);
}

static const struct {
	const char *scheme;
	int (*check)(struct config_parse *, const char *);
} schemes[] = {
    {"http:", check_http}, {"tcp:", check_tcp}, {"unix:", check_unix},
    {"file:", check_path}, {"log:", check_log},
};

#define SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

/* words[0..len): what else could have stood here. */
static int
refuse_scheme(struct config_parse *parse, const char *text, const char *const *words, size_t len)
{
	char form[CONFIG_WHY_BYTES], start[32];
	const char *all[SCHEMES + 8], *near;

	snprintf(start, sizeof(start), "%.*s", (int)strcspn(text, ":/") + 1, text);
	for (size_t i = 0; i < len; i++)
		all[i] = words[i];
	for (size_t i = 0; i < SCHEMES; i++)
		all[len + i] = schemes[i].scheme;
	near = nearest_word(start, all, len + SCHEMES);
	config_key_form(parse->key, form, sizeof(form));
	if (near == NULL)
		return -1;
	return config_why(parse, "did you mean \"%s\"? Known are %s", near, form);
}

static int
check_probe(struct config_parse *parse, const char *text, const char *const *words, size_t len)
{
	char *filled;
	size_t n;
	int r;

	for (size_t i = 0; i < SCHEMES; i++) {
		n = strlen(schemes[i].scheme);
		if (strncmp(text, schemes[i].scheme, n) != 0)
			continue;
		filled = brace_fill(text + n, &plausible);
		if (filled == NULL)
			return config_why(parse, "out of memory");
		r = schemes[i].check(parse, filled);
		free(filled);
		return r;
	}
	return refuse_scheme(parse, text, words, len);
}

int
config_parse_ready(struct config_parse *parse, const char *text)
{
	static const char *const words[] = {
	    [READY_AUTO] = "auto",
	    [READY_NONE] = "none",
	    [READY_LINK] = "link",
	    [READY_NOTIFY] = "notify",
	};
	struct worker_settings *worker = parse->base;

	worker->ready_probe = NULL;
	for (unsigned i = READY_AUTO; i < READY_PROBE; i++) {
		if (strcmp(words[i], text) == 0) {
			worker->ready = (enum ready_kind)i;
			return 0;
		}
	}
	worker->ready = READY_PROBE;
	if (check_probe(parse, text, words, READY_PROBE) != 0)
		return -1;
	return config_keep_text(parse, text, &worker->ready_probe);
}

int
config_parse_probe(struct config_parse *parse, const char *text)
{
	static const char *const words[] = {"none"};
	char **field = config_field(parse);

	*field = NULL;
	if (strcmp(text, words[0]) == 0)
		return 0;
	if (check_probe(parse, text, words, 1) != 0)
		return -1;
	return config_keep_text(parse, text, field);
}

int
config_parse_progress(struct config_parse *parse, const char *text)
{
	char **field = config_field(parse);

	*field = NULL;
	if (strcmp(text, "none") == 0)
		return 0;
	if (strncmp(text, "log:", 4) != 0)
		return -1;
	if (check_regex(parse, text + 4, PROGRESS_GROUPS) != 0)
		return -1;
	return config_keep_text(parse, text, field);
}

int
config_parse_drain(struct config_parse *parse, const char *text)
{
	char **field = config_field(parse), **argv;
	struct words_error error;
	size_t count;

	*field = NULL;
	if (strcmp(text, "none") == 0)
		return 0;
	if (strncmp(text, "http:", 5) == 0) {
		if (check_probe(parse, text, NULL, 0) != 0)
			return -1;
		return config_keep_text(parse, text, field);
	}
	argv = words_split(text, &count, &error);
	if (argv == NULL)
		return config_why(parse, "byte %zu: %s", error.position, error.what);
	free(argv);
	if (count == 0)
		return -1;
	return config_keep_text(parse, text, field);
}

int
config_parse_host_port(struct config_parse *parse, const char *text)
{
	char **field = config_field(parse);

	*field = NULL;
	if (strcmp(text, "none") == 0)
		return 0;
	if (!host_port_ok(text))
		return -1;
	return config_keep_text(parse, text, field);
}

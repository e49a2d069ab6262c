#include "supervisor/config_types.h"

#include "supervisor/config_words.h"

#include <ctype.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(enum group_mode) == sizeof(unsigned), "WORD is stored as unsigned");

int
config_why(struct config_parse *parse, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(parse->why, sizeof(parse->why), fmt, ap);
	va_end(ap);
	return -1;
}

void *
config_field(const struct config_parse *parse)
{
	return (char *)parse->base + parse->key->offset;
}

int
config_keep_text(struct config_parse *parse, const char *text, char **field)
{
	*field = store_copy(parse->store, text);
	return *field != NULL ? 0 : config_why(parse, "out of memory");
}

bool
config_number(const char *text, uint64_t max, uint64_t *number)
{
	*number = 0;
	if (*text == '\0')
		return false;
	for (; *text >= '0' && *text <= '9'; text++) {
		if (__builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, (uint64_t)(*text - '0'), number))
			return false;
	}
	return *text == '\0' && *number <= max;
}

bool
config_size(const char *text, uint64_t *bytes)
{
	static const char *const units[] = {"", "KiB", "MiB", "GiB"};
	size_t digits = strspn(text, "0123456789");
	char number[24];

	if (digits == 0 || digits >= sizeof(number))
		return false;
	memcpy(number, text, digits);
	number[digits] = '\0';
	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(text + digits, units[i]) == 0)
			return config_number(number, UINT64_MAX >> (10 * i), bytes) &&
			       ((*bytes <<= 10 * i), true);
	}
	return false;
}

static int
parse_name(struct config_parse *parse, const char *text)
{
	size_t len = strlen(text);
	char *field = config_field(parse);

	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)text[i]) && text[i] != '_' && text[i] != '-')
			return -1;
	}
	if (len == 0 || len > GROUP_NAME_MAX_BYTES)
		return -1;
	memcpy(field, text, len + 1);
	return 0;
}

/* A number from 1 to RANKS_MAX, or `word`, which stands for 0. */
static int
parse_count(struct config_parse *parse, const char *text, const char *word)
{
	uint64_t number = 0;

	if (strcmp(text, word) != 0 && (!config_number(text, RANKS_MAX, &number) || number == 0))
		return -1;
	*(int *)config_field(parse) = (int)number;
	return 0;
}

static int
parse_ranks(struct config_parse *parse, const char *text)
{
	return parse_count(parse, text, "auto");
}

static int
parse_count_or_all(struct config_parse *parse, const char *text)
{
	return parse_count(parse, text, "all");
}

static int
parse_word(struct config_parse *parse, const char *text)
{
	const char *const *words = parse->key->words;
	const char *near;
	unsigned len = 0;

	for (; words[len] != NULL; len++) {
		if (strcmp(words[len], text) == 0) {
			*(unsigned *)config_field(parse) = len;
			return 0;
		}
	}
	near = nearest_word(text, words, len);
	return near == NULL ? -1 : config_why(parse, "did you mean \"%s\"?", near);
}

static int
parse_config_duration(struct config_parse *parse, const char *text)
{
	const struct config_key *key = parse->key;
	uint64_t ns;

	if (parse_duration(text, &ns) != 0) {
		if (text[strspn(text, "0123456789")] == '\0')
			return config_why(parse, "a unit is missing: write %.20ss or %.20sms", text,
					  text);
		return -1;
	}
	if (ns < (uint64_t)key->min * NS_PER_MSEC || ns > (uint64_t)key->max * NS_PER_MSEC)
		return -1;
	*(uint64_t *)config_field(parse) = ns;
	return 0;
}

static int
parse_integer(struct config_parse *parse, const char *text)
{
	uint64_t number;

	if (!config_number(text, (uint64_t)parse->key->max, &number) ||
	    number < (uint64_t)parse->key->min)
		return -1;
	*(int *)config_field(parse) = (int)number;
	return 0;
}

static int
parse_boolean(struct config_parse *parse, const char *text)
{
	static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(words[i], text) == 0) {
			*(bool *)config_field(parse) = i % 2 == 1;
			return 0;
		}
	}
	return -1;
}

static int
parse_text(struct config_parse *parse, const char *text)
{
	return config_keep_text(parse, text, config_field(parse));
}

static int
parse_command(struct config_parse *parse, const char *text)
{
	struct worker_settings *worker = parse->base;
	struct words_error error;
	size_t count;

	worker->argv = words_split(text, &count, &error);
	if (worker->argv == NULL)
		return config_why(parse, "byte %zu: %s", error.position, error.what);
	if (store_keep(parse->store, worker->argv) == NULL)
		return config_why(parse, "out of memory");
	if (count == 0 || *worker->argv[0] == '\0')
		return config_why(parse, "it names no program");
	return config_keep_text(parse, text, &worker->command);
}

/* "RTMIN", "RTMIN+3", "RTMAX-2"; 0 if it is none. */
static int
realtime_signal(const char *name)
{
	bool from_least = strncmp(name, "RTMIN", 5) == 0;
	uint64_t offset = 0, span = (uint64_t)(SIGRTMAX - SIGRTMIN);

	if (!from_least && strncmp(name, "RTMAX", 5) != 0)
		return 0;
	name += 5;
	if (*name != '\0' &&
	    (*name != (from_least ? '+' : '-') || !config_number(name + 1, span, &offset)))
		return 0;
	return from_least ? SIGRTMIN + (int)offset : SIGRTMAX - (int)offset;
}

static int
signal_number(const char *text)
{
	uint64_t number;

	if (config_number(text, (uint64_t)SIGRTMAX, &number))
		return (int)number;
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;
	for (int i = 1; i < SIGRTMIN; i++) {
		const char *name = sigabbrev_np(i);

		if (name != NULL && strcasecmp(name, text) == 0)
			return i;
	}
	return realtime_signal(text);
}

static int
parse_signal(struct config_parse *parse, const char *text)
{
	int number = signal_number(text);

	if (number == 0)
		return -1;
	if (number == SIGSTOP || number == SIGTSTP || number == SIGCONT)
		return config_why(parse, "it ends no process");
	*(int *)config_field(parse) = number;
	return 0;
}

static int
parse_signal_or_none(struct config_parse *parse, const char *text)
{
	if (strcmp(text, "none") != 0)
		return parse_signal(parse, text);
	*(int *)config_field(parse) = 0;
	return 0;
}

static int
parse_size(struct config_parse *parse, const char *text)
{
	return config_size(text, config_field(parse)) ? 0 : -1;
}

static int
parse_mode(struct config_parse *parse, const char *text)
{
	size_t len = strlen(text);
	unsigned long mode;

	if (len < 3 || len > 4 || text[strspn(text, "01234567")] != '\0')
		return -1;
	mode = strtoul(text, NULL, 8);
	if (mode > 0777 || (mode & 0600) != 0600)
		return -1;
	*(unsigned *)config_field(parse) = (unsigned)mode;
	return 0;
}

int
config_parse_value(struct config_parse *parse, const char *text)
{
	static int (*const parsers[CONFIG_TYPE_COUNT])(struct config_parse *, const char *) = {
	    [TYPE_NAME] = parse_name,
	    [TYPE_RANKS] = parse_ranks,
	    [TYPE_WORD] = parse_word,
	    [TYPE_DURATION] = parse_config_duration,
	    [TYPE_INTEGER] = parse_integer,
	    [TYPE_COUNT_OR_ALL] = parse_count_or_all,
	    [TYPE_BOOLEAN] = parse_boolean,
	    [TYPE_PATH] = parse_text,
	    [TYPE_USER] = parse_text,
	    [TYPE_COMMAND] = parse_command,
	    [TYPE_GPUS] = config_parse_gpus,
	    [TYPE_CPUS] = config_parse_cpus,
	    [TYPE_READY] = config_parse_ready,
	    [TYPE_PROBE] = config_parse_probe,
	    [TYPE_PROGRESS] = config_parse_progress,
	    [TYPE_SIGNAL] = parse_signal,
	    [TYPE_SIGNAL_OR_NONE] = parse_signal_or_none,
	    [TYPE_SIZE] = parse_size,
	    [TYPE_LIMITS] = config_parse_limits,
	    [TYPE_EXIT_WORDS] = config_parse_exit_words,
	    [TYPE_DRAIN] = config_parse_drain,
	    [TYPE_MODE] = parse_mode,
	    [TYPE_HOST_PORT] = config_parse_host_port,
	};
	char form[CONFIG_WHY_BYTES];

	parse->why[0] = '\0';
	if (*text != '\0' && parsers[parse->key->type](parse, text) == 0)
		return 0;
	config_key_form(parse->key, form, sizeof(form));
	if (parse->why[0] == '\0')
		config_why(parse, "write %s", form);
	return -1;
}

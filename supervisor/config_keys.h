/* THE table: every key that an INI file may hold. Parser, check and manual read it. */
#ifndef SUPERVISOR_CONFIG_KEYS_H
#define SUPERVISOR_CONFIG_KEYS_H

#include <stddef.h>

/* X(enum suffix, what a value looks like, "" where the row itself tells) */
#define CONFIG_TYPES(X)                                                                            \
	X(NAME, "1 to 32 letters, digits, _ or -")                                                 \
	X(RANKS, "auto or 1 to 1024")                                                              \
	X(WORD, "")                                                                                \
	X(DURATION, "a duration such as 500ms, 30s, 10m or 1h30m")                                 \
	X(INTEGER, "")                                                                             \
	X(COUNT_OR_ALL, "all or 1 to 1024")                                                        \
	X(BOOLEAN, "yes or no")                                                                    \
	X(PATH, "a path")                                                                          \
	X(USER, "a user name")                                                                     \
	X(COMMAND, "a program and its arguments, quoted as for a shell")                           \
	X(GPUS, "auto, none, or a list such as 0,1 or GPU-1234abcd")                               \
	X(CPUS, "auto or a list such as 0-3,8")                                                    \
	X(READY,                                                                                   \
	  "auto, none, link, notify, http:URL, tcp:PORT, unix:PATH, file:PATH or log:REGEX")       \
	X(PROBE, "none, http:URL, tcp:PORT, unix:PATH, file:PATH or log:REGEX")                    \
	X(PROGRESS, "none or log:REGEX with a group for what is done and one for the total")       \
	X(SIGNAL, "a signal such as TERM, SIGINT or 15")                                           \
	X(SIGNAL_OR_NONE, "none or a signal such as QUIT, SIGABRT or 3")                           \
	X(SIZE, "a size such as 65536, 512KiB, 16MiB or 1GiB")                                     \
	X(LIMITS, "a list such as core=0, nofile=1024:65536, memlock=unlimited")                   \
	X(EXIT_WORDS, "none or a list such as 70:peer lost, 3:stalled")                            \
	X(DRAIN, "none, http:URL, or a program and its arguments")                                 \
	X(MODE, "octal permission bits, the owner's 6 among them, such as 0600 or 0660")           \
	X(HOST_PORT, "none, or HOST:PORT such as 127.0.0.1:9090 or [::1]:9090")

enum config_type {
#define X(id, form) TYPE_##id,
	CONFIG_TYPES(X)
#undef X
	    CONFIG_TYPE_COUNT
};

enum config_scope { SCOPE_GROUP, SCOPE_WORKER }; /* of which struct `offset` is */

struct config_key {
	const char *section, *key;
	enum config_type type;
	enum config_scope
	    scope;            /* struct config, or struct worker_settings: [worker.N] may set it */
	size_t offset;        /* bytes; unused by types that set several fields */
	const char *fallback; /* default as it would be written; NULL: a bound's, or none */
	const char *unset;    /* what holds where there is no default, for people */
	long long min, max;   /* of INTEGER; of DURATION in ms */
	const char *const *words; /* of WORD: NULL-terminated, in the order of their enum */
	const char *help;
};

extern const struct config_key config_keys[];
extern const size_t config_keys_len;

extern const char *const config_sections[]; /* as people write them, "worker.N" among them */
extern const size_t config_sections_len;

/* NULL if the section has no such key. */
const struct config_key *config_key_find(const char *section, const char *key);
/* The first key of this name in any section, NULL if there is none. */
const struct config_key *config_key_anywhere(const char *key);
/* The nearest key of the section, or of all sections where `section` is NULL; NULL: none is near.
 */
const char *config_key_nearest(const char *section, const char *key);
/* The default, or what holds without one: "10m", "the file's name without .ini". */
void config_key_default(const struct config_key *key, char *out, size_t size);
/* What the values of a key look like, for people: "service or job". */
void config_key_form(const struct config_key *key, char *out, size_t size);

#endif

/*
 * What the operator asked for: default, INI file, [worker.N], --set, in this order of precedence.
 * One table (config_keys.c) holds section, key, type, default, range and help.
 */
#ifndef SUPERVISOR_CONFIG_H
#define SUPERVISOR_CONFIG_H

#include "common/duration.h"
#include "supervisor/bound.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

#define GROUP_NAME_MAX_BYTES 32
#define RANKS_MAX            1024
#define CONFIG_ERROR_BYTES   1024

enum group_mode { MODE_SERVICE, MODE_JOB };
enum restart_mode { RESTART_NEVER, RESTART_ON_FAILURE };
enum gpu_env { GPU_ENV_ALL, GPU_ENV_FIRST, GPU_ENV_ONE };
enum stop_order { STOP_TOGETHER, STOP_FORWARD, STOP_REVERSE };
enum ready_kind { READY_AUTO, READY_NONE, READY_LINK, READY_NOTIFY, READY_PROBE };

/* A limit of [worker] limits, for setrlimit(). */
struct worker_limit {
	int resource; /* RLIMIT_... */
	rlim_t soft, hard;
};

/* [worker] as it stands for one rank, [worker.N] applied. Strings are owned by the config. */
struct worker_settings {
	char *command; /* as written */
	char **argv;   /* command split by shell quoting, NULL-terminated; braces not yet filled */
	char *directory;   /* NULL: ours */
	char *user;        /* NULL: ours */
	char *gpus;        /* "auto", "none" or a comma-separated list of indices and UUIDs */
	bool gpus_own;     /* gpus was given for this rank alone: the list is all its own */
	int gpus_per_rank; /* 0 = all */
	enum gpu_env gpu_env;
	char *cpus; /* "auto" or a list such as 0-3,8 */
	enum ready_kind ready;
	char *ready_probe;  /* as written, for READY_PROBE; braces not yet filled */
	char *alive;        /* a probe as written, NULL: none */
	char *progress;     /* log:REGEX as written, NULL: none */
	int stop_signal;    /* SIGTERM */
	int dump_signal;    /* 0: none */
	uint64_t log_bytes; /* cap of rank-N.log, 0: no file */
	struct worker_limit *limits;
	size_t limits_len;
	char *exit_words; /* as written, NULL: none */
	char *drain;      /* as written, NULL: none */
};

struct config_variable {
	char *name, *value; /* braces not yet filled */
};

struct config {
	char name[GROUP_NAME_MAX_BYTES + 1];
	char *source; /* the file's path, NULL without a file */
	int ranks;    /* 0 = auto: one per GPU */
	enum group_mode mode;
	uint64_t timeout_ns[BOUND_COUNT]; /* 0 = off */
	enum restart_mode restart;
	int restart_max;
	uint64_t restart_window_ns, restart_backoff_ns;
	bool pid_namespace;
	char *run_dir; /* NULL: by the rules of the design */
	enum stop_order stop_order;
	struct worker_settings *workers;     /* [workers_len] */
	size_t workers_len;                  /* ranks; while auto 1: [worker] alone */
	struct config_variable *environment; /* [environment_len], in order of writing */
	size_t environment_len;
	unsigned health_mode;       /* permission bits of the health socket */
	char *http;                 /* HOST:PORT, NULL: none */
	struct config_store *store; /* all strings, and where each value came from; private */
};

struct config_error {
	char text[CONFIG_ERROR_BYTES]; /* "FILE:LINE: what, the word, the nearest known one" */
};

/*
 * The file that a NAME or FILE of the command line means: itself, or /etc/tfsupervisor/NAME.ini if
 * it has no '/' and no such file is here. 0, or -1 with *error filled.
 */
int config_find(const char *arg, char *path, size_t size, struct config_error *error);

/*
 * Reads the file at `path` and applies sets[0..sets_len) of the form section.key=value. 0 with *out
 * to be freed by config_free(), or -1 with *error filled and nothing to free.
 */
int config_load(const char *path, char *const *sets, size_t sets_len, struct config *out,
		struct config_error *error);
/* The same from an open stream that errors call `path`; the caller closes it. */
int config_load_stream(FILE *file, const char *path, char *const *sets, size_t sets_len,
		       struct config *out, struct config_error *error);
/* Without a file: mode job, the command argv (NULL-terminated), `ranks` of 0 for auto. */
int config_from_command(const char *name, char *const *argv, int ranks, char *const *sets,
			size_t sets_len, struct config *out, struct config_error *error);
void config_free(struct config *config);

/*
 * Fixes `ranks = auto` once the GPUs are counted: workers[] grows to n, [worker.N] applied. 0, or
 * -1 with *error filled (a [worker.N] beyond n) and config as it was.
 */
int config_set_ranks(struct config *config, int n, struct config_error *error);

/* The settings of a rank, 0 <= rank < workers_len. */
const struct worker_settings *config_worker(const struct config *config, int rank);

/* What {rank} and its like stand for. */
struct brace_values {
	int rank, local_rank, world_size;
	const char *gpu;         /* NULL: not known, the brace is left alone; so too below */
	uint32_t epoch;          /* 0: not known */
	const char *master_addr; /* NULL: not known */
	int master_port;         /* 0: not known */
	const char *run_dir;     /* NULL: not known */
};

/* text with the known braces filled in, others left alone. NULL if memory ran out. Caller frees. */
char *brace_fill(const char *text, const struct brace_values *values);
/* The same into out, NULL to measure only. Returns the bytes with their NUL. */
size_t brace_fill_into(char *out, const char *text, const struct brace_values *values);

/* One line per key: key, value, where it came from; under its section. */
void config_print(const struct config *config, FILE *out);
/* The table itself, as scdoc, for the manual. */
void config_print_manual(FILE *out);

/* The nearest of words[0..len) to `word` by edit distance without case, NULL if none is near. */
const char *nearest_word(const char *word, const char *const *words, size_t len);

#endif

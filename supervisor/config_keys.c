#include "supervisor/config_keys.h"

#include "supervisor/config.h"

#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define YEAR_MS       (365LL * 24 * 3600 * 1000)

/* In the order of their enums in config.h. */
static const char *const mode_words[] = {"service", "job", NULL};
static const char *const restart_words[] = {"never", "on-failure", NULL};
static const char *const gpu_env_words[] = {"all", "first", "one", NULL};
static const char *const stop_order_words[] = {"together", "forward", "reverse", NULL};

#define GROUP(name, keytype, field)                                                                \
	.section = "group", .key = name, .type = TYPE_##keytype,                                   \
	.offset = offsetof(struct config, field)
#define WORKER(name, keytype, field)                                                               \
	.section = "worker", .key = name, .type = TYPE_##keytype, .scope = SCOPE_WORKER,           \
	.offset = offsetof(struct worker_settings, field)
#define TIMEOUT(name, id) GROUP(name, DURATION, timeout_ns[BOUND_##id]), .max = YEAR_MS

const struct config_key config_keys[] = {
    {GROUP("name", NAME, name), .unset = "the file's name without .ini",
     .help = "Name of the group, for its folder, its lines and the verbs."},
    {GROUP("ranks", RANKS, ranks), .fallback = "auto",
     .help = "How many ranks to start; auto: one per GPU, or per gpus_per_rank GPUs."},
    {GROUP("mode", WORD, mode), .fallback = "service", .words = mode_words,
     .help = "A service serves until it is stopped, an exit of any rank is a loss; a job is done "
	     "when every rank has exited 0."},
    {TIMEOUT("load_timeout", LOAD), .help = "From the fork to the last rank's READY."},
    {TIMEOUT("ready_timeout", READY),
     .help = "From the first READY to the last: how long a ready rank waits for its peers."},
    {TIMEOUT("stall_timeout", STALL),
     .help = "A rank that is not yet serving sends no packet and prints no line."},
    {TIMEOUT("collective_timeout", COLLECTIVE),
     .help = "From go to the end of the first collective."},
    {TIMEOUT("warmup_timeout", WARMUP), .help = "From there to SERVING."},
    {TIMEOUT("watchdog_timeout", WATCHDOG),
     .help = "A serving rank sends no WATCHDOG, or its alive probe fails: not ready at the bound, "
	     "ended at twice the bound."},
    {TIMEOUT("abort_timeout", ABORT), .help = "From the news of a loss to SIGKILL."},
    {TIMEOUT("stop_timeout", STOP), .help = "From a stop request to SIGKILL."},
    {TIMEOUT("reap_timeout", REAP),
     .help = "From SIGKILL to our own exit, whatever the kernel still holds."},
    {GROUP("restart", WORD, restart), .fallback = "never", .words = restart_words,
     .help = "Start the whole group again after a failure; never after RankMismatch or "
	     "SpawnFailed."},
    {GROUP("restart_max", INTEGER, restart_max), .fallback = "3", .max = 1000000,
     .help = "At most this many restarts within restart_window."},
    {GROUP("restart_window", DURATION, restart_window_ns), .fallback = "1h", .min = 1,
     .max = YEAR_MS, .help = "The time within which restarts are counted."},
    {GROUP("restart_backoff", DURATION, restart_backoff_ns), .fallback = "1s", .max = 60 * 1000,
     .help = "Wait before the first restart; doubles with each, up to 1m."},
    {GROUP("pid_namespace", BOOLEAN, pid_namespace), .fallback = "no",
     .help = "Run the group in a PID namespace: nothing survives even if both processes of ours "
	     "are killed at once."},
    {GROUP("run_dir", PATH, run_dir), .unset = "RUNTIME_DIRECTORY, /run/tfsupervisor or the user's",
     .help = "Directory that holds the group's folder: sockets, report, output of the ranks."},

    {WORKER("command", COMMAND, command), .unset = "must be given",
     .help = "What each rank runs. There is no shell and no expansion; {rank}, {local_rank}, "
	     "{world_size}, {gpu}, {epoch}, {master_addr}, {master_port} and {run_dir} are "
	     "filled in after the splitting."},
    {WORKER("directory", PATH, directory), .unset = "the supervisor's",
     .help = "Working directory."},
    {WORKER("user", USER, user), .unset = "the supervisor's",
     .help = "User that the rank runs as; needs a supervisor that runs as root."},
    {WORKER("gpus", GPUS, gpus), .fallback = "auto",
     .help = "GPUs of the group, shared out in rank order, within an inherited "
	     "CUDA_VISIBLE_DEVICES; auto: all of them. In [worker.N]: the GPUs of that rank."},
    {WORKER("gpus_per_rank", COUNT_OR_ALL, gpus_per_rank), .fallback = "1",
     .help = "How many GPUs are a rank's own."},
    {WORKER("gpu_env", WORD, gpu_env), .fallback = "all", .words = gpu_env_words,
     .help = "CUDA_VISIBLE_DEVICES of a rank: all GPUs of the group, all with its own first, or "
	     "its own alone (one)."},
    {WORKER("cpus", CPUS, cpus), .fallback = "auto",
     .help = "CPUs of a rank; auto: those near its GPU. Always within the inherited mask."},
    {WORKER("ready", READY, ready), .fallback = "auto",
     .help = "How a rank is known to be ready. auto: the first word on its link or notify socket "
	     "decides; a service whose ranks stay silent ends at load_timeout."},
    {WORKER("alive", PROBE, alive), .fallback = "none",
     .help = "A probe while serving, judged by watchdog_timeout."},
    {WORKER("progress", PROGRESS, progress), .fallback = "none",
     .help = "Reads load progress from the rank's lines."},
    {WORKER("stop_signal", SIGNAL, stop_signal), .fallback = "TERM",
     .help = "The signal that asks a rank to end."},
    {.section = "worker",
     .key = "stop_order",
     .type = TYPE_WORD,
     .offset = offsetof(struct config, stop_order),
     .fallback = "together",
     .words = stop_order_words,
     .help = "Signals go to all ranks at once, or to one after the other has ended. Holds for the "
	     "group, so not in [worker.N]."},
    {WORKER("dump_signal", SIGNAL_OR_NONE, dump_signal), .fallback = "none",
     .help = "Sent 1 s before a RankTimeout kills, for a stack trace."},
    {WORKER("log", SIZE, log_bytes), .fallback = "16MiB",
     .help = "Cap of the file rank-N.log in the group's folder; 0: no file."},
    {WORKER("limits", LIMITS, limits), .fallback = "core=0",
     .help = "Resource limits by their setrlimit names, soft:hard or both at once. core = 0 holds "
	     "unless core is named: a core dump delays all news by seconds."},
    {WORKER("exit_words", EXIT_WORDS, exit_words), .fallback = "none",
     .help = "What exit statuses mean; taken into the reason."},
    {WORKER("drain", DRAIN, drain), .fallback = "none",
     .help = "Run or called before the stop signal."},

    {.section = "health",
     .key = "mode",
     .type = TYPE_MODE,
     .offset = offsetof(struct config, health_mode),
     .fallback = "0600",
     .help = "Permission bits of the health socket."},
    {.section = "health",
     .key = "http",
     .type = TYPE_HOST_PORT,
     .offset = offsetof(struct config, http),
     .fallback = "none",
     .help = "Serve the health pages on TCP as well."},
};
const size_t config_keys_len = LENGTH(config_keys);

const char *const config_sections[] = {"group", "worker", "worker.N", "environment", "health"};
const size_t config_sections_len = LENGTH(config_sections);

const struct config_key *
config_key_find(const char *section, const char *key)
{
	for (size_t i = 0; i < config_keys_len; i++) {
		if (strcmp(config_keys[i].section, section) == 0 &&
		    strcmp(config_keys[i].key, key) == 0)
			return &config_keys[i];
	}
	return NULL;
}

const struct config_key *
config_key_anywhere(const char *key)
{
	for (size_t i = 0; i < config_keys_len; i++) {
		if (strcmp(config_keys[i].key, key) == 0)
			return &config_keys[i];
	}
	return NULL;
}

const char *
config_key_nearest(const char *section, const char *key)
{
	const char *words[LENGTH(config_keys)];
	size_t len = 0;

	for (size_t i = 0; i < config_keys_len; i++) {
		if (section == NULL || strcmp(config_keys[i].section, section) == 0)
			words[len++] = config_keys[i].key;
	}
	return nearest_word(key, words, len);
}

void
config_key_default(const struct config_key *key, char *out, size_t size)
{
	const char *text = key->fallback != NULL ? key->fallback : key->unset;

	if (text != NULL) {
		snprintf(out, size, "%s", text);
		return;
	}
	for (int i = 0; i < BOUND_COUNT; i++) {
		if (strcmp(bound_key((enum bound)i), key->key) == 0)
			format_duration(bound_default_ns((enum bound)i), out, size);
	}
}

static void
form_words(const char *const *words, char *out, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; words[i] != NULL && n < size; i++) {
		const char *before = i == 0 ? "" : words[i + 1] != NULL ? ", " : " or ";

		n += (size_t)snprintf(out + n, size - n, "%s%s", before, words[i]);
	}
}

static void
form_duration(const struct config_key *key, const char *form, char *out, size_t size)
{
	char least[DURATION_TEXT_BYTES], most[DURATION_TEXT_BYTES];

	format_duration((uint64_t)key->min * NS_PER_MSEC, least, sizeof(least));
	format_duration((uint64_t)key->max * NS_PER_MSEC, most, sizeof(most));
	snprintf(out, size, "%s, from %s to %s", form, least, most);
}

void
config_key_form(const struct config_key *key, char *out, size_t size)
{
	static const char *const forms[CONFIG_TYPE_COUNT] = {
#define X(id, form) [TYPE_##id] = form,
	    CONFIG_TYPES(X)
#undef X
	};

	if (key->type == TYPE_WORD)
		form_words(key->words, out, size);
	else if (key->type == TYPE_INTEGER)
		snprintf(out, size, "%lld to %lld", key->min, key->max);
	else if (key->type == TYPE_DURATION)
		form_duration(key, forms[TYPE_DURATION], out, size);
	else
		snprintf(out, size, "%s", forms[key->type]);
}

#include "supervisor/check_print.h"

#include "supervisor/environ.h"
#include "supervisor/spawn.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTE_WIDTH 96 /* columns */

static bool
waits_for_a_word(const struct check *check, int rank)
{
	return check->config.mode == MODE_SERVICE &&
	       config_worker(&check->config, rank)->ready == READY_AUTO;
}

static bool
goes_its_own_way(const struct check *check, int rank)
{
	enum ready_kind ready = config_worker(&check->config, rank)->ready;

	return ready == READY_NONE || ready == READY_NOTIFY || ready == READY_PROBE;
}

static bool
asks_in_vain(const struct check *check, int rank)
{
	return config_worker(&check->config, rank)->alive != NULL &&
	       check->config.timeout_ns[BOUND_WATCHDOG] == 0;
}

/* Last component of the program's path. */
static const char *
program_name(const struct check *check, int rank)
{
	const char *program = config_worker(&check->config, rank)->argv[0];
	const char *slash = strrchr(program, '/');

	return slash != NULL ? slash + 1 : program;
}

static bool
is_one_of(const char *word, const char *const *words)
{
	for (; *words != NULL; words++) {
		if (strcmp(*words, word) == 0)
			return true;
	}
	return false;
}

static bool
is_a_client(const struct check *check, int rank)
{
	static const char *const clients[] = {"docker", "podman", "ssh", NULL};

	return is_one_of(program_name(check, rank), clients);
}

static bool
wants_a_shell(const struct check *check, int rank)
{
	static const char *const operators[] = {";", "&",  "&&", "|",    "||", "<",
						">", ">>", "2>", "2>&1", NULL};
	char *const *argv = config_worker(&check->config, rank)->argv;

	if (strcmp(argv[0], "cd") == 0)
		return true;
	for (size_t i = 1; argv[i] != NULL; i++) {
		if (is_one_of(argv[i], operators))
			return true;
	}
	return false;
}

static bool
lacks_root(const struct check *check, int rank)
{
	return config_worker(&check->config, rank)->user != NULL && geteuid() != 0;
}

/* No such program in the PATH that the rank gets; a relative path is left to the start. */
static bool
lacks_program(const struct check *check, int rank)
{
	struct gpu_share share;
	struct environ_values values = check_values(check, rank, &share);
	char **argv = argv_build(&check->config, rank, &values);
	char **variables = environ_build(&check->config, rank, &values);
	char **paths = argv != NULL && variables != NULL ? spawn_path(argv[0], variables) : NULL;
	bool lacks = paths != NULL;

	for (size_t i = 0; paths != NULL && paths[i] != NULL && lacks; i++)
		lacks = paths[i][0] == '/' && access(paths[i], X_OK) != 0;
	if (paths != NULL)
		spawn_path_free(paths);
	free(argv);
	free(variables);
	gpus_share_free(&share);
	return lacks;
}

static const struct {
	bool (*applies)(const struct check *, int rank);
	const char *text;
} notes[] = {
    {waits_for_a_word,
     "counts as loading until a rank speaks on its link (TFRANK_LINK_FD) or its NOTIFY_SOCKET; "
     "if none does, load_timeout ends the service. A program that knows neither needs "
     "ready = http:, tcp:, unix:, file: or log:, or ready = none."},
    {goes_its_own_way,
     "does not wait for go: its first collective cannot be held back until every rank has "
     "loaded, so the engine's own timeout must be longer than the slowest load."},
    {asks_in_vain, "has alive, which nothing asks while watchdog_timeout = 0."},
    {is_a_client,
     "runs the client of a container or of another host: killing the client leaves what it "
     "started. Run tfsupervisor inside instead, or give a drain command that stops it."},
    {wants_a_shell,
     "has a shell's word in its command, but there is no shell: it goes to the program as it "
     "is. Write sh -c '...' for one."},
    {lacks_root, "cannot change its user unless the supervisor runs as root: SpawnFailed."},
    {lacks_program, "names a program that is not in its PATH or may not be run: SpawnFailed."},
};

/* "every rank", "rank 1", "ranks 0, 2, 3 and 5 more" */
static void
ranks_text(const bool *applies, int ranks, char *out, size_t size)
{
	int count = 0, shown = 0;
	size_t n;

	for (int i = 0; i < ranks; i++)
		count += applies[i];
	if (count == ranks) {
		snprintf(out, size, "every rank");
		return;
	}
	n = (size_t)snprintf(out, size, count == 1 ? "rank" : "ranks");
	for (int i = 0; i < ranks && shown < 8; i++) {
		if (applies[i])
			n +=
			    (size_t)snprintf(out + n, size - n, "%s %d", shown++ > 0 ? "," : "", i);
	}
	if (count > shown)
		snprintf(out + n, size - n, " and %d more", count - shown);
}

/* "- text", broken between words and indented. */
static void
print_wrapped(const char *text, FILE *out)
{
	size_t column = 0, len;

	fprintf(out, " -");
	for (; *text != '\0'; text += len + strspn(text + len, " ")) {
		len = strcspn(text, " ");
		if (column > 0 && column + len > NOTE_WIDTH) {
			fprintf(out, "\n  ");
			column = 0;
		}
		fprintf(out, " %.*s", (int)len, text);
		column += len + 1;
	}
	fprintf(out, "\n");
}

static bool
print_note(const struct check *check, size_t note, bool *applies, FILE *out)
{
	int ranks = check->config.ranks;
	char who[128], line[1024];
	bool any = false;

	for (int i = 0; i < ranks; i++) {
		applies[i] = notes[note].applies(check, i);
		any = any || applies[i];
	}
	if (!any)
		return false;
	ranks_text(applies, ranks, who, sizeof(who));
	snprintf(line, sizeof(line), "%s %s", who, notes[note].text);
	print_wrapped(line, out);
	return true;
}

void
check_print_notes(const struct check *check, FILE *out)
{
	bool applies[RANKS_MAX], any = check->config.timeout_ns[BOUND_LOAD] == 0;

	fprintf(out, "\nnotes\n");
	if (any)
		print_wrapped("load_timeout = 0: a load that never ends is waited for for ever.",
			      out);
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
		any = print_note(check, i, applies, out) || any;
	if (!any)
		print_wrapped("none", out);
}

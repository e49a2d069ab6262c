/* The last line: who, what, how far, when, and which key to change. */
#include "supervisor/report.h"

#include "common/duration.h"
#include "supervisor/narrate.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct line {
	char *out;
	size_t size, len;
};

static void __attribute__((format(printf, 2, 3))) add(struct line *line, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line->out + line->len, line->size - line->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		line->len += (size_t)n;
	if (line->len >= line->size)
		line->len = line->size - 1;
}

/* What a rank was at: "it was killed ... while loading", "it ... was still loading". */
static const struct {
	const char *during, *still;
} phases[RANK_STATE_COUNT] = {
    [RANK_STARTING] = {"while starting", "was still starting"},
    [RANK_CONNECTED] = {"before its first progress", "had told no progress"},
    [RANK_LOADING] = {"while loading", "was still loading"},
    [RANK_READY] = {"while waiting for go", "was waiting for go"},
    [RANK_COLLECTIVE] = {"in its first collective", "was still in its first collective"},
    [RANK_WARMING] = {"while warming up", "was still warming up"},
    [RANK_SERVING] = {"while serving", "was serving"},
    [RANK_STOPPING] = {"while stopping", "was still stopping"},
    [RANK_GONE] = {"after its end", "was gone"},
};

static void
add_rank(struct line *line, const struct status_source *source)
{
	const struct loss *loss = &source->group->loss;
	const char *gpu = status_gpu(source, loss->rank);

	if (loss->rank == NO_RANK) {
		add(line, "the group");
		return;
	}
	add(line, "rank %d", loss->rank);
	if (loss->pid > 0)
		add(line, " (pid %ld%s%s)", (long)loss->pid, gpu != NULL ? ", gpu " : "",
		    gpu != NULL ? gpu : "");
	else if (gpu != NULL)
		add(line, " (gpu %s)", gpu);
}

static void
add_progress(struct line *line, const struct loss *loss)
{
	char text[MESSAGE_UNIT_BYTES + 64];

	progress_to_string(&loss->progress, text, sizeof(text));
	if (loss->phase == RANK_LOADING && text[0] != '\0')
		add(line, " (%s)", text);
}

static void
add_elapsed(struct line *line, uint64_t from_ns, uint64_t to_ns)
{
	char text[DURATION_TEXT_BYTES];

	if (from_ns == 0 || to_ns < from_ns)
		return;
	format_elapsed(to_ns - from_ns, text, sizeof(text));
	add(line, ", %s after the start", text);
}

static void
add_ending(struct line *line, const struct loss *loss)
{
	char name[32];

	if (strncmp(loss->cause, "failed: ", 8) == 0) {
		add(line, " failed: %s", loss->cause + 8);
		if (loss->error_number != 0)
			add(line, " (errno %d: %s)", loss->error_number,
			    strerror(loss->error_number));
	} else if (strcmp(loss->cause, "link-closed") == 0) {
		add(line, " closed its link and lived on");
	} else if (loss->ending.how == ENDING_EXITED) {
		add(line, " exited %d", loss->ending.code);
	} else if (loss->ending.how == ENDING_KILLED) {
		signal_name(loss->ending.code, name, sizeof(name));
		add(line, " was killed by %s", name);
	} else {
		add(line, " died");
	}
	if (loss->note != NULL)
		add(line, " (%s)", loss->note);
}

static void
add_during(struct line *line, const struct group *group)
{
	add(line, " %s", phases[group->loss.phase].during);
	add_progress(line, &group->loss);
	add_elapsed(line, group->started_ns, group->loss.at_ns);
}

static void
add_disconnected(struct line *line, const struct status_source *source)
{
	add_rank(line, source);
	add_ending(line, &source->group->loss);
	add_during(line, source->group);
}

static void
add_protocol(struct line *line, const struct status_source *source)
{
	add_rank(line, source);
	add(line, " broke the protocol (%s)", source->group->loss.cause);
	add_during(line, source->group);
}

/* The machine's detail begins with the late ranks, if there is more than the one named already. */
static void
add_other_late(struct line *line, const char *detail)
{
	size_t len = strcspn(detail, ";");

	if (memchr(detail, ',', len) != NULL)
		add(line, " (%.*s)", (int)len, detail);
}

static void
add_timeout(struct line *line, const struct status_source *source)
{
	const struct group *group = source->group;
	const struct loss *loss = &group->loss;
	const char *key = bound_key(loss->bound);
	char bound[DURATION_TEXT_BYTES];

	format_duration(group->settings.timeout_ns[loss->bound], bound, sizeof(bound));
	add_rank(line, source);
	if (loss->bound == BOUND_REAP) {
		add(line, " was not given up by the kernel within %s = %s of SIGKILL", key, bound);
		add_elapsed(line, group->started_ns, loss->at_ns);
		add(line, "; see what it waits for: cat /proc/%ld/stack", (long)loss->pid);
		return;
	}
	if (loss->bound == BOUND_WATCHDOG)
		add(line, " said no WATCHDOG for twice %s = %s", key, bound);
	else if (loss->bound == BOUND_STALL)
		add(line, " was silent for %s = %s", key, bound);
	else
		add(line, " %s", phases[loss->phase].still);
	add_progress(line, loss);
	if (loss->bound != BOUND_WATCHDOG && loss->bound != BOUND_STALL)
		add(line, " when %s = %s passed", key, bound);
	add_other_late(line, loss->detail);
	add_elapsed(line, group->started_ns, loss->at_ns);
	add(line, "; raise %s in [group] if it only needs longer", key);
}

static void
add_loss(struct line *line, const struct status_source *source)
{
	const struct group *group = source->group;
	const struct loss *loss = &group->loss;

	add(line, "%s: ", reason_word(loss->reason));
	switch (loss->reason) {
	case REASON_RANK_DISCONNECTED:
		add_disconnected(line, source);
		break;
	case REASON_RANK_TIMEOUT:
		add_timeout(line, source);
		break;
	case REASON_RANK_PROTOCOL:
		add_protocol(line, source);
		break;
	case REASON_RANK_MISMATCH:
		add(line, "%s", loss->cause);
		add_elapsed(line, group->started_ns, loss->at_ns);
		add(line, "; start every rank from the same program and settings");
		break;
	case REASON_SPAWN_FAILED:
		add_rank(line, source);
		add(line, " could not be started: %s", loss->cause);
		break;
	case REASON_PREFLIGHT_FAILED:
		add(line, "%s", loss->cause[0] != '\0' ? loss->cause : loss->detail);
		break;
	case REASON_NONE:
	case REASON_COUNT:
		break;
	}
}

/* A rank that announced its leave, NO_RANK if none did. */
static int
leaver(const struct group *group)
{
	for (int i = 0; i < group->settings.world_size; i++)
		if (group->ranks[i].said_stopping)
			return i;
	return NO_RANK;
}

static void
add_stop(struct line *line, const struct group *group)
{
	char name[32];

	if (group->abandoned)
		add(line, "ended because the guard, the process above the supervisor, has died");
	else if (group->exit_status == EXIT_JOB_SIGTERM || group->exit_status == EXIT_JOB_SIGINT)
		add(line, "unfinished job stopped by %s",
		    group->exit_status == EXIT_JOB_SIGINT ? "SIGINT" : "SIGTERM");
	else if (group->stop_asked && group->stop_signal == 0)
		add(line, "stopped on request");
	else if (group->stop_asked) {
		signal_name(group->stop_signal, name, sizeof(name));
		add(line, "stopped on request (%s)", name);
	} else if (group->restart_wanted)
		add(line, "stopped for a restart on request");
	else if (leaver(group) != NO_RANK)
		add(line, "stopped in order after rank %d announced its leave", leaver(group));
	else
		add(line, "stopped");
}

static void
add_clean_end(struct line *line, const struct status_source *source, uint64_t now_ns)
{
	const struct group *group = source->group;
	int n = group->settings.world_size;
	char bound[DURATION_TEXT_BYTES];

	if (group->settings.job && !group->stop_wanted && !group->restart_wanted)
		add(line, "job done: %s%d %s exited 0", n > 1 ? "all " : "", n,
		    n == 1 ? "rank" : "ranks");
	else
		add_stop(line, group);
	add_elapsed(line, group->started_ns, now_ns);
	if (group->killed && !group->hurried && !group->abandoned) {
		format_duration(group->settings.timeout_ns[BOUND_STOP], bound, sizeof(bound));
		add(line, "; what outlived stop_timeout = %s was killed", bound);
	}
}

size_t
report_last_line(const struct status_source *source, uint64_t now_ns, char *out, size_t size)
{
	const struct group *group = source->group;
	struct line line = {out, size, 0};

	out[0] = '\0';
	if (group->loss.reason != REASON_NONE) {
		add_loss(&line, source);
	} else if (group_is_running(group)) {
		add(&line, "%s", group_state_word(group->state));
		add_elapsed(&line, group->started_ns, now_ns);
	} else {
		add_clean_end(&line, source, now_ns);
	}
	/* A cut may have split a character. */
	line.len = utf8_valid_prefix(out, line.len);
	out[line.len] = '\0';
	return line.len;
}

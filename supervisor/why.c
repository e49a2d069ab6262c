#include "supervisor/why.h"

#include "common/reason.h"
#include "supervisor/client.h"

#include <stdlib.h>
#include <string.h>

#define OTHERS_SHOWN 16
#define STACK_SHOWN  6 /* functions of a kernel stack */
#define LABEL        "  %-9s "
#define INDENT       "            "

static const char *
text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

static double
number_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static bool
has(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return value != NULL && !json_is_null(value);
}

/* --- what to do --- */

static const char *
advice_for_signal(const char *signal)
{
	static const char *const crashes[] = {"SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE"};

	if (strcmp(signal, "SIGKILL") == 0)
		return "if nobody sent it, the kernel's out-of-memory killer did: look into dmesg";
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		if (strcmp(signal, crashes[i]) == 0)
			return "it crashed: for a core dump set core under limits in [worker]";
	return "somebody sent it: look into the journal for who ended this process";
}

static const char *
advice_for_exit(int code, bool printed)
{
	switch (code) {
	case 0:
		return "a service's ranks never leave by themselves, a job's not before go: is "
		       "this the "
		       "right command?";
	case 126:
	case 127:
		return "a shell found no such program: see command in [worker]";
	default:
		return printed ? "its last lines say why it left: mend that and start again"
			       : "it left without a word: try its command by hand";
	}
}

static const char *
advice_for_disconnected(const json_t *reason)
{
	const char *cause = text_of(reason, "cause");

	if (strcmp(cause, "link-closed") == 0)
		return "something in the rank closes descriptors it does not know: leave "
		       "TFRANK_LINK_FD "
		       "open";
	if (strncmp(cause, "failed:", 7) == 0)
		return "the rank gave this text itself: mend what it names and start again";
	if (has(reason, "signal"))
		return advice_for_signal(text_of(reason, "signal"));
	if (has(reason, "exit_code"))
		return advice_for_exit((int)number_of(reason, "exit_code"),
				       json_array_size(json_object_get(reason, "log_tail")) > 0);
	return "its last lines may say why it left";
}

static const char *
advice_for_timeout(const char *bound)
{
	static const struct {
		const char *bound, *text;
	} table[] = {
	    {"load",
	     "raise load_timeout in [group] if ranks only need longer. A rank that never spoke "
	     "needs "
	     "ready = in [worker], to tell how its readiness is seen, or mode = job in [group]"},
	    {"ready",
	     "raise ready_timeout in [group] if this rank only loads slower than its peers"},
	    {"stall", "raise stall_timeout in [group] if a healthy rank is silent that long"},
	    {"collective",
	     "this rank never ended its first collective: for NCCL set NCCL_DEBUG = INFO "
	     "in [environment]; else raise collective_timeout in [group]"},
	    {"warmup", "raise warmup_timeout in [group] if the warm-up only needs longer"},
	    {"watchdog",
	     "the rank hangs, or says WATCHDOG too seldom for watchdog_timeout in [group]"},
	    {"stop",
	     "the kernel did not give up the process: a driver or a file system hangs (dmesg)"},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strcmp(bound, table[i].bound) == 0)
			return table[i].text;
	return "raise the bound in [group] if it only needs longer";
}

const char *
why_advice(const json_t *reason)
{
	enum reason name = REASON_NONE;

	reason_from_word(text_of(reason, "name"), &name);
	switch (name) {
	case REASON_RANK_DISCONNECTED:
		return advice_for_disconnected(reason);
	case REASON_RANK_TIMEOUT:
		return advice_for_timeout(text_of(reason, "bound"));
	case REASON_RANK_MISMATCH:
		return "start every rank from the same program, checkpoint and settings";
	case REASON_RANK_PROTOCOL:
		return "the rank's library and this supervisor disagree: are they of one version?";
	case REASON_SPAWN_FAILED:
		return "see command, directory and user in [worker], and try the command by hand";
	case REASON_PREFLIGHT_FAILED:
		return "no rank was started: mend what the line above names and run it again";
	case REASON_NONE:
	case REASON_COUNT:
		break;
	}
	return "";
}

/* --- the note --- */

static void
print_bytes(FILE *out, const json_t *progress)
{
	double done = number_of(progress, "bytes"), total = number_of(progress, "bytes_total");
	const double mib = 1024.0 * 1024;

	if (!has(progress, "bytes_total"))
		return;
	if (total < mib)
		fprintf(out, ", %.0f of %.0f bytes", done, total);
	else if (total < 1024 * mib)
		fprintf(out, ", %.1f of %.1f MiB", done / mib, total / mib);
	else
		fprintf(out, ", %.1f of %.1f GiB", done / mib / 1024, total / mib / 1024);
}

static void
print_progress(FILE *out, const json_t *progress)
{
	const char *unit = text_of(progress, "unit");

	if (has(progress, "total")) {
		fprintf(out, ": ");
		client_print(out, unit);
		fprintf(out, "%s%.0f of %.0f", unit[0] != '\0' ? " " : "",
			number_of(progress, "done"), number_of(progress, "total"));
	}
	print_bytes(out, progress);
}

static void
print_who(FILE *out, const json_t *report, const json_t *reason)
{
	if (!has(reason, "rank"))
		return;
	fprintf(out, LABEL "rank %.0f of %.0f", "who", number_of(reason, "rank"),
		number_of(report, "world_size"));
	if (has(reason, "pid"))
		fprintf(out, ", pid %.0f", number_of(reason, "pid"));
	if (has(reason, "gpu")) {
		fprintf(out, ", gpu ");
		client_print(out, text_of(reason, "gpu"));
	}
	fprintf(out, "\n");
}

static void
print_facts(FILE *out, const json_t *report, const json_t *reason)
{
	fprintf(out, LABEL "%s, epoch %.0f, which lasted %.1f s\n", "when", text_of(reason, "time"),
		number_of(report, "epoch"), number_of(report, "lasted_seconds"));
	print_who(out, report, reason);
	fprintf(out, LABEL, "what");
	client_print(out, text_of(reason, "cause"));
	fprintf(out, "\n");
	if (has(reason, "phase")) {
		fprintf(out, LABEL "%s", "how far", text_of(reason, "phase"));
		print_progress(out, json_object_get(reason, "progress"));
		fprintf(out, "\n");
	}
}

static const json_t *
victim_of(const json_t *reason, double rank)
{
	const json_t *victim;
	size_t i;

	json_array_foreach(json_object_get(reason, "victims"), i, victim)
	{
		if (number_of(victim, "rank") == rank)
			return victim;
	}
	return NULL;
}

static void
print_other(FILE *out, const json_t *rank, const json_t *victim)
{
	fprintf(out, "rank %.0f: %s", number_of(rank, "rank"), text_of(rank, "phase"));
	if (strcmp(text_of(rank, "phase"), "loading") == 0)
		print_progress(out, json_object_get(rank, "progress"));
	if (victim != NULL)
		fprintf(out, ", then %s%s, %.3f s after", text_of(victim, "cause"),
			json_is_true(json_object_get(victim, "killed_by_us")) ? " by us" : "",
			number_of(victim, "after_seconds"));
	else if (has(rank, "ending"))
		fprintf(out, ", %s before", text_of(rank, "ending"));
	else if (!has(rank, "pid"))
		fprintf(out, ", never forked");
	else if (has(rank, "phase"))
		fprintf(out, ", not ended when this was written");
	fprintf(out, "\n");
}

static void
print_others(FILE *out, const json_t *report, const json_t *reason)
{
	const json_t *rank;
	int shown = 0;
	size_t i;

	json_array_foreach(json_object_get(report, "ranks"), i, rank)
	{
		if (has(reason, "rank") && number_of(rank, "rank") == number_of(reason, "rank"))
			continue;
		if (shown++ >= OTHERS_SHOWN)
			continue;
		fprintf(out, shown == 1 ? LABEL : INDENT, "others");
		print_other(out, rank, victim_of(reason, number_of(rank, "rank")));
	}
	if (shown > OTHERS_SHOWN)
		fprintf(out, INDENT "and %d more\n", shown - OTHERS_SHOWN);
}

/* Where the ranks were when the bound passed, of those whose state could be read. */
static void
print_where(FILE *out, const json_t *report)
{
	const json_t *rank, *where, *function;
	bool first = true;
	size_t i, k;

	json_array_foreach(json_object_get(report, "ranks"), i, rank)
	{
		where = json_object_get(rank, "where");
		if (!json_is_object(where) || i >= OTHERS_SHOWN)
			continue;
		fprintf(out, first ? LABEL : INDENT, "where");
		first = false;
		fprintf(out, "rank %.0f: state %s", number_of(rank, "rank"),
			text_of(where, "state"));
		if (text_of(where, "wait_channel")[0] != '\0')
			fprintf(out, ", waits in %s", text_of(where, "wait_channel"));
		json_array_foreach(json_object_get(where, "stack"), k,
				   function) if (k < STACK_SHOWN)
		    fprintf(out, "%s%s", k == 0 ? ", kernel stack " : " < ",
			    json_string_value(function));
		fprintf(out, "\n");
	}
}

static void
print_tail(FILE *out, const json_t *reason)
{
	const json_t *lines = json_object_get(reason, "log_tail"), *line;
	size_t i;

	if (json_array_size(lines) == 0)
		return;
	fprintf(out, LABEL "of rank %.0f\n", "last lines", number_of(reason, "rank"));
	json_array_foreach(lines, i, line)
	{
		fprintf(out, INDENT);
		client_print(out, json_string_value(line));
		fprintf(out, "\n");
	}
}

void
why_print(FILE *out, const json_t *report)
{
	const json_t *reason = json_object_get(report, "reason");

	fprintf(out, "%s: ", text_of(report, "group"));
	client_print(out, text_of(report, "message"));
	fprintf(out, "\n");
	print_facts(out, report, reason);
	print_others(out, report, reason);
	print_where(out, report);
	print_tail(out, reason);
	fprintf(out, LABEL "%s\n", "next", why_advice(reason));
}

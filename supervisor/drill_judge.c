/* What each drill promises. */
#include "common/reason.h"
#include "supervisor/drill.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SLACK_NS  (100 * NS_PER_MSEC) /* beyond the delay: 35,0xx ms */
#define PROMPT_NS (5 * NS_PER_MSEC)   /* the last rank's wait for go; a leave to the news of it */

struct judge {
	const struct drill *drill;
	const struct drill_result *result;
	json_t *checks;
};

static void add(struct judge *judge, bool ok, const char *check, const char *bound, const char *fmt,
		...) __attribute__((format(printf, 5, 6)));

static void
add(struct judge *judge, bool ok, const char *check, const char *bound, const char *fmt, ...)
{
	char measured[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(measured, sizeof(measured), fmt, ap);
	va_end(ap);
	json_array_append_new(judge->checks,
			      json_pack("{s:s, s:s, s:s, s:b}", "check", check, "measured",
					measured, "bound", bound, "ok", ok));
}

/* --- what was seen --- */

static const json_t *
receipt_of(const struct judge *judge, int rank)
{
	return json_array_get(judge->result->receipts, (size_t)rank);
}

static const char *
text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text == NULL ? "none" : text;
}

/* ns, 0 if it never came. */
static uint64_t
moment_of(const struct judge *judge, int rank, const char *key)
{
	const json_t *moments = json_object_get(receipt_of(judge, rank), "moments_ns");

	return (uint64_t)json_integer_value(json_object_get(moments, key));
}

static const json_t *
reason_of(const struct judge *judge)
{
	return json_object_get(judge->result->report, "reason");
}

/* --- checks of one kind --- */

static void
check_status(struct judge *judge, int expected)
{
	char bound[16];

	snprintf(bound, sizeof(bound), "%d", expected);
	add(judge, judge->result->status == expected, "exit status of run", bound, "%d",
	    judge->result->status);
}

static void
check_text(struct judge *judge, const char *check, const char *found, const char *expected)
{
	add(judge, strcmp(found, expected) == 0, check, expected, "%s", found);
}

/* From one moment of a rank to one of another: least to most. */
static void
check_span(struct judge *judge, const char *check, uint64_t from_ns, uint64_t to_ns,
	   uint64_t least_ns, uint64_t most_ns)
{
	double ms = ((double)to_ns - (double)from_ns) / (double)NS_PER_MSEC;
	char bound[64];

	if (least_ns == 0)
		snprintf(bound, sizeof(bound), "at most %.0f ms", (double)most_ns / NS_PER_MSEC);
	else
		snprintf(bound, sizeof(bound), "%.0f to %.0f ms", (double)least_ns / NS_PER_MSEC,
			 (double)most_ns / NS_PER_MSEC);
	if (from_ns == 0 || to_ns == 0)
		add(judge, false, check, bound, "never");
	else
		add(judge,
		    to_ns >= from_ns && to_ns - from_ns >= least_ns && to_ns - from_ns <= most_ns,
		    check, bound, "%.3f ms", ms);
}

static void
check_outcome(struct judge *judge, int rank, const char *expected)
{
	char check[64];

	snprintf(check, sizeof(check), "rank %d's outcome", rank);
	check_text(judge, check, text_of(receipt_of(judge, rank), "outcome"), expected);
}

static void
check_no_reason(struct judge *judge)
{
	check_text(judge, "reason", text_of(reason_of(judge), "name"), "none");
}

/* The reason names rank 1, which did it. */
static void
check_reason(struct judge *judge, enum reason reason)
{
	const json_t *found = reason_of(judge);
	const json_t *rank = json_object_get(found, "rank");

	check_text(judge, "reason", text_of(found, "name"), reason_word(reason));
	add(judge, json_is_integer(rank) && json_integer_value(rank) == 1, "lost rank", "1",
	    json_is_integer(rank) ? "%" JSON_INTEGER_FORMAT : "none", json_integer_value(rank));
}

/* Every rank but rank 1 was told the reason by ABORT. */
static void
check_told(struct judge *judge, enum reason reason)
{
	char check[64];

	for (int rank = 0; rank < judge->drill->ranks; rank++) {
		if (rank == 1)
			continue;
		snprintf(check, sizeof(check), "rank %d was told", rank);
		check_text(judge, check,
			   text_of(json_object_get(receipt_of(judge, rank), "abort"), "reason"),
			   reason_word(reason));
	}
}

/* Nobody's element is wrong: what is "gather" or "sum". */
static void
check_elements(struct judge *judge, const char *what, const char *count)
{
	char check[64];

	for (int rank = 0; rank < judge->drill->ranks; rank++) {
		const json_t *part = json_object_get(receipt_of(judge, rank), what);
		json_int_t all = json_integer_value(json_object_get(part, count));
		json_int_t wrong = json_integer_value(json_object_get(part, "wrong"));

		snprintf(check, sizeof(check), "rank %d's %s, wrong", rank, what);
		add(judge, json_is_object(part) && all > 0 && wrong == 0, check, "0",
		    "%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT, wrong, all);
	}
}

/* --- one function a drill --- */

static void
check_went(struct judge *judge)
{
	check_status(judge, 0);
	check_no_reason(judge);
	for (int rank = 0; rank < judge->drill->ranks; rank++)
		check_outcome(judge, rank, "done");
	check_elements(judge, "gather", "elements");
}

static void
judge_late(struct judge *judge)
{
	uint64_t delay_ns = judge->drill->delay_ns;

	check_went(judge);
	check_span(judge, "rank 0 waited for go", moment_of(judge, 0, "ready"),
		   moment_of(judge, 0, "go"), delay_ns, delay_ns + SLACK_NS);
	check_span(judge, "rank 1 waited for go", moment_of(judge, 1, "ready"),
		   moment_of(judge, 1, "go"), 0, PROMPT_NS);
	check_span(judge, "rank 0's go to its collective's end", moment_of(judge, 0, "go"),
		   moment_of(judge, 0, "collective_done"), 0, judge->drill->collective_ns);
}

static void
judge_sum(struct judge *judge)
{
	check_went(judge);
	check_elements(judge, "sum", "sums");
}

/* Rank 1 left `delay` after its hello, and all others had their ABORT promptly. */
static void
check_leave(struct judge *judge)
{
	uint64_t delay_ns = judge->drill->delay_ns, left_ns = moment_of(judge, 1, "leave");
	char check[64];

	check_status(judge, reason_exit_status(REASON_RANK_DISCONNECTED));
	check_reason(judge, REASON_RANK_DISCONNECTED);
	check_span(judge, "rank 1's hello to its leaving", moment_of(judge, 1, "hello"), left_ns,
		   delay_ns, delay_ns + SLACK_NS);
	check_told(judge, REASON_RANK_DISCONNECTED);
	for (int rank = 0; rank < judge->drill->ranks; rank++) {
		if (rank == 1)
			continue;
		snprintf(check, sizeof(check), "the leaving to rank %d's ABORT", rank);
		check_span(judge, check, left_ns, moment_of(judge, rank, "end"), 0, PROMPT_NS);
	}
}

static void
judge_gone(struct judge *judge)
{
	check_leave(judge);
	check_outcome(judge, 1, "failed");
}

static void
judge_eof(struct judge *judge)
{
	check_leave(judge);
	check_outcome(judge, 1, "link-closed");
	check_text(judge, "cause", text_of(reason_of(judge), "cause"), "link-closed");
}

/* The bound that rank 1 broke, from the moment `since_ns` to rank 0's ABORT. */
static void
check_bound(struct judge *judge, const char *bound, const char *phase, const char *span,
	    uint64_t since_ns)
{
	uint64_t delay_ns = judge->drill->delay_ns;

	check_status(judge, reason_exit_status(REASON_RANK_TIMEOUT));
	check_reason(judge, REASON_RANK_TIMEOUT);
	check_text(judge, "bound", text_of(reason_of(judge), "bound"), bound);
	check_text(judge, "rank 1's phase", text_of(reason_of(judge), "phase"), phase);
	check_told(judge, REASON_RANK_TIMEOUT);
	check_span(judge, span, since_ns, moment_of(judge, 0, "end"), delay_ns,
		   delay_ns + SLACK_NS);
}

static void
judge_missing(struct judge *judge)
{
	check_bound(judge, "ready", "starting", "rank 0's ready to its ABORT",
		    moment_of(judge, 0, "ready"));
	check_text(judge, "rank 1's hello", moment_of(judge, 1, "hello") == 0 ? "never" : "said",
		   "never");
}

static void
judge_timeout(struct judge *judge)
{
	uint64_t last_ns = 0;

	/* Go is given at the last READY; a rank learns of it a little later. */
	for (int rank = 0; rank < judge->drill->ranks; rank++)
		if (moment_of(judge, rank, "ready") > last_ns)
			last_ns = moment_of(judge, rank, "ready");
	check_bound(judge, "collective", "collective", "the last ready to rank 0's ABORT", last_ns);
}

json_t *
drill_judge(const struct drill *drill, const struct drill_result *result)
{
	static void (*const judges[DRILL_MODE_COUNT])(struct judge *) = {
	    [DRILL_LATE] = judge_late,       [DRILL_GONE] = judge_gone,
	    [DRILL_SUM] = judge_sum,         [DRILL_EOF] = judge_eof,
	    [DRILL_MISSING] = judge_missing, [DRILL_TIMEOUT] = judge_timeout,
	};
	struct judge judge = {drill, result, json_array()};

	judges[drill->mode](&judge);
	return judge.checks;
}

bool
drill_passed(const json_t *checks)
{
	const json_t *check;
	size_t i;

	json_array_foreach(checks, i, check)
	{
		if (!json_is_true(json_object_get(check, "ok")))
			return false;
	}
	return json_array_size(checks) > 0;
}

#include "supervisor/status_json.h"

#include "supervisor/clean.h"
#include "supervisor/narrate.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

json_t *
status_text(const char *text)
{
	size_t len = strlen(text);
	json_t *value = NULL;
	char *clean;

	if (utf8_valid_prefix(text, len) == len)
		return json_stringn(text, len);
	clean = malloc(len + CLEAN_GROWTH_BYTES);
	if (clean != NULL)
		value = json_stringn(clean, clean_utf8(text, len, clean));
	free(clean);
	return value;
}

static json_t *
text_or_null(const char *text)
{
	return text == NULL || text[0] == '\0' ? json_null() : status_text(text);
}

json_t *
status_seconds(uint64_t ns)
{
	return json_real((double)((ns + NS_PER_MSEC / 2) / NS_PER_MSEC) / 1e3);
}

static json_t *
seconds_between(uint64_t from_ns, uint64_t to_ns)
{
	return status_seconds(to_ns > from_ns ? to_ns - from_ns : 0);
}

static json_t *
pid_or_null(pid_t pid)
{
	return pid > 0 ? json_integer(pid) : json_null();
}

static json_t *
count_or_null(uint64_t n)
{
	return n > 0 ? json_integer((json_int_t)n) : json_null();
}

int64_t
status_wall_ms(uint64_t at_ns, uint64_t now_ns)
{
	struct timespec ts;
	uint64_t ns;

	clock_gettime(CLOCK_REALTIME, &ts);
	ns = (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec - (now_ns - at_ns);
	return (int64_t)(ns / NS_PER_MSEC);
}

json_t *
status_wall_time(int64_t wall_ms)
{
	char text[64], seconds[32];
	time_t s = (time_t)(wall_ms / 1000);
	struct tm tm;

	gmtime_r(&s, &tm);
	strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%03dZ", seconds, (int)(wall_ms % 1000));
	return json_string(text);
}

json_t *
status_time(uint64_t at_ns, uint64_t now_ns)
{
	return status_wall_time(status_wall_ms(at_ns, now_ns));
}

static json_t *
progress_json(const struct progress *progress)
{
	return json_pack(
	    "{s:I, s:o, s:o, s:o, s:o}", "done", (json_int_t)progress->done, "total",
	    count_or_null(progress->total), "unit", text_or_null(progress->unit), "bytes",
	    progress->bytes_total > 0 ? json_integer((json_int_t)progress->bytes) : json_null(),
	    "bytes_total", count_or_null(progress->bytes_total));
}

const char *
status_gpu(const struct status_source *source, int rank)
{
	if (source->gpu == NULL || rank < 0)
		return NULL;
	return source->gpu(rank, source->arg);
}

json_t *
status_tail(const struct status_source *source, int rank, size_t max)
{
	const char *lines[TAIL_LOST_LINES];
	json_t *array = json_array();
	size_t n = 0;

	if (source->tail != NULL && rank >= 0)
		n = source->tail(rank, lines, max, source->arg);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, status_text(lines[i]));
	return array;
}

/* From the kernel's counters: no lock of the rank's memory is taken. */
static json_t *
rss_json(const struct rank *rank)
{
	unsigned long long size, resident;
	char path[64], text[128];
	ssize_t n;
	int fd;

	if (!rank_is_alive(rank))
		return json_null();
	snprintf(path, sizeof(path), "/proc/%ld/statm", (long)rank->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return json_null();
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return json_null();
	text[n] = '\0';
	if (sscanf(text, "%llu %llu", &size, &resident) != 2)
		return json_null();
	return json_integer((json_int_t)resident * sysconf(_SC_PAGESIZE));
}

static json_t *
rank_json(const struct status_source *source, int number, uint64_t now_ns)
{
	const struct rank *rank = &source->group->ranks[number];
	json_t *heard = json_null();

	if (rank->heard_ns != 0)
		heard = seconds_between(rank->heard_ns, now_ns);
	return json_pack("{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rank", number, "state",
			 rank_state_word(rank->state), "pid", pid_or_null(rank->pid), "gpu",
			 text_or_null(status_gpu(source, number)), "progress",
			 progress_json(&rank->progress), "status_text",
			 text_or_null(rank->status_text), "state_seconds",
			 seconds_between(rank->state_ns, now_ns), "last_heard_seconds", heard,
			 "rss_bytes", rss_json(rank));
}

static json_t *
ranks_json(const struct status_source *source, uint64_t now_ns)
{
	json_t *array = json_array();

	for (int i = 0; i < source->group->settings.world_size; i++)
		json_array_append_new(array, rank_json(source, i, now_ns));
	return array;
}

/* By the key of [group]: two bounds share a word. */
static json_t *
bounds_json(const struct group *group)
{
	json_t *object = json_object();

	for (int i = 0; i < BOUND_COUNT; i++)
		json_object_set_new(object, bound_key((enum bound)i),
				    status_seconds(group->settings.timeout_ns[i]));
	return object;
}

static json_t *
victims_json(const struct group *group)
{
	json_t *array = json_array();
	char cause[CAUSE_BYTES];

	for (int i = 0; i < group->settings.world_size; i++) {
		const struct rank *rank = &group->ranks[i];

		if (!rank->victim)
			continue;
		ending_to_string(rank->ending, cause, sizeof(cause));
		json_array_append_new(
		    array, json_pack("{s:i, s:s, s:b, s:o}", "rank", i, "cause", cause,
				     "killed_by_us", rank_killed_by_us(rank), "after_seconds",
				     seconds_between(group->loss.at_ns, rank->died_ns)));
	}
	return array;
}

static json_t *
exit_code_json(struct ending ending)
{
	return ending.how == ENDING_EXITED ? json_integer(ending.code) : json_null();
}

static json_t *
signal_json(struct ending ending)
{
	char name[32];

	if (ending.how != ENDING_KILLED)
		return json_null();
	signal_name(ending.code, name, sizeof(name));
	return json_string(name);
}

json_t *
status_reason(const struct status_source *source, uint64_t now_ns)
{
	const struct group *group = source->group;
	const struct loss *loss = &group->loss;
	bool one = loss->rank != NO_RANK;

	if (loss->reason == REASON_NONE)
		return json_null();
	return json_pack(
	    "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "name",
	    reason_word(loss->reason), "rank", one ? json_integer(loss->rank) : json_null(),
	    "cause", text_or_null(loss->cause), "phase",
	    one ? json_string(rank_state_word(loss->phase)) : json_null(), "bound",
	    loss->reason == REASON_RANK_TIMEOUT ? json_string(bound_word(loss->bound))
						: json_null(),
	    "detail", text_or_null(loss->detail), "exit_code", exit_code_json(loss->ending),
	    "signal", signal_json(loss->ending), "pid", pid_or_null(loss->pid), "gpu",
	    text_or_null(status_gpu(source, loss->rank)), "progress",
	    one ? progress_json(&loss->progress) : json_null(), "monotonic_ns",
	    (json_int_t)loss->at_ns, "time", status_time(loss->at_ns, now_ns), "victims",
	    victims_json(group), "log_tail", status_tail(source, loss->rank, TAIL_LOST_LINES));
}

static json_t *
waiting_json(const struct group *group, uint64_t now_ns)
{
	uint64_t from_ns, deadline_ns;
	enum bound bound;
	json_t *ranks;

	if (!waiting_span(group, &bound, &from_ns, &deadline_ns))
		return json_null();
	ranks = json_array();
	for (int i = 0; i < group->settings.world_size; i++)
		if (rank_is_late(group, i, bound))
			json_array_append_new(ranks, json_integer(i));
	return json_pack("{s:s, s:o, s:o, s:o}", "bound", bound_key(bound), "ranks", ranks,
			 "seconds", seconds_between(from_ns, now_ns), "of_seconds",
			 deadline_ns > from_ns ? status_seconds(deadline_ns - from_ns)
					       : json_null());
}

json_t *
status_json(const struct status_source *source, uint64_t now_ns)
{
	const struct group *group = source->group;
	bool go = group->go_ns != 0;

	json_t *status = json_pack(
	    "{s:s, s:s, s:s, s:b, s:i, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "group",
	    source->name, "state", group_state_word(group->state), "mode",
	    group->settings.job ? "job" : "service", "spoken", group->spoken, "epoch",
	    (int)group->epoch, "pid", pid_or_null(source->pid), "world_size",
	    group->settings.world_size, "reason", status_reason(source, now_ns), "go_seconds",
	    go ? seconds_between(group->started_ns, group->go_ns) : json_null(),
	    "ready_skew_seconds", go ? status_seconds(group->skew_ns) : json_null(), "bounds",
	    bounds_json(group), "waiting", waiting_json(group, now_ns), "ranks",
	    ranks_json(source, now_ns));

	if (status != NULL && source->timeline != NULL)
		json_object_set_new(status, "timeline", timeline_json(source->timeline, now_ns));
	return status;
}

#include "supervisor/report.h"

#include "common/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX    ".json"
#define TEMPORARY ".new"

static int
exit_status(const struct group *group)
{
	return group->loss.reason != REASON_NONE ? reason_exit_status(group->loss.reason)
						 : group->exit_status;
}

static json_t *
ending_json(const struct rank *rank)
{
	char text[CAUSE_BYTES];

	if (!rank->died)
		return json_null();
	ending_to_string(rank->ending, text, sizeof(text));
	return json_string(text);
}

static json_t *
stack_json(const char *stack)
{
	json_t *lines = json_array();

	for (const char *p = stack; *p != '\0';) {
		size_t n = strcspn(p, "\n");

		json_array_append_new(lines, json_stringn(p, n));
		p += n + (p[n] == '\n');
	}
	return lines;
}

/* Where it was stuck: the state letter of proc(5), what it waited in, its kernel stack. */
static json_t *
evidence_json(const struct status_source *source, int rank)
{
	const struct evidence *e =
	    source->evidence == NULL ? NULL : source->evidence(rank, source->arg);
	char state[2] = {e == NULL ? '\0' : e->state, '\0'};

	if (state[0] == '\0')
		return json_null();
	return json_pack("{s:s, s:s, s:o}", "state", state, "wait_channel", e->wait_channel,
			 "stack", stack_json(e->stack));
}

static void
add_to_ranks(const struct status_source *source, json_t *ranks)
{
	json_t *rank;
	size_t i;

	json_array_foreach(ranks, i, rank)
	{
		const struct rank *state = &source->group->ranks[i];

		json_object_set_new(rank, "phase", json_string(rank_state_word(state->phase)));
		json_object_set_new(rank, "ending", ending_json(state));
		json_object_set_new(rank, "where", evidence_json(source, (int)i));
		if ((int)i != source->group->loss.rank)
			json_object_set_new(rank, "log_tail",
					    status_tail(source, (int)i, TAIL_OTHER_LINES));
	}
}

json_t *
report_json(const struct status_source *source, uint64_t now_ns)
{
	char line[REPORT_LINE_BYTES];
	json_t *report, *status;

	report_last_line(source, now_ns, line, sizeof(line));
	status = status_json(source, now_ns);
	report = json_pack(
	    "{s:o, s:i, s:o, s:o}", "message", status_text(line), "exit_status",
	    exit_status(source->group), "time", status_time(now_ns, now_ns), "lasted_seconds",
	    status_seconds(source->group->started_ns == 0 ? 0
							  : now_ns - source->group->started_ns));
	if (status == NULL || report == NULL || json_object_update(report, status) != 0) {
		json_decref(report);
		report = NULL;
	} else {
		add_to_ranks(source, json_object_get(report, "ranks"));
	}
	json_decref(status);
	return report;
}

static int
fail(const char *where, const char *file, char *error, size_t size)
{
	snprintf(error, size, "report %s%s%s: %s", where, where[0] != '\0' ? "/" : "", file,
		 strerror(errno));
	return -1;
}

/* Readers see the old document or the new one, never a part. */
static int
write_document(int dirfd, const char *where, const char *file, const json_t *report, char *error,
	       size_t size)
{
	char temporary[NAME_MAX + 1];
	bool written;
	char *text;
	int fd;

	snprintf(temporary, sizeof(temporary), ".%.200s" TEMPORARY, file);
	fd = openat(dirfd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(where, file, error, size);
	/* jansson itself writes a token at a time. */
	text = json_dumps(report, JSON_INDENT(1) | JSON_REAL_PRECISION(STATUS_DIGITS));
	written = text != NULL && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
		  write(fd, "\n", 1) == 1;
	free(text);
	if (close(fd) != 0 || !written || renameat(dirfd, temporary, dirfd, file) != 0) {
		fail(where, file, error, size);
		unlinkat(dirfd, temporary, 0);
		return -1;
	}
	return 0;
}

/* Commands run without a file are named run-PID: together they are one group to the archive. */
static size_t
family_length(const char *group)
{
	size_t digits = strncmp(group, "run-", 4) == 0 ? strspn(group + 4, "0123456789") : 0;

	return digits > 0 && group[4 + digits] == '\0' ? 4 : strlen(group);
}

static bool
same_family(const char *file, const char *group)
{
	size_t len = strcspn(file, ".");
	char other[NAME_MAX + 1];

	if (file[len] != '.' || len > NAME_MAX)
		return false;
	memcpy(other, file, len);
	other[len] = '\0';
	if (family_length(other) != strlen(other))
		return family_length(group) != strlen(group);
	return strcmp(other, group) == 0;
}

/* Names are NAME.TIME-eEPOCH.json: the time sorts them. */
static int
newest_first(const struct dirent **a, const struct dirent **b)
{
	return strcmp(strchr((*b)->d_name, '.'), strchr((*a)->d_name, '.'));
}

static int
is_report(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return entry->d_name[0] != '.' && len > strlen(SUFFIX) &&
	       strcmp(entry->d_name + len - strlen(SUFFIX), SUFFIX) == 0;
}

int
report_list(const char *state_dir, const char *group, struct report_names *names)
{
	struct dirent **entries;
	int n;

	names->n = 0;
	names->v = NULL;
	n = scandir(state_dir, &entries, is_report, newest_first);
	if (n < 0)
		return errno == ENOENT ? 0 : -1;
	names->v = calloc((size_t)n + 1, sizeof(*names->v));
	for (int i = 0; i < n; i++) {
		if (names->v != NULL && (group == NULL || same_family(entries[i]->d_name, group)))
			names->v[names->n++] = strdup(entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return names->v != NULL ? 0 : -1;
}

void
report_list_free(struct report_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->v[i]);
	free(names->v);
}

static void
remove_oldest(int dirfd, const char *state_dir, const char *group)
{
	struct report_names names;

	if (report_list(state_dir, group, &names) == 0) {
		for (size_t i = REPORT_KEEP; i < names.n; i++)
			unlinkat(dirfd, names.v[i], 0);
	}
	report_list_free(&names);
}

int
report_save(const char *state_dir, const json_t *report, char *error, size_t size)
{
	const char *group, *time;
	char file[NAME_MAX + 1], *colon;
	int dirfd, epoch, r;

	group = json_string_value(json_object_get(report, "group"));
	time = json_string_value(json_object_get(report, "time"));
	epoch = (int)json_integer_value(json_object_get(report, "epoch"));
	dirfd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return fail("", state_dir, error, size);
	snprintf(file, sizeof(file), "%.64s.%.32s-e%d" SUFFIX, group, time, epoch);
	/* File names with colons do not survive every archive. */
	while ((colon = strchr(file, ':')) != NULL)
		*colon = '_';
	r = write_document(dirfd, state_dir, file, report, error, size);
	if (r == 0)
		remove_oldest(dirfd, state_dir, group);
	close(dirfd);
	return r;
}

/* The message and the reason, without what makes them long until they fit. */
static char *
short_text(const json_t *report)
{
	static const char *const dispensable[] = {"", "log_tail", "victims", "detail", "cause"};
	json_t *reason, *small;
	char *text = NULL;

	reason = json_deep_copy(json_object_get(report, "reason"));
	small = json_pack(
	    "{s:O?, s:O?, s:O?, s:O?, s:o?}", "message", json_object_get(report, "message"),
	    "group", json_object_get(report, "group"), "epoch", json_object_get(report, "epoch"),
	    "exit_status", json_object_get(report, "exit_status"), "reason", reason);
	for (size_t i = 0; i < sizeof(dispensable) / sizeof(dispensable[0]); i++) {
		free(text);
		json_object_del(reason, dispensable[i]);
		text = json_dumps(small, JSON_COMPACT | JSON_REAL_PRECISION(STATUS_DIGITS));
		if (text == NULL || strlen(text) <= REPORT_TERMINATION_BYTES)
			break;
	}
	json_decref(small);
	return text;
}

int
report_termination(const char *path, const json_t *report, char *error, size_t size)
{
	struct stat st;
	size_t len;
	char *text;
	int fd, r;

	fd = open(path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : fail("", path, error, size);
	text = short_text(report);
	len = text == NULL ? 0 : strnlen(text, REPORT_TERMINATION_BYTES);
	r = fstat(fd, &st);
	if (r == 0 && S_ISREG(st.st_mode))
		r = ftruncate(fd, 0) != 0 || write(fd, text, len) != (ssize_t)len ? -1 : 0;
	if (r != 0)
		fail("", path, error, size);
	free(text);
	close(fd);
	return r;
}

void
report_news(const struct status_source *source, const struct rundir *dir, uint64_t now_ns)
{
	char error[RUNDIR_ERROR_BYTES];
	json_t *report = report_json(source, now_ns);

	if (report == NULL)
		log_warnx("no report: out of memory");
	else if (write_document(dir->fd, dir->path, RUNDIR_REPORT, report, error, sizeof(error)) !=
		 0)
		log_warnx("%s", error);
	json_decref(report);
}

void
report_end(const struct status_source *source, const struct rundir *dir, uint64_t now_ns)
{
	char error[RUNDIR_ERROR_BYTES], state_dir[PATH_MAX];
	json_t *report = report_json(source, now_ns);

	if (report == NULL) {
		log_warnx("no report: out of memory");
		return;
	}
	if (dir->fd >= 0 &&
	    write_document(dir->fd, dir->path, RUNDIR_REPORT, report, error, sizeof(error)) != 0)
		log_warnx("%s", error);
	/* Without the group's folder we never were the group: its record is not ours to write. */
	if (dir->fd >= 0 && (statedir_make(state_dir, error, sizeof(error)) != 0 ||
			     report_save(state_dir, report, error, sizeof(error)) != 0))
		log_warnx("%s", error);
	if (report_termination(REPORT_TERMINATION_LOG, report, error, sizeof(error)) != 0)
		log_warnx("%s", error);
	json_decref(report);
}

/* What is known of a rank's end beside its status: its own error file, its exit words, the kernel.
 */
#include "supervisor/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#define SIGRTMIN_KERNEL  32
#define ERROR_FILE_BYTES (64 * 1024)

static void
error_file_name(int rank, char *name, size_t size)
{
	snprintf(name, size, "error-%d.json", rank);
}

/* As torch's record() writes it: {"message": {"message": TEXT, ...}} or {"message": TEXT}. */
static const char *
error_message(const json_t *root)
{
	const json_t *message = json_object_get(root, "message");

	if (json_is_object(message))
		message = json_object_get(message, "message");
	return json_string_value(message);
}

/* The first line of what the rank wrote into its TORCHELASTIC_ERROR_FILE. */
static bool
read_error_file(struct supervisor *s, int rank)
{
	struct rank_io *io = &s->ranks[rank];
	char name[32], *text;
	json_t *root = NULL;
	ssize_t n = 0;
	int fd;

	error_file_name(rank, name, sizeof(name));
	fd = openat(s->rundir.fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	if ((text = malloc(ERROR_FILE_BYTES)) != NULL && (n = read(fd, text, ERROR_FILE_BYTES)) > 0)
		root = json_loadb(text, (size_t)n, 0, NULL);
	close(fd);
	free(text);
	if (root != NULL && error_message(root) != NULL)
		message_to_string(error_message(root), strcspn(error_message(root), "\n"), io->note,
				  sizeof(io->note));
	json_decref(root);
	return io->note[0] != '\0';
}

/* `70:peer lost, 3:stalled` says what the program's own exit codes mean. */
static bool
find_exit_word(const char *words, int code, char *out, size_t size)
{
	for (const char *p = words; p != NULL && *p != '\0';) {
		size_t n = strcspn(p, ",");
		const char *colon = memchr(p, ':', n);

		if (colon != NULL && strtol(p, NULL, 10) == code) {
			snprintf(out, size, "%.*s", (int)(p + n - colon - 1), colon + 1);
			return true;
		}
		p += n;
		p += strspn(p, ", ");
	}
	return false;
}

const char *
supervisor_note(struct supervisor *s, int rank, struct ending ending)
{
	const struct worker_settings *worker = config_worker(s->config, rank);
	struct rank_io *io = &s->ranks[rank];
	bool ours = s->group.ranks[rank].sent_signals != 0;

	io->note[0] = '\0';
	if (ours || (ending.how == ENDING_EXITED && ending.code == 0))
		return NULL;
	if (read_error_file(s, rank))
		return io->note;
	if (ending.how == ENDING_EXITED &&
	    find_exit_word(worker->exit_words, ending.code, io->note, sizeof(io->note)))
		return io->note;
	/* Of those that are passed on none is a real-time signal. */
	if (ending.how == ENDING_KILLED && ending.code < SIGRTMIN_KERNEL &&
	    (io->passed_signals & UINT64_C(1) << ending.code) != 0)
		return "sent to the supervisor, which passes it on to every rank";
	/* A SIGKILL that is not ours: the control group tells whether it was for want of memory. */
	if (ending.how == ENDING_KILLED && ending.code == SIGKILL && oom_has_killed(&s->oom))
		return "out of memory: the kernel killed in this control group";
	return NULL;
}

int
supervisor_open_error_file(struct supervisor *s, int rank, const struct spawn_user *user)
{
	char name[32];
	int fd;

	error_file_name(rank, name, sizeof(name));
	unlinkat(s->rundir.fd, name, 0);
	/* Our own ranks make it when they need it; others may not write into our folder. */
	if (user == NULL)
		return 0;
	fd = openat(s->rundir.fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	if (fchmod(fd, 0600) != 0 || fchown(fd, user->uid, user->gid) != 0) {
		close(fd);
		return -1;
	}
	return close(fd);
}

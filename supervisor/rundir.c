#include "supervisor/rundir.h"

#include "common/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PID_NEW      RUNDIR_PID ".new"
#define DEPTH_MAX    16  /* folders within a group's folder */
#define ATTEMPTS_MAX 100 /* each but the last was undone by a supervisor that ended just then */

enum outcome { DONE, AGAIN, FAILED };

static const char *
group_name(const struct rundir *dir)
{
	return strrchr(dir->path, '/') + 1;
}

static enum outcome
fail(const struct rundir *dir, const char *what, char *error, size_t size)
{
	snprintf(error, size, "%s%s: %s", dir->path, what, strerror(errno));
	return FAILED;
}

static bool
is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Reads a folder from its start; NULL with errno set. */
static DIR *
list_folder(int fd)
{
	DIR *list = NULL;
	int copy;

	copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (copy >= 0 && (list = fdopendir(copy)) == NULL)
		close(copy);
	return list;
}

static int remove_below(int fd, const char *keep, int depth);

static int
remove_folder(int fd, const char *name, int depth)
{
	struct stat outer, inner;
	int below, removed = -1;

	below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (below < 0)
		return -1;
	/* A file system mounted below us is not ours to empty. */
	if (fstat(fd, &outer) == 0 && fstat(below, &inner) == 0 && outer.st_dev == inner.st_dev)
		removed = remove_below(below, NULL, depth + 1);
	close(below);
	if (unlinkat(fd, name, AT_REMOVEDIR) != 0)
		return -1;
	return removed < 0 ? 1 : removed + 1;
}

/* Removes everything in the folder but `keep`. How many files; -1 with errno if one remains. */
static int
remove_below(int fd, const char *keep, int depth)
{
	const struct dirent *entry;
	int n, removed = 0, failed = 0;
	DIR *list;

	if (depth > DEPTH_MAX || (list = list_folder(fd)) == NULL)
		return -1;
	while ((entry = readdir(list)) != NULL) {
		if (is_dots(entry->d_name) || (keep != NULL && strcmp(entry->d_name, keep) == 0))
			continue;
		n = unlinkat(fd, entry->d_name, 0) == 0 || errno == ENOENT ? 1 : -1;
		if (n < 0 && errno == EISDIR)
			n = remove_folder(fd, entry->d_name, depth);
		if (n < 0)
			failed = errno;
		else
			removed += n;
	}
	closedir(list);
	errno = failed;
	return failed != 0 ? -1 : removed;
}

/* What a folder holds: nothing, something with a pid file, or something that is not ours. */
static int
count_files(int fd, bool *ours)
{
	const struct dirent *entry;
	int n = 0;
	DIR *list;

	*ours = false;
	list = list_folder(fd);
	if (list == NULL)
		return -1;
	while ((entry = readdir(list)) != NULL) {
		if (is_dots(entry->d_name))
			continue;
		n++;
		if (strcmp(entry->d_name, RUNDIR_PID) == 0 || strcmp(entry->d_name, PID_NEW) == 0)
			*ours = true;
	}
	closedir(list);
	return n;
}

/* The pid in the folder's pid file, 0 if there is none to read. */
static long
read_pid(int fd)
{
	char text[32];
	ssize_t n;
	int file;

	file = openat(fd, RUNDIR_PID, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
		return 0;
	n = read(file, text, sizeof(text) - 1);
	close(file);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return strtol(text, NULL, 10);
}

static enum outcome
refuse_live(const struct rundir *dir, char *error, size_t size)
{
	long pid = read_pid(dir->fd);

	if (pid > 0) {
		snprintf(
		    error, size,
		    "group %s is already running: pid %ld holds %s; stop it or choose another name",
		    group_name(dir), pid, dir->path);
	} else {
		snprintf(error, size,
			 "group %s is being started or ended by another supervisor, which holds %s",
			 group_name(dir), dir->path);
	}
	return FAILED;
}

/* The folder that we have locked may be one that its last owner has just removed. */
static bool
is_at_its_path(const struct rundir *dir)
{
	struct stat held, there;

	return fstat(dir->fd, &held) == 0 &&
	       fstatat(dir->base_fd, group_name(dir), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

static enum outcome
lock_folder(struct rundir *dir, char *error, size_t size)
{
	const char *name = group_name(dir);

	if (mkdirat(dir->base_fd, name, 0700) != 0 && errno != EEXIST)
		return errno == ENOENT ? AGAIN : fail(dir, "", error, size);
	dir->fd = openat(dir->base_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir->fd < 0)
		return errno == ENOENT ? AGAIN : fail(dir, "", error, size);
	if (flock(dir->fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno == EWOULDBLOCK)
			return refuse_live(dir, error, size);
		return fail(dir, " (lock)", error, size);
	}
	return is_at_its_path(dir) ? DONE : AGAIN;
}

static enum outcome
clean_folder(const struct rundir *dir, char *error, size_t size)
{
	struct stat st;
	long pid;
	bool ours;
	int n;

	if (fstat(dir->fd, &st) != 0)
		return fail(dir, "", error, size);
	if (st.st_uid != geteuid()) {
		snprintf(error, size, "%s belongs to uid %u, not to us (uid %u)", dir->path,
			 st.st_uid, geteuid());
		return FAILED;
	}
	n = count_files(dir->fd, &ours);
	if (n < 0)
		return fail(dir, "", error, size);
	if (n > 0 && !ours) {
		snprintf(error, size,
			 "%s holds files that no supervisor left there: remove it or choose "
			 "another run directory",
			 dir->path);
		return FAILED;
	}
	pid = read_pid(dir->fd);
	/* The pid file goes last: what marks the folder as ours must outlive the rest. */
	if (fchmod(dir->fd, 0700) != 0 || remove_below(dir->fd, RUNDIR_PID, 0) < 0 ||
	    (unlinkat(dir->fd, RUNDIR_PID, 0) != 0 && errno != ENOENT))
		return fail(dir, " (cleaning what was left there)", error, size);
	if (n > 0)
		log_info("cleaned %s: %d %s left by a supervisor that is gone (pid %ld)", dir->path,
			 n, n == 1 ? "file" : "files", pid);
	return DONE;
}

/* Under its name the file is whole and locked from its first moment on. */
static enum outcome
write_pid(struct rundir *dir, pid_t pid, char *error, size_t size)
{
	dir->pid_fd = openat(dir->fd, PID_NEW, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (dir->pid_fd < 0 || flock(dir->pid_fd, LOCK_EX | LOCK_NB) != 0 ||
	    dprintf(dir->pid_fd, "%ld\n", (long)pid) < 0 ||
	    renameat(dir->fd, PID_NEW, dir->fd, RUNDIR_PID) != 0)
		return fail(dir, "/" RUNDIR_PID, error, size);
	return DONE;
}

static enum outcome
make_base(struct rundir *dir, const char *base, char *error, size_t size)
{
	if (mkdir(base, 0711) == 0) {
		dir->made_base = true;
	} else if (errno != EEXIST) {
		snprintf(error, size, "run directory %s: %s", base, strerror(errno));
		return FAILED;
	}
	dir->base_fd = rundir_open_base(base, O_RDONLY, error, size);
	if (dir->base_fd < 0)
		return errno == ENOENT ? AGAIN : FAILED;
	/* Whatever the umask: ranks of another user pass through it. */
	if (dir->made_base && fchmod(dir->base_fd, 0711) != 0) {
		snprintf(error, size, "run directory %s: %s", base, strerror(errno));
		return FAILED;
	}
	return DONE;
}

static void
close_fds(struct rundir *dir)
{
	int *fds[] = {&dir->pid_fd, &dir->fd, &dir->base_fd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

static enum outcome
try_open(struct rundir *dir, const char *base, pid_t pid, char *error, size_t size)
{
	enum outcome outcome;

	outcome = make_base(dir, base, error, size);
	if (outcome == DONE)
		outcome = lock_folder(dir, error, size);
	if (outcome == DONE)
		outcome = clean_folder(dir, error, size);
	if (outcome == DONE && (outcome = write_pid(dir, pid, error, size)) == FAILED)
		rundir_close(dir);
	if (outcome != DONE)
		close_fds(dir);
	return outcome;
}

int
rundir_open(struct rundir *dir, const char *option, const char *configured, const char *name,
	    pid_t pid, char *error, size_t size)
{
	char base[PATH_MAX], path[RUNDIR_SOCKET_BYTES];
	enum outcome outcome = AGAIN;
	int n;

	*dir = (struct rundir){.fd = -1, .base_fd = -1, .pid_fd = -1};
	if (rundir_base(base, option, configured, error, size) != 0)
		return -1;
	n = snprintf(dir->path, sizeof(dir->path), "%s/%s", base, name);
	if (n < 0 || (size_t)n >= sizeof(dir->path)) {
		snprintf(error, size, "run directory %.100s...: %s", base, strerror(ENAMETOOLONG));
		return -1;
	}
	if (rundir_socket_path(dir, RUNDIR_HEALTH_SOCKET, path, error, size) != 0)
		return -1;
	for (int i = 0; i < ATTEMPTS_MAX && outcome == AGAIN; i++)
		outcome = try_open(dir, base, pid, error, size);
	if (outcome == AGAIN)
		snprintf(error, size, "%s cannot be created: it vanishes again and again",
			 dir->path);
	if (outcome != DONE && dir->made_base)
		rmdir(base);
	return outcome == DONE ? 0 : -1;
}

static void
remove_base(struct rundir *dir)
{
	char *slash = strrchr(dir->path, '/');

	*slash = '\0';
	if (rmdir(dir->path) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT)
		log_warn("run directory %s cannot be removed", dir->path);
	*slash = '/';
}

void
rundir_close(struct rundir *dir)
{
	if (dir->fd < 0)
		return;
	if (remove_below(dir->fd, RUNDIR_PID, 0) < 0)
		log_warn("%s cannot be emptied", dir->path);
	unlinkat(dir->fd, RUNDIR_PID, 0);
	/* The other process of ours may have removed it, and a new supervisor made its own. */
	if (is_at_its_path(dir) && unlinkat(dir->base_fd, group_name(dir), AT_REMOVEDIR) != 0)
		log_warn("%s cannot be removed", dir->path);
	if (dir->made_base)
		remove_base(dir);
	close_fds(dir);
}

void
rundir_forget(struct rundir *dir)
{
	close_fds(dir);
}

int
rundir_socket_path(const struct rundir *dir, const char *file, char path[RUNDIR_SOCKET_BYTES],
		   char *error, size_t size)
{
	int n;

	n = snprintf(path, RUNDIR_SOCKET_BYTES, "%s/%s", dir->path, file);
	if (n > 0 && n < RUNDIR_SOCKET_BYTES)
		return 0;
	snprintf(error, size,
		 "socket path %s/%s has %d bytes, of which the kernel takes %d: choose a shorter "
		 "--run-dir",
		 dir->path, file, n, RUNDIR_SOCKET_BYTES - 1);
	return -1;
}

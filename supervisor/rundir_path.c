#include "supervisor/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* systemd gives a list with colons; the first entry is ours. */
static int
first_of_list(const char *variable, char path[PATH_MAX])
{
	const char *value = getenv(variable);
	size_t len;

	if (value == NULL || value[0] != '/')
		return -1;
	len = strcspn(value, ":");
	if (len >= PATH_MAX)
		return -1;
	memcpy(path, value, len);
	path[len] = '\0';
	return 0;
}

static int
below_variable(const char *variable, const char *rest, char path[PATH_MAX])
{
	const char *value = getenv(variable);
	int n;

	if (value == NULL || value[0] != '/')
		return -1;
	n = snprintf(path, PATH_MAX, "%s/%s", value, rest);
	return n > 0 && n < PATH_MAX ? 0 : -1;
}

static int
make_absolute(const char *given, char path[PATH_MAX])
{
	char here[PATH_MAX];
	size_t len;
	int n;

	if (given[0] == '/')
		n = snprintf(path, PATH_MAX, "%s", given);
	else if (getcwd(here, sizeof(here)) == NULL)
		return -1;
	else
		n = snprintf(path, PATH_MAX, "%s/%s", here, given);
	if (n < 0 || n >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	for (len = (size_t)n; len > 1 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';
	return 0;
}

static bool
add_given(struct rundir_bases *bases, const char *given)
{
	if (given == NULL || given[0] == '\0' || make_absolute(given, bases->path[bases->n]) != 0)
		return false;
	bases->n++;
	return true;
}

void
rundir_bases(struct rundir_bases *bases, const char *option, const char *configured)
{
	bases->n = 0;
	if (option != NULL) {
		add_given(bases, option);
		return;
	}
	add_given(bases, configured);
	if (first_of_list("RUNTIME_DIRECTORY", bases->path[bases->n]) == 0)
		bases->n++;
	snprintf(bases->path[bases->n++], PATH_MAX, "/run/tfsupervisor");
	if (below_variable("XDG_RUNTIME_DIR", "tfsupervisor", bases->path[bases->n]) == 0)
		bases->n++;
	snprintf(bases->path[bases->n++], PATH_MAX, "/tmp/tfsupervisor-%u", geteuid());
}

int
rundir_base(char path[PATH_MAX], const char *option, const char *configured, char *error,
	    size_t size)
{
	const char *given = option != NULL ? option : configured;

	if (given != NULL) {
		if (given[0] != '\0' && make_absolute(given, path) == 0)
			return 0;
		snprintf(error, size, "run directory \"%s\": %s", given,
			 given[0] == '\0' ? "the path is empty" : strerror(errno));
		return -1;
	}
	if (first_of_list("RUNTIME_DIRECTORY", path) == 0)
		return 0;
	if (geteuid() == 0)
		snprintf(path, PATH_MAX, "/run/tfsupervisor");
	else if (below_variable("XDG_RUNTIME_DIR", "tfsupervisor", path) != 0)
		snprintf(path, PATH_MAX, "/tmp/tfsupervisor-%u", geteuid());
	return 0;
}

/* Who else may rename or remove what lies in the directory could plant a socket in our name. */
static int
check_owner(int fd, const char *path, char *error, size_t size)
{
	struct stat st;

	if (fstat(fd, &st) != 0) {
		snprintf(error, size, "run directory %s: %s", path, strerror(errno));
		return -1;
	}
	if (st.st_uid != geteuid() && st.st_uid != 0) {
		snprintf(error, size,
			 "run directory %s belongs to uid %u, neither to us (uid %u) nor to root",
			 path, st.st_uid, geteuid());
	} else if ((st.st_mode & S_ISVTX) == 0 &&
		   ((st.st_mode & S_IWOTH) != 0 ||
		    ((st.st_mode & S_IWGRP) != 0 && st.st_gid != getegid() && st.st_gid != 0))) {
		snprintf(error, size,
			 "run directory %s may be written by others (mode %04o): chmod go-w", path,
			 st.st_mode & 07777U);
	} else {
		return 0;
	}
	errno = EPERM;
	return -1;
}

/* A link is followed if only root or we can have made it. */
static int
open_directory(const char *path, int flags)
{
	struct stat st;
	int fd;

	fd = open(path, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 || (errno != ENOTDIR && errno != ELOOP))
		return fd;
	if (lstat(path, &st) != 0)
		return -1;
	if (!S_ISLNK(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0)) {
		errno = S_ISLNK(st.st_mode) ? EPERM : ENOTDIR;
		return -1;
	}
	return open(path, flags | O_DIRECTORY | O_CLOEXEC);
}

int
rundir_open_base(const char *path, int flags, char *error, size_t size)
{
	int fd, saved;

	fd = open_directory(path, flags);
	if (fd < 0) {
		saved = errno;
		snprintf(error, size, "run directory %s: %s", path, strerror(saved));
		errno = saved;
		return -1;
	}
	if (check_owner(fd, path, error, size) != 0) {
		saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

int
statedir_path(char path[PATH_MAX], char *error, size_t size)
{
	if (first_of_list("STATE_DIRECTORY", path) == 0)
		return 0;
	if (geteuid() == 0) {
		snprintf(path, PATH_MAX, "/var/lib/tfsupervisor");
		return 0;
	}
	if (below_variable("XDG_STATE_HOME", "tfsupervisor", path) == 0 ||
	    below_variable("HOME", ".local/state/tfsupervisor", path) == 0)
		return 0;
	snprintf(error, size,
		 "no state directory: none of STATE_DIRECTORY, XDG_STATE_HOME and HOME is an "
		 "absolute path");
	return -1;
}

int
statedir_make(char path[PATH_MAX], char *error, size_t size)
{
	char *slash;
	int r;

	if (statedir_path(path, error, size) != 0)
		return -1;
	for (slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		/* What stands in the way shows in the last mkdir. */
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	r = mkdir(path, 0700);
	if (r != 0 && errno != EEXIST) {
		snprintf(error, size, "state directory %s: %s", path, strerror(errno));
		return -1;
	}
	return 0;
}

/* Where a group is: every run directory is looked into, the first living one counts. */
#include "supervisor/client.h"

#include "common/log.h"
#include "supervisor/config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define CONFIG_FOLDER "/etc/tfsupervisor"
#define LISTED_BYTES  1024

/* What a search found besides what it looked for. */
struct search {
	const char *name;           /* NULL: whichever lives */
	struct client_group *group; /* the first that lives */
	int alive;
	char listed[LISTED_BYTES];        /* names of the living */
	char trouble[RUNDIR_ERROR_BYTES]; /* why a folder could not be looked into */
	long dead_pid;                    /* of a leftover with this name */
};

static bool
is_name(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= GROUP_NAME_MAX_BYTES &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") ==
		   len;
}

/* The pid file is locked from its first moment until its group's tree is empty. */
static bool
is_locked(int pid_fd)
{
	if (flock(pid_fd, LOCK_SH | LOCK_NB) != 0)
		return errno == EWOULDBLOCK;
	flock(pid_fd, LOCK_UN);
	return false;
}

static long
read_pid(int pid_fd)
{
	char text[32];
	ssize_t n = pread(pid_fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return strtol(text, NULL, 10);
}

static void
note_alive(struct search *search, const char *base, const char *name, int pid_fd)
{
	size_t len = strlen(search->listed);

	snprintf(search->listed + len, sizeof(search->listed) - len, "%s%s", len > 0 ? ", " : "",
		 name);
	if (search->alive++ > 0) {
		close(pid_fd);
		return;
	}
	snprintf(search->group->name, sizeof(search->group->name), "%s", name);
	snprintf(search->group->path, sizeof(search->group->path), "%.*s/%s",
		 (int)(PATH_MAX - CLIENT_NAME_BYTES - 2), base, name);
	search->group->pid_fd = pid_fd;
	search->group->pid = read_pid(pid_fd);
}

static void
look_at(struct search *search, int base_fd, const char *base, const char *name)
{
	char path[CLIENT_NAME_BYTES + sizeof(RUNDIR_PID) + 1];
	int pid_fd;

	snprintf(path, sizeof(path), "%.*s/" RUNDIR_PID, CLIENT_NAME_BYTES - 1, name);
	pid_fd = openat(base_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (pid_fd < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			snprintf(search->trouble, sizeof(search->trouble), "%.400s/%s: %s", base,
				 path, strerror(errno));
	} else if (is_locked(pid_fd)) {
		note_alive(search, base, name, pid_fd);
	} else {
		search->dead_pid = read_pid(pid_fd);
		close(pid_fd);
	}
}

static void
look_at_all(struct search *search, int base_fd, const char *base)
{
	const struct dirent *entry;
	DIR *list = NULL;
	int fd;

	fd = openat(base_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && (list = fdopendir(fd)) == NULL)
		close(fd);
	if (list == NULL) {
		snprintf(search->trouble, sizeof(search->trouble), "%.400s: %s", base,
			 strerror(errno));
		return;
	}
	while ((entry = readdir(list)) != NULL)
		if (is_name(entry->d_name))
			look_at(search, base_fd, base, entry->d_name);
	closedir(list);
}

static void
look_in(struct search *search, const char *base)
{
	char error[RUNDIR_ERROR_BYTES];
	int fd;

	fd = rundir_open_base(base, O_PATH, error, sizeof(error));
	if (fd < 0) {
		if (errno != ENOENT)
			snprintf(search->trouble, sizeof(search->trouble), "%s", error);
		return;
	}
	if (search->name != NULL)
		look_at(search, fd, base, search->name);
	else
		look_at_all(search, fd, base);
	close(fd);
}

/* run_dir of /etc/tfsupervisor/NAME.ini; the caller frees it. NULL if there is none. */
static char *
configured_run_dir(const char *name)
{
	char path[PATH_MAX], *run_dir = NULL;
	struct config_error error;
	struct config config;

	if (name == NULL || !is_name(name))
		return NULL;
	snprintf(path, sizeof(path), CONFIG_FOLDER "/%s.ini", name);
	if (access(path, R_OK) == 0 && config_load(path, NULL, 0, &config, &error) == 0) {
		if (config.run_dir != NULL)
			run_dir = strdup(config.run_dir);
		config_free(&config);
	}
	return run_dir;
}

static bool
seen_before(const struct rundir_bases *bases, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(bases->path[i], bases->path[n]) == 0)
			return true;
	return false;
}

static void
look_everywhere(struct search *search, const struct rundir_bases *bases)
{
	for (size_t i = 0; i < bases->n; i++)
		if (!seen_before(bases, i) && (search->name == NULL || search->alive == 0))
			look_in(search, bases->path[i]);
}

static void
tell_places(const struct rundir_bases *bases)
{
	char places[RUNDIR_ERROR_BYTES] = "";
	size_t len = 0;

	for (size_t i = 0; i < bases->n && len < sizeof(places); i++)
		if (!seen_before(bases, i))
			len += (size_t)snprintf(places + len, sizeof(places) - len, "%s%s",
						len > 0 ? ", " : "", bases->path[i]);
	log_warnx("looked in %s", places);
}

static void
tell_absent(const struct search *search, const struct rundir_bases *bases)
{
	if (search->name == NULL)
		log_warnx("no group is running");
	else if (search->dead_pid != 0)
		log_warnx("group %s is not running: its supervisor (pid %ld) is gone", search->name,
			  search->dead_pid);
	else
		log_warnx("there is no group %s", search->name);
	if (search->trouble[0] != '\0')
		log_warnx("%s", search->trouble);
	tell_places(bases);
}

static int
find(const char *run_dir, const char *name, struct client_group *group, bool tell)
{
	struct search search = {.name = name, .group = group};
	struct rundir_bases bases;
	char *configured = configured_run_dir(name);

	rundir_bases(&bases, run_dir, configured);
	free(configured);
	if (name == NULL || is_name(name))
		look_everywhere(&search, &bases);
	if (search.alive == 1)
		return 0;
	if (search.alive > 1) {
		client_close(group);
		if (tell)
			log_warnx("several groups are running, name one: %s", search.listed);
		return CLIENT_SEVERAL;
	} else if (tell) {
		tell_absent(&search, &bases);
	}
	return -1;
}

int
client_find(const char *run_dir, const char *name, struct client_group *group)
{
	return find(run_dir, name, group, true);
}

int
client_look(const char *run_dir, const char *name, struct client_group *group)
{
	return find(run_dir, name, group, false);
}

void
client_close(struct client_group *group)
{
	close(group->pid_fd);
}

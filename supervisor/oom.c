#include "supervisor/oom.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CGROUP_ROOT   "/sys/fs/cgroup"
#define COUNTER_BYTES 512

/* A line is "ID:CONTROLLERS:PATH"; version 2 has no controllers in it. */
bool
oom_path(FILE *cgroup, const char *root, char *path, size_t size)
{
	char line[PATH_MAX], *controllers, *folder;
	bool found = false;

	while (!found && fgets(line, sizeof(line), cgroup) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if ((controllers = strchr(line, ':')) == NULL ||
		    (folder = strchr(++controllers, ':')) == NULL)
			continue;
		*folder++ = '\0';
		if (strcmp(controllers, "memory") == 0) {
			snprintf(path, size, "%s/memory%s/memory.oom_control", root, folder);
			found = true;
		} else if (controllers[0] == '\0') {
			snprintf(path, size, "%s%s/memory.events", root, folder);
			found = access(path, R_OK) == 0;
		}
	}
	return found;
}

uint64_t
oom_count(const char *text)
{
	static const char word[] = "oom_kill ";

	for (const char *p = text; p != NULL; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, word, strlen(word)) == 0)
			return strtoull(p + strlen(word), NULL, 10);
	}
	return 0;
}

static uint64_t
read_count(const struct oom *oom)
{
	char text[COUNTER_BYTES];
	ssize_t n = oom->fd < 0 ? 0 : pread(oom->fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return oom_count(text);
}

void
oom_open(struct oom *oom)
{
	static const char *const roots[] = {CGROUP_ROOT "/memory.events",
					    CGROUP_ROOT "/memory/memory.oom_control"};
	FILE *cgroup = fopen("/proc/self/cgroup", "re");
	char path[PATH_MAX];

	oom->fd = -1;
	if (cgroup == NULL)
		return;
	if (oom_path(cgroup, CGROUP_ROOT, path, sizeof(path)))
		oom->fd = open(path, O_RDONLY | O_CLOEXEC);
	/* In a container the path may be the host's, and the root mounted here our own group. */
	for (size_t i = 0; oom->fd < 0 && i < sizeof(roots) / sizeof(roots[0]); i++)
		oom->fd = open(roots[i], O_RDONLY | O_CLOEXEC);
	fclose(cgroup);
	oom->kills = read_count(oom);
}

bool
oom_has_killed(struct oom *oom)
{
	uint64_t kills = read_count(oom);
	bool more = kills > oom->kills;

	oom->kills = kills;
	return more;
}

void
oom_close(struct oom *oom)
{
	if (oom->fd >= 0)
		close(oom->fd);
	oom->fd = -1;
}

#include "supervisor/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STAT_BYTES        1024
#define STATUS_LINE_BYTES 256
#define PF_EXITING        0x4u /* of the kernel's task flags */

/* Fields of /proc/PID/stat by their number in proc(5). */
#define FIELD_STATE     3
#define FIELD_PARENT    4
#define FIELD_FLAGS     9
#define FIELD_THREADS   20
#define FIELD_EXIT_CODE 52

/* The text of the given field, NULL if there is none. The command in field 2 may hold anything. */
static const char *
find_field(const char *stat, int field)
{
	const char *p = strrchr(stat, ')');

	for (int i = FIELD_STATE; p != NULL && i <= field; i++)
		if ((p = strchr(p, ' ')) != NULL)
			p++;
	return p;
}

static bool
read_stat(pid_t pid, char stat[STAT_BYTES])
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		return false;
	n = read(fd, stat, STAT_BYTES - 1);
	close(fd);
	if (n <= 0)
		return false;
	stat[n] = '\0';
	return true;
}

static bool
read_number(const char *stat, int field, long *out)
{
	const char *p = find_field(stat, field);

	if (p == NULL)
		return false;
	*out = strtol(p, NULL, 10);
	return true;
}

struct ending
ending_from_status(int status)
{
	if (WIFSIGNALED(status))
		return (struct ending){ENDING_KILLED, WTERMSIG(status)};
	return (struct ending){ENDING_EXITED, WEXITSTATUS(status)};
}

struct ending
ending_from_siginfo(int code, int status)
{
	if (code == CLD_EXITED)
		return (struct ending){ENDING_EXITED, status};
	return (struct ending){ENDING_KILLED, status};
}

enum proc_news
proc_news(pid_t pid, struct ending *ending)
{
	char stat[STAT_BYTES];
	long flags, threads, code;

	if (!read_stat(pid, stat) || !read_number(stat, FIELD_FLAGS, &flags) ||
	    !read_number(stat, FIELD_THREADS, &threads) ||
	    !read_number(stat, FIELD_EXIT_CODE, &code))
		return PROC_UNREADABLE;
	if (((unsigned long)flags & PF_EXITING) == 0)
		return PROC_LIVES;
	/* 0 may also mean that another thread's exit is still on its way. */
	if (code == 0 && threads > 1)
		return PROC_UNSURE;
	*ending = ending_from_status((int)code);
	return PROC_ENDS;
}

char
proc_state(pid_t pid)
{
	char stat[STAT_BYTES];
	const char *p;

	if (!read_stat(pid, stat) || (p = find_field(stat, FIELD_STATE)) == NULL)
		return 0;
	return *p;
}

static unsigned long long
read_signals(FILE *file)
{
	char line[STATUS_LINE_BYTES];
	unsigned long long pending = 0, one;

	while (fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "SigPnd: %llx", &one) == 1 ||
		    sscanf(line, "ShdPnd: %llx", &one) == 1)
			pending |= one;
	return pending;
}

bool
proc_has_pending(pid_t pid, int signal)
{
	unsigned long long pending;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if ((file = fopen(path, "re")) == NULL)
		return false;
	pending = read_signals(file);
	fclose(file);
	return (pending >> (signal - 1) & 1) != 0;
}

pid_t
proc_parent(pid_t pid)
{
	char stat[STAT_BYTES];
	long parent;

	if (!read_stat(pid, stat) || !read_number(stat, FIELD_PARENT, &parent))
		return -1;
	return (pid_t)parent;
}

/* Adds the pids in a children file to pids[], from index n on. */
static size_t
read_children(const char *path, pid_t *pids, size_t max, size_t n)
{
	FILE *file = fopen(path, "re");
	int pid;

	if (file == NULL)
		return n;
	while (fscanf(file, "%d", &pid) == 1) {
		if (n < max)
			pids[n] = pid;
		n++;
	}
	fclose(file);
	return n;
}

static bool
is_number(const char *name)
{
	for (const char *p = name; *p != '\0'; p++)
		if (!isdigit((unsigned char)*p))
			return false;
	return name[0] != '\0';
}

/* For kernels without the children files. */
static size_t
scan_children(pid_t parent, pid_t *pids, size_t max)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	size_t n = 0;

	if (dir == NULL)
		return 0;
	while ((entry = readdir(dir)) != NULL) {
		if (!is_number(entry->d_name) || proc_parent(atoi(entry->d_name)) != parent)
			continue;
		if (n < max)
			pids[n] = atoi(entry->d_name);
		n++;
	}
	closedir(dir);
	return n;
}

size_t
proc_children(pid_t pid, pid_t *pids, size_t max)
{
	char path[512];
	struct dirent *entry;
	size_t n = 0;
	DIR *dir;

	if (pid == 0)
		pid = getpid();
	if (access("/proc/thread-self/children", F_OK) != 0)
		return scan_children(pid, pids, max);
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	if ((dir = opendir(path)) == NULL)
		return 0;
	while ((entry = readdir(dir)) != NULL) {
		if (!is_number(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)pid,
			 entry->d_name);
		n = read_children(path, pids, max, n);
	}
	closedir(dir);
	return n;
}

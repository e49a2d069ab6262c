#include "supervisor/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Set aside by spawn_reserve(). */
#define SLOT_NULL   (STDERR_FILENO + 1)
#define SLOT_OUTPUT (STDERR_FILENO + 2)
#define SLOT_LINK   (STDERR_FILENO + 3)

#define CHILD_STACK_BYTES  (64 * 1024)
#define EXIT_SPAWN_FAILED  127
#define KERNEL_SIGSET_SIZE 8 /* bytes of the kernel's signal set */
#define DEFAULT_PATH       "/usr/local/bin:/usr/bin:/bin"

/* Shared with the child until it has its own program or is gone. */
struct child {
	const struct spawn_request *request;
	pid_t parent;
	const char *failed; /* the step, NULL: none */
	const char *file;   /* at fault, NULL: none */
	int error;
};

/*
 * The child runs on our memory: raw system calls only. The C library's wrappers would carry a
 * change of user to our threads, or take its locks.
 */
#define CHILD_CODE __attribute__((no_sanitize("address", "undefined", "thread")))

CHILD_CODE static long
call(long number, long a, long b, long c)
{
	return syscall(number, a, b, c, 0L);
}

CHILD_CODE static bool
fails(struct child *child, long result, const char *step, const char *file)
{
	if (result != -1)
		return false;
	child->failed = step;
	child->file = file;
	child->error = errno;
	return true;
}

CHILD_CODE static bool
limits_fail(struct child *child)
{
	const struct spawn_request *r = child->request;

	for (size_t i = 0; i < r->limits_len; i++) {
		struct rlimit limit = {r->limits[i].soft, r->limits[i].hard};
		long result = syscall(SYS_prlimit64, 0, r->limits[i].resource, &limit, NULL);

		if (fails(child, result, "[worker] limits", NULL))
			return true;
	}
	return false;
}

/* Until here the table of descriptors is the parent's, who waits; from here on it is ours. */
CHILD_CODE static bool
descriptors_fail_to_part(struct child *child)
{
	return call(SYS_close_range, SLOT_LINK + 1, ~0U, CLOSE_RANGE_UNSHARE) == -1 &&
	       fails(child, call(SYS_unshare, CLONE_FILES, 0, 0), "descriptors", NULL);
}

/* The link goes last and highest: what has the highest number is closed first at a death. */
CHILD_CODE static bool
descriptors_fail(struct child *child)
{
	int number = child->request->link_number;

	if (fails(child, call(SYS_dup3, SLOT_NULL, STDIN_FILENO, 0), "standard input", NULL) ||
	    fails(child, call(SYS_dup3, SLOT_OUTPUT, STDOUT_FILENO, 0), "standard output", NULL) ||
	    fails(child, call(SYS_dup3, SLOT_OUTPUT, STDERR_FILENO, 0), "standard error", NULL))
		return true;
	if (number != SLOT_LINK &&
	    fails(child, call(SYS_dup3, SLOT_LINK, number, 0), "link descriptor", NULL))
		return true;
	/* Before Linux 5.11 there is no such flag; all of ours are close-on-exec anyway. */
	call(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	return fails(child, call(SYS_fcntl, number, F_SETFD, 0), "link descriptor", NULL);
}

CHILD_CODE static bool
user_fails(struct child *child)
{
	const struct spawn_user *user = child->request->user;

	if (user == NULL)
		return false;
	return fails(child, call(SYS_setgroups, (long)user->groups_len, (long)user->groups, 0),
		     "[worker] user: setgroups", NULL) ||
	       fails(child, call(SYS_setresgid, user->gid, user->gid, user->gid),
		     "[worker] user: setresgid", NULL) ||
	       fails(child, call(SYS_setresuid, user->uid, user->uid, user->uid),
		     "[worker] user: setresuid", NULL);
}

/* A change of credentials clears it, so it comes after; the parent may have died before. */
CHILD_CODE static bool
parent_promise_fails(struct child *child)
{
	if (fails(child, call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0), "parent-death signal",
		  NULL))
		return true;
	if (call(SYS_getppid, 0, 0, 0) != child->parent) {
		errno = ESRCH;
		return fails(child, -1, "supervisor", NULL);
	}
	return false;
}

CHILD_CODE static bool
affinity_fails(struct child *child)
{
	const struct spawn_request *r = child->request;

	return r->cpus != NULL &&
	       fails(child, call(SYS_sched_setaffinity, 0, (long)r->cpus_size, (long)r->cpus),
		     "[worker] cpus", NULL);
}

/* We ignore SIGPIPE and were perhaps started with SIGCHLD ignored; a program expects neither. */
CHILD_CODE static void
reset_signals(void)
{
	static const int ours[] = {SIGPIPE, SIGCHLD, SIGXFSZ, SIGTTOU};
	unsigned char empty[KERNEL_SIGSET_SIZE] = {0};
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		unsigned long mask;
	} action = {0};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		syscall(SYS_rt_sigaction, ours[i], &action, NULL, KERNEL_SIGSET_SIZE);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, empty, NULL, KERNEL_SIGSET_SIZE);
}

CHILD_CODE static void
run_program(struct child *child)
{
	const struct spawn_request *r = child->request;
	const char *at_fault = r->path[0];
	int error = 0;

	for (char *const *file = r->path; *file != NULL; file++) {
		call(SYS_execve, (long)*file, (long)r->argv, (long)r->envp);
		/* As execvp does: what is not there does not hide what stands further on. */
		if (error == 0 || (errno != ENOENT && errno != ENOTDIR)) {
			error = errno;
			at_fault = *file;
		}
		if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
			break;
	}
	errno = error;
	fails(child, -1, "exec", at_fault);
}

CHILD_CODE static int
child_main(void *arg)
{
	struct child *child = arg;
	const char *directory = child->request->directory;

	if (descriptors_fail_to_part(child) ||
	    fails(child, call(SYS_setpgid, 0, 0, 0), "process group", NULL) || limits_fail(child) ||
	    descriptors_fail(child) || affinity_fails(child) || user_fails(child) ||
	    parent_promise_fails(child) ||
	    (directory != NULL &&
	     fails(child, call(SYS_chdir, (long)directory, 0, 0), "directory", directory)))
		call(SYS_exit_group, EXIT_SPAWN_FAILED, 0, 0);
	reset_signals();
	run_program(child);
	call(SYS_exit_group, EXIT_SPAWN_FAILED, 0, 0);
	return EXIT_SPAWN_FAILED;
}

static void *
child_stack(void)
{
	static void *stack;

	if (stack == NULL) {
		stack = mmap(NULL, CHILD_STACK_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
		if (stack == MAP_FAILED)
			stack = NULL;
	}
	return stack;
}

int
spawn_reserve(void)
{
	for (int slot = SLOT_NULL; slot <= SLOT_LINK; slot++) {
		int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

		/* Whatever somebody left open there is not for our ranks. */
		if (fd < 0 || (fd != slot && (dup3(fd, slot, O_CLOEXEC) < 0 || close(fd) != 0)))
			return -1;
	}
	return 0;
}

/* Nothing but the child's table may keep the far ends open, or their ends would go unseen. */
static void
clear_slots(void)
{
	dup3(SLOT_NULL, SLOT_OUTPUT, O_CLOEXEC);
	dup3(SLOT_NULL, SLOT_LINK, O_CLOEXEC);
}

int
spawn_rank(const struct spawn_request *request, struct spawned *out, char *error, size_t size)
{
	struct child child = {.request = request, .parent = getpid()};
	char *stack = child_stack();

	if (stack == NULL) {
		snprintf(error, size, "memory for a child: %s", strerror(errno));
		return -1;
	}
	if (dup3(request->output_fd, SLOT_OUTPUT, O_CLOEXEC) < 0 ||
	    dup3(request->link_fd, SLOT_LINK, O_CLOEXEC) < 0) {
		snprintf(error, size, "descriptors: %s", strerror(errno));
		return -1;
	}
	out->pidfd = -1;
	out->pid = clone(child_main, stack + CHILD_STACK_BYTES,
			 CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_PIDFD | SIGCHLD, &child,
			 &out->pidfd);
	if (out->pid < 0)
		snprintf(error, size, "fork: %s", strerror(errno));
	clear_slots();
	if (out->pid < 0)
		return -1;
	if (child.failed == NULL)
		return 0;
	if (child.error == ENOENT && request->path[0] != NULL && request->path[1] != NULL)
		snprintf(error, size, "exec %s: not found in PATH", request->argv[0]);
	else
		snprintf(error, size, "%s%s%s: %s", child.failed, child.file != NULL ? " " : "",
			 child.file != NULL ? child.file : "", strerror(child.error));
	close(out->pidfd);
	while (waitpid(out->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	return -1;
}

static const char *
path_variable(char *const *envp)
{
	for (; *envp != NULL; envp++)
		if (strncmp(*envp, "PATH=", 5) == 0)
			return *envp + 5;
	return DEFAULT_PATH;
}

char **
spawn_path(const char *command, char *const *envp)
{
	const char *folders = strchr(command, '/') != NULL ? NULL : path_variable(envp);
	size_t count = 1, n = 0;
	char **path;

	for (const char *p = folders; p != NULL && *p != '\0'; p++)
		count += *p == ':';
	if ((path = calloc(count + 1, sizeof(*path))) == NULL)
		return NULL;
	if (folders == NULL) {
		if ((path[0] = strdup(command)) == NULL)
			goto fail;
		return path;
	}
	for (const char *p = folders;; n++) {
		size_t len = strcspn(p, ":");

		/* An empty folder is the current one. */
		if (asprintf(&path[n], "%.*s/%s", len == 0 ? 1 : (int)len, len == 0 ? "." : p,
			     command) < 0) {
			path[n] = NULL;
			goto fail;
		}
		if (p[len] == '\0')
			return path;
		p += len + 1;
	}
fail:
	spawn_path_free(path);
	return NULL;
}

void
spawn_path_free(char **path)
{
	if (path == NULL)
		return;
	for (char **file = path; *file != NULL; file++)
		free(*file);
	free(path);
}

int
spawn_user_find(const char *name, struct spawn_user *user)
{
	const struct passwd *pw;
	int n = 64;

	memset(user, 0, sizeof(*user));
	errno = 0;
	if ((pw = getpwnam(name)) == NULL) {
		if (errno == 0)
			errno = ENOENT;
		return -1;
	}
	user->uid = pw->pw_uid;
	user->gid = pw->pw_gid;
	for (;;) {
		gid_t *groups = reallocarray(user->groups, (size_t)n, sizeof(*groups));
		int had = n;

		if (groups == NULL) {
			spawn_user_free(user);
			return -1;
		}
		user->groups = groups;
		if (getgrouplist(name, user->gid, groups, &n) >= 0)
			break;
		n = n > had ? n : 2 * had;
	}
	user->groups_len = (size_t)n;
	return 0;
}

void
spawn_user_free(struct spawn_user *user)
{
	free(user->groups);
	user->groups = NULL;
}

int
spawn_link_number(const struct worker_limit *limits, size_t limits_len)
{
	struct rlimit limit = {LINK_FD_HIGHEST + 1, LINK_FD_HIGHEST + 1};

	getrlimit(RLIMIT_NOFILE, &limit);
	for (size_t i = 0; i < limits_len; i++)
		if (limits[i].resource == RLIMIT_NOFILE)
			limit.rlim_cur = limits[i].soft;
	if (limit.rlim_cur > LINK_FD_HIGHEST + 1)
		return LINK_FD_HIGHEST;
	return (int)limit.rlim_cur - 1;
}

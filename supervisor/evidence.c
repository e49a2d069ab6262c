#include "supervisor/evidence.h"

#include "supervisor/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void
read_file(pid_t pid, const char *name, char *out, size_t size)
{
	char path[64];
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0) {
		n = read(fd, out, size - 1);
		close(fd);
	}
	out[n > 0 ? n : 0] = '\0';
}

/* "[<0>] futex_wait+0x12/0x34" becomes "futex_wait": addresses mean nothing to a reader. */
static void
keep_functions(char *stack)
{
	char *out = stack;

	for (char *line = stack, *next; line != NULL && *line != '\0'; line = next) {
		char *name = strstr(line, "] ");
		size_t n;

		if ((next = strchr(line, '\n')) != NULL)
			*next++ = '\0';
		name = name != NULL && (next == NULL || name < next) ? name + 2 : line;
		n = strcspn(name, "+ ");
		memmove(out, name, n);
		out += n;
		*out++ = '\n';
	}
	*out = '\0';
}

void
evidence_gather(pid_t pid, struct evidence *evidence)
{
	char stack[2 * EVIDENCE_STACK_BYTES];

	memset(evidence, 0, sizeof(*evidence));
	evidence->state = proc_state(pid);
	read_file(pid, "wchan", evidence->wait_channel, sizeof(evidence->wait_channel));
	if (strcmp(evidence->wait_channel, "0") == 0)
		evidence->wait_channel[0] = '\0';
	/* For root alone. */
	read_file(pid, "stack", stack, sizeof(stack));
	keep_functions(stack);
	snprintf(evidence->stack, sizeof(evidence->stack), "%.*s", EVIDENCE_STACK_BYTES - 1, stack);
}

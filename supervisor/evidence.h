/* Where a process is stuck: its state, what it waits in, and its kernel stack, as far as we may
 * see. */
#ifndef SUPERVISOR_EVIDENCE_H
#define SUPERVISOR_EVIDENCE_H

#include <sys/types.h>

#define EVIDENCE_CHANNEL_BYTES 64
#define EVIDENCE_STACK_BYTES   1024

struct evidence {
	char state; /* of proc(5): R, S, D, T, ...; 0: not to be read */
	char
	    wait_channel[EVIDENCE_CHANNEL_BYTES]; /* "" if it waits in none, or is not to be read */
	char stack[EVIDENCE_STACK_BYTES]; /* one function a line, innermost first; "" likewise */
};

/* Never fails: what cannot be read is empty. */
void evidence_gather(pid_t pid, struct evidence *evidence);

#endif

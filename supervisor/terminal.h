/*
 * What a person sees of a group that is starting. On a terminal: a bar per rank below the scrolling
 * lines, redrawn at most ten times a second and only when something changed. Elsewhere: every 30 s
 * a line that says who is waited for. Nothing is drawn and no timer runs once the group serves.
 */
#ifndef SUPERVISOR_TERMINAL_H
#define SUPERVISOR_TERMINAL_H

#include "supervisor/group.h"
#include "supervisor/writer.h"

#include <event2/event.h>

#define TERMINAL_FRAME_NS   (100 * NS_PER_MSEC) /* between two redraws, at least */
#define TERMINAL_TICK_NS    NS_PER_SEC          /* between two redraws, at most, while bars stand */
#define TERMINAL_WAITING_NS (30 * NS_PER_SEC)   /* between two waiting lines */
#define TERMINAL_PRIORITY   2

struct terminal;

/*
 * `group` and `writer` are the caller's and outlive the terminal; ranks[] may change only in
 * content. NULL if memory ran out.
 */
struct terminal *terminal_open(struct event_base *base, struct writer *writer,
			       const struct group *group);

/* After each turn of the loop in which the group changed. Cheap. */
void terminal_update(struct terminal *terminal, uint64_t now_ns);

/* One log line for a change of state, if there is something to say: see narrate.h. */
void terminal_transition(struct terminal *terminal, int rank, int from, int to, uint64_t now_ns);

/* Takes the bars away at once, until the next update: before we are stopped by job control. */
void terminal_hide(struct terminal *terminal);

/* Leaves the screen clean once the writer is flushed. NULL is nothing. */
void terminal_close(struct terminal *terminal);

#endif

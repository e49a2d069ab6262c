/* The group's story in lines for a tired operator. Pure: no I/O, no clock. */
#ifndef SUPERVISOR_NARRATE_H
#define SUPERVISOR_NARRATE_H

#include "supervisor/group.h"
#include "supervisor/progress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NARRATE_LINE_BYTES 1024

/*
 * The line for rank `rank` (from, to: enum rank_state) or for the group (rank NO_RANK; enum
 * group_state), after the step that changed it. False if there is nothing to say: some changes
 * are told by a line of the group's or by the report's last line.
 */
bool transition_line(const struct group *group, int rank, int from, int to, uint64_t now_ns,
		     char *out, size_t size);

/*
 * "waiting for rank 3: layer 31 of 48, about 40 s left, 3m10s of 10m". False while nobody is waited
 * for. histories[world_size].
 */
bool waiting_line(const struct group *group, const struct progress_history *histories,
		  uint64_t now_ns, char *out, size_t size);

/* The bound that runs now, with how much of it has passed: "3m10s of 10m"; "3m10s" if it is off. */
void waited_to_string(const struct group *group, uint64_t now_ns, char *out, size_t size);

/* The bound under which the group waits for ranks in its present state; false if it does not. */
bool waiting_bound(const struct group *group, enum bound *bound);

/*
 * The same with since when and until when, 0 if the bound is off; false too if no rank is late. See
 * rank_is_late() for who is waited for.
 */
bool waiting_span(const struct group *group, enum bound *bound, uint64_t *from_ns,
		  uint64_t *deadline_ns);

/* "0.3 s", "12.3 s", "3m10s", "2h5m"; and in whole seconds: "0s", "12s", "3m10s". */
void format_elapsed(uint64_t ns, char *out, size_t size);
void format_seconds(uint64_t ns, char *out, size_t size);

#endif

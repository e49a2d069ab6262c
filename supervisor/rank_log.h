/*
 * rank-N.log in the group's folder: the bytes a rank printed in this epoch, as they were, the
 * newest `cap` of them; there is no file before the first byte. At half the cap the file becomes
 * rank-N.log.1 and a new one begins. The files of the RANK_LOG_EPOCHS epochs before are kept as
 * rank-N.epoch-E.log and .log.1.
 */
#ifndef SUPERVISOR_RANK_LOG_H
#define SUPERVISOR_RANK_LOG_H

#include <stddef.h>
#include <stdint.h>

#define RANK_LOG_EPOCHS 3

struct rank_log;

/*
 * Starts the file of `epoch` in the folder `dirfd` (the caller's, open as long as the log). NULL
 * with errno set if memory ran out; cap_bytes 0 is EINVAL: open none.
 */
struct rank_log *rank_log_open(int dirfd, int rank, uint32_t epoch, uint64_t cap_bytes);

/*
 * Appends. Where the disk is full it warns once, goes on, and marks the gap in the file when it
 * takes bytes again.
 */
void rank_log_write(struct rank_log *log, const char *data, size_t len);

void rank_log_close(struct rank_log *log);

#endif

/* What a rank is started with: its words and its environment. */
#ifndef SUPERVISOR_ENVIRON_H
#define SUPERVISOR_ENVIRON_H

#include "supervisor/config.h"

#define MASTER_ADDR_HERE "127.0.0.1" /* of a group on one host */

/* NULL, 0 and -1 as said: not known, then the variable is left out and the brace left alone. */
struct environ_values {
	int world_size;
	uint32_t epoch;          /* from 1; 0: not known */
	const char *master_addr; /* or NULL */
	int master_port;         /* or 0 */
	int link_fd;             /* the rank's number of it; or -1 */
	const char *run_dir;     /* for {run_dir}; or NULL */
	const char *gpu;         /* for {gpu}: the rank's own GPUs, "" if it has none; or NULL */
	const char *visible_devices; /* CUDA_VISIBLE_DEVICES; NULL: as inherited */
	const char *notify_socket;   /* path; or NULL */
	const char *error_file;      /* path; or NULL */
};

/*
 * Our own environment without NOTIFY_SOCKET, WATCHDOG_*, LISTEN_* and TFRANK_*, then [environment]
 * with braces filled, then the computed variables; each name once. NULL-terminated, in one block to
 * be given to free(); strings may be ours or the config's, so keep both. NULL if memory ran out.
 */
char **environ_build(const struct config *config, int rank, const struct environ_values *values);

/* The rank's command with braces filled; memory as above. NULL if memory ran out. */
char **argv_build(const struct config *config, int rank, const struct environ_values *values);

/* What the braces of a rank stand for. */
struct brace_values environ_braces(int rank, const struct environ_values *values);

/* True for a name that environ_build() computes, so that [environment] may not set it. */
bool environ_is_computed(const char *name, size_t len);

#endif

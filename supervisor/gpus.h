/*
 * Which GPUs a group has and how its ranks share them, without asking CUDA or NVML: the driver's
 * folder in /proc, an inherited CUDA_VISIBLE_DEVICES, and [worker] gpus, gpus_per_rank and gpu_env.
 */
#ifndef SUPERVISOR_GPUS_H
#define SUPERVISOR_GPUS_H

#include "supervisor/config.h"

#define GPUS_PROC        "/proc/driver/nvidia/gpus"
#define GPUS_ERROR_BYTES 512

/* GPUs as CUDA_VISIBLE_DEVICES names them: indices or UUIDs. */
struct gpu_list {
	char **names; /* [len], NULL-terminated */
	size_t len;
};

struct gpus {
	struct gpu_list here;  /* what CUDA would see: the inherited ones, or all */
	struct gpu_list group; /* those that [worker] gpus names, shared out in rank order */
};

/* The GPUs of a rank. */
struct gpu_share {
	char *own;     /* for {gpu}: "1", "2,3"; "" if it has none */
	char *visible; /* its CUDA_VISIBLE_DEVICES; NULL: as inherited, for it has none */
};

/* GPUs that the driver lists in folder `proc` (GPUS_PROC), 0 without a driver. */
int gpus_count(const char *proc);

/*
 * The GPUs of a config where the driver lists `count` and CUDA_VISIBLE_DEVICES is `inherited`
 * (NULL: unset). 0 with *gpus to be freed, or -1 with error filled: a GPU of the list is not here.
 */
int gpus_open(struct gpus *gpus, const struct config *config, const char *inherited, int count,
	      char error[GPUS_ERROR_BYTES]);
void gpus_free(struct gpus *gpus);

/* How many ranks `ranks = auto` means: one per gpus_per_rank GPUs; 0: none found. */
int gpus_ranks(const struct gpus *gpus, const struct config *config);

/* [worker] gpus as the ranks without one of their own have it; "none" if there is no such rank. */
const char *gpus_of_group(const struct config *config);

/* How many of those the ranks take in all; ranks that share all of them take none. */
int gpus_needed(const struct config *config);

/*
 * The share of a rank, ranks fixed. A group without any GPU (auto, none found) gives empty shares.
 * 0 with *share to be freed, or -1 with error filled: too few GPUs, or memory ran out.
 */
int gpus_assign(const struct gpus *gpus, const struct config *config, int rank,
		struct gpu_share *share, char error[GPUS_ERROR_BYTES]);
void gpus_share_free(struct gpu_share *share);

#endif

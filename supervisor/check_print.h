/* What `check` shows of a valid configuration: what a start would do here. Starts nothing. */
#ifndef SUPERVISOR_CHECK_PRINT_H
#define SUPERVISOR_CHECK_PRINT_H

#include "supervisor/gpus.h"

struct check {
	struct config config;
	struct gpus gpus;
	char problem[GPUS_ERROR_BYTES]; /* why a start would end with PreflightFailed; "" if not */
};

/* Counts the GPUs and fixes `ranks = auto` by them. 0, or -1 with *error filled. */
int check_gpus_here(struct check *check, struct config_error *error);

void check_print(const struct check *check, FILE *out);

/* check_notes.c: what people are seldom told before it happens. */
void check_print_notes(const struct check *check, FILE *out);

/* What is known of a rank before a start; *share to be freed by gpus_share_free(). */
struct environ_values check_values(const struct check *check, int rank, struct gpu_share *share);

#endif

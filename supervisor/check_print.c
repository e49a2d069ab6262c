#include "supervisor/check_print.h"

#include "common/reason.h"

#include "supervisor/config_words.h"
#include "supervisor/environ.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Leaves in check->problem why a rank would go without a GPU that it needs. */
static void
try_shares(struct check *check)
{
	struct gpu_share share;

	for (int rank = 0; rank < check->config.ranks; rank++) {
		if (gpus_assign(&check->gpus, &check->config, rank, &share, check->problem) != 0)
			return;
		gpus_share_free(&share);
	}
}

int
check_gpus_here(struct check *check, struct config_error *error)
{
	struct config *config = &check->config;
	int ranks;

	if (gpus_open(&check->gpus, config, getenv("CUDA_VISIBLE_DEVICES"), gpus_count(GPUS_PROC),
		      check->problem) != 0)
		return 0;
	ranks = gpus_ranks(&check->gpus, config);
	if (config->ranks == 0 && ranks > 0 && config_set_ranks(config, ranks, error) != 0)
		return -1;
	if (config->ranks == 0)
		snprintf(check->problem, sizeof(check->problem),
			 "ranks = auto means one per GPU, but no GPU was found");
	try_shares(check);
	return 0;
}

struct environ_values
check_values(const struct check *check, int rank, struct gpu_share *share)
{
	const struct config *config = &check->config;
	struct environ_values values = {
	    .world_size = config->ranks,
	    .epoch = 1,
	    .master_addr = MASTER_ADDR_HERE,
	    .link_fd = -1,
	    .run_dir = config->run_dir,
	};
	char problem[GPUS_ERROR_BYTES];

	*share = (struct gpu_share){0};
	if (gpus_assign(&check->gpus, config, rank, share, problem) != 0)
		return values;
	values.gpu = share->own;
	values.visible_devices = share->visible;
	return values;
}

static void
print_head(const struct check *check, FILE *out)
{
	const struct config *config = &check->config;

	fprintf(out, "%s: a %s of ", config->name, config->mode == MODE_JOB ? "job" : "service");
	if (config->ranks == 0)
		fprintf(out, "one rank per GPU");
	else
		fprintf(out, "%d rank%s", config->ranks, config->ranks == 1 ? "" : "s");
	fprintf(out, ", %zu GPU%s of %zu here\n", check->gpus.group.len,
		check->gpus.group.len == 1 ? "" : "s", check->gpus.here.len);
	if (check->problem[0] != '\0')
		fprintf(out, "a start would end with PreflightFailed (status %d): %s\n",
			reason_exit_status(REASON_PREFLIGHT_FAILED), check->problem);
	fprintf(out, "\n");
}

static void
print_rank(const struct check *check, int rank, FILE *out)
{
	const struct worker_settings *worker = config_worker(&check->config, rank);
	struct gpu_share share;
	struct environ_values values = check_values(check, rank, &share);
	char **argv = argv_build(&check->config, rank, &values), *command = NULL;

	if (argv != NULL)
		command = words_quote(argv);
	if (share.visible != NULL)
		fprintf(out, "  rank %d  GPU %s  CUDA_VISIBLE_DEVICES=%s\n", rank, share.own,
			share.visible);
	else
		fprintf(out, "  rank %d  no GPU\n", rank);
	fprintf(out, "    %s\n", command != NULL ? command : "out of memory");
	if (worker->directory != NULL || worker->user != NULL)
		fprintf(out, "    in %s, as %s\n",
			worker->directory != NULL ? worker->directory : "our directory",
			worker->user != NULL ? worker->user : "our user");
	free(command);
	free(argv);
	gpus_share_free(&share);
}

static bool
is_ours(const char *variable)
{
	for (char **ours = environ; ours != NULL && *ours != NULL; ours++) {
		if (*ours == variable)
			return true;
	}
	return false;
}

/* The variables of rank 0 that are not simply inherited. */
static void
print_environment(const struct check *check, FILE *out)
{
	struct gpu_share share;
	struct environ_values values = check_values(check, 0, &share);
	char **variables = environ_build(&check->config, 0, &values);

	fprintf(out, "\nenvironment of rank 0: ours without NOTIFY_SOCKET, WATCHDOG_*, LISTEN_*; "
		     "then\n");
	for (size_t i = 0; variables != NULL && variables[i] != NULL; i++) {
		if (!is_ours(variables[i]))
			fprintf(out, "  %s\n", variables[i]);
	}
	fprintf(out, "  and, known at the start only: MASTER_PORT, TFRANK_LINK_FD, NOTIFY_SOCKET, "
		     "TORCHELASTIC_ERROR_FILE\n");
	free(variables);
	gpus_share_free(&share);
}

void
check_print(const struct check *check, FILE *out)
{
	print_head(check, out);
	config_print(&check->config, out);
	fprintf(out, "\nranks\n");
	for (int rank = 0; rank < check->config.ranks; rank++)
		print_rank(check, rank, out);
	if (check->config.ranks > 0)
		print_environment(check, out);
	else
		fprintf(out, "  none\n");
	check_print_notes(check, out);
}

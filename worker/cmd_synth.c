#include "common/deadline.h"
#include "common/log.h"
#include "worker/args.h"
#include "worker/cmd.h"
#include "worker/synth.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

/* Together they keep every size below 2^63 bytes. */
#define SIZE_MAX_ELEMENTS (UINT64_C(1) << 24)
#define LAYERS_MAX        1024
#define HEADS_MAX         4096
#define SHARDS_MAX        99999

static const char usage[] =
    "tfworker synth DIR [--layout qwen3|llama] [--layers N] [--hidden N] [--intermediate N] "
    "[--vocab N] [--heads N] [--kv-heads N] [--head-dim N] [--seed N] "
    "[--shards N | --shard-size BYTES|MiB|GiB]";

static const struct option options[] = {
    {"layout", required_argument, NULL, 't'},     {"layers", required_argument, NULL, 'l'},
    {"hidden", required_argument, NULL, 'h'},     {"intermediate", required_argument, NULL, 'i'},
    {"vocab", required_argument, NULL, 'v'},      {"heads", required_argument, NULL, 'H'},
    {"kv-heads", required_argument, NULL, 'k'},   {"head-dim", required_argument, NULL, 'd'},
    {"seed", required_argument, NULL, 's'},       {"shards", required_argument, NULL, 'n'},
    {"shard-size", required_argument, NULL, 'z'}, {0},
};

static atomic_bool stop;

static void
on_signal(int signal)
{
	(void)signal;
	atomic_store(&stop, true);
}

/* A file size limit shows as EFBIG, and whoever interrupts us finds nothing half written. */
static void
handle_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	signal(SIGXFSZ, SIG_IGN);
}

static int
parse_option(struct synth_model *model, int option, const char *value)
{
	switch (option) {
	case 't':
		model->layout = synth_layout_of(value);
		return model->layout < SYNTH_LAYOUT_COUNT ? 0 : -1;
	case 'l':
		return args_number(value, 1, LAYERS_MAX, &model->layers);
	case 'h':
		return args_number(value, 1, SIZE_MAX_ELEMENTS, &model->hidden);
	case 'i':
		return args_number(value, 1, SIZE_MAX_ELEMENTS, &model->intermediate);
	case 'v':
		return args_number(value, 1, SIZE_MAX_ELEMENTS, &model->vocab);
	case 'H':
		return args_number(value, 1, HEADS_MAX, &model->heads);
	case 'k':
		return args_number(value, 1, HEADS_MAX, &model->kv_heads);
	case 'd':
		return args_number(value, 1, HEADS_MAX, &model->head_dim);
	case 's':
		return args_number(value, 0, UINT64_MAX, &model->seed);
	case 'n':
		return args_number(value, 1, SHARDS_MAX, &model->shards);
	default:
		return args_size(value, &model->shard_bytes);
	}
}

static int
parse(int argc, char **argv, struct synth_model *model, const char **dir)
{
	int c, index;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "", options, &index)) != -1) {
		if (c == '?')
			return args_refused(usage, argv, optind);
		if (parse_option(model, c, optarg) != 0)
			return args_usage(usage, "--%s: bad value '%s'", options[index].name,
					  optarg);
	}
	if (optind != argc - 1)
		return args_usage(usage, "synth: one folder is wanted");
	if (model->shards > 0 && model->shard_bytes > 0)
		return args_usage(usage, "--shards and --shard-size exclude each other");
	if (model->shard_bytes == 0)
		model->shard_bytes = SYNTH_SHARD_BYTES;
	*dir = argv[optind];
	return 0;
}

int
cmd_synth(int argc, char **argv)
{
	struct synth_model model = {
	    .layers = 28, .hidden = 1024, .intermediate = 3072, .vocab = 151936};
	struct synth_result result;
	struct load_error error;
	const char *dir = NULL;
	uint64_t begin;
	double seconds;
	int status;

	status = parse(argc, argv, &model, &dir);
	if (status != 0)
		return status;
	if (synth_choose_heads(&model, &error) != 0)
		return args_usage(usage, "%s", error.text);
	handle_signals();
	begin = monotonic_ns();
	if (synth_write(dir, &model, &stop, &result, &error) != 0) {
		log_warnx("synth: %s", error.text);
		return 1;
	}
	seconds = (double)(monotonic_ns() - begin) / (double)NS_PER_SEC;
	printf("%s: tensors %" PRIu64 ", layers %" PRIu64 ", shards %" PRIu64
	       ": %.3f GB written in %.2f s (%.2f GB/s, threads %d)\n",
	       dir, result.tensors, model.layers, result.shards, (double)result.bytes / 1e9,
	       seconds, (double)result.bytes / 1e9 / seconds, result.threads);
	return args_flush(0);
}

#include "common/deadline.h"
#include "common/log.h"
#include "worker/args.h"
#include "worker/cmd.h"
#include "worker/load.h"

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] = "tfworker verify DIR [--threads N] [--verbose] [--json]";

static const struct option options[] = {
    {"threads", required_argument, NULL, 't'},
    {"verbose", no_argument, NULL, 'v'},
    {"json", no_argument, NULL, 'j'},
    {0},
};

struct arguments {
	const char *dir;
	uint64_t threads;
	bool verbose, json;
};

static int
parse(int argc, char **argv, struct arguments *a)
{
	int c;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?')
			return args_refused(usage, argv, optind);
		if (c == 't' && args_number(optarg, 1, LOAD_THREADS_MAX, &a->threads) != 0)
			return args_usage(usage, "--threads: '%s' is not a number from 1 to %d",
					  optarg, LOAD_THREADS_MAX);
		a->verbose |= c == 'v';
		a->json |= c == 'j';
	}
	if (optind != argc - 1)
		return args_usage(usage, "verify: one folder is wanted");
	a->dir = argv[optind];
	return 0;
}

static json_t *
hex(uint64_t number)
{
	return json_sprintf("%016" PRIx64, number);
}

static json_t *
part_json(const struct load_part *part)
{
	json_t *shape = json_array();

	for (size_t i = 0; i < part->ndim; i++)
		json_array_append_new(shape, json_integer((json_int_t)part->shape[i]));
	return json_pack("{s:s, s:s, s:o, s:I, s:o}", "name", part->name, "dtype",
			 dtype_word(part->dtype), "shape", shape, "bytes", (json_int_t)part->bytes,
			 "checksum", hex(part->checksum));
}

static void
print_json(const struct arguments *a, const struct load *load, double seconds)
{
	char digest[LOAD_DIGEST_BYTES];
	struct slice_totals totals;
	json_t *parts = json_array(), *root;

	load_totals_get(load, &totals);
	load_digest(load, digest);
	for (size_t i = 0; i < load_part_count(load); i++) {
		struct load_part part = load_part_get(load, i);

		json_array_append_new(parts, part_json(&part));
	}
	root = json_pack("{s:s, s:I, s:I, s:I, s:f, s:s, s:o, s:o}", "dir", a->dir, "shards",
			 (json_int_t)load_shard_count(load), "layers",
			 (json_int_t)load_layer_count(load), "bytes", (json_int_t)totals.bytes,
			 "seconds", seconds, "digest", digest, "checksum", hex(load_checksum(load)),
			 "tensors", parts);
	if (root != NULL)
		json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	json_decref(root);
	putchar('\n');
}

static void
print_text(const struct arguments *a, const struct load *load, double seconds)
{
	struct slice_totals totals;

	load_totals_get(load, &totals);
	for (size_t i = 0; a->verbose && i < load_part_count(load); i++) {
		struct load_part part = load_part_get(load, i);

		printf("%016" PRIx64 "  %s\n", part.checksum, part.name);
	}
	printf("%s: tensors %zu, layers %" PRIu64 ", shards %" PRIu64
	       ": %.3f GB read in %.2f s (%.2f GB/s)\nchecksum %016" PRIx64 "\n",
	       a->dir, load_part_count(load), load_layer_count(load), load_shard_count(load),
	       (double)totals.bytes / 1e9, seconds, (double)totals.bytes / 1e9 / seconds,
	       load_checksum(load));
}

int
cmd_verify(int argc, char **argv)
{
	struct arguments a = {0};
	struct load_options load_options = {.no_arena = true};
	struct load_error error;
	struct load *load;
	uint64_t begin;
	double seconds;
	int status;

	status = parse(argc, argv, &a);
	if (status != 0)
		return status;
	load_options.threads = (int)a.threads;
	load = load_open(a.dir, 0, 1, &error);
	begin = monotonic_ns();
	if (load == NULL || load_run(load, &load_options, &error) != 0) {
		log_warnx("verify: %s", error.text);
		load_close(load);
		return 1;
	}
	seconds = (double)(monotonic_ns() - begin) / (double)NS_PER_SEC;
	if (a.json)
		print_json(&a, load, seconds);
	else
		print_text(&a, load, seconds);
	load_close(load);
	return args_flush(0);
}

#include "common/log.h"
#include "worker/args.h"
#include "worker/checkpoint.h"
#include "worker/cmd.h"
#include "worker/slice.h"

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define WORLD_MAX 1024

static const char usage[] = "tfworker plan DIR --world-size N [--rank R] [--json]";

static const struct option options[] = {
    {"world-size", required_argument, NULL, 'w'},
    {"rank", required_argument, NULL, 'r'},
    {"json", no_argument, NULL, 'j'},
    {0},
};

struct arguments {
	const char *dir;
	uint64_t world_size; /* 0: not told */
	uint64_t rank;       /* the only one, or WORLD_MAX: all */
	bool json;
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
		if (c == 'w' && args_number(optarg, 1, WORLD_MAX, &a->world_size) != 0)
			return args_usage(usage, "--world-size: '%s' is not a number from 1 to %d",
					  optarg, WORLD_MAX);
		if (c == 'r' && args_number(optarg, 0, WORLD_MAX - 1, &a->rank) != 0)
			return args_usage(usage, "--rank: '%s' is not a rank", optarg);
		a->json |= c == 'j';
	}
	if (optind != argc - 1)
		return args_usage(usage, "plan: one folder is wanted");
	if (a->world_size == 0)
		return args_usage(usage, "plan: --world-size is wanted");
	if (a->rank != WORLD_MAX && a->rank >= a->world_size)
		return args_usage(usage,
				  "--rank: %" PRIu64 " is not below the world size, %" PRIu64,
				  a->rank, a->world_size);
	a->dir = argv[optind];
	return 0;
}

static int
add_up(const struct checkpoint *checkpoint, const struct arguments *a, uint64_t rank,
       struct slice_totals *totals, struct load_error *error)
{
	struct load_error inner;
	struct slice slice;

	*totals = (struct slice_totals){0};
	for (size_t i = 0; i < checkpoint->tensor_count; i++) {
		const struct tensor *tensor = &checkpoint->tensors[i];

		if (slice_of(tensor, (int)rank, (int)a->world_size, &slice, &inner) != 0)
			return load_error_set(error, 0, "%s: %s",
					      checkpoint->files[tensor->file].path, inner.text);
		slice_totals_add(totals, &slice);
	}
	return 0;
}

static json_t *
totals_json(uint64_t rank, const struct slice_totals *totals)
{
	json_t *root =
	    json_pack("{s:I, s:I}", "rank", (json_int_t)rank, "bytes", (json_int_t)totals->bytes);

	for (enum slice_cut cut = 0; cut < SLICE_CUT_COUNT; cut++)
		json_object_set_new(root, slice_cut_word(cut),
				    json_pack("{s:I, s:I}", "tensors",
					      (json_int_t)totals->tensors_by_cut[cut], "bytes",
					      (json_int_t)totals->bytes_by_cut[cut]));
	return root;
}

static void
print_line(uint64_t rank, const struct slice_totals *totals)
{
	printf("%4" PRIu64 " %15" PRIu64, rank, totals->bytes);
	for (enum slice_cut cut = 0; cut < SLICE_CUT_COUNT; cut++)
		printf(" %7" PRIu64 " %15" PRIu64, totals->tensors_by_cut[cut],
		       totals->bytes_by_cut[cut]);
	putchar('\n');
}

static void
print_head(void)
{
	printf("%4s %15s", "rank", "bytes");
	for (enum slice_cut cut = 0; cut < SLICE_CUT_COUNT; cut++)
		printf(" %7s %15s", slice_cut_word(cut), "bytes");
	putchar('\n');
}

static int
print_ranks(const struct checkpoint *checkpoint, const struct arguments *a, json_t *ranks,
	    struct load_error *error)
{
	uint64_t first = a->rank == WORLD_MAX ? 0 : a->rank;
	uint64_t end = a->rank == WORLD_MAX ? a->world_size : a->rank + 1;
	struct slice_totals totals;

	for (uint64_t rank = first; rank < end; rank++) {
		if (add_up(checkpoint, a, rank, &totals, error) != 0)
			return -1;
		if (!a->json && rank == first)
			print_head();
		if (a->json)
			json_array_append_new(ranks, totals_json(rank, &totals));
		else
			print_line(rank, &totals);
	}
	return 0;
}

static int
print_plan(const struct checkpoint *checkpoint, const struct arguments *a, struct load_error *error)
{
	json_t *ranks = json_array(), *root;
	int r;

	r = print_ranks(checkpoint, a, ranks, error);
	root = json_pack("{s:s, s:I, s:I, s:I, s:o}", "dir", a->dir, "shards",
			 (json_int_t)checkpoint->file_count, "tensors",
			 (json_int_t)checkpoint->tensor_count, "world_size",
			 (json_int_t)a->world_size, "ranks", ranks);
	if (r == 0 && a->json) {
		json_dumpf(root, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(root);
	return r;
}

int
cmd_plan(int argc, char **argv)
{
	struct arguments a = {.rank = WORLD_MAX};
	struct checkpoint checkpoint;
	struct load_error error;
	int status;

	status = parse(argc, argv, &a);
	if (status != 0)
		return status;
	if (checkpoint_open(&checkpoint, a.dir, &error) != 0) {
		log_warnx("plan: %s", error.text);
		return 1;
	}
	if (print_plan(&checkpoint, &a, &error) != 0) {
		log_warnx("plan: %s", error.text);
		status = 1;
	}
	checkpoint_close(&checkpoint);
	return args_flush(status);
}

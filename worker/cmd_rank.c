/* `tfworker rank`: the command line of one rank. */
#include "common/deadline.h"
#include "common/duration.h"
#include "worker/args.h"
#include "worker/cmd.h"
#include "worker/rank_run.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define TIME_MAX_NS (86400 * NS_PER_SEC)

static const char usage[] =
    "tfworker rank DIR [--backend auto|host] [--threads N] [--sum] [--once] [--watchdog D]\n"
    "           [--receipt FILE] [--drill late|gone|sum|eof|missing|timeout] [--delay D]";

static const char help[] =
    "  --backend   where the weights go: auto and host mean host memory\n"
    "  --threads   that read; as many as there are CPUs, at most 16, unless told\n"
    "  --sum       sum expert slots over all ranks before the gather, and compare\n"
    "  --once      leave after the first collective, with status 0\n"
    "  --watchdog  turn the work loop, and say so, every D while serving\n"
    "  --receipt   write what was done, and when, to FILE as JSON\n"
    "  --drill     what rank 1 does wrong; --delay D (1s) is how late, or when\n";

static const struct option options[] = {
    {"backend", required_argument, NULL, 'b'},
    {"threads", required_argument, NULL, 't'},
    {"sum", no_argument, NULL, 's'},
    {"once", no_argument, NULL, 'o'},
    {"watchdog", required_argument, NULL, 'w'},
    {"receipt", required_argument, NULL, 'r'},
    {"drill", required_argument, NULL, 'd'},
    {"delay", required_argument, NULL, 'D'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int
parse_backend(const char *word)
{
	if (strcmp(word, "auto") == 0 || strcmp(word, "host") == 0)
		return 0;
	return args_usage(usage, "--backend: '%s' is none of auto, host", word);
}

static int
parse_threads(const char *text, struct rank_options *o)
{
	uint64_t n;

	if (args_number(text, 1, LOAD_THREADS_MAX, &n) != 0)
		return args_usage(usage, "--threads: '%s' is not a number from 1 to %d", text,
				  LOAD_THREADS_MAX);
	o->threads = (int)n;
	return 0;
}

static int
parse_drill(const char *word, struct rank_options *o)
{
	static const char *const words[DRILL_COUNT] = {
#define X(id, word) [DRILL_##id] = word,
	    DRILLS(X)
#undef X
	};

	for (int i = DRILL_NONE + 1; i < DRILL_COUNT; i++)
		if (strcmp(word, words[i]) == 0) {
			o->drill = (enum drill)i;
			return 0;
		}
	return args_usage(usage, "--drill: '%s' is none of late, gone, sum, eof, missing, timeout",
			  word);
}

static int
parse_time(const char *name, const char *text, uint64_t *ns)
{
	if (parse_duration(text, ns) == 0 && *ns <= TIME_MAX_NS)
		return 0;
	return args_usage(usage, "--%s: '%s' is not a duration such as 500ms, 2s, 10m, at most 24h",
			  name, text);
}

/* 0, or an exit status. */
static int
parse_option(int c, const char *value, struct rank_options *o)
{
	switch (c) {
	case 'b':
		return parse_backend(value);
	case 't':
		return parse_threads(value, o);
	case 's':
		o->sum = true;
		return 0;
	case 'o':
		o->once = true;
		return 0;
	case 'w':
		return parse_time("watchdog", value, &o->watchdog_ns);
	case 'r':
		o->receipt = value;
		return 0;
	case 'd':
		return parse_drill(value, o);
	default:
		return parse_time("delay", value, &o->delay_ns);
	}
}

int
cmd_rank(int argc, char **argv)
{
	struct rank_options o = {.delay_ns = NS_PER_SEC};
	int c, status;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?')
			return args_refused(usage, argv, optind);
		if (c == 'h') {
			printf("usage: %s\n%s", usage, help);
			return 0;
		}
		if ((status = parse_option(c, optarg, &o)) != 0)
			return status;
	}
	if (optind != argc - 1)
		return args_usage(usage, "rank: one folder is wanted");
	o.dir = argv[optind];
	o.sum |= o.drill == DRILL_SUM;
	return rank_run(&o);
}

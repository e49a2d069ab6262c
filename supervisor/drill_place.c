/* The temporary directory of a drill: what is written into it and read from it. */
#include "common/log.h"
#include "supervisor/config_words.h"
#include "supervisor/drill.h"
#include "supervisor/report.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPLATE "tfdrill-XXXXXX"
#define PLACE_LONGEST                                                                              \
	64 /* so that run/NAME/notify-1023.sock stays below the 107 bytes of a socket */
#define FTW_OPEN_MAX 16

static int
fail(char error[DRILL_ERROR_BYTES], const char *path)
{
	snprintf(error, DRILL_ERROR_BYTES, "%.400s: %s", path, strerror(errno));
	return -1;
}

int
drill_place_make(char place[PATH_MAX], char error[DRILL_ERROR_BYTES])
{
	const char *parent = getenv("TMPDIR");
	char sub[PATH_MAX + 8];

	if (parent == NULL || parent[0] != '/' ||
	    strlen(parent) + strlen("/" TEMPLATE) > PLACE_LONGEST)
		parent = "/tmp";
	snprintf(place, PATH_MAX, "%s/" TEMPLATE, parent);
	if (mkdtemp(place) == NULL)
		return fail(error, place);
	snprintf(sub, sizeof(sub), "%s/state", place);
	if (mkdir(sub, 0700) == 0)
		return 0;
	fail(error, sub);
	drill_place_remove(place);
	return -1;
}

static int
remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	if (remove(path) != 0)
		log_warn("%s", path);
	return 0;
}

void
drill_place_remove(const char *place)
{
	if (nftw(place, remove_entry, FTW_OPEN_MAX, FTW_DEPTH | FTW_PHYS) != 0)
		log_warn("%s", place);
}

/* The ranks' command, quoted for the INI file; to be freed, NULL if memory ran out. */
static char *
worker_command(const struct drill *drill, const char *place, const char *model)
{
	char receipt[PATH_MAX + 32], delay[32];
	char *words[] = {(char *)drill->worker,
			 "rank",
			 (char *)model,
			 "--once",
			 "--backend",
			 (char *)drill->backend,
			 "--drill",
			 (char *)drill_word(drill->mode),
			 "--delay",
			 delay,
			 "--receipt",
			 receipt,
			 NULL};

	snprintf(receipt, sizeof(receipt), "%s/rank-{rank}.json", place);
	snprintf(delay, sizeof(delay), "%" PRIu64 "ms", drill->delay_ns / NS_PER_MSEC);
	return words_quote(words);
}

static int
write_ini(FILE *file, const struct drill *drill, const char *place, const char *command)
{
	fprintf(file,
		"[group]\n"
		"name = drill-%s\n"
		"ranks = %d\n"
		"mode = job\n"
		"ready_timeout = %" PRIu64 "ms\n"
		"collective_timeout = %" PRIu64 "ms\n"
		"run_dir = %s/run\n"
		"[worker]\n"
		"command = %s\n"
		"ready = link\n"
		"gpus = %s\n",
		drill_word(drill->mode), drill->ranks, drill->ready_ns / NS_PER_MSEC,
		drill->collective_ns / NS_PER_MSEC, place, command,
		strcmp(drill->backend, "host") == 0 ? "none" : "auto");
	return ferror(file);
}

int
drill_place_write_ini(const struct drill *drill, const char *place, const char *model,
		      char path[PATH_MAX], char error[DRILL_ERROR_BYTES])
{
	char *command = worker_command(drill, place, model);
	FILE *file;
	int failed;

	snprintf(path, PATH_MAX, "%.*s/drill.ini", PATH_MAX - 16, place);
	if (command == NULL || (file = fopen(path, "we")) == NULL) {
		free(command);
		return fail(error, path);
	}
	failed = write_ini(file, drill, place, command);
	failed |= fclose(file);
	free(command);
	return failed != 0 ? fail(error, path) : 0;
}

static json_t *
read_report(const char *place)
{
	char state[PATH_MAX + 8], path[PATH_MAX + NAME_MAX + 16];
	struct report_names names;
	json_t *report = NULL;

	snprintf(state, sizeof(state), "%s/state", place);
	if (report_list(state, NULL, &names) == 0 && names.n > 0) {
		snprintf(path, sizeof(path), "%s/%s", state, names.v[0]);
		report = json_load_file(path, 0, NULL);
	}
	report_list_free(&names);
	return report;
}

void
drill_place_read(const struct drill *drill, const char *place, struct drill_result *result)
{
	char path[PATH_MAX + 32];

	result->report = read_report(place);
	result->receipts = json_array();
	for (int rank = 0; rank < drill->ranks; rank++) {
		json_t *receipt;

		snprintf(path, sizeof(path), "%s/rank-%d.json", place, rank);
		receipt = json_load_file(path, 0, NULL);
		json_array_append_new(result->receipts, receipt == NULL ? json_null() : receipt);
	}
}

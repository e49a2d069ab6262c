#include "supervisor/timeline.h"

#include "supervisor/status_json.h"

#include <stdlib.h>
#include <string.h>

struct epoch {
	uint32_t number;                      /* 0: none yet */
	uint64_t started_ns, go_ns, ended_ns; /* 0: not yet */
	json_t *time, *reason, *message;      /* owned; reason and message NULL until the end */
	uint64_t (*moments_ns)[MOMENT_COUNT]; /* [world_size], 0: not yet */
};

struct timeline {
	size_t world_size, n;
	uint64_t begun; /* epochs so far; the present one is at (begun - 1) % n */
	struct epoch epochs[TIMELINE_EPOCHS];
};

static const char *const keys[] = {
#define X(id, key) [MOMENT_##id] = (key),
    MOMENTS(X)
#undef X
};

struct timeline *
timeline_open(int world_size)
{
	struct timeline *timeline = calloc(1, sizeof(*timeline));
	bool complete = timeline != NULL;
	size_t n;

	if (timeline == NULL)
		return NULL;
	n = TIMELINE_ROWS / (size_t)world_size;
	timeline->world_size = (size_t)world_size;
	timeline->n = n < 1 ? 1 : n > TIMELINE_EPOCHS ? TIMELINE_EPOCHS : n;
	for (size_t i = 0; i < timeline->n; i++) {
		struct epoch *epoch = &timeline->epochs[i];

		epoch->moments_ns = calloc(timeline->world_size, sizeof(*epoch->moments_ns));
		complete = complete && epoch->moments_ns != NULL;
	}
	if (complete)
		return timeline;
	timeline_close(timeline);
	return NULL;
}

static void
drop_documents(struct epoch *epoch)
{
	json_decref(epoch->time);
	json_decref(epoch->reason);
	json_decref(epoch->message);
	epoch->time = epoch->reason = epoch->message = NULL;
}

void
timeline_close(struct timeline *timeline)
{
	if (timeline == NULL)
		return;
	for (size_t i = 0; i < timeline->n; i++) {
		drop_documents(&timeline->epochs[i]);
		free(timeline->epochs[i].moments_ns);
	}
	free(timeline);
}

static struct epoch *
present(struct timeline *timeline)
{
	return &timeline->epochs[(timeline->begun - 1) % timeline->n];
}

void
timeline_begin(struct timeline *timeline, uint32_t number, uint64_t now_ns)
{
	struct epoch *epoch;

	timeline->begun++;
	epoch = present(timeline);
	drop_documents(epoch);
	epoch->number = number;
	epoch->started_ns = now_ns;
	epoch->go_ns = epoch->ended_ns = 0;
	epoch->time = status_time(now_ns, now_ns);
	memset(epoch->moments_ns, 0, timeline->world_size * sizeof(*epoch->moments_ns));
}

void
timeline_mark(struct timeline *timeline, int rank, enum moment moment, uint64_t at_ns)
{
	present(timeline)->moments_ns[rank][moment] = at_ns;
}

void
timeline_go(struct timeline *timeline, uint64_t at_ns)
{
	present(timeline)->go_ns = at_ns;
}

void
timeline_end(struct timeline *timeline, json_t *reason, const char *message, uint64_t now_ns)
{
	struct epoch *epoch = present(timeline);

	json_decref(epoch->reason);
	json_decref(epoch->message);
	epoch->reason = reason;
	epoch->message = status_text(message);
	epoch->ended_ns = now_ns;
}

static json_t *
since_start(const struct epoch *epoch, uint64_t at_ns)
{
	if (at_ns == 0)
		return json_null();
	return status_seconds(at_ns > epoch->started_ns ? at_ns - epoch->started_ns : 0);
}

static json_t *
ranks_json(const struct timeline *timeline, const struct epoch *epoch)
{
	json_t *ranks = json_array(), *rank;

	for (size_t i = 0; i < timeline->world_size; i++) {
		rank = json_object();
		for (int m = 0; m < MOMENT_COUNT; m++)
			if (epoch->moments_ns[i][m] != 0)
				json_object_set_new(rank, keys[m],
						    since_start(epoch, epoch->moments_ns[i][m]));
		json_array_append_new(ranks, rank);
	}
	return ranks;
}

static json_t *
epoch_json(const struct timeline *timeline, const struct epoch *epoch, uint64_t now_ns)
{
	return json_pack("{s:i, s:O, s:o, s:o, s:o, s:O?, s:O?, s:o}", "epoch", (int)epoch->number,
			 "time", epoch->time, "age_seconds", since_start(epoch, now_ns),
			 "go_seconds", since_start(epoch, epoch->go_ns), "lasted_seconds",
			 since_start(epoch, epoch->ended_ns), "message", epoch->message, "reason",
			 epoch->reason, "ranks", ranks_json(timeline, epoch));
}

json_t *
timeline_json(const struct timeline *timeline, uint64_t now_ns)
{
	uint64_t kept = timeline->begun < timeline->n ? timeline->begun : timeline->n;
	json_t *epochs = json_array();

	for (uint64_t i = timeline->begun - kept; i < timeline->begun; i++)
		json_array_append_new(
		    epochs, epoch_json(timeline, &timeline->epochs[i % timeline->n], now_ns));
	return epochs;
}

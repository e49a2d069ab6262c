#include "worker/receipt.h"

#include "common/deadline.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

const char *
outcome_word(enum outcome outcome)
{
	static const char *const words[OUTCOME_COUNT] = {
#define X(id, word) [OUTCOME_##id] = word,
	    OUTCOMES(X)
#undef X
	};

	return words[outcome];
}

void
receipt_mark(struct receipt *receipt, enum moment moment)
{
	if (receipt->moments[moment] == 0)
		receipt->moments[moment] = monotonic_ns();
}

static json_t *
moments_json(const struct receipt *receipt)
{
	static const char *const keys[MOMENT_COUNT] = {
#define X(id, key) [MOMENT_##id] = key,
	    MOMENTS(X)
#undef X
	};
	json_t *json = json_object();

	for (int i = 0; i < MOMENT_COUNT; i++) {
		uint64_t ns = receipt->moments[i];

		json_object_set_new(json, keys[i],
				    ns == 0 ? json_null() : json_integer((json_int_t)ns));
	}
	return json;
}

static json_t *
waited_json(const struct receipt *receipt)
{
	uint64_t ready = receipt->moments[MOMENT_READY], go = receipt->moments[MOMENT_GO];

	return ready == 0 || go == 0 ? json_null() : json_real((double)(go - ready) / NS_PER_MSEC);
}

static json_t *
abort_json(const struct receipt *receipt)
{
	if (receipt->outcome != OUTCOME_ABORTED)
		return json_null();
	return json_pack("{s:s, s:i, s:s}", "reason", receipt->abort_reason, "rank",
			 receipt->abort_rank, "detail", receipt->abort_detail);
}

static json_t *
error_json(const struct receipt *receipt)
{
	if (receipt->outcome != OUTCOME_FAILED)
		return json_null();
	return json_pack("{s:s, s:i}", "text", receipt->error.text, "errno",
			 receipt->error.error_number);
}

static json_t *
load_json(const struct receipt *receipt)
{
	char checksum[20];

	if (receipt->moments[MOMENT_LOADED] == 0)
		return json_null();
	snprintf(checksum, sizeof(checksum), "0x%016" PRIx64, receipt->checksum);
	return json_pack("{s:I, s:I, s:I, s:s}", "bytes", (json_int_t)receipt->bytes, "layers",
			 (json_int_t)receipt->layers, "ns", (json_int_t)receipt->load_ns,
			 "checksum", checksum);
}

static json_t *
gather_json(const struct receipt *receipt)
{
	const struct gather_result *gather = &receipt->gather;

	if (!receipt->has_gather)
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I, s:f}", "bytes", (json_int_t)gather->bytes,
			 "elements", (json_int_t)gather->elements, "wrong",
			 (json_int_t)gather->wrong, "ns", (json_int_t)gather->ns, "busbw",
			 gather_bus_bandwidth(gather, receipt->world_size));
}

static json_t *
sum_json(const struct receipt *receipt)
{
	const struct sum_result *sum = &receipt->sum;

	if (!receipt->has_sum)
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "cases", (json_int_t)sum->cases, "rows",
			 (json_int_t)sum->rows, "sums", (json_int_t)sum->sums, "wrong",
			 (json_int_t)sum->wrong, "ns", (json_int_t)sum->ns);
}

static json_t *
receipt_json(const struct receipt *receipt)
{
	return json_pack("{s:i, s:i, s:I, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rank",
			 receipt->rank, "world_size", receipt->world_size, "epoch",
			 (json_int_t)receipt->epoch, "pid", (int)getpid(), "outcome",
			 outcome_word(receipt->outcome), "abort", abort_json(receipt), "error",
			 error_json(receipt), "moments_ns", moments_json(receipt), "waited_ms",
			 waited_json(receipt), "load", load_json(receipt), "gather",
			 gather_json(receipt), "sum", sum_json(receipt));
}

static int
write_json(const json_t *json, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	int failed;

	if (fd < 0)
		return -1;
	failed = json_dumpfd(json, fd, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0;
	return close(fd) != 0 || failed ? -1 : 0;
}

int
receipt_write(const struct receipt *receipt, const char *path, struct load_error *error)
{
	json_t *json = receipt_json(receipt);
	char beside[PATH_MAX];
	int n = snprintf(beside, sizeof(beside), "%s.%d", path, (int)getpid());
	int result = 0;

	if (json == NULL)
		result = load_error_set(error, ENOMEM, "receipt %s", path);
	else if ((size_t)n >= sizeof(beside))
		result = load_error_set(error, ENAMETOOLONG, "receipt %s", path);
	else if (write_json(json, beside) != 0 || rename(beside, path) != 0) {
		result = load_error_set(error, errno, "receipt %s", path);
		unlink(beside);
	}
	json_decref(json);
	return result;
}

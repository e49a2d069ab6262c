#include "worker/load_private.h"

#include "common/deadline.h"
#include "kernels/checksum.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define PIECE_BYTES     (UINT64_C(8) << 20)   /* of a file, at least one run */
#define BLOCK_BYTES     (UINT64_C(512) << 10) /* one read: summed while it is in the cache */
#define GAP_MAX_BYTES   (UINT64_C(64) << 10)  /* between runs, read through rather than skipped */
#define BATCH_RUNS      256                   /* of one preadv, with the gaps between them */
#define PROGRESS_NS     (50 * NS_PER_MSEC)

struct reader {
	struct load *load;
	const struct checkpoint_file *file;
	const struct tensor *tensor;
	struct load_slot *slot;
	unsigned char *kept;    /* the part's place in the arena; NULL without one */
	unsigned char *scratch; /* BLOCK_BYTES where nothing is kept */
	unsigned char *gap;     /* GAP_MAX_BYTES: what lies between runs */
	uint64_t sum;
};

static int
add_piece(struct load *load, size_t slot, uint64_t first, uint64_t count, struct load_error *error)
{
	struct load_piece *grown;

	if (load->piece_count == load->piece_capacity) {
		load->piece_capacity = load->piece_capacity * 2 + 64;
		grown = reallocarray(load->pieces, load->piece_capacity, sizeof(*grown));
		if (grown == NULL)
			return load_error_set(error, ENOMEM, "the plan of the load");
		load->pieces = grown;
	}
	load->pieces[load->piece_count++] = (struct load_piece){slot, first, count};
	if (load->slots[slot].layer != LOAD_NO_LAYER)
		load->layer_left[load->slots[slot].layer]++;
	return 0;
}

static int
add_pieces(struct load *load, size_t i, struct load_error *error)
{
	const struct slice *slice = &load->slots[i].slice;
	uint64_t total = slice->count == 1 ? slice->run : slice->count;
	uint64_t step = slice->count == 1 ? PIECE_BYTES : PIECE_BYTES / (slice->stride + 1) + 1;

	for (uint64_t first = 0; slice->count > 0 && first < total; first += step)
		if (add_piece(load, i, first, total - first < step ? total - first : step, error) !=
		    0)
			return -1;
	return 0;
}

int
load_plan_pieces(struct load *load, struct load_error *error)
{
	load->layer_left = calloc(load->layer_count + 1, sizeof(*load->layer_left));
	if (load->layer_left == NULL)
		return load_error_set(error, ENOMEM, "the plan of the load");
	for (size_t i = 0; i < load->checkpoint.tensor_count; i++)
		if (add_pieces(load, i, error) != 0)
			return -1;
	load->progress.layers = load->layer_count;
	load->progress.bytes = load->totals.bytes;
	for (size_t i = 0; i < load->layer_count; i++)
		load->progress.layers_done += load->layer_left[i] == 0;
	return 0;
}

static int
stop_with(struct reader *r, const struct load_error *error)
{
	pthread_mutex_lock(&r->load->mutex);
	if (!atomic_load(&r->load->failed))
		r->load->error = *error;
	atomic_store(&r->load->failed, true);
	pthread_mutex_unlock(&r->load->mutex);
	return -1;
}

static bool
must_stop(struct load *load)
{
	return atomic_load_explicit(&load->cancelled, memory_order_relaxed) ||
	       atomic_load_explicit(&load->failed, memory_order_relaxed);
}

static int
fail_read(struct reader *r, uint64_t offset, ssize_t found, uint64_t expected)
{
	struct load_error error;

	if (found < 0)
		load_error_set(
		    &error, errno, "%s: tensor '%s': reading %" PRIu64 " bytes at offset %" PRIu64,
		    r->file->path, r->tensor->name, expected, r->tensor->offset + offset);
	else
		load_error_set(
		    &error, 0,
		    "%s: tensor '%s': found %zd bytes at offset %" PRIu64 ", expected %" PRIu64
		    ": the file has been cut short since it was opened",
		    r->file->path, r->tensor->name, found, r->tensor->offset + offset, expected);
	return stop_with(r, &error);
}

/* Bytes [offset, offset + bytes) of the tensor, to `at` bytes into the part. */
static int
read_span(struct reader *r, uint64_t offset, uint64_t bytes, uint64_t at)
{
	unsigned char *to;
	uint64_t n;
	ssize_t found;

	for (uint64_t done = 0; done < bytes; done += n) {
		if (must_stop(r->load))
			return -1;
		n = bytes - done < BLOCK_BYTES ? bytes - done : BLOCK_BYTES;
		to = r->kept != NULL ? r->kept + at + done : r->scratch;
		found = pread_full(r->file->fd, to, n, r->tensor->offset + offset + done);
		if (found < 0 || (uint64_t)found < n)
			return fail_read(r, offset + done, found, n);
		r->sum += checksum_part(to, n, offset + done);
	}
	return 0;
}

static int
read_runs_singly(struct reader *r, uint64_t first, uint64_t count)
{
	const struct slice *s = &r->slot->slice;

	for (uint64_t i = first; i < first + count; i++)
		if (read_span(r, s->first + i * s->stride, s->run, i * s->run) != 0)
			return -1;
	return 0;
}

/*
 * Runs and the gaps between them in one call: the disk sees one long read, the runs go where they
 * belong, and the gaps over one another.
 */
static int
read_batch(struct reader *r, uint64_t first, uint64_t count)
{
	const struct slice *s = &r->slot->slice;
	struct iovec iov[2 * BATCH_RUNS];
	uint64_t offset = s->first + first * s->stride;
	unsigned char *to = r->kept != NULL ? r->kept + first * s->run : r->scratch;
	ssize_t found;
	int n = 0;

	for (uint64_t i = 0; i < count; i++) {
		if (i > 0)
			iov[n++] = (struct iovec){r->gap, s->stride - s->run};
		iov[n++] = (struct iovec){to + i * s->run, s->run};
	}
	found = preadv(r->file->fd, iov, n, (off_t)(r->tensor->offset + offset));
	if (found < 0 || (uint64_t)found != (count - 1) * s->stride + s->run)
		return read_runs_singly(r, first, count);
	for (uint64_t i = 0; i < count; i++)
		r->sum += checksum_part(to + i * s->run, s->run, offset + i * s->stride);
	return 0;
}

static int
read_runs(struct reader *r, uint64_t first, uint64_t count)
{
	const struct slice *s = &r->slot->slice;
	uint64_t n, batch = BLOCK_BYTES / s->stride;

	if (batch < 2 || s->stride - s->run > GAP_MAX_BYTES)
		return read_runs_singly(r, first, count);
	if (batch > BATCH_RUNS)
		batch = BATCH_RUNS;
	for (uint64_t done = 0; done < count; done += n) {
		if (must_stop(r->load))
			return -1;
		n = count - done < batch ? count - done : batch;
		if (read_batch(r, first + done, n) != 0)
			return -1;
	}
	return 0;
}

static void
tell_progress(struct load *load)
{
	load->told_ns = monotonic_ns();
	if (load->options.progress != NULL)
		load->options.progress(&load->progress, load->options.arg);
}

static void
add_progress(struct load *load, const struct load_slot *slot, uint64_t bytes)
{
	bool layer_done;

	pthread_mutex_lock(&load->mutex);
	load->progress.bytes_done += bytes;
	layer_done = slot->layer != LOAD_NO_LAYER && --load->layer_left[slot->layer] == 0;
	load->progress.layers_done += layer_done;
	if (load->progress.bytes_done < load->progress.bytes &&
	    (layer_done || monotonic_ns() - load->told_ns >= PROGRESS_NS))
		tell_progress(load);
	pthread_mutex_unlock(&load->mutex);
}

static int
read_piece(struct reader *r, const struct load_piece *piece)
{
	struct load *load = r->load;
	const struct slice *slice;
	bool one_run;
	int error;

	r->slot = &load->slots[piece->slot];
	r->tensor = &load->checkpoint.tensors[piece->slot];
	r->file = &load->checkpoint.files[r->tensor->file];
	r->kept = load->arena != NULL ? load->arena + r->slot->arena_offset : NULL;
	r->sum = 0;
	slice = &r->slot->slice;
	one_run = slice->count == 1;
	if (one_run)
		error = read_span(r, slice->first + piece->first, piece->count, piece->first);
	else
		error = read_runs(r, piece->first, piece->count);
	if (error != 0)
		return -1;
	atomic_fetch_add(&r->slot->sum, r->sum);
	add_progress(load, r->slot, one_run ? piece->count : piece->count * slice->run);
	return 0;
}

static void
read_pieces(struct load *load)
{
	struct reader r = {.load = load};
	struct load_error error;
	size_t i;

	r.gap = malloc(GAP_MAX_BYTES);
	r.scratch = load->arena == NULL ? malloc(BLOCK_BYTES) : NULL;
	if (r.gap == NULL || (load->arena == NULL && r.scratch == NULL)) {
		load_error_set(&error, ENOMEM, "a load thread's buffers");
		stop_with(&r, &error);
	}
	while (!must_stop(load)) {
		i = atomic_fetch_add(&load->next_piece, 1);
		if (i >= load->piece_count || read_piece(&r, &load->pieces[i]) != 0)
			break;
	}
	free(r.gap);
	free(r.scratch);
}

static void
note_done(struct load *load)
{
	static const uint64_t one = 1;

	/* Cannot fail: nobody else writes to it, and one is far from its limit. */
	while (write(load->done_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void *
thread_main(void *arg)
{
	struct load *load = arg;

	read_pieces(load);
	if (atomic_fetch_sub(&load->running, 1) != 1)
		return NULL;
	pthread_mutex_lock(&load->mutex);
	if (!must_stop(load))
		tell_progress(load);
	pthread_mutex_unlock(&load->mutex);
	note_done(load);
	return NULL;
}

/* The advice may be unknown to the kernel: then its pages are small. */
static int
map_arena(struct load *load, struct load_error *error)
{
	uintptr_t begin;
	void *map;

	load->arena_bytes =
	    (load->arena_bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
	load->map_bytes = load->arena_bytes + HUGE_PAGE_BYTES;
	map =
	    mmap(NULL, load->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return load_error_set(error, errno, "memory for the rank's %" PRIu64 " bytes",
				      load->totals.bytes);
	load->map = map;
	begin = ((uintptr_t)map + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
	load->arena = (unsigned char *)begin;
	(void)madvise(load->arena, load->arena_bytes, MADV_HUGEPAGE);
	return 0;
}

static int
default_threads(void)
{
	cpu_set_t set;
	int n;

	/* Fails on machines of more CPUs than the set has room for. */
	n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : LOAD_THREADS_MAX;
	return n < LOAD_THREADS_MAX ? n : LOAD_THREADS_MAX;
}

static int
start_threads(struct load *load, int n, struct load_error *error)
{
	sigset_t all, old;
	int r = 0;

	atomic_store(&load->running, n);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	while (r == 0 && load->thread_count < n) {
		r = pthread_create(&load->threads[load->thread_count], NULL, thread_main, load);
		load->thread_count += r == 0;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r == 0)
		return 0;
	load_error_set(error, r, "starting load thread %d of %d", load->thread_count + 1, n);
	load_cancel(load);
	load_finish(load, NULL);
	return -1;
}

int
load_start(struct load *load, const struct load_options *options, struct load_error *error)
{
	int n = options->threads > 0 ? options->threads : default_threads();

	load->options = *options;
	load->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (load->done_fd < 0)
		return load_error_set(error, errno, "eventfd of the load");
	if (!options->no_arena && map_arena(load, error) != 0)
		return -1;
	load->started = true;
	return start_threads(load, n < LOAD_THREADS_MAX ? n : LOAD_THREADS_MAX, error);
}

int
load_fd(const struct load *load)
{
	return load->done_fd;
}

void
load_cancel(struct load *load)
{
	atomic_store(&load->cancelled, true);
}

int
load_finish(struct load *load, struct load_error *error)
{
	for (int i = 0; i < load->thread_count; i++)
		pthread_join(load->threads[i], NULL);
	load->thread_count = 0;
	load->finished = true;
	if (atomic_load(&load->failed)) {
		if (error != NULL)
			*error = load->error;
		return -1;
	}
	if (atomic_load(&load->cancelled))
		return load_error_set(error, ECANCELED, "the load");
	return 0;
}

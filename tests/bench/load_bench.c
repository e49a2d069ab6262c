/* sources: worker/checkpoint.c worker/load.c worker/load_run.c worker/load_error.c worker/safetensors.c worker/slice.c kernels/checksum_ref.c */
/*
 * load_bench DIR [ROUNDS [THREADS]]: our loader, as rank 0 of 1 and of 2, and in turn with it two
 * bare loops of as many threads, with an arena of their own faulted in on the way and the same
 * checksum function: "bare" reads the same bytes of the same files, one pread a run, "long" as many
 * bytes of the same files as if no tensor were cut by columns. The cache is warmed first. Prints
 * JSON: of the fastest round of each, since other work on the machine only ever adds.
 */
#include "common/deadline.h"
#include "kernels/checksum.h"
#include "worker/checkpoint.h"
#include "worker/load.h"

#include <err.h>
#include <fcntl.h>
#include <float.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE_BYTES (UINT64_C(8) << 20)
#define BLOCK_BYTES (UINT64_C(512) << 10)
#define ALIGN_BYTES ((size_t)2 << 20)
#define MIB         (1024.0 * 1024.0)

struct bare_piece {
	int fd;
	uint64_t offset, at; /* in the file, in the arena */
	uint64_t run, stride, count;
};

struct bare {
	struct bare_piece *pieces;
	size_t count;
	uint64_t bytes;
	unsigned char *arena;
	atomic_size_t next;
	atomic_uint_least64_t sum;
};

struct result {
	uint64_t bytes;
	double ours, bare, longs; /* seconds */
	double peak_over_own_mib;
};

static int threads;

static uint64_t
bare_read(const struct bare *bare, const struct bare_piece *p, uint64_t i)
{
	uint64_t sum = 0, n;

	for (uint64_t done = 0; done < p->run; done += n) {
		uint64_t at = p->at + i * p->run + done;

		n = p->run - done < BLOCK_BYTES ? p->run - done : BLOCK_BYTES;
		if (pread(p->fd, bare->arena + at, n, (off_t)(p->offset + i * p->stride + done)) !=
		    (ssize_t)n)
			err(1, "pread");
		sum += checksum_part(bare->arena + at, n, at);
	}
	return sum;
}

static void *
bare_thread(void *arg)
{
	struct bare *bare = arg;
	uint64_t sum = 0;
	size_t i;

	while ((i = atomic_fetch_add(&bare->next, 1)) < bare->count)
		for (uint64_t k = 0; k < bare->pieces[i].count; k++)
			sum += bare_read(bare, &bare->pieces[i], k);
	atomic_fetch_add(&bare->sum, sum);
	return NULL;
}

static void
bare_add(struct bare *bare, struct bare_piece piece)
{
	bare->pieces = reallocarray(bare->pieces, bare->count + 1, sizeof(*bare->pieces));
	if (bare->pieces == NULL)
		err(1, "pieces");
	piece.at = bare->bytes;
	bare->pieces[bare->count++] = piece;
	bare->bytes += piece.run * piece.count;
}

/* The slice's bytes; in long runs: as many from where the slice begins. */
static void
bare_add_slice(struct bare *bare, int fd, uint64_t offset, const struct slice *s, bool long_runs)
{
	uint64_t bytes = slice_bytes(s), step = PIECE_BYTES / s->stride + 1, n;

	if (!long_runs && s->count > 1) {
		for (uint64_t i = 0; i < s->count; i += n) {
			n = s->count - i < step ? s->count - i : step;
			bare_add(bare, (struct bare_piece){fd, offset + s->first + i * s->stride, 0,
							   s->run, s->stride, n});
		}
		return;
	}
	for (uint64_t done = 0; done < bytes; done += n) {
		n = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
		bare_add(bare, (struct bare_piece){fd, offset + s->first + done, 0, n, n, 1});
	}
}

static struct bare
bare_plan(const struct checkpoint *c, int world_size, bool long_runs)
{
	struct bare bare = {0};
	struct load_error error;
	struct slice slice;

	for (size_t i = 0; i < c->tensor_count; i++) {
		const struct tensor *tensor = &c->tensors[i];

		if (slice_of(tensor, 0, world_size, &slice, &error) != 0)
			errx(1, "%s", error.text);
		if (slice.count > 0)
			bare_add_slice(&bare, c->files[tensor->file].fd, tensor->offset, &slice,
				       long_runs);
	}
	return bare;
}

static double
bare_seconds(struct bare *bare)
{
	pthread_t ids[LOAD_THREADS_MAX];
	size_t map_bytes = bare->bytes + 2 * ALIGN_BYTES;
	uint64_t begin = monotonic_ns();
	double seconds;
	void *map;

	map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		err(1, "mmap");
	bare->arena = (unsigned char *)(((uintptr_t)map + ALIGN_BYTES - 1) & ~(ALIGN_BYTES - 1));
	madvise(bare->arena, bare->bytes, MADV_HUGEPAGE);
	atomic_store(&bare->next, 0);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, bare_thread, bare) != 0)
			errx(1, "pthread_create");
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	seconds = (double)(monotonic_ns() - begin) / 1e9;
	munmap(map, map_bytes);
	return seconds;
}

static double
our_seconds(const char *dir, int world_size)
{
	struct load_options options = {.threads = threads};
	struct load_error error;
	uint64_t begin = monotonic_ns();
	struct load *load = load_open(dir, 0, world_size, &error);
	double seconds;

	if (load == NULL || load_run(load, &options, &error) != 0)
		errx(1, "%s", error.text);
	seconds = (double)(monotonic_ns() - begin) / 1e9;
	load_close(load);
	return seconds;
}

static void
reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "5", 1) != 1)
		err(1, "/proc/self/clear_refs");
	close(fd);
}

static double
peak_mib(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	double kib = 0;

	if (file == NULL)
		err(1, "/proc/self/status");
	while (fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "VmHWM: %lf", &kib) == 1)
			break;
	fclose(file);
	return kib / 1024;
}

static double
smaller(double a, double b)
{
	return a < b ? a : b;
}

static struct result
measure(const char *dir, const struct checkpoint *c, int world_size, int rounds)
{
	struct bare bare = bare_plan(c, world_size, false), longs = bare_plan(c, world_size, true);
	struct result r = {bare.bytes, DBL_MAX, DBL_MAX, DBL_MAX, 0};
	double over;

	bare_seconds(&bare);
	for (int i = 0; i < rounds; i++) {
		r.bare = smaller(r.bare, bare_seconds(&bare));
		reset_peak();
		r.ours = smaller(r.ours, our_seconds(dir, world_size));
		over = peak_mib() - (double)r.bytes / MIB;
		if (over > r.peak_over_own_mib)
			r.peak_over_own_mib = over;
		r.longs = smaller(r.longs, bare_seconds(&longs));
	}
	free(bare.pieces);
	free(longs.pieces);
	return r;
}

static void
print(const char *name, const struct result *r, const char *end)
{
	double gb = (double)r->bytes / 1e9;

	printf("  \"%s\": {\"ours_gbps\": %.3f, \"bare_gbps\": %.3f, \"ratio\": %.3f, "
	       "\"long_gbps\": %.3f, \"long_ratio\": %.3f, \"peak_over_own_bytes_mib\": %.1f}%s\n",
	       name, gb / r->ours, gb / r->bare, r->bare / r->ours, gb / r->longs,
	       r->longs / r->ours, r->peak_over_own_mib, end);
}

int
main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 9;
	struct checkpoint checkpoint;
	struct load_error error;
	struct result one, two;
	cpu_set_t set;

	if (argc < 2 || argc > 4 || rounds < 1)
		errx(64, "usage: load_bench DIR [ROUNDS [THREADS]]");
	sched_getaffinity(0, sizeof(set), &set);
	threads = argc > 3 ? atoi(argv[3]) : CPU_COUNT(&set);
	if (threads < 1 || threads > LOAD_THREADS_MAX)
		threads = LOAD_THREADS_MAX;
	if (checkpoint_open(&checkpoint, argv[1], &error) != 0)
		errx(1, "%s", error.text);
	one = measure(argv[1], &checkpoint, 1, rounds);
	two = measure(argv[1], &checkpoint, 2, rounds);
	checkpoint_close(&checkpoint);
	printf("{\n  \"threads\": %d,\n  \"rounds\": %d,\n", threads, rounds);
	print("rank_0_of_1", &one, ",");
	print("rank_0_of_2", &two, "");
	printf("}\n");
	return 0;
}

#include "worker/synth_private.h"

#include "kernels/checksum.h"
#include "worker/checkpoint.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG      "config.json"
#define BLOCK_BYTES (UINT64_C(1) << 20)

/*
 * Four bf16 to a word: the random bits that are kept, and the bits that are set. Norms are in
 * [1, 2), all else in +-[2^-7, 2^-3).
 */
#define NORM_KEEP    UINT64_C(0x007f007f007f007f)
#define NORM_SET     UINT64_C(0x3f803f803f803f80)
#define WEIGHTS_KEEP UINT64_C(0x81ff81ff81ff81ff)
#define WEIGHTS_SET  UINT64_C(0x3c003c003c003c00)

struct shard_file {
	int fd; /* -1: not made */
	size_t next_tensor;
	uint64_t next_offset; /* within it */
};

struct writer {
	const char *dir;
	const struct synth_plan *plan;
	uint64_t seed;
	const atomic_bool *stop;
	int dirfd;
	bool made_dir, made_index, made_config;
	pthread_mutex_t mutex;    /* over what follows */
	struct shard_file *files; /* [shard_count]; fd is constant while threads write */
	size_t next_file;
	bool failed;
	struct load_error error; /* the first */
};

struct block {
	const struct synth_tensor *tensor;
	uint64_t offset, bytes;
};

static uint64_t
tensor_seed(uint64_t seed, const char *name)
{
	uint64_t state = checksum_splitmix64(seed);

	for (; *name != '\0'; name++)
		state = checksum_splitmix64(state ^ (unsigned char)*name);
	return state;
}

static void
fill(uint64_t *words, size_t n, uint64_t state, bool norm)
{
	uint64_t keep = norm ? NORM_KEEP : WEIGHTS_KEEP, set = norm ? NORM_SET : WEIGHTS_SET;

	for (size_t i = 0; i < n; i++)
		words[i] = htole64((checksum_splitmix64(state + i) & keep) | set);
}

static int
pwrite_full(int fd, const void *data, size_t bytes, uint64_t offset)
{
	ssize_t n;

	for (size_t done = 0; done < bytes; done += (size_t)n) {
		n = pwrite(fd, (const char *)data + done, bytes - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n < 0)
			return -1;
	}
	return 0;
}

static int
fail(struct writer *w, int error_number, const char *what, const char *name)
{
	pthread_mutex_lock(&w->mutex);
	if (!w->failed)
		load_error_set(&w->error, error_number, "%s%s/%s", what, w->dir, name);
	w->failed = true;
	pthread_mutex_unlock(&w->mutex);
	return -1;
}

static bool
take_block_of(struct writer *w, size_t shard, struct block *block)
{
	struct shard_file *file = &w->files[shard];
	const struct synth_tensor *tensor = &w->plan->tensors[file->next_tensor];

	if (file->next_tensor == w->plan->tensor_count || tensor->shard != shard)
		return false;
	block->tensor = tensor;
	block->offset = file->next_offset;
	block->bytes = tensor->bytes - block->offset;
	if (block->bytes > BLOCK_BYTES)
		block->bytes = BLOCK_BYTES;
	file->next_offset += block->bytes;
	if (file->next_offset == tensor->bytes) {
		file->next_tensor++;
		file->next_offset = 0;
	}
	return true;
}

/* From shard after shard in turn: a file takes one write at a time. */
static bool
take_block(struct writer *w, struct block *block)
{
	bool taken = false;

	pthread_mutex_lock(&w->mutex);
	for (size_t i = 0; !w->failed && !taken && i < w->plan->shard_count; i++) {
		taken = take_block_of(w, w->next_file, block);
		w->next_file = (w->next_file + 1) % w->plan->shard_count;
	}
	pthread_mutex_unlock(&w->mutex);
	return taken;
}

static int
write_block(struct writer *w, const struct block *block, uint64_t *words)
{
	const struct synth_tensor *t = block->tensor;
	const struct synth_shard *shard = &w->plan->shards[t->shard];

	if (atomic_load(w->stop))
		return fail(w, ECANCELED, "writing ", shard->name);
	fill(words, (block->bytes + 7) / 8, tensor_seed(w->seed, t->name) + block->offset / 8,
	     t->ndim == 1);
	if (pwrite_full(w->files[t->shard].fd, words, block->bytes,
			shard->header_bytes + t->offset + block->offset) != 0)
		return fail(w, errno, "writing ", shard->name);
	return 0;
}

static void *
thread_main(void *arg)
{
	struct writer *w = arg;
	struct block block;
	uint64_t *words = malloc(BLOCK_BYTES);

	if (words == NULL)
		fail(w, ENOMEM, "buffer for ", "");
	while (take_block(w, &block) && write_block(w, &block, words) == 0)
		;
	free(words);
	return NULL;
}

static int
write_weights(struct writer *w, int threads)
{
	pthread_t ids[SYNTH_THREADS_MAX];
	int n, r = 0;

	for (n = 0; n < threads && r == 0; n += r == 0)
		r = pthread_create(&ids[n], NULL, thread_main, w);
	if (r != 0)
		fail(w, r, "starting a thread for ", "");
	while (n > 0)
		pthread_join(ids[--n], NULL);
	return w->failed ? -1 : 0;
}

/* Readers refuse a shard until its header, which is written last, is there. */
static int
write_headers(struct writer *w)
{
	for (size_t i = 0; i < w->plan->shard_count; i++) {
		const struct synth_shard *shard = &w->plan->shards[i];

		if (pwrite_full(w->files[i].fd, shard->header, shard->header_bytes, 0) != 0)
			return fail(w, errno, "writing ", shard->name);
	}
	return 0;
}

/* A full disk is found out here, before anything is written, where the file system can reserve. */
static int
make_shards(struct writer *w)
{
	for (size_t i = 0; i < w->plan->shard_count; i++) {
		const struct synth_shard *shard = &w->plan->shards[i];

		w->files[i].fd =
		    openat(w->dirfd, shard->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (w->files[i].fd < 0)
			return fail(w, errno, "making ", shard->name);
		if (fallocate(w->files[i].fd, 0, 0, (off_t)(shard->header_bytes + shard->bytes)) !=
			0 &&
		    errno != EOPNOTSUPP && errno != ENOSYS)
			return fail(w, errno, "reserving room for ", shard->name);
	}
	return 0;
}

static int
write_text(struct writer *w, const char *name, const char *text, bool *made)
{
	int fd, r;

	fd = openat(w->dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return fail(w, errno, "making ", name);
	*made = true;
	r = pwrite_full(fd, text, strlen(text), 0);
	if (r == 0)
		r = pwrite_full(fd, "\n", 1, strlen(text));
	if (r != 0)
		fail(w, errno, "writing ", name);
	if (close(fd) != 0 && r == 0)
		r = fail(w, errno, "writing ", name);
	return r;
}

static int
close_shards(struct writer *w)
{
	int r = 0;

	for (size_t i = 0; i < w->plan->shard_count; i++)
		if (w->files[i].fd >= 0 && close(w->files[i].fd) != 0)
			r = fail(w, errno, "writing ", w->plan->shards[i].name);
	return r;
}

static void
remove_all(struct writer *w)
{
	for (size_t i = 0; i < w->plan->shard_count; i++)
		if (w->files[i].fd >= 0)
			unlinkat(w->dirfd, w->plan->shards[i].name, 0);
	if (w->made_index)
		unlinkat(w->dirfd, CHECKPOINT_INDEX, 0);
	if (w->made_config)
		unlinkat(w->dirfd, CONFIG, 0);
	if (w->made_dir)
		rmdir(w->dir);
}

static bool
is_of_checkpoint(const char *name)
{
	static const char suffix[] = ".safetensors";
	size_t n = strlen(name), s = sizeof(suffix) - 1;

	return strcmp(name, CONFIG) == 0 || strcmp(name, CHECKPOINT_INDEX) == 0 ||
	       (n >= s && strcmp(name + n - s, suffix) == 0);
}

static int
check_free(const char *dir, struct load_error *error)
{
	const struct dirent *entry;
	DIR *d = opendir(dir);
	int r = 0;

	if (d == NULL)
		return load_error_set(error, errno, "%s", dir);
	while (r == 0 && (entry = readdir(d)) != NULL)
		if (is_of_checkpoint(entry->d_name))
			r = load_error_set(
			    error, 0,
			    "%s/%s is there already: choose an empty folder, or remove it", dir,
			    entry->d_name);
	closedir(d);
	return r;
}

static int
open_dir(struct writer *w, struct load_error *error)
{
	w->made_dir = mkdir(w->dir, 0777) == 0;
	if (!w->made_dir && errno != EEXIST)
		return load_error_set(error, errno, "making the folder %s", w->dir);
	if (check_free(w->dir, error) != 0)
		return -1;
	w->dirfd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->dirfd < 0)
		return load_error_set(error, errno, "%s", w->dir);
	return 0;
}

static int
write_all(struct writer *w, int threads)
{
	int r;

	r = make_shards(w);
	if (r == 0)
		r = write_weights(w, threads);
	if (r == 0)
		r = write_headers(w);
	if (close_shards(w) != 0)
		r = -1;
	if (r == 0 && w->plan->index != NULL)
		r = write_text(w, CHECKPOINT_INDEX, w->plan->index, &w->made_index);
	if (r == 0)
		r = write_text(w, CONFIG, w->plan->config, &w->made_config);
	if (r != 0)
		remove_all(w);
	return r;
}

static int
thread_count(void)
{
	cpu_set_t set;
	int n;

	n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : SYNTH_THREADS_MAX;
	return n < SYNTH_THREADS_MAX ? n : SYNTH_THREADS_MAX;
}

static int
write_plan(const char *dir, const struct synth_plan *plan, uint64_t seed, const atomic_bool *stop,
	   int threads, struct load_error *error)
{
	struct writer w = {.dir = dir, .plan = plan, .seed = seed, .stop = stop, .dirfd = -1};
	int r;

	w.files = calloc(plan->shard_count, sizeof(*w.files));
	if (w.files == NULL)
		return load_error_set(error, ENOMEM, "%s", dir);
	for (size_t i = 0; i < plan->shard_count; i++)
		w.files[i].fd = -1;
	for (size_t i = plan->tensor_count; i-- > 0;)
		w.files[plan->tensors[i].shard].next_tensor = i;
	pthread_mutex_init(&w.mutex, NULL);
	r = open_dir(&w, error);
	if (r == 0) {
		r = write_all(&w, threads);
		if (r != 0 && error != NULL)
			*error = w.error;
		close(w.dirfd);
	}
	pthread_mutex_destroy(&w.mutex);
	free(w.files);
	return r;
}

int
synth_write(const char *dir, const struct synth_model *model, const atomic_bool *stop,
	    struct synth_result *result, struct load_error *error)
{
	struct synth_plan plan;
	int r;

	if (synth_plan_make(&plan, model, error) != 0)
		return -1;
	*result = (struct synth_result){
	    .tensors = plan.tensor_count,
	    .shards = plan.shard_count,
	    .bytes = plan.bytes,
	    .threads = thread_count(),
	};
	r = write_plan(dir, &plan, model->seed, stop, result->threads, error);
	synth_plan_free(&plan);
	return r;
}

#include "worker/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX_MAX_BYTES SAFETENSORS_HEADER_MAX_BYTES
#define WEIGHT_MAP      "weight_map"

struct opening {
	struct checkpoint *checkpoint;
	struct load_error *error;
	const char *dir;
	int dirfd;
	char *index_path; /* with weight_map: NULL where there is no index */
	json_t *index;
	json_t *weight_map; /* tensor name to file name; borrowed from index */
};

static int
compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
compare_names(const void *a, const void *b, void *arg)
{
	const struct tensor *tensors = arg;

	return strcmp(tensors[*(const size_t *)a].name, tensors[*(const size_t *)b].name);
}

static char *
path_of(const struct opening *o, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", o->dir, name) < 0) {
		load_error_set(o->error, ENOMEM, "%s", o->dir);
		return NULL;
	}
	return path;
}

/* O_NONBLOCK: a FIFO in the place of a file must not hold us. */
static int
open_regular(const struct opening *o, const char *name, const char *path, uint64_t *bytes)
{
	struct stat st;
	int fd;

	fd = openat(o->dirfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0) {
		load_error_set(o->error, errno, "%s", path);
	} else if (!S_ISREG(st.st_mode)) {
		load_error_set(o->error, 0, "%s: found %s, expected a regular file", path,
			       S_ISDIR(st.st_mode)    ? "a folder"
			       : S_ISFIFO(st.st_mode) ? "a FIFO"
						      : "a special file");
	} else {
		*bytes = (uint64_t)st.st_size;
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

static int
parse_index(struct opening *o, int fd, uint64_t bytes)
{
	char *text;
	ssize_t n;

	if (bytes > INDEX_MAX_BYTES)
		return load_error_set(o->error, 0,
				      "%s: found %" PRIu64 " bytes, expected at most %" PRIu64,
				      o->index_path, bytes, INDEX_MAX_BYTES);
	text = malloc(bytes + 1);
	if (text == NULL)
		return load_error_set(o->error, ENOMEM, "%s", o->index_path);
	n = pread_full(fd, text, bytes, 0);
	if (n < 0)
		load_error_set(o->error, errno, "%s", o->index_path);
	else
		o->index = safetensors_json(o->index_path, text, (size_t)n, o->error);
	free(text);
	return o->index != NULL ? 0 : -1;
}

static int
check_weight_map(struct opening *o)
{
	const char *name, *file;
	json_t *value;

	o->weight_map = json_object_get(o->index, WEIGHT_MAP);
	if (!json_is_object(o->weight_map))
		return load_error_set(
		    o->error, 0, "%s: " WEIGHT_MAP ": expected an object of tensor and file names",
		    o->index_path);
	json_object_foreach(o->weight_map, name, value)
	{
		file = json_string_value(value);
		if (file == NULL)
			return load_error_set(o->error, 0,
					      "%s: tensor '%s': expected the name of a file",
					      o->index_path, name);
		if (file[0] == '\0' || strchr(file, '/') != NULL || strcmp(file, ".") == 0 ||
		    strcmp(file, "..") == 0)
			return load_error_set(
			    o->error, 0,
			    "%s: tensor '%s': found file '%s', expected a file of the folder "
			    "itself: no '/', not '.' or '..'",
			    o->index_path, name, file);
	}
	return 0;
}

/* Reads the index if there is one. */
static int
read_index(struct opening *o)
{
	uint64_t bytes;
	int fd, r;

	if (faccessat(o->dirfd, CHECKPOINT_INDEX, F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
	    errno == ENOENT)
		return 0;
	o->index_path = path_of(o, CHECKPOINT_INDEX);
	if (o->index_path == NULL)
		return -1;
	fd = open_regular(o, CHECKPOINT_INDEX, o->index_path, &bytes);
	if (fd < 0)
		return -1;
	r = parse_index(o, fd, bytes);
	close(fd);
	return r == 0 ? check_weight_map(o) : -1;
}

/* The distinct file names in order; *names is to be freed, its strings belong to the index. */
static int
list_files(const struct opening *o, const char ***names, size_t *count)
{
	size_t n = json_object_size(o->weight_map), unique = 0;
	const char **v, *name;
	json_t *value;

	*names = v = calloc(n + 1, sizeof(*v));
	if (v == NULL)
		return load_error_set(o->error, ENOMEM, "%s", o->dir);
	*count = 0;
	if (o->weight_map == NULL) {
		v[(*count)++] = CHECKPOINT_FILE;
		return 0;
	}
	json_object_foreach(o->weight_map, name, value) v[(*count)++] = json_string_value(value);
	qsort(v, n, sizeof(*v), compare_strings);
	for (size_t i = 0; i < n; i++)
		if (unique == 0 || strcmp(v[unique - 1], v[i]) != 0)
			v[unique++] = v[i];
	*count = unique;
	return 0;
}

/* Each tensor of the file is listed in the index under this file. */
static int
check_listed(const struct opening *o, const struct checkpoint_file *file,
	     const struct safetensors *st)
{
	const char *listed;

	if (o->weight_map == NULL)
		return 0;
	for (size_t i = 0; i < st->count; i++) {
		listed = json_string_value(json_object_get(o->weight_map, st->tensors[i].name));
		if (listed == NULL)
			return load_error_set(o->error, 0,
					      "%s: tensor '%s' is not listed in " CHECKPOINT_INDEX,
					      file->path, st->tensors[i].name);
		if (strcmp(listed, file->name) != 0)
			return load_error_set(
			    o->error, 0, "%s: tensor '%s': " CHECKPOINT_INDEX " expects it in '%s'",
			    file->path, st->tensors[i].name, listed);
	}
	return 0;
}

/* Moves the file's tensors behind those of the files before it. */
static int
append_tensors(const struct opening *o, struct safetensors *st)
{
	struct checkpoint *c = o->checkpoint;
	struct tensor *grown;

	grown = reallocarray(c->tensors, c->tensor_count + st->count + 1, sizeof(*grown));
	if (grown == NULL)
		return load_error_set(o->error, ENOMEM, "%s", o->dir);
	c->tensors = grown;
	for (size_t i = 0; i < st->count; i++) {
		grown[c->tensor_count] = st->tensors[i];
		grown[c->tensor_count++].file = c->file_count - 1;
	}
	st->count = 0;
	return 0;
}

static int
open_file(const struct opening *o, const char *name)
{
	struct checkpoint *c = o->checkpoint;
	struct checkpoint_file *file = &c->files[c->file_count++];
	struct safetensors st;
	int r;

	file->fd = -1;
	file->path = path_of(o, name);
	if (file->path == NULL)
		return -1;
	file->name = strrchr(file->path, '/') + 1;
	file->fd = open_regular(o, name, file->path, &file->bytes);
	if (file->fd < 0 || safetensors_read(&st, file->path, file->fd, file->bytes, o->error) != 0)
		return -1;
	r = check_listed(o, file, &st);
	if (r == 0)
		r = append_tensors(o, &st);
	safetensors_free(&st);
	return r;
}

static int
open_files(struct opening *o)
{
	const char **names;
	size_t n = 0;
	int r = 0;

	if (list_files(o, &names, &n) != 0)
		return -1;
	o->checkpoint->files = calloc(n + 1, sizeof(*o->checkpoint->files));
	if (o->checkpoint->files == NULL) {
		free(names);
		return load_error_set(o->error, ENOMEM, "%s", o->dir);
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		r = open_file(o, names[i]);
	free(names);
	return r;
}

static int
sort_names(struct opening *o)
{
	struct checkpoint *c = o->checkpoint;

	c->by_name = calloc(c->tensor_count + 1, sizeof(*c->by_name));
	if (c->by_name == NULL)
		return load_error_set(o->error, ENOMEM, "%s", o->dir);
	for (size_t i = 0; i < c->tensor_count; i++)
		c->by_name[i] = i;
	if (c->tensor_count > 0)
		qsort_r(c->by_name, c->tensor_count, sizeof(*c->by_name), compare_names,
			c->tensors);
	return 0;
}

/* Each tensor of the index was found in its file. */
static int
check_complete(struct opening *o)
{
	const char *name;
	json_t *value;

	if (json_object_size(o->weight_map) == o->checkpoint->tensor_count)
		return 0;
	json_object_foreach(o->weight_map, name, value) if (
	    checkpoint_find(o->checkpoint, name) <
	    0) return load_error_set(o->error, 0,
				     "%s: tensor '%s' is listed in '%s', which does not have it",
				     o->index_path, name, json_string_value(value));
	return 0;
}

/* A folder with neither file is told apart from one whose only file is missing. */
static int
open_dir(struct opening *o)
{
	o->dirfd = open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->dirfd < 0)
		return load_error_set(o->error, errno, "%s: cannot open the checkpoint's folder",
				      o->dir);
	if (read_index(o) != 0)
		return -1;
	if (o->index == NULL && faccessat(o->dirfd, CHECKPOINT_FILE, F_OK, 0) != 0 &&
	    errno == ENOENT)
		return load_error_set(o->error, 0,
				      "%s: found no checkpoint, expected " CHECKPOINT_INDEX
				      " or " CHECKPOINT_FILE,
				      o->dir);
	return 0;
}

int
checkpoint_open(struct checkpoint *checkpoint, const char *dir, struct load_error *error)
{
	struct opening o = {.checkpoint = checkpoint, .error = error, .dir = dir};
	int r;

	*checkpoint = (struct checkpoint){0};
	r = open_dir(&o);
	if (r == 0)
		r = open_files(&o);
	if (r == 0)
		r = sort_names(&o);
	if (r == 0 && o.index != NULL)
		r = check_complete(&o);
	if (o.dirfd >= 0)
		close(o.dirfd);
	free(o.index_path);
	json_decref(o.index);
	if (r != 0)
		checkpoint_close(checkpoint);
	return r;
}

void
checkpoint_close(struct checkpoint *checkpoint)
{
	for (size_t i = 0; i < checkpoint->file_count; i++) {
		if (checkpoint->files[i].fd >= 0)
			close(checkpoint->files[i].fd);
		free(checkpoint->files[i].path);
	}
	for (size_t i = 0; i < checkpoint->tensor_count; i++)
		tensor_free(&checkpoint->tensors[i]);
	free(checkpoint->files);
	free(checkpoint->tensors);
	free(checkpoint->by_name);
	*checkpoint = (struct checkpoint){0};
}

ssize_t
checkpoint_find(const struct checkpoint *checkpoint, const char *name)
{
	size_t low = 0, high = checkpoint->tensor_count, mid;
	int order;

	while (low < high) {
		mid = low + (high - low) / 2;
		order = strcmp(checkpoint->tensors[checkpoint->by_name[mid]].name, name);
		if (order == 0)
			return (ssize_t)checkpoint->by_name[mid];
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return -1;
}

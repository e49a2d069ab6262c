#include "worker/safetensors.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define METADATA_KEY "__metadata__"

static const struct {
	const char *word;
	uint64_t bits;
} dtypes[DTYPE_COUNT] = {
#define X(id, word, bits) [DTYPE_##id] = {word, bits},
    DTYPES(X)
#undef X
};

const char *
dtype_word(enum dtype dtype)
{
	return dtypes[dtype].word;
}

uint64_t
dtype_bits(enum dtype dtype)
{
	return dtypes[dtype].bits;
}

void
tensor_free(struct tensor *tensor)
{
	free(tensor->name);
	free(tensor->shape);
}

void
safetensors_free(struct safetensors *st)
{
	for (size_t i = 0; i < st->count; i++)
		tensor_free(&st->tensors[i]);
	free(st->tensors);
	*st = (struct safetensors){0};
}

ssize_t
pread_full(int fd, void *buffer, size_t bytes, uint64_t offset)
{
	size_t done = 0;
	ssize_t n;

	while (done < bytes) {
		n = pread(fd, (char *)buffer + done, bytes - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

json_t *
safetensors_json(const char *path, const char *text, size_t bytes, struct load_error *error)
{
	json_error_t json_error;
	json_t *root;

	root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &json_error);
	if (root == NULL) {
		load_error_set(error, 0, "%s: not the JSON expected: %s (byte %d)", path,
			       json_error.text, json_error.position);
		return NULL;
	}
	if (!json_is_object(root)) {
		load_error_set(error, 0, "%s: found another JSON value, expected one object", path);
		json_decref(root);
		return NULL;
	}
	return root;
}

static int
parse_metadata(const char *path, json_t *metadata, struct load_error *error)
{
	const char *key;
	json_t *value;

	if (!json_is_object(metadata))
		return load_error_set(error, 0,
				      "%s: " METADATA_KEY ": expected an object of strings", path);
	json_object_foreach(
	    (json_t *)(uintptr_t)metadata, key,
	    value) if (!json_is_string(value)) return load_error_set(error, 0,
								     "%s: " METADATA_KEY
								     ": '%s' is not a string",
								     path, key);
	return 0;
}

static int
parse_dtype(const char *path, struct tensor *tensor, const json_t *value, struct load_error *error)
{
	const char *word = json_string_value(value);

	if (word == NULL)
		return load_error_set(error, 0,
				      "%s: tensor '%s': dtype: expected a string, found %s", path,
				      tensor->name, value == NULL ? "none" : "another type");
	for (tensor->dtype = 0; tensor->dtype < DTYPE_COUNT; tensor->dtype++)
		if (strcmp(dtypes[tensor->dtype].word, word) == 0)
			return 0;
	return load_error_set(
	    error, 0,
	    "%s: tensor '%s': dtype: found '%s', expected one of the format, such as BF16", path,
	    tensor->name, word);
}

/* Element i of the array that is the tensor's `field`. */
static int
parse_number(const char *path, const struct tensor *tensor, const char *field, const json_t *array,
	     size_t i, uint64_t *number, struct load_error *error)
{
	const json_t *value = json_array_get(array, i);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return load_error_set(
		    error, 0, "%s: tensor '%s': %s[%zu]: expected a whole number, 0 or more", path,
		    tensor->name, field, i);
	*number = (uint64_t)json_integer_value(value);
	return 0;
}

static int
parse_shape(const char *path, struct tensor *tensor, const json_t *array, struct load_error *error)
{
	if (!json_is_array(array))
		return load_error_set(error, 0, "%s: tensor '%s': shape: expected an array", path,
				      tensor->name);
	tensor->ndim = json_array_size(array);
	if (tensor->ndim == 0)
		return 0;
	tensor->shape = calloc(tensor->ndim, sizeof(*tensor->shape));
	if (tensor->shape == NULL)
		return load_error_set(error, ENOMEM, "%s", path);
	for (size_t i = 0; i < tensor->ndim; i++)
		if (parse_number(path, tensor, "shape", array, i, &tensor->shape[i], error) != 0)
			return -1;
	return 0;
}

static int
parse_offsets(const char *path, struct tensor *tensor, const json_t *array,
	      struct load_error *error)
{
	uint64_t end;

	if (!json_is_array(array) || json_array_size(array) != 2)
		return load_error_set(
		    error, 0, "%s: tensor '%s': data_offsets: expected an array of two numbers",
		    path, tensor->name);
	if (parse_number(path, tensor, "data_offsets", array, 0, &tensor->offset, error) != 0 ||
	    parse_number(path, tensor, "data_offsets", array, 1, &end, error) != 0)
		return -1;
	if (end < tensor->offset)
		return load_error_set(error, 0,
				      "%s: tensor '%s': data_offsets: end %" PRIu64
				      " is before begin %" PRIu64,
				      path, tensor->name, end, tensor->offset);
	tensor->bytes = end - tensor->offset;
	return 0;
}

/* The data must be as long as the shape and the type say. */
static int
check_size(const char *path, const struct tensor *tensor, struct load_error *error)
{
	uint64_t elements = 1, bits;
	bool overflow = false;

	for (size_t i = 0; i < tensor->ndim; i++)
		overflow |= __builtin_mul_overflow(elements, tensor->shape[i], &elements);
	overflow |= __builtin_mul_overflow(elements, dtypes[tensor->dtype].bits, &bits);
	if (overflow)
		return load_error_set(error, 0,
				      "%s: tensor '%s': shape: its size in bits overflows 64 bits",
				      path, tensor->name);
	if (bits % 8 != 0)
		return load_error_set(
		    error, 0, "%s: tensor '%s': %" PRIu64 " elements of %s are not whole bytes",
		    path, tensor->name, elements, dtypes[tensor->dtype].word);
	if (bits / 8 != tensor->bytes)
		return load_error_set(error, 0,
				      "%s: tensor '%s': data_offsets: found %" PRIu64
				      " bytes, expected %" PRIu64 " (shape times %s)",
				      path, tensor->name, tensor->bytes, bits / 8,
				      dtypes[tensor->dtype].word);
	return 0;
}

static int
parse_tensor(const char *path, struct tensor *tensor, const char *name, const json_t *value,
	     struct load_error *error)
{
	tensor->name = strdup(name);
	if (tensor->name == NULL)
		return load_error_set(error, ENOMEM, "%s", path);
	if (!json_is_object(value))
		return load_error_set(error, 0, "%s: tensor '%s': expected an object", path, name);
	if (parse_dtype(path, tensor, json_object_get(value, "dtype"), error) != 0 ||
	    parse_shape(path, tensor, json_object_get(value, "shape"), error) != 0 ||
	    parse_offsets(path, tensor, json_object_get(value, "data_offsets"), error) != 0)
		return -1;
	return check_size(path, tensor, error);
}

/* Empty tensors come before the one whose bytes begin where they are. */
static int
compare_offsets(const void *a, const void *b)
{
	const struct tensor *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Tensor after tensor to the file's very end; offsets become those in the file. */
static int
check_layout(const char *path, struct safetensors *st, uint64_t data_begin, uint64_t file_bytes,
	     struct load_error *error)
{
	uint64_t next = 0;

	if (st->count > 0)
		qsort(st->tensors, st->count, sizeof(*st->tensors), compare_offsets);
	for (size_t i = 0; i < st->count; i++) {
		struct tensor *tensor = &st->tensors[i];

		if (tensor->offset != next)
			return load_error_set(error, 0,
					      "%s: tensor '%s': data_offsets: found begin %" PRIu64
					      ", expected %" PRIu64 " (%s)",
					      path, tensor->name, tensor->offset, next,
					      tensor->offset < next ? "an overlap" : "a hole");
		next += tensor->bytes;
		tensor->offset += data_begin;
	}
	if (file_bytes - data_begin != next)
		return load_error_set(
		    error, 0, "%s: found a file of %" PRIu64 " bytes, expected %" PRIu64 " (%s)",
		    path, file_bytes, data_begin + next,
		    file_bytes - data_begin < next ? "it is cut short"
						   : "bytes follow the last tensor");
	return 0;
}

static int
parse_entries(struct safetensors *st, const char *path, json_t *root, struct load_error *error)
{
	const char *name;
	json_t *value;

	st->tensors = calloc(json_object_size(root) + 1, sizeof(*st->tensors));
	if (st->tensors == NULL)
		return load_error_set(error, ENOMEM, "%s", path);
	json_object_foreach(root, name, value)
	{
		if (strcmp(name, METADATA_KEY) == 0) {
			if (parse_metadata(path, value, error) != 0)
				return -1;
			continue;
		}
		if (parse_tensor(path, &st->tensors[st->count++], name, value, error) != 0)
			return -1;
	}
	return 0;
}

int
safetensors_parse(struct safetensors *st, const char *path, const char *header, size_t header_bytes,
		  uint64_t file_bytes, struct load_error *error)
{
	uint64_t data_begin = SAFETENSORS_LENGTH_BYTES + header_bytes;
	json_t *root;
	int r;

	*st = (struct safetensors){0};
	if (data_begin > file_bytes)
		return load_error_set(error, 0,
				      "%s: header: found length %zu, expected at most %" PRIu64
				      ", what the file holds",
				      path, header_bytes,
				      file_bytes < SAFETENSORS_LENGTH_BYTES
					  ? 0
					  : file_bytes - SAFETENSORS_LENGTH_BYTES);
	if (header_bytes == 0 || header[0] != '{')
		return load_error_set(error, 0, "%s: header: expected it to begin with '{'", path);
	root = safetensors_json(path, header, header_bytes, error);
	if (root == NULL)
		return -1;
	r = parse_entries(st, path, root, error);
	json_decref(root);
	if (r == 0)
		r = check_layout(path, st, data_begin, file_bytes, error);
	if (r != 0)
		safetensors_free(st);
	return r;
}

static int
read_length(const char *path, int fd, uint64_t file_bytes, uint64_t *length,
	    struct load_error *error)
{
	ssize_t n;

	n = pread_full(fd, length, SAFETENSORS_LENGTH_BYTES, 0);
	if (n < 0)
		return load_error_set(error, errno, "%s: header length", path);
	if (n < SAFETENSORS_LENGTH_BYTES || file_bytes < SAFETENSORS_LENGTH_BYTES)
		return load_error_set(
		    error, 0, "%s: found %zd bytes, expected 8 of header length and a header", path,
		    n);
	*length = le64toh(*length);
	if (*length > SAFETENSORS_HEADER_MAX_BYTES)
		return load_error_set(
		    error, 0, "%s: header: found length %" PRIu64 ", expected at most %" PRIu64,
		    path, *length, SAFETENSORS_HEADER_MAX_BYTES);
	if (*length > file_bytes - SAFETENSORS_LENGTH_BYTES)
		return load_error_set(error, 0,
				      "%s: header: found length %" PRIu64
				      ", expected at most %" PRIu64 ", what the file holds",
				      path, *length, file_bytes - SAFETENSORS_LENGTH_BYTES);
	return 0;
}

int
safetensors_read(struct safetensors *st, const char *path, int fd, uint64_t file_bytes,
		 struct load_error *error)
{
	uint64_t length;
	char *header;
	ssize_t n;
	int r = -1;

	*st = (struct safetensors){0};
	if (read_length(path, fd, file_bytes, &length, error) != 0)
		return -1;
	header = malloc(length + 1);
	if (header == NULL)
		return load_error_set(error, ENOMEM, "%s: header of %" PRIu64 " bytes", path,
				      length);
	n = pread_full(fd, header, length, SAFETENSORS_LENGTH_BYTES);
	if (n < 0)
		load_error_set(error, errno, "%s: header", path);
	else if ((uint64_t)n < length)
		load_error_set(error, 0, "%s: header: found %zd bytes, expected %" PRIu64, path, n,
			       length);
	else
		r = safetensors_parse(st, path, header, length, file_bytes, error);
	free(header);
	return r;
}

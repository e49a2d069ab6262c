/*
 * The safetensors format: 8 bytes of little-endian header length, a header of one JSON object,
 * then the tensors' bytes. What the reference implementation refuses is refused, and duplicate
 * names and a header that does not begin with '{' too, as the format's text asks.
 */
#ifndef WORKER_SAFETENSORS_H
#define WORKER_SAFETENSORS_H

#include "worker/load_error.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SAFETENSORS_LENGTH_BYTES     8
#define SAFETENSORS_HEADER_MAX_BYTES UINT64_C(100000000)

/* X(enum suffix, the format's word, bits of an element) */
#define DTYPES(X)                                                                                  \
	X(BOOL, "BOOL", 8)                                                                         \
	X(F4, "F4", 4)                                                                             \
	X(F6_E2M3, "F6_E2M3", 6)                                                                   \
	X(F6_E3M2, "F6_E3M2", 6)                                                                   \
	X(U8, "U8", 8)                                                                             \
	X(I8, "I8", 8)                                                                             \
	X(F8_E5M2, "F8_E5M2", 8)                                                                   \
	X(F8_E4M3, "F8_E4M3", 8)                                                                   \
	X(F8_E8M0, "F8_E8M0", 8)                                                                   \
	X(F8_E4M3FNUZ, "F8_E4M3FNUZ", 8)                                                           \
	X(F8_E5M2FNUZ, "F8_E5M2FNUZ", 8)                                                           \
	X(I16, "I16", 16)                                                                          \
	X(U16, "U16", 16)                                                                          \
	X(F16, "F16", 16)                                                                          \
	X(BF16, "BF16", 16)                                                                        \
	X(I32, "I32", 32)                                                                          \
	X(U32, "U32", 32)                                                                          \
	X(F32, "F32", 32)                                                                          \
	X(C64, "C64", 64)                                                                          \
	X(F64, "F64", 64)                                                                          \
	X(I64, "I64", 64)                                                                          \
	X(U64, "U64", 64)

enum dtype {
#define X(id, word, bits) DTYPE_##id,
	DTYPES(X)
#undef X
	    DTYPE_COUNT
};

struct tensor {
	char *name;
	enum dtype dtype;
	size_t ndim;     /* 0: a scalar */
	uint64_t *shape; /* [ndim] elements; NULL if ndim is 0 */
	uint64_t offset; /* of the first byte, from the file's begin */
	uint64_t bytes;  /* 0 if a dimension is */
	size_t file;     /* which of a checkpoint's files; 0 from the parser */
};

struct safetensors {
	struct tensor *tensors; /* [count], in the order of offset */
	size_t count;
};

/*
 * Parses a header of header_bytes that is not NUL-terminated, in a file of file_bytes. `path` is
 * for errors. 0, or -1 with *st empty. Free with safetensors_free.
 */
int safetensors_parse(struct safetensors *st, const char *path, const char *header,
		      size_t header_bytes, uint64_t file_bytes, struct load_error *error);

/* The same from an open file of file_bytes. */
int safetensors_read(struct safetensors *st, const char *path, int fd, uint64_t file_bytes,
		     struct load_error *error);

void safetensors_free(struct safetensors *st);
void tensor_free(struct tensor *tensor);

const char *dtype_word(enum dtype dtype);
/* Bits of an element. */
uint64_t dtype_bits(enum dtype dtype);

/* One JSON object without duplicate keys and NUL characters, else NULL. */
json_t *safetensors_json(const char *path, const char *text, size_t bytes,
			 struct load_error *error);

/* pread until `bytes` have come or the file ends: the number read, or -1 with errno. */
ssize_t pread_full(int fd, void *buffer, size_t bytes, uint64_t offset);

#endif

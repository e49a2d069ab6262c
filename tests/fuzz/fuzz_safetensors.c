/* sources: worker/safetensors.c worker/load_error.c */
/*
 * Two bytes of little-endian data length, then a header. What is accepted must cover the data
 * without hole or overlap, with every number consistent.
 */
#include "worker/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(const struct safetensors *st, uint64_t begin, uint64_t end)
{
	for (size_t i = 0; i < st->count; i++) {
		const struct tensor *t = &st->tensors[i];
		uint64_t bits = dtype_bits(t->dtype);

		for (size_t k = 0; k < t->ndim; k++)
			bits *= t->shape[k];
		if (t->offset != begin || t->bytes != bits / 8)
			abort();
		begin += t->bytes;
	}
	if (begin != end)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct load_error error = {.text = ""};
	struct safetensors st;
	uint64_t file_bytes;

	if (size < 2)
		return 0;
	file_bytes = SAFETENSORS_LENGTH_BYTES + (size - 2) + data[0] + 256U * data[1];
	if (safetensors_parse(&st, "file", (const char *)data + 2, size - 2, file_bytes, &error) ==
	    0) {
		check(&st, SAFETENSORS_LENGTH_BYTES + size - 2, file_bytes);
		safetensors_free(&st);
	} else if (error.text[0] == '\0' || strlen(error.text) >= sizeof(error.text) ||
		   st.tensors != NULL) {
		abort();
	}
	return 0;
}

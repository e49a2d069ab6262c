#include "kernels/gather_check.h"

#include "kernels/checksum.h"

#include <string.h>

/* rank < 2^16 and index < 2^48 share a word without overlap. */
static uint64_t
tag_of(uint64_t word, uint64_t salt, uint32_t rank, uint64_t index)
{
	uint64_t place = checksum_splitmix64((uint64_t)rank << 48 | index);

	return checksum_splitmix64(word ^ checksum_splitmix64(salt ^ place));
}

void
gather_fill_ref(const unsigned char *data, size_t words, uint64_t salt, uint32_t rank,
		uint64_t *slot)
{
	memcpy(slot, data, words * sizeof(*slot));
	for (size_t i = 0; i < words; i++)
		slot[words + i] = tag_of(slot[i], salt, rank, i);
}

uint64_t
gather_check_ref(const uint64_t *slot, size_t words, uint64_t salt, uint32_t rank,
		 struct gather_fault *fault)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < words; i++) {
		if (slot[words + i] == tag_of(slot[i], salt, rank, i))
			continue;
		if (wrong++ == 0)
			*fault = (struct gather_fault){rank, i};
	}
	return wrong;
}

/*
 * An all-gather whose every element can be checked by every rank, though none knows the others'
 * data: each 8-byte element travels with a tag that depends on its value, its rank, its place and
 * the group's salt. What is torn, stale, shifted or swapped does not fit its tag.
 *
 * One rank's slot: words (words), then tags (words).
 */
#ifndef KERNELS_GATHER_CHECK_H
#define KERNELS_GATHER_CHECK_H

#include <stddef.h>
#include <stdint.h>

#define GATHER_ELEMENT_BYTES 16 /* a word and its tag */

/* The first element that is wrong. */
struct gather_fault {
	uint32_t rank;
	uint64_t index;
};

/* slot: (2, words), filled from data: (words * 8 bytes), of any alignment. */
void gather_fill_ref(const unsigned char *data, size_t words, uint64_t salt, uint32_t rank,
		     uint64_t *slot);

/*
 * How many of the elements in `slot`, (2, words), said to be rank's, do not fit. *fault is written
 * if there is one.
 */
uint64_t gather_check_ref(const uint64_t *slot, size_t words, uint64_t salt, uint32_t rank,
			  struct gather_fault *fault);

#endif

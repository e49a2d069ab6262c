/*
 * The checksum of a tensor: with w(j) its little-endian 8-byte words, the last padded with zeros,
 *
 *	sum over j of w(j) * (splitmix64(j) | 1)   modulo 2^64
 *
 * where splitmix64(j) is the output function of SplitMix64 at state j:
 *
 *	z = j + 0x9e3779b97f4a7c15
 *	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9
 *	z = (z ^ z >> 27) * 0x94d049bb133111eb
 *	z ^ z >> 31
 *
 * It is linear in the bytes: the sums of slices, cut anywhere, with zeros outside of each, add up
 * to the sum of the whole.
 */
#ifndef KERNELS_CHECKSUM_H
#define KERNELS_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#define CHECKSUM_INCREMENT UINT64_C(0x9e3779b97f4a7c15)
#define CHECKSUM_MULTIPLY1 UINT64_C(0xbf58476d1ce4e5b9)
#define CHECKSUM_MULTIPLY2 UINT64_C(0x94d049bb133111eb)

static inline uint64_t
checksum_splitmix64(uint64_t j)
{
	uint64_t z = j + CHECKSUM_INCREMENT;

	z = (z ^ z >> 30) * CHECKSUM_MULTIPLY1;
	z = (z ^ z >> 27) * CHECKSUM_MULTIPLY2;
	return z ^ z >> 31;
}

/*
 * The checksum of a tensor that has data[0..bytes) at byte `offset` and zeros elsewhere. Any
 * offset, any alignment of data.
 */
uint64_t checksum_part(const void *data, size_t bytes, uint64_t offset);

#endif

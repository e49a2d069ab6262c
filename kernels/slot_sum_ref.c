#include "kernels/slot_sum.h"

#include <string.h>

float
bf16_to_float(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;

	memcpy(&value, &wide, sizeof(value));
	return value;
}

uint16_t
bf16_from_float(float value)
{
	uint32_t wide;

	memcpy(&wide, &value, sizeof(wide));
	if ((wide & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(wide >> 16 | 0x40);
	return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

void
slot_sum_ref(const uint16_t *slots, const float *weights, size_t rows, size_t top_k, size_t hidden,
	     double *sums)
{
	for (size_t slot = 0; slot < rows * top_k; slot++)
		for (size_t h = 0; h < hidden; h++)
			sums[slot / top_k * hidden + h] +=
			    (double)weights[slot] * (double)bf16_to_float(slots[slot * hidden + h]);
}

void
slot_sum_host(const uint16_t *slots, const float *weights, size_t rows, size_t top_k, size_t hidden,
	      float *sums)
{
	for (size_t row = 0; row < rows; row++) {
		float *sum = sums + row * hidden;

		memset(sum, 0, hidden * sizeof(*sum));
		for (size_t k = 0; k < top_k; k++) {
			const uint16_t *slot = slots + (row * top_k + k) * hidden;
			float weight = weights[row * top_k + k];

			for (size_t h = 0; h < hidden; h++)
				sum[h] += weight * bf16_to_float(slot[h]);
		}
	}
}

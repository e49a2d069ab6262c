/*
 * The sum over a row's expert slots, as after routed experts: row r of the result is the sum over k
 * of weights[r][k] * slots[r][k][...]. Rows may be none.
 */
#ifndef KERNELS_SLOT_SUM_H
#define KERNELS_SLOT_SUM_H

#include <stddef.h>
#include <stdint.h>

/* A bfloat16 is the upper half of a float. */
float bf16_to_float(uint16_t bits);
/* Rounded to nearest, ties to even; NaN stays NaN. */
uint16_t bf16_from_float(float value);

/*
 * The reference, in double. Adds to sums: (rows, hidden), so that the slots of several ranks can be
 * summed one after the other. slots: bf16 (rows, top_k, hidden); weights: (rows, top_k).
 */
void slot_sum_ref(const uint16_t *slots, const float *weights, size_t rows, size_t top_k,
		  size_t hidden, double *sums);

/* What the host backend computes: the same in float. Overwrites sums: (rows, hidden). */
void slot_sum_host(const uint16_t *slots, const float *weights, size_t rows, size_t top_k,
		   size_t hidden, float *sums);

#endif

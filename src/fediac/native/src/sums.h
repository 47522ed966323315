/* The order of additions of fediac.core.exact: blocks of 4,096 values, padded with
   zeros, are folded in half until one value is left. */

#ifndef FEDIAC_SUMS_H
#define FEDIAC_SUMS_H

#include <math.h>

#include "kernels.h"

#define BLOCK 4096
#define STRIDE (BLOCK / 8) /* what three foldings leave of a block */
#define SLICE 32           /* of STRIDE, between two prefetches */

/* Fold `width` values, a power of two, to one. Overwrites them. */
INLINE double fold(double *values, size_t width) {
    while (width > 1) {
        width /= 2;
        ELEMENTWISE
        for (size_t i = 0; i < width; i++) values[i] = values[i] + values[i + width];
    }
    return values[0];
}

/* Three foldings at once: what becomes of eight values STRIDE apart. */
INLINE double fold_eight(const double v[8]) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/* Ask for `n` floats that will be read soon. Beyond the end of an array this is
   harmless. */
INLINE void prefetch(const float *values, size_t n) {
    for (size_t i = 0; i < n; i += 16) __builtin_prefetch(values + i);
}

/* The sum of squares of a whole block. */
INLINE double block_energy(const float *block) {
    double folded[STRIDE];
    for (size_t i = 0; i < STRIDE; i++) {
        double values[8];
        for (int part = 0; part < 8; part++) {
            double value = block[i + part * STRIDE];
            values[part] = value * value;
        }
        folded[i] = fold_eight(values);
    }
    return fold(folded, STRIDE);
}

/* The sums of magnitudes and of squares of a whole block. Meanwhile the blocks to come,
   at `next` and `next_too`, are fetched: else memory would idle. */
INLINE void block_sums(const float *block, const float *next, const float *next_too,
                       double *mass, double *energy) {
    double masses[STRIDE], energies[STRIDE];
    for (size_t start = 0; start < STRIDE; start += SLICE) {
        prefetch(next + 8 * start, 8 * SLICE);
        if (next_too) prefetch(next_too + 8 * start, 8 * SLICE);
        for (size_t i = start; i < start + SLICE; i++) {
            double magnitudes[8], squares[8];
            for (int part = 0; part < 8; part++) {
                magnitudes[part] = fabsf(block[i + part * STRIDE]);
                squares[part] = magnitudes[part] * magnitudes[part];
            }
            masses[i] = fold_eight(magnitudes);
            energies[i] = fold_eight(squares);
        }
    }
    *mass = fold(masses, STRIDE);
    *energy = fold(energies, STRIDE);
}

#endif

/* The start of a client's round: fediac.core.corrected and fediac.core.exact. */

#include "sums.h"

#include "isa.h"

/* The largest pattern of |values|: patterns order like magnitudes, and unlike a maximum
   of floats this sees a NaN, as larger than infinity. */
INLINE uint32_t largest_pattern(const float *values, size_t n) {
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t pattern = float_bits(values[i]) & MAGNITUDE_MASK;
        largest = pattern > largest ? pattern : largest;
    }
    return largest;
}

INLINE uint64_t n_nonfinite_in(const float *values, size_t n) {
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += (float_bits(values[i]) & MAGNITUDE_MASK) > LARGEST_BITS;
    return total;
}

/* Write update + residual (NULL: zero) to `out`, which may be either of them. */
INLINE void add_block(const float *update, const float *residual, float *out,
                      size_t n) {
    if (!residual) {
        memmove(out, update, n * sizeof *out);
        return;
    }
    ELEMENTWISE
    for (size_t i = 0; i < n; i++) out[i] = update[i] + residual[i];
}

/* Facts of update + residual, which goes to `out` unless that is NULL. Each block of
   4,096 leaves its sums in `masses` and `energies`. */
typedef struct {
    uint32_t peak; /* bit pattern */
    uint32_t unused;
    uint64_t n_nonfinite;
} facts;

INLINE void fediac_first_pass_body(const float *update, const float *residual,
                                   float *out, size_t n, double *masses,
                                   double *energies, facts *found) {
    float buffer[BLOCK];
    facts all = {0, 0, 0};
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t length = min_size(n - start, BLOCK);
        const float *block = update + start;
        if (residual || out) {
            float *sums = out ? out + start : buffer;
            add_block(block, residual ? residual + start : NULL, sums, length);
            block = sums;
        }
        if (length < BLOCK) {
            memmove(buffer, block, length * sizeof *buffer);
            memset(buffer + length, 0, (BLOCK - length) * sizeof *buffer);
            block = buffer;
        }
        uint32_t peak = largest_pattern(block, BLOCK);
        if (peak > LARGEST_BITS) all.n_nonfinite += n_nonfinite_in(block, BLOCK);
        all.peak = peak > all.peak ? peak : all.peak;
        block_sums(block, update + start + BLOCK,
                   residual ? residual + start + BLOCK : NULL, masses + start / BLOCK,
                   energies + start / BLOCK);
    }
    *found = all;
}

FOR_EACH_ISA(EXPORT, fediac_first_pass,
             (const float *update, const float *residual, float *out, size_t n,
              double *masses, double *energies, facts *found),
             (update, residual, out, n, masses, energies, found))

/* How many entries of update + residual (NULL: zero) are not finite or too large. */
INLINE void fediac_count_nonfinite_body(const float *update, const float *residual,
                                        size_t n, uint64_t *total) {
    float buffer[BLOCK];
    *total = 0;
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t length = min_size(n - start, BLOCK);
        const float *block = update + start;
        if (residual) {
            add_block(block, residual + start, buffer, length);
            block = buffer;
        }
        if (largest_pattern(block, length) > LARGEST_BITS)
            *total += n_nonfinite_in(block, length);
    }
}

FOR_EACH_ISA(EXPORT, fediac_count_nonfinite,
             (const float *update, const float *residual, size_t n, uint64_t *total),
             (update, residual, n, total))

/* The tree sum of `n` values, which it overwrites. */
EXPORT double fediac_tree_sum(double *values, size_t n) {
    while (n > 1) {
        size_t n_blocks = 0;
        for (size_t start = 0; start < n; start += BLOCK) {
            double block[BLOCK] = {0};
            memcpy(block, values + start, min_size(n - start, BLOCK) * sizeof *block);
            values[n_blocks++] = fold(block, BLOCK);
        }
        n = n_blocks;
    }
    return n ? values[0] : 0.0;
}

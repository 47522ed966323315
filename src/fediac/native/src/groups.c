/* Votes for groups of entries: fediac.core.groups. */

#include "isa.h"
#include "sums.h"

/* The largest magnitude of every `length` entries; the last group may be shorter.
   Patterns of finite floats without their sign are ordered as their magnitudes are. */
EXPORT void fediac_group_peaks(const float *values, size_t n, size_t length,
                               float *peaks) {
    for (size_t start = 0; start < n; start += length) {
        size_t stop = min_size(start + length, n);
        uint32_t peak = 0;
        for (size_t i = start; i < stop; i++) {
            uint32_t pattern = float_bits(values[i]) & MAGNITUDE_MASK;
            peak = pattern > peak ? pattern : peak;
        }
        *peaks++ = float_of_bits(peak);
    }
}

/* The root mean square of every `length` entries, a power of two; what the last group
   lacks is zero. Squares are added in the order of fediac.core.exact. */
INLINE void fediac_group_rms_body(const float *values, size_t n, size_t length,
                                  float *rms) {
    double squares[BLOCK];
    for (size_t start = 0; start < n; start += length) {
        size_t n_there = min_size(n - start, length);
        ELEMENTWISE
        for (size_t i = 0; i < n_there; i++) {
            double value = values[start + i];
            squares[i] = value * value;
        }
        memset(squares + n_there, 0, (length - n_there) * sizeof *squares);
        *rms++ = (float)sqrt(fold(squares, length) / (double)length);
    }
}

FOR_EACH_ISA(EXPORT, fediac_group_rms,
             (const float *values, size_t n, size_t length, float *rms),
             (values, n, length, rms))

/* Every bit of `bits` as `n_bytes_each` bytes, all zeros or all ones, until `n_bytes`
   are written. */
EXPORT void fediac_spread_groups(const uint8_t *bits, size_t n_bytes_each,
                                 size_t n_bytes, uint8_t *spread) {
    for (size_t start = 0, group = 0; start < n_bytes; start += n_bytes_each, group++) {
        int is_set = bits[group / 8] >> group % 8 & 1;
        memset(spread + start, is_set ? 0xFF : 0, min_size(n_bytes_each, n_bytes - start));
    }
}

/* The order of magnitudes: fediac.core.magnitudes. A pattern is the bits of a float32
   without the sign. */

#include "isa.h"

#define N_TABLES 4 /* neighbours often share a bin; each has a table of its own */
#define N_PATTERNS (1u << 15)
#define N_DIGITS (1u << 16)

/* Count the leading 15 bits of all patterns; the caller adds the tables up. */
EXPORT void fediac_pattern_counts(const float *values, size_t n,
                                  uint32_t tables[N_TABLES][N_PATTERNS]) {
    size_t i = 0;
    for (; i + N_TABLES <= n; i += N_TABLES)
        for (size_t table = 0; table < N_TABLES; table++)
            tables[table][(float_bits(values[i + table]) & MAGNITUDE_MASK) >> 16]++;
    for (; i < n; i++) tables[0][(float_bits(values[i]) & MAGNITUDE_MASK) >> 16]++;
}

/* Count the last 16 bits of those patterns that start with `leading`. */
EXPORT void fediac_digit_counts(const float *values, size_t n, uint32_t leading,
                                uint32_t counts[N_DIGITS]) {
    for (size_t i = 0; i < n; i++) {
        uint32_t pattern = float_bits(values[i]) & MAGNITUDE_MASK;
        if (pattern >> 16 == leading) counts[pattern & (N_DIGITS - 1)]++;
    }
}

#define CHUNK 4096 /* entries compared at a time */
#define CHUNK_WORDS (CHUNK / 64)

/* Set bit i of `above` and `equal` where pattern i of a chunk is that to `cut`. */
static void compare_baseline(const float *values, uint32_t cut, uint64_t *above,
                             uint64_t *equal) {
    for (size_t w = 0; w < CHUNK_WORDS; w++, values += 64) {
        above[w] = equal[w] = 0;
        for (int i = 0; i < 64; i++) {
            uint32_t pattern = float_bits(values[i]) & MAGNITUDE_MASK;
            above[w] |= (uint64_t)(pattern > cut) << i;
            equal[w] |= (uint64_t)(pattern == cut) << i;
        }
    }
}

#if HAVE_X86

TARGET_AVX512 static void compare_avx512(const float *values, uint32_t cut,
                                         uint64_t *above, uint64_t *equal) {
    const __m512i no_sign = _mm512_set1_epi32(MAGNITUDE_MASK);
    const __m512i cuts = _mm512_set1_epi32((int)cut);
    for (size_t w = 0; w < CHUNK_WORDS; w++, values += 64) {
        above[w] = equal[w] = 0;
        for (int part = 0; part < 4; part++) {
            __m512i bits = _mm512_loadu_si512(values + 16 * part);
            __m512i pattern = _mm512_and_si512(bits, no_sign);
            above[w] |= (uint64_t)_mm512_cmpgt_epu32_mask(pattern, cuts) << 16 * part;
            equal[w] |= (uint64_t)_mm512_cmpeq_epi32_mask(pattern, cuts) << 16 * part;
        }
    }
}

INLINE_AVX2 uint64_t mask_of(__m256i lanes) {
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(lanes));
}

TARGET_AVX2 static void compare_avx2(const float *values, uint32_t cut, uint64_t *above,
                                     uint64_t *equal) {
    const __m256i no_sign = _mm256_set1_epi32(MAGNITUDE_MASK);
    const __m256i cuts = _mm256_set1_epi32((int)cut);
    for (size_t w = 0; w < CHUNK_WORDS; w++, values += 64) {
        above[w] = equal[w] = 0;
        for (int part = 0; part < 8; part++) {
            __m256i bits = _mm256_loadu_si256((const __m256i *)(values + 8 * part));
            /* Patterns have no sign bit, so they compare like signed integers. */
            __m256i pattern = _mm256_and_si256(bits, no_sign);
            above[w] |= mask_of(_mm256_cmpgt_epi32(pattern, cuts)) << 8 * part;
            equal[w] |= mask_of(_mm256_cmpeq_epi32(pattern, cuts)) << 8 * part;
        }
    }
}

#endif

CALL_ISA(static, compare,
         (const float *values, uint32_t cut, uint64_t *above, uint64_t *equal),
         (values, cut, above, equal))

/* The lowest `n` of the set bits. */
INLINE uint64_t lowest_bits(uint64_t bits, uint64_t n) {
    uint64_t rest = bits;
    for (; n && rest; n--) rest &= rest - 1;
    return bits & ~rest;
}

/* Mark the entries above `cut`, and the first `n_equal` of those equal to it. */
EXPORT void fediac_mark_largest(const float *values, size_t n, uint32_t cut,
                                uint64_t n_equal, uint8_t *packed) {
    for (size_t start = 0; start < n; start += CHUNK) {
        size_t length = min_size(n - start, CHUNK);
        float padded[CHUNK];
        const float *chunk = values + start;
        if (length < CHUNK) {
            memset(padded, 0, sizeof padded);
            chunk = memcpy(padded, chunk, length * sizeof *chunk);
        }
        uint64_t above[CHUNK_WORDS], equal[CHUNK_WORDS];
        compare(chunk, cut, above, equal);
        for (size_t w = 0; 64 * w < length; w++) {
            /* Padding is equal to a cut of zero. */
            if (length - 64 * w < 64) equal[w] &= ~(~0ull << (length - 64 * w));
            uint64_t taken = lowest_bits(equal[w], n_equal);
            n_equal -= (uint64_t)__builtin_popcountll(taken);
            above[w] |= taken;
        }
        memcpy(packed + start / 8, above, (length + 7) / 8);
    }
}

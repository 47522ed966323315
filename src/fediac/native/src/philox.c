/* Random words in arrays, for kernels that do not use them in registers at once. */

#include "philox.h"

static void philox_words_at_baseline(uint64_t base, const uint32_t *offsets, size_t n,
                                     const fediac_stream *stream, uint32_t *words) {
    for (size_t i = 0; i < n; i++) {
        uint32_t block[4];
        philox_block((uint32_t)((base + offsets[i]) / 4), stream, block);
        words[i] = block[offsets[i] % 4];
    }
}

static void philox_run_baseline(uint64_t first, size_t n, const fediac_stream *stream,
                                uint32_t *words) {
    for (size_t i = 0; i < n; i += 4)
        philox_block((uint32_t)((first + i) / 4), stream, words + i);
}

#if HAVE_X86

/* The word of each offset, from the four of its block, in the low half of a lane. */
INLINE_AVX512 __m512i pick_avx512(__m512i offset, const __m512i block[4]) {
    __mmask8 is_odd = _mm512_test_epi64_mask(offset, _mm512_set1_epi64(1));
    __mmask8 is_late = _mm512_test_epi64_mask(offset, _mm512_set1_epi64(2));
    __m512i early = _mm512_mask_blend_epi64(is_odd, block[0], block[1]);
    __m512i late = _mm512_mask_blend_epi64(is_odd, block[2], block[3]);
    return _mm512_mask_blend_epi64(is_late, early, late);
}

TARGET_AVX512 static void philox_words_at_avx512(uint64_t base, const uint32_t *offsets,
                                                 size_t n, const fediac_stream *stream,
                                                 uint32_t *words) {
    const __m512i first = _mm512_set1_epi64((long long)(base / 4));
    stream_avx512 wide;
    widen_avx512(stream, &wide);
    for (size_t i = 0; i < n; i += 16) {
        __m512i offset[2], blocks[2], found[2][4];
        for (int v = 0; v < 2; v++) {
            offset[v] = _mm512_cvtepu32_epi64(
                _mm256_loadu_si256((const __m256i *)(offsets + i + 8 * v)));
            blocks[v] = _mm512_add_epi64(first, _mm512_srli_epi64(offset[v], 2));
        }
        philox_16_blocks(blocks, &wide, found);
        for (int v = 0; v < 2; v++) {
            __m256i word = _mm512_cvtepi64_epi32(pick_avx512(offset[v], found[v]));
            _mm256_storeu_si256((__m256i *)(words + i + 8 * v), word);
        }
    }
}

TARGET_AVX512 static void philox_run_avx512(uint64_t first, size_t n,
                                            const fediac_stream *stream,
                                            uint32_t *words) {
    stream_avx512 wide;
    widen_avx512(stream, &wide);
    for (size_t i = 0; i < n; i += 64) {
        __m512i ordered[4];
        philox_64_words((first + i) / 4, &wide, ordered);
        for (int v = 0; v < 4; v++)
            _mm512_storeu_si512(words + i + 16 * v, ordered[v]);
    }
}

INLINE_AVX2 __m256i pick_avx2(__m256i offset, const __m256i block[4]) {
    /* blendv looks at a lane's sign bit: move the offset's bits 0 and 1 there. */
    __m256d is_odd = _mm256_castsi256_pd(_mm256_slli_epi64(offset, 63));
    __m256d is_late = _mm256_castsi256_pd(_mm256_slli_epi64(offset, 62));
    __m256d early = _mm256_blendv_pd(_mm256_castsi256_pd(block[0]),
                                     _mm256_castsi256_pd(block[1]), is_odd);
    __m256d late = _mm256_blendv_pd(_mm256_castsi256_pd(block[2]),
                                    _mm256_castsi256_pd(block[3]), is_odd);
    return _mm256_castpd_si256(_mm256_blendv_pd(early, late, is_late));
}

TARGET_AVX2 static void philox_words_at_avx2(uint64_t base, const uint32_t *offsets,
                                             size_t n, const fediac_stream *stream,
                                             uint32_t *words) {
    const __m256i first = _mm256_set1_epi64x((long long)(base / 4));
    const __m256i low_halves = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    stream_avx2 wide;
    widen_avx2(stream, &wide);
    for (size_t i = 0; i < n; i += 8) {
        __m256i offset[2], blocks[2], found[2][4];
        for (int v = 0; v < 2; v++) {
            offset[v] = _mm256_cvtepu32_epi64(
                _mm_loadu_si128((const __m128i *)(offsets + i + 4 * v)));
            blocks[v] = _mm256_add_epi64(first, _mm256_srli_epi64(offset[v], 2));
        }
        philox_8_blocks(blocks, &wide, found);
        for (int v = 0; v < 2; v++) {
            __m256i word = _mm256_permutevar8x32_epi32(pick_avx2(offset[v], found[v]),
                                                       low_halves);
            _mm_storeu_si128((__m128i *)(words + i + 4 * v),
                             _mm256_castsi256_si128(word));
        }
    }
}

TARGET_AVX2 static void philox_run_avx2(uint64_t first, size_t n,
                                        const fediac_stream *stream, uint32_t *words) {
    stream_avx2 wide;
    widen_avx2(stream, &wide);
    for (size_t i = 0; i < n; i += 32) {
        __m256i ordered[4];
        philox_32_words((first + i) / 4, &wide, ordered);
        for (int v = 0; v < 4; v++)
            _mm256_storeu_si256((__m256i *)(words + i + 8 * v), ordered[v]);
    }
}

#endif

CALL_ISA(, philox_words_at,
         (uint64_t base, const uint32_t *offsets, size_t n, const fediac_stream *stream,
          uint32_t *words),
         (base, offsets, n, stream, words))

CALL_ISA(, philox_run,
         (uint64_t first, size_t n, const fediac_stream *stream, uint32_t *words),
         (first, n, stream, words))

/* For tests: the words of the entries from `first` on, a multiple of 4. */
EXPORT void fediac_words(uint64_t first, size_t n, const fediac_stream *stream,
                         uint32_t *words) {
    uint32_t buffer[256];
    for (size_t start = 0; start < n; start += 256) {
        size_t length = min_size(n - start, 256);
        philox_run(first + start, length, stream, buffer);
        memcpy(words + start, buffer, length * sizeof *words);
    }
}

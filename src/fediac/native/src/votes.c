/* Phase 1, client side: fediac.core.voting, the Bernoulli law.

   Entry l is voted for when u < 1 - (1 - p)^k in float64, with p = |U| / mass, u its
   random word times 2^-32 and the power by repeated squaring: the reference, `settle`
   below. Two bounds in float32 spare nearly every entry the power, `screen`:

       u >= k p             no vote (Bernoulli's inequality),
       u (1 + k p) < k p    a vote (because (1 - p)^k <= 1 / (1 + k p)).

   The bounds hold for real numbers; the reference rounds. With e = 2^-53, what it
   computes is

       p' = p (1 + d1),  b = 1 - p' + d2,  P = b^k (1 + d3)^(k-1),  q = (1 - P)(1 + d4)

   where |d1|, |d3|, |d4| <= e and |d2| <= e / 2 (b is at most 1): any order of k - 1
   multiplications has that form. For 0 <= p' <= 1 follows

       q <= k p (1 + 4 e) + 2 k e                                     (no vote)
       q >= (1 - e) s / (1 + s)  for  s = k p (1 - e) - 2 k e >= 0    (a vote)

   So the bounds need a slack of 2 k e beside k p; in units of u's words, 2^32 * 2 k e
   = k 2^-20. Where the power underflows, it is off by less than 2^-1000, nothing beside
   the slack.

   `screen` adds its own roundings: of the constants, the word, the products and sums,
   at most seven relative errors of 2^-24 on a path, less than 2^-21. MARGIN = 2^-19
   covers them all, and the errors in e above. It enlarges k p and the slack in the
   first test. In the second it shrinks k p, enlarges the slack, which gives
   low <= s (1 + 2^-24), and enlarges 1 + k p on the left; since s / (1 + s) grows with
   s, what passes is a vote. A product that underflows loses at most 2^-150, nothing
   beside the margin of the slack, which is at least 2^-39. Entries above the mass (they
   cannot be if the mass is their sum) always go to the reference. */

#include <float.h>
#include <math.h>

#include "philox.h"

#define CHUNK 4096 /* entries screened at a time */
#define CHUNK_WORDS (CHUNK / 64)
#define BATCH 256                /* entries whose powers are computed together */
#define PENDING_FULL (4 * BATCH) /* entries that may wait for it */

#define MARGIN 0x1p-19

typedef struct {
    float high_factor;  /* words of k p for a unit of |U|, rounded up */
    float low_factor;   /* the same, rounded down */
    float slack;        /* words, for the reference's own roundings */
    float largest;      /* no |U| above it is screened */
    float shrink_unit;  /* 1 + MARGIN */
    float shrink_words; /* (1 + MARGIN) / 2^32 */
} bounds;

/* Returns 0 when the bounds leave the range of float32. */
static int make_bounds(double mass, uint64_t n_votes, bounds *made) {
    double factor = 0x1p32 * (double)n_votes / mass;
    if (!(factor >= 0x1p-100 && factor <= 0x1p100)) return 0;
    made->high_factor = (float)(factor * (1.0 + MARGIN));
    made->low_factor = (float)(factor * (1.0 - MARGIN));
    made->slack = (float)((double)n_votes * 0x1p-20 * (1.0 + MARGIN));
    made->largest = mass < FLT_MAX ? (float)mass : FLT_MAX;
    if ((double)made->largest > mass) made->largest = nextafterf(made->largest, 0.0f);
    made->shrink_unit = (float)(1.0 + MARGIN);
    made->shrink_words = (float)((1.0 + MARGIN) * 0x1p-32);
    return 1;
}

/* Bits from 64 bytes that are 0 or 1. The multiplication moves bit 0 of byte i to bit
   56 + i, and no two of its partial products meet. */
INLINE uint64_t bits_of_flags(const uint8_t *flags) {
    uint64_t bits = 0;
    for (int byte = 0; byte < 8; byte++) {
        uint64_t eight = load_word(flags + 8 * byte) * 0x0102040810204080ull >> 56;
        bits |= eight << 8 * byte;
    }
    return bits;
}

/* Set bit i of `sure` where entry i is voted for beyond doubt, and bit i of `open`
   where only the reference can tell. This is the version to read; the others compute
   the same in vectors. */
static void screen_baseline(const float *values, uint64_t first, const bounds *b,
                            const fediac_stream *stream, uint64_t *sure,
                            uint64_t *open) {
    uint32_t words[64];
    uint8_t is_sure[64], is_open[64];
    for (size_t w = 0; w < CHUNK_WORDS; w++, values += 64) {
        philox_run(first + 64 * w, 64, stream, words);
        for (int i = 0; i < 64; i++) {
            float magnitude = fabsf(values[i]);
            float word = (float)words[i];
            float high = magnitude * b->high_factor + b->slack;
            float low = magnitude * b->low_factor - b->slack;
            float weighted = word * (low * b->shrink_words + b->shrink_unit);
            is_sure[i] = (weighted < low) & (magnitude <= b->largest);
            is_open[i] = (word < high) & !is_sure[i];
        }
        sure[w] = bits_of_flags(is_sure);
        open[w] = bits_of_flags(is_open);
    }
}

#if HAVE_X86

TARGET_AVX512 static void screen_avx512(const float *values, uint64_t first,
                                        const bounds *b, const fediac_stream *stream,
                                        uint64_t *sure, uint64_t *open) {
    const __m512 high_factor = _mm512_set1_ps(b->high_factor);
    const __m512 low_factor = _mm512_set1_ps(b->low_factor);
    const __m512 slack = _mm512_set1_ps(b->slack);
    const __m512 largest = _mm512_set1_ps(b->largest);
    const __m512 shrink_unit = _mm512_set1_ps(b->shrink_unit);
    const __m512 shrink_words = _mm512_set1_ps(b->shrink_words);
    stream_avx512 wide;
    widen_avx512(stream, &wide);
    for (size_t w = 0; w < CHUNK_WORDS; w++, values += 64) {
        __m512i words[4];
        philox_64_words(first / 4 + 16 * w, &wide, words);
        uint64_t sure_bits = 0, open_bits = 0;
        for (int part = 0; part < 4; part++) {
            __m512 magnitude = _mm512_abs_ps(_mm512_loadu_ps(values + 16 * part));
            __m512 word = _mm512_cvtepu32_ps(words[part]);
            __m512 high = _mm512_add_ps(_mm512_mul_ps(magnitude, high_factor), slack);
            __m512 low = _mm512_sub_ps(_mm512_mul_ps(magnitude, low_factor), slack);
            __m512 weight = _mm512_mul_ps(low, shrink_words);
            weight = _mm512_add_ps(weight, shrink_unit);
            __mmask16 is_screened = _mm512_cmp_ps_mask(magnitude, largest, _CMP_LE_OQ);
            __mmask16 is_sure = _mm512_mask_cmp_ps_mask(
                is_screened, _mm512_mul_ps(word, weight), low, _CMP_LT_OQ);
            __mmask16 may_be = _mm512_cmp_ps_mask(word, high, _CMP_LT_OQ);
            sure_bits |= (uint64_t)is_sure << 16 * part;
            open_bits |= (uint64_t)may_be << 16 * part;
        }
        sure[w] = sure_bits;
        open[w] = open_bits & ~sure_bits;
    }
}

/* AVX2 converts signed integers only. Both halves of the word are exact as floats, so
   their sum is rounded once, like the conversion of the whole. */
INLINE_AVX2 __m256 float_of_words(__m256i words) {
    __m256 high = _mm256_cvtepi32_ps(_mm256_srli_epi32(words, 16));
    __m256 low = _mm256_cvtepi32_ps(_mm256_and_si256(words, _mm256_set1_epi32(0xFFFF)));
    return _mm256_add_ps(_mm256_mul_ps(high, _mm256_set1_ps(65536.0f)), low);
}

TARGET_AVX2 static void screen_avx2(const float *values, uint64_t first,
                                    const bounds *b, const fediac_stream *stream,
                                    uint64_t *sure, uint64_t *open) {
    const __m256 high_factor = _mm256_set1_ps(b->high_factor);
    const __m256 low_factor = _mm256_set1_ps(b->low_factor);
    const __m256 slack = _mm256_set1_ps(b->slack);
    const __m256 largest = _mm256_set1_ps(b->largest);
    const __m256 shrink_unit = _mm256_set1_ps(b->shrink_unit);
    const __m256 shrink_words = _mm256_set1_ps(b->shrink_words);
    const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(MAGNITUDE_MASK));
    stream_avx2 wide;
    widen_avx2(stream, &wide);
    uint8_t sure_bits[CHUNK / 8], open_bits[CHUNK / 8];
    for (size_t i = 0; i < CHUNK; i += 32) {
        __m256i words[4];
        philox_32_words((first + i) / 4, &wide, words);
        for (size_t part = 0; part < 4; part++) {
            __m256 value = _mm256_loadu_ps(values + i + 8 * part);
            __m256 magnitude = _mm256_and_ps(value, no_sign);
            __m256 word = float_of_words(words[part]);
            __m256 high = _mm256_add_ps(_mm256_mul_ps(magnitude, high_factor), slack);
            __m256 low = _mm256_sub_ps(_mm256_mul_ps(magnitude, low_factor), slack);
            __m256 weight = _mm256_mul_ps(low, shrink_words);
            weight = _mm256_add_ps(weight, shrink_unit);
            __m256 is_sure = _mm256_and_ps(
                _mm256_cmp_ps(_mm256_mul_ps(word, weight), low, _CMP_LT_OQ),
                _mm256_cmp_ps(magnitude, largest, _CMP_LE_OQ));
            __m256 may_be = _mm256_cmp_ps(word, high, _CMP_LT_OQ);
            __m256 is_open = _mm256_andnot_ps(is_sure, may_be);
            sure_bits[i / 8 + part] = (uint8_t)_mm256_movemask_ps(is_sure);
            open_bits[i / 8 + part] = (uint8_t)_mm256_movemask_ps(is_open);
        }
    }
    memcpy(sure, sure_bits, sizeof sure_bits);
    memcpy(open, open_bits, sizeof open_bits);
}

#endif

CALL_ISA(static, screen,
         (const float *values, uint64_t first, const bounds *b,
          const fediac_stream *stream, uint64_t *sure, uint64_t *open),
         (values, first, b, stream, sure, open))

typedef struct {
    const float *values;
    double mass;
    uint64_t n_votes;
} ballot;

/* The reference for up to BATCH entries: is_vote[i] says whether the entry at
   offsets[i], whose random word is words[i], is voted for. Each step runs over the
   whole batch, so that the chain of multiplications is many entries wide. */
INLINE void reference_body(const ballot *ballot, const uint32_t *offsets,
                           const uint32_t *words, size_t n, uint8_t *is_vote) {
    double base[BATCH], power[BATCH];
    for (size_t i = 0; i < n; i++)
        base[i] = 1.0 - (double)fabsf(ballot->values[offsets[i]]) / ballot->mass;
    int is_first = 1;
    for (uint64_t exponent = ballot->n_votes; exponent; exponent >>= 1) {
        if (exponent & 1) {
            if (is_first) memcpy(power, base, n * sizeof *base);
            else
                for (size_t i = 0; i < n; i++) power[i] *= base[i];
            is_first = 0;
        }
        if (exponent > 1)
            for (size_t i = 0; i < n; i++) base[i] *= base[i];
    }
    for (size_t i = 0; i < n; i++)
        is_vote[i] = (double)words[i] * 0x1p-32 < 1.0 - power[i];
}

FOR_EACH_ISA(static, reference,
             (const ballot *ballot, const uint32_t *offsets, const uint32_t *words,
              size_t n, uint8_t *is_vote),
             (ballot, offsets, words, n, is_vote))

/* Set the bits of those entries at `offsets` that the reference votes for. */
static void settle(const ballot *ballot, uint64_t first, const uint32_t *offsets,
                   size_t n, const fediac_stream *stream, uint8_t *packed) {
    uint32_t words[BATCH];
    uint8_t is_vote[BATCH];
    for (size_t start = 0; start < n; start += BATCH) {
        const uint32_t *batch = offsets + start;
        size_t length = min_size(n - start, BATCH);
        philox_words_at(first, batch, length, stream, words);
        reference(ballot, batch, words, length, is_vote);
        for (size_t i = 0; i < length; i++)
            packed[batch[i] / 8] |= (uint8_t)(is_vote[i] << batch[i] % 8);
    }
}

/* One client's votes on `n` entries, the first of which is entry `first` of the update,
   a multiple of 4096; `packed` gets (n + 7) / 8 bytes. */
EXPORT void fediac_draw_votes(const float *values, uint64_t first, size_t n,
                              double mass, uint64_t n_votes,
                              const fediac_stream *stream, uint8_t *packed) {
    ballot ballot = {values, mass, n_votes};
    bounds bounds;
    int is_screened = make_bounds(mass, n_votes, &bounds);
    uint32_t pending[PENDING_FULL + CHUNK + 16] = {0};
    size_t n_pending = 0;
    for (size_t start = 0; start < n; start += CHUNK) {
        size_t length = min_size(n - start, CHUNK), n_bytes = (length + 7) / 8;
        float padded[CHUNK];
        const float *chunk = values + start;
        if (length < CHUNK && is_screened) {
            memset(padded, 0, sizeof padded);
            memcpy(padded, chunk, length * sizeof *chunk);
            chunk = padded;
        }
        uint64_t sure[CHUNK_WORDS] = {0}, open[CHUNK_WORDS];
        if (is_screened) screen(chunk, first + start, &bounds, stream, sure, open);
        else memset(open, 0xFF, sizeof open);
        memcpy(packed + start / 8, sure, n_bytes);
        for (size_t w = 0; w < (length + 63) / 64; w++) {
            /* Padding beyond the last entry can be open too. */
            if (length - 64 * w < 64) open[w] &= ~(~0ull << (length - 64 * w));
            for (uint64_t bits = open[w]; bits; bits &= bits - 1)
                pending[n_pending++] =
                    (uint32_t)(start + 64 * w + (size_t)__builtin_ctzll(bits));
        }
        if (n_pending >= PENDING_FULL || start + CHUNK >= n) {
            settle(&ballot, first, pending, n_pending, stream, packed);
            n_pending = 0;
        }
    }
}

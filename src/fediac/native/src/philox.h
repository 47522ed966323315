/* Philox 4x32-10, the random words of fediac.core.rng: counter (entry / 4, purpose,
   round, client) and the seed as key give the words of four entries.

   The vector versions keep each counter word in the low half of a 64-bit lane, one
   block a lane. A 32x32-bit product then fills exactly its lane, and its junk may stay
   in the high half: the next multiplication ignores it. That needs six instructions a
   round and no shuffle. */

#ifndef FEDIAC_PHILOX_H
#define FEDIAC_PHILOX_H

#include "isa.h"

#define PHILOX_ROUNDS 10
#define PHILOX_MULTIPLIER_0 0xD2511F53u
#define PHILOX_MULTIPLIER_1 0xCD9E8D57u
#define PHILOX_WEYL_0 0x9E3779B9u
#define PHILOX_WEYL_1 0xBB67AE85u

/* fediac.core.rng.Stream: the key, and the counter's last three words. */
typedef struct {
    uint32_t key[2];
    uint32_t tail[3];
} fediac_stream;

/* The four words of one counter: the readable version the others are tested against. */
INLINE void philox_block(uint32_t block, const fediac_stream *stream,
                         uint32_t words[4]) {
    uint32_t c0 = block, c1 = stream->tail[0], c2 = stream->tail[1],
             c3 = stream->tail[2];
    uint32_t k0 = stream->key[0], k1 = stream->key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t product0 = (uint64_t)PHILOX_MULTIPLIER_0 * c0;
        uint64_t product1 = (uint64_t)PHILOX_MULTIPLIER_1 * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product0;
        k0 += PHILOX_WEYL_0;
        k1 += PHILOX_WEYL_1;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

/* The words of the entries at `base + offsets[i]`, where `base` is a multiple of 4.
   Both arrays must have room for `n` rounded up to a multiple of 16. */
void philox_words_at(uint64_t base, const uint32_t *offsets, size_t n,
                     const fediac_stream *stream, uint32_t *words);

/* The words of the entries from `first` on, a multiple of 4; `words` must have room
   for `n` rounded up to a multiple of 64. */
void philox_run(uint64_t first, size_t n, const fediac_stream *stream, uint32_t *words);

#if HAVE_X86

/* A stream laid out for vectors, made once before a loop. */
typedef struct {
    __m512i keys[PHILOX_ROUNDS][2];
    __m512i tail[3];
} stream_avx512;

INLINE_AVX512 void widen_avx512(const fediac_stream *stream, stream_avx512 *wide) {
    uint32_t k0 = stream->key[0], k1 = stream->key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        wide->keys[round][0] = _mm512_set1_epi64(k0);
        wide->keys[round][1] = _mm512_set1_epi64(k1);
        k0 += PHILOX_WEYL_0;
        k1 += PHILOX_WEYL_1;
    }
    for (int i = 0; i < 3; i++) wide->tail[i] = _mm512_set1_epi64(stream->tail[i]);
}

/* Words 0..3 of 2 x 8 blocks, each in the low half of a lane. A round waits for its
   multiplications; two vectors at a time give the processor something to do. */
INLINE_AVX512 void philox_16_blocks(const __m512i blocks[2],
                                    const stream_avx512 *stream, __m512i words[2][4]) {
    const __m512i multiplier0 = _mm512_set1_epi64(PHILOX_MULTIPLIER_0);
    const __m512i multiplier1 = _mm512_set1_epi64(PHILOX_MULTIPLIER_1);
    for (int v = 0; v < 2; v++) {
        words[v][0] = blocks[v];
        for (int i = 0; i < 3; i++) words[v][i + 1] = stream->tail[i];
    }
    for (int round = 0; round < PHILOX_ROUNDS; round++)
        for (int v = 0; v < 2; v++) {
            __m512i product0 = _mm512_mul_epu32(words[v][0], multiplier0);
            __m512i product1 = _mm512_mul_epu32(words[v][2], multiplier1);
            __m512i high0 = _mm512_srli_epi64(product0, 32);
            __m512i high1 = _mm512_srli_epi64(product1, 32);
            /* 0x96 is the truth table of a three-way exclusive or. */
            words[v][0] = _mm512_ternarylogic_epi64(high1, words[v][1],
                                                    stream->keys[round][0], 0x96);
            words[v][1] = product1;
            words[v][2] = _mm512_ternarylogic_epi64(high0, words[v][3],
                                                    stream->keys[round][1], 0x96);
            words[v][3] = product0;
        }
}

/* The words of 64 entries in order, from the block `first` on. */
INLINE_AVX512 void philox_64_words(uint64_t first, const stream_avx512 *stream,
                                   __m512i ordered[4]) {
    /* Lanes hold blocks in the order that the unpacking below turns into 0..7. */
    const __m512i places = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    __m512i blocks[2], words[2][4];
    blocks[0] = _mm512_add_epi64(_mm512_set1_epi64((long long)first), places);
    blocks[1] = _mm512_add_epi64(blocks[0], _mm512_set1_epi64(8));
    philox_16_blocks(blocks, stream, words);
    for (int v = 0; v < 2; v++) {
        /* 0xA0 copies the low half of each lane to its high half. */
        const __m512i *word = words[v];
        __m512i low = _mm512_mask_shuffle_epi32(word[0], 0xAAAA, word[1], 0xA0);
        __m512i high = _mm512_mask_shuffle_epi32(word[2], 0xAAAA, word[3], 0xA0);
        ordered[2 * v] = _mm512_unpacklo_epi64(low, high);
        ordered[2 * v + 1] = _mm512_unpackhi_epi64(low, high);
    }
}

typedef struct {
    __m256i keys[PHILOX_ROUNDS][2];
    __m256i tail[3];
} stream_avx2;

INLINE_AVX2 void widen_avx2(const fediac_stream *stream, stream_avx2 *wide) {
    uint32_t k0 = stream->key[0], k1 = stream->key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        wide->keys[round][0] = _mm256_set1_epi64x(k0);
        wide->keys[round][1] = _mm256_set1_epi64x(k1);
        k0 += PHILOX_WEYL_0;
        k1 += PHILOX_WEYL_1;
    }
    for (int i = 0; i < 3; i++) wide->tail[i] = _mm256_set1_epi64x(stream->tail[i]);
}

/* Words 0..3 of 2 x 4 blocks, each in the low half of a lane. */
INLINE_AVX2 void philox_8_blocks(const __m256i blocks[2], const stream_avx2 *stream,
                                 __m256i words[2][4]) {
    const __m256i multiplier0 = _mm256_set1_epi64x(PHILOX_MULTIPLIER_0);
    const __m256i multiplier1 = _mm256_set1_epi64x(PHILOX_MULTIPLIER_1);
    for (int v = 0; v < 2; v++) {
        words[v][0] = blocks[v];
        for (int i = 0; i < 3; i++) words[v][i + 1] = stream->tail[i];
    }
    for (int round = 0; round < PHILOX_ROUNDS; round++)
        for (int v = 0; v < 2; v++) {
            __m256i product0 = _mm256_mul_epu32(words[v][0], multiplier0);
            __m256i product1 = _mm256_mul_epu32(words[v][2], multiplier1);
            __m256i high0 = _mm256_srli_epi64(product0, 32);
            __m256i high1 = _mm256_srli_epi64(product1, 32);
            __m256i keyed1 = _mm256_xor_si256(words[v][1], stream->keys[round][0]);
            __m256i keyed3 = _mm256_xor_si256(words[v][3], stream->keys[round][1]);
            words[v][0] = _mm256_xor_si256(high1, keyed1);
            words[v][1] = product1;
            words[v][2] = _mm256_xor_si256(high0, keyed3);
            words[v][3] = product0;
        }
}

/* The words of 32 entries in order, from the block `first` on. */
INLINE_AVX2 void philox_32_words(uint64_t first, const stream_avx2 *stream,
                                 __m256i ordered[4]) {
    const __m256i places = _mm256_setr_epi64x(0, 2, 1, 3);
    __m256i blocks[2], words[2][4];
    blocks[0] = _mm256_add_epi64(_mm256_set1_epi64x((long long)first), places);
    blocks[1] = _mm256_add_epi64(blocks[0], _mm256_set1_epi64x(4));
    philox_8_blocks(blocks, stream, words);
    for (int v = 0; v < 2; v++) {
        __m256i odd = _mm256_slli_epi64(words[v][1], 32);
        __m256i last = _mm256_slli_epi64(words[v][3], 32);
        __m256i low = _mm256_blend_epi32(words[v][0], odd, 0xAA);
        __m256i high = _mm256_blend_epi32(words[v][2], last, 0xAA);
        ordered[2 * v] = _mm256_unpacklo_epi64(low, high);
        ordered[2 * v + 1] = _mm256_unpackhi_epi64(low, high);
    }
}

#endif

#endif

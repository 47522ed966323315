/* What every kernel file shares: exports, constants and small helpers.

   Each kernel gives the same bits as the Python function of the same name in
   fediac.core, on any instruction set and for any split of the work over threads.
   All of them are single-threaded and never allocate: Python gives them memory. */

#ifndef FEDIAC_KERNELS_H
#define FEDIAC_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "packed bits are read as little-endian words; fediac.core serves this machine"
#endif

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

/* A loop whose iterations touch the same element only when they are the same
   iteration, so that it may be vectorised although its pointers may be equal. */
#if defined(__clang__)
#define ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define ELEMENTWISE _Pragma("GCC ivdep")
#endif

#define MAGNITUDE_MASK 0x7FFFFFFFu /* all bits of a float32 but its sign */
#define LARGEST_BITS 0x71800000u   /* 2**100: beyond it nothing may be sent */

INLINE uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint64_t load_word(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

INLINE void store_word(uint8_t *bytes, uint64_t word) {
    memcpy(bytes, &word, sizeof word);
}

/* Up to eight bytes as one word, missing ones zero. */
INLINE uint64_t load_tail(const uint8_t *bytes, size_t n_bytes) {
    uint64_t word = 0;
    memcpy(&word, bytes, n_bytes < 8 ? n_bytes : 8);
    return word;
}

INLINE size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

#endif

/* Convolutions with stride 1 over images whose channels lie last: conv_body.h has the
   inner loops, conv.c what is around them. */

#ifndef FEDIAC_CONV_H
#define FEDIAC_CONV_H

#include "isa.h"

#define WIDE 16 /* channels are filled up to a multiple of this: the longest vector */

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* What an output pixel sees of the padded image: `n_rows` stretches of memory with
   `length` values each. Its neighbour sees the same, `pixel_step` values further on. */
struct window {
    size_t n_rows, row_step, length, pixel_step;
};

/* Height and width of an image, and its channels, filled up. */
struct extent {
    size_t height, width, n_wide;
};

#endif

/* Convolutions with stride 1 over images whose channels lie last: conv_body.h has the
   inner loops, conv.c what is around them. */

#ifndef FEDIAC_CONV_H
#define FEDIAC_CONV_H

#include "isa.h"

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

/* Of the output; channels come in multiples of 16, the longest vector. */
struct extent {
    size_t height, width, n_channels;
};

/* An entry of the convolution that has a gradient: where its window begins in the padded
   image, and where its weights begin. */
struct winner {
    uint32_t pixel, weight;
    float slope;
};

/* Where gradients come from and go to. Images are padded; weights lie as
   [channel][window]. */
struct places {
    const float *image, *weights;
    float *d_image, *d_weights;
};

#endif

/* Convolutions for training on a CPU: few inputs, stride 1, channels last, and at once
   pooled and rectified if asked to, so that what lies between stays in the cache.
   Unlike other kernels these use fused multiply-add: they equal PyTorch's up to
   rounding, as PyTorch's on two machines do. */

#include "conv.h"
#include "pool.h"

#if HAVE_X86
#define LANES 16
#define MOST 14
#define TARGET __attribute__((target(AVX512_FEATURES ",fma")))
#define NAME(name) name##_avx512
#include "conv_body.h"

#define LANES 8
#define MOST 6
#define TARGET __attribute__((target(AVX2_FEATURES ",fma")))
#define NAME(name) name##_avx2
#include "conv_body.h"
#endif

#define LANES 4
#define MOST 6
#define TARGET
#define NAME(name) name##_baseline
#include "conv_body.h"

CALL_ISA(static, convolve_image,
         (const float *image, const struct window *seen, const float *weights,
          const float *bias, const struct extent *size, float *out),
         (image, seen, weights, bias, size, out))

CALL_ISA(static, correlate_image,
         (const float *image, const struct window *seen, const float *gradient,
          const struct extent *size, float *out),
         (image, seen, gradient, size, out))

CALL_ISA(static, scatter_winners,
         (const struct winner *winners, size_t n, const struct window *seen,
          const struct places *at),
         (winners, n, seen, at))

/* Must equal ConvolutionShape in layers.py. */
struct shape {
    size_t n_images, height, width, n_in, n_out;
    size_t kernel_height, kernel_width, pad_height, pad_width;
    size_t is_pooled, is_rectified;
};

static struct window window_of(const struct shape *s) {
    return (struct window){s->kernel_height, (s->width + 2 * s->pad_width) * s->n_in,
                           s->kernel_width * s->n_in, s->n_in};
}

static struct extent output_of(const struct shape *s) {
    return (struct extent){s->height + 2 * s->pad_height - s->kernel_height + 1,
                           s->width + 2 * s->pad_width - s->kernel_width + 1, s->n_out};
}

static struct pool_shape pool_of(const struct shape *s) {
    struct extent size = output_of(s);
    return (struct pool_shape){size.height, size.width, s->n_out, s->is_rectified};
}

static size_t n_weights(const struct shape *s) {
    return s->n_out * s->kernel_height * s->kernel_width * s->n_in;
}

static size_t n_padded(const struct shape *s) {
    return (s->height + 2 * s->pad_height) * window_of(s).row_step;
}

static size_t n_convolved(const struct shape *s) {
    struct extent size = output_of(s);
    return size.height * size.width * s->n_out;
}

/* Values that an image becomes in the end. */
static size_t n_output(const struct shape *s) {
    struct extent size = output_of(s);
    if (!s->is_pooled) return n_convolved(s);
    return size.height / 2 * (size.width / 2) * s->n_out;
}

#define N_WINNER (sizeof(struct winner) / sizeof(float))

/* Floats of scratch for either direction. */
EXPORT size_t fediac_convolution_scratch(const struct shape *s) {
    size_t both = n_weights(s) + s->n_out + n_convolved(s) + n_padded(s);
    size_t scatter = 2 * n_padded(s) + N_WINNER * (n_output(s) + 1);
    return both > scatter ? both : scatter;
}

static void pad_image(const float *image, const struct shape *s, float *out) {
    size_t row = s->width * s->n_in, side = s->pad_width * s->n_in;
    size_t edge = s->pad_height * (row + 2 * side);
    memset(out, 0, edge * sizeof *out);
    out += edge;
    for (size_t y = 0; y < s->height; y++, image += row, out += row + 2 * side) {
        memset(out, 0, side * sizeof *out);
        memcpy(out + side, image, row * sizeof *out);
        memset(out + side + row, 0, side * sizeof *out);
    }
    memset(out, 0, edge * sizeof *out);
}

static void crop_image(const float *padded, const struct shape *s, float *out) {
    size_t row = s->width * s->n_in, side = s->pad_width * s->n_in;
    padded += s->pad_height * (row + 2 * side) + side;
    for (size_t y = 0; y < s->height; y++, padded += row + 2 * side, out += row)
        memcpy(out, padded, row * sizeof *out);
}

/* from[n_rows][n_columns] -> to[n_columns][n_rows]. */
static void transpose(const float *from, size_t n_rows, size_t n_columns, float *to) {
    for (size_t row = 0; row < n_rows; row++)
        for (size_t column = 0; column < n_columns; column++)
            to[column * n_rows + row] = *from++;
}

/* Convolve images[n_images][height][width][n_in] with weights[n_out][kernel_height]
   [kernel_width][n_in], then pool if asked to. `bias` may be null. */
EXPORT void fediac_convolve(const struct shape *s, const float *images,
                            const float *weights, const float *bias, float *scratch,
                            float *out, int32_t *winners) {
    const struct window seen = window_of(s);
    const struct extent size = output_of(s);
    const struct pool_shape pool = pool_of(s);
    float *start = scratch + n_weights(s), *convolved = start + s->n_out;
    float *padded = convolved + n_convolved(s);
    transpose(weights, s->n_out, seen.n_rows * seen.length, scratch);
    memset(start, 0, s->n_out * sizeof *start);
    if (bias) memcpy(start, bias, s->n_out * sizeof *start);
    for (size_t i = 0; i < s->n_images; i++, out += n_output(s)) {
        pad_image(images + i * s->height * s->width * s->n_in, s, padded);
        convolve_image(padded, &seen, scratch, start, &size,
                       s->is_pooled ? convolved : out);
        if (s->is_pooled) pool_image(convolved, &pool, out, winners + i * n_output(s));
    }
}

/* Gradients of weights and bias from that of the output. With pooling, `winners` say
   where its entries belong. */
EXPORT void fediac_correlate(const struct shape *s, const float *images,
                             const float *gradient, const int32_t *winners,
                             float *scratch, float *d_weights, float *d_bias) {
    const struct window seen = window_of(s), always_one = {1, 0, 1, 0};
    const struct extent size = output_of(s);
    const struct pool_shape pool = pool_of(s);
    const float one = 1.0f;
    float *convolved = scratch + n_weights(s), *padded = convolved + n_convolved(s);
    memset(scratch, 0, n_weights(s) * sizeof *scratch);
    memset(d_bias, 0, s->n_out * sizeof *d_bias);
    for (size_t i = 0; i < s->n_images; i++, gradient += n_output(s)) {
        const float *slopes = gradient;
        if (s->is_pooled) {
            spread_image(gradient, winners + i * n_output(s), &pool, convolved);
            slopes = convolved;
        }
        pad_image(images + i * s->height * s->width * s->n_in, s, padded);
        correlate_image(padded, &seen, slopes, &size, scratch);
        /* The bias is the weight of an input that is always one. */
        correlate_image(&one, &always_one, slopes, &size, d_bias);
    }
    transpose(scratch, seen.n_rows * seen.length, s->n_out, d_weights);
}

/* List the winners of one image and add their gradients to the bias; return how many
   there are. Which entries win is as good as random, so no branch depends on it: the
   next winner overwrites what nobody won. */
static size_t list_winners(const struct shape *s, const float *gradient,
                           const int32_t *winners, float *d_bias, struct winner *out) {
    const struct window seen = window_of(s);
    const struct extent size = output_of(s);
    size_t n = 0;
    for (size_t y = 0; y + 2 <= size.height; y += 2) {
        for (size_t x = 0; x + 2 <= size.width; x += 2) {
            for (size_t channel = 0; channel < s->n_out; channel++) {
                size_t winner = (size_t)*winners++;
                size_t pixel = (y + winner / 2) * seen.row_step +
                               (x + winner % 2) * seen.pixel_step;
                float slope = *gradient++;
                out[n].pixel = (uint32_t)pixel;
                out[n].weight = (uint32_t)(channel * seen.n_rows * seen.length);
                out[n].slope = slope;
                n += winner != NOBODY;
                d_bias[channel] += winner != NOBODY ? slope : 0.0f;
            }
        }
    }
    return n;
}

/* Gradients of weights, bias and images from that of the pooled output. At most one in
   four entries of the convolution has a gradient: only those are visited. */
EXPORT void fediac_scatter(const struct shape *s, const float *images,
                           const float *weights, const float *gradient,
                           const int32_t *winners, float *scratch, float *d_weights,
                           float *d_bias, float *d_images) {
    const struct window seen = window_of(s);
    float *padded = scratch, *d_padded = padded + n_padded(s);
    struct winner *listed = (struct winner *)(d_padded + n_padded(s));
    const struct places at = {padded, weights, d_padded, d_weights};
    size_t n_image = s->height * s->width * s->n_in;
    memset(d_weights, 0, n_weights(s) * sizeof *d_weights);
    memset(d_bias, 0, s->n_out * sizeof *d_bias);
    for (size_t i = 0; i < s->n_images; i++, gradient += n_output(s)) {
        size_t n = list_winners(s, gradient, winners + i * n_output(s), d_bias, listed);
        pad_image(images + i * n_image, s, padded);
        memset(d_padded, 0, n_padded(s) * sizeof *d_padded);
        scatter_winners(listed, n, &seen, &at);
        crop_image(d_padded, s, d_images + i * n_image);
    }
}

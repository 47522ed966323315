/* Convolutions for training on a CPU: few channels, stride 1, channels last. PyTorch's
   are made for many channels. Unlike other kernels these use fused multiply-add: they
   equal PyTorch's up to rounding, as PyTorch's on two machines do. */

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

/* Must equal ConvolutionShape in layers.py. Pooling needs channels that fill vectors. */
struct shape {
    size_t n_images, height, width, n_in, n_out;
    size_t kernel_height, kernel_width, pad_height, pad_width;
    size_t is_pooled, is_rectified;
};

INLINE size_t fill_up(size_t n_channels) {
    return (n_channels + WIDE - 1) / WIDE * WIDE;
}

INLINE size_t values_of(const struct extent *size) {
    return size->height * size->width * size->n_wide;
}

static struct extent output_of(const struct shape *s) {
    return (struct extent){s->height + 2 * s->pad_height - s->kernel_height + 1,
                           s->width + 2 * s->pad_width - s->kernel_width + 1,
                           fill_up(s->n_out)};
}

/* The convolution that takes the gradient of the output back to the input. */
static struct shape backwards(const struct shape *s) {
    struct extent out = output_of(s);
    return (struct shape){s->n_images, out.height, out.width, s->n_out, s->n_in,
                          s->kernel_height, s->kernel_width,
                          s->kernel_height - 1 - s->pad_height,
                          s->kernel_width - 1 - s->pad_width, 0, 0};
}

static struct window window_of(const struct shape *s) {
    return (struct window){s->kernel_height, (s->width + 2 * s->pad_width) * s->n_in,
                           s->kernel_width * s->n_in, s->n_in};
}

/* Floats of scratch that one convolution needs: its weights and bias filled up, a
   padded image, an output filled up. */
static size_t scratch_of(const struct shape *s) {
    struct extent out = output_of(s);
    size_t padded = (s->height + 2 * s->pad_height) * (s->width + 2 * s->pad_width);
    return (s->kernel_height * s->kernel_width * s->n_in + 1) * out.n_wide +
           padded * s->n_in + values_of(&out);
}

/* Floats of scratch for either direction. */
EXPORT size_t fediac_convolution_scratch(const struct shape *s) {
    struct shape back = backwards(s);
    return scratch_of(s) + scratch_of(&back);
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

/* Copy pixels from `n_from` channels to `n_to`: more get zeros, fewer are dropped. */
static void change_channels(const float *from, size_t n_from, float *to, size_t n_to,
                            size_t n_pixels) {
    size_t kept = min_size(n_from, n_to);
    for (size_t i = 0; i < n_pixels; i++, from += n_from, to += n_to) {
        memcpy(to, from, kept * sizeof *to);
        memset(to + kept, 0, (n_to - kept) * sizeof *to);
    }
}

/* weights[n_out][window][n_in] -> out[window][n_in][n_wide]. */
static void arrange(const float *weights, const struct shape *s, float *out) {
    size_t n_wide = fill_up(s->n_out);
    size_t n = s->kernel_height * s->kernel_width * s->n_in;
    memset(out, 0, n * n_wide * sizeof *out);
    for (size_t channel = 0; channel < s->n_out; channel++)
        for (size_t k = 0; k < n; k++) out[k * n_wide + channel] = *weights++;
}

/* The same for the way back: the window turned around, channels exchanged. */
static void arrange_back(const float *weights, const struct shape *s, float *out) {
    size_t n_wide = fill_up(s->n_in);
    size_t n = s->kernel_height * s->kernel_width;
    memset(out, 0, n * s->n_out * n_wide * sizeof *out);
    for (size_t channel = 0; channel < s->n_out; channel++)
        for (size_t k = 0; k < n; k++, weights += s->n_in)
            memcpy(out + ((n - 1 - k) * s->n_out + channel) * n_wide, weights,
                   s->n_in * sizeof *out);
}

/* A place for what follows the output of a convolution. */
static struct pool_shape pool_of(const struct shape *s, const struct extent *size) {
    return (struct pool_shape){size->height, size->width, s->n_out, s->is_rectified};
}

/* Values of the output for one image. */
static size_t n_kept(const struct shape *s, const struct extent *size) {
    size_t n_pixels = s->is_pooled ? size->height / 2 * (size->width / 2)
                                   : size->height * size->width;
    return n_pixels * s->n_out;
}

/* Convolve all images with arranged weights, which are followed by the bias and by
   scratch. */
static void convolve(const float *images, const struct shape *s, float *weights,
                     float *out, int32_t *winners) {
    const struct window seen = window_of(s);
    const struct extent size = output_of(s);
    const struct pool_shape pool = pool_of(s, &size);
    float *bias = weights + seen.n_rows * seen.length * size.n_wide;
    float *wide = bias + size.n_wide, *padded = wide + values_of(&size);
    int is_direct = !s->is_pooled && s->n_out == size.n_wide;
    for (size_t i = 0; i < s->n_images; i++) {
        pad_image(images, s, padded);
        convolve_image(padded, &seen, weights, bias, &size, is_direct ? out : wide);
        if (s->is_pooled) {
            pool_image(wide, &pool, out, winners);
            winners += n_kept(s, &size);
        } else if (!is_direct) {
            change_channels(wide, size.n_wide, out, s->n_out, size.height * size.width);
        }
        images += s->height * s->width * s->n_in;
        out += n_kept(s, &size);
    }
}

/* Convolve images[n_images][height][width][n_in] with weights[n_out][kernel_height]
   [kernel_width][n_in], then pool if asked to; `bias` may be null. */
EXPORT void fediac_convolve(const struct shape *s, const float *images,
                            const float *weights, const float *bias, float *scratch,
                            float *out, int32_t *winners) {
    size_t n_wide = fill_up(s->n_out);
    float *end = scratch + s->kernel_height * s->kernel_width * s->n_in * n_wide;
    arrange(weights, s, scratch);
    memset(end, 0, n_wide * sizeof *end);
    if (bias) memcpy(end, bias, s->n_out * sizeof *end);
    convolve(images, s, scratch, out, winners);
}

/* One image's gradient as the convolution wrote its output: channels filled up, pooling
   undone. */
static const float *undo(const float *gradient, const int32_t *winners,
                         const struct shape *s, const struct extent *size,
                         float *wide) {
    if (s->is_pooled) {
        const struct pool_shape pool = pool_of(s, size);
        spread_image(gradient, winners, &pool, wide);
        return wide;
    }
    if (s->n_out == size->n_wide) return gradient;
    change_channels(gradient, s->n_out, wide, size->n_wide,
                    size->height * size->width);
    return wide;
}

static void add_pixels(const float *pixels, size_t n_pixels, size_t n_channels,
                       float *sums) {
    for (size_t i = 0; i < n_pixels; i++, pixels += n_channels)
        for (size_t c = 0; c < n_channels; c++) sums[c] += pixels[c];
}

/* Gradients of weights, of the bias and, unless null, of the images from that of the
   output. */
EXPORT void fediac_convolve_back(const struct shape *s, const float *images,
                                 const float *weights, const float *gradient,
                                 const int32_t *winners, float *scratch,
                                 float *d_weights, float *d_bias, float *d_images) {
    const struct window seen = window_of(s);
    const struct extent size = output_of(s);
    struct shape back = backwards(s);
    size_t n = seen.n_rows * seen.length;
    float *sums = scratch, *bias = sums + n * size.n_wide;
    float *wide = bias + size.n_wide, *padded = wide + values_of(&size);
    float *turned = scratch + scratch_of(s);
    back.n_images = 1;
    memset(sums, 0, (n + 1) * size.n_wide * sizeof *sums);
    if (d_images) arrange_back(weights, s, turned);
    for (size_t i = 0; i < s->n_images; i++) {
        const float *slopes = undo(gradient, winners, s, &size, wide);
        pad_image(images, s, padded);
        correlate_image(padded, &seen, slopes, &size, sums);
        add_pixels(slopes, size.height * size.width, size.n_wide, bias);
        if (d_images) {
            convolve(slopes, &back, turned, d_images, NULL);
            d_images += s->height * s->width * s->n_in;
        }
        images += s->height * s->width * s->n_in;
        gradient += n_kept(s, &size);
        winners += s->is_pooled ? n_kept(s, &size) : 0;
    }
    memcpy(d_bias, bias, s->n_out * sizeof *d_bias);
    for (size_t channel = 0; channel < s->n_out; channel++)
        for (size_t k = 0; k < n; k++) *d_weights++ = sums[k * size.n_wide + channel];
}

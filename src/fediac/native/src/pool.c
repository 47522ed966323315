/* Max-pooling of 2 x 2 pixels for training on a CPU, channels last, and the rectifier
   that goes with it: before or after pooling, it gives the same. */

#include "pool.h"

/* Whether `value` takes over from `best`. The first of equals stays, and a NaN wins
   over every number, as in PyTorch. */
#define BEATS(value, best) (((value) > (best)) | ((value) != (value)))

INLINE void pool_row_body(const float *above, const float *below, size_t n_pixels,
                          size_t n_channels, int is_rectified, float *out,
                          int32_t *winners) {
    const float floor = is_rectified ? 0.0f : -__builtin_inff();
    for (size_t x = 0; x < n_pixels; x++) {
        ELEMENTWISE
        for (size_t c = 0; c < n_channels; c++) {
            float best = above[c], right = above[n_channels + c];
            float left = below[c], last = below[n_channels + c];
            int32_t winner = 0;
            winner = BEATS(right, best) ? 1 : winner;
            best = BEATS(right, best) ? right : best;
            winner = BEATS(left, best) ? 2 : winner;
            best = BEATS(left, best) ? left : best;
            winner = BEATS(last, best) ? 3 : winner;
            best = BEATS(last, best) ? last : best;
            winner = is_rectified & (best <= floor) ? NOBODY : winner;
            out[c] = best <= floor ? floor : best;
            winners[c] = winner;
        }
        above += 2 * n_channels;
        below += 2 * n_channels;
        out += n_channels;
        winners += n_channels;
    }
}

FOR_EACH_ISA(static, pool_row,
             (const float *above, const float *below, size_t n_pixels,
              size_t n_channels, int is_rectified, float *out, int32_t *winners),
             (above, below, n_pixels, n_channels, is_rectified, out, winners))

INLINE void spread_row_body(const float *gradient, const int32_t *winners,
                            size_t n_pixels, size_t n_channels, float *above,
                            float *below) {
    for (size_t x = 0; x < n_pixels; x++) {
        ELEMENTWISE
        for (size_t c = 0; c < n_channels; c++) {
            float slope = gradient[c];
            int32_t winner = winners[c];
            above[c] = winner == 0 ? slope : 0.0f;
            above[n_channels + c] = winner == 1 ? slope : 0.0f;
            below[c] = winner == 2 ? slope : 0.0f;
            below[n_channels + c] = winner == 3 ? slope : 0.0f;
        }
        above += 2 * n_channels;
        below += 2 * n_channels;
        gradient += n_channels;
        winners += n_channels;
    }
}

FOR_EACH_ISA(static, spread_row,
             (const float *gradient, const int32_t *winners, size_t n_pixels,
              size_t n_channels, float *above, float *below),
             (gradient, winners, n_pixels, n_channels, above, below))

/* image[height][width][n_channels] -> out and winners, half as high and wide. An odd
   last row or column is left out. */
void pool_image(const float *image, const struct pool_shape *s, float *out,
                int32_t *winners) {
    size_t row = s->width * s->n_channels, n_pixels = s->width / 2;
    for (size_t y = 0; y < s->height / 2; y++, image += 2 * row) {
        pool_row(image, image + row, n_pixels, s->n_channels, s->is_rectified, out,
                 winners);
        out += n_pixels * s->n_channels;
        winners += n_pixels * s->n_channels;
    }
}

/* The gradient of the image from that of the output: the winners get it. */
void spread_image(const float *gradient, const int32_t *winners,
                  const struct pool_shape *s, float *out) {
    size_t row = s->width * s->n_channels, n_pixels = s->width / 2;
    size_t covered = 2 * n_pixels * s->n_channels;
    for (size_t y = 0; y < s->height / 2; y++, out += 2 * row) {
        spread_row(gradient, winners, n_pixels, s->n_channels, out, out + row);
        memset(out + covered, 0, (row - covered) * sizeof *out);
        memset(out + row + covered, 0, (row - covered) * sizeof *out);
        gradient += n_pixels * s->n_channels;
        winners += n_pixels * s->n_channels;
    }
    memset(out, 0, s->height % 2 * row * sizeof *out);
}

/* Pool n_images images that follow each other. */
EXPORT void fediac_max_pool(const struct pool_shape *s, size_t n_images,
                            const float *images, float *out, int32_t *winners) {
    size_t n_in = s->height * s->width * s->n_channels;
    size_t n_out = s->height / 2 * (s->width / 2) * s->n_channels;
    for (size_t i = 0; i < n_images; i++)
        pool_image(images + i * n_in, s, out + i * n_out, winners + i * n_out);
}

/* The gradient of the images from that of the output. */
EXPORT void fediac_max_pool_back(const struct pool_shape *s, size_t n_images,
                                 const float *gradient, const int32_t *winners,
                                 float *out) {
    size_t n_in = s->height * s->width * s->n_channels;
    size_t n_out = s->height / 2 * (s->width / 2) * s->n_channels;
    for (size_t i = 0; i < n_images; i++)
        spread_image(gradient + i * n_out, winners + i * n_out, s, out + i * n_in);
}

/* The inner loops of convolutions, included by conv.c once for each instruction set.
   It says: LANES, floats of a vector; MOST, so that 2 * MOST sums, two vectors and one
   value fit into the registers; TARGET, the attribute of functions; NAME, which tells
   their versions apart. */

typedef float NAME(vector) __attribute__((vector_size(4 * LANES), aligned(4)));

#define LOAD(values) (*(const NAME(vector) *)(values))
#define STORE(values) (*(NAME(vector) *)(values))
#define BLOCK TARGET __attribute__((always_inline)) static inline void

/* Output of `n` neighbouring pixels in `n_vectors` vectors of channels, both constant
   where this is inlined: bias plus the sum over the window of values times weights. */
BLOCK NAME(pixels)(const float *image, const struct window *seen, const float *weights,
                   const float *bias, size_t n_channels, float *out, int n,
                   int n_vectors) {
    NAME(vector) sums[MOST][2];
    UNROLL for (int i = 0; i < n; i++) {
        UNROLL for (int v = 0; v < n_vectors; v++) sums[i][v] = LOAD(bias + v * LANES);
    }
    for (size_t row = 0; row < seen->n_rows; row++) {
        const float *values = image + row * seen->row_step;
        for (size_t k = 0; k < seen->length; k++, weights += n_channels) {
            NAME(vector) weight[2];
            UNROLL for (int v = 0; v < n_vectors; v++)
                weight[v] = LOAD(weights + v * LANES);
            UNROLL for (int i = 0; i < n; i++) {
                UNROLL for (int v = 0; v < n_vectors; v++)
                    sums[i][v] += values[k + i * seen->pixel_step] * weight[v];
            }
        }
    }
    UNROLL for (int i = 0; i < n; i++) {
        UNROLL for (int v = 0; v < n_vectors; v++)
            STORE(out + i * n_channels + v * LANES) = sums[i][v];
    }
}

/* Add to the gradients of `n` neighbouring weights of a window, in `n_vectors` vectors
   of channels: the sum over all pixels of what the weight saw times their gradient. */
BLOCK NAME(weights)(const float *image, const struct window *seen,
                    const float *gradient, const struct extent *size, float *out, int n,
                    int n_vectors) {
    NAME(vector) sums[MOST][2];
    UNROLL for (int i = 0; i < n; i++) {
        UNROLL for (int v = 0; v < n_vectors; v++) sums[i][v] = (NAME(vector)){0};
    }
    for (size_t y = 0; y < size->height; y++) {
        const float *values = image + y * seen->row_step;
        for (size_t x = 0; x < size->width; x++) {
            NAME(vector) slope[2];
            UNROLL for (int v = 0; v < n_vectors; v++)
                slope[v] = LOAD(gradient + v * LANES);
            UNROLL for (int i = 0; i < n; i++) {
                UNROLL for (int v = 0; v < n_vectors; v++)
                    sums[i][v] += values[i] * slope[v];
            }
            values += seen->pixel_step;
            gradient += size->n_channels;
        }
    }
    UNROLL for (int i = 0; i < n; i++) {
        UNROLL for (int v = 0; v < n_vectors; v++)
            STORE(out + i * size->n_channels + v * LANES) += sums[i][v];
    }
}

/* How many of those that are left the next block takes; one case of EACH_COUNT. */
INLINE size_t NAME(next)(size_t n_left) {
    if (n_left >= MOST) return MOST;
    return n_left >= 4 ? 4 : n_left >= 2 ? 2 : 1;
}

/* Call a block with its counts as constants. */
#define EACH_COUNT(n, n_vectors, call)             \
    switch (4 * (n) + (n_vectors)) {               \
    case 4 * MOST + 2:                             \
        call(MOST, 2);                             \
        break;                                     \
    case 4 * MOST + 1:                             \
        call(MOST, 1);                             \
        break;                                     \
    case 4 * 4 + 2:                                \
        call(4, 2);                                \
        break;                                     \
    case 4 * 4 + 1:                                \
        call(4, 1);                                \
        break;                                     \
    case 4 * 2 + 2:                                \
        call(2, 2);                                \
        break;                                     \
    case 4 * 2 + 1:                                \
        call(2, 1);                                \
        break;                                     \
    case 4 * 1 + 2:                                \
        call(1, 2);                                \
        break;                                     \
    default:                                       \
        call(1, 1);                                \
    }

/* Convolve one padded image; `size` is that of the output. */
TARGET static void NAME(convolve_image)(const float *image, const struct window *seen,
                                        const float *weights, const float *bias,
                                        const struct extent *size, float *out) {
    for (size_t channel = 0; channel < size->n_channels; channel += 2 * LANES) {
        int n_vectors = size->n_channels - channel > LANES ? 2 : 1;
        for (size_t y = 0; y < size->height; y++) {
            for (size_t x = 0, n; x < size->width; x += n) {
                const float *corner = image + y * seen->row_step + x * seen->pixel_step;
                float *place = out + (y * size->width + x) * size->n_channels + channel;
                n = NAME(next)(size->width - x);
#define CALL(n, n_vectors)                                                     \
    NAME(pixels)(corner, seen, weights + channel, bias + channel, size->n_channels, place, \
                 n, n_vectors)
                EACH_COUNT(n, n_vectors, CALL)
#undef CALL
            }
        }
    }
}

/* Add one padded image's share to the gradients of the weights; `size` is that of the
   output and its gradient. */
TARGET static void NAME(correlate_image)(const float *image, const struct window *seen,
                                         const float *gradient,
                                         const struct extent *size, float *out) {
    for (size_t row = 0; row < seen->n_rows; row++) {
        for (size_t k = 0, n; k < seen->length; k += n) {
            const float *corner = image + row * seen->row_step + k;
            n = NAME(next)(seen->length - k);
            for (size_t channel = 0; channel < size->n_channels; channel += 2 * LANES) {
                int n_vectors = size->n_channels - channel > LANES ? 2 : 1;
                float *place = out + (row * seen->length + k) * size->n_channels + channel;
#define CALL(n, n_vectors) \
    NAME(weights)(corner, seen, gradient + channel, size, place, n, n_vectors)
                EACH_COUNT(n, n_vectors, CALL)
#undef CALL
            }
        }
    }
}

/* out += factor * values, of which there are `n`. */
BLOCK NAME(add)(float factor, const float *values, size_t n, float *out) {
    size_t i = 0;
    for (; i + 3 * LANES <= n; i += 3 * LANES) { /* kernels are often three wide */
        UNROLL for (size_t v = i; v < i + 3 * LANES; v += LANES)
            STORE(out + v) += factor * LOAD(values + v);
    }
    for (; i + LANES <= n; i += LANES) STORE(out + i) += factor * LOAD(values + i);
    for (; i < n; i++) out[i] += factor * values[i];
}

/* Add to the gradients of the weights, and then to that of the image, what each winner
   says: one after the other, so that what either needs stays in the cache. */
TARGET static void NAME(scatter_winners)(const struct winner *winners, size_t n,
                                         const struct window *seen,
                                         const struct places *at) {
    for (size_t i = 0; i < n; i++) {
        const float *image = at->image + winners[i].pixel;
        float *d_weights = at->d_weights + winners[i].weight;
        for (size_t row = 0; row < seen->n_rows; row++)
            NAME(add)(winners[i].slope, image + row * seen->row_step, seen->length,
                      d_weights + row * seen->length);
    }
    for (size_t i = 0; i < n; i++) {
        const float *weights = at->weights + winners[i].weight;
        float *d_image = at->d_image + winners[i].pixel;
        for (size_t row = 0; row < seen->n_rows; row++)
            NAME(add)(winners[i].slope, weights + row * seen->length, seen->length,
                      d_image + row * seen->row_step);
    }
}

#undef LOAD
#undef STORE
#undef BLOCK
#undef EACH_COUNT
#undef LANES
#undef MOST
#undef TARGET
#undef NAME

/* The inner loops of convolutions, included by conv.c once for each instruction set.
   It says: LANES, floats of a vector; MOST, so that 2 * MOST sums, two vectors and one
   value fit into the registers; TARGET, the attribute of functions; NAME, which tells
   their versions apart.

   Each sum is added up in the same order whatever LANES and MOST are. */

typedef float NAME(vector) __attribute__((vector_size(4 * LANES), aligned(4)));

#define LOAD(values) (*(const NAME(vector) *)(values))
#define STORE(values) (*(NAME(vector) *)(values))
#define BLOCK TARGET __attribute__((always_inline)) static inline void

/* Output of `n` neighbouring pixels in `n_vectors` vectors of channels, both constant
   where this is inlined: bias plus the sum over the window of values times weights. */
BLOCK NAME(pixels)(const float *image, const struct window *seen, const float *weights,
                   const float *bias, size_t n_wide, float *out, int n,
                   int n_vectors) {
    NAME(vector) sums[MOST][2];
    UNROLL for (int i = 0; i < n; i++) {
        UNROLL for (int v = 0; v < n_vectors; v++) sums[i][v] = LOAD(bias + v * LANES);
    }
    for (size_t row = 0; row < seen->n_rows; row++) {
        const float *values = image + row * seen->row_step;
        for (size_t k = 0; k < seen->length; k++, weights += n_wide) {
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
            STORE(out + i * n_wide + v * LANES) = sums[i][v];
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
            gradient += size->n_wide;
        }
    }
    UNROLL for (int i = 0; i < n; i++) {
        UNROLL for (int v = 0; v < n_vectors; v++)
            STORE(out + i * size->n_wide + v * LANES) += sums[i][v];
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
    for (size_t wide = 0; wide < size->n_wide; wide += 2 * LANES) {
        int n_vectors = size->n_wide - wide > LANES ? 2 : 1;
        for (size_t y = 0; y < size->height; y++) {
            for (size_t x = 0, n; x < size->width; x += n) {
                const float *corner = image + y * seen->row_step + x * seen->pixel_step;
                float *place = out + (y * size->width + x) * size->n_wide + wide;
                n = NAME(next)(size->width - x);
#define CALL(n, n_vectors)                                                     \
    NAME(pixels)(corner, seen, weights + wide, bias + wide, size->n_wide, place, \
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
            for (size_t wide = 0; wide < size->n_wide; wide += 2 * LANES) {
                int n_vectors = size->n_wide - wide > LANES ? 2 : 1;
                float *place = out + (row * seen->length + k) * size->n_wide + wide;
#define CALL(n, n_vectors) \
    NAME(weights)(corner, seen, gradient + wide, size, place, n, n_vectors)
                EACH_COUNT(n, n_vectors, CALL)
#undef CALL
            }
        }
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

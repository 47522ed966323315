/* Max-pooling of one image, see pool.c. */

#ifndef FEDIAC_POOL_H
#define FEDIAC_POOL_H

#include "isa.h"

#define NOBODY 4 /* the winner where the rectifier lets nothing through */

/* Must equal PoolShape in layers.py. Sizes are those of the input. */
struct pool_shape {
    size_t height, width, n_channels, is_rectified;
};

void pool_image(const float *image, const struct pool_shape *s, float *out,
                int32_t *winners);
void spread_image(const float *gradient, const int32_t *winners,
                  const struct pool_shape *s, float *out);

#endif

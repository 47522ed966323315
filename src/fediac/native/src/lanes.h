/* Lanes of 1 to 32 bits, dense, least significant bit first: fediac.core.bitpack. */

#ifndef FEDIAC_LANES_H
#define FEDIAC_LANES_H

#include "kernels.h"

INLINE size_t n_lane_bytes(size_t n_lanes, int bits) {
    return (n_lanes * (size_t)bits + 7) / 8;
}

/* Pack `n_lanes` lanes, each below 2^bits, into whole bytes; unused bits are zero. */
void pack_lanes_into(const uint32_t *lanes, size_t n_lanes, int bits, uint8_t *packed);

enum { WIDENED = 1024, WIDENED_SPARE = 16 }; /* lanes at a time, bytes behind them */

/* Write up to WIDENED packed lanes of `from` bits as lanes of `to` bits, which are more;
   `wide` has room for WIDENED_SPARE bytes behind the last one. `packed` ends after
   `n_bytes` bytes, and may hold more lanes. */
void widen_lanes(const uint8_t *packed, size_t n_bytes, size_t n_lanes, int from,
                 int to, uint8_t *wide);

#endif

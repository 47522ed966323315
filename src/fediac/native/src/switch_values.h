/* What slots hold, sums of lanes and counters of votes: fediac.switch.adder and tally. */

#ifndef FEDIAC_SWITCH_VALUES_H
#define FEDIAC_SWITCH_VALUES_H

#include "switch.h"

/* The planes of a counter that saturates at or above a threshold, which is not 0. */
INLINE unsigned n_planes(uint32_t threshold) {
    return 32 - (unsigned)__builtin_clz(threshold);
}

/* Add the packet's lanes to those of its slot, which may be wider; the first ones take
   the place of all `n_new` bytes of sums. */
void add_lanes(uint8_t *sums, const Packet *packet, size_t n_new);

/* Count one client's votes. Plane i, `stride` bytes of whole words, holds bit i of every
   entry's counter; counters stay at the largest value that their planes hold. The first
   votes take the place of all that is in the planes. */
void count_votes(uint8_t *planes, size_t stride, unsigned n_planes,
                 const uint8_t *votes, size_t n_bytes, int are_first);

/* Set the bits of `gia` of the entries whose counter is at least `threshold`. */
void reach_threshold(const uint8_t *planes, size_t stride, uint32_t threshold,
                     uint8_t *gia, size_t n_bytes);

#endif

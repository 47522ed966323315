/* Tags of packets, for whoever carries them: fediac.wire.tag. */

#ifndef FEDIAC_SIPHASH_H
#define FEDIAC_SIPHASH_H

#include "kernels.h"

enum { KEY_BYTES = 16 };

/* Whether a packet, a whole header at least, has its tag. No step depends on what
   differs. */
int has_tag(const uint8_t *packet, size_t n_bytes, const uint8_t *key);

/* Put its tag into a packet, a whole header at least. */
void put_tag(uint8_t *packet, size_t n_bytes, const uint8_t *key);

#endif

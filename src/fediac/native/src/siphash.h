/* Tags of packets, for whoever carries them: fediac.wire.tag. */

#ifndef FEDIAC_SIPHASH_H
#define FEDIAC_SIPHASH_H

#include "kernels.h"

enum { KEY_BYTES = 16 };
enum { TAG_AT = 32, TAGGED_AT = 40 }; /* in a packet: the tag, and what follows it */

/* A packet, a whole header at least, and the key of its tag. */
typedef struct {
    const uint8_t *bytes, *key;
    size_t n_bytes;
} Keyed;

/* Find the tags of packets, as they travel. */
void find_tags(const Keyed *packets, size_t n_packets, uint64_t *tags);

/* The same for one packet, and for SIP_LANES that are equally long. */
enum { SIP_LANES = 8 };
uint64_t find_tag(const Keyed *packet);
void find_tags_together(const Keyed *packets, uint64_t *tags);

/* Note for each packet whether it has its tag. No step depends on what differs. */
void check_tags(const Keyed *packets, size_t n_packets, uint8_t *are_right);

/* The last word that is hashed: what is left of a body, and how much there was. */
INLINE uint64_t last_word(const uint8_t *body, size_t n_body) {
    size_t n_words = n_body / 8 * 8;
    uint64_t last = (uint64_t)(TAG_AT + n_body) << 56;
    return n_body > n_words ? last | load_tail(body + n_words, n_body - n_words) : last;
}

#endif

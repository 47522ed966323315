/* Tags of packets, fediac.wire.tag: SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT
   2012), of 64 bits under a key of 128. Written out, so that a kernel's verifier can
   check the same lines. */

#include "siphash.h"

enum { TAG_AT = 32, BODY_AT = 40 }; /* in a packet: fediac.wire.header */

typedef struct {
    uint64_t v0, v1, v2, v3;
} Sip;

INLINE uint64_t rotate(uint64_t word, unsigned n) {
    return word << n | word >> (64 - n);
}

INLINE void sip_round(Sip *s) {
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 = rotate(s->v2, 32);
}

INLINE void compress(Sip *s, uint64_t word) {
    s->v3 ^= word;
    sip_round(s);
    sip_round(s);
    s->v0 ^= word;
}

/* The hash of some head, whole words, and a body of any length behind it. */
static uint64_t siphash(const uint8_t *key, const uint8_t *head, size_t n_head,
                        const uint8_t *body, size_t n_body) {
    uint64_t k0 = load_word(key), k1 = load_word(key + 8);
    Sip s = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d,
             k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
    for (size_t i = 0; i < n_head; i += 8)
        compress(&s, load_word(head + i));
    size_t n_words = n_body / 8 * 8;
    for (size_t i = 0; i < n_words; i += 8)
        compress(&s, load_word(body + i));
    uint64_t last = (uint64_t)(n_head + n_body) << 56;
    if (n_body > n_words)
        last |= load_tail(body + n_words, n_body - n_words);
    compress(&s, last);
    s.v2 ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* The tag of a packet: of all of it but the tag's own place. */
static uint64_t tag_of(const uint8_t *key, const uint8_t *packet, size_t n_bytes) {
    return siphash(key, packet, TAG_AT, packet + BODY_AT, n_bytes - BODY_AT);
}

INLINE uint64_t swap(uint64_t word) {
    return __builtin_bswap64(word); /* a tag travels in network byte order */
}

int has_tag(const uint8_t *packet, size_t n_bytes, const uint8_t *key) {
    return !(swap(tag_of(key, packet, n_bytes)) ^ load_word(packet + TAG_AT));
}

void put_tag(uint8_t *packet, size_t n_bytes, const uint8_t *key) {
    store_word(packet + TAG_AT, swap(tag_of(key, packet, n_bytes)));
}

/* Put their tags into packets, one a row, whose lengths are those of packets. */
EXPORT void fediac_tag_packets(uint8_t *rows, const int32_t *lengths, size_t stride,
                               size_t n_packets, const uint8_t *key) {
    for (size_t i = 0; i < n_packets; i++)
        put_tag(rows + i * stride, (size_t)lengths[i], key);
}

/* The tag of one packet, a whole header at least, as it travels. */
EXPORT void fediac_tag(const uint8_t *packet, size_t n_bytes, const uint8_t *key,
                       uint8_t *tag) {
    store_word(tag, swap(tag_of(key, packet, n_bytes)));
}

/* Note for each packet whether its tag is right. */
EXPORT void fediac_check_tags(const uint8_t *rows, const int32_t *lengths,
                              size_t stride, size_t n_packets, const uint8_t *key,
                              uint8_t *are_right) {
    for (size_t i = 0; i < n_packets; i++)
        are_right[i] = (uint8_t)has_tag(rows + i * stride, (size_t)lengths[i], key);
}

/* Tags of packets, fediac.wire.tag: SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT
   2012), of 64 bits under a key of 128. Written out, so that a kernel's verifier can
   check the same lines. */

#include "siphash.h"

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

/* The tag of a packet: of all of it but the tag's own place. */
uint64_t find_tag(const Keyed *packet) {
    uint64_t k0 = load_word(packet->key), k1 = load_word(packet->key + 8);
    Sip s = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d,
             k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
    const uint8_t *body = packet->bytes + TAGGED_AT;
    size_t n_body = packet->n_bytes - TAGGED_AT;
    for (size_t i = 0; i < TAG_AT; i += 8)
        compress(&s, load_word(packet->bytes + i));
    for (size_t i = 0; i + 8 <= n_body; i += 8)
        compress(&s, load_word(body + i));
    compress(&s, last_word(body, n_body));
    s.v2 ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(&s);
    /* A tag travels in network byte order. */
    return __builtin_bswap64(s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
}

/* How many packets from the first one on are as long as it is, at most SIP_LANES. */
static size_t n_alike(const Keyed *packets, size_t n_packets) {
    size_t n = 1;
    while (n < min_size(n_packets, SIP_LANES) &&
           packets[n].n_bytes == packets[0].n_bytes)
        n++;
    return n;
}

void find_tags(const Keyed *packets, size_t n_packets, uint64_t *tags) {
    for (size_t i = 0; i < n_packets;) {
        size_t n = n_alike(packets + i, n_packets - i);
        if (n == SIP_LANES) {
            find_tags_together(packets + i, tags + i);
            i += n;
            continue;
        }
        for (size_t stop = i + n; i < stop; i++)
            tags[i] = find_tag(packets + i);
    }
}

void check_tags(const Keyed *packets, size_t n_packets, uint8_t *are_right) {
    uint64_t tags[SIP_LANES];
    for (size_t i = 0; i < n_packets; i += SIP_LANES) {
        size_t n = min_size(n_packets - i, SIP_LANES);
        find_tags(packets + i, n, tags);
        for (size_t k = 0; k < n; k++) {
            uint64_t given = load_word(packets[i + k].bytes + TAG_AT);
            are_right[i + k] = !(tags[k] ^ given);
        }
    }
}

/* Read rows i..i+n-1 as packets under one key. */
static void read_rows(const uint8_t *rows, const int32_t *lengths, size_t stride,
                      size_t n_rows, const uint8_t *key, Keyed *packets) {
    for (size_t i = 0; i < n_rows; i++)
        packets[i] = (Keyed){rows + i * stride, key, (size_t)lengths[i]};
}

/* Put their tags into packets, one a row, whose lengths are those of packets. */
EXPORT void fediac_tag_packets(uint8_t *rows, const int32_t *lengths, size_t stride,
                               size_t n_packets, const uint8_t *key) {
    Keyed packets[SIP_LANES];
    uint64_t tags[SIP_LANES];
    for (size_t i = 0; i < n_packets; i += SIP_LANES) {
        size_t n = min_size(n_packets - i, SIP_LANES);
        read_rows(rows + i * stride, lengths + i, stride, n, key, packets);
        find_tags(packets, n, tags);
        for (size_t k = 0; k < n; k++)
            store_word(rows + (i + k) * stride + TAG_AT, tags[k]);
    }
}

/* The tag of one packet, a whole header at least, as it travels. */
EXPORT void fediac_tag(const uint8_t *packet, size_t n_bytes, const uint8_t *key,
                       uint8_t *tag) {
    store_word(tag, find_tag(&(Keyed){packet, key, n_bytes}));
}

/* Note for each packet whether its tag is right. */
EXPORT void fediac_check_tags(const uint8_t *rows, const int32_t *lengths,
                              size_t stride, size_t n_packets, const uint8_t *key,
                              uint8_t *are_right) {
    Keyed packets[SIP_LANES];
    for (size_t i = 0; i < n_packets; i += SIP_LANES) {
        size_t n = min_size(n_packets - i, SIP_LANES);
        read_rows(rows + i * stride, lengths + i, stride, n, key, packets);
        check_tags(packets, n, are_right + i);
    }
}

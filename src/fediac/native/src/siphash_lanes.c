/* Tags of several packets at a time: siphash.c, with a packet in each lane of two
   vectors. A tag is one long chain of steps; a processor has room for many of them. */

#include "isa.h"
#include "siphash.h"

enum { WIDTH = 4, N_VECTORS = SIP_LANES / WIDTH };

/* Never passed or returned: how that is done depends on the instruction set. */
typedef uint64_t Words __attribute__((vector_size(8 * WIDTH)));

typedef struct {
    Words v0, v1, v2, v3;
} Sips;

#define ROTATE(words, n) ((words) << (n) | (words) >> (64 - (n)))

INLINE void sip_round(Sips *s) {
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = ROTATE(s->v1, 13) ^ s->v0;
    s->v3 = ROTATE(s->v3, 16) ^ s->v2;
    s->v0 = ROTATE(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = ROTATE(s->v1, 17) ^ s->v2;
    s->v3 = ROTATE(s->v3, 21) ^ s->v0;
    s->v2 = ROTATE(s->v2, 32);
}

/* Take a word of every packet. Steps of both vectors alternate: neither waits. */
INLINE void compress(Sips *s, const Words *words) {
    for (int i = 0; i < N_VECTORS; i++)
        s[i].v3 ^= words[i];
    for (int i = 0; i < 2 * N_VECTORS; i++)
        sip_round(&s[i % N_VECTORS]);
    for (int i = 0; i < N_VECTORS; i++)
        s[i].v0 ^= words[i];
}

/* Read the word at a place of every packet. */
INLINE void load_words(Words *words, const Keyed *packets, size_t at) {
    for (int i = 0; i < N_VECTORS; i++, packets += WIDTH)
        words[i] = (Words){
            load_word(packets[0].bytes + at), load_word(packets[1].bytes + at),
            load_word(packets[2].bytes + at), load_word(packets[3].bytes + at)};
}

INLINE void begin(Sips *s, const Keyed *packets) {
    for (int i = 0; i < SIP_LANES; i++) {
        uint64_t k0 = load_word(packets[i].key), k1 = load_word(packets[i].key + 8);
        s[i / WIDTH].v0[i % WIDTH] = k0 ^ 0x736f6d6570736575;
        s[i / WIDTH].v1[i % WIDTH] = k1 ^ 0x646f72616e646f6d;
        s[i / WIDTH].v2[i % WIDTH] = k0 ^ 0x6c7967656e657261;
        s[i / WIDTH].v3[i % WIDTH] = k1 ^ 0x7465646279746573;
    }
}

INLINE void finish(Sips *s, uint64_t *tags) {
    for (int i = 0; i < N_VECTORS; i++) {
        s[i].v2 ^= 0xff;
        for (int k = 0; k < 4; k++)
            sip_round(&s[i]);
        Words words = s[i].v0 ^ s[i].v1 ^ s[i].v2 ^ s[i].v3;
        for (int k = 0; k < WIDTH; k++)
            *tags++ = __builtin_bswap64(words[k]);
    }
}

INLINE void find_tags_together_body(const Keyed *packets, uint64_t *tags) {
    Sips s[N_VECTORS];
    Words words[N_VECTORS];
    size_t n_bytes = packets[0].n_bytes, at = 0;
    begin(s, packets);
    for (; at < TAG_AT; at += 8) {
        load_words(words, packets, at);
        compress(s, words);
    }
    for (at = TAGGED_AT; at + 8 <= n_bytes; at += 8) {
        load_words(words, packets, at);
        compress(s, words);
    }
    for (int i = 0; i < SIP_LANES; i++)
        words[i / WIDTH][i % WIDTH] =
            last_word(packets[i].bytes + TAGGED_AT, n_bytes - TAGGED_AT);
    compress(s, words);
    finish(s, tags);
}
FOR_EACH_ISA(, find_tags_together, (const Keyed *packets, uint64_t *tags),
             (packets, tags))

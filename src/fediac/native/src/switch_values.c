/* What slots hold, sums of lanes and counters of votes: fediac.switch.adder and tally. */

#include "switch_values.h"

#include "isa.h"
#include "lanes.h"

/* Add one word and the carry into it; return the carry out of it. */
INLINE unsigned char add_word(unsigned char carry, uint8_t *word,
                              const uint8_t *added) {
#if HAVE_X86
    unsigned long long total;
    carry = _addcarry_u64(carry, load_word(word), load_word(added), &total);
#else
    uint64_t sum, total;
    unsigned char overflow =
        __builtin_add_overflow(load_word(word), load_word(added), &sum);
    carry = overflow | __builtin_add_overflow(sum, (uint64_t)carry, &total);
#endif
    store_word(word, total);
    return carry;
}

/* Add from byte `i` on, see add_payload. */
INLINE unsigned char add_from(size_t i, uint8_t *registers, const uint8_t *payload,
                              size_t n_bytes, unsigned char carry) {
    /* Four at a time: the carry then stays in the processor's flag for all of them. */
    for (; i + 32 <= n_bytes; i += 32) {
        carry = add_word(carry, registers + i, payload + i);
        carry = add_word(carry, registers + i + 8, payload + i + 8);
        carry = add_word(carry, registers + i + 16, payload + i + 16);
        carry = add_word(carry, registers + i + 24, payload + i + 24);
    }
    for (; i + 8 <= n_bytes; i += 8)
        carry = add_word(carry, registers + i, payload + i);
    if (i < n_bytes) {
        uint64_t total = load_tail(registers + i, n_bytes - i);
        total += load_tail(payload + i, n_bytes - i) + carry;
        memcpy(registers + i, &total, n_bytes - i);
    }
    return carry;
}

#if HAVE_X86
/* Sixteen words at a time, each added without a carry: a word of all ones hands a carry
   on, so adding the places of these to those of the carries finds all that get one. */
TARGET_AVX512 static unsigned char add_payload_avx512(uint8_t *registers,
                                                      const uint8_t *payload,
                                                      size_t n_bytes,
                                                      unsigned char carry) {
    const __m512i ones = _mm512_set1_epi64(-1);
    unsigned carries = carry;
    size_t i = 0;
    for (; i + 128 <= n_bytes; i += 128) {
        __m512i low = _mm512_loadu_si512(payload + i);
        __m512i high = _mm512_loadu_si512(payload + i + 64);
        __m512i low_sum = _mm512_add_epi64(low, _mm512_loadu_si512(registers + i));
        __m512i high_sum =
            _mm512_add_epi64(high, _mm512_loadu_si512(registers + i + 64));
        unsigned out = _mm512_kunpackb(_mm512_cmplt_epu64_mask(high_sum, high),
                                       _mm512_cmplt_epu64_mask(low_sum, low));
        unsigned full = _mm512_kunpackb(_mm512_cmpeq_epi64_mask(high_sum, ones),
                                        _mm512_cmpeq_epi64_mask(low_sum, ones));
        carries = ((out << 1 | carries) + full) ^ full;
        low_sum = _mm512_mask_sub_epi64(low_sum, (__mmask8)carries, low_sum, ones);
        high_sum =
            _mm512_mask_sub_epi64(high_sum, (__mmask8)(carries >> 8), high_sum, ones);
        _mm512_storeu_si512(registers + i, low_sum);
        _mm512_storeu_si512(registers + i + 64, high_sum);
        carries >>= 16;
    }
    return add_from(i, registers, payload, n_bytes, (unsigned char)carries);
}
#endif

/* Add the payload and a carry as one long little-endian integer, cut at its length;
   return the carry out of it where it is whole words. */
static unsigned char add_payload(uint8_t *registers, const uint8_t *payload,
                                 size_t n_bytes, unsigned char carry) {
#if HAVE_X86
    if (fediac_isa_in_use == ISA_AVX512)
        return add_payload_avx512(registers, payload, n_bytes, carry);
#endif
    return add_from(0, registers, payload, n_bytes, carry);
}

/* Add lanes that are wider in their slot. */
static void add_widened(uint8_t *sums, const Packet *packet) {
    int from = packet->header.bits_up, to = packet->header.bits;
    uint8_t wide[4 * WIDENED + WIDENED_SPARE];
    unsigned char carry = 0;
    for (size_t first = 0; first < packet->header.n_items; first += WIDENED) {
        size_t n_lanes = min_size(packet->header.n_items - first, WIDENED);
        size_t at = n_lane_bytes(first, from);
        widen_lanes(packet->body + at, packet->n_bytes - at, n_lanes, from, to, wide);
        /* All but the last ones are whole words. */
        carry = add_payload(sums + n_lane_bytes(first, to), wide,
                            n_lane_bytes(n_lanes, to), carry);
    }
}

void add_lanes(uint8_t *sums, const Packet *packet, size_t n_new) {
    if (packet->header.bits_up != packet->header.bits) {
        memset(sums, 0, n_new);
        add_widened(sums, packet);
    } else if (n_new) {
        memcpy(sums, packet->body, packet->n_bytes);
        memset(sums + packet->n_bytes, 0, n_new - packet->n_bytes);
    } else {
        add_payload(sums, packet->body, packet->n_bytes, 0);
    }
}

/* Count votes in one word of every plane. */
INLINE void count_word(uint8_t *planes, size_t stride, unsigned n_planes,
                       uint64_t votes) {
    uint64_t full = ~UINT64_C(0);
    for (unsigned i = 0; i < n_planes; i++)
        full &= load_word(planes + i * stride);
    uint64_t carry = votes & ~full;
    for (unsigned i = 0; i < n_planes; i++) {
        uint64_t counted = load_word(planes + i * stride);
        store_word(planes + i * stride, counted ^ carry);
        carry &= counted;
    }
}

INLINE void count_words(uint8_t *planes, size_t stride, unsigned n_planes,
                        const uint8_t *votes, size_t n_words) {
    ELEMENTWISE
    for (size_t word = 0; word < n_words; word++)
        count_word(planes + 8 * word, stride, n_planes, load_word(votes + 8 * word));
}

INLINE void count_more_body(uint8_t *planes, size_t stride, unsigned n_planes,
                            const uint8_t *votes, size_t n_bytes) {
    size_t n_words = n_bytes / 8, n_done = 8 * n_words;
    /* A number of planes known to the compiler lets it unroll them. */
    switch (n_planes) {
    case 1:
        count_words(planes, stride, 1, votes, n_words);
        break;
    case 2:
        count_words(planes, stride, 2, votes, n_words);
        break;
    case 3:
        count_words(planes, stride, 3, votes, n_words);
        break;
    default:
        count_words(planes, stride, n_planes, votes, n_words);
    }
    if (n_done < n_bytes)
        count_word(planes + n_done, stride, n_planes,
                   load_tail(votes + n_done, n_bytes - n_done));
}

FOR_EACH_ISA(static, count_more,
             (uint8_t * planes, size_t stride, unsigned n_planes, const uint8_t *votes,
              size_t n_bytes),
             (planes, stride, n_planes, votes, n_bytes))

void count_votes(uint8_t *planes, size_t stride, unsigned n_planes,
                 const uint8_t *votes, size_t n_bytes, int are_first) {
    if (!are_first) {
        count_more(planes, stride, n_planes, votes, n_bytes);
        return;
    }
    memcpy(planes, votes, n_bytes);
    memset(planes + n_bytes, 0, n_planes * stride - n_bytes);
}

/* Whether the counters of one word's entries are at least the threshold. */
INLINE uint64_t reach_word(const uint8_t *planes, size_t stride, unsigned n_planes,
                           uint32_t threshold) {
    uint64_t above = 0, equal = ~UINT64_C(0);
    for (unsigned i = n_planes; i-- > 0;) {
        uint64_t plane = load_word(planes + i * stride);
        uint64_t must_be_set = threshold >> i & 1 ? ~UINT64_C(0) : 0;
        above |= equal & plane & ~must_be_set;
        equal &= ~(plane ^ must_be_set);
    }
    return above | equal;
}

INLINE void reach_words(const uint8_t *planes, size_t stride, unsigned n_planes,
                        uint32_t threshold, uint8_t *gia, size_t n_words) {
    ELEMENTWISE
    for (size_t word = 0; word < n_words; word++)
        store_word(gia + 8 * word,
                   reach_word(planes + 8 * word, stride, n_planes, threshold));
}

INLINE void reach_threshold_body(const uint8_t *planes, size_t stride,
                                 uint32_t threshold, uint8_t *gia, size_t n_bytes) {
    size_t n_words = n_bytes / 8, n_done = 8 * n_words;
    /* As in count_more. */
    switch (n_planes(threshold)) {
    case 1:
        reach_words(planes, stride, 1, threshold, gia, n_words);
        break;
    case 2:
        reach_words(planes, stride, 2, threshold, gia, n_words);
        break;
    case 3:
        reach_words(planes, stride, 3, threshold, gia, n_words);
        break;
    default:
        reach_words(planes, stride, n_planes(threshold), threshold, gia, n_words);
    }
    uint64_t last = 0;
    if (n_done < n_bytes)
        last = reach_word(planes + n_done, stride, n_planes(threshold), threshold);
    memcpy(gia + n_done, &last, n_bytes - n_done);
}

FOR_EACH_ISA(, reach_threshold,
             (const uint8_t *planes, size_t stride, uint32_t threshold, uint8_t *gia,
              size_t n_bytes),
             (planes, stride, threshold, gia, n_bytes))

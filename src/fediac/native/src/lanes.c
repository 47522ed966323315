/* Levels <-> lanes, and the switch's addition of lanes: fediac.core.bitpack. */

#include "lanes.h"

#include "isa.h"

#define BATCH 1024 /* lanes converted at a time; a multiple of 8, so whole bytes */

/* Lanes of up to 32 bits. Two neighbours always fit one word, which halves the chain of
   shifts. */
INLINE void pack_wide(const uint32_t *lanes, size_t n_lanes, int bits,
                      uint8_t *packed) {
    uint64_t waiting = 0; /* bits that do not fill a word yet */
    int n_waiting = 0;
    size_t i = 0;
    for (; i + 2 <= n_lanes; i += 2) {
        uint64_t pair = lanes[i] | (uint64_t)lanes[i + 1] << bits;
        waiting |= pair << n_waiting;
        n_waiting += 2 * bits;
        if (n_waiting >= 64) {
            store_word(packed, waiting);
            packed += 8;
            n_waiting -= 64;
            /* The shift in two steps is defined when nothing is left over. */
            waiting = pair >> (2 * bits - n_waiting - 1) >> 1;
        }
    }
    uint64_t beyond = 0;
    if (i < n_lanes) {
        waiting |= (uint64_t)lanes[i] << n_waiting;
        if (n_waiting + bits > 64) beyond = (uint64_t)lanes[i] >> (64 - n_waiting);
        n_waiting += bits;
    }
    uint64_t last[2] = {waiting, beyond};
    memcpy(packed, last, (size_t)(n_waiting + 7) / 8);
}

/* Lanes of up to 16 bits: four fit one word, eight fit two, which do not depend on the
   eight before. Always writes 16 bytes for eight lanes, of which `bits` count. */
INLINE void pack_narrow(const uint32_t *lanes, size_t n_lanes, int bits,
                        uint8_t *packed) {
    for (size_t i = 0; i + 8 <= n_lanes; i += 8, packed += bits) {
        uint64_t four[2];
        for (int half = 0; half < 2; half++) {
            const uint32_t *lane = lanes + i + 4 * half;
            uint64_t low = lane[0] | (uint64_t)lane[1] << bits;
            uint64_t high = lane[2] | (uint64_t)lane[3] << bits;
            four[half] = low | high << 2 * bits;
        }
        /* In two steps, since the shifts may be by 64. */
        store_word(packed, four[0] | four[1] << (4 * bits - 1) << 1);
        store_word(packed + 8, four[1] >> (64 - 4 * bits));
    }
}

INLINE void pack_lanes_into_body(const uint32_t *lanes, size_t n_lanes, int bits,
                                 uint8_t *packed) {
    size_t n_narrow = 0;
    if (bits <= 16 && n_lanes > 128) {
        /* The last lanes go the other way, so that nothing is written beyond them. */
        n_narrow = (n_lanes - 128) / 8 * 8;
        pack_narrow(lanes, n_narrow, bits, packed);
    }
    pack_wide(lanes + n_narrow, n_lanes - n_narrow, bits,
              packed + n_lane_bytes(n_narrow, bits));
}

FOR_EACH_ISA(, pack_lanes_into,
             (const uint32_t *lanes, size_t n_lanes, int bits, uint8_t *packed),
             (lanes, n_lanes, bits, packed))

/* Move four lanes of `from` bits to places `to` bits apart, which is at most 16. */
INLINE uint64_t spread_four(uint64_t four, int from, int to) {
    uint64_t lane = (1ull << from) - 1, pair = (1ull << 2 * from) - 1;
    uint64_t pairs = (four & pair) | (four >> 2 * from & pair) << 2 * to;
    uint64_t firsts = lane | lane << 2 * to;
    return (pairs & firsts) | (pairs >> from & firsts) << to;
}

/* Write eight lanes, four of `to` bits in each word; like pack_narrow, 16 bytes. */
INLINE void write_eight(uint64_t low, uint64_t high, int to, uint8_t *wide) {
    /* In two steps, since the shifts may be by 64. */
    store_word(wide, low | high << (4 * to - 1) << 1);
    store_word(wide + 8, high >> (64 - 4 * to));
}

/* The last four of eight lanes. */
INLINE uint64_t read_high(const uint8_t *packed, int from) {
    return load_word(packed + from / 2) >> 4 * from % 8;
}

/* How many of the lanes can be read by eight, as nothing behind `packed` is read. */
INLINE size_t n_by_eight(size_t n_bytes, size_t n_lanes, int from) {
    size_t step = (size_t)from, needed = step / 2 + 8;
    size_t n_groups = n_bytes < needed ? 0 : (n_bytes - needed) / step + 1;
    return 8 * min_size(n_groups, n_lanes / 8);
}

/* Widen lanes by eight, to at most 16 bits. */
INLINE void widen_narrow(const uint8_t *packed, size_t n_lanes, int from, int to,
                         uint8_t *wide) {
    for (size_t i = 0; i < n_lanes; i += 8, packed += from, wide += to)
        write_eight(spread_four(load_word(packed), from, to),
                    spread_four(read_high(packed, from), from, to), to, wide);
}

/* Widen any lanes. */
INLINE void widen_any(const uint8_t *packed, size_t n_bytes, size_t n_lanes, int from,
                      int to, uint8_t *wide) {
    const uint64_t mask = ~0ull >> (64 - from);
    uint32_t lanes[WIDENED];
    size_t n_safe = n_bytes >= 8 ? (n_bytes - 8) * 8 / (size_t)from : 0;
    size_t i = 0;
    for (; i < min_size(n_safe, n_lanes); i++) {
        size_t place = i * (size_t)from;
        lanes[i] = (uint32_t)(load_word(packed + place / 8) >> place % 8 & mask);
    }
    for (; i < n_lanes; i++) {
        size_t place = i * (size_t)from;
        uint64_t word = load_tail(packed + place / 8, n_bytes - place / 8);
        lanes[i] = (uint32_t)(word >> place % 8 & mask);
    }
    if (to == 32) memcpy(wide, lanes, n_lanes * sizeof *lanes);
    else pack_wide(lanes, n_lanes, to, wide);
}

INLINE void widen_lanes_body(const uint8_t *packed, size_t n_bytes, size_t n_lanes,
                             int from, int to, uint8_t *wide) {
    size_t first = to <= 16 ? n_by_eight(n_bytes, n_lanes, from) : 0;
    size_t at = n_lane_bytes(first, from);
    if (first)
        widen_narrow(packed, first, from, to, wide);
    widen_any(packed + at, n_bytes - at, n_lanes - first, from, to,
              wide + n_lane_bytes(first, to));
}

#if HAVE_X86
TARGET_AVX2 static void widen_lanes_avx2(const uint8_t *packed, size_t n_bytes,
                                         size_t n_lanes, int from, int to,
                                         uint8_t *wide) {
    widen_lanes_body(packed, n_bytes, n_lanes, from, to, wide);
}

/* widen_narrow with an instruction that spreads four lanes; processors that have AVX2
   alone may take a hundred times as long for it. */
INLINE_AVX512 void widen_narrow_avx512(const uint8_t *packed, size_t n_lanes, int from,
                                       int to, uint8_t *wide) {
    const uint64_t lane = ~0ull >> (64 - from), pair = lane | lane << to;
    const uint64_t four = pair | pair << 2 * to;
    for (size_t i = 0; i < n_lanes; i += 8, packed += from, wide += to)
        write_eight(_pdep_u64(load_word(packed), four),
                    _pdep_u64(read_high(packed, from), four), to, wide);
}

TARGET_AVX512 static void widen_lanes_avx512(const uint8_t *packed, size_t n_bytes,
                                             size_t n_lanes, int from, int to,
                                             uint8_t *wide) {
    size_t first = to <= 16 ? n_by_eight(n_bytes, n_lanes, from) : 0;
    size_t at = n_lane_bytes(first, from);
    if (first)
        widen_narrow_avx512(packed, first, from, to, wide);
    widen_any(packed + at, n_bytes - at, n_lanes - first, from, to,
              wide + n_lane_bytes(first, to));
}
#endif

static void widen_lanes_baseline(const uint8_t *packed, size_t n_bytes, size_t n_lanes,
                                 int from, int to, uint8_t *wide) {
    widen_lanes_body(packed, n_bytes, n_lanes, from, to, wide);
}

CALL_ISA(, widen_lanes,
         (const uint8_t *packed, size_t n_bytes, size_t n_lanes, int from, int to,
          uint8_t *wide),
         (packed, n_bytes, n_lanes, from, to, wide))

/* Pack integers of 4 or 8 bytes, of which the lowest `bits` bits count. */
EXPORT void fediac_pack_lanes(const void *lanes, int lane_bytes, size_t n_lanes,
                              int bits, uint8_t *packed) {
    const uint32_t mask = 0xFFFFFFFFu >> (32 - bits);
    uint32_t batch[BATCH];
    for (size_t start = 0; start < n_lanes; start += BATCH) {
        size_t n = min_size(n_lanes - start, BATCH);
        if (lane_bytes == 8) {
            const int64_t *wide = (const int64_t *)lanes + start;
            for (size_t i = 0; i < n; i++) batch[i] = (uint32_t)wide[i] & mask;
        } else {
            const int32_t *narrow = (const int32_t *)lanes + start;
            for (size_t i = 0; i < n; i++) batch[i] = (uint32_t)narrow[i] & mask;
        }
        pack_lanes_into(batch, n, bits, packed + n_lane_bytes(start, bits));
    }
}

/* The inverse, as int64. Reads exactly the bytes that hold `n_lanes` lanes. */
EXPORT void fediac_unpack_lanes(const uint8_t *packed, size_t n_lanes, int bits,
                                int64_t *lanes) {
    const uint64_t mask = ~0ull >> (64 - bits);
    size_t n_bytes = n_lane_bytes(n_lanes, bits), i = 0;
    /* A lane and the bits before it in its byte fit eight bytes from there on. */
    size_t n_safe = n_bytes >= 8 ? (n_bytes - 8) * 8 / (size_t)bits : 0;
    for (; i < min_size(n_safe, n_lanes); i++) {
        size_t place = i * (size_t)bits;
        lanes[i] = (int64_t)(load_word(packed + place / 8) >> place % 8 & mask);
    }
    for (; i < n_lanes; i++) {
        size_t place = i * (size_t)bits;
        uint64_t word = load_tail(packed + place / 8, n_bytes - place / 8);
        lanes[i] = (int64_t)(word >> place % 8 & mask);
    }
}

/* Add `packed` to `total` as if both were one long integer: lanes straddle bytes and
   words, so carries must pass through. */
EXPORT void fediac_add_lanes(uint8_t *total, const uint8_t *packed, size_t n_bytes) {
    uint64_t carry = 0;
    size_t start = 0;
    for (; start + 8 <= n_bytes; start += 8) {
        uint64_t sum;
        uint64_t overflow =
            __builtin_add_overflow(load_word(total + start), carry, &sum);
        overflow |= __builtin_add_overflow(sum, load_word(packed + start), &sum);
        store_word(total + start, sum);
        carry = overflow;
    }
    uint64_t last = load_tail(total + start, n_bytes - start);
    last += load_tail(packed + start, n_bytes - start) + carry;
    memcpy(total + start, &last, n_bytes - start);
}

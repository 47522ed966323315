/* Phase 1, switch side, in arrays: fediac.core.consensus, and counting bits. */

#include "isa.h"

#define TILE 512      /* bytes of every client's votes that are counted together */
#define MAX_PLANES 32 /* counters of more bits would need 2^32 clients */

/* Count the votes of `n_votes` clients in one tile, bit-sliced: plane j holds bit j of
   every entry's counter, so one logic operation serves all entries in it. */
INLINE void count_votes(const uint8_t *const *votes, int n_votes, size_t start,
                        size_t n, uint8_t planes[][TILE], int n_planes,
                        uint8_t *agreed) {
    ELEMENTWISE
    for (size_t i = 0; i < n; i++)
        for (int client = 0; client < n_votes; client++) {
            uint8_t carry = votes[client][start + i];
            for (int plane = 0; plane < n_planes; plane++) {
                uint8_t counted = planes[plane][i];
                planes[plane][i] = counted ^ carry;
                carry &= counted;
            }
            agreed[i] |= carry;
        }
}

/* Four clients at a time, whose counters stay in registers meanwhile. */
INLINE void count_tile(const uint8_t *const *votes, size_t n_clients, size_t start,
                       size_t n, uint8_t planes[][TILE], int n_planes,
                       uint8_t *agreed) {
    size_t client = 0;
    for (; client + 4 <= n_clients; client += 4) {
        const uint8_t *const four[4] = {votes[client], votes[client + 1],
                                        votes[client + 2], votes[client + 3]};
        count_votes(four, 4, start, n, planes, n_planes, agreed);
    }
    for (; client < n_clients; client++)
        count_votes(votes + client, 1, start, n, planes, n_planes, agreed);
}

/* The same for any number of planes, one after the other. */
INLINE void count_tile_by_planes(const uint8_t *const *votes, size_t n_clients,
                                 size_t start, size_t n, uint8_t planes[][TILE],
                                 int n_planes, uint8_t *agreed) {
    uint8_t carries[TILE];
    for (size_t client = 0; client < n_clients; client++) {
        memcpy(carries, votes[client] + start, n);
        for (int plane = 0; plane < n_planes; plane++) {
            uint8_t *counts = planes[plane];
            ELEMENTWISE
            for (size_t i = 0; i < n; i++) {
                uint8_t counted = counts[i];
                counts[i] = counted ^ carries[i];
                carries[i] &= counted;
            }
        }
        ELEMENTWISE
        for (size_t i = 0; i < n; i++) agreed[i] |= carries[i];
    }
}

/* Counters start at 2^n_planes - threshold: the vote that reaches the threshold carries
   out of the top plane, and `agreed` keeps it, whatever the counter does after that. */
INLINE void fediac_agree_body(const uint8_t *const *votes, size_t n_clients,
                              size_t first, size_t n_bytes, uint32_t threshold,
                              uint8_t *gia) {
    int n_planes = threshold > 1 ? 32 - __builtin_clz(threshold - 1) : 0;
    uint64_t initial = (1ull << n_planes) - threshold;
    uint8_t planes[MAX_PLANES][TILE], agreed[TILE];
    for (size_t start = first; start < first + n_bytes; start += TILE) {
        size_t n = min_size(first + n_bytes - start, TILE);
        for (int plane = 0; plane < n_planes; plane++)
            memset(planes[plane], initial >> plane & 1 ? 0xFF : 0, n);
        memset(agreed, 0, n);
        /* A number of planes known to the compiler lets it unroll them. */
        switch (n_planes) {
        case 0:
            count_tile(votes, n_clients, start, n, planes, 0, agreed);
            break;
        case 1:
            count_tile(votes, n_clients, start, n, planes, 1, agreed);
            break;
        case 2:
            count_tile(votes, n_clients, start, n, planes, 2, agreed);
            break;
        case 3:
            count_tile(votes, n_clients, start, n, planes, 3, agreed);
            break;
        case 4:
            count_tile(votes, n_clients, start, n, planes, 4, agreed);
            break;
        default:
            count_tile_by_planes(votes, n_clients, start, n, planes, n_planes, agreed);
        }
        memcpy(gia + start, agreed, n);
    }
}

/* The gia in the bytes first..first + n_bytes - 1: entries with at least `threshold`
   votes, which must be in 1..n_clients. */
FOR_EACH_ISA(EXPORT, fediac_agree,
             (const uint8_t *const *votes, size_t n_clients, size_t first,
              size_t n_bytes, uint32_t threshold, uint8_t *gia),
             (votes, n_clients, first, n_bytes, threshold, gia))

/* How many bits are set in `n_bytes` bytes. */
INLINE void fediac_count_bits_body(const uint8_t *packed, size_t n_bytes,
                                   uint64_t *total) {
    uint64_t count = 0;
    size_t start = 0;
    for (; start + 8 <= n_bytes; start += 8)
        count += (uint64_t)__builtin_popcountll(load_word(packed + start));
    uint64_t last = load_tail(packed + start, n_bytes - start);
    *total = count + (uint64_t)__builtin_popcountll(last);
}

FOR_EACH_ISA(EXPORT, fediac_count_bits,
             (const uint8_t *packed, size_t n_bytes, uint64_t *total),
             (packed, n_bytes, total))

/* Phase 2, client side: fediac.core.quantize.send_chosen in one pass.

   Chosen entries are taken 4,096 at a time, a block of the energies' tree sum. Lanes of
   a block fill whole bytes, so threads that start at different blocks share none. */

#include "lanes.h"
#include "philox.h"
#include "sums.h"

#define BATCH 1024 /* entries rounded together; divides BLOCK */

/* Reads the entries that `gia` chooses, 64 of its bits at a time. These may bring more
   than the block at hand can take: there is room for 64 more, which wait for the next
   block, and for the 16 that are written too many at a time. */
typedef struct {
    const uint8_t *gia;
    size_t next, dim; /* entries not read yet; `next` is a multiple of 64 */
    uint64_t skipped; /* bits of the first word that another thread takes */
    size_t n_found;
    uint32_t offsets[BLOCK + 80];
} reader;

/* Bits `next` to `next + 63` of the gia; those beyond its last entry are zero. */
INLINE uint64_t gia_word(const reader *reader, size_t next) {
    const uint8_t *bytes = reader->gia + next / 8;
    size_t n_left = reader->dim - next;
    if (n_left >= 64) return load_word(bytes);
    return load_tail(bytes, (n_left + 7) / 8) & ~(~0ull << n_left);
}

/* Read on until `n_wanted` entries are found, of which there must be as many. This is
   the version to read. */
INLINE void find_chosen_body(reader *reader, size_t n_wanted) {
    size_t n_found = reader->n_found, next = reader->next;
    uint64_t skipped = reader->skipped;
    for (; n_found < n_wanted; next += 64, skipped = 0) {
        uint64_t word = gia_word(reader, next) & ~skipped;
        for (; word; word &= word - 1)
            reader->offsets[n_found++] =
                (uint32_t)(next + (size_t)__builtin_ctzll(word));
    }
    reader->n_found = n_found;
    reader->next = next;
    reader->skipped = skipped;
}

static void find_chosen_baseline(reader *reader, size_t n_wanted) {
    find_chosen_body(reader, n_wanted);
}

#if HAVE_X86

TARGET_AVX2 static void find_chosen_avx2(reader *reader, size_t n_wanted) {
    find_chosen_body(reader, n_wanted);
}

enum { FEW = 6 }; /* bits of a word, more than most have where one in twenty is set */

/* Write the offsets of a word's first FEW bits; the next ones overwrite what is behind
   its last one. */
INLINE_AVX512 void write_few(uint64_t word, size_t next, uint32_t *offsets) {
    for (int i = 0; i < FEW; i++, word &= word - 1)
        offsets[i] = (uint32_t)(next + _tzcnt_u64(word));
}

/* Hardly a branch depends on a word's bits: a few offsets are always written, or where
   there are more sixteen at a time, the chosen ones first, and the next sixteen
   overwrite the surplus. */
TARGET_AVX512 static void find_chosen_avx512(reader *reader, size_t n_wanted) {
    const __m512i places =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    size_t n_found = reader->n_found, next = reader->next;
    uint64_t skipped = reader->skipped;
    for (; n_found < n_wanted; next += 64, skipped = 0) {
        uint64_t word = gia_word(reader, next) & ~skipped;
        size_t n_here = (size_t)_mm_popcnt_u64(word);
        if (n_here <= FEW) {
            write_few(word, next, reader->offsets + n_found);
            n_found += n_here;
            continue;
        }
        for (size_t part = 0; part < 64; part += 16, word >>= 16) {
            __mmask16 mask = (__mmask16)word;
            __m512i first = _mm512_set1_epi32((int)(next + part));
            __m512i entry = _mm512_add_epi32(first, places);
            _mm512_storeu_si512(reader->offsets + n_found,
                                _mm512_maskz_compress_epi32(mask, entry));
            n_found += (size_t)_mm_popcnt_u32(mask);
        }
    }
    reader->n_found = n_found;
    reader->next = next;
    reader->skipped = skipped;
}

#endif

CALL_ISA(static, find_chosen, (reader *reader, size_t n_wanted), (reader, n_wanted))

/* One by one: instructions that gather are slower on many processors. */
static void gather(const float *values, const uint32_t *offsets, size_t n,
                   float *restrict chosen) {
    for (size_t i = 0; i < n; i++) chosen[i] = values[offsets[i]];
}

/* fediac.core.quantize.Grid; a lane that is sent has `bits` bits. */
typedef struct {
    double scale;
    uint32_t limit;
    int32_t bits;
} fediac_grid;

/* Round to levels, unbiased, and say what they leave. Levels stay float64, which holds
   them exactly, until they are clamped and fit 32 bits. */
INLINE void round_batch_body(const float *chosen, const uint32_t *words, size_t n,
                             const fediac_grid *grid, float *restrict left,
                             uint32_t *restrict lanes, uint64_t *restrict n_clamped) {
    const double scale = grid->scale, limit = grid->limit;
    uint64_t n_beyond = 0;
    for (size_t i = 0; i < n; i++) {
        double value = chosen[i];
        double scaled = value * scale;
        double below = floor(scaled);
        double unit = (double)words[i] * 0x1p-32;
        /* Adding zero turns a negative zero positive, as an integer would. */
        double level = below + (unit < scaled - below ? 1.0 : 0.0);
        n_beyond += fabs(level) > limit;
        level = level > limit ? limit : level;
        level = level < -limit ? -limit : level;
        left[i] = (float)(value - level / scale);
        lanes[i] = (uint32_t)(int32_t)level + grid->limit;
    }
    *n_clamped += n_beyond;
}

FOR_EACH_ISA(static, round_batch,
             (const float *chosen, const uint32_t *words, size_t n,
              const fediac_grid *grid, float *restrict left, uint32_t *restrict lanes,
              uint64_t *restrict n_clamped),
             (chosen, words, n, grid, left, lanes, n_clamped))

/* The sum of squares of up to a block of values. */
INLINE void energy_body(const float *values, size_t n, double *sum) {
    if (n == BLOCK) {
        *sum = block_energy(values);
        return;
    }
    float padded[BLOCK];
    memcpy(padded, values, n * sizeof *padded);
    memset(padded + n, 0, (BLOCK - n) * sizeof *padded);
    *sum = block_energy(padded);
}

FOR_EACH_ISA(static, energy, (const float *values, size_t n, double *sum),
             (values, n, sum))

typedef struct {
    const float *values;
    float *out; /* NULL: nobody keeps a residual */
    const fediac_grid *grid;
    const fediac_stream *stream;
} sender;

/* Round, pack and account for the block `chosen`, which may be `values` themselves:
   entries `offsets`, or those from `first` on if that is NULL. */
static void send_block(const sender *sender, const float *chosen,
                       const uint32_t *offsets, size_t first, size_t n, uint8_t *lanes,
                       double *chosen_energy, double *left_energy,
                       uint64_t *n_clamped) {
    float left[BLOCK];
    *n_clamped = 0;
    uint32_t words[BATCH], levels[BATCH];
    int bits = sender->grid->bits;
    for (size_t start = 0; start < n; start += BATCH) {
        size_t length = min_size(n - start, BATCH);
        if (offsets)
            philox_words_at(0, offsets + start, length, sender->stream, words);
        else philox_run(first + start, length, sender->stream, words);
        round_batch(chosen + start, words, length, sender->grid, left + start, levels,
                    n_clamped);
        pack_lanes_into(levels, length, bits, lanes + n_lane_bytes(start, bits));
    }
    energy(chosen, n, chosen_energy);
    energy(left, n, left_energy);
    if (!sender->out) return;
    if (!offsets) memcpy(sender->out + first, left, n * sizeof *left);
    else
        for (size_t i = 0; i < n; i++) sender->out[offsets[i]] = left[i];
}

/* Send `n_levels` of the entries that `gia` (NULL: all) chooses from `first` on, with
   a block's energies and its number of clamped levels in each element of the last three
   arrays. All blocks but the last of the update must be whole; without a gia `first` is
   a multiple of 4. */
EXPORT void fediac_send_chosen(const float *values, const uint8_t *gia, size_t dim,
                               size_t first, size_t n_levels, const fediac_grid *grid,
                               const fediac_stream *stream, float *out, uint8_t *lanes,
                               double *chosen_energies, double *left_energies,
                               uint64_t *n_clamped) {
    sender sender = {values, out, grid, stream};
    reader reader;
    reader.gia = gia;
    reader.next = first / 64 * 64;
    reader.dim = dim;
    reader.skipped = ~(~0ull << first % 64);
    reader.n_found = 0;
    float chosen[BLOCK];
    for (size_t start = 0; start < n_levels; start += BLOCK) {
        size_t n = min_size(n_levels - start, BLOCK), block = start / BLOCK;
        uint8_t *block_lanes = lanes + n_lane_bytes(start, grid->bits);
        if (!gia) {
            send_block(&sender, values + first + start, NULL, first + start, n,
                       block_lanes, chosen_energies + block, left_energies + block,
                       n_clamped + block);
            continue;
        }
        find_chosen(&reader, n);
        gather(values, reader.offsets, n, chosen);
        send_block(&sender, chosen, reader.offsets, 0, n, block_lanes,
                   chosen_energies + block, left_energies + block, n_clamped + block);
        reader.n_found -= n;
        memmove(reader.offsets, reader.offsets + n,
                reader.n_found * sizeof *reader.offsets);
    }
}

/* The place of the set bit that `n_before` others precede; it must exist. */
EXPORT size_t fediac_select_bit(const uint8_t *packed, size_t n_bytes,
                                size_t n_before) {
    size_t start = 0;
    for (; start + 8 <= n_bytes; start += 8) {
        size_t n_here = (size_t)__builtin_popcountll(load_word(packed + start));
        if (n_here > n_before) break;
        n_before -= n_here;
    }
    uint64_t word = load_tail(packed + start, n_bytes - start);
    for (; n_before; n_before--) word &= word - 1;
    return 8 * start + (size_t)__builtin_ctzll(word);
}

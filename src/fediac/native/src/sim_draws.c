/* Random numbers of the simulator: exponentials and service times. */

#include "sim.h"

#define HALF 0.5
#define TWO_52 4503599627370496.0
#define TWO_52_BITS 0x4330000000000000u
#define MANTISSA 0x000FFFFFFFFFFFFFu
#define SQRT_HALF 0.7071067811865476
#define LN_2 0.6931471805599453

INLINE double double_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* -ln(u) in units of 2^-32 for u = (word + 1/2) / 2^32, by the steps of
   fediac.sim.draws: word + 1/2 = m * 2^k with m around 1, ln m = 2 atanh(s). A number
   below 2^52 is turned into a double, and back, by its place behind 2^52. */
INLINE void exponentials_body(const uint32_t *words, size_t n, int64_t *values) {
    ELEMENTWISE
    for (size_t i = 0; i < n; i++) {
        double v = double_of_bits(TWO_52_BITS | words[i]) - TWO_52 + HALF;
        uint64_t bits = bits_of_double(v);
        double m = double_of_bits((bits & MANTISSA) | 0x3FE0000000000000u);
        double k = double_of_bits(TWO_52_BITS | (bits >> 52)) - (TWO_52 + 1022.0);
        double is_low = m < SQRT_HALF ? 1.0 : 0.0;
        m = m * (1.0 + is_low);
        k = k - is_low;
        double s = (m - 1.0) / (m + 1.0);
        double z = s * s;
        double series = 2.0 / 15.0;
        series = 2.0 / 13.0 + z * series;
        series = 2.0 / 11.0 + z * series;
        series = 2.0 / 9.0 + z * series;
        series = 2.0 / 7.0 + z * series;
        series = 2.0 / 5.0 + z * series;
        series = 2.0 / 3.0 + z * series;
        series = 2.0 + z * series;
        double value = (32.0 - k) * LN_2 - s * series;
        double shifted = value * 4294967296.0 + TWO_52;
        values[i] = (int64_t)(bits_of_double(shifted) & MANTISSA);
    }
}

FOR_EACH_ISA(static, exponentials, (const uint32_t *words, size_t n, int64_t *values),
             (words, n, values))

/* The word's upper half picks a cell of the quantile table, its lower half a place in
   the middle of one of 2^16 parts of it. */
INLINE void service_times_body(const int64_t *table, const uint32_t *words, size_t n,
                               int64_t *values) {
    for (size_t i = 0; i < n; i++) {
        uint32_t cell = words[i] >> 16, part = words[i] & 0xFFFF;
        int64_t width = table[cell + 1] - table[cell];
        values[i] = table[cell] + (width * (int64_t)(2 * part + 1) >> 17);
    }
}

FOR_EACH_ISA(static, service_times,
             (const int64_t *table, const uint32_t *words, size_t n, int64_t *values),
             (table, words, n, values))

/* Make the next numbers; the first place may be one of four that a counter serves. */
void refill(Draws *draws) {
    uint32_t words[N_DRAWS];
    uint64_t first = draws->next & ~3ull;
    philox_run(first, N_DRAWS, &draws->stream, words);
    if (draws->table)
        service_times(draws->table, words, N_DRAWS, draws->values);
    else
        exponentials(words, N_DRAWS, draws->values);
    draws->place = draws->next - first;
    draws->next = first + N_DRAWS;
}

/* For tests: the next `n` numbers. */
EXPORT void fediac_draws(Draws *draws, size_t n, int64_t *values) {
    for (size_t i = 0; i < n; i++) values[i] = draw(draws);
}

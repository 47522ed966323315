/* Votes counted in bit planes, as the switch does, beside planes like a thermometer.

       cc -O3 -march=native benchmarks/vote_planes.c -o build/vote_planes && build/vote_planes

   Counters of bit i in plane i take log2(threshold) planes and saturate. In a thermometer
   plane i says that there are more than i votes: a register is read and written once, as
   hardware without carries wants it, but there are as many planes as votes are needed.
   Both count packets of 1,408 bytes from 20 clients; prints ns a packet, best of 7. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORDS = 176, CLIENTS = 20, EXCHANGES = 1000, SLOTS = 93, PACKETS = 4096, RUNS = 7 };
typedef uint64_t Word;

static inline __attribute__((always_inline)) void
count(Word *planes, const Word *votes, int n) {
    for (int i = 0; i < WORDS; i++) {
        Word full = ~(Word)0;
        for (int k = 0; k < n; k++)
            full &= planes[k * WORDS + i];
        Word carry = votes[i] & ~full;
        for (int k = 0; k < n; k++) {
            Word old = planes[k * WORDS + i];
            planes[k * WORDS + i] = old ^ carry;
            carry &= old;
        }
    }
}

/* A number of planes known to the compiler lets it unroll them. */
static void sliced(Word *restrict planes, const Word *restrict votes, int n) {
    switch (n) {
    case 1: count(planes, votes, 1); break;
    case 2: count(planes, votes, 2); break;
    case 3: count(planes, votes, 3); break;
    case 4: count(planes, votes, 4); break;
    case 5: count(planes, votes, 5); break;
    default: count(planes, votes, n);
    }
}

static void reach(const Word *planes, int n, int threshold, Word *gia) {
    for (int i = 0; i < WORDS; i++) {
        Word above = 0, equal = ~(Word)0;
        for (int k = n; k-- > 0;) {
            Word plane = planes[k * WORDS + i];
            if (threshold >> k & 1) {
                equal &= plane;
            } else {
                above |= equal & plane;
                equal &= ~plane;
            }
        }
        gia[i] = above | equal;
    }
}

static void thermometer(Word *restrict planes, const Word *restrict votes, int n) {
    for (int k = n; k-- > 1;)
        for (int i = 0; i < WORDS; i++)
            planes[k * WORDS + i] |= planes[(k - 1) * WORDS + i] & votes[i];
    for (int i = 0; i < WORDS; i++)
        planes[i] |= votes[i];
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Return the ns that a packet takes; add what was agreed on to the sum. */
static double run(const Word *votes, int threshold, int n, int is_thermometer, Word *sum) {
    Word *slots = calloc((size_t)SLOTS * (size_t)n * WORDS, sizeof *slots), gia[WORDS];
    double start = seconds();
    for (int e = 0; e < EXCHANGES; e++) {
        Word *slot = slots + (size_t)(e % SLOTS) * (size_t)n * WORDS;
        memset(slot, 0, (size_t)n * sizeof gia);
        for (int c = 0; c < CLIENTS; c++) {
            const Word *packet = votes + (size_t)((e * CLIENTS + c) % PACKETS) * WORDS;
            (is_thermometer ? thermometer : sliced)(slot, packet, n);
        }
        if (is_thermometer)
            memcpy(gia, slot + (size_t)(n - 1) * WORDS, sizeof gia);
        else
            reach(slot, n, threshold, gia);
        for (int i = 0; i < WORDS; i++)
            *sum += gia[i];
    }
    double took = seconds() - start;
    free(slots);
    return 1e9 * took / (EXCHANGES * CLIENTS);
}

int main(void) {
    Word *votes = malloc((size_t)PACKETS * WORDS * sizeof *votes);
    for (size_t i = 0; i < (size_t)PACKETS * WORDS; i++)
        votes[i] = (Word)rand() << 33 ^ (Word)rand();
    puts("threshold   bit planes   thermometer   ns a packet");
    for (int threshold = 1; threshold <= 16; threshold += threshold < 4 ? 1 : 4) {
        int n = 0;
        while (1 << n <= threshold)
            n++;
        double best[2] = {1e9, 1e9};
        Word sums[2] = {0, 0};
        for (int i = 0; i < 2 * RUNS; i++) {
            double took = run(votes, threshold, i % 2 ? threshold : n, i % 2, &sums[i % 2]);
            best[i % 2] = took < best[i % 2] ? took : best[i % 2];
        }
        if (sums[0] != sums[1])
            return fprintf(stderr, "threshold %d: not the same gia\n", threshold), 1;
        printf("%9d %8.0f (%d) %9.0f (%d)\n", threshold, best[0], n, best[1], threshold);
    }
    free(votes);
    return 0;
}

/* The switch's data plane: what its files share.

   fediac.switch is the readable truth; here are its registers, counters and answers
   again, byte for byte. Names are the same. Nothing is allocated, and a job's packets
   touch only the job's region of the registers. */

#ifndef FEDIAC_SWITCH_H
#define FEDIAC_SWITCH_H

#include "kernels.h"

enum { TALLY = 1, MAX = 2, SUM = 3, BLOCK_SUM = 4, INDEXED_SUM = 5 };
enum { WAIT = 23, ERROR = 25 };            /* what the switch tells a client */
enum { SETTINGS = 1, ITEMS = 2 };          /* what a packet contradicts */
enum { ANSWER = 1, OBSERVE = 2, LAST = 4, ANNOUNCE = 8, NARROW = 16, READ = 32 };
enum { FREE = 0, OPEN = 1, COMPLETE = 2 };
enum { MAGIC = 0xFED1, VERSION = 2, EVERYONE = 0xFFFF, WORD_BITS = 32 };
enum { MAX_CLIENTS = 1024, MAX_PAYLOAD_BYTES = 0xFFFF / 8 / 64 * 64 };

/* Places of the counters, before those of drops. */
enum { PACKETS_IN, PACKETS_OUT, AGGREGATIONS, REPEATED, USED_BYTES, PEAK_BYTES, DROPS };

/* What became of a packet: it was dropped for a reason, or it was not. */
typedef enum {
    KEPT = -1,
    FOREIGN = 0,
    MALFORMED,
    UNKNOWN_SESSION,
    STRANGER,
    STALE,
    BUSY,
    DUPLICATE,
    MISMATCH,
    REGISTERS
} Verdict;

/* A header as it is computed with; on the wire it is in network byte order. */
typedef struct {
    uint16_t magic;
    uint8_t version, kind;
    uint16_t exchange, client;
    uint64_t session;
    uint32_t packet, aux;
    uint16_t n_items;
    union {
        uint16_t threshold, count; /* in a client's packet, in an answer */
    };
    uint8_t bits_up, bits, flags, part;
} Header;

enum { HEADER_BYTES = 40 };

typedef struct {
    Header header;
    const uint8_t *body;
    size_t n_bytes;
} Packet;

typedef struct {
    uint64_t base, session;
    uint32_t n_clients, n_observers, n_present, payload_bytes, register_bytes;
    uint32_t keeps_early; /* blocks that come before a client's next one */
    uint8_t present[MAX_CLIENTS / 8];
} Job;

/* Registers are bytes at any place: whoever looks at them as a record says so. */
#define REGISTERS_AS __attribute__((packed, may_alias))

typedef struct {
    uint32_t is_valid, exchange, kind, stride, n_slots, settings, used;
} REGISTERS_AS Half;

/* What stands first in a job's region. */
typedef struct {
    uint32_t current;
    Half halves[2];
    uint32_t begun; /* how many exchanges have begun */
} REGISTERS_AS Record;

/* What stands first in a slot. */
typedef struct {
    uint32_t packet, aux;
    uint16_t exchange, n_items, threshold, count;
    uint8_t kind, bits, state, bits_up;
    uint32_t unused;
} REGISTERS_AS Slot;

_Static_assert(sizeof(Job) == 168, "a job record has no gaps");
_Static_assert(sizeof(Record) == 64, "a region's record has no gaps");
_Static_assert(sizeof(Slot) == 24, "a slot record has no gaps");

/* Rows for answers, which the caller allocates. */
typedef struct {
    uint8_t *rows;
    int32_t *lengths;
    uint16_t *destinations;
    size_t stride, capacity, n_answers;
    size_t n_needed; /* free rows that the packet needs where processing stopped */
} Answers;

/* A job's registers and where everything stands in them; counters; answers. */
typedef struct {
    const Job *job;
    uint8_t *registers; /* the first byte of the region */
    size_t bitmap_bytes, payload_bytes, clocks_bytes; /* in whole words */
    size_t halves_at, half_bytes;
    int64_t *counts;
    Answers *answers;
} Region;

/* What a switch is: registers, the jobs in them, counters, and rows for answers. */
typedef struct {
    uint8_t *registers;
    const Job *jobs;
    size_t n_jobs;
    int64_t *counts;
    size_t payload_bytes;
    Answers *answers;
} Places;

INLINE size_t align(size_t n_bytes) {
    return (n_bytes + 7) / 8 * 8;
}

/* The length of a slot whose values take `n_values` bytes. */
INLINE size_t slot_bytes(const Region *region, size_t n_values) {
    return sizeof(Slot) + region->bitmap_bytes + n_values;
}

/* Where a slot of a block sum has what early blocks name as next. */
INLINE size_t early_at(const Region *region) {
    return sizeof(Slot) + region->payload_bytes;
}

INLINE size_t block_slot_bytes(const Region *region) {
    size_t n_early = region->job->keeps_early ? region->job->n_clients : 0;
    return early_at(region) + align(4 * n_early);
}

INLINE size_t n_block_slots(const Region *region) {
    size_t clocks = region->clocks_bytes, half = region->half_bytes;
    return half > clocks ? (half - clocks) / block_slot_bytes(region) : 0;
}

/* The bytes of so many lanes. */
INLINE size_t lane_bytes(size_t n_lanes, unsigned bits) {
    return (n_lanes * bits + 7) / 8;
}

/* The bytes of the sums of as many lanes as a packet up can hold. */
INLINE size_t sums_bytes(const Region *region, unsigned bits_up, unsigned bits) {
    if (bits_up == bits)
        return region->payload_bytes;
    size_t n_payload = region->job->payload_bytes;
    size_t n_bytes = lane_bytes(8 * n_payload / bits_up, bits);
    return align(n_bytes > n_payload ? n_bytes : n_payload);
}

/* How many lanes of a slot one packet of its answer holds, where there are two widths;
   none if not even eight fit. */
INLINE size_t lanes_per_part(size_t n_payload, unsigned bits) {
    return 8 * n_payload / bits / 8 * 8;
}

/* The most packets that answer one of a sum; that of an observer, which has no lanes,
   may complete it. */
INLINE size_t n_most_parts(const Region *region, unsigned bits_up, unsigned bits) {
    if (bits_up == bits)
        return 1;
    size_t n_payload = region->job->payload_bytes;
    size_t per_part = lanes_per_part(n_payload, bits);
    return (8 * n_payload / bits_up + per_part - 1) / per_part;
}

INLINE uint8_t *half_at(const Region *region, unsigned number) {
    return region->registers + region->halves_at + number * region->half_bytes;
}

/* The record that stands first in a slot. */
INLINE Slot *slot_of(uint8_t *at) {
    return (Slot *)at;
}

INLINE Slot read_slot(const uint8_t *at) {
    return *(const Slot *)at;
}

INLINE void write_slot(uint8_t *at, Slot slot) {
    slot.unused = 0;
    *slot_of(at) = slot;
}

INLINE uint32_t read_clock(const uint8_t *clocks, size_t place) {
    uint32_t clock;
    memcpy(&clock, clocks + 4 * place, sizeof clock);
    return clock;
}

INLINE void write_clock(uint8_t *clocks, size_t place, uint32_t clock) {
    memcpy(clocks + 4 * place, &clock, sizeof clock);
}

/* The widths of a pair: of its index, and of its level in two's complement. */
typedef struct {
    unsigned index, level;
} Widths;

/* The widths in an indexed sum's packet, whose level has 1 to 32 bits. */
INLINE Widths pair_widths(const Header *header) {
    Widths widths = {WORD_BITS, header->bits};
    if (header->flags & NARROW) {
        uint32_t largest = header->aux ? header->aux - 1 : 0;
        widths.index = largest ? 32 - (unsigned)__builtin_clz(largest) : 1;
    }
    return widths;
}

/* How many addresses a range of an indexed sum has: as many as a packet holds pairs. */
INLINE uint32_t range_length(Widths widths, size_t n_payload) {
    return (uint32_t)(8 * n_payload / (widths.index + widths.level));
}

/* The n bits from bit `at` of a body on, least significant first; n is at most 32. */
INLINE uint32_t read_bits(const Packet *packet, size_t at, unsigned n) {
    const uint8_t *first = packet->body + at / 8;
    size_t n_left = packet->n_bytes - at / 8;
    uint64_t word = n_left < 8 ? load_tail(first, n_left) : load_word(first);
    return (uint32_t)(word >> at % 8 & ((1ull << n) - 1));
}

INLINE uint32_t read_index(const Packet *packet, Widths widths, size_t pair) {
    return read_bits(packet, pair * (widths.index + widths.level), widths.index);
}

INLINE int is_set(const uint8_t *bitmap, size_t place) {
    return bitmap[place / 8] >> place % 8 & 1;
}

INLINE void set_bit(uint8_t *bitmap, size_t place) {
    bitmap[place / 8] |= (uint8_t)(1u << place % 8);
}

/* Clients that an answer counts. */
INLINE uint16_t n_counted(const Job *job, uint32_t count) {
    return (uint16_t)(count - job->n_observers);
}

INLINE uint16_t read16(const uint8_t *at) {
    return (uint16_t)(at[0] << 8 | at[1]);
}

INLINE uint32_t read32(const uint8_t *at) {
    return (uint32_t)read16(at) << 16 | read16(at + 2);
}

INLINE uint64_t read64(const uint8_t *at) {
    return (uint64_t)read32(at) << 32 | read32(at + 4);
}

INLINE void write16(uint8_t *at, uint16_t word) {
    at[0] = (uint8_t)(word >> 8);
    at[1] = (uint8_t)word;
}

INLINE void write32(uint8_t *at, uint32_t word) {
    write16(at, (uint16_t)(word >> 16));
    write16(at + 2, (uint16_t)word);
}

INLINE void write64(uint8_t *at, uint64_t word) {
    write32(at, (uint32_t)(word >> 32));
    write32(at + 4, (uint32_t)word);
}

/* Read a header; its tag is for whoever knows the key. */
INLINE Header read_header(const uint8_t *at) {
    return (Header){.magic = read16(at),
                    .version = at[2],
                    .kind = at[3],
                    .session = read64(at + 4),
                    .exchange = read16(at + 12),
                    .client = read16(at + 14),
                    .packet = read32(at + 16),
                    .aux = read32(at + 20),
                    .n_items = read16(at + 24),
                    .threshold = read16(at + 26),
                    .bits_up = at[28],
                    .bits = at[29],
                    .flags = at[30],
                    .part = at[31]};
}

/* Write a header without a tag. */
INLINE void write_header(uint8_t *at, const Header *header) {
    write16(at, header->magic);
    at[2] = header->version;
    at[3] = header->kind;
    write64(at + 4, header->session);
    write16(at + 12, header->exchange);
    write16(at + 14, header->client);
    write32(at + 16, header->packet);
    write32(at + 20, header->aux);
    write16(at + 24, header->n_items);
    write16(at + 26, header->count);
    at[28] = header->bits_up;
    at[29] = header->bits;
    at[30] = header->flags;
    at[31] = header->part;
    write64(at + 32, 0);
}

int take_packet(Region *region, const Places *places, const uint8_t *bytes,
                size_t n_bytes);
Region open_region(const Job *job, uint8_t *registers, int64_t *counts,
                   Answers *answers);
void use(Region *region, unsigned number, size_t n_bytes);
Verdict begin(Region *region, uint16_t exchange);
Verdict enter(Region *region, const Header *header, size_t stride, size_t n_slots,
              int may_begin, unsigned *number);
Verdict contradict_any_half(Region *region, const Header *header);
uint8_t *next_body(const Region *region);
void tell(Region *region, Header header, const uint8_t *body, size_t n_body);
void answer(Region *region, Header header, const uint8_t *body, size_t n_body);
Verdict contradict(Region *region, const Header *header, uint8_t reason,
                   uint16_t n_items, uint32_t settings);
Verdict wait_for_others(Region *region, const Header *header, uint16_t count,
                        uint32_t following);

Verdict process_aligned(Region *region, const Packet *packet);
Verdict process_max(Region *region, const Packet *packet);
Verdict process_block(Region *region, const Packet *packet);
Verdict process_indexed(Region *region, const Packet *packet);

#endif

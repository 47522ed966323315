/* Tally, sum and maximum: fediac.switch.aligned, with its adder and vote counters. */

#include "isa.h"
#include "lanes.h"
#include "switch.h"

enum { TILE = 64 }; /* words of every plane that are worked on together */

static unsigned n_planes(uint32_t threshold) {
    return 32 - (unsigned)__builtin_clz(threshold);
}

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

/* Add the payload and a carry as one long little-endian integer, cut at its length;
   return the carry out of it where it is whole words. */
static unsigned char add_payload(uint8_t *registers, const uint8_t *payload,
                                 size_t n_bytes, unsigned char carry) {
    size_t i = 0;
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

/* Add the packet's lanes to those of its slot, which may be wider. */
static void add_lanes(uint8_t *registers, const Packet *packet) {
    int from = packet->header.bits_up, to = packet->header.bits;
    if (from == to) {
        add_payload(registers, packet->body, packet->n_bytes, 0);
        return;
    }
    uint8_t wide[4 * WIDENED + WIDENED_SPARE];
    unsigned char carry = 0;
    for (size_t first = 0; first < packet->header.n_items; first += WIDENED) {
        size_t n_lanes = min_size(packet->header.n_items - first, WIDENED);
        size_t at = n_lane_bytes(first, from);
        widen_lanes(packet->body + at, packet->n_bytes - at, n_lanes, from, to, wide);
        /* All but the last ones are whole words. */
        carry = add_payload(registers + n_lane_bytes(first, to), wide,
                            n_lane_bytes(n_lanes, to), carry);
    }
}

/* Count votes in one word of every plane, see below. */
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

/* Count one client's votes. Plane i holds bit i of every entry's counter; counters stay
   at the largest value that their planes hold. Planes are whole words. */
INLINE void count_votes_body(uint8_t *planes, size_t stride, unsigned n_planes,
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
FOR_EACH_ISA(static, count_votes,
             (uint8_t * planes, size_t stride, unsigned n_planes, const uint8_t *votes,
              size_t n_bytes),
             (planes, stride, n_planes, votes, n_bytes))

/* Set the bits of `gia` of the entries whose counter is at least `threshold`. */
INLINE void reach_threshold_body(const uint8_t *planes, size_t stride,
                                 uint32_t threshold, uint8_t *gia, size_t n_bytes) {
    uint64_t above[TILE], equal[TILE], plane[TILE];
    for (size_t start = 0; start < n_bytes; start += sizeof plane) {
        size_t n_votes = min_size(n_bytes - start, sizeof plane);
        size_t n_words = (n_votes + 7) / 8;
        memset(above, 0, sizeof above);
        memset(equal, 0xFF, sizeof equal);
        for (unsigned i = n_planes(threshold); i-- > 0;) {
            uint64_t must_be_set = threshold >> i & 1 ? ~UINT64_C(0) : 0;
            memcpy(plane, planes + i * stride + start, 8 * n_words);
            for (size_t word = 0; word < n_words; word++) {
                above[word] |= equal[word] & plane[word] & ~must_be_set;
                equal[word] &= ~(plane[word] ^ must_be_set);
            }
        }
        for (size_t word = 0; word < n_words; word++)
            above[word] |= equal[word];
        memcpy(gia + start, above, n_votes);
    }
}
FOR_EACH_ISA(static, reach_threshold,
             (const uint8_t *planes, size_t stride, uint32_t threshold, uint8_t *gia,
              size_t n_bytes),
             (planes, stride, threshold, gia, n_bytes))

/* Answer with a complete slot's sums, in as many packets as they fill. */
static void answer_sums(Region *region, Header header, const uint8_t *sums) {
    size_t n_left = header.n_items, per_part = n_left;
    if (header.bits_up != header.bits)
        per_part = lanes_per_part(region->job->payload_bytes, header.bits);
    for (; n_left; header.part++) {
        header.n_items = (uint16_t)min_size(n_left, per_part);
        size_t n_body = lane_bytes(header.n_items, header.bits);
        answer(region, header, sums, n_body);
        sums += n_body;
        n_left -= header.n_items;
    }
}

/* Answer with what a complete slot holds. */
static void answer_slot(Region *region, const Slot *slot, uint8_t *at, uint16_t to) {
    const uint8_t *body = at + sizeof *slot + region->bitmap_bytes;
    uint8_t gia[MAX_PAYLOAD_BYTES];
    /* Spoilt registers may claim more items than a packet up can hold. */
    size_t n_body = 0, n_most = 8 * (size_t)region->job->payload_bytes;
    n_most = slot->kind == MAX ? 0 : slot->kind == SUM ? n_most / slot->bits_up : n_most;
    size_t n_items = min_size(slot->n_items, n_most);
    if (slot->kind == TALLY) {
        n_body = (n_items + 7) / 8;
        reach_threshold(body, region->payload_bytes, slot->threshold, gia, n_body);
        body = gia;
    }
    Header header = {.kind = slot->kind,
                     .exchange = slot->exchange,
                     .client = to,
                     .packet = slot->packet,
                     .n_items = (uint16_t)n_items,
                     .count = n_counted(region->job, slot->count),
                     .aux = slot->aux,
                     .bits_up = slot->bits_up,
                     .bits = slot->bits};
    if (slot->kind == SUM)
        answer_sums(region, header, body);
    else
        answer(region, header, body, n_body);
}

/* Whether the packet is the next one in its slot. A window never lets one through that
   is further on: whatever sends it must not push aside those that are waited for. */
static Verdict check_turn(const Slot *slot, uint32_t packet, size_t n_slots) {
    if (slot->state != FREE && packet < slot->packet)
        return STALE;
    uint64_t next = slot->state == FREE ? packet % n_slots : slot->packet + n_slots;
    return slot->state == OPEN || packet != next ? BUSY : KEPT;
}

/* Clear a slot for the packet's group. */
static Slot take_slot(const Header *header, uint8_t *at, size_t stride) {
    memset(at, 0, stride);
    return (Slot){.packet = header->packet,
                  .exchange = header->exchange,
                  .n_items = header->n_items,
                  .threshold = header->threshold,
                  .kind = header->kind,
                  .bits = header->bits,
                  .state = OPEN,
                  .bits_up = header->bits_up};
}

/* Whether a packet is like its group's in what must be the same. Tallies agree on the
   widest width; the lanes of a sum must be equally wide. Only an observer's packets have
   no items where others have some. */
static Verdict check_alike(Region *region, const Slot *slot, const Header *header) {
    int is_alike = slot->kind == header->kind && slot->threshold == header->threshold;
    if (!is_alike || (slot->kind == SUM && (slot->bits_up != header->bits_up ||
                                            slot->bits != header->bits))) {
        uint32_t widths = (uint32_t)slot->bits_up << 8 | slot->bits;
        uint32_t settings = slot->kind == TALLY ? slot->threshold : widths;
        return contradict(region, header, SETTINGS, slot->kind, settings);
    }
    int is_known = slot->n_items && !(header->flags & OBSERVE);
    if (is_known && slot->n_items != header->n_items)
        return contradict(region, header, ITEMS, slot->n_items, 0);
    return KEPT;
}

/* Count the packet in its slot, or answer again what it holds. */
static Verdict contribute(Region *region, const Packet *packet, uint8_t *at,
                          Slot slot) {
    const Header *header = &packet->header;
    Verdict verdict = check_alike(region, &slot, header);
    if (verdict != KEPT)
        return verdict;
    uint8_t *bitmap = at + sizeof slot, *values = bitmap + region->bitmap_bytes;
    if (slot.state == COMPLETE) {
        answer_slot(region, &slot, at, header->client);
        return KEPT;
    }
    if (is_set(bitmap, header->client))
        return wait_for_others(region, header, slot.count, 0);
    set_bit(bitmap, header->client);
    if (header->flags & OBSERVE)
        ; /* adds nothing */
    else if (slot.kind == SUM)
        add_lanes(values, packet);
    else if (slot.kind == TALLY)
        count_votes(values, region->payload_bytes, n_planes(slot.threshold),
                    packet->body, packet->n_bytes);
    slot.count++;
    slot.n_items = header->n_items > slot.n_items ? header->n_items : slot.n_items;
    slot.aux = header->aux > slot.aux ? header->aux : slot.aux;
    slot.bits = header->bits > slot.bits ? header->bits : slot.bits;
    slot.state = slot.count == region->job->n_present ? COMPLETE : OPEN;
    write_slot(at, slot);
    if (slot.state == COMPLETE) {
        region->counts[AGGREGATIONS]++;
        answer_slot(region, &slot, at, EVERYONE);
    }
    return KEPT;
}

Verdict process_aligned(Region *region, const Packet *packet) {
    const Header *header = &packet->header;
    size_t n_values = header->kind == SUM
                          ? sums_bytes(region, header->bits_up, header->bits)
                          : n_planes(header->threshold) * region->payload_bytes;
    size_t stride = slot_bytes(region, n_values);
    size_t n_slots = region->half_bytes / stride;
    unsigned number;
    /* No window lets one through that is further on while the exchange begins. */
    int may_begin = header->packet < n_slots;
    Verdict verdict = enter(region, header, stride, n_slots, may_begin, &number);
    if (verdict != KEPT)
        return verdict;
    uint8_t *at = half_at(region, number) + header->packet % n_slots * stride;
    Slot slot = read_slot(at);
    if (slot.state == FREE || slot.packet != header->packet) {
        verdict = check_turn(&slot, header->packet, n_slots);
        if (verdict != KEPT)
            return verdict;
        if (slot.state == FREE)
            use(region, number, stride);
        slot = take_slot(header, at, stride);
    }
    return contribute(region, packet, at, slot);
}

static int is_older(const Slot *slot, const Slot *other) {
    if ((slot->state == FREE) != (other->state == FREE))
        return slot->state == FREE;
    return slot->exchange < other->exchange;
}

Verdict process_max(Region *region, const Packet *packet) {
    const Header *header = &packet->header;
    size_t stride = slot_bytes(region, 0);
    uint8_t *first = region->registers + sizeof(Record), *second = first + stride;
    Slot one = read_slot(first), other = read_slot(second);
    if (one.state != FREE && one.exchange == header->exchange)
        return contribute(region, packet, first, one);
    if (other.state != FREE && other.exchange == header->exchange)
        return contribute(region, packet, second, other);
    Verdict verdict = contradict_any_half(region, header);
    if (verdict == KEPT)
        verdict = begin(region, header->exchange);
    if (verdict != KEPT)
        return verdict;
    uint8_t *at = is_older(&other, &one) ? second : first;
    return contribute(region, packet, at, take_slot(header, at, stride));
}

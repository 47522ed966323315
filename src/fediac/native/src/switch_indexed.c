/* Indexed sums: fediac.switch.indexed. */

#include "switch.h"

static size_t indexed_bytes(const Region *region, size_t size) {
    size_t clients = region->bitmap_bytes + align(4 * (size_t)region->job->n_clients);
    return sizeof(Slot) + clients + align((size + 7) / 8) + align(4 * size);
}

/* The most addresses an indexed sum can have. */
static size_t indexed_capacity(const Region *region) {
    size_t room = 2 * region->half_bytes, needed = indexed_bytes(region, 0) + 16;
    return room > needed ? (room - needed) * 8 / 33 : 0;
}

/* How many pairs fill a packet to a whole byte; at least one. */
static size_t pairs_per_packet(const Region *region, Widths widths) {
    size_t width = widths.index + widths.level, unit = 8;
    while (unit > 1 && unit / 2 * width % 8 == 0)
        unit /= 2;
    size_t n_pairs = 8 * (size_t)region->job->payload_bytes / width / unit * unit;
    return n_pairs ? n_pairs : 1;
}

/* The most answers that an indexed sum gives to one packet. */
size_t max_indexed_answers(const Region *region, const Header *header) {
    size_t size = min_size(header->aux, indexed_capacity(region));
    return size / pairs_per_packet(region, pair_widths(header)) + 1;
}

/* Put the n lowest bits of a word at bit `at` of bytes that are zero from there on. */
static void write_bits(uint8_t *bytes, size_t at, uint32_t word, unsigned n) {
    uint64_t shifted = (word & ((1ull << n) - 1)) << at % 8;
    store_word(bytes + at / 8, load_word(bytes + at / 8) | shifted);
}

/* A level of so many bits as one of 32. */
static uint32_t extend_sign(uint32_t level, unsigned n) {
    uint32_t sign = 1u << (n - 1);
    return (level ^ sign) - sign;
}

/* Send every touched address and its total, in packets, the last one flagged. */
static void answer_pairs(Region *region, const Slot *slot, uint8_t *at, uint16_t to) {
    const uint8_t *touched = at + indexed_bytes(region, 0);
    const uint8_t *values = touched + align((slot->aux + 7ull) / 8);
    Widths widths = {slot->threshold, slot->bits};
    size_t n_left = 0, per_packet = pairs_per_packet(region, widths), index = 0;
    size_t width = widths.index + widths.level;
    for (size_t i = 0; i < slot->aux; i++)
        n_left += (size_t)is_set(touched, i);
    Header header = {.kind = INDEXED_SUM,
                     .exchange = slot->exchange,
                     .client = to,
                     .count = n_counted(region->job, slot->count),
                     .aux = slot->aux,
                     .bits = slot->bits};
    uint8_t is_narrow = widths.index < WORD_BITS ? NARROW : 0;
    do {
        uint8_t body[MAX_PAYLOAD_BYTES + 16]; /* writing a pair touches eight bytes */
        size_t n_pairs = min_size(n_left, per_packet);
        size_t n_bytes = (n_pairs * width + 7) / 8;
        memset(body, 0, n_bytes + 8);
        for (size_t pair = 0; pair < n_pairs; index++) {
            if (!is_set(touched, index))
                continue;
            write_bits(body, pair * width, (uint32_t)index, widths.index);
            write_bits(body, pair * width + widths.index, read_clock(values, index),
                       widths.level);
            pair++;
        }
        n_left -= n_pairs;
        header.n_items = (uint16_t)n_pairs;
        header.flags = (n_left ? 0 : LAST) | is_narrow;
        answer(region, header, body, n_bytes);
        header.packet++;
    } while (n_left);
}

static void add_pairs(Region *region, const Packet *packet, uint8_t *at) {
    uint8_t *touched = at + indexed_bytes(region, 0);
    uint8_t *values = touched + align((packet->header.aux + 7ull) / 8);
    Widths widths = pair_widths(&packet->header);
    for (size_t pair = 0; pair < packet->header.n_items; pair++) {
        uint32_t index = read_index(packet, widths, pair);
        size_t bit = pair * (widths.index + widths.level) + widths.index;
        uint32_t level = read_bits(packet, bit, widths.level);
        level = extend_sign(level, widths.level);
        region->counts[AGGREGATIONS] += !is_set(touched, index);
        set_bit(touched, index);
        write_clock(values, index, read_clock(values, index) + level);
    }
}

static Verdict contribute(Region *region, const Packet *packet, Slot slot,
                          uint8_t *at) {
    const Header *header = &packet->header;
    uint8_t *done = at + sizeof slot;
    if (is_set(done, header->client))
        return MALFORMED;
    add_pairs(region, packet, at);
    if (header->flags & LAST) {
        set_bit(done, header->client);
        slot.count++;
        slot.state = slot.count == region->job->n_present ? COMPLETE : OPEN;
        write_slot(at, slot);
        if (slot.state == COMPLETE)
            answer_pairs(region, &slot, at, EVERYONE);
    }
    write_clock(done + region->bitmap_bytes, header->client, header->packet + 1);
    return KEPT;
}

Verdict process_indexed(Region *region, const Packet *packet) {
    const Header *header = &packet->header;
    int fits = header->aux <= indexed_capacity(region);
    size_t stride = fits ? indexed_bytes(region, header->aux) : 0;
    Widths widths = pair_widths(header);
    unsigned number;
    Verdict verdict = enter(region, header, stride, (size_t)fits, &number);
    if (verdict != KEPT)
        return verdict;
    uint8_t *at = half_at(region, number);
    Slot slot = read_slot(at);
    if (slot.state == FREE) {
        use(region, number, stride);
        slot = (Slot){.aux = header->aux,
                      .exchange = header->exchange,
                      .threshold = (uint16_t)widths.index,
                      .kind = header->kind,
                      .bits = header->bits,
                      .state = OPEN};
        write_slot(at, slot);
    }
    if (slot.aux != header->aux || slot.threshold != widths.index ||
        slot.bits != widths.level)
        return contradict(region, header, ITEMS, 0, slot.aux);
    uint8_t *clocks = at + sizeof slot + region->bitmap_bytes;
    uint32_t clock = read_clock(clocks, header->client);
    if (header->packet > clock)
        return BUSY;
    if (header->packet == clock)
        return contribute(region, packet, slot, at);
    if (slot.state != COMPLETE || !(header->flags & LAST))
        return wait_for_others(region, header, slot.count);
    answer_pairs(region, &slot, at, header->client);
    return KEPT;
}

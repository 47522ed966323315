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

/* Write the pairs of the touched addresses in start..stop-1; return how many. */
static size_t write_pairs(uint8_t *body, const uint8_t *touched, const uint8_t *values,
                          size_t start, size_t stop, Widths widths) {
    size_t n_pairs = 0, width = widths.index + widths.level;
    for (size_t index = start; index < stop; index++) {
        if (!is_set(touched, index))
            continue;
        size_t at = n_pairs++ * width;
        write_bits(body, at, (uint32_t)index, widths.index);
        write_bits(body, at + widths.index, read_clock(values, index), widths.level);
    }
    return n_pairs;
}

/* Send the touched addresses of a range with their totals, which fit a packet. */
static Verdict send_range(Region *region, const Slot *slot, const uint8_t *at,
                          uint32_t number, uint16_t to) {
    const uint8_t *touched = at + indexed_bytes(region, 0);
    const uint8_t *values = touched + align((slot->aux + 7ull) / 8);
    Widths widths = {slot->threshold, slot->bits};
    size_t length = range_length(widths, region->job->payload_bytes);
    size_t start = number * length, stop = min_size(start + length, slot->aux);
    uint8_t body[MAX_PAYLOAD_BYTES + 16]; /* writing a pair touches eight bytes */
    memset(body, 0, region->job->payload_bytes + 16);
    size_t n_pairs = write_pairs(body, touched, values, start, stop, widths);
    Header header = {.kind = INDEXED_SUM,
                     .exchange = slot->exchange,
                     .client = to,
                     .packet = number,
                     .n_items = (uint16_t)n_pairs,
                     .count = n_counted(region->job, slot->count),
                     .aux = slot->aux,
                     .bits = slot->bits,
                     .flags = widths.index < WORD_BITS ? NARROW : 0};
    tell(region, header, body, (n_pairs * (widths.index + widths.level) + 7) / 8);
    return KEPT;
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
            send_range(region, &slot, at, 0, EVERYONE);
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
    int may_begin = header->packet == 0 && !(header->flags & READ);
    Verdict verdict = enter(region, header, stride, (size_t)fits, may_begin, &number);
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
    int is_read = header->flags & READ;
    if (!is_read && header->packet > clock)
        return BUSY;
    if (!is_read && header->packet == clock)
        return contribute(region, packet, slot, at);
    /* Who sends the last packet again reads range 0. */
    if (slot.state != COMPLETE || !(is_read || header->flags & LAST))
        return wait_for_others(region, header, slot.count, clock);
    region->counts[REPEATED] += !is_read;
    return send_range(region, &slot, at, is_read ? header->packet : 0, header->client);
}

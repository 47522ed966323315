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

static size_t pairs_per_packet(const Region *region) {
    size_t n_pairs = region->job->payload_bytes / PAIR_BYTES;
    return n_pairs ? n_pairs : 1;
}

/* The most answers that an indexed sum of `size` addresses gives to one packet. */
size_t max_indexed_answers(const Region *region, size_t size) {
    size = min_size(size, indexed_capacity(region));
    return size / pairs_per_packet(region) + 1;
}

/* Send every touched address and its total, in packets, the last one flagged. */
static void answer_pairs(Region *region, const Slot *slot, uint8_t *at, uint16_t to) {
    const uint8_t *touched = at + indexed_bytes(region, 0);
    const uint8_t *values = touched + align((slot->aux + 7ull) / 8);
    size_t n_left = 0, per_packet = pairs_per_packet(region), index = 0;
    for (size_t i = 0; i < slot->aux; i++)
        n_left += (size_t)is_set(touched, i);
    Header header = {.kind = INDEXED_SUM,
                     .round_number = slot->round_number,
                     .exchange = slot->exchange,
                     .client = to,
                     .count = slot->count,
                     .aux = slot->aux,
                     .bits = 32};
    do {
        uint8_t body[MAX_PAYLOAD_BYTES + PAIR_BYTES];
        size_t n_pairs = min_size(n_left, per_packet);
        for (size_t pair = 0; pair < n_pairs; index++) {
            if (!is_set(touched, index))
                continue;
            write_clock(body, 2 * pair, (uint32_t)index);
            write_clock(body, 2 * pair + 1, read_clock(values, index));
            pair++;
        }
        n_left -= n_pairs;
        header.n_items = (uint16_t)n_pairs;
        header.flags = n_left ? 0 : LAST;
        answer(region, header, body, PAIR_BYTES * n_pairs, NULL);
        header.packet++;
    } while (n_left);
}

static void add_pairs(Region *region, const Packet *packet, uint8_t *at) {
    uint8_t *touched = at + indexed_bytes(region, 0);
    uint8_t *values = touched + align((packet->header.aux + 7ull) / 8);
    for (size_t pair = 0; pair < packet->header.n_items; pair++) {
        uint32_t index = read_clock(packet->body, 2 * pair);
        uint32_t level = read_clock(packet->body, 2 * pair + 1);
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
    unsigned number;
    Verdict verdict = enter(region, header, stride, (size_t)fits, &number);
    if (verdict != KEPT)
        return verdict;
    uint8_t *at = half_at(region, number);
    Slot slot = read_slot(at);
    if (slot.state == FREE) {
        use(region, number, stride);
        slot = (Slot){.round_number = header->round_number,
                      .aux = header->aux,
                      .exchange = header->exchange,
                      .kind = header->kind,
                      .bits = 32,
                      .state = OPEN};
        write_slot(at, slot);
    }
    if (slot.aux != header->aux)
        return MALFORMED;
    uint8_t *clocks = at + sizeof slot + region->bitmap_bytes;
    uint32_t clock = read_clock(clocks, header->client);
    if (header->packet > clock)
        return BUSY;
    if (header->packet == clock)
        return contribute(region, packet, slot, at);
    if (slot.state != COMPLETE || !(header->flags & LAST))
        return DUPLICATE;
    answer_pairs(region, &slot, at, header->client);
    return KEPT;
}

/* Tally, sum and maximum: fediac.switch.aligned. */

#include "switch.h"
#include "switch_values.h"

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
    /* Spoilt registers may claim more items than a packet up can hold. */
    size_t n_body = 0, n_most = 8 * (size_t)region->job->payload_bytes;
    n_most = slot->kind == MAX ? 0 : slot->kind == SUM ? n_most / slot->bits_up : n_most;
    size_t n_items = min_size(slot->n_items, n_most);
    if (slot->kind == TALLY) {
        n_body = (n_items + 7) / 8;
        uint8_t *gia = next_body(region);
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

/* Clear a slot for the packet's group, but for its values. */
static void take_slot(const Region *region, const Header *header, uint8_t *at) {
    memset(at + sizeof(Slot), 0, region->bitmap_bytes);
    *slot_of(at) = (Slot){.packet = header->packet,
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

/* Add what the packet has to its slot's values, of which `n_new` bytes are of an older
   packet and make room. */
static void add_values(const Region *region, const Packet *packet, uint8_t *values,
                       size_t n_new) {
    const Header *header = &packet->header;
    if (header->flags & OBSERVE || header->kind == MAX)
        memset(values, 0, n_new);
    else if (header->kind == SUM)
        add_lanes(values, packet, n_new);
    else
        count_votes(values, region->payload_bytes, n_planes(header->threshold),
                    packet->body, packet->n_bytes, n_new > 0);
}

/* Count the packet in its slot, where its client's is not yet. */
static void count_in(Region *region, const Packet *packet, uint8_t *at, size_t n_new) {
    const Header *header = &packet->header;
    Slot *slot = slot_of(at);
    uint8_t *bitmap = at + sizeof *slot;
    set_bit(bitmap, header->client);
    add_values(region, packet, bitmap + region->bitmap_bytes, n_new);
    slot->count++;
    slot->n_items = header->n_items > slot->n_items ? header->n_items : slot->n_items;
    slot->aux = header->aux > slot->aux ? header->aux : slot->aux;
    slot->bits = header->bits > slot->bits ? header->bits : slot->bits;
    slot->state = slot->count == region->job->n_present ? COMPLETE : OPEN;
    slot->unused = 0;
    if (slot->state == COMPLETE) {
        region->counts[AGGREGATIONS]++;
        answer_slot(region, slot, at, EVERYONE);
    }
}

/* Count the packet in the slot of its group, or answer again what that holds. */
static Verdict contribute(Region *region, const Packet *packet, uint8_t *at) {
    const Header *header = &packet->header;
    const Slot *slot = slot_of(at);
    Verdict verdict = check_alike(region, slot, header);
    if (verdict != KEPT)
        return verdict;
    if (slot->state == COMPLETE) {
        answer_slot(region, slot, at, header->client);
        return KEPT;
    }
    if (is_set(at + sizeof *slot, header->client))
        return wait_for_others(region, header, slot->count, 0);
    count_in(region, packet, at, 0);
    return KEPT;
}

/* Let the packet begin a slot for its group. */
static Verdict start(Region *region, const Packet *packet, uint8_t *at,
                     size_t n_values) {
    take_slot(region, &packet->header, at);
    count_in(region, packet, at, n_values);
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
    const Slot *slot = slot_of(at);
    if (slot->state != FREE && slot->packet == header->packet)
        return contribute(region, packet, at);
    verdict = check_turn(slot, header->packet, n_slots);
    if (verdict != KEPT)
        return verdict;
    if (slot->state == FREE)
        use(region, number, stride);
    return start(region, packet, at, n_values);
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
    const Slot *one = slot_of(first), *other = slot_of(second);
    if (one->state != FREE && one->exchange == header->exchange)
        return contribute(region, packet, first);
    if (other->state != FREE && other->exchange == header->exchange)
        return contribute(region, packet, second);
    Verdict verdict = contradict_any_half(region, header);
    if (verdict == KEPT)
        verdict = begin(region, header->exchange);
    if (verdict != KEPT)
        return verdict;
    return start(region, packet, is_older(other, one) ? second : first, 0);
}

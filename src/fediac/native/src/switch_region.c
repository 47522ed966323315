/* A job's region: fediac.switch.job and the way out for answers. */

#include "switch.h"

/* Return the region of `job`, whose first byte `registers` points to. */
Region open_region(const Job *job, uint8_t *registers, int64_t *counts,
                   Answers *answers) {
    Region region = {.job = job,
                     .registers = registers,
                     .bitmap_bytes = align((job->n_clients + 7) / 8),
                     .payload_bytes = align(job->payload_bytes),
                     .counts = counts,
                     .answers = answers};
    region.clocks_bytes = 8 + region.bitmap_bytes + align(4 * (size_t)job->n_clients);
    region.halves_at = sizeof(Record) + 2 * slot_bytes(&region, 0);
    if (job->register_bytes > region.halves_at)
        region.half_bytes = (job->register_bytes - region.halves_at) / 16 * 8;
    return region;
}

/* What stands first in the region. */
static Record *record_of(const Region *region) {
    return (Record *)region->registers;
}

/* The half in use; there are two, whatever the register says. */
static unsigned current_half(const Record *record) {
    return record->current & 1;
}

/* Note that `n_bytes` more of half `number` hold something. */
void use(Region *region, unsigned number, size_t n_bytes) {
    int64_t *counts = region->counts;
    record_of(region)->halves[number].used += (uint32_t)n_bytes;
    counts[USED_BYTES] += (int64_t)n_bytes;
    if (counts[USED_BYTES] > counts[PEAK_BYTES])
        counts[PEAK_BYTES] = counts[USED_BYTES];
}

static void clear(Region *region, unsigned number) {
    Half *half = &record_of(region)->halves[number];
    region->counts[USED_BYTES] -= half->used;
    *half = (Half){0};
    memset(half_at(region, number), 0, region->half_bytes);
}

/* What all packets of an exchange must agree on, as a register keeps it. */
static uint32_t settings_of(const Header *header) {
    switch (header->kind) {
    case TALLY:
        return header->threshold;
    case SUM:
        return (uint32_t)header->bits_up << 8 | header->bits;
    case INDEXED_SUM:
        return (uint32_t)!!(header->flags & NARROW) << 8 | header->bits;
    default:
        return 0;
    }
}

/* Give the packet's exchange the half that the last but one used, or both. */
static unsigned claim(Region *region, const Header *header, size_t stride,
                      size_t n_slots) {
    Record *record = record_of(region);
    unsigned current = current_half(record);
    const Half *running = &record->halves[current];
    int takes_both = header->kind == INDEXED_SUM || !running->is_valid ||
                     running->kind == INDEXED_SUM;
    unsigned number = takes_both ? 0 : 1 - current;
    clear(region, number);
    if (takes_both)
        clear(region, 1);
    record->current = number;
    record->halves[number] = (Half){.is_valid = 1,
                                    .exchange = header->exchange,
                                    .kind = header->kind,
                                    .stride = (uint32_t)stride,
                                    .n_slots = (uint32_t)n_slots,
                                    .settings = settings_of(header)};
    return number;
}

/* Note that an exchange begins, if it is the next one: nobody begins it before the last
   one is over, so a packet of one further on must not push aside what is running. */
Verdict begin(Region *region, uint16_t exchange) {
    Record *record = record_of(region);
    if (exchange < record->begun)
        return STALE;
    if (exchange > record->begun)
        return BUSY;
    record->begun = exchange + 1u;
    return KEPT;
}

/* Whether the exchange that the half runs is like the packet's. Registers that something
   else wrote to may say anything: then it is not, and nobody looks beyond the region. */
static int is_alike(const Half *half, unsigned number, const Header *header,
                    size_t stride, size_t n_slots) {
    int is_place_right = header->kind != INDEXED_SUM || number == 0;
    return half->kind == header->kind && half->settings == settings_of(header) &&
           half->stride == stride && half->n_slots == n_slots && n_slots > 0 &&
           is_place_right;
}

/* Find the half that runs an exchange, the one in use first; 2 if none does. */
static unsigned find_half(const Record *record, uint16_t exchange) {
    unsigned current = current_half(record);
    for (unsigned i = 0; i < 2; i++) {
        unsigned number = i ? 1 - current : current;
        const Half *half = &record->halves[number];
        if (half->is_valid && half->exchange == exchange)
            return number;
    }
    return 2;
}

/* Whether a peak slot holds an exchange. */
static int has_peaks_of(const Region *region, uint16_t exchange) {
    for (unsigned i = 0; i < 2; i++) {
        size_t at = sizeof(Record) + i * slot_bytes(region, 0);
        Slot slot = read_slot(region->registers + at);
        if (slot.state != FREE && slot.exchange == exchange)
            return 1;
    }
    return 0;
}

/* Tell a client what runs in a half instead of what its packet asks. */
static Verdict contradict_half(Region *region, const Header *header, const Half *half) {
    int is_sized = half->kind == INDEXED_SUM && header->kind == INDEXED_SUM;
    if (is_sized && half->settings == settings_of(header))
        return contradict(region, header, ITEMS, 0, read_slot(half_at(region, 0)).aux);
    return contradict(region, header, SETTINGS, (uint16_t)half->kind, half->settings);
}

/* The same, if any half runs the packet's exchange. */
Verdict contradict_any_half(Region *region, const Header *header) {
    const Record *record = record_of(region);
    unsigned number = find_half(record, header->exchange);
    return number < 2 ? contradict_half(region, header, &record->halves[number]) : KEPT;
}

/* Find the half that runs the packet's exchange, claiming one if it is new. */
Verdict enter(Region *region, const Header *header, size_t stride, size_t n_slots,
              int may_begin, unsigned *number) {
    const Record *record = record_of(region);
    *number = find_half(record, header->exchange);
    if (*number < 2) {
        const Half *half = &record->halves[*number];
        if (is_alike(half, *number, header, stride, n_slots))
            return KEPT;
        return contradict_half(region, header, half);
    }
    if (has_peaks_of(region, header->exchange))
        return contradict(region, header, SETTINGS, MAX, 0);
    if (header->exchange < record->begun)
        return STALE;
    if (n_slots < 1)
        return REGISTERS;
    if (!may_begin)
        return BUSY;
    Verdict verdict = begin(region, header->exchange);
    if (verdict != KEPT)
        return verdict;
    *number = claim(region, header, stride, n_slots);
    return KEPT;
}

/* Where the body of the next answer goes, for who makes it there. */
uint8_t *next_body(const Region *region) {
    const Answers *answers = region->answers;
    return answers->rows + answers->n_answers * answers->stride + HEADER_BYTES;
}

/* Append a packet to `header.client`. The caller has made sure that there is a free
   row. */
void tell(Region *region, Header header, const uint8_t *body, size_t n_body) {
    Answers *answers = region->answers;
    size_t length = HEADER_BYTES + n_body;
    uint8_t *row = answers->rows + answers->n_answers * answers->stride;
    header.magic = MAGIC;
    header.version = VERSION;
    header.session = region->job->session;
    header.flags |= ANSWER;
    write_header(row, &header);
    if (n_body && body != row + HEADER_BYTES)
        memcpy(row + HEADER_BYTES, body, n_body);
    memset(row + length, 0, answers->stride - length);
    answers->lengths[answers->n_answers] = (int32_t)length;
    answers->destinations[answers->n_answers] = header.client;
    answers->n_answers++;
    region->counts[PACKETS_OUT]++;
}

/* Answer everyone, or a client that asks again. */
void answer(Region *region, Header header, const uint8_t *body, size_t n_body) {
    tell(region, header, body, n_body);
    region->counts[REPEATED] += header.client != EVERYONE;
}

/* Tell a client what its packet contradicts: what the switch holds instead, a kind or a
   number of items, and the settings of the exchange. */
Verdict contradict(Region *region, const Header *header, uint8_t reason,
                   uint16_t n_items, uint32_t settings) {
    Header told = {.kind = ERROR,
                   .exchange = header->exchange,
                   .client = header->client,
                   .packet = header->packet,
                   .aux = settings,
                   .n_items = n_items,
                   .part = reason};
    tell(region, told, NULL, 0);
    return MISMATCH;
}

/* Tell a client how many are in whose packet is counted already, and in an indexed sum
   the number of its next packet. */
Verdict wait_for_others(Region *region, const Header *header, uint16_t count,
                        uint32_t following) {
    Header told = {.kind = WAIT,
                   .exchange = header->exchange,
                   .client = header->client,
                   .packet = header->packet,
                   .aux = following,
                   .count = count,
                   .flags = header->flags & READ};
    tell(region, told, NULL, 0);
    return DUPLICATE;
}

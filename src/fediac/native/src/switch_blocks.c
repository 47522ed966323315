/* Block sums: fediac.switch.blocks. */

#include "switch.h"

/* The half of a block sum, as one packet sees it. */
typedef struct {
    Region *region;
    const Packet *packet;
    uint8_t *words;  /* the frontier, and the first block of those announced so far */
    uint8_t *bitmap; /* who announced */
    uint8_t *clocks; /* every client's next block */
    uint8_t *slots;
    size_t stride, n_slots;
    unsigned number;
} Area;

static uint8_t *slot_at(const Area *area, uint32_t block) {
    return area->slots + block % area->n_slots * area->stride;
}

static Header start_answer(const Area *area, uint16_t to) {
    const Header *header = &area->packet->header;
    return (Header){.kind = BLOCK_SUM,
                    .exchange = header->exchange,
                    .client = to,
                    .count = n_counted(area->region->job, area->region->job->n_present),
                    .bits = 32};
}

static void answer_block(Area *area, const uint8_t *at, uint16_t to) {
    Slot slot = read_slot(at);
    Header header = start_answer(area, to);
    /* Spoilt registers may claim more levels than a packet holds. */
    size_t n_most = area->region->job->payload_bytes / 4;
    header.packet = slot.packet;
    header.n_items = (uint16_t)min_size(slot.n_items, n_most);
    header.aux = slot.aux;
    answer(area->region, header, at + sizeof slot, 4 * (size_t)header.n_items);
}

/* Tell the first block that anyone has. */
static void answer_first(Area *area, uint16_t to) {
    Header header = start_answer(area, to);
    header.aux = read_clock(area->words, 1);
    header.flags = ANNOUNCE;
    answer(area->region, header, NULL, 0);
}

static void complete(Area *area, uint32_t block, uint32_t following) {
    uint8_t *at = slot_at(area, block);
    Slot slot = read_slot(at);
    slot.aux = following;
    slot.state = COMPLETE;
    write_slot(at, slot);
    area->region->counts[AGGREGATIONS] += slot.n_items > 0;
    answer_block(area, at, EVERYONE);
}

/* Only members announce, so all have when the bitmaps are equal. */
static int have_all_announced(const Area *area) {
    const Region *region = area->region;
    return !memcmp(area->bitmap, region->job->present, region->bitmap_bytes);
}

/* Move the frontier and answer every block behind it. */
static void advance(Area *area) {
    const Job *job = area->region->job;
    if (!have_all_announced(area))
        return;
    uint32_t old = read_clock(area->words, 0), frontier = UINT32_MAX;
    for (size_t client = 0; client < job->n_clients; client++) {
        uint32_t clock = read_clock(area->clocks, client);
        if (is_set(job->present, client) && clock < frontier)
            frontier = clock;
    }
    write_clock(area->words, 0, frontier);
    uint64_t stop = (uint64_t)old + area->n_slots, done = UINT64_MAX;
    stop = frontier < stop ? frontier : stop;
    for (uint64_t block = old; block < stop; block++) {
        Slot slot = read_slot(slot_at(area, (uint32_t)block));
        if (slot.state != OPEN || slot.packet != block)
            continue;
        if (done != UINT64_MAX)
            complete(area, (uint32_t)done, (uint32_t)block);
        done = block;
    }
    if (done != UINT64_MAX)
        complete(area, (uint32_t)done, frontier);
}

/* Note the client's first block; when all are known, tell the first of them. */
static Verdict announce(Area *area) {
    const Header *header = &area->packet->header;
    if (is_set(area->bitmap, header->client)) {
        if (!have_all_announced(area)) {
            uint16_t n_announced = 0;
            for (size_t i = 0; i < 8 * area->region->bitmap_bytes; i++)
                n_announced += (uint16_t)is_set(area->bitmap, i);
            uint32_t next = read_clock(area->clocks, header->client);
            return wait_for_others(area->region, header, n_announced, next);
        }
        answer_first(area, header->client);
        return KEPT;
    }
    int is_first = 1;
    for (size_t i = 0; i < area->region->bitmap_bytes; i++)
        is_first &= !area->bitmap[i];
    uint32_t first = read_clock(area->words, 1);
    if (is_first || header->aux < first)
        write_clock(area->words, 1, header->aux);
    set_bit(area->bitmap, header->client);
    write_clock(area->clocks, header->client, header->aux);
    if (have_all_announced(area)) {
        if (read_clock(area->words, 1))
            answer_first(area, EVERYONE);
        advance(area);
    }
    return KEPT;
}

static void add_levels(uint8_t *registers, const uint8_t *payload, size_t n_levels) {
    for (size_t i = 0; i < n_levels; i++)
        write_clock(registers, i, read_clock(registers, i) + read_clock(payload, i));
}

/* Add the packet's block to its slot. */
static Verdict add(Area *area) {
    const Packet *packet = area->packet;
    const Header *header = &packet->header;
    uint32_t frontier = read_clock(area->words, 0);
    if (header->packet >= (uint64_t)frontier + area->n_slots)
        return BUSY;
    uint8_t *at = slot_at(area, header->packet);
    Slot slot = read_slot(at);
    if (slot.state == FREE)
        use(area->region, area->number, area->stride);
    if (slot.state != OPEN) {
        memset(at, 0, area->stride);
        slot = (Slot){.packet = header->packet,
                      .exchange = header->exchange,
                      .n_items = header->n_items,
                      .kind = header->kind,
                      .bits = header->bits,
                      .state = OPEN};
    } else if (slot.n_items != header->n_items && slot.n_items && header->n_items) {
        return contradict(area->region, header, ITEMS, slot.n_items, 0);
    }
    add_levels(at + sizeof slot, packet->body, header->n_items);
    slot.count++;
    if (header->n_items > slot.n_items)
        slot.n_items = header->n_items;
    write_slot(at, slot);
    return KEPT;
}

/* What the client named as next behind an early block; 0: it is not here. */
static uint32_t following(const Area *area, uint32_t block) {
    const uint8_t *at = slot_at(area, block);
    Slot slot = read_slot(at);
    if (slot.state != OPEN || slot.packet != block)
        return 0;
    return read_clock(at + early_at(area->region), area->packet->header.client);
}

static void name_following(Area *area, uint32_t block, uint32_t next) {
    uint8_t *named = slot_at(area, block) + early_at(area->region);
    write_clock(named, area->packet->header.client, next);
}

/* Add the client's next block; its clock moves behind it, and over early ones. */
static Verdict add_next(Area *area) {
    const Header *header = &area->packet->header;
    Verdict verdict = add(area);
    if (verdict != KEPT)
        return verdict;
    uint32_t next = header->aux, named;
    size_t n_most = area->region->job->keeps_early ? area->n_slots : 0;
    for (size_t i = 0; i < n_most && (named = following(area, next)); i++) {
        name_following(area, next, 0);
        next = named;
    }
    write_clock(area->clocks, header->client, next);
    /* The frontier is the smallest clock: it moves only with a client that is there. */
    if (header->packet == read_clock(area->words, 0))
        advance(area);
    return KEPT;
}

static uint16_t count_beyond(const Area *area) {
    const Job *job = area->region->job;
    uint16_t n_beyond = 0;
    for (size_t client = 0; client < job->n_clients; client++)
        n_beyond += is_set(job->present, client) &&
                    read_clock(area->clocks, client) > area->packet->header.packet;
    return n_beyond;
}

/* Whether the client's block before this early one is missing. */
static int is_behind_gap(const Area *area, uint32_t next) {
    uint32_t number = area->packet->header.packet;
    uint32_t n_slots = (uint32_t)area->n_slots;
    uint32_t first = number - next > n_slots ? number - n_slots : next;
    for (uint32_t block = number - 1; block > first; block--) {
        uint32_t named = following(area, block);
        if (named)
            return named != number;
    }
    return 1;
}

/* Keep a block that comes before the client's next one. */
static Verdict add_early(Area *area, uint32_t next) {
    const Header *header = &area->packet->header;
    if (!area->region->job->keeps_early)
        return BUSY;
    if (following(area, header->packet))
        return wait_for_others(area->region, header, count_beyond(area), next);
    Verdict verdict = add(area);
    if (verdict != KEPT)
        return verdict;
    name_following(area, header->packet, header->aux);
    if (is_behind_gap(area, next))
        wait_for_others(area->region, header, count_beyond(area), next);
    return KEPT;
}

/* Answer a block behind the client's next one, if it is complete and here. */
static Verdict repeat(Area *area) {
    const Header *header = &area->packet->header;
    if (header->packet >= read_clock(area->words, 0)) {
        uint32_t next = read_clock(area->clocks, header->client);
        return wait_for_others(area->region, header, count_beyond(area), next);
    }
    uint8_t *at = slot_at(area, header->packet);
    Slot slot = read_slot(at);
    if (slot.state != COMPLETE || slot.packet != header->packet)
        return STALE;
    answer_block(area, at, header->client);
    return KEPT;
}

Verdict process_block(Region *region, const Packet *packet) {
    const Header *header = &packet->header;
    Area area = {.region = region,
                 .packet = packet,
                 .stride = block_slot_bytes(region),
                 .n_slots = n_block_slots(region)};
    int may_begin = header->flags & ANNOUNCE;
    Verdict verdict =
        enter(region, header, area.stride, area.n_slots, may_begin, &area.number);
    if (verdict != KEPT)
        return verdict;
    area.words = half_at(region, area.number);
    area.bitmap = area.words + 8;
    area.clocks = area.bitmap + region->bitmap_bytes;
    area.slots = area.words + region->clocks_bytes;
    Record record;
    memcpy(&record, region->registers, sizeof record);
    if (!record.halves[area.number].used)
        use(region, area.number, region->clocks_bytes);
    if (header->flags & ANNOUNCE)
        return announce(&area);
    uint32_t next = read_clock(area.clocks, header->client);
    if (!is_set(area.bitmap, header->client))
        return BUSY;
    if (header->packet > next)
        return add_early(&area, next);
    return header->packet < next ? repeat(&area) : add_next(&area);
}

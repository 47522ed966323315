/* Packet in -> packets out: fediac.switch.pipeline. */

#include "switch.h"

enum { AHEAD = 4 }; /* packets that are fetched from memory while one is taken */

/* Of a float32: no peak may reach it, and NaN and negative numbers are above. */
#define INFINITY_BITS 0x7F800000u

/* Rows of bytes, one a packet, and how many of them are the packet. */
typedef struct {
    const uint8_t *rows;
    const int32_t *lengths;
    size_t stride, n_packets;
} Batch;

/* Whether every pair's index is below the size of its indexed sum. */
static int are_indices_valid(const Packet *packet) {
    uint32_t largest = 0;
    Widths widths = pair_widths(&packet->header);
    for (size_t pair = 0; pair < packet->header.n_items; pair++) {
        uint32_t index = read_index(packet, widths, pair);
        largest = index > largest ? index : largest;
    }
    return largest < packet->header.aux;
}

/* Whether there are items, as in all packets but an observer's. */
static int has_items(const Header *header) {
    return header->n_items || header->flags & OBSERVE;
}

/* Whether an observer's packet leaves every register's values alone. */
static int adds_nothing(const Header *header) {
    int tells_peak = (header->kind == TALLY || header->kind == MAX) && header->aux;
    int asks_bits = header->kind == TALLY && header->bits;
    return !(header->n_items || tells_peak || asks_bits);
}

/* Whether a packet has lanes whose sums can be sent back. */
static int are_lanes_valid(const Header *header, size_t payload_bytes) {
    unsigned bits_up = header->bits_up, bits = header->bits;
    if (!has_items(header) || header->threshold || bits_up < 1 || bits_up > bits ||
        bits > WORD_BITS)
        return 0;
    return bits_up == bits || lanes_per_part(payload_bytes, bits);
}

/* Whether a packet has pairs of which one fits a packet, or reads a range that is there,
   and how long its body is. */
static int are_pairs_valid(const Header *header, size_t payload_bytes, size_t *n_body) {
    if (!header->aux || header->threshold || header->bits < 1 ||
        header->bits > WORD_BITS)
        return 0;
    Widths widths = pair_widths(header);
    uint32_t length = range_length(widths, payload_bytes);
    *n_body = ((size_t)header->n_items * (widths.index + widths.level) + 7) / 8;
    if (header->flags & READ)
        return length && !header->n_items &&
               header->packet <= (header->aux - 1) / length;
    return length > 0;
}

/* Whether the fields fit each other, and how long they say the body is. Only sums have
   lanes, only indexed sums are read, and only answers have parts. */
static int are_fields_valid(const Header *header, size_t payload_bytes,
                            size_t *n_body) {
    size_t n_items = header->n_items;
    if (header->flags & ANSWER || header->part ||
        (header->bits_up && header->kind != SUM) ||
        (header->flags & READ && header->kind != INDEXED_SUM) ||
        (header->flags & OBSERVE && !adds_nothing(header)))
        return 0;
    switch (header->kind) {
    case MAX:
        *n_body = 0;
        return !n_items && !header->threshold && !header->packet &&
               header->aux < INFINITY_BITS;
    case TALLY:
        *n_body = (n_items + 7) / 8;
        return has_items(header) && header->threshold && header->bits <= 32 &&
               header->aux < INFINITY_BITS;
    case SUM:
        *n_body = lane_bytes(n_items, header->bits_up);
        return are_lanes_valid(header, payload_bytes);
    case BLOCK_SUM:
        *n_body = 4 * n_items;
        if (header->flags & ANNOUNCE)
            return !n_items && !header->threshold;
        return header->aux > header->packet && !header->threshold;
    default:
        return are_pairs_valid(header, payload_bytes, n_body);
    }
}

/* Read a packet whose fields fit each other and its length. */
static Verdict parse(const uint8_t *bytes, size_t length, size_t payload_bytes,
                     Packet *packet) {
    if (length < HEADER_BYTES)
        return FOREIGN;
    packet->header = read_header(bytes);
    const Header *header = &packet->header;
    packet->body = bytes + HEADER_BYTES;
    packet->n_bytes = length - HEADER_BYTES;
    if (header->magic != MAGIC || header->version != VERSION || header->kind < TALLY ||
        header->kind > INDEXED_SUM)
        return FOREIGN;
    size_t n_body;
    if (!are_fields_valid(header, payload_bytes, &n_body) ||
        n_body != packet->n_bytes || n_body > payload_bytes)
        return MALFORMED;
    if (header->kind == INDEXED_SUM && !are_indices_valid(packet))
        return MALFORMED;
    return KEPT;
}

/* Check that the packet comes from a client that takes part in its job. */
static Verdict admit(const Header *header, const Job *job) {
    if (!job)
        return UNKNOWN_SESSION;
    if (header->client >= MAX_CLIENTS || !is_set(job->present, header->client))
        return STRANGER;
    uint32_t n_voters = job->n_clients - job->n_observers;
    if ((header->client >= n_voters) != !!(header->flags & OBSERVE))
        return STRANGER;
    return header->threshold > n_voters ? MALFORMED : KEPT;
}

static const Job *find_job(const Job *jobs, size_t n_jobs, uint64_t session) {
    for (size_t i = 0; i < n_jobs; i++)
        if (jobs[i].session == session)
            return &jobs[i];
    return NULL;
}

/* A bound of the answers that any packet of a job can cause: every block that is held
   and their first, or sums of a full packet that go down eight lanes at a time. */
EXPORT size_t fediac_most_answers(const Job *job) {
    Region region = open_region(job, NULL, NULL, NULL);
    size_t n_blocks = n_block_slots(&region) + 1;
    return n_blocks > job->payload_bytes ? n_blocks : job->payload_bytes;
}

/* The most answers that one packet can cause. */
static size_t max_answers(const Region *region, const Header *header) {
    switch (header->kind) {
    case SUM:
        return n_most_parts(region, header->bits_up, header->bits);
    case BLOCK_SUM:
        return n_block_slots(region) + 1;
    default:
        return 1;
    }
}

static Verdict process(Region *region, const Packet *packet) {
    switch (packet->header.kind) {
    case MAX:
        return process_max(region, packet);
    case BLOCK_SUM:
        return process_block(region, packet);
    case INDEXED_SUM:
        return process_indexed(region, packet);
    default:
        return process_aligned(region, packet);
    }
}

/* The length of a row that holds any answer. */
EXPORT size_t fediac_answer_bytes(size_t payload_bytes) {
    return HEADER_BYTES + payload_bytes;
}

/* Whether the job's region lies in the registers and holds what it must. */
EXPORT int fediac_is_job_valid(const Job *job, size_t register_bytes,
                               size_t payload_bytes) {
    if (job->n_observers >= job->n_clients || job->n_clients < 1 || job->n_clients > MAX_CLIENTS || payload_bytes < 1 ||
        payload_bytes > MAX_PAYLOAD_BYTES || job->payload_bytes != payload_bytes)
        return 0;
    if (job->base > register_bytes || job->register_bytes > register_bytes - job->base)
        return 0;
    for (size_t client = job->n_clients; client < MAX_CLIENTS; client++)
        if (is_set(job->present, client))
            return 0;
    Region region = open_region(job, NULL, NULL, NULL);
    return region.half_bytes >= slot_bytes(&region, region.payload_bytes);
}

/* Take one packet: count it, drop it, keep it or answer it. Return 0, having done
   nothing, where its answers might not fit. */
int take_packet(Region *region, const Places *places, const uint8_t *bytes,
                size_t n_bytes) {
    int64_t *counts = places->counts;
    Packet packet;
    Verdict verdict = parse(bytes, n_bytes, places->payload_bytes, &packet);
    if (verdict == KEPT) {
        const Job *job = region->job;
        if (!job || job->session != packet.header.session) {
            job = find_job(places->jobs, places->n_jobs, packet.header.session);
            if (job)
                *region = open_region(job, places->registers + job->base, counts,
                                      places->answers);
        }
        verdict = admit(&packet.header, job);
    }
    if (verdict == KEPT) {
        Answers *answers = places->answers;
        answers->n_needed = max_answers(region, &packet.header);
        if (answers->capacity - answers->n_answers < answers->n_needed)
            return 0;
        verdict = process(region, &packet);
    }
    counts[PACKETS_IN]++;
    if (verdict != KEPT)
        counts[DROPS + verdict]++;
    return 1;
}

/* How long a packet is, which its row holds. */
static size_t n_bytes_of(const Batch *batch, size_t place) {
    int32_t length = batch->lengths[place];
    return min_size(length > 0 ? (size_t)length : 0, batch->stride);
}

/* Ask for a packet that will be read soon: whatever the processor guesses by itself, it
   does not go from one page of memory on to the next. */
static void fetch(const Batch *batch, size_t place) {
    if (place >= batch->n_packets)
        return;
    const uint8_t *row = batch->rows + place * batch->stride;
    size_t n_bytes = n_bytes_of(batch, place);
    for (size_t at = 0; at < n_bytes; at += 64)
        __builtin_prefetch(row + at);
}

/* Take packets in order, as long as their answers are sure to fit; return how many were
   taken. Jobs must be valid, see above. */
EXPORT size_t fediac_process_packets(uint8_t *registers, const Job *jobs, size_t n_jobs,
                                     int64_t *counts, const Batch *batch,
                                     size_t payload_bytes, Answers *answers) {
    Region region = {0};
    Places places = {registers, jobs, n_jobs, counts, payload_bytes, answers};
    for (size_t i = 0; i < batch->n_packets; i++) {
        fetch(batch, i + AHEAD);
        const uint8_t *row = batch->rows + i * batch->stride;
        if (!take_packet(&region, &places, row, n_bytes_of(batch, i)))
            return i;
    }
    return batch->n_packets;
}

/* Datagrams that arrived -> answers, and what is for Python. */

#include "serve.h"
#include "siphash.h"

/* A datagram. */
typedef struct {
    const uint8_t *bytes;
    size_t n_bytes;
    uint32_t message;
} Datagram;

/* What became of a datagram. */
typedef enum { TAKEN, NO_ROOM, UPWARDS } Fate;

/* The datagram at the cursor. */
static Datagram current_datagram(const Loop *loop) {
    const Message *message = &loop->messages[loop->message];
    size_t at = loop->message * loop->buffer_bytes + loop->offset;
    size_t n_bytes = message->n_bytes - loop->offset;
    if (message->segment_bytes)
        n_bytes = min_size(n_bytes, message->segment_bytes);
    return (Datagram){loop->buffers + at, n_bytes, loop->message};
}

/* Move the cursor behind a datagram. */
static void pass(Loop *loop, size_t n_bytes) {
    loop->offset += (uint32_t)n_bytes;
    if (loop->offset >= loop->messages[loop->message].n_bytes) {
        loop->message++;
        loop->offset = 0;
    }
}

static const Session *find_session(const Loop *loop, uint64_t number) {
    size_t first = 0, stop = loop->n_sessions;
    while (first < stop) {
        size_t middle = (first + stop) / 2;
        if (loop->sessions[middle].number < number)
            first = middle + 1;
        else
            stop = middle;
    }
    int is_there =
        first < loop->n_sessions && loop->sessions[first].number == number;
    return is_there ? &loop->sessions[first] : NULL;
}

/* Whether a datagram is no packet of any version. */
static int is_foreign(const Loop *loop, const Datagram *datagram) {
    return datagram->n_bytes > loop->max_bytes || datagram->n_bytes < HEADER_BYTES ||
           read16(datagram->bytes) != MAGIC;
}

/* Whether a member has joined from the datagram's address. */
static int is_at(const Loop *loop, const Session *session, const Datagram *datagram) {
    uint16_t client = read16(datagram->bytes + 14);
    return client < session->n_members &&
           !memcmp(session->addresses + client * (size_t)ADDRESS_BYTES,
                   loop->messages[datagram->message].address, ADDRESS_BYTES);
}

/* Process a packet of a member; its answers get their tags. */
static Fate process(Loop *loop, const Session *session, const Datagram *datagram,
                    int64_t now_us) {
    Answers *answers = &loop->answers;
    size_t first = answers->n_answers;
    Places places = {session->registers,
                     session->job,
                     1,
                     session->counts,
                     session->job->payload_bytes,
                     answers};
    Region region = {0};
    if (!take_packet(&region, &places, datagram->bytes, datagram->n_bytes))
        return NO_ROOM;
    session->heard_us[read16(datagram->bytes + 14)] = now_us;
    for (size_t i = first; i < answers->n_answers; i++) {
        uint8_t *row = answers->rows + i * answers->stride;
        put_tag(row, (size_t)answers->lengths[i], session->key);
        loop->owners[i] = (uint16_t)(session - loop->sessions);
    }
    return TAKEN;
}

/* Whether a datagram is about a session and its members, which Python knows. */
static int is_control(const Loop *loop, const Datagram *datagram) {
    const uint8_t *bytes = datagram->bytes;
    if (is_foreign(loop, datagram))
        return 0;
    int is_exchange =
        bytes[2] == VERSION && bytes[3] >= TALLY && bytes[3] <= INDEXED_SUM;
    return !is_exchange || !find_session(loop, read64(bytes + 4));
}

/* Take a datagram: a member's packet, or one that nobody answers. */
static Fate take(Loop *loop, const Datagram *datagram, int64_t now_us) {
    if (is_foreign(loop, datagram)) {
        loop->counts[DROPPED_FOREIGN]++;
        return TAKEN;
    }
    const uint8_t *bytes = datagram->bytes;
    const Session *session = find_session(loop, read64(bytes + 4));
    if (!has_tag(bytes, datagram->n_bytes, session->key)) {
        loop->counts[DROPPED_TAG]++;
        return TAKEN;
    }
    if (!is_at(loop, session, datagram))
        return UPWARDS;
    return process(loop, session, datagram, now_us);
}

/* Note a datagram for Python. */
static void hand_up(Loop *loop, const Datagram *datagram) {
    size_t at = (size_t)(datagram->bytes - loop->buffers);
    loop->up[loop->n_up++] = (Up){at, (uint32_t)datagram->n_bytes, datagram->message};
}

int take_messages(Loop *loop, int64_t now_us) {
    while (loop->message < loop->n_messages && loop->n_up < MAX_UP) {
        Datagram datagram = current_datagram(loop);
        Fate fate = UPWARDS;
        if (!is_control(loop, &datagram)) {
            /* What came after datagrams for Python waits until they are answered. */
            if (loop->n_up)
                break;
            fate = take(loop, &datagram, now_us);
        }
        if (fate == NO_ROOM && loop->answers.n_answers) {
            send_answers(loop);
            continue;
        }
        if (fate == UPWARDS)
            hand_up(loop, &datagram);
        loop->counts[ARRIVED]++;
        pass(loop, datagram.n_bytes);
    }
    return loop->n_up > 0;
}

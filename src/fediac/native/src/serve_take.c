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

/* Where it is among those that were received. */
typedef struct {
    uint32_t message, offset;
} Cursor;

/* Datagrams from a cursor on, the sessions whose packets they are, and whether these
   have their tags. */
typedef struct {
    Datagram datagrams[MAX_AHEAD];
    const Session *sessions[MAX_AHEAD];
    uint8_t are_right[MAX_AHEAD];
    size_t n, next;
} Ahead;

/* The datagram at a cursor, which moves on. */
static Datagram take_datagram(const Loop *loop, Cursor *cursor) {
    const Message *message = &loop->messages[cursor->message];
    size_t at = cursor->message * loop->buffer_bytes + cursor->offset;
    size_t n_bytes = message->n_bytes - cursor->offset;
    if (message->segment_bytes)
        n_bytes = min_size(n_bytes, message->segment_bytes);
    Datagram datagram = {loop->buffers + at, n_bytes, cursor->message};
    cursor->offset += (uint32_t)n_bytes;
    if (cursor->offset >= message->n_bytes)
        *cursor = (Cursor){cursor->message + 1, 0};
    return datagram;
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

/* The session that a datagram is a packet of, if it is one of an exchange. */
static const Session *session_of(const Loop *loop, const Datagram *datagram) {
    const uint8_t *bytes = datagram->bytes;
    if (is_foreign(loop, datagram) || bytes[2] != VERSION || bytes[3] < TALLY ||
        bytes[3] > INDEXED_SUM)
        return NULL;
    return find_session(loop, read64(bytes + 4));
}

/* Look at the next datagrams, at the tags of many together. */
static void look_ahead(const Loop *loop, Ahead *ahead) {
    Cursor cursor = {loop->message, loop->offset};
    Keyed keyed[MAX_AHEAD];
    uint8_t are_right[MAX_AHEAD];
    size_t n_keyed = 0;
    ahead->n = ahead->next = 0;
    while (ahead->n < MAX_AHEAD && cursor.message < loop->n_messages) {
        Datagram datagram = take_datagram(loop, &cursor);
        const Session *session = session_of(loop, &datagram);
        if (session)
            keyed[n_keyed++] = (Keyed){datagram.bytes, session->key, datagram.n_bytes};
        ahead->datagrams[ahead->n] = datagram;
        ahead->sessions[ahead->n++] = session;
    }
    check_tags(keyed, n_keyed, are_right);
    n_keyed = 0;
    for (size_t i = 0; i < ahead->n; i++)
        ahead->are_right[i] = ahead->sessions[i] ? are_right[n_keyed++] : 0;
}

/* Whether a member has joined from the datagram's address. */
static int is_at(const Loop *loop, const Session *session, const Datagram *datagram) {
    uint16_t client = read16(datagram->bytes + 14);
    return client < session->n_members &&
           !memcmp(session->addresses + client * (size_t)ADDRESS_BYTES,
                   loop->messages[datagram->message].address, ADDRESS_BYTES);
}

/* Process a packet of a member. */
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
    for (size_t i = first; i < answers->n_answers; i++)
        loop->owners[i] = (uint16_t)(session - loop->sessions);
    return TAKEN;
}

/* Take the next datagram of a session, or one that is no packet. */
static Fate take(Loop *loop, const Ahead *ahead, int64_t now_us) {
    const Datagram *datagram = &ahead->datagrams[ahead->next];
    const Session *session = ahead->sessions[ahead->next];
    if (!session) {
        loop->counts[DROPPED_FOREIGN]++;
        return TAKEN;
    }
    if (!ahead->are_right[ahead->next]) {
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

/* Take datagrams that were looked at, until one must wait: for those that Python
   answers first, or for room. Return whether it is room. */
static int take_ahead(Loop *loop, Ahead *ahead, int64_t now_us) {
    for (; ahead->next < ahead->n && loop->n_up < MAX_UP; ahead->next++) {
        const Datagram *datagram = &ahead->datagrams[ahead->next];
        int is_control = !ahead->sessions[ahead->next] && !is_foreign(loop, datagram);
        if (loop->n_up && !is_control)
            return 0;
        Fate fate = is_control ? UPWARDS : take(loop, ahead, now_us);
        if (fate == NO_ROOM && loop->answers.n_answers)
            return 1;
        if (fate == UPWARDS)
            hand_up(loop, datagram);
        loop->counts[ARRIVED]++;
        Cursor cursor = {loop->message, loop->offset};
        take_datagram(loop, &cursor);
        loop->message = cursor.message;
        loop->offset = cursor.offset;
    }
    return 0;
}

int take_messages(Loop *loop, int64_t now_us) {
    Ahead ahead = {.n = 0};
    while (loop->message < loop->n_messages) {
        if (ahead.next == ahead.n)
            look_ahead(loop, &ahead);
        if (take_ahead(loop, &ahead, now_us))
            send_answers(loop);
        if (loop->n_up)
            return 1;
    }
    return 0;
}

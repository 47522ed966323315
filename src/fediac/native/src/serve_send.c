/* Answers -> datagrams, to those that they are for. Where the kernel cuts a long
   datagram into equal ones (UDP_SEGMENT), answers that follow each other go to a member
   in one; it then passes the stack once. */

#ifdef __linux__
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#endif

#include "serve.h"
#include "siphash.h"

#ifdef __linux__

#define UDP_SEGMENT_TYPE 103 /* UDP_SEGMENT: older headers do not have it */
#define UDP_LEVEL 17

enum { MAX_SENT = 64, MAX_PIECES = 512, MAX_JOINED = 64, MAX_JOINED_BYTES = 65000 };

/* Datagrams that leave in one call, and the answers of which they are made. */
typedef struct {
    Loop *loop;
    struct mmsghdr headers[MAX_SENT];
    union {
        struct sockaddr_in6 v6;
        struct sockaddr_in v4;
    } to[MAX_SENT];
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
    } controls[MAX_SENT];
    struct iovec pieces[MAX_PIECES];
    size_t n_bytes; /* of the last datagram */
    unsigned n_sent, n_pieces;
} Outbox;

/* Say how long the datagrams are that the kernel shall make of one. */
static void ask_for_segments(Outbox *outbox, unsigned place) {
    struct msghdr *message = &outbox->headers[place].msg_hdr;
    message->msg_control = NULL;
    message->msg_controllen = 0;
    if (message->msg_iovlen < 2)
        return;
    uint16_t n_bytes = (uint16_t)message->msg_iov[0].iov_len;
    message->msg_control = &outbox->controls[place];
    message->msg_controllen = sizeof outbox->controls[place];
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    control->cmsg_level = UDP_LEVEL;
    control->cmsg_type = UDP_SEGMENT_TYPE;
    control->cmsg_len = CMSG_LEN(sizeof n_bytes);
    memcpy(CMSG_DATA(control), &n_bytes, sizeof n_bytes);
}

/* Send the answers of a datagram one by one: its way cannot be taken by joined ones. */
static void send_apart(Outbox *outbox, unsigned place) {
    struct msghdr message = outbox->headers[place].msg_hdr;
    struct iovec *pieces = message.msg_iov;
    size_t n_pieces = message.msg_iovlen;
    message.msg_control = NULL;
    message.msg_controllen = 0;
    message.msg_iovlen = 1;
    for (size_t i = 0; i < n_pieces; i++) {
        message.msg_iov = &pieces[i];
        ssize_t n_bytes;
        do
            n_bytes = sendmsg(outbox->loop->fd, &message, 0);
        while (n_bytes < 0 && errno == EINTR);
        outbox->loop->counts[n_bytes < 0 ? UNSENT : SENT]++;
    }
}

/* Note that a datagram could not be sent, unless its answers can alone. */
static void give_up(Outbox *outbox, unsigned place) {
    if (outbox->headers[place].msg_hdr.msg_iovlen < 2) {
        outbox->loop->counts[UNSENT]++;
        return;
    }
    if (errno == EIO || errno == EOPNOTSUPP || errno == ENOPROTOOPT)
        outbox->loop->joins_answers = 0; /* the device cannot */
    send_apart(outbox, place);
}

static void post(Outbox *outbox) {
    for (unsigned i = 0; i < outbox->n_sent; i++)
        ask_for_segments(outbox, i);
    unsigned place = 0;
    while (place < outbox->n_sent) {
        int n = sendmmsg(outbox->loop->fd, outbox->headers + place,
                         outbox->n_sent - place, 0);
        for (int i = 0; i < n; i++)
            outbox->loop->counts[SENT] +=
                (int64_t)outbox->headers[place++].msg_hdr.msg_iovlen;
        if (n < 1 && errno != EINTR)
            give_up(outbox, place++);
    }
    outbox->n_sent = outbox->n_pieces = 0;
}

/* Whether an answer may follow those in the last datagram: all but the last of them
   must be equally long. */
static int may_join(const Outbox *outbox, size_t n_bytes, int is_same_member) {
    if (!outbox->n_sent || !is_same_member || !outbox->loop->joins_answers)
        return 0;
    const struct msghdr *last = &outbox->headers[outbox->n_sent - 1].msg_hdr;
    size_t first_bytes = last->msg_iov[0].iov_len;
    return last->msg_iovlen < MAX_JOINED &&
           outbox->n_bytes == last->msg_iovlen * first_bytes &&
           n_bytes <= first_bytes && outbox->n_bytes + n_bytes <= MAX_JOINED_BYTES;
}

/* Write where a datagram goes; return the length of that. */
static socklen_t write_target(Outbox *outbox, const uint8_t *address) {
    if (outbox->loop->is_v6) {
        struct sockaddr_in6 *to = &outbox->to[outbox->n_sent].v6;
        *to = (struct sockaddr_in6){.sin6_family = AF_INET6,
                                    .sin6_scope_id = read32(address + 20)};
        memcpy(&to->sin6_addr, address, 16);
        memcpy(&to->sin6_port, address + 16, 2);
        return sizeof *to;
    }
    struct sockaddr_in *to = &outbox->to[outbox->n_sent].v4;
    *to = (struct sockaddr_in){.sin_family = AF_INET};
    memcpy(&to->sin_addr, address + 12, 4);
    memcpy(&to->sin_port, address + 16, 2);
    return sizeof *to;
}

/* Put an answer in, to a member that may be the one before. */
static void put(Outbox *outbox, const uint8_t *address, size_t row,
                int is_same_member) {
    const Answers *answers = &outbox->loop->answers;
    size_t n_bytes = (size_t)answers->lengths[row];
    if (outbox->n_sent == MAX_SENT || outbox->n_pieces == MAX_PIECES)
        post(outbox);
    struct iovec *piece = &outbox->pieces[outbox->n_pieces++];
    *piece = (struct iovec){answers->rows + row * answers->stride, n_bytes};
    if (may_join(outbox, n_bytes, is_same_member)) {
        outbox->headers[outbox->n_sent - 1].msg_hdr.msg_iovlen++;
        outbox->n_bytes += n_bytes;
        return;
    }
    struct msghdr *message = &outbox->headers[outbox->n_sent].msg_hdr;
    *message = (struct msghdr){.msg_name = &outbox->to[outbox->n_sent],
                               .msg_namelen = write_target(outbox, address),
                               .msg_iov = piece,
                               .msg_iovlen = 1};
    outbox->n_sent++;
    outbox->n_bytes = n_bytes;
}

/* Put in what rows first..stop-1, which are answers of one session, say to a member. */
static void put_all(Outbox *outbox, const Session *session, uint16_t member,
                    size_t first, size_t stop) {
    const uint8_t *address = session->addresses + member * (size_t)ADDRESS_BYTES;
    int is_same_member = 0;
    for (size_t row = first; row < stop; row++) {
        uint16_t to = outbox->loop->answers.destinations[row];
        if (to != EVERYONE && to != member)
            continue;
        put(outbox, address, row, is_same_member);
        is_same_member = 1;
    }
}

/* Put their tags into answers, many together. */
static void tag_answers(Loop *loop) {
    const Answers *answers = &loop->answers;
    Keyed packets[SIP_LANES];
    uint64_t tags[SIP_LANES];
    for (size_t i = 0; i < answers->n_answers; i += SIP_LANES) {
        size_t n = min_size(answers->n_answers - i, SIP_LANES);
        uint8_t *rows = answers->rows + i * answers->stride;
        for (size_t k = 0; k < n; k++) {
            const uint8_t *key = loop->sessions[loop->owners[i + k]].key;
            size_t n_bytes = (size_t)answers->lengths[i + k];
            packets[k] = (Keyed){rows + k * answers->stride, key, n_bytes};
        }
        find_tags(packets, n, tags);
        for (size_t k = 0; k < n; k++)
            store_word(rows + k * answers->stride + TAG_AT, tags[k]);
    }
}

void send_answers(Loop *loop) {
    Outbox outbox;
    outbox.loop = loop;
    outbox.n_sent = outbox.n_pieces = 0;
    size_t n_answers = loop->answers.n_answers, first = 0;
    tag_answers(loop);
    while (first < n_answers) {
        size_t stop = first + 1;
        while (stop < n_answers && loop->owners[stop] == loop->owners[first])
            stop++;
        const Session *session = &loop->sessions[loop->owners[first]];
        for (uint32_t i = 0; i < session->n_joined; i++)
            put_all(&outbox, session, session->joined[i], first, stop);
        first = stop;
    }
    post(&outbox);
    loop->answers.n_answers = 0;
}

#else

void send_answers(Loop *loop) {
    loop->answers.n_answers = 0;
}

#endif

/* What libFuzzer tries the compiled switch with: datagrams of members and of others, as
   tests/fuzz/inputs.py writes them, to a loop with two sessions. Every piece of memory
   has the size that the switch was told, not a byte more, so that the sanitizers see
   whatever reaches beyond; and every answer is looked at where it would be sent. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "serve.h"
#include "siphash.h"

enum { REGISTER_BYTES = 4096, N_SESSIONS = 2, N_COUNTERS = 16, N_OPS_BYTES = 4 };
enum { MAX_DATAGRAM = 9000, MAX_PACKET = HEADER_BYTES + MAX_PAYLOAD_BYTES };

/* What is done with a datagram before it is sent. */
enum { OF_SECOND = 1, FIX_HEADER = 2, FIX_TAG = 4, FROM_MEMBER = 8, JOINED = 16 };
enum { ISA_AT = 6 }; /* the two bits above say with which instruction set, at most */

static const uint64_t NUMBERS[N_SESSIONS] = {0x1000, 0x2000};
static const uint32_t N_MEMBERS[N_SESSIONS] = {3, 4}, N_OBSERVERS[N_SESSIONS] = {1, 0};
static const uint32_t PAYLOADS[N_SESSIONS] = {64, 128};

size_t fediac_most_answers(const Job *job);
int fediac_set_isa(int cap);
int fediac_is_job_valid(const Job *job, size_t register_bytes, size_t payload_bytes);

static Session sessions[N_SESSIONS];
static uint8_t keys[N_SESSIONS][KEY_BYTES];
static Loop loop;

#define CHECK(claim)                                          \
    do {                                                      \
        if (!(claim)) {                                       \
            fprintf(stderr, "it is not true that %s\n", #claim); \
            abort();                                          \
        }                                                     \
    } while (0)

static void *take(size_t n_bytes) {
    void *taken = calloc(1, n_bytes);
    CHECK(taken);
    return taken;
}

/* Where a member is: in a namespace of its session; the last of the second is nowhere. */
static void write_address(uint8_t *address, size_t session, size_t member) {
    memset(address, 0, ADDRESS_BYTES);
    if (session == 1 && member == N_MEMBERS[1] - 1)
        return;
    address[10] = address[11] = 0xFF;
    address[12] = 10;
    address[14] = (uint8_t)session;
    address[15] = (uint8_t)member;
    address[17] = 9;
}

static void open_session(size_t i) {
    Job *job = take(sizeof *job);
    uint32_t n_members = N_MEMBERS[i];
    job->session = NUMBERS[i];
    job->n_clients = job->n_present = n_members;
    job->n_observers = N_OBSERVERS[i];
    job->payload_bytes = PAYLOADS[i];
    job->register_bytes = REGISTER_BYTES;
    job->present[0] = (uint8_t)((1 << n_members) - 1);
    CHECK(fediac_is_job_valid(job, REGISTER_BYTES, PAYLOADS[i]));
    uint8_t *addresses = take(n_members * (size_t)ADDRESS_BYTES);
    uint16_t *joined = take(n_members * sizeof *joined);
    uint32_t n_joined = n_members - (i == 1);
    for (size_t member = 0; member < n_members; member++) {
        write_address(addresses + member * ADDRESS_BYTES, i, member);
        if (member < n_joined)
            joined[member] = (uint16_t)member;
    }
    memset(keys[i], (int)(i + 1), KEY_BYTES);
    sessions[i] = (Session){.number = NUMBERS[i],
                            .job = job,
                            .registers = take(REGISTER_BYTES),
                            .counts = take(N_COUNTERS * sizeof(int64_t)),
                            .key = keys[i],
                            .heard_us = take(n_members * sizeof(int64_t)),
                            .addresses = addresses,
                            .joined = joined,
                            .n_joined = n_joined,
                            .n_members = n_members};
}

static void open_loop(void) {
    size_t n_most = 0;
    for (size_t i = 0; i < N_SESSIONS; i++) {
        open_session(i);
        size_t n_answers = fediac_most_answers(sessions[i].job);
        n_most = n_answers > n_most ? n_answers : n_most;
    }
    size_t n_rows = n_most + 2, stride = HEADER_BYTES + PAYLOADS[1];
    loop = (Loop){.fd = -1,
                  .wake_fd = -1,
                  .sessions = sessions,
                  .n_sessions = N_SESSIONS,
                  .joins_answers = 1,
                  .max_bytes = MAX_PACKET,
                  .owners = take(n_rows * sizeof(uint16_t))};
    loop.answers = (Answers){.rows = take(n_rows * stride),
                             .lengths = take(n_rows * sizeof(int32_t)),
                             .destinations = take(n_rows * sizeof(uint16_t)),
                             .stride = stride,
                             .capacity = n_rows};
}

static void forget(void) {
    for (size_t i = 0; i < N_SESSIONS; i++) {
        memset(sessions[i].registers, 0, REGISTER_BYTES);
        memset(sessions[i].counts, 0, N_COUNTERS * sizeof(int64_t));
    }
    memset(loop.counts, 0, sizeof loop.counts);
}

static const Session *session_of(const uint8_t *packet) {
    for (size_t i = 0; i < N_SESSIONS; i++)
        if (read64(packet + 4) == NUMBERS[i])
            return &sessions[i];
    return NULL;
}

/* Look at a datagram that would be sent, and refuse it now and then. */
static int look_at(const struct msghdr *message) {
    CHECK(message->msg_iovlen >= 1 && message->msg_iovlen <= 64);
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        const uint8_t *bytes = message->msg_iov[i].iov_base;
        size_t n_bytes = message->msg_iov[i].iov_len;
        CHECK(n_bytes >= HEADER_BYTES && read16(bytes) == MAGIC);
        const Session *session = session_of(bytes);
        CHECK(session && n_bytes <= HEADER_BYTES + session->job->payload_bytes);
        CHECK(bytes[30] & ANSWER);
        uint8_t is_right;
        check_tags(&(Keyed){bytes, session->key, n_bytes}, 1, &is_right);
        CHECK(is_right);
        size_t first = message->msg_iov[0].iov_len;
        CHECK(i + 1 == message->msg_iovlen ? n_bytes <= first : n_bytes == first);
    }
    return 1;
}

static unsigned n_calls;

/* In place of the system's: every third datagram that was joined cannot be sent. */
int sendmmsg(int fd, struct mmsghdr *headers, unsigned n, int flags) {
    (void)fd, (void)flags;
    for (unsigned i = 0; i < n; i++) {
        if (headers[i].msg_hdr.msg_iovlen > 1 && ++n_calls % 3 == 0) {
            errno = EMSGSIZE;
            return i ? (int)i : -1;
        }
        look_at(&headers[i].msg_hdr);
    }
    return (int)n;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    (void)fd, (void)flags;
    look_at(message);
    return 1;
}

/* Make a packet of a session of what the fuzzer has written. */
static void fix(uint8_t *bytes, size_t n_bytes, unsigned ops) {
    size_t i = !!(ops & OF_SECOND);
    if (n_bytes < HEADER_BYTES)
        return;
    if (ops & FIX_HEADER) {
        write16(bytes, MAGIC);
        bytes[2] = VERSION;
        write64(bytes + 4, NUMBERS[i]);
    }
    if (ops & FIX_TAG)
        store_word(bytes + TAG_AT, find_tag(&(Keyed){bytes, keys[i], n_bytes}));
}

/* Let a datagram arrive, in memory that ends where it does. */
static void arrive(const uint8_t *given, size_t n_bytes, unsigned ops, unsigned from) {
    size_t i = !!(ops & OF_SECOND);
    uint8_t *bytes = malloc(n_bytes ? n_bytes : 1);
    CHECK(bytes);
    memcpy(bytes, given, n_bytes);
    if (ops & JOINED) {
        fix(bytes, n_bytes / 2, ops);
        fix(bytes + n_bytes / 2, n_bytes - n_bytes / 2, ops);
    } else {
        fix(bytes, n_bytes, ops);
    }
    size_t member = from;
    if (ops & FROM_MEMBER && n_bytes >= HEADER_BYTES)
        member = read16(bytes + 14);
    loop.buffers = bytes;
    loop.buffer_bytes = n_bytes;
    loop.messages[0].n_bytes = (uint32_t)n_bytes;
    loop.messages[0].segment_bytes = ops & JOINED ? (uint32_t)(n_bytes / 2) : 0;
    write_address(loop.messages[0].address, i, member);
    loop.message = loop.offset = 0;
    loop.n_messages = 1;
    int64_t n_arrived = loop.counts[ARRIVED];
    do {
        loop.n_up = 0;
        take_messages(&loop, 1);
        send_answers(&loop);
        for (size_t k = 0; k < loop.n_up; k++)
            CHECK(loop.up[k].at + loop.up[k].n_bytes <= n_bytes);
    } while (loop.message < loop.n_messages);
    CHECK(loop.counts[ARRIVED] > n_arrived);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    if (!loop.sessions)
        open_loop();
    forget();
    while (n_bytes >= N_OPS_BYTES) {
        size_t n_given = min_size(data[2] | (size_t)data[3] << 8, MAX_DATAGRAM);
        n_given = min_size(n_given, n_bytes - N_OPS_BYTES);
        fediac_set_isa(data[0] >> ISA_AT);
        arrive(data + N_OPS_BYTES, n_given, data[0], data[1]);
        data += N_OPS_BYTES + n_given;
        n_bytes -= N_OPS_BYTES + n_given;
    }
    return 0;
}

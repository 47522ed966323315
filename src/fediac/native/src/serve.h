/* A switch behind a UDP socket: what receiving, processing and sending share.

   fediac.network is the readable truth. Only packets of exchanges stay here; all others
   go up to Python, in the order in which they came. Nothing is allocated. */

#ifndef FEDIAC_SERVE_H
#define FEDIAC_SERVE_H

#include "switch.h"

enum { ADDRESS_BYTES = 24 }; /* as fediac.network.addresses writes them */
enum { MAX_MESSAGES = 64 };  /* that are received together */
enum { MAX_UP = 64 };        /* datagrams that go up together */
enum { MAX_AHEAD = 64 };     /* whose tags are looked at together */

/* Why `fediac_serve` came back. */
enum { TIME_IS_UP = 0, SOMEBODY_WANTS = 1, GOES_UP = 2 };

/* Places of the counters. */
enum { ARRIVED, SENT, UNSENT, DROPPED_FOREIGN, DROPPED_TAG };

/* A session: its registers and members. */
typedef struct {
    uint64_t number;
    const Job *job;
    uint8_t *registers;
    int64_t *counts;
    const uint8_t *key;
    int64_t *heard_us;         /* of every member */
    const uint8_t *addresses;  /* of every member; zeros: it has not joined */
    const uint16_t *joined;    /* members, in the order in which they joined */
    uint32_t n_joined, n_members;
} Session;

/* A run of bytes of one sender: a datagram, or several that the kernel joined. */
typedef struct {
    uint8_t address[ADDRESS_BYTES];
    uint32_t n_bytes, segment_bytes;
} Message;

/* A datagram for Python: where it is among the buffers. */
typedef struct {
    uint64_t at;
    uint32_t n_bytes, message;
} Up;

/* All that a loop knows between two calls. */
typedef struct {
    int32_t fd, wake_fd, is_v6, joins_answers;
    const Session *sessions; /* by number, ascending */
    uint64_t n_sessions;
    uint8_t *buffers; /* MAX_MESSAGES, each of `buffer_bytes` */
    uint64_t buffer_bytes;
    Answers answers;
    uint16_t *owners; /* of each row of answers: the place of its session */
    uint64_t max_bytes; /* of a packet */
    uint32_t n_messages, message, offset, n_up;
    int64_t counts[5];
    Message messages[MAX_MESSAGES];
    Up up[MAX_UP];
} Loop;

/* Take the datagrams that were received; return whether some go up. */
int take_messages(Loop *loop, int64_t now_us);

/* Send all answers and forget them; count those that could not be sent. */
void send_answers(Loop *loop);

#endif

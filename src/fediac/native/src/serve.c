/* The inner loop of a switch on UDP: many datagrams a call, on Linux. */

#ifdef __linux__
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#endif

#include "serve.h"

/* The bytes of the records that Python describes again. */
EXPORT void fediac_serve_layout(size_t *lengths) {
    lengths[0] = sizeof(Session);
    lengths[1] = sizeof(Message);
    lengths[2] = sizeof(Up);
    lengths[3] = sizeof(Loop);
}

#ifdef __linux__

#define UDP_GRO_TYPE 104 /* UDP_GRO: older headers do not have it */
#define UDP_LEVEL 17

enum { US_PER_S = 1000000 };

/* However many packets there are, somebody else is asked so often. */
enum { MAX_BUSY_US = 20000 };

typedef struct {
    union {
        struct sockaddr_in6 v6;
        struct sockaddr_in v4;
    } from;
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } control;
} Envelope;

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

/* Write where a datagram came from as Python does. */
static void write_address(uint8_t *address, const Envelope *envelope, int is_v6) {
    memset(address, 0, ADDRESS_BYTES);
    if (is_v6) {
        memcpy(address, &envelope->from.v6.sin6_addr, 16);
        memcpy(address + 16, &envelope->from.v6.sin6_port, 2);
        write32(address + 20, envelope->from.v6.sin6_scope_id);
        return;
    }
    address[10] = address[11] = 0xFF;
    memcpy(address + 12, &envelope->from.v4.sin_addr, 4);
    memcpy(address + 16, &envelope->from.v4.sin_port, 2);
}

/* The length of the datagrams that the kernel joined, 0 if it joined none. */
static uint32_t segment_of(struct msghdr *message) {
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each;
         each = CMSG_NXTHDR(message, each)) {
        if (each->cmsg_level == UDP_LEVEL && each->cmsg_type == UDP_GRO_TYPE) {
            int n_bytes;
            memcpy(&n_bytes, CMSG_DATA(each), sizeof n_bytes);
            return n_bytes > 0 ? (uint32_t)n_bytes : 0;
        }
    }
    return 0;
}

/* Receive what is there; return 0, or why the socket is of no use. */
static int receive(Loop *loop) {
    struct mmsghdr headers[MAX_MESSAGES];
    struct iovec pieces[MAX_MESSAGES];
    Envelope envelopes[MAX_MESSAGES];
    for (size_t i = 0; i < MAX_MESSAGES; i++) {
        pieces[i] = (struct iovec){loop->buffers + i * loop->buffer_bytes,
                                   loop->buffer_bytes};
        headers[i].msg_hdr = (struct msghdr){.msg_name = &envelopes[i].from,
                                             .msg_namelen = sizeof envelopes[i].from,
                                             .msg_iov = &pieces[i],
                                             .msg_iovlen = 1,
                                             .msg_control = &envelopes[i].control,
                                             .msg_controllen =
                                                 sizeof envelopes[i].control};
    }
    loop->n_messages = loop->message = loop->offset = 0;
    int n = recvmmsg(loop->fd, headers, MAX_MESSAGES, MSG_DONTWAIT, NULL);
    if (n < 0)
        return errno == EBADF || errno == ENOTSOCK || errno == EFAULT ? errno : 0;
    for (int i = 0; i < n; i++) {
        Message *message = &loop->messages[i];
        message->n_bytes = headers[i].msg_len;
        message->segment_bytes = segment_of(&headers[i].msg_hdr);
        write_address(message->address, &envelopes[i], loop->is_v6);
    }
    loop->n_messages = (uint32_t)n;
    return 0;
}

/* Wait for datagrams; return whether somebody wants something else. */
static int wait_until(const Loop *loop, int64_t until_us) {
    struct pollfd polled[2] = {{.fd = loop->fd, .events = POLLIN},
                               {.fd = loop->wake_fd, .events = POLLIN}};
    int64_t left_us = until_us - now_us();
    left_us = left_us > 0 ? left_us : 0;
    struct timespec wait = {left_us / US_PER_S, left_us % US_PER_S * 1000};
    int n = ppoll(polled, 2, &wait, NULL);
    return n < 0 || polled[1].revents;
}

/* Carry datagrams until a time, until a byte comes at `wake_fd`, or until some are for
   Python: return which, or an error number below zero. */
EXPORT int fediac_serve(Loop *loop, int64_t until_us) {
    int64_t asked_us = now_us();
    loop->n_up = 0;
    for (;;) {
        int64_t at_us = now_us();
        int goes_up = take_messages(loop, at_us);
        send_answers(loop);
        if (goes_up)
            return GOES_UP;
        if (at_us >= until_us || at_us >= asked_us + MAX_BUSY_US)
            return TIME_IS_UP;
        int failed = receive(loop);
        if (failed)
            return -failed;
        if (loop->n_messages)
            continue;
        if (wait_until(loop, until_us))
            return SOMEBODY_WANTS;
        asked_us = now_us();
    }
}

#else

EXPORT int fediac_serve(Loop *loop, int64_t until_us) {
    (void)loop, (void)until_us;
    return -1;
}

#endif

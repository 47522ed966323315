/* What `bench_udp` measures a switch with, and beside: clients that send and receive as
   many packets as they can, and an echo that answers as a switch does but does nothing
   else. Both move packets as the switch does, many a call.

     cc -O3 -shared -fPIC udp_load.c -o udp_load.so */

#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BATCH = 64, MAX_CLIENTS = 64, MAX_ROW = 2048, MAX_JOINED = 40 };
enum { SOL_UDP_LEVEL = 17, UDP_SEGMENT_TYPE = 103, UDP_GRO_TYPE = 104 };
enum { BUFFER = 65536 + 1472 };

static uint8_t buffers[BATCH][BUFFER];

typedef union {
    struct cmsghdr header;
    uint8_t bytes[CMSG_SPACE(sizeof(int))];
} Control;

static uint16_t read16(const uint8_t *at) {
    return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t read32(const uint8_t *at) {
    return (uint32_t)read16(at) << 16 | read16(at + 2);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Receive datagrams, never waiting; return how many. */
static int receive(int fd, struct mmsghdr *headers, struct sockaddr_in *from,
                   Control *controls) {
    struct iovec pieces[BATCH];
    for (int i = 0; i < BATCH; i++) {
        pieces[i] = (struct iovec){buffers[i], BUFFER};
        headers[i].msg_hdr = (struct msghdr){
            .msg_name = from ? &from[i] : NULL,
            .msg_namelen = from ? sizeof *from : 0,
            .msg_iov = &pieces[i],
            .msg_iovlen = 1,
            .msg_control = controls ? &controls[i] : NULL,
            .msg_controllen = controls ? sizeof *controls : 0,
        };
    }
    return recvmmsg(fd, headers, BATCH, MSG_DONTWAIT, NULL);
}

/* Send all of some datagrams; return whether that was possible. */
static int send_all(int fd, struct mmsghdr *headers, int n) {
    for (int done = 0; done < n;) {
        int sent = sendmmsg(fd, headers + done, (unsigned)(n - done), 0);
        if (sent < 0 && errno != EINTR)
            return 0;
        done += sent > 0 ? sent : 0;
    }
    return 1;
}

/* Answer until the process is killed: of every group of packets with one number, one of
   each client, the last one goes to all clients. */
int echo(int fd, int n_clients) {
    static uint8_t n_in[65536];
    struct sockaddr_in clients[MAX_CLIENTS], from[BATCH];
    struct mmsghdr headers[BATCH], out[BATCH];
    struct iovec pieces[BATCH];
    for (;;) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        int n = receive(fd, headers, from, NULL), n_out = 0;
        if (n < 0)
            poll(&polled, 1, -1);
        for (int i = 0; i < n; i++) {
            clients[read16(buffers[i] + 14)] = from[i];
            uint8_t *count = &n_in[read32(buffers[i] + 16) % sizeof n_in];
            if (++*count < n_clients)
                continue;
            *count = 0;
            for (int to = 0; to < n_clients; to++) {
                pieces[n_out] = (struct iovec){buffers[i], headers[i].msg_len};
                out[n_out++].msg_hdr = (struct msghdr){.msg_name = &clients[to],
                                                       .msg_namelen = sizeof *clients,
                                                       .msg_iov = &pieces[n_out - 1],
                                                       .msg_iovlen = 1};
                if (n_out == BATCH) {
                    send_all(fd, out, n_out);
                    n_out = 0;
                }
            }
        }
        send_all(fd, out, n_out);
    }
}

/* What clients send: for each of them rows of equally long packets. */
typedef struct {
    const int *fds;
    const uint8_t *rows;
    uint64_t n_clients, n_packets, n_bytes, window;
    int32_t joins, unused;
} Load;

/* Send a client's next packets, each as a datagram. */
static int send_apart(const Load *load, int fd, const uint8_t *rows, uint64_t n) {
    struct mmsghdr headers[BATCH];
    struct iovec pieces[BATCH];
    for (uint64_t i = 0; i < n; i++) {
        pieces[i] = (struct iovec){(void *)(rows + i * load->n_bytes), load->n_bytes};
        headers[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
    }
    return send_all(fd, headers, (int)n);
}

/* Send a client's next packets as one datagram, which the kernel cuts. */
static int send_joined(const Load *load, int fd, const uint8_t *rows, uint64_t n) {
    struct iovec piece = {(void *)rows, n * load->n_bytes};
    Control control;
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(sizeof(uint16_t))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    uint16_t n_bytes = (uint16_t)load->n_bytes;
    header->cmsg_level = SOL_UDP_LEVEL;
    header->cmsg_type = UDP_SEGMENT_TYPE;
    header->cmsg_len = CMSG_LEN(sizeof n_bytes);
    memcpy(CMSG_DATA(header), &n_bytes, sizeof n_bytes);
    return sendmsg(fd, &message, 0) >= 0;
}

/* Count the answers in what was received. */
static uint64_t count_answers(struct mmsghdr *headers, int n) {
    uint64_t n_answers = 0;
    for (int i = 0; i < n; i++) {
        uint32_t n_bytes = headers[i].msg_len, segment = n_bytes;
        struct cmsghdr *control = CMSG_FIRSTHDR(&headers[i].msg_hdr);
        if (control && control->cmsg_type == UDP_GRO_TYPE)
            memcpy(&segment, CMSG_DATA(control), sizeof segment);
        n_answers += segment ? (n_bytes + segment - 1) / segment : 0;
    }
    return n_answers;
}

/* Let all clients send all their packets, as many in flight as the window says; return
   the seconds until all have their answers, or -1 if none came for a second. */
double run_load(const Load *load) {
    uint64_t sent[MAX_CLIENTS] = {0}, answered[MAX_CLIENTS] = {0};
    struct mmsghdr headers[BATCH];
    Control controls[BATCH];
    struct pollfd polled[MAX_CLIENTS];
    for (uint64_t i = 0; i < load->n_clients; i++)
        polled[i] = (struct pollfd){.fd = load->fds[i], .events = POLLIN};
    double start_s = now_s();
    for (uint64_t n_done = 0; n_done < load->n_clients;) {
        n_done = 0;
        for (uint64_t i = 0; i < load->n_clients; i++) {
            int n = receive(load->fds[i], headers, NULL, controls);
            answered[i] += count_answers(headers, n);
            n_done += answered[i] == load->n_packets;
            uint64_t n_more = load->window - (sent[i] - answered[i]);
            uint64_t n_left = load->n_packets - sent[i];
            uint64_t limit = load->joins ? MAX_JOINED : BATCH;
            n_more = n_more > limit ? limit : n_more;
            n_more = n_more > n_left ? n_left : n_more;
            if (!n_more || (n_more < load->window / 4 && n_more < n_left))
                continue;
            const uint8_t *rows =
                load->rows + (i * load->n_packets + sent[i]) * load->n_bytes;
            int is_sent = load->joins
                              ? send_joined(load, load->fds[i], rows, n_more)
                              : send_apart(load, load->fds[i], rows, n_more);
            if (!is_sent)
                return -1;
            sent[i] += n_more;
        }
        if (n_done < load->n_clients &&
            !poll(polled, (nfds_t)load->n_clients, 1000))
            return -1;
    }
    return now_s() - start_s;
}

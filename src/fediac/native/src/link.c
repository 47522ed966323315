/* A client's packets over its connected UDP socket, many a system call, on Linux. The
   caller knows what they are; see fediac.remote.link. */

#ifdef __linux__
#define _GNU_SOURCE

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "kernels.h"

enum { MAX_TOGETHER = 64 };

/* Send n packets that lie one behind the other; return how many left, and why no more. */
EXPORT size_t fediac_send_packets(int fd, const uint8_t *bytes, const int32_t *lengths,
                                  size_t n, int32_t *error) {
    struct mmsghdr headers[MAX_TOGETHER];
    struct iovec pieces[MAX_TOGETHER];
    size_t n_sent = 0;
    *error = 0;
    while (n_sent < n) {
        unsigned count = 0;
        const uint8_t *at = bytes;
        for (; count < MAX_TOGETHER && n_sent + count < n; count++) {
            size_t n_bytes = (size_t)lengths[n_sent + count];
            pieces[count] = (struct iovec){(void *)at, n_bytes};
            headers[count] = (struct mmsghdr){
                .msg_hdr = {.msg_iov = &pieces[count], .msg_iovlen = 1}};
            at += n_bytes;
        }
        int gone = sendmmsg(fd, headers, count, MSG_DONTWAIT);
        if (gone < 1) {
            *error = errno;
            return n_sent;
        }
        for (int i = 0; i < gone; i++)
            bytes += pieces[i].iov_len;
        n_sent += (size_t)gone;
    }
    return n_sent;
}

/* Take up to n packets, a row each, without waiting; return how many there were, and
   why no more. A packet that is longer than a row is cut. */
EXPORT size_t fediac_receive_packets(int fd, uint8_t *rows, size_t stride,
                                     int32_t *lengths, size_t n, int32_t *error) {
    struct mmsghdr headers[MAX_TOGETHER];
    struct iovec pieces[MAX_TOGETHER];
    size_t n_taken = 0;
    *error = 0;
    while (n_taken < n) {
        unsigned count = 0;
        for (; count < MAX_TOGETHER && n_taken + count < n; count++) {
            pieces[count] =
                (struct iovec){rows + (n_taken + count) * stride, stride};
            headers[count] = (struct mmsghdr){
                .msg_hdr = {.msg_iov = &pieces[count], .msg_iovlen = 1}};
        }
        int taken = recvmmsg(fd, headers, count, MSG_DONTWAIT, NULL);
        if (taken < 1) {
            *error = errno;
            return n_taken;
        }
        for (int i = 0; i < taken; i++)
            lengths[n_taken + (size_t)i] = (int32_t)headers[i].msg_len;
        n_taken += (size_t)taken;
    }
    return n_taken;
}

#endif

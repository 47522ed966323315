/* One step of a round, fediac.sim: exchanges that travel together, from the clients'
   uplinks through the switch, and what is seen there. */

#ifndef FEDIAC_SIM_STEP_H
#define FEDIAC_SIM_STEP_H

#include "sim.h"

/* fediac.sim.packet_groups: which groups a packet belongs to. */
enum { ALIGNED = 0, ONE = 1, ENDS = 2 };

enum { AHEAD = 32 }; /* groups fetched before they are needed */

/* One exchange of the step, all clients together. What stands behind `is_far` is used
   with bounded memory only. */
typedef struct {
    int64_t *done; /* when the last packet of each group so far was served, or -1 */
    int32_t *left; /* packets that each group still waits for */
    uint8_t *is_open; /* ENDS: whether a packet of the group's own came */
    int64_t n_groups;
    int32_t rule, is_far; /* far: it goes on to the server */
    int64_t n_parts, n_last; /* packets that answer a group, and the last one */
    int64_t n_answered;      /* groups */
    int64_t *finish;         /* when each client got the last answer so far */
    int64_t *received;       /* the same for the last few groups, a ring each */
    int64_t n_ring;
} Exchange;

/* What one client sends in one exchange. */
typedef struct {
    int64_t exchange, n_packets;
    const int64_t *ends;  /* ENDS: one past the last group each packet belongs to */
    const int64_t *owns;  /* ENDS: the group whose slot each packet needs, or -1 */
    const int64_t *needs; /* ENDS, bounded: answers to have before each packet */
    int64_t window;       /* ALIGNED, bounded: packets in flight; 0: any number */
} Flow;

typedef struct {
    Uplink uplink;
    const Flow *flow; /* what it is sending; the last one has no packets */
    int64_t number;   /* of the next packet to be served, in its flow */
    int64_t n_left;   /* packets whose arrival is not known yet */
    int64_t upcoming; /* unbounded: the arrival after the one in the tree */
    int64_t last_arrival; /* at first, when it began to send */
    int64_t sending_ps;   /* bounded: without the time it waited for answers */
    int64_t n_needed; /* bounded: answers it waits for before it goes on, or 0 */
} Client;

/* fediac.sim.monitor: what happens over time, in bins of 2^shift picoseconds. */
typedef struct {
    int64_t n_bins, shift;
    int64_t *n_arrivals, *n_starts, *busy_ps, *most_waiting, *most_open;
    int64_t *starts; /* of the packets that wait: a ring, its length a power of 2 */
    uint64_t n_ring, n_pushed, n_popped;
    int64_t n_open, max_waiting, max_open, open_bin;
} Monitor;

typedef struct {
    Client *clients;
    Downlink *downlinks; /* bounded memory only */
    Exchange *exchanges;
    /* A tree of the clients' next arrivals, the earliest of each pair one place up;
       whose it is stands in `tree_clients`. */
    int64_t *tree_times, *tree_clients;
    int64_t n_clients, n_leaves, n_exchanges;
    int64_t far_delay_ps, last_departure;
    int64_t *log, n_logged; /* six numbers a packet, or NULL */
    Server server, far_server;
    Monitor monitor;
} Step;

enum { N_BATCH = 64 };

/* Packets in the order of their arrival, each the next one of its client. They pass
   through stages, one short loop each. */
typedef struct {
    int64_t n, client[N_BATCH];
    int64_t arrival[N_BATCH], start[N_BATCH], departure[N_BATCH];
} Batch;

/* Put `time` as the next arrival of `client`; equal times go to the lower client. */
INLINE void set_head(Step *step, int64_t client, int64_t time) {
    int64_t *times = step->tree_times, *clients = step->tree_clients;
    int64_t node = step->n_leaves + client;
    times[node] = time;
    for (; node > 1; node /= 2) {
        int64_t other = times[node ^ 1];
        /* All ones where the other is first: as good as random, so no branch. */
        int64_t is_other = -(int64_t)(other < time + (node & 1));
        time = other < time ? other : time;
        client ^= (client ^ clients[node ^ 1]) & is_other;
        times[node / 2] = time;
        clients[node / 2] = client;
    }
}

/* Begin with no arrivals. */
INLINE void clear_tree(Step *step) {
    for (int64_t i = 0; i < 2 * step->n_leaves; i++) {
        step->tree_times[i] = NEVER;
        step->tree_clients[i] = i - step->n_leaves;
    }
}

/* Whether there is memory for `n` more packets that wait. */
INLINE int has_room(const Monitor *monitor, uint64_t n) {
    return monitor->n_pushed - monitor->n_popped + n <= monitor->n_ring;
}

/* Serve packets at the switch, note what is seen there, and count them in their groups.
   Return how many groups are complete by them. */
int64_t serve_batch(Step *step, Batch *batch);

#endif

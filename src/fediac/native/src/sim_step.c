/* Steps with unbounded memory: packets wait in the switch, so nothing that comes down
   holds back what goes up, and the answers can be timed afterwards. */

#include "sim_step.h"

/* The lengths of all structures, for Python to compare with its own. */
EXPORT void fediac_sim_layout(size_t *lengths) {
    const size_t found[] = {sizeof(Draws),  sizeof(Server), sizeof(Uplink),
                            sizeof(Downlink), sizeof(Exchange), sizeof(Flow),
                            sizeof(Client), sizeof(Monitor), sizeof(Step)};
    memcpy(lengths, found, sizeof found);
}

/* The arrival after the one known, or NEVER. */
INLINE int64_t look_ahead(Client *client) {
    if (!client->n_left) return NEVER;
    client->n_left--;
    return next_arrival(&client->uplink);
}

/* Find every client's first two arrivals. */
EXPORT void fediac_open_step(Step *step) {
    clear_tree(step);
    for (int64_t i = 0; i < step->n_clients; i++) {
        Client *client = &step->clients[i];
        set_head(step, i, look_ahead(client));
        client->upcoming = look_ahead(client);
    }
}

/* Serve at most `n_packets` in the order of their arrival; return how many. It stops
   early when all are served, or when there is no room for one more that waits. */
EXPORT int64_t fediac_serve_step(Step *step, int64_t n_packets) {
    int64_t n_served = 0;
    Batch batch;
    while (n_served < n_packets && has_room(&step->monitor, N_BATCH)) {
        int64_t n_wanted = n_packets - n_served;
        n_wanted = n_wanted < N_BATCH ? n_wanted : N_BATCH;
        for (batch.n = 0; batch.n < n_wanted; batch.n++) {
            int64_t number = step->tree_clients[1];
            Client *client = &step->clients[number];
            if (step->tree_times[1] >= NEVER) break;
            batch.client[batch.n] = number;
            batch.arrival[batch.n] = step->tree_times[1];
            set_head(step, number, client->upcoming);
            client->upcoming = look_ahead(client);
        }
        if (!batch.n) break;
        serve_batch(step, &batch);
        n_served += batch.n;
    }
    return n_served;
}

/* Let a client get `n` packets, given when each was ready to be sent. */
EXPORT void fediac_receive(Downlink *downlink, const int64_t *ready, size_t n) {
    for (size_t i = 0; i < n; i++) receive(downlink, ready[i]);
}

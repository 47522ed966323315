/* Steps with bounded memory: a client sends a packet only when it has the answers that
   free its slot, so what comes down clocks what goes up. */

#include "sim_step.h"

/* How many answers of its exchange a client must have before its next packet. */
INLINE int64_t n_needed(const Client *client) {
    const Flow *flow = client->flow;
    if (flow->needs) return flow->needs[client->number];
    if (!flow->window) return 0;
    int64_t n = client->number - flow->window + 1;
    return n > 0 ? n : 0;
}

/* Let a client send its next packet, or wait for an answer, or stop. */
static void go_on(Step *step, int64_t number) {
    Client *client = &step->clients[number];
    client->n_needed = 0;
    if (!client->flow->n_packets) {
        set_head(step, number, NEVER);
        return;
    }
    const Exchange *exchange = &step->exchanges[client->flow->exchange];
    int64_t n = n_needed(client);
    if (n > exchange->n_answered) {
        client->n_needed = n;
        set_head(step, number, NEVER);
        return;
    }
    int64_t from = client->last_arrival;
    if (n) {
        int64_t place = number * exchange->n_ring + (n - 1) % exchange->n_ring;
        int64_t received = exchange->received[place];
        if (received > from) {
            restart(&client->uplink, received);
            from = received;
        }
    }
    int64_t arrival = next_arrival(&client->uplink);
    client->sending_ps += arrival - from;
    set_head(step, number, arrival);
}

/* Send the answers of the next group down to all clients; let go who waits for them. */
static void answer_group(Step *step, int64_t number) {
    Exchange *exchange = &step->exchanges[number];
    int64_t group = exchange->n_answered++;
    int is_last = exchange->n_answered == exchange->n_groups;
    int64_t n_packets = is_last ? exchange->n_last : exchange->n_parts;
    for (int64_t i = 0; i < step->n_clients; i++) {
        for (int64_t j = 0; j < n_packets; j++)
            exchange->finish[i] = receive(&step->downlinks[i], exchange->done[group]);
        if (exchange->n_ring)
            exchange->received[i * exchange->n_ring + group % exchange->n_ring] =
                exchange->finish[i];
        Client *client = &step->clients[i];
        if (client->n_needed && client->flow->exchange == number &&
            client->n_needed == exchange->n_answered)
            go_on(step, i);
    }
}

/* Send down what the far server has ready before `now`, or at that time in an exchange
   before `number`, the earliest first. */
static void answer_far(Step *step, int64_t now, int64_t number) {
    for (;;) {
        int64_t earliest = -1, ready = NEVER;
        for (int64_t i = 0; i < step->n_exchanges; i++) {
            const Exchange *far = &step->exchanges[i];
            int64_t group = far->n_answered;
            if (!far->is_far || group == far->n_groups || far->left[group]) continue;
            if (far->done[group] < ready && far->done[group] < now + (i < number)) {
                earliest = i;
                ready = far->done[group];
            }
        }
        if (earliest < 0) return;
        answer_group(step, earliest);
    }
}

EXPORT void fediac_open_bounded_step(Step *step) {
    clear_tree(step);
    for (int64_t i = 0; i < step->n_clients; i++) go_on(step, i);
}

/* The same as fediac_serve_step. When it has served everything, all clients have all
   answers; when it stops before, without being out of room, they wait forever. */
EXPORT int64_t fediac_serve_bounded_step(Step *step, int64_t n_packets) {
    int64_t n_served = 0;
    Batch batch = {.n = 1};
    for (; n_served < n_packets; n_served++) {
        int64_t number = step->tree_clients[1];
        if (step->tree_times[1] >= NEVER || !has_room(&step->monitor, 1)) break;
        int64_t exchange = step->clients[number].flow->exchange;
        batch.client[0] = number;
        batch.arrival[0] = step->tree_times[1];
        int64_t n_closed = serve_batch(step, &batch);
        if (n_closed && !step->exchanges[exchange].is_far) {
            answer_far(step, step->last_departure, exchange);
            for (int64_t i = 0; i < n_closed; i++) answer_group(step, exchange);
        }
        go_on(step, number);
    }
    if (step->tree_times[1] >= NEVER) answer_far(step, NEVER, 0);
    return n_served;
}

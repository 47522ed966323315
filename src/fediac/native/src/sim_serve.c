/* The switch: packets are served, watched and counted in their groups. */

#include "sim_step.h"

INLINE int64_t max_int64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void fold_sums(int64_t *bins, int64_t n_bins) {
    for (int64_t i = 0; i < n_bins / 2; i++) bins[i] = bins[2 * i] + bins[2 * i + 1];
    memset(bins + n_bins / 2, 0, (size_t)(n_bins / 2) * sizeof *bins);
}

static void fold_maxima(int64_t *bins, int64_t n_bins) {
    for (int64_t i = 0; i < n_bins / 2; i++)
        bins[i] = max_int64(bins[2 * i], bins[2 * i + 1]);
    memset(bins + n_bins / 2, 0, (size_t)(n_bins / 2) * sizeof *bins);
}

/* Make bins wide enough for `time`: each twice as wide, until the last reaches it. */
static void reach(Monitor *monitor, int64_t time) {
    while (time >> monitor->shift >= monitor->n_bins) {
        fold_sums(monitor->n_arrivals, monitor->n_bins);
        fold_sums(monitor->n_starts, monitor->n_bins);
        fold_sums(monitor->busy_ps, monitor->n_bins);
        fold_maxima(monitor->most_waiting, monitor->n_bins);
        fold_maxima(monitor->most_open, monitor->n_bins);
        monitor->open_bin /= 2;
        monitor->shift++;
    }
}

static void watch_waiting(Monitor *monitor, int64_t arrival, int64_t start) {
    uint64_t mask = monitor->n_ring - 1;
    int64_t bin = arrival >> monitor->shift;
    while (monitor->n_popped < monitor->n_pushed &&
           monitor->starts[monitor->n_popped & mask] <= arrival)
        monitor->n_popped++;
    if (start > arrival) monitor->starts[monitor->n_pushed++ & mask] = start;
    int64_t n_waiting = (int64_t)(monitor->n_pushed - monitor->n_popped);
    monitor->n_arrivals[bin]++;
    monitor->n_starts[start >> monitor->shift]++;
    monitor->most_waiting[bin] = max_int64(monitor->most_waiting[bin], n_waiting);
    monitor->max_waiting = max_int64(monitor->max_waiting, n_waiting);
}

static void watch_service(Monitor *monitor, int64_t start, int64_t departure) {
    int64_t last = departure >> monitor->shift;
    for (int64_t bin = start >> monitor->shift; bin < last; bin++) {
        int64_t edge = (bin + 1) << monitor->shift;
        monitor->busy_ps[bin] += edge - start;
        start = edge;
    }
    monitor->busy_ps[last] += departure - start;
}

/* Note packets in their bins; at once, where they share one and nobody waited. */
static void watch(Monitor *monitor, const Batch *batch, int64_t busy_ps, int waited) {
    int64_t last = batch->departure[batch->n - 1] >> monitor->shift;
    if (batch->arrival[0] >> monitor->shift == last && !waited) {
        monitor->n_popped = monitor->n_pushed;
        monitor->n_arrivals[last] += batch->n;
        monitor->n_starts[last] += batch->n;
        monitor->busy_ps[last] += busy_ps;
        return;
    }
    for (int64_t i = 0; i < batch->n; i++) {
        watch_waiting(monitor, batch->arrival[i], batch->start[i]);
        watch_service(monitor, batch->start[i], batch->departure[i]);
    }
}

/* Slots opened and freed by a packet that leaves now. */
INLINE void watch_slots(Monitor *monitor, int64_t departure, int64_t n_opened,
                        int64_t n_freed) {
    int64_t bin = departure >> monitor->shift;
    while (monitor->open_bin < bin)
        monitor->most_open[++monitor->open_bin] = monitor->n_open;
    monitor->n_open += n_opened;
    monitor->most_open[bin] = max_int64(monitor->most_open[bin], monitor->n_open);
    monitor->max_open = max_int64(monitor->max_open, monitor->n_open);
    monitor->n_open -= n_freed;
}

/* Count the groups of a packet with `ends`; a slot is used from a group's own first
   packet on. Return how many groups are complete, and how many slots that frees. */
INLINE int64_t count_ends(Exchange *exchange, const Flow *flow, int64_t packet,
                          int64_t done, int64_t *n_opened, int64_t *n_freed) {
    int64_t own = flow->owns[packet], n_closed = 0;
    if (own >= 0 && !exchange->is_open[own]) {
        exchange->is_open[own] = 1;
        *n_opened = 1;
    }
    for (int64_t group = packet ? flow->ends[packet - 1] : 0;
         group < flow->ends[packet]; group++) {
        exchange->done[group] = done;
        if (--exchange->left[group]) continue;
        n_closed++;
        *n_freed += exchange->is_open[group];
    }
    return n_closed;
}

/* Count a packet in its groups; return how many are complete by it. */
INLINE int64_t count(Step *step, Monitor *monitor, Client *client, int64_t departure) {
    const Flow *flow = client->flow;
    Exchange *exchange = &step->exchanges[flow->exchange];
    int64_t n_opened = 0, n_closed = 0, n_freed = 0, done = departure;
    if (exchange->is_far) {
        int64_t start;
        done = serve(&step->far_server, departure + step->far_delay_ps, &start);
        done += step->far_delay_ps;
    }
    if (exchange->rule == ENDS) {
        n_closed = count_ends(exchange, flow, client->number, done, &n_opened, &n_freed);
    } else {
        int64_t group = exchange->rule == ONE ? 0 : client->number;
        group = group < exchange->n_groups ? group : exchange->n_groups - 1;
        /* Every client walks through the groups at its own pace: too many walks for
           the processor to foresee. A prefetch may point past the end. */
        __builtin_prefetch(exchange->done + group + AHEAD, 1);
        __builtin_prefetch(exchange->left + group + AHEAD, 1);
        n_opened = exchange->done[group] < 0;
        exchange->done[group] = done;
        n_freed = n_closed = --exchange->left[group] == 0;
    }
    if (!exchange->is_far) watch_slots(monitor, departure, n_opened, n_freed);
    if (++client->number == flow->n_packets) {
        client->flow++;
        client->number = 0;
    }
    return n_closed;
}

static void log_packet(Step *step, const Batch *batch, int64_t i) {
    const Client *client = &step->clients[batch->client[i]];
    int64_t row[] = {batch->client[i],  client->flow->exchange, client->number,
                     batch->arrival[i], batch->start[i],        batch->departure[i]};
    memcpy(step->log + 6 * step->n_logged++, row, sizeof row);
}

int64_t serve_batch(Step *step, Batch *batch) {
    uint64_t waits_before = step->server.wait_low;
    int64_t busy_before = step->server.busy_ps, n_closed = 0;
    for (int64_t i = 0; i < batch->n; i++)
        batch->departure[i] = serve(&step->server, batch->arrival[i], &batch->start[i]);
    step->last_departure = batch->departure[batch->n - 1];
    reach(&step->monitor, step->last_departure);
    watch(&step->monitor, batch, step->server.busy_ps - busy_before,
          step->server.wait_low != waits_before);
    Monitor monitor = step->monitor; /* a copy that no pointer reaches */
    for (int64_t i = 0; i < batch->n; i++) {
        Client *client = &step->clients[batch->client[i]];
        if (step->log) log_packet(step, batch, i);
        client->last_arrival = batch->arrival[i];
        n_closed += count(step, &monitor, client, batch->departure[i]);
    }
    step->monitor = monitor;
    return n_closed;
}

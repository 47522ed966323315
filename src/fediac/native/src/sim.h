/* The queueing simulator, fediac.sim: random numbers, links and servers.

   Times are picoseconds since the round began. A place on an uplink is the number of
   packets that its rate has allowed so far, in units of 2^-32 packets, so that sums
   are exact. Python mirrors the structures in queueing.py. */

#ifndef FEDIAC_SIM_H
#define FEDIAC_SIM_H

#include "philox.h"

#define PS_PER_S 1000000000000ll
#define NEVER (INT64_MAX / 2)

enum { N_DRAWS = 256 }; /* random numbers made at a time; a multiple of 32 */

/* Numbers drawn from a stream in order: service times in picoseconds where there is a
   table (fediac.sim.service), else exponentials in 2^-32 (fediac.sim.draws). */
typedef struct {
    const int64_t *table;
    uint64_t next, place;
    fediac_stream stream;
    uint32_t unused;
    int64_t values[N_DRAWS];
} Draws;

void refill(Draws *draws);

INLINE int64_t draw(Draws *draws) {
    if (draws->place == N_DRAWS) refill(draws);
    return draws->values[draws->place++];
}

/* A server that takes packets first come, first served. */
typedef struct {
    Draws services;
    int64_t free_at, busy_ps, n_served, max_wait;
    uint64_t wait_low, wait_high; /* the sum of all waits, 128 bits */
} Server;

/* Lindley's recursion: return when a packet that arrives now will leave. */
INLINE int64_t serve(Server *server, int64_t arrival, int64_t *start) {
    int64_t service = draw(&server->services);
    *start = arrival > server->free_at ? arrival : server->free_at;
    int64_t wait = *start - arrival;
    server->busy_ps += service;
    server->n_served++;
    server->max_wait = wait > server->max_wait ? wait : server->max_wait;
    server->wait_high +=
        __builtin_add_overflow(server->wait_low, (uint64_t)wait, &server->wait_low);
    return server->free_at = *start + service;
}

/* fediac.sim.rates.Uplink, and where a client is on it. */
typedef struct {
    const int64_t *totals; /* packets allowed before each second of the trace */
    const double *ps_per_unit, *units_per_ps; /* in each second; 0 if it is silent */
    int64_t n_seconds;
    int64_t second, lap_ps, position; /* in the current lap, which began at lap_ps */
    int64_t floor_ps;                 /* nothing is sent before */
    Draws gaps;
} Uplink;

INLINE void next_second(Uplink *uplink) {
    if (++uplink->second < uplink->n_seconds) return;
    uplink->second = 0;
    uplink->position -= uplink->totals[uplink->n_seconds];
    uplink->lap_ps += uplink->n_seconds * PS_PER_S;
}

/* When the next packet arrives at the switch. */
INLINE int64_t next_arrival(Uplink *uplink) {
    uplink->position += draw(&uplink->gaps);
    while (uplink->position >= uplink->totals[uplink->second + 1]) next_second(uplink);
    int64_t inside = uplink->position - uplink->totals[uplink->second];
    double ps = (double)inside * uplink->ps_per_unit[uplink->second];
    int64_t time = uplink->lap_ps + uplink->second * PS_PER_S + (int64_t)ps;
    return time > uplink->floor_ps ? time : uplink->floor_ps;
}

/* Begin again at `now`, which is not before the last arrival. */
INLINE void restart(Uplink *uplink, int64_t now) {
    while (now - uplink->lap_ps >= (uplink->second + 1) * PS_PER_S) next_second(uplink);
    int64_t inside = now - uplink->lap_ps - uplink->second * PS_PER_S;
    double units = (double)inside * uplink->units_per_ps[uplink->second];
    uplink->position = uplink->totals[uplink->second] + (int64_t)units;
    uplink->floor_ps = now;
}

/* One client's way down: packets arrive one after another, then are served. */
typedef struct {
    Draws gaps;
    double ps_per_unit;
    int64_t arrival, link_ps; /* when the last one arrived; all gaps together */
    Server server;
} Downlink;

/* Return when the client has got what was ready to be sent at `ready`. */
INLINE int64_t receive(Downlink *downlink, int64_t ready) {
    int64_t gap = (int64_t)((double)draw(&downlink->gaps) * downlink->ps_per_unit);
    int64_t from = ready > downlink->arrival ? ready : downlink->arrival;
    int64_t start;
    downlink->arrival = from + gap;
    downlink->link_ps += gap;
    return serve(&downlink->server, downlink->arrival, &start);
}

#endif

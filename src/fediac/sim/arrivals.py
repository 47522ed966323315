"""When a client's packets arrive at the switch: a Poisson process on its trace.

Sums of unit exponentials are places on the clock of `fediac.sim.rates`; the table turns
them into times. A packet is where the rate has allowed one more.
"""

import numpy as np

from fediac.sim.clock import PS_PER_S
from fediac.sim.draws import Draws, Ints
from fediac.sim.rates import Uplink


class Sender:
    """A client on its uplink.

    Times are picoseconds since the round began. A lap is one pass through the trace.

    Args:
        uplink: Its trace.
        gaps: Exponentials, one a packet.
        origin_ps: How far into its trace every client is when the round begins.
        start_ps: When the client begins to send.
    """

    def __init__(
        self, uplink: Uplink, gaps: Draws, *, origin_ps: int, start_ps: int
    ) -> None:
        self.rates = uplink.rates
        self.gaps = gaps
        self.lap_length_ps = self.rates.n_seconds * PS_PER_S
        into_trace = origin_ps + int(uplink.offset_s) * PS_PER_S
        self.lap_ps = -(into_trace % self.lap_length_ps)
        self.second = self.position = 0
        self.floor_ps = 0
        self.restart(start_ps)

    def restart(self, now_ps: int) -> None:
        """Start again at ``now_ps``, which must not be before the last arrival."""
        n_laps, inside = divmod(now_ps - self.lap_ps, self.lap_length_ps)
        self.lap_ps += n_laps * self.lap_length_ps
        self.second, inside = divmod(inside, PS_PER_S)
        units = int(float(inside) * float(self.rates.units_per_ps[self.second]))
        self.position = int(self.rates.totals[self.second]) + units
        self.floor_ps = now_ps

    def arrivals(self, n_packets: int) -> Ints:
        """Return when the next packets arrive."""
        rates = self.rates
        places = self.position + np.cumsum(self.gaps.take(n_packets))
        n_laps, inside = np.divmod(places, rates.totals[-1])
        seconds = np.searchsorted(rates.totals, inside, side="right") - 1
        left = (inside - rates.totals[seconds]).astype(np.float64)
        times = (
            self.lap_ps
            + n_laps * self.lap_length_ps
            + seconds * PS_PER_S
            + (left * rates.ps_per_unit[seconds]).astype(np.int64)
        )
        self.lap_ps += int(n_laps[-1]) * self.lap_length_ps
        self.position = int(inside[-1])
        self.second = int(seconds[-1])
        return np.maximum(times, self.floor_ps)

    def next_arrival(self) -> int:
        """Return when the next packet arrives."""
        totals = self.rates.totals
        n_laps, self.position = divmod(self.position + self.gaps.one(), int(totals[-1]))
        self.lap_ps += n_laps * self.lap_length_ps
        self.second = int(np.searchsorted(totals, self.position, side="right")) - 1
        left = float(self.position - int(totals[self.second]))
        inside = int(left * float(self.rates.ps_per_unit[self.second]))
        return max(self.lap_ps + self.second * PS_PER_S + inside, self.floor_ps)

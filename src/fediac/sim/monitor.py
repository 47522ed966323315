"""What happens at the switch over time, in a bounded number of bins.

A bin is 2**shift picoseconds wide. When time runs past the last bin, neighbours are
folded together, so a round of any length ends with between half and all of the bins in
use, and the result depends on nothing but the packets.
"""

import numpy as np

from fediac.sim.draws import Ints

N_BINS = 1024
FIRST_SHIFT = 20
"""Bins begin 2**20 picoseconds wide, about a microsecond."""


class Monitor:
    """Counts in bins of time; the C kernels write to the same arrays.

    Attributes:
        n_arrivals: Packets that came in each bin.
        n_starts: Packets whose service began in it.
        busy_ps: Time that the switch worked in it.
        most_waiting: The most packets in the queue, as arriving packets saw it.
        most_open: The most slots in use.
        pending: When the packets that wait now will be served.
        open_bin: The bin of the last packet that left.
    """

    def __init__(self) -> None:
        self.shift = FIRST_SHIFT
        self.n_arrivals = np.zeros(N_BINS, np.int64)
        self.n_starts = np.zeros(N_BINS, np.int64)
        self.busy_ps = np.zeros(N_BINS, np.int64)
        self.most_waiting = np.zeros(N_BINS, np.int64)
        self.most_open = np.zeros(N_BINS, np.int64)
        self.pending = np.zeros(0, np.int64)
        self.max_waiting = self.max_open = 0
        self.n_open = self.open_bin = 0

    def watch(self, arrivals: Ints, starts: Ints, departures: Ints) -> None:
        """Record packets in the order in which they were served."""
        self._reach(int(departures[-1]))
        bins = arrivals >> self.shift
        self.n_arrivals += np.bincount(bins, minlength=N_BINS)
        self.n_starts += np.bincount(starts >> self.shift, minlength=N_BINS)
        self._watch_waiting(arrivals, starts, bins)
        self._watch_service(starts, departures)

    def watch_slots(self, departures: Ints, opened: Ints, closed: Ints) -> None:
        """Record how many slots each packet opened and closed when it left."""
        closed_before = np.cumsum(closed) - closed
        n_open = self.n_open + np.cumsum(opened) - closed_before
        left_open = n_open - closed
        bins = departures >> self.shift
        self._carry(bins, left_open)
        np.maximum.at(self.most_open, bins, n_open)
        self.max_open = max(self.max_open, int(n_open.max()))
        self.n_open = int(left_open[-1])

    def waiting(self) -> Ints:
        """Return the most packets in the queue in each bin.

        That is what the last bin left, or what an arriving packet saw.
        """
        left = np.cumsum(self.n_arrivals - self.n_starts)
        before = np.concatenate([np.zeros(1, np.int64), left[:-1]])
        waiting: Ints = np.maximum(before, self.most_waiting)
        return waiting

    def _watch_waiting(self, arrivals: Ints, starts: Ints, bins: Ints) -> None:
        every = np.concatenate([self.pending, starts])
        n_so_far = len(self.pending) + np.arange(1, len(arrivals) + 1)
        n_waiting = n_so_far - np.searchsorted(every, arrivals, side="right")
        np.maximum.at(self.most_waiting, bins, n_waiting)
        self.max_waiting = max(self.max_waiting, int(n_waiting.max()))
        self.pending = every[every > arrivals[-1]]

    def _watch_service(self, starts: Ints, departures: Ints) -> None:
        first, last = starts >> self.shift, departures >> self.shift
        is_inside = first == last
        inside = (departures - starts)[is_inside]
        np.add.at(self.busy_ps, first[is_inside], inside)
        # One server crosses each edge once, so there are few of these.
        for place in np.flatnonzero(~is_inside):
            start, departure = int(starts[place]), int(departures[place])
            for number in range(int(first[place]), int(last[place]) + 1):
                edge = min((number + 1) << self.shift, departure)
                self.busy_ps[number] += edge - start
                start = edge

    def _carry(self, bins: Ints, left_open: Ints) -> None:
        """Fill the bins up to each packet's with the slots that were open before."""
        edges = np.concatenate([np.array([self.open_bin]), bins])
        states = np.concatenate([np.array([self.n_open]), left_open])
        for place in np.flatnonzero(np.diff(edges)):
            passed = slice(int(edges[place]) + 1, int(edges[place + 1]) + 1)
            self.most_open[passed] = states[place]
        self.open_bin = int(edges[-1])

    def _reach(self, time: int) -> None:
        """Make bins wide enough for ``time``."""
        while time >> self.shift >= N_BINS:
            for sums in (self.n_arrivals, self.n_starts, self.busy_ps):
                _fold(sums, sums[::2] + sums[1::2])
            for maxima in (self.most_waiting, self.most_open):
                _fold(maxima, np.maximum(maxima[::2], maxima[1::2]))
            self.open_bin //= 2
            self.shift += 1


def _fold(out: Ints, folded: Ints) -> None:
    out[: len(folded)] = folded
    out[len(folded) :] = 0

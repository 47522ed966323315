"""Peak memory of a large round: how much beyond inputs, outputs and what is sent.

    python benchmarks/memory.py [DIM] [CLIENTS]

The default is 200,000,000 entries and 4 clients: 3.2 GB of updates, as much of
residuals (reused in place), one mean.
"""

import resource
import sys
import threading
import time

import numpy as np
import numpy.typing as npt

import fediac

MIB = 2**20


def resident_mib() -> float:
    """Return the memory this process holds now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / MIB


def make_update(dim: int, client: int) -> npt.NDArray[np.float32]:
    """Return an update with power-law magnitudes, without temporaries of its size.

    Clients agree on the magnitudes and differ in the signs.
    """
    update = np.random.default_rng(0).random(dim, dtype=np.float32)
    np.maximum(update, np.float32(0.5 / dim), out=update)
    # The entry of rank l is near l / dim.
    np.power(update, np.float32(-0.37), out=update)
    update[client::2] *= -1.0
    return update


class Watch:
    """Samples resident memory until stopped."""

    def __init__(self) -> None:
        self.peak_mib = 0.0
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def _sample(self) -> None:
        while not self._is_done.wait(0.005):
            self.peak_mib = max(self.peak_mib, resident_mib())

    def stop(self) -> float:
        self._is_done.set()
        self._thread.join()
        return self.peak_mib


def main(dim: int, n_clients: int) -> None:
    """Run one round in place and print where the memory went."""
    updates = [make_update(dim, client) for client in range(n_clients)]
    # Written to, since pages that are not yet there would count as overhead.
    states = [fediac.State(np.full(dim, 0.0, dtype=np.float32)) for _ in updates]
    compressor = fediac.FediAC(
        n_clients, n_votes=dim // 20, threshold=max(1, n_clients * 15 // 100), bits=12
    )
    before = resident_mib()
    watch = Watch()
    start = time.perf_counter()
    result = fediac.aggregate(
        updates, compressor, seed=1, round_number=1, states=states, out=states
    )
    seconds = time.perf_counter() - start
    peak = watch.stop()
    chosen = result.facts.chosen
    mean_mib = dim * 4 / MIB
    packed_mib = n_clients * (dim / 8 + chosen * 12 / 8) / MIB
    print(f"entries          {dim:,}, {n_clients} clients, {chosen:,} chosen")
    print(f"seconds          {seconds:.2f}")
    print(f"before the round {before:,.0f} MiB (updates, residuals, libraries)")
    print(f"peak             {peak:,.0f} MiB")
    print(f"mean (output)    {mean_mib:,.0f} MiB")
    print(f"votes and levels {packed_mib:,.0f} MiB, packed")
    print(f"beyond these     {peak - before - mean_mib - packed_mib:,.0f} MiB")


if __name__ == "__main__":
    arguments = [int(float(each)) for each in sys.argv[1:3]]
    main(*(arguments + [200_000_000, 4][len(arguments) :]))

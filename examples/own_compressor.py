"""A seventh algorithm in one file: random-k, the same random entries on every client.

Clients need no vote to agree on entries when a shared random number picks them. That
costs nothing to agree on, and ignores which entries matter: compare the error with
FediAC's at the same number of entries.

    python examples/own_compressor.py

The commands take it by name, because it can be made from the number of clients alone:

    fediac run examples/digits.toml --set algorithm=examples.own_compressor:RandomK
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

import fediac
from fediac.extend import (
    AsksSum,
    Conditions,
    Corrected,
    ErrorFeedback,
    Expected,
    Max,
    Round,
    State,
    Stream,
    Sum,
    Update,
    add_levels,
    count_bits,
    pack_bits,
    scale_to_peak,
    to_unit,
    unsent,
)

EVERY_CLIENT = 2**32 - 1


@dataclass(frozen=True, slots=True)
class RandomK(ErrorFeedback):
    """About ``share`` of the entries, picked anew each round, equal on all clients."""

    share: float = 0.05
    bits: int = 12

    def compress(
        self, corrected: Corrected, state: State, stream: Stream, kept: Update | None
    ) -> Round:
        """Yield a maximum and a sum; return the mean update."""
        shared = replace(stream, client=EVERY_CLIENT).purpose("random-k")
        words = shared.words(0, corrected.values.shape[0], like=corrected.values)
        picked = pack_bits(to_unit(words) < self.share)
        n_picked = count_bits(picked)
        peak, grid = yield from scale_to_peak(
            corrected, bits=self.bits, n_clients=self.n_clients
        )
        if grid is None or not n_picked:
            return unsent(corrected, state, n_votes=n_picked, bits=self.bits, peak=peak)
        added = yield from add_levels(corrected, picked, grid, stream, kept=kept)
        return added.outcome(state, peak=peak)

    def asks(self) -> Iterator[AsksSum]:
        """Yield what needs room in a switch, so that one without it is refused."""
        yield AsksSum(((self.bits, self.bits),))

    def expect(self, conditions: Conditions) -> Iterator[tuple[Expected, ...]]:
        """Yield the exchanges of a round, so that ``fediac simulate`` can time it."""
        n_picked = round(self.share * conditions.dim)
        yield (Expected(Max),)
        yield (Expected(Sum, n_picked, n_picked, bits=self.bits),)


def main() -> None:
    """Compare random-k with FediAC on updates with power-law magnitudes."""
    n_clients, dim = 8, 200_000
    generator = np.random.default_rng(1)
    signal = generator.permutation(np.arange(1, dim + 1) ** -0.5)
    updates = [
        (signal * generator.standard_normal(dim)).astype(np.float32)
        for _ in range(n_clients)
    ]
    exact = np.mean(updates, axis=0)
    voted = fediac.FediAC(n_clients, threshold=2, bits=12)
    result = fediac.aggregate(updates, voted, seed=1, round_number=1)
    share = result.facts.chosen / dim
    blind = RandomK(n_clients, share)
    for name, compressor in (("fediac", voted), ("random-k", blind)):
        result = fediac.aggregate(updates, compressor, seed=1, round_number=1)
        error = np.linalg.norm(result.mean - exact) / np.linalg.norm(exact)
        mib = result.ledger.traffic().payload_mib
        print(f"{name:<9}{result.facts.chosen:>8,} entries {mib:6.2f} MiB  ", end="")
        print(f"relative error {error:.3f}")


if __name__ == "__main__":
    main()

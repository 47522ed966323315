"""A seventh algorithm in one file: random-k, the same random entries on every client.

Clients need no vote to agree on entries when a shared random number picks them. That
costs nothing to agree on, and ignores which entries matter: compare the error with
FediAC's at the same number of entries.

    python examples/own_compressor.py

The commands take it by name, because it can be made from the number of clients alone:

    fediac run examples/digits.toml --set algorithm=examples.own_compressor:RandomK
"""

from dataclasses import dataclass, replace

import numpy as np

import fediac
from fediac.extend import (
    MIN_PEAK,
    Facts,
    Grid,
    LaneMean,
    Max,
    Mean,
    Outcome,
    Peak,
    Round,
    State,
    Stream,
    Sum,
    Totals,
    Update,
    ask,
    begin,
    count_bits,
    float32_above,
    pack_bits,
    send_chosen,
    to_unit,
    unsent,
)

EVERY_CLIENT = 2**32 - 1


@dataclass(frozen=True, slots=True)
class RandomK:
    """About ``share`` of the entries, picked anew each round, equal on all clients."""

    n_clients: int
    share: float = 0.05
    bits: int = 12

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Yield a maximum and a sum; return the mean update."""
        corrected = begin(update, state, stream, keeps_residual=True, out=out)
        kept = corrected.values
        agreed: Peak = yield from ask(Max(float32_above(corrected.peak)))
        shared = replace(stream, client=EVERY_CLIENT).purpose("random-k")
        words = shared.words(0, update.shape[0], like=update)
        picked = pack_bits(to_unit(words) < self.share)
        n_picked = count_bits(picked)
        if agreed.peak < MIN_PEAK or not n_picked:
            return unsent(
                corrected,
                State(kept),
                n_votes=n_picked,
                bits=self.bits,
                peak=agreed.peak,
            )
        grid = Grid.of(peak=agreed.peak, bits=self.bits, n_clients=self.n_clients)
        sent = send_chosen(kept, picked, grid, stream.purpose("rounding"), out=kept)
        totals: Totals = yield from ask(
            Sum(sent.lanes, sent.n_levels, grid.bits_up, grid.bits_down, grid.limit)
        )
        facts = Facts(
            n_votes=n_picked,
            n_chosen=sent.n_levels,
            bits=grid.bits_down,
            peak=agreed.peak,
            scale=grid.scale,
            energy=corrected.energy,
            left_energy=corrected.energy - sent.chosen_energy + sent.left_energy,
        )
        mean = Mean((LaneMean(totals, grid.scale, picked),))
        return Outcome(mean, State(kept), facts)


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
    voted = fediac.FediAC(n_clients, n_votes=dim // 20, threshold=2, bits=12)
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

"""A round through any transport, and what every round must satisfy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fediac import WIRE, Ledger, State, Switch
from fediac.compressors import Compressor, Facts, Weighted
from fediac.compressors.forecast import AsksIndexedSum, asks_of
from fediac.core.ledger import Row
from fediac.core.rng import Stream
from fediac.switch import Counters
from fediac.transports.arrays import ArrayTransport
from fediac.transports.lockstep import run_lockstep
from fediac.transports.memory import MemoryTransport
from fediac.wire.header import PAYLOAD_BYTES
from tests.support import Make, bytes_of, to_numpy

SEED = 5


@dataclass(frozen=True)
class Result:
    """All there is to compare between two rounds.

    Attributes:
        n_ranges: In how many packets totals of an indexed sum are read.
    """

    means: dict[int, Any]
    states: list[State]
    ledger: Ledger
    counters: Counters
    facts: dict[int, Facts]
    n_ranges: int

    @property
    def mean(self) -> Any:
        return next(iter(self.means.values()))

    def fingerprint(self) -> dict[str, Any]:
        """Everything, as values that compare bit by bit."""
        return {
            "means": {i: bytes_of(mean) for i, mean in self.means.items()},
            "residuals": [residual_bytes(state) for state in self.states],
            "widths": [state.bits for state in self.states],
            "rows": [row_values(row) for row in self.ledger.rows],
            "aggregations": self.counters.aggregations,
            "register_bytes": self.counters.register_bytes,
            "packets": (self.counters.packets_in, self.counters.packets_out),
            "facts": self.facts,
        }


def residual_bytes(state: State) -> bytes | None:
    return None if state.residual is None else bytes_of(state.residual)


def row_values(row: Row) -> tuple[Any, ...]:
    names = [name for name in Row.__slots__ if name != "blocks"]
    blocks = None if row.blocks is None else to_numpy(row.blocks).tolist()
    return (*(getattr(row, name) for name in names), blocks)


def run_round(
    updates: Sequence[Any],
    compressor: Compressor,
    *,
    transport: str = "packets",
    round_number: int = 1,
    states: Sequence[State] | None = None,
    out: Sequence[State] | None = None,
    weights: Sequence[int] | None = None,
) -> Result:
    """Run one round the way ``transport`` says; every client reads its own mean."""
    before = [State()] * len(updates) if states is None else list(states)
    present = {i: each for i, each in enumerate(updates) if each is not None}
    switch = Switch()
    job = switch.open(len(updates), present=sum(1 << client for client in present))
    carrier = (
        ArrayTransport(job) if transport == "arrays" else MemoryTransport(switch, job)
    )
    every = {
        i: compressor if weights is None else Weighted(compressor, weights[i])
        for i in present
    }
    clients = {
        i: every[i].run_round(
            update,
            before[i],
            Stream(SEED, round_number, i),
            out=None if out is None else out[i].residual,
        )
        for i, update in present.items()
    }
    outcomes, ledger = run_lockstep(clients, carrier, round_number=round_number)
    for i, outcome in outcomes.items():
        before[i] = outcome.state
    return Result(
        means={i: each.mean.dense(present[i]) for i, each in outcomes.items()},
        states=before,
        ledger=ledger,
        counters=carrier.counters,
        facts={i: each.facts for i, each in outcomes.items()},
        n_ranges=sum(
            -(-asked.size // (8 * PAYLOAD_BYTES // asked.pair_bits))
            for asked in asks_of(compressor)
            if isinstance(asked, AsksIndexedSum)
        ),
    )


def make_updates(
    n_clients: int, dim: int, make: Make, dtype: Any, *, seed: int = 0
) -> list[Any]:
    """Updates that agree in part, with magnitudes over a few powers of two."""
    rng = np.random.default_rng([n_clients, dim, seed])
    sizes = np.exp2(-8.0 * rng.random(dim))
    common = rng.standard_normal(dim)
    return [
        make((sizes * (common + rng.standard_normal(dim))).astype(dtype))
        for _ in range(n_clients)
    ]


def check_balance(
    updates: Sequence[Any], before: Sequence[State], result: Result
) -> None:
    """Assert that the mean and the residuals hold all that the clients had.

    With u half the machine epsilon of the dtype, sums run in float64: the mean is
    rounded once, by u·|mean|, each U = update + residual once, by u·|U|, and each
    residual once, by u·|residual|. Doubled, that leaves room for float64's own
    rounding in the dtype's place.
    """
    present = sorted(result.means)
    dtype = to_numpy(result.mean).dtype
    size, balance = np.zeros(result.mean.shape[0]), np.zeros(result.mean.shape[0])
    for i in present:
        update = to_numpy(updates[i]).astype(np.float64)
        old, new = (_dense(each, update) for each in (before[i], result.states[i]))
        balance += update + old - new
        size += np.abs(update + old) + np.abs(new)
    mean = to_numpy(result.mean).astype(np.float64)
    size += len(present) * np.abs(mean)
    error = np.abs(balance - len(present) * mean)
    assert np.all(error <= np.finfo(dtype).eps * size)


def _dense(state: State, like: NDArray[Any]) -> NDArray[Any]:
    if state.residual is None:
        return np.zeros_like(like)
    return to_numpy(state.residual).astype(np.float64)


def check_packet_counts(result: Result) -> None:
    """Assert that the switch saw the packets that the ledger bills on the wire.

    It does not bill requests for ranges of an indexed sum, and packs the totals of all
    of them into as few packets as there can be.
    """
    bill = result.ledger.select(destination="switch")
    up, down = (bill.select(direction=each) for each in ("up", "down"))
    indexed = down.select(phase="indexed")
    n_ranges = result.n_ranges if indexed.rows else 0
    n_in = up.traffic(WIRE).n_packets + max(0, n_ranges - 1)
    assert result.counters.packets_in == n_in
    n_out, n_indexed = (
        each.traffic(WIRE, is_multicast=True).n_packets for each in (down, indexed)
    )
    assert result.counters.packets_out == n_out - n_indexed + n_ranges
    assert result.counters.drops == {}

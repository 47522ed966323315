"""Weighted averaging: a client counts by its examples, not as one of many.

The paper averages clients alike. Here they first agree on the sum W of their weights,
whole numbers that the switch adds like any levels, and a client then sends its update
times w·N/W through the algorithm as it is. The mean of N such updates is Σ w·u / W,
whatever the algorithm does in between: it votes, rounds and keeps residuals of what the
client contributes. Clients of equal weight send their updates times exactly 1.

It costs one more exchange a round, of one packet each way: peaks and votes are those of
weighted updates, so the sum must be known before them.
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace, device

from fediac.compressors.feedback import ErrorFeedback
from fediac.compressors.forecast import Asks, AsksSum, Conditions, Expected
from fediac.compressors.protocol import Round, State, ask
from fediac.compressors.wrapper import Wrapper
from fediac.core.bitpack import pack_lanes, unpack_lanes
from fediac.core.exchange import Exchange, Sum, Totals
from fediac.core.integers import as_whole
from fediac.core.quantize import level_limit
from fediac.core.rng import Stream
from fediac.core.types import Update
from fediac.errors import ArgumentError

WEIGHT_BITS = 32
"""Width of the sum of all clients' weights."""

WEIGHTS_PHASE = "weights"


def check_weight(name: str, weight: object, *, n_clients: int) -> int:
    """Return a client's weight as a Python int, if so many clients' can be added.

    Args:
        name: What it is called in an error.
        weight: What was given.
        n_clients: Clients of the round.
    """
    number = as_whole(name, weight, at_least=1)
    most = level_limit(bits=WEIGHT_BITS, n_clients=n_clients)
    if number > most:
        raise ArgumentError(
            name,
            f"must be at most {most} ({n_clients} of them are added in {WEIGHT_BITS} "
            f"bits), got {number}",
        )
    return number


def weight_factors(weights: Mapping[int, int]) -> dict[int, float]:
    """Return what each client's update is multiplied by, its share times their number.

    Args:
        weights: Client -> its weight, of all that take part.
    """
    total = sum(weights.values())
    return {
        client: _factor(weight, total=total, n_clients=len(weights))
        for client, weight in weights.items()
    }


def agreed_factor(weight: int, totals: Totals, *, n_clients: int) -> float:
    """Return what a client's update is multiplied by, as the switch has answered.

    Args:
        weight: This client's.
        totals: The answer to what it asked first in its round.
        n_clients: Clients that its compressor was made for.
    """
    limit = level_limit(bits=WEIGHT_BITS, n_clients=n_clients)
    lane = int(unpack_lanes(totals.lanes, 1, totals.bits)[0])
    total = lane - totals.n_clients * limit
    return _factor(weight, total=total, n_clients=totals.n_clients)


def _factor(weight: int, *, total: int, n_clients: int) -> float:
    # Exact whole numbers, rounded once: equal weights give 1.
    return weight * n_clients / total


@dataclass(frozen=True, slots=True)
class Weighted(Wrapper):
    """An algorithm whose clients count by their weight.

    Attributes:
        inner: The algorithm inside.
        weight: This client's weight, such as how many examples it has.
    """

    weight: int = 1

    def __post_init__(self) -> None:
        check_weight("weight", self.weight, n_clients=self.n_clients)

    def asks(self) -> Iterator[Asks]:
        """Yield the sum of weights, then what the algorithm asks."""
        yield AsksSum(((WEIGHT_BITS, WEIGHT_BITS),))
        yield from Wrapper.asks(self)

    def expect(self, conditions: Conditions) -> Iterator[tuple[Expected, ...]]:
        """Yield the sum of weights, then what is expected of the algorithm."""
        yield (Expected(Sum, 1, 1, WEIGHT_BITS, name=WEIGHTS_PHASE),)
        yield from Wrapper.expect(self, conditions)

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Agree on the sum of weights, then run the round on the weighted update."""
        factor = yield from self._agree(update)
        weighted = update * factor
        if out is None and isinstance(self.inner, ErrorFeedback):
            # Update + residual may stand where the weighted update is, as that is ours.
            # A view: what is given as both is taken to need no writing.
            out = weighted[:]
        outcome = yield from self.inner.run_round(weighted, state, stream, out=out)
        return outcome

    def _agree(self, like: Update) -> Generator[tuple[Exchange, ...], Any, float]:
        """Ask for the sum of all clients' weights; return this one's factor."""
        xp = array_namespace(like)
        limit = level_limit(bits=WEIGHT_BITS, n_clients=self.n_clients)
        lane = xp.asarray([self.weight + limit], dtype=xp.int64, device=device(like))
        totals: Totals = yield from ask(
            Sum(
                pack_lanes(lane, WEIGHT_BITS),
                n_levels=1,
                bits_up=WEIGHT_BITS,
                bits_down=WEIGHT_BITS,
                limit=limit,
                phase=WEIGHTS_PHASE,
            )
        )
        return agreed_factor(self.weight, totals, n_clients=self.n_clients)

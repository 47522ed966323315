"""A wrapper around another algorithm: the usual way to change what clients send."""

from collections.abc import Iterator
from dataclasses import dataclass

from fediac.compressors.forecast import (
    Asks,
    Conditions,
    Expected,
    asks_of,
    check_dim,
    doubts_of,
    expect_of,
    measured_of,
)
from fediac.compressors.protocol import Compressor, Round, State
from fediac.core.rng import Stream
from fediac.core.types import Update


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A wrapper that asks and sends as much as ``inner``, and does nothing else itself.

    A ``run_round`` of its own runs ``inner.run_round`` with whatever it makes of the
    update, and may keep arrays in the state: ``inner`` passes on those that it does not
    know.

    Attributes:
        inner: The algorithm inside.
    """

    inner: Compressor

    @property
    def n_clients(self) -> int:
        """Clients of the round."""
        return self.inner.n_clients

    @property
    def measured(self) -> tuple[int, int] | None:
        """Payload of real rounds in percent of the expected one."""
        return measured_of(self.inner)

    def check_dim(self, dim: int) -> None:
        """Raise unless updates may have this many entries."""
        check_dim(self.inner, dim)

    def doubts(self, dim: int) -> Iterator[str]:
        """Yield what speaks against the settings in a model of so many entries."""
        yield from doubts_of(self.inner, dim)

    def asks(self) -> Iterator[Asks]:
        """Yield the exchanges that need room in a switch."""
        yield from asks_of(self.inner)

    def expect(self, conditions: Conditions) -> Iterator[tuple[Expected, ...]]:
        """Yield the exchanges that are expected in a round."""
        yield from expect_of(self.inner, conditions)

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Run the round of the inner algorithm."""
        return self.inner.run_round(update, state, stream, out=out)

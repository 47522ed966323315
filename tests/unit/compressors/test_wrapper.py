"""An algorithm around another one keeps its own arrays, and the inner one its own."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fediac import FediAC, State, aggregate
from fediac.compressors import Wrapper
from fediac.compressors.protocol import Round
from fediac.core.rng import Stream
from tests.support import bytes_of


@dataclass(frozen=True, slots=True)
class Counting(Wrapper):
    """Counts its rounds under a name of its own."""

    name: str = "rounds"

    def run_round(
        self, update: Any, state: State, stream: Stream, *, out: Any = None
    ) -> Round:
        count = state.extras.get(self.name, np.zeros(1)) + 1
        outcome = yield from self.inner.run_round(update, state, stream, out=out)
        return outcome.keeping(**{self.name: count})


def test_wrappers_nest_and_change_nothing_inside() -> None:
    updates = list(np.random.default_rng(1).standard_normal((3, 200)))
    inner = FediAC(3, n_votes="10%")
    outer = Counting(Counting(inner, "inner"), "outer")
    assert outer.n_clients == 3
    plain = wrapped = None
    for number in (1, 2):
        settings: dict[str, Any] = {"seed": 1, "round_number": number}
        one = aggregate(updates, inner, states=plain, **settings)
        two = aggregate(updates, outer, states=wrapped, **settings)
        plain, wrapped = one.states, two.states
        assert np.array_equal(one.mean, two.mean)
        for mine, theirs in zip(plain, wrapped, strict=True):
            assert bytes_of(mine.residual) == bytes_of(theirs.residual)
            assert mine.bits == theirs.bits
    assert wrapped is not None
    assert {name: int(n[0]) for name, n in wrapped[0].extras.items()} == {
        "inner": 2,
        "outer": 2,
    }

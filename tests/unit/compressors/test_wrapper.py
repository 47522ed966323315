"""An algorithm around another one keeps its own arrays, and the inner one its own."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples.own_momentum import Momentum

from fediac import FediAC, Libra, State, SwitchML, aggregate, extend
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


def clipped(inner: Any, most: float) -> Any:
    """Return the wrapper that CONTRIBUTING.md shows, around ``inner``."""
    guide = Path(__file__).parents[3] / "CONTRIBUTING.md"
    code = re.search(r"```python\n(.*?class Clipped.*?)```", guide.read_text(), re.S)
    assert code is not None
    names = vars(extend) | {"dataclass": dataclass, "__name__": __name__}
    exec(code[1], names)
    return names["Clipped"](inner, most)


def rounds(compressor: Any, each_round: list[list[Any]]) -> list[tuple[bytes, ...]]:
    """Return the mean and the residuals of round after round."""
    states, found = None, []
    for number, updates in enumerate(each_round, start=1):
        done = aggregate(
            updates, compressor, seed=1, round_number=number, states=states
        )
        states = done.states
        found.append(tuple(map(bytes_of, (done.mean, *(s.residual for s in states)))))
    return found


INNER = [FediAC(3, n_votes="10%"), SwitchML(3, fade=0.1), Libra(3, n_sent="10%")]


@pytest.mark.parametrize("inner", INNER, ids=lambda each: type(each).__name__)
def test_parts_around_any_algorithm_are_that_algorithm_with_other_updates(
    inner: Any,
) -> None:
    """Which part comes first is said by what is around what."""
    generator = np.random.default_rng(1)
    first, second = (list(generator.standard_normal((3, 200))) for _ in range(2))
    cut = [[each.clip(-1, 1) for each in updates] for updates in (first, second)]
    assert rounds(clipped(inner, 1.0), [first, second]) == rounds(inner, cut)
    added = [0.5 * old + new for old, new in zip(first, second, strict=True)]
    assert rounds(clipped(Momentum(inner), 1.0), [first, second]) == rounds(
        inner,
        [cut[0], [0.5 * old + new for old, new in zip(*cut, strict=True)]],
    )
    assert rounds(Momentum(clipped(inner, 1.0)), [first, second]) == rounds(
        inner, [cut[0], [each.clip(-1, 1) for each in added]]
    )


def test_what_speaks_against_the_inner_algorithm_is_said_of_the_outer_one() -> None:
    few = FediAC(8, n_votes="5%")
    assert list(Counting(Counting(few)).doubts(3010)) == list(few.doubts(3010)) != []
    assert list(Counting(SwitchML(8)).doubts(3010)) == []

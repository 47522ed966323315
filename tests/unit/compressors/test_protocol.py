from typing import Any

import numpy as np
import pytest

from fediac.compressors import CATALOG, State
from fediac.compressors.protocol import ask
from fediac.compressors.shared_steps import begin, left_energy
from fediac.core.corrected import Corrected
from fediac.core.exchange import Max
from fediac.errors import UpdateError
from tests.support import refuses
from tests.unit.compressors.rounds import STREAM, some_update, start


@pytest.mark.parametrize("name", CATALOG)
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e39, 1.3e30])
def test_update_that_is_not_finite_never_reaches_the_switch(
    name: str, bad: float
) -> None:
    update = some_update(np.float64)
    update[[3, 5]] = bad
    client = start(CATALOG[name](2), update)
    text = "client 1, round 3: update has 2 entries that are NaN, infinite or"
    with refuses(f"{text} beyond 2**100", UpdateError):
        next(client)


def test_one_exchange_gives_its_answer_and_several_a_tuple() -> None:
    one, several = ask(Max(1.0)), ask(Max(1.0), Max(2.0))
    assert next(one) == (Max(1.0),)
    assert next(several) == (Max(1.0), Max(2.0))
    results = []
    for asking, answers in ((one, ("a",)), (several, ("a", "b"))):
        with pytest.raises(StopIteration) as stop:
            asking.send(answers)
        results.append(stop.value.value)
    assert results == ["a", ("a", "b")]


def test_begin_copies_the_update_it_will_change() -> None:
    update: Any = some_update()
    corrected = begin(update, State(), STREAM, keeps_residual=True, out=None)
    assert corrected.values is not update
    assert np.array_equal(corrected.values, update)


def test_begin_without_residual_leaves_the_update_where_it_is() -> None:
    update = some_update()
    state = State(residual=np.ones_like(update))
    corrected = begin(update, state, STREAM, keeps_residual=False, out=None)
    assert corrected.values is update


def test_left_energy_is_never_below_what_the_sent_entries_left() -> None:
    corrected = Corrected(None, 1.0, 1.0, energy=2.0, n_nonfinite=0)
    assert left_energy(corrected, chosen=1.5, left=0.25) == 0.75
    assert left_energy(corrected, chosen=2.0000001, left=0.25) == 0.25

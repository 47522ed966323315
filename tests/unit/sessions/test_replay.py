"""A round run from answers, as they come and again."""

from dataclasses import replace

import numpy as np
import pytest

from fediac.compressors.protocol import Compressor, State
from fediac.core.exchange import Tally
from fediac.errors import LocalProtocolError
from fediac.sessions.messages import Step
from fediac.sessions.replay import OBSERVER, Replay, replay
from fediac.switch.pipeline import Switch
from fediac.transports.arrays import ArrayTransport
from tests.support import bytes_of, refuses
from tests.unit.sessions.rooms import RECIPE, make, update


def begin(client: int) -> Replay:
    values = np.zeros_like(update(0)) if client == OBSERVER else update(client)
    return Replay(RECIPE.begin(values, State(), round_number=1, client=client, n=2))


def steps_of(runs: list[Replay]) -> tuple[Step, ...]:
    """Return the answers of a round that clients run side by side."""
    transport = ArrayTransport(Switch().open(len(runs)))
    steps: list[Step] = []
    while runs[0].asked:
        n_asked = range(len(runs[0].asked))
        step = tuple(
            transport.carry({i: run.asked[k] for i, run in enumerate(runs)})
            for k in n_asked
        )
        steps.append(step)
        for run in runs:
            run.feed(step)
    return tuple(steps)


def test_a_round_from_known_answers_ends_as_it_did() -> None:
    runs = [begin(0), begin(1)]
    steps = steps_of(runs)
    for client, run in enumerate(runs):
        generator = RECIPE.begin(
            update(client), State(), round_number=1, client=client, n=2
        )
        again = replay(generator, steps)
        assert run.outcome is not None
        assert bytes_of(again.mean.dense(update(0))) == bytes_of(
            run.outcome.mean.dense(update(0))
        )
        assert bytes_of(again.state.residual) == bytes_of(run.outcome.state.residual)


def test_the_observer_has_the_mean_of_all() -> None:
    runs = [begin(0), begin(1)]
    steps = steps_of(runs)
    observer = begin(OBSERVER)
    for step in steps:
        observer.feed(step)
    assert observer.outcome is not None
    assert runs[0].outcome is not None
    assert bytes_of(observer.outcome.mean.dense(update(0))) == bytes_of(
        runs[0].outcome.mean.dense(update(0))
    )


def test_a_round_whose_answers_are_not_all_known_is_refused() -> None:
    with refuses(
        "the round needs more than the 0 steps that are known: Tally",
        LocalProtocolError,
    ):
        replay(RECIPE.begin(update(0), State(), round_number=1, client=0, n=2), ())


def test_two_clients_of_a_round_draw_differently() -> None:
    same = RECIPE.begin(update(0), State(), round_number=1, client=0, n=2)
    other = RECIPE.begin(update(0), State(), round_number=1, client=1, n=2)
    (one,), (two,) = Replay(same).asked, Replay(other).asked
    assert isinstance(one, Tally)
    assert isinstance(two, Tally)
    assert bytes_of(one.votes) != bytes_of(two.votes)


@pytest.mark.parametrize("n", [1, 3])
def test_a_compressor_is_for_as_many_as_take_part(n: int) -> None:
    seen: list[int] = []

    def make_and_see(n_clients: int) -> Compressor:
        seen.append(n_clients)
        return make(n_clients)

    recipe = replace(RECIPE, make=make_and_see)
    Replay(recipe.begin(update(0), State(), round_number=1, client=0, n=n))
    assert seen == [n]

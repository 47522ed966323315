"""The real machines against their promises, in worlds where anything may go wrong.

What is checked after every step stands in `jobs` and `world`: each update is counted in
exactly one committed session or still in its client's hands; all who apply a round
apply the mean that it has in memory; jobs leave each other alone; nobody is sent more
than came from there before it is proved; and all goes on when nothing goes wrong any
more.
"""

from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.planes import PLANES, data_plane
from tests.property.sessions.chaos import (
    STROKES,
    Fate,
    Stroke,
    end_well,
    live_through,
    some_world,
    strike,
)
from tests.property.sessions.jobs import MAKERS
from tests.property.sessions.world import Weather, World

N_STEPS = 25_000
"""Steps for each plane, over all its worlds."""

WORLD_STEPS = 2_000

shares = st.sampled_from([0.0, 0.05, 0.25])


@pytest.mark.parametrize("plane", PLANES)
def test_worlds_of_many_thousand_steps_keep_all_promises(plane: str) -> None:
    n_steps = n_kills = seed = 0
    with data_plane(plane):
        while n_steps < N_STEPS:
            world = some_world(seed)
            live_through(world, WORLD_STEPS, seed)
            end_well(world)
            n_steps, n_kills = n_steps + world.n_steps, n_kills + world.n_kills
            seed += 1
    assert n_kills > 50


class Machines(RuleBasedStateMachine):
    """A world whose weather and strokes hypothesis draws, and makes fewer."""

    plane: str

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(data_plane(self.plane))
        self.world: World | None = None

    @initialize(
        seed=st.integers(0, 2**32 - 1),
        algorithms=st.lists(st.sampled_from(list(MAKERS)), min_size=1, max_size=2),
        n_clients=st.integers(1, 4),
    )
    def begin(self, seed: int, algorithms: list[str], n_clients: int) -> None:
        self.world = World(seed, algorithms=algorithms, n_clients=n_clients)

    @rule(n_steps=st.integers(1, 150))
    def time_passes(self, n_steps: int) -> None:
        assert self.world is not None
        self.world.run(n_steps)

    @rule(stroke=st.sampled_from(STROKES), seed=st.integers(0, 99))
    def somebody_is_struck(self, stroke: Stroke, seed: int) -> None:
        assert self.world is not None
        strike(self.world, stroke, np.random.default_rng(seed))

    @rule(
        weather=st.builds(
            Weather,
            loss=shares,
            duplication=shares,
            corruption=shares,
            max_delay_us=st.sampled_from([300, 20_000]),
            late=shares,
        )
    )
    def weather_changes(self, weather: Weather) -> None:
        assert self.world is not None
        self.world.weather = weather

    def teardown(self) -> None:
        with self.stack:
            if self.world is not None:
                end_well(self.world)


class MachinesAndPython(Machines):
    plane = "core"


class MachinesAndC(Machines):
    plane = "native"


few = settings(max_examples=12, stateful_step_count=30, deadline=None)
TestMachinesAndPython = MachinesAndPython.TestCase
TestMachinesAndPython.settings = few
TestMachinesAndC = MachinesAndC.TestCase
TestMachinesAndC.settings = few


def test_a_world_without_bad_luck_loses_no_session() -> None:
    world = World(1, algorithms=["fediac", "omnireduce"])
    live_through(world, 1_500, 1, Fate(calm=1.0, weather=Weather()))
    assert world.n_kills == 0
    for job in world.jobs:
        (coordinator,) = job.coordinators
        assert coordinator is not None
        assert not coordinator.failures
        assert len(job.models) > 1

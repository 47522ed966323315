"""Each mistake in a machine shows within 5,000 steps of some world."""

import pytest

from fediac.errors import FediacError
from tests.planes import data_plane, require_native
from tests.property.sessions.c_mutants import MistakenSwitch
from tests.property.sessions.chaos import end_well, live_through
from tests.property.sessions.mutants import MUTANTS, Habitat

MAX_STEPS = 5_000
END_STEPS = 2_500

IN_C = {name: mutant.in_c for name, mutant in MUTANTS.items() if mutant.in_c}
IN_MACHINES = [name for name, mutant in MUTANTS.items() if not mutant.in_c]


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> MistakenSwitch:
    require_native()
    return MistakenSwitch(IN_C, tmp_path_factory.mktemp("mistakes"))


SHOWN = (AssertionError, FediacError, AttributeError, IndexError)
"""What a world raises, or a machine that holds what it cannot use."""


def shows(habitat: Habitat) -> str:
    """Return what goes wrong in worlds of this kind; nothing if all is well."""
    n_steps = seed = 0
    while n_steps < MAX_STEPS:
        world = habitat.world(seed)
        try:
            live_through(world, habitat.n_steps, seed, habitat.fate)
            end_well(world, n_rounds=1, n_steps=END_STEPS)
        except SHOWN as error:
            n_steps += world.n_steps
            return f"{type(error).__name__}: {error}" if n_steps <= MAX_STEPS else ""
        n_steps, seed = n_steps + world.n_steps, seed + 1
    return ""


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mistake_shows(name: str) -> None:
    mutant = MUTANTS[name]
    with data_plane("core"), mutant.apply():
        assert shows(mutant.habitat)


@pytest.mark.parametrize("name", IN_MACHINES)
def test_every_mistake_of_a_machine_shows_beside_the_switch_in_c(name: str) -> None:
    mutant = MUTANTS[name]
    with data_plane("native"), mutant.apply():
        assert shows(mutant.habitat)


@pytest.mark.parametrize("name", IN_C)
def test_every_mistake_of_the_switch_shows_in_c(
    name: str, in_c: MistakenSwitch
) -> None:
    with in_c.making(name):
        assert shows(MUTANTS[name].habitat)


HABITATS = sorted({mutant.habitat for mutant in MUTANTS.values()}, key=repr)


@pytest.mark.parametrize("habitat", HABITATS, ids=range(len(HABITATS)))
def test_without_a_mistake_nothing_shows(
    habitat: Habitat, in_c: MistakenSwitch
) -> None:
    with in_c.making(None):
        assert not shows(habitat)

"""What a self-test may be asked."""

import pytest

from fediac.errors import ConfigError
from fediac.selftest.settings import SelftestSettings, read_algorithms
from tests.support import refuses


@pytest.mark.parametrize("n_clients", [0, 1025])
def test_as_many_clients_as_a_session_has(n_clients: int) -> None:
    with refuses(f"n_clients must be in 1..1024, got {n_clients}"):
        SelftestSettings(n_clients=n_clients)


@pytest.mark.parametrize("name", ["dim", "n_rounds"])
def test_there_must_be_something_to_do(name: str) -> None:
    with refuses(f"{name} must be at least 1, got 0"):
        SelftestSettings(**{name: 0})  # type: ignore[arg-type] # one of its counts


def test_one_algorithm_or_all() -> None:
    assert read_algorithms("switchml") == ("switchml",)
    assert read_algorithms("all") == ("fediac", "switchml", "omnireduce")


def test_an_algorithm_that_needs_a_server_is_refused() -> None:
    text = (
        "--algorithm 'libra' cannot be run through a switch over a network; there are "
        "fediac, switchml, omnireduce, all"
    )
    with refuses(text, ConfigError):
        read_algorithms("libra")

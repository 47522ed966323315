"""One name and one default for a thing: in Python, in settings files, in commands."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from typer.main import get_command

import fediac
from fediac.cli.entry import app
from fediac.runs.settings import (
    DEFAULT_ROUNDS,
    RunSettings,
    StopSettings,
    as_document,
    by_key,
)
from fediac.sim.network import Network
from fediac.switch import Switch
from fediac.training.local_settings import LocalSettings

ALGORITHMS = {name for name, _ in RunSettings().tables}
KEYS = {
    key: value
    for key, value in by_key(as_document(RunSettings())).items()
    if key.partition(".")[0] not in ALGORITHMS
}
"""Every key of a settings file that belongs to no algorithm, and its default."""

PYTHON_ONLY = {
    # A file names these, Python has them.
    *("model", "train", "test", "columns", "compressor", "clients", "network"),
    # Own functions have no place in a file.
    *("optimizer", "loss", "metric"),
    # Options of commands.
    *("out", "resume", "allow_other_kernels", "progress"),
}
"""What `Experiment` takes that is no setting of a file."""

OPTIONS = {
    "algorithm": "algorithm",
    "seed": "seed",
    "clients": "clients.n_clients",
    "rates": "network.rates",
}
"""Options of commands that have no settings file -> the key of the same thing."""


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    found = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in found}


def find_key(name: str) -> str:
    """Return the only key of this name; ``save_updates`` is ``save.updates``."""
    (key,) = (
        key
        for key in KEYS
        if name in (key, key.rpartition(".")[2], key.replace(".", "_"))
    )
    return key


SETTINGS = [name for name in defaults_of(fediac.Experiment) if name not in PYTHON_ONLY]


@pytest.mark.parametrize("name", SETTINGS)
def test_experiments_have_the_names_and_defaults_of_files(name: str) -> None:
    assert defaults_of(fediac.Experiment)[name] == KEYS[find_key(name)]


def test_what_is_python_only_is_there() -> None:
    assert defaults_of(fediac.Experiment).keys() >= PYTHON_ONLY


def check_same(values: Mapping[str, Any], table: str) -> None:
    assert values == {name: KEYS[f"{table}.{name}"] for name in values}


def test_parts_of_python_have_the_names_and_defaults_of_files() -> None:
    check_same(defaults_of(LocalSettings), "train")
    check_same({"compute_s": defaults_of(Network)["compute_s"]}, "network")
    check_same({"register_bytes": defaults_of(Switch)["register_bytes"]}, "network")


def test_a_comparison_has_as_many_rounds_as_a_file() -> None:
    n_rounds = defaults_of(fediac.compare)["n_rounds"]
    assert n_rounds == StopSettings().n_rounds == DEFAULT_ROUNDS


def test_commands_have_the_defaults_of_files() -> None:
    commands: dict[str, Any] = vars(get_command(app))["commands"]
    checked = []
    for name in ("simulate", "motivation", "round"):
        for option in commands[name].params:
            if option.name in OPTIONS:
                default = option.default
                given = tuple(default) if isinstance(default, list) else default
                assert given == KEYS[OPTIONS[option.name]]
                checked.append(option.name)
    assert set(checked) == OPTIONS.keys()

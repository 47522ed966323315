"""The paper's scenarios: data, model, clients and network, a TOML file each.

A scenario is a run's settings with one more table, ``[paper]``: which accuracy is to be
reached, how long to try, and which row of the paper it stands beside.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from fediac.errors import ConfigError, hint_name
from fediac.runs.settings import RunSettings, parse_settings, read_settings

_FOLDER = Path(__file__).with_name("scenarios")

NAMES = (
    "cifar10-iid",
    "cifar10-noniid",
    "femnist",
    "unipen62",
    "cifar100-iid",
    "cifar100-noniid",
    "digits",
    "digits-iid",
    "digits-noniid",
)
"""All scenarios: those of the paper's tables in their order, then those for a CPU."""

IN_THE_PAPER = NAMES[:6]
"""Scenarios with a row in the paper's tables, or that stand in for one."""


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """The table ``[paper]`` of a scenario.

    Attributes:
        title: What tables and figures call it.
        beside: The row of the paper's tables that it stands beside, if any.
        dim: Parameters of the model, for estimates made without building it.
        target: The accuracy to reach; or
        below_fedavg: how far below the best of FedAvg it is, and
        fedavg_rounds: the rounds of FedAvg that fix it beforehand.
        rounds: When to give up.
    """

    title: str
    dim: int
    rounds: int
    beside: str | None = None
    target: float | None = None
    below_fedavg: float | None = None
    fedavg_rounds: int | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario: what to run, and what to compare."""

    name: str
    settings: RunSettings
    paper: PaperSettings


def find_scenario(name: str) -> Scenario:
    """Return a scenario by its name.

    Raises:
        ConfigError: There is none; the message names the nearest.
    """
    if name not in NAMES:
        raise ConfigError(f"unknown scenario {name!r}{hint_name(name, NAMES)}")
    return read_scenario(_FOLDER / f"{name}.toml")


def find_title(name: str) -> str:
    """Return a scenario's title; an unknown one keeps its name."""
    return find_scenario(name).paper.title if name in NAMES else name


def read_scenario(path: Path) -> Scenario:
    """Return the scenario in a TOML file, named like the file.

    Raises:
        ConfigError: The file cannot be read, or a key or value is wrong.
    """
    settings = read_settings(path)
    table = tomllib.loads(path.read_text(encoding="utf-8")).get("paper")
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: a scenario needs a table [paper]")
    missing = [key for key in ("title", "dim", "rounds") if key not in table]
    if missing:
        raise ConfigError(f"{path}: {missing[0]!r} is missing in [paper]")
    paper = parse_settings(PaperSettings, table, source=str(path), name="paper")
    _check(paper, path)
    return Scenario(path.stem, settings, paper)


def _check(paper: PaperSettings, path: Path) -> None:
    if (paper.target is None) == (paper.below_fedavg is None):
        raise ConfigError(f"{path}: [paper] must have either target or below_fedavg")
    if (paper.below_fedavg is None) != (paper.fedavg_rounds is None):
        raise ConfigError(
            f"{path}: below_fedavg and fedavg_rounds in [paper] need each other"
        )

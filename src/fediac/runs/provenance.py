"""Who wrote a run, as its ``config.toml`` says in ``[versions]``; without PyTorch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from fediac.errors import ConfigError
from fediac.runs.settings.toml_tables import read_table

Writer: TypeAlias = Mapping[str, str]
"""Software, commit and machine."""

EARLIER = "earlier"
"""Versions inside versions: who wrote the first rounds of a run."""

WENT_ON = "went_on"
"""Where the run went on with other kernels or on another processor, in words."""


def read_writers(config: Path) -> tuple[Writer, ...]:
    """Return all who wrote the run whose settings are in a file, in their order."""
    return parse_writers(read_table(config), source=str(config))


def parse_writers(document: Mapping[str, Any], *, source: str) -> tuple[Writer, ...]:
    """Return all who wrote a run, in their order.

    Args:
        document: What its ``config.toml`` holds.
        source: That file, for errors.

    Raises:
        ConfigError: It does not describe them as it should.
    """
    versions = document.get("versions", {})
    if not isinstance(versions, dict):
        raise ConfigError(f"{source}: versions must be a table, got {versions!r}")
    earlier = versions.get(EARLIER, [])
    if not isinstance(earlier, list) or not all(isinstance(e, dict) for e in earlier):
        raise ConfigError(
            f"{source}: versions.{EARLIER} must be a list of tables, got {earlier!r}"
        )
    own = {name: each for name, each in versions.items() if name != EARLIER}
    writers = tuple(each for each in (*earlier, own) if each)
    for name, value in (pair for each in writers for pair in each.items()):
        if not isinstance(value, str):
            raise ConfigError(
                f"{source}: versions.{name} must be a string, got {value!r}"
            )
    return writers


def as_versions(own: Writer, before: Sequence[Writer]) -> dict[str, Any]:
    """Return what the settings of a run say when it goes on.

    Args:
        own: Who goes on.
        before: Who wrote what is there; empty for a new run.
    """
    others = [dict(each) for each in before if each != own]
    return {**own, EARLIER: others} if others else dict(own)

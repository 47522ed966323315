import json
from pathlib import Path
from typing import Any

import pytest

from fediac.core.powerlaw import PowerLaw
from fediac.errors import ConfigError, RunError
from fediac.paper.theory.stored import (
    Compared,
    Measurement,
    RankBin,
    RoundCheck,
    load_measurement,
    save_measurement,
)
from fediac.runs.settings import RunSettings
from tests.support import refuses

LAW = PowerLaw(alpha=-0.5, phi=0.1, peak=0.2)
SAME = Compared(0.5, 0.25, 0.5, 1.0)
RANKS = RankBin(1, 9, 0.1, 0.1, 0.1, 0.1, 0.5, 0.5, 0.5, SAME)


def make_measurement(**versions: str) -> Measurement:
    rounds = tuple(
        RoundCheck(number, 8, 9, 0.2, 0.5, (LAW,), LAW, SAME, SAME, (RANKS, RANKS))
        for number in (1, 4)
    )
    return Measurement(RunSettings(), 9, 5, 2, rounds, versions)


def damage(path: Path, place: str, value: object) -> None:
    """Set one value of a stored measurement; ``place`` is such as rounds.0.peak."""
    save_measurement(make_measurement(), path)
    document = json.loads(path.read_text())
    *around, last = [int(key) if key.isdigit() else key for key in place.split(".")]
    inner: Any = document
    for key in around:
        inner = inner[key]
    inner[last] = value
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("versions", [{}, {"machine": "Abacus"}])
def test_what_is_stored_is_read_back(tmp_path: Path, versions: dict[str, str]) -> None:
    path, measurement = tmp_path / "seed1.json", make_measurement(**versions)
    save_measurement(measurement, path)
    assert load_measurement(path) == measurement


def test_a_file_without_versions_is_read(tmp_path: Path) -> None:
    path = tmp_path / "seed1.json"
    save_measurement(make_measurement(), path)
    document = json.loads(path.read_text())
    del document["versions"]
    path.write_text(json.dumps(document))
    assert load_measurement(path) == make_measurement()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seed1.json"
    with refuses(f"{path}: no such file or directory", RunError):
        load_measurement(path)
    with refuses(f"{tmp_path}: is a directory", RunError):
        load_measurement(tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON (input data was truncated)"),
        ("[]", "expected object, got array"),
        ("{}", "object missing required field settings"),
        ('{"settings": {}}', "object missing required field dim"),
    ],
)
def test_a_file_of_something_else_is_refused(
    tmp_path: Path, text: str, why: str
) -> None:
    path = tmp_path / "seed1.json"
    path.write_text(text)
    with refuses(f"{path}: {why}", RunError):
        load_measurement(path)


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        ("settings", 3, "settings: expected object, got int"),
        ("dim", "x", "dim: expected int, got str"),
        ("dim", 0, "dim: expected int >= 1"),
        ("n_votes", 2.5, "n_votes: expected int, got float"),
        ("threshold", True, "threshold: expected int, got bool"),
        ("rounds", [], "rounds: expected array of length >= 1"),
        ("rounds", None, "rounds: expected array, got null"),
        ("rounds.1", 7, "rounds[1]: expected object, got int"),
        ("rounds.1", {}, "rounds[1]: object missing required field round_number"),
        (
            "rounds.1.round_number",
            1,
            "rounds must be of one round after the other, got [1, 1]",
        ),
        ("rounds.0.peak", "high", "rounds[0].peak: expected float, got str"),
        ("rounds.0.gamma", {}, "rounds[0].gamma: object missing required field law"),
        (
            "rounds.0.law.alpha",
            0.5,
            "rounds[0].law: alpha must be finite and below 0, got 0.5",
        ),
        ("rounds.1.fits.0", None, "rounds[1].fits[0]: expected object, got null"),
        ("rounds.1.bins", [], "rounds[1].bins: expected array of length >= 1"),
        (
            "rounds.0.bins.1.first",
            None,
            "rounds[0].bins[1].first: expected int, got null",
        ),
        (
            "rounds.0.bins.1.chosen.measured",
            [],
            "rounds[0].bins[1].chosen.measured: expected float, got array",
        ),
        ("versions", [], "versions: expected object, got array"),
        ("versions.machine", 3, "versions[...]: expected str, got int"),
    ],
)
def test_damaged_values_are_refused(
    tmp_path: Path, place: str, value: object, why: str
) -> None:
    path = tmp_path / "seed1.json"
    damage(path, place, value)
    with refuses(f"{path}: {why}", RunError):
        load_measurement(path)


def test_settings_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "seed1.json"
    damage(path, "settings.seed", "one")
    with refuses(f"{path}: seed must be a whole number, got 'one'", ConfigError):
        load_measurement(path)

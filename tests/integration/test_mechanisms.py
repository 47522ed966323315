"""The tables of docs/mechanisms.md say what the stored runs say."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

CIFAR: dict[tuple[str, ...], str] = {
    ("2", "recalibrated", "dense"): "clip7-dense-recalibrate",
    ("-", "recalibrated", "one width"): "recalibrate7",
    ("2", "averaged", "one width"): "clip7",
}
"""The row of the table on CIFAR-10 -> run."""

DIGITS: dict[tuple[str, ...], str] = {
    ("9 bits", "-", "one width"): "base9",
    ("9 bits", "-", "dense"): "dense9",
    ("8 bits", "-", "one width"): "base8",
    ("8 bits", "2", "one width"): "clip8",
    ("7 bits", "-", "one width"): "base7",
    ("7 bits", "2", "one width"): "clip7",
    ("7 bits", "2", "dense"): "clip7-dense",
}
"""The row of the table on digits -> runs."""

UNIPEN: dict[tuple[str, ...], str] = {
    ("9 bits", "-", "averaged", "one width"): "base9",
    ("9 bits", "-", "recalibrated", "one width"): "recalibrate9",
    ("8 bits", "-", "averaged", "one width"): "base8",
    ("7 bits", "-", "averaged", "one width"): "base7",
    ("7 bits", "2", "averaged", "one width"): "clip7",
    ("7 bits", "2", "recalibrated", "dense"): "clip7-dense-recalibrate",
}
"""The row of the table on UNIPEN -> run."""


@cache
def stored() -> list[dict[str, Any]]:
    path = ROOT / "results" / "mechanisms.json"
    runs: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["runs"]
    return runs


def runs_of(scenario: str, name: str) -> list[dict[str, Any]]:
    found = [
        each
        for each in stored()
        if (each["scenario"], each["name"]) == (scenario, name)
    ]
    assert found
    return found


@cache
def rows(n_columns: int) -> list[tuple[str, ...]]:
    """Return the rows of the tables in the docs that have so many columns."""
    text = (ROOT / "docs" / "mechanisms.md").read_text(encoding="utf-8")
    cells = [
        tuple(each.strip() for each in line.strip("|").split("|"))
        for line in text.splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    return [each for each in cells if len(each) == n_columns][1:]


def costs(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Return mean rounds, MiB and seconds to the last round, as the docs have them."""
    ends = [each["rounds"][-1] for each in runs]
    return [
        f"{mean(len(each['rounds']) for each in runs):.1f}",
        f"{mean(each['payload_mib'] for each in ends):.2f}",
        f"{mean(each['time_s']['fast'] for each in ends):.2f}",
    ]


def best(run: dict[str, Any]) -> float:
    return max(float(each["accuracy"]) for each in run["rounds"])


@pytest.mark.parametrize("row", CIFAR)
def test_the_rows_on_cifar_are_those_stored(row: tuple[str, ...]) -> None:
    (run,) = runs_of("cifar10-iid", CIFAR[row])
    told = next(each for each in rows(7) if each[:3] == row)
    assert told[3:] == ending(run)


@pytest.mark.parametrize("row", UNIPEN)
def test_the_rows_on_unipen_are_those_stored(row: tuple[str, ...]) -> None:
    (run,) = runs_of("unipen62", UNIPEN[row])
    told = next(each for each in rows(8) if each[:4] == row)
    assert told[4:] == ending(run)


def ending(run: dict[str, Any]) -> tuple[str, ...]:
    """Return how a run ended, as the docs have it."""
    last = run["rounds"][-1]
    is_there = best(run) >= run["settings"]["target"]
    return (
        str(len(run["rounds"])) + ("" if is_there else ", not there"),
        f"{last['payload_mib']:.1f}",
        f"{last['time_s']['fast']:.1f}",
        f"{100 * best(run):.1f} %",
    )


@pytest.mark.parametrize("row", DIGITS)
def test_the_rows_on_digits_are_those_stored(row: tuple[str, ...]) -> None:
    told = next(each for each in rows(9) if each[:3] == row)
    for scenario, cells in (
        ("digits-iid", told[3:6]),
        ("digits-noniid", told[6:9]),
    ):
        runs = runs_of(scenario, DIGITS[row])
        assert sorted(each["seed"] for each in runs) == [1, 2, 3]
        assert all(best(each) >= each["settings"]["target"] for each in runs)
        assert list(cells) == costs(runs)


def test_dense_lanes_save_what_the_docs_say() -> None:
    text = (ROOT / "docs" / "mechanisms.md").read_text(encoding="utf-8")
    text = " ".join(text.split())
    (run,) = runs_of("cifar10-iid", "clip7-dense-recalibrate")
    assert f"{mib_with(run, levels_up=7 / 3):.1f} MiB: dense lanes" in text
    (wide,), (clipped,) = (runs_of("unipen62", each) for each in ("base9", "clip7"))
    first, fifth = mib_with(wide, levels_up=5 / 9), mib_with(clipped, levels_up=3 / 7)
    assert f"{first:.1f} MiB in the first row and {fifth:.1f} in the fifth" in text


def mib_with(run: dict[str, Any], *, levels_up: float) -> float:
    """Return MiB of a run if levels had so many times their bits on the way up."""
    n_bytes = sum(
        bill * (levels_up if (way, phase) == ("up", "levels") else 1)
        for each in run["rounds"]
        for way, phases in each["traffic"].items()
        for phase, bill in phases.items()
    )
    return float(n_bytes) / 2**20


@pytest.mark.parametrize("scenario", ["digits-iid", "digits-noniid"])
@pytest.mark.parametrize("names", [("base9", "dense9"), ("clip7", "clip7-dense")])
def test_dense_lanes_change_no_accuracy(scenario: str, names: tuple[str, str]) -> None:
    wide, narrow = (runs_of(scenario, each) for each in names)
    for one, other in zip(wide, narrow, strict=True):
        accuracies = [
            [each["accuracy"] for each in run["rounds"]] for run in (one, other)
        ]
        assert accuracies[0] == accuracies[1]

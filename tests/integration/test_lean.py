"""What docs/lean.md says of the preset, and of its runs on digits."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from fediac.compressors import FediAC
from fediac.paper.stored import read_stored
from fediac.plan.expected_traffic import ExpectedRound, expected_ledger
from fediac.runs.stored import Run
from fediac.transports.statistics import STATISTICS_PHASE

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "lean.md").read_text(encoding="utf-8")

ENTRANTS = {
    "lean": "fediac-lean",
    "lean, but k = 2 %": "fediac-lean-k2",
    "lean, but k = 4 %": "fediac-lean-k4",
    "lean, but a = 25 %": "fediac-lean-a25",
    "lean, but 64 entries a vote": "fediac-lean-e64",
    "lean, but groups by their peak": "fediac-lean-peak",
    "lean, but fade = 5 %": "fediac-lean-fade0.05",
    "lean, but clip = 3": "fediac-lean-clip3",
    "fixed votes, k = 0.5 %, a = 10 %": "fediac-lean-k0.5-a10",
    "fixed votes, k = 1 %, a = 20 %": "fediac-lean-k1-a20",
    "fixed votes, k = 5 %, a = 40 %": "fediac-lean-k5-a40",
    "fixed votes, k = 10 %, a = 40 %": "fediac-lean-k10-a40",
    "shared by 16, k = 0.5 %, a = 3, adaptive width": "fediac-shared-k0.5",
    "libra, narrow pairs, k = 0.05 %": "libra-k0.05-bits8-narrow",
    "libra, narrow pairs, k = 0.01 %": "libra-k0.01-bits8-narrow",
    "libra, narrow pairs, k = 1 %": "libra-k1-bits8-narrow",
}
"""Row of the table on digits -> entrant."""


def rows(n_columns: int) -> dict[str, list[str]]:
    """Return the rows of the tables that have so many columns, by their first cell."""
    cells = [
        [each.strip() for each in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if line.startswith("| ")
    ]
    return {first: others for first, *others in cells if len(others) == n_columns - 1}


def test_the_rule_is_that_of_the_preset() -> None:
    told = {
        name.strip("`"): value.strip("`").replace(" %", "%")
        for name, (value, _) in rows(3).items()
        if name.startswith("`")
    }
    preset = FediAC.PRESETS["lean"].settings
    assert told == {name: str(value) for name, value in preset.items()}


@pytest.mark.parametrize("label", ENTRANTS)
def test_the_rows_on_digits_are_those_of_the_sweep(label: str) -> None:
    path = ROOT / "results" / "digits" / "sweeps.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    cells: list[str] = []
    for scenario in ("digits-iid", "digits-noniid"):
        (each,) = (
            each
            for each in found
            if (each["scenario"], each["entrant"]) == (scenario, ENTRANTS[label])
        )
        assert each["seeds"] == [1, 2, 3]
        cells += _costs(each) if each["reached"] else ["—"] * 3
    assert rows(7)[label] == cells


def _costs(candidate: dict[str, Any]) -> list[str]:
    mib, rounds, seconds = (
        fmean(candidate[key]) for key in ("payload_mib", "rounds", "time_s")
    )
    return [f"{mib:.2f}", f"{rounds:.1f}", f"{seconds:.2f}"]


SCENARIOS = {
    "CIFAR-10 IID, 63 % (found with it)": "cifar10-iid",
    "CIFAR-10 non-IID, 64 %": "cifar10-noniid",
    "CIFAR-100 non-IID, 41 %": "cifar100-noniid",
    "CIFAR-100 IID, 45 %": "cifar100-iid",
    "UNIPEN, 66.6 % (found with it)": "unipen62",
}
"""Row of the table on larger models -> scenario."""


LARGER = ("fediac-lean", "switchml-bits7-recal", "libra-k0.1-bits8-narrow-recal")
"""The columns of that table."""


@pytest.mark.parametrize("label", SCENARIOS)
def test_the_rows_on_larger_models_are_those_stored(label: str) -> None:
    found = json.loads((ROOT / "results" / "sweeps.json").read_text(encoding="utf-8"))
    candidates = {
        each["entrant"]: each for each in found if each["scenario"] == SCENARIOS[label]
    }
    assert rows(4)[label] == [_reached_or_not(candidates.get(each)) for each in LARGER]


def _reached_or_not(candidate: dict[str, Any] | None) -> str:
    if candidate is None or not candidate["rounds"]:
        return "not run"
    (n_rounds,) = candidate["rounds"]
    if not candidate["reached"]:
        return f"not in {n_rounds}"
    ((mib, seconds),) = zip(candidate["payload_mib"], candidate["time_s"], strict=True)
    return f"{mib:,.1f} MiB in {n_rounds}, {seconds:.1f} s"


DIMS = {
    "digits": 105_866,
    "unipen62": 791_774,
    "cifar10": 11_173_962,
    "cifar100": 11_220_132,
}
"""First word of a scenario -> parameters of its model."""


def test_what_is_expected_of_rounds_is_as_near_as_told() -> None:
    shares = [
        100 * _mean_mib(run) / _expected_mib(DIMS[run.scenario.split("-")[0]])
        for folder in ("results", "results/digits")
        for run in read_stored(ROOT / folder)
        if run.entrant == "fediac-lean"
    ]
    assert len(shares) == 7
    told = " ".join(PAGE.split())
    assert f"took {min(shares):.0f} to {max(shares):.0f} % of that payload" in told


def _mean_mib(run: Run) -> float:
    """Return a round's payload without batch norm's statistics."""
    ways = [
        way
        for each in run.rounds
        for way in (each.traffic.payload.up, each.traffic.payload.down)
    ]
    n_bytes = sum(
        sent for way in ways for phase, sent in way.items() if phase != STATISTICS_PHASE
    )
    return n_bytes / 2**20 / len(run.rounds)


def _expected_mib(dim: int) -> float:
    setting = ExpectedRound("fediac", FediAC.lean(20), dim)
    return expected_ledger(setting).traffic().payload_mib

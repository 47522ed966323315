"""What docs/lean.md says of the preset, and of its runs on digits."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from fediac.compressors import FediAC
from fediac.compressors.setting_fields import show_settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "lean.md").read_text(encoding="utf-8")

ENTRANTS = {
    "lean": "fediac-lean",
    "lean, but 16 entries a vote": "fediac-lean-e16",
    "lean, but k = 1 %": "fediac-lean-k1",
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


def test_the_run_on_cifar_had_what_the_rule_gives() -> None:
    path = ROOT / "results" / "mechanisms.json"
    (run,) = (
        each
        for each in json.loads(path.read_text(encoding="utf-8"))["runs"]
        if (each["scenario"], each["name"])
        == ("cifar10-iid", "clip7-dense-recalibrate")
    )
    lean = FediAC.lean(20)
    resolved = show_settings(lean) | {
        "threshold": lean.votes_needed,
        "bits": lean.known_bits,
    }
    had = run["settings"]["fediac"]
    assert had == {name: resolved[name] for name in had}
    assert set(resolved) - set(had) == {"budget_mib"}
    assert run["settings"]["statistics"] == "recalibrate"
    assert f"{run['rounds'][-1]['payload_mib']:.1f} MiB" in PAGE

from pathlib import Path

import pytest

from fediac.core.powerlaw import PowerLaw
from fediac.errors import RunError
from fediac.paper.plan import Scope
from fediac.paper.scenarios import find_scenario
from fediac.paper.theory.product import (
    list_missing,
    make_theory,
    measurement_file,
    plan_measurement,
)
from fediac.paper.theory.stored import (
    Compared,
    Measurement,
    RankBin,
    RoundCheck,
    save_measurement,
)
from tests.support import refuses

QUICK = Scope(is_quick=True)
"""Looks at rounds 1 and 2 of digits."""


def measured(results: Path, *rounds: int) -> Path:
    """Store made-up numbers of some rounds; return the file."""
    run = plan_measurement(find_scenario("digits"), 1)
    law, same = PowerLaw(alpha=-0.5, phi=0.1, peak=0.2), Compared(0.5, 0.5, 0.5, 0.5)
    ranks = RankBin(1, 9, 0.1, 0.1, 0.1, 0.1, 0.5, 0.5, 0.5, same)
    checks = tuple(
        RoundCheck(number, 8, 9, 0.2, 0.5, (law,), law, same, same, (ranks,))
        for number in rounds
    )
    path = measurement_file(results, "digits", 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_measurement(Measurement(run.settings, 9, 5, 2, checks), path)
    return path


@pytest.mark.parametrize(
    ("rounds", "is_missing"),
    [((1,), True), ((1, 2), False), ((1, 2, 7), False)],
)
def test_rounds_that_were_not_looked_at_are_missing(
    tmp_path: Path, rounds: tuple[int, ...], *, is_missing: bool
) -> None:
    measured(tmp_path, *rounds)
    found = [(each.name, seed) for each, seed in list_missing(QUICK, tmp_path)]
    assert found == ([("digits", 1)] if is_missing else [])


def test_a_measurement_with_other_settings_is_refused(tmp_path: Path) -> None:
    path = measured(tmp_path, 1, 2)
    path.write_text(path.read_text().replace('"batch_size": 25', '"batch_size": 26'))
    for use in (list_missing, make_theory):
        with refuses(
            f"{path}: train.batch_size of the stored run is 26, that of scenario "
            "digits is 25; move it away, or give another --out",
            RunError,
        ):
            use(QUICK, tmp_path)


def test_a_picture_has_its_numbers_beside_it(tmp_path: Path) -> None:
    measured(tmp_path, 1, 2)
    made = make_theory(QUICK, tmp_path)
    assert [path.name for path in made.files] == [
        "fig-theory-digits.svg",
        "fig-theory-digits.md",
    ]
    text = made.files[1].read_text()
    assert text.startswith("# fig-theory: Digits by writer, seed 1\n\n| round |")
    assert "| 2 | gamma | 0.500 | 0.500 | 0.500 | 0.500 |\n" in text
    assert made.numbers[0]["scenario"] == "digits"

"""Entrants in plain words."""

import pytest

from fediac.paper.entrants import CANDIDATES, MAIN
from fediac.paper.figures.names import plain_name


@pytest.mark.parametrize(
    ("entrant", "name"),
    [
        ("fediac", "FediAC"),
        ("fediac-tuned", "FediAC, tuned width"),
        ("fediac-topk-a4", "FediAC, votes for the largest, a = 4"),
        ("fediac-shared-k1-bits8", "FediAC, 16 a vote, k = 1 %, 8 bits"),
        (
            "fediac-shared-k10-a8-fade0.1",
            "FediAC, 16 a vote, k = 10 %, a = 8, fading residuals",
        ),
        ("libra-k0.05-bits8-narrow", "libra, k = 0.05 %, 8 bits, narrow pairs"),
        ("mine-other", "mine, other"),
    ],
)
def test_names_are_words(entrant: str, name: str) -> None:
    assert plain_name(entrant) == name


def test_all_entrants_have_names_of_their_own() -> None:
    every = {each.name for each in MAIN}
    every |= {each.name for family in CANDIDATES.values() for each in family}
    assert len({plain_name(each) for each in every}) == len(every)

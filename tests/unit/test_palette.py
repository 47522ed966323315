"""Colours of algorithms: apart for every eye, and off every background."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fediac.palette import DARK, LIGHT

Values = NDArray[np.float64]

APART = 0.12
"""Least distance in OKLab; 0.02 is just seen where two colours lie side by side."""

CONTRAST = 3.0
"""What WCAG 2.2 asks of graphics (1.4.11)."""

SEEN = {
    "all cones": np.eye(3),
    # Machado, Oliveira and Fernandes 2009, severity 1, of linear RGB.
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}

TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
"""OKLab by its author, Ottosson 2020."""


def linear(colour: str) -> Values:
    parts = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)])
    share = parts / 255.0
    curve = ((share + 0.055) / 1.055) ** 2.4
    return np.where(share <= 0.04045, share / 12.92, curve)


def place(colour: str, seen: Values) -> Values:
    cones = np.clip(linear(colour) @ seen.T, 0.0, 1.0) @ TO_CONES.T
    lab: Values = np.cbrt(cones) @ TO_LAB.T
    return lab


def least_distance(colours: tuple[str, ...], seen: Values) -> float:
    places = [place(each, seen) for each in colours]
    return min(
        float(np.linalg.norm(one - other)) for one, other in combinations(places, 2)
    )


def contrast(one: str, other: str) -> float:
    luminance = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted(float(linear(each) @ luminance) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def backgrounds(*, is_dark: bool) -> list[str]:
    """Return the page's and the panels' colour, as the style has them."""
    path = Path(__file__).parents[2] / "src/fediac/report/templates/style.css"
    lines = [line.strip() for line in path.read_text().splitlines()]
    found = [
        [line.split()[1].strip(";") for line in lines if line.startswith(f"--{name}:")]
        for name in ("page", "panel")
    ]
    return [each[is_dark] for each in found]


@pytest.mark.parametrize("colours", [LIGHT, DARK])
@pytest.mark.parametrize("eye", list(SEEN))
def test_colours_are_apart_for_every_eye(colours: tuple[str, ...], eye: str) -> None:
    assert least_distance(colours, SEEN[eye]) >= APART


def test_the_check_knows_colours_that_protanopia_confuses() -> None:
    pair = ("#c8470a", "#8a6a00")  # once SwitchML's and a spare one, side by side
    assert least_distance(pair, SEEN["all cones"]) > APART
    assert least_distance(pair, SEEN["protanopia"]) < APART / 2


@pytest.mark.parametrize(("colours", "is_dark"), [(LIGHT, False), (DARK, True)])
def test_colours_stand_off_the_page(colours: tuple[str, ...], *, is_dark: bool) -> None:
    for background in backgrounds(is_dark=is_dark):
        assert all(contrast(each, background) >= CONTRAST for each in colours)


def test_black_on_white_is_the_most_contrast_there_is() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#777777") == 1.0

from pathlib import Path

import pytest

from fediac.errors import ConfigError
from fediac.paper.theory.check import measure
from fediac.paper.theory.figure import draw_theory
from fediac.paper.theory.stored import Measurement
from tests.tiny import make_settings
from tests.unit.paper.figures.test_curves import note_of, read_words


@pytest.fixture(scope="module")
def measurement(tmp_path_factory: pytest.TempPathFactory) -> Measurement:
    return measure(make_settings(tmp_path_factory.mktemp("data")), [1, 3])


@pytest.fixture(scope="module")
def picture(measurement: Measurement, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("theory") / "theory.svg"
    draw_theory(measurement, path)
    return path


def test_every_round_has_a_row_and_every_prediction_a_name(picture: Path) -> None:
    words = read_words(picture)
    # Once at its row, and once below the bars of each of the two sums.
    assert [words.count(f"round {number}") for number in (1, 2, 3)] == [3, 0, 3]
    for label in (
        "the paper's formula (power law, ranked alike)",
        "real magnitudes, ranked alike",
        "real magnitudes, own ranks",
        "measured",
    ):
        assert words.count(label) == 1


def test_bars_have_their_numbers(picture: Path, measurement: Measurement) -> None:
    words = read_words(picture)
    for check in measurement.rounds:
        assert f"{100.0 * check.chosen.measured / measurement.dim:.1f}" in words
        assert f"{check.gamma.law:.2f}" in words


def test_the_note_says_what_was_run(picture: Path, measurement: Measurement) -> None:
    assert note_of(picture).startswith(
        "FediAC on tiny (iid), tests.tiny:plain_model: 3 clients vote for "
        f"{measurement.n_votes:,} of {measurement.dim:,} entries each; 2 votes are "
        "enough. Ranks are each client's own"
    )


def test_a_picture_has_the_same_bytes_every_time(
    tmp_path: Path, picture: Path, measurement: Measurement
) -> None:
    path = tmp_path / "theory.svg"
    draw_theory(measurement, path)
    assert path.read_bytes() == picture.read_bytes()


def test_a_picture_of_another_kind_is_refused(
    tmp_path: Path, measurement: Measurement
) -> None:
    path = tmp_path / "theory.txt"
    with pytest.raises(ConfigError) as caught:
        draw_theory(measurement, path)
    assert str(caught.value) == f"{path}: a picture must end in .png, .pdf, .svg"

"""What algorithms and metrics are called where people read of them."""

from functools import partial
from typing import Any

import pytest
from torch import nn

from fediac.errors import ConfigError
from fediac.names import by_short_name, metric_name
from fediac.runs.given import describe
from fediac.training.task import r_squared
from tests.support import refuses


class Balanced:
    """A metric that is no function."""

    def score(self, *_: Any) -> float:
        return 0.5


def f1(*_: Any, beta: float = 1.0) -> float:
    return beta


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (f1, "f1"),
        (partial(f1, beta=0.5), "f1"),
        (Balanced().score, "score"),
        (Balanced(), "Balanced"),
        (nn.PairwiseDistance(), "PairwiseDistance"),
        (lambda *_: 0.5, "metric"),
        (r_squared, "R²"),
    ],
)
def test_a_metric_goes_by_its_own_name(metric: Any, name: str) -> None:
    assert metric_name(describe(metric)) == name


def test_without_a_metric_it_is_accuracy() -> None:
    assert metric_name(None) == "accuracy"


def test_every_algorithm_has_a_short_name_of_its_own() -> None:
    names = by_short_name(["fediac", "mine:RandomK", "fediac", "mine:Console"])
    assert names == {
        "fediac": "fediac",
        "RandomK": "mine:RandomK",
        "Console": "mine:Console",
    }


@pytest.mark.parametrize("other", ["mine:TopK", "yours:topk"])
def test_two_algorithms_with_one_name_are_refused(other: str) -> None:
    text = (
        "algorithms must have different names after the colon, got 'topk' and "
        f"{other!r}"
    )
    with refuses(text, ConfigError):
        by_short_name(["topk", other])

import pytest

from fediac.errors import ConfigError
from fediac.names import by_short_name
from tests.support import refuses


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

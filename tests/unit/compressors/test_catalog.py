import pytest

from fediac.compressors import CATALOG, find
from fediac.errors import ConfigError
from tests.support import refuses


@pytest.mark.parametrize("name", CATALOG)
def test_every_algorithm_is_found_by_its_name(name: str) -> None:
    entry = find(name)
    assert entry is CATALOG[name]
    assert entry.compressor.__name__.lower() == name
    assert entry.summary


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("fediack", "fediac"), ("switch-ml", "switchml"), ("top-k", "topk")],
)
def test_unknown_algorithm_names_the_nearest(name: str, nearest: str) -> None:
    text = f"unknown algorithm {name!r}; did you mean {nearest!r}?"
    with refuses(text, ConfigError):
        find(name)


def test_a_name_that_is_near_none_gets_all_of_them() -> None:
    text = "unknown algorithm 'adam'; there are " + ", ".join(CATALOG)
    with refuses(text, ConfigError):
        find("adam")
